//! What an operation waits for, to the nanosecond: the cause of a tail is looked for there.

use crate::array::fixture::{
    COMMAND, GEOMETRY, UNIT, at, at_ns, batch, behind, read_one, run, run_with, timing, went,
};
use byteway_clock::{Awaited, Delay, Time};
use byteway_flash::{BlockId, Priority, Throttle, Timing};

const READ: u64 = 100 + 30_000 + 5_120;
const ERASE: u64 = 100 + 3_000_000;
const PROGRAM: u64 = 100 + 8 * 5_120 + 200_000;

// A read behind garbage collection must not be told that other hosts were in its way.
#[test]
fn each_kind_of_work_before_a_read_is_named() {
    run(async |flash, clock| {
        let tickets = [(); 4].map(|()| flash.ticket());
        let [erase, moved, program, collected] = &tickets;
        flash.submit_erase(BlockId(3), Priority::Collector, erase);
        clock.sleep(Delay::from_ns(1_000)).await;
        // All of these are at least as urgent as the read, or have waited for longer than its kind.
        let host = read_one(&flash, 0, 0, Priority::HostRead);
        flash.submit_read(at(&flash, 0, 0, 0), 1, Priority::Collector, moved);
        flash.submit_program(BlockId(2), 0, batch(&flash, 0, 1), Priority::HostProgram, program);
        let first = host.wait().await;
        let waited = Delay::from_ns(ERASE - 1_000);
        let alone = went(waited, Delay::from_ns(30_000), COMMAND + UNIT);
        assert_eq!(first, behind([0, 0, ERASE - 1_000, 0], alone));
        // The program goes before the collector's read, which thus waits for three kinds of work.
        let found = moved.wait().await;
        assert_eq!(found.die.map(|time| time.0 / 1000), [READ, PROGRAM, ERASE - 1_000, 0]);
        assert_eq!(clock.now(), at_ns(ERASE + READ + PROGRAM + READ));
        flash.submit_read(at(&flash, 0, 0, 0), 1, Priority::Collector, moved);
        flash.submit_program(BlockId(2), 1, batch(&flash, 8, 1), Priority::Background, collected);
        let last = read_one(&flash, 0, 0, Priority::HostRead);
        let found = last.wait().await;
        assert_eq!(found.waits()[3], (Awaited::DieCollection, Delay::from_ns(READ)));
        assert_eq!(found.queued, Delay::from_ns(READ));
        assert_eq!(collected.wait().await.die.map(|time| time.0 / 1000), [READ, 0, 0, READ]);
    });
}

// A die that waits for its channel is not slow: more channels help, and more dies do not.
#[test]
fn behind_one_that_waits_for_the_channel_is_waiting_for_the_channel() {
    run(async |flash, _| {
        // On one channel: the second's data wait for the first's, and the third read for the second's die.
        let [first, second, third] = [0, 2, 2].map(|die| read_one(&flash, die, 0, Priority::HostRead));
        first.wait().await;
        let found = second.wait().await;
        assert_eq!((found.queued, found.die), (Delay::from_ns(5_120), [Delay::ZERO; 4]));
        let found = third.wait().await;
        assert_eq!(found.queued, Delay::from_ns(READ + 5_120));
        assert_eq!(found.die, [READ, 0, 0, 0].map(Delay::from_ns));
        assert_eq!(found.waits()[4], (Awaited::Channel, Delay::from_ns(5_120)));
    });
}

// A drive whose dies sense ahead into the page register is bound by the same channel as one that does not.
#[test]
fn a_channel_is_the_bottleneck_with_cache_reads_too() {
    for cache_read in [false, true] {
        run_with(GEOMETRY, Timing { cache_read, ..timing() }, async move |flash, _| {
            // Four dies on one channel, each with six stripes of 41 us of data, sensed in 30 to 60 us.
            let read = |die, stripe| {
                let ticket = flash.ticket();
                flash.submit_read(at(&flash, die, 0, stripe), 0xff, Priority::HostRead, &ticket);
                ticket
            };
            let tickets: Vec<_> =
                (0..6).flat_map(|stripe| [0, 2, 4, 6].map(|die| read(die, stripe))).collect();
            let mut sums = [Delay::ZERO; 2];
            for ticket in &tickets {
                let outcome = ticket.wait().await;
                sums[0] += outcome.waits()[4].1;
                sums[1] += outcome.die[0];
            }
            let [channel, reads] = sums;
            assert!(
                channel > reads,
                "cache reads {cache_read}: {channel:?} for the channel, {reads:?} for dies"
            );
        });
    }
}

// The write buffer is drained by all dies together: what they did is what its writers waited for.
#[test]
fn the_time_of_all_dies_is_told_by_whom_they_served() {
    run(async |flash, clock| {
        let [erase, moved] = [flash.ticket(), flash.ticket()];
        let before = flash.die_time();
        flash.submit_erase(BlockId(3), Priority::Collector, &erase);
        // Another die, on another channel.
        flash.submit_read(at(&flash, 1, 0, 0), 1, Priority::Background, &moved);
        clock.sleep(Delay::from_ns(10_000)).await;
        let host = read_one(&flash, 5, 0, Priority::HostRead);
        clock.sleep(Delay::from_ns(5_000)).await;
        assert_eq!(flash.die_time().map(|time| time.0), [5_000_000, 30_000_000]);
        host.wait().await;
        erase.wait().await;
        let hosts = flash.die_busy(5);
        let collection = flash.die_busy(0) + flash.die_busy(1);
        assert_eq!((before, flash.die_time()), ([Delay::ZERO; 2], [hosts, collection]));
    });
}

// A hot drive that served reads through its rests, or slept on after them, would throttle by another share than its profile says.
#[test]
fn a_rest_begins_nothing_and_is_what_is_waited_for() {
    let us = Delay::from_us;
    let throttle = Throttle { period: us(1000), steps: vec![(Time::ZERO + us(1000), us(400))] };
    run_with(GEOMETRY, Timing { throttle: Some(throttle), ..timing() }, async move |flash, clock| {
        clock.sleep(us(990)).await;
        let [first, second] = [(); 2].map(|()| read_one(&flash, 0, 0, Priority::HostRead));
        let found = first.wait().await;
        assert_eq!(
            (found.queued, clock.now()),
            (Delay::ZERO, at_ns(990_000 + READ)),
            "what has begun goes on"
        );
        let found = second.wait().await;
        assert_eq!(clock.now(), at_ns(1_400_000 + READ));
        let waits = found.waits();
        assert_eq!(waits[0], (Awaited::DieReads, Delay::from_ns(READ)));
        assert_eq!(waits[5], (Awaited::Throttle, Delay::from_ns(1_400_000 - 990_000 - READ)));
        assert_eq!(waits.map(|(_, time)| time).into_iter().sum::<Delay>(), found.queued);
    });
}
