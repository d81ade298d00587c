//! Completion queues, and the reapers that look into them.
//!
//! An entry is new when its phase tag says so; the dword that holds the tag is read first, with acquire, because
//! another process may be writing the entry. A reaper takes entries one after the other, each at its cost in
//! processor time, and rings the head doorbell once nothing more is there. An entry with a result behind it is new when all
//! slots of the result are.

use crate::costs::HostCosts;
use crate::port::Port;
use crate::queue::SubmissionQueue;
use byteway_clock::{Clock, Delay, Notify, SpanId, Station};
use byteway_transfer::result::Joining;
use byteway_wire::nvme::vendor::ResultSlot;
use byteway_wire::nvme::{Cqe, Doorbell};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Commands outstanding over all submission queues of a completion queue: a poller rests when there are none.
pub(crate) struct Work {
    outstanding: Cell<u64>,
    arrived: Notify,
}

impl Work {
    pub(crate) fn new(clock: &Clock) -> Self {
        Work { outstanding: Cell::new(0), arrived: Notify::new(clock) }
    }

    pub(crate) fn begin(&self) {
        let outstanding = self.outstanding.get();
        self.outstanding.set(outstanding + 1);
        if outstanding == 0 {
            self.arrived.notify_one();
        }
    }

    pub(crate) fn end(&self) {
        self.outstanding.set(self.outstanding.get() - 1);
    }
}

/// What a completion queue is made of.
pub(crate) struct CompletionConfig {
    pub cqid: u16,
    pub entries: u32,
    pub address: u64,
    pub dstrd: u8,
    /// None: polled.
    pub vector: Option<u16>,
    pub cpu: Rc<Station>,
    pub costs: HostCosts,
    pub protocol_errors: Rc<Cell<u64>>,
}

/// A ring of completions, for one submission queue or several.
pub(crate) struct CompletionQueue {
    pub(crate) cqid: u16,
    pub(crate) entries: u32,
    pub(crate) address: u64,
    pub(crate) vector: Option<u16>,
    pub(crate) work: Rc<Work>,
    clock: Clock,
    port: Port,
    doorbell: u64,
    head: Cell<u32>,
    phase: Cell<bool>,
    /// Entries taken since the doorbell was last rung.
    unrung: Cell<u32>,
    /// In a trace: of which I/Os they are.
    unrung_spans: RefCell<Vec<SpanId>>,
    closed: Cell<bool>,
    /// Results may lie behind completions.
    has_results: Cell<bool>,
    sources: RefCell<Vec<Rc<SubmissionQueue>>>,
    cpu: Rc<Station>,
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
            work: Rc::new(Work::new(&clock)),
            port: port.clone(),
            doorbell: Doorbell::CompletionHead(config.cqid).offset(config.dstrd),
            head: Cell::new(0),
            phase: Cell::new(true),
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

    /// Its bytes in memory.
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

    /// Whether completions of any submission queue come here.
    pub(crate) fn is_used(&self) -> bool {
        !self.sources.borrow().is_empty()
    }

    /// From now on nothing in its memory is an entry: the memory will be another's.
    pub(crate) fn close(&self) {
        self.closed.set(true);
    }

    /// The controller has forgotten the queue: it begins anew, with no entry valid.
    pub(crate) fn restart(&self) {
        let zeroes = [0; Cqe::SIZE];
        for entry in 0..u64::from(self.entries) {
            let written = self.port.memory().write(self.address + entry * Cqe::SIZE as u64, &zeroes);
            written.expect("the ring's memory is the driver's own");
        }
        self.head.set(0);
        self.phase.set(true);
        self.unrung.set(0);
    }

    /// From now on a source may have results behind its completions, or none has any more.
    pub(crate) fn note_results(&self) {
        let sources = self.sources.borrow();
        self.has_results.set(sources.iter().any(|source| source.enabled().inline_result()));
    }

    /// How long the result behind the entry at the head is, if the entry is new and the result is there as a whole.
    fn peek(&self) -> Option<u32> {
        if self.closed.get() {
            return None;
        }
        self.tag(0)?;
        if !self.has_results.get() {
            return Some(0);
        }
        let cqe = Cqe::from_bytes(&self.entry(0)?);
        let sources = self.sources.borrow();
        let source = sources.iter().find(|source| source.qid == cqe.sqid);
        let bytes = source.map_or(0, |source| source.result_behind(&cqe));
        let slots = ResultSlot::count(bytes);
        if slots >= self.entries {
            return Some(0); // it cannot be
        }
        (1..=slots).all(|index| self.tag(index).is_some()).then_some(bytes)
    }

    /// The dword with the phase tag of the entry `index` slots behind the head, if the entry is new, and its address.
    fn tag(&self, index: u32) -> Option<(u64, [u8; 4])> {
        let slot = self.head.get() + index;
        let wraps = slot >= self.entries;
        let slot = if wraps { slot - self.entries } else { slot };
        let address = self.address + u64::from(slot) * Cqe::SIZE as u64;
        let last = self.port.memory().load32(address + 12).ok()?.to_le_bytes();
        let mut entry = [0; Cqe::SIZE];
        entry[12..].copy_from_slice(&last);
        (Cqe::from_bytes(&entry).phase() == (self.phase.get() != wraps)).then_some((address, last))
    }

