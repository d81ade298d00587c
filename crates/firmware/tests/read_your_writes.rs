//! The translation layer against a plain array, on drives so small that everything happens at once:
//! overwrites, garbage collection, full buffers, padding, deallocation.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use crate::crash::fixture::streams;
use crate::extents::SMALL_NODES;
use crate::far;
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Notify, Rate, SpanId, Spans, Stage, Stalled, Time, Timing};
use byteway_content::{BlockSize, Content, Keep, Stamp, UNIT_BYTES};
use byteway_defect::Planted;
use byteway_firmware::policy::{
    Ahead, Policies, Prefetch, PrefetchPolicy, PrefetchView, Stream as StreamChoice, StreamCounts,
    StreamPolicy, StreamView, VictimPolicy,
};
use byteway_firmware::{
    Base, Cycles, Defect, Ftl, FtlConfig, FtlCounters, FtlError, MediaError, Placement, Region, Site,
    WorkKind,
};
use byteway_flash::{FaultPlan, Geometry};
use byteway_world::PoweredDrive;
use std::cell::RefCell;
use std::rc::Rc;

const TAG: u16 = 7;

fn timing() -> byteway_flash::Timing {
    byteway_flash::Timing {
        read: vec![Delay::from_us(40)],
        program: vec![Delay::from_us(300)],
        erase: Delay::from_ms(3),
        channel: Rate::per_second(800_000_000),
        command: Delay::from_ns(200),
        ..byteway_flash::Timing::default()
    }
}

