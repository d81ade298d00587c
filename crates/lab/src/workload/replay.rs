//! A trace as I/O: its records laid on a range of the drive, dealt to the workers, at their times or as fast as it goes.

use super::{Io, Issue, JobPlan, Scan, TracePlan};
use crate::error::InputError;
use crate::trace::{Format, Reader, Record};
use crate::units::Bytes;

/// A trace laid on a range of the drive. Records are dealt to the workers in turn.
pub(super) struct Replay {
    reader: Reader,
    plan: Laying,
    worker: u64,
    workers: u64,
    index: u64,
    /// What is left of a record that is longer than one command may be.
    rest: Option<(Record, u64, u64)>,
    wrapped: u64,
    widened: u64,
    last_ps: u64,
    pub(super) error: Option<InputError>,
}

/// How records become commands.
struct Laying {
    lba_bytes: u64,
    range_lba: u64,
    range_blocks: u64,
    transfer_blocks_max: u64,
    wrap: bool,
    timed: bool,
    time_scale_q32: u64,
    count: u64,
}

impl Replay {
    pub(super) fn new(
        plan: &JobPlan,
        trace: &TracePlan,
        worker: u32,
        workers: u32,
    ) -> Result<Self, InputError> {
        Ok(Replay {
            reader: Reader::open(&trace.path, trace.format, trace.device, trace.skip_bad_lines)?,
            plan: Laying {
                lba_bytes: u64::from(plan.lba_bytes.max(1)),
                range_lba: plan.range_lba,
                range_blocks: plan.range_blocks,
                transfer_blocks_max: u64::from(plan.transfer_blocks_max.max(1)),
                wrap: trace.wrap,
                timed: plan.issue == Issue::Trace,
                time_scale_q32: trace.time_scale_q32,
                count: plan.count.unwrap_or(u64::MAX),
            },
            worker: u64::from(worker),
            workers: u64::from(workers.max(1)),
            index: 0,
            rest: None,
            wrapped: 0,
            widened: 0,
            last_ps: 0,
            error: None,
        })
    }

    pub(super) fn next(&mut self) -> Option<Io> {
        if self.error.is_some() {
            return None;
        }
        match self.advance() {
            Ok(io) => io,
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    fn advance(&mut self) -> Result<Option<Io>, InputError> {
        while self.rest.is_none() {
            if self.index >= self.plan.count {
                return Ok(None);
            }
            let Some(record) = self.reader.next_record()? else { return Ok(None) };
            let mine = self.index % self.workers == self.worker;
            self.index += 1;
            if mine {
                let (lba, blocks) = self.lay(&record)?;
                self.rest = Some((record, lba, blocks));
            }
        }
        let Some((record, lba, blocks)) = self.rest.take() else { return Ok(None) };
        let now = blocks.min(self.plan.transfer_blocks_max);
        if now < blocks {
            self.rest = Some((record, lba + now, blocks - now));
        }
        let scaled = (u128::from(record.time_ps) * u128::from(self.plan.time_scale_q32)) >> 32;
        let at = u64::try_from(scaled).map_err(|_| {
            let what = "its time, scaled, is beyond the 213 days that a run reaches";
            InputError::new(what, "choose a smaller `time_scale`").at(self.reader.place())
        })?;
        self.last_ps = at;
        Ok(Some(Io {
            kind: record.kind,
            lba: self.plan.range_lba + lba,
            blocks: now as u32,
            at: self.plan.timed.then_some(at),
        }))
    }

    /// First block, within the range, and number of blocks: all that the record touches.
    fn lay(&mut self, record: &Record) -> Result<(u64, u64), InputError> {
        let plan = &self.plan;
        let first = record.offset_bytes / plan.lba_bytes;
        // A record ends at or below 2^63.
        let end = (record.offset_bytes + record.bytes).div_ceil(plan.lba_bytes);
        let blocks = end - first;
        self.widened += u64::from(blocks * plan.lba_bytes != record.bytes);
        let range = Bytes(plan.range_blocks.saturating_mul(plan.lba_bytes));
        if blocks > plan.range_blocks {
            let what =
                format!("a record of {} is longer than the job's range of {range}", Bytes(record.bytes));
            return Err(InputError::new(what, "choose a larger drive or range").at(self.reader.place()));
        }
        if end <= plan.range_blocks {
            return Ok((first, blocks));
        }
        if !plan.wrap {
            let what = format!(
                "LBA {} is beyond the job's range of {range}, {} blocks of {} B",
                end - 1,
                plan.range_blocks,
                plan.lba_bytes
            );
            let cure = "set `wrap = true` in [job.trace], or choose a larger drive";
            return Err(InputError::new(what, cure).at(self.reader.place()));
        }
        self.wrapped += 1;
        // A record that would run over the end is moved down to it rather than torn in two.
        Ok(((first % plan.range_blocks).min(plan.range_blocks - blocks), blocks))
    }
}

/// Reads a job's trace once from beginning to end, or to the job's count, as all its workers together will: so that
/// a broken line or an address beyond the drive shows before anything is simulated or written.
pub(crate) fn scan(plan: &JobPlan, trace: &TracePlan) -> Result<(Format, Scan), InputError> {
    let mut replay = Replay::new(plan, trace, 0, 1)?;
    let runtime_ps = plan.runtime.map_or(u64::MAX, |runtime| runtime.0);
    let mut commands = 0;
    while let Some(io) = replay.advance()? {
        if io.at.is_some_and(|at| at >= runtime_ps) {
            break;
        }
        commands += 1;
    }
    let scan = Scan {
        tally: replay.reader.tally().clone(),
        commands,
        wrapped: replay.wrapped,
        widened: replay.widened,
        last_ps: replay.last_ps,
    };
    Ok((replay.reader.format(), scan))
}
