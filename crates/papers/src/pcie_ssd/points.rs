//! The points of the paper: random and sequential reads and writes of 512 B to 256 KiB by 1 to 8 workers, in
//! legacy mode (one outstanding I/O) and in queue mode (128). The paper's runs are longer; their length is
//! not stated.

use crate::board::{BSSD, Board, Departure, FSSD};
use crate::load::{Load, Pattern};
use crate::point::Spec;

/// Sizes of an I/O.
pub(super) const SIZES: [u64; 5] = [512, 4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// The paper's default size.
pub(super) const DEFAULT_BYTES: u64 = 512;

/// Largest fine-grained I/O: section 4.2 excludes larger ones.
pub(super) const FINE_BYTES: u64 = 16 << 10;

/// Outstanding I/Os of a worker in queue mode.
pub(super) const QUEUE_DEPTH: u32 = 128;

/// Numbers of workers.
pub(super) const WORKERS: [u32; 3] = [1, 4, 8];

/// Virtual time of a point per payload of other papers' points: 10,000 correspond to 0.5 s, after an equal
/// ramp.
const EACH_NS: u64 = 50_000;
/// Minimum per worker: the 1024 I/Os of eight workers take 50 ms, and the measured time has to be many times
/// longer.
const LEAST_OF_WORKER_NS: u64 = 30_000_000;
/// Minimum ramp for large writes, so that write buffers are full and the flash limits throughput; and for
/// partial writes of 4 KiB units, so that FSSD merges as many as arrive.
const LARGE_BYTES: u64 = 64 << 10;
const LARGE_RAMP_NS: u64 = 1_000_000_000;
const UNIT_BYTES: u64 = 4 << 10;
const PARTS_RAMP_NS: u64 = 2_000_000_000;
/// The same for points over time: 10,000 correspond to 10 s, and FSSD's memory for partial writes is full in
/// the second.
const OVER_TIME_NS: u64 = 1_000_000;
const OVER_TIME_LEAST_NS: u64 = 4_000_000_000;
/// The same for small drives that are overwritten: 16 s of FSSD, 70 s of BSSD, which takes fewer writes per
/// second and more of them until it is full.
const OVERWRITE_FSSD_NS: u64 = 1_600_000;
const OVERWRITE_BSSD_NS: u64 = 7_000_000;

const SOONER: &str = "a small drive is overwritten within the run, as the paper's is in a longer one";
const SMALL_FSSD: [Departure; 1] = [Departure::scaled("drive.capacity", "\"1 GiB\"", SOONER)];
/// Each of four members has 1 GiB, the minimum of a drive. The bridge's memory is smaller by the same factor
/// of 93.
const SMALL_BSSD: [Departure; 2] = [
    Departure::scaled("drive.capacity", "\"4 GiB\"", SOONER),
    Departure::scaled(
        "drive.override.bridge.small_writes.memory",
        "\"22 MiB\"",
        "scaled with the capacity from 2 GiB",
    ),
];

/// The drives that the paper compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drive {
    /// "From scratch": its firmware is a driver on the host.
    Fssd,
    /// Complete drives behind a bridge.
    Bssd,
}

impl Drive {
    pub(super) const ALL: [Drive; 2] = [Drive::Fssd, Drive::Bssd];

    /// Name in the paper.
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

    /// A point with one I/O at a time.
    pub(super) fn legacy(self, pattern: Pattern, bytes: u64) -> Spec {
        self.with(load(pattern, bytes))
    }

    /// 128 outstanding I/Os from each of `workers`.
    pub(super) fn queued(self, pattern: Pattern, bytes: u64, workers: u32) -> Spec {
        let least_ns = u64::from(workers) * LEAST_OF_WORKER_NS;
        self.with(load(pattern, bytes).depth(QUEUE_DEPTH).workers(workers).at_least(least_ns))
    }

    /// Random writes of the default size on an empty drive, from the first write on.
    pub(super) fn over_time(self, depth: u32) -> Spec {
        let load = Load::new(Pattern::RandomWrites, DEFAULT_BYTES, OVER_TIME_NS).at_least(OVER_TIME_LEAST_NS);
        self.with(load.depth(depth)).followed()
    }

    /// Random writes of the default size at full queue depth, until a small drive of this kind has been
    /// overwritten.
    pub(super) fn overwritten(self) -> Spec {
        let (each_ns, departures) = match self {
            Drive::Fssd => (OVERWRITE_FSSD_NS, &SMALL_FSSD[..]),
            Drive::Bssd => (OVERWRITE_BSSD_NS, &SMALL_BSSD[..]),
        };
        let load = Load::new(Pattern::RandomWrites, DEFAULT_BYTES, each_ns).depth(QUEUE_DEPTH);
        departures.iter().fold(self.with(load), |spec, departure| spec.departs(*departure)).followed()
    }

    /// Queue mode with every size and pattern.
    pub(super) fn sweep(self) -> impl Iterator<Item = Spec> {
        let each = move |pattern| SIZES.into_iter().map(move |bytes| self.queued(pattern, bytes, 1));
        Pattern::ALL.into_iter().flat_map(each)
    }

    /// Random writes of the default size, by each number of workers.
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
