//! Where the devices and addresses of a trace go: slices of the range, and what is known of a trace only once it has
//! been read through.
//!
//! A compact layout keeps one entry for every 4 KiB that the trace touches, 64 Mi at most (256 GiB; 2.3 GB of memory);
//! the workers of a job share it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::replay::{Beyond, TracePlan, whole_blocks};
use super::{Issue, JobPlan};
use byteway_console::error::InputError;
use byteway_console::units::Bytes;
use byteway_trace::convert::scaled;
use byteway_trace::{Reader, Record};

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

    /// Reads the trace as far as the job will, if the layout depends on what is in it.
    pub(super) fn survey(plan: &JobPlan, trace: &TracePlan) -> Result<Layout, InputError> {
        let lba_bytes = u64::from(plan.lba_bytes.max(1));
        let mut layout = Layout::default().or_whole(plan.range_blocks, lba_bytes);
        if trace.spread || trace.beyond == Beyond::Scale {
            let mut spans: BTreeMap<u32, u64> = BTreeMap::new();
            each(plan, trace, |record, reader| {
                let Some((first, blocks)) = whole_blocks(record, lba_bytes) else { return Ok(()) };
                let device = if trace.spread { record.device } else { 0 };
                let span = spans.entry(device).or_default();
                *span = (*span).max(first + blocks);
                if spans.len() > DEVICES_MAX {
                    let what = format!("the trace has more than {DEVICES_MAX} devices, too many to spread");
                    let cure = "set `device` to \"all\" or to one of them";
                    return Err(InputError::new(what, cure).at(reader.place()));
                }
                Ok(())
            })?;
            layout.slice(plan, trace.spread, &spans)?;
        }
        if trace.beyond == Beyond::Compact {
            layout.compact(plan, trace, lba_bytes)?;
        }
        Ok(layout)
    }

    /// Equal slices for the devices, in the order of their numbers.
    fn slice(&mut self, plan: &JobPlan, spread: bool, spans: &BTreeMap<u32, u64>) -> Result<(), InputError> {
        if !spread {
            self.slices[0].span = spans.values().copied().max().unwrap_or(0);
            return Ok(());
        }
        let count = spans.len().max(1) as u64;
        let blocks = plan.range_blocks / count / self.unit_blocks * self.unit_blocks;
        if blocks == 0 {
            let what = format!(
                "the job's range of {} blocks has no slice for each of {count} devices",
                plan.range_blocks
            );
            return Err(InputError::new(what, "choose a larger drive or range, or `device = \"all\"`"));
        }
        let slices = spans.values().enumerate();
        self.slices =
            slices.map(|(index, span)| Slice { first: index as u64 * blocks, blocks, span: *span }).collect();
        self.devices = spans.keys().enumerate().map(|(index, device)| (*device, index)).collect();
        if self.slices.is_empty() {
            self.slices = vec![Slice { first: 0, blocks: plan.range_blocks, span: 0 }];
        }
        Ok(())
    }

    /// Numbers the units in the order of their first use.
    fn compact(&mut self, plan: &JobPlan, trace: &TracePlan, lba_bytes: u64) -> Result<(), InputError> {
        let mut units: FxHashMap<u64, u32> = FxHashMap::default();
        let mut used = vec![0u32; self.slices.len()];
        each(plan, trace, |record, reader| {
            let Some((first, blocks)) = whole_blocks(record, lba_bytes) else { return Ok(()) };
            // A device that nobody knew, and a record longer than all there is, are told when they are laid.
            let Some(slice) = self.slice_of(record.device) else { return Ok(()) };
            let room = self.slices[slice].blocks;
            if blocks > room {
                return Ok(());
            }
            for unit in first / self.unit_blocks..=(first + blocks - 1) / self.unit_blocks {
                let Some(key) = key(slice, unit) else { continue };
                let count = units.len();
                let std::collections::hash_map::Entry::Vacant(vacant) = units.entry(key) else { continue };
                let full = u64::from(used[slice]) >= room / self.unit_blocks;
                if full || count >= UNITS_MAX {
                    let most = if full { room * lba_bytes } else { UNITS_MAX as u64 * UNIT_BYTES };
                    let what =
                        format!("the trace touches more than the {} that there are for it", Bytes(most));
                    let cure = match full {
                        true => "choose a larger drive or range, or `beyond = \"wrap\"` in [job.trace]",
                        false => {
                            "choose `beyond = \"scale\"` or \"wrap\" in [job.trace], which need no table"
                        }
                    };
                    return Err(InputError::new(what, cure).at(reader.place()));
                }
                vacant.insert(used[slice]);
                used[slice] += 1;
            }
            Ok(())
        })?;
        self.units = Arc::new(units);
        Ok(())
    }
}

fn key(slice: usize, unit: u64) -> Option<u64> {
    (unit < 1 << UNIT_BITS && slice < DEVICES_MAX).then_some(((slice as u64) << UNIT_BITS) | unit)
}

/// Calls `see` with every record that the job will replay.
fn each(
    plan: &JobPlan,
    trace: &TracePlan,
    mut see: impl FnMut(&Record, &Reader) -> Result<(), InputError>,
) -> Result<(), InputError> {
    let mut reader = Reader::open(&trace.path, &trace.read)?;
    let count = plan.count.unwrap_or(u64::MAX);
    let runtime_ps = match (plan.issue, plan.runtime) {
        (Issue::Trace, Some(_)) => plan.end_ps(),
        _ => u64::MAX,
    };
    while reader.tally().records < count {
        let Some(record) = reader.next_record()? else { break };
        // A time that cannot be scaled is told when the record is laid.
        if scaled(record.time_ps, trace.time_scale_q32).unwrap_or(u64::MAX) >= runtime_ps
            && runtime_ps < u64::MAX
        {
            break;
        }
        see(&record, &reader)?;
    }
    Ok(())
}
