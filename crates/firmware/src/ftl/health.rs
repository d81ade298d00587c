//! Health of the drive and its end of life: after losing more superblocks than it had spares, it is
//! read-only.
//!
//! From then on writes, zeroes and deallocations fail, and reads continue. Buffered data are still programmed
//! as far as space allows; the host's stream may use the garbage collection reserve once no collector has
//! work. When that is exhausted too, a flush fails, so that no task waits for a program that cannot come.

use crate::ftl::config::MediaError;
use crate::ftl::core::Core;
use crate::ftl::state::{EndOfLife, State};
use byteway_clock::{Awaited, Delay, Permit, SpanId, Spans, Stage, Time};

/// Health of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Spare superblocks left, in percent of the factory's number, in the die with the fewest. A drive
    /// without spares has 100 until it loses its first superblock, and then 0.
    pub available_spare_percent: u8,
    /// Threshold below which a host should act.
    pub spare_threshold_percent: u8,
    /// Writes fail: the drive is at its end of life.
    pub is_read_only: bool,
    /// Units that flash could not deliver, to the host or when they were moved.
    pub unreadable: u64,
    /// Superblocks that failed since power-on.
    pub blocks_retired: u64,
}

impl Health {
    /// The usual threshold.
    pub const SPARE_THRESHOLD_PERCENT: u8 = 10;
}

/// A wait for room in the write buffer.
pub(in crate::ftl) struct BufferWait {
    begin: Time,
    /// What the dies had done before it.
    die_time: [Delay; 2],
}

impl Core {
    /// Like [`Core::slots`], for a command: charges the wait to what the dies do meanwhile, since the buffer is
    /// drained by them.
    pub(in crate::ftl) async fn slots_for(
        &self,
        span: SpanId,
        spans: &Spans,
        count: u32,
    ) -> Result<Permit, MediaError> {
        if self.room.has(count) {
            return self.slots(count).await;
        }
        let wait = self.wait_for_buffer();
        let permit = self.slots(count).await;
        self.charge_wait(span, spans, &wait);
        permit
    }

    /// Begins a wait for room in the buffer.
    pub(in crate::ftl) fn wait_for_buffer(&self) -> BufferWait {
        BufferWait { begin: self.clock.now(), die_time: self.flash.die_time() }
    }

    /// Charges the wait, which is over.
    pub(in crate::ftl) fn charge_wait(&self, span: SpanId, spans: &Spans, wait: &BufferWait) {
        let now = self.clock.now();
        let waited = now.since(wait.begin);
        if waited == Delay::ZERO {
            return;
        }
        let rest = self.flash.rested(wait.begin, now);
        let waited = waited - rest;
        let die_time = self.flash.die_time();
        let [hosts, collection] =
            [0, 1].map(|of| u128::from(die_time[of].0.wrapping_sub(wait.die_time[of].0)));
        let share = (u128::from(waited.0) * collection).checked_div(hosts + collection).unwrap_or(0);
        let collection = Delay(share as u64);
        let parts = [
            (Awaited::Throttle, rest),
            (Awaited::BufferCollection, collection),
            (Awaited::Buffer, waited - collection),
        ];
        spans.charge(span, wait.begin, Stage::Queueing); // for a lock, which is not the buffer's
        spans.charge_waits(span, now, parts, Stage::Queueing);
    }

    /// Waits for free slots of the buffer.
    ///
    /// # Errors
    /// [`MediaError::WriteProtected`] if the drive is read-only, also if it becomes so during the wait.
    pub(in crate::ftl) async fn slots(&self, count: u32) -> Result<Permit, MediaError> {
        let permit = self.room.acquire(count).await;
        if permit.credits() < count as usize || self.state.borrow().is_read_only() {
            return Err(MediaError::WriteProtected);
        }
        Ok(permit)
    }

    /// Fails if the drive is read-only.
    pub(in crate::ftl) fn check_writable(&self) -> Result<(), MediaError> {
        if self.state.borrow().is_read_only() { Err(MediaError::WriteProtected) } else { Ok(()) }
    }

    /// Fails if buffered data cannot be programmed any more.
    pub(in crate::ftl) fn check_space(&self) -> Result<(), MediaError> {
        if self.state.borrow().end == EndOfLife::Full { Err(MediaError::WriteProtected) } else { Ok(()) }
    }

    /// Makes the drive read-only, and fails waiting writers.
    pub(in crate::ftl) fn end_life(&self, state: &mut State) {
        if state.is_read_only() {
            return;
        }
        state.end = EndOfLife::ReadOnly;
        self.signals.health_changed.notify_one();
        // Closing releases every task that waits for a slot, with an error.
        self.room.close();
        self.signals.settled.notify_all();
        // A flush may depend on a die whose collector waits for units to become stale.
        self.collectors.call_all();
    }

    /// Counts units that flash could not deliver.
    #[cold]
    pub(in crate::ftl) fn unreadable(&self, units: u32) -> MediaError {
        self.state.borrow_mut().counters.units_unreadable += u64::from(units);
        MediaError::Unreadable
    }
}
