//! The timestamp (NVMe Base 2.1, 5.1.25.1.7): what the host says that the time is, counted on from then.

use byteway_clock::{Delay, Time};
use byteway_wire::nvme::feature::Timestamp;
use std::cell::Cell;

/// The drive's idea of the time of day.
#[derive(Default)]
pub struct Clockwork {
    /// What it was, ms, and when by the drive's own clock.
    set: Cell<Option<(u64, Time)>>,
    /// It was kept while the power was off, and did not count.
    has_stopped: Cell<bool>,
    /// The last reset.
    reset: Cell<Time>,
}

fn ms_since(then: Time, now: Time) -> u64 {
    now.since(then).0 / Delay::from_ms(1).0
}

impl Clockwork {
    /// The host says that it is `milliseconds` since 1970.
    pub fn set(&self, milliseconds: u64, now: Time) {
        self.set.set(Some((milliseconds, now)));
        self.has_stopped.set(false);
    }

    /// The controller is reset: without a host's word, that is when counting begins.
    pub fn reset(&self, now: Time) {
        self.reset.set(now);
    }

    /// What it is now.
    pub fn get(&self, now: Time) -> Timestamp {
        match self.set.get() {
            Some((milliseconds, then)) => Timestamp {
                milliseconds: milliseconds.wrapping_add(ms_since(then, now)),
                origin: Timestamp::SET,
                may_have_stopped: self.has_stopped.get(),
            },
            None => Timestamp {
                milliseconds: ms_since(self.reset.get(), now),
                origin: Timestamp::CLEARED,
                may_have_stopped: false,
            },
        }
    }

    /// What is to be remembered when the power goes.
    pub fn to_keep(&self, now: Time) -> Option<u64> {
        self.set.get().map(|(milliseconds, then)| milliseconds.wrapping_add(ms_since(then, now)))
    }

    /// What was remembered.
    pub fn restore(&self, kept: Option<u64>) {
        self.set.set(kept.map(|milliseconds| (milliseconds, Time::default())));
        self.has_stopped.set(kept.is_some());
    }
}
