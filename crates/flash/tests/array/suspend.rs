//! Programs and erases that are suspended for reads, to the nanosecond.

use crate::array::fixture::{
    COMMAND, GEOMETRY, UNIT, at, at_ns, batch, behind, ends, read_one, run_with, stamp, timing, went,
};
use byteway_clock::{Delay, Executor};
use byteway_content::Content;
use byteway_flash::{BlockId, Flash, Priority, Spare, SuspendTiming, Ticket, Timing};

/// A read of one unit of a page of the first type.
const READ: u64 = 100 + 30_000 + 5_120;
/// Command and data of a program.
const IN: u64 = 100 + 8 * 5_120;

fn ns(ns: u64) -> Delay {
    Delay::from_ns(ns)
}

fn suspending(most: u32) -> Timing {
    Timing {
        suspend: Some(SuspendTiming { latency: ns(5_000), resume: ns(7_000), most, step: Delay::ZERO }),
        ..timing()
    }
}

/// Submits a program of the next stripe of block 2 of die 0.
fn program(flash: &Flash, stripe: u32) -> Ticket {
    let ticket = flash.ticket();
    flash.submit_program(BlockId(2), stripe, batch(flash, stripe * 8, 1), Priority::HostProgram, &ticket);
    ticket
}

fn erase(flash: &Flash, block: u32) -> Ticket {
    let ticket = flash.ticket();
    flash.submit_erase(BlockId(block), Priority::Collector, &ticket);
    ticket
}

// Without suspension a read waits for a whole program: the tail of every mixed workload.
#[test]
fn a_program_stands_back_for_a_read_and_loses_only_the_time_that_it_takes() {
    run_with(GEOMETRY, suspending(16), async |flash, clock| {
        let program = program(&flash, 0);
        clock.sleep(ns(100_000)).await;
        let read = read_one(&flash, 0, 0, Priority::HostRead);
        assert_eq!(flash.pending(0), 2);
        // The cells work on for 5 us, and have 136.06 us left then.
        let end = 105_000 + READ;
        let ends = ends(&flash, &[read, program]).await;
        let read = behind([0, 5_000, 0, 0], went(ns(5_000), ns(30_000), COMMAND + UNIT));
        assert_eq!(ends[0], (read, at_ns(end)));
        let program = behind([READ, 0, 0, 0], went(ns(READ), ns(207_000), ns(IN)));
        assert_eq!(ends[1], (program, at_ns(end + 7_000 + 136_060)));
        assert_eq!((flash.counters().suspends, flash.pending(0)), (1, 0));
        assert_eq!(flash.die_busy(0), ns(end + 7_000 + 136_060));
        assert_eq!(flash.channel_busy(0), ns(IN) + COMMAND + UNIT);
        assert_eq!(flash.content(at(&flash, 0, 2, 0)), stamp(0, 1));
    });
}

// A suspension that comes after the end would make both wait for nothing.
#[test]
fn what_ends_sooner_is_not_suspended() {
    run_with(GEOMETRY, suspending(16), async |flash, clock| {
        let program = program(&flash, 0);
        clock.sleep(ns(IN + 195_000)).await;
        let read = read_one(&flash, 0, 0, Priority::HostRead);
        let ends = ends(&flash, &[program, read]).await;
        assert_eq!(ends[0], (went(Delay::ZERO, ns(200_000), ns(IN)), at_ns(IN + 200_000)));
        let read = behind([0, 5_000, 0, 0], went(ns(5_000), ns(30_000), COMMAND + UNIT));
        assert_eq!(ends[1], (read, at_ns(IN + 200_000 + READ)));
        assert_eq!(flash.counters().suspends, 0);
    });
}

// Data moving in cannot be stopped; the cells stop as soon as they could have begun.
#[test]
fn a_read_during_the_data_in_suspends_the_cells_when_they_begin() {
    run_with(GEOMETRY, suspending(16), async |flash, clock| {
        let program = program(&flash, 0);
        clock.sleep(ns(20_000)).await;
        let read = read_one(&flash, 0, 0, Priority::HostRead);
        let ends: Vec<_> = ends(&flash, &[read, program]).await.iter().map(|end| end.1).collect();
        let read = IN + 5_000 + READ;
        assert_eq!(ends, [at_ns(read), at_ns(read + 7_000 + 195_000)]);
    });
}

// A die with steady reads would never finish an erase: eight reads a suspension, and a limited number of
// suspensions.
#[test]
fn an_erase_ends_however_many_reads_there_are() {
    run_with(GEOMETRY, suspending(2), async |flash, clock| {
        let erase = erase(&flash, 3);
        clock.sleep(ns(10_000)).await;
        let reads: Vec<_> = (0..20).map(|_| read_one(&flash, 0, 0, Priority::HostRead)).collect();
        reads[7].wait().await;
        let eighth = 15_000 + 8 * READ;
        assert_eq!(clock.now(), at_ns(eighth));
        reads[15].wait().await;
        // Resumed, and suspended after the latency: this much is done in between.
        let sixteenth = eighth + 7_000 + 5_000 + 8 * READ;
        assert_eq!(clock.now(), at_ns(sixteenth));
        let went = erase.wait().await;
        let end = sixteenth + 7_000 + 3_000_100 - 15_000 - 5_000;
        assert_eq!(clock.now(), at_ns(end));
        assert_eq!((went.queued, went.cell, went.channel), (ns(16 * READ), ns(3_014_000), COMMAND));
        reads[19].wait().await;
        assert_eq!(clock.now(), at_ns(end + 4 * READ));
        assert_eq!((flash.counters().suspends, flash.die_busy(0)), (2, ns(end + 4 * READ)));
    });
}

