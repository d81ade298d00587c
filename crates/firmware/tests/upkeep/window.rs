//! Collection windows: a host lets a drive run garbage collection ahead.

use crate::upkeep::fixture::*;
use byteway_clock::{Clock, Delay, Executor};
use byteway_firmware::{Base, Ftl, Maintenance};
use std::cell::Cell;
use std::rc::Rc;

fn small(clock: &Clock, base: Base) -> Ftl {
    ftl(clock, TINY, timing(), config(2 * 6 * 21, base, Maintenance::default()))
}

/// Counts how often the drive reports that it has begun garbage collection.
fn listen(clock: &Clock, ftl: &Ftl) -> Rc<Cell<u32>> {
    let (heard, ftl) = (Rc::new(Cell::new(0)), ftl.clone());
    let count = heard.clone();
    clock.spawn("listener", async move {
        loop {
            ftl.collection_begun().await;
            count.set(count.get() + 1);
        }
    });
    heard
}

// The host opens a window to have some time without garbage collection afterwards: without more free
// superblocks there is none, and a window that did not end would be garbage collection all the time.
#[test]
fn a_window_frees_what_was_asked_for_and_ends() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = small(&clock, Base::Filled);
    executor
        .run(async move {
            let heard = listen(&clock, &ftl);
            for step in 0..400 {
                write(&ftl, step * 11 % 252, 1, step as u32 + 1).await.unwrap();
            }
            flush(&ftl).await.unwrap();
            clock.sleep(Delay::from_ms(50)).await;
            let before = ftl.collection();
            assert!(heard.get() > 0, "it has collected, and said nothing");
            assert_eq!((before.windows, before.dies_in_window), (0, 0));
            let said = heard.get();
            ftl.open_collection_window(2);
            assert_eq!(ftl.collection().dies_in_window, 2);
            clock.sleep(Delay::from_ms(300)).await;
            let after = ftl.collection();
            assert_eq!((after.windows, after.dies_in_window), (1, 0), "it ends: {after:?}");
            assert!(after.free_least > after.free_start + 1, "{after:?}");
            assert!(ftl.counters().blocks_collected_window > 0);
            assert_eq!(heard.get(), said, "what is done in a window is no news");
            // If enough are free already there is nothing to do.
            let erases = ftl.flash().counters().erases;
            ftl.open_collection_window(1);
            clock.sleep(Delay::from_ms(100)).await;
            assert_eq!((ftl.collection().windows, ftl.flash().counters().erases), (1, erases));
            // The space freed by the window is written before any garbage collection is needed.
            for step in 0..20 {
                write(&ftl, step * 11 % 252, 1, step as u32 + 1000).await.unwrap();
            }
            flush(&ftl).await.unwrap();
            assert_eq!(heard.get(), said, "it has to collect at once");
            for step in 148..400 {
                let lpa = step * 11 % 252;
                let newer = (0..20).find(|step| step * 11 % 252 == lpa);
                assert_eq!(
                    version(&ftl, lpa).await,
                    Some(newer.map_or(step, |it| it + 1000) as u32 + u32::from(newer.is_none()))
                );
            }
        })
        .unwrap();
}

// A drive that is only read must stay as it was: measurements on it would describe something else.
#[test]
fn a_drive_never_written_to_stays_as_it_was() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = small(&clock, Base::Steady);
    executor
        .run(async move {
            ftl.open_collection_window(8);
            clock.sleep(Delay::from_s(1)).await;
            assert_eq!((ftl.flash().counters().erases, ftl.collection().windows), (0, 0));
        })
        .unwrap();
}

// More may be requested than is possible, repeatedly, under load: the window must end nevertheless, block no
// write indefinitely, and lose nothing.
#[test]
fn it_ends_whatever_is_asked_for() {
    for (blocks, every) in [(0, 3), (1, 7), (u32::MAX, 1), (u32::MAX, 40)] {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let ftl = small(&clock, Base::Filled);
        executor
            .run(async move {
                for step in 0..600u64 {
                    if step % every == 0 {
                        ftl.open_collection_window(blocks);
                    }
                    write(&ftl, step * 11 % 252, 1, step as u32 + 1).await.unwrap();
                }
                flush(&ftl).await.unwrap();
                clock.sleep(Delay::from_s(2)).await;
                assert_eq!(ftl.collection().dies_in_window, 0, "{blocks}, every {every}: it does not end");
                for step in 348..600 {
                    assert_eq!(version(&ftl, step * 11 % 252).await, Some(step as u32 + 1));
                }
            })
            .unwrap();
    }
}
