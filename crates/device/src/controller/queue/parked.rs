//! All commands that wait without a command slot.

use crate::config::DriveConfig;
use crate::controller::queue::half::Halves;
use crate::controller::queue::partial::Partials;
use crate::controller::queue::train::Trains;
use byteway_clock::Clock;

/// All commands that wait without a command slot.
pub struct Parked {
    /// For the rest of a train.
    pub trains: Trains,
    /// For the other half of a fused operation.
    pub halves: Halves,
    /// For chunks; and streams that are incomplete.
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

    /// Forgets them, as a reset does: they do not complete.
    pub fn clear(&self, queues_max: u16) {
        self.trains.clear();
        self.halves.clear();
        self.partials.clear(queues_max);
    }
}
