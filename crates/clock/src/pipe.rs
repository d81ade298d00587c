//! A pipe: bytes pass one after another at a rate, then arrive after a propagation delay.

use crate::executor::Clock;
use crate::time::{Delay, Rate, Time};
use std::cell::Cell;

/// A FIFO with bandwidth and propagation delay: one direction of a link, a flash channel, a DRAM port.
///
/// A passage is reserved at the moment of the call, never for a future instant, so passages are in call
/// order. A reservation cannot be cancelled.
pub struct Pipe {
    clock: Clock,
    rate: Cell<Rate>,
    propagation: Delay,
    free_at: Cell<Time>,
    busy: Cell<Delay>,
    bytes: Cell<u64>,
}

/// Times of one passage through a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// How long the first byte waited for earlier passages.
    pub queued: Delay,
    /// When the last byte has left the sender.
    pub sent: Time,
    /// When the last byte has arrived.
    pub arrival: Time,
}

impl Pipe {
    /// A pipe of `rate` bytes a second with the propagation delay `propagation`.
    pub fn new(clock: &Clock, rate: Rate, propagation: Delay) -> Self {
        Pipe {
            clock: clock.clone(),
            rate: Cell::new(rate),
            propagation,
            free_at: Cell::default(),
            busy: Cell::default(),
            bytes: Cell::default(),
        }
    }

    /// Reserves the pipe for `bytes` behind everything sent before. The caller waits for whichever time of
    /// the passage it needs.
    #[inline]
    pub fn send(&self, bytes: u64) -> Passage {
        let now = self.clock.now();
        if self.clock.is_immediate() {
            self.bytes.set(self.bytes.get() + bytes);
            return Passage { queued: Delay::ZERO, sent: now, arrival: now };
        }
        let start = self.free_at.get().max(now);
        let duration = self.rate.get().time_for(bytes);
        let sent = start + duration;
        self.free_at.set(sent);
        self.busy.set(self.busy.get() + duration);
        self.bytes.set(self.bytes.get() + bytes);
        Passage { queued: start.since(now), sent, arrival: sent + self.propagation }
    }

    /// Sends `bytes` and waits until the last byte has arrived.
    pub async fn transfer(&self, bytes: u64) -> Passage {
        let passage = self.send(bytes);
        self.clock.sleep_until(passage.arrival).await;
        passage
    }

    /// Propagation delay of a byte.
    pub fn propagation(&self) -> Delay {
        self.propagation
    }

    /// Bandwidth in bytes a second.
    pub fn rate(&self) -> Rate {
        self.rate.get()
    }

    /// Time spent sending up to now.
    pub fn busy(&self) -> Delay {
        // Reservations ahead form one stretch without a gap, which ends at `free_at`.
        self.busy.get().saturating_sub(self.free_at.get().since(self.clock.now()))
    }

    /// Total bytes sent, reservations included.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }
}
