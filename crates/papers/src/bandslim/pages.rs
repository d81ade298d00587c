//! Recipes: flash pages saved by packing, and its effect on reads; savings and risk of batching on the host.

use super::points::{MIXES, POLICIES, READS, SCAN, ValueMethod, fixed_as, gathered, mixed_as, read_back};
use crate::error::{ClaimError, CutError, Measured};
use crate::judgement::Measurement;
use crate::paper::Recipe;
use crate::point::{Ledger, Points, Spec};
use crate::power;
use crate::sketch::change;
use byteway_clock::Delay;
use byteway_results::summary::KvStoreSummary;
use byteway_text::table::{grouped, time};

pub(super) const RECIPES: [Recipe; 3] = [
    Recipe { id: "BS19", points: packed, measure: page_writes },
    Recipe { id: "BS26", points: || GATHERED.map(|pairs| gathered(FIXED, pairs)).to_vec(), measure: windows },
    Recipe { id: "BS25", points: || POLICIES.map(read_back).to_vec(), measure: reads },
];

/// Value size of W(A).
const FIXED: u64 = 32;

/// Batch sizes of the host, in key-value pairs.
const GATHERED: [u64; 4] = [1, 4, 16, 64];

/// Difference of reads in percent that counts as unaffected.
const UNAFFECTED: f64 = 5.0;

/// A workload with a policy, by the paper's adaptive transfer.
pub(super) fn workload(name: &str, packing: &str) -> Spec {
    match name {
        "w-a" => fixed_as(ValueMethod::Papers, FIXED, packing),
        _ => mixed_as(ValueMethod::Papers, name, packing),
    }
}

/// W(A), then the workloads of mixed sizes.
pub(super) fn workloads() -> impl Iterator<Item = (&'static str, &'static str)> {
    [("w-a", "W(A), 32 B")].into_iter().chain(MIXES)
}

pub(super) fn packed() -> Vec<Spec> {
    workloads().flat_map(|(name, _)| POLICIES.map(|packing| workload(name, packing))).collect()
}

pub(super) fn store<'a>(points: &'a Points, spec: &Spec) -> Measured<&'a KvStoreSummary> {
    let store = points.at(spec)?.store();
    store.ok_or_else(|| ClaimError::NoFigure(format!("{}: no figures of its store", spec.name())))
}

fn page_writes(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut most = f64::INFINITY;
    let mut words = Vec::new();
    for (name, title) in workloads() {
        let of = |packing| store(points, &workload(name, packing));
        let (none, own) = (of("none")?, of("backfill")?);
        let all = |store: &KvStoreSummary| (store.log_pages_all() + store.index_pages()) as f64;
        measurement = measurement.check(
            format!("backfilling takes no more pages than no packing on {title}"),
            all(own) <= all(none),
        );
        most = most.min(change(all(own), all(none)));
        words.push(format!(
            "{title} {:.1} % ({} + {} pages instead of {} + {})",
            change(all(own), all(none)),
            grouped(own.log_pages_all()),
            grouped(own.index_pages()),
            grouped(none.log_pages_all()),
            grouped(none.index_pages())
        ));
    }
    let detail = format!(
        "The maximum saving. Pages of value log + index, without pages still open in the drive's buffer: {}.",
        words.join("; ")
    );
    Ok(Measurement { values: vec![most], ..measurement }.detail(detail))
}

/// Mean time of a read, or per key-value pair of a scan, in nanoseconds.
pub(super) fn read_time(points: &Points, packing: &str, job: &str) -> Measured<f64> {
    let spec = read_back(packing);
    let row = points.at(&spec)?.operation(job);
    let row = row.ok_or_else(|| ClaimError::NoFigure(format!("{}: no reads", spec.name())))?;
    let count = if job == READS[0] { 1.0 } else { row.pairs as f64 / row.figures.ios.max(1) as f64 };
    Ok(row.figures.latency.mean_ns / count)
}

fn reads(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut words = Vec::new();
    for (job, what) in READS.into_iter().zip(["a read", "a pair of a scan"]) {
        let none = read_time(points, "none", job)?;
        let mut each = Vec::new();
        for packing in POLICIES {
            let own = read_time(points, packing, job)?;
            each.push(format!("{packing} {}", time(own)));
            if packing != "none" {
                let within = change(own, none).abs() <= UNAFFECTED;
                let name =
                    format!("{what} after {packing} takes as long as without packing, within {UNAFFECTED} %");
                measurement = measurement.check(name, within);
            }
        }
        words.push(format!("{what}: {}", each.join(", ")));
    }
    Ok(measurement.detail(format!("{}; scans read {SCAN} pairs.", words.join("; "))))
}

/// Times of power cuts after the first PUT, at intervals that are not a multiple of a PUT's time.
fn cuts() -> impl Iterator<Item = Delay> {
    (0..12).map(|index| Delay::from_ms(5) + Delay::from_ns(409_013) * index)
}

/// Losses of acknowledged values by the cuts.
#[derive(Default)]
struct Losses {
    told: u64,
    /// Mean and maximum: values that only the host had.
    by_host: f64,
    by_host_most: u64,
    /// Maximum: values in the drive's write buffer.
    by_drive_most: u64,
}

fn losses(spec: &Spec, pairs: u64) -> Measured<Losses> {
    let mut all = Losses::default();
    for after in cuts() {
        let taken = power::cut(spec, pairs as u32, FIXED as u32, after)?;
        if taken.told == 0 {
            return Err(CutError::TooSoon.into());
        }
        all.told += taken.told;
        all.by_host += taken.by_host as f64 / cuts().count() as f64;
        all.by_host_most = all.by_host_most.max(taken.by_host);
        all.by_drive_most = all.by_drive_most.max(taken.by_drive);
    }
    Ok(all)
}

fn windows(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut words = Vec::new();
    let mut before: Option<(u64, f64, f64)> = None;
    let mut by_drive = 0;
    for pairs in GATHERED {
        let spec = gathered(FIXED, pairs);
        let bytes = points.at(&spec)?.bytes(Ledger::Payload);
        let found = losses(&spec, pairs)?;
        let (mean, most) = (found.by_host, found.by_host_most);
        measurement = match before {
            None => measurement.check("the host loses no value that was put for itself", most == 0),
            Some((fewer, more_bytes, less)) => measurement
                .check(format!("{pairs} at once move fewer bytes per PUT than {fewer}"), bytes < more_bytes)
                .check(format!("the host loses more with {pairs} at once than with {fewer}"), mean > less)
                .check(format!("with {pairs} at once it loses at most {}", pairs - 1), most < pairs),
        };
        before = Some((pairs, bytes, mean));
        by_drive = by_drive.max(found.by_drive_most);
        words.push(format!(
            "{pairs} at once {bytes:.0} B, {mean:.1} lost (at most {most}) of {} acknowledged",
            found.told
        ));
    }
    let detail = format!(
        "Values of {FIXED} B with PRPs: bytes per PUT, and acknowledged values that were still in host memory \
         and are lost at a power cut, over {} cuts: {}. In addition the board, which has no power-loss protection, \
         loses acknowledged values that were not yet programmed: at most {by_drive} values.",
        cuts().count(),
        words.join("; ")
    );
    Ok(measurement.detail(detail))
}
