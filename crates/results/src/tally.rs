//! A small latency histogram: 32 buckets an octave of nanoseconds, for the percentiles of each step of a
//! series.
//!
//! The current step has an array of counts, so that counting is one addition. Of completed steps only
//! nonempty buckets are kept, and two steps are merged exactly.

/// Sub-buckets of an octave, as a power of two: the middle of a bucket is within 1.6 % of its values.
const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
/// Longer latencies are counted as this one: about 73 minutes.
const NS_MAX: u64 = (1 << 42) - 1;
const BUCKETS: usize = bucket(NS_MAX) + 1;

/// A bucket and its number of I/Os.
pub(super) type Count = (u16, u32);

const fn bucket(ns: u64) -> usize {
    let octave = if ns < SUB { 0 } else { ns.ilog2() - SUB_BITS };
    ((octave as u64 * SUB) + (ns >> octave)) as usize
}

/// The middle of a bucket, in nanoseconds.
fn middle_ns(bucket: u16) -> f64 {
    let bucket = u64::from(bucket);
    let octave = (bucket / SUB).saturating_sub(1);
    let first = (bucket - octave * SUB) << octave;
    // The last value of the bucket is 2^octave - 1 above the first.
    first as f64 + ((1u64 << octave) - 1) as f64 / 2.0
}

/// Latencies of the current step.
#[derive(Default)]
pub(super) struct Tally {
    /// Empty until the first latency.
    counts: Vec<u32>,
    /// Range of nonempty buckets, end exclusive.
    touched: (usize, usize),
}

impl Tally {
    /// Counts a latency.
    #[inline]
    pub(super) fn count(&mut self, ns: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
            self.touched = (BUCKETS, 0);
        }
        let bucket = bucket(ns.min(NS_MAX));
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
        self.touched = (self.touched.0.min(bucket), self.touched.1.max(bucket + 1));
    }

    /// Appends the nonempty buckets to `out` in order, and clears them.
    pub(super) fn drain_into(&mut self, out: &mut Vec<Count>) {
        let (first, end) = self.touched;
        for bucket in first..end {
            let count = std::mem::take(&mut self.counts[bucket]);
            if count > 0 {
                out.push((bucket as u16, count));
            }
        }
        self.touched = (BUCKETS.min(self.counts.len()), 0);
    }
}

/// Merges the counts of two steps, appending to `out` in order.
pub(super) fn merge<'a>(mut a: &'a [Count], mut b: &'a [Count], out: &mut Vec<Count>) {
    while let (Some(x), Some(y)) = (a.first(), b.first()) {
        let bucket = x.0.min(y.0);
        let mut count = 0u32;
        for side in [&mut a, &mut b] {
            if let Some((_, more)) = side.first().filter(|first| first.0 == bucket) {
                count = count.saturating_add(*more);
                *side = &side[1..];
            }
        }
        out.push((bucket, count));
    }
    out.extend_from_slice(a);
    out.extend_from_slice(b);
}

/// The percentile in nanoseconds; 0 without I/Os.
pub(super) fn percentile_ns(counts: &[Count], percent: u64) -> f64 {
    let all: u64 = counts.iter().map(|(_, count)| u64::from(*count)).sum();
    let wanted = (u128::from(all) * u128::from(percent)).div_ceil(100).max(1);
    let mut passed = 0;
    let found = counts.iter().find(|(_, count)| {
        passed += u128::from(*count);
        passed >= wanted
    });
    found.map_or(0.0, |(bucket, _)| middle_ns(*bucket))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A bucket off by one makes percentiles wrong by 3 %, or indexes beyond the table.
    #[test]
    fn every_latency_is_found_near_itself() {
        for ns in (0..5000).chain((5..42).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 7])) {
            assert!(bucket(ns) < BUCKETS);
            let middle = middle_ns(bucket(ns) as u16);
            assert!((middle - ns as f64).abs() <= 0.016 * ns as f64, "{ns}: {middle}");
        }
        for ns in 1..5000 {
            let further = bucket(ns) - bucket(ns - 1);
            assert!(further <= 1, "{ns}");
        }
        assert_eq!(bucket(NS_MAX), BUCKETS - 1);
    }

    // Percentiles by hand: of 1 to 100 ns the 50th is 50 and the 99th 99; up to 64 each value has its own
    // bucket.
    #[test]
    fn percentiles_of_a_hundred() {
        let mut tally = Tally::default();
        (1..=100).for_each(|ns| tally.count(ns));
        let mut counts = Vec::new();
        tally.drain_into(&mut counts);
        assert_eq!(percentile_ns(&counts, 50), 50.0);
        assert_eq!(percentile_ns(&counts, 99), 98.5, "98 and 99 share a bucket");
        assert_eq!(percentile_ns(&[], 50), 0.0);
        tally.drain_into(&mut counts);
        assert_eq!(counts.len(), 63 + 19, "it was empty");
        tally.count(u64::MAX);
        counts.clear();
        tally.drain_into(&mut counts);
        assert_eq!(counts, [(BUCKETS as u16 - 1, 1)]);
    }

    // Counts that merging loses or duplicates would show only as wrong percentiles.
    #[test]
    fn merging_is_counting_together() {
        let (mut a, mut b, mut both) = (Tally::default(), Tally::default(), Tally::default());
        for i in 0..1000u64 {
            let ns = i * i * 37 % 1_000_003;
            if i % 3 == 0 {
                a.count(ns)
            } else {
                b.count(ns)
            }
            both.count(ns);
        }
        let (mut of_a, mut of_b, mut of_both, mut merged) = (vec![], vec![], vec![], vec![]);
        a.drain_into(&mut of_a);
        b.drain_into(&mut of_b);
        both.drain_into(&mut of_both);
        merge(&of_a, &of_b, &mut merged);
        assert_eq!(merged, of_both);
    }
}
