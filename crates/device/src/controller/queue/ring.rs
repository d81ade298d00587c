//! Submission and completion queues, as the controller sees them (NVMe Base 2.1, 3.3).
//!
//! A command takes the slot of its completion when it is fetched, and not when it ends: a command that has ended never
//! waits for the host to consume completions while it holds a command slot and its buffers. The price is that a queue
//! fetches no more commands than it has free completions, though some of them would take long.

use byteway_clock::{Clock, Notify, SpanId, Time};
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::{AsyncEvent, Cqe, QueuePriority, Sqe, Status};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// State of a queue that its commands check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueFate {
    /// Commands are executed.
    Live,
    /// The queue is being deleted: they are aborted.
    Deleting,
    /// The controller is being reset: they end without a completion.
    Reset,
}

/// Which reads may take entries of a submission queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetching {
    /// Any.
    Free,
    /// One holds the queue and takes the entries in order.
    Held,
    /// None: where the next command begins is unknown. The host must delete the queue.
    Broken,
}

/// A completion queue. A slot for the completion is reserved when its command is fetched, so a full queue holds up
/// fetching, and never a command that is executing.
pub struct CompletionQueue {
    /// Identifier.
    pub id: u16,
    base: u64,
    entries: u32,
    /// Interrupt vector of its completions; `None`: interrupts are disabled.
    pub vector: Option<u16>,
    head: Cell<u32>,
    tail: Cell<u32>,
    phase: Cell<bool>,
    reserved: Cell<u32>,
    /// Number of submission queues that complete here.
    pub users: Cell<u32>,
    /// Shadow doorbell.
    pub mirror: Mirror,
}

impl CompletionQueue {
    /// An empty queue of `entries` entries at address `base`.
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

    /// Size in entries, used or not.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Index of the first entry that the host has not consumed.
    pub fn head(&self) -> u32 {
        self.head.get()
    }

    fn occupied(&self) -> u32 {
        distance(self.head.get(), self.tail.get(), self.entries)
    }

    /// Entries that may still be reserved. One entry always stays empty, which tells a full queue from an empty one.
    #[inline]
    pub fn free(&self) -> u32 {
        self.entries - 1 - self.occupied() - self.reserved.get()
    }

    /// Entries that are reserved for commands in flight.
    pub fn reserved(&self) -> u32 {
        self.reserved.get()
    }

    fn reserve(&self) {
        debug_assert!(
            self.free() > 0,
            "the arbiter offers no command without a free slot for its completion"
        );
        self.reserved.set(self.reserved.get() + 1);
    }

    fn unreserve(&self) {
        debug_assert!(self.reserved.get() > 0, "a slot is given back twice");
        self.reserved.set(self.reserved.get() - 1);
    }

    /// Uses a reserved entry, the next one: its address and phase.
    fn advance(&self) -> (u64, bool) {
        self.unreserve();
        debug_assert!(
            self.occupied() < self.entries - 1,
            "a completion overwrites one that the host has not consumed"
        );
        let (tail, phase) = (self.tail.get(), self.phase.get());
        let next = if tail + 1 == self.entries { 0 } else { tail + 1 };
        if next == 0 {
            self.phase.set(!phase);
        }
        debug_assert!(next < self.entries, "the tail is within the ring");
        self.tail.set(next);
        // The host chose the base: near the end of the address space the address wraps, to where no memory is.
        (self.base.wrapping_add(u64::from(tail) * Cqe::SIZE as u64), phase)
    }

