//! Made-up results of a run: the report must be able to show them, regardless of what runs can produce today.

use byteway_results::results::{
    Crossing, Distribution, DrivePoint, Flow, JobPoint, Point, Results, Series, Wear,
};
use byteway_results::summary::{
    BadBlockSummary, ClockKind, FlashSummary, JobSummary, KindSummary, Latency, LinkRow, MapCacheSummary,
    ProgramRow, ReadCacheSummary, RetrySummary, SpanRow, Summary, UpkeepSummary, Utilisation, Verification,
    WaitRow, WearSummary,
};
use byteway_scenario::profile::Completion;
use byteway_scenario::{Options, Scenario};
use byteway_workload::Kind;
use std::path::Path;

pub fn scenario() -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/first.toml");
    let sets = vec!["job.greedy.iodepth=16".to_owned()];
    Scenario::load(&path, &Options { sets, ..Options::default() }).unwrap_or_else(|error| panic!("{error}"))
}

const STEPS: usize = 700;
const WIDTH_NS: f64 = 1.4e6;
const DIES: usize = 16;

/// A pseudo-random number between 0 and 1.
fn noise(a: usize, b: usize) -> f64 {
    let mixed = (a as u64 * 0x9e37_79b9 + b as u64 * 0x85eb_ca6b).wrapping_mul(0xc2b2_ae35_27d4_eb4f);
    (mixed >> 40) as f64 / (1u64 << 24) as f64
}

fn latency(typical_ns: f64) -> Latency {
    let at = |factor: f64| (typical_ns * factor) as u64;
    Latency {
        mean_ns: typical_ns * 1.2,
        min_ns: typical_ns * 0.8,
        p50_ns: at(1.0),
        p90_ns: at(1.9),
        p95_ns: at(2.3),
        p99_ns: at(4.4),
        p99_9_ns: at(12.0),
        p99_99_ns: at(45.0),
        max_ns: typical_ns * 62.0,
    }
}

/// I/Os of a distribution.
const IOS: f64 = 100_000.0;

fn distribution(job: &str, kind: Kind, typical_ns: f64) -> Distribution {
    let anchors = [
        (0.8, 0.0001),
        (0.95, 0.25),
        (1.0, 0.5),
        (1.9, 0.9),
        (2.3, 0.95),
        (4.4, 0.99),
        (12.0, 0.999),
        (45.0, 0.9999),
        (62.0, 1.0),
    ];
    let mut counts = Vec::new();
    let mut passed = 0;
    let mut upto = |typical: f64, share: f64| {
        let below = (share * IOS).round() as u64;
        if below > passed {
            counts.push(((typical_ns * typical) as u64, below - passed));
            passed = below;
        }
    };
    for pair in anchors.windows(2) {
        let ((a, p), (b, q)) = (pair[0], pair[1]);
        for step in 0..30 {
            let part = f64::from(step) / 30.0;
            upto(a + (b - a) * part, p + (q - p) * part);
        }
    }
    upto(62.0, 1.0);
    Distribution { job: job.to_owned(), kind, counts }
}

fn kind(ios: u64, typical_ns: f64) -> KindSummary {
    let bytes = ios * 4096;
    let (iops, bytes_per_second) = (ios as f64 / 0.98, bytes as f64 / 0.98);
    KindSummary { ios, bytes, iops, bytes_per_second, latency: latency(typical_ns) }
}

fn job(name: &str, read: Option<KindSummary>, write: Option<KindSummary>) -> JobSummary {
    let both = || read.iter().chain(&write);
    JobSummary {
        name: name.to_owned(),
        ios: both().map(|kind| kind.ios).sum(),
        bytes: both().map(|kind| kind.bytes).sum(),
        iops: both().map(|kind| kind.iops).sum(),
        bytes_per_second: both().map(|kind| kind.bytes_per_second).sum(),
        read: read.clone(),
        write: write.clone(),
        drive: None,
        trim: None,
        split: None,
    }
}

/// A job that reads, next to one that reads and writes on a drive with garbage collection.
pub fn mixed() -> Results {
    results(true)
}

/// The same without writes, and without a warm-up.
pub fn reads() -> Results {
    let mut results = results(false);
    results.series.measured_from_ns = 0.0;
    results.wear = None;
    results
}

