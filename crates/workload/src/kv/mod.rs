//! Key-value workloads: what a job asks of a key-value drive, operation by operation.
//!
//! A generator only says what comes next, as those of blocks do: depth, time and completions are the runner's.
//!
//! | file | what |
//! |---|---|
//! | `key.rs` | from a pair's number to its key |
//! | `value.rs` | how long values are; MixGraph's lengths |
//! | `preset.rs` | the workloads by name: db_bench's, BandSlim's W(A) to W(M), MixGraph's |
//! | `mixgraph.rs` | MixGraph's prefixes and scans |
//! | `ycsb.rs` | YCSB's parameter files and its choice of records |
//! | `histogram.rs` | CacheLib's distributions |
//! | `trace.rs` | CacheLib's traces |
//! | `generator.rs` | all of these together: the operations of one worker |
//!
//! What it does not do: it knows no command, keeps no value, and remembers of what it asked for only which records of YCSB are
//! stored.

mod generator;
mod histogram;
mod key;
mod mixgraph;
mod preset;
#[cfg(test)]
mod tests;
mod trace;
mod value;
mod ycsb;

use std::path::Path;
use std::sync::Arc;

use byteway_host::BulkLimits;
use serde::{Deserialize, Serialize};

use crate::source_kind::SourceKind;
use crate::{Distribution, JobPlan, Source};
use byteway_console::error::InputError;

pub use generator::KvGenerator;
pub use histogram::{Histogram, Popularity};
pub use key::{KEY_BYTES_MAX, KeyBytes, KeyOrder, Keys};
pub use preset::Preset;
pub use trace::KvTrace;
pub use value::{Lengths, MIXGRAPH_BYTES_MAX, VALUE_BYTES_MAX, ValueSizes};
pub use ycsb::{Choice, Inserted, ScanLengths, Ycsb};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Stores a pair, whether there is one of its key or not.
    Store,
    /// Stores a pair of a key that had none.
    Insert,
    /// Retrieves a pair's value.
    Retrieve,
    /// Retrieves a pair's value, and stores another.
    Modify,
    /// Deletes a pair.
    Delete,
    /// Asks whether there is a pair.
    Exist,
    /// Goes over pairs in the order of their keys.
    Scan,
}

impl Verb {
    /// All, in the order in which they are reported.
    pub const ALL: [Verb; 7] =
        [Verb::Store, Verb::Insert, Verb::Retrieve, Verb::Modify, Verb::Delete, Verb::Exist, Verb::Scan];

    /// Its name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Store => "store",
            Verb::Insert => "insert",
            Verb::Retrieve => "retrieve",
            Verb::Modify => "modify",
            Verb::Delete => "delete",
            Verb::Exist => "exist",
            Verb::Scan => "scan",
        }
    }
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvOp {
    /// What it does.
    pub verb: Verb,
    /// The pair's key; of a scan, the least.
    pub key: KeyBytes,
    /// Bytes of the value that is stored; of a trace's Retrieve, what the value had when the trace was recorded (0: nothing was
    /// found).
    pub bytes: u32,
    /// Pairs that a scan goes over, at most.
    pub count: u32,
    /// The pair's number; that of a new record must be given to [`Inserted::end`].
    pub number: u64,
}

/// What a job asks a key-value drive for: resolved and checked. What jobs of blocks have too (workers, count, depth) stands in
/// the [`JobPlan`] that has it as its source.
#[derive(Clone, Debug, PartialEq)]
pub struct KvPlan {
    /// Pairs that it chooses from.
    pub keys: u64,
    /// Bytes of a key; of traces, their own.
    pub key_bytes: u32,
    /// Where its operations come from.
    pub source: KvSource,
    /// Who keeps the pairs.
    pub engine: Engine,
    /// Its stores are gathered in host memory, and sent many at once: when so much is there. `None`: each for itself.
    pub bulk: Option<BulkLimits>,
}

/// Who keeps a job's pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The drive, which is a key-value drive.
    #[default]
    Drive,
    /// A tree on the host, on a drive of blocks (the crate `lab`).
    Leveldb {
        /// Each store and delete is on the medium before it ends, as it is on a key-value drive with power-loss protection.
        sync: bool,
    },
}

/// Where a job's operations come from.
#[derive(Clone, Debug, PartialEq)]
pub enum KvSource {
    /// Random draws.
    Draws(KvDraws),
    /// A recording.
    Trace(KvTrace),
}

