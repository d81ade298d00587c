//! Effects of a power cut.

use crate::array::fixture::{GEOMETRY, at, batch, flash, medium, stamp, timing};
use byteway_clock::{Delay, Executor};
use byteway_content::Content;
use byteway_flash::{BlockId, Flash, Medium, Ppa, Priority, Spare};
use std::time::Duration;

const US: u64 = 1000;

/// Programs three stripes of block 2 of die 0, a wordline, and has a fourth in flight at the power cut,
/// `into` ns after its submission.
fn cut(into: u64, protected: bool) -> Medium {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let flash = flash(&clock, GEOMETRY, timing());
    let inner = flash.clone();
    executor
        .run(async move {
            for stripe in 0..3 {
                let mut batch = batch(&inner, stripe * 8, 1);
                batch.number = u64::from(stripe) + 11;
                inner.program(BlockId(2), stripe, batch, Priority::HostProgram).await;
            }
            let ticket = inner.ticket();
            inner.submit_program(BlockId(2), 3, batch(&inner, 100, 1), Priority::HostProgram, &ticket);
            inner.submit_erase(BlockId(6), Priority::Collector, &ticket); // another die
            inner.clock().sleep(Delay::from_ns(into)).await;
            inner.power_off(protected)
        })
        .expect("every wait must end")
}

/// Checks what is left.
fn look<T: 'static>(medium: Medium, look: impl AsyncFnOnce(Flash) -> T + 'static) -> T {
    let executor = Executor::new();
    let flash = Flash::new(executor.clock(), GEOMETRY, timing(), medium);
    executor.run(async move { look(flash).await }).expect("every wait must end")
}

fn first(flash: &Flash, stripe: u32) -> Ppa {
    at(flash, 0, 2, stripe)
}

// A partly programmed stripe must not count as holding data, and later data must not be programmed into cells
// that it has damaged.
#[test]
fn a_stripe_that_was_being_programmed_is_torn() {
    look(cut(100 * US, false), async |flash| {
        assert_eq!(flash.programmed_stripes(BlockId(2)), 6, "the wordline is spent");
        assert_eq!(flash.spare(first(&flash, 0)), Some(Spare { lpa: 0, sequence: 1 }));
        assert_eq!(
            [0, 1, 2, 3].map(|stripe| flash.stripe_number(BlockId(2), stripe)),
            [Some(11), Some(12), Some(13), None]
        );
        for stripe in 3..6 {
            let ticket = flash.ticket();
            flash.submit_read(first(&flash, stripe), 1, Priority::HostRead, &ticket);
            assert!(ticket.wait().await.failed, "stripe {stripe}");
            assert_eq!(
                (flash.spare(first(&flash, stripe)), flash.content(first(&flash, stripe))),
                (None, Content::Zero)
            );
        }
        assert!(flash.is_unstable(BlockId(6)));
        let outcome = flash.program(BlockId(6), 0, batch(&flash, 0, 2), Priority::HostProgram).await;
        assert!(outcome.failed, "a superblock that is half erased takes no program");
        flash.erase(BlockId(6)).await;
        assert!(!flash.program(BlockId(6), 0, batch(&flash, 0, 2), Priority::HostProgram).await.failed);
        flash.erase(BlockId(2)).await;
        assert!(!flash.program(BlockId(2), 0, batch(&flash, 0, 2), Priority::HostProgram).await.failed);
        assert_eq!(flash.content(first(&flash, 0)), stamp(0, 2));
    });
}

// The cells of a wordline hold the bits of several pages: earlier ones are destroyed together with the
// failing one.
#[test]
fn the_earlier_stripes_of_a_wordline_go_with_it() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let flash = flash(&clock, GEOMETRY, timing());
    let inner = flash.clone();
    let medium = executor
        .run(async move {
            inner.program(BlockId(2), 0, batch(&inner, 0, 1), Priority::HostProgram).await;
            let ticket = inner.ticket();
            inner.submit_program(BlockId(2), 1, batch(&inner, 8, 1), Priority::HostProgram, &ticket);
            inner.clock().sleep(Delay::from_us(100)).await;
            inner.power_off(false)
        })
        .unwrap();
    look(medium, async |flash| {
        assert_eq!(flash.programmed_stripes(BlockId(2)), 3);
        assert_eq!([0, 1, 2].map(|stripe| flash.spare(first(&flash, stripe))), [None; 3]);
        // Programming continues behind them.
        assert!(!flash.program(BlockId(2), 3, batch(&flash, 50, 2), Priority::HostProgram).await.failed);
        assert_eq!(flash.content(first(&flash, 3)), stamp(50, 2));
    });
}

