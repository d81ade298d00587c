//! Completion queues, and the reapers that take completions from them.
//!
//! An entry is new when its phase tag says so. It is read once, the tag first and with acquire, because another process
//! may be writing it ([`Memory::load_entry`](byteway_link::Memory::load_entry)). A reaper takes entries one after
//! another, charging each to the processor, and writes the head doorbell when there are no more. An entry with a result
//! after it is new when all slots of the result are.
//!
//! The doorbell is written after a run of entries, or half a ring of them, not after each: a write crosses the link and
//! costs the processor. The device meanwhile has fewer free entries than the host has read, which half a ring bounds.

use crate::driver::costs::HostCosts;
use crate::driver::port::Port;
use crate::driver::queue::SubmissionQueue;
use byteway_clock::{Clock, Delay, Handler, Notify, SpanId, Station, Time};
use byteway_link::Watch;
use byteway_transfer::result::Joining;
use byteway_wire::nvme::vendor::ResultSlot;
use byteway_wire::nvme::{Cqe, Doorbell};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The completion at the head of a queue, and the length of the result after it.
#[derive(Clone, Copy)]
struct Head {
    cqe: Cqe,
    result_bytes: u32,
}

/// Number of outstanding commands over all submission queues of a completion queue: a poller rests while it is zero.
pub(crate) struct OutstandingCommands {
    outstanding: Cell<u64>,
    arrived: Notify,
}

impl OutstandingCommands {
    pub(crate) fn new(clock: &Clock) -> Self {
        OutstandingCommands { outstanding: Cell::new(0), arrived: Notify::new(clock) }
    }

    pub(crate) fn begin(&self) {
        let outstanding = self.outstanding.get();
        self.outstanding.set(outstanding + 1);
        if outstanding == 0 {
            self.arrived.notify_one();
        }
    }

    pub(crate) fn end(&self) {
        debug_assert!(self.outstanding.get() > 0, "more commands have ended than begun");
        self.outstanding.set(self.outstanding.get() - 1);
    }
}

/// Parameters of a completion queue.
pub(crate) struct CompletionConfig {
    pub cqid: u16,
    pub entries: u32,
    pub address: u64,
    pub dstrd: u8,
    /// `None`: polled.
    pub vector: Option<u16>,
    pub cpu: Rc<Station>,
    pub costs: HostCosts,
    pub protocol_errors: Rc<Cell<u64>>,
}

/// A completion ring, for one or several submission queues.
pub(crate) struct CompletionQueue {
    pub(crate) cqid: u16,
    pub(crate) entries: u32,
    pub(crate) address: u64,
    pub(crate) vector: Option<u16>,
    pub(crate) work: Rc<OutstandingCommands>,
    clock: Clock,
    port: Port,
    doorbell: u64,
    head: Cell<u32>,
    phase: Cell<bool>,
    /// Changes when the entry that was examined may be another one: when entries are taken, at resets, at the end, and
    /// when results become possible.
    version: Cell<u64>,
    /// Entries taken since the last doorbell write.
    unrung: Cell<u32>,
    /// Spans of their I/Os, in a trace.
    unrung_spans: RefCell<Vec<SpanId>>,
    closed: Cell<bool>,
    /// Results may follow completions.
    has_results: Cell<bool>,
    sources: RefCell<Vec<Rc<SubmissionQueue>>>,
    pub(crate) cpu: Rc<Station>,
    costs: HostCosts,
    protocol_errors: Rc<Cell<u64>>,
}

impl CompletionQueue {
    pub(crate) fn new(port: &Port, config: CompletionConfig) -> Self {
        let clock = port.clock().clone();
        CompletionQueue {
            cqid: config.cqid,
            entries: config.entries,
            address: config.address,
            vector: config.vector,
            work: Rc::new(OutstandingCommands::new(&clock)),
            port: port.clone(),
            doorbell: Doorbell::CompletionHead(config.cqid).offset(config.dstrd),
            head: Cell::new(0),
            phase: Cell::new(true),
            version: Cell::new(0),
            unrung: Cell::new(0),
            unrung_spans: RefCell::default(),
            closed: Cell::new(false),
            has_results: Cell::new(false),
            sources: RefCell::default(),
            cpu: config.cpu,
            costs: config.costs,
            protocol_errors: config.protocol_errors,
            clock,
        }
    }

