//! Batch means: how far the throughput and the mean latency of one long run may be from those of an endless one.
//!
//! The measured part is split into equal batches, whose means are taken for independent values (Law, Simulation Modeling and Analysis,
//! 9.5.3). Latencies of neighboring I/Os are not independent, and the means of batches are only if these are long: so there is no interval
//! of a figure whose batches are correlated, as those of a drive that drifts are, nor of a run with few steps or I/Os. It covers what
//! differs within the run. What the seed decides once, such as where data lies, shows in replicates only.

use super::steadiness::of_all_jobs;
use super::{Point, Series};
use crate::interval::{Interval, t_quantile};
use crate::metric::Metric;
use crate::replicates::MeanRow;
use byteway_workload::JobPlan;

/// Number of batches.
const BATCHES: usize = 20;
/// I/Os of a batch, at least.
const IOS_LEAST: u64 = 100;
/// Correlation of neighboring batches above which they are not taken for independent: that of independent ones, about normally distributed
/// with a deviation of 1 / sqrt(20), exceeds it once in twenty.
const CORRELATION_MOST: f64 = 0.368;

/// Throughput and mean latency of all jobs over the batches; without those whose batches are too few or correlated.
pub fn batch_means(series: &Series, jobs: &[JobPlan]) -> Vec<MeanRow> {
    let mut steps = of_all_jobs(series, jobs);
    // The jobs end within the last one.
    steps.pop();
    let length = steps.len() / BATCHES;
    if length == 0 {
        return Vec::new();
    }
    // What is left over is at the beginning, where the run is least itself.
    let batches = steps[steps.len() - length * BATCHES..].chunks(length).map(Batch::of);
    let batches: Vec<Batch> = batches.collect();
    if batches.iter().any(|batch| batch.ios < IOS_LEAST) {
        return Vec::new();
    }
    let rows = [(Metric::Iops, Batch::iops as fn(&Batch) -> f64), (Metric::MeanNs, Batch::mean_ns)];
    let row = |(metric, of): (Metric, fn(&Batch) -> f64)| {
        let values: Vec<f64> = batches.iter().map(of).collect();
        let Interval { mean, half_width } = Interval::of(&values, t_quantile(BATCHES - 1))?;
        let is_independent = correlation(&values, mean) <= CORRELATION_MOST;
        is_independent.then(|| MeanRow { figure: metric.key().to_owned(), mean, half_width, values })
    };
    rows.into_iter().filter_map(row).collect()
}

/// Some consecutive steps.
struct Batch {
    ios: u64,
    ns: f64,
    latency_ns: f64,
}

impl Batch {
    fn of(steps: &[&Point]) -> Batch {
        let mut batch = Batch { ios: 0, ns: 0.0, latency_ns: 0.0 };
        for step in steps {
            batch.ns += step.end_ns - step.begin_ns;
            for job in &step.jobs {
                let ios = job.read.ios + job.write.ios + job.trim.ios;
                batch.ios += ios;
                batch.latency_ns += job.mean_ns * ios as f64;
            }
        }
        batch
    }

    fn iops(&self) -> f64 {
        self.ios as f64 / self.ns * 1e9
    }

    fn mean_ns(&self) -> f64 {
        self.latency_ns / self.ios as f64
    }
}

/// Correlation of each value with the next; 0 if all are equal.
fn correlation(values: &[f64], mean: f64) -> f64 {
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let products: f64 = values.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum();
    if squares == 0.0 { 0.0 } else { products / squares }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Flow, JobPoint};

    /// A series of `steps` of 1 ms, each with so many I/Os of this latency.
    fn series(steps: usize, of: impl Fn(usize) -> (u64, f64)) -> Series {
        let point = |at: usize| {
            let (ios, mean_ns) = of(at);
            let job = JobPoint { read: Flow { ios, bytes: ios * 4096 }, mean_ns, ..JobPoint::default() };
            Point { begin_ns: at as f64 * 1e6, end_ns: (at + 1) as f64 * 1e6, jobs: vec![job], drive: None }
        };
        let points = (0..steps).map(point).collect();
        Series { interval_ns: 1e6, measured_from_ns: 0.0, jobs: vec!["reads".to_owned()], points }
    }

    fn jobs() -> Vec<JobPlan> {
        let text = "[drive]\nprofile = \"samsung-970-pro\"\n[[job]]\nrw = \"randread\"\ncount = 1000\n";
        let options = byteway_scenario::Options::default();
        byteway_scenario::Scenario::from_text("s", std::path::Path::new(""), text, &options).unwrap().jobs
    }

    // An interval of correlated batches is far too narrow: a drift would be given as a certain figure.
    #[test]
    fn independent_batches_have_an_interval_and_others_none() {
        // Two steps a batch: 1000 and 1200 I/Os in turn, 5 ms in a batch of 2 ms.
        let even = batch_means(&series(41, |at| (if at % 4 < 2 { 1000 } else { 1200 }, 5000.0)), &jobs());
        assert_eq!(even.len(), 2);
        assert_eq!((even[0].figure.as_str(), even[0].mean, even[0].values.len()), ("iops", 1.1e6, BATCHES));
        // s = 1e5 sqrt(20 / 19), t = 2.093: 2.093 s / sqrt(20).
        assert!((even[0].half_width - 48_017.0).abs() < 10.0, "{even:?}");
        assert_eq!((even[1].mean, even[1].half_width), (5000.0, 0.0));
        let drifting = batch_means(&series(41, |at| (1000 + 10 * at as u64, 5000.0)), &jobs());
        assert_eq!(drifting.iter().map(|row| row.figure.as_str()).collect::<Vec<_>>(), ["mean_ns"]);
        assert_eq!(batch_means(&series(20, |_| (1000, 5000.0)), &jobs()), [], "too few steps");
        assert_eq!(batch_means(&series(41, |_| (40, 5000.0)), &jobs()), [], "too few I/Os");
    }
}
