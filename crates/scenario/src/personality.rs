//! What a host asks a drive for, and all that this decides.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use byteway_workload::{JobPlan, Source};

/// What a host asks a drive for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Personality {
    /// Logical blocks, which lie in flash.
    #[default]
    Block,
    /// Payloads of any length, which land in the drive's DRAM: the way there, and nothing behind it.
    Sink,
    /// Pairs of a key and a value, which the drive looks after itself (NVMe Key Value Command Set).
    Kv,
}

impl Personality {
    /// Whether there are logical blocks, each with contents of its own.
    pub fn has_blocks(self) -> bool {
        match self {
            Personality::Block => true,
            Personality::Sink | Personality::Kv => false,
        }
    }

    /// Whether the namespaces hold pairs of keys and values.
    pub fn has_pairs(self) -> bool {
        match self {
            Personality::Kv => true,
            Personality::Block | Personality::Sink => false,
        }
    }

    /// Whether what is asked for lands in a payload sink, which is one for the drive and whose block is a byte.
    pub fn has_sink(self) -> bool {
        match self {
            Personality::Sink => true,
            Personality::Block | Personality::Kv => false,
        }
    }

    /// Whether what crosses are payloads of any length.
    pub fn has_payloads(self) -> bool {
        match self {
            Personality::Sink | Personality::Kv => true,
            Personality::Block => false,
        }
    }

    /// The most units (logical blocks, or bytes of a sink) of one command: blocks have 16 bits for their number, a sink's
    /// bytes 32.
    pub(crate) fn command_units_max(self) -> u64 {
        match self {
            Personality::Sink => 1 << 30,
            Personality::Block | Personality::Kv => 1 << 16,
        }
    }

    /// Whether a drive can be asked for what a job asks. Blocks may be those of a tree on the host.
    pub(crate) fn takes(self, job: &JobPlan) -> bool {
        match self {
            Personality::Kv => matches!(job.source, Source::Pairs(_)),
            Personality::Block | Personality::Sink => true,
        }
    }

    /// A job that it takes: the section, and what to write there.
    pub(crate) fn example(self) -> (&'static str, &'static str) {
        match self {
            Personality::Kv => ("kv", "add `[[kv]]` with at least `workload = \"w-m\"` and `count = 100000`"),
            Personality::Block | Personality::Sink => {
                ("job", "add `[[job]]` with at least `rw = \"randread\"` and `count = 100000`")
            }
        }
    }
}
