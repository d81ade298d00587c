//! A stream policy, and what it sees.

use byteway_clock::random::Stream as Random;

/// Most streams of a drive, those of the host and of the collector together.
pub const STREAMS_MAX: u32 = 8;

/// Chooses streams. One is made for each drive; it may keep state, which a power cut forgets.
pub trait Stream {
    /// The streams it uses; always the same.
    fn counts(&self) -> StreamCounts;

    /// Whether it asks for [`StreamView::last_write`]. That costs the simulator eight bytes for each unit written.
    fn needs_last_write(&self) -> bool {
        false
    }

    /// The stream of a unit that the host writes, below [`StreamCounts::host`]; or of one that garbage collection moves, below
    /// [`StreamCounts::collector`].
    fn place(&mut self, view: &mut StreamView<'_>) -> u32;

    /// A superblock was chosen to be emptied, at this time of the drive's clock. Its valid units, if it has any, are asked about next.
    fn collects(&mut self, source: Source, now: u64) {
        let _ = (source, now);
    }

    /// What went wrong in a choice that was none of the streams, if there is more to say than that. The run ends with it.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// Numbers of streams, each at least 1, and at most [`STREAMS_MAX`] together. Each die keeps a superblock open for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCounts {
    /// Streams of what the host writes.
    pub host: u32,
    /// Streams of what garbage collection moves.
    pub collector: u32,
}

impl StreamCounts {
    /// One of each, as in a drive without a policy.
    pub const SEPARATE: StreamCounts = StreamCounts { host: 1, collector: 1 };

    /// Whether a drive can have so many.
    pub fn is_valid(self) -> bool {
        let all = self.host.saturating_add(self.collector);
        self.host >= 1 && self.collector >= 1 && all <= STREAMS_MAX
    }

    /// Superblocks of a die beyond those of a drive with one stream of each kind: a further one is open for each further stream, and each
    /// further stream of the collector needs one to open next.
    pub fn further_blocks(self) -> u32 {
        self.host.saturating_add(self.collector.saturating_mul(2)).saturating_sub(3)
    }
}

/// A superblock that is being emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The stream that filled it. None for one that was filled before the last power cut, with the initial contents, or with data moved for
    /// wear leveling or refresh.
    pub filled_by: Option<Filler>,
    /// When it was opened, by the drive's clock; 0 if it is not known which stream filled it.
    pub opened_at: u64,
}

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filler {
    /// One of what the host writes.
    Host(u32),
    /// One of what garbage collection moves.
    Collector(u32),
}

/// What a policy sees of a unit of 4 KiB that is to be written.
pub struct StreamView<'a> {
    pub(crate) unit: u64,
    pub(crate) units: u64,
    pub(crate) now: u64,
    pub(crate) last_write: Option<u64>,
    pub(crate) source: Option<Source>,
    pub(crate) random: &'a mut Random,
}

impl StreamView<'_> {
    /// Number of the logical unit.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Logical units of the drive.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// The drive's clock: units that the host has written since power-on, without this one.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// When the host last wrote the unit before, whether or not it was deallocated since; None if it has not written it since power-on, or
    /// if the policy does not [need it](Stream::needs_last_write).
    pub fn last_write(&self) -> Option<u64> {
        self.last_write
    }

    /// The superblock that is being emptied of the unit; None if the host writes it.
    pub fn source(&self) -> Option<Source> {
        self.source
    }

    /// A random number: the next one of the drive's own sequence, which follows from the scenario's seed.
    pub fn random(&mut self) -> u64 {
        self.random.next_u64()
    }
}
