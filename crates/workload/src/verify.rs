//! Verification of the data that a job reads.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::borrow::Cow;
use std::fmt;

const EXPECTED: &str = "true, false or \"bytes\"";

/// Whether each block read is compared with what was written: `true`, `false` or `"bytes"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// No verification.
    Off,
    /// By the pattern that a page is known to hold, and one read in
    /// 64 byte by byte.
    #[default]
    On,
    /// Byte by byte.
    Bytes,
}

impl Verify {
    /// Whether reads are verified at all.
    pub fn is_on(self) -> bool {
        self != Verify::Off
    }
}

impl From<bool> for Verify {
    fn from(verify: bool) -> Verify {
        if verify { Verify::On } else { Verify::Off }
    }
}

struct VerifyVisitor;

impl Visitor<'_> for VerifyVisitor {
    type Value = Verify;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_bool<E: de::Error>(self, verify: bool) -> Result<Verify, E> {
        Ok(verify.into())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Verify, E> {
        match text {
            "bytes" => Ok(Verify::Bytes),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for Verify {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(VerifyVisitor)
    }
}

impl JsonSchema for Verify {
    fn schema_name() -> Cow<'static, str> {
        "Verify".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Whether each block that is read is checked against what was written. `true`: one read in 64 is \
                compared byte by byte; of the others it is the names of the test patterns that whole pages hold, where \
                memory has kept these. `\"bytes\"`: every read is compared byte by byte. That is slower; the results are \
                the same.",
            "oneOf": [{ "type": "boolean" }, { "type": "string", "const": "bytes" }],
        })
    }
}
