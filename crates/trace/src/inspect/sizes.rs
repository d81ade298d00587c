//! Lengths of I/Os by kind: a histogram of exact sizes in bounded memory.

use std::collections::BTreeMap;

use super::figures::KINDS;
use super::inspection::{SizeRow, Sizes as Found};
use crate::Kind;
use byteway_text::number::ratio;

/// Sizes counted exactly, at most. A trace of a real device has some hundreds.
const DISTINCT_MAX: usize = 1 << 16;

/// Significant bits of sizes counted beyond that: at most some 30,000 more sizes.
const COARSE_BITS: u32 = 10;

const FREQUENT: usize = 8;

#[derive(Default)]
pub(super) struct Sizes {
    /// I/Os of each size, by kind.
    counts: BTreeMap<u64, [u64; KINDS.len()]>,
    rounded: u64,
    bytes: [u128; KINDS.len()],
    longest: u64,
}

impl Sizes {
    pub(super) fn record(&mut self, kind: Kind, bytes: u64) {
        let index = kind as usize;
        self.bytes[index] += u128::from(bytes);
        self.longest = self.longest.max(bytes);
        if let Some(counts) = self.counts.get_mut(&bytes) {
            counts[index] += 1;
            return;
        }
        let mut key = bytes;
        if self.counts.len() >= DISTINCT_MAX {
            let shift = (u64::BITS - bytes.leading_zeros()).saturating_sub(COARSE_BITS);
            key = bytes >> shift << shift;
            self.rounded += u64::from(key != bytes);
        }
        self.counts.entry(key).or_default()[index] += 1;
    }

    /// Statistics of all I/Os, then of each kind that occurs.
    pub(super) fn finish(&self) -> Vec<Found> {
        let of_all = self.of(None, |counts| counts.iter().sum(), self.bytes.iter().sum());
        let of_kinds = KINDS.map(|kind| {
            let index = kind as usize;
            self.of(Some(kind), |counts| counts[index], self.bytes[index])
        });
        [of_all].into_iter().chain(of_kinds).flatten().collect()
    }

    fn of(
        &self,
        kind: Option<Kind>,
        count: impl Fn(&[u64; KINDS.len()]) -> u64,
        bytes: u128,
    ) -> Option<Found> {
        let sizes = self.counts.iter().map(|(size, counts)| (*size, count(counts)));
        let mut sizes: Vec<_> = sizes.filter(|(_, count)| *count > 0).collect();
        let records: u64 = sizes.iter().map(|(_, count)| count).sum();
        let (min_bytes, max_bytes) = (sizes.first()?.0, sizes.last()?.0);
        // The smallest size that is not exceeded by `percent` % of the I/Os.
        let at = |percent: u64| {
            let (mut left, wanted) = (records, u128::from(records) * u128::from(100 - percent));
            let reached = sizes.iter().find(|(_, count)| {
                left -= count;
                u128::from(left) * 100 <= wanted
            });
            reached.map_or(max_bytes, |(size, _)| *size)
        };
        let (p50_bytes, p90_bytes, p99_bytes) = (at(50), at(90), at(99));
        sizes.sort_by_key(|(size, count)| (std::cmp::Reverse(*count), *size));
        let row = |&(bytes, count): &(u64, u64)| SizeRow {
            bytes,
            records: count,
            share: ratio(count.into(), records.into()),
        };
        Some(Found {
            kind,
            mean_bytes: ratio(bytes, records.into()),
            min_bytes,
            p50_bytes,
            p90_bytes,
            p99_bytes,
            max_bytes: if kind.is_none() { self.longest } else { max_bytes },
            frequent: sizes.iter().take(FREQUENT).map(row).collect(),
        })
    }

    pub(super) fn note(&self) -> Option<String> {
        (self.rounded > 0).then(|| {
            format!(
                "more than {DISTINCT_MAX} different sizes: {} I/Os of further ones are counted at sizes rounded down by up \
                 to 0.2 %",
                self.rounded
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A percentile off by one I/O turns 4 KiB into 1 MiB where each is half of the I/Os.
    #[test]
    fn sizes_are_ranked_and_counted() {
        let mut sizes = Sizes::default();
        assert!(sizes.finish().is_empty());
        (0..50).for_each(|_| sizes.record(Kind::Read, 4096));
        (0..40).for_each(|_| sizes.record(Kind::Write, 8192));
        (0..10).for_each(|_| sizes.record(Kind::Read, 1 << 20));
        let found = sizes.finish();
        assert_eq!(
            found.iter().map(|sizes| sizes.kind).collect::<Vec<_>>(),
            [None, Some(Kind::Read), Some(Kind::Write)]
        );
        let all = &found[0];
        assert_eq!((all.min_bytes, all.p50_bytes, all.p90_bytes), (4096, 4096, 8192));
        assert_eq!((all.p99_bytes, all.max_bytes), (1 << 20, 1 << 20));
        assert_eq!(all.mean_bytes, 110_182.4);
        assert_eq!((all.frequent[1].bytes, all.frequent[1].records, all.frequent[1].share), (8192, 40, 0.4));
        assert_eq!((found[1].p50_bytes, found[1].p90_bytes), (4096, 1 << 20));
    }

    // A trace with a different size on every line would fill memory.
    #[test]
    fn any_number_of_sizes_takes_bounded_memory() {
        let mut sizes = Sizes::default();
        for index in 0..300_000u64 {
            sizes.record(Kind::Write, 1 + index);
            sizes.record(Kind::Write, (1 << 62) + index * (1 << 40));
        }
        assert!(sizes.counts.len() < DISTINCT_MAX + 30_000, "{}", sizes.counts.len());
        assert!(sizes.note().is_some());
        let all = &sizes.finish()[0];
        assert!(all.p50_bytes >= 299_000 && all.p50_bytes <= 300_000, "{}", all.p50_bytes);
    }
}