    /// The entry `index` slots behind the head, if it is new.
    fn entry(&self, index: u32) -> Option<[u8; Cqe::SIZE]> {
        let (address, last) = self.tag(index)?;
        let mut entry = [0; Cqe::SIZE];
        self.port.memory().read(address, &mut entry[..12]).ok()?;
        entry[12..].copy_from_slice(&last);
        Some(entry)
    }

    fn advance(&self, slots: u32) {
        let head = self.head.get() + slots;
        if head >= self.entries {
            self.head.set(head - self.entries);
            self.phase.set(!self.phase.get());
        } else {
            self.head.set(head);
        }
        self.unrung.set(self.unrung.get() + slots);
    }

    /// Takes the entry at the head, if it is new, with the result behind it. `queued` is how long its taking waited for
    /// the processor.
    fn take(&self, queued: Delay) -> Option<()> {
        let bytes = self.peek()?;
        let cqe = Cqe::from_bytes(&self.entry(0)?);
        let sources = self.sources.borrow();
        let source = sources.iter().find(|source| source.qid == cqe.sqid);
        let mut slots = 1;
        let mut believable = true;
        if self.has_results.get()
            && let Some(source) = source
        {
            believable = source.join_result(&cqe, |result| {
                let (parts, is_whole) = self.join(bytes, result);
                slots += parts;
                is_whole
            });
        }
        self.advance(slots);
        if !source.is_some_and(|source| source.complete(cqe, queued)) || !believable {
            self.protocol_errors.set(self.protocol_errors.get() + 1);
        }
        Some(())
    }

    /// Puts a result of `bytes` behind the entry at the head together. Gives how many slots are its, and whether it is
    /// whole. Of a broken one, slots are its up to the first that cannot be a part of it: that is a completion.
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

    /// The I/O whose completion is at the head: for a trace, before the entry is paid for and taken.
    #[cold]
    fn span_at_head(&self) -> SpanId {
        let mut entry = [0; Cqe::SIZE];
        let address = self.address + u64::from(self.head.get()) * Cqe::SIZE as u64;
        if self.port.memory().read(address, &mut entry).is_err() {
            return SpanId::NONE;
        }
        let cqe = Cqe::from_bytes(&entry);
        let sources = self.sources.borrow();
        let source = sources.iter().find(|source| source.qid == cqe.sqid);
        source.map_or(SpanId::NONE, |source| source.span(cqe.cid))
    }

    /// Takes what is there, at once and for nothing: before the queue goes.
    pub(crate) fn drain(&self) {
        for _ in 0..self.entries {
            if self.take(Delay::ZERO).is_none() {
                break;
            }
        }
        self.ring();
    }

    /// Takes entries until none is new, paying for each, and rings.
    async fn reap(&self) {
        // A controller that never ceases must leave time to others, and must get its entries back before they run out.
        let budget = (self.entries / 2).max(1);
        while let Some(result_bytes) = self.peek() {
            let mut queued = Delay::ZERO;
            if self.clock.is_traced() {
                let span = self.span_at_head();
                self.unrung_spans.borrow_mut().push(span);
                self.clock.works_for([span]);
            }
            let cost = self.costs.complete + self.costs.chunk * u64::from(ResultSlot::count(result_bytes));
            if cost > Delay::ZERO {
                let service = self.cpu.reserve_for("complete", cost);
                self.clock.sleep_until(service.end).await;
                queued = service.queued;
            }
            self.take(queued); // a reset may have emptied the queue meanwhile
            if self.unrung.get() >= budget {
                self.ring();
                self.clock.yield_now().await;
            }
        }
        self.ring();
    }
}

/// Reaps one completion queue whenever an entry arrives in it. `arrived` is None where nothing tells.
pub(crate) async fn poll(queue: Rc<CompletionQueue>, arrived: Option<Rc<Notify>>) {
    loop {
        match &arrived {
            Some(arrived) => arrived.notified().await,
            None if queue.work.outstanding.get() == 0 => queue.work.arrived.notified().await,
            None => queue.clock.yield_now().await,
        }
        queue.reap().await;
    }
}

/// Completion queues that share an interrupt vector.
pub(crate) type Sharers = Rc<RefCell<Vec<Rc<CompletionQueue>>>>;

/// Handles one interrupt vector: at each interrupt, reaps every queue that uses it.
pub(crate) async fn handle(queues: Sharers, interrupt: Rc<Notify>, cpu: Rc<Station>, cost: Delay) {
    loop {
        interrupt.notified().await;
        if cost > Delay::ZERO {
            cpu.serve_for("interrupt", cost).await;
        }
        for index in 0.. {
            let queue = queues.borrow().get(index).cloned();
            match queue {
                Some(queue) => queue.reap().await,
                None => break,
            }
        }
    }
}
