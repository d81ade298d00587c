//! The survey: a pass over a trace that collects the facts that a layout needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{DEVICES_MAX, Layout, Slice, UNIT_BYTES, UNITS_MAX, key};
use crate::issue::Issue;
use crate::recording::{Beyond, TracePlan, whole_blocks};
use crate::settings::JobSettings;
use byteway_text::error::InputError;
use byteway_text::units::Bytes;
use byteway_trace::convert::scaled;
use byteway_trace::{Reader, Record};

/// Reads the trace as far as the job will, if the layout depends on its contents.
pub(crate) fn survey(job: &JobSettings, trace: &TracePlan) -> Result<Layout, InputError> {
    let lba_bytes = u64::from(job.lba_bytes.max(1));
    let mut layout = Layout::default().or_whole(job.range_blocks, lba_bytes);
    if trace.spread || trace.beyond == Beyond::Scale {
        let mut spans: BTreeMap<u32, u64> = BTreeMap::new();
        each(job, trace, |record, reader| {
            let Some((first, blocks)) = whole_blocks(record, lba_bytes) else { return Ok(()) };
            let device = if trace.spread { record.device } else { 0 };
            let span = spans.entry(device).or_default();
            *span = (*span).max(first + blocks);
            if spans.len() > DEVICES_MAX {
                let what = format!("the trace has more than {DEVICES_MAX} devices, too many to spread");
                let help = "set `device` to \"all\" or to one of them";
                return Err(InputError::new(what, help).at(reader.place()));
            }
            Ok(())
        })?;
        layout.slice(job, trace.spread, &spans)?;
    }
    if trace.beyond == Beyond::Compact {
        layout.compact(job, trace, lba_bytes)?;
    }
    Ok(layout)
}

impl Layout {
    /// Equal slices for the devices, in the order of their numbers.
    fn slice(
        &mut self,
        job: &JobSettings,
        spread: bool,
        spans: &BTreeMap<u32, u64>,
    ) -> Result<(), InputError> {
        if !spread {
            self.slices[0].span = spans.values().copied().max().unwrap_or(0);
            return Ok(());
        }
        let count = spans.len().max(1) as u64;
        let blocks = job.range_blocks / count / self.unit_blocks * self.unit_blocks;
        if blocks == 0 {
            let what = format!(
                "the job's range of {} blocks has no slice for each of {count} devices",
                job.range_blocks
            );
            return Err(InputError::new(what, "choose a larger drive or range, or `device = \"all\"`"));
        }
        let slices = spans.values().enumerate();
        self.slices =
            slices.map(|(index, span)| Slice { first: index as u64 * blocks, blocks, span: *span }).collect();
        self.devices = spans.keys().enumerate().map(|(index, device)| (*device, index)).collect();
        if self.slices.is_empty() {
            self.slices = vec![Slice { first: 0, blocks: job.range_blocks, span: 0 }];
        }
        Ok(())
    }

    /// Numbers the units in the order of first use.
    fn compact(&mut self, job: &JobSettings, trace: &TracePlan, lba_bytes: u64) -> Result<(), InputError> {
        let mut units: FxHashMap<u64, u32> = FxHashMap::default();
        let mut used = vec![0u32; self.slices.len()];
        each(job, trace, |record, reader| {
            let Some((first, blocks)) = whole_blocks(record, lba_bytes) else { return Ok(()) };
            // An unknown device, or an oversized record, is reported when the record is mapped.
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
                    let what = format!("the trace touches more than the {} available for it", Bytes(most));
                    let help = match full {
                        true => "choose a larger drive or range, or `beyond = \"wrap\"` in [job.trace]",
                        false => {
                            "choose `beyond = \"scale\"` or \"wrap\" in [job.trace], which need no table"
                        }
                    };
                    return Err(InputError::new(what, help).at(reader.place()));
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

/// Calls `see` with every record that the job will replay.
fn each(
    job: &JobSettings,
    trace: &TracePlan,
    mut see: impl FnMut(&Record, &Reader) -> Result<(), InputError>,
) -> Result<(), InputError> {
    let mut reader = Reader::open(&trace.path, &trace.read)?;
    let count = job.count.unwrap_or(u64::MAX);
    let runtime_ps = match (job.issue, job.runtime) {
        (Issue::Trace, Some(_)) => job.end_ps(),
        _ => u64::MAX,
    };
    while reader.tally().records < count {
        let Some(record) = reader.next_record()? else { break };
        // A time that cannot be scaled is reported when the record is mapped.
        if scaled(record.time_ps, trace.time_scale_q32).unwrap_or(u64::MAX) >= runtime_ps
            && runtime_ps < u64::MAX
        {
            break;
        }
        see(&record, &reader)?;
    }
    Ok(())
}
