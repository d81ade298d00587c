//! Drives of more units than 32 bits can address: at both ends, and across the border, in memory and in
//! files, over power cuts. A number cut to 32 bits would turn a unit into another one.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_content::{BlockSize, Content, Stamp, UNIT_BYTES};
use byteway_firmware::{
    Base, Cycles, Ftl, FtlConfig, FtlError, Placement, Region, Site, SteadyTiming, WorkKind, space_of,
};
use byteway_flash::file::{SimulatedFiles, Tuning, check};
use byteway_flash::{Geometry, Medium, Timing};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

const TAG: u16 = 7;
const BORDER: u64 = 1 << 32;
/// The version of a unit that holds zeroes.
const NOTHING: u32 = u32::MAX;
/// Units that are used around each location of interest.
const WINDOW: u64 = 24;

/// An array of `tib` TiB, with few dies.
fn geometry(tib: u32) -> Geometry {
    Geometry { channels: 2, ways: 2, planes: 4, blocks: tib * 5120 + 40, pages: 512, page_bytes: 32768 }
}

fn config(tib: u64, base: Base, cached: bool) -> FtlConfig {
    FtlConfig {
        user_units: (tib << 28) - 5,
        base,
        write_buffer_units: 200,
        checkpoint_units: if base == Base::Steady { 0 } else { 700 },
        wide_map: true,
        rhythm: SteadyTiming { wordline: 2, ..SteadyTiming::default() },
        map_cache_pages: cached.then_some(4),
        regions: vec![Region { first_unit: 0, tag: TAG, block: BlockSize::B4096 }],
        ..FtlConfig::default()
    }
}

fn content(lpa: u64, version: u32) -> Content {
    match version {
        NOTHING => Content::Zero,
        version if version % 3 < 2 => {
            Content::Stamp(Stamp { lba: lpa, version, tag: TAG, block: BlockSize::B4096 })
        }
        version => {
            let mut bytes = [version as u8; UNIT_BYTES];
            bytes[..8].copy_from_slice(&lpa.to_le_bytes());
            Content::Bytes(bytes.into())
        }
    }
}

fn timing() -> Timing {
    Timing {
        read: vec![Delay::from_us(40); 2],
        program: vec![Delay::from_us(300); 2],
        erase: Delay::from_ms(3),
        channel: Rate::per_second(800_000_000),
        command: Delay::from_ns(200),
        ..Timing::default()
    }
}