fn placement(clock: &Clock) -> Placement {
    let site = Site::new(clock, 2, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
    let cycles = WorkKind::ALL.into_iter().fold(Cycles::FREE, |cycles, work| cycles.with(work, 300));
    Placement::all_at(&site, cycles)
}

fn ftl(clock: &Clock, geometry: Geometry, config: FtlConfig) -> Ftl {
    Ftl::new(clock, placement(clock), geometry, timing(), config).unwrap()
}

/// A translation layer on a host, over the flash of a drive across a link.
fn ftl_across(executor: &Executor, geometry: Geometry, config: FtlConfig) -> (Ftl, PoweredDrive) {
    let drive = far::raw_drive(geometry, timing(), &config);
    let drive = far::power_on(executor.clock(), drive, FaultPlan::default(), 1, None);
    let far = executor.run(far::attach(drive.host.clone())).unwrap();
    (Ftl::over(executor.clock(), placement(executor.clock()), far, config).unwrap(), drive)
}

/// Content of a unit: over own flash at this instant and without cost, otherwise by a read.
async fn held(ftl: &Ftl, lpa: u64) -> Content {
    if ftl.data_end().own().is_some() {
        return ftl.peek(lpa);
    }
    let mut out = Vec::new();
    ftl.read(SpanId::NONE, &Spans::default(), lpa, 1, &mut out).await.unwrap();
    out.remove(0)
}

fn stamp(lpa: u64, version: u32) -> Content {
    if version == u32::MAX {
        return Content::Zero;
    }
    Content::Stamp(Stamp { lba: lpa, version, tag: TAG, block: BlockSize::B4096 })
}

fn config(user_units: u64, base: Base) -> FtlConfig {
    FtlConfig {
        user_units,
        write_buffer_units: 24,
        base,
        regions: vec![Region { first_unit: 0, tag: TAG, block: BlockSize::B4096 }],
        ..Default::default()
    }
}

/// Expected contents: for each unit, the version that was last written; `u32::MAX` for none.
type Model = Rc<RefCell<Vec<u32>>>;

/// One of several hosts, which keeps to its own units (modulo the number of hosts), so that it knows what it
/// last wrote.
async fn host(
    ftl: Ftl,
    model: Model,
    mut stream: Stream,
    (number, hosts): (u64, u64),
    steps: u32,
    absorbs: bool,
) {
    let spans = Spans::default();
    let span = SpanId::NONE;
    let own = ftl.user_units() / hosts;
    let mut out = Vec::new();
    let mut contents = Vec::new();
    for step in 0..steps {
        let count = if stream.chance(0.7) { 1 } else { 1 + stream.below(40.min(own)) };
        let first = number * own + stream.below(own - count + 1);
        let units = first..first + count;
        match stream.below(100) {
            0..50 => {
                let version = 1 + step * hosts as u32 + number as u32;
                contents.extend(units.clone().map(|lpa| stamp(lpa, version)));
                ftl.write(span, &spans, first, &mut contents, stream.chance(0.05)).await.unwrap();
                assert!(contents.is_empty());
                units.for_each(|lpa| model.borrow_mut()[lpa as usize] = version);
            }
            50..90 => {
                ftl.read(span, &spans, first, count as u32, &mut out).await.unwrap();
                for (content, lpa) in out.iter().zip(units) {
                    assert_eq!(*content, stamp(lpa, model.borrow()[lpa as usize]), "unit {lpa}, step {step}");
                }
                assert_eq!(out.len() as u64, count);
            }
            90..97 => {
                ftl.trim(span, &spans, first, count).await.unwrap();
                units.for_each(|lpa| model.borrow_mut()[lpa as usize] = u32::MAX);
            }
            97 => ftl.flush(span, &spans).await.unwrap(),
            98 if step % 7 == 0 => {
                let from = if stream.chance(0.5) { 0 } else { stream.below(own) };
                let to = if stream.chance(0.5) { own } else { from + stream.below(own - from + 1) };
                ftl.trim(span, &spans, number * own + from, to - from).await.unwrap();
                let (from, to) = ((number * own + from) as usize, (number * own + to) as usize);
                model.borrow_mut()[from..to].fill(u32::MAX);
            }
            _ => {
                let version = 1 + step * hosts as u32 + number as u32;
                if absorbs {
                    // All of the unit, in two parts, whichever comes first.
                    let mut bytes = [0; UNIT_BYTES];
                    stamp(first, version).write_to(&mut bytes);
                    let (middle, is_back_first) = (512 * (1 + stream.below(7) as usize), stream.chance(0.5));
                    let mut parts = [(0, &bytes[..middle]), (middle, &bytes[middle..])];
                    parts.rotate_left(usize::from(is_back_first));
                    for (offset, part) in parts {
                        ftl.write_part(span, &spans, first, offset, part, stream.chance(0.3)).await.unwrap();
                    }
                    model.borrow_mut()[first as usize] = version;
                    continue;
                }
                let write = |bytes: &mut [u8; UNIT_BYTES]| stamp(first, version).write_to(bytes);
                ftl.modify(span, &spans, first, write, stream.chance(0.5)).await.unwrap();
                model.borrow_mut()[first as usize] = version;
            }
        }
    }
}

/// Adds DRAM for the map, and gives it up, a page or a few at a time, over and over.
async fn lend(clock: Clock, ftl: Ftl, mut stream: Stream) {
    loop {
        clock.sleep(Delay::from_us(stream.below(3000))).await;
        let (before, segments) = (ftl.map_frames().unwrap(), 1 + stream.below(3) as u32);
        if stream.chance(0.5) && before < 8 {
            ftl.take_map_segments(segments);
            assert_eq!(ftl.map_frames(), Some(before + segments));
            continue;
        }
        let given = ftl.give_up_map_segments(segments).await;
        assert_eq!(given, segments.min(before - 1), "one place is left");
        assert_eq!(ftl.map_frames(), Some(before - given));
        assert!(ftl.map_pages_held() <= before - given, "nothing is left in what was given up");
    }
}

fn check(seed: u64, geometry: Geometry, config: FtlConfig, hosts: u64, steps: u32) -> (Time, FtlCounters) {
    let executor = Executor::new();
    let ftl = ftl(executor.clock(), geometry, config.clone());
    check_over(&executor, ftl, seed, config, hosts, steps)
}

/// The same across a link.
fn check_across(
    seed: u64,
    geometry: Geometry,
    config: FtlConfig,
    hosts: u64,
    steps: u32,
) -> (Time, FtlCounters) {
    let executor = Executor::new();
    let (ftl, _drive) = ftl_across(&executor, geometry, config.clone());
    check_over(&executor, ftl, seed, config, hosts, steps)
}

fn check_over(
    executor: &Executor,
    ftl: Ftl,
    seed: u64,
    config: FtlConfig,
    hosts: u64,
    steps: u32,
) -> (Time, FtlCounters) {
    let clock = executor.clock().clone();
    let geometry = *ftl.data_end().geometry();
    let lends = config.map_segment_pages != FtlConfig::MAP_SEGMENT_PAGES;
    let absorbs = config.absorbs_parts.is_some();
    let (base, plp, is_cached) = (config.base, config.plp, config.map_cache_pages.is_some());
    let version = if base == Base::Empty { u32::MAX } else { 0 };
    let model: Model = Rc::new(RefCell::new(vec![version; ftl.user_units() as usize]));
    let rng = Rng::new(seed);
    let done = Rc::new(RefCell::new(0));
    for number in 0..hosts {
        let (ftl, model, done) = (ftl.clone(), model.clone(), done.clone());
        let stream = rng.stream(&format!("host-{number}"));
        clock.spawn("host", async move {
            host(ftl, model, stream, (number, hosts), steps, absorbs).await;
            *done.borrow_mut() += 1;
        });
    }
    let lender = lends.then(|| clock.spawn("lender", lend(clock.clone(), ftl.clone(), rng.stream("lender"))));
    let (inner, model_then) = (ftl.clone(), model.clone());
    let end = executor.run(async move {
        let (spans, span) = (Spans::default(), SpanId::NONE);
        while *done.borrow() < hosts {
            clock.sleep(Delay::from_ms(1)).await;
            let pause = clock.now().since(Time::ZERO) > Delay::from_ms(u64::from(200 * steps));
            assert!(!pause, "seed {seed}: the hosts wait endlessly: {:?}", inner.counters());
        }
        lender.into_iter().for_each(|lender| clock.kill(lender));
        let expected = model_then.borrow().clone();
        for (lpa, version) in expected.iter().enumerate() {
            let found = held(&inner, lpa as u64).await;
            assert_eq!(found, stamp(lpa as u64, *version), "unit {lpa} before the flush");
        }
        inner.flush(span, &spans).await.unwrap();
        // A checkpoint may have begun behind the flush.
        assert!(plp || is_cached || u64::from(inner.units_buffered()) <= inner.space().map.1);
        let mut out = Vec::new();
        inner.read(span, &spans, 0, inner.user_units() as u32, &mut out).await.unwrap();
        for (lpa, version) in model_then.borrow().iter().enumerate() {
            assert_eq!(out[lpa], stamp(lpa as u64, *version), "unit {lpa} after the flush");
        }
        clock.sleep(Delay::from_s(1)).await; // the collectors come to rest
        inner.check_extents();
    });
    if let Err(stalled) = end {
        panic!("seed {seed}: {stalled}; {:?}", ftl.counters());
    }
    assert_eq!(
        (ftl.slots_free() + ftl.units_buffered(), ftl.units_locked()),
        (ftl.slots(), 0),
        "seed {seed}"
    );
    // One ticket for each task that keeps one, and none left over.
    assert_eq!(ftl.data_end().tickets_in_use(), geometry.dies() as usize * 3, "seed {seed}");
    let mapped = model.borrow().iter().filter(|version| **version != u32::MAX).count() as u64;
    let valid: u64 =
        (0..geometry.total_blocks()).map(|b| u64::from(ftl.valid_units(byteway_flash::BlockId(b)).0)).sum();
    let map_pages = ftl.map_pages_in_flash();
    assert!(plp || valid == mapped + map_pages, "seed {seed}: each unit is valid in one place");
    ftl.stop();
    (executor.clock().now(), ftl.counters())
}

const TINY: Geometry = Geometry { channels: 2, ways: 1, planes: 2, blocks: 8, pages: 4, page_bytes: 8192 };

// Whatever happens in between, the last write is what must be read.
#[test]
fn what_was_written_last_is_read() {
    for seed in 0..12 {
        for base in [Base::Empty, Base::Filled, Base::Steady] {
            for gc in ["greedy", "cost-benefit"].map(|name| VictimPolicy::built_in(name).unwrap()) {
                let gc_reserve_blocks = 1 + seed as u32 % 2;
                let gc_start_free_blocks = gc_reserve_blocks + seed as u32 % 3;
                let config = config(2 * 4 * 13 - 1, base);
                let config = FtlConfig {
                    gc,
                    gc_reserve_blocks,
                    gc_start_free_blocks,
                    plp: seed % 4 == 3,
                    seed,
                    ..config
                };
                check(seed, TINY, config, 1 + seed % 5, 400);
            }
        }
    }
}

/// More streams than a drive of this size would have.
const STREAMS: Geometry = Geometry { blocks: 17, pages: 8, ..TINY };

// With several streams units are sent out of their order, each stream may have a part of a stripe that nothing fills, and a collector
// that finds no superblock for one of its streams must still go on.
#[test]
fn in_several_streams_what_was_written_last_is_read() {
    for seed in 0..8 {
        for base in [Base::Empty, Base::Filled, Base::Steady] {
            for (name, host, collector) in [("sepbit", 2, 4), ("hot-cold:20", 2, 1), ("anywhere", 4, 4)] {
                let config = FtlConfig {
                    streams: streams(name),
                    plp: seed % 4 == 3,
                    gc_start_free_blocks: 1 + seed as u32 % 3,
                    write_buffer_units: 1 + 8 * seed as u32,
                    seed,
                    ..config(u64::from(u32::MAX), base)
                };
                // As full as may be.
                let refused = Ftl::medium(STREAMS, &config).map(drop).unwrap_err();
                let FtlError::ManyStreams { most, blocks: 17, needed, .. } = refused else {
                    panic!("{refused}")
                };
                assert!(needed > 17, "{refused}");
                assert_eq!(most, 2 * (17 - host - 2 * collector) * (32 - 4 + 1));
                check(seed, STREAMS, FtlConfig { user_units: most, ..config }, 1 + seed % 5, 400);
            }
        }
    }
    let geometry = Geometry { blocks: 71, pages: 16, ..TINY };
    for seed in 0..4 {
        let streams = streams("anywhere");
        let cached =
            FtlConfig { map_cache_pages: Some(1 + seed as u32), streams, seed, ..config(5500, Base::Filled) };
        check(seed, geometry, cached.clone(), 1 + seed % 3, 800);
        let across = FtlConfig { base: Base::Empty, map_cache_pages: None, ..cached };
        check_across(seed, geometry, across, 1 + seed % 3, 400);
    }
}

/// One stream of each kind, asked for.
struct One;

impl StreamChoice for One {
    fn counts(&self) -> StreamCounts {
        StreamCounts::SEPARATE
    }

    fn place(&mut self, _view: &mut StreamView<'_>) -> u32 {
        0
    }
}

// What the drive does for a policy that tells nothing apart must be what it does without one, or every comparison between two policies
// would show that as well.
#[test]
fn a_policy_with_one_stream_changes_nothing() {
    for seed in 0..4 {
        let one = StreamPolicy::new("one", Some("1".into()), || Box::new(One));
        let of =
            |streams| check(seed, TINY, FtlConfig { streams, seed, ..config(103, Base::Steady) }, 3, 400);
        assert_eq!(of(one), of(StreamPolicy::default()));
    }
}

// A tree of extents changes when programs end: paying for that must not block the host or the collector for
// good.
#[test]
fn with_a_map_of_extents_what_was_written_last_is_read() {
    for seed in 0..8 {
        let extents = Some(SMALL_NODES);
        let config = FtlConfig { extents, plp: seed % 4 == 3, seed, ..config(2 * 4 * 13 - 1, Base::Empty) };
        check(seed, TINY, config.clone(), 1 + seed % 5, 400);
        let config = FtlConfig { plp: false, ..config };
        check_across(seed, TINY, config, 1 + seed % 5, 200);
        let geometry = Geometry { blocks: 40, pages: 64, ..TINY };
        let regions = FtlConfig { extents, seed, ..self::config(12_288 + 1000 * (seed / 2), Base::Empty) };
        check(seed, geometry, regions, 1 + seed % 2, 1500);
    }
}

// Absorbed parts together with every other operation on their units, and garbage collection below them.
#[test]
fn where_parts_of_units_wait_what_was_written_last_is_read() {
    for seed in 0..8 {
        for base in [Base::Empty, Base::Filled, Base::Steady] {
            let absorbs_parts = Some(1 + seed as u32 % 5);
            let config =
                FtlConfig { absorbs_parts, plp: seed % 4 == 3, seed, ..config(2 * 4 * 13 - 1, base) };
            check(seed, TINY, config, 1 + seed % 5, 400);
        }
        let config = FtlConfig { absorbs_parts: Some(3), seed, ..config(2 * 4 * 13 - 1, Base::Empty) };
        check_across(seed, TINY, config.clone(), 1 + seed % 5, 200);
        check_across(seed, TINY, FtlConfig { extents: Some(SMALL_NODES), ..config }, 2, 200);
        let geometry = Geometry { blocks: 64, pages: 16, ..TINY };
        let cached = FtlConfig {
            absorbs_parts: Some(3),
            map_cache_pages: Some(1 + seed as u32 % 2),
            seed,
            ..self::config(7434, Base::Filled)
        };
        check(seed, geometry, cached, 1 + seed % 3, 500);
    }
}

// Cached data must not be returned once the unit was overwritten, deallocated or moved, or its superblock
// erased and rewritten.
#[test]
fn with_a_read_cache_what_was_written_last_is_read() {
    let mut from_cache = 0;
    for seed in 0..8 {
        for base in [Base::Empty, Base::Filled, Base::Steady] {
            let read_cache_units = [1, 4, 32, 1000][seed as usize % 4];
            let absorbs_parts = (seed % 3 == 0).then_some(3);
            let config = FtlConfig { read_cache_units, absorbs_parts, seed, ..config(2 * 4 * 13 - 1, base) };
            from_cache += check(seed, TINY, config, 1 + seed % 5, 400).1.units_read_from_cache;
        }
        let config = FtlConfig { read_cache_units: 50, seed, ..config(2 * 4 * 13 - 1, Base::Empty) };
        from_cache += check_across(seed, TINY, config, 1 + seed % 5, 200).1.units_read_from_cache;
    }
    assert!(from_cache > 5000, "{from_cache}");
}

/// Reads ahead what it likes, and too much.
struct Reckless;

impl Prefetch for Reckless {
    fn ahead(&mut self, view: &mut PrefetchView<'_>) -> Option<Ahead> {
        let (where_to, how_far) = (view.random(), view.random());
        match how_far % 8 {
            0 => Some(Ahead { first: u64::MAX - 3, count: u32::MAX }),
            1 => Some(Ahead { first: 0, count: u32::MAX }),
            2 => None,
            3 | 4 => Some(Ahead { first: view.first() + u64::from(view.count()), count: 16 }),
            _ => Some(Ahead { first: where_to % view.units(), count: 1 + (how_far >> 8) as u32 % 40 }),
        }
    }
}

// What was read ahead must not be returned once the unit was overwritten, deallocated or moved, be it on its way or there; and a read that waits
// for it must not wait for ever.
#[test]
fn with_reading_ahead_what_was_written_last_is_read() {
    let mut used = 0;
    for seed in 0..12 {
        for base in [Base::Empty, Base::Filled, Base::Steady] {
            let prefetch = PrefetchPolicy::new("reckless", Some("1".into()), || Box::new(Reckless));
            let read_cache_units = [1, 4, 32, 1000][seed as usize % 4];
            let absorbs_parts = (seed % 3 == 0).then_some(3);
            let admission = Policies::default().find(["always", "tiny-lfu"][seed as usize % 2]).unwrap();
            let config = FtlConfig {
                read_cache_units,
                absorbs_parts,
                prefetch: prefetch.clone(),
                admission,
                seed,
                ..config(2 * 4 * 13 - 1, base)
            };
            let counters = check(seed, TINY, config, 1 + seed % 5, 400).1;
            assert!(counters.units_read_ahead >= counters.units_read_ahead_used, "{counters:?}");
            used += counters.units_read_ahead_used;
            // With a map of pages, too, and across a link.
            let geometry = Geometry { blocks: 64, pages: 16, ..TINY };
            if base == Base::Filled {
                let cached = FtlConfig {
                    map_cache_pages: Some(1 + seed as u32 % 2),
                    read_cache_units: 500,
                    prefetch: prefetch.clone(),
                    seed,
                    ..self::config(7434, base)
                };
                used += check(seed, geometry, cached, 1 + seed % 3, 300).1.units_read_ahead_used;
            }
            if base == Base::Empty {
                let config =
                    FtlConfig { read_cache_units: 50, prefetch, seed, ..self::config(2 * 4 * 13 - 1, base) };
                used += check_across(seed, TINY, config, 1 + seed % 5, 200).1.units_read_ahead_used;
            }
        }
    }
    assert!(used > 5000, "{used}");
}

/// Latencies of reads of these units, each begun some time after the last one ended; and units read ahead, and used of these.
fn latencies(prefetch: &str, units: Vec<u64>) -> (Vec<Delay>, [u64; 2]) {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let prefetch = Policies::default().find(prefetch).unwrap();
    let config = FtlConfig { read_cache_units: 64, prefetch, ..config(100, Base::Filled) };
    let ftl = ftl(&clock, TINY, config);
    executor
        .run(async move {
            let (spans, mut out, mut found) = (Spans::default(), Vec::new(), Vec::new());
            for unit in units {
                let before = clock.now();
                ftl.read(SpanId::NONE, &spans, unit, 1, &mut out).await.unwrap();
                assert_eq!(out, [stamp(unit, 0)]);
                found.push(clock.now().since(before));
                clock.sleep(Delay::from_us(30)).await;
            }
            let counters = ftl.counters();
            (found, [counters.units_read_ahead, counters.units_read_ahead_used])
        })
        .unwrap()
}

// The purpose: who reads in order, slower than flash, waits for no flash from the fourth read on. Who does not pays nothing.
#[test]
fn sequential_reads_wait_for_no_flash_and_random_ones_are_as_before() {
    let (found, [ahead, used]) = latencies("sequential:16", (0..100).collect());
    // 300 cycles of 1 ns to translate, 80 ns for the map and for the data, 4 KiB at 10 GB/s.
    let from_cache = Delay::from_ps(300_000 + 80_000 + 80_000 + 409_600);
    let waits = found.iter().filter(|latency| **latency != from_cache).count();
    println!("{waits} of 100 wait for flash; {ahead} read ahead, {used} of them used");
    assert!(waits <= 6 && found[50..].iter().all(|latency| *latency == from_cache), "{found:?}");
    assert_eq!((ahead, used), (97, 97));
    let (without, none) = latencies("none", (0..100).collect());
    assert!(without.iter().all(|latency| *latency > from_cache + Delay::from_us(40)));
    let scattered: Vec<u64> = (0..99).map(|at| at * 37 % 100).collect();
    let (at_random, [ahead, _]) = latencies("sequential:16", scattered.clone());
    assert_eq!((at_random, ahead, none), (latencies("none", scattered).0, 0, [0, 0]));
}

// The purpose: flash is spared. The cache takes DRAM up to its limit, and a purge empties it.
#[test]
fn what_is_read_again_comes_out_of_dram() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let config = FtlConfig { read_cache_units: 10, ..config(100, Base::Filled) };
    let ftl = ftl(&clock, TINY, config);
    executor
        .run(async move {
            let (spans, span, mut out) = (Spans::default(), SpanId::NONE, Vec::new());
            let reads = || ftl.flash().counters().units_read.iter().sum::<u64>();
            ftl.read(span, &spans, 3, 1, &mut out).await.unwrap();
            ftl.read(span, &spans, 20, 8, &mut out).await.unwrap();
            assert_eq!((reads(), ftl.footprint().read_cache), (9, 9 * UNIT_BYTES as u64));
            let before = clock.now();
            ftl.read(span, &spans, 3, 1, &mut out).await.unwrap();
            assert_eq!(out, [stamp(3, 0)]);
            // 300 cycles of 1 ns to translate, 80 ns for the map and for the data, 4 KiB at 10 GB/s.
            assert_eq!(clock.now().since(before), Delay::from_ps(300_000 + 80_000 + 80_000 + 409_600));
            ftl.read(span, &spans, 18, 8, &mut out).await.unwrap();
            assert_eq!(out, (18..26).map(|lpa| stamp(lpa, 0)).collect::<Vec<_>>());
            assert_eq!(
                (reads(), ftl.counters().units_read_from_cache),
                (11, 7),
                "two of eight were not there"
            );
            assert_eq!(ftl.footprint().read_cache, 10 * UNIT_BYTES as u64);
            ftl.purge(|_| ()).await.unwrap();
            assert_eq!(ftl.footprint().read_cache, 0);
        })
        .unwrap();
}

