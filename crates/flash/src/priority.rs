//! Who asks for an operation.

/// Who asks, most urgent first. Within a priority the first comes first; a lower one that waits has its turn after
/// eight more urgent operations in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A read that a host waits for.
    HostRead = 0,
    /// A read of a translation page, without which a host's command can't go on.
    Map = 1,
    /// A program of what a host wrote.
    HostProgram = 2,
    /// What makes room: the reads, programs and erases that a host's writes rest on.
    Collector = 3,
    /// What can wait: levelling, refresh, folding, collection while the host is idle.
    Background = 4,
}

impl Priority {
    /// How many there are.
    pub const COUNT: usize = 5;

    /// All, most urgent first.
    pub const ALL: [Priority; Priority::COUNT] =
        [Priority::HostRead, Priority::Map, Priority::HostProgram, Priority::Collector, Priority::Background];

    /// For whom, in a trace.
    pub(crate) fn client(self) -> &'static str {
        match self {
            Priority::HostRead | Priority::HostProgram => "host",
            Priority::Map => "map",
            Priority::Collector => "collector",
            Priority::Background => "background",
        }
    }

    /// Whether a host waits for its reads, so that a program or an erase is suspended for them.
    pub(crate) fn is_awaited(self) -> bool {
        self <= Priority::Map
    }
}
