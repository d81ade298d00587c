//! Superblocks in one-bit mode that take host writes first.

use crate::upkeep::fixture::*;
use byteway_clock::{Delay, Executor};
use byteway_firmware::policy::Policies;
use byteway_firmware::{Background, Base, DynamicCache, Ftl, Maintenance};
use byteway_flash::{BlockId, FaultPlan, Geometry, Mode, SlcTiming, Timing};

fn cache(slc_blocks: u32) -> Maintenance {
    Maintenance { slc_blocks, ..Maintenance::default() }
}

/// One die: superblocks of 6 stripes, or of 2 in one-bit mode.
const ONE_DIE: Geometry = Geometry { channels: 1, ..TINY };

// Writes that fit into the cache must take its times, lie there, and be found; the rest bypasses it.
#[test]
fn writes_go_to_the_cache_while_there_is_room() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = ftl(&clock, ONE_DIE, three_bits(), config(60, Base::Empty, cache(2)));
    executor
        .run(async move {
            assert_eq!(ftl.flash().mode(BlockId(11)), Mode::OneBit);
            assert_eq!(ftl.flash().mode(BlockId(9)), Mode::Full);
            let begin = clock.now();
            write(&ftl, 0, 4, 1).await.unwrap();
            flush(&ftl).await.unwrap();
            let time = clock.now().since(begin);
            assert!(time > Delay::from_us(100) && time < Delay::from_us(200), "{time}");
            assert_eq!(ftl.valid_units(BlockId(10)).0, 4);
            // The cache has four stripes; later ones are programmed at the usual pace.
            write(&ftl, 4, 24, 1).await.unwrap();
            flush(&ftl).await.unwrap();
            let counters = ftl.counters();
            assert_eq!((counters.units_programmed_cache, counters.units_programmed_host), (16, 28));
            for lpa in 0..28 {
                assert_eq!(version(&ftl, lpa).await, Some(1), "unit {lpa}");
            }
            // It is full, so it is folded in the background, and free again.
            clock.sleep(Delay::from_ms(50)).await;
            let counters = ftl.counters();
            assert!(counters.blocks_folded > 0 && counters.units_programmed_folding >= 8, "{counters:?}");
            let before = counters.units_programmed_cache;
            write(&ftl, 0, 4, 2).await.unwrap();
            flush(&ftl).await.unwrap();
            assert_eq!(ftl.counters().units_programmed_cache, before + 4);
            for lpa in 0..28 {
                assert_eq!(version(&ftl, lpa).await, Some(if lpa < 4 { 2 } else { 1 }), "unit {lpa}");
            }
        })
        .unwrap();
}

// An idle drive empties its cache, so that the next burst finds space there.
#[test]
fn an_idle_drive_folds_its_cache() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let background = Some(Background { idle: Delay::from_ms(1), free_blocks: 2 });
    let upkeep = Maintenance { background, ..cache(4) };
    let ftl = ftl(&clock, ONE_DIE, three_bits(), config(60, Base::Empty, upkeep));
    executor
        .run(async move {
            write(&ftl, 0, 16, 1).await.unwrap();
            flush(&ftl).await.unwrap();
            assert_eq!(ftl.counters().blocks_folded, 0, "half of it is free");
            clock.sleep(Delay::from_ms(100)).await;
            assert_eq!(ftl.counters().blocks_folded, 2);
            assert_eq!(ftl.counters().units_programmed_folding, 16);
        })
        .unwrap();
}

/// A cache that borrows `most` superblocks of an empty die, and none of one of which `until` hold data.
fn dynamic(most: u32, until: u32) -> Maintenance {
    Maintenance { slc_dynamic: DynamicCache { most, until }, slc_folds_idle: true, ..cache(0) }
}

/// One die of 24 superblocks of 24 units, or of 8 in one-bit mode.
const LARGER: Geometry = Geometry { blocks: 24, ..ONE_DIE };

