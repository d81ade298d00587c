//! A drive's flash array: geometry, timing, errors and contents.
//!
//! The array has channels, ways (dies of a channel), planes, blocks and pages. The translation layer
//! addresses *units* of 4 KiB; it programs a *stripe* (the same page of all planes of a die) and erases a
//! *superblock* (the same block of all planes of a die). An operation takes its command cycles and data over
//! the channel that the dies of a column share, and then the time of the cells. It holds the die alone for
//! all of that, except for suspension and cache reads (see [`Timing`]).
//!
//! | file | contents |
//! |---|---|
//! | [`geometry`] | dimensions, and flat addresses: [`Ppa`], [`BlockId`] |
//! | [`timing`] | times of sensing, programming, erasing and transfers |
//! | [`quantiles`] | measured quantiles of a time |
//! | `draw` | draws without a state |
//! | [`config`] | [`FlashConfig`]: timing, error model and faults together |
//! | [`reliability`] | bit errors by wear, retention and reads; retries; failures of worn cells |
//! | [`fault`] | injected failures |
//! | `failure` | draws both kinds of failure, die by die |
//! | [`array`](mod@array) | [`Flash`]: accepts operations, reports results |
//! | [`die`] | a die's queue by [`Priority`], and its operations in progress |
//! | `priority.rs` | priorities of operations |
//! | [`policy`] | what users can replace: the next operation of a die, suspension |
//! | `sequencer` | drives dies from phase to phase, with suspension, cache reads and retries |
//! | `trace` | dies and channels in a trace |
//! | `channel` | a channel, and the queue for it |
//! | `line` | a queue in classes of urgency, used by both |
//! | [`ticket`] | [`Ticket`]: completion and results of operations |
//! | [`store`] | contents: a base state in closed form, and what was programmed since, in memory or in files |
//! | [`medium`] | the persistent state across power cycles |
//! | [`data_end`] | [`DataEnd`]: the flash of a translation layer, this array or one across a link |
//! | [`far`] | [`Far`]: flash across a link |
//!
//! A page is programmed and read:
//!
//! ```
//! use byteway_clock::{Delay, Executor, Time};
//! use byteway_flash::{BlockId, Blank, Flash, Geometry, Medium, Priority, Spare, Timing};
//! use byteway_content::{BlockSize, Content, Stamp};
//! use std::rc::Rc;
//!
//! let geometry = Geometry { channels: 1, ways: 1, planes: 1, blocks: 8, pages: 16, page_bytes: 4096 };
//! let (read, program) = (vec![Delay::from_us(40)], vec![Delay::from_us(300)]);
//! let timing = Timing { read, program, ..Timing::default() };
//! let executor = Executor::new();
//! let flash = Flash::new(executor.clock(), geometry, timing, Medium::new(geometry, Rc::new(Blank)));
//! let content = Content::Stamp(Stamp { lba: 9, version: 1, tag: 0, block: BlockSize::B4096 });
//! let (written, (block, page)) = (content.clone(), (BlockId(0), 0));
//! let (found, ended) = executor.run(async move {
//!     let (programmed, read) = (flash.ticket(), flash.ticket());
//!     let mut batch = flash.take_batch();
//!     batch.units.push((Spare { lpa: 9, sequence: 1 }, written));
//!     flash.submit_program(block, page, batch, Priority::HostProgram, &programmed);
//!     programmed.wait().await;
//!     flash.submit_read(geometry.ppa(block, page, 0), 1, Priority::HostRead, &read);
//!     read.wait().await;
//!     (read.take(0), flash.clock().now())
//! })?;
//! assert_eq!(found, content);
//! // Twice 4 KiB over a channel of 1 GB/s.
//! assert_eq!(ended, Time::ZERO + Delay::from_us(40 + 300) + Delay::from_ns(2 * 4096));
//! # Ok::<(), byteway_clock::Stalled>(())
//! ```
//!
//! What it does not do: no mapping, allocation or garbage collection (`firmware`), so it does not decide
//! which superblock is refreshed, retired or in one-bit mode; no cache programs. Spare area beyond the
//! logical address takes no time on the channel.

pub mod array;
mod channel;
pub mod config;
pub mod data_end;
pub mod die;
mod draw;
mod failure;
pub mod far;
pub mod fault;
pub mod geometry;
mod line;
pub mod medium;
pub mod policy;
mod priority;
pub mod quantiles;
pub mod reliability;
mod sequencer;
pub mod store;
pub mod throttle;
pub mod ticket;
pub mod timing;
mod trace;

pub use array::{Counters, Flash};
pub use config::{FlashConfig, FlashError};
pub use data_end::DataEnd;
pub use far::Far;
pub use far::link::{
    BlockMark, BlockReport, FarFlash, FarProgram, FarRead, FarShape, FarStripe, Gone, SystemRequest,
};
pub use fault::{Fault, FaultError, FaultKind, FaultPlan};
pub use geometry::{BlockId, Geometry, GeometryError, Ppa};
pub use medium::Medium;
pub use priority::Priority;
pub use quantiles::{Quantiles, QuantilesError};
pub use reliability::{CellErrors, Reliability, ReliabilityError};
pub use store::file;
pub use store::{BaseContent, Batch, Blank, Dump, NO_LPA, Outdated, Spare};
pub use throttle::Throttle;
pub use ticket::{Outcome, Ticket};
pub use timing::{ChannelOrder, Mode, SlcTiming, SuspendTiming, Timing, TimingError};
