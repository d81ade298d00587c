//! Synthetic I/O: kind, address, length and time, drawn from named streams.

use std::fmt;

use byteway_clock::random::{Rng, Stream};

use super::distribution::Spread;
use super::io::Io;
use super::length::Ruler;
use super::pace::Pace;
use super::rw::Rw;
use super::settings::JobSettings;
use super::source_kind::{SourceKind, WorkerIos};
use super::synthetic::Synthetic;
use byteway_text::error::InputError;
use byteway_text::units::Bytes;
use byteway_trace::Kind;

impl SourceKind for Synthetic {
    fn command_count(&self, job: &JobSettings) -> Option<u64> {
        let by_bytes = job.io_bytes.and_then(|_| {
            let io_bytes = u64::from(self.lengths.fixed(self.rw)?) * u64::from(job.lba_bytes);
            let workers = 0..job.workers;
            let blocks = workers.map(|worker| bytes_of(job, self, worker).div_ceil(io_bytes));
            let commands = if self.rw.trims_then_writes() { 2 } else { 1 };
            Some(blocks.sum::<u64>() * commands)
        });
        match (job.count, by_bytes) {
            (Some(count), Some(by_bytes)) => Some(count.min(by_bytes)),
            (Some(count), None) if job.io_bytes.is_none() => Some(count),
            (_, by_bytes) => by_bytes,
        }
    }

    /// A trim moves no data, so its length is not limited by the payload.
    fn io_blocks_max(&self, _: &JobSettings) -> u32 {
        let kinds = self.rw.kinds().iter().filter(|kind| **kind != Kind::Trim);
        kinds.map(|kind| self.lengths.get(*kind).max()).max().unwrap_or(1)
    }

    fn lengths(&self, job: &JobSettings) -> String {
        let bytes = |blocks: u32| Bytes(u64::from(blocks) * u64::from(job.lba_bytes));
        match self.lengths.fixed(self.rw) {
            Some(blocks) => bytes(blocks).to_string(),
            None => {
                let shortest = self.lengths.min_of(self.rw);
                format!("{} to {}", bytes(shortest), bytes(self.lengths.max_of(self.rw)))
            }
        }
    }

    fn has_verbs(&self) -> bool {
        false
    }

    fn ios(&self, job: &JobSettings, worker: u32, rng: &Rng) -> Result<Box<dyn WorkerIos>, InputError> {
        Ok(Box::new(Draws::new(job, self, worker, rng)?))
    }
}

/// The I/Os of one worker.
struct Draws {
    addresses: Addresses,
    address_stream: Stream,
    mix_stream: Stream,
    ruler: Ruler,
    pace: Pace,
    rw: Rw,
    read_percent: u64,
    lba_bytes: u64,
    range_lba: u64,
    range_blocks: u64,
    left: u64,
    bytes_left: u64,
    /// A block that was trimmed and has to be written next.
    trimmed: Option<Io>,
}

/// Selection of the next address.
enum Addresses {
    /// The block after the last I/O, within a slice of the range. An I/O that would exceed the end is
    /// truncated, so that each pass covers the slice once for any mix of lengths.
    Sequential { first: u64, end: u64, next: u64 },
    /// A random multiple of the shortest length.
    Random { spread: Spread, unit_blocks: u64, align_blocks: Option<u64> },
}

/// The slice of the worker's range that it covers if sequential, in blocks from the beginning of the range.
fn slice(job: &JobSettings, synthetic: &Synthetic, worker: u32) -> (u64, u64) {
    let unit = u64::from(synthetic.lengths.min_of(synthetic.rw));
    let units = job.range_of(worker).1 / unit;
    if job.stride_blocks.is_some() {
        return (0, units * unit);
    }
    let part = |of: u32| {
        let share = u128::from(units) * u128::from(of) / u128::from(job.workers.max(1));
        share as u64 * unit
    };
    (part(worker), part(worker + 1))
}

/// Bytes that a worker transfers. Workers that divide a range divide the bytes in the same proportion.
fn bytes_of(job: &JobSettings, synthetic: &Synthetic, worker: u32) -> u64 {
    let Some(bytes) = job.io_bytes else { return u64::MAX };
    if !synthetic.rw.is_sequential() || job.stride_blocks.is_some() {
        return job.share_of(bytes, worker);
    }
    let whole = slice(job, synthetic, job.workers.max(1) - 1).1.max(1);
    let part = |blocks: u64| (u128::from(bytes) * u128::from(blocks) / u128::from(whole)) as u64;
    let (first, end) = slice(job, synthetic, worker);
    part(end) - part(first)
}

