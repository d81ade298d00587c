//! Properties of every generator.

mod own;
mod shares;

use std::io::Write;

use byteway_clock::random::Rng;

use super::*;
use byteway_text::error::InputError;
use byteway_text::units::Picos;
use byteway_trace::ReadOptions;

fn settings() -> JobSettings {
    JobSettings {
        name: "j".to_owned(),
        drive: 0,
        at_target: false,
        nsid: 1,
        lba_bytes: 4096,
        range_lba: 1000,
        range_blocks: 64,
        stride_blocks: None,
        namespace_blocks: 1 << 30,
        iodepth: 1,
        workers: 1,
        issue: Issue::Closed,
        cap: None,
        think: None,
        flush_after: None,
        phase: 0,
        start_delay: Picos(0),
        ramp: Picos(0),
        verify: Verify::On,
        priority: Priority::Medium,
        count: Some(1000),
        io_bytes: None,
        runtime: None,
        transfer_blocks_max: 64,
    }
}

fn job(settings: JobSettings, synthetic: Synthetic) -> JobPlan {
    JobPlan { settings, source: Source::Synthetic(synthetic) }
}

const READS: Synthetic = Synthetic::fixed(Rw::RandRead, 2);

fn ios(plan: &JobPlan, worker: u32) -> Vec<Io> {
    Generator::new(plan, worker, &Rng::new(1)).unwrap().collect()
}

// An I/O outside its range would fail on the drive, or overwrite data that another job verifies.
#[test]
fn every_io_lies_in_its_range() {
    for distribution in
        ["random", "zipf:1", "zipf:1.2", "pareto:0.2", "normal:100", "zoned:90/50:10/", "sequential"]
    {
        for io_blocks in [1, 2, 3, 32] {
            let plan = job(
                settings(),
                match distribution.parse() {
                    Ok(distribution) => {
                        Synthetic { distribution, ..Synthetic::fixed(Rw::RandRead, io_blocks) }
                    }
                    Err(_) => Synthetic::fixed(Rw::Read, io_blocks),
                },
            );
            let ios = ios(&plan, 0);
            assert_eq!(ios.len(), 1000);
            for io in ios {
                assert!(io.lba >= 1000 && io.lba + u64::from(io.blocks) <= 1064, "{io:?}");
                assert_eq!((io.lba - 1000) % u64::from(io_blocks), 0);
            }
        }
    }
}

// Sequential workers that all began at the same address would read each block several times.
#[test]
fn sequential_workers_share_the_range_and_the_count() {
    let synthetic = Synthetic::fixed(Rw::Write, 2);
    let plan = job(JobSettings { workers: 3, count: Some(32), ..settings() }, synthetic);
    let mut seen: Vec<u64> = (0..3).flat_map(|worker| ios(&plan, worker)).map(|io| io.lba).collect();
    assert_eq!(seen.len(), 32);
    seen.sort_unstable();
    // Slices of 10, 11 and 11 units take 11, 11 and 10 I/Os: the first begins again.
    seen.dedup();
    assert_eq!(seen.len(), 31);
}

// With a common stream, a change of the mix would change every address, and two runs could not be compared.
#[test]
fn the_mix_does_not_change_the_addresses() {
    let plan = |read_percent| job(settings(), Synthetic { rw: Rw::RandRw, read_percent, ..READS });
    let (a, b) = (ios(&plan(70), 0), ios(&plan(20), 0));
    assert!(a.iter().zip(&b).all(|(a, b)| a.lba == b.lba));
    let reads = a.iter().filter(|io| io.kind == Kind::Read).count();
    assert!((640..760).contains(&reads), "{reads}");
    assert!(ios(&plan(0), 0).iter().all(|io| io.kind == Kind::Write));
    assert!(ios(&plan(100), 0).iter().all(|io| io.kind == Kind::Read));
    let mut other = plan(70);
    other.name = "k".to_owned();
    assert!(ios(&other, 0).iter().zip(&a).any(|(a, b)| a.lba != b.lba));
}

