//! A load on blocks: one pattern and size, for a time. What it reads is written before, and is no part of what is measured.

use std::fmt::Write as _;

use byteway_console::table::grouped;

/// What a load does, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// Reads at random.
    RandomReads,
    /// Reads in order.
    SequentialReads,
    /// Writes at random, over the whole drive.
    RandomWrites,
    /// Writes in order, over the whole drive.
    SequentialWrites,
}

/// A load: so many workers, each with so many I/Os outstanding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    pattern: Pattern,
    bytes: u64,
    workers: u32,
    depth: u32,
    /// Virtual time: for each payload that other points write, and at least.
    each_ns: u64,
    least_ns: u64,
    /// Time before it that is not measured: for each payload, and at least.
    ramp_each_ns: u64,
    ramp_least_ns: u64,
}

/// What is read is written in pieces of this size.
const FILL_BYTES: u64 = 256 << 10;
/// The range that is read, for each payload of a point, and its least and most: it need not be large, for what was written has left the
/// write buffers when reading begins.
const RANGE_EACH_BYTES: u64 = 16 << 10;
const RANGE_BYTES: (u64, u64) = (32 << 20, 256 << 20);
/// After so long no write buffer holds any of it.
const SETTLE: &str = "1 s";
/// None of the I/Os that fill the range is measured.
const NEVER: &str = "1000 s";

impl Pattern {
    /// All, in the order in which they are shown.
    pub const ALL: [Pattern; 4] =
        [Pattern::RandomReads, Pattern::SequentialReads, Pattern::RandomWrites, Pattern::SequentialWrites];

    /// Its name in figures.
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::RandomReads => "random reads",
            Pattern::SequentialReads => "sequential reads",
            Pattern::RandomWrites => "random writes",
            Pattern::SequentialWrites => "sequential writes",
        }
    }

    /// Whether it reads.
    pub const fn is_read(self) -> bool {
        matches!(self, Pattern::RandomReads | Pattern::SequentialReads)
    }

    /// As a scenario names it.
    const fn rw(self) -> &'static str {
        match self {
            Pattern::RandomReads => "randread",
            Pattern::SequentialReads => "read",
            Pattern::RandomWrites => "randwrite",
            Pattern::SequentialWrites => "write",
        }
    }
}

impl Load {
    /// I/Os of one size by one worker, one at a time, for so many nanoseconds of virtual time for each payload that points of other
    /// papers have.
    pub fn new(pattern: Pattern, bytes: u64, each_ns: u64) -> Load {
        Load { pattern, bytes, workers: 1, depth: 1, each_ns, least_ns: 0, ramp_each_ns: 0, ramp_least_ns: 0 }
    }

    /// By so many workers, each with a queue of its own.
    pub fn workers(self, workers: u32) -> Load {
        Load { workers, ..self }
    }

    /// So many at once from each worker.
    pub fn depth(self, depth: u32) -> Load {
        Load { depth, ..self }
    }

    /// For at least so many nanoseconds of virtual time.
    pub fn at_least(self, least_ns: u64) -> Load {
        Load { least_ns, ..self }
    }

    /// After so long that is not measured, for each payload and at least.
    pub fn ramp(self, each_ns: u64, least_ns: u64) -> Load {
        Load { ramp_each_ns: each_ns, ramp_least_ns: least_ns, ..self }
    }

    /// In words.
    pub(super) fn name(&self) -> String {
        let Load { pattern, bytes, workers, depth, .. } = self;
        let workers = match workers {
            1 => String::new(),
            workers => format!(" by each of {workers}"),
        };
        format!("{} of {} B, {depth} outstanding{workers}", pattern.name(), grouped(*bytes))
    }

    /// Adds its jobs to a scenario of so many payloads.
    pub(super) fn write(&self, payloads: u64, text: &mut String) {
        let Load { pattern, bytes, workers, depth, .. } = self;
        let mut range = String::new();
        if pattern.is_read() {
            let (least, most) = RANGE_BYTES;
            let count = (payloads.saturating_mul(RANGE_EACH_BYTES)).clamp(least, most) / FILL_BYTES;
            let size = format!("size = \"{} B\"\n", count * FILL_BYTES);
            let _ = write!(
                text,
                "\n[[job]]\nname = \"fill\"\nrw = \"write\"\nbs = \"{FILL_BYTES} B\"\n{size}iodepth = 32\ncount = {count}\n\
                 ramp_time = \"{NEVER}\"\n"
            );
            range = format!("{size}stonewall = true\nstartdelay = \"{SETTLE}\"\n");
        }
        let runtime = payloads.saturating_mul(self.each_ns).max(self.least_ns);
        let ramp = payloads.saturating_mul(self.ramp_each_ns).max(self.ramp_least_ns);
        let _ = write!(
            text,
            "\n[[job]]\nname = \"load\"\nrw = {:?}\nbs = \"{bytes} B\"\nnumjobs = {workers}\niodepth = {depth}\n{range}\
             ramp_time = \"{ramp} ns\"\nruntime = \"{runtime} ns\"\n",
            pattern.rw()
        );
    }
}
