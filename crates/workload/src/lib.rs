//! What a job asks of the drive: the plan, and the generator that turns it into one I/O after the other.
//!
//! A generator only says what comes next. Queue depth, time and completions are the runner's: it asks for the next
//! I/O when a slot is free (closed loop), or issues each at its time whether a slot is free or not (open loop).
//!
//! The files, from the bottom up; each imports only those above it in this table:
//!
//! | file | what |
//! |---|---|
//! | `io.rs`, `rw.rs` | one I/O; direction and order of many |
//! | `direction.rs` | values of which reads, writes and trims may each have their own, as fio writes them |
//! | `issue.rs`, `priority.rs` | what makes I/Os due and holds them back: open loops, `rate` and `rate_iops`; classes of queues |
//! | `verify.rs` | whether what a job reads is checked, and how |
//! | `settings.rs` | a job's settings, whatever it asks for |
//! | `length.rs` | how long I/Os are: `bs`, `bsrange`, `bssplit` |
//! | `distribution.rs` | where random I/Os go: `random_distribution` |
//! | `pace.rs` | when they are due |
//! | `source_kind.rs` | what a kind of source says of itself, and gives each worker |
//! | `synthetic.rs`, `draws.rs` | drawn I/Os: what is said of them; those of one worker |
//! | `layout.rs` | how a trace is laid on the drive |
//! | `recording.rs`, `layout/survey.rs` | what is said of a trace that is replayed; what only a look through it tells |
//! | `replay.rs` | its I/Os |
//! | [`kv`] | operations on pairs of keys and values |
//! | `echo.rs` | echoes: what a kind takes at least; for tests |
//! | `source.rs` | the list of the kinds |
//! | `job.rs`, `generator.rs` | a job: settings and source; its I/Os, whatever the kind |

pub mod direction;
pub mod distribution;
mod draws;
#[cfg(feature = "echo")]
pub mod echo;
mod generator;
mod io;
mod issue;
mod job;
pub mod kv;
mod layout;
mod length;
mod pace;
mod priority;
mod recording;
mod replay;
mod rw;
mod settings;
mod source;
mod source_kind;
mod synthetic;
#[cfg(test)]
mod tests;
mod verify;

pub use byteway_trace::Kind;
pub use direction::{ByKind, Directed, Iops, PerDirection, SizeRange, SizeSplit};
pub use distribution::{Distribution, Zone};
pub use generator::Generator;
pub use io::Io;
pub use issue::{Arrival, Cap, Issue, Think};
pub use job::JobPlan;
pub use layout::Layout;
pub use length::Lengths;
pub use priority::Priority;
pub use recording::{Beyond, Scan, TracePlan};
pub use replay::scan;
pub use rw::Rw;
pub use settings::JobSettings;
pub use source::Source;
pub use synthetic::Synthetic;
pub use verify::Verify;
