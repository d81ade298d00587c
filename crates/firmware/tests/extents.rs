//! The map as a B+-tree of extents: compared with a freshly built one, and its memory and cost.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use crate::far;
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_content::Content;
use byteway_firmware::{Base, Cycles, ExtentConfig, Ftl, FtlConfig, FtlError, Placement, Site, WorkKind};
use byteway_flash::{FaultPlan, Geometry, Timing};

/// Nodes of five extents, and of eight children: small drives have high trees.
pub const SMALL_NODES: ExtentConfig =
    ExtentConfig { node_bytes: 128, entry_bytes: 24, child_bytes: 16, fill_percent_min: 50 };

/// Four dies, stripes of four units.
const GEOMETRY: Geometry =
    Geometry { channels: 4, ways: 1, planes: 2, blocks: 24, pages: 24, page_bytes: 8192 };

const UNITS: u64 = 6000;

fn config() -> FtlConfig {
    FtlConfig {
        user_units: UNITS,
        write_buffer_units: 64,
        extents: Some(SMALL_NODES),
        ..FtlConfig::default()
    }
}

fn timing() -> Timing {
    let us = Delay::from_us;
    Timing { read: vec![us(40)], program: vec![us(300)], erase: us(3000), ..Timing::default() }
}

/// One core of 1 GHz, on which visiting a node takes 100 ns and buffering a unit 10.
fn drive(clock: &Clock, config: FtlConfig) -> (Ftl, Site) {
    let site = Site::new(clock, 1, 1_000_000_000, Delay::ZERO, Rate::per_second(1_000_000_000_000));
    let placement =
        Placement::all_at(&site, Cycles::FREE.with(WorkKind::Translate, 100).with(WorkKind::Buffer, 10));
    (Ftl::new(clock, placement, GEOMETRY, timing(), config).unwrap(), site)
}

async fn write(ftl: &Ftl, first: u64, count: u64) {
    let mut contents = vec![Content::Zero; count as usize];
    ftl.write(SpanId::NONE, &Spans::default(), first, &mut contents, false).await.unwrap();
}

async fn flush(ftl: &Ftl) {
    ftl.flush(SpanId::NONE, &Spans::default()).await.unwrap();
}

async fn trim(ftl: &Ftl, first: u64, count: u64) {
    ftl.trim(SpanId::NONE, &Spans::default(), first, count).await.unwrap();
}

// An extent that only the tree has, or only the map, is memory and work that a real drive would not have.
// With garbage collection, runs, partial and full deallocation, and overwrites of units in flight.
#[test]
fn the_tree_has_the_extents_of_the_map() {
    for (seed, fill_percent_min) in (0..6).zip([50, 33, 50, 1, 50, 40]) {
        let executor = Executor::new();
        let extents = Some(ExtentConfig { fill_percent_min, ..SMALL_NODES });
        let (ftl, _) = drive(executor.clock(), FtlConfig { extents, ..config() });
        let main = async move {
            let mut stream = Rng::new(seed).stream("host");
            let (mut highest, mut most) = (0, 0);
            for step in 0..6000 {
                let first = stream.below(UNITS);
                let count = (1 + stream.below(40)).min(UNITS - first);
                match stream.below(1000) {
                    0 if step > 4000 => trim(&ftl, 0, UNITS).await,
                    0..3 => trim(&ftl, first, stream.below(UNITS - first)).await,
                    3..40 => trim(&ftl, first, count).await,
                    40..60 => flush(&ftl).await,
                    60..200 => write(&ftl, first, count).await,
                    _ => write(&ftl, first, 1).await,
                }
                if step % 40 == 0 {
                    ftl.check_extents();
                }
                let footprint = ftl.footprint();
                highest = highest.max(footprint.height);
                most = most.max(footprint.extents);
            }
            ftl.check_extents();
            assert!(highest >= 4 && most > 800, "seed {seed}: {highest} levels, {most} extents");
            assert!(ftl.counters().blocks_collected > 50, "seed {seed}: {:?}", ftl.counters());
        };
        executor.run(main).unwrap();
    }
}

