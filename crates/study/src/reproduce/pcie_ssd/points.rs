//! The points of the paper: reads and writes at random and in order, of 512 B to 256 KiB, by 1 to 8 workers, in legacy mode (one I/O
//! outstanding) and in queue mode (128). The paper's runs are longer: how long is not stated.

use crate::reproduce::board::{BSSD, Board, Departure, FSSD};
use crate::reproduce::load::{Load, Pattern};
use crate::reproduce::point::Spec;

/// Sizes of an I/O.
pub(super) const SIZES: [u64; 5] = [512, 4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// The paper's default size.
pub(super) const DEFAULT_BYTES: u64 = 512;

/// Up to this size I/O is fine-grained: section 4.2 excepts what is larger.
pub(super) const FINE_BYTES: u64 = 16 << 10;

/// I/Os of a worker in queue mode.
pub(super) const QUEUE_DEPTH: u32 = 128;

/// Numbers of workers.
pub(super) const WORKERS: [u32; 3] = [1, 4, 8];

/// Virtual time of a point for each payload that points of other papers have: 10,000 come to 0.5 s, after as long that is not measured.
const EACH_NS: u64 = 50_000;
/// So long at least for each worker: the 1024 I/Os of eight take 50 ms, and what is measured must be many times as long.
const LEAST_OF_WORKER_NS: u64 = 30_000_000;
/// Time before it at least where writes are large, so that write buffers are full and throughput is the flash's, and where they are
/// parts of a unit of 4 KiB, so that FSSD merges as many as come.
const LARGE_BYTES: u64 = 64 << 10;
const LARGE_RAMP_NS: u64 = 1_000_000_000;
const UNIT_BYTES: u64 = 4 << 10;
const PARTS_RAMP_NS: u64 = 2_000_000_000;
/// The same of points over time: 10,000 come to 10 s, and FSSD's memory for parts is full in the second.
const OVER_TIME_NS: u64 = 1_000_000;
const OVER_TIME_LEAST_NS: u64 = 4_000_000_000;
/// The same of small drives that are written over: to 16 s of FSSD, to 70 s of BSSD, which takes fewer writes a second and has more of
/// them to take before it is full.
const OVERWRITE_FSSD_NS: u64 = 1_600_000;
const OVERWRITE_BSSD_NS: u64 = 7_000_000;

const SOONER: &str = "a small drive is written over within the run, as the paper's is in a longer one";
const SMALL_FSSD: [Departure; 1] = [Departure::scaled("drive.capacity", "\"1 GiB\"", SOONER)];
/// Each of four members has 1 GiB, the least that a drive can have. The bridge's memory is smaller by the same factor of 93.
const SMALL_BSSD: [Departure; 2] = [
    Departure::scaled("drive.capacity", "\"4 GiB\"", SOONER),
    Departure::scaled(
        "drive.override.bridge.small_writes.memory",
        "\"22 MiB\"",
        "as small against the capacity as 2 GiB are",
    ),
];

/// What the paper compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drive {
    /// From scratch: its firmware is a driver of the host's.
    Fssd,
    /// Whole drives behind a bridge.
    Bssd,
}

impl Drive {
    pub(super) const ALL: [Drive; 2] = [Drive::Fssd, Drive::Bssd];

    /// The paper's name of it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Drive::Fssd => "FSSD",
            Drive::Bssd => "BSSD",
        }
    }

    const fn board(self) -> &'static Board {
        match self {
            Drive::Fssd => &FSSD,
            Drive::Bssd => &BSSD,
        }
    }

    fn with(self, load: Load) -> Spec {
        self.board().block().load(load)
    }

    /// One I/O at a time.
    pub(super) fn legacy(self, pattern: Pattern, bytes: u64) -> Spec {
        self.with(load(pattern, bytes))
    }

    /// 128 at once from each of so many workers.
    pub(super) fn queued(self, pattern: Pattern, bytes: u64, workers: u32) -> Spec {
        let least_ns = u64::from(workers) * LEAST_OF_WORKER_NS;
        self.with(load(pattern, bytes).depth(QUEUE_DEPTH).workers(workers).at_least(least_ns))
    }

    /// Random writes of the default size on an empty drive, from the first on.
    pub(super) fn over_time(self, depth: u32) -> Spec {
        let load = Load::new(Pattern::RandomWrites, DEFAULT_BYTES, OVER_TIME_NS).at_least(OVER_TIME_LEAST_NS);
        self.with(load.depth(depth)).followed()
    }

    /// Random writes of the default size, as many at once as the queue takes, until a small drive of this kind was written over.
    pub(super) fn overwritten(self) -> Spec {
        let (each_ns, departures) = match self {
            Drive::Fssd => (OVERWRITE_FSSD_NS, &SMALL_FSSD[..]),
            Drive::Bssd => (OVERWRITE_BSSD_NS, &SMALL_BSSD[..]),
        };
        let load = Load::new(Pattern::RandomWrites, DEFAULT_BYTES, each_ns).depth(QUEUE_DEPTH);
        departures.iter().fold(self.with(load), |spec, departure| spec.departs(*departure)).followed()
    }

    /// Queue mode: every size with every pattern.
    pub(super) fn sweep(self) -> impl Iterator<Item = Spec> {
        let each = move |pattern| SIZES.into_iter().map(move |bytes| self.queued(pattern, bytes, 1));
        Pattern::ALL.into_iter().flat_map(each)
    }

    /// Random writes of the default size by each number of workers.
    pub(super) fn shared(self) -> impl Iterator<Item = Spec> {
        WORKERS.into_iter().map(move |workers| self.queued(Pattern::RandomWrites, DEFAULT_BYTES, workers))
    }
}

fn load(pattern: Pattern, bytes: u64) -> Load {
    let ramp_least_ns = match pattern {
        Pattern::RandomWrites if bytes < UNIT_BYTES => PARTS_RAMP_NS,
        Pattern::RandomWrites | Pattern::SequentialWrites if bytes >= LARGE_BYTES => LARGE_RAMP_NS,
        _ => 0,
    };
    Load::new(pattern, bytes, EACH_NS).ramp(EACH_NS, ramp_least_ns)
}
