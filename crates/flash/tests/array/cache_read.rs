//! Reads that sense while the previous read's data move out, to the nanosecond.

use crate::array::fixture::{
    COMMAND, GEOMETRY, UNIT, at, at_ns, base, batch, behind, ends, read_one, run_with, timing, went,
};
use byteway_clock::Delay;
use byteway_flash::{BlockId, Flash, Priority, Ticket, Timing};

fn ns(ns: u64) -> Delay {
    Delay::from_ns(ns)
}

fn cached() -> Timing {
    Timing { cache_read: true, ..timing() }
}

fn read_all(flash: &Flash, stripe: u32) -> Ticket {
    let ticket = flash.ticket();
    flash.submit_read(at(flash, 0, 0, stripe), 0xff, Priority::HostRead, &ticket);
    ticket
}

// Otherwise a die with consecutive reads is idle while data move, which is most of the time of long reads.
#[test]
fn a_read_senses_while_the_data_of_the_one_before_moves() {
    run_with(GEOMETRY, cached(), async |flash, _| {
        let tickets = [0, 1].map(|page| read_one(&flash, 0, page, Priority::HostRead));
        assert_eq!(
            ends(&flash, &tickets).await,
            [
                // The second read's command goes first.
                (went(COMMAND, ns(30_000), COMMAND + UNIT), at_ns(30_200 + 5_120)),
                (
                    behind([30_100, 0, 0, 0], went(ns(30_100), ns(45_000), COMMAND + UNIT)),
                    at_ns(30_200 + 45_000 + 5_120)
                ),
            ]
        );
        assert_eq!((flash.die_busy(0), flash.channel_busy(0)), (ns(80_320), (COMMAND + UNIT) * 2));
        assert_eq!((tickets[0].content(0), tickets[1].content(0)), (base(0), base(8)));
    });
}

// There are two registers: a third read must not sense over what the second holds.
#[test]
fn a_read_keeps_its_data_until_the_register_is_free() {
    run_with(GEOMETRY, cached(), async |flash, _| {
        let tickets = [0, 3, 0].map(|stripe| read_all(&flash, stripe));
        assert_eq!(flash.pending(0), 3);
        // All sense in 30 us and move in 40.96. The first moves from 30.2 to 71.16; then the command of the
        // third, the data of the second until 112.22, and of the third.
        let ends: Vec<_> = ends(&flash, &tickets).await.iter().map(|end| end.1).collect();
        assert_eq!(ends, [71_160, 112_220, 153_180].map(at_ns));
        for (ticket, first) in tickets.iter().zip([0, 24, 0]) {
            assert_eq!([0, 7].map(|unit| ticket.content(unit)), [base(first), base(first + 7)]);
        }
    });
}

// A program needs the register that holds the data.
#[test]
fn only_reads_begin_while_data_moves_out() {
    run_with(GEOMETRY, cached(), async |flash, clock| {
        let read = read_all(&flash, 0);
        let program = flash.ticket();
        flash.submit_program(BlockId(2), 0, batch(&flash, 0, 1), Priority::HostProgram, &program);
        let late = read_one(&flash, 0, 0, Priority::Collector);
        read.wait().await;
        assert_eq!(clock.now(), at_ns(30_100 + 40_960));
        program.wait().await;
        assert_eq!(clock.now(), at_ns(2 * 100 + 30_000 + 2 * 40_960 + 200_000));
        late.wait().await;
        assert_eq!(clock.now(), at_ns(3 * 100 + 60_000 + 2 * 40_960 + 200_000 + 5_120));
    });
}

// The channel is shared: a command that comes while data move waits, and data of other dies wait for
// commands.
#[test]
fn the_rules_of_the_channel_hold() {
    run_with(GEOMETRY, cached(), async |flash, clock| {
        // Dies 0 and 2 share a channel: commands until 0.1 and 0.2 us, sensed at 30.1 and 30.2.
        let first = read_all(&flash, 0);
        let other = read_one(&flash, 2, 0, Priority::HostRead);
        clock.sleep(ns(50_000)).await;
        let late = read_one(&flash, 0, 0, Priority::HostRead);
        first.wait().await;
        assert_eq!(clock.now(), at_ns(71_060));
        // The late read's command went before the data that had waited since 30.2.
        other.wait().await;
        assert_eq!(clock.now(), at_ns(71_160 + 5_120));
        late.wait().await;
        assert_eq!(clock.now(), at_ns(71_160 + 30_000 + 5_120));
    });
}
