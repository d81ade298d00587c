//! Where bytes rest: a drive's flash array, its times and its contents.
//!
//! Channels x ways (dies of a channel) x planes x blocks x pages. The translation layer sees *units* of 4 KiB; it
//! programs a *stripe* (the same page of all planes of a die) and erases a *superblock* (the same block of all planes
//! of a die). An operation takes its command cycles and its data over the channel that the dies of a column share,
//! and the time of the cells, during all of which it has the die to itself, but for what [`Timing`] says of suspension and
//! cache reads.
//!
//! | file | what |
//! |---|---|
//! | [`geometry`] | the shape, and flat addresses: [`Ppa`], [`BlockId`] |
//! | [`timing`] | how long sensing, programming, erasing and moving take |
//! | [`config`] | [`FlashConfig`]: all that an array is like |
//! | [`reliability`] | bit errors by wear, age and reads; retries; failures of worn cells |
//! | [`fault`] | failures that are injected |
//! | `trouble` | chance at work: both of these, die by die |
//! | [`array`](mod@array) | [`Flash`]: operations in, what was done out |
//! | [`die`] | a die's queue by [`Priority`], and what it works at |
//! | `priority.rs` | who asks for an operation |
//! | `sequencer` | how dies move from phase to phase, with suspension, cache reads and retries |
//! | `trace` | what a trace shows of them |
//! | `channel` | a channel, and who has it next |
//! | `line` | the queue in classes behind both |
//! | [`ticket`] | [`Ticket`]: how the submitter learns of the end, and gets what was read |
//! | [`store`] | contents: a base state in closed form, and what was programmed since, in memory or in files |
//! | [`medium`] | what outlives the power |
//! | [`data_end`] | [`DataEnd`]: what a translation layer commands, this array or one across a link |
//! | [`far`] | [`Far`]: flash across a link |
//!
//! What it does not do: no mapping, allocation or garbage collection (`firmware`), so it decides neither what is
//! refreshed nor which superblock is retired or holds one bit a cell; no cache programs. Spare area beyond
//! the logical address takes no time on the channel.

pub mod array;
mod channel;
pub mod config;
pub mod data_end;
pub mod die;
pub mod far;
pub mod fault;
pub mod geometry;
mod line;
pub mod medium;
mod priority;
pub mod reliability;
mod sequencer;
pub mod store;
pub mod ticket;
pub mod timing;
mod trace;
mod trouble;

pub use array::{Counters, Flash};
pub use config::{FlashConfig, FlashError};
pub use data_end::DataEnd;
pub use far::Far;
pub use far::link::{
    BlockReport, FarFlash, FarProgram, FarRead, FarShape, FarStripe, Gone, Mark, SystemVerb,
};
pub use fault::{Fault, FaultError, FaultPlan, FaultVerb};
pub use geometry::{BlockId, Geometry, GeometryError, Ppa};
pub use medium::Medium;
pub use priority::Priority;
pub use reliability::{CellErrors, Reliability, ReliabilityError};
pub use store::file;
pub use store::{BaseContent, Batch, Blank, Dump, NO_LPA, Outdated, Spare};
pub use ticket::{Outcome, Ticket};
pub use timing::{ChannelOrder, Mode, SlcTiming, Suspend, Timing, TimingError};