// A command set that let a program pass another, or an erase a read, once lost a unit; so did an outdated
// mirror of the flash.
#[test]
fn across_a_link_what_was_written_last_is_read() {
    let mut collected = 0;
    for seed in 0..8 {
        for gc in ["greedy", "cost-benefit"].map(|name| VictimPolicy::built_in(name).unwrap()) {
            let gc_reserve_blocks = 1 + seed as u32 % 2;
            let gc_start_free_blocks = gc_reserve_blocks + seed as u32 % 3;
            let config = config(2 * 4 * 13 - 1, Base::Empty);
            let config = FtlConfig { gc, gc_reserve_blocks, gc_start_free_blocks, seed, ..config };
            collected += check_across(seed, TINY, config, 1 + seed % 5, 300).1.blocks_collected;
        }
        let one_die = Geometry { channels: 1, planes: 1, blocks: 5, ..TINY };
        let config = FtlConfig { gc_start_free_blocks: 1, ..config(2 * 7, Base::Empty) };
        check_across(seed, one_die, config, 2, 300);
    }
    assert!(collected > 100, "{collected}");
}

// Translation pages come over the link, too: evicted ones are read again, and changed.
#[test]
fn across_a_link_with_a_cached_map_what_was_written_last_is_read() {
    let geometry = Geometry { blocks: 64, pages: 16, ..TINY };
    let mut total = FtlCounters::default();
    for (seed, pages) in (0..4).zip([1, 2, 5, 1]) {
        let config = FtlConfig {
            seed,
            map_cache_pages: Some(pages),
            write_buffer_units: 8 * (1 + seed as u32 % 3),
            ..config(7434 - 400 * (seed % 3), Base::Empty)
        };
        let (_, counters) = check_across(seed, geometry, config, 1 + seed % 3, 1500);
        total.map_reads += counters.map_reads;
        total.map_evictions_dirty += counters.map_evictions_dirty;
    }
    assert!(total.map_reads > 500 && total.map_evictions_dirty > 200, "{total:?}");
}

