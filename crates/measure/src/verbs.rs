//! Latencies of operations on pairs, by kind: finer than reads, writes and trims.

use super::recorder::Recorder;
use crate::summary::OperationRow;
use byteway_workload::kv::Verb;

/// What became of an operation on pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operated {
    /// What it did.
    pub verb: Verb,
    /// Whether there was a pair of its key; of one that doesn't ask, true.
    pub found: bool,
    /// Pairs that a scan went over.
    pub pairs: u64,
}

/// Collects what a job's operations took.
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
    /// An operation ended.
    pub fn record(&mut self, operated: Operated, bytes: u64, latency_ps: u64) {
        let each = &mut self.each[operated.verb as usize];
        each.recorder.record(bytes, latency_ps);
        each.missing += u64::from(!operated.found);
        each.pairs += operated.pairs;
    }

    /// The job's figures over `elapsed_ps`: a row for each kind that it had.
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

    // A kind's figures under another kind's name would be worse than none.
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
