//! Segments of the map in peers' DRAM, which are borrowed, returned and lost at any moment, together with
//! power cuts of the drive.
//!
//! Verified: no unit changes when a lender is lost, at whatever moment; the last write is read while segments
//! come and go; durable data survive a cut. Each of four defects on purpose is found. Not verified here:
//! times (`borrowed`), and lenders' routes.

use crate::crash::fixture::{Case, Host, Model, cached_cases, content, found, histories, lives, share};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_firmware::{BorrowFigures, Defect, Ftl, FtlConfig, Lender, LenderId, Site, SiteLink};
use byteway_flash::Medium;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Pages of a segment.
const PAGES: u32 = 2;

/// A drive with a frame for one page of its own, and segments of two.
fn borrowing(case: Case) -> Case {
    let config = FtlConfig { map_cache_pages: Some(1), map_segment_pages: PAGES, ..case.config };
    Case { config, ..case }
}

/// Two lenders, the second one farther away.
fn lenders(clock: &Clock) -> [Lender; 2] {
    [1, 2].map(|number: u8| {
        let latency = Delay::from_ns(100 * u64::from(number));
        let memory = Site::new(clock, 1, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
        let distance = SiteLink::new(clock, latency, Rate::per_second(16_000_000_000));
        Lender::new(LenderId(number), &memory, &distance)
    })
}

/// A lender is lost: no unit may change.
async fn lose(ftl: &Ftl, lender: &Lender, what: &str) {
    let before = found(ftl).await;
    ftl.lose_segments(lender.id());
    let after = found(ftl).await;
    let changed = (0..).zip(before.iter().zip(&after)).find(|(_, (before, after))| before != after);
    assert_eq!(
        changed.map(|(lpa, _)| lpa),
        None::<u64>,
        "{what}: a unit that changed with the loss of a lender"
    );
}

/// Borrows, returns and loses, until the power cut: in some runs all the time, in others so seldom that logs
/// fill.
async fn peers(clock: Clock, ftl: Ftl, mut stream: Stream, what: String) {
    ftl.ready().await;
    let lenders = lenders(&clock);
    let all = if stream.chance(0.3) { 10 } else { 300 };
    loop {
        clock.sleep(Delay::from_us(stream.below(400))).await;
        let lender = &lenders[stream.below(2) as usize];
        let borrowed: u32 = ftl.segments_borrowed().iter().map(|(_, count)| count).sum();
        match stream.below(all) {
            10.. if borrowed > 0 => {}
            0..4 | 10.. if borrowed < 4 => _ = ftl.borrow_segments(lender, 1 + stream.below(2) as u32),
            0..7 | 10.. => {
                let (ftl, id, count) = (ftl.clone(), lender.id(), 1 + stream.below(2) as u32);
                let returning = clock.spawn("return", async move {
                    ftl.give_back_segments(id, count).await;
                });
                if stream.chance(0.2) {
                    clock.sleep(Delay::from_us(stream.below(50))).await;
                    clock.kill(returning);
                }
            }
            _ => lose(&ftl, lender, &what).await,
        }
    }
}

/// One host, which waits for each of its commands, and reads what it last wrote. Most of its writes hit few
/// pages, so that logs fill.
async fn host(ftl: Ftl, model: Rc<RefCell<Model>>, mut stream: Stream, steps: u32, what: String) {
    let (user, spans, mut out) = (ftl.user_units(), Spans::default(), Vec::new());
    let all = model.borrow().all();
    let mut host = Host::new(ftl.clone(), model.clone(), all);
    for _ in 0..steps {
        let count = 1 + stream.below(20);
        let near = if stream.chance(0.6) { user / 3 } else { user };
        let first = stream.below(near - count + 1);
        let goes_on = match stream.below(100) {
            0..62 => host.write(first..first + count, stream.chance(0.1)).await,
            62..72 => match stream.below(20) {
                0 => host.trim(0..user).await,
                1 => host.trim(first..user).await,
                _ => host.trim(first..first + count).await,
            },
            72..75 => host.flush().await,
            75..76 => host.shut_down().await,
            _ => {
                ftl.read(SpanId::NONE, &spans, first, count as u32, &mut out).await.unwrap();
                for (lpa, found) in (first..).zip(&out) {
                    let last = *model.borrow().units[lpa as usize].last().expect("a unit holds something");
                    assert_eq!(*found, content(lpa, last), "{what}: unit {lpa}");
                }
                true
            }
        };
        if !goes_on {
            return;
        }
    }
}

thread_local! {
    /// Total work, so that a test that does nothing fails.
    static TOTAL: RefCell<BorrowFigures> = RefCell::default();
}

fn add(figures: &BorrowFigures) {
    TOTAL.with_borrow_mut(|total| {
        total.accesses += figures.accesses;
        total.commits += figures.commits;
        total.commits_late += figures.commits_late;
        total.flushes += figures.flushes;
        total.commands_held_up += figures.commands_held_up;
        total.segments_returned += figures.segments_returned;
        total.segments_lost += figures.segments_lost;
        total.pages_recovered += figures.pages_recovered;
        total.records_replayed += figures.records_replayed;
    });
}

/// Runs until the power cut: `polls` after power-on, or when the host is done.
fn run(case: &Case, medium: Medium, model: &Rc<RefCell<Model>>, polls: u64, seed: u64, what: &str) -> Medium {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let powered = case.powered(&executor, medium, seed);
    let (ftl, model, what) = (powered.ftl.clone(), model.clone(), what.to_owned());
    clock.spawn("peers", peers(clock.clone(), ftl.clone(), Rng::new(seed).stream("peers"), what.clone()));
    let (inner, what_then) = (ftl.clone(), what.clone());
    let ended = executor.run_cut(
        async move {
            inner.ready().await;
            let found = found(&inner).await;
            model.borrow_mut().look(found, &what_then);
            host(inner, model, Rng::new(seed).stream("host"), 400, what_then).await;
        },
        polls,
    );
    if let Err(stalled) = ended {
        panic!("{what}: {stalled}; {:?}, {:?}", ftl.counters(), ftl.borrow_figures());
    }
    add(&ftl.borrow_figures());
    powered.off()
}

fn history(case: &Case, seed: u64, cuts: &[u64]) {
    lives(run, case, seed, cuts);
}

// Dirty entries are in DRAM that may be lost at any moment, with their log elsewhere: with one record too few
// or too many a unit is another one.
#[test]
fn what_was_written_is_there_whatever_lenders_do() {
    TOTAL.take();
    for case in cached_cases().into_iter().map(borrowing) {
        histories(&case, 0..8 * share(), history);
    }
    let total = TOTAL.take();
    println!("{total:?}");
    let BorrowFigures { commits_late, flushes, commands_held_up, segments_returned, segments_lost, .. } =
        total;
    assert!(flushes > 100 && commits_late > 500 && commands_held_up > 5, "{total:?}");
    assert!(segments_returned > 300 && segments_lost > 300, "{total:?}");
    assert!(total.pages_recovered > 300 && total.records_replayed > 3000, "{total:?}");
}

/// A drive in a short run, cut off after `polls` polls; None if it ended before.
fn cut_after(case: &Case, polls: u64, seed: u64) -> bool {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let what = format!("{}, seed {seed}, poll {polls}", case.name);
    let powered = case.powered(&executor, case.medium(), seed);
    let (ftl, model) = (powered.ftl.clone(), Rc::new(RefCell::new(Model::new(case))));
    let lenders = lenders(&clock);
    lenders.iter().for_each(|lender| _ = ftl.borrow_segments(lender, 1));
    let done = Rc::new(Cell::new(false));
    let (inner, model_then, ended, what_then) = (ftl.clone(), model.clone(), done.clone(), what.clone());
    clock.spawn("host", async move {
        host(inner, model_then, Rng::new(seed).stream("host"), 100, what_then).await;
        ended.set(true);
    });
    if polls.is_multiple_of(3) {
        let (inner, after, id) = (ftl.clone(), clock.clone(), lenders[0].id());
        clock.spawn("return", async move {
            after.sleep(Delay::from_ms(2)).await;
            inner.give_back_segments(id, 1).await;
        });
    }
    let wait = |done: Rc<Cell<bool>>, clock: Clock| async move {
        while !done.get() {
            clock.sleep(Delay::from_us(100)).await;
        }
    };
    executor.run_cut(wait(done.clone(), clock.clone()), polls).unwrap();
    let goes_on = !done.get();
    let (inner, lost, what_then) = (ftl.clone(), lenders[polls as usize % 2].clone(), what.clone());
    executor.run(async move { lose(&inner, &lost, &what_then).await }).unwrap();
    executor.run(wait(done, clock.clone())).unwrap_or_else(|stalled| panic!("{what}: {stalled}"));
    add(&ftl.borrow_figures());
    // And the power is cut, whatever is still in the other lender's DRAM.
    let medium = powered.off();
    let executor = Executor::new();
    let powered = case.powered(&executor, medium, seed);
    let ftl = powered.ftl.clone();
    executor
        .run(async move {
            ftl.ready().await;
            let found = found(&ftl).await;
            model.borrow_mut().look(found, &what);
        })
        .unwrap();
    powered.off();
    goes_on
}

/// One poll in this many is tested: each of several drives has its own.
const STEP: u64 = 17;

// A page that is being loaded, read back, captured or flushed when its lender is lost is in neither place, or
// in both.
#[test]
fn a_lender_is_lost_at_every_poll_of_a_short_run() {
    TOTAL.take();
    for (index, case) in (0..).zip(cached_cases().into_iter().map(borrowing)) {
        let mut polls = index % STEP;
        while cut_after(&case, polls, index) {
            polls += STEP;
        }
        assert!(polls > 200, "{polls} polls");
    }
    let total = TOTAL.take();
    println!("{total:?}");
    assert!(total.flushes > 100 && total.pages_recovered > 500, "{total:?}");
}

// A test that finds nothing is meaningful only if it finds defects on purpose.
#[test]
fn what_is_broken_on_purpose_is_found() {
    let defects = [Defect::SkipCommit, Defect::ClearUnflushed, Defect::ReturnUnread, Defect::ReplayOld];
    for defect in defects {
        let found = (0..60).find(|seed| {
            cached_cases().into_iter().map(borrowing).any(|case| {
                let broken = case.broken(defect);
                let run = || histories(&broken, *seed..*seed + 1, history);
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err()
            })
        });
        println!("{defect:?}: {found:?}");
        assert!(found.is_some(), "{defect:?} is not found");
    }
}