// A tree whose memory only grows is wrong: a run written in order is one extent again, and deallocated units
// take no node.
#[test]
fn the_tree_shrinks_when_runs_come_together_or_go() {
    let executor = Executor::new();
    let (ftl, _) = drive(executor.clock(), config());
    let main = async move {
        let empty = ftl.footprint();
        assert_eq!((empty.map, empty.nodes, empty.extents, empty.height), (128, 1, 0, 1));
        write(&ftl, 0, 2000).await;
        flush(&ftl).await;
        let run = ftl.footprint();
        assert_eq!((run.extents, run.nodes, run.height), (1, 1, 1), "the run goes round all dies");
        let mut stream = Rng::new(7).stream("host");
        for _ in 0..500 {
            write(&ftl, stream.below(2000), 1).await;
        }
        flush(&ftl).await;
        let scattered = ftl.footprint();
        assert!(scattered.extents > 500 && scattered.height >= 4, "{scattered:?}");
        assert_eq!(scattered.map, scattered.nodes * 128);
        assert!(scattered.nodes * 5 > scattered.extents && scattered.nodes < scattered.extents);
        write(&ftl, 0, 2000).await;
        flush(&ftl).await;
        let again = ftl.footprint();
        assert!(again.extents < 60, "but for what was moved meanwhile: {again:?}");
        trim(&ftl, 500, 1000).await;
        ftl.check_extents();
        trim(&ftl, 0, UNITS).await;
        let nothing = ftl.footprint();
        assert_eq!((nothing.map, nothing.nodes, nothing.extents), (128, 1, 0));
        assert_eq!((nothing.buffer, nothing.buffer_index), (0, 0));
    };
    executor.run(main).unwrap();
}

// The tree is rebuilt from stripe numbers, which the host has to read first: without them it would consist of
// single stripes.
#[test]
fn across_a_link_the_extents_are_the_same_afterwards() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let raw = far::raw_drive(GEOMETRY, timing(), &config());
    let drive = far::power_on(&clock, raw, FaultPlan::default(), 1, None);
    let mut before = None;
    for _ in 0..3 {
        let far = executor.run(far::attach(drive.host.clone())).unwrap();
        let site = Site::new(&clock, 1, 1_000_000_000, Delay::ZERO, Rate::per_second(1_000_000_000));
        let ftl = Ftl::over(&clock, Placement::all_at(&site, Cycles::FREE), far, config()).unwrap();
        let (inner, is_new) = (ftl.clone(), before.is_none());
        let extents = executor.run(async move {
            inner.ready().await;
            if is_new {
                write(&inner, 100, 1500).await;
                for unit in 0..50 {
                    write(&inner, 400 + 7 * unit, 1).await;
                }
                inner.shutdown(SpanId::NONE, &Spans::default()).await.unwrap();
            }
            inner.check_extents();
            inner.footprint().extents
        });
        let extents = extents.unwrap();
        assert!((101..120).contains(&extents), "{extents}");
        assert_eq!(*before.get_or_insert(extents), extents);
        ftl.stop();
    }
}

