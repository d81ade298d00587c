//! A small histogram of latencies: 32 buckets an octave of nanoseconds, for the percentiles of each step of a series.
//!
//! While a step lasts its counts lie side by side, so that counting one is an addition; of a step that is over only the
//! buckets that have any are kept, and those of two steps are merged exactly.

/// Sub-buckets of an octave: a value is told within 1.6 % from the middle of its bucket.
const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
/// Longer latencies count as this: about 73 minutes.
const NS_MAX: u64 = (1 << 42) - 1;
const BUCKETS: usize = bucket(NS_MAX) + 1;

/// How many I/Os had a latency in a bucket.
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
    // The last of its values is 2^octave - 1 further.
    first as f64 + ((1u64 << octave) - 1) as f64 / 2.0
}

/// Latencies of the step that is under way.
#[derive(Default)]
pub(super) struct Tally {
    /// None until the first latency.
    counts: Vec<u32>,
    /// The buckets that have any lie within: first, and one beyond the last.
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

    /// Moves the buckets that have any to the end of `out`, in order, and is empty again.
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

/// Adds two steps' counts to the end of `out`, in order.
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

/// The latency, in nanoseconds, that so many hundredths of the I/Os don't exceed; 0 if there are none.
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

    // A bucket that is off by one is a percentile that is off by 3 %, or an index beyond the table.
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

    // Percentiles by hand: of 1 to 100 ns the 50th is 50 and the 99th 99, each alone in its bucket up to 64.
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

    // What joining loses or counts twice would show only as a wrong percentile.
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