// A translation layer on the host pays for its own work there, and then for the link, once in each direction.
#[test]
fn a_read_across_a_link_takes_what_its_steps_take() {
    let executor = Executor::new();
    let (ftl, _drive) = ftl_across(&executor, TINY, config(100, Base::Empty));
    let clock = executor.clock().clone();
    executor
        .run(async move {
            let (spans, span, mut out) = (Spans::default(), SpanId::NONE, Vec::new());
            ftl.write(span, &spans, 0, &mut (0..8).map(|lpa| stamp(lpa, 1)).collect(), true).await.unwrap();
            clock.sleep(Delay::from_ms(10)).await;
            let span = spans.open(clock.now());
            ftl.read(span, &spans, 3, 1, &mut out).await.unwrap();
            let record = spans.close(span);
            assert_eq!(out, [stamp(3, 1)]);
            let wire = |bytes| byteway_testkit::link_config().rate().time_for(bytes);
            let (ns, us, crossing) = (Delay::from_ns, Delay::from_us, Delay::from_ns(100));
            let across = [
                ("doorbell", wire(28) + crossing),
                ("fetch", wire(24) + crossing + ns(150) + wire(84) + crossing),
                ("the drive's cores, its pipeline", ns(50 + 100 + 500)),
                ("flash: command, sense, 4 KiB at 800 MB/s", ns(200) + us(40) + ns(5120)),
                ("data, metadata", wire(4096 + 16 * 24) + wire(32 + 24)),
                ("completion", ns(50) + wire(40) + crossing),
            ];
            let sum = across.iter().fold(Delay::ZERO, |sum, (_, took)| sum + *took);
            let stage = |stage| record.stage(stage);
            assert_eq!(stage(Stage::Firmware), ns(300), "translating, on the host's cores");
            assert_eq!((stage(Stage::Dram), stage(Stage::Queueing)), (ns(80), Delay::ZERO));
            assert_eq!(stage(Stage::Flash), sum, "{across:?}");
        })
        .unwrap();
}

