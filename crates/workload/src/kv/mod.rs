//! Key-value workloads: what a job asks of a key-value drive, operation by operation.
//!
//! A generator only says what comes next, as those of blocks do: depth, time and completions are the runner's.
//!
//! The files, from the bottom up:
//!
//! | file | what |
//! |---|---|
//! | `key.rs`, `op.rs` | from a pair's number to its key; one operation |
//! | `file.rs` | what files of parameters have in common |
//! | `histogram.rs` | CacheLib's distributions |
//! | `value.rs` | how long values are; MixGraph's lengths |
//! | `mixgraph.rs` | MixGraph's prefixes and scans |
//! | `ycsb.rs` | YCSB's parameter files and its choice of records |
//! | `trace.rs` | CacheLib's traces |
//! | `plan.rs` | what a job asks for: all of these together |
//! | `preset.rs` | the workloads by name: db_bench's, BandSlim's W(A) to W(M), MixGraph's |
//! | `generator.rs` | the operations of one worker |
//!
//! What it does not do: it knows no command, keeps no value, and remembers of what it asked for only which records of YCSB are
//! stored.

mod file;
mod generator;
mod histogram;
mod key;
mod mixgraph;
mod op;
mod plan;
mod preset;
#[cfg(test)]
mod tests;
mod trace;
mod value;
mod ycsb;

pub use generator::KvGenerator;
pub use histogram::{Histogram, Popularity};
pub use key::{KEY_BYTES_MAX, KeyBytes, KeyOrder, Keys};
pub use op::{KvOp, Verb};
pub use plan::{Engine, KvChoice, KvDraws, KvPlan, KvScans, KvSource};
pub use preset::Preset;
pub use trace::KvTrace;
pub use value::{Lengths, MIXGRAPH_BYTES_MAX, VALUE_BYTES_MAX, ValueSizes};
pub use ycsb::{Choice, Inserted, ScanLengths, Ycsb};
