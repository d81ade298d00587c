//! The read cache: units that the host has read from flash, or that were read ahead of it, kept in DRAM, with
//! least-recently-used eviction. Which ones are kept is a [policy](crate::policy::admission)'s to say.
//!
//! A unit is kept with its flash address and the erase count of that superblock, and returned only while the
//! map has the same address. So writes, deallocations and moves need not invalidate it.

use crate::ftl::blocks::Blocks;
use crate::ftl::config::FtlConfig;
use crate::ftl::recency::Recency;
use crate::policy::admission::{Admission, AdmissionView};
use byteway_clock::random::{Rng, Stream as Random};
use byteway_content::Content;
use byteway_flash::Ppa;
use byteway_policy::Asked;
use rustc_hash::FxHashMap;

/// Identity of a unit's version in flash: equal origins mean equal content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) struct Origin {
    ppa: Ppa,
    erases: u32,
}

impl Origin {
    /// Origin of a unit that is read now.
    pub(in crate::ftl) fn of(ppa: Ppa, blocks: &Blocks) -> Self {
        Origin { ppa, erases: blocks.erases(blocks.block_of(ppa)) }
    }
}

struct Frame {
    lpa: u64,
    origin: Origin,
    content: Content,
    /// It was read ahead, and the host has not read it yet.
    is_ahead: bool,
}

/// A unit that was found.
pub(in crate::ftl) struct Found {
    pub(in crate::ftl) content: Content,
    /// It was read ahead, and the host reads it for the first time.
    pub(in crate::ftl) was_ahead: bool,
}

/// The read cache.
pub(in crate::ftl) struct ReadCache {
    capacity: usize,
    /// Units of the drive.
    units: u64,
    /// Decides which units are kept, if it is to be asked.
    admission: Option<Asked<dyn Admission, Random>>,
    frames: Vec<Frame>,
    index: FxHashMap<u64, u32>,
    recency: Recency,
}

impl ReadCache {
    /// A cache of as many units as `config` says, at least one.
    pub(in crate::ftl) fn new(config: &FtlConfig) -> Self {
        let random = || Rng::new(config.seed).stream("admission");
        ReadCache {
            capacity: config.read_cache_units.max(1) as usize,
            units: config.user_units,
            admission: (!config.admission.is_default())
                .then(|| Asked::new("admission policy", &config.admission, random())),
            frames: Vec::new(),
            index: FxHashMap::default(),
            recency: Recency::default(),
        }
    }

    /// Units in the cache.
    pub(in crate::ftl) fn len(&self) -> usize {
        self.frames.len()
    }

    /// A unit with this origin, if cached, for the host.
    pub(in crate::ftl) fn get(&mut self, lpa: u64, origin: Origin) -> Option<Found> {
        let index = *self.index.get(&lpa)?;
        let frame = &mut self.frames[index as usize];
        if frame.origin != origin {
            return None;
        }
        let found = Found { content: frame.content.clone(), was_ahead: std::mem::take(&mut frame.is_ahead) };
        self.recency.touch(index);
        if let Some(admission) = &mut self.admission {
            let capacity = self.capacity as u32;
            admission.ask(|policy, _| {
                policy.found(lpa, capacity);
                Ok(())
            });
        }
        Some(found)
    }

    /// Whether a unit with this origin is cached.
    pub(in crate::ftl) fn has(&self, lpa: u64, origin: Origin) -> bool {
        self.index.get(&lpa).is_some_and(|index| self.frames[*index as usize].origin == origin)
    }

    /// Whether the cache has a unit, be it of now or of before.
    pub(in crate::ftl) fn holds(&self, lpa: u64) -> bool {
        self.index.contains_key(&lpa)
    }

    /// Whether a unit is cached because it was read ahead, and the host has not read it yet.
    pub(in crate::ftl) fn is_ahead(&self, lpa: u64) -> bool {
        self.index.get(&lpa).is_some_and(|index| self.frames[*index as usize].is_ahead)
    }

    /// Caches the content of a unit that the host has read, if it is to be kept.
    pub(in crate::ftl) fn put(&mut self, lpa: u64, origin: Origin, content: &Content) {
        if self.admission.is_none() || self.index.contains_key(&lpa) || self.admits(lpa) {
            self.keep(Frame { lpa, origin, content: content.clone(), is_ahead: false });
        }
    }