// A superblock that closes with stale units is a victim without a notification of its own; an idle collector
// once slept on.
#[test]
fn seed_287_a_collector_is_called_when_a_superblock_closes() {
    let one_die = Geometry { channels: 1, planes: 1, blocks: 5, ..TINY };
    for base in [Base::Empty, Base::Filled] {
        check(287, one_die, FtlConfig { gc_start_free_blocks: 1, ..config(2 * 7, base) }, 2, 400);
    }
}

// Ranges of many regions are deallocated in another way than a few units: they must read alike.
#[test]
fn whole_regions_are_deallocated_too() {
    let geometry = Geometry { blocks: 40, pages: 64, ..TINY };
    for seed in 0..4 {
        for base in [Base::Empty, Base::Filled, Base::Steady] {
            check(
                seed,
                geometry,
                FtlConfig { seed, ..config(12_288 + 1000 * (seed / 2), base) },
                1 + seed % 2,
                3000,
            );
        }
    }
}

// Eight translation pages, of which one, two or five are in DRAM: evictions, pages that change while away,
// and garbage collection of both kinds of units all at once, with hosts that wait for each other's pages.
#[test]
fn with_a_cached_map_what_was_written_last_is_read() {
    let geometry = Geometry { blocks: 64, pages: 16, ..TINY };
    let mut total = FtlCounters::default();
    for seed in 0..6 {
        for base in [Base::Empty, Base::Filled, Base::Steady] {
            for pages in [1, 2, 5] {
                let config = FtlConfig {
                    seed,
                    map_cache_pages: Some(pages),
                    write_buffer_units: 8 * (1 + seed as u32 % 3),
                    plp: seed % 4 == 3,
                    ..config(7434 - 400 * (seed % 3), base)
                };
                let (_, counters) = check(seed, geometry, config, 1 + seed % 5, 1500);
                total.map_misses_shared += counters.map_misses_shared;
                total.map_evictions_dirty += counters.map_evictions_dirty;
                total.map_updates += counters.map_updates;
                total.map_units_collected += counters.map_units_collected;
            }
        }
    }
    let FtlCounters { map_misses_shared, map_evictions_dirty, map_updates, map_units_collected, .. } = total;
    assert!(map_misses_shared > 100 && map_evictions_dirty > 1000 && map_updates > 1000, "{total:?}");
    assert!(map_units_collected > 100, "{total:?}");
}

