//! Configuration of the programs that a drive runs for its host, and of their memory.

use super::defect::Defect;
use byteway_defect::Planted;
use byteway_program::Weights;

/// Limits of the command sets for local memory and programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramsPolicy {
    /// Size of all memory namespaces together, in bytes.
    pub memory_bytes: u64,
    /// Programs in a namespace; their indexes start at 0.
    pub programs: u16,
    /// Maximum size of a program, in bytes.
    pub program_bytes_max: u32,
    /// Maximum size of all programs of a namespace, in bytes.
    pub programs_bytes_max: u64,
    /// Maximum number of activated programs in a namespace.
    pub activated_max: u16,
    /// Memory range sets in a namespace.
    pub sets_max: u16,
    /// Memory ranges in a set, or in an execution with ranges of its own.
    pub ranges_max: u8,
    /// Concurrent runs, over all namespaces. Each occupies one of the controller's command slots, of which there must
    /// be more.
    pub runs_max: u16,
    /// Maximum number of instructions in a run.
    pub fuel: u64,
    /// Maximum number of instructions for one row, of a program that filters rows of a table.
    pub row_fuel: u64,
    /// Maximum number of instructions for all rows of a task together.
    pub filter_fuel: u64,
    /// Cost of each class of instructions, as a multiple of [`WorkKind::Program`](byteway_firmware::WorkKind::Program).
    pub weights: Weights,
    /// The defect on purpose, if any.
    pub defect: Planted<Defect>,
}

impl Default for ProgramsPolicy {
    /// 64 MiB of memory; 16 programs of at most 32 KiB; 8 concurrent runs of 100 million instructions; 10,000
    /// instructions per row, 100 billion per task.
    fn default() -> Self {
        ProgramsPolicy {
            memory_bytes: 64 << 20,
            programs: 16,
            program_bytes_max: 32 << 10,
            programs_bytes_max: 256 << 10,
            activated_max: 8,
            sets_max: 32,
            ranges_max: 16,
            runs_max: 8,
            fuel: 100_000_000,
            row_fuel: 10_000,
            filter_fuel: 100_000_000_000,
            weights: Weights::default(),
            defect: Planted::none(),
        }
    }
}
