//! The drive's capacity in chunks: the owner of each chunk, and the free ones.
//!
//! A chunk belongs to one namespace or to none, so namespaces share nothing, and none exceeds its chunks. There are
//! about a thousand chunks, whatever the drive's size, so the record of a namespace stays small, however often
//! namespaces are created and deleted. Each initial namespace starts in a chunk of its own, so a deleted namespace can
//! be created again at the same size.

use crate::config::NamespaceConfig;

/// Approximate number of chunks in a drive.
const CHUNKS: u64 = 1024;

/// A run of units on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the namespace, in units.
    pub at: u64,
    /// First unit on the drive.
    pub first: u64,
    /// Length in units.
    pub units: u64,
}

/// A run of chunks: first and count.
pub type Run = (u16, u16);

#[derive(Clone, Copy)]
struct Chunk {
    first: u64,
    units: u64,
    /// Identifier of the owning namespace; 0: the chunk is free.
    owner: u32,
}

/// The owner of each chunk.
pub struct Capacity {
    chunks: Vec<Chunk>,
    chunk_units: u64,
}

impl Capacity {
    /// The capacity of a drive with these namespaces, numbered from 1, each in chunks of its own.
    pub fn new(namespaces: &[NamespaceConfig]) -> Self {
        let units: u64 = namespaces.iter().map(|namespace| namespace.units).sum();
        let chunk_units = units.div_ceil(CHUNKS).next_power_of_two();
        let mut chunks = Vec::new();
        let mut first = 0;
        for (owner, namespace) in (1..).zip(namespaces) {
            let end = first + namespace.units;
            while first < end {
                let units = chunk_units.min(end - first);
                chunks.push(Chunk { first, units, owner });
                first += units;
            }
        }
        Capacity { chunks, chunk_units }
    }

    /// Units of a chunk; some chunks are smaller.
    pub fn chunk_units(&self) -> u64 {
        self.chunk_units
    }

    /// Units of all chunks.
    pub fn units(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.units).sum()
    }

    /// Units that belong to `owner`; free units for 0.
    pub fn units_of(&self, owner: u32) -> u64 {
        self.of(owner).map(|(_, chunk)| chunk.units).sum()
    }

    fn of(&self, owner: u32) -> impl Iterator<Item = (usize, &Chunk)> {
        self.chunks.iter().enumerate().filter(move |(_, chunk)| chunk.owner == owner)
    }

    /// Allocates the first free chunks to `owner`, at least `units` units. `false`, without any change, if too few are
    /// free.
    pub fn allocate(&mut self, owner: u32, units: u64) -> bool {
        if units == 0 || self.units_of(0) < units {
            return false;
        }
        let mut left = units;
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.owner == 0) {
            chunk.owner = owner;
            left = left.saturating_sub(chunk.units);
            if left == 0 {
                break;
            }
        }
        true
    }

    /// Frees all chunks of `owner`.
    pub fn release(&mut self, owner: u32) {
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.owner == owner) {
            chunk.owner = 0;
        }
    }

    /// Frees all chunks.
    pub fn release_all(&mut self) {
        self.chunks.iter_mut().for_each(|chunk| chunk.owner = 0);
    }

    /// Extents of the units of `owner`, in their order.
    pub fn extents(&self, owner: u32) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = 0;
        for (_, chunk) in self.of(owner) {
            match extents.last_mut() {
                Some(last) if last.first + last.units == chunk.first => last.units += chunk.units,
                _ => extents.push(Extent { at, first: chunk.first, units: chunk.units }),
            }
            at += chunk.units;
        }
        extents
    }

    /// The chunks of `owner`.
    pub fn runs(&self, owner: u32) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (index, _) in self.of(owner) {
            match runs.last_mut() {
                Some((first, count)) if usize::from(*first) + usize::from(*count) == index => *count += 1,
                _ => runs.push((index as u16, 1)),
            }
        }
        runs
    }

    /// Assigns these chunks to `owner`. `false`, without any change, unless all of them exist and are free.
    pub fn claim(&mut self, owner: u32, runs: &[Run]) -> bool {
        for (done, run) in runs.iter().enumerate() {
            let (first, count) = (usize::from(run.0), usize::from(run.1));
            let chunks = self.chunks.get_mut(first..first + count);
            match chunks.filter(|chunks| chunks.iter().all(|chunk| chunk.owner == 0)) {
                Some(chunks) => chunks.iter_mut().for_each(|chunk| chunk.owner = owner),
                None => {
                    for &(first, count) in &runs[..done] {
                        let chunks = usize::from(first)..usize::from(first) + usize::from(count);
                        self.chunks[chunks].iter_mut().for_each(|chunk| chunk.owner = 0);
                    }
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_content::BlockSize;

    fn capacity(units: &[u64]) -> Capacity {
        let of = |units: &u64| NamespaceConfig::blocks(*units, BlockSize::B4096);
        Capacity::new(&units.iter().map(of).collect::<Vec<_>>())
    }

    // A chunk with two owners would let one tenant read another's data.
    #[test]
    fn chunks_come_and_go_and_have_one_owner() {
        let mut capacity = capacity(&[1000, 3000]);
        assert_eq!((capacity.chunk_units(), capacity.units(), capacity.units_of(0)), (4, 4000, 0));
        assert!(!capacity.allocate(3, 1));
        capacity.release(1);
        assert!(capacity.allocate(3, 401));
        assert_eq!((capacity.units_of(3), capacity.units_of(0)), (404, 596));
        assert!(capacity.allocate(4, 200));
        capacity.release(3);
        assert!(!capacity.allocate(5, 801));
        assert!(capacity.allocate(5, 800));
        assert_eq!(
            capacity.extents(5),
            [Extent { at: 0, first: 0, units: 404 }, Extent { at: 404, first: 604, units: 396 }]
        );
        assert_eq!(capacity.runs(5), [(0, 101), (151, 99)]);
        assert_eq!(capacity.extents(2), [Extent { at: 0, first: 1000, units: 3000 }]);
    }

    // With sizes that are no multiple of a chunk, too, a deleted namespace can be created again.
    #[test]
    fn what_was_deleted_can_be_created_again() {
        let mut capacity = capacity(&[1_000_003, 77]);
        capacity.release(1);
        assert_eq!(capacity.units_of(0), 1_000_003);
        assert!(capacity.allocate(9, 1_000_003));
        assert_eq!(capacity.units_of(9), 1_000_003);
    }

    // A record from the media may contain anything.
    #[test]
    fn only_what_is_free_is_claimed() {
        let mut capacity = capacity(&[4096]);
        assert!(!capacity.claim(7, &[(0, 1)]), "it has an owner");
        capacity.release_all();
        assert!(!capacity.claim(7, &[(0, 4), (2, 1)]), "the same chunk twice");
        assert_eq!(capacity.units_of(7), 0);
        assert!(!capacity.claim(7, &[(u16::MAX, u16::MAX)]));
        assert!(capacity.claim(7, &[(3, 2), (0, 1)]));
        assert_eq!(capacity.units_of(7), 12);
    }
}
