//! Power cuts of a drive in files: anything not synced may be lost, torn or reordered. Durable data are
//! there, nothing else appears, and what was found once is found again.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_content::{BlockSize, Content, Stamp, UNIT_BYTES};
use byteway_firmware::{Base, Cycles, Ftl, FtlConfig, Maintenance, Placement, Region, Site, WorkKind};
use byteway_flash::file::{SimulatedFiles, Tuning, look};
use byteway_flash::{Geometry, Ppa};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

const TAG: u16 = 7;
const UNITS: u64 = 110;
/// The version of a unit that holds zeroes.
const NOTHING: u32 = u32::MAX;
const GEOMETRY: Geometry =
    Geometry { channels: 2, ways: 1, planes: 2, blocks: 8, pages: 6, page_bytes: 8192 };
/// With frequent checkpoints of the files.
const TUNING: Tuning = Tuning { image_units: 96, journal_bytes: 2000 };

/// Some contents are test patterns, some are bytes in the file.
fn content(lpa: u64, version: u32) -> Content {
    match version {
        NOTHING => Content::Zero,
        0 => Content::Stamp(Stamp { lba: lpa, version: 0, tag: TAG, block: BlockSize::B4096 }),
        version if version.is_multiple_of(3) => {
            Content::Stamp(Stamp { lba: lpa, version, tag: TAG, block: BlockSize::B4096 })
        }
        version => {
            let mut bytes = [lpa as u8; UNIT_BYTES];
            bytes[..4].copy_from_slice(&version.to_le_bytes());
            Content::Bytes(bytes.into())
        }
    }
}

/// The host's model of the drive: for each unit the last durable version, and what was written to it since.
struct Model {
    units: Vec<Vec<u32>>,
    next_version: u32,
}

impl Model {
    fn begin(&mut self, lpas: std::ops::Range<u64>, version: u32) {
        lpas.for_each(|lpa| self.units[lpa as usize].push(version));
    }

    /// Number of versions of each unit: what a flush that begins now makes durable.
    fn mark(&self) -> Vec<usize> {
        self.units.iter().map(Vec::len).collect()
    }

    fn settle(&mut self, mark: &[usize]) {
        for (unit, count) in self.units.iter_mut().zip(mark) {
            unit.drain(..count - 1);
        }
    }

    /// Each unit holds a possible version, from now on the only one.
    fn look(&mut self, ftl: &Ftl, what: &str) {
        for (lpa, possible) in (0..).zip(&mut self.units) {
            let found = ftl.peek(lpa);
            match possible.iter().rev().find(|version| content(lpa, **version) == found).copied() {
                Some(version) => *possible = vec![version],
                None => panic!("{what}: unit {lpa} holds {found:?}, and may hold {possible:?}"),
            }
        }
    }
}

fn config(seed: u64) -> FtlConfig {
    FtlConfig {
        user_units: UNITS,
        write_buffer_units: 24,
        base: [Base::Empty, Base::Filled, Base::Steady][(seed % 3) as usize],
        checkpoint_units: [0, 64][(seed / 3 % 2) as usize],
        wide_map: seed / 6 % 2 == 1,
        regions: vec![Region { first_unit: 0, tag: TAG, block: BlockSize::B4096 }],
        ..Default::default()
    }
}

