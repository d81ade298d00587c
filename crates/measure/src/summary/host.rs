//! What I/O cost the host, by component: processor time and memory.

use super::network::ns_per_io;
use crate::host::{HostComponent, HostMemory, HostUsage};
use byteway_console::number::ratio;
use byteway_console::table::{Cell, Column, Quantity, TextTable};
use serde::{Deserialize, Serialize};

/// What I/O cost the host over the measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostSummary {
    /// Processors that the host has.
    pub processors: u64,
    /// How many of them were busy, in the mean: 1 is one processor all the time.
    pub busy: f64,
    /// Component by component; those without any are left out.
    pub components: Vec<HostRow>,
    /// Memory in the end, component by component.
    pub memory: Vec<MemoryRow>,
}

/// What a component took of the processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    /// Which.
    pub component: String,
    /// How many processors were busy with it, in the mean.
    pub busy: f64,
    /// Processor time for an I/O, in nanoseconds, in the mean.
    pub ns_per_io: f64,
}

/// What a component holds of the host's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRow {
    /// Which.
    pub component: String,
    /// How much, in bytes.
    pub bytes: u64,
}

impl HostSummary {
    /// Of `usage` in `elapsed_ps`, for `ios` I/Os.
    pub fn new(usage: &HostUsage, processors: u64, elapsed_ps: u64, ios: u64, memory: &HostMemory) -> Self {
        let busy = |time: u64| ratio(time.into(), elapsed_ps.into());
        let components = HostComponent::ALL.into_iter().filter_map(|component| {
            let time = usage.busy(component).0;
            (time > 0).then(|| HostRow {
                component: component.name().to_owned(),
                busy: busy(time),
                ns_per_io: ns_per_io(time, ios),
            })
        });
        HostSummary {
            processors,
            busy: busy(usage.total().0),
            components: components.collect(),
            memory: (memory.parts().iter())
                .filter(|(_, bytes)| *bytes > 0)
                .map(|(component, bytes)| MemoryRow { component: (*component).to_owned(), bytes: *bytes })
                .collect(),
        }
    }

    /// All memory, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.iter().map(|row| row.bytes).sum()
    }

    /// The processors.
    pub fn processor_table(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text("component"),
            Column::of("busy", Quantity::Share),
            Column::of("time / I/O", Quantity::Time),
        ]);
        for row in &self.components {
            table.row([row.component.as_str().into(), Cell::from(row.busy), Cell::from(row.ns_per_io)]);
        }
        if self.components.len() > 1 {
            let time = self.components.iter().map(|row| row.ns_per_io).sum::<f64>();
            table.row(["all".into(), Cell::from(self.busy), Cell::from(time)]);
        }
        table
    }

    /// The memory.
    pub fn memory_table(&self) -> TextTable {
        let mut table = TextTable::new([Column::text("component"), Column::of("memory", Quantity::Bytes)]);
        for row in &self.memory {
            table.row([row.component.as_str().into(), Cell::from(row.bytes as f64)]);
        }
        if self.memory.len() > 1 {
            table.row(["all".into(), Cell::from(self.memory_bytes() as f64)]);
        }
        table
    }
}
