//! Layout of a trace's devices and addresses on the range of a job.
//!
//! A compact layout has one entry for every 4 KiB that the trace touches, at most 64 Mi (256 GiB; 2.3 GB of
//! memory); the workers of a job share it.

pub(super) mod survey;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// A part of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// First block, within the range.
    pub first: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Blocks of the trace's device: the end of its last record. Zero if there was no survey.
    pub span: u64,
}

/// Layout of a trace's devices and addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    slices: Vec<Slice>,
    /// Index of each device's slice; if empty, all devices use the first.
    devices: BTreeMap<u32, usize>,
    units: Arc<FxHashMap<u64, u32>>,
    /// Blocks of a unit.
    unit_blocks: u64,
}

const UNIT_BYTES: u64 = 4096;
const UNITS_MAX: usize = 1 << 26;
const DEVICES_MAX: usize = 4096;
/// Bits of a unit's address; the index of its slice is above them.
const UNIT_BITS: u32 = 51;

impl Layout {
    /// This layout, or one slice of the whole range if there was no survey.
    pub(super) fn or_whole(&self, range_blocks: u64, lba_bytes: u64) -> Layout {
        let mut layout = self.clone();
        layout.unit_blocks = (UNIT_BYTES / lba_bytes).max(1);
        if layout.slices.is_empty() {
            layout.slices = vec![Slice { first: 0, blocks: range_blocks, span: 0 }];
        }
        layout
    }

    pub(super) fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Number of devices with their own slice; 0 if they share one.
    pub fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// Number of units of 4 KiB in a compact layout.
    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    pub(super) fn slice_of(&self, device: u32) -> Option<usize> {
        if self.devices.is_empty() { Some(0) } else { self.devices.get(&device).copied() }
    }

    /// A block's address after scaling the trace's span to the slice's. Units of 4 KiB stay whole.
    pub(super) fn shrunk(&self, slice: &Slice, block: u64) -> u64 {
        let (room, span) = (slice.blocks / self.unit_blocks, slice.span.div_ceil(self.unit_blocks));
        if slice.span <= slice.blocks || span == 0 {
            return block;
        }
        let unit = u128::from(block / self.unit_blocks) * u128::from(room) / u128::from(span);
        // At most the last unit of the slice.
        unit as u64 * self.unit_blocks + block % self.unit_blocks
    }

    /// The contiguous part of a compact layout from a block of the trace on: its address in the range, and
    /// its length, at most `most` blocks.
    pub(super) fn run(&self, slice: usize, block: u64, most: u64) -> Option<(u64, u64)> {
        let unit = block / self.unit_blocks;
        let place = *self.units.get(&key(slice, unit)?)?;
        let mut blocks = self.unit_blocks - block % self.unit_blocks;
        let mut next = (unit + 1, place.checked_add(1)?);
        while blocks < most && self.units.get(&key(slice, next.0)?) == Some(&next.1) {
            blocks += self.unit_blocks;
            next = (next.0 + 1, next.1.checked_add(1)?);
        }
        let first =
            self.slices.get(slice)?.first + u64::from(place) * self.unit_blocks + block % self.unit_blocks;
        Some((first, blocks.min(most)))
    }
}

fn key(slice: usize, unit: u64) -> Option<u64> {
    (unit < 1 << UNIT_BITS && slice < DEVICES_MAX).then_some(((slice as u64) << UNIT_BITS) | unit)
}
