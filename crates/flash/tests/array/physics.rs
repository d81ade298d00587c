//! Latencies to the picosecond, each from a hand-computed table.

use crate::array::fixture::{
    COMMAND, GEOMETRY, UNIT, at, at_ns, base, batch, behind, ends, read_one, run, run_with, timing, went,
};
use byteway_clock::{Delay, Time};
use byteway_flash::{BlockId, Priority, Timing};

const NONE: Delay = Delay::ZERO;

fn us(us: u64) -> Delay {
    Delay::from_us(us)
}

// Every latency that a run reports is based on these three sums.
#[test]
fn a_read_a_program_and_an_erase_take_what_their_parts_take() {
    run(async |flash, clock| {
        for (page, cell) in [(0, us(30)), (1, us(45)), (2, us(60)), (3, us(30))] {
            let begin = clock.now();
            let ticket = read_one(&flash, 3, page, Priority::HostRead);
            assert_eq!(ticket.wait().await, went(NONE, cell, COMMAND + UNIT));
            assert_eq!(clock.now().since(begin), COMMAND + cell + UNIT);
            assert_eq!(ticket.content(0), base(at(&flash, 3, 0, page).0));
        }
        let block = BlockId(2);
        for (page, cell) in [(0, us(200)), (1, us(280)), (2, us(400)), (3, us(200))] {
            let begin = clock.now();
            let outcome = flash.program(block, page, batch(&flash, 8 * page, 1), Priority::HostProgram).await;
            assert_eq!(outcome, went(NONE, cell, COMMAND + UNIT * 8));
            assert_eq!(clock.now().since(begin), COMMAND + UNIT * 8 + cell);
        }
        let begin = clock.now();
        assert_eq!(flash.erase(block).await, went(NONE, us(3000), COMMAND));
        assert_eq!(clock.now().since(begin), COMMAND + us(3000));
    });
}

// A stripe read senses its planes together, and moves every unit; otherwise multi-plane reads would cost
// twice the sensing.
#[test]
fn the_planes_of_a_stripe_sense_together_and_move_one_after_another() {
    run(async |flash, clock| {
        let ticket = flash.ticket();
        let first = at(&flash, 0, 0, 1);
        assert_eq!(flash.submit_read(first, 0xff, Priority::HostRead, &ticket), 0);
        assert_eq!(ticket.wait().await, went(NONE, us(45), COMMAND + UNIT * 8));
        assert_eq!(clock.now(), at_ns(100 + 45_000 + 8 * 5_120));
        for unit in 0..8 {
            assert_eq!(ticket.content(unit), base(first.0 + unit as u64));
        }
    });
}

// Some parts sense 4 KiB faster than a page; that must hold for one unit of each plane, and for no more.
#[test]
fn a_part_of_a_page_is_sensed_in_its_own_time() {
    let timing = Timing { partial_read: Some(vec![Delay::from_ns(29_760)]), ..timing() };
    run_with(GEOMETRY, timing, async |flash, _| {
        for (mask, cell) in
            [(0b0000_0001, 29_760), (0b0001_0010, 29_760), (0b0000_0011, 30_000), (0b1100_0001, 30_000)]
        {
            let ticket = flash.ticket();
            flash.submit_read(at(&flash, 0, 0, 0), mask, Priority::HostRead, &ticket);
            assert_eq!(ticket.wait().await.cell, Delay::from_ns(cell), "{mask:#b}");
        }
    });
}

// Firmware that keeps its map in faster pages must find it faster, and nothing else: a host read of such a
// page takes its type's time.
#[test]
fn a_page_of_the_map_is_sensed_in_its_own_time() {
    let timing = Timing { map_read: Some(Delay::from_ns(20_000)), ..timing() };
    run_with(GEOMETRY, timing, async |flash, _| {
        let cases = [(Priority::Map, 20_000), (Priority::HostRead, 45_000), (Priority::Collector, 45_000)];
        for (priority, cell) in cases {
            let ticket = flash.ticket();
            flash.submit_read(at(&flash, 0, 0, 1), 1, priority, &ticket);
            assert_eq!(ticket.wait().await.cell, Delay::from_ns(cell), "{priority:?}");
        }
    });
}

// A die does one thing at a time: without its queue two reads would be as fast as one.
#[test]
fn two_reads_of_a_die_take_twice_as_long() {
    run(async |flash, _| {
        let tickets = [0, 1].map(|page| read_one(&flash, 0, page, Priority::HostRead));
        assert_eq!(flash.pending(0), 2);
        let first = COMMAND + us(30) + UNIT;
        assert_eq!(
            ends(&flash, &tickets).await,
            [
                (went(NONE, us(30), COMMAND + UNIT), Time::ZERO + first),
                (
                    behind([35_220, 0, 0, 0], went(first, us(45), COMMAND + UNIT)),
                    Time::ZERO + first + COMMAND + us(45) + UNIT
                ),
            ]
        );
        assert_eq!((flash.pending(0), flash.die_busy(0)), (0, Delay::from_ns(35_220 + 50_220)));
        assert_eq!((flash.die_busy(1), flash.channel_busy(0)), (NONE, (COMMAND + UNIT) * 2));
    });
}

