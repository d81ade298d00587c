//! Power cuts at any poll under several hosts at once, also while the power has just come back: what was durable is there,
//! nothing else comes, and what was found once is found again. `crash.rs` has one host, and flash that fails.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_firmware::{Base, Canary, Cycles, Ftl, FtlConfig, Placement, Region, Site, Work};
use byteway_flash::{BlockId, Geometry, Medium};
use byteway_wire::content::{BlockSize, Content, Stamp};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

const TAG: u16 = 7;

/// The version of a unit that holds zeroes.
const NOTHING: u32 = u32::MAX;

fn stamp(lpa: u64, version: u32) -> Content {
    match version {
        NOTHING => Content::Zero,
        version => Content::Stamp(Stamp { lba: lpa, version, tag: TAG, block: BlockSize::B4096 }),
    }
}

/// What a unit may hold: what was durable last, or anything that was written to it since.
#[derive(Clone, Debug)]
struct Unit {
    possible: Vec<u32>,
}

/// The host's idea of the drive.
#[derive(Clone)]
struct Model {
    units: Vec<Unit>,
    next_version: u32,
    plp: bool,
}

impl Model {
    fn new(units: u64, base: Base, plp: bool) -> Self {
        let first = if base == Base::Empty { NOTHING } else { 0 };
        Model { units: vec![Unit { possible: vec![first] }; units as usize], next_version: 1, plp }
    }

    /// A write, or a deallocation, is under way.
    fn begin(&mut self, lpa: u64, version: u32) {
        self.units[lpa as usize].possible.push(version);
    }

    /// How many states each of a host's units has had: what a flush of its that begins now makes durable.
    fn mark(&self, own: &Range<u64>) -> Vec<usize> {
        self.units[own.start as usize..own.end as usize].iter().map(|unit| unit.possible.len()).collect()
    }

    /// Everything up to a mark is durable.
    fn settle(&mut self, own: &Range<u64>, mark: &[usize]) {
        for (unit, count) in self.units[own.start as usize..].iter_mut().zip(mark) {
            unit.possible.drain(..count - 1);
        }
    }
}

struct Case {
    name: &'static str,
    geometry: Geometry,
    /// Page types: stripes of a wordline.
    wordline: usize,
    config: FtlConfig,
}

fn timing(wordline: usize) -> byteway_flash::Timing {
    byteway_flash::Timing {
        read: [40, 60, 80].into_iter().take(wordline).map(Delay::from_us).collect(),
        program: [300, 500, 700].into_iter().take(wordline).map(Delay::from_us).collect(),
        erase: Delay::from_ms(3),
        channel: Rate::per_second(800_000_000),
        command: Delay::from_ns(200),
        ..byteway_flash::Timing::default()
    }
}

