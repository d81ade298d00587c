//! Which waiting die a channel serves first, to the nanosecond.

use crate::array::fixture::{COMMAND, GEOMETRY, UNIT, at, at_ns, batch, read_one, run_with, timing};
use byteway_clock::{Delay, Time};
use byteway_flash::{BlockId, ChannelOrder, Geometry, Priority, Timing};

fn ordered(channel_order: ChannelOrder) -> Timing {
    Timing { channel_order, ..timing() }
}

/// Dies 0, 2, 4 and 6 share a channel. The first two have sensed when the third gets a read and the fourth a
/// program, while the data of the first move. Returns when each ended.
fn race(channel_order: ChannelOrder) -> [Time; 4] {
    run_with(GEOMETRY, ordered(channel_order), async |flash, clock| {
        let first = flash.ticket();
        flash.submit_read(at(&flash, 0, 0, 0), 0xff, Priority::HostRead, &first);
        let second = read_one(&flash, 2, 0, Priority::HostRead);
        clock.sleep(Delay::from_us(50)).await;
        let program = flash.ticket();
        let block = flash.geometry().block(6, 2);
        flash.submit_program(BlockId(block.0), 0, batch(&flash, 0, 1), Priority::HostProgram, &program);
        let third = read_one(&flash, 4, 0, Priority::HostRead);
        let mut ends = [Time::ZERO; 4];
        for (end, ticket) in ends.iter_mut().zip([&first, &second, &third, &program]) {
            ticket.wait().await;
            *end = clock.now();
        }
        ends
    })
}

// A changed default would change every busy channel; an ignored order would be a key without effect.
#[test]
fn a_busy_channel_serves_its_dies_in_the_order_that_is_set() {
    // The data of the first, eight units, moves from 30.1 us to 71.06.
    let first = 30_100 + 8 * 5_120;
    let sent = 100 + 8 * 5_120;
    // The command of the third; the data of the second, which waited since 30.2; what the fourth programs.
    let second = first + 100 + 5_120;
    assert_eq!(
        race(ChannelOrder::CommandsFirst),
        // The data of the third waits for what goes to the fourth.
        [first, second, second + sent + 5_120, second + sent + 200_000].map(at_ns)
    );
    // The data of the second; what the fourth programs, which came first; the command of the third.
    let second = first + 5_120;
    assert_eq!(
        race(ChannelOrder::DataOutFirst),
        [first, second, second + sent + 100 + 30_000 + 5_120, second + sent + 200_000].map(at_ns)
    );
}

/// Duration for four dies of one channel with `count` reads each, all submitted at the start.
fn read_all(channel_order: ChannelOrder, cache_read: bool, count: u32) -> Delay {
    const ONE: Geometry = Geometry { channels: 1, ways: 4, ..GEOMETRY };
    let timing = Timing { cache_read, ..ordered(channel_order) };
    run_with(ONE, timing, async move |flash, clock| {
        let tickets: Vec<_> =
            (0..4 * count).map(|n| read_one(&flash, n % 4, 0, Priority::HostRead)).collect();
        for ticket in &tickets {
            ticket.wait().await;
        }
        clock.now().since(Time::ZERO)
    })
}

// Data first puts dies into step: none starts to sense while another has data, so sensing and moving add up
// instead of overlapping. On a channel of four dies that is most of what a busy drive's reads wait for.
#[test]
fn data_first_brings_dies_into_step() {
    let sense = Delay::from_us(30);
    let round = COMMAND + sense + UNIT * 4;
    let in_step = read_all(ChannelOrder::DataOutFirst, false, 100);
    assert_eq!(in_step, round * 100);
    // A die by itself, delayed by at most one command of each other die.
    let apart = read_all(ChannelOrder::CommandsFirst, false, 100);
    assert!(apart > (COMMAND + sense + UNIT) * 100 && apart < (COMMAND * 4 + sense + UNIT) * 102, "{apart}");
}

// A die with consecutive reads has both of them at once: its own data, and the command of its next read.
#[test]
fn with_cache_reads_the_channel_is_the_limit_in_either_order() {
    for order in [ChannelOrder::CommandsFirst, ChannelOrder::DataOutFirst] {
        let took = read_all(order, true, 100);
        let sensing = (COMMAND + Delay::from_us(30)) * 100;
        assert!(took >= sensing && took < sensing + (COMMAND * 4 + UNIT * 4) * 100, "{order:?}: {took}");
    }
}