// DRAM is given up while pages in it are dirty, being loaded, or waited for, and is added again: changes must
// be readable nevertheless, and no task may wait for a frame that no longer exists.
#[test]
fn with_places_of_the_map_that_come_and_go_what_was_written_last_is_read() {
    let geometry = Geometry { blocks: 64, pages: 16, ..TINY };
    let mut evicted = 0;
    for seed in 0..6 {
        for base in [Base::Empty, Base::Filled, Base::Steady] {
            let config = FtlConfig {
                seed,
                map_cache_pages: Some(4),
                map_segment_pages: 1,
                write_buffer_units: 8 * (1 + seed as u32 % 3),
                plp: seed % 4 == 3,
                ..config(7434 - 400 * (seed % 3), base)
            };
            evicted += check(seed, geometry, config, 1 + seed % 5, 1500).1.map_evictions_dirty;
        }
    }
    assert!(evicted > 1000, "{evicted}");
}

// A drive without a unit to spare must still accept every write: with a reserve too small by one it stalls.
#[test]
fn a_full_drive_does_not_stand_still() {
    for seed in 0..12 {
        for base in [Base::Empty, Base::Filled] {
            check(seed, TINY, config(2 * 5 * 13, base), 4, 400);
            let one_die = Geometry { channels: 1, planes: 1, blocks: 5, ..TINY };
            check(seed, one_die, FtlConfig { gc_start_free_blocks: 1, ..config(2 * 7, base) }, 2, 400);
            let one_unit_stripes = Geometry { channels: 1, planes: 1, page_bytes: 4096, ..TINY };
            check(seed, one_unit_stripes, config(5 * 4, base), 2, 400);
            let one_stripe_blocks = Geometry { channels: 3, ways: 2, pages: 1, ..TINY };
            check(seed, one_stripe_blocks, config(6 * 5, base), 3, 400);
        }
    }
}

// Two runs of one seed that differed anywhere would make failures irreproducible.
#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || check(5, TINY, config(2 * 4 * 13 - 1, Base::Steady), 3, 300);
    assert_eq!(run(), run());
}

// With waits that take no time, tasks that never yield would starve one another, or loop without end.
#[test]
fn it_works_when_nothing_takes_time() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = ftl(&clock, TINY, config(2 * 4 * 13 - 1, Base::Filled));
    let model: Model = Rc::new(RefCell::new(vec![0; ftl.user_units() as usize]));
    let stream = Rng::new(1).stream("immediate");
    let then = ftl.clone();
    executor
        .run_real(Timing::None, None, async move {
            host(ftl.clone(), model, stream, (0, 1), 2000, false).await;
            ftl.flush(SpanId::NONE, &Spans::default()).await.unwrap();
        })
        .unwrap();
    assert_eq!((then.slots_free(), then.units_locked()), (then.slots(), 0));
    assert!(then.counters().blocks_collected > 0);
}

// Where programs take no time, the tasks that wait for them run in any order. A wordline that was reported
// complete before an earlier one once took part of it along; the rest was held indefinitely, and with it
// every flush and shutdown.
#[test]
fn flushes_and_shutdowns_end_when_nothing_takes_time() {
    for (bits, seed) in (1..=4).flat_map(|bits| [(bits, 1), (bits, 2), (bits, 3)]) {
        let ended = ends_when_nothing_takes_time(bits, seed, Planted::none());
        ended.unwrap_or_else(|stalled| panic!("{bits} bits a cell, seed {seed}: {stalled}"));
    }
    let stalls = |bits, defect: Defect| {
        (1..4)
            .map(|seed| ends_when_nothing_takes_time(bits, seed, defect.into()).is_err())
            .collect::<Vec<_>>()
    };
    assert_eq!(stalls(1, Defect::TakeAlong), [false; 3], "wordlines of one stripe wait for nothing");
    for bits in 2..=4 {
        let stalls = stalls(bits, Defect::TakeAlong);
        assert!(stalls.contains(&true), "{bits} bits a cell: as it was, it is found: {stalls:?}");
    }
    assert_eq!(stalls(1, Defect::StallShutdown), [true; 3]);
}

