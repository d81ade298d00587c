//! What flash can do beyond reading, programming and erasing, as the profile says it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Flash;
use super::fault::{Fault, MILLISECOND, SECOND, fault, within};
use byteway_console::units::Picos;

/// Blocks that hold one bit a cell: quick to program, and folded into the others later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slc {
    /// How many of each plane, beyond the spare flash of `firmware.op`.
    pub blocks: u32,
    /// Reading a page of theirs.
    pub read: Picos,
    /// Programming a page of theirs.
    pub program: Picos,
    /// Erasing such a block.
    pub erase: Picos,
}

/// Programs and erases that a read of the host's may interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Suspend {
    /// From the read's arrival at the die until its cells are at rest.
    pub latency: Picos,
    /// Taking the operation up again.
    pub resume: Picos,
    /// How often one operation may be suspended; 0: never.
    pub most: u32,
}

impl Flash {
    pub(super) fn check_cells(&self) -> Result<(), Fault> {
        within("flash.spare_blocks", self.spare_blocks, 0, 65_536)?;
        within("flash.factory_bad_blocks", self.factory_bad_blocks, 0, self.spare_blocks)?;
        if let Some(slc) = &self.slc {
            within("flash.slc.blocks", slc.blocks, 2, 65_536)?;
            within("flash.slc.read", slc.read, Picos(1), SECOND)?;
            within("flash.slc.program", slc.program, Picos(1), SECOND)?;
            within("flash.slc.erase", slc.erase, Picos(1), SECOND)?;
            let types = self.read.len().max(self.program.len()) as u32;
            if !self.pages.is_multiple_of(types.max(1)) {
                let what = format!(
                    "`flash.slc`: {} pages of {types} types leave a cell of a block unused in one-bit mode",
                    self.pages
                );
                let cure = format!("make `flash.pages` a multiple of {types}, or leave `flash.slc` out");
                return Err(fault("flash.slc", what, cure));
            }
        }
        if let Some(suspend) = &self.suspend {
            within("flash.suspend.latency", suspend.latency, Picos(0), MILLISECOND)?;
            within("flash.suspend.resume", suspend.resume, Picos(0), MILLISECOND)?;
            within("flash.suspend.most", suspend.most, 0, 1_000_000)?;
        }
        self.reliability.as_ref().map_or(Ok(()), |reliability| reliability.check())
    }

    /// Blocks of a plane that hold no data of the host's for good: those set aside for bad ones, and those in one-bit mode.
    pub(super) fn reserved_blocks(&self) -> u32 {
        self.spare_blocks + self.slc.as_ref().map_or(0, |slc| slc.blocks)
    }
}
