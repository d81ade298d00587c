//! What an array on the host did for its jobs.

use byteway_array::{Array, Cause, SlotState};
use byteway_console::table::{Cell, Column, TextTable};
use serde::{Deserialize, Serialize};

/// An array over the whole run, with what was done before the measured part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArraySummary {
    /// RAID level.
    pub level: u8,
    /// Its drives in the end, each `active`, `failed` or `rebuilding`.
    pub members: Vec<String>,
    /// Too many have failed: what is lost can't be read, and nothing is written.
    pub is_broken: bool,
    /// Units of 4 KiB that can't be known any more.
    pub lost_units: u64,
    /// What was sent to the drives, by why.
    pub traffic: Vec<ArrayRow>,
    /// Stripes that were written whole.
    pub full_stripes: u64,
    /// Writes of parity that read the old data and the old parity.
    pub read_modify_writes: u64,
    /// Those that read the rest of the stripe.
    pub reconstruct_writes: u64,
    /// Units that were computed because their drive is gone or can't give them.
    pub units_reconstructed: u64,
}

/// What was sent to the drives of an array for one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayRow {
    /// Why: data, parity, repair, rebuild, log.
    pub cause: String,
    /// Units of 4 KiB that were read.
    pub units_read: u64,
    /// Units that were written.
    pub units_written: u64,
}

impl ArraySummary {
    /// Of an array as it is now.
    pub fn of(array: &Array) -> ArraySummary {
        let (state, counters) = (array.state(), array.counters());
        let member = |state: &SlotState| match state {
            SlotState::Active => "active".to_owned(),
            SlotState::Rebuilding { .. } => "rebuilding".to_owned(),
            SlotState::Failed => "failed".to_owned(),
        };
        let traffic = Cause::ALL.into_iter().map(|cause| {
            let sent = counters.traffic[cause as usize];
            ArrayRow {
                cause: cause.name().to_owned(),
                units_read: sent.units_read,
                units_written: sent.units_written,
            }
        });
        ArraySummary {
            level: array.config().level as u8,
            members: state.slots.iter().map(|(state, _)| member(state)).collect(),
            is_broken: state.is_broken,
            lost_units: state.lost_units,
            traffic: traffic.filter(|row| row.units_read + row.units_written > 0).collect(),
            full_stripes: counters.full_stripes,
            read_modify_writes: counters.read_modify_writes,
            reconstruct_writes: counters.reconstruct_writes,
            units_reconstructed: counters.units_reconstructed,
        }
    }

    /// What was sent to the drives.
    pub fn table(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text("sent to drives"),
            Column::count("units read"),
            Column::count("units written"),
        ]);
        for row in &self.traffic {
            let cells: [Cell; 3] =
                [row.cause.as_str().into(), row.units_read.into(), row.units_written.into()];
            table.row(cells);
        }
        table
    }

    /// How it is, in a sentence.
    pub fn sentence(&self) -> String {
        let count = |what: &str| self.members.iter().filter(|member| *member == what).count();
        let state = match (self.is_broken, count("failed"), count("rebuilding")) {
            (true, ..) => "broken: too many drives have failed".to_owned(),
            (_, 0, 0) => "whole".to_owned(),
            (_, failed, rebuilding) => format!("{failed} failed, {rebuilding} being rebuilt"),
        };
        format!(
            "RAID {} over {} drives, in the end {state}; {} stripes written whole, {} parities from what was there, {} from the rest \
             of the stripe; {} units of 4 KiB computed from others",
            self.level,
            self.members.len(),
            self.full_stripes,
            self.read_modify_writes,
            self.reconstruct_writes,
            self.units_reconstructed
        )
    }
}
