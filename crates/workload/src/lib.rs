//! Workloads: the plan of a job, and the generator that turns it into a sequence of I/Os.
//!
//! A generator only determines the next I/O. Queue depth, time and completions are up to the runner: it asks
//! for the next I/O when a slot is free (closed loop), or issues each I/O at its due time (open loop).
//!
//! A job reads a range of eight blocks in order, two at a time:
//!
//! ```
//! use byteway_clock::random::Rng;
//! use byteway_workload::{Generator, JobPlan, JobSettings, Kind, Rw, Source, Synthetic};
//! # use byteway_text::units::Picos;
//! # use byteway_workload::{Issue, Priority, Verify};
//! # fn settings() -> JobSettings {
//! #     JobSettings {
//! #         name: "j".to_owned(),
//! #         drive: 0,
//! #         at_target: false,
//! #         nsid: 1,
//! #         lba_bytes: 4096,
//! #         range_lba: 0,
//! #         range_blocks: 64,
//! #         stride_blocks: None,
//! #         namespace_blocks: 1 << 30,
//! #         iodepth: 1,
//! #         workers: 1,
//! #         issue: Issue::Closed,
//! #         cap: None,
//! #         think: None,
//! #         flush_after: None,
//! #         phase: 0,
//! #         start_delay: Picos(0),
//! #         ramp: Picos(0),
//! #         verify: Verify::On,
//! #         priority: Priority::Medium,
//! #         count: Some(1000),
//! #         io_bytes: None,
//! #         runtime: None,
//! #         transfer_blocks_max: 64,
//! #     }
//! # }
//!
//! let settings = JobSettings { range_lba: 1000, range_blocks: 8, count: Some(5), ..settings() };
//! let plan = JobPlan { settings, source: Source::Synthetic(Synthetic::fixed(Rw::Read, 2)) };
//! let ios: Vec<_> = Generator::new(&plan, 0, &Rng::new(1))?.collect();
//! assert!(ios.iter().all(|io| io.kind == Kind::Read && io.blocks == 2));
//! // After the end of the range it begins again.
//! assert!(ios.iter().map(|io| io.lba).eq([1000, 1002, 1004, 1006, 1000]));
//! # Ok::<(), byteway_text::error::InputError>(())
//! ```
//!
//! The files, from the bottom up; each imports only those above it in this table:
//!
//! | file | what |
//! |---|---|
//! | `io.rs`, `rw.rs` | one I/O; direction and order of a job |
//! | `direction.rs` | values by direction, in fio's notation |
//! | `issue.rs`, `priority.rs` | closed and open loops, `rate` and `rate_iops`; classes of queues |
//! | `verify.rs` | verification of data read |
//! | `settings.rs` | settings common to all kinds of jobs |
//! | `length.rs` | lengths of I/Os: `bs`, `bsrange`, `bssplit` |
//! | `distribution.rs` | distribution of random addresses: `random_distribution` |
//! | `pace.rs` | due times |
//! | `source_kind.rs` | the interface of a workload kind |
//! | `synthetic.rs`, `draws.rs` | drawn I/Os: parameters; the draws of one worker |
//! | `layout.rs` | mapping of a trace to the drive |
//! | `recording.rs`, `layout/survey.rs` | a trace to replay; the pass that surveys it |
//! | `replay.rs` | the I/Os of a trace |
//! | [`own`] | I/Os of sources that are not built in |
//! | [`kv`] | key-value operations |
//! | [`query`] | queries over tables, and generated rows of these tables |
//! | `echo.rs` | echo operations: a minimal kind, for tests |
//! | `source.rs` | the list of the kinds |
//! | `job.rs`, `generator.rs` | a job: settings and source; its I/Os |

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
pub mod own;
mod pace;
mod priority;
pub mod query;
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
