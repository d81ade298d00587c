//! Replay of a trace as I/Os: its records are mapped to a range of the drive and distributed to the workers,
//! at their times or as fast as possible.

use std::path::PathBuf;

use byteway_clock::random::Rng;

use super::io::Io;
use super::issue::Issue;
use super::layout::survey::survey;
use super::layout::{Layout, Slice};
use super::recording::{Beyond, Scan, TracePlan, whole_blocks};
use super::settings::JobSettings;
use super::source_kind::{SourceKind, WorkerIos};
use byteway_text::error::InputError;
use byteway_text::units::Bytes;
use byteway_trace::convert::scaled;
use byteway_trace::{Kind, ReadOptions, Reader, Record, Tally};

impl SourceKind for TracePlan {
    fn command_count(&self, _: &JobSettings) -> Option<u64> {
        Some(self.scan.commands)
    }

    fn lengths(&self, _: &JobSettings) -> String {
        "a trace".to_owned()
    }

    fn has_verbs(&self) -> bool {
        false
    }

    fn ios(&self, job: &JobSettings, worker: u32, _: &Rng) -> Result<Box<dyn WorkerIos>, InputError> {
        Ok(Box::new(Replay::new(job, self, worker, job.workers)?))
    }
}

/// A trace mapped to a range of the drive. Records are distributed round-robin to the workers.
struct Replay {
    trace: (PathBuf, ReadOptions),
    reader: Reader,
    /// Counts of the reader over the trace once, if it has been at its end.
    once: Option<Tally>,
    repeats_left: u32,
    /// Time of the record read last, and what is added to the times of this repetition.
    latest_ps: u64,
    shift_ps: u64,
    mapping: Mapping,
    layout: Layout,
    worker: u64,
    workers: u64,
    index: u64,
    rest: Option<Remainder>,
    scan: Scan,
    error: Option<InputError>,
}

/// The mapping of records to commands.
struct Mapping {
    lba_bytes: u64,
    range_lba: u64,
    transfer_blocks_max: u64,
    beyond: Beyond,
    timed: bool,
    time_scale_q32: u64,
    count: u64,
}

/// The remainder of a record that is split into several commands.
#[derive(Clone, Copy)]
struct Remainder {
    kind: Kind,
    at: u64,
    slice: usize,
    /// First block within the slice; in a compact layout, within the trace.
    first: u64,
    blocks: u64,
}

impl Replay {
    fn new(job: &JobSettings, trace: &TracePlan, worker: u32, workers: u32) -> Result<Self, InputError> {
        let lba_bytes = u64::from(job.lba_bytes.max(1));
        Ok(Replay {
            trace: (trace.path.clone(), trace.read.clone()),
            reader: Reader::open(&trace.path, &trace.read)?,
            once: None,
            repeats_left: trace.repeat.saturating_sub(1),
            latest_ps: 0,
            shift_ps: 0,
            mapping: Mapping {
                lba_bytes,
                range_lba: job.range_lba,
                transfer_blocks_max: u64::from(job.transfer_blocks_max.max(1)),
                beyond: trace.beyond,
                timed: job.issue == Issue::Trace,
                time_scale_q32: trace.time_scale_q32,
                count: job.count.unwrap_or(u64::MAX),
            },
            layout: trace.layout.or_whole(job.range_blocks, lba_bytes),
            worker: u64::from(worker),
            workers: u64::from(workers.max(1)),
            index: 0,
            rest: None,
            scan: Scan::default(),
            error: None,
        })
    }

    fn advance(&mut self) -> Result<Option<Io>, InputError> {
        while self.rest.is_none() {
            if self.index >= self.mapping.count {
                return Ok(None);
            }
            let Some(record) = self.reader.next_record()? else {
                if self.begin_again()? {
                    continue;
                }
                self.scan.is_exhausted = true;
                return Ok(None);
            };
            self.latest_ps = record.time_ps;
            let mine = self.index % self.workers == self.worker;
            self.index += 1;
            if mine {
                self.rest = self.lay(&record)?;
            }
        }
        let Some(rest) = self.rest.take() else { return Ok(None) };
        let (lba, now) = self.cut(&rest)?;
        if now < rest.blocks {
            self.rest = Some(Remainder { first: rest.first + now, blocks: rest.blocks - now, ..rest });
        }
        self.scan.last_ps = rest.at;
        Ok(Some(Io {
            kind: rest.kind,
            lba: self.mapping.range_lba + lba,
            blocks: now as u32,
            at: self.mapping.timed.then_some(rest.at),
        }))
    }

    /// Begins the next repetition at the end of the trace, as if the trace went on with its mean gap; false after the last.
    fn begin_again(&mut self) -> Result<bool, InputError> {
        let tally = self.reader.tally();
        let records = tally.records;
        self.once.get_or_insert_with(|| tally.clone());
        if self.repeats_left == 0 || records == 0 {
            return Ok(false);
        }
        self.repeats_left -= 1;
        let period_ps = self.latest_ps.saturating_add(self.latest_ps / (records - 1).max(1));
        let period_ps = scaled(period_ps, self.mapping.time_scale_q32);
        self.shift_ps = match period_ps.and_then(|period_ps| self.shift_ps.checked_add(period_ps)) {
            Some(shift_ps) => shift_ps,
            None => return Err(self.too_late()),
        };
        self.reader = Reader::open(&self.trace.0, &self.trace.1)?;
        Ok(true)
    }

