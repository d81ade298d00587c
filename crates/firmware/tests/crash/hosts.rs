//! Several hosts at once, each with units of its own.

use crate::crash::fixture::{
    Case, Host, Model, NOTHING, cached_cases, cases, find_defects, found, histories, is_over, lives, share,
};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, SpanId, Spans};
use byteway_firmware::{Ftl, MediaError};
use byteway_flash::{BlockId, Medium};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// One of several hosts, which keeps to its own units. Returns whether the drive has accepted all of its
/// commands.
async fn host(ftl: Ftl, model: Rc<RefCell<Model>>, mut stream: Stream, own: Range<u64>, steps: u32) -> bool {
    let (first_own, end, size) = (own.start, own.end, own.end - own.start);
    let is_alone = size == ftl.user_units();
    let has_parts = model.borrow().has_parts;
    let mut host = Host::new(ftl, model, own);
    for _ in 0..steps {
        let count = if stream.chance(0.8) { 1 } else { 1 + stream.below(20.min(size)) };
        let first = first_own + stream.below(size - count + 1);
        let goes_on = match stream.below(100) {
            0..70 if has_parts && stream.chance(0.5) => {
                let (from, blocks) = (stream.below(8), 1 + stream.below(8));
                let blocks = from as usize..(from + blocks).min(8) as usize;
                // Some units more often, so that several parts of one meet.
                let lpa = if stream.chance(0.5) { first_own } else { first };
                host.write_part(lpa, blocks, stream.chance(0.1)).await
            }
            0..70 => host.write(first..first + count, stream.chance(0.1)).await,
            70..92 => match stream.below(60) {
                0 => host.trim(first_own..end).await,
                1 => host.trim(first..end).await,
                _ => host.trim(first..first + count).await,
            },
            92..99 => host.flush().await,
            _ if is_alone => host.shut_down().await,
            _ => {
                host.ftl.data_end().clock().sleep(Delay::from_us(stream.below(5000))).await;
                true
            }
        };
        if !goes_on {
            return false;
        }
    }
    true
}

/// Maintenance that changes nothing visible to hosts.
async fn meddle(ftl: Ftl, mut stream: Stream) {
    let (spans, span) = (Spans::default(), SpanId::NONE);
    let (user, mut out) = (ftl.user_units(), Vec::new());
    let is_expected = |result: Result<(), MediaError>| assert_ne!(result, Err(MediaError::OutOfRange));
    loop {
        ftl.data_end().clock().sleep(Delay::from_us(stream.below(2000))).await;
        let count = 1 + stream.below(20.min(user));
        let first = stream.below(user - count + 1);
        is_expected(match stream.below(100) {
            0..60 => ftl.read(span, &spans, first, count as u32, &mut out).await,
            60..90 => ftl.modify(span, &spans, first, |_| {}, stream.chance(0.1)).await,
            90..96 => ftl.flush(span, &spans).await,
            96..98 => ftl.shutdown(span, &spans).await,
            _ => ftl.purge(|_| {}).await,
        });
    }
}

/// The hosts do their work, and all of it is flushed.
pub async fn work(
    ftl: &Ftl,
    clock: &Clock,
    model: &Rc<RefCell<Model>>,
    seed: u64,
    meddles: bool,
    what: &str,
) {
    let mut stream = Rng::new(seed).stream("hosts");
    let (hosts, steps) = ((1 + stream.below(3)).min(ftl.user_units()), 20 + stream.below(200) as u32);
    let (left, refused) = (Rc::new(Cell::new(hosts)), Rc::new(Cell::new(false)));
    let size = ftl.user_units() / hosts;
    for number in 0..hosts {
        let (ftl, model) = (ftl.clone(), model.clone());
        let (left, refused) = (left.clone(), refused.clone());
        let stream = Rng::new(seed).stream(&format!("host-{number}"));
        let own = number * size..if number + 1 == hosts { ftl.user_units() } else { (number + 1) * size };
        clock.spawn("host", async move {
            if !host(ftl, model, stream, own, steps).await {
                refused.set(true);
            }
            left.set(left.get() - 1);
        });
    }
    if meddles {
        clock.spawn("meddler", meddle(ftl.clone(), Rng::new(seed).stream("meddler")));
    }
    let end = clock.now() + Delay::from_s(20);
    while left.get() > 0 {
        clock.sleep(Delay::from_ms(1)).await;
        assert!(clock.now() < end, "{what}: the hosts wait endlessly: {:?}", ftl.counters());
    }
    if !model.borrow().plp && !is_over(ftl.flush(SpanId::NONE, &Spans::default()).await) {
        let found = found(ftl).await;
        let mut model = model.borrow_mut();
        let all = model.all();
        if !refused.get() {
            let mark = model.mark(&all);
            model.settle(&all, &mark);
        }
        model.look(found, what);
        ftl.check_extents();
        if !meddles {
            count(ftl, &model, what);
        }
    }
}

