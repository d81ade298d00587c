//! The key `drive` of a job: the drives that it uses.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// The drives of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveNames {
    /// One drive.
    One(String),
    /// A list of drives.
    These(Vec<String>),
    /// All drives of the scenario.
    All,
}

const DRIVES_EXPECTED: &str = "the name of a drive, a list of names such as [\"a\", \"b\"], or \"all\"";

struct DriveNamesVisitor;

impl<'de> Visitor<'de> for DriveNamesVisitor {
    type Value = DriveNames;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DRIVES_EXPECTED)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<DriveNames, E> {
        Ok(match text {
            "all" => DriveNames::All,
            name => DriveNames::One(name.to_owned()),
        })
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<DriveNames, A::Error> {
        Vec::deserialize(de::value::SeqAccessDeserializer::new(list)).map(DriveNames::These)
    }
}

impl<'de> Deserialize<'de> for DriveNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DriveNamesVisitor)
    }
}

impl JsonSchema for DriveNames {
    fn schema_name() -> Cow<'static, str> {
        "DriveNames".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": DRIVES_EXPECTED,
            "type": ["string", "array"],
            "items": { "type": "string" },
            "minItems": 1,
        })
    }
}
