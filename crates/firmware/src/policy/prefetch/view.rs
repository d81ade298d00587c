//! A policy of reading ahead, and what it sees.

use byteway_clock::Time;
use byteway_clock::random::Stream as Random;

/// Decides what is read ahead. One is made for each drive; it may keep state, which a power cut forgets.
pub trait Prefetch {
    /// What is read ahead now that the host reads. The drive leaves out what lies beyond its end, what is not in flash, what the cache has,
    /// and what is on its way already; and all beyond half of the [room](PrefetchView::room).
    fn ahead(&mut self, view: &mut PrefetchView<'_>) -> Option<Ahead>;

    /// What went wrong, if it did. The run ends with it.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// Units of 4 KiB to read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The first one.
    pub first: u64,
    /// How many.
    pub count: u32,
}

/// What a policy sees: a read of the host.
pub struct PrefetchView<'a> {
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) hits: u32,
    pub(crate) on_their_way: u32,
    pub(crate) room: u32,
    pub(crate) units: u64,
    pub(crate) idle_dies: &'a dyn Fn() -> u32,
    pub(crate) dies: u32,
    pub(crate) now: Time,
    pub(crate) random: &'a mut Random,
}

impl PrefetchView<'_> {
    /// The first unit of 4 KiB that the host reads.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// How many it reads.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How many of them were read ahead, and have come or are on their way.
    pub fn hits(&self) -> u32 {
        self.hits
    }

    /// Units that are on their way, for any read.
    pub fn on_their_way(&self) -> u32 {
        self.on_their_way
    }

    /// Units of the read cache.
    pub fn room(&self) -> u32 {
        self.room
    }

    /// Units of the drive: all units are below.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Dies without an operation, waiting or under way; all, if the flash is across a link.
    pub fn idle_dies(&self) -> u32 {
        (self.idle_dies)()
    }

    /// Dies of the drive.
    pub fn dies(&self) -> u32 {
        self.dies
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A random number: the next one of the drive's own sequence, which follows from the scenario's seed.
    pub fn random(&mut self) -> u64 {
        self.random.next_u64()
    }
}
