//! The latency recorders, one for each job and kind, over the whole measured part.

use hdrhistogram::Histogram;

use crate::results::Curve;
use crate::summary::{JobSummary, KindSummary, Latency, SplitSummary};
use byteway_text::number::{ns, per_second, ratio};
use byteway_workload::Kind;

/// Collects the latencies of one kind of I/O. Allocates at the first latency only.
#[derive(Default)]
pub(super) struct Recorder {
    histogram: Option<Histogram<u64>>,
    ios: u64,
    bytes: u64,
    sum_ps: u128,
    min_ps: u64,
    max_ps: u64,
}

/// Longer latencies are counted as this one in the percentiles: an hour.
const HISTOGRAM_NS_MAX: u64 = 3_600_000_000_000;

impl Recorder {
    pub(super) fn record(&mut self, bytes: u64, latency_ps: u64) {
        let histogram = self.histogram.get_or_insert_with(|| {
            Histogram::new_with_bounds(1, HISTOGRAM_NS_MAX, 3).expect("the bounds are constants in order")
        });
        // Rounded up, so that no percentile is below a latency that it counts.
        histogram.saturating_record(latency_ps.div_ceil(1000));
        self.min_ps = if self.ios == 0 { latency_ps } else { self.min_ps.min(latency_ps) };
        self.max_ps = self.max_ps.max(latency_ps);
        self.ios += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.sum_ps += u128::from(latency_ps);
    }

    /// Exact maximum latency; the histogram only knows the upper bound of its bucket.
    fn most_ns(&self) -> u64 {
        self.max_ps.div_ceil(1000)
    }

    pub(super) fn finish(&self, elapsed_ps: u64) -> Option<KindSummary> {
        let histogram = self.histogram.as_ref()?;
        let most_ns = self.most_ns();
        let at = |quantile: f64| histogram.value_at_quantile(quantile).min(most_ns);
        Some(KindSummary {
            ios: self.ios,
            bytes: self.bytes,
            iops: per_second(self.ios, elapsed_ps),
            bytes_per_second: per_second(self.bytes, elapsed_ps),
            latency: Latency {
                mean_ns: ratio(self.sum_ps, u128::from(self.ios) * 1000),
                min_ns: ns(self.min_ps),
                p50_ns: at(0.5),
                p90_ns: at(0.9),
                p95_ns: at(0.95),
                p99_ns: at(0.99),
                p99_9_ns: at(0.999),
                p99_99_ns: at(0.9999),
                max_ns: ns(self.max_ps),
            },
        })
    }
}

/// The cumulative distribution of a histogram: a point for about every 128th of the I/Os, and in the tail for
/// every 16th of those that remain. Both ends of flat stretches are kept, so that a jump looks like one.
fn curve(histogram: &Histogram<u64>, most_ns: u64) -> Vec<(f64, f64)> {
    let all = u128::from(histogram.len());
    let mut points = Vec::new();
    let (mut passed, mut kept) = (0u128, 0u128);
    let mut last = None;
    for bucket in histogram.iter_recorded() {
        let count = u128::from(bucket.count_at_value());
        let latency_ns = bucket.value_iterated_to().min(most_ns) as f64;
        let dense = |from: u128, to: u128| (to - from) * 128 >= all || (to - from) * 16 >= all - from;
        if let Some(last) = last.take().filter(|_| dense(passed, passed + count)) {
            points.push(last);
            kept = passed;
        }
        passed += count;
        let point = (latency_ns, passed as f64 / all as f64);
        if kept == 0 || dense(kept, passed) {
            points.push(point);
            kept = passed;
        } else {
            last = Some(point);
        }
    }
    points.extend(last);
    points
}

/// Collects the latencies of a job's I/Os.
#[derive(Default)]
pub struct JobRecorder {
    read: Recorder,
    write: Recorder,
    trim: Recorder,
    split: Option<SplitSummary>,
}

impl JobRecorder {
    /// Counts a completed I/O.
    pub fn record(&mut self, kind: Kind, bytes: u64, latency_ps: u64) {
        match kind {
            Kind::Read => self.read.record(bytes, latency_ps),
            Kind::Write => self.write.record(bytes, latency_ps),
            Kind::Trim => self.trim.record(bytes, latency_ps),
        }
    }

    /// Counts an I/O that was split into `commands` commands.
    pub fn split(&mut self, commands: u32) {
        let split = self.split.get_or_insert_default();
        split.ios += 1;
        split.commands += u64::from(commands);
    }

    /// Number of reads.
    pub fn reads(&self) -> u64 {
        self.read.ios
    }

    /// Number of I/Os.
    pub fn ios(&self) -> u64 {
        self.read.ios + self.write.ios + self.trim.ios
    }

    /// The latency distributions: a curve for each kind that occurred.
    pub fn curves(&self, name: &str) -> Vec<Curve> {
        let kinds = [(Kind::Read, &self.read), (Kind::Write, &self.write), (Kind::Trim, &self.trim)];
        let curves = kinds.into_iter().filter_map(|(kind, recorder)| {
            let points = curve(recorder.histogram.as_ref()?, recorder.most_ns());
            Some(Curve { job: name.to_owned(), kind, points })
        });
        curves.collect()
    }

    /// The job's figures over `elapsed_ps`.
    pub fn finish(&self, name: &str, elapsed_ps: u64) -> JobSummary {
        let bytes = self.read.bytes.saturating_add(self.write.bytes);
        JobSummary {
            name: name.to_owned(),
            drive: None,
            ios: self.ios(),
            bytes,
            iops: per_second(self.ios(), elapsed_ps),
            bytes_per_second: per_second(bytes, elapsed_ps),
            read: self.read.finish(elapsed_ps),
            write: self.write.finish(elapsed_ps),
            trim: self.trim.finish(elapsed_ps),
            split: self.split,
        }
    }
}
