//! A model of the contents of a namespace's blocks.
//!
//! Each block is a register with versions. A write adds its version when it is submitted; if it succeeds, and
//! no other write overlapped it in time, only its version remains. A failed write may or may not have been
//! done. A read must return a version that the block could have had at some time between its submission and
//! its completion.

use std::collections::BTreeSet;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Blocks that are used.
pub const BLOCKS: u64 = 32;

/// The possible contents of a block.
#[derive(Clone, Debug, Default)]
pub struct Block {
    versions: BTreeSet<u32>,
    /// Anything: its writer's memory was truncated.
    is_any: bool,
}

/// An outstanding command.
struct Flight {
    key: (u16, u16),
    is_write: bool,
    version: u32,
    /// Its blocks: for a read, their possible contents; for a write, whether another write overlapped.
    first: u64,
    seen: Vec<Block>,
    contended: Vec<bool>,
    /// The memory that it writes from was truncated.
    is_torn: bool,
}

/// The blocks, and the outstanding commands.
pub struct Model {
    blocks: Vec<Block>,
    flights: Vec<Flight>,
    next_version: u32,
}

impl Model {
    /// All blocks are zero, which is version 0.
    pub fn new() -> Self {
        let zero = Block { versions: BTreeSet::from([0]), is_any: false };
        Model { blocks: vec![zero; BLOCKS as usize], flights: Vec::new(), next_version: 1 }
    }

    /// A version that was never written.
    pub fn version(&mut self) -> u32 {
        self.next_version += 1;
        self.next_version - 1
    }

    /// Submits a read (or a compare) of `count` blocks from `first` on.
    pub fn reads(&mut self, key: (u16, u16), first: u64, count: u64) {
        let seen = self.blocks[first as usize..(first + count) as usize].to_vec();
        let contended = vec![false; count as usize];
        let is_write = false;
        self.flights.push(Flight { key, is_write, version: 0, first, seen, contended, is_torn: false });
    }

    /// Submits a write of `version` (0: of zeroes).
    pub fn writes(&mut self, key: (u16, u16), first: u64, count: u64, version: u32) {
        let mut contended = vec![false; count as usize];
        for lba in first..first + count {
            self.blocks[lba as usize].versions.insert(version);
            for flight in &mut self.flights {
                let Some(index) = flight.index(lba) else { continue };
                if flight.is_write {
                    flight.contended[index] = true;
                    contended[(lba - first) as usize] = true;
                } else {
                    flight.seen[index].versions.insert(version);
                }
            }
        }
        let seen = Vec::new();
        self.flights.push(Flight { key, is_write: true, version, first, seen, contended, is_torn: false });
    }

    /// The memory of an outstanding command was truncated: what a write reads from it is undefined.
    pub fn tear(&mut self, key: (u16, u16)) {
        let Some(at) = self.flights.iter().position(|flight| flight.key == key && flight.is_write) else {
            return;
        };
        self.flights[at].is_torn = true;
        let range = self.flights[at].first..self.flights[at].first + self.flights[at].contended.len() as u64;
        for lba in range {
            self.blocks[lba as usize].is_any = true;
            for flight in &mut self.flights {
                if let Some(index) = flight.index(lba)
                    && let Some(seen) = flight.seen.get_mut(index)
                {
                    seen.is_any = true;
                }
            }
        }
    }

    /// Completes a command. For a read, returns the possible contents of its blocks.
    pub fn ends(&mut self, key: (u16, u16), is_success: bool) -> Option<(u64, Vec<Block>)> {
        let at = self.flights.iter().position(|flight| flight.key == key)?;
        let flight = self.flights.swap_remove(at);
        if !flight.is_write {
            return Some((flight.first, flight.seen));
        }
        if is_success {
            for (index, contended) in flight.contended.iter().enumerate() {
                let block = &mut self.blocks[flight.first as usize + index];
                if !contended {
                    block.versions = BTreeSet::from([flight.version]);
                    block.is_any = flight.is_torn;
                }
            }
        }
        None
    }

    /// After a controller reset: outstanding commands never complete.
    pub fn forget(&mut self) {
        self.flights.clear();
    }
}

impl Flight {
    fn index(&self, lba: u64) -> Option<usize> {
        let index = lba.checked_sub(self.first)? as usize;
        (index < self.contended.len()).then_some(index)
    }
}

impl Block {
    /// Whether these bytes are possible contents of block `lba`.
    pub fn allows(&self, lba: u64, bytes: &[u8]) -> bool {
        self.is_any || self.versions.iter().any(|version| is_version(lba, *version, bytes))
    }

    /// Its only possible version, if there is one.
    pub fn only(&self) -> Option<u32> {
        let only = self.versions.first().filter(|_| self.versions.len() == 1 && !self.is_any);
        only.copied()
    }
}

/// Fills a block with the contents of a version: address and version, repeated; zeroes for version 0.
pub fn fill(lba: u64, version: u32, block: &mut [u8]) {
    if version == 0 {
        return block.fill(0);
    }
    block[..8].copy_from_slice(&lba.to_le_bytes());
    block[8..16].copy_from_slice(&u64::from(version).to_le_bytes());
    // By doubling: a loop over words would dominate the fuzzer's time.
    let mut done = 16;
    while done < block.len() {
        let count = done.min(block.len() - done);
        block.copy_within(..count, done);
        done += count;
    }
}

fn is_version(lba: u64, version: u32, block: &[u8]) -> bool {
    let mut right = [0; BLOCK_BYTES];
    fill(lba, version, &mut right);
    block == right
}
