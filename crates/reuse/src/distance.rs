//! Reuse distances and the miss-ratio curve that follows from them.
//!
//! The reuse distance of an access is the number of distinct other keys accessed since the last access to its
//! key. A cache of `n` entries with least-recently-used replacement hits exactly if the distance is below `n`
//! (Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques for storage hierarchies", 1970), so one pass
//! yields the miss ratio for every size.
//!
//! [`Recency`] computes distances, [`Exact`] counts them for all keys, [`Shards`](crate::Shards) for
//! a sample.

use rustc_hash::FxHashMap;

/// Keys in the order of their last access, and how many are more recent than a key: the stack of Olken
/// ("Efficient methods for calculating the success function of fixed space replacement policies", 1981). It
/// consists of time slots, a bit map that marks the last access of each key, and a Fenwick tree over the
/// words of the bit map. When the slots run out they are renumbered, so memory depends on the number of keys
/// and not of accesses.
#[derive(Default)]
pub struct Recency {
    slot_of: FxHashMap<u64, u32>,
    key_at: Vec<u64>,
    live: Vec<u64>,
    /// Fenwick tree: live slots by word of `live`.
    tree: Vec<u32>,
    next: usize,
}

/// Bits of a word of the map.
const WORD: usize = 64;

/// Minimum number of slots.
const SLOTS_MIN: usize = 1 << 10;

/// Slots for each key after renumbering, so that a key moves at most once in two accesses.
const SLOTS_PER_KEY: usize = 3;

impl Recency {
    /// Number of distinct keys.
    pub fn len(&self) -> usize {
        self.slot_of.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.slot_of.is_empty()
    }

    /// Accesses a key: returns its reuse distance, or `None` if it is new. At most 2^30 keys.
    pub fn touch(&mut self, key: u64) -> Option<u64> {
        if self.next == self.key_at.len() {
            self.renumber();
        }
        let slot = self.next;
        self.next += 1;
        let before = self.slot_of.insert(key, slot as u32).map(|slot| slot as usize);
        let distance = before.map(|before| {
            let above = self.slot_of.len() - self.up_to(before);
            self.clear(before);
            above as u64
        });
        self.key_at[slot] = key;
        self.live[slot / WORD] |= 1 << (slot % WORD);
        self.add(slot / WORD, 1);
        distance
    }

    /// Removes a key.
    pub fn remove(&mut self, key: u64) {
        if let Some(slot) = self.slot_of.remove(&key) {
            self.clear(slot as usize);
        }
    }

    fn clear(&mut self, slot: usize) {
        self.live[slot / WORD] &= !(1 << (slot % WORD));
        self.add(slot / WORD, u32::MAX);
    }

    /// Adds to a word's count, modulo 2^32: 2^32 - 1 subtracts one.
    fn add(&mut self, word: usize, count: u32) {
        let mut node = word + 1;
        while node < self.tree.len() {
            self.tree[node] = self.tree[node].wrapping_add(count);
            node += node & node.wrapping_neg();
        }
    }

    /// Number of live slots up to and including this one.
    fn up_to(&self, slot: usize) -> usize {
        let mut node = slot / WORD;
        let mut count = (self.live[node] & (u64::MAX >> (WORD - 1 - slot % WORD))).count_ones() as usize;
        while node > 0 {
            count += self.tree[node] as usize;
            node &= node - 1;
        }
        count
    }

    /// Compacts the live slots in order, which frees the slots behind them.
    fn renumber(&mut self) {
        let mut count = 0;
        for slot in 0..self.next {
            if self.live[slot / WORD] >> (slot % WORD) & 1 == 1 {
                let key = self.key_at[slot];
                self.key_at[count] = key;
                self.slot_of.insert(key, count as u32);
                count += 1;
            }
        }
        debug_assert_eq!(count, self.slot_of.len(), "each key has exactly one live slot");
        let slots = (count * SLOTS_PER_KEY).max(SLOTS_MIN).next_multiple_of(WORD).max(self.key_at.len());
        self.key_at.resize(slots, 0);
        self.live.clear();
        self.live.resize(slots / WORD, 0);
        self.tree.clear();
        self.tree.resize(slots / WORD + 1, 0);
        for word in 0..count.div_ceil(WORD) {
            let bits = (count - word * WORD).min(WORD);
            self.live[word] = u64::MAX >> (WORD - bits);
            self.add(word, bits as u32);
        }
        self.next = count;
        debug_assert!(self.next < self.key_at.len(), "renumbering leaves free slots");
    }
}

/// Exact reuse distances of all accesses, in about 60 bytes of memory a key.
#[derive(Default)]
pub struct Exact {
    recency: Recency,
    /// Accesses by distance.
    counts: Vec<u64>,
    accesses: u64,
}

impl Exact {
    /// Accesses a key.
    pub fn access(&mut self, key: u64) {
        self.accesses += 1;
        if let Some(distance) = self.recency.touch(key) {
            let distance = distance as usize;
            if distance >= self.counts.len() {
                self.counts.resize((distance + 1).next_power_of_two(), 0);
            }
            self.counts[distance] += 1;
        }
    }

    /// Number of distinct keys accessed.
    pub fn keys(&self) -> usize {
        self.recency.len()
    }

