//! Distributions, sizes and rates against their analytic values.

use super::*;

const COUNT: u64 = 100_000;

fn random(distribution: &str, range_blocks: u64) -> Vec<u64> {
    let distribution = distribution.parse().unwrap();
    let settings = JobSettings { range_blocks, range_lba: 0, count: Some(COUNT), ..settings() };
    let plan = job(settings, Synthetic { distribution, ..Synthetic::fixed(Rw::RandRead, 1) });
    ios(&plan, 0).iter().map(|io| io.lba).collect()
}

/// Shares of the accesses to the most popular blocks, for each of these numbers of blocks.
fn popular(lbas: &[u64], tops: &[usize]) -> Vec<f64> {
    let mut counts = std::collections::BTreeMap::<u64, u64>::new();
    lbas.iter().for_each(|lba| *counts.entry(*lba).or_default() += 1);
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    tops.iter().map(|top| counts.iter().take(*top).sum::<u64>() as f64 / lbas.len() as f64).collect()
}

fn near(shares: &[f64], expected: &[f64], tolerance: f64) {
    for (share, expected) in shares.iter().zip(expected) {
        assert!((share - expected).abs() < tolerance, "{shares:?} instead of {expected:?}");
    }
}

// A wrong skew changes hit rate, wear and tail latency, and still looks plausible.
#[test]
fn skewed_distributions_have_their_analytic_shares() {
    // 1000 blocks: few enough that each one's count is near its mean.
    let harmonic = |n: u32| (1..=n).map(|rank| 1.0 / libm::pow(f64::from(rank), 1.2)).sum::<f64>();
    let zipf = [harmonic(10) / harmonic(1000), harmonic(100) / harmonic(1000)];
    near(&popular(&random("zipf:1.2", 1000), &[10, 100]), &zipf, 0.01);
    // P(rank below x of all) = x^(1 / power), power = ln h / ln(1 - h): 80 % go to 20 %, and 80 % of those to 20 % of them.
    near(&popular(&random("pareto:0.2", 1000), &[200, 40, 8]), &[0.8, 0.64, 0.512], 0.01);
    // Within one and two standard deviations of 100 blocks on both sides, truncated at five.
    near(&popular(&random("normal:10", 1000), &[200, 400]), &[0.6827, 0.9545], 0.01);
    near(&popular(&random("random", 1000), &[500]), &[0.5], 0.05);
}

// Scattered zones, or zones of another size, would load another part of the drive.
#[test]
fn zones_take_their_shares_where_they_lie() {
    let within = |lbas: &[u64], from: u64, to: u64| {
        lbas.iter().filter(|lba| (from..to).contains(*lba)).count() as f64 / lbas.len() as f64
    };
    let lbas = random("zoned:60/10:30/20:8/30:2/", 1000);
    let shares = [(0, 100), (100, 300), (300, 600), (600, 1000)].map(|(from, to)| within(&lbas, from, to));
    near(&shares, &[0.6, 0.3, 0.08, 0.02], 0.01);
    let lbas = random("zoned_abs:90/400k:10/1m", 1000);
    near(&[within(&lbas, 0, 100), within(&lbas, 100, 356)], &[0.9, 0.1], 0.01);
    assert!(lbas.iter().all(|lba| *lba < 356), "nothing behind the last zone");
}

// Every published result with such a job depends on these numbers.
#[test]
fn the_first_draws_are_pinned() {
    let first = |distribution: &str| random(distribution, 1 << 20)[..4].to_vec();
    let drawn = ["random", "zipf:0.9", "pareto:0.2", "normal:10", "zoned:60/10:40/"].map(first);
    assert_eq!(drawn, GOLDEN);
}

const GOLDEN: [[u64; 4]; 5] = [
    [594552, 62843, 53136, 761680],
    [561688, 689681, 760763, 781532],
    [535499, 896587, 896587, 62387],
    [404623, 860245, 881275, 23794],
    [6284, 76167, 1033551, 37032],
];

// fio touches each block once before any twice; with repetition, a pass would miss a third of the range.
#[test]
fn without_repetition_each_block_comes_once() {
    let synthetic = Synthetic { once: true, ..Synthetic::fixed(Rw::RandWrite, 2) };
    let plan = job(JobSettings { count: Some(96), ..settings() }, synthetic);
    let lbas: Vec<u64> = ios(&plan, 0).iter().map(|io| io.lba).collect();
    let sorted = |lbas: &[u64]| {
        let mut lbas = lbas.to_vec();
        lbas.sort_unstable();
        lbas
    };
    let all: Vec<u64> = (1000..1064).step_by(2).collect();
    let passes: Vec<&[u64]> = lbas.chunks(32).collect();
    assert!(passes.iter().all(|pass| sorted(pass) == all));
    assert!(passes[0] != passes[1] && passes[1] != passes[2] && passes[0] != all);
}

fn split(parts: &[(u32, u32)]) -> Lengths {
    Lengths::Split(parts.to_vec())
}