// Popular blocks that are adjacent would load one die only.
#[test]
fn zipf_favourites_are_scattered_and_shared_by_workers() {
    let distribution = Distribution::Zipf { theta: 1.2 };
    let synthetic = Synthetic { distribution, ..Synthetic::fixed(Rw::RandRead, 1) };
    let plan =
        job(JobSettings { range_blocks: 100_000, workers: 2, count: Some(40_000), ..settings() }, synthetic);
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

// An open loop that drifts from its rate would measure another load.
#[test]
fn open_loops_keep_their_rate() {
    let open = |arrival, workers| {
        let issue = Issue::Open { rate_iops: 100_000, arrival };
        job(JobSettings { workers, count: Some(10_000), issue, ..settings() }, READS)
    };
    let fixed: Vec<u64> = ios(&open(Arrival::Fixed, 2), 1).iter().filter_map(|io| io.at).collect();
    assert_eq!(fixed[..3], [10_000_000, 30_000_000, 50_000_000]);
    assert_eq!(fixed.len(), 5_000);
    let poisson = ios(&open(Arrival::Poisson, 1), 0);
    let last = poisson.last().unwrap().at.unwrap();
    assert!((95_000_000_000..105_000_000_000).contains(&last), "{last}");
    assert!(poisson.windows(2).all(|pair| pair[0].at <= pair[1].at));
    let mut short = open(Arrival::Fixed, 1);
    short.runtime = Some(Picos(1_000_000_000));
    assert_eq!(ios(&short, 0).len(), 100);
}

fn trace_job(
    text: &str,
    change: impl Fn(&mut JobSettings, &mut TracePlan),
) -> (JobPlan, tempfile::NamedTempFile) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut settings = JobSettings { issue: Issue::Trace, count: None, ..settings() };
    let mut trace = TracePlan {
        path: file.path().to_owned(),
        read: ReadOptions::default(),
        spread: false,
        beyond: Beyond::Wrap,
        time_scale_q32: 1 << 32,
        repeat: 1,
        layout: Layout::default(),
        scan: Scan::default(),
    };
    change(&mut settings, &mut trace);
    (JobPlan { settings, source: Source::Trace(trace) }, file)
}

fn scan_of(plan: &JobPlan) -> Result<Scan, InputError> {
    let Source::Trace(trace) = &plan.source else { unreachable!() };
    scan(plan, trace).map(|found| found.scan)
}

// Trace addresses are in sectors of 512 B and for another drive: with a wrong mapping, reads would miss what
// was written.
#[test]
fn records_are_aligned_wrapped_and_split() {
    let text = "1000 0 7 2 0\n2000 0 512 8 1\n3000 0 508 8 1\n4000 1 0 512 1\n";
    let (plan, _file) = trace_job(text, |settings, _| settings.transfer_blocks_max = 48);
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
    assert_eq!((scan.commands, scan.moved, scan.widened, scan.tally.records), (5, 2, 2, 4));
}

// Without `wrap` an address beyond the drive is a user error, reported with its line.
#[test]
fn an_address_beyond_the_range_is_an_error_with_its_line() {
    let (plan, _file) = trace_job("1 0 0 8 0\n2 0 512 8 1\n", |_, trace| trace.beyond = Beyond::Error);
    let error = scan_of(&plan).unwrap_err();
    assert!(error.to_string().contains(":2:1: LBA 64 is beyond"), "{error}");
    assert!(error.help.contains("wrap = true"));
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
    let (plan, _file) = trace_job(text, |settings, trace| {
        settings.workers = 2;
        trace.time_scale_q32 = 1 << 31;
    });
    let times = |worker| ios(&plan, worker).iter().filter_map(|io| io.at).collect::<Vec<_>>();
    assert_eq!(times(0), [0, 1_000_000]);
    assert_eq!(times(1), [500_000, 9_000_000_000_000_000]);
    let (plan, _file) = trace_job(text, |_, trace| trace.time_scale_q32 = 4000 << 32);
    assert!(scan_of(&plan).unwrap_err().help.contains("time_scale"));
    let (plan, _file) = trace_job(text, |settings, _| settings.count = Some(2));
    assert_eq!(scan_of(&plan).unwrap().commands, 2);
    let (plan, _file) = trace_job(text, |settings, _| settings.issue = Issue::Closed);
    assert!(ios(&plan, 0).iter().all(|io| io.at.is_none()));
}

