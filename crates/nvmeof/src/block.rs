//! The block layer of the target's operating system, through which a target usually submits commands:
//! `submit_bio` instead of `nvme_queue_rq` (light-weight NVMe-oF, section 4, figures 2 and 4).
//!
//! A command becomes a bio and a request. The request takes a tag of its hardware queue, waits for its turn
//! in the scheduler, is dispatched to the driver, and completes through the layer again. Each step takes time
//! on the processor that the queue belongs to. A bio adjacent to a request that waits in the scheduler merges
//! into it. Commands that have no bio are not passed: of the commands with data, only reads and writes are.
//! Local applications of the target use the same layer, as [`RequestLayer`]; their requests are not merged.

use crate::merge::{Gathering, Joined, Offer};
use byteway_clock::{Awaited, Clock, Delay, Notify, Permit, Semaphore, SpanId, Stage, Station};
use byteway_host::{BoxedWork, RequestLayer};
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Sqe, Status};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Processor time of each step of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCosts {
    /// Creating a bio and a request, and taking a tag.
    pub build: Delay,
    /// Queueing it in the scheduler and selecting it; not charged without a scheduler.
    pub schedule: Delay,
    /// Handing it to the driver.
    pub dispatch: Delay,
    /// Its completion, from the driver to the submitter.
    pub complete: Delay,
}

/// The I/O scheduler, which selects the next request to dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// No scheduler: requests are dispatched in order of arrival.
    #[default]
    None,
    /// Linux's mq-deadline, without its deadlines: by address, reads before writes except for every third
    /// time that writes wait, under a lock of the device.
    Deadline,
}

/// Configuration of a block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockConfig {
    /// Processor time of the steps.
    pub costs: BlockCosts,
    /// Outstanding requests, at most (`nr_requests`).
    pub tags: u32,
    /// The I/O scheduler.
    pub scheduler: Scheduler,
    /// Requests that a scheduler allows at the drive at once; without one, all that have a tag.
    pub dispatched_max: u32,
}

/// How many times in a row reads may pass waiting writes.
const PASSED_MAX: u32 = 2;

/// Requests that wait in a scheduler, in the order of selection.
#[derive(Default)]
struct Waiting {
    reads: BTreeSet<(u64, u64)>,
    writes: BTreeSet<(u64, u64)>,
    /// By ticket, the waiting requests that others may merge into.
    gatherings: BTreeMap<u64, Gathering>,
    /// Address of the last request.
    last: u64,
    /// Reads selected in a row while writes waited.
    passed: u32,
    next: u64,
    dispatched: u32,
    /// The ticket that has been selected and has not yet been taken.
    turn: Option<u64>,
}

struct Inner {
    clock: Clock,
    config: BlockConfig,
    tags: Semaphore,
    /// The scheduler's lock.
    lock: Rc<Station>,
    waiting: RefCell<Waiting>,
    turns: Notify,
    requests: Cell<u64>,
    merged: Cell<u64>,
}

/// A block layer on top of one drive. Cheap to clone.
#[derive(Clone)]
pub struct BlockLayer(Rc<Inner>);

/// A dispatched request.
pub(crate) struct BlockRequest {
    layer: BlockLayer,
    span: SpanId,
    cpu: Rc<Station>,
    /// The commands merged into it.
    pub(crate) gathering: Option<Gathering>,
    _tag: Permit,
}

/// Outcome of submitting a bio.
pub(crate) enum Begun {
    /// A request, which goes to the driver now.
    Dispatched(BlockRequest),
    /// It was merged into another request.
    Joined(Rc<Joined>),
}

impl BlockLayer {
    /// A block layer on top of a drive.
    pub fn new(clock: &Clock, config: BlockConfig) -> BlockLayer {
        BlockLayer(Rc::new(Inner {
            clock: clock.clone(),
            tags: Semaphore::new(clock, config.tags.max(1) as usize),
            lock: Rc::new(Station::new(clock, 1)),
            waiting: RefCell::default(),
            turns: Notify::new(clock),
            requests: Cell::default(),
            merged: Cell::default(),
            config,
        }))
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.0.requests.get()
    }