    /// Size in memory, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.entries) * Cqe::SIZE as u64
    }

    pub(crate) fn add(&self, source: Rc<SubmissionQueue>) {
        self.sources.borrow_mut().push(source);
    }

    /// Removes a submission queue.
    pub(crate) fn remove(&self, qid: u16) {
        self.sources.borrow_mut().retain(|source| source.qid != qid);
    }

    /// Whether any submission queue completes here.
    pub(crate) fn is_used(&self) -> bool {
        !self.sources.borrow().is_empty()
    }

    /// Stops taking entries: its memory will be reused.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.changed();
    }

    /// Clears the ring after the controller was reset: no entry is valid.
    pub(crate) fn restart(&self) {
        let zeroes = [0; Cqe::SIZE];
        for entry in 0..u64::from(self.entries) {
            let written = self.port.memory().write(self.address + entry * Cqe::SIZE as u64, &zeroes);
            written.expect("the ring's memory is the driver's own");
        }
        self.head.set(0);
        self.phase.set(true);
        self.unrung.set(0);
        self.changed();
    }

    fn changed(&self) {
        self.version.set(self.version.get() + 1);
    }

    /// Updates whether results may follow completions, after methods were enabled or disabled.
    pub(crate) fn note_results(&self) {
        let sources = self.sources.borrow();
        self.has_results.set(sources.iter().any(|source| source.enabled().inline_result()));
        self.changed();
    }

    /// The entry at the head, if it and the result after it are complete.
    #[inline]
    fn peek(&self) -> Option<Head> {
        if self.closed.get() {
            return None;
        }
        let cqe = Cqe::from_bytes(&self.entry(0)?);
        let result_bytes = if self.has_results.get() { self.result_behind(&cqe)? } else { 0 };
        Some(Head { cqe, result_bytes })
    }

    /// Length of the result after the entry at the head, if it is complete.
    #[cold]
    fn result_behind(&self, cqe: &Cqe) -> Option<u32> {
        let sources = self.sources.borrow();
        let source = sources.iter().find(|source| source.qid == cqe.sqid);
        let bytes = source.map_or(0, |source| source.result_behind(cqe));
        let slots = ResultSlot::count(bytes);
        if slots >= self.entries {
            return Some(0); // impossible length
        }
        (1..=slots).all(|index| self.entry(index).is_some()).then_some(bytes)
    }

    /// The entry `index` slots after the head, if it is new.
    #[inline]
    fn entry(&self, index: u32) -> Option<[u8; Cqe::SIZE]> {
        let slot = self.head.get() + index;
        let wraps = slot >= self.entries;
        let slot = if wraps { slot - self.entries } else { slot };
        let address = self.address + u64::from(slot) * Cqe::SIZE as u64;
        let entry = self.port.memory().load_entry(address).ok()?;
        (Cqe::from_bytes(&entry).phase() == (self.phase.get() != wraps)).then_some(entry)
    }

    fn advance(&self, slots: u32) {
        debug_assert!(slots > 0 && slots <= self.entries, "a result wraps over its own completion");
        let head = self.head.get() + slots;
        if head >= self.entries {
            self.head.set(head - self.entries);
            self.phase.set(!self.phase.get());
        } else {
            self.head.set(head);
        }
        debug_assert!(self.head.get() < self.entries, "the head is within the ring");
        self.unrung.set(self.unrung.get() + slots);
        self.changed();
    }

    /// Takes the entry at the head, and its result. `queued`: how long the work waited for the processor.
    fn take(&self, Head { cqe, result_bytes }: Head, queued: Delay) {
        let sources = self.sources.borrow();
        let source = sources.iter().find(|source| source.qid == cqe.sqid);
        let (slots, is_believable) = match source {
            Some(source) if self.has_results.get() => self.take_result(source, &cqe, result_bytes),
            _ => (1, true),
        };
        self.advance(slots);
        if !source.is_some_and(|source| source.complete(cqe, queued)) || !is_believable {
            self.protocol_errors.set(self.protocol_errors.get() + 1);
        }
    }

    /// Number of slots of an entry and its result, and whether the result has the agreed form.
    #[cold]
    fn take_result(&self, source: &SubmissionQueue, cqe: &Cqe, bytes: u32) -> (u32, bool) {
        let mut slots = 1;
        let is_believable = source.join_result(cqe, |result| {
            let (parts, is_whole) = self.join(bytes, result);
            slots += parts;
            is_whole
        });
        (slots, is_believable)
    }

    /// Assembles the result of `bytes` bytes after the entry at the head. Returns the number of its slots, and whether
    /// it is complete. A broken result ends at the first slot that can't be part of it, which is a completion.
    fn join(&self, bytes: u32, result: &mut Vec<u8>) -> (u32, bool) {
        let mut joining = Joining::new(bytes);
        let (parts, mut is_whole) = (ResultSlot::count(bytes), bytes > 0);
        for index in 1..=parts {
            let Some(entry) = self.entry(index) else { return (index - 1, false) };
            let slot = ResultSlot::from_bytes(&entry);
            if slot.part() == 0 || u32::from(slot.part()) > parts {
                return (index - 1, false);
            }
            is_whole &= joining.add(&slot, result).is_ok();
        }
        (parts, is_whole)
    }

    fn ring(&self) {
        if self.unrung.replace(0) == 0 {
            return;
        }
        if self.clock.is_traced() {
            self.clock.works_for(self.unrung_spans.borrow_mut().drain(..));
        }
        match self.cqid {
            0 => self.port.ring(self.doorbell, self.head.get()),
            _ => self.port.ring_head(self.doorbell, self.head.get()),
        }
        if self.costs.doorbell > Delay::ZERO {
            self.cpu.reserve_for("ring", self.costs.doorbell); // it holds up what comes next, not what was reaped
        }
        self.clock.works_for([]);
    }

    /// Records in a trace which completion is about to be charged and taken.
    #[cold]
    fn trace(&self, cqe: &Cqe) {
        let sources = self.sources.borrow();
        let source = sources.iter().find(|source| source.qid == cqe.sqid);
        let span = source.map_or(SpanId::NONE, |source| source.span(cqe.cid));
        self.unrung_spans.borrow_mut().push(span);
        self.clock.works_for([span]);
    }

    /// Takes all completions at once, without charges, before the queue is removed.
    pub(crate) fn drain(&self) {
        for _ in 0..self.entries {
            match self.peek() {
                Some(head) => self.take(head, Delay::ZERO),
                None => break,
            }
        }
        self.ring();
    }

    /// Takes new entries, as far as it goes without a wait, and writes the doorbell after the last. `charged` is the one that is being
    /// charged, from one of these calls to the next.
    fn reap(&self, charged: &mut Option<Charged>) -> Reaped {
        // With a controller that never pauses, other tasks must still run, and entries must be returned before they run
        // out.
        let budget = (self.entries / 2).max(1);
        if let Some(Charged { head, version, queued, .. }) = charged.take() {
            // Meanwhile a reset may have cleared the queue, or it was drained: then take what is there now.
            let head = if self.version.get() == version { Some(head) } else { self.peek() };
            if let Some(head) = head {
                self.take(head, queued);
            }
        }
        loop {
            if self.unrung.get() >= budget {
                self.ring();
                return Reaped::Yields;
            }
            let Some(head) = self.peek() else { break };
            if self.clock.is_traced() {
                self.trace(&head.cqe);
            }
            let mut cost = self.costs.complete;
            if head.result_bytes > 0 {
                cost += self.costs.chunk * u64::from(ResultSlot::count(head.result_bytes));
            }
            if cost > Delay::ZERO {
                let service = self.cpu.reserve_for("complete", cost);
                let (version, queued, until) = (self.version.get(), service.queued, service.end);
                *charged = Some(Charged { head, version, queued, until });
                return Reaped::Until(service.end);
            }
            self.take(head, Delay::ZERO);
        }
        self.ring();
        Reaped::All
    }

    /// Takes all new entries, charging each, and writes the doorbell.
    async fn reap_all(&self) {
        let mut charged = None;
        loop {
            match self.reap(&mut charged) {
                Reaped::Until(at) => self.clock.sleep_until(at).await,
                Reaped::Yields => self.clock.yield_now().await,
                Reaped::All => return,
            }
        }
    }
}

