//! Power cuts at any poll, also while the power has just come back: what was durable is there, nothing else comes, and
//! what was found once is found again.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Ran, Rate, SpanId, Spans};
use byteway_firmware::{
    Background, Base, Canary, Cycles, Ftl, FtlConfig, MediaError, Placement, Refresh, Region, Site, Upkeep,
    WearConfig, Work,
};
use byteway_flash::{FaultPlan, FlashConfig, Geometry, Medium, SlcTiming};
use byteway_wire::content::{BlockSize, Content, Stamp};
use std::cell::RefCell;
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

    /// How many states each unit has had: what a flush that begins now makes durable.
    fn mark(&self) -> Vec<usize> {
        self.units.iter().map(|unit| unit.possible.len()).collect()
    }

    /// Everything up to a mark is durable.
    fn settle(&mut self, mark: &[usize]) {
        for (unit, count) in self.units.iter_mut().zip(mark) {
            unit.possible.drain(..count - 1);
        }
    }
}

struct Case {
    name: &'static str,
    /// Chances of a program and of an erase to fail.
    faults: f64,
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
        slc: Some(SlcTiming {
            read: Delay::from_us(20),
            program: Delay::from_us(100),
            erase: Delay::from_ms(1),
        }),
        ..byteway_flash::Timing::default()
    }
}