    /// Number of bios that were merged into another request.
    pub fn merged(&self) -> u64 {
        self.0.merged.get()
    }

    /// Creates a request for a command and waits until it is dispatched; or merges it into another, if it is
    /// offered for that.
    pub(crate) async fn begin(
        &self,
        span: SpanId,
        cpu: &Rc<Station>,
        sqe: &Sqe,
        mut offer: Option<Offer<'_>>,
    ) -> Result<Begun, Status> {
        let inner = &self.0;
        let is_read = match NvmOpcode(sqe.opcode()) {
            NvmOpcode::READ => true,
            NvmOpcode::WRITE | NvmOpcode::FLUSH | NvmOpcode::DATASET_MANAGEMENT | NvmOpcode::WRITE_ZEROES => {
                false
            }
            _ => return Err(Status::INVALID_OPCODE.with_dnr()),
        };
        let spans = inner.clock.spans();
        let has_scheduler = inner.config.scheduler == Scheduler::Deadline;
        self.work("block layer: build", span, cpu, inner.config.costs.build).await;
        let mut gathering =
            offer.as_ref().filter(|_| has_scheduler).and_then(|offer| Gathering::of(sqe, offer));
        if let Some(joined) = self.join(gathering.as_ref(), offer.as_mut()) {
            return Ok(Begun::Joined(joined));
        }
        let tag = inner.tags.acquire(1).await;
        spans.wait(span, inner.clock.now(), Awaited::QueueEntry);
        if has_scheduler {
            // The holder of the lock runs on its own processor.
            let cost = inner.config.costs.schedule;
            let lock = inner.lock.reserve_for("scheduler's lock", cost);
            if lock.queued > Delay::ZERO {
                inner.clock.sleep_until(inner.clock.now() + lock.queued).await;
                spans.wait(span, inner.clock.now(), Awaited::TargetCore);
            }
            self.work("block layer: schedule", span, cpu, cost).await;
            // A request adjacent to it may have arrived in the meantime.
            if let Some(joined) = self.join(gathering.as_ref(), offer.as_mut()) {
                return Ok(Begun::Joined(joined));
            }
            let turn = Turn::wait_for(self, is_read, ReadWrite::parse(sqe).slba, gathering);
            gathering = turn.come().await;
            spans.charge(span, inner.clock.now(), Stage::Queueing);
        }
        let request = BlockRequest { layer: self.clone(), span, cpu: cpu.clone(), gathering, _tag: tag };
        self.work("block layer: dispatch", span, cpu, inner.config.costs.dispatch).await;
        inner.requests.set(inner.requests.get() + 1);
        Ok(Begun::Dispatched(request))
    }

    async fn work(&self, what: &'static str, span: SpanId, cpu: &Station, cost: Delay) {
        if cost > Delay::ZERO {
            let service = cpu.serve_for(what, cost).await;
            let now = self.0.clock.now();
            self.0.clock.spans().charge_split(span, now, service.queued, Stage::Target);
        }
    }

    /// Merges a bio into an adjacent waiting request, if there is one.
    fn join(&self, own: Option<&Gathering>, offer: Option<&mut Offer<'_>>) -> Option<Rc<Joined>> {
        let (own, offer) = own.zip(offer)?;
        let mut waiting = self.0.waiting.borrow_mut();
        let Waiting { reads, writes, gatherings, .. } = &mut *waiting;
        let (ticket, gathering) = gatherings.iter_mut().find(|(_, gathering)| gathering.takes(own))?;
        let before = gathering.slba();
        let joined = gathering.join(&self.0.clock, own, offer.data);
        for queue in [reads, writes] {
            if queue.remove(&(before, *ticket)) {
                queue.insert((gathering.slba(), *ticket));
            }
        }
        self.0.merged.set(self.0.merged.get() + 1);
        Some(joined)
    }