impl Draws {
    fn new(job: &JobSettings, synthetic: &Synthetic, worker: u32, rng: &Rng) -> Result<Self, InputError> {
        let name = &job.name;
        let stream = |purpose: &str| rng.stream(&format!("job/{name}/{worker}/{purpose}"));
        let refused = |error: &dyn fmt::Display| {
            InputError::new(format!("job `{name}`: {error}"), "change the range or the distribution")
        };
        let (range_lba, range_blocks) = job.range_of(worker);
        let align_blocks = synthetic.align_blocks.map(u64::from);
        let unit_blocks = align_blocks.unwrap_or(u64::from(synthetic.lengths.min_of(synthetic.rw)));
        let units = range_blocks / unit_blocks;
        let (first, end) = slice(job, synthetic, worker);
        if units == 0 || (synthetic.rw.is_sequential() && first == end) {
            return Err(refused(&"its range is too small for one I/O of each worker"));
        }
        if !synthetic.rw.is_sequential() && u64::from(synthetic.lengths.max_of(synthetic.rw)) > range_blocks {
            return Err(refused(&"its range is too small for the longest I/O of each worker"));
        }
        let addresses = if synthetic.rw.is_sequential() {
            Addresses::Sequential { first, end, next: first }
        } else {
            let spread = if synthetic.once {
                let key = rng.stream(&format!("job/{name}/{worker}/order")).next_u64();
                Spread::once(units, key)
            } else {
                // All workers of a job share the popular blocks.
                let key = rng.stream(&format!("job/{name}/scatter")).next_u64();
                let unit_bytes = unit_blocks * u64::from(job.lba_bytes);
                Spread::new(&synthetic.distribution, units, unit_bytes, key)
            };
            let spread = spread.map_err(|error| refused(&error))?;
            if spread.has_empty_zone() {
                return Err(refused(&"a zone of its `random_distribution` is too small for an I/O"));
            }
            Addresses::Random { spread, unit_blocks, align_blocks }
        };
        Ok(Draws {
            addresses,
            address_stream: stream("address"),
            mix_stream: stream("mix"),
            ruler: Ruler::new(&synthetic.lengths, stream("length")),
            pace: Pace::new(job, u64::from(worker), || stream("arrival")).map_err(|error| refused(&error))?,
            rw: synthetic.rw,
            read_percent: u64::from(synthetic.read_percent),
            lba_bytes: u64::from(job.lba_bytes),
            range_lba,
            range_blocks,
            left: job.count.map_or(u64::MAX, |count| job.share_of(count, worker)),
            bytes_left: bytes_of(job, synthetic, worker),
            trimmed: None,
        })
    }

    #[inline]
    fn draw(&mut self) -> Io {
        let kind = match *self.rw.kinds() {
            [Kind::Read, Kind::Write] => {
                if self.mix_stream.below(100) < self.read_percent {
                    Kind::Read
                } else {
                    Kind::Write
                }
            }
            [kind, ..] => kind,
            [] => Kind::Read,
        };
        let blocks = self.ruler.draw(kind);
        let (lba, blocks) = match &mut self.addresses {
            Addresses::Sequential { first, end, next } => {
                let lba = *next;
                let blocks = u64::from(blocks).min(*end - lba);
                *next = if lba + blocks == *end { *first } else { lba + blocks };
                (lba, blocks as u32)
            }
            Addresses::Random { spread, unit_blocks, align_blocks } => {
                let align = align_blocks.unwrap_or_else(|| self.ruler.align(kind));
                let drawn = spread.draw(&mut self.address_stream) * *unit_blocks;
                // An I/O that would exceed the end of the range is moved down.
                let last = self.range_blocks - u64::from(blocks);
                (drawn.min(last) / align * align, blocks)
            }
        };
        debug_assert!(lba + u64::from(blocks) <= self.range_blocks, "an I/O lies within its worker's range");
        self.bytes_left = self.bytes_left.saturating_sub(u64::from(blocks) * self.lba_bytes);
        Io { kind, lba: self.range_lba + lba, blocks, at: None }
    }
}

impl Iterator for Draws {
    type Item = Io;

    fn next(&mut self) -> Option<Io> {
        let mut io = match self.trimmed.take() {
            // A trimmed block is always written, even if the count ends between the two.
            Some(io) => {
                self.left = self.left.saturating_sub(1);
                io
            }
            None if self.bytes_left == 0 => return None,
            None => {
                self.left = self.left.checked_sub(1)?;
                self.draw()
            }
        };
        if io.kind == Kind::Trim && self.rw.trims_then_writes() {
            self.trimmed = Some(Io { kind: Kind::Write, ..io });
        }
        io.at = self.pace.next(io.kind, u64::from(io.blocks) * self.lba_bytes);
        Some(io)
    }
}

impl WorkerIos for Draws {}
