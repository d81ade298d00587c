//! `[transfer]` of a profile: what a drive offers small payloads beyond PRPs and SGLs, and up to where it pays.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fault::{Fault, SECOND, fault, within};
use crate::word::{Fine, Word, Written};
use byteway_console::units::{Bytes, Picos};
use byteway_transfer::Method;
use byteway_wire::nvme::vendor::Extension;

/// What a drive offers small payloads. Left out: nothing, a plain NVMe drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The methods, each of which a host enables for the queues that are to use it.
    #[serde(default)]
    pub methods: Vec<Written<Extension>>,
    /// The longest payload inline; left out, 8 KiB.
    #[serde(default = "eight_kib")]
    pub inline_max: Bytes,
    /// The longest payload that is put together from chunks; left out, 8 KiB.
    #[serde(default = "eight_kib")]
    pub reassembly_max: Bytes,
    /// The longest payload piggybacked; left out, 8 KiB.
    #[serde(default = "eight_kib")]
    pub piggyback_max: Bytes,
    /// The longest result behind a completion; left out, 1 KiB.
    #[serde(default = "one_kib")]
    pub inline_result_max: Bytes,
    /// Payloads that may be incomplete at once; left out, 64.
    #[serde(default = "sixty_four")]
    pub partial_payloads: u32,
    /// After how long an incomplete payload is given up; left out, 10 ms.
    #[serde(default = "ten_ms")]
    pub partial_timeout: Picos,
    /// The buffer in BAR0 that mmio stores to: a multiple of 4 KiB; left out, 64 KiB.
    #[serde(default = "sixty_four_kib")]
    pub bar: Bytes,
    /// The payload sink, which is memory of the drive without flash behind it; left out, there is none.
    #[serde(default)]
    pub sink: Bytes,
    /// Moving the payload of one queue entry into DRAM, while its command waits.
    #[serde(default)]
    pub chunk_store: Picos,
    /// The payload size from which on each fine-grained method is no longer faster than PRPs: tau of adaptive transfer, below
    /// which payloads go by the method, as `byteway threshold` measures it. 0 B: none is faster.
    #[serde(default)]
    pub threshold: Thresholds,
}

impl Default for Transfer {
    fn default() -> Self {
        Transfer {
            methods: Vec::new(),
            inline_max: eight_kib(),
            reassembly_max: eight_kib(),
            piggyback_max: eight_kib(),
            inline_result_max: one_kib(),
            partial_payloads: sixty_four(),
            partial_timeout: ten_ms(),
            bar: sixty_four_kib(),
            sink: Bytes(0),
            chunk_store: Picos(0),
            threshold: Thresholds::default(),
        }
    }
}

/// Tau of each fine-grained method, as far as it has been measured: shorter payloads are faster by it than by PRPs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thresholds(BTreeMap<Fine, Bytes>);

impl Thresholds {
    /// Of that method.
    pub fn of(&self, method: Method) -> Option<Bytes> {
        self.0.get(&Fine(method)).copied()
    }
}

impl Serialize for Thresholds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Fine::all().map(|(fine, word, _)| (word, self.of(fine.0))))
    }
}

impl<'de> Deserialize<'de> for Thresholds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Thresholds;
            fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                formatter.write_str("a threshold for each fine-grained method")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Thresholds, A::Error> {
                let mut thresholds = BTreeMap::new();
                while let Some(key) = entries.next_key::<String>()? {
                    let Some((fine, ..)) = Fine::all().find(|(_, word, _)| *word == key) else {
                        let known: Vec<String> =
                            Fine::all().map(|(_, word, _)| format!("`{word}`")).collect();
                        let what = format!("unknown field `{key}`, expected one of {}", known.join(", "));
                        return Err(de::Error::custom(what));
                    };
                    if let Some(bytes) = entries.next_value::<Option<Bytes>>()? {
                        thresholds.insert(fine, bytes);
                    }
                }
                Ok(Thresholds(thresholds))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl JsonSchema for Thresholds {
    fn schema_name() -> Cow<'static, str> {
        "Thresholds".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let bytes = generator.subschema_for::<Option<Bytes>>();
        let properties: serde_json::Map<String, serde_json::Value> = Fine::all()
            .map(|(_, word, _)| {
                let mut one = bytes.clone();
                one.insert("description".into(), format!("`{word}`.").into());
                one.insert("default".into(), serde_json::Value::Null);
                (word.to_owned(), one.into())
            })
            .collect();
        json_schema!({
            "description": "The longest payload that each fine-grained method carries faster than PRPs.",
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        })
    }
}

impl Transfer {
    /// Whether its methods name it.
    pub fn offers(&self, extension: Extension) -> bool {
        self.methods.contains(&Written(extension))
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        for (at, extension) in self.methods.iter().enumerate() {
            if self.methods[..at].contains(extension) {
                let Written(extension) = extension;
                let what = format!("`transfer.methods` names `{}` twice", extension.name());
                return Err(fault("transfer.methods", what, "leave one of them out"));
            }
        }
        let most = Bytes(1 << 20);
        within("transfer.inline_max", self.inline_max, Bytes(1), most)?;
        within("transfer.reassembly_max", self.reassembly_max, Bytes(1), most)?;
        within("transfer.piggyback_max", self.piggyback_max, Bytes(1), most)?;
        within("transfer.inline_result_max", self.inline_result_max, Bytes(1), most)?;
        within("transfer.partial_payloads", self.partial_payloads, 1, 4096)?;
        within("transfer.partial_timeout", self.partial_timeout, Picos(1_000_000), SECOND)?;
        within("transfer.bar", self.bar, Bytes(4096), Bytes(16 << 20))?;
        if !self.bar.0.is_multiple_of(4096) {
            let what = format!("`transfer.bar` = {} is not possible", self.bar);
            return Err(fault("transfer.bar", what, "choose a multiple of 4 KiB"));
        }
        within("transfer.sink", self.sink, Bytes(0), Bytes(1 << 40))?;
        within("transfer.chunk_store", self.chunk_store, Picos(0), SECOND)?;
        for (fine, threshold) in &self.threshold.0 {
            let path = format!("transfer.threshold.{}", fine.0.name());
            within(&path, *threshold, Bytes(0), Bytes(1 << 24))?;
        }
        Ok(())
    }
}

fn eight_kib() -> Bytes {
    Bytes(8 << 10)
}
fn one_kib() -> Bytes {
    Bytes(1 << 10)
}
fn sixty_four_kib() -> Bytes {
    Bytes(64 << 10)
}
fn sixty_four() -> u32 {
    64
}
fn ten_ms() -> Picos {
    Picos(10_000_000_000)
}