    /// Takes a write of the head doorbell.
    pub fn set_head(&self, value: u32) -> Result<(), DoorbellError> {
        if value >= self.entries {
            return Err(DoorbellError::Value);
        }
        // The host may move the head only over entries that were posted.
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
    /// The queue where its commands complete.
    pub completion_queue: Rc<CompletionQueue>,
    /// Priority class under weighted round robin.
    pub class: QueuePriority,
    /// Fate of the queue's commands.
    pub fate: Cell<QueueFate>,
    /// Shadow doorbell.
    pub mirror: Mirror,
    /// Transfer methods that the host has enabled.
    pub methods: Cell<Methods>,
    /// Which reads may take its entries.
    pub fetching: Cell<Fetching>,
    /// Entries that its parked train still lacks.
    pub missing: Cell<u32>,
    /// Entries that trains took beyond the queue's turns of arbitration.
    pub owed: Cell<u32>,
    /// Whether the queue's commands are executed for another drive.
    pub is_lent: Cell<bool>,
    /// Completion slots that commands have lent, and need back before further entries are taken.
    pub lent: Cell<u32>,
    /// First entries of the reads in flight, in the order in which they began.
    reads: RefCell<Vec<(u32, u32)>>,
    outstanding: Cell<u32>,
    drained: Notify,
    /// By entry: when its doorbell was taken. Empty unless the drive is watched.
    rung: RefCell<Vec<Time>>,
    clock: Clock,
}

impl SubmissionQueue {
    /// An empty queue of `entries` entries at address `base`.
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
            fate: Cell::new(QueueFate::Live),
            mirror: Mirror::default(),
            methods: Cell::default(),
            fetching: Cell::new(Fetching::Free),
            missing: Cell::default(),
            owed: Cell::default(),
            is_lent: Cell::default(),
            lent: Cell::default(),
            reads: RefCell::default(),
            outstanding: Cell::default(),
            drained: Notify::new(clock),
            rung: RefCell::default(),
            clock: clock.clone(),
        })
    }

    /// Size in entries, used or not.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Index after the last entry that the host has submitted.
    pub fn tail(&self) -> u32 {
        self.tail.get()
    }

    /// Entries that were submitted and not fetched.
    #[inline]
    pub fn waiting(&self) -> u32 {
        distance(self.head.get(), self.tail.get(), self.entries)
    }

    /// Entries that one read can fetch: those up to the ring's end.
    #[inline]
    pub fn contiguous(&self) -> u32 {
        self.waiting().min(self.entries - self.head.get())
    }

    /// Entries that can be fetched now: those of one read; or all that a parked train lacks, once they are submitted.
    #[inline]
    pub fn fetchable(&self) -> u32 {
        if self.head.get() == self.tail.get() {
            return 0; // first, since nearly all queues are empty
        }
        if self.fate.get() != QueueFate::Live || self.fetching.get() != Fetching::Free {
            return 0;
        }
        match self.missing.get() {
            0 => self.contiguous(),
            missing if missing <= self.waiting() => missing,
            _ => 0,
        }
    }

    /// Lets other reads take entries, unless the queue is broken.
    pub fn release(&self) {
        if self.fetching.get() == Fetching::Held {
            self.fetching.set(Fetching::Free);
        }
    }

    /// Takes a write of the tail doorbell.
    pub fn set_tail(&self, value: u32) -> Result<(), DoorbellError> {
        if value >= self.entries {
            return Err(DoorbellError::Value);
        }
        // A tail that claims more than fits would make the controller execute entries of an earlier round.
        let added = distance(self.tail.get(), value, self.entries);
        let free = self.entries - 1 - self.waiting();
        if added == 0 || added > free {
            return Err(DoorbellError::Value);
        }
        self.tail.set(value);
        Ok(())
    }

    /// Notes that the doorbell of the entries from `from` up to the tail was taken at `now`.
    pub fn note_rung(&self, from: u32, now: Time) {
        let mut rung = self.rung.borrow_mut();
        rung.resize(self.entries as usize, Time::ZERO);
        let mut entry = from;
        while entry != self.tail.get() {
            rung[entry as usize] = now;
            entry = self.after(entry, 1);
        }
    }

    /// When the doorbell of an entry was taken, if it was noted.
    pub fn rung_at(&self, entry: u32) -> Option<Time> {
        self.rung.borrow().get(entry as usize).copied()
    }

    /// Takes the entry at the head: its index, and the permit to complete it.
    pub fn take(self: &Rc<Self>) -> (u32, Permit) {
        let slot = self.head.get();
        self.consume(1);
        self.completion_queue.reserve();
        self.outstanding.set(self.outstanding.get() + 1);
        (slot, Permit::of(self.clone()))
    }

    /// Index of the next entry to be fetched.
    pub fn head(&self) -> u32 {
        self.head.get()
    }

    /// Skips the next `count` entries, which must have been submitted.
    pub fn consume(&self, count: u32) {
        debug_assert!(count <= self.waiting(), "only submitted entries can be consumed");
        self.head.set(self.after(self.head.get(), count));
        debug_assert!(self.head.get() < self.entries, "the head is within the ring");
    }

    /// The index `count` entries after `slot`; `count` is at most the size of the ring.
    pub fn after(&self, slot: u32, count: u32) -> u32 {
        let next = slot + count;
        if next >= self.entries { next - self.entries } else { next }
    }

    /// Notes that a read of `count` entries from `first` on is in flight.
    pub fn begin_read(&self, first: u32, count: u32) {
        debug_assert!(first < self.entries, "a read begins within the ring");
        self.reads.borrow_mut().push((first, count));
    }

    /// Whether a read that begins with entry `first` is in flight.
    pub fn is_reading_from(&self, first: u32) -> bool {
        self.reads.borrow().iter().any(|(read, _)| *read == first)
    }

    /// Whether a read of the entries before `first` is in flight: a shorter one that began later may end before it.
    pub fn is_reading_until(&self, first: u32) -> bool {
        self.reads.borrow().iter().any(|(read, count)| self.after(*read, *count) == first)
    }

    /// Notes that the read that began with entry `first` has ended.
    pub fn end_read(&self, first: u32) {
        let mut reads = self.reads.borrow_mut();
        if let Some(index) = reads.iter().position(|(read, _)| *read == first) {
            reads.remove(index);
        }
    }

    /// SQHD: entries before it may be overwritten by the host, so it must not pass an entry whose read is in flight.
    fn sqhd(&self) -> u16 {
        self.reads.borrow().first().map_or(self.head.get(), |(read, _)| *read) as u16
    }

    /// Address of entry `slot`.
    pub fn address(&self, slot: u32) -> u64 {
        self.base.wrapping_add(u64::from(slot) * Sqe::SIZE as u64)
    }

    /// Commands that were taken and have not completed.
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
        debug_assert!(self.outstanding.get() > 0, "more commands have ended than were taken");
        self.outstanding.set(self.outstanding.get() - 1);
        if self.outstanding.get() == 0 {
            self.drained.notify_all();
        }
    }
}

