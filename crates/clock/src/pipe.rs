//! A pipe: bytes go through one after another at a rate, and then take a while to arrive.

use crate::executor::Clock;
use crate::time::{Delay, Rate, Time};
use std::cell::Cell;

/// One direction of a link, a flash channel, a DRAM port: bandwidth and propagation, FIFO.
///
/// A passage is taken at the moment of the call, never for a future instant, so its order is that of the calls. It
/// can't be given back.
pub struct Pipe {
    clock: Clock,
    rate: Cell<Rate>,
    propagation: Delay,
    free_at: Cell<Time>,
    busy: Cell<Delay>,
    bytes: Cell<u64>,
}

/// What a passage through a pipe takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// How long the first byte waited for those before it.
    pub queued: Delay,
    /// When the last byte has left.
    pub sent: Time,
    /// When the last byte is there.
    pub arrival: Time,
}

impl Pipe {
    /// A pipe of `rate` bytes a second, whose bytes arrive `propagation` after they left.
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

    /// Sends `bytes` from now on, behind what was sent before. The caller waits for what it needs of the passage.
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

    /// Sends `bytes` and waits until the last one is there.
    pub async fn transfer(&self, bytes: u64) -> Passage {
        let passage = self.send(bytes);
        self.clock.sleep_until(passage.arrival).await;
        passage
    }

    /// How long a byte is on its way after it was sent.
    pub fn propagation(&self) -> Delay {
        self.propagation
    }

    /// Bytes a second.
    pub fn rate(&self) -> Rate {
        self.rate.get()
    }

    /// How long it has been sending up to now.
    pub fn busy(&self) -> Delay {
        // What is reserved ahead is one stretch without a gap, up to when the pipe is free.
        self.busy.get().saturating_sub(self.free_at.get().since(self.clock.now()))
    }

    /// Bytes sent in all.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }
}
