//! Submission and completion queues, as the controller sees them (NVMe Base 2.1, 3.3).

use crate::controller::event::DoorbellError;
use crate::controller::shadow::Mirror;
use byteway_clock::{Clock, Notify};
use byteway_wire::nvme::{Cqe, QueuePriority, Sqe, Status};
use std::cell::Cell;
use std::rc::Rc;

/// What is to become of a queue's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They run.
    Live,
    /// The queue is being deleted: they are aborted.
    Deleting,
    /// The controller is being reset: they end without a completion.
    Reset,
}

/// A completion queue. Room for a completion is reserved when its command is fetched, so a full queue holds up
/// fetching and never a command that has a slot.
pub struct CompletionQueue {
    /// Identifier.
    pub id: u16,
    base: u64,
    entries: u32,
    /// The vector that announces its entries, if it is to.
    pub vector: Option<u16>,
    head: Cell<u32>,
    tail: Cell<u32>,
    phase: Cell<bool>,
    reserved: Cell<u32>,
    /// Submission queues that complete here.
    pub users: Cell<u32>,
    /// Its shadow doorbell.
    pub mirror: Mirror,
}

impl CompletionQueue {
    /// An empty queue of `entries` at `base`.
    pub fn new(id: u16, base: u64, entries: u32, vector: Option<u16>) -> Rc<Self> {
        Rc::new(CompletionQueue {
            id,
            base,
            entries,
            vector,
            head: Cell::default(),
            tail: Cell::default(),
            phase: Cell::new(true),
            reserved: Cell::default(),
            users: Cell::default(),
            mirror: Mirror::default(),
        })
    }

    /// Entries, used or not.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// How far the host has consumed.
    pub fn head(&self) -> u32 {
        self.head.get()
    }

    fn occupied(&self) -> u32 {
        distance(self.head.get(), self.tail.get(), self.entries)
    }

    /// Entries that may still be reserved: a full queue has one empty entry.
    pub fn free(&self) -> u32 {
        self.entries - 1 - self.occupied() - self.reserved.get()
    }

    /// Entries that are reserved for commands under way.
    pub fn reserved(&self) -> u32 {
        self.reserved.get()
    }

    fn reserve(&self) {
        debug_assert!(self.free() > 0, "the arbiter offers no command without room for its completion");
        self.reserved.set(self.reserved.get() + 1);
    }

    fn unreserve(&self) {
        self.reserved.set(self.reserved.get() - 1);
    }

    /// Takes the next entry, which was reserved: its address and phase.
    fn advance(&self) -> (u64, bool) {
        self.unreserve();
        let (tail, phase) = (self.tail.get(), self.phase.get());
        let next = if tail + 1 == self.entries { 0 } else { tail + 1 };
        if next == 0 {
            self.phase.set(!phase);
        }
        self.tail.set(next);
        // The base is the host's: one at the address space's end wraps to where no memory is.
        (self.base.wrapping_add(u64::from(tail) * Cqe::SIZE as u64), phase)
    }

    /// The head doorbell was written.
    pub fn set_head(&self, value: u32) -> Result<(), DoorbellError> {
        if value >= self.entries {
            return Err(DoorbellError::Value);
        }
        let consumed = distance(self.head.get(), value, self.entries);
        if consumed == 0 || consumed > self.occupied() {
            return Err(DoorbellError::Value);
        }
        self.head.set(value);
        Ok(())
    }
}

/// A submission queue.
pub struct SubmissionQueue {
    /// Identifier.
    pub id: u16,
    base: u64,
    entries: u32,
    tail: Cell<u32>,
    head: Cell<u32>,
    /// Where its commands complete.
    pub completion_queue: Rc<CompletionQueue>,
    /// Its class under weighted round robin.
    pub class: QueuePriority,
    /// What is to become of its commands.
    pub fate: Cell<Fate>,
    /// Its shadow doorbell.
    pub mirror: Mirror,
    outstanding: Cell<u32>,
    drained: Notify,
}

impl SubmissionQueue {
    /// An empty queue of `entries` at `base`.
    pub fn new(
        clock: &Clock,
        id: u16,
        base: u64,
        entries: u32,
        completion_queue: Rc<CompletionQueue>,
        class: QueuePriority,
    ) -> Rc<Self> {
        completion_queue.users.set(completion_queue.users.get() + 1);
        Rc::new(SubmissionQueue {
            id,
            base,
            entries,
            tail: Cell::default(),
            head: Cell::default(),
            completion_queue,
            class,
            fate: Cell::new(Fate::Live),
            mirror: Mirror::default(),
            outstanding: Cell::default(),
            drained: Notify::new(clock),
        })
    }

    /// Entries, used or not.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// How far the host has submitted.
    pub fn tail(&self) -> u32 {
        self.tail.get()
    }

    /// Entries that were submitted and not fetched.
    pub fn waiting(&self) -> u32 {
        distance(self.head.get(), self.tail.get(), self.entries)
    }

    /// Entries that can be fetched in one read: up to the ring's end.
    pub fn contiguous(&self) -> u32 {
        self.waiting().min(self.entries - self.head.get())
    }

    /// The tail doorbell was written.
    pub fn set_tail(&self, value: u32) -> Result<(), DoorbellError> {
        if value >= self.entries {
            return Err(DoorbellError::Value);
        }
        let added = distance(self.tail.get(), value, self.entries);
        let free = self.entries - 1 - self.waiting();
        if added == 0 || added > free {
            return Err(DoorbellError::Value);
        }
        self.tail.set(value);
        Ok(())
    }

