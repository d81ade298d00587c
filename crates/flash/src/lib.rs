//! Where bytes rest: a drive's flash array, its times and its contents.
//!
//! Channels x ways (dies of a channel) x planes x blocks x pages. The translation layer sees *units* of 4 KiB; it
//! programs a *stripe* (the same page of all planes of a die) and erases a *superblock* (the same block of all planes
//! of a die). An operation takes its command cycles and its data over the channel that the dies of a column share,
//! and the time of the cells, during all of which it has the die to itself.
//!
//! | file | what |
//! |---|---|
//! | [`geometry`] | the shape, and flat addresses: [`Ppa`], [`BlockId`] |
//! | [`timing`] | how long sensing, programming, erasing and moving take |
//! | [`array`](mod@array) | [`Flash`]: operations in, dies and channels at work |
//! | [`die`] | a die's queue by [`Priority`], and its phases |
//! | `channel` | a channel, and who has it next |
//! | `line` | the queue in classes behind both |
//! | [`ticket`] | [`Ticket`]: how the submitter learns of the end, and gets what was read |
//! | [`store`] | contents: a base state in closed form, and what the run programmed |
//!
//! What it does not do: no mapping, allocation or garbage collection (`firmware`); no bit errors, read retry, wear
//! effects, suspend, cache reads or SLC; no power cut yet, although a program leaves its stripe torn until its end;
//! no file store. Spare area beyond the logical address takes no time on the channel.

pub mod array;
mod channel;
pub mod die;
pub mod geometry;
mod line;
pub mod store;
pub mod ticket;
pub mod timing;

pub use array::{Counters, Flash};
pub use die::Priority;
pub use geometry::{BlockId, Geometry, GeometryError, Ppa};
pub use store::{BaseContent, Batch, Blank, NO_LPA};
pub use ticket::{Outcome, Ticket};
pub use timing::{Timing, TimingError};
