//! Arrival statistics: rates, gaps, bursts.

use hdrhistogram::Histogram;

use super::figures::six_decimals;
use super::inspection::{Arrivals as Found, Gaps, Peak};
use byteway_text::number::{ns, ratio};

const SECOND_PS: u64 = 1_000_000_000_000;

/// Upper bound of a gap: traces end before 213 days.
const GAP_NS_MAX: u64 = 1 << 55;

pub(super) struct Arrivals {
    records: u64,
    last_ps: u64,
    gaps: Histogram<u64>,
    zero_gaps: u64,
    gap_ps_max: u64,
    /// Sum of the squared gaps: at most the square of their sum, which is below 2^128.
    gap_squares: u128,
    second: Windows,
    tenth: Windows,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Arrivals {
            records: 0,
            last_ps: 0,
            gaps: Histogram::new_with_bounds(1, GAP_NS_MAX, 3).expect("the bounds are constants in order"),
            zero_gaps: 0,
            gap_ps_max: 0,
            gap_squares: 0,
            second: Windows::new(SECOND_PS),
            tenth: Windows::new(SECOND_PS / 10),
        }
    }

    /// Counts an I/O, which must not be earlier than the last one.
    pub(super) fn record(&mut self, time_ps: u64) {
        if self.records > 0 {
            let gap_ps = time_ps - self.last_ps;
            self.gaps.saturating_record(gap_ps.saturating_add(500) / 1000);
            self.zero_gaps += u64::from(gap_ps == 0);
            self.gap_ps_max = self.gap_ps_max.max(gap_ps);
            self.gap_squares += u128::from(gap_ps) * u128::from(gap_ps);
        }
        self.records += 1;
        self.last_ps = time_ps;
        self.second.record(time_ps);
        self.tenth.record(time_ps);
    }

    /// Time of the last I/O, in picoseconds.
    pub(super) fn last_ps(&self) -> u64 {
        self.last_ps
    }

    pub(super) fn finish(&self) -> Option<Found> {
        let iops = u128::from(self.records) * u128::from(SECOND_PS);
        (self.records > 0).then(|| Found {
            mean_iops: (self.last_ps > 0).then(|| ratio(iops, self.last_ps.into())),
            peak_second: self.second.peak(),
            peak_100ms: self.tenth.peak(),
            dispersion_second: self.second.dispersion(),
            dispersion_100ms: self.tenth.dispersion(),
            gaps: self.gaps(),
        })
    }

    fn gaps(&self) -> Option<Gaps> {
        let count = self.records.checked_sub(1).filter(|count| *count > 0)?;
        let most_ns = self.gap_ps_max.saturating_add(500) / 1000;
        let at = |quantile: f64| self.gaps.value_at_quantile(quantile).min(most_ns);
        let sum = self.last_ps as f64;
        Some(Gaps {
            mean_ns: ratio(self.last_ps.into(), u128::from(count) * 1000),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p99_9_ns: at(0.999),
            max_ns: ns(self.gap_ps_max),
            zero_share: ratio(self.zero_gaps.into(), count.into()),
            variation: (sum > 0.0)
                .then(|| six_decimals(count as f64 * self.gap_squares as f64 / (sum * sum) - 1.0)),
        })
    }
}

/// I/Os in consecutive intervals of equal length, including empty ones.
struct Windows {
    width_ps: u64,
    index: u64,
    records: u64,
    peak: (u64, u64),
    all: u128,
    /// Sum of the squared counts of completed intervals.
    squares: u128,
}

impl Windows {
    fn new(width_ps: u64) -> Self {
        Windows { width_ps, index: 0, records: 0, peak: (0, 0), all: 0, squares: 0 }
    }

    fn record(&mut self, time_ps: u64) {
        let index = time_ps / self.width_ps;
        if index != self.index {
            self.squares += u128::from(self.records) * u128::from(self.records);
            (self.index, self.records) = (index, 0);
        }
        self.records += 1;
        self.all += 1;
        if self.records > self.peak.0 {
            self.peak = (self.records, index);
        }
    }

    fn peak(&self) -> Peak {
        let (records, index) = self.peak;
        Peak {
            records,
            iops: ratio(u128::from(records) * u128::from(SECOND_PS), self.width_ps.into()),
            at_ns: ns(index * self.width_ps),
        }
    }

    /// Index of dispersion of the completed intervals.
    fn dispersion(&self) -> Option<f64> {
        let count = u128::from(self.index);
        let all = self.all - u128::from(self.records);
        let spread = (count * self.squares).saturating_sub(all * all);
        (count >= 2 && all > 0).then(|| ratio(spread, count * all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::{Exponential, Rng};

    // Burstiness is defined by its two fixed points: evenly spaced arrivals, and independent ones.
    #[test]
    fn even_arrivals_have_no_dispersion_and_independent_ones_have_one() {
        let mut even = Arrivals::new();
        (0..100_000).for_each(|index| even.record(index * 1_000_000_000));
        let found = even.finish().unwrap();
        assert_eq!((found.dispersion_second, found.dispersion_100ms), (Some(0.0), Some(0.0)));
        assert_eq!((found.peak_second.records, found.peak_100ms.iops), (1000, 1000.0));
        let gaps = found.gaps.unwrap();
        assert_eq!((gaps.p50_ns, gaps.mean_ns, gaps.variation), (1_000_000, 1e6, Some(0.0)));

        let mut independent = Arrivals::new();
        let (draw, mut stream) = (Exponential::new(1e9).unwrap(), Rng::new(1).stream("arrivals"));
        let mut at = 0.0;
        for _ in 0..200_000 {
            at += draw.sample(&mut stream);
            independent.record(at as u64);
        }
        let found = independent.finish().unwrap();
        for found in [found.dispersion_100ms.unwrap(), found.gaps.unwrap().variation.unwrap()] {
            assert!((found - 1.0).abs() < 0.1, "{found}");
        }
    }

    // Empty intervals between bursts are what makes bursts; without them, one burst a minute would look even.
    #[test]
    fn silence_counts() {
        let mut arrivals = Arrivals::new();
        for burst in 0..10 {
            (0..100).for_each(|_| arrivals.record(burst * 60 * SECOND_PS));
        }
        let found = arrivals.finish().unwrap();
        // 9 of 540 seconds have 100 I/Os each: mean 5/3, variance 166.7 - 2.8.
        assert!((found.dispersion_second.unwrap() - 98.333333).abs() < 1e-5, "{:?}", found.dispersion_second);
        assert_eq!((found.peak_second.records, found.peak_second.at_ns), (100, 0.0));
        assert_eq!(found.gaps.unwrap().zero_share, 0.990991);
    }

    // Extreme traces: nothing, one I/O, all at once, 213 days.
    #[test]
    fn extreme_times_are_figures_too() {
        let of = |times: &[u64]| {
            let mut arrivals = Arrivals::new();
            times.iter().for_each(|time| arrivals.record(*time));
            arrivals.finish()
        };
        assert_eq!(of(&[]), None);
        let one = of(&[0]).unwrap();
        assert_eq!((one.mean_iops, one.gaps, one.dispersion_second), (None, None, None));
        let same = of(&[0; 5]).unwrap();
        assert_eq!((same.mean_iops, same.gaps.unwrap().variation, same.peak_second.records), (None, None, 5));
        let far = of(&[0, u64::MAX]).unwrap();
        assert_eq!(far.gaps.unwrap().max_ns, ns(u64::MAX));
        assert!(far.dispersion_100ms.unwrap() > 0.9);
    }
}
