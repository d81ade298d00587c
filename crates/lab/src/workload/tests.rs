//! What every generator keeps to.

use std::io::Write;

use super::*;
use crate::error::InputError;

fn job(synthetic: Synthetic) -> JobPlan {
    JobPlan {
        name: "j".to_owned(),
        nsid: 1,
        lba_bytes: 4096,
        range_lba: 1000,
        range_blocks: 64,
        iodepth: 1,
        workers: 1,
        issue: Issue::Closed,
        priority: Priority::Medium,
        count: Some(1000),
        runtime: None,
        transfer_blocks_max: 64,
        source: Source::Synthetic(synthetic),
    }
}

const READS: Synthetic =
    Synthetic { rw: Rw::RandRead, read_percent: 100, io_blocks: 2, distribution: Distribution::Uniform };

fn ios(plan: &JobPlan, worker: u32) -> Vec<Io> {
    Generator::new(plan, worker, &Rng::new(1)).unwrap().collect()
}

// An I/O outside its range would fail on the drive, or overwrite what another job verifies.
#[test]
fn every_io_lies_in_its_range() {
    for distribution in [
        Distribution::Uniform,
        Distribution::Zipf { theta: 1.0 },
        Distribution::Zipf { theta: 1.2 },
        Distribution::Sequential,
    ] {
        for io_blocks in [1, 2, 3, 64] {
            let plan = job(Synthetic { distribution, io_blocks, ..READS });
            let ios = ios(&plan, 0);
            assert_eq!(ios.len(), 1000);
            for io in ios {
                assert!(io.lba >= 1000 && io.lba + u64::from(io.blocks) <= 1064, "{io:?}");
                assert_eq!((io.lba - 1000) % u64::from(io_blocks), 0);
            }
        }
    }
}

// Workers of a sequential job that all began at the same place would read each block several times.
#[test]
fn sequential_workers_share_the_range_and_the_count() {
    let synthetic = Synthetic { rw: Rw::Write, distribution: Distribution::Sequential, ..READS };
    let plan = JobPlan { workers: 3, count: Some(32), ..job(synthetic) };
    let mut seen: Vec<u64> = (0..3).flat_map(|worker| ios(&plan, worker)).map(|io| io.lba).collect();
    assert_eq!(seen.len(), 32);
    seen.sort_unstable();
    // Slices of 10, 11 and 11 units take 11, 11 and 10 I/Os: the first begins again.
    seen.dedup();
    assert_eq!(seen.len(), 31);
}

// With one stream for all, a change of the mix would move every address, and two runs could not be compared.
#[test]
fn the_mix_does_not_change_the_addresses() {
    let plan = |read_percent| job(Synthetic { rw: Rw::RandRw, read_percent, ..READS });
    let (a, b) = (ios(&plan(70), 0), ios(&plan(20), 0));
    assert!(a.iter().zip(&b).all(|(a, b)| a.lba == b.lba));
    let reads = a.iter().filter(|io| io.kind == Kind::Read).count();
    assert!((640..760).contains(&reads), "{reads}");
    assert!(ios(&plan(0), 0).iter().all(|io| io.kind == Kind::Write));
    assert!(ios(&plan(100), 0).iter().all(|io| io.kind == Kind::Read));
    let other = JobPlan { name: "k".to_owned(), ..plan(70) };
    assert!(ios(&other, 0).iter().zip(&a).any(|(a, b)| a.lba != b.lba));
}

// A skewed job whose favourites lay side by side would load one die only.
#[test]
fn zipf_favourites_are_scattered_and_shared_by_workers() {
    let synthetic = Synthetic { distribution: Distribution::Zipf { theta: 1.2 }, io_blocks: 1, ..READS };
    let plan = JobPlan { range_blocks: 100_000, workers: 2, count: Some(40_000), ..job(synthetic) };
    let favourite = |worker| {
        let mut counts = std::collections::BTreeMap::new();
        ios(&plan, worker).iter().for_each(|io| *counts.entry(io.lba).or_insert(0) += 1);
        let mut order: Vec<(u32, u64)> = counts.into_iter().map(|(lba, count)| (count, lba)).collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        (order[0].1, order[1].1)
    };
    let (first, second) = favourite(0);
    assert_eq!(favourite(1).0, first);
    assert!(first.abs_diff(second) > 100);
}

