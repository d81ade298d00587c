//! `[cxl]` of a profile: memory of the drive that the host stores to over CXL.mem.

use byteway_wire::nvme::vendor::commit::RECORDS_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{Fault, SECOND, fault, within};
use byteway_console::units::{Bytes, Picos};

/// Memory of the drive that the host stores to over CXL.mem, on the link's lanes. Left out: none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cxl {
    /// A flit: 68 B, or 256 B.
    pub flit: Bytes,
    /// From a request's arrival at the drive to its answer's leaving, and until what it stores can be seen there.
    pub memory_latency: Picos,
    /// What of the memory is for payloads of any command: a multiple of 4 KiB; left out, 64 KiB. The page buffer of a
    /// namespace of pairs is behind it.
    #[serde(default = "sixty_four_kib")]
    pub area: Bytes,
    /// Commit records that the host may have unanswered, by which pairs are stored without a command: a power of two; left out,
    /// or 0, there are none.
    #[serde(default)]
    pub records: u32,
    /// How often the drive looks whether there is one; left out, 1 us.
    #[serde(default = "one_us")]
    pub poll: Picos,
}

impl Cxl {
    pub(super) fn check(&self) -> Result<(), Fault> {
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
