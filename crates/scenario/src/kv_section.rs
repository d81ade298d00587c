//! `[[kv]]` of a scenario as it is written.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::drive_names::DriveNames;
use byteway_console::units::{Bytes, Picos};
use byteway_workload::Distribution;
use byteway_workload::kv::{Preset, ValueSizes, Verb};

/// `[[kv]]`. Keys that `[[job]]` has too mean the same.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KvSection {
    /// Unique in the scenario; left out, `kv0`, `kv1` and so on.
    #[serde(default)]
    pub name: Option<String>,
    /// What is done with which pairs.
    pub workload: Preset,
    /// Pairs that there are to choose from; left out, as many as `count`, and of YCSB and CacheLib as their files say.
    #[serde(default)]
    pub keys: Option<u64>,
    /// Bytes of a key, 1 to 16; left out, 4 for BandSlim's and MixGraph's workloads and 8 for others.
    #[serde(default)]
    pub key_bytes: Option<u32>,
    /// In which order the pairs' keys are, where the workload doesn't say; left out, rising.
    #[serde(default)]
    pub order: Option<Order>,
    /// How long values are, where the workload doesn't say.
    #[serde(default)]
    pub value: Option<ValueSizes>,
    /// Who keeps the pairs; left out, the drive.
    #[serde(default)]
    pub engine: Option<EngineName>,
    /// With `engine = "leveldb"`: whether each store is on the medium before it ends; left out, it is.
    #[serde(default)]
    pub sync: Option<bool>,
    /// The file of a YCSB workload or of a trace, from the folder of the scenario.
    #[serde(default)]
    pub file: Option<String>,
    /// With `workload = "cachelib"`: the lengths of objects, a `sizes.json`.
    #[serde(default)]
    pub sizes: Option<String>,
    /// With `workload = "cachelib"`: how popular objects are, a `pop.json`.
    #[serde(default)]
    pub popularity: Option<String>,
    /// How random keys are spread; left out, uniformly.
    #[serde(default)]
    pub random_distribution: Option<Distribution>,
    /// With `workload = "mixed"` or `"cachelib"`: how often each is done, in proportion; left out, never.
    #[serde(default)]
    pub shares: Option<Shares>,
    /// Pairs that a scan goes over; left out, 100.
    #[serde(default)]
    pub scan_length: Option<u32>,
    /// Operations of a worker that may be outstanding; left out, 1.
    #[serde(default)]
    pub iodepth: Option<u32>,
    /// Bulk PUT: stores are gathered in host memory, so many for each that may be outstanding, and sent as one command. What
    /// is told as put and not sent is lost with the host. Left out, each store is a command.
    #[serde(default)]
    pub bulk_pairs: Option<u32>,
    /// The same by bytes: a command's payload of pairs with their headers; with `bulk_pairs`, whatever is reached first.
    #[serde(default)]
    pub bulk_bytes: Option<Bytes>,
    /// Workers, each with a queue pair of its own.
    #[serde(default = "one", alias = "workers")]
    pub numjobs: u32,
    /// The drive, or drives, as in a `[[job]]`.
    #[serde(default)]
    pub drive: Option<DriveNames>,
    /// Namespace, from 1; left out, the first that holds pairs.
    #[serde(default)]
    pub namespace: Option<u32>,
    /// Operations of the job, over all workers; left out, what goes through keys in order does so once, YCSB as its file
    /// says.
    #[serde(default)]
    pub count: Option<u64>,
    /// Virtual time of the job, after its `ramp_time`.
    #[serde(default)]
    pub runtime: Option<Picos>,
    /// Time at the beginning of the job that is left out of its figures.
    #[serde(default)]
    pub ramp_time: Option<Picos>,
    /// How long the job waits before it begins.
    #[serde(default)]
    pub startdelay: Option<Picos>,
    /// Whether the job begins only when all jobs before it have ended; those after it begin with it.
    #[serde(default)]
    pub stonewall: bool,
}

/// Who keeps the pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// The drive, with `personality = "kv"`.
    #[default]
    Drive,
    /// LevelDB's log-structured merge tree on the host, on a drive of blocks.
    Leveldb,
}

/// In which order the pairs' keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// As the pairs are.
    Rising,
    /// Scattered over all that keys can be.
    Scattered,
}

/// How often each kind of operation is done, in proportion.
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