// Sizes with other shares are another load, even more so in bytes than in I/Os.
#[test]
fn sizes_have_their_shares_and_addresses_do_not_change_with_them() {
    let sized = |read: Lengths, write: Lengths| {
        let lengths = ByKind { read, write, trim: Lengths::Fixed(1) };
        let settings = JobSettings { range_blocks: 100_000, count: Some(COUNT), ..settings() };
        ios(&job(settings, Synthetic { lengths, ..Synthetic::fixed(Rw::RandRw, 1) }), 0)
    };
    let mixed = sized(split(&[(1, 60), (16, 40)]), Lengths::Range { min: 2, max: 8 });
    let of = |kind: Kind| mixed.iter().filter(move |io| io.kind == kind);
    let share = |kind: Kind, blocks: u32| {
        of(kind).filter(|io| io.blocks == blocks).count() as f64 / of(kind).count() as f64
    };
    near(&[share(Kind::Read, 1), share(Kind::Read, 16)], &[0.6, 0.4], 0.01);
    let writes = [2, 4, 6, 8].map(|blocks| share(Kind::Write, blocks));
    near(&writes, &[0.25; 4], 0.01);
    assert!(of(Kind::Write).all(|io| (io.lba - 1000) % 2 == 0), "aligned to the least write");
    assert!(mixed.iter().all(|io| io.lba + u64::from(io.blocks) <= 101_000));
    let plain = sized(Lengths::Fixed(1), Lengths::Fixed(2));
    let moved = plain.iter().zip(&mixed).filter(|(a, b)| a.lba != b.lba).count();
    assert!(moved < 50, "only what would run over the end is moved: {moved}");
    assert!(plain.iter().zip(&mixed).all(|(a, b)| a.kind == b.kind));
}

// An overlapping pass writes some blocks twice, and one with gaps leaves some unread.
#[test]
fn sequential_mixed_sizes_cover_the_range_once() {
    for workers in [1, 3] {
        let lengths = ByKind {
            read: split(&[(1, 50), (5, 50)]),
            write: Lengths::Range { min: 2, max: 6 },
            trim: Lengths::Fixed(1),
        };
        let synthetic = Synthetic { lengths, ..Synthetic::fixed(Rw::Rw, 1) };
        let settings = JobSettings { workers, count: None, io_bytes: Some(64 * 4096), ..settings() };
        let plan = job(settings, synthetic);
        let mut touched = vec![0; 64];
        for worker in 0..workers {
            for io in ios(&plan, worker) {
                (io.lba..io.lba + u64::from(io.blocks)).for_each(|lba| touched[lba as usize - 1000] += 1);
            }
        }
        assert!(touched.iter().all(|times| *times == 1), "{touched:?}");
    }
}

// A write before its trim would leave the block empty, unlike fio.
#[test]
fn each_block_is_trimmed_and_then_written() {
    for rw in [Rw::TrimWrite, Rw::RandTrimWrite] {
        let settings = JobSettings { count: None, io_bytes: Some(64 * 4096), ..settings() };
        let plan = job(settings, Synthetic::fixed(rw, 2));
        let ios = ios(&plan, 0);
        assert_eq!((ios.len(), plan.command_count()), (64, Some(64)));
        for pair in ios.chunks(2) {
            assert_eq!((pair[0].kind, pair[1].kind), (Kind::Trim, Kind::Write));
            assert_eq!((pair[0].lba, pair[0].blocks), (pair[1].lba, pair[1].blocks));
        }
    }
}

// With an amount of bytes, each worker must do its part, and no more.
#[test]
fn bytes_end_a_job() {
    let plan = |rw, workers, blocks: u64| {
        let settings = JobSettings { workers, count: None, io_bytes: Some(blocks * 4096), ..settings() };
        job(settings, Synthetic::fixed(rw, 2))
    };
    let issued = |plan: &JobPlan| -> Vec<usize> {
        let all: Vec<usize> = (0..plan.workers).map(|worker| ios(plan, worker).len()).collect();
        assert_eq!(plan.command_count(), Some(all.iter().sum::<usize>() as u64));
        all
    };
    assert_eq!(issued(&plan(Rw::Read, 1, 64)), [32]);
    assert_eq!(issued(&plan(Rw::Read, 1, 128)), [64], "twice over the range");
    assert_eq!(issued(&plan(Rw::RandRead, 2, 10)), [3, 3], "the last may go beyond");
    assert_eq!(issued(&plan(Rw::Read, 3, 64)), [10, 11, 11]);
    let mut own = plan(Rw::Write, 2, 128);
    own.stride_blocks = Some(16);
    assert_eq!(issued(&own), [32, 32]);
    assert_eq!((ios(&own, 0)[0].lba, ios(&own, 1)[0].lba), (1000, 1016));
}

// A limit that each worker took for itself would be exceeded.
#[test]
fn caps_bound_each_direction() {
    let capped = |cap, workers| {
        job(JobSettings { cap: Some(cap), workers, ..settings() }, Synthetic::fixed(Rw::RandRw, 2))
    };
    let iops = Cap::Iops(ByKind { read: Some(1000), write: Some(500), trim: None });
    let mut last = ByKind::from_fn(|_| (0, 0));
    for worker in 0..2 {
        for io in ios(&capped(iops, 2), worker) {
            let (count, at) = last.get_mut(io.kind);
            *count += 1;
            *at = io.at.unwrap().max(*at);
        }
    }
    let rate = |(count, at): (u64, u64)| count as f64 / (at as f64 / 1e12);
    near(&[rate(last.read) / 1000.0, rate(last.write) / 500.0], &[1.0, 1.0], 0.1);
    let bytes = Cap::Bytes(ByKind { read: Some(8192 * 100), write: None, trim: None });
    let ios = ios(&capped(bytes, 1), 0);
    let reads: Vec<_> = ios.iter().filter(|io| io.kind == Kind::Read).map(|io| io.at).collect();
    assert_eq!(reads[..3], [Some(0), Some(10_000_000_000), Some(20_000_000_000)]);
    assert!(ios.iter().filter(|io| io.kind == Kind::Write).all(|io| io.at.is_none()));
}