fn power_on(clock: &Clock, config: FtlConfig, wordline: usize, files: &SimulatedFiles) -> Option<Ftl> {
    let site = Site::new(clock, 2, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
    let placement = Placement::all_at(
        &site,
        WorkKind::ALL.into_iter().fold(Cycles::FREE, |cycles, work| cycles.with(work, 300)),
    );
    let timing = byteway_flash::Timing {
        read: vec![Delay::from_us(40); wordline],
        program: vec![Delay::from_us(300); wordline],
        erase: Delay::from_ms(3),
        channel: Rate::per_second(800_000_000),
        command: Delay::from_ns(200),
        ..byteway_flash::Timing::default()
    };
    let (medium, _) = Ftl::open_medium(GEOMETRY, &timing, &config, Arc::new(files.clone()), TUNING).ok()?;
    Some(Ftl::power_on(clock, placement, GEOMETRY, timing, config, medium).unwrap())
}

/// The map agrees with the spare areas, and inspection changes nothing.
fn audit(files: &SimulatedFiles, what: &str) {
    let executor = Executor::new();
    let steps = files.steps();
    // Nothing exists before the first start has come this far.
    let Ok(ftl) = Ftl::look(executor.clock(), Arc::new(files.clone())) else {
        assert!(look(files).is_err(), "{what}: it can't be looked at");
        return;
    };
    let audit = executor.run(async move {
        ftl.ready().await;
        ftl.audit().await
    });
    let audit = audit.unwrap();
    assert!(audit.findings.is_empty(), "{what}: {:?}", audit.findings);
    assert_eq!(files.steps(), steps, "{what}");
}

/// One host, which waits for each of its commands.
async fn host(ftl: Ftl, model: Rc<RefCell<Model>>, mut stream: Stream) {
    let (spans, span) = (Spans::default(), SpanId::NONE);
    let mut contents = Vec::new();
    for _ in 0..80 {
        let count = if stream.chance(0.8) { 1 } else { 1 + stream.below(20) };
        let first = stream.below(UNITS - count + 1);
        let kind = stream.below(100);
        let (version, mark) = {
            let mut model = model.borrow_mut();
            let version = if kind < 70 { model.next_version } else { NOTHING };
            model.next_version += 1;
            if kind < 88 {
                model.begin(first..first + count, version);
            }
            (version, model.mark())
        };
        let is_durable = match kind {
            0..70 => {
                contents.extend((first..first + count).map(|lpa| content(lpa, version)));
                let durable = stream.chance(0.1);
                ftl.write(span, &spans, first, &mut contents, durable).await.unwrap();
                durable
            }
            70..88 => {
                ftl.trim(span, &spans, first, count).await.unwrap();
                false
            }
            88..98 => {
                ftl.flush(span, &spans).await.expect("there is space");
                true
            }
            _ => {
                ftl.shutdown(span, &spans).await.expect("there is space");
                true
            }
        };
        if is_durable {
            model.borrow_mut().settle(&mark);
        }
    }
}

/// A drive with repeated power cuts.
fn history(seed: u64) {
    let mut stream = Rng::new(seed).stream("cuts");
    let wordline = 1 + (seed % 3) as usize;
    let first = if config(seed).base == Base::Empty { NOTHING } else { 0 };
    let units = vec![vec![first]; UNITS as usize];
    let model = Rc::new(RefCell::new(Model { units, next_version: 1 }));
    let mut files = SimulatedFiles::new();
    for turn in 0..10 {
        let what = format!("seed {seed}, turn {turn}");
        let executor = Executor::new();
        let clock = executor.clock().clone();
        // Either the files end at some step, or everything ends at some poll.
        let (steps, polls) = match stream.below(4) {
            0 => (u64::MAX, stream.below(6000)),
            1 => (stream.below(40), u64::MAX),
            2 => (u64::MAX, u64::MAX),
            _ => (stream.below(600), u64::MAX),
        };
        files.end_at(files.steps().saturating_add(steps));
        if let Some(ftl) = power_on(&clock, config(seed), wordline, &files) {
            let (inner, model, hosts) = (ftl.clone(), model.clone(), stream.next_u64());
            let whose = what.clone();
            let main = async move {
                inner.ready().await;
                model.borrow_mut().look(&inner, &whose);
                host(inner, model, Rng::new(hosts).stream("host")).await;
            };
            // Nothing proceeds when the files have ended, and a flush never completes; only then.
            let ended = executor.run_cut(main, polls);
            assert!(steps < u64::MAX || ended.is_ok(), "{what}: {ended:?}");
        } else {
            assert!(steps < 40, "{what}: it can't be opened");
        }
        drop(executor);
        files = files.cut(stream.next_u64());
        audit(&files, &what);
    }
}

// A drive must not lose what it reported as durable, nor return what was never written.
#[test]
fn what_was_flushed_is_there_after_any_cut_of_the_files() {
    let cuts: u64 = std::env::var("BYTEWAY_FILE_CUTS").map_or(600, |cuts| cuts.parse().unwrap());
    (0..cuts / 10).for_each(history);
}

// A rotten spare record names no unit: a collector that relied on it alone would leave the unit behind, erase
// its superblock, and the next data there would be read as this unit.
#[test]
fn a_unit_whose_record_has_rotted_is_an_error_and_never_another_unit() {
    const VICTIM: u64 = 37;
    let files = SimulatedFiles::new();
    async fn write(ftl: Ftl) -> u64 {
        let mut contents = (0..UNITS).map(|lpa| content(lpa, 1)).collect();
        ftl.write(SpanId::NONE, &Spans::default(), 0, &mut contents, true).await.unwrap();
        ftl.shutdown(SpanId::NONE, &Spans::default()).await.unwrap();
        let mut places = 0..GEOMETRY.total_units();
        places.find(|ppa| ftl.flash().oob(Ppa(*ppa)) == Some(VICTIM)).unwrap()
    }
    async fn collect(ftl: Ftl) -> u64 {
        let (spans, span) = (Spans::default(), SpanId::NONE);
        let mut stream = Rng::new(1).stream("rot");
        for version in 2..4000 {
            let lpa = stream.below(UNITS);
            if lpa != VICTIM {
                let mut contents = vec![content(lpa, version)];
                ftl.write(span, &spans, lpa, &mut contents, false).await.unwrap();
            }
            let mut out = Vec::new();
            let read = ftl.read(span, &spans, VICTIM, 1, &mut out).await;
            let is_marred = out.first().is_some_and(|content| content.marred() != 0);
            assert!(read.is_err() || is_marred, "version {version}: {out:?}");
        }
        ftl.counters().blocks_collected
    }
    fn run<F: Future<Output = u64> + 'static>(files: &SimulatedFiles, main: fn(Ftl) -> F) -> u64 {
        let executor = Executor::new();
        let ftl = power_on(executor.clock(), config(0), 1, files).unwrap();
        let inner = ftl.clone();
        let found = executor.run(async move { main(inner).await });
        ftl.power_off().close().unwrap();
        found.unwrap()
    }
    let place = run(&files, write);
    assert!(files.rot("spare", place * 64 + 8));
    assert!(run(&files, collect) > 20);
}

