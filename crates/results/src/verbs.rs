//! Latencies of key-value operations by verb: finer than reads, writes and trims.

use super::recorder::Recorder;
use crate::summary::OperationRow;
use byteway_workload::kv::Verb;

/// Outcome of a key-value operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operated {
    /// The operation.
    pub verb: Verb,
    /// Whether the key existed; true for operations that do not look it up.
    pub found: bool,
    /// Key-value pairs visited by a scan.
    pub pairs: u64,
}

/// Collects the outcomes of a job's operations.
#[derive(Default)]
pub struct VerbRecorder {
    each: [Each; Verb::ALL.len()],
}

#[derive(Default)]
struct Each {
    recorder: Recorder,
    missing: u64,
    pairs: u64,
}

impl VerbRecorder {
    /// Counts a completed operation.
    pub fn record(&mut self, operated: Operated, bytes: u64, latency_ps: u64) {
        let each = &mut self.each[operated.verb as usize];
        each.recorder.record(bytes, latency_ps);
        each.missing += u64::from(!operated.found);
        each.pairs += operated.pairs;
    }

    /// The job's figures over `elapsed_ps`: a row for each verb that occurred.
    pub fn finish<'a>(&'a self, job: &'a str, elapsed_ps: u64) -> impl Iterator<Item = OperationRow> + 'a {
        Verb::ALL.into_iter().zip(&self.each).filter_map(move |(verb, each)| {
            Some(OperationRow {
                job: job.to_owned(),
                operation: verb.name().to_owned(),
                missing: each.missing,
                pairs: each.pairs,
                figures: each.recorder.finish(elapsed_ps)?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Figures of one verb under another's name would be worse than none.
    #[test]
    fn each_kind_has_its_own_figures() {
        let mut recorder = VerbRecorder::default();
        for (verb, found, pairs) in [(Verb::Store, true, 0), (Verb::Exist, false, 0), (Verb::Scan, true, 7)] {
            recorder.record(Operated { verb, found, pairs }, 100, 1_000_000);
        }
        recorder.record(Operated { verb: Verb::Exist, found: true, pairs: 0 }, 0, 3_000_000);
        let rows: Vec<_> = recorder.finish("job", 1_000_000_000).collect();
        let names: Vec<_> = rows.iter().map(|row| row.operation.as_str()).collect();
        assert_eq!(names, ["store", "exist", "scan"]);
        assert_eq!((rows[1].missing, rows[1].figures.ios, rows[1].figures.latency.mean_ns), (1, 2, 2000.0));
        assert_eq!((rows[2].pairs, rows[2].figures.bytes), (7, 100));
    }
}
