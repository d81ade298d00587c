//! The latencies of a run as they were counted, and as curves.

use byteway_workload::Kind;
use serde::{Deserialize, Serialize};

/// The latency distribution of one kind of I/O of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Name of the job.
    pub job: String,
    /// Reads, writes or trims.
    pub kind: Kind,
    /// Latency in nanoseconds, and number of I/Os that took longer than the latency before and at most this one, within 0.1 %:
    /// ascending, the last latency is the longest.
    pub counts: Vec<(u64, u64)>,
}

/// The cumulative latency distribution of one kind of I/O of a job, for a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the job.
    pub job: String,
    /// Reads, writes or trims.
    pub kind: Kind,
    /// Latency, and share of the I/Os up to it: both ascending, the last share 1. At most a few hundred
    /// points, dense in the tail.
    pub points: Vec<(f64, f64)>,
}

impl Distribution {
    /// Number of I/Os.
    pub fn ios(&self) -> u64 {
        self.counts.iter().map(|(_, ios)| ios).sum()
    }

    /// The cumulative distribution: a point for about every 128th of the I/Os, and in the tail for every 16th of those that remain. Both
    /// ends of flat stretches are kept, so that a jump looks like one.
    pub fn curve(&self) -> Curve {
        let all = u128::from(self.ios());
        let mut points = Vec::new();
        let (mut passed, mut kept) = (0u128, 0u128);
        let mut last = None;
        for (latency_ns, count) in &self.counts {
            let count = u128::from(*count);
            let dense = |from: u128, to: u128| (to - from) * 128 >= all || (to - from) * 16 >= all - from;
            if let Some(last) = last.take().filter(|_| dense(passed, passed + count)) {
                points.push(last);
                kept = passed;
            }
            passed += count;
            let point = (*latency_ns as f64, passed as f64 / all as f64);
            if kept == 0 || dense(kept, passed) {
                points.push(point);
                kept = passed;
            } else {
                last = Some(point);
            }
        }
        points.extend(last);
        Curve { job: self.job.clone(), kind: self.kind, points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobRecorder;

    // An I/O that is in no bucket, or in two, would be missing in every distribution, and in no percentile.
    #[test]
    fn every_io_is_counted_once() {
        let mut recorder = JobRecorder::default();
        let latencies = (0..5000u64).map(|number| 10_000 + number * number * 37 % 90_000_017);
        latencies.clone().for_each(|ns| recorder.record(Kind::Read, 4096, ns * 1000));
        recorder.record(Kind::Trim, 4096, 77_500);
        let [reads, trims] = &recorder.distributions("job")[..] else { panic!("reads and trims") };
        assert_eq!((reads.ios(), reads.kind, trims.kind), (5000, Kind::Read, Kind::Trim));
        assert_eq!(trims.counts, [(78, 1)]);
        assert_eq!(reads.counts.last().map(|(ns, _)| *ns), latencies.clone().max());
        let mut before = 0;
        for (upto, ios) in &reads.counts {
            let exact = latencies.clone().filter(|ns| (before + 1..=*upto).contains(ns)).count() as u64;
            assert_eq!(*ios, exact, "{before} to {upto}");
            before = *upto;
        }
        let points = reads.curve().points;
        assert!(
            points.len() < 400
                && points.last() == reads.counts.last().map(|(ns, _)| (*ns as f64, 1.0)).as_ref()
        );
    }
}
