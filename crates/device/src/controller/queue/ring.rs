//! Submission and completion queues, as the controller sees them (NVMe Base 2.1, 3.3).

use byteway_clock::{Clock, Notify};
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::{AsyncEvent, Cqe, QueuePriority, Sqe, Status};
use std::cell::{Cell, RefCell};
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

/// How a submission queue is fetched from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetching {
    /// By whoever comes.
    Free,
    /// By one fetch task, which takes the entries in order: no other may.
    Held,
    /// Not any more: where its next command begins can't be known.
    Broken,
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
    /// The ways for payload that the host has enabled.
    pub methods: Cell<Methods>,
    /// How it is fetched from.
    pub fetching: Cell<Fetching>,
    /// Entries that its waiting train still lacks.
    pub missing: Cell<u32>,
    /// Entries that were taken for trains beyond the queue's turn of arbitration.
    pub owed: Cell<u32>,
    /// Its commands are executed for another drive.
    pub is_lent: Cell<bool>,
    /// Places in the completion queue that commands have lent, and need back when the next entries are taken.
    pub lent: Cell<u32>,
    /// The first entries of the reads that are in flight, in the order in which they were taken.
    reads: RefCell<Vec<u32>>,
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
            methods: Cell::default(),
            fetching: Cell::new(Fetching::Free),
            missing: Cell::default(),
            owed: Cell::default(),
            is_lent: Cell::default(),
            lent: Cell::default(),
            reads: RefCell::default(),
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

    /// Entries that could be fetched now: those of one read; or all that a waiting train lacks, if they are there.
    pub fn fetchable(&self) -> u32 {
        if self.fate.get() != Fate::Live || self.fetching.get() != Fetching::Free {
            return 0;
        }
        match self.missing.get() {
            0 => self.contiguous(),
            missing if missing <= self.waiting() => missing,
            _ => 0,
        }
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
        self.consume(1);
        self.completion_queue.reserve();
        self.outstanding.set(self.outstanding.get() + 1);
        (slot, Permit { queue: Some(self.clone()), behind: Cell::default(), is_lent: Cell::default() })
    }

    /// The entry at the head.
    pub fn head(&self) -> u32 {
        self.head.get()
    }

    /// The next `count` entries, which were submitted, are done with.
    pub fn consume(&self, count: u32) {
        debug_assert!(count <= self.waiting(), "the doorbell has exposed them");
        self.head.set(self.after(self.head.get(), count));
    }

    /// The slot `count` entries behind `slot`, at most as many as the ring has.
    pub fn after(&self, slot: u32, count: u32) -> u32 {
        let next = slot + count;
        if next >= self.entries { next - self.entries } else { next }
    }

    /// The entries from `first` to before the head are being read.
    pub fn begin_read(&self, first: u32) {
        self.reads.borrow_mut().push(first);
    }

    /// Whether a read that begins with entry `first` is in flight.
    pub fn is_reading_from(&self, first: u32) -> bool {
        self.reads.borrow().contains(&first)
    }

    /// They have been.
    pub fn end_read(&self, first: u32) {
        let mut reads = self.reads.borrow_mut();
        if let Some(index) = reads.iter().position(|read| *read == first) {
            reads.remove(index);
        }
    }

    /// Up to where the host may place entries again: it could overwrite one that was taken, and not been read yet.
    fn sqhd(&self) -> u16 {
        self.reads.borrow().first().copied().unwrap_or(self.head.get()) as u16
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
pub(crate) fn distance(from: u32, to: u32, entries: u32) -> u32 {
    if to >= from { to - from } else { to + entries - from }
}

/// A command's place in its completion queue: used exactly once. Dropped unused, as a reset does, it gives the place
/// back.
pub struct Permit {
    queue: Option<Rc<SubmissionQueue>>,
    /// Places behind the completion that are reserved for its result.
    behind: Cell<u32>,
    /// Its place is not reserved at the moment.
    is_lent: Cell<bool>,
}

/// Places of a completion queue that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    base: u64,
    entries: u32,
    first: u32,
    phase: bool,
    count: u32,
}

impl Run {
    /// Where they lie, up to the ring's end and from its beginning: addresses, and how many.
    pub fn parts(&self) -> [(u64, u32); 2] {
        let before_end = self.count.min(self.entries - self.first);
        let first = self.base.wrapping_add(u64::from(self.first) * Cqe::SIZE as u64);
        [(first, before_end), (self.base, self.count - before_end)]
    }

    /// The phase tag of place `index`.
    pub fn phase(&self, index: u32) -> bool {
        if self.first + index < self.entries { self.phase } else { !self.phase }
    }
}

impl Permit {
    /// The queue that the command came from.
    pub fn queue(&self) -> &Rc<SubmissionQueue> {
        self.queue.as_ref().expect("a permit is used once")
    }