// Factory marks were once durable only after the first sync: a cut before it, with surviving programs, gave
// bad superblocks back, and more spares than there ever were.
#[test]
fn what_the_factory_has_marked_is_marked_from_the_beginning() {
    let upkeep = Maintenance { spare_blocks: 3, factory_bad_blocks: 3, ..Maintenance::default() };
    let config = FtlConfig { user_units: 50, write_buffer_units: 8, upkeep, seed: 7, ..config(0) };
    let spares = |files: &SimulatedFiles, writes: bool| {
        let executor = Executor::new();
        let ftl = power_on(executor.clock(), config.clone(), 1, files).unwrap();
        let inner = ftl.clone();
        executor
            .run(async move {
                inner.ready().await;
                let mut contents = (0..if writes { 50 } else { 0 }).map(|lpa| content(lpa, 1)).collect();
                inner.write(SpanId::NONE, &Spans::default(), 0, &mut contents, false).await.unwrap();
            })
            .unwrap();
        (ftl.counters().blocks_spare, ftl.health().available_spare_percent)
    };
    for seed in 0..40 {
        let files = SimulatedFiles::new();
        let expected = spares(&files, true);
        assert!(expected.0 < 6, "the seed gives some");
        assert_eq!(spares(&files.cut(seed), false), expected, "seed {seed}");
    }
}
