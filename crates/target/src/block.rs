//! The block layer of the target's system, through which a target commonly hands commands on: `submit_bio` instead of
//! `nvme_queue_rq` (light-weight NVMe-oF, section 4, figures 2 and 4).
//!
//! A command becomes a bio and a request, which takes a tag of its hardware queue, waits for its turn with a scheduler, is
//! dispatched to the driver, and completes through the layer again. Each step is work of the processor that the queue belongs to.
//! A bio that lies next to a request which waits with the scheduler joins that. What has no bio is not passed: of the commands with
//! data only reads and writes are. Applications of the target's own come through the same layer, as
//! [`RequestLayer`]; theirs are not merged.

use crate::merge::{Gathering, Joined, Offer};
use byteway_clock::{Clock, Delay, Notify, Permit, Semaphore, SpanId, Stage, Station};
use byteway_host::request_layer::{RequestLayer, Work};
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Sqe, Status};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What each step of a request costs in processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCosts {
    /// A bio and a request are made, and a tag is taken.
    pub build: Delay,
    /// It is queued with the scheduler and chosen by it; nothing without one.
    pub schedule: Delay,
    /// It is handed to the driver.
    pub dispatch: Delay,
    /// Its completion, from the driver to who has submitted it.
    pub complete: Delay,
}

/// Who chooses which request is dispatched next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// Nobody: requests are dispatched as they come.
    #[default]
    None,
    /// Linux's mq-deadline, without its deadlines: by address, reads before writes but for every third time that writes wait,
    /// under a lock of the device's.
    Deadline,
}

/// What a block layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockConfig {
    /// Steps.
    pub costs: BlockCosts,
    /// Requests that may be under way at once (`nr_requests`).
    pub tags: u32,
    /// Who chooses.
    pub scheduler: Scheduler,
    /// Requests that a scheduler lets be at the drive at once; without one, all that have a tag.
    pub dispatched_max: u32,
}

/// How often reads may pass writes that wait.
const PASSED_MAX: u32 = 2;

/// What waits with a scheduler, by what is chosen first.
#[derive(Default)]
struct Waiting {
    reads: BTreeSet<(u64, u64)>,
    writes: BTreeSet<(u64, u64)>,
    /// Of these, by ticket, what others may join.
    gatherings: BTreeMap<u64, Gathering>,
    /// Where the last request was.
    last: u64,
    /// How often a read was chosen while writes waited.
    passed: u32,
    next: u64,
    dispatched: u32,
    /// The ticket that may go.
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

/// A block layer over one drive. Cheap to clone.
#[derive(Clone)]
pub struct BlockLayer(Rc<Inner>);

/// A request that has been dispatched.
pub(crate) struct BlockRequest {
    layer: BlockLayer,
    span: SpanId,
    cpu: Rc<Station>,
    /// With what has joined it.
    pub(crate) gathering: Option<Gathering>,
    _tag: Permit,
}

/// What has become of a bio.
pub(crate) enum Begun {
    /// A request, which is the driver's turn now.
    Dispatched(BlockRequest),
    /// A part of another.
    Joined(Rc<Joined>),
}

impl BlockLayer {
    /// Over a drive.
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

    /// Requests that it has had.
    pub fn requests(&self) -> u64 {
        self.0.requests.get()
    }

    /// Bios that joined a request instead of becoming one.
    pub fn merged(&self) -> u64 {
        self.0.merged.get()
    }

    /// Makes a request of a command and waits until it is dispatched; or has it join another, if it is offered for that.
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
        spans.charge(span, inner.clock.now(), Stage::Queueing);
        if has_scheduler {
            // Who has the lock works on its own processor.
            let cost = inner.config.costs.schedule;
            let lock = inner.lock.reserve_for("scheduler's lock", cost);
            if lock.queued > Delay::ZERO {
                inner.clock.sleep_until(inner.clock.now() + lock.queued).await;
                spans.charge(span, inner.clock.now(), Stage::Queueing);
            }
            self.work("block layer: schedule", span, cpu, cost).await;
            // What it lies next to may have come meanwhile.
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

    /// Has a bio join a request that waits, if it lies next to one.
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

    /// Lets the next request go, if the drive may have one more.
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
        // Onwards from where the last one was, then from the beginning.
        let next = queue.range((*last, 0)..).next().or_else(|| queue.first()).copied();
        let Some((lba, ticket)) = next else { return };
        queue.remove(&(lba, ticket));
        *last = lba;
        waiting.turn = Some(ticket);
        waiting.dispatched += 1;
        drop(waiting);
        inner.turns.notify_all();
    }
}

/// A request that waits with the scheduler.
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

    /// Waits until it is chosen.
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
        // Given up: the others must not wait for it.
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
        drop(gathering); // the commands that have joined it fail
        self.layer.choose();
    }
}

impl RequestLayer for BlockLayer {
    fn begin<'a>(
        &'a self,
        span: SpanId,
        cpu: &'a Rc<Station>,
        sqe: &'a Sqe,
    ) -> Work<'a, Result<Work<'static, ()>, Status>> {
        Box::pin(async move {
            match self.begin(span, cpu, sqe, None).await? {
                Begun::Dispatched(request) => Ok(Box::pin(request.end()) as Work<'static, ()>),
                Begun::Joined(_) => unreachable!("what is not offered joins nothing"),
            }
        })
    }
}

impl BlockRequest {
    /// The drive has completed it.
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
