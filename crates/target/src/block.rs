//! The block layer of the target's system, through which a target commonly hands commands on: `submit_bio` instead of
//! `nvme_queue_rq` (light-weight NVMe-oF, section 4, figures 2 and 4).
//!
//! A command becomes a bio and a request, which takes a tag of its hardware queue, waits for its turn with a scheduler, is
//! dispatched to the driver, and completes through the layer again. Each step is work of the processor that the queue belongs to.
//! What has no bio is not passed: of the commands with data only reads and writes are.

use crate::path::Errand;
use byteway_clock::{Clock, Delay, Notify, Permit, Semaphore, Stage, Station};
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Sqe, Status};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
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
}

/// A block layer over one drive. Cheap to clone.
#[derive(Clone)]
pub struct BlockLayer(Rc<Inner>);

/// A request that has been dispatched.
pub(crate) struct BlockRequest {
    layer: BlockLayer,
    errand: Errand,
    cpu: Rc<Station>,
    _tag: Permit,
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
            config,
        }))
    }

    /// Requests that it has had.
    pub fn requests(&self) -> u64 {
        self.0.requests.get()
    }

    /// Makes a request of a command and waits until it is dispatched.
    pub(crate) async fn begin(
        &self,
        errand: Errand,
        cpu: &Rc<Station>,
        sqe: &Sqe,
    ) -> Result<BlockRequest, Status> {
        let inner = &self.0;
        let is_read = match NvmOpcode(sqe.opcode()) {
            NvmOpcode::READ => true,
            NvmOpcode::WRITE | NvmOpcode::FLUSH | NvmOpcode::DATASET_MANAGEMENT | NvmOpcode::WRITE_ZEROES => {
                false
            }
            _ => return Err(Status::INVALID_OPCODE.with_dnr()),
        };
        let spans = inner.clock.spans();
        self.work("block layer: build", errand, cpu, inner.config.costs.build).await;
        let tag = inner.tags.acquire(1).await;
        spans.charge(errand.span, inner.clock.now(), Stage::Queueing);
        if inner.config.scheduler == Scheduler::Deadline {
            // Who has the lock works on its own processor.
            let cost = inner.config.costs.schedule;
            let lock = inner.lock.reserve_for("scheduler's lock", cost);
            if lock.queued > Delay::ZERO {
                inner.clock.sleep_until(inner.clock.now() + lock.queued).await;
                spans.charge(errand.span, inner.clock.now(), Stage::Queueing);
            }
            self.work("block layer: schedule", errand, cpu, cost).await;
            self.turn(is_read, ReadWrite::parse(sqe).slba).await;
            spans.charge(errand.span, inner.clock.now(), Stage::Queueing);
        }
        self.work("block layer: dispatch", errand, cpu, inner.config.costs.dispatch).await;
        inner.requests.set(inner.requests.get() + 1);
        Ok(BlockRequest { layer: self.clone(), errand, cpu: cpu.clone(), _tag: tag })
    }

    async fn work(&self, what: &'static str, errand: Errand, cpu: &Station, cost: Delay) {
        if cost > Delay::ZERO {
            let service = cpu.serve_for(what, cost).await;
            let now = self.0.clock.now();
            self.0.clock.spans().charge_split(errand.span, now, service.queued, Stage::Target);
        }
    }

    /// Waits until the scheduler chooses a request at `lba`.
    async fn turn(&self, is_read: bool, lba: u64) {
        let inner = &self.0;
        let ticket = {
            let mut waiting = inner.waiting.borrow_mut();
            let ticket = waiting.next;
            waiting.next += 1;
            if is_read {
                waiting.reads.insert((lba, ticket))
            } else {
                waiting.writes.insert((lba, ticket))
            };
            ticket
        };
        self.choose();
        while inner.waiting.borrow().turn != Some(ticket) {
            inner.turns.notified().await;
        }
        inner.waiting.borrow_mut().turn = None;
        self.choose();
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

impl BlockRequest {
    /// The drive has completed it.
    pub(crate) async fn end(self) {
        let layer = self.layer.clone();
        layer.work("block layer: complete", self.errand, &self.cpu, layer.0.config.costs.complete).await;
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
