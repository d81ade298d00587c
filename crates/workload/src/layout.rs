//! Where the devices and addresses of a trace go: slices of the range, and places in them.
//!
//! A compact layout keeps one entry for every 4 KiB that the trace touches, 64 Mi at most (256 GiB; 2.3 GB of memory);
//! the workers of a job share it.

pub(super) mod survey;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// A part of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// Within the range.
    pub first: u64,
    /// Blocks.
    pub blocks: u64,
    /// Blocks of the trace that it is for: where its last record ends. Zero if nobody looked.
    pub span: u64,
}

/// Where the devices and addresses of a trace go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    slices: Vec<Slice>,
    /// The slice of each device; without any, the first is everyone's.
    devices: BTreeMap<u32, usize>,
    units: Arc<FxHashMap<u64, u32>>,
    /// Blocks of a unit.
    unit_blocks: u64,
}

const UNIT_BYTES: u64 = 4096;
const UNITS_MAX: usize = 1 << 26;
const DEVICES_MAX: usize = 4096;
/// A unit's address has 51 bits, the number of its slice is above them.
const UNIT_BITS: u32 = 51;

impl Layout {
    /// The same, or the whole range for everything if nothing was found out.
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

    /// The devices that have a slice of their own; none if they share one.
    pub fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// Units of 4 KiB that a compact layout has.
    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    pub(super) fn slice_of(&self, device: u32) -> Option<usize> {
        if self.devices.is_empty() { Some(0) } else { self.devices.get(&device).copied() }
    }

    /// A block's place when the trace's span shrinks to the slice's. Units of 4 KiB stay whole.
    pub(super) fn shrunk(&self, slice: &Slice, block: u64) -> u64 {
        let (room, span) = (slice.blocks / self.unit_blocks, slice.span.div_ceil(self.unit_blocks));
        if slice.span <= slice.blocks || span == 0 {
            return block;
        }
        let unit = u128::from(block / self.unit_blocks) * u128::from(room) / u128::from(span);
        // Not more than the slice has.
        unit as u64 * self.unit_blocks + block % self.unit_blocks
    }

    /// What lies together of a compact layout from a block of the trace on: its place in the range, and at most `most`
    /// blocks.
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
