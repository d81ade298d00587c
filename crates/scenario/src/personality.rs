//! Personalities: the interface that a drive offers, and its consequences.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use byteway_workload::{JobPlan, Source};

/// The interface that a drive offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Personality {
    /// Logical blocks, stored in flash.
    #[default]
    Block,
    /// A payload sink: payloads of any length, which end in the drive's DRAM; for measuring the transfer
    /// alone.
    Sink,
    /// Key-value pairs, stored by the drive (NVMe Key Value Command Set).
    Kv,
    /// Tables, and queries over them.
    Tables,
}

impl Personality {
    /// Whether there are logical blocks, each with its own contents.
    pub fn has_blocks(self) -> bool {
        match self {
            Personality::Block => true,
            Personality::Sink | Personality::Kv | Personality::Tables => false,
        }
    }

    /// Whether the namespaces are KV namespaces.
    pub fn has_pairs(self) -> bool {
        match self {
            Personality::Kv => true,
            Personality::Block | Personality::Sink | Personality::Tables => false,
        }
    }

    /// Whether the namespaces hold tables.
    pub fn has_tables(self) -> bool {
        self == Personality::Tables
    }

    /// Whether payloads go to a payload sink, which exists once per drive and whose logical block is a byte.
    pub fn has_sink(self) -> bool {
        match self {
            Personality::Sink => true,
            Personality::Block | Personality::Kv | Personality::Tables => false,
        }
    }

    /// Whether payloads may have any length.
    pub fn has_payloads(self) -> bool {
        match self {
            Personality::Sink | Personality::Kv | Personality::Tables => true,
            Personality::Block => false,
        }
    }

    /// The most units (logical blocks, or bytes of a sink) of one command: the number of blocks has 16 bits,
    /// the number of a sink's bytes 32.
    pub(crate) fn command_units_max(self) -> u64 {
        match self {
            Personality::Sink => 1 << 30,
            Personality::Block | Personality::Kv | Personality::Tables => 1 << 16,
        }
    }

    /// Whether a drive accepts the operations of a job. A job on an LSM tree needs blocks.
    pub(crate) fn takes(self, job: &JobPlan) -> bool {
        match self {
            Personality::Kv => matches!(job.source, Source::Pairs(_)),
            Personality::Block | Personality::Sink => true,
            Personality::Tables => matches!(job.source, Source::Queries(_)),
        }
    }

    /// An example of an accepted job: the section, and what to write there.
    pub(crate) fn example(self) -> (&'static str, &'static str) {
        match self {
            Personality::Kv => ("kv", "add `[[kv]]` with at least `workload = \"w-m\"` and `count = 100000`"),
            Personality::Tables => (
                "query",
                "add `[[query]]` with at least `sql = \"SELECT COUNT(*) FROM ...\"` and `count = 100`",
            ),
            Personality::Block | Personality::Sink => {
                ("job", "add `[[job]]` with at least `rw = \"randread\"` and `count = 100000`")
            }
        }
    }
}