// A read whose cost ignores the state of the map says nothing about a tree; a change without cost says less.
#[test]
fn work_is_paid_for_each_node_that_is_visited() {
    let executor = Executor::new();
    let (ftl, site) = drive(executor.clock(), config());
    let clock = executor.clock().clone();
    let main = async move {
        let spans = Spans::default();
        let mut out = Vec::new();
        let mut read = async |first, count| {
            let before = site.busy();
            ftl.read(SpanId::NONE, &spans, first, count, &mut out).await.unwrap();
            site.busy().saturating_sub(before)
        };
        assert_eq!(read(0, 1).await, Delay::from_ns(100), "the root is a leaf");
        assert_eq!(read(0, 40).await, Delay::from_ns(100));
        let before = site.busy();
        write(&ftl, 0, 4).await;
        assert_eq!(site.busy().saturating_sub(before), Delay::from_ns(40), "the tree has not changed yet");
        flush(&ftl).await;
        clock.sleep(Delay::from_ms(1)).await;
        let changed = site.busy().saturating_sub(before);
        assert_eq!(changed, Delay::from_ns(40 + 100), "one run, one leaf");
        // Every other unit, so each is an extent.
        for unit in (0..60).rev() {
            write(&ftl, 2 * unit, 1).await;
        }
        flush(&ftl).await;
        clock.sleep(Delay::from_ms(1)).await;
        let height = ftl.footprint().height;
        assert!(height >= 3, "{:?}", ftl.footprint());
        assert_eq!(read(30, 1).await, Delay::from_ns(100) * u64::from(height));
        let many = read(0, 120).await;
        let leaves = ftl.footprint().extents.div_ceil(5);
        assert!(many >= Delay::from_ns(100) * (leaves + u64::from(height) - 1), "{many:?}");
        let before = site.busy();
        trim(&ftl, 0, 120).await;
        let trimmed = site.busy().saturating_sub(before);
        assert!(trimmed >= Delay::from_ns(100) * leaves, "each leaf is emptied: {trimmed:?}");
    };
    executor.run(main).unwrap();
}

// Buffered units and their index are the host's memory, like the map.
#[test]
fn what_is_buffered_counts_while_it_is() {
    let executor = Executor::new();
    let (ftl, _) = drive(executor.clock(), config());
    let main = async move {
        write(&ftl, 5, 3).await;
        let waiting = ftl.footprint();
        assert_eq!((waiting.buffer, waiting.buffer_index, waiting.extents), (3 * 4096, 3 * 16, 0));
        flush(&ftl).await;
        let settled = ftl.footprint();
        assert_eq!((settled.buffer, settled.extents), (0, 1));
        assert_eq!(settled.bytes(), settled.map + settled.superblocks);
    };
    executor.run(main).unwrap();
    let executor = Executor::new();
    let (ftl, _) = drive(executor.clock(), FtlConfig { extents: None, ..config() });
    assert_eq!((ftl.footprint().map, ftl.footprint().nodes), (4 * UNITS, 0), "a table of entries of 4 bytes");
}

// An impossible tree must be refused with a reason, not discovered when the drive is half written.
#[test]
fn trees_that_cannot_be_are_refused() {
    let refused = |config: FtlConfig| {
        let executor = Executor::new();
        let site = Site::new(executor.clock(), 1, 1, Delay::ZERO, Rate::per_second(1));
        let placement = Placement::all_at(&site, Cycles::FREE);
        match Ftl::new(executor.clock(), placement, GEOMETRY, timing(), config) {
            Err(FtlError::Extents(why)) => why,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was taken"),
        }
    };
    let with = |extents| FtlConfig { extents: Some(extents), ..config() };
    assert!(refused(with(ExtentConfig { node_bytes: 95, ..SMALL_NODES })).contains("4 to 65535"));
    assert!(refused(with(ExtentConfig { child_bytes: 33, ..SMALL_NODES })).contains("4 to 65535"));
    assert!(refused(with(ExtentConfig { entry_bytes: 0, ..SMALL_NODES })).contains("one byte"));
    assert!(refused(with(ExtentConfig { node_bytes: u32::MAX, ..SMALL_NODES })).contains("4 to 65535"));
    assert!(refused(with(ExtentConfig { fill_percent_min: 51, ..SMALL_NODES })).contains("fill_percent_min"));
    assert!(refused(FtlConfig { base: Base::Filled, ..config() }).contains("base"));
    assert!(refused(FtlConfig { map_cache_pages: Some(1), ..config() }).contains("map_cache_pages"));
}