/// Entries from index `from` up to, not including, `to` in a ring of `entries`.
pub(crate) fn distance(from: u32, to: u32, entries: u32) -> u32 {
    if to >= from { to - from } else { to + entries - from }
}

/// The right to complete one command, with a reserved slot in its completion queue. It is used exactly once; dropped
/// unused, as in a reset, it gives the slot back.
pub struct Permit {
    queue: Option<Rc<SubmissionQueue>>,
    /// The span that the device has opened for the command, which ends with the permit.
    span: Cell<SpanId>,
    /// Further slots reserved for the result that follows the completion.
    behind: Cell<u32>,
    /// The slot is lent: not reserved at the moment.
    is_lent: Cell<bool>,
}

/// Consecutive slots of a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRun {
    base: u64,
    entries: u32,
    first: u32,
    phase: bool,
    count: u32,
}

impl SlotRun {
    /// The address and number of the slots up to the ring's end, and of those from its beginning.
    pub fn parts(&self) -> [(u64, u32); 2] {
        let before_end = self.count.min(self.entries - self.first);
        let first = self.base.wrapping_add(u64::from(self.first) * Cqe::SIZE as u64);
        [(first, before_end), (self.base, self.count - before_end)]
    }

    /// The phase tag of slot `index` of the run.
    pub fn phase(&self, index: u32) -> bool {
        if self.first + index < self.entries { self.phase } else { !self.phase }
    }
}