    /// The miss ratio by cache size.
    pub fn curve(&self) -> MissRatioCurve {
        let counted =
            self.counts.iter().enumerate().map(|(distance, count)| (distance as u64, *count as f64));
        MissRatioCurve::new(counted, self.accesses as f64)
    }
}

/// A histogram of weights by distance in bounded memory: exact below 2048, within 0.1 % above.
#[derive(Clone, Debug, Default)]
pub struct Distances {
    weights: Vec<f64>,
}

/// Buckets of an octave, as a power of two.
const BUCKET_BITS: u32 = 10;

impl Distances {
    /// Adds to the weight of a distance.
    pub fn add(&mut self, distance: u64, weight: f64) {
        let shift = (u64::BITS - distance.leading_zeros()).saturating_sub(BUCKET_BITS + 1);
        let index = ((shift as usize) << BUCKET_BITS) + (distance >> shift) as usize;
        if index >= self.weights.len() {
            self.weights.resize(index + 1, 0.0);
        }
        self.weights[index] += weight;
    }

    /// Weights in ascending order of distance, with the lower bound of each bucket; without zero weights.
    pub fn iter(&self) -> impl Iterator<Item = (u64, f64)> {
        let least = |index: usize| {
            let shift = (index >> BUCKET_BITS).saturating_sub(1);
            ((index - (shift << BUCKET_BITS)) as u64) << shift
        };
        let weights = self.weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
        weights.map(move |(index, weight)| (least(index), *weight))
    }
}

/// The miss ratio of a cache with least-recently-used replacement, by cache size.
#[derive(Clone, Debug, PartialEq)]
pub struct MissRatioCurve {
    /// Distances in ascending order, each with the number of accesses up to this distance.
    steps: Vec<(u64, f64)>,
    accesses: f64,
}

impl MissRatioCurve {
    /// Curve from the weights of distances in ascending order, and the weight of all accesses including first
    /// ones.
    pub fn new(weights: impl IntoIterator<Item = (u64, f64)>, accesses: f64) -> Self {
        let mut sum = 0.0;
        let steps = weights.into_iter().filter(|(_, weight)| *weight != 0.0);
        let steps = steps.map(|(distance, weight)| {
            sum += weight;
            (distance, sum)
        });
        MissRatioCurve { steps: steps.collect(), accesses }
    }

    /// The miss ratio of a cache of `size` entries, 0 to 1; 1 if there was no access.
    pub fn at(&self, size: u64) -> f64 {
        let shorter = self.steps.partition_point(|(distance, _)| *distance < size);
        match shorter.checked_sub(1).map(|last| self.steps[last].1) {
            Some(hits) if self.accesses > 0.0 => ((self.accesses - hits) / self.accesses).clamp(0.0, 1.0),
            _ => 1.0,
        }
    }

    /// The quantile of the reuse distances at `share`; `None` if no key was reused.
    pub fn distance_at(&self, share: f64) -> Option<u64> {
        let all = self.steps.last()?.1;
        let index = self.steps.partition_point(|(_, hits)| *hits < all * share);
        Some(self.steps[index.min(self.steps.len() - 1)].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::Rng;

    // The tree is renumbered many times; a small mistake would shift every curve slightly and go unnoticed.
    // The list that is searched linearly is too simple for that.
    #[test]
    fn distances_are_those_of_a_plain_list() {
        for keys in [1, 2, 63, 64, 65, 700, 3000] {
            let mut stream = Rng::new(keys).stream("reuse");
            let (mut recency, mut list) = (Recency::default(), Vec::new());
            for step in 0..20_000 {
                let key = stream.below(keys);
                let place = list.iter().rev().position(|other| *other == key);
                if step % 17 == 3 {
                    recency.remove(key);
                    list.retain(|other| *other != key);
                    continue;
                }
                assert_eq!(recency.touch(key), place.map(|place| place as u64), "step {step} of {keys} keys");
                list.retain(|other| *other != key);
                list.push(key);
                assert_eq!(recency.len(), list.len());
            }
            assert!(recency.key_at.len() <= (3 * keys as usize).max(SLOTS_MIN) + WORD);
        }
    }

    // A cache of n entries hits at distances below n, not up to n: with an error of one, a loop that just
    // fits would miss.
    #[test]
    fn a_loop_hits_where_it_fits() {
        let mut exact = Exact::default();
        (0..1000).for_each(|index| exact.access(index % 100));
        let curve = exact.curve();
        assert_eq!((curve.at(0), curve.at(99), curve.at(100), curve.at(u64::MAX)), (1.0, 1.0, 0.1, 0.1));
        assert_eq!((curve.distance_at(0.0), curve.distance_at(1.0)), (Some(99), Some(99)));
        assert_eq!(exact.keys(), 100);
        let empty = Exact::default().curve();
        assert_eq!((empty.at(0), empty.at(10), empty.distance_at(0.5)), (1.0, 1.0, None));
    }

    // A bucket off by an octave would show a cache of half the size as sufficient.
    #[test]
    fn a_bucket_holds_its_distances() {
        for distance in (0..5000).chain([1 << 40, (1 << 40) + 12_345, u64::MAX]) {
            let mut distances = Distances::default();
            distances.add(distance, 1.0);
            let (least, _) = distances.iter().next().unwrap();
            assert!(least <= distance && distance - least <= distance >> BUCKET_BITS, "{distance}: {least}");
            assert!(distance >= 2048 || least == distance);
        }
    }
}