    fn too_late(&self) -> InputError {
        let what = "its time, scaled and repeated, is beyond the 213 days that a run reaches";
        InputError::new(what, "choose a smaller `time_scale` or `repeat`").at(self.reader.place())
    }

    /// Maps a record: all whole blocks that it touches, or, for a trim, covers.
    fn lay(&mut self, record: &Record) -> Result<Option<Remainder>, InputError> {
        let Some(slice) = self.layout.slice_of(record.device) else {
            let what = format!("the device {} was not there when the trace was checked", record.device);
            return Err(
                InputError::new(what, "do not change the trace during the replay").at(self.reader.place())
            );
        };
        let at = scaled(record.time_ps, self.mapping.time_scale_q32);
        let at = at.and_then(|at| at.checked_add(self.shift_ps)).ok_or_else(|| self.too_late())?;
        let Some((first, blocks)) = whole_blocks(record, self.mapping.lba_bytes) else {
            self.scan.trims_left_out += 1;
            return Ok(None);
        };
        self.scan.widened += u64::from(blocks * self.mapping.lba_bytes != record.bytes);
        let room = self.layout.slices()[slice];
        if blocks > room.blocks {
            return Err(self.too_long(record, &room));
        }
        let inside = first + blocks <= room.blocks;
        let last = room.blocks - blocks;
        let placed = match self.mapping.beyond {
            // Trace addresses, until the record is cut into contiguous parts.
            Beyond::Compact => first,
            Beyond::Scale => {
                let placed = self.layout.shrunk(&room, first).min(last);
                self.scan.moved += u64::from(placed != first);
                placed
            }
            _ if inside => first,
            Beyond::Wrap => {
                self.scan.moved += 1;
                // A record that would exceed the end is moved down rather than split.
                (first % room.blocks).min(last)
            }
            Beyond::Error => return Err(self.is_beyond(first + blocks - 1, &room)),
        };
        Ok(Some(Remainder { kind: record.kind, at, slice, first: placed, blocks }))
    }

    /// The next command of the remainder: its first block within the range, and its length.
    fn cut(&self, rest: &Remainder) -> Result<(u64, u64), InputError> {
        let most = rest.blocks.min(self.mapping.transfer_blocks_max);
        if self.mapping.beyond != Beyond::Compact {
            return Ok((self.layout.slices()[rest.slice].first + rest.first, most));
        }
        self.layout.run(rest.slice, rest.first, most).ok_or_else(|| {
            let what = "the record was not there when the trace was checked";
            InputError::new(what, "do not change the trace during the replay").at(self.reader.place())
        })
    }

    fn room(&self, room: &Slice) -> (Bytes, &'static str) {
        let bytes = Bytes(room.blocks.saturating_mul(self.mapping.lba_bytes));
        (bytes, if self.layout.slices().len() > 1 { "device's slice" } else { "job's range" })
    }

    fn too_long(&self, record: &Record, room: &Slice) -> InputError {
        let (bytes, noun) = self.room(room);
        let what = format!("a record of {} is longer than the {noun} of {bytes}", Bytes(record.bytes));
        InputError::new(what, "choose a larger drive or range").at(self.reader.place())
    }

    fn is_beyond(&self, lba: u64, room: &Slice) -> InputError {
        let (bytes, noun) = self.room(room);
        let (blocks, lba_bytes) = (room.blocks, self.mapping.lba_bytes);
        let what = format!("LBA {lba} is beyond the {noun} of {bytes}, {blocks} blocks of {lba_bytes} B");
        let help = "set `wrap = true` in [job.trace], or `beyond = \"scale\"` or \"compact\", or choose a larger drive";
        InputError::new(what, help).at(self.reader.place())
    }
}

impl Iterator for Replay {
    type Item = Io;

    fn next(&mut self) -> Option<Io> {
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
}

impl WorkerIos for Replay {
    fn error(&self) -> Option<&InputError> {
        self.error.as_ref()
    }
}

/// Reads a job's trace to its end, or to the job's count, as its workers will, so that an invalid line or an
/// address beyond the drive is reported before anything is simulated or written. Returns the plan with the
/// counts.
pub fn scan(job: &JobSettings, trace: &TracePlan) -> Result<TracePlan, InputError> {
    let layout = survey(job, trace)?;
    let mut found = TracePlan { layout, ..trace.clone() };
    let mut replay = Replay::new(job, &found, 0, 1)?;
    let runtime_ps = job.end_ps();
    let mut commands = 0;
    while let Some(io) = replay.advance()? {
        if io.at.is_some_and(|at| at >= runtime_ps) {
            break;
        }
        commands += 1;
    }
    found.read = replay.reader.options().clone();
    let tally = replay.once.take().unwrap_or_else(|| replay.reader.tally().clone());
    found.scan = Scan { tally, replayed: replay.index, commands, ..replay.scan };
    Ok(found)
}
