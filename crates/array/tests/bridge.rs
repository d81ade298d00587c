//! A bridge's memory: acknowledged data survive a power cut, order is kept, and the capacity is never
//! exceeded.

use crate::levels::disks;
use crate::model::{Model, Storage, run_all};
use crate::ram::{Disk, assemble, config, create, same, stamp};
use byteway_array::{Array, Bridge, Level, Nvram, NvramConfig};
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Executor, SpanId};
use byteway_content::{Content, Keep};
use byteway_firmware::MediaError;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const SMALL: NvramConfig = NvramConfig {
    bytes: 64 << 10,
    small_bytes: 8 << 10,
    stream_window: 0,
    drain_depth: 4,
    is_through: false,
    row_units: 1,
};

fn run<T: 'static>(test: impl AsyncFnOnce(Clock) -> T + 'static) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    executor.run(async move { test(clock).await }).unwrap_or_else(|stalled| panic!("{stalled}"))
}

async fn bridge(clock: &Clock, level: Level, disks: &[Rc<Disk>], memory: NvramConfig) -> Bridge {
    let array = create(clock, config(level), disks).await;
    Bridge::new(clock, array, memory, Nvram::default())
}

// Data drained late must not undo what passed through before, or be lost to it; a cut in the middle of
// draining must leave what was acknowledged. Random I/O, power cuts at any poll, over each level that a
// bridge may have.
#[test]
fn order_and_contents_are_kept_over_power_cuts() {
    for seed in 0..40 {
        let (level, count) = [(Level::Raid0, 3), (Level::Raid5, 3)][seed as usize % 2];
        let disks = disks(count);
        let units = {
            let disks = disks.clone();
            run(async move |clock| create(&clock, config(level), &disks).await.user_units())
        };
        let model = Model::new(units);
        let mut nvram = Nvram::default();
        let mut chance = Rng::new(seed).stream("cuts");
        for life in 0..3 {
            let executor = Executor::new();
            let clock = executor.clock().clone();
            let here: Rc<RefCell<Option<Bridge>>> = Rc::default();
            let (there, model_here, disks_here) = (here.clone(), model.clone(), disks.clone());
            let kept = std::mem::take(&mut nvram);
            let taken = Rc::new(Cell::new(Some(kept)));
            let (given, polls) = (taken.clone(), chance.range(200..=6_000));
            let ran = executor.run_cut(
                async move {
                    let array =
                        assemble(&clock, config(level), &disks_here, seed + life).await.expect("an array");
                    let bridge = Bridge::new(&clock, array, SMALL, given.take().expect("it is given once"));
                    there.replace(Some(bridge.clone()));
                    let storage = Storage::Bridge(bridge);
                    model_here.read_all(storage.clone(), &format!("seed {seed}, life {life}")).await;
                    run_all(&clock, storage, &model_here, seed * 10 + life, 100_000).await;
                },
                polls,
            );
            assert!(ran.is_ok(), "seed {seed}: {ran:?}");
            nvram = match here.take() {
                Some(bridge) => {
                    assert!(bridge.bytes_held() <= SMALL.bytes);
                    bridge.power_off()
                }
                None => taken.take().expect("it was not given"),
            };
            drop(executor);
            disks.iter().for_each(|disk| disk.cut(&mut chance));
            model.cut();
        }
        run(async move |clock| {
            let array = assemble(&clock, config(level), &disks, seed).await.expect("an array");
            let bridge = Bridge::new(&clock, array, SMALL, nvram);
            model.read_all(Storage::Bridge(bridge.clone()), &format!("seed {seed}, at last")).await;
            bridge.shutdown(SpanId::NONE).await.expect("all is drained");
            while bridge.array().state().regions_unsynced > 0 {
                clock.sleep(Delay::from_us(100)).await; // a stripe that is repaired is locked
            }
            assert_eq!((bridge.bytes_held(), bridge.ranges_locked()), (0, 0));
            model.read_all(bridge.array(), &format!("seed {seed}, drained")).await;
        });
    }
}

// A small write is durable once acknowledged, because the memory is non-volatile. Cut at any poll, without a
// flush.
#[test]
fn small_writes_survive_without_a_flush() {
    for seed in 0..30 {
        let disks = disks(2);
        let acknowledged: Rc<RefCell<Vec<u32>>> = Rc::new(RefCell::new(vec![0; 900]));
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let here: Rc<RefCell<Option<Bridge>>> = Rc::default();
        let (there, disks_here, noted) = (here.clone(), disks.clone(), acknowledged.clone());
        let mut chance = Rng::new(seed).stream("small writes");
        let mut cuts = Rng::new(seed).stream("cuts");
        executor
            .run_cut(
                async move {
                    let bridge = bridge(&clock, Level::Raid0, &disks_here, SMALL).await;
                    there.replace(Some(bridge.clone()));
                    for version in 1.. {
                        let unit = chance.below(800);
                        let taken = bridge.counters().writes_taken;
                        let mut contents = vec![stamp(unit, version)];
                        bridge.write(SpanId::NONE, unit, &mut contents, false).await.unwrap();
                        if bridge.counters().writes_taken > taken {
                            noted.borrow_mut()[unit as usize] = version;
                        }
                    }
                },
                cuts.range(500..=5_000),
            )
            .unwrap();
        let nvram = here.take().expect("it was made before").power_off();
        drop(executor);
        disks.iter().for_each(|disk| disk.cut(&mut cuts));
        run(async move |clock| {
            let array = assemble(&clock, config(Level::Raid0), &disks, 1).await.unwrap();
            let bridge = Bridge::new(&clock, array, SMALL, nvram);
            for unit in 0..800 {
                let mut read = Vec::new();
                bridge.read(SpanId::NONE, unit, 1, &mut read).await.unwrap();
                let version = match &read[0] {
                    Content::Stamp(stamp) => stamp.version,
                    _ => 0,
                };
                let least = acknowledged.borrow()[unit as usize];
                assert!(version >= least, "seed {seed}: unit {unit} holds version {version}, not {least}");
            }
        });
    }
}

