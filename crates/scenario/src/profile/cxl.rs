//! The section `[cxl]` of a profile: memory of the drive that the host accesses over CXL.mem.

use byteway_wire::nvme::vendor::commit::RECORDS_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{KeyError, SECOND, fault, within};
use byteway_clock::Delay;
use byteway_link::{CxlConfig, Flit};
use byteway_text::units::{Bytes, Picos};
use byteway_transfer::method::MemoryConfig;
use byteway_wire::nvme::vendor::Methods;

/// Memory of the drive that the host accesses over CXL.mem, on the link's lanes. Default: none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cxl {
    /// Size of a flit: 68 B, or 256 B.
    pub flit: Bytes,
    /// Time from a request's arrival at the drive to its response, and until its store is visible there.
    pub memory_latency: Picos,
    /// Part of the memory for payloads of any command: a multiple of 4 KiB. Default: 64 KiB. The page buffer
    /// of a KV namespace follows it.
    #[serde(default = "sixty_four_kib")]
    pub area: Bytes,
    /// Unanswered commit records of the host, at most; they store key-value pairs without a command. A power
    /// of two. Default: 0, none.
    #[serde(default)]
    pub records: u32,
    /// Polling interval of the drive for commit records. Default: 1 us.
    #[serde(default = "one_us")]
    pub poll: Picos,
}

impl Cxl {
    /// What this memory offers without being named.
    pub(super) fn methods(&self) -> Methods {
        Methods::new().with_cxl_mem(true).with_cxl_commit(self.records > 0)
    }

    pub(super) fn config(&self) -> MemoryConfig {
        MemoryConfig {
            link: CxlConfig {
                flit: Flit::from_bytes(self.flit.0).expect("the profile was checked"),
                memory_latency: Delay::from_ps(self.memory_latency.0),
            },
            area_bytes: self.area.0 as u32,
            records: self.records,
            poll: Delay::from_ps(self.poll.0),
        }
    }

    pub(super) fn check(&self) -> Result<(), KeyError> {
        if !matches!(self.flit, Bytes(68 | 256)) {
            let what = format!("`cxl.flit` = {} is not possible", self.flit);
            return Err(fault("cxl.flit", what, "choose 68 B or 256 B"));
        }
        within("cxl.memory_latency", self.memory_latency, Picos(0), SECOND)?;
        within("cxl.area", self.area, Bytes(0), Bytes(256 << 20))?;
        if !self.area.0.is_multiple_of(4096) {
            let what = format!("`cxl.area` = {} is not possible", self.area);
            return Err(fault("cxl.area", what, "choose a multiple of 4 KiB"));
        }
        within("cxl.records", self.records, 0, RECORDS_MAX)?;
        if self.records > 0 && !self.records.is_power_of_two() {
            let what = format!("`cxl.records` = {} is not possible", self.records);
            return Err(fault("cxl.records", what, "choose a power of two, or 0"));
        }
        within("cxl.poll", self.poll, Picos(1000), SECOND)
    }
}

fn one_us() -> Picos {
    Picos(1_000_000)
}

fn sixty_four_kib() -> Bytes {
    Bytes(64 << 10)
}