// Capacitors complete what has begun; an erase takes longer than they last.
#[test]
fn protection_ends_programs_and_not_erases() {
    look(cut(100 * US, true), async |flash| {
        assert_eq!(flash.programmed_stripes(BlockId(2)), 4);
        assert_eq!(flash.content(first(&flash, 3)), stamp(100, 1));
        assert!(flash.is_unstable(BlockId(6)));
    });
}

// The base state of a stripe must not show through a torn one.
#[test]
fn a_torn_stripe_of_a_base_block_holds_nothing() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let flash = flash(&clock, GEOMETRY, timing());
    let inner = flash.clone();
    let medium = executor
        .run(async move {
            let ticket = inner.ticket();
            // Two stripes of block 1 are programmed in the base state: the first wordline is not full.
            inner.submit_program(BlockId(1), 2, batch(&inner, 8, 1), Priority::HostProgram, &ticket);
            inner.clock().sleep(Delay::from_us(1)).await;
            inner.power_off(false)
        })
        .unwrap();
    look(medium, async |flash| {
        assert_eq!((0..3).map(|stripe| flash.spare(at(&flash, 0, 1, stripe))).collect::<Vec<_>>(), [None; 3]);
        assert_eq!(flash.spare(at(&flash, 0, 0, 1)).map(|spare| spare.sequence), Some(0));
    });
}

// Firmware must find a whole root, at whatever moment the power is cut: the other slot's, or this one's.
#[test]
fn a_root_is_whole_or_not_there() {
    for (after, expected) in [(1, None), (10_000, Some(b"second".to_vec()))] {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let flash = Flash::new(
            &clock,
            GEOMETRY,
            timing(),
            Medium::new(GEOMETRY, std::rc::Rc::new(byteway_flash::Blank)),
        );
        let inner = flash.clone();
        executor
            .run(async move {
                inner.write_root(0, b"first".to_vec().into()).await;
                inner.write_record(b"old".to_vec().into()).await;
                let both = inner.clone();
                inner.clock().spawn("writer", async move {
                    both.write_root(1, b"second".to_vec().into()).await;
                    both.write_record(b"new".to_vec().into()).await;
                });
                inner.clock().sleep(Delay::from_us(after)).await;
            })
            .unwrap();
        let medium = flash.power_off(false);
        look(medium, async move |flash| {
            assert_eq!(flash.read_root(0).await.as_deref(), Some(&b"first"[..]));
            assert_eq!(flash.read_root(1).await.as_deref(), expected.as_deref());
            let record = if expected.is_some() { &b"new"[..] } else { b"old" };
            assert_eq!(flash.record().as_deref(), Some(record));
        });
    }
}

// Data programmed behind a torn first wordline would be as old as the medium: they would be refreshed at
// once, and read with errors that they do not have.
#[test]
fn a_superblock_that_begins_with_a_torn_wordline_is_as_old_as_that() {
    let executor = Executor::new();
    let mut medium = medium(GEOMETRY);
    medium.rest(Duration::from_secs(1000));
    let flash = Flash::new(executor.clock(), GEOMETRY, timing(), medium);
    let inner = flash.clone();
    let cut = executor.run(async move {
        let ticket = inner.ticket();
        inner.submit_program(BlockId(2), 0, batch(&inner, 0, 1), Priority::HostProgram, &ticket);
        inner.clock().sleep(Delay::from_ns(100 * US)).await;
        inner.power_off(false)
    });
    look(cut.expect("every wait must end"), async |flash| {
        let stripe = flash.programmed_stripes(BlockId(2));
        flash.program(BlockId(2), stripe, batch(&flash, 8, 1), Priority::HostProgram).await;
        let age = flash.calendar() - flash.programmed_at(BlockId(2)).unwrap_or_default();
        assert!(age < Duration::from_secs(1), "{age:?}");
    });
}