// A trace shorter than the count ended a run early without a word; repeated, its times go on as they were.
#[test]
fn a_trace_is_repeated_at_its_mean_gap() {
    let text = "5000 0 0 8 0\n6000 0 8 8 0\n9000 0 16 8 0\n";
    let all = |repeat, count, workers: u32, scale| {
        let (plan, _file) = trace_job(text, |settings, trace| {
            (settings.count, settings.workers) = (count, workers);
            (trace.repeat, trace.time_scale_q32) = (repeat, scale);
        });
        let mut all: Vec<(u64, u64)> = (0..workers)
            .flat_map(|worker| ios(&plan, worker))
            .map(|io| (io.at.unwrap() / 1000, io.lba - 1000))
            .collect();
        all.sort_unstable();
        let scan = scan_of(&plan).unwrap();
        assert_eq!(
            (scan.replayed, scan.commands, scan.tally.records.min(3)),
            (all.len() as u64, all.len() as u64, 3.min(all.len() as u64))
        );
        (all, scan.is_exhausted)
    };
    let once = [(0, 0), (1000, 1), (4000, 2)];
    let thrice: Vec<(u64, u64)> =
        (0..3).flat_map(|time| once.map(|(at, lba)| (time * 6000 + at, lba))).collect();
    for workers in [1, 2, 3, 7] {
        assert_eq!(all(1, None, workers, 1 << 32), (once.to_vec(), true));
        assert_eq!(all(3, None, workers, 1 << 32), (thrice.clone(), true));
        for count in 1..9 {
            assert_eq!(all(3, Some(count), workers, 1 << 32), (thrice[..count as usize].to_vec(), false));
        }
        assert!(!all(3, Some(9), workers, 1 << 32).1);
        assert_eq!(all(3, Some(10), workers, 1 << 32), (thrice.clone(), true));
        let half = thrice.iter().map(|(at, lba)| (at / 2, *lba)).collect::<Vec<_>>();
        assert_eq!(all(3, None, workers, 1 << 31).0, half);
    }
    let (plan, _file) = trace_job("7 0 0 8 0\n", |_, trace| trace.repeat = 1000);
    assert_eq!(ios(&plan, 0).iter().map(|io| io.at).collect::<Vec<_>>(), [Some(0); 1000]);
    let (plan, _file) = trace_job("0 0 0 8 0\n9000000000000000 0 8 8 0\n", |_, trace| trace.repeat = 1000);
    let error = scan_of(&plan).unwrap_err();
    assert!(error.what.contains("213 days") && error.help.contains("`repeat`"), "{error}");
    let (plan, _file) = trace_job("0 0 0 8 0\n1000 0 8 8 0\n", |settings, trace| {
        settings.runtime = Some(Picos(3_500_000));
        trace.repeat = 1000;
    });
    assert_eq!((ios(&plan, 0).len() as u64, scan_of(&plan).unwrap().commands), (4, 4), "the runtime ends it");
}

fn layout_job(
    text: &str,
    beyond: Beyond,
    spread: bool,
) -> Result<(JobPlan, tempfile::NamedTempFile), InputError> {
    let (mut plan, file) = trace_job(text, |_, trace| {
        trace.beyond = beyond;
        trace.spread = spread;
    });
    let Source::Trace(trace) = &plan.source else { unreachable!() };
    plan.source = Source::Trace(scan(&plan, trace)?);
    Ok((plan, file))
}

fn places(plan: &JobPlan, worker: u32) -> Vec<(u64, u32)> {
    ios(plan, worker).iter().map(|io| (io.lba - 1000, io.blocks)).collect()
}

// Wrapped, a trace larger than the drive overwrites itself; scaled in proportion, locality is preserved.
#[test]
fn scaled_addresses_keep_their_order() {
    // 256 units of 4 KiB, mapped to 64.
    let text = "0 0 0 8 0\n1 0 1024 8 0\n2 0 1032 16 0\n3 0 2040 8 0\n";
    let (plan, _file) = layout_job(text, Beyond::Scale, false).unwrap();
    assert_eq!(places(&plan, 0), [(0, 1), (32, 1), (32, 2), (63, 1)]);
    let Source::Trace(trace) = &plan.source else { unreachable!() };
    assert_eq!(trace.scan.moved, 3);
    // A trace that fits keeps its addresses.
    let (plan, _file) = layout_job("0 0 0 8 0\n1 0 80 8 0\n", Beyond::Scale, false).unwrap();
    assert_eq!(places(&plan, 0), [(0, 1), (10, 1)]);
}

// A trace of a terabyte that touches a megabyte fits on any drive, if only touched units are mapped.
#[test]
fn compact_addresses_are_numbered_by_first_use() {
    let text = "0 0 800000000 16 0\n1 0 8 8 0\n2 0 800000008 8 1\n3 0 800000008 16 1\n4 0 8 8 1\n";
    let (mut plan, _file) = layout_job(text, Beyond::Compact, false).unwrap();
    // The fourth record touches a known unit and a new one: they are not adjacent, and become two commands.
    assert_eq!(places(&plan, 0), [(0, 2), (2, 1), (1, 1), (1, 1), (3, 1), (2, 1)]);
    // Every worker computes the same mapping.
    plan.workers = 2;
    assert_eq!(places(&plan, 1), [(2, 1), (1, 1), (3, 1)]);
    let many: String = (0..65).map(|index| format!("{index} 0 {} 8 0\n", index * 1_000_000)).collect();
    let error = layout_job(&many, Beyond::Compact, false).err().unwrap();
    assert!(error.to_string().contains(":65:1") && error.what.contains("256 KiB"), "{error}");
    assert!(error.help.contains("beyond = \"wrap\""), "{error}");
    // A record of terabytes is refused before anything is allocated for it.
    let error = layout_job("0 0 0 18014398509481983 0\n", Beyond::Compact, false).err().unwrap();
    assert!(error.what.contains("longer than the job's range"), "{error}");
}