    /// The completion entry for a command that ended, and where it goes.
    pub fn complete(
        mut self,
        cid: u16,
        status: Status,
        [dw0, dw1]: [u32; 2],
    ) -> (u64, Cqe, Rc<SubmissionQueue>) {
        let queue = self.queue.take().expect("a permit is used once");
        self.unreserve_behind(&queue.completion_queue);
        let (address, phase) = queue.completion_queue.advance();
        let entry = Cqe::new(cid, status, queue.id, queue.sqhd());
        let entry = entry.with_dw0(dw0).with_dw1(dw1).with_phase(phase);
        queue.ended();
        (address, entry, queue)
    }

    /// Reserves `slots` places more, behind the completion, if they are free now.
    pub fn reserve_behind(&self, slots: u32) -> bool {
        let queue = &self.queue().completion_queue;
        let is_free = queue.free() >= slots;
        if is_free {
            queue.reserved.set(queue.reserved.get() + slots);
            self.behind.set(self.behind.get() + slots);
        }
        is_free
    }

    /// The completion entry for a command that ended well, with its result behind it: all places that were reserved.
    pub fn complete_with_result(mut self, cid: u16, [dw0, dw1]: [u32; 2]) -> (Run, Cqe, Rc<SubmissionQueue>) {
        let queue = self.queue.take().expect("a permit is used once");
        let cq = &queue.completion_queue;
        let (first, phase, count) = (cq.tail.get(), cq.phase.get(), 1 + self.behind.get());
        let run = Run { base: cq.base, entries: cq.entries, first, phase, count };
        for _ in 0..count {
            cq.advance();
        }
        let entry = Cqe::new(cid, Status::SUCCESS, queue.id, queue.sqhd());
        let entry = entry.with_dw0(dw0).with_dw1(dw1).with_phase(phase);
        queue.ended();
        (run, entry, queue)
    }

    /// Gives back what was reserved behind the completion.
    fn unreserve_behind(&self, queue: &CompletionQueue) {
        queue.reserved.set(queue.reserved.get() - self.behind.take());
    }

    /// Gives the place back while the command waits for the entry behind it, which needs one, too: of two queues that
    /// complete to the same, each could otherwise hold what the other waits for. The arbiter offers the queue's next
    /// entries only when there is a place for this command besides.
    pub fn lend(&self) {
        let queue = self.queue();
        if !self.is_lent.replace(true) {
            queue.completion_queue.unreserve();
            queue.lent.set(queue.lent.get() + 1);
        }
    }

    /// Takes a place again if it was lent; the completion queue has one.
    pub fn take_back(&self) {
        let queue = self.queue();
        if self.is_lent.replace(false) {
            queue.lent.set(queue.lent.get() - 1);
            queue.completion_queue.reserve();
        }
    }

    /// Whether the command can complete now: it has its place, or there is one.
    pub fn has_place(&self) -> bool {
        !self.is_lent.get() || self.queue().completion_queue.free() > 0
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
        Permit { queue: Some(queue), behind: Cell::default(), is_lent: Cell::default() }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            self.unreserve_behind(&queue.completion_queue);
            match self.is_lent.get() {
                true => queue.lent.set(queue.lent.get() - 1),
                false => queue.completion_queue.unreserve(),
            }
            queue.ended();
        }
    }
}

/// What is wrong with a doorbell write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellError {
    /// No such queue.
    Register,
    /// Not a value that the queue can have.
    Value,
}

impl DoorbellError {
    /// The event that reports it.
    pub fn event(self) -> AsyncEvent {
        match self {
            DoorbellError::Register => AsyncEvent::INVALID_DOORBELL_REGISTER,
            DoorbellError::Value => AsyncEvent::INVALID_DOORBELL_VALUE,
        }
    }
}

/// What a queue has in the buffers.
#[derive(Default)]
pub struct Mirror {
    /// The value that was read last, possible or not.
    pub(crate) seen: Cell<u32>,
    /// The event index that was written last.
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
            let (address, entry, _) = permit.complete(round as u16, Status::SUCCESS, [0; 2]);
            seen.push((address, entry.phase()));
            sq.completion_queue.set_head((round + 1) % 3).unwrap();
        }
        assert_eq!(seen, [(0x1000, true), (0x1010, true), (0x1020, true), (0x1000, false), (0x1010, false)]);
        assert_eq!(sq.completion_queue.set_head(0), Err(DoorbellError::Value), "nothing to consume");
    }

    // A host that is told that an entry is free overwrites it: not before it was read.
    #[test]
    fn entries_that_are_being_read_are_not_free() {
        let (_executor, sq) = pair(8, 8);
        sq.set_tail(5).unwrap();
        let permits: Vec<_> = (0..4).map(|_| sq.take().1).collect();
        sq.begin_read(0);
        sq.begin_read(1);
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