fn power_on(clock: &Clock, case: &Case, medium: Medium) -> Ftl {
    let site = Site::new(clock, 2, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
    let cycles = Work::ALL.into_iter().fold(Cycles::FREE, |cycles, work| cycles.with(work, 300));
    let placement = Placement::all_at(&site, cycles);
    Ftl::power_on(clock, placement, case.geometry, timing(case.wordline), case.config.clone(), medium)
        .unwrap()
}

/// A host, of several: it keeps to its own units, and waits for each of its commands, so that it knows what is durable.
async fn host(ftl: Ftl, model: Rc<RefCell<Model>>, mut stream: Stream, own: Range<u64>, steps: u32) {
    let (spans, span) = (Spans::default(), SpanId::NONE);
    let (plp, size) = (model.borrow().plp, own.end - own.start);
    let is_alone = size == ftl.user_units();
    let mut contents = Vec::new();
    for _ in 0..steps {
        let count = if stream.chance(0.8) { 1 } else { 1 + stream.below(20.min(size)) };
        let first = own.start + stream.below(size - count + 1);
        match stream.below(100) {
            0..70 => {
                let durable = stream.chance(0.1);
                let mark = {
                    let mut model = model.borrow_mut();
                    for lpa in first..first + count {
                        let version = model.next_version;
                        model.next_version += 1;
                        model.begin(lpa, version);
                        contents.push(stamp(lpa, version));
                    }
                    model.mark(&own)
                };
                ftl.write(span, &spans, first, &mut contents, durable).await.unwrap();
                if durable || plp {
                    model.borrow_mut().settle(&own, &mark);
                }
            }
            70..92 => {
                let (first, count) = match stream.below(60) {
                    0 => (own.start, size),
                    1 => (first, own.end - first),
                    _ => (first, count),
                };
                let mark = {
                    let mut model = model.borrow_mut();
                    (first..first + count).for_each(|lpa| model.begin(lpa, NOTHING));
                    model.mark(&own)
                };
                ftl.trim(span, &spans, first, count).await.unwrap();
                if plp {
                    model.borrow_mut().settle(&own, &mark);
                }
            }
            92..99 => {
                let mark = model.borrow().mark(&own);
                ftl.flush(span, &spans).await.unwrap();
                model.borrow_mut().settle(&own, &mark);
            }
            _ if is_alone => {
                let mark = model.borrow().mark(&own);
                ftl.shutdown(span, &spans).await.unwrap();
                model.borrow_mut().settle(&own, &mark);
            }
            _ => ftl.flash().clock().sleep(Delay::from_us(stream.below(5000))).await,
        }
    }
}

/// Looks at every unit: each holds what it may, and from now on nothing else.
fn look(ftl: &Ftl, model: &mut Model, what: &str) {
    for (lpa, unit) in (0..).zip(&mut model.units) {
        let found = ftl.peek(lpa);
        let version = unit.possible.iter().rev().find(|version| stamp(lpa, **version) == found);
        match version.copied() {
            Some(version) => unit.possible = vec![version],
            None => panic!("{what}: unit {lpa} holds {found:?}, and may hold {:?}", unit.possible),
        }
    }
}

/// Runs until the power goes: `polls` after it came, or when the hosts have done what they had to do.
fn run(case: &Case, medium: Medium, model: &Rc<RefCell<Model>>, polls: u64, seed: u64, what: &str) -> Medium {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = power_on(&clock, case, medium);
    let (inner, model, what_then) = (ftl.clone(), model.clone(), what.to_owned());
    let ended = executor.run_cut(
        async move {
            inner.ready().await;
            look(&inner, &mut model.borrow_mut(), &what_then);
            count(&inner, &model.borrow(), &what_then);
            let mut stream = Rng::new(seed).stream("hosts");
            let (hosts, steps) = (1 + stream.below(3), 20 + stream.below(200) as u32);
            let left = Rc::new(Cell::new(hosts));
            let size = inner.user_units() / hosts;
            for number in 0..hosts {
                let (ftl, model, left) = (inner.clone(), model.clone(), left.clone());
                let stream = Rng::new(seed).stream(&format!("host-{number}"));
                let own =
                    number * size..if number + 1 == hosts { inner.user_units() } else { (number + 1) * size };
                clock.spawn("host", async move {
                    host(ftl, model, stream, own, steps).await;
                    left.set(left.get() - 1);
                });
            }
            let end = clock.now() + Delay::from_s(60);
            while left.get() > 0 {
                clock.sleep(Delay::from_ms(1)).await;
                assert!(clock.now() < end, "{what_then}: the hosts wait for ever: {:?}", inner.counters());
            }
            if !model.borrow().plp {
                inner.flush(SpanId::NONE, &Spans::default()).await.unwrap();
                let mut model = model.borrow_mut();
                let all = 0..inner.user_units();
                let mark = model.mark(&all);
                model.settle(&all, &mark);
                look(&inner, &mut model, &what_then);
                count(&inner, &model, &what_then);
            }
        },
        polls,
    );
    if let Err(stalled) = ended {
        panic!("{what}: {stalled}; {:?}", ftl.counters());
    }
    ftl.power_off()
}

/// Each unit that holds something is valid in one place, if none is in the buffer.
fn count(ftl: &Ftl, model: &Model, what: &str) {
    let blocks = (0..ftl.flash().geometry().total_blocks()).map(BlockId);
    let valid: u64 = blocks.map(|block| u64::from(ftl.valid_units(block).0)).sum();
    let mapped = model.units.iter().filter(|unit| unit.possible != [NOTHING]).count() as u64;
    let all = mapped + ftl.map_pages_in_flash();
    assert!(ftl.units_buffered() > 0 || valid == all, "{what}: {valid} units are valid of {all}");
}

/// A history of cuts: after some polls each, in the end none.
fn history(case: &Case, seed: u64, cuts: &[u64]) {
    let Case { geometry, config, name, .. } = case;
    let mut medium = Ftl::medium(*geometry, config).unwrap();
    let model = Rc::new(RefCell::new(Model::new(config.user_units, config.base, config.plp)));
    for (turn, polls) in cuts.iter().chain([&u64::MAX]).enumerate() {
        let what = format!("{name}, seed {seed}, cuts {cuts:?}, turn {turn}");
        medium = run(case, medium, &model, *polls, seed + turn as u64, &what);
    }
}

fn tiny(pages: u32) -> Geometry {
    Geometry { channels: 2, ways: 1, planes: 2, blocks: 8, pages, page_bytes: 8192 }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, base, wordline, plp, checkpoint_units, map_cache_pages) in [
        ("one stripe", Base::Empty, 1, false, 64, None),
        ("one stripe, no checkpoints", Base::Empty, 1, false, 0, None),
        ("filled", Base::Filled, 1, false, 40, None),
        ("steady", Base::Steady, 1, false, 100, None),
        ("two stripes", Base::Empty, 2, false, 64, None),
        ("three stripes", Base::Filled, 3, false, 50, None),
        ("three stripes, steady", Base::Steady, 3, false, 0, None),
        ("protected", Base::Filled, 1, true, 64, None),
        ("protected, three stripes", Base::Empty, 3, true, 64, None),
        ("cached", Base::Empty, 1, false, 64, Some(1)),
        ("cached, three stripes", Base::Filled, 3, false, 64, Some(1)),
    ] {
        let geometry = tiny(6);
        let units = if wordline == 3 { 110 } else { 150 };
        let config = FtlConfig {
            user_units: units,
            write_buffer_units: 24,
            base,
            plp,
            checkpoint_units,
            map_cache_pages,
            regions: vec![Region { first_unit: 0, tag: TAG, block: BlockSize::B4096 }],
            ..Default::default()
        };
        cases.push(Case { name, geometry, wordline, config });
    }
    cases
}

