//! A source of I/Os, and what it sees.

use byteway_clock::random::Stream;
use byteway_trace::Kind;

/// Decides what a worker of a job asks for next. One is made for each worker, and may keep state.
pub trait WorkloadSource {
    /// The next operation; `None` if there is no further one, after which it isn't asked again. The caller checks the operation: one out of
    /// range, without blocks, or longer than the job may ask for, ends the run, and so does a panic.
    ///
    /// A run follows from its scenario only if this depends on nothing but the view and earlier calls: no clock, no file, no other random
    /// number.
    fn next(&mut self, view: &mut WorkloadView<'_>) -> Option<Operation>;

    /// Whether it comes to an end by itself. The job of one that doesn't needs a limit: `count`, `runtime`, `io_size` or `size`.
    fn ends(&self) -> bool {
        false
    }

    /// The longest read or write that it asks for, in bytes: each outstanding one has a buffer of this size. `None`: what one command
    /// transfers at most.
    fn bytes_max(&self) -> Option<u64> {
        None
    }
}

/// An operation on blocks of a worker's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Read, write or trim.
    pub kind: Kind,
    /// First block, from the beginning of the worker's range.
    pub first: u64,
    /// Number of blocks, at least 1.
    pub blocks: u32,
}

/// What a source sees: the range of its worker, and random numbers.
pub struct WorkloadView<'a> {
    pub(super) blocks: u64,
    pub(super) block_bytes: u32,
    pub(super) blocks_max: u32,
    pub(super) worker: u32,
    pub(super) workers: u32,
    pub(super) random: &'a mut Stream,
}

impl WorkloadView<'_> {
    /// Blocks of the worker's range, at least 1. All workers of a job have the same range, unless it has `offset_increment`.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Bytes of a block: those of the drive's logical blocks; 1 on a sink.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// The longest read or write, in blocks. A trim may be as long as the range.
    pub fn blocks_max(&self) -> u32 {
        self.blocks_max
    }

    /// Number of the worker among those of its job, from 0.
    pub fn worker(&self) -> u32 {
        self.worker
    }

    /// Number of workers of the job.
    pub fn workers(&self) -> u32 {
        self.workers
    }

    /// The next 64 random bits of the worker's own sequence, which follows from the scenario's seed.
    pub fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// The next random number below `n`, each equally likely.
    ///
    /// # Panics
    /// `n` is 0.
    pub fn random_below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    /// The next random number in [0, 1), a multiple of 2^-53.
    pub fn random_unit(&mut self) -> f64 {
        self.random.unit()
    }
}