fn results(writes: bool) -> Results {
    let jobs = vec![
        job("patient", Some(kind(11_020, 88_000.0)), None),
        job("greedy", Some(kind(180_400, 130_000.0)), writes.then(|| kind(78_300, 21_000.0))),
    ];
    let ios: u64 = jobs.iter().map(|job| job.ios).sum();
    let mut distributions =
        vec![distribution("patient", Kind::Read, 88_000.0), distribution("greedy", Kind::Read, 130_000.0)];
    if writes {
        distributions.push(distribution("greedy", Kind::Write, 21_000.0));
    }
    let summary = Summary {
        byteway: "0.2.0".to_owned(),
        scenario: "first".to_owned(),
        drive: None,
        drives: Vec::new(),
        replicates: None,
        batch_means: Vec::new(),
        seed: 1,
        partial: false,
        drive_profile: Some("samsung-970-pro".to_owned()),
        drive_model: "Samsung SSD 970 PRO 512GB".to_owned(),
        capacity_bytes: 512 << 30,
        host_profile: Some("linux-polled".to_owned()),
        completion: Completion::Polled,
        clock: ClockKind::Virtual,
        elapsed_ns: 0.98e9,
        ios,
        iops: jobs.iter().map(|job| job.iops).sum(),
        bytes_per_second: jobs.iter().map(|job| job.bytes_per_second).sum(),
        jobs,
        spans: spans(),
        waits: waits(),
        transfer: None,
        link: link(ios, writes),
        array: None,
        jbof: None,
        host: None,
        network: None,
        paths: Vec::new(),
        utilisation: utilisation(),
        policies: Vec::new(),
        flash: Some(FlashSummary {
            host_reads: 191_420,
            host_programs: if writes { 9_788 } else { 0 },
            collect_reads: if writes { 44_120 } else { 0 },
            collect_programs: if writes { 11_030 } else { 0 },
            erases: if writes { 81 } else { 0 },
            map_reads: if writes { 31_000 } else { 0 },
            background_reads: if writes { 2_400 } else { 0 },
            background_programs: if writes { 600 } else { 0 },
        }),
        write_amplification: writes.then_some(2.127),
        upkeep: writes.then(upkeep),
        kv: None,
        queries: Vec::new(),
        verification: Verification { on: true, reads: 191_420, mismatches: 0 },
        errors: Vec::new(),
        notes: vec!["the trace's offsets were wrapped to the namespace".to_owned()],
    };
    let wear = Wear {
        blocks: 32_768,
        min: 14,
        mean: 25.4,
        max: 41,
        endurance: 3_000,
        began_worn: false,
        histogram: (14..=41)
            .map(|erases: u64| {
                let off = erases as f64 - 25.4;
                (erases, (3_400.0 * libm::exp(-off * off / 30.0)) as u64)
            })
            .collect(),
    };
    Results { summary, series: series(writes), distributions, wear: Some(wear), drives: Vec::new() }
}

fn upkeep() -> UpkeepSummary {
    let causes =
        [("host", 78_300), ("collector", 76_000), ("levelling", 4_100), ("map", 6_200), ("padding", 1_900)];
    UpkeepSummary {
        programmed: ProgramRow::all(&causes, 78_300),
        map_cache: Some(MapCacheSummary::new(512, 250_000, 31_000, 5_900, Some(20_000))),
        read_cache: Some(ReadCacheSummary {
            hits: 30_000,
            misses: 191_420,
            hit_ratio: 0.135,
            ..ReadCacheSummary::default()
        }),
        slc: None,
        suspends: Some(12_400),
        retry: Some(RetrySummary::new(191_420, &[24_100, 5_200, 700, 90, 3], 37_000, 0)),
        bad_blocks: Some(BadBlockSummary { retired: 3, spare_left: 445, ..BadBlockSummary::default() }),
        wear: Some(WearSummary::new(32_768, 14, 25.4, 41)),
        recovery: None,
    }
}

fn spans() -> Vec<SpanRow> {
    let parts = [
        ("host", 2_084.0),
        ("doorbell", 390.0),
        ("fetch", 610.0),
        ("link", 1_912.0),
        ("firmware", 3_340.0),
        ("dram", 118.0),
        ("flash", 52_600.0),
        ("queueing", 61_300.0),
    ];
    let whole: f64 = parts.iter().map(|(_, ns)| ns).sum();
    let row = |(span, ns): (&str, f64)| SpanRow { span: span.to_owned(), mean_ns: ns, share: ns / whole };
    parts.into_iter().map(row).collect()
}

fn waits() -> Vec<WaitRow> {
    let row = |wait: &str, mean_ns, share| WaitRow { wait: wait.to_owned(), mean_ns, share };
    vec![
        row("core", 1_300.0, 0.011),
        row("die reads", 20_000.0, 0.164),
        row("die collection", 40_000.0, 0.327),
    ]
}