/// Drives of five translation pages, of which one or two are in DRAM: they are written and moved all the time.
fn cached_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, base, wordline, plp, checkpoint_units, pages) in [
        ("cached", Base::Empty, 1, false, 64, 1),
        ("cached, filled", Base::Filled, 1, false, 0, 2),
        ("cached, steady", Base::Steady, 1, false, 100, 1),
        ("cached, steady, two stripes", Base::Steady, 2, false, 200, 2),
        ("cached, steady, three stripes", Base::Steady, 3, false, 0, 1),
        ("cached, protected", Base::Steady, 3, true, 150, 1),
    ] {
        let geometry = Geometry { blocks: 40, ..tiny(18) };
        let config = FtlConfig {
            user_units: 4450,
            write_buffer_units: 24,
            base,
            plp,
            checkpoint_units,
            map_cache_pages: Some(pages),
            regions: vec![Region { first_unit: 0, tag: TAG, block: BlockSize::B4096 }],
            ..Default::default()
        };
        cases.push(Case { name, geometry, wordline, config });
    }
    cases
}

/// Random histories of a case. Gives how many were made until one was wrong.
fn histories(case: &Case, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut stream = Rng::new(seed).stream("cuts");
        let count = 1 + stream.below(6);
        let cuts: Vec<u64> = (0..count)
            .map(|_| match stream.below(3) {
                0 => stream.below(60),
                1 => stream.below(600),
                _ => stream.below(6000),
            })
            .collect();
        history(case, seed * 1000, &cuts);
    }
}

/// How many times as much is done: for a long run by hand.
fn share() -> u64 {
    std::env::var("BYTEWAY_CRASH_SHARE").ok().and_then(|share| share.parse().ok()).unwrap_or(1)
}

// A drive that lost what it had said was durable, or showed what nobody had written, or changed its mind.
#[test]
fn what_was_durable_is_there_after_any_cut() {
    for case in cases() {
        histories(&case, 0..20 * share());
    }
}

// Pages that were evicted are newer than the root, and older than what was moved or written since: to believe one too much
// or too little loses units.
#[test]
fn translation_pages_that_were_evicted_are_found() {
    for case in cached_cases() {
        histories(&case, 0..8 * share());
    }
}

// A die without a free superblock leaves the one that it was filling, and what was moved there goes back. A translation
// page that was written in between says the place that is left, and what is in its stead may be older than the root.
#[test]
fn seed_40000_a_page_says_a_place_that_was_left() {
    let case = cached_cases().remove(2);
    history(&case, 40_000, &[521, 278, 163]);
}

// A test that finds nothing says something only if it would find what is broken.
#[test]
fn a_broken_recovery_is_found() {
    let canaries =
        [Canary::IgnoreTrims, Canary::OlderCopy, Canary::TrustTorn, Canary::ForgetDump, Canary::EraseEarly];
    for canary in canaries {
        let found = (0..400).find(|seed| {
            cases().into_iter().any(|case| {
                let config = FtlConfig { canary: Some(canary), ..case.config };
                let broken = Case { config, ..case };
                let run = || histories(&broken, *seed..*seed + 1);
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err()
            })
        });
        assert!(found.is_some(), "{canary:?} is not found");
    }
}
