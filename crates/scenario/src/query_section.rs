//! `[[query]]` and `[[drive.table]]` of a scenario as they are written.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::drive_names::DriveNames;
use byteway_console::units::{Frequency, Picos};
use byteway_workload::query::{Generator, QueryPlace};

/// `[[drive.table]]`: a table that a drive with `personality = "tables"` holds when the jobs begin.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSection {
    /// Its name, as queries have it.
    pub name: String,
    /// A Parquet file with its rows, from the folder of the scenario.
    #[serde(default)]
    pub file: Option<String>,
    /// Instead of a file: a generator. What it draws follows from the seed and the table's name; TPC-H's are as TPC-H says.
    #[serde(default)]
    pub generate: Option<Generator>,
    /// With `generate`: rows, 1 to 1,000,000,000.
    #[serde(default)]
    pub rows: Option<u64>,
    /// Of a table of TPC-H: its scale, 0.001 to 100, instead of `rows`. At 1, `tpch-lineitem` has about 6 million rows. Tables of one
    /// scale have the keys of each other.
    #[serde(default)]
    pub scale: Option<f64>,
    /// The namespace that holds it, from 1; left out, the first.
    #[serde(default)]
    pub namespace: Option<u32>,
}

/// `[[query]]`. Keys that `[[job]]` has too mean the same.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuerySection {
    /// Unique in the scenario; left out, `query0`, `query1` and so on.
    #[serde(default)]
    pub name: Option<String>,
    /// A query as SQL, or a list of queries that are asked in turn.
    #[serde(default)]
    pub sql: Option<QueryTexts>,
    /// Instead of `sql`, a table's name and a predicate, as in "particles energy > 1.3": all columns of the rows for which it holds.
    #[serde(default)]
    pub segment: Option<QueryTexts>,
    /// How it is said to the drive; left out, as it is written here.
    #[serde(default)]
    pub form: Option<QueryForm>,
    /// Who executes it.
    #[serde(default)]
    pub execute: QueryPlace,
    /// Clock of the host's processors, of which what it executes takes as many cycles as of the drive's; left out, 3 GHz.
    #[serde(default)]
    pub host_clock: Option<Frequency>,
    /// Queries of a worker that may be outstanding; left out, 1.
    #[serde(default)]
    pub iodepth: Option<u32>,
    /// Workers, each with a queue pair of its own.
    #[serde(default = "one", alias = "workers")]
    pub numjobs: u32,
    /// The drive, or drives, as in a `[[job]]`.
    #[serde(default)]
    pub drive: Option<DriveNames>,
    /// Namespace, from 1; left out, the first that holds tables.
    #[serde(default)]
    pub namespace: Option<u32>,
    /// Queries of the job, over all workers.
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

fn one() -> u32 {
    1
}

/// How a query is said to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueryForm {
    /// As SQL.
    Sql,
    /// As a table's name and a predicate.
    Segment,
    /// In binary, with columns by their numbers.
    Compact,
}

/// One text, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryTexts {
    /// The texts: at least one, or a scenario is refused.
    pub texts: Vec<String>,
    /// They are written as a list.
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