// An open loop that drifts from its rate would measure another load than the one asked for.
#[test]
fn open_loops_keep_their_rate() {
    let open = |arrival, workers| JobPlan {
        workers,
        count: Some(10_000),
        issue: Issue::Open { rate_iops: 100_000, arrival },
        ..job(READS)
    };
    let fixed: Vec<u64> = ios(&open(Arrival::Fixed, 2), 1).iter().filter_map(|io| io.at).collect();
    assert_eq!(fixed[..3], [10_000_000, 30_000_000, 50_000_000]);
    assert_eq!(fixed.len(), 5_000);
    let poisson = ios(&open(Arrival::Poisson, 1), 0);
    let last = poisson.last().unwrap().at.unwrap();
    assert!((95_000_000_000..105_000_000_000).contains(&last), "{last}");
    assert!(poisson.windows(2).all(|pair| pair[0].at <= pair[1].at));
    let short = JobPlan { runtime: Some(Picos(1_000_000_000)), ..open(Arrival::Fixed, 1) };
    assert_eq!(ios(&short, 0).len(), 100);
}

fn trace_job(
    text: &str,
    change: impl Fn(&mut JobPlan, &mut TracePlan),
) -> (JobPlan, tempfile::NamedTempFile) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut plan = JobPlan { issue: Issue::Trace, count: None, ..job(READS) };
    let mut trace = TracePlan {
        path: file.path().to_owned(),
        format: Format::Auto,
        device: None,
        wrap: true,
        time_scale_q32: 1 << 32,
        skip_bad_lines: false,
        scan: Scan::default(),
    };
    change(&mut plan, &mut trace);
    plan.source = Source::Trace(trace);
    (plan, file)
}

fn scan_of(plan: &JobPlan) -> Result<Scan, InputError> {
    let Source::Trace(trace) = &plan.source else { unreachable!() };
    scan(plan, trace).map(|(_, scan)| scan)
}

// Addresses of a trace are in sectors of 512 B and of another drive: laid wrongly, reads would miss what was written.
#[test]
fn records_are_aligned_wrapped_and_split() {
    let text = "1000 0 7 2 0\n2000 0 512 8 1\n3000 0 508 8 1\n4000 1 0 512 1\n";
    let (plan, _file) = trace_job(text, |plan, _| plan.transfer_blocks_max = 48);
    let ios = ios(&plan, 0);
    let io = |kind, lba, blocks, at| Io { kind, lba, blocks, at: Some(at) };
    let expected = [
        io(Kind::Write, 1000, 2, 0),
        io(Kind::Read, 1000, 1, 1_000_000),
        io(Kind::Read, 1062, 2, 2_000_000),
        io(Kind::Read, 1000, 48, 3_000_000),
        io(Kind::Read, 1048, 16, 3_000_000),
    ];
    assert_eq!(ios, expected);
    let scan = scan_of(&plan).unwrap();
    assert_eq!((scan.commands, scan.wrapped, scan.widened, scan.tally.records), (5, 2, 2, 4));
}

// Without `wrap` an address beyond the drive is a mistake of the user's, to be shown with its line.
#[test]
fn an_address_beyond_the_range_is_an_error_with_its_line() {
    let (plan, _file) = trace_job("1 0 0 8 0\n2 0 512 8 1\n", |_, trace| trace.wrap = false);
    let error = scan_of(&plan).unwrap_err();
    assert!(error.to_string().contains(":2:1: LBA 64 is beyond"), "{error}");
    assert!(error.cure.contains("wrap = true"));
    let mut generator = Generator::new(&plan, 0, &Rng::new(1)).unwrap();
    assert_eq!(generator.by_ref().count(), 1);
    assert!(generator.error().is_some());
    let (plan, _file) = trace_job("1 0 0 1024 0\n", |_, _| ());
    assert!(scan_of(&plan).unwrap_err().what.contains("longer than the job's range"));
}

// Scaling through a float would lose picoseconds after three hours of trace.
#[test]
fn times_scale_and_records_are_dealt_in_turn() {
    let text = "0 0 0 8 0\n1000 0 8 8 0\n2000 0 16 8 0\n18000000000000 0 24 8 0\n";
    let (plan, _file) = trace_job(text, |plan, trace| {
        plan.workers = 2;
        trace.time_scale_q32 = 1 << 31;
    });
    let times = |worker| ios(&plan, worker).iter().filter_map(|io| io.at).collect::<Vec<_>>();
    assert_eq!(times(0), [0, 1_000_000]);
    assert_eq!(times(1), [500_000, 9_000_000_000_000_000]);
    let (plan, _file) = trace_job(text, |_, trace| trace.time_scale_q32 = 4000 << 32);
    assert!(scan_of(&plan).unwrap_err().cure.contains("time_scale"));
    let (plan, _file) = trace_job(text, |plan, _| plan.count = Some(2));
    assert_eq!(scan_of(&plan).unwrap().commands, 2);
    let (plan, _file) = trace_job(text, |plan, _| plan.issue = Issue::Closed);
    assert!(ios(&plan, 0).iter().all(|io| io.at.is_none()));
}