// Client drives take a burst at one bit a cell into what is free, more of it the emptier they are; then they write all bits directly, and fold
// where no other space is left. Nothing of that may take space that the data need.
#[test]
fn a_dynamic_cache_is_as_large_as_the_drive_is_empty_and_gives_back_what_is_needed() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = ftl(&clock, LARGER, three_bits(), config(250, Base::Empty, dynamic(18, 20)));
    executor
        .run(async move {
            // All eighteen are lent while no other holds data.
            write(&ftl, 0, 144, 1).await.unwrap();
            flush(&ftl).await.unwrap();
            let one_bit = (0..24).filter(|block| ftl.flash().mode(BlockId(*block)) == Mode::OneBit).count();
            assert_eq!((ftl.counters().units_programmed_cache, one_bit), (144, 18));
            // The rest goes past the cache, until what was lent is needed, of which emptying takes the least.
            write(&ftl, 144, 106, 1).await.unwrap();
            flush(&ftl).await.unwrap();
            clock.sleep(Delay::from_ms(100)).await;
            let counters = ftl.counters();
            assert_eq!(counters.units_programmed_cache, 144, "none is lent beside eighteen");
            let collected = (counters.blocks_collected, counters.units_programmed_collector);
            assert!(collected.0 >= 2 && collected.1 == 8 * collected.0, "{counters:?}");
            for lpa in 0..250 {
                assert_eq!(version(&ftl, lpa).await, Some(1), "unit {lpa}");
            }
        })
        .unwrap();
}

// An idle drive gives back what it has lent, so that the next burst has most of it.
#[test]
fn an_idle_drive_folds_its_dynamic_cache() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let background = Some(Background { idle: Delay::from_ms(1), free_blocks: 2 });
    let upkeep = Maintenance { background, ..dynamic(6, 10) };
    let ftl = ftl(&clock, LARGER, three_bits(), config(250, Base::Empty, upkeep));
    executor
        .run(async move {
            write(&ftl, 0, 48, 1).await.unwrap();
            flush(&ftl).await.unwrap();
            assert_eq!(ftl.counters().blocks_folded, 0, "the host is not idle");
            clock.sleep(Delay::from_ms(100)).await;
            assert_eq!(ftl.counters().blocks_folded, 6);
            // Two superblocks hold the data now, so four fifths of six are lent.
            write(&ftl, 48, 60, 1).await.unwrap();
            flush(&ftl).await.unwrap();
            assert_eq!(ftl.counters().units_programmed_cache, 48 + 32);
        })
        .unwrap();
}

// Units overwritten in the cache need not be folded: that is the saving of a cache.
#[test]
fn what_is_stale_in_the_cache_is_not_moved() {
    let executor = Executor::new();
    let ftl = ftl(executor.clock(), ONE_DIE, three_bits(), config(60, Base::Empty, cache(4)));
    let then = ftl.clone();
    executor
        .run(async move {
            for round in 1..100 {
                write(&ftl, 0, 8, round).await.unwrap();
                flush(&ftl).await.unwrap();
            }
            assert_eq!(version(&ftl, 7).await, Some(99));
        })
        .unwrap();
    let counters = then.counters();
    assert!(counters.blocks_folded > 20);
    assert!(counters.units_programmed_folding < counters.units_programmed_cache / 4, "{counters:?}");
}

fn faults(seed: u64) -> FaultPlan {
    match seed % 3 {
        0 => FaultPlan::default(),
        _ => FaultPlan { program: 0.002, erase: 0.004, ..FaultPlan::default() },
    }
}

// With a cache, as without, the last write is what is read; also when it fails, wears out, or everything is
// requested at once.
#[test]
fn what_was_written_last_is_read() {
    let mut folded = 0;
    for seed in 0..24 {
        for base in [Base::Empty, Base::Filled, Base::Steady] {
            let mut upkeep = Maintenance { spare_blocks: 1, ..cache(seed as u32 % 4) };
            if upkeep.slc_blocks != 1 {
                upkeep.slc_dynamic = DynamicCache { most: 1 + seed as u32 % 7, until: 8 };
                upkeep.slc_folds_idle = seed % 3 == 0;
            }
            if seed % 2 == 1 {
                upkeep.wear = Policies::default().find("static:3").unwrap();
                upkeep.background = Some(Background { idle: Delay::from_us(700), free_blocks: 4 });
                upkeep.refresh = Some(byteway_firmware::Refresh { reads: 60, age: Delay::from_ms(300) });
            }
            let ran = check(
                seed,
                TINY,
                with_faults(timing(), faults(seed), seed),
                config(2 * 4 * 21, base, upkeep),
                400,
            );
            assert_eq!(ran.lost, 0, "seed {seed}");
            folded += ran.counters.blocks_folded;
        }
    }
    assert!(folded > 500, "{folded}");
}

// Without times of one-bit mode there is no such cache: a file that asks for it must be refused with the
// reason.
#[test]
fn a_cache_needs_its_times() {
    let executor = Executor::new();
    let clock = executor.clock();
    let without = Timing { slc: None::<SlcTiming>, ..timing() };
    let made = Ftl::new(clock, placement(clock), ONE_DIE, without, config(96, Base::Empty, cache(2)));
    assert!(made.err().unwrap().to_string().contains("flash.slc"));
}