/// Flushes and shuts down again and again while hosts write and collectors work.
fn ends_when_nothing_takes_time(bits: usize, seed: u64, defect: Planted<Defect>) -> Result<(), Stalled> {
    let executor = Executor::new();
    executor.set_timing(Timing::None);
    let clock = executor.clock().clone();
    let geometry = Geometry { channels: 2, ways: 2, planes: 1, blocks: 14, pages: 24, page_bytes: 8192 };
    let timing = byteway_flash::Timing { program: vec![Delay::from_us(300); bits], ..timing() };
    let config = FtlConfig {
        checkpoint_units: 500,
        write_buffer_units: 200,
        defect,
        ..config(4 * 8 * 48, Base::Steady)
    };
    let ftl = Ftl::new(&clock, placement(&clock), geometry, timing, config).unwrap();
    let model: Model = Rc::new(RefCell::new(vec![0; ftl.user_units() as usize]));
    let rng = Rng::new(seed);
    let inner = ftl.clone();
    let main = async move {
        let (spans, span, mut turns) = (Spans::default(), SpanId::NONE, rng.stream("turns"));
        for round in 0..20 {
            let done = Rc::new(RefCell::new(0));
            for number in 0..4 {
                let (ftl, model, done) = (inner.clone(), model.clone(), done.clone());
                let stream = rng.stream(&format!("host-{number}-{round}"));
                let steps = 1 + turns.below(120) as u32;
                clock.spawn("host", async move {
                    host(ftl, model, stream, (number, 4), steps, false).await;
                    *done.borrow_mut() += 1;
                });
            }
            // In the middle of the work, and when the hosts have ended but the collectors have not.
            while *done.borrow() < 4 {
                for _ in 0..turns.below(200) {
                    clock.yield_now().await;
                }
                inner.flush(span, &spans).await.unwrap();
                inner.shutdown(span, &spans).await.unwrap();
                clock.yield_now().await;
            }
            inner.shutdown(span, &spans).await.unwrap();
            assert_eq!(inner.units_buffered(), 0);
        }
        assert!(inner.counters().blocks_collected > 50, "{:?}", inner.counters());
    };
    executor.run(main)?;
    assert_eq!((ftl.slots_free(), ftl.units_locked()), (ftl.slots(), 0));
    Ok(())
}

// Terabytes must be ready at once, read right, accept writes, and be deallocated without a table of them.
#[test]
fn eight_tebibytes_are_ready_at_once() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let geometry = Geometry { channels: 16, ways: 8, planes: 4, blocks: 4400, pages: 256, page_bytes: 16384 };
    let user_units = 8u64 << 40 >> 12;
    for base in [Base::Filled, Base::Steady] {
        let ftl = ftl(&clock, geometry, FtlConfig { write_buffer_units: 4096, ..config(user_units, base) });
        let mut stream = Rng::new(2).stream("large");
        executor
            .run(async move {
                let (spans, span, mut out) = (Spans::default(), SpanId::NONE, Vec::new());
                for _ in 0..200 {
                    let lpa = stream.below(user_units - 64);
                    ftl.read(span, &spans, lpa, 64, &mut out).await.unwrap();
                    assert!(out.iter().zip(lpa..).all(|(content, lpa)| *content == stamp(lpa, 0)));
                    out.fill(stamp(lpa, 1));
                    ftl.write(span, &spans, lpa, &mut out, false).await.unwrap();
                    assert_eq!(ftl.peek(lpa + 63), stamp(lpa, 1));
                }
                ftl.flush(span, &spans).await.unwrap();
                ftl.trim(span, &spans, 4096 * 100, 4096 * 100).await.unwrap();
                assert_eq!(ftl.peek(4096 * 100), Content::Zero);
                assert_ne!(ftl.peek(4096 * 200), Content::Zero);
                ftl.trim(span, &spans, 0, user_units).await.unwrap();
                assert_eq!(ftl.peek(4096 * 200), Content::Zero);
                assert_eq!(ftl.counters().units_deallocated, 4096 * 100 + user_units, "each once");
                out.push(stamp(1, 2));
                ftl.write(span, &spans, user_units - 1, &mut out, true).await.unwrap();
                assert_eq!(ftl.peek(user_units - 1), stamp(1, 2));
            })
            .unwrap();
    }
}

// A capacity that is too large would make the collector run without end: it must be refused, with the largest
// possible one.
#[test]
fn too_many_units_are_refused() {
    let executor = Executor::new();
    let clock = executor.clock();
    let attempt = |config| Ftl::new(clock, placement(clock), TINY, timing(), config).map(drop);
    assert_eq!(attempt(config(130, Base::Filled)), Ok(()));
    let error = attempt(config(131, Base::Filled)).unwrap_err();
    assert!(error.to_string().contains("at most 130"), "{error}");
    assert!(attempt(config(0, Base::Empty)).is_err());
    assert!(attempt(FtlConfig { gc_start_free_blocks: 0, ..config(10, Base::Empty) }).is_err());
    assert!(attempt(FtlConfig { write_buffer_units: u32::MAX, ..config(10, Base::Empty) }).is_err());
    let region = Region { first_unit: 5, tag: 0, block: BlockSize::B512 };
    assert!(attempt(FtlConfig { regions: vec![region, region], ..config(10, Base::Empty) }).is_err());
}

// An address comes from the host: out of range it is an error, also if the sum wraps.
#[test]
fn units_beyond_the_drive_are_an_error() {
    let executor = Executor::new();
    let ftl = ftl(executor.clock(), TINY, config(100, Base::Filled));
    executor
        .run(async move {
            let (spans, span, mut out) = (Spans::default(), SpanId::NONE, Vec::new());
            for (first, count) in [(99, 2), (100, 1), (u64::MAX, 1), (u64::MAX - 1, 3)] {
                let refused = Err(MediaError::OutOfRange);
                assert_eq!(ftl.read(span, &spans, first, count, &mut out).await, refused);
                let mut contents = vec![Content::Zero; count as usize];
                assert_eq!(ftl.write(span, &spans, first, &mut contents, true).await, refused);
                assert_eq!(ftl.trim(span, &spans, first, u64::from(count)).await, refused);
                assert_eq!(
                    ftl.modify(span, &spans, first.saturating_add(u64::from(count) - 1), |_| {}, true).await,
                    refused
                );
            }
            assert_eq!(ftl.read(span, &spans, 99, 1, &mut out).await, Ok(()));
            assert_eq!(out, [stamp(99, 0)]);
            assert_eq!(ftl.peek(100), Content::Zero);
        })
        .unwrap();
}

