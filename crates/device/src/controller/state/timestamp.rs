//! The timestamp (NVMe Base 2.1, 5.1.25.1.7): the host's time of day, advanced by the drive's clock.

use byteway_clock::{Delay, Time};
use byteway_wire::nvme::feature::Timestamp;
use std::cell::Cell;

/// The drive's time of day.
#[derive(Default)]
pub struct Clockwork {
    /// The time that was set, in ms, and the clock's time at that moment.
    set: Cell<Option<(u64, Time)>>,
    /// Whether it was restored after a power-off, during which it stood still.
    has_stopped: Cell<bool>,
    /// The last reset.
    reset: Cell<Time>,
}

fn ms_since(then: Time, now: Time) -> u64 {
    now.since(then).0 / Delay::from_ms(1).0
}

impl Clockwork {
    /// Sets the time: `milliseconds` since 1970.
    pub fn set(&self, milliseconds: u64, now: Time) {
        self.set.set(Some((milliseconds, now)));
        self.has_stopped.set(false);
    }

    /// Notes a controller reset: without a host's value, time counts from there.
    pub fn reset(&self, now: Time) {
        self.reset.set(now);
    }

    /// The timestamp at `now`.
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

    /// The value for the record, in ms.
    pub fn to_keep(&self, now: Time) -> Option<u64> {
        self.set.get().map(|(milliseconds, then)| milliseconds.wrapping_add(ms_since(then, now)))
    }

    /// Restores the value of the record.
    pub fn restore(&self, kept: Option<u64>) {
        self.set.set(kept.map(|milliseconds| (milliseconds, Time::default())));
        self.has_stopped.set(kept.is_some());
    }
}