fn power_on(clock: &Clock, case: &Case, medium: Medium, seed: u64) -> Ftl {
    let site = Site::new(clock, 2, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
    let cycles = Work::ALL.into_iter().fold(Cycles::FREE, |cycles, work| cycles.with(work, 300));
    let placement = Placement::all_at(&site, cycles);
    let faults = FaultPlan { program: case.faults, erase: case.faults, ..FaultPlan::default() };
    let flash = FlashConfig { faults, rng: Rng::new(seed), ..FlashConfig::from(timing(case.wordline)) };
    Ftl::power_on(clock, placement, case.geometry, flash, case.config.clone(), medium).unwrap()
}

/// Whether the drive is at the end of its life.
fn is_over(result: Result<(), MediaError>) -> bool {
    result.inspect_err(|error| assert_eq!(*error, MediaError::WriteProtected)).is_err()
}

/// One host: it waits for each of its commands, so that what is under way when the power goes is one command.
async fn host(ftl: Ftl, model: Rc<RefCell<Model>>, mut stream: Stream, steps: u32) {
    let (spans, span) = (Spans::default(), SpanId::NONE);
    let user = ftl.user_units();
    let mut contents = Vec::new();
    for _ in 0..steps {
        let count = if stream.chance(0.8) { 1 } else { 1 + stream.below(20.min(user)) };
        let first = stream.below(user - count + 1);
        match stream.below(100) {
            0..66 => {
                let durable = stream.chance(0.1);
                let mark = {
                    let mut model = model.borrow_mut();
                    for lpa in first..first + count {
                        let version = model.next_version;
                        model.next_version += 1;
                        model.begin(lpa, version);
                        contents.push(stamp(lpa, version));
                    }
                    model.mark()
                };
                if is_over(ftl.write(span, &spans, first, &mut contents, durable).await) {
                    return;
                }
                if durable || model.borrow().plp {
                    model.borrow_mut().settle(&mark);
                }
            }
            66..92 => {
                let (first, count) = match stream.below(40) {
                    0 => (0, user),
                    1 => (first, user - first),
                    _ => (first, count),
                };
                let mark = {
                    let mut model = model.borrow_mut();
                    (first..first + count).for_each(|lpa| model.begin(lpa, NOTHING));
                    model.mark()
                };
                if is_over(ftl.trim(span, &spans, first, count).await) {
                    return;
                }
                if model.borrow().plp {
                    model.borrow_mut().settle(&mark);
                }
            }
            92..98 => {
                let mark = model.borrow().mark();
                if is_over(ftl.flush(span, &spans).await) {
                    return;
                }
                model.borrow_mut().settle(&mark);
            }
            _ => {
                let mark = model.borrow().mark();
                if stream.chance(0.3) {
                    if is_over(ftl.shutdown(span, &spans).await) {
                        return;
                    }
                    model.borrow_mut().settle(&mark);
                }
            }
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

/// Runs until the power goes: `polls` after it came, or when the host has done what it had to do.
fn run(
    case: &Case,
    medium: Medium,
    model: &Rc<RefCell<Model>>,
    polls: u64,
    seed: u64,
    steps: u32,
    what: &str,
) -> (Medium, Option<u64>) {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = power_on(&clock, case, medium, seed);
    let (inner, model, what_then) = (ftl.clone(), model.clone(), what.to_owned());
    let ended = executor.run_cut(
        async move {
            inner.ready().await;
            look(&inner, &mut model.borrow_mut(), &what_then);
            let mounted = clock.counters().polls;
            host(inner, model, Rng::new(seed).stream("host"), steps).await;
            mounted
        },
        polls,
    );
    let ended = match ended {
        Ok(Ran::Ended(mounted)) => Some(mounted),
        Ok(Ran::Cut) => None,
        Err(stalled) => panic!("{what}: {stalled}; {:?}", ftl.counters()),
    };
    (ftl.power_off(), ended)
}

/// A history of cuts: after some polls each, in the end none.
fn history(case: &Case, seed: u64, cuts: &[u64]) {
    let Case { geometry, config, name, .. } = case;
    let mut medium = Ftl::medium(*geometry, config).unwrap();
    let model = Rc::new(RefCell::new(Model::new(config.user_units, config.base, config.plp)));
    for (turn, polls) in cuts.iter().chain([&u64::MAX]).enumerate() {
        let what = format!("{name}, seed {seed}, cuts {cuts:?}, turn {turn}");
        (medium, _) = run(case, medium, &model, *polls, seed + turn as u64, 60, &what);
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
        cases.push(Case { name, faults: 0.0, geometry, wordline, config });
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
        cases.push(Case { name, faults: 0.0, geometry, wordline, config });
    }
    cases
}

/// Drives that do for their flash what there is to do, while it fails.
fn upkeep_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, name) in
        (0..).zip(["levels", "caches", "fails", "all", "all, three stripes", "all, protected"])
    {
        let is_all = index >= 3;
        let upkeep = Upkeep {
            wear: WearConfig { dynamic: true, static_spread: (is_all || index == 0).then_some(1) },
            spare_blocks: 5,
            factory_bad_blocks: index,
            background: is_all.then_some(Background { idle: Delay::from_us(50), free_blocks: 6 }),
            refresh: is_all.then_some(Refresh { reads: 20, age: Delay::from_ms(50) }),
            slc_blocks: if is_all || index == 1 { 3 } else { 0 },
        };
        let base = [Base::Empty, Base::Filled, Base::Steady][index as usize % 3];
        let wordline = if index == 4 { 3 } else { 1 };
        let config = FtlConfig {
            user_units: if wordline == 3 { 110 } else { 150 },
            write_buffer_units: 24,
            base,
            plp: index == 5,
            checkpoint_units: 64,
            regions: vec![Region { first_unit: 0, tag: TAG, block: BlockSize::B4096 }],
            upkeep,
            ..Default::default()
        };
        let geometry = Geometry { blocks: 17, ..tiny(6) };
        let faults = if is_all || index == 2 { 0.005 } else { 0.0 };
        cases.push(Case { name, faults, geometry, wordline, config });
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

// What fails, wears or is moved for its own sake must be found again like everything else: bad superblocks stay bad, and
// what they still hold is there.
#[test]
fn so_it_is_while_flash_fails_and_is_looked_after() {
    for case in upkeep_cases() {
        histories(&case, 0..30 * share());
    }
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

// What is sent back after a failure comes behind what is newer, so the first unit of a wordline need not be its oldest: a
// flush waited for one whose wordline nobody completed.
#[test]
fn seed_1268_a_flush_sees_to_what_was_sent_back() {
    let case = upkeep_cases().into_iter().find(|case| case.name == "all, three stripes").unwrap();
    history(&case, 1_268_000, &[15, 284, 5681, 14, 8, 127]);
}

// A root that named the stripes that were not finished, and not those behind one that had failed: what was settled there,
// and was newer than a deallocation, was taken for older.
#[test]
fn seed_4921_what_came_behind_a_failure_is_newer_than_it() {
    let case = upkeep_cases().into_iter().find(|case| case.name == "all, three stripes").unwrap();
    history(&case, 4_921_000, &[118, 3593, 322, 2165, 370]);
}