/// Draws.
#[derive(Clone, Debug, PartialEq)]
pub struct KvDraws {
    /// What is done, with shares; they needn't sum to 1.
    pub mix: Vec<(Verb, f64)>,
    /// With which pair.
    pub choice: KvChoice,
    /// In which order the pairs' keys are.
    pub order: KeyOrder,
    /// How long values are.
    pub lengths: Lengths,
    /// How long scans are.
    pub scans: KvScans,
}

/// With which pair something is done.
#[derive(Clone, Debug, PartialEq)]
pub enum KvChoice {
    /// One after the other; workers divide them among themselves.
    Sequential,
    /// Each once, in random order; workers divide them among themselves.
    Once,
    /// At random.
    Spread(Distribution),
    /// As in a social graph: MixGraph's prefixes.
    Prefixes,
    /// YCSB's records.
    Records(Choice),
    /// A cache's objects.
    Popular(Arc<Popularity>),
}

/// How many pairs a scan goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvScans {
    /// So many.
    Fixed(u32),
    /// MixGraph's distribution.
    MixGraph,
    /// YCSB's.
    Ycsb {
        /// The shortest and the longest.
        range: (u32, u32),
        /// In between.
        lengths: ScanLengths,
    },
}

impl KvPlan {
    /// Whether it does nothing but store pairs.
    pub fn only_stores(&self) -> bool {
        let is_store = |verb: &Verb| matches!(verb, Verb::Store | Verb::Insert);
        match &self.source {
            KvSource::Draws(draws) => draws.mix.iter().all(|(verb, share)| *share == 0.0 || is_store(verb)),
            KvSource::Trace(_) => false,
        }
    }

    /// The longest value that it stores, or looks for.
    pub fn value_bytes_max(&self) -> u32 {
        match &self.source {
            KvSource::Draws(draws) => draws.lengths.max(),
            KvSource::Trace(trace) => trace.value_bytes_max,
        }
    }

    /// Pairs that there can be in the end, with those that `count` operations insert.
    pub fn keys_max(&self, count: Option<u64>) -> u64 {
        match &self.source {
            KvSource::Draws(draws) if draws.share(Verb::Insert) > 0.0 => {
                self.keys.saturating_add(count.unwrap_or(0))
            }
            _ => self.keys,
        }
    }

    /// Records that there are to begin with, for [`Inserted::new`]: none where it loads them.
    pub fn records(&self) -> u64 {
        match &self.source {
            KvSource::Draws(draws) if draws.mix == [(Verb::Insert, 1.0)] => 0,
            _ => self.keys,
        }
    }

    /// Operations that it comes to if the job says neither count nor runtime; `None` if there is no end.
    pub fn operations(&self) -> Option<u64> {
        match &self.source {
            KvSource::Trace(trace) => Some(trace.operations),
            KvSource::Draws(draws) => {
                let in_order = matches!(draws.choice, KvChoice::Sequential | KvChoice::Once);
                in_order.then_some(self.keys)
            }
        }
    }

    /// What a reader of its results should know.
    pub fn note(&self) -> Option<String> {
        let KvSource::Trace(trace) = &self.source else { return None };
        (trace.long_keys > 0).then(|| {
            format!(
                "{} records have keys of more than {KEY_BYTES_MAX} B, of which a hash was taken",
                trace.long_keys
            )
        })
    }

    /// Its job, of one worker on the first namespace, one operation at a time; a byte is its unit.
    pub fn job(self, name: &str) -> JobPlan {
        JobPlan {
            range_blocks: self.keys,
            transfer_blocks_max: self.value_bytes_max(),
            ..JobPlan::plain(name, Source::Pairs(Box::new(self)))
        }
    }
}

impl SourceKind for Box<KvPlan> {
    fn command_count(&self, job: &JobPlan) -> Option<u64> {
        if job.runtime.is_none() { job.count.or(self.operations()) } else { job.count }
    }

    fn lengths(&self, _: &JobPlan) -> String {
        "pairs".to_owned()
    }
}

/// A file that cannot be used as what it was named for.
fn refused(path: &Path, what: &str) -> InputError {
    let what = format!("`{}`: {what}", path.display());
    InputError::new(what, "name a file of the kind that `workload` needs")
}
