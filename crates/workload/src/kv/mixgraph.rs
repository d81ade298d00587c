//! MixGraph's access pattern with prefixes: a social graph's, fitted to production traces (Cao and others,
//! FAST 2020; the parameters are those that db_bench documents for its "prefix_dist" runs).
//!
//! The keys are divided into ranges of equal size, whose popularities are a sum of two exponentials. Ranges
//! are in random order; within a range popularity is a power law, scattered. db_bench uses one random number
//! for range, key, kind and length; here each is drawn from its own stream, so that they are independent.

use byteway_clock::random::{GeneralizedPareto, Rng, Stream, mix};

/// Number of key ranges.
const RANGES: u64 = 30;
/// Popularity of range x, from 1: a e^(b x) + c e^(d x).
const RANGE: [f64; 4] = [14.18, -2.917, 0.0164, -0.08082];
/// Cumulative popularity within a range: the inverse of a x^b selects the x-th key.
const KEY: [f64; 2] = [0.002312, 0.3467];
/// Lengths of scans: shape and scale of a generalized Pareto distribution.
const SCAN: [f64; 2] = [2.517, 14.236];
/// Longer scans are taken modulo this, db_bench's default.
const SCAN_MAX: u64 = 10_000;

/// Shares of retrieves, stores and scans.
pub(super) const MIX: [f64; 3] = [0.85, 0.14, 0.01];

/// Draws the numbers of keys.
pub(super) struct Prefixes {
    /// Cumulative popularity of each range, up to 1, and the position of the range.
    ranges: Vec<(f64, u64)>,
    range_keys: u64,
    keys: u64,
    salt: u64,
}

impl Prefixes {
    /// A pattern over `keys` keys, at least 1. `rng` determines the order of the ranges, equal for all
    /// workers.
    pub(super) fn new(keys: u64, rng: &Rng, name: &str) -> Self {
        let mut stream = rng.stream(&format!("kv/{name}/ranges"));
        let count = RANGES.min(keys);
        let mut places: Vec<u64> = (0..count).collect();
        stream.shuffle(&mut places);
        let [a, b, c, d] = RANGE;
        let popularity = |range: u64| a * libm::exp(b * range as f64) + c * libm::exp(d * range as f64);
        let whole: f64 = (1..=count).map(popularity).sum();
        let mut sum = 0.0;
        let ranges = places.into_iter().zip(1..).map(|(place, range)| {
            sum += popularity(range) / whole;
            (sum, place)
        });
        Prefixes { ranges: ranges.collect(), range_keys: keys / count, keys, salt: stream.next_u64() }
    }

    pub(super) fn draw(&self, stream: &mut Stream) -> u64 {
        let at = stream.unit();
        let last = self.ranges.len() - 1;
        let range = self.ranges.partition_point(|(sum, _)| *sum <= at).min(last);
        let [a, b] = KEY;
        // The inverse of a x^b; scattered, so that popular keys are not adjacent.
        let rank = libm::ceil(libm::pow(stream.unit_open() / a, 1.0 / b)) as u64;
        let offset = mix(rank ^ self.salt) % self.range_keys;
        (self.ranges[range].1 * self.range_keys + offset).min(self.keys - 1)
    }
}

/// Draws the number of key-value pairs in a scan.
pub(super) struct Scans {
    pareto: GeneralizedPareto,
}

impl Scans {
    pub(super) fn new() -> Self {
        let [k, sigma] = SCAN;
        Scans { pareto: GeneralizedPareto::new(0.0, k, sigma).expect("these are constants") }
    }

    pub(super) fn draw(&self, stream: &mut Stream) -> u32 {
        let length = libm::ceil(self.pareto.sample(stream)).min(1e15) as u64;
        (length % SCAN_MAX) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Without hot ranges and hot keys prefix_dist would be random access, and caches useless.
    #[test]
    fn ranges_and_keys_are_as_popular_as_fitted() {
        let keys = 3_000_000;
        let prefixes = Prefixes::new(keys, &Rng::new(3), "mix");
        let mut stream = Rng::new(3).stream("keys");
        let drawn: Vec<u64> = (0..200_000).map(|_| prefixes.draw(&mut stream)).collect();
        assert!(drawn.iter().all(|key| *key < keys));
        let mut ranges = vec![0u32; RANGES as usize];
        drawn.iter().for_each(|key| ranges[(key / (keys / RANGES)) as usize] += 1);
        ranges.sort_unstable_by(|a, b| b.cmp(a));
        let share = |count: u32| f64::from(count) / 200_000.0;
        // 14.18 e^-2.917 + 0.0164 e^-0.08082 of a whole of 0.989.
        assert!((share(ranges[0]) - 0.791).abs() < 0.005, "{}", share(ranges[0]));
        assert!(ranges.iter().all(|count| *count > 100), "{ranges:?}");
        // Half of the accesses go to what a x^b gives one half: 5.5 million ranks that fall on 100,000 keys; but the
        // first 1000 ranks alone have 0.002312 x 1000^0.3467 = 2.5 % of them.
        let mut counts = std::collections::BTreeMap::new();
        drawn.iter().for_each(|key| *counts.entry(*key).or_insert(0u32) += 1);
        let hottest = counts.values().max().copied().unwrap_or(0);
        assert!(share(hottest) > 0.001, "{hottest}");
    }

    // With fewer keys than ranges, a range would have no key to draw.
    #[test]
    fn few_keys_are_drawn_too() {
        for keys in [1, 7, 31] {
            let prefixes = Prefixes::new(keys, &Rng::new(3), "mix");
            let mut stream = Rng::new(3).stream("keys");
            assert!((0..1000).all(|_| prefixes.draw(&mut stream) < keys));
        }
    }

    // An unbounded scan would occasionally read the whole drive: with this shape the mean is infinite.
    #[test]
    fn scans_end() {
        let (scans, mut stream) = (Scans::new(), Rng::new(3).stream("scans"));
        let mut drawn: Vec<u32> = (0..10_001).map(|_| scans.draw(&mut stream)).collect();
        drawn.sort_unstable();
        assert!(drawn.iter().all(|length| u64::from(*length) < SCAN_MAX));
        // The median of the distribution: 14.236 (2^2.517 - 1) / 2.517 = 26.7.
        assert!((24..30).contains(&drawn[5000]), "{}", drawn[5000]);
    }
}
