//! What an end beyond a link must do, and what crosses.

use crate::geometry::{BlockId, Geometry, Ppa};
use crate::priority::Priority;
use crate::store::{Batch, Spare};
use crate::timing::Mode;
use byteway_wire::content::Content;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::rc::Rc;

/// Why an end beyond a link is not there, or not to be believed.
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

/// What a flash says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarShape {
    /// Its shape.
    pub geometry: Geometry,
    /// Stripes that share the cells of a wordline, where these hold more than one bit: at least 1.
    pub wordline: u32,
    /// Superblocks can hold one bit a cell.
    pub has_one_bit_mode: bool,
    /// Programs, erases and reads can fail.
    pub can_fail: bool,
    /// Nothing was ever programmed, erased or kept in the system area.
    pub is_new: bool,
    /// Nanoseconds since the medium was made.
    pub calendar_ns: u64,
}

/// What a flash says of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockReport {
    /// Stripes that are programmed.
    pub programmed: u32,
    /// Program/erase cycles, those before the medium was made included.
    pub erases: u32,
    /// The same without those.
    pub erases_since_made: u32,
    /// Sensings since the erase.
    pub reads: u32,
    /// When the first stripe was programmed, nanoseconds of the calendar.
    pub programmed_at_ns: u64,
    /// Bits a cell.
    pub mode: Mode,
    /// It is marked as bad.
    pub is_bad: bool,
    /// It must be erased before it is programmed.
    pub is_unstable: bool,
}

/// A read of units of one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarRead {
    /// Superblock.
    pub block: BlockId,
    /// Stripe in it.
    pub stripe: u32,
    /// Units of the stripe, a bit each.
    pub mask: u64,
    /// The units' contents are wanted, beside their spare areas.
    pub contents: bool,
    /// For whom.
    pub priority: Priority,
}

/// What a read has brought. Its memory is used again.
#[derive(Clone, Debug, Default)]
pub struct FarStripe {
    /// The number of the stripe; none if it can't be read or isn't programmed.
    pub number: Option<u64>,
    /// Of each unit in the mask; [`Spare::PADDING`] where there is none.
    pub spares: Vec<Spare>,
    /// Of each unit in the mask, if contents were wanted.
    pub contents: Vec<Content>,
    /// Units that can't be read, a bit each.
    pub unreadable: u64,
}

/// A program of a stripe, of units that cross or that are there already.
#[derive(Clone, Copy, Debug)]
pub struct FarProgram<'a> {
    /// Superblock.
    pub block: BlockId,
    /// Stripe in it.
    pub stripe: u32,
    /// What is programmed. Of units that are moved contents are of no account.
    pub batch: &'a Batch,
    /// Where the units lie that are moved, one for each of the batch; none: contents cross.
    pub sources: Option<&'a [Ppa]>,
    /// For whom.
    pub priority: Priority,
}

/// A state of a superblock that is set rather than come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Bad, for ever.
    Bad,
    /// Bits a cell, of one that is erased.
    Mode(Mode),
}

/// A request of the system area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemVerb {
    /// One of the two roots.
    ReadRoot(usize),
    /// Replaces a root.
    WriteRoot(usize, Rc<[u8]>),
    /// The record.
    ReadRecord,
    /// Replaces the record.
    WriteRecord(Rc<[u8]>),
    /// All pages of the journal, the oldest first.
    ReadJournal,
    /// Adds a page to the journal.
    AppendJournal(Rc<[u8]>),
    /// Takes the oldest pages off the journal.
    CutJournal(usize),
}

/// An end beyond a link.
///
/// [`Far`](super::Far) keeps the order of what must be in order and calls each verb only when it may be carried out; those
/// of several lanes are under way at once, of one lane one at a time, so a lane's buffers can be used again. Each verb ends
/// when its answer is here. An error is for good: nothing is asked afterwards. What comes back is believed as far as it is
/// within the shape; addresses that are asked for always are.
pub trait FarFlash: 'static {
    /// Operations that may be under way at once: at least one.
    fn lanes(&self) -> usize;

    /// What the flash says of itself.
    fn describe(&self) -> impl Future<Output = Result<FarShape, Gone>>;

    /// What it says of superblocks: adds one for each.
    fn report(
        &self,
        blocks: Range<u32>,
        out: &mut Vec<BlockReport>,
    ) -> impl Future<Output = Result<(), Gone>>;

    /// Reads units of a stripe, or only their spare areas; `out` is overwritten.
    fn read(&self, lane: usize, read: FarRead, out: &mut FarStripe)
    -> impl Future<Output = Result<(), Gone>>;

    /// Programs a stripe; false: it failed, and the superblock is to be reported.
    fn program(&self, lane: usize, program: FarProgram<'_>) -> impl Future<Output = Result<bool, Gone>>;

    /// Erases a superblock; false: it failed, and the superblock is to be reported.
    fn erase(
        &self,
        lane: usize,
        block: BlockId,
        priority: Priority,
    ) -> impl Future<Output = Result<bool, Gone>>;

    /// Sets a state of a superblock.
    fn mark(&self, block: BlockId, mark: Mark) -> impl Future<Output = Result<(), Gone>>;

    /// Ends when everything that has been answered outlives more than the power.
    fn sync(&self) -> impl Future<Output = Result<(), Gone>>;

    /// Carries out a request of the system area: one at a time. Gives the root or the record if there is one, or the pages.
    fn system(&self, verb: SystemVerb) -> impl Future<Output = Result<Vec<Rc<[u8]>>, Gone>>;
}
