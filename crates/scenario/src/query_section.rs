//! The sections `[[query]]` and `[[drive.table]]` of a scenario.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::drive_names::DriveNames;
use byteway_text::units::{Frequency, Picos};
use byteway_workload::query::{Generator, QueryPlace};

/// `[[drive.table]]`: a table that a drive with `personality = "tables"` holds before the jobs begin.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSection {
    /// Name of the table in queries.
    pub name: String,
    /// Parquet file with the rows, relative to the folder of the scenario.
    #[serde(default)]
    pub file: Option<String>,
    /// Instead of a file: a generator. Its rows depend on the seed and the table's name; those of TPC-H are
    /// fixed.
    #[serde(default)]
    pub generate: Option<Generator>,
    /// With `generate`: number of rows, 1 to 1,000,000,000.
    #[serde(default)]
    pub rows: Option<u64>,
    /// With a TPC-H generator, instead of `rows`: scale, 0.001 to 100. At 1, `tpch-lineitem` has about 6
    /// million rows. Tables of the same scale have matching keys.
    #[serde(default)]
    pub scale: Option<f64>,
    /// Namespace that holds the table, from 1. Default: the first one with tables.
    #[serde(default)]
    pub namespace: Option<u32>,
}

/// `[[query]]`. Keys that also exist in `[[job]]` have the same meaning.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuerySection {
    /// Unique name in the scenario. Default: `query0`, `query1` and so on.
    #[serde(default)]
    pub name: Option<String>,
    /// A query as SQL, or a list of queries that the job cycles through.
    #[serde(default)]
    pub sql: Option<QueryTexts>,
    /// Instead of `sql`: a table's name and a predicate, as in "particles energy > 1.3". Returns all columns
    /// of the matching rows.
    #[serde(default)]
    pub segment: Option<QueryTexts>,
    /// Form in which the query is sent to the drive. Default: as written here.
    #[serde(default)]
    pub form: Option<QueryForm>,
    /// Where the query is executed.
    #[serde(default)]
    pub execute: QueryPlace,
    /// Frequency of the host's processors. Work on the host takes as many cycles as on the drive's cores.
    /// Default: 3 GHz.
    #[serde(default)]
    pub host_clock: Option<Frequency>,
    /// Maximum number of outstanding queries of a worker. Default: 1.
    #[serde(default)]
    pub iodepth: Option<u32>,
    /// Number of workers, each with a queue pair of its own as far as there are so many: see `host.queues`.
    #[serde(default = "one", alias = "workers")]
    pub numjobs: u32,
    /// The drive or drives, as in a `[[job]]`.
    #[serde(default)]
    pub drive: Option<DriveNames>,
    /// Namespace, from 1. Default: the first one with tables.
    #[serde(default)]
    pub namespace: Option<u32>,
    /// Number of queries of the job, over all workers.
    #[serde(default)]
    pub count: Option<u64>,
    /// Virtual duration of the job, after its `ramp_time`.
    #[serde(default)]
    pub runtime: Option<Picos>,
    /// Time at the beginning of the job that its figures exclude.
    #[serde(default)]
    pub ramp_time: Option<Picos>,
    /// Delay before the job begins.
    #[serde(default)]
    pub startdelay: Option<Picos>,
    /// Whether the job begins only after all earlier jobs have ended; later jobs begin with it.
    #[serde(default)]
    pub stonewall: bool,
}

fn one() -> u32 {
    1
}

/// Form in which a query is sent to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueryForm {
    /// SQL.
    Sql,
    /// A table's name and a predicate.
    Segment,
    /// Binary, with columns by index.
    Compact,
}

/// One query text, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryTexts {
    /// The texts. An empty list is refused.
    pub texts: Vec<String>,
    /// Whether they are written as a list.
    pub is_list: bool,
}

const TEXTS_EXPECTED: &str = "a query, or a list of queries";

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = QueryTexts;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TEXTS_EXPECTED)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<QueryTexts, E> {
        Ok(QueryTexts { texts: vec![text.to_owned()], is_list: false })
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<QueryTexts, A::Error> {
        let texts = Vec::deserialize(de::value::SeqAccessDeserializer::new(list))?;
        Ok(QueryTexts { texts, is_list: true })
    }
}

impl<'de> Deserialize<'de> for QueryTexts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextsVisitor)
    }
}

impl JsonSchema for QueryTexts {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "QueryTexts".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": TEXTS_EXPECTED,
            "type": ["string", "array"],
            "items": { "type": "string" },
            "minItems": 1,
        })
    }
}