/// An entry that the processor works for.
struct Charged {
    head: Head,
    /// The queue's version when it was read.
    version: u64,
    /// How long the work waited for the processor, and its end.
    queued: Delay,
    until: Time,
}

/// How far entries were taken.
enum Reaped {
    /// The next one is taken at this instant.
    Until(Time),
    /// Others run first.
    Yields,
    /// All of them.
    All,
}

/// Has a call reap a completion queue whenever an entry arrives.
pub(crate) fn reap_by_calls(queue: Rc<CompletionQueue>, arrived: Watch) -> Handler {
    let clock = queue.clock.clone();
    let (reaps, charged) = (Cell::new(false), RefCell::new(None::<Charged>));
    let calls = clock.handle(move |_| {
        let charged = &mut *charged.borrow_mut();
        // A timer for an entry that was taken before it may still be armed.
        let is_early = |charged: &Charged| queue.clock.now() < charged.until && !queue.clock.is_immediate();
        if charged.as_ref().is_some_and(is_early) {
            return;
        }
        if let Some(charged) = &*charged {
            queue.clock.note_call(charged.until);
        }
        loop {
            if !reaps.get() && !arrived.has_arrived() {
                return;
            }
            reaps.set(true);
            match queue.reap(charged) {
                Reaped::Until(at) if queue.clock.has_passed(at) => {}
                Reaped::Until(_) => return,
                Reaped::Yields => return queue.clock.wake(queue.clock.current()),
                Reaped::All => reaps.set(false),
            }
        }
    });
    clock.wake(calls.with(0));
    calls
}

/// Reaps a completion queue whose arrivals are not signalled.
pub(crate) async fn poll(queue: Rc<CompletionQueue>) {
    loop {
        match queue.work.outstanding.get() {
            0 => queue.work.arrived.notified().await,
            _ => queue.clock.yield_now().await,
        }
        queue.reap_all().await;
    }
}

/// Completion queues that share an interrupt vector.
pub(crate) type Sharers = Rc<RefCell<Vec<Rc<CompletionQueue>>>>;

/// Handles an interrupt vector: at each interrupt, reaps every queue that uses it.
pub(crate) async fn handle(queues: Sharers, interrupt: Rc<Notify>, cpu: Rc<Station>, cost: Delay) {
    loop {
        interrupt.notified().await;
        if cost > Delay::ZERO {
            cpu.serve_for("interrupt", cost).await;
        }
        for index in 0.. {
            let queue = queues.borrow().get(index).cloned();
            match queue {
                Some(queue) => queue.reap_all().await,
                None => break,
            }
        }
    }
}
