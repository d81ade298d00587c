//! Room in the write buffer: credits for its free slots.
//!
//! Credits, not a look at the free slots after each wake: tasks that wait are served in order, so a long write is not
//! overtaken by short ones for ever, and what a task has is its own over further waits. The price is a second count of
//! what the buffer counts, which every way out of the buffer has to give back.

use byteway_clock::{Clock, CreditPlace, Permit, Semaphore};

/// The slots of the write buffer that no task has reserved.
pub(in crate::ftl) struct Room {
    credits: Semaphore,
    slots: u32,
}

impl Room {
    /// All of `slots` slots free.
    pub(in crate::ftl) fn new(clock: &Clock, slots: u32) -> Self {
        Room { credits: Semaphore::new(clock, slots as usize), slots }
    }

    /// Total slots.
    pub(in crate::ftl) fn slots(&self) -> u32 {
        self.slots
    }

    /// Free slots.
    pub(in crate::ftl) fn free(&self) -> u32 {
        self.credits.available() as u32
    }

    /// Whether `count` slots can be had without a wait.
    pub(in crate::ftl) fn has(&self, count: u32) -> bool {
        self.free() >= count && self.credits.waiting() == 0
    }

    /// Waits for slots. A permit of fewer means that there will be none any more.
    pub(in crate::ftl) async fn acquire(&self, count: u32) -> Permit {
        self.credits.acquire(count as usize).await
    }

    /// For a call: like [`acquire`](Room::acquire), with a `place` of its own for each wait. `None`: this call is made again when it has
    /// them.
    #[inline]
    pub(in crate::ftl) fn take_or_wait(&self, count: u32, place: &mut CreditPlace) -> Option<u32> {
        self.credits.take_or_wait(count as usize, place).map(|credits| credits as u32)
    }

    /// Takes slots within the call, if they are free and no task waits for any.
    pub(in crate::ftl) fn try_take(&self, count: u32) -> bool {
        self.credits.try_take(count as usize)
    }

    /// Gives slots back.
    pub(in crate::ftl) fn give_back(&self, slots: u32) {
        if slots > 0 {
            self.credits.release(slots as usize);
        }
        debug_assert!(self.free() <= self.slots, "more slots are given back than there are");
    }

    /// Releases every task that waits, with fewer slots than it asked for.
    pub(in crate::ftl) fn close(&self) {
        self.credits.close();
    }
}
