//! Usage of the host's processors and memory, by component.

use byteway_clock::{Delay, Station};

/// A component of the host's software that uses processors or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostComponent {
    /// The application that issues I/O.
    Application,
    /// The driver: from the application to a command and back, for any device.
    Driver,
    /// Interrupt handling.
    Interrupts,
    /// Entry into the translation layer on the host: its locks and bookkeeping.
    Entry,
    /// Looking up and updating the map.
    Map,
    /// The write buffer.
    Buffer,
    /// Garbage collection: moving valid units out of victim superblocks.
    Collection,
    /// Copying payloads.
    Copies,
    /// Parity, and the pieces of members, of an array.
    Array,
    /// Everything else.
    Other,
}

impl HostComponent {
    /// All components, in the order of the report.
    pub const ALL: [HostComponent; 10] = [
        HostComponent::Application,
        HostComponent::Driver,
        HostComponent::Interrupts,
        HostComponent::Entry,
        HostComponent::Map,
        HostComponent::Buffer,
        HostComponent::Collection,
        HostComponent::Copies,
        HostComponent::Array,
        HostComponent::Other,
    ];

    /// Name in results.
    pub fn name(self) -> &'static str {
        match self {
            HostComponent::Application => "application",
            HostComponent::Driver => "driver",
            HostComponent::Interrupts => "interrupts",
            HostComponent::Entry => "firmware entry",
            HostComponent::Map => "map",
            HostComponent::Buffer => "write buffer",
            HostComponent::Collection => "collection",
            HostComponent::Copies => "copies",
            HostComponent::Array => "array",
            HostComponent::Other => "other",
        }
    }

    /// The component of a work item, by its name on a processor.
    fn of(work: &str) -> HostComponent {
        match work {
            "application" => HostComponent::Application,
            "submit" | "complete" | "ring" | "turnaround" | "store" | "gather" => HostComponent::Driver,
            "interrupt" => HostComponent::Interrupts,
            "enter" => HostComponent::Entry,
            "translate" => HostComponent::Map,
            "buffer" => HostComponent::Buffer,
            "collect" => HostComponent::Collection,
            "DMA" | "copy" => HostComponent::Copies,
            "parity" | "stripe" | "convert" => HostComponent::Array,
            _ => HostComponent::Other,
        }
    }
}

/// Usage of the host's memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    /// Used before any I/O: the system, and driver images.
    pub system: u64,
    /// Queues, and buffers of applications and drivers.
    pub driver: u64,
    /// Bounce buffers, at their largest.
    pub bounce: u64,
    /// Maps of translation layers.
    pub map: u64,
    /// Write buffers, with partial units and the index.
    pub buffer: u64,
    /// Read caches.
    pub read_cache: u64,
    /// Superblock metadata.
    pub superblocks: u64,
    /// Arrays: logs, marks, locks and stripe buffers.
    pub array: u64,
}

impl HostMemory {
    /// Total, in bytes.
    pub fn bytes(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Each part, with its name in results.
    pub fn parts(&self) -> [(&'static str, u64); 8] {
        [
            ("system and drivers", self.system),
            ("queues and buffers", self.driver),
            ("bounce buffers", self.bounce),
            ("map", self.map),
            ("write buffer", self.buffer),
            ("read cache", self.read_cache),
            ("superblocks", self.superblocks),
            ("array", self.array),
        ]
    }
}

/// Cost of I/O on the host, up to an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCost {
    /// Processors.
    pub usage: HostUsage,
    /// Memory.
    pub memory: HostMemory,
}

impl HostCost {
    /// The cost of two consecutive steps.
    pub(super) fn then(&self, after: &HostCost) -> HostCost {
        let mut usage = self.usage.clone();
        usage.0.iter_mut().zip(after.usage.0).for_each(|(sum, more)| *sum += more);
        HostCost { usage, memory: after.memory }
    }
}

/// Processor time of each component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostUsage([Delay; HostComponent::ALL.len()]);

impl HostUsage {
    /// Usage of processors that keep names apart ([`Station::keeping_names`]), up to now; includes time
    /// reserved ahead.
    pub fn of<'a>(processors: impl IntoIterator<Item = &'a Station>) -> HostUsage {
        let mut usage = HostUsage::default();
        for processor in processors {
            processor.each_name(|(name, busy)| usage.0[HostComponent::of(name) as usize] += *busy);
        }
        usage
    }

    /// Processor time of a component.
    pub fn busy(&self, component: HostComponent) -> Delay {
        self.0[component as usize]
    }

    /// The usage since `earlier`.
    pub fn since(&self, earlier: &HostUsage) -> HostUsage {
        let mut usage = self.clone();
        usage.0.iter_mut().zip(earlier.0).for_each(|(now, then)| *now = now.saturating_sub(then));
        usage
    }

    /// All together.
    pub fn total(&self) -> Delay {
        self.0.iter().copied().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::{Executor, Station};

    // Work counted for no component, or for another one, would make a component look cheap.
    #[test]
    fn work_is_counted_where_it_belongs() {
        for (index, component) in HostComponent::ALL.into_iter().enumerate() {
            assert_eq!(component as usize, index);
        }
        let executor = Executor::new();
        let station = Station::new(executor.clock(), 1).keeping_names();
        let parts =
            [("submit", 5), ("complete", 6), ("interrupt", 7), ("translate", 8), ("collect", 9), ("x", 1)];
        for (name, time) in parts {
            station.reserve_for(name, Delay(time));
        }
        let before = HostUsage::of([&station]);
        station.reserve_parts(Delay(5), || [("buffer", Delay(2)), ("translate", Delay(3))]);
        let usage = HostUsage::of([&station]);
        let busy = |component| usage.busy(component).0;
        assert_eq!(busy(HostComponent::Driver), 11);
        assert_eq!(busy(HostComponent::Interrupts), 7);
        assert_eq!(busy(HostComponent::Map), 11);
        assert_eq!(busy(HostComponent::Buffer), 2);
        assert_eq!(busy(HostComponent::Collection), 9);
        assert_eq!(busy(HostComponent::Other), 1);
        assert_eq!(usage.total(), Delay(41));
        assert_eq!(usage.since(&before).total(), Delay(5));
    }
}