    /// Caches the content of a unit that was read ahead.
    pub(in crate::ftl) fn put_ahead(&mut self, lpa: u64, origin: Origin, content: Content) {
        self.keep(Frame { lpa, origin, content, is_ahead: true });
    }

    fn keep(&mut self, kept: Frame) {
        let lpa = kept.lpa;
        if let Some(index) = self.index.get(&lpa).copied() {
            self.recency.touch(index);
            self.frames[index as usize] = kept;
            return;
        }
        let index = match self.oldest() {
            None => {
                self.frames.push(kept);
                self.frames.len() as u32 - 1
            }
            Some(index) => {
                self.recency.remove(index);
                let replaced = std::mem::replace(&mut self.frames[index as usize], kept);
                self.index.remove(&replaced.lpa);
                index
            }
        };
        self.index.insert(lpa, index);
        self.recency.add(index);
    }

    /// The frame that makes place for another unit; none while there is room.
    fn oldest(&self) -> Option<u32> {
        if self.frames.len() < self.capacity { None } else { self.recency.oldest().next() }
    }

    /// Whether the policy admits a unit that is not cached.
    fn admits(&mut self, unit: u64) -> bool {
        let victim = self.oldest().map(|index| self.frames[index as usize].lpa);
        let ReadCache { capacity, units, admission, .. } = self;
        let (capacity, units) = (*capacity as u32, *units);
        let admits = admission.as_mut().and_then(|asked| {
            asked.ask(|policy, random| {
                let admits = policy.admits(&mut AdmissionView { unit, units, capacity, victim, random });
                policy.fault().map_or(Ok(admits), Err)
            })
        });
        admits.unwrap_or(true)
    }

    /// Empties the cache.
    pub(in crate::ftl) fn clear(&mut self) {
        self.frames.clear();
        self.index.clear();
        self.recency = Recency::default();
    }

