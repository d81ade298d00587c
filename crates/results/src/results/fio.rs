//! Results in the form of fio's JSON output, for tools that read that, and to compare with fio on a real drive.
//!
//! What fio knows of its process and of its system is left out: `usr_cpu`, `disk_util` and the like. A submission
//! has no latency of its own here, so `lat_ns` is all of it, and `clat_ns` the same.

use serde_json::{Map, Value, json};

use super::{Curve, Results};
use crate::summary::{JobSummary, KindSummary};
use byteway_scenario::Scenario;
use byteway_workload::{Cap, JobPlan, Kind, Source};

/// fio's default percentiles, and those between which page types of flash lie.
const PERCENTILES: [f64; 21] = [
    1.0, 5.0, 10.0, 17.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 83.0, 90.0, 95.0, 99.0, 99.5,
    99.9, 99.95, 99.99,
];

const KINDS: [(&str, Kind); 3] = [("read", Kind::Read), ("write", Kind::Write), ("trim", Kind::Trim)];

impl Results {
    /// The jobs as `fio --output-format=json` prints them. `scenario` is that of the run.
    pub fn to_fio_json(&self, scenario: &Scenario) -> String {
        let (summary, curves) = (&self.summary, self.curves());
        let job = |(number, job): (usize, &JobSummary)| {
            let plan = scenario.jobs.iter().find(|plan| plan.name == job.name);
            let mut out = json!({
                "jobname": job.name,
                "groupid": number,
                "error": 0,
                "eta": 0,
                "elapsed": seconds(summary.elapsed_ns),
                "job options": plan.map_or_else(Map::new, options),
            });
            for (name, kind) in KINDS {
                let of_job = match kind {
                    Kind::Read => &job.read,
                    Kind::Write => &job.write,
                    Kind::Trim => &job.trim,
                };
                let own = |curve: &&Curve| curve.job == job.name && curve.kind == kind;
                out[name] = side(of_job.as_ref(), curves.iter().find(own));
            }
            out
        };
        let jobs: Vec<Value> = summary.jobs.iter().enumerate().map(job).collect();
        let all = json!({
            "fio version": format!("byteway-{}", summary.byteway),
            "timestamp": 0,
            "global options": { "ioengine": "byteway", "direct": "1", "group_reporting": "1" },
            "jobs": jobs,
        });
        format!("{all:#}\n")
    }
}

fn seconds(ns: f64) -> u64 {
    libm::ceil(ns / 1e9) as u64
}

/// The keys of a job that make its load.
fn options(plan: &JobPlan) -> Map<String, Value> {
    let mut options = Map::new();
    let mut put = |key: &str, value: String| {
        options.insert(key.to_owned(), Value::String(value));
    };
    put("iodepth", plan.iodepth.to_string());
    put("numjobs", plan.workers.to_string());
    if let Source::Synthetic(synthetic) = &plan.source {
        if let Ok(Value::String(rw)) = serde_json::to_value(synthetic.rw) {
            put("rw", rw);
        }
        if let Some(blocks) = synthetic.lengths.fixed(synthetic.rw) {
            put("bs", (u64::from(blocks) * u64::from(plan.lba_bytes)).to_string());
        } else {
            put("bsrange", plan.lengths());
        }
        if synthetic.rw.is_mixed() {
            put("rwmixread", synthetic.read_percent.to_string());
        }
    }
    // fio's rates are of each worker.
    let workers = u64::from(plan.workers.max(1));
    match &plan.cap {
        Some(Cap::Bytes(rates)) => rate("rate", rates, workers, &mut put),
        Some(Cap::Iops(rates)) => rate("rate_iops", rates, workers, &mut put),
        None => {}
    }
    options
}

fn rate(
    key: &str,
    rates: &byteway_workload::ByKind<Option<u64>>,
    workers: u64,
    put: &mut impl FnMut(&str, String),
) {
    let each = [rates.read, rates.write, rates.trim].map(|rate| rate.map(|rate| rate / workers));
    let text = match each {
        [Some(read), write, trim] if write == Some(read) && trim == Some(read) => read.to_string(),
        each => each.map(|rate| rate.map(|rate| rate.to_string()).unwrap_or_default()).join(","),
    };
    put(key, text);
}

/// The figures of one kind of a job.
fn side(found: Option<&KindSummary>, curve: Option<&Curve>) -> Value {
    let Some(found) = found else {
        return json!({ "io_bytes": 0, "io_kbytes": 0, "bw_bytes": 0, "bw": 0, "iops": 0.0, "runtime": 0, "total_ios": 0,
            "short_ios": 0, "drop_ios": 0 });
    };
    let latency = &found.latency;
    let points = curve.map(|curve| &curve.points[..]).unwrap_or_default();
    let lat = json!({
        "min": latency.min_ns,
        "max": latency.max_ns,
        "mean": latency.mean_ns,
        "stddev": deviation(points, latency.mean_ns),
        "N": found.ios,
        "percentile": percentiles(points),
    });
    let runtime_ms =
        if found.iops > 0.0 { libm::round(found.ios as f64 / found.iops * 1e3) as u64 } else { 0 };
    json!({
        "io_bytes": found.bytes,
        "io_kbytes": found.bytes >> 10,
        "bw_bytes": libm::round(found.bytes_per_second) as u64,
        "bw": libm::round(found.bytes_per_second / 1024.0) as u64,
        "iops": found.iops,
        "runtime": runtime_ms,
        "total_ios": found.ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": { "min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0 },
        "clat_ns": lat,
        "lat_ns": lat,
    })
}

/// Latency by percentile, with fio's names.
fn percentiles(points: &[(f64, f64)]) -> Map<String, Value> {
    let of = |share: f64| points.iter().find(|(_, upto)| *upto * 100.0 >= share).map(|(latency, _)| *latency);
    PERCENTILES.iter().filter_map(|share| Some((format!("{share:.6}"), json!(of(*share)?)))).collect()
}

/// Standard deviation of a distribution.
fn deviation(points: &[(f64, f64)], mean: f64) -> f64 {
    let mut before = 0.0;
    let mut sum = 0.0;
    for (latency, upto) in points {
        sum += (upto - before) * (latency - mean) * (latency - mean);
        before = *upto;
    }
    sum.max(0.0).sqrt()
}
