//! DRAM in use by a translation layer, of interest where it is the host's.

use crate::ftl::core::Core;
use crate::ftl::map::extents::Size;
use byteway_content::UNIT_BYTES;

/// Index bytes for a buffered unit: the unit, its slot, and its neighbour in the list by age.
const INDEX_BYTES: u64 = 16;

/// Bytes of state for each superblock: valid units, program/erase cycles, time of closing.
const SUPERBLOCK_BYTES: u64 = 16;

/// DRAM in use by the structures of a translation layer, in bytes unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The map: whole nodes of a tree of extents; for a cached map, the pages in own DRAM and a log page for
    /// each borrowed segment; otherwise an entry of 4 or 8 bytes for each user unit.
    pub map: u64,
    /// Nodes of the tree of extents; this and the next two are 0 for other maps.
    pub nodes: u64,
    /// Extents in the tree.
    pub extents: u64,
    /// Levels of the tree, from root to leaf.
    pub height: u32,
    /// Units in the write buffer.
    pub buffer: u64,
    /// Absorbed parts that wait to be merged, 4 KiB for each unit.
    pub parts: u64,
    /// Units in the read cache.
    pub read_cache: u64,
    /// The index of the write buffer, of the parts and of the read cache.
    pub buffer_index: u64,
    /// State of the superblocks.
    pub superblocks: u64,
}

impl std::ops::AddAssign for Footprint {
    /// Sums several footprints; the height is the maximum.
    fn add_assign(&mut self, other: Footprint) {
        let Footprint { map, nodes, extents, height, buffer, parts, read_cache, buffer_index, superblocks } =
            other;
        self.map += map;
        self.nodes += nodes;
        self.extents += extents;
        self.height = self.height.max(height);
        self.buffer += buffer;
        self.parts += parts;
        self.read_cache += read_cache;
        self.buffer_index += buffer_index;
        self.superblocks += superblocks;
    }
}

impl Footprint {
    /// Total bytes.
    pub fn bytes(&self) -> u64 {
        self.map + self.buffer + self.parts + self.read_cache + self.buffer_index + self.superblocks
    }
}

/// DRAM in use now. Takes no modelled time and only a few look-ups.
pub(super) fn footprint(core: &Core) -> Footprint {
    let state = core.state.borrow();
    let Size { bytes: map, nodes, extents, height } = state.map.size(core.cache.is_some());
    let (buffered, parts) = (u64::from(state.buffer.used()), state.parts.len() as u64);
    let kept = state.read_cache.as_ref().map_or(0, |cache| cache.len() as u64);
    Footprint {
        map,
        nodes,
        extents,
        height,
        buffer: buffered * UNIT_BYTES as u64,
        parts: parts * UNIT_BYTES as u64,
        read_cache: kept * UNIT_BYTES as u64,
        buffer_index: (buffered + parts + kept) * INDEX_BYTES,
        superblocks: u64::from(core.geometry.total_blocks()) * SUPERBLOCK_BYTES,
    }
}
