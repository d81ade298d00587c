//! Wear leveling: how evenly superblocks are worn.

use crate::upkeep::fixture::*;
use byteway_clock::random::Rng;
use byteway_clock::{Delay, Executor};
use byteway_firmware::policy::Policies;
use byteway_firmware::{Base, Ftl, FtlConfig, Maintenance};
use byteway_flash::{BlockId, Geometry, Timing};

/// Two dies of 40 superblocks of 8 stripes of 4 units.
const SMALL: Geometry = Geometry { channels: 2, ways: 1, planes: 2, blocks: 40, pages: 8, page_bytes: 8192 };

struct Wear {
    mean: f64,
    least: u32,
    most: u32,
    /// Standard deviation over the mean.
    variation: f64,
    /// Superblocks that were never erased.
    fresh: usize,
    /// Superblocks whose data wear leveling has moved.
    levelled: u64,
    write_amplification: f64,
}

impl Wear {
    fn of(ftl: &Ftl) -> Wear {
        let mut erases = Vec::new();
        ftl.flash().each_erases(|count| erases.push(count));
        let mean = erases.iter().map(|count| f64::from(*count)).sum::<f64>() / erases.len() as f64;
        let squares = erases.iter().map(|count| libm::pow(f64::from(*count) - mean, 2.0)).sum::<f64>();
        Wear {
            mean,
            variation: libm::sqrt(squares / erases.len() as f64) / mean,
            fresh: erases.iter().filter(|count| **count == 0).count(),
            levelled: ftl.counters().blocks_levelled,
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
    println!(
        "mean {:.1}, {} to {}, spread {:.1} %, variation {:.3}, {} fresh, write amplification {:.3}, {} levelled",
        wear.mean,
        wear.least,
        wear.most,
        wear.spread() * 100.0,
        wear.variation,
        wear.fresh,
        wear.write_amplification,
        wear.levelled
    );
    wear
}

fn levelled(policy: &str) -> Maintenance {
    Maintenance { wear: Policies::default().find(policy).unwrap(), ..Maintenance::default() }
}

// Data that never change keep their superblocks from being worn, while the others wear out.
#[test]
fn static_levelling_keeps_the_spread_under_a_tenth_of_the_mean() {
    for base in [Base::Filled, Base::Empty] {
        // Wear leveling keeps a superblock open for cold data, so the others have one less as well.
        let without = skewed(Maintenance { spare_blocks: 1, ..levelled("fifo") }, base, 200, 1);
        let dynamic = skewed(Maintenance { spare_blocks: 1, ..levelled("dynamic") }, base, 200, 1);
        assert!(without.spread() > 0.5 && dynamic.spread() > 0.5, "the workload is skewed");
        for seed in 1..3 {
            let with = skewed(levelled("static:8"), base, 200, seed);
            assert!(with.spread() < 0.1, "{} to {} of {:.0}", with.least, with.most, with.mean);
            // Each superblock of cold data is moved once for as many erases as the spread allows.
            assert!(with.write_amplification < without.write_amplification * 1.2);
        }
    }
}

// Each policy has to do what its paper, or its name, promises; by the wrong one a drive would live another life than is said of it.
#[test]
fn each_policy_levels_as_it_says() {
    const MEAN: u64 = 200;
    let of = |policy: &str| {
        println!("{policy}:");
        let spare_blocks = u32::from(!levelled(policy).wear.make().moves());
        skewed(Maintenance { spare_blocks, ..levelled(policy) }, Base::Filled, MEAN, 1)
    };
    let unlevelled = ["fifo", "dynamic"].map(of);
    // Half of the data is never written again, and stays where it is, but for what shares a superblock with the rest.
    let units = FtlConfig::user_units_at(&Geometry { blocks: SMALL.blocks - 1, ..SMALL }, 1, 0.15);
    let cold = (units / 2) as f64 / f64::from(SMALL.units_per_block());
    for wear in &unlevelled {
        assert!((wear.fresh as f64 - cold).abs() < 4.0, "{} of {cold:.0}", wear.fresh);
        // The others wear alike, so a share `f` that never wears makes the variation sqrt(f / (1 - f)).
        let share = wear.fresh as f64 / f64::from(SMALL.total_blocks());
        assert!((wear.variation - libm::sqrt(share / (1.0 - share))).abs() < 0.02, "{}", wear.variation);
    }
    let mut before = unlevelled[0].write_amplification;
    for limit in [32, 16, 8] {
        let wear = of(&format!("static:{limit}"));
        // Data wait for their turn, while others go on to be erased.
        let most = limit + 8;
        assert!(wear.most - wear.least <= most, "{} to {}: at most {most}", wear.least, wear.most);
        assert!(wear.variation < unlevelled[0].variation / 10.0, "{}", wear.variation);
        // What is never written is moved once for as many erases as counts may be apart; at most, all but the tenth that is hot, and as soon as
        // counts are three quarters of that apart.
        let once = MEAN as f64 / f64::from(limit);
        let (least, most) = (cold * once, 1.8 * cold * once / 0.75);
        assert!((least..most).contains(&(wear.levelled as f64)), "{least:.0} to {most:.0}");
        assert!(wear.write_amplification > before, "evenness costs writes");
        before = wear.write_amplification;
    }
    for period in [80, 40, 20] {
        let wear = of(&format!("random:{period}"));
        let erases = MEAN as f64 * f64::from(SMALL.total_blocks());
        let found = wear.levelled as f64 / (erases / f64::from(period));
        println!("random:{period}: {found:.3} of the moves");
        assert!((0.6..1.1).contains(&found), "one of {period} erases: {found}");
        assert!(wear.variation < unlevelled[0].variation / 1.5, "{}", wear.variation);
    }
}

// Wear leveling that moved the same data to and fro would itself wear the drive out.
#[test]
fn levelling_comes_to_rest() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let units = FtlConfig::user_units_at(&Geometry { blocks: SMALL.blocks - 1, ..SMALL }, 1, 0.28);
    let ftl = ftl(&clock, SMALL, timing(), config(units, Base::Filled, levelled("static:4")));
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
    let run = |policy| {
        let executor = Executor::new();
        let one_die = Geometry { channels: 1, ..TINY };
        let ftl = ftl(executor.clock(), one_die, timing(), config(60, Base::Empty, levelled(policy)));
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
    assert!(run("dynamic") <= 2);
}