impl Permit {
    fn of(queue: Rc<SubmissionQueue>) -> Permit {
        let span = Cell::new(SpanId::NONE);
        Permit { queue: Some(queue), span, behind: Cell::default(), is_lent: Cell::default() }
    }

    /// Has the span end with the permit.
    pub fn own_span(&self, span: SpanId) {
        self.span.set(span);
    }

    /// The span that ends with the permit; [`SpanId::NONE`]: none.
    #[inline]
    pub fn span(&self) -> SpanId {
        self.span.get()
    }

    /// Takes the span, which no longer ends with the permit.
    #[inline]
    pub fn take_span(&self) -> SpanId {
        self.span.replace(SpanId::NONE)
    }

    /// The queue that the command came from.
    pub fn queue(&self) -> &Rc<SubmissionQueue> {
        self.queue.as_ref().expect("a permit is used once")
    }

    /// Uses the permit for a completion: its address and entry.
    pub fn complete(
        mut self,
        cid: u16,
        status: Status,
        [dw0, dw1]: [u32; 2],
    ) -> (u64, Cqe, Rc<SubmissionQueue>) {
        let queue = self.queue.take().expect("a permit is used once");
        // Without a reserved slot the completion could overwrite one that the host has not consumed.
        debug_assert!(!self.is_lent.get(), "a command completes without a completion slot");
        self.unreserve_behind(&queue.completion_queue);
        let (address, phase) = queue.completion_queue.advance();
        let entry = Cqe::new(cid, status, queue.id, queue.sqhd());
        let entry = entry.with_dw0(dw0).with_dw1(dw1).with_phase(phase);
        queue.ended();
        (address, entry, queue)
    }

    /// Reserves `slots` more slots, after the completion's, if they are free now.
    pub fn reserve_behind(&self, slots: u32) -> bool {
        let queue = &self.queue().completion_queue;
        let is_free = queue.free() >= slots;
        if is_free {
            queue.reserved.set(queue.reserved.get() + slots);
            self.behind.set(self.behind.get() + slots);
        }
        is_free
    }

    /// Uses the permit for a successful completion whose result follows it, in all reserved slots.
    pub fn complete_with_result(
        mut self,
        cid: u16,
        [dw0, dw1]: [u32; 2],
    ) -> (SlotRun, Cqe, Rc<SubmissionQueue>) {
        let queue = self.queue.take().expect("a permit is used once");
        debug_assert!(!self.is_lent.get(), "a command completes without a completion slot");
        let cq = &queue.completion_queue;
        let (first, phase, count) = (cq.tail.get(), cq.phase.get(), 1 + self.behind.get());
        debug_assert!(count < cq.entries, "a result wraps over its own completion");
        let run = SlotRun { base: cq.base, entries: cq.entries, first, phase, count };
        for _ in 0..count {
            cq.advance();
        }
        let entry = Cqe::new(cid, Status::SUCCESS, queue.id, queue.sqhd());
        let entry = entry.with_dw0(dw0).with_dw1(dw1).with_phase(phase);
        queue.ended();
        (run, entry, queue)
    }

    /// Releases the slots reserved for a result.
    fn unreserve_behind(&self, queue: &CompletionQueue) {
        debug_assert!(queue.reserved.get() >= self.behind.get());
        queue.reserved.set(queue.reserved.get() - self.behind.take());
    }

    /// Gives the slot back while the command waits for the next entry, which needs a slot, too. Otherwise two queues
    /// that complete to the same one could each hold the slot that the other waits for. The arbiter offers further
    /// entries of the queue only if a slot for this command is left.
    pub fn lend(&self) {
        debug_assert!(
            self.behind.get() == 0,
            "a result is reserved at the end of a command, after all waits for entries"
        );
        let queue = self.queue();
        if !self.is_lent.replace(true) {
            queue.completion_queue.unreserve();
            queue.lent.set(queue.lent.get() + 1);
        }
    }

