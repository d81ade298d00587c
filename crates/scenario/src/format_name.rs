//! The name of a trace's format.

use byteway_trace::Format;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a trace's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatName {
    /// One that is built in.
    BuiltIn(Format),
    /// Another name, which the program may add.
    Other(String),
}

impl Default for FormatName {
    fn default() -> Self {
        FormatName::BuiltIn(Format::Auto)
    }
}

impl Serialize for FormatName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            FormatName::BuiltIn(format) => format.serialize(serializer),
            FormatName::Other(name) => serializer.serialize_str(name),
        }
    }
}

impl<'de> Deserialize<'de> for FormatName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known: StrDeserializer<'_, serde::de::value::Error> = name.as_str().into_deserializer();
        Ok(Format::deserialize(known).map_or(FormatName::Other(name.clone()), FormatName::BuiltIn))
    }
}