    /// What the policy did wrong, if it did.
    pub(in crate::ftl) fn fault(&self) -> Option<&str> {
        self.admission.as_ref()?.fault()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policies;

    fn origin(place: u64) -> Origin {
        Origin { ppa: Ppa(place), erases: 0 }
    }

    fn cache(units: u32, admission: &str) -> ReadCache {
        let admission = Policies::default().find(admission).unwrap();
        let config =
            FtlConfig { user_units: UNITS, read_cache_units: units, admission, ..FtlConfig::default() };
        ReadCache::new(&config)
    }

    /// Reads a unit as a host does. True if it was cached.
    fn read(cache: &mut ReadCache, unit: u64) -> bool {
        let is_hit = cache.get(unit, origin(unit)).is_some();
        if !is_hit {
            cache.put(unit, origin(unit), &Content::Zero);
        }
        is_hit
    }

    /// Units of the drive.
    const UNITS: u64 = 20_000;

    /// How popular units are: by rank, to the power of an exponent (Zipf).
    struct Zipf {
        chances: Vec<f64>,
        sums: Vec<f64>,
    }

    impl Zipf {
        fn new(exponent: f64) -> Self {
            let weights: Vec<f64> = (1..=UNITS).map(|rank| libm::pow(rank as f64, -exponent)).collect();
            let all: f64 = weights.iter().sum();
            let chances: Vec<f64> = weights.iter().map(|weight| weight / all).collect();
            let sums = chances.iter().scan(0.0, |sum, chance| {
                *sum += chance;
                Some(*sum)
            });
            Zipf { sums: sums.collect(), chances }
        }

        fn draw(&self, random: &mut Random) -> u64 {
            let at = random.below(1 << 53) as f64 / (1u64 << 53) as f64;
            self.sums.partition_point(|sum| *sum <= at).min(UNITS as usize - 1) as u64
        }

        /// Hit rate of a cache of the least recently used, by Che's approximation: a unit is in it if it was read within the time in which as
        /// many different ones are read as it holds.
        fn che(&self, units: u32) -> f64 {
            let is_held = |chance: f64, time: f64| 1.0 - libm::exp(-chance * time);
            let held = |time: f64| self.chances.iter().map(|chance| is_held(*chance, time)).sum::<f64>();
            let (mut low, mut high) = (0.0, 1e9);
            for _ in 0..100 {
                let middle = 0.5 * (low + high);
                if held(middle) < f64::from(units) { low = middle } else { high = middle }
            }
            self.chances.iter().map(|chance| chance * is_held(*chance, low)).sum()
        }

        /// Hit rate of a cache that always holds the most popular ones: the most that any can have.
        fn best(&self, units: u32) -> f64 {
            self.chances[..units as usize].iter().sum()
        }

        fn simulated(&self, units: u32, admission: &str) -> f64 {
            let (mut cache, mut random) = (cache(units, admission), Rng::new(7).stream("zipf"));
            let warm_up = 200_000;
            let hits = (0..2 * warm_up).filter(|at| {
                let is_hit = read(&mut cache, self.draw(&mut random));
                is_hit && *at >= warm_up
            });
            hits.count() as f64 / f64::from(warm_up)
        }
    }

    // A cache whose hit rate is another than theory's is another cache; a policy that pays for itself has to find what is popular.
    #[test]
    fn hit_rates_are_those_of_theory() {
        for (exponent, units) in [(0.7, 200), (0.7, 2000), (0.9, 200), (0.9, 2000), (1.1, 200)] {
            let zipf = Zipf::new(exponent);
            let [lru, second, tiny] =
                ["always", "second-access", "tiny-lfu"].map(|policy| zipf.simulated(units, policy));
            let (che, best) = (zipf.che(units), zipf.best(units));
            println!(
                "{exponent}, {units} units: always {lru:.4} (Che {che:.4}), second-access {second:.4}, tiny-lfu {tiny:.4}, best {best:.4}"
            );
            assert!((lru / che - 1.0).abs() < 0.03, "{lru} is not {che}");
            for found in [second, tiny] {
                assert!(found > lru + 0.2 * (best - lru) && found <= best + 0.005, "{lru} {found} {best}");
            }
        }
    }

    // Whoever copies a drive once must not drive out what is read all day.
    #[test]
    fn what_is_read_once_does_not_replace_what_is_read_often() {
        for (policy, kept) in [("always", 0.0), ("second-access", 0.85), ("tiny-lfu", 0.85)] {
            let mut cache = cache(1000, policy);
            for _ in 0..20 {
                (0..900).for_each(|unit| {
                    read(&mut cache, unit);
                });
            }
            (5000..10_000).for_each(|unit| {
                read(&mut cache, unit);
            });
            let hits = (0..900).filter(|unit| cache.index.contains_key(unit)).count() as f64 / 900.0;
            println!("{policy}: {hits:.2} of what is hot is there after a scan");
            assert!(if kept == 0.0 { hits == 0.0 } else { hits >= kept }, "{policy}: {hits}");
        }
    }

    fn held(cache: &mut ReadCache, lpas: std::ops::Range<u64>) -> Vec<u64> {
        lpas.filter(|lpa| cache.index.contains_key(lpa)).collect()
    }

    // A list that loses a link loses frames: the cache would shrink, or a walk would never end.
    #[test]
    fn the_least_recently_used_unit_is_evicted() {
        let mut cache = cache(3, "always");
        (0..3).for_each(|lpa| cache.put(lpa, origin(lpa), &Content::Zero));
        assert!(cache.get(0, origin(0)).is_some());
        cache.put(3, origin(3), &Content::Zero);
        assert_eq!(held(&mut cache, 0..5), [0, 2, 3]);
        cache.put(2, origin(9), &Content::Zero);
        cache.put(4, origin(4), &Content::Zero);
        assert_eq!(held(&mut cache, 0..5), [2, 3, 4]);
        assert_eq!(cache.len(), 3);
        assert!(cache.get(2, origin(2)).is_none(), "it was elsewhere");
        assert!(cache.get(2, origin(9)).is_some());
        cache.clear();
        assert!(cache.len() == 0 && cache.get(2, origin(9)).is_none());
    }

    // After an erase the same address holds something else.
    #[test]
    fn an_erase_makes_another_place_of_it() {
        let mut cache = cache(1, "always");
        cache.put(7, origin(1), &Content::Zero);
        assert!(cache.get(7, Origin { erases: 1, ..origin(1) }).is_none());
    }
}
