//! The section `[[kv]]` of a scenario file.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::drive_names::DriveNames;
use byteway_text::units::{Bytes, Picos};
use byteway_workload::Distribution;
use byteway_workload::kv::{Preset, ValueSizes, Verb};

/// `[[kv]]`. Keys that also exist in `[[job]]` have the same meaning.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KvSection {
    /// Name of the job, unique in the scenario. Default: `kv0`, `kv1` and so on.
    #[serde(default)]
    pub name: Option<String>,
    /// The workload: operations and choice of key-value pairs.
    pub workload: Preset,
    /// Number of key-value pairs. Default: `count`; for YCSB and CacheLib, as in their files.
    #[serde(default)]
    pub keys: Option<u64>,
    /// Length of a key in bytes, 1 to 16. Default: 4 for BandSlim's and MixGraph's workloads, 8 for others.
    #[serde(default)]
    pub key_bytes: Option<u32>,
    /// Order of the key-value pairs' keys, where the workload does not determine it. Default: rising.
    #[serde(default)]
    pub order: Option<Order>,
    /// Lengths of values, where the workload does not determine them.
    #[serde(default)]
    pub value: Option<ValueSizes>,
    /// The store of the key-value pairs. Default: the drive.
    #[serde(default)]
    pub engine: Option<EngineName>,
    /// With `engine = "leveldb"`: whether each store is persistent before it completes. Default: true.
    #[serde(default)]
    pub sync: Option<bool>,
    /// File of a YCSB workload or of a trace, relative to the directory of the scenario.
    #[serde(default)]
    pub file: Option<String>,
    /// With `workload = "cachelib"`: the lengths of objects, a `sizes.json`.
    #[serde(default)]
    pub sizes: Option<String>,
    /// With `workload = "cachelib"`: the popularity of objects, a `pop.json`.
    #[serde(default)]
    pub popularity: Option<String>,
    /// Distribution of random keys. Default: uniform.
    #[serde(default)]
    pub random_distribution: Option<Distribution>,
    /// With `workload = "mixed"` or `"cachelib"`: relative shares of the operations. Default: 0.
    #[serde(default)]
    pub shares: Option<Shares>,
    /// Number of key-value pairs in a scan. Default: 100.
    #[serde(default)]
    pub scan_length: Option<u32>,
    /// Outstanding operations of a worker, at most. Default: 1.
    #[serde(default)]
    pub iodepth: Option<u32>,
    /// Bulk PUT: stores are batched in host memory, this many per outstanding batch, and sent as one command.
    /// Key-value pairs that are acknowledged but not yet sent are lost if the host crashes. Default: each
    /// store is a command.
    #[serde(default)]
    pub bulk_pairs: Option<u32>,
    /// The same limit in bytes: payload of a command, with the key-value pairs' headers. With `bulk_pairs`,
    /// the first limit reached counts.
    #[serde(default)]
    pub bulk_bytes: Option<Bytes>,
    /// Number of workers, each with a queue pair of its own as far as there are so many: see `host.queues`.
    #[serde(default = "one", alias = "workers")]
    pub numjobs: u32,
    /// The drive, or drives, as in a `[[job]]`.
    #[serde(default)]
    pub drive: Option<DriveNames>,
    /// Namespace identifier, from 1. Default: the first KV namespace.
    #[serde(default)]
    pub namespace: Option<u32>,
    /// Number of operations, over all workers. Default: one pass over the keys for ordered workloads, the
    /// number in its file for YCSB.
    #[serde(default)]
    pub count: Option<u64>,
    /// Virtual time of the job, after its `ramp_time`.
    #[serde(default)]
    pub runtime: Option<Picos>,
    /// Time from the job's start that its figures exclude.
    #[serde(default)]
    pub ramp_time: Option<Picos>,
    /// Delay before the job starts.
    #[serde(default)]
    pub startdelay: Option<Picos>,
    /// Whether the job starts only after all earlier jobs have ended; later jobs start together with it.
    #[serde(default)]
    pub stonewall: bool,
}

/// The store of the key-value pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// The drive, with `personality = "kv"`.
    #[default]
    Drive,
    /// LevelDB, an LSM tree on the host, on a block device.
    Leveldb,
}

/// Order of the key-value pairs' keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Ascending, like the numbers of the key-value pairs.
    Rising,
    /// Scattered over all possible keys.
    Scattered,
}

/// Relative share of each operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares(pub(super) Vec<(Verb, f64)>);

impl<'de> Deserialize<'de> for Shares {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Each {
            #[serde(default)]
            store: f64,
            #[serde(default)]
            retrieve: f64,
            #[serde(default)]
            modify: f64,
            #[serde(default)]
            delete: f64,
            #[serde(default)]
            exist: f64,
            #[serde(default)]
            scan: f64,
        }
        let Each { store, retrieve, modify, delete, exist, scan } = Each::deserialize(deserializer)?;
        Ok(Shares(vec![
            (Verb::Store, store),
            (Verb::Retrieve, retrieve),
            (Verb::Modify, modify),
            (Verb::Delete, delete),
            (Verb::Exist, exist),
            (Verb::Scan, scan),
        ]))
    }
}

impl JsonSchema for Shares {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Shares".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let share = serde_json::json!({ "type": "number", "minimum": 0 });
        json_schema!({
            "type": "object",
            "description": "Numbers that needn't sum to 1, such as { store = 0.1, retrieve = 0.9 }",
            "properties": {
                "store": share, "retrieve": share, "modify": share, "delete": share, "exist": share, "scan": share
            },
            "additionalProperties": false,
        })
    }
}

fn one() -> u32 {
    1
}
