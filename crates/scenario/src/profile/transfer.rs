//! The section `[transfer]` of a profile: transfer methods for small payloads besides PRPs and SGLs, and
//! their thresholds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::cxl::Cxl;
use super::fault::{KeyError, SECOND, fault, within};
use crate::word::{FineMethod, FromWord, TableWord};
use byteway_clock::Delay;
use byteway_text::units::{Bytes, Picos};
use byteway_transfer::Method;
use byteway_transfer::method::TransferConfig;
use byteway_wire::nvme::vendor::{Extension, Methods};

/// Transfer methods for small payloads. Default: none, a standard NVMe drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The methods; a host enables each for the queues that use it.
    #[serde(default)]
    pub methods: Vec<FromWord<Extension>>,
    /// Longest inline payload. Default: 8 KiB.
    #[serde(default = "eight_kib")]
    pub inline_max: Bytes,
    /// Longest payload reassembled from chunks. Default: 8 KiB.
    #[serde(default = "eight_kib")]
    pub reassembly_max: Bytes,
    /// Longest piggybacked payload. Default: 8 KiB.
    #[serde(default = "eight_kib")]
    pub piggyback_max: Bytes,
    /// Longest inline result behind a completion. Default: 1 KiB.
    #[serde(default = "one_kib")]
    pub inline_result_max: Bytes,
    /// Maximum number of incomplete payloads. Default: 64.
    #[serde(default = "sixty_four")]
    pub partial_payloads: u32,
    /// Time after which an incomplete payload is discarded. Default: 10 ms.
    #[serde(default = "ten_ms")]
    pub partial_timeout: Picos,
    /// Size of the buffer in BAR0 for the method mmio: a multiple of 4 KiB. Default: 64 KiB.
    #[serde(default = "sixty_four_kib")]
    pub bar: Bytes,
    /// Size of the payload sink: memory of the drive without flash behind it. Default: none.
    #[serde(default)]
    pub sink: Bytes,
    /// Time to move the payload of one queue entry into DRAM, while its command waits.
    #[serde(default)]
    pub chunk_store: Picos,
    /// Payload size from which each fine-grained method is no longer faster than PRPs: tau of adaptive
    /// transfer, which uses the method below it. `byteway threshold` measures it. 0 B: never faster.
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

/// Tau of each fine-grained method for which it has been measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thresholds(BTreeMap<FineMethod, Bytes>);

impl Thresholds {
    /// Tau of a method.
    pub fn of(&self, method: Method) -> Option<Bytes> {
        self.0.get(&FineMethod(method)).copied()
    }
}

impl Serialize for Thresholds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(FineMethod::all().map(|(fine, word, _)| (word, self.of(fine.0))))
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
                    let Some((fine, ..)) = FineMethod::all().find(|(_, word, _)| *word == key) else {
                        let known: Vec<String> =
                            FineMethod::all().map(|(_, word, _)| format!("`{word}`")).collect();
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
        let properties: serde_json::Map<String, serde_json::Value> = FineMethod::all()
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
    /// Whether the extension is among its methods.
    pub fn offers(&self, extension: Extension) -> bool {
        self.methods.contains(&FromWord(extension))
    }

    /// What a drive with this section and this memory offers.
    pub fn config(&self, cxl: Option<&Cxl>) -> TransferConfig {
        let named: Vec<Extension> = self.methods.iter().map(|FromWord(extension)| *extension).collect();
        let methods = Methods::of(&named).or(cxl.map_or(Methods::new(), Cxl::methods));
        TransferConfig {
            methods,
            inline_bytes_max: self.inline_max.0 as u32,
            reassembly_bytes_max: self.reassembly_max.0 as u32,
            piggyback_bytes_max: self.piggyback_max.0 as u32,
            inline_result_bytes_max: self.inline_result_max.0 as u32,
            partial_payloads_max: self.partial_payloads,
            partial_timeout: Delay::from_ps(self.partial_timeout.0),
            bar_bytes: if methods.mmio() { self.bar.0 as u32 } else { 0 },
            memory: cxl.map(Cxl::config),
            sink_bytes: self.sink.0,
            chunk_store: Delay::from_ps(self.chunk_store.0),
        }
    }

    pub(super) fn check(&self) -> Result<(), KeyError> {
        for (at, extension) in self.methods.iter().enumerate() {
            if self.methods[..at].contains(extension) {
                let FromWord(extension) = extension;
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