// Overlapping devices would read each other's writes; separate slices prevent that.
#[test]
fn spread_devices_have_slices_of_their_own() {
    let text = "0 7 0 8 0\n1 3 0 8 0\n2 7 80 8 0\n3 11 8 8 1\n";
    let (plan, _file) = layout_job(text, Beyond::Error, true).unwrap();
    // Three slices of 21 blocks, in the order of device numbers.
    assert_eq!(places(&plan, 0), [(21, 1), (0, 1), (31, 1), (43, 1)]);
    let error = layout_job("0 0 0 8 0\n1 1 256 8 0\n", Beyond::Error, true).err().unwrap();
    assert!(error.what.contains("device's slice of 128 KiB"), "{error}");
    let (plan, _file) = layout_job("0 0 0 8 0\n1 1 256 8 0\n", Beyond::Wrap, true).unwrap();
    assert_eq!(places(&plan, 0), [(0, 1), (32, 1)]);
    let (plan, _file) = layout_job("0 0 999992 8 0\n1 1 8000000 8 0\n", Beyond::Compact, true).unwrap();
    assert_eq!(places(&plan, 0), [(0, 1), (32, 1)]);
    let many: String = (0..65).map(|index| format!("{index} {index} 0 8 0\n")).collect();
    let error = layout_job(&many, Beyond::Wrap, true).err().unwrap();
    assert!(error.what.contains("no slice for each of 65 devices"), "{error}");
    let many: String = (0..4097).map(|index| format!("{index} {index} 0 8 0\n")).collect();
    let error = layout_job(&many, Beyond::Wrap, true).err().unwrap();
    assert!(error.what.contains("more than 4096 devices"), "{error}");
}

// A trim widened to whole blocks would discard data that was not trimmed.
#[test]
fn trims_are_narrowed_to_whole_blocks() {
    let text = "fio version 3 iolog\n0 a trim 4095 8194\n1 a trim 4095 100\n2 a write 4095 2\n";
    let (plan, _file) = layout_job(text, Beyond::Error, false).unwrap();
    let ios = ios(&plan, 0);
    let found: Vec<_> = ios.iter().map(|io| (io.kind, io.lba - 1000, io.blocks)).collect();
    assert_eq!(found, [(Kind::Trim, 1, 2), (Kind::Write, 0, 2)]);
    let Source::Trace(trace) = &plan.source else { unreachable!() };
    assert_eq!((trace.scan.trims_left_out, trace.scan.commands), (1, 2));
}

// A survey that ended at the runtime would miss what the trace touches during the ramp.
#[test]
fn a_ramp_belongs_to_what_a_layout_is_made_for() {
    let text = "0 0 0 8 0\n1500000000 0 800 8 0\n1600000000 0 8000 8 0\n";
    for beyond in [Beyond::Compact, Beyond::Scale] {
        let (plan, _file) = trace_job(text, |settings, trace| {
            trace.beyond = beyond;
            settings.runtime = Some(Picos(1_000_000_000_000));
            settings.ramp = Picos(1_000_000_000_000);
        });
        assert_eq!(scan_of(&plan).unwrap().commands, 3, "{beyond:?}");
    }
}

// A worker whose range is shorter than its longest I/O would exceed the range.
#[test]
fn the_longest_io_fits_every_workers_range() {
    let lengths = Lengths::Range { min: 1, max: 16 };
    let synthetic = Synthetic {
        lengths: ByKind { read: lengths.clone(), write: lengths.clone(), trim: lengths },
        ..Synthetic::fixed(Rw::RandRead, 1)
    };
    let plan = job(JobSettings { range_blocks: 8, ..settings() }, synthetic);
    let error = Generator::new(&plan, 0, &Rng::new(1)).err().unwrap();
    assert!(error.what.contains("longest"), "{error}");
}

// A block that is trimmed and not written would be empty, although each block has to hold data.
#[test]
fn a_count_never_ends_between_a_trim_and_its_write() {
    let plan = job(JobSettings { count: Some(3), ..settings() }, Synthetic::fixed(Rw::RandTrimWrite, 1));
    let kinds: Vec<Kind> = ios(&plan, 0).iter().map(|io| io.kind).collect();
    assert_eq!(kinds, [Kind::Trim, Kind::Write, Kind::Trim, Kind::Write]);
}
