//! Interface of a worker's I/Os, for all kinds of access.

use byteway_clock::{SpanRecord, SpanTrail};
use byteway_host::{AnyIoError, IoError, SplitDone};
use byteway_results::Operated;
use byteway_workload::{Generator, Io};
use std::cell::RefCell;

/// A worker's access to a drive, with its source of I/Os.
pub(super) trait Ios {
    /// Buffers for one I/O at a time.
    type Buffers;

    /// The source of I/Os.
    fn generator(&self) -> &RefCell<Generator>;

    /// Buffers for I/Os of up to `blocks` blocks.
    fn buffers(&self, blocks: u32) -> Result<Self::Buffers, IoError>;

    /// Executes an I/O. The stages of its latency are then in `record`: it is large, so it is not passed from hand to hand.
    async fn perform(&self, buffers: &mut Self::Buffers, io: Io, record: &mut SpanRecord) -> Performed;

    /// Makes what was written non-volatile, where there is anything to flush.
    async fn flush(&self) -> Result<(), AnyIoError> {
        Ok(())
    }
}

/// A completed I/O, of any client.
pub(super) struct Performed {
    pub(super) result: Result<(), AnyIoError>,
    /// Number of commands.
    pub(super) commands: u32,
    pub(super) trail: Option<SpanTrail>,
}

impl Performed {
    /// An I/O of one command.
    pub(super) fn by_one<E>(result: Result<(), IoError<E>>) -> Performed
    where
        AnyIoError: From<IoError<E>>,
    {
        Performed { result: result.map_err(AnyIoError::from), commands: 1, trail: None }
    }

    /// An I/O that may have been split.
    pub(super) fn by_several(done: SplitDone, record: &mut SpanRecord) -> Performed {
        let SplitDone { result, commands, trail } = done;
        let result = result.map(|last| *record = last).map_err(AnyIoError::from);
        Performed { result, commands, trail }
    }
}

/// A completed key-value operation.
pub(super) struct Done {
    pub(super) operated: Operated,
    pub(super) bytes: u64,
    pub(super) record: SpanRecord,
}
