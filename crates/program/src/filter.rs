//! Runs a program as a filter of rows.
//!
//! The program runs once for each row, with
//!
//! | register | value |
//! |---|---|
//! | R1 | address of the row ([`Rows`]), read-only |
//! | R2 | address of the parameters, read-only |
//! | R3 | number of the row; the first number is the caller's |
//! | R4 | length of the parameters in bytes |
//! | R5 | 0 |
//!
//! and returns 1 to select the row, 0 otherwise. Registers and stack are reset for each row, so that the result for a row does not depend
//! on other rows.

use crate::counts::Counts;
use crate::machine::{Machine, Progress, Trap, TrapCause};
use crate::memory::{PARAMETERS, range_address};
use crate::rows::{RowMemory, Rows};
use crate::verify::Program;

/// Limits of executed instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fuel {
    /// Limit for one row.
    pub row: u64,
    /// Limit for all rows together.
    pub all: u64,
}

/// A filter was stopped at a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {row}: {trap}")]
pub struct FilterTrap {
    /// Number of the row.
    pub row: u64,
    /// Location in the program, and cause.
    pub trap: Trap,
}

/// The rows that a program selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Row numbers, ascending.
    pub rows: Vec<u32>,
    /// Instructions executed for all rows.
    pub counts: Counts,
}

/// A running filter over a sequence of batches. It executes a bounded number of instructions per call, so that its caller can yield or
/// cancel in between.
#[derive(Clone, Debug)]
pub struct Filter {
    fuel: Fuel,
    /// Instructions executed for completed rows, of all batches.
    counts: Counts,
    /// The current row of the batch.
    row: u32,
    /// State of the current row, if it has been started.
    machine: Option<Machine>,
    record: Vec<u8>,
}

impl Filter {
    /// A filter before its first batch.
    pub fn new(fuel: Fuel) -> Filter {
        Filter { fuel, counts: Counts::default(), row: 0, machine: None, record: Vec::new() }
    }

    /// Instructions executed so far.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts;
        if let Some(machine) = &self.machine {
            counts += machine.counts();
        }
        counts
    }

    /// Continues a batch, whose first row has the number `first`, for up to `limit` instructions. Appends selected rows to `selected`,
    /// counted from the batch's first row. Returns `true` when the batch is complete and the next may start; until then the other arguments
    /// must not change.
    ///
    /// # Errors
    /// The program is stopped at a row, or returns neither 0 nor 1. The filter must not be used after that.
    pub fn proceed(
        &mut self,
        program: &Program,
        rows: &Rows<'_>,
        parameters: &[u8],
        (first, limit): (u64, u64),
        selected: &mut Vec<u32>,
    ) -> Result<bool, FilterTrap> {
        let mut left = limit;
        while self.row < rows.count() {
            let number = first + u64::from(self.row);
            let machine = match &mut self.machine {
                Some(machine) => machine,
                none => {
                    self.record.resize(rows.row_bytes(), 0);
                    rows.put(self.row, &mut self.record);
                    let arguments = [range_address(0), PARAMETERS, number, parameters.len() as u64, 0];
                    none.insert(Machine::new(arguments))
                }
            };
            let of_row = machine.counts().all();
            debug_assert!(of_row <= self.fuel.row, "a row ran beyond its limit");
            let fuel = (self.fuel.row - of_row).min(self.fuel.all.saturating_sub(self.counts.all() + of_row));
            let stopped = |trap| FilterTrap { row: number, trap };
            let mut memory = RowMemory { parameters, row: &self.record };
            match machine.proceed(program, &mut memory, left.min(fuel)).map_err(stopped)? {
                Progress::Ended(answer @ (0 | 1)) => {
                    left -= machine.counts().all() - of_row;
                    self.counts += machine.counts();
                    if answer == 1 {
                        selected.push(self.row);
                    }
                    self.row += 1;
                    self.machine = None;
                }
                Progress::Ended(other) => return Err(stopped(machine.trap(TrapCause::Answer(other)))),
                // The run used up the fuel, not only this call's limit.
                Progress::Paused if fuel <= left => {
                    return Err(stopped(machine.trap(TrapCause::OutOfFuel)));
                }
                Progress::Paused => return Ok(false),
            }
        }
        self.row = 0;
        Ok(true)
    }
}

impl Program {
    /// The rows for which the program returns 1. `fuel` limits the instructions of all rows together.
    ///
    /// # Errors
    /// The program is stopped at a row, or returns neither 0 nor 1.
    pub fn run_rows(&self, rows: &Rows<'_>, parameters: &[u8], fuel: u64) -> Result<Selection, FilterTrap> {
        let mut filter = Filter::new(Fuel { row: fuel, all: fuel });
        let mut selected = Vec::new();
        filter.proceed(self, rows, parameters, (0, u64::MAX), &mut selected)?;
        Ok(Selection { rows: selected, counts: filter.counts() })
    }
}