    /// Selects the next request, if the drive may have one more.
    fn choose(&self) {
        let inner = &self.0;
        let mut waiting = inner.waiting.borrow_mut();
        if waiting.turn.is_some() || waiting.dispatched >= inner.config.dispatched_max {
            return;
        }
        let Waiting { reads, writes, last, passed, .. } = &mut *waiting;
        let takes_write = reads.is_empty() || (!writes.is_empty() && *passed >= PASSED_MAX);
        *passed = if takes_write || writes.is_empty() { 0 } else { *passed + 1 };
        let queue = if takes_write { writes } else { reads };
        // One-way elevator: upwards from the last address, then from the beginning.
        let next = queue.range((*last, 0)..).next().or_else(|| queue.first()).copied();
        let Some((lba, ticket)) = next else { return };
        queue.remove(&(lba, ticket));
        *last = lba;
        waiting.turn = Some(ticket);
        waiting.dispatched += 1;
        debug_assert!(
            waiting.dispatched <= inner.config.dispatched_max,
            "the scheduler limits the drive's queue"
        );
        drop(waiting);
        inner.turns.notify_all();
    }
}

/// A request that waits in the scheduler.
struct Turn<'a> {
    layer: &'a BlockLayer,
    ticket: u64,
    is_over: bool,
}

impl<'a> Turn<'a> {
    fn wait_for(layer: &'a BlockLayer, is_read: bool, lba: u64, gathering: Option<Gathering>) -> Turn<'a> {
        let mut waiting = layer.0.waiting.borrow_mut();
        let ticket = waiting.next;
        waiting.next += 1;
        let queue = if is_read { &mut waiting.reads } else { &mut waiting.writes };
        queue.insert((lba, ticket));
        if let Some(gathering) = gathering {
            waiting.gatherings.insert(ticket, gathering);
        }
        drop(waiting);
        layer.choose();
        Turn { layer, ticket, is_over: false }
    }

    /// Waits until it is selected.
    async fn come(mut self) -> Option<Gathering> {
        let inner = &self.layer.0;
        while inner.waiting.borrow().turn != Some(self.ticket) {
            inner.turns.notified().await;
        }
        self.is_over = true;
        let gathering = {
            let mut waiting = inner.waiting.borrow_mut();
            waiting.turn = None;
            waiting.gatherings.remove(&self.ticket)
        };
        self.layer.choose();
        gathering
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // The future was dropped: unregister the request, or later ones would wait for it.
        let mut waiting = self.layer.0.waiting.borrow_mut();
        if waiting.turn == Some(self.ticket) {
            waiting.turn = None;
            waiting.dispatched -= 1;
        }
        let ticket = self.ticket;
        waiting.reads.retain(|(_, other)| *other != ticket);
        waiting.writes.retain(|(_, other)| *other != ticket);
        let gathering = waiting.gatherings.remove(&ticket);
        drop(waiting);
        drop(gathering); // the commands merged into it fail
        self.layer.choose();
    }
}

impl RequestLayer for BlockLayer {
    fn begin<'a>(
        &'a self,
        span: SpanId,
        cpu: &'a Rc<Station>,
        sqe: &'a Sqe,
    ) -> BoxedWork<'a, Result<BoxedWork<'static, ()>, Status>> {
        Box::pin(async move {
            match self.begin(span, cpu, sqe, None).await? {
                Begun::Dispatched(request) => Ok(Box::pin(request.end()) as BoxedWork<'static, ()>),
                Begun::Joined(_) => unreachable!("what is not offered joins nothing"),
            }
        })
    }
}

impl BlockRequest {
    /// The drive has completed the request.
    pub(crate) async fn end(self) {
        let layer = self.layer.clone();
        layer.work("block layer: complete", self.span, &self.cpu, layer.0.config.costs.complete).await;
    }
}

impl Drop for BlockRequest {
    fn drop(&mut self) {
        let inner = &self.layer.0;
        if inner.config.scheduler == Scheduler::Deadline {
            inner.waiting.borrow_mut().dispatched -= 1;
            self.layer.choose();
        }
    }
}