// Two hosts that write halves of a unit at once must both find theirs; otherwise half of a 512-byte write is
// lost.
#[test]
fn parts_written_at_once_are_both_kept() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = ftl(&clock, TINY, FtlConfig { keep: Keep::Bytes, ..config(100, Base::Filled) });
    for part in 0..8 {
        let ftl = ftl.clone();
        clock.spawn("part", async move {
            let change =
                |bytes: &mut [u8; UNIT_BYTES]| bytes[part * 512..(part + 1) * 512].fill(part as u8 + 1);
            ftl.modify(SpanId::NONE, &Spans::default(), 5, change, part % 2 == 0).await.unwrap();
        });
    }
    executor
        .run(async move {
            clock.sleep(Delay::from_ms(50)).await;
            let mut unit = [0; UNIT_BYTES];
            ftl.peek(5).write_to(&mut unit);
            for (part, bytes) in unit.chunks(512).enumerate() {
                assert!(bytes.iter().all(|byte| *byte == part as u8 + 1), "part {part}");
            }
            assert_eq!(ftl.units_locked(), 0);
        })
        .unwrap();
}

// An aborted command is dropped where it waits: everything it held must be free for others.
#[test]
fn whoever_is_dropped_holds_nothing() {
    for delay_us in (0..1200).step_by(7) {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let ftl = ftl(&clock, TINY, config(130, Base::Filled));
        let mut tasks = Vec::new();
        for number in 0..12u64 {
            let ftl = ftl.clone();
            tasks.push(clock.spawn("doomed", async move {
                let (spans, span, mut out) = (Spans::default(), SpanId::NONE, Vec::new());
                for round in 0..10 {
                    let mut contents: Vec<_> = (0..20).map(|unit| stamp(number * 8 + unit, round)).collect();
                    ftl.write(span, &spans, number * 8, &mut contents, number % 3 == 0).await.unwrap();
                    ftl.modify(span, &spans, number / 4, |_| {}, number % 2 == 0).await.unwrap();
                    ftl.read(span, &spans, 0, 100, &mut out).await.unwrap();
                }
            }));
        }
        let then = ftl.clone();
        executor
            .run(async move {
                clock.sleep(Delay::from_us(delay_us)).await;
                tasks.iter().for_each(|task| clock.kill(*task));
                then.flush(SpanId::NONE, &Spans::default()).await.unwrap();
                clock.sleep(Delay::from_ms(100)).await;
            })
            .unwrap();
        assert_eq!((ftl.slots_free(), ftl.units_locked()), (ftl.slots(), 0), "dropped at {delay_us} us");
        assert_eq!(ftl.flash().tickets_in_use(), 6, "dropped at {delay_us} us");
    }
}

// Units that a flush waits for can also be deallocated: with no program in flight, whose end would have woken
// the flush, it once never completed.
#[test]
fn a_flush_ends_when_what_it_waits_for_is_deallocated() {
    for whole in [true, false] {
        for pause_us in (0..12_000).step_by(250) {
            let executor = Executor::new();
            let clock = executor.clock().clone();
            let one_die = Geometry { channels: 1, planes: 1, blocks: 5, ..TINY };
            let units = 2 * 7;
            let ftl = ftl(&clock, one_die, config(units, Base::Filled));
            let flushed = executor.run(async move {
                let (spans, span) = (Spans::default(), SpanId::NONE);
                for round in 1..=6 {
                    let mut contents = (0..units).map(|lpa| stamp(lpa, round)).collect();
                    ftl.write(span, &spans, 0, &mut contents, round < 6).await.unwrap();
                }
                let flusher = ftl.clone();
                let ended = Rc::new(Notify::new(&clock));
                let end = ended.clone();
                clock.spawn("flush", async move {
                    flusher.flush(SpanId::NONE, &Spans::default()).await.unwrap();
                    end.notify_one();
                });
                clock.sleep(Delay::from_us(pause_us)).await;
                if whole {
                    ftl.trim(span, &spans, 0, units).await.unwrap();
                } else {
                    ftl.trim(span, &spans, 0, units - 1).await.unwrap();
                    ftl.trim(span, &spans, units - 1, 1).await.unwrap();
                }
                ended.notified().await;
            });
            assert_eq!(flushed, Ok(()), "whole: {whole}, after {pause_us} us");
        }
    }
}

// If translation on a peer's cores were charged here, borrowing a processor would show no benefit.
#[test]
fn translation_elsewhere_keeps_the_cores_there_busy() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let rate = Rate::per_second(10_000_000_000);
    let here = Site::new(&clock, 2, 1_000_000_000, Delay::ZERO, rate);
    let there = Site::new(&clock, 1, 500_000_000, Delay::from_ns(600), rate);
    let cycles = Cycles::FREE.with(WorkKind::Translate, 100);
    let placement = Placement::all_at(&here, cycles).with(WorkKind::Translate, &there);
    let ftl = Ftl::new(&clock, placement, TINY, timing(), config(100, Base::Filled)).unwrap();
    executor
        .run(async move {
            let (spans, mut out) = (Spans::default(), Vec::new());
            let span = spans.open(clock.now());
            ftl.read(span, &spans, 0, 1, &mut out).await.unwrap();
            let record = spans.close(span);
            let own = Stage::ALL.into_iter().filter(|stage| !stage.is_remote());
            let stages: Vec<u64> = own.map(|stage| record.stage(stage).0).collect();
            // 100 cycles at 500 MHz, 600 ns of DRAM; 200 ns of command, 40 us of sensing, 4 KiB at 800 MB/s.
            assert_eq!(stages, [0, 0, 0, 0, 200_000, 600_000, 200_000 + 40_000_000 + 5_120_000, 0]);
            ftl.write(SpanId::NONE, &spans, 0, &mut vec![Content::Zero; 3], false).await.unwrap();
        })
        .unwrap();
    assert_eq!((here.busy(), there.busy()), (Delay::ZERO, Delay::from_ns(800)));
}
