//! All commands that wait without a command slot.

use crate::config::DriveConfig;
use crate::controller::queue::half::Halves;
use crate::controller::queue::partial::Partials;
use crate::controller::queue::train::Trains;
use byteway_clock::Clock;

/// All commands that wait without a command slot.
pub struct Parked {
    /// Commands that wait for the rest of a train.
    pub trains: Trains,
    /// Commands that wait for the other half of a fused operation.
    pub halves: Halves,
    /// Commands that wait for chunks, and incomplete streams.
    pub partials: Partials,
}

impl Parked {
    /// None.
    pub fn new(clock: &Clock, config: &DriveConfig) -> Self {
        Parked {
            trains: Trains::default(),
            halves: Halves::default(),
            partials: Partials::new(clock, config),
        }
    }

    /// Drops all without completions, as a reset does.
    pub fn clear(&self, queues_max: u16) {
        self.trains.clear();
        self.halves.clear();
        self.partials.clear(queues_max);
    }
}