/// Duration of `count` writes of 512 bytes, one after another.
async fn time_parts(clock: &Clock, bridge: &Bridge, count: u64, place: impl Fn(u64) -> (u64, u32)) -> Delay {
    let content = Content::of(&[7; 4096], Keep::Stamps);
    let begun = clock.now();
    for nth in 0..count {
        let (unit, offset) = place(nth);
        bridge.write_part(SpanId::NONE, unit, offset, 512, &content, false, 512).await.unwrap();
    }
    clock.now().since(begun)
}

// The paper's observation: random writes of 512 bytes are faster than sequential ones, because the memory
// takes them while a stream passes through to the members.
#[test]
fn random_small_writes_are_faster_than_sequential_ones() {
    run(async |clock| {
        let memory = NvramConfig { bytes: 1 << 20, stream_window: 4096, ..SMALL };
        let bridge = bridge(&clock, Level::Raid0, &disks(2), memory).await;
        let sequential = time_parts(&clock, &bridge, 300, |nth| (nth / 8, (nth % 8 * 512) as u32)).await;
        let passed = bridge.counters();
        let random = time_parts(&clock, &bridge, 300, |nth| (100 + nth * 37 % 700, 512)).await;
        let taken = bridge.counters();
        assert_eq!(
            (passed.writes_taken, passed.writes_passed),
            (1, 299),
            "only the first is of no stream yet"
        );
        assert!(taken.writes_taken > 290);
        assert!(sequential > random * 5, "{sequential:?} against {random:?}");
    });
}

// Memory must be bounded: when full it must make writers wait, not fail, and never exceed its capacity.
#[test]
fn a_full_memory_makes_writers_wait() {
    run(async |clock| {
        let bridge = bridge(&clock, Level::Raid0, &disks(2), SMALL).await;
        for worker in 0..8_u64 {
            let bridge = bridge.clone();
            clock.spawn("writer", async move {
                for nth in 0..40 {
                    let unit = (nth * 8 + worker) * 313 % 800;
                    let mut contents = vec![stamp(unit, 1)];
                    bridge.write(SpanId::NONE, unit, &mut contents, false).await.unwrap();
                    assert!(bridge.bytes_held() <= SMALL.bytes);
                }
            });
        }
        clock.sleep(Delay::from_ms(50)).await;
        let counters = bridge.counters();
        assert!(counters.waits > 0 && counters.units_drained > 0, "{counters:?}");
        assert_eq!((bridge.bytes_held(), bridge.ranges_locked()), (0, 0), "drained in the pause behind");
        for unit in (0..320).map(|nth| nth * 313 % 800) {
            let mut read = Vec::new();
            bridge.read(SpanId::NONE, unit, 1, &mut read).await.unwrap();
            assert!(same(&read[0], &stamp(unit, 1)));
        }
    });
}

// Data that the members can no longer take must not be forgotten, and no task may wait for space that never
// comes.
#[test]
fn members_that_fail_leave_the_memory_as_it_is() {
    run(async |clock| {
        let disks = disks(2);
        let bridge = bridge(&clock, Level::Raid0, &disks, SMALL).await;
        disks[0].is_gone.set(true);
        let mut failed = 0;
        for unit in (0..60).map(|nth| nth * 13) {
            let mut contents = vec![stamp(unit, 1)];
            match bridge.write(SpanId::NONE, unit, &mut contents, false).await {
                Ok(()) => {
                    let mut read = Vec::new();
                    bridge.read(SpanId::NONE, unit, 1, &mut read).await.unwrap();
                    assert!(same(&read[0], &stamp(unit, 1)), "it is read from the memory");
                }
                Err(error) => {
                    assert_eq!(error, MediaError::Failed);
                    failed += 1;
                }
            }
        }
        assert!(failed > 0 && bridge.bytes_held() > 0);
        assert_eq!(bridge.flush(SpanId::NONE).await, Err(MediaError::Failed));
        assert_eq!(bridge.shutdown(SpanId::NONE).await, Err(MediaError::Failed));
        // A power cycle, and the drive is back.
        let nvram = bridge.power_off();
        disks[0].is_gone.set(false);
        let array: Array = assemble(&clock, config(Level::Raid0), &disks, 2).await.unwrap();
        let bridge = Bridge::new(&clock, array, SMALL, nvram);
        bridge.shutdown(SpanId::NONE).await.unwrap();
        let mut read = Vec::new();
        bridge.array().read(SpanId::NONE, 0, 1, &mut read).await.unwrap();
        assert!(same(&read[0], &stamp(0, 1)), "and it is drained");
    });
}
