//! Key-value workloads: the operations that a job issues to a key-value drive.
//!
//! A generator only determines the next operation; depth, time and completions are up to the runner.
//!
//! The files, from the bottom up:
//!
//! | file | what |
//! |---|---|
//! | `key.rs`, `op.rs` | the key of a pair by its number; one operation |
//! | `file.rs` | the common part of parameter files |
//! | `histogram.rs` | CacheLib's distributions |
//! | `value.rs` | lengths of values; MixGraph's distribution |
//! | `mixgraph.rs` | MixGraph's prefixes and scans |
//! | `ycsb.rs` | YCSB's parameter files and its choice of records |
//! | `trace.rs` | CacheLib's traces |
//! | `plan.rs` | the parameters of a job, from all of these |
//! | `preset.rs` | named workloads: db_bench's, BandSlim's W(A) to W(M), MixGraph's |
//! | `generator.rs` | the operations of one worker |
//!
//! What it does not do: it builds no command, stores no value, and keeps no state about past operations,
//! except which records of YCSB are stored.

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
