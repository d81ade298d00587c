//! What the host's processors did, by who had them, and what of its memory is taken.

use byteway_clock::{Delay, Station};

/// What of a host's software takes processors or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostComponent {
    /// What asks for I/O.
    Application,
    /// From the application to a command and back, of whatever is driven.
    Driver,
    /// Taking interrupts.
    Interrupts,
    /// Entering the translation layer on the host: its locks and bookkeeping.
    Entry,
    /// Looking units up, and changing where they are.
    Map,
    /// The write buffer.
    Buffer,
    /// Moving what is valid out of superblocks that are collected.
    Collection,
    /// Copying payload.
    Copies,
    /// Parity, and pieces of members, of an array.
    Array,
    /// Whatever else.
    Other,
}

impl HostComponent {
    /// All, in the order in which they are reported.
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

    /// Its name in results.
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

    /// Of what a piece of work is, by the name that it has on a processor.
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

/// What of the host's memory is taken, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    /// What is taken before any I/O: the system, and the images of drivers.
    pub system: u64,
    /// Queues, and buffers of applications and drivers.
    pub driver: u64,
    /// Buffers that payload is copied through, as large as they have ever been.
    pub bounce: u64,
    /// Maps of translation layers.
    pub map: u64,
    /// Their write buffers, with parts of units and the index.
    pub buffer: u64,
    /// Their read caches.
    pub read_cache: u64,
    /// What they know of superblocks.
    pub superblocks: u64,
    /// Of arrays: logs, marks, locks and stripe buffers.
    pub array: u64,
}

impl HostMemory {
    /// All of it.
    pub fn bytes(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Part by part, with the names of results.
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

/// What I/O costs the host, up to a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCost {
    /// Processors.
    pub usage: HostUsage,
    /// Memory.
    pub memory: HostMemory,
}

impl HostCost {
    /// What two steps that follow one another cost.
    pub(super) fn then(&self, after: &HostCost) -> HostCost {
        let mut usage = self.usage.clone();
        usage.0.iter_mut().zip(after.usage.0).for_each(|(sum, more)| *sum += more);
        HostCost { usage, memory: after.memory }
    }
}

/// How long each component had processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostUsage([Delay; HostComponent::ALL.len()]);

impl HostUsage {
    /// Of processors that keep names apart ([`Station::keeping_names`]), up to now; what is reserved ahead is in it.
    pub fn of<'a>(processors: impl IntoIterator<Item = &'a Station>) -> HostUsage {
        let mut usage = HostUsage::default();
        for processor in processors {
            processor.each_name(|(name, busy)| usage.0[HostComponent::of(name) as usize] += *busy);
        }
        usage
    }

    /// How long a component had processors.
    pub fn busy(&self, component: HostComponent) -> Delay {
        self.0[component as usize]
    }

    /// What came after `earlier`.
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

    // Work that goes to no component, or to another's, would make one look cheap.
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
