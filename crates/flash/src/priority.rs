//! Priorities of flash operations.

/// Priority of an operation, most urgent first. Operations of one priority are served in order of submission;
/// a lower priority that waits has its turn after eight more urgent operations in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A read that a host waits for.
    HostRead = 0,
    /// A read of a translation page that a host command waits for.
    Map = 1,
    /// A program of host data.
    HostProgram = 2,
    /// Garbage collection that host writes depend on: its reads, programs and erases.
    Collector = 3,
    /// Deferrable work: wear leveling, refresh, folding, garbage collection while the host is idle.
    Background = 4,
}

impl Priority {
    /// Number of priorities.
    pub const COUNT: usize = 5;

    /// All priorities, most urgent first.
    pub const ALL: [Priority; Priority::COUNT] =
        [Priority::HostRead, Priority::Map, Priority::HostProgram, Priority::Collector, Priority::Background];

    /// Name in a trace.
    pub(crate) fn client(self) -> &'static str {
        match self {
            Priority::HostRead | Priority::HostProgram => "host",
            Priority::Map => "map",
            Priority::Collector => "collector",
            Priority::Background => "background",
        }
    }

    /// Whether a host waits for reads of this priority, for which programs and erases are suspended.
    pub(crate) fn is_awaited(self) -> bool {
        self <= Priority::Map
    }
}