    /// Takes the entry at the head: its slot, and the right and duty to complete it.
    pub fn take(self: &Rc<Self>) -> (u32, Permit) {
        let slot = self.head.get();
        self.head.set(if slot + 1 == self.entries { 0 } else { slot + 1 });
        self.completion_queue.reserve();
        self.outstanding.set(self.outstanding.get() + 1);
        (slot, Permit { queue: Some(self.clone()) })
    }

    /// Where entry `slot` lies.
    pub fn address(&self, slot: u32) -> u64 {
        self.base.wrapping_add(u64::from(slot) * Sqe::SIZE as u64)
    }

    /// Commands that were taken and not completed.
    pub fn outstanding(&self) -> u32 {
        self.outstanding.get()
    }

    /// Waits until every command that was taken has ended.
    pub async fn drain(&self) {
        while self.outstanding.get() > 0 {
            self.drained.notified().await;
        }
    }

    fn ended(&self) {
        self.outstanding.set(self.outstanding.get() - 1);
        if self.outstanding.get() == 0 {
            self.drained.notify_all();
        }
    }
}

/// Entries from `from` to before `to` in a ring of `entries`.
pub(super) fn distance(from: u32, to: u32, entries: u32) -> u32 {
    if to >= from { to - from } else { to + entries - from }
}

/// A command's place in its completion queue: used exactly once. Dropped unused, as a reset does, it gives the place
/// back.
pub struct Permit {
    queue: Option<Rc<SubmissionQueue>>,
}

impl Permit {
    /// The queue that the command came from.
    pub fn queue(&self) -> &Rc<SubmissionQueue> {
        self.queue.as_ref().expect("a permit is used once")
    }

    /// The completion entry for a command that ended, and where it goes.
    pub fn complete(mut self, cid: u16, status: Status, dw0: u32) -> (u64, Cqe, Rc<SubmissionQueue>) {
        let queue = self.queue.take().expect("a permit is used once");
        let (address, phase) = queue.completion_queue.advance();
        let entry = Cqe::new(cid, status, queue.id, queue.head.get() as u16).with_dw0(dw0).with_phase(phase);
        queue.ended();
        (address, entry, queue)
    }

    /// Gives the place back for a command that may stay outstanding for ever (Asynchronous Event Request).
    pub fn park(mut self) -> Rc<SubmissionQueue> {
        let queue = self.queue.take().expect("a permit is used once");
        queue.completion_queue.unreserve();
        queue.ended();
        queue
    }

    /// A place again for a parked command; the completion queue has room.
    pub fn unpark(queue: Rc<SubmissionQueue>) -> Permit {
        queue.completion_queue.reserve();
        queue.outstanding.set(queue.outstanding.get() + 1);
        Permit { queue: Some(queue) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.completion_queue.unreserve();
            queue.ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::Executor;

    fn pair(sq_entries: u32, cq_entries: u32) -> (Executor, Rc<SubmissionQueue>) {
        let executor = Executor::new();
        let cq = CompletionQueue::new(1, 0x1000, cq_entries, None);
        let sq = SubmissionQueue::new(executor.clock(), 1, 0x2000, sq_entries, cq, QueuePriority::Medium);
        (executor, sq)
    }

    // A doorbell that claims more than the ring holds would make the controller fetch entries nobody wrote.
    #[test]
    fn tail_values_beyond_the_ring_or_its_room_are_refused() {
        let (_executor, sq) = pair(4, 8);
        assert_eq!(sq.set_tail(4), Err(DoorbellError::Value));
        assert_eq!(sq.set_tail(0), Err(DoorbellError::Value));
        assert_eq!(sq.set_tail(3), Ok(()));
        assert_eq!(sq.set_tail(0), Err(DoorbellError::Value), "a full ring has no room");
        let _first = sq.take();
        assert_eq!(sq.set_tail(0), Ok(()));
        assert_eq!(sq.waiting(), 3);
        assert_eq!(sq.contiguous(), 3);
    }

    // Phase and wrap decide whether the host sees a completion at all.
    #[test]
    fn completions_wrap_with_the_phase_turned() {
        let (_executor, sq) = pair(8, 3);
        sq.set_tail(5).unwrap();
        let mut seen = Vec::new();
        for round in 0..5 {
            let (slot, permit) = sq.take();
            assert_eq!(slot, round);
            let (address, entry, _) = permit.complete(round as u16, Status::SUCCESS, 0);
            seen.push((address, entry.phase()));
            sq.completion_queue.set_head((round + 1) % 3).unwrap();
        }
        assert_eq!(seen, [(0x1000, true), (0x1010, true), (0x1020, true), (0x1000, false), (0x1010, false)]);
        assert_eq!(sq.completion_queue.set_head(0), Err(DoorbellError::Value), "nothing to consume");
    }

    // A place that a reset command kept would shrink the queue for ever.
    #[test]
    fn a_dropped_permit_gives_its_place_back() {
        let (_executor, sq) = pair(8, 2);
        sq.set_tail(2).unwrap();
        let (_, permit) = sq.take();
        assert_eq!(sq.completion_queue.free(), 0);
        drop(permit);
        assert_eq!((sq.completion_queue.free(), sq.outstanding()), (1, 0));
    }
}
