//! Traces of dies that do several things at once.

use crate::array::fixture::{Dice, GEOMETRY, at, batch, flash, timing};
use byteway_clock::{Delay, Executor, Resource, Time, Tracer, Usage};
use byteway_flash::{BlockId, Priority, SuspendTiming, Timing};
use std::cell::RefCell;
use std::rc::Rc;

/// Uses of dies: which, from when, to when, for what.
#[derive(Default)]
struct Dies(RefCell<Vec<(u32, Time, Time, &'static str)>>);

impl Tracer for Dies {
    fn note(&self, usage: &Usage<'_>, _: &[u32]) {
        if usage.track.resource == Resource::Die {
            self.0.borrow_mut().push((usage.track.index, usage.begin, usage.end, usage.what));
        }
    }
}

// A program that is shown across the reads it is suspended for, or a read across the next, cannot be drawn on
// one track, and the die would seem busier than it is.
#[test]
fn uses_of_a_die_never_overlap_and_sum_to_its_busy_time() {
    let us = Delay::from_us;
    let suspend = Some(SuspendTiming { latency: us(5), resume: us(7), most: 4, step: Delay::ZERO });
    let timing = Timing { suspend, cache_read: true, ..timing() };
    let executor = Executor::new();
    let flash = flash(executor.clock(), GEOMETRY, timing);
    let dies = Rc::new(Dies::default());
    executor.clock().trace(dies.clone(), u32::MAX);
    let clock = executor.clock().clone();
    let busy = executor.run(async move {
        let mut dice = Dice(5);
        let ticket = flash.ticket();
        for round in 0..60 {
            let stripe = round % 6;
            flash.submit_program(BlockId(2), stripe, batch(&flash, 0, 1), Priority::HostProgram, &ticket);
            for _ in 0..dice.roll(8) {
                clock.sleep(Delay::from_us(dice.roll(60))).await;
                let first = at(&flash, 0, 0, dice.roll(6) as u32);
                flash.submit_read(first, dice.roll(255) + 1, Priority::HostRead, &ticket);
            }
            if stripe == 5 {
                flash.submit_erase(BlockId(2), Priority::HostProgram, &ticket);
            }
        }
        ticket.wait().await;
        let counters = flash.counters();
        assert!(counters.suspends > 20 && counters.failed == 0, "{counters:?}");
        flash.die_busy(0)
    });
    let mut uses = dies.0.borrow_mut();
    uses.sort();
    let parts = uses.iter().filter(|use_of| use_of.3 != "read").count();
    assert!(parts > 70 + 20, "a part for each stint: {parts}");
    assert!(uses.windows(2).all(|pair| pair[0].2 <= pair[1].1));
    let shown = uses.iter().fold(Delay::ZERO, |sum, use_of| sum + use_of.2.since(use_of.1));
    assert_eq!(shown, busy.unwrap());
}
