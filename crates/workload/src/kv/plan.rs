//! What a job asks a key-value drive for: which operations, on which pairs, with values how long.

use std::sync::Arc;

use byteway_host::BulkLimits;

use super::histogram::Popularity;
use super::key::{KEY_BYTES_MAX, KeyOrder};
use super::op::Verb;
use super::trace::KvTrace;
use super::value::Lengths;
use super::ycsb::{Choice, ScanLengths};
use crate::distribution::Distribution;
use crate::settings::JobSettings;
use crate::source_kind::SourceKind;

/// What a job asks a key-value drive for: resolved and checked. What jobs of blocks have too (workers, count, depth) stands in
/// the [`JobSettings`] next to it.
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

    /// Records that there are to begin with, for [`Inserted::new`](super::Inserted::new): none where it loads them.
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

    /// Settings of its job: one worker on the first namespace, one operation at a time; a byte is its unit.
    pub fn settings(&self, name: &str) -> JobSettings {
        JobSettings {
            range_blocks: self.keys,
            transfer_blocks_max: self.value_bytes_max(),
            ..JobSettings::plain(name)
        }
    }
}

impl KvDraws {
    /// The share of a verb, of 1.
    pub fn share(&self, verb: Verb) -> f64 {
        let whole: f64 = self.mix.iter().map(|(_, share)| share).sum();
        let of: f64 = self.mix.iter().filter(|(other, _)| *other == verb).map(|(_, share)| share).sum();
        if whole > 0.0 { of / whole } else { 0.0 }
    }

    /// One verb, all the time.
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
