//! The host part of the summary: processor time and memory by component.

use super::network::ns_per_io;
use crate::host::{HostComponent, HostMemory, HostUsage};
use byteway_text::number::ratio;
use byteway_text::table::{Cell, Column, Quantity, TextTable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Cost of I/O on the host over the measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostSummary {
    /// Number of processors.
    pub processors: u64,
    /// Mean number of busy processors.
    pub busy: f64,
    /// Processor time by component; unused components are omitted.
    pub components: Vec<HostRow>,
    /// Memory at the end, by component.
    pub memory: Vec<MemoryRow>,
}

/// Processor time of a component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostRow {
    /// Name of the component.
    pub component: String,
    /// Mean number of processors busy with it.
    pub busy: f64,
    /// Mean processor time per I/O, in nanoseconds.
    pub ns_per_io: f64,
}

/// Memory of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryRow {
    /// Name of the component.
    pub component: String,
    /// Size in bytes.
    pub bytes: u64,
}

impl HostSummary {
    /// The summary of `usage` in `elapsed_ps`, for `ios` I/Os.
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

    /// Total memory, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.iter().map(|row| row.bytes).sum()
    }

    /// The table of processor time.
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

    /// The table of memory.
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
