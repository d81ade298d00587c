//! A block load: one pattern and size, for a time. Data to be read is written before, outside the measured
//! part.

use std::fmt::Write as _;

use byteway_text::table::grouped;

/// Operation and order of a load.
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

/// A load: a number of workers with a queue depth each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    pattern: Pattern,
    bytes: u64,
    workers: u32,
    depth: u32,
    /// Measured virtual time: per payload of other points, and minimum.
    each_ns: u64,
    least_ns: u64,
    /// Ramp: per payload, and minimum.
    ramp_each_ns: u64,
    ramp_least_ns: u64,
}

/// I/O size when writing the data to be read.
const FILL_BYTES: u64 = 256 << 10;
/// Range that is read: bytes per payload, with minimum and maximum. It need not be large, because the data
/// has left the write buffers when reading begins.
const RANGE_EACH_BYTES: u64 = 16 << 10;
const RANGE_BYTES: (u64, u64) = (32 << 20, 256 << 20);
/// Delay after which no write buffer contains data of the load.
const SETTLE: &str = "1 s";
/// Ramp that excludes all I/Os that fill the range.
const NEVER: &str = "1000 s";

impl Pattern {
    /// All patterns, in the order of the figures.
    pub const ALL: [Pattern; 4] =
        [Pattern::RandomReads, Pattern::SequentialReads, Pattern::RandomWrites, Pattern::SequentialWrites];

    /// Name in figures.
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

    /// Notation of `rw` in a scenario.
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
    /// I/Os of one size by one worker, one at a time, for this many nanoseconds of virtual time per payload
    /// of other papers' points.
    pub fn new(pattern: Pattern, bytes: u64, each_ns: u64) -> Load {
        Load { pattern, bytes, workers: 1, depth: 1, each_ns, least_ns: 0, ramp_each_ns: 0, ramp_least_ns: 0 }
    }

    /// Sets the number of workers, each with a queue.
    pub fn workers(self, workers: u32) -> Load {
        Load { workers, ..self }
    }

    /// With this queue depth per worker.
    pub fn depth(self, depth: u32) -> Load {
        Load { depth, ..self }
    }

    /// With a minimum of virtual time, in nanoseconds.
    pub fn at_least(self, least_ns: u64) -> Load {
        Load { least_ns, ..self }
    }

    /// Sets the ramp per payload, and its minimum.
    pub fn ramp(self, each_ns: u64, least_ns: u64) -> Load {
        Load { ramp_each_ns: each_ns, ramp_least_ns: least_ns, ..self }
    }

    /// Name in messages.
    pub(crate) fn name(&self) -> String {
        let Load { pattern, bytes, workers, depth, .. } = self;
        let workers = match workers {
            1 => String::new(),
            workers => format!(" by each of {workers}"),
        };
        format!("{} of {} B, {depth} outstanding{workers}", pattern.name(), grouped(*bytes))
    }

    /// Adds its jobs to a scenario with this number of payloads.
    pub(crate) fn write(&self, payloads: u64, text: &mut String) {
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