    /// Reserves a slot again if it was lent. The completion queue must have a free one.
    pub fn take_back(&self) {
        let queue = self.queue();
        if self.is_lent.replace(false) {
            queue.lent.set(queue.lent.get() - 1);
            queue.completion_queue.reserve();
        }
    }

    /// Whether the command can complete now: its slot is reserved, or one is free.
    pub fn has_place(&self) -> bool {
        !self.is_lent.get() || self.queue().completion_queue.free() > 0
    }

    /// Gives the slot back for a command that may stay outstanding indefinitely (Asynchronous Event Request).
    pub fn park(mut self) -> Rc<SubmissionQueue> {
        let queue = self.queue.take().expect("a permit is used once");
        queue.completion_queue.unreserve();
        queue.ended();
        queue
    }

    /// A permit for a parked command. The completion queue must have a free slot.
    pub fn unpark(queue: Rc<SubmissionQueue>) -> Permit {
        queue.completion_queue.reserve();
        queue.outstanding.set(queue.outstanding.get() + 1);
        Permit::of(queue)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            if self.span() != SpanId::NONE {
                queue.clock.spans().close(self.take_span());
            }
            self.unreserve_behind(&queue.completion_queue);
            match self.is_lent.get() {
                true => queue.lent.set(queue.lent.get() - 1),
                false => queue.completion_queue.unreserve(),
            }
            queue.ended();
        }
    }
}

/// An invalid doorbell write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellError {
    /// No such queue.
    Register,
    /// The value is not possible for the queue.
    Value,
}

impl DoorbellError {
    /// The asynchronous event that reports it.
    pub fn event(self) -> AsyncEvent {
        match self {
            DoorbellError::Register => AsyncEvent::INVALID_DOORBELL_REGISTER,
            DoorbellError::Value => AsyncEvent::INVALID_DOORBELL_VALUE,
        }
    }
}

/// The state of a queue's shadow doorbell.
#[derive(Default)]
pub struct Mirror {
    /// The value read last, valid or not.
    pub(crate) seen: Cell<u32>,
    /// The event index written last.
    pub(crate) event: Cell<u32>,
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

    // A doorbell that claims more than the ring holds would make the controller fetch entries that no host has written.
    #[test]
    fn tail_values_beyond_the_ring_or_its_free_entries_are_refused() {
        let (_executor, sq) = pair(4, 8);
        assert_eq!(sq.set_tail(4), Err(DoorbellError::Value));
        assert_eq!(sq.set_tail(0), Err(DoorbellError::Value));
        assert_eq!(sq.set_tail(3), Ok(()));
        assert_eq!(sq.set_tail(0), Err(DoorbellError::Value), "a full ring has no free entry");
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
            let (address, entry, _) = permit.complete(round as u16, Status::SUCCESS, [0; 2]);
            seen.push((address, entry.phase()));
            sq.completion_queue.set_head((round + 1) % 3).unwrap();
        }
        assert_eq!(seen, [(0x1000, true), (0x1010, true), (0x1020, true), (0x1000, false), (0x1010, false)]);
        assert_eq!(sq.completion_queue.set_head(0), Err(DoorbellError::Value), "nothing to consume");
    }

    // A host overwrites entries that it is told are free: they must have been read.
    #[test]
    fn entries_that_are_being_read_are_not_free() {
        let (_executor, sq) = pair(8, 8);
        sq.set_tail(5).unwrap();
        let permits: Vec<_> = (0..4).map(|_| sq.take().1).collect();
        sq.begin_read(0, 1);
        sq.begin_read(1, 1);
        sq.end_read(1);
        let heads: Vec<_> = permits
            .into_iter()
            .enumerate()
            .map(|(index, permit)| {
                if index == 2 {
                    sq.end_read(0);
                }
                permit.complete(0, Status::SUCCESS, [0; 2]).1.sqhd
            })
            .collect();
        assert_eq!(heads, [0, 0, 4, 4]);
    }

    // A slot that a reset command kept would be lost to the queue.
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
