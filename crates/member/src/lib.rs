//! A whole drive as a member of an array: what the drive's end of the contract must do.
//!
//! An array (crate `array`) stands beside the firmware, a client of drives (crate `host`) beside the driver, and the two never
//! depend on each other. They meet in [`Member`].
//!
//! What it does not do: it knows no levels and no parity (`array`), and no commands (`host`).

use byteway_clock::SpanId;
use byteway_wire::content::Content;
use std::fmt;
use std::future::Future;
use std::rc::Rc;

/// What a member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberShape {
    /// Capacity in units of 4 KiB.
    pub units: u64,
    /// Units of one command, at most: at least 1. Longer reads and writes are several commands.
    pub command_units: u32,
    /// The smallest write, bytes: 512 or 4096.
    pub block_bytes: u32,
    /// Model and serial number, for reports.
    pub identity: Rc<str>,
}

/// Why a member is no longer there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone(pub Rc<str>);

impl Gone {
    /// For this reason.
    pub fn because(why: impl ToString) -> Gone {
        Gone(why.to_string().into())
    }
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Gone {}

/// Why a member did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// It is not there any more, for good.
    #[error("the drive is gone: {0}")]
    Gone(#[from] Gone),
    /// It cannot give some of the units.
    #[error("unrecovered read error")]
    Unreadable,
    /// It is there, and refuses.
    #[error("the drive refused: {0}")]
    Refused(Rc<str>),
}

/// A drive that holds units of an array.
///
/// Operations of several lanes are in flight at once, of one lane one at a time, so a lane's buffers can be used again. Each
/// verb ends when its answer is here. Every address is within the shape, and a read or write is at most
/// [`MemberShape::command_units`] long. What has been answered survives a power cut if it was durable, or if a flush that began
/// afterwards was answered. A unit is written as a whole or not at all, whatever the power does.
pub trait Member: 'static {
    /// Operations that may be in flight at once: at least one.
    fn lanes(&self) -> usize;

    /// What the drive says of itself.
    fn describe(&self) -> impl Future<Output = Result<MemberShape, Gone>>;

    /// Reads `count` units from `first`: `out` is overwritten. Time that the I/O `span` takes in the drive is charged to it.
    fn read(
        &self,
        lane: usize,
        span: SpanId,
        first: u64,
        count: u32,
        out: &mut Vec<Content>,
    ) -> impl Future<Output = Result<(), MemberError>>;

    /// Writes units from `first` on. With `durable` they survive a power cut when this ends.
    fn write(
        &self,
        lane: usize,
        span: SpanId,
        first: u64,
        contents: &[Content],
        durable: bool,
    ) -> impl Future<Output = Result<(), MemberError>>;

    /// Writes `bytes` bytes of a unit, from `offset` on: whole blocks. The rest of the unit stays. `content` is a whole unit, of
    /// which that part counts.
    #[allow(clippy::too_many_arguments, reason = "the place of a part has three coordinates")]
    fn write_part(
        &self,
        lane: usize,
        span: SpanId,
        unit: u64,
        offset: u32,
        bytes: u32,
        content: &Content,
        durable: bool,
    ) -> impl Future<Output = Result<(), MemberError>>;

    /// Deallocates units: they read as zeroes from then on.
    fn deallocate(
        &self,
        lane: usize,
        span: SpanId,
        first: u64,
        count: u64,
    ) -> impl Future<Output = Result<(), MemberError>>;

    /// Ends when everything that was answered before survives a power cut.
    fn flush(&self, lane: usize, span: SpanId) -> impl Future<Output = Result<(), MemberError>>;
}