// Dies of one channel sense in parallel but move data one after the other; those of two channels are
// independent.
#[test]
fn dies_share_their_channel_only() {
    run(async |flash, clock| {
        // Dies 0 and 2 are on channel 0, die 1 on channel 1.
        let tickets = [0, 1, 2].map(|die| read_one(&flash, die, 0, Priority::HostRead));
        clock.sleep(Delay::from_ns(32_000)).await;
        assert_eq!((flash.die_busy(0), flash.die_array(0)), (Delay::from_ns(32_000), NONE));
        assert_eq!(flash.channel_busy(0), Delay::from_ns(100 + 100 + 1_900));
        let alone = went(NONE, us(30), COMMAND + UNIT);
        assert_eq!(
            ends(&flash, &tickets).await,
            [
                (alone, at_ns(35_220)),
                (alone, at_ns(35_220)),
                // 100 ns for the command, and from 30.2 to 35.22 us for the data.
                (went(Delay::from_ns(5_120), us(30), COMMAND + UNIT), at_ns(40_340)),
            ]
        );
        // A die that waits for the channel is held, but its cells are done: this separates their energy.
        assert_eq!((flash.die_busy(2), flash.die_array(2)), (Delay::from_ns(40_340), us(30)));
    });
}

// A host read must not wait for the backlog of garbage collection, nor for programs that have not begun.
#[test]
fn the_more_urgent_goes_first_but_what_has_begun_ends() {
    run(async |flash, _| {
        let block = BlockId(2);
        let [first, second, collector, host] = std::array::from_fn(|_| flash.ticket());
        flash.submit_program(block, 0, batch(&flash, 0, 1), Priority::HostProgram, &first);
        flash.submit_read(at(&flash, 0, 0, 0), 1, Priority::Collector, &collector);
        flash.submit_program(block, 1, batch(&flash, 8, 1), Priority::HostProgram, &second);
        flash.submit_read(at(&flash, 0, 0, 0), 1, Priority::HostRead, &host);
        let ends: Vec<_> =
            ends(&flash, &[first, host, second, collector]).await.iter().map(|end| end.1).collect();
        let program = 100 + 8 * 5_120 + 200_000;
        let read = 35_220;
        assert_eq!(
            ends,
            [program, program + read, 2 * program + read + 80_000, 2 * program + 2 * read + 80_000]
                .map(at_ns)
        );
    });
}

// A channel under programs would keep sensed dies waiting if data in were served in order of arrival.
#[test]
fn on_the_channel_commands_go_first_then_data_out_then_data_in() {
    run(async |flash, clock| {
        // All on channel 0: dies 0 and 2 sense until 30.1 and 30.2 us.
        let reads = [0, 2].map(|die| read_one(&flash, die, 0, Priority::HostRead));
        let programs = [flash.ticket(), flash.ticket()];
        clock.sleep(us(20)).await;
        // Takes the channel from 20 to 61.06 us.
        let block = flash.geometry().block(4, 2);
        flash.submit_program(block, 0, batch(&flash, 0, 1), Priority::HostProgram, &programs[0]);
        clock.sleep(us(5)).await;
        let block = flash.geometry().block(6, 2);
        flash.submit_program(block, 0, batch(&flash, 0, 1), Priority::HostProgram, &programs[1]);
        let [first, second] = reads;
        assert_eq!(first.wait().await, went(Delay::from_ns(61_060 - 30_100), us(30), COMMAND + UNIT));
        assert_eq!(clock.now(), at_ns(61_060 + 5_120));
        // Die 0 is free again: the command of a read that comes now overtakes the program that has waited
        // since 25.
        let late = read_one(&flash, 0, 1, Priority::HostRead);
        second.wait().await;
        assert_eq!(clock.now(), at_ns(61_060 + 2 * 5_120));
        let [first, second] = programs;
        let ends: Vec<_> = ends(&flash, &[late, first, second]).await.iter().map(|end| end.1).collect();
        // After data out at 71.3 us the command until 71.4, then data in until 112.46; the late read has
        // sensed at 116.4.
        assert_eq!(ends, [71_400 + 45_000 + 5_120, 61_060 + 200_000, 71_400 + 41_060 + 200_000].map(at_ns));
    });
}

// Without a command time no channel request is needed; the read must begin nevertheless.
#[test]
fn a_command_may_take_no_time() {
    run_with(GEOMETRY, Timing { command: NONE, ..timing() }, async |flash, _| {
        let tickets = [0, 2, 4].map(|die| read_one(&flash, die, 0, Priority::HostRead));
        let ends: Vec<_> = ends(&flash, &tickets).await.iter().map(|end| end.1).collect();
        assert_eq!(ends, [35_120, 40_240, 45_360].map(at_ns));
    });
}

// A die with steady host reads would never be garbage collected: after eight of them the erase has its turn.
#[test]
fn an_erase_waits_for_eight_reads_at_most() {
    run(async |flash, clock| {
        let reads: Vec<_> = (0..12).map(|_| read_one(&flash, 0, 0, Priority::HostRead)).collect();
        let erase = flash.ticket();
        flash.submit_erase(BlockId(3), Priority::Collector, &erase);
        reads[8].wait().await;
        assert_eq!(
            clock.now(),
            at_ns(9 * 35_220),
            "the first had begun before the erase came, eight more go before"
        );
        erase.wait().await;
        assert_eq!(clock.now(), at_ns(9 * 35_220 + 100 + 3_000_000));
        reads[11].wait().await;
        assert_eq!(clock.now(), at_ns(12 * 35_220 + 100 + 3_000_000));
    });
}