fn power_on(clock: &Clock, geometry: Geometry, config: &FtlConfig, medium: Medium) -> Ftl {
    let site = Site::new(clock, 2, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
    let cycles = WorkKind::ALL.into_iter().fold(Cycles::FREE, |cycles, work| cycles.with(work, 300));
    let placement = Placement::all_at(&site, cycles);
    Ftl::power_on(clock, placement, geometry, timing(), config.clone(), medium).unwrap()
}

/// Possible contents of each touched unit; the others hold what `rest` returns.
struct Model {
    units: BTreeMap<u64, Vec<u32>>,
    rest: u32,
    windows: Vec<Range<u64>>,
    next_version: u32,
}

impl Model {
    fn new(config: &FtlConfig) -> Model {
        let user = config.user_units;
        let around = |unit: u64| unit.saturating_sub(WINDOW / 2).min(user - WINDOW);
        // Both ends, the border, and units that differ from another one only above bit 32.
        let windows = [0, BORDER, BORDER + 5000, 2 * BORDER + 5000, user].map(around).into_iter();
        let windows = windows.filter(|first| first + WINDOW <= user).map(|first| first..first + WINDOW);
        let rest = if config.base == Base::Empty { NOTHING } else { 0 };
        Model { units: BTreeMap::new(), rest, windows: windows.collect(), next_version: 1 }
    }

    fn begin(&mut self, lpas: Range<u64>, version: u32) {
        let rest = self.rest;
        lpas.for_each(|lpa| self.units.entry(lpa).or_insert_with(|| vec![rest]).push(version));
    }

    /// Everything up to now is durable.
    fn settle(&mut self) {
        for possible in self.units.values_mut() {
            possible.drain(..possible.len() - 1);
        }
    }

    fn look(&mut self, ftl: &Ftl, what: &str) {
        for lpa in self.windows.iter().cloned().flatten() {
            let found = ftl.peek(lpa);
            let possible = self.units.entry(lpa).or_insert_with(|| vec![self.rest]);
            match possible.iter().rev().find(|version| content(lpa, **version) == found).copied() {
                Some(version) => *possible = vec![version],
                None => panic!("{what}: unit {lpa} holds {found:?}, and may hold {possible:?}"),
            }
        }
    }
}

/// One host, which waits for each of its commands. With `shuts_down` some of these are shutdowns.
async fn host(ftl: Ftl, model: Rc<RefCell<Model>>, mut stream: Stream, shuts_down: bool) {
    let (spans, span) = (Spans::default(), SpanId::NONE);
    let mut contents = Vec::new();
    for _ in 0..60 {
        let (first, count, version, kind) = {
            let mut model = model.borrow_mut();
            let window = model.windows[stream.below(model.windows.len() as u64) as usize].clone();
            let count = 1 + stream.below(WINDOW);
            let first = window.start + stream.below(WINDOW - count + 1);
            let kind = stream.below(100);
            let version = if kind < 70 { model.next_version } else { NOTHING };
            model.next_version += 1;
            if kind < 85 {
                model.begin(first..first + count, version);
            }
            (first, count, version, kind)
        };
        let is_durable = match kind {
            0..70 => {
                contents.extend((first..first + count).map(|lpa| content(lpa, version)));
                ftl.write(span, &spans, first, &mut contents, false).await.unwrap();
                false
            }
            70..85 => {
                ftl.trim(span, &spans, first, count).await.unwrap();
                false
            }
            85..90 => {
                // Whole regions, none of them of a window except part of the border's.
                let range = BORDER - 8192..BORDER + 4;
                let of_window = BORDER - WINDOW / 2..range.end;
                model.borrow_mut().begin(of_window, NOTHING);
                ftl.trim(span, &spans, range.start, range.end - range.start).await.unwrap();
                false
            }
            _ if kind < 98 || !shuts_down => {
                ftl.flush(span, &spans).await.unwrap();
                true
            }
            _ => {
                ftl.shutdown(span, &spans).await.unwrap();
                true
            }
        };
        if is_durable {
            model.borrow_mut().settle();
        }
    }
}

/// A drive of `tib` TiB with repeated power cuts; finally all of it is deallocated.
fn history(tib: u32, base: Base, cached: bool, in_files: bool, seed: u64) {
    let (geometry, config) = (geometry(tib), config(u64::from(tib), base, cached));
    assert!(geometry.is_wide());
    let mut stream = Rng::new(seed).stream("cuts");
    let model = Rc::new(RefCell::new(Model::new(&config)));
    let mut files = SimulatedFiles::new();
    let mut medium = (!in_files).then(|| Ftl::medium(geometry, &config).unwrap());
    // Every collected unit changes one of millions of translation pages there, which takes time.
    let turns = if cached && base == Base::Steady { 2 } else { 4 };
    for turn in 0..=turns {
        let what = format!("{tib} TiB, {base:?}, cached {cached}, files {in_files}, turn {turn}");
        let executor = Executor::new();
        let found = medium.take().unwrap_or_else(|| {
            let files = Arc::new(files.clone());
            let tuning = Tuning { image_units: 600, ..Tuning::default() };
            Ftl::open_medium(geometry, &timing(), &config, files, tuning).unwrap().0
        });
        let ftl = power_on(executor.clock(), geometry, &config, found);
        let (inner, model, whose) = (ftl.clone(), model.clone(), what.clone());
        let random = Rng::new(stream.next_u64()).stream("host");
        let main = async move {
            inner.ready().await;
            model.borrow_mut().look(&inner, &whose);
            if turn == turns {
                let (spans, span) = (Spans::default(), SpanId::NONE);
                inner.trim(span, &spans, 0, inner.user_units()).await.unwrap();
                inner.flush(span, &spans).await.unwrap();
                let mut model = model.borrow_mut();
                (model.units, model.rest) = (BTreeMap::new(), NOTHING);
                model.look(&inner, &whose);
                return;
            }
            // In the steady state garbage collection runs all the time, and each unit that it moves changes a
            // translation page: a checkpoint writes most of them.
            host(inner.clone(), model.clone(), random, base != Base::Steady).await;
        };
        // The last but one ends with a shutdown, and the others anywhere.
        let polls = if turn + 1 >= turns { u64::MAX } else { stream.below(5000) };
        executor.run_cut(main, polls).ok();
        let left = ftl.power_off();
        match in_files {
            true => {
                drop((ftl, left));
                files = files.cut(stream.next_u64());
            }
            false => medium = Some(left),
        }
    }
    let what = format!("{tib} TiB, {base:?}, cached {cached}, files {in_files}, deallocated");
    let executor = Executor::new();
    let found = medium.take().unwrap_or_else(|| {
        let files = Arc::new(files.clone());
        Ftl::open_medium(geometry, &timing(), &config, files, Tuning::default()).unwrap().0
    });
    let ftl = power_on(executor.clock(), geometry, &config, found);
    executor
        .run(async move {
            ftl.ready().await;
            model.borrow_mut().look(&ftl, &what)
        })
        .unwrap();
    if in_files {
        let checked = check(&files, |format| space_of(format).unwrap().units(), |_, _| true).unwrap();
        assert_eq!(checked.findings_total, 0, "{:?}", checked.findings);
        assert!(checked.units > 0);
        let executor = Executor::new();
        let ftl = Ftl::look(executor.clock(), Arc::new(files.clone())).unwrap();
        let audit = executor.run(async move {
            ftl.ready().await;
            ftl.audit().await
        });
        let findings = audit.unwrap().findings;
        assert!(findings.is_empty(), "{findings:?}");
    }
}

// A unit beyond the border taken for the one 2^32 before it is another tenant's data.
mod units_beyond_32_bits_are_there_after_any_power_cut {
    use super::*;

    // One test for each: they take long, and run in parallel.
    macro_rules! histories {
        ($($name:ident: $tib:literal, $base:ident, $cached:literal, $in_files:literal;)*) => {$(
            #[test]
            fn $name() {
                history($tib, Base::$base, $cached, $in_files, $tib);
            }
        )*};
    }

    histories! {
        of_17_tib_empty: 17, Empty, false, false;
        of_17_tib_filled_in_files: 17, Filled, true, true;
        of_17_tib_steady: 17, Steady, true, false;
        of_64_tib_empty_in_files: 64, Empty, true, true;
        of_64_tib_filled: 64, Filled, false, false;
        of_64_tib_steady: 64, Steady, false, false;
    }
}

// An array that is too large for its map entries must be refused, not addressed in part.
#[test]
fn entries_that_are_too_short_are_refused() {
    let narrow = FtlConfig { wide_map: false, ..config(17, Base::Empty, false) };
    let Err(error) = Ftl::medium(geometry(17), &narrow) else { panic!("it is made") };
    assert_eq!(error, FtlError::Narrow(geometry(17).total_units()));
    assert!(error.to_string().contains("wide_map"), "{error}");
}
