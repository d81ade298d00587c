//! The section `[programs]` of a profile: programs that the drive runs for its host, and its local memory.

use super::fault::{KeyError, MAP_UNIT_BYTES, fault, within};
use byteway_program::Weights;
use byteway_text::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Programs of the host that the drive runs (NVMe Computational Programs), and memory for them (Subsystem
/// Local Memory): a drive with this section has a namespace for each behind its others. Omitted keys have
/// defaults, so an empty section is sufficient.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Programs {
    /// Local memory: 4 KiB to 16 GiB, a multiple of 4 KiB. The same part of the capacity is reserved, in
    /// whole MiB. Default: 64 MiB.
    pub memory: Bytes,
    /// Number of programs, with indexes from 0: 1 to 1024. Default: 16.
    pub programs: u32,
    /// Largest program: 8 B to 32 KiB. Default: 32 KiB.
    pub program_max: Bytes,
    /// Size of all programs together: up to 1 GiB. Default: 256 KiB.
    pub programs_max: Bytes,
    /// Maximum number of activated programs: 1 to 1024. Default: 8.
    pub activated: u32,
    /// Memory range sets: 1 to 1024. Default: 32.
    pub sets: u32,
    /// Memory ranges of a set, or of one execution: 1 to 255. Default: 16.
    pub ranges: u32,
    /// Concurrent executions: 1 to one less than `controller.command_slots`. Default: 8.
    pub runs: u32,
    /// Instructions of one execution, at most: 1 to 2^40. Default: 100,000,000.
    pub fuel: u64,
    /// Instructions per row of a program that filters rows of a table: 1 to 2^40. Default: 10,000.
    pub row_fuel: u64,
    /// Instructions for all rows of a task: from `row_fuel` to 2^50. Default: 100,000,000,000.
    pub filter_fuel: u64,
    /// Core cycles of an instruction with weight 1: 0 to 1,000,000. Default: 1.
    pub cycles: u64,
    /// Weight of an arithmetic instruction: 0 to 1,000,000. Default: 1.
    pub alu_weight: u32,
    /// Weight of a division. Default: 12.
    pub divide_weight: u32,
    /// Weight of a load or a store. Default: 5.
    pub memory_weight: u32,
    /// Weight of a jump. Default: 2.
    pub jump_weight: u32,
    /// Weight of a call. Default: 10.
    pub call_weight: u32,
}

impl Default for Programs {
    fn default() -> Self {
        Programs {
            memory: Bytes(64 << 20),
            programs: 16,
            program_max: Bytes(32 << 10),
            programs_max: Bytes(256 << 10),
            activated: 8,
            sets: 32,
            ranges: 16,
            runs: 8,
            fuel: 100_000_000,
            row_fuel: 10_000,
            filter_fuel: 100_000_000_000,
            cycles: 1,
            alu_weight: 1,
            divide_weight: 12,
            memory_weight: 5,
            jump_weight: 2,
            call_weight: 10,
        }
    }
}

impl Programs {
    /// Bytes of the capacity that its namespaces take: the memory, and one MiB for the programs, whose table
    /// is in DRAM.
    pub fn capacity_bytes(&self) -> u64 {
        self.memory.0.next_multiple_of(1 << 20) + (1 << 20)
    }

    /// Cost of each class of instructions.
    pub fn weights(&self) -> Weights {
        Weights {
            alu: self.alu_weight,
            divide: self.divide_weight,
            memory: self.memory_weight,
            jump: self.jump_weight,
            call: self.call_weight,
        }
    }

    pub(super) fn check(&self, command_slots: u32) -> Result<(), KeyError> {
        within("programs.memory", self.memory, Bytes(MAP_UNIT_BYTES), Bytes(16 << 30))?;
        if !self.memory.0.is_multiple_of(MAP_UNIT_BYTES) {
            let what = format!("`programs.memory` = {} is not possible", self.memory);
            return Err(fault("programs.memory", what, "choose a multiple of 4 KiB"));
        }
        within("programs.programs", self.programs, 1, 1024)?;
        within("programs.program_max", self.program_max, Bytes(8), Bytes(32 << 10))?;
        within("programs.programs_max", self.programs_max, self.program_max, Bytes(1 << 30))?;
        within("programs.activated", self.activated, 1, 1024)?;
        within("programs.sets", self.sets, 1, 1024)?;
        within("programs.ranges", self.ranges, 1, 255)?;
        within("programs.runs", self.runs, 1, command_slots.saturating_sub(1).clamp(1, u16::MAX.into()))?;
        within("programs.fuel", self.fuel, 1, 1 << 40)?;
        within("programs.row_fuel", self.row_fuel, 1, 1 << 40)?;
        within("programs.filter_fuel", self.filter_fuel, self.row_fuel, 1 << 50)?;
        within("programs.cycles", self.cycles, 0, 1_000_000)?;
        for (key, weight) in [
            ("programs.alu_weight", self.alu_weight),
            ("programs.divide_weight", self.divide_weight),
            ("programs.memory_weight", self.memory_weight),
            ("programs.jump_weight", self.jump_weight),
            ("programs.call_weight", self.call_weight),
        ] {
            within(key, weight, 0, 1_000_000)?;
        }
        Ok(())
    }
}
