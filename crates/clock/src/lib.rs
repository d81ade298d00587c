//! When: the only place in Byteway where time passes.
//!
//! All device, link and host code is `async` and runs on the executor in this crate. Nobody else reads a wall
//! clock, starts a thread or takes randomness.
//!
//! | file | what |
//! |---|---|
//! | [`time`] | [`Time`], [`Delay`], [`Rate`]: picoseconds as newtypes |
//! | [`executor`] | tasks in a slab, the virtual runner, [`Clock`] |
//! | [`real`] | the real runner, its inbox for other threads, how far it kept to modelled time |
//! | [`descriptor`] | waiting for file descriptors |
//! | [`wheel`] | the timer wheel |
//! | [`pipe`] | bandwidth and propagation |
//! | [`station`] | servers, by reservation, first come first served |
//! | [`mailbox`] | delayed FIFO delivery without a task |
//! | [`semaphore`], [`channel`], [`notify`] | waiting for each other |
//! | [`span`] | which resource each picosecond of an I/O is charged to |
//! | [`tracer`] | who used which resource, from when to when |
//! | [`random`], [`permutation`] | named random streams, distributions, a keyed bijection |
//!
//! What it does not do: no I/O (it waits for descriptors, and reads none), no foreign combinators (`select!`, `join!` of other crates register wakers, and
//! these tasks are polled with a no-op waker), no work stealing. One executor is one core.

pub mod channel;
pub mod descriptor;
pub mod executor;
pub mod mailbox;
pub mod notify;
pub mod permutation;
pub mod pipe;
pub mod random;
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
pub use executor::{Clock, Counters, Executor, Ran, Stalled};
pub use mailbox::Mailbox;
pub use notify::Notify;
pub use pipe::{Passage, Pipe};
pub use real::{Inbox, Pace, Timing};
pub use semaphore::{Permit, Semaphore};
pub use span::{Segment, SpanId, SpanRecord, Spans, Stage, Trail};
pub use station::{Service, Station};
pub use task::TaskId;
pub use time::{Delay, Rate, Time};
pub use tracer::{Detail, HeldIos, Owner, Resource, Tracer, Track, Usage};
