//! The latency recorders, one for each job and kind, over the whole measured part.

use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;

use crate::results::Distribution;
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

    /// Latencies and their numbers, as in [`Distribution::counts`].
    fn counts(&self) -> Option<Vec<(u64, u64)>> {
        let (histogram, most_ns) = (self.histogram.as_ref()?, self.most_ns());
        let bucket =
            |bucket: IterationValue<u64>| (bucket.value_iterated_to().min(most_ns), bucket.count_at_value());
        Some(histogram.iter_recorded().map(bucket).collect())
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

    /// The latency distributions: one for each kind that occurred.
    pub fn distributions(&self, name: &str) -> Vec<Distribution> {
        let kinds = [(Kind::Read, &self.read), (Kind::Write, &self.write), (Kind::Trim, &self.trim)];
        let distributions = kinds.into_iter().filter_map(|(kind, recorder)| {
            Some(Distribution { job: name.to_owned(), kind, counts: recorder.counts()? })
        });
        distributions.collect()
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
