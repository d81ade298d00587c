//! Virtual and real time: the executor, its resources, and everything else that makes time pass in Byteway.
//!
//! All device, link and host code is `async` and runs on the executor in this crate. No other crate reads a
//! wall clock, starts a thread or takes randomness.
//!
//! | file | contents |
//! |---|---|
//! | [`time`] | [`Time`], [`Delay`], [`Rate`]: picoseconds as newtypes |
//! | [`executor`] | tasks in a slab, calls, the virtual runner, [`Clock`] |
//! | [`real`] | the real-time runner, its inbox for other threads, and its lateness counters |
//! | [`descriptor`] | waiting for file descriptors |
//! | [`wheel`] | the timer wheel |
//! | [`pipe`] | bandwidth and propagation |
//! | [`station`] | k servers, reserved first come, first served |
//! | [`mailbox`] | delayed FIFO delivery without a task |
//! | [`semaphore`], [`channel`], [`notify`] | credits, values and notifications between tasks |
//! | [`range_lock`] | shared and exclusive locks of ranges |
//! | [`span`] | which resource each picosecond of an I/O is charged to |
//! | [`tracer`] | each use of a resource: by which I/Os, from when to when |
//! | [`counters`](mod@counters) | structs of counters that are summed by field |
//! | [`random`], [`permutation`] | named random streams, distributions, a keyed bijection |
//!
//! Two transfers share a pipe, in virtual time:
//!
//! ```
//! use byteway_clock::{Delay, Executor, Pipe, Rate, Time};
//!
//! let executor = Executor::new();
//! let clock = executor.clock().clone();
//! let ended = executor.run(async move {
//!     let pipe = Pipe::new(&clock, Rate::per_second(1_000_000_000), Delay::from_us(1));
//!     pipe.send(4096);
//!     let second = pipe.transfer(4096).await;
//!     assert_eq!(second.queued, Delay::from_ns(4096));
//!     clock.now()
//! })?;
//! assert_eq!(ended, Time::ZERO + Delay::from_ns(4096 + 4096 + 1000));
//! # Ok::<(), byteway_clock::Stalled>(())
//! ```
//!
//! What it does not do: no I/O (it waits for descriptors but reads none), no foreign combinators (`select!`
//! and `join!` of other crates register wakers, while these tasks are polled with a no-op waker), no work
//! stealing. One executor is one core.

pub mod channel;
pub mod counters;
pub mod descriptor;
pub mod executor;
pub mod mailbox;
pub mod notify;
pub mod permutation;
pub mod pipe;
pub mod random;
pub mod range_lock;
pub mod real;
pub mod semaphore;
pub mod span;
pub mod station;
mod task;
pub mod time;
pub mod tracer;
mod wait;
pub mod wheel;

pub use channel::Channel;
pub use executor::{Clock, Counters, Executor, RunOutcome, Sleep, Stalled};
pub use mailbox::Mailbox;
pub use notify::{Notify, NotifyPlace};
pub use pipe::{Passage, Pipe};
pub use range_lock::{RangeLock, RangeLocks, RangeUse};
pub use real::{Inbox, Lateness, Timing};
pub use semaphore::{CreditPlace, Permit, Semaphore};
pub use span::{Awaited, Segment, SpanId, SpanRecord, SpanTrail, Spans, Stage, Waits};
pub use station::{Service, Station};
pub use task::{Handler, TaskId};
pub use time::{Delay, Rate, Time};
pub use tracer::{Detail, HeldIos, Owner, Resource, Tracer, Track, Usage};