fn link(ios: u64, writes: bool) -> Vec<LinkRow> {
    let row = |purpose: &str, direction: &str, count: u64, payload: u64, wire: u64| LinkRow {
        purpose: purpose.to_owned(),
        direction: direction.to_owned(),
        crossings: count,
        payload_bytes: payload,
        wire_bytes: wire,
    };
    let mut rows = vec![
        row("doorbell", "to device", 2 * ios, 8 * ios, 56 * ios),
        row("SQE fetch", "to device", ios, 64 * ios, 84 * ios),
        row("SQE fetch", "to host", ios, 0, 24 * ios),
        row("data", "to host", 32 * ios, 2_900 * ios, 3_540 * ios),
        row("CQE", "to host", ios, 16 * ios, 40 * ios),
    ];
    if writes {
        rows.push(row("data", "to device", 16 * ios, 1_190 * ios, 1_420 * ios));
    }
    rows
}

fn utilisation() -> Vec<Utilisation> {
    let of = |resource: &str, count, mean, min, max| Utilisation {
        resource: resource.to_owned(),
        count,
        mean,
        min,
        max,
    };
    vec![
        of("dies", DIES as u64, 0.784, 0.71, 0.86),
        of("channels", 8, 0.312, 0.28, 0.35),
        of("cores", 5, 0.21, 0.21, 0.21),
        of("link to device", 1, 0.09, 0.09, 0.09),
        of("link to host", 1, 0.34, 0.34, 0.34),
    ]
}

fn series(writes: bool) -> Series {
    let flow = |ios: f64| Flow { ios: ios as u64, bytes: ios as u64 * 4096 };
    let point = |step: usize| {
        let begin_ns = step as f64 * WIDTH_NS;
        let slow = if writes && step % 140 > 120 { 0.6 } else { 1.0 };
        let busy = |die: usize| (0.65 + 0.3 * noise(step, die) + 0.02 * (die % 3) as f64).min(1.0);
        let job = |read: f64, write: f64, typical_ns: f64| JobPoint {
            read: flow(read * slow * (0.9 + 0.2 * noise(step, 97))),
            write: flow(if writes { write * slow * (0.9 + 0.2 * noise(step, 98)) } else { 0.0 }),
            trim: Flow::default(),
            mean_ns: typical_ns * 1.2 / slow,
            p50_ns: typical_ns / slow * (0.95 + 0.1 * noise(step, 99)),
            p99_ns: typical_ns / slow * (3.5 + 2.0 * noise(step, 100)),
            max_ns: typical_ns / slow * (6.0 + 30.0 * noise(step, 101)),
        };
        let jobs = vec![job(15.0, 0.0, 88_000.0), job(256.0, 112.0, 130_000.0)];
        let written: u64 = jobs.iter().map(|job| job.write.bytes).sum();
        let cross =
            |busy: f64, payload: u64| Crossing { busy, payload_bytes: payload, wire_bytes: payload * 6 / 5 };
        let drive = DrivePoint {
            host: None,
            dies: (0..DIES).map(busy).collect(),
            channels: (0..8).map(|channel| 0.25 + 0.12 * noise(step, 50 + channel)).collect(),
            cores: 0.2 + 0.03 * noise(step, 70),
            link_down: cross(0.08 + 0.02 * noise(step, 71), written + 20_000),
            link_up: cross(0.32 + 0.04 * noise(step, 72), 1_100_000),
            host_written_bytes: written,
            programmed_bytes: if writes {
                (written as f64 * (1.4 + 1.5 * noise(step, 73))) as u64
            } else {
                0
            },
            erases: u64::from(writes && step.is_multiple_of(9)),
            map_hits: if writes { 250 } else { 0 },
            map_misses: if writes { (600.0 / (step + 4) as f64 + 30.0 * noise(step, 74)) as u64 } else { 0 },
            suspends: if writes { (25.0 * noise(step, 75)) as u64 } else { 0 },
            retries: if writes { (90.0 * noise(step, 76)) as u64 } else { 0 },
            free_superblocks: 200,
            buffered_bytes: if writes { 3 << 20 } else { 0 },
        };
        Point { begin_ns, end_ns: begin_ns + WIDTH_NS, jobs, drive: Some(drive) }
    };
    Series {
        interval_ns: WIDTH_NS,
        measured_from_ns: 20e6,
        jobs: vec!["patient".to_owned(), "greedy".to_owned()],
        points: (0..STEPS).map(point).collect(),
    }
}
