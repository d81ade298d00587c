//! Sources of I/Os that are not built in: code of a program of one's own, under names.
//!
//! | file | what |
//! |---|---|
//! | `source.rs` | the interface: [`WorkloadSource`], and what it sees |
//! | `named.rs` | sources by name and argument: [`WorkloadSources`] |
//! | `plan.rs` | [`OwnPlan`]: a job's source with its limits; the I/Os of one worker, checked |
//!
//! A source says which blocks are read, written or trimmed, in order. When each is issued, how many are outstanding, and what happens with the
//! data is up to the job, as for drawn I/Os.

mod named;
mod plan;
mod source;

pub use named::{MadeSource, NamedSource, UnknownSource, WorkloadSources};
pub use plan::OwnPlan;
pub use source::{Operation, WorkloadSource, WorkloadView};
