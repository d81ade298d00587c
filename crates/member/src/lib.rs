//! A whole drive as a member of an array: the contract that its driver or firmware must fulfil.
//!
//! An array (crate `array`) depends on no driver, and a driver (crate `host`) on no array. They meet in
//! [`Member`].
//!
//! A member that keeps its units in memory:
//!
//! ```
//! use byteway_clock::{Executor, SpanId};
//! use byteway_member::{Member, MemberError, MemberLost, MemberShape};
//! use byteway_content::Content;
//! # use std::cell::RefCell;
//!
//! struct RamMember(RefCell<Vec<Content>>);
//!
//! impl Member for RamMember {
//! #     fn lanes(&self) -> usize {
//! #         1
//! #     }
//!     async fn describe(&self) -> Result<MemberShape, MemberLost> {
//!         let units = self.0.borrow().len() as u64;
//!         Ok(MemberShape { units, command_units: 32, block_bytes: 4096, identity: "RAM".into() })
//!     }
//!     async fn read(
//!         &self, _lane: usize, _: SpanId, first: u64, count: u32, out: &mut Vec<Content>,
//!     ) -> Result<(), MemberError> {
//!         *out = self.0.borrow()[first as usize..][..count as usize].to_vec();
//!         Ok(())
//!     }
//!     // The other operations likewise.
//! #     async fn write(
//! #         &self, _: usize, _: SpanId, first: u64, contents: &[Content], _: bool,
//! #     ) -> Result<(), MemberError> {
//! #         self.0.borrow_mut()[first as usize..][..contents.len()].clone_from_slice(contents);
//! #         Ok(())
//! #     }
//! #     async fn write_part(
//! #         &self, lane: usize, span: SpanId, unit: u64, _: u32, _: u32, content: &Content, durable: bool,
//! #     ) -> Result<(), MemberError> {
//! #         self.write(lane, span, unit, std::slice::from_ref(content), durable).await
//! #     }
//! #     async fn deallocate(&self, _: usize, _: SpanId, first: u64, count: u64) -> Result<(), MemberError> {
//! #         self.0.borrow_mut()[first as usize..][..count as usize].fill(Content::Zero);
//! #         Ok(())
//! #     }
//! #     async fn flush(&self, _: usize, _: SpanId) -> Result<(), MemberError> {
//! #         Ok(())
//! #     }
//! }
//!
//! let member = RamMember(RefCell::new(vec![Content::Zero; 64]));
//! let mut read = Vec::new();
//! let read = Executor::new().run(async move {
//!     member.read(0, SpanId::NONE, 60, 4, &mut read).await.map(|()| read)
//! })?;
//! assert_eq!(read, Ok(vec![Content::Zero; 4]));
//! # Ok::<(), byteway_clock::Stalled>(())
//! ```
//!
//! What it does not do: it knows neither levels nor parity (`array`), nor commands (`host`).

use byteway_clock::SpanId;
use byteway_content::Content;
use std::fmt;
use std::future::Future;
use std::rc::Rc;

/// Properties that a member reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberShape {
    /// Capacity in units of 4 KiB.
    pub units: u64,
    /// Maximum units of one command, at least 1. Longer reads and writes take several commands.
    pub command_units: u32,
    /// Smallest write in bytes: 512 or 4096.
    pub block_bytes: u32,
    /// Model and serial number, for reports.
    pub identity: Rc<str>,
}

/// The member is lost for good, for the reason given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberLost(pub Rc<str>);

impl MemberLost {
    /// A lost member, with a reason for reports.
    pub fn because(why: impl ToString) -> MemberLost {
        MemberLost(why.to_string().into())
    }
}

impl fmt::Display for MemberLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MemberLost {}

/// Error of an operation on a member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// The drive is lost for good.
    #[error("the drive is lost: {0}")]
    Lost(#[from] MemberLost),
    /// Some of the units are unreadable.
    #[error("unrecovered read error")]
    Unreadable,
    /// The drive is there and rejected the operation, for the reason given.
    #[error("the drive rejected the operation: {0}")]
    Refused(Rc<str>),
}

/// A drive that holds units of an array.
///
/// Each lane has at most one operation in flight, different lanes have several; a lane's buffers are reused.
/// Each method ends when the drive has answered. Every address is within the shape, and a read or write is at
/// most [`MemberShape::command_units`] long. A write survives a power cut if it was durable, or if a flush
/// that began after its answer was answered. A unit is written as a whole or not at all, even across a power
/// cut.
pub trait Member: 'static {
    /// Operations that may be in flight at once, at least one.
    fn lanes(&self) -> usize;

    /// Properties of the drive.
    ///
    /// # Errors
    /// [`MemberLost`] if the drive is lost.
    fn describe(&self) -> impl Future<Output = Result<MemberShape, MemberLost>>;

    /// Reads `count` units from `first` into `out`, which is overwritten. Time in the drive is charged to
    /// `span`.
    fn read(
        &self,
        lane: usize,
        span: SpanId,
        first: u64,
        count: u32,
        out: &mut Vec<Content>,
    ) -> impl Future<Output = Result<(), MemberError>>;

    /// Writes units from `first` on. A durable write survives a power cut once this ends.
    fn write(
        &self,
        lane: usize,
        span: SpanId,
        first: u64,
        contents: &[Content],
        durable: bool,
    ) -> impl Future<Output = Result<(), MemberError>>;

    /// Writes `bytes` bytes of a unit from `offset` on, in whole blocks. The rest of the unit is unchanged.
    /// `content` is a whole unit, of which that part counts.
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

    /// Waits until every write answered before is durable.
    fn flush(&self, lane: usize, span: SpanId) -> impl Future<Output = Result<(), MemberError>>;
}
