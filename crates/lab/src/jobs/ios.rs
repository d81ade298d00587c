//! I/Os as a worker carries them out, whatever they are of.

use byteway_clock::{SpanRecord, Trail};
use byteway_host::{AnyIoError, IoError, SplitDone};
use byteway_workload::{Generator, Io};
use std::cell::RefCell;

/// A worker's side of a drive that is asked for I/Os, and where these come from.
pub(super) trait Ios {
    /// Memory for one I/O at a time.
    type Buffers;

    /// Where the I/Os come from.
    fn generator(&self) -> &RefCell<Generator>;

    /// For I/Os of up to `blocks` blocks.
    fn buffers(&self, blocks: u32) -> Result<Self::Buffers, IoError>;

    /// Carries an I/O out.
    async fn perform(&self, buffers: &mut Self::Buffers, io: Io) -> Performed;
}

/// An I/O that has ended, with whatever client.
pub(super) struct Performed {
    pub(super) result: Result<SpanRecord, AnyIoError>,
    /// How many commands it took.
    pub(super) commands: u32,
    pub(super) trail: Option<Trail>,
}

impl Performed {
    /// By one command.
    pub(super) fn by_one<E>(result: Result<SpanRecord, IoError<E>>) -> Performed
    where
        AnyIoError: From<IoError<E>>,
    {
        Performed { result: result.map_err(AnyIoError::from), commands: 1, trail: None }
    }
}

impl From<SplitDone> for Performed {
    fn from(done: SplitDone) -> Self {
        let SplitDone { result, commands, trail } = done;
        Performed { result: result.map_err(AnyIoError::from), commands, trail }
    }
}
