//! Iteration over reads, writes and trims, and their means.

use byteway_results::summary::{JobSummary, KindSummary, Summary};
use byteway_workload::Kind;

/// Each job's reads, writes and trims, where there are any.
pub(super) fn kinds(summary: &Summary) -> impl Iterator<Item = (&JobSummary, Kind, &KindSummary)> {
    summary.jobs.iter().flat_map(|job| {
        [(Kind::Read, &job.read), (Kind::Write, &job.write), (Kind::Trim, &job.trim)]
            .into_iter()
            .filter_map(move |(kind, found)| Some((job, kind, found.as_ref()?)))
    })
}

pub(super) fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "reads",
        Kind::Write => "writes",
        Kind::Trim => "trims",
    }
}

/// Mean bytes per I/O.
pub(super) fn per_io(bytes: u64, ios: u64) -> f64 {
    byteway_text::number::ratio(bytes.into(), ios.into())
}
