//! Wear leveling: how evenly superblocks are worn.

use crate::upkeep::fixture::*;
use byteway_clock::random::Rng;
use byteway_clock::{Delay, Executor};
use byteway_firmware::{Base, Ftl, FtlConfig, Maintenance, WearConfig};
use byteway_flash::{BlockId, Geometry, Timing};

/// Two dies of 40 superblocks of 8 stripes of 4 units.
const SMALL: Geometry = Geometry { channels: 2, ways: 1, planes: 2, blocks: 40, pages: 8, page_bytes: 8192 };

struct Wear {
    mean: f64,
    least: u32,
    most: u32,
    write_amplification: f64,
}

impl Wear {
    fn of(ftl: &Ftl) -> Wear {
        let mut erases = Vec::new();
        ftl.flash().each_erases(|count| erases.push(count));
        Wear {
            mean: erases.iter().map(|count| f64::from(*count)).sum::<f64>() / erases.len() as f64,
            least: *erases.iter().min().unwrap(),
            most: *erases.iter().max().unwrap(),
            write_amplification: ftl.counters().write_amplification(),
        }
    }

    /// Relative to the mean.
    fn spread(&self) -> f64 {
        f64::from(self.most - self.least) / self.mean
    }
}

/// Writes single units until the mean of all erase counts is `mean`: nine of ten go to a tenth of the drive,
/// and half of it is never written again.
fn skewed(upkeep: Maintenance, base: Base, mean: u64, seed: u64) -> Wear {
    let executor = Executor::new();
    let fast = Timing { erase: Delay::from_us(500), program: vec![Delay::from_us(50)], ..timing() };
    let units = FtlConfig::user_units_at(&Geometry { blocks: SMALL.blocks - 1, ..SMALL }, 1, 0.15);
    let ftl = ftl(executor.clock(), SMALL, fast, config(units, base, upkeep));
    let then = ftl.clone();
    executor
        .run(async move {
            let mut stream = Rng::new(seed).stream("skewed");
            if base == Base::Empty {
                for lpa in 0..units {
                    write(&ftl, lpa, 1, 0).await.unwrap();
                }
            }
            let mut versions = vec![0; units as usize];
            while ftl.flash().counters().erases < mean * u64::from(SMALL.total_blocks()) {
                for _ in 0..256 {
                    let most = if stream.chance(0.9) { units / 10 } else { units / 2 };
                    let lpa = stream.below(most);
                    versions[lpa as usize] += 1;
                    write(&ftl, lpa, 1, versions[lpa as usize]).await.unwrap();
                }
            }
            for lpa in 0..units {
                assert_eq!(version(&ftl, lpa).await, Some(versions[lpa as usize]), "unit {lpa}");
            }
        })
        .unwrap();
    let wear = Wear::of(&then);
    let counters = then.counters();
    println!(
        "mean {:.1}, {} to {}, spread {:.1} %, write amplification {:.3}, {} levelled",
        wear.mean,
        wear.least,
        wear.most,
        wear.spread() * 100.0,
        wear.write_amplification,
        counters.blocks_levelled
    );
    wear
}

fn levelled(dynamic: bool, static_spread: Option<u32>) -> Maintenance {
    Maintenance { wear: WearConfig { dynamic, static_spread }, ..Maintenance::default() }
}

// Data that never change keep their superblocks from being worn, while the others wear out.
#[test]
fn static_levelling_keeps_the_spread_under_a_tenth_of_the_mean() {
    for base in [Base::Filled, Base::Empty] {
        // Wear leveling keeps a superblock open for cold data, so the others have one less as well.
        let without = skewed(Maintenance { spare_blocks: 1, ..levelled(false, None) }, base, 200, 1);
        let dynamic = skewed(Maintenance { spare_blocks: 1, ..levelled(true, None) }, base, 200, 1);
        assert!(without.spread() > 0.5 && dynamic.spread() > 0.5, "the workload is skewed");
        for seed in 1..3 {
            let with = skewed(levelled(true, Some(8)), base, 200, seed);
            assert!(with.spread() < 0.1, "{} to {} of {:.0}", with.least, with.most, with.mean);
            // Each superblock of cold data is moved once for as many erases as the spread allows.
            assert!(with.write_amplification < without.write_amplification * 1.2);
        }
    }
}

// Wear leveling that moved the same data to and fro would itself wear the drive out.
#[test]
fn levelling_comes_to_rest() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let units = FtlConfig::user_units_at(&Geometry { blocks: SMALL.blocks - 1, ..SMALL }, 1, 0.28);
    let ftl = ftl(&clock, SMALL, timing(), config(units, Base::Filled, levelled(true, Some(4))));
    let then = ftl.clone();
    executor
        .run(async move {
            for version in 1..200 {
                write(&ftl, u64::from(version) % 16 * 16, 16, version).await.unwrap();
            }
            flush(&ftl).await.unwrap();
            clock.sleep(Delay::from_s(20)).await;
            let moved = ftl.counters().blocks_levelled;
            clock.sleep(Delay::from_s(100)).await;
            assert_eq!(ftl.counters().blocks_levelled, moved);
        })
        .unwrap();
    let counters = then.counters();
    assert!(counters.blocks_levelled < counters.blocks_collected, "{counters:?}");
}

// The superblock with the fewest erases must be opened next, or it never catches up.
#[test]
fn a_worn_superblock_is_spared() {
    let run = |dynamic| {
        let executor = Executor::new();
        let one_die = Geometry { channels: 1, ..TINY };
        let ftl = ftl(executor.clock(), one_die, timing(), config(60, Base::Empty, levelled(dynamic, None)));
        let then = ftl.clone();
        executor
            .run(async move {
                for version in 1..400 {
                    write(&ftl, u64::from(version) % 3 * 8, 8, version).await.unwrap();
                }
            })
            .unwrap();
        let erases = (0..12).map(|block| then.flash().erases(BlockId(block)));
        erases.clone().max().unwrap() - erases.min().unwrap()
    };
    assert!(run(true) <= 2);
}