// Data being changed cannot be read: they would come out torn, or be read from cells that are being pulsed.
#[test]
fn reads_of_what_is_being_changed_wait_for_its_end() {
    run_with(GEOMETRY, suspending(16), async |flash, clock| {
        for stripe in 0..4 {
            program(&flash, stripe).wait().await;
        }
        // Stripes 3 to 5 share a wordline.
        let begin = clock.now();
        let fifth = program(&flash, 4);
        clock.sleep(ns(100_000)).await;
        let read = |stripe, priority| {
            let ticket = flash.ticket();
            flash.submit_read(at(&flash, 0, 2, stripe), 1, priority, &ticket);
            ticket
        };
        let (same, paired) = (read(4, Priority::HostRead), read(3, Priority::HostRead));
        clock.sleep(ns(10_000)).await;
        // Of another wordline, and in another priority: those wait for themselves.
        let other = read(2, Priority::Map);
        other.wait().await;
        // The page of the third type is sensed in 60 us.
        assert_eq!(clock.now(), begin + ns(115_000 + 100 + 60_000 + 5_120));
        assert_eq!((other.content(0), fifth.remaining()), (stamp(16, 1), 1));
        assert!(!same.wait().await.failed);
        assert!(!paired.wait().await.failed);
        assert_eq!((same.content(0), paired.content(0), fifth.remaining()), (stamp(32, 1), stamp(24, 1), 0));
        assert_eq!(flash.counters().suspends, 1);

        let erase = erase(&flash, 2);
        let gone = read(0, Priority::HostRead);
        let outcome = gone.wait().await;
        assert_eq!((outcome.failed, gone.content(0), erase.remaining()), (false, Content::Zero, 0));
        assert_eq!(flash.counters().suspends, 1);
    });
}

// The collector's reads would suspend programs although no host waits for them.
#[test]
fn only_what_a_host_waits_for_suspends() {
    run_with(GEOMETRY, suspending(16), async |flash, clock| {
        let erase = erase(&flash, 3);
        clock.sleep(ns(10_000)).await;
        let later = [Priority::Collector, Priority::Background].map(|who| read_one(&flash, 0, 0, who));
        clock.sleep(ns(10_000)).await;
        assert_eq!(flash.counters().suspends, 0);
        let map = read_one(&flash, 0, 0, Priority::Map);
        map.wait().await;
        assert_eq!(clock.now(), at_ns(25_000 + READ));
        erase.wait().await;
        assert!(later.iter().all(|ticket| ticket.remaining() == 1));
        later[1].wait().await;
        assert_eq!((flash.counters().suspends, later[0].remaining()), (1, 0));
    });
}

// The page register holds the program's data: a second read that sensed meanwhile would overwrite it.
#[test]
fn reads_of_a_suspension_follow_each_other() {
    let timing = Timing { cache_read: true, ..suspending(16) };
    run_with(GEOMETRY, timing, async |flash, clock| {
        let program = program(&flash, 0);
        clock.sleep(ns(100_000)).await;
        let [first, second] = [0, 0].map(|stripe| read_one(&flash, 0, stripe, Priority::HostRead));
        let ends: Vec<_> = ends(&flash, &[first, second, program]).await.iter().map(|end| end.1).collect();
        let end = 105_000 + 2 * READ;
        assert_eq!(ends, [105_000 + READ, end, end + 7_000 + 136_060].map(at_ns));
    });
}

// Data of a suspended program are in a register: without charge they are gone, and with them the wordline.
#[test]
fn a_power_cut_finds_a_suspended_program_too() {
    for protected in [false, true] {
        let executor = Executor::new();
        let flash = crate::array::fixture::flash(executor.clock(), GEOMETRY, suspending(16));
        let medium = executor.run(async move {
            program(&flash, 0).wait().await;
            let _under_way = program(&flash, 1);
            flash.clock().sleep(ns(100_000)).await;
            let read = read_one(&flash, 0, 0, Priority::HostRead);
            flash.clock().sleep(ns(10_000)).await;
            assert_eq!((flash.counters().suspends, read.remaining()), (1, 1));
            flash.power_off(protected)
        });
        let executor = Executor::new();
        let flash = Flash::new(executor.clock(), GEOMETRY, timing(), medium.unwrap());
        let spares = [0, 1].map(|stripe| flash.spare(at(&flash, 0, 2, stripe)));
        let expected = if protected { [0, 8].map(|lpa| Some(Spare { lpa, sequence: 1 })) } else { [None; 2] };
        assert_eq!(spares, expected);
        assert_eq!(flash.programmed_stripes(BlockId(2)), if protected { 2 } else { 3 });
    }
}
