//! Injected failures, and their consequences.

use crate::array::fixture::{COMMAND, GEOMETRY, UNIT, at, at_ns, base, batch, read_one, run, stamp, went};
use byteway_clock::Delay;
use byteway_content::Content;
use byteway_flash::{BlockId, Fault, FaultKind, FaultPlan, Flash, Outcome, Priority};

fn inject(flash: &Flash, faults: impl IntoIterator<Item = (FaultKind, u64)>) {
    let of_die = |(kind, nth)| Fault { die: 0, kind, nth };
    flash.inject(FaultPlan::exactly(faults.into_iter().map(of_die)));
}

async fn program(flash: &Flash, stripe: u32) -> Outcome {
    let batch = batch(flash, stripe * 8, 1);
    flash.program(BlockId(2), stripe, batch, Priority::HostProgram).await
}

// A failed program destroys what it shares cells with, and no more; it takes its time, and the next wordline
// is good.
#[test]
fn a_failed_program_takes_its_wordline_along() {
    run(async |flash, clock| {
        inject(&flash, [(FaultKind::Program, 5)]);
        for stripe in 0..4 {
            assert!(!program(&flash, stripe).await.failed);
        }
        let begin = clock.now();
        let time = went(Delay::ZERO, Delay::from_us(280), COMMAND + UNIT * 8);
        assert_eq!(program(&flash, 4).await, Outcome { failed: true, ..time });
        assert_eq!(clock.now(), begin + COMMAND + UNIT * 8 + Delay::from_us(280));
        assert_eq!(flash.programmed_stripes(BlockId(2)), 6);
        for stripe in 0..6 {
            let ticket = flash.ticket();
            flash.submit_read(at(&flash, 0, 2, stripe), 0b11, Priority::HostRead, &ticket);
            let outcome = ticket.wait().await;
            let torn = stripe >= 3;
            assert_eq!((outcome.failed, outcome.unreadable), (torn, if torn { 2 } else { 0 }), "{stripe}");
            let content = if torn { Content::Zero } else { stamp(u64::from(stripe) * 8, 1) };
            assert_eq!((ticket.content(0), ticket.is_unreadable(0)), (content, torn));
        }
        assert_eq!(flash.counters().failed_programs, 1);
        // In another superblock of that die the next one succeeds.
        let batch = batch(&flash, 0, 1);
        assert!(!flash.program(BlockId(3), 0, batch, Priority::HostProgram).await.failed);
    });
}

// A superblock with undefined contents must not be programmed before a successful erase.
#[test]
fn a_failed_erase_leaves_a_superblock_that_must_be_erased_again() {
    run(async |flash, clock| {
        inject(&flash, [(FaultKind::Erase, 1), (FaultKind::Erase, 2)]);
        program(&flash, 0).await;
        for _ in 0..2 {
            assert!(flash.erase(BlockId(2)).await.failed);
            assert!(flash.is_unstable(BlockId(2)));
            let begin = clock.now();
            assert!(program(&flash, 0).await.failed);
            assert_eq!(clock.now(), begin, "refused");
            let ticket = flash.ticket();
            flash.submit_read(at(&flash, 0, 2, 0), 1, Priority::HostRead, &ticket);
            assert!(ticket.wait().await.failed);
        }
        assert!(!flash.erase(BlockId(2)).await.failed);
        assert!(!program(&flash, 0).await.failed);
        assert_eq!((flash.counters().failed_erases, flash.erases(BlockId(2))), (2, 3));
    });
}

// A read that fails once must not fail forever, nor on another die.
#[test]
fn a_failed_read_delivers_nothing_and_the_next_does() {
    run(async |flash, clock| {
        inject(&flash, [(FaultKind::Read, 2)]);
        let read = async |die| {
            let ticket = read_one(&flash, die, 0, Priority::HostRead);
            let outcome = ticket.wait().await;
            (outcome.failed, outcome.unreadable, ticket.content(0))
        };
        let good = |unit| (false, 0, base(unit));
        let die = flash.geometry().units_per_die();
        assert_eq!((read(0).await, read(1).await, read(1).await), (good(0), good(die), good(die)));
        assert_eq!(clock.now(), at_ns(3 * 35_220));
        assert_eq!(read(0).await, (true, 1, Content::Zero));
        assert_eq!((read(0).await, clock.now()), (good(0), at_ns(5 * 35_220)));
        // A new plan restarts the counts; an empty one ends all failures.
        inject(&flash, [(FaultKind::Read, 1)]);
        assert!(read(0).await.0);
        flash.inject(FaultPlan { read: 1.0, ..FaultPlan::default() });
        assert!(read(0).await.0 && read(1).await.0);
        flash.inject(FaultPlan::default());
        assert!(!read(0).await.0);
    });
}

// The failure rate must be the requested one, and nothing else may fail.
#[test]
fn faults_by_chance_come_as_often_as_asked_for() {
    run(async |flash, _| {
        flash.inject(FaultPlan { erase: 0.25, ..FaultPlan::default() });
        let blocks = GEOMETRY.blocks;
        let mut failed = 0;
        for round in 0..250 {
            for die in 0..8 {
                failed += u32::from(flash.erase(BlockId(die * blocks + round % blocks)).await.failed);
            }
            read_one(&flash, 0, 0, Priority::HostRead).wait().await;
        }
        assert!((420..580).contains(&failed), "{failed} of 2000");
        let counters = flash.counters();
        assert_eq!((counters.failed_erases, counters.erases), (u64::from(failed), 2000 - u64::from(failed)));
    });
}
