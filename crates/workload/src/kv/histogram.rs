//! CacheLib's distributions of a production cache: lengths and popularity of objects (`sizes.json` and
//! `pop.json` of its benchmark).

use std::path::Path;

use byteway_clock::random::Stream;
use serde::Deserialize;

use super::file::refused;
use byteway_text::error::InputError;
use byteway_text::file::read_small_file;

/// Values with weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    values: Vec<u64>,
    /// Cumulative weights.
    sums: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SizesFile {
    val_size_range: Vec<u64>,
    val_size_range_probability: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PopularityFile {
    popularity_buckets: Vec<u64>,
    popularity_weights: Vec<u64>,
}

impl Histogram {
    /// `None` if the numbers of weights and values differ, or if the total weight is 0 or above 2^63.
    pub fn new(values: Vec<u64>, weights: &[u64]) -> Option<Self> {
        let mut sum = 0u64;
        let mut sums = Vec::with_capacity(weights.len());
        for weight in weights {
            sum = sum.checked_add(*weight).filter(|sum| *sum < 1 << 63)?;
            sums.push(sum);
        }
        (values.len() == sums.len() && sum > 0).then_some(Histogram { values, sums })
    }

    /// The lengths of a cache's objects: `sizes.json`.
    ///
    /// # Errors
    /// The file cannot be read, or has another format.
    pub fn sizes(path: &Path) -> Result<Self, InputError> {
        let file: SizesFile = read(path)?;
        Histogram::new(file.val_size_range, &file.val_size_range_probability)
            .ok_or_else(|| refused(path, "its lengths and their weights do not match"))
    }

    /// The largest value.
    pub fn max(&self) -> u64 {
        self.values.iter().copied().max().unwrap_or(0)
    }

    /// The weighted mean.
    pub fn mean(&self) -> f64 {
        let mut before = 0;
        let parts = self.values.iter().zip(&self.sums).map(|(value, sum)| {
            let weight = sum - before;
            before = *sum;
            *value as f64 * weight as f64
        });
        parts.sum::<f64>() / whole(&self.sums) as f64
    }

    /// Draws the index of a value by weight.
    fn index(&self, stream: &mut Stream) -> usize {
        let at = stream.below(whole(&self.sums));
        self.sums.partition_point(|sum| *sum <= at)
    }

    /// Draws a value.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        self.values[self.index(stream)]
    }
}

/// The total weight.
fn whole(sums: &[u64]) -> u64 {
    sums.last().copied().unwrap_or(1)
}

/// Popularity of a cache's objects: groups of equally popular objects, the most popular first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Popularity {
    groups: Histogram,
    firsts: Vec<u64>,
    objects: u64,
}

impl Popularity {
    /// Loads `pop.json`: the number of objects in each group, and of requests for the group.
    ///
    /// # Errors
    /// [`InputError`] if the file cannot be read, or has another format.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let file: PopularityFile = read(path)?;
        Popularity::new(file.popularity_buckets, &file.popularity_weights)
            .ok_or_else(|| refused(path, "its groups and their weights do not match"))
    }

    fn new(groups: Vec<u64>, weights: &[u64]) -> Option<Self> {
        let mut objects = 0u64;
        let mut firsts = Vec::with_capacity(groups.len());
        for group in &groups {
            firsts.push(objects);
            objects = objects.checked_add(*group)?;
        }
        // A group with requests needs an object to draw.
        let is_empty = groups.iter().zip(weights).any(|(group, weight)| *group == 0 && *weight > 0);
        let groups = Histogram::new(groups, weights).filter(|_| !is_empty)?;
        Some(Popularity { groups, firsts, objects })
    }

    /// Number of objects.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// Draws an object; 0 is the most popular.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        let group = self.groups.index(stream);
        self.firsts[group] + stream.below(self.groups.values[group])
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, InputError> {
    let text = read_small_file(path, "distribution")?;
    serde_json::from_str(&text).map_err(|error| refused(path, &error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::Rng;

    // A draw that is off by one group makes the second object as popular as the first.
    #[test]
    fn draws_follow_the_weights() {
        let histogram = Histogram::new(vec![31, 63, 95], &[1, 0, 3]).unwrap();
        assert_eq!((histogram.max(), histogram.mean()), (95, 79.0));
        let mut stream = Rng::new(1).stream("sizes");
        let drawn: Vec<u64> = (0..40_000).map(|_| histogram.draw(&mut stream)).collect();
        let count = |value| drawn.iter().filter(|drawn| **drawn == value).count();
        assert!((count(31) as f64 / 40_000.0 - 0.25).abs() < 0.01);
        assert_eq!((count(63), count(31) + count(95)), (0, 40_000));

        let popularity = Popularity::new(vec![1, 9], &[50, 50]).unwrap();
        let mut stream = Rng::new(1).stream("objects");
        let mut found = [0u32; 10];
        (0..90_000).for_each(|_| found[popularity.draw(&mut stream) as usize] += 1);
        assert!((f64::from(found[0]) / 45_000.0 - 1.0).abs() < 0.02, "{found:?}");
        assert!(found[1..].iter().all(|found| (4600..5400).contains(found)), "{found:?}");
    }

    // A truncated or foreign file must not cause a panic, or draws of object 0 alone.
    #[test]
    fn what_is_no_distribution_is_refused() {
        assert!(Histogram::new(vec![1, 2], &[1]).is_none());
        assert!(Histogram::new(vec![1], &[0]).is_none() && Histogram::new(vec![], &[]).is_none());
        assert!(Histogram::new(vec![1, 1], &[u64::MAX, 1]).is_none());
        assert!(Popularity::new(vec![0, 1], &[1, 1]).is_none());
        assert!(Popularity::new(vec![u64::MAX, 1], &[1, 1]).is_none());
    }
}
