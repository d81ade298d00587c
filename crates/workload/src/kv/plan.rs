//! The plan of a key-value job: its operations, the choice of key-value pairs, the lengths of values.

use std::sync::Arc;

use byteway_wire::nvme::vendor::kv::BulkLimits;

use super::histogram::Popularity;
use super::key::{KEY_BYTES_MAX, KeyOrder};
use super::op::Verb;
use super::trace::KvTrace;
use super::value::Lengths;
use super::ycsb::{Choice, ScanLengths};
use crate::distribution::Distribution;
use crate::settings::JobSettings;
use crate::source_kind::SourceKind;

/// The plan of a key-value job, resolved and validated. The settings common to all jobs (workers, count,
/// depth) are in [`JobSettings`].
#[derive(Clone, Debug, PartialEq)]
pub struct KvPlan {
    /// Number of key-value pairs to choose from.
    pub keys: u64,
    /// Length of a key in bytes; traces have their own keys.
    pub key_bytes: u32,
    /// Source of its operations.
    pub source: KvSource,
    /// The store of the key-value pairs.
    pub engine: Engine,
    /// Limits of batches, if stores are batched in host memory (bulk PUT). `None`: each store is a command.
    pub bulk: Option<BulkLimits>,
}

/// The store of a job's key-value pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// A key-value drive.
    #[default]
    Drive,
    /// An LSM tree on the host, on a block device (in the crate `run`).
    Leveldb {
        /// Whether each store and delete is persistent before it completes, as on a key-value drive with
        /// power-loss protection.
        sync: bool,
    },
}

/// Source of a job's operations.
#[derive(Clone, Debug, PartialEq)]
pub enum KvSource {
    /// Random draws.
    Draws(KvDraws),
    /// A trace.
    Trace(KvTrace),
}

/// Parameters of random draws.
#[derive(Clone, Debug, PartialEq)]
pub struct KvDraws {
    /// Operations with their shares, which need not sum to 1.
    pub mix: Vec<(Verb, f64)>,
    /// Choice of the key-value pair.
    pub choice: KvChoice,
    /// Order of the keys.
    pub order: KeyOrder,
    /// Lengths of values.
    pub lengths: Lengths,
    /// Lengths of scans.
    pub scans: KvScans,
}

/// How an operation selects its key-value pair.
#[derive(Clone, Debug, PartialEq)]
pub enum KvChoice {
    /// In order; workers divide the key-value pairs.
    Sequential,
    /// Each once in random order; workers divide the key-value pairs.
    Once,
    /// At random, with this distribution.
    Spread(Distribution),
    /// As in a social graph: MixGraph's prefixes.
    Prefixes,
    /// YCSB's selection of records.
    Records(Choice),
    /// At random, with the popularity of a cache's objects.
    Popular(Arc<Popularity>),
}

/// Number of key-value pairs in a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvScans {
    /// Fixed.
    Fixed(u32),
    /// MixGraph's distribution.
    MixGraph,
    /// YCSB's distribution.
    Ycsb {
        /// The shortest and the longest.
        range: (u32, u32),
        /// Distribution in between.
        lengths: ScanLengths,
    },
}

impl KvPlan {
    /// Whether it only stores key-value pairs.
    pub fn only_stores(&self) -> bool {
        let is_store = |verb: &Verb| matches!(verb, Verb::Store | Verb::Insert);
        match &self.source {
            KvSource::Draws(draws) => draws.mix.iter().all(|(verb, share)| *share == 0.0 || is_store(verb)),
            KvSource::Trace(_) => false,
        }
    }

    /// The longest value that it stores or expects, in bytes.
    pub fn value_bytes_max(&self) -> u32 {
        match &self.source {
            KvSource::Draws(draws) => draws.lengths.max(),
            KvSource::Trace(trace) => trace.value_bytes_max,
        }
    }

    /// Maximum number of key-value pairs at the end, including those that `count` operations insert.
    pub fn keys_max(&self, count: Option<u64>) -> u64 {
        match &self.source {
            KvSource::Draws(draws) if draws.share(Verb::Insert) > 0.0 => {
                self.keys.saturating_add(count.unwrap_or(0))
            }
            _ => self.keys,
        }
    }

    /// Initial number of records, for [`Inserted::new`](super::Inserted::new): 0 if the job loads them.
    pub fn records(&self) -> u64 {
        match &self.source {
            KvSource::Draws(draws) if draws.mix == [(Verb::Insert, 1.0)] => 0,
            _ => self.keys,
        }
    }

    /// Number of operations if the job sets neither count nor runtime; `None` if unlimited.
    pub fn operations(&self) -> Option<u64> {
        match &self.source {
            KvSource::Trace(trace) => Some(trace.operations),
            KvSource::Draws(draws) => {
                let in_order = matches!(draws.choice, KvChoice::Sequential | KvChoice::Once);
                in_order.then_some(self.keys)
            }
        }
    }

    /// A note for the reader of its results.
    pub fn note(&self) -> Option<String> {
        let KvSource::Trace(trace) = &self.source else { return None };
        (trace.long_keys > 0).then(|| {
            format!(
                "{} records have keys of more than {KEY_BYTES_MAX} B, of which a hash was taken",
                trace.long_keys
            )
        })
    }

    /// Settings for its job: one worker on the first namespace, one operation at a time, with blocks of one
    /// byte.
    pub fn settings(&self, name: &str) -> JobSettings {
        JobSettings {
            range_blocks: self.keys,
            transfer_blocks_max: self.value_bytes_max(),
            ..JobSettings::plain(name)
        }
    }
}

impl KvDraws {
    /// The share of a verb, 0 to 1.
    pub fn share(&self, verb: Verb) -> f64 {
        let whole: f64 = self.mix.iter().map(|(_, share)| share).sum();
        let of: f64 = self.mix.iter().filter(|(other, _)| *other == verb).map(|(_, share)| share).sum();
        if whole > 0.0 { of / whole } else { 0.0 }
    }

    /// One verb only.
    pub fn only(verb: Verb, choice: KvChoice, lengths: Lengths) -> Self {
        KvDraws { mix: vec![(verb, 1.0)], choice, order: KeyOrder::Rising, lengths, scans: KvScans::Fixed(0) }
    }
}

impl SourceKind for Box<KvPlan> {
    fn command_count(&self, job: &JobSettings) -> Option<u64> {
        if job.runtime.is_none() { job.count.or(self.operations()) } else { job.count }
    }

    fn lengths(&self, _: &JobSettings) -> String {
        "pairs".to_owned()
    }
}
