//! A policy of admission, and what it sees.

use byteway_clock::random::Stream as Random;

/// Decides what the read cache keeps. One is made for each drive; it may keep state, which a power cut forgets.
pub trait Admission {
    /// Whether a unit that the cache did not have is kept.
    fn admits(&mut self, view: &mut AdmissionView<'_>) -> bool;

    /// The host has read a unit that the cache has. `capacity` is that of the cache, in units.
    fn found(&mut self, unit: u64, capacity: u32) {
        let _ = (unit, capacity);
    }

    /// What went wrong, if it did. The run ends with it.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// What a policy sees: a unit that was read from flash.
pub struct AdmissionView<'a> {
    pub(crate) unit: u64,
    pub(crate) units: u64,
    pub(crate) capacity: u32,
    pub(crate) victim: Option<u64>,
    pub(crate) random: &'a mut Random,
}

impl AdmissionView<'_> {
    /// Its logical number, in units of 4 KiB.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Units of the drive: all units are below.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Units of the cache.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The unit that would make place for it; none while the cache has room.
    pub fn victim(&self) -> Option<u64> {
        self.victim
    }

    /// A random number: the next one of the drive's own sequence, which follows from the scenario's seed.
    pub fn random(&mut self) -> u64 {
        self.random.next_u64()
    }
}