/// Runs until the power cut: `polls` after power-on, or when the hosts are done.
pub fn run(
    case: &Case,
    medium: Medium,
    model: &Rc<RefCell<Model>>,
    polls: u64,
    seed: u64,
    what: &str,
) -> Medium {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let powered = case.powered(&executor, medium, seed);
    let (ftl, polls) = (powered.ftl.clone(), polls.saturating_add(executor.clock().counters().polls));
    let (inner, model, what_then, meddles) = (ftl.clone(), model.clone(), what.to_owned(), case.meddles);
    let ended = executor.run_cut(
        async move {
            inner.ready().await;
            inner.check_extents();
            let found = found(&inner).await;
            model.borrow_mut().look(found, &what_then);
            if !meddles {
                count(&inner, &model.borrow(), &what_then);
            }
            work(&inner, &clock, &model, seed, meddles, &what_then).await;
        },
        polls,
    );
    if let Err(stalled) = ended {
        panic!("{what}: {stalled}; {:?}", ftl.counters());
    }
    powered.off()
}

/// Each mapped unit is valid in one place, with nothing in the buffer.
fn count(ftl: &Ftl, model: &Model, what: &str) {
    let blocks = (0..ftl.data_end().geometry().total_blocks()).map(BlockId);
    let valid: u64 = blocks.map(|block| u64::from(ftl.valid_units(block).0)).sum();
    let mapped = model.units.iter().filter(|possible| **possible != [NOTHING]).count() as u64;
    let all = mapped + ftl.map_pages_in_flash();
    let waits = ftl.units_buffered() > 0 || ftl.parts_waiting() > 0;
    assert!(waits || valid == all, "{what}: {valid} units are valid of {all}");
}

/// A history of cuts.
pub fn history(case: &Case, seed: u64, cuts: &[u64]) {
    lives(run, case, seed, cuts);
}

// A drive must not lose what it reported as durable, nor return what was never written, nor change its mind.
#[test]
fn what_was_durable_is_there_after_any_cut() {
    for case in cases() {
        histories(&case, 0..20 * share(), history);
    }
}

// Evicted pages are newer than the root, and older than what was moved or written since: trusting one too
// much or too little loses units.
#[test]
fn translation_pages_that_were_evicted_are_found() {
    for case in cached_cases() {
        histories(&case, 0..8 * share(), history);
    }
}

// A die without a free superblock leaves the one that it was filling, and the units moved there return. A
// translation page written in between has the location that was left, and the copy that replaces it may be
// older than the root.
#[test]
fn seed_40000_a_page_says_a_place_that_was_left() {
    let case = cached_cases().remove(2);
    history(&case, 40_000, &[521, 278, 163]);
}

// The tree of extents is rebuilt at power-on from numbers in spare areas: those that were not read are
// unknown across a link. And whatever a cut or a failure does to stripes, the tree follows the map.
#[test]
fn so_it_is_with_a_map_of_extents() {
    for case in cases().into_iter().map(Case::in_extents) {
        histories(&case, 0..8 * share(), history);
    }
    for case in cases().into_iter().map(Case::in_extents).map(Case::across) {
        histories(&case, 0..4 * share(), history);
    }
}

// A part that was acknowledged and flushed must be there, merged or saved; one that was not flushed may be
// lost, but only as a whole. Regardless of what else happens to its unit meanwhile, in whatever order.
#[test]
fn so_it_is_where_parts_of_units_wait() {
    for case in cases().into_iter().map(Case::absorbing) {
        histories(&case, 0..12 * share(), history);
    }
    for case in cached_cases().into_iter().map(Case::absorbing) {
        histories(&case, 0..3 * share(), history);
    }
    for case in cases().into_iter().map(Case::absorbing).map(Case::across) {
        histories(&case, 0..3 * share(), history);
        // As in firmware on a host.
        histories(&case.in_extents(), 0..3 * share(), history);
    }
}

// Several hosts have several programs and erases on the link at the power cut.
#[test]
fn so_it_is_across_a_link() {
    for case in cases().into_iter().chain(cached_cases()).map(Case::across) {
        histories(&case, 0..6 * share(), history);
    }
}

// A test that finds nothing is meaningful only if it finds defects on purpose.
#[test]
fn a_broken_recovery_is_found() {
    find_defects(history, |case| case);
}

// The same with absorbed parts in DRAM, whose own recovery has such a defect.
#[test]
fn a_broken_recovery_of_parts_is_found() {
    find_defects(history, Case::absorbing);
}
