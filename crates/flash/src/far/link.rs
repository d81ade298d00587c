//! The contract of flash across a link, and the messages that cross.

use crate::geometry::{BlockId, Geometry, Ppa};
use crate::priority::Priority;
use crate::store::{Batch, Spare};
use crate::timing::Mode;
use byteway_content::Content;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::rc::Rc;

/// The far end is lost, or its answers are invalid; with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone(pub Rc<str>);

impl Gone {
    /// A lost link with a reason for reports.
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

/// Properties that a far flash reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarShape {
    /// Geometry.
    pub geometry: Geometry,
    /// Stripes that share the cells of a wordline, at least 1.
    pub wordline: u32,
    /// Superblocks have a one-bit mode.
    pub has_one_bit_mode: bool,
    /// Programs, erases and reads can fail.
    pub can_fail: bool,
    /// Whether nothing was ever programmed, erased or written to the system area.
    pub is_new: bool,
    /// Age of the medium in nanoseconds.
    pub calendar_ns: u64,
}

/// State that a far flash reports of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockReport {
    /// Programmed stripes.
    pub programmed: u32,
    /// Program/erase cycles, those before the medium was made included.
    pub erases: u32,
    /// Program/erase cycles since the medium was made.
    pub erases_since_made: u32,
    /// Sensings since the erase.
    pub reads: u32,
    /// Time at which the first stripe was programmed, in nanoseconds of the calendar.
    pub programmed_at_ns: u64,
    /// Bits a cell.
    pub mode: Mode,
    /// Whether the superblock is marked as bad.
    pub is_bad: bool,
    /// Whether the superblock must be erased before it can be programmed.
    pub is_unstable: bool,
}

/// A read of units of one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarRead {
    /// Superblock.
    pub block: BlockId,
    /// Stripe within the superblock.
    pub stripe: u32,
    /// The units to read, one bit each.
    pub mask: u64,
    /// Contents are wanted in addition to the spare areas.
    pub contents: bool,
    /// Priority at the far end.
    pub priority: Priority,
}

/// Result of a read. Its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct FarStripe {
    /// Number of the stripe; None if unreadable or not programmed.
    pub number: Option<u64>,
    /// Spare area of each unit in the mask; [`Spare::PADDING`] where there is none.
    pub spares: Vec<Spare>,
    /// Content of each unit in the mask, if contents were wanted.
    pub contents: Vec<Content>,
    /// The unreadable units, one bit each.
    pub unreadable: u64,
}

/// A program of a stripe, with units that cross the link or are copied at the far end.
#[derive(Clone, Copy, Debug)]
pub struct FarProgram<'a> {
    /// Superblock.
    pub block: BlockId,
    /// Stripe within the superblock.
    pub stripe: u32,
    /// The units to program. The contents of copied units are ignored.
    pub batch: &'a Batch,
    /// Addresses of the units to copy, one for each of the batch; None if contents cross.
    pub sources: Option<&'a [Ppa]>,
    /// Priority at the far end.
    pub priority: Priority,
}

/// A state of a superblock that is set explicitly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockMark {
    /// Bad, permanently.
    Bad,
    /// Bits a cell, for an erased superblock.
    Mode(Mode),
}

/// A request to the system area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemRequest {
    /// Reads root slot 0 or 1.
    ReadRoot(usize),
    /// Replaces root slot 0 or 1.
    WriteRoot(usize, Rc<[u8]>),
    /// Reads the record.
    ReadRecord,
    /// Replaces the record.
    WriteRecord(Rc<[u8]>),
    /// Reads all pages of the journal, oldest first.
    ReadJournal,
    /// Appends a page to the journal.
    AppendJournal(Rc<[u8]>),
    /// Drops the oldest pages of the journal.
    CutJournal(usize),
}

/// The far end of flash across a link.
///
/// [`Far`](super::Far) keeps all required ordering: it calls a method only when the operation may execute.
/// Each lane has at most one call in flight, different lanes have several; a lane's buffers are reused. Each
/// method ends when its answer is here. An error is permanent: no call follows. Results are used only as far
/// as they are within the shape; requested addresses always are.
pub trait FarFlash: 'static {
    /// Operations that may be in flight at once, at least one.
    fn lanes(&self) -> usize;

    /// Properties of the flash.
    fn describe(&self) -> impl Future<Output = Result<FarShape, Gone>>;

    /// Appends the state of each superblock to the result.
    fn report(
        &self,
        blocks: Range<u32>,
        out: &mut Vec<BlockReport>,
    ) -> impl Future<Output = Result<(), Gone>>;

    /// Reads units of a stripe, or only their spare areas, into `out`, which is overwritten.
    fn read(&self, lane: usize, read: FarRead, out: &mut FarStripe)
    -> impl Future<Output = Result<(), Gone>>;

    /// Programs a stripe. False if it failed; the caller then asks for the superblock's state.
    fn program(&self, lane: usize, program: FarProgram<'_>) -> impl Future<Output = Result<bool, Gone>>;

    /// Erases a superblock. False if it failed; the caller then asks for the superblock's state.
    fn erase(
        &self,
        lane: usize,
        block: BlockId,
        priority: Priority,
    ) -> impl Future<Output = Result<bool, Gone>>;

    /// Sets a state of a superblock.
    fn mark(&self, block: BlockId, mark: BlockMark) -> impl Future<Output = Result<(), Gone>>;

    /// Waits until every answered operation is durable beyond a crash.
    fn sync(&self) -> impl Future<Output = Result<(), Gone>>;

    /// Executes a request of the system area, one at a time. Returns the root or the record if there is one,
    /// or the journal's pages.
    fn system(&self, request: SystemRequest) -> impl Future<Output = Result<Vec<Rc<[u8]>>, Gone>>;
}
