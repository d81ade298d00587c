//! Payloads that the processor stores to device memory over CXL.mem, before their command: to an area of the payload's
//! buffer, or, for values of a KV namespace, directly to their position in the page buffer, which has one owner. There,
//! a record ([`commit`](crate::driver::commit)) may replace the command.

use crate::carrier::Carrier;
use crate::driver::buffer::IoBuffer;
use crate::driver::buffer::Part;
use crate::driver::commit::Commits;
use crate::driver::page_owner::PageOwner;
use crate::driver::queue::{QueuePair, Request};
use crate::error::Lost;
use byteway_clock::{Delay, Permit, SpanId, Stage};
use byteway_link::{Lines, StoreOrdering};
use byteway_transfer::Ordering;
use byteway_transfer::cxl_mem::{Outcome, StoreWait};
use byteway_wire::IntoBytes;
use byteway_wire::nvme::kv::Store;
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::vendor::commit::CommitRecord;
use byteway_wire::nvme::vendor::cxl::{InDeviceMemory, Large};
use byteway_wire::nvme::{Cqe, Sqe, Status};

/// Attempts to place a value whose position the controller refuses, before another method is used.
const TRIES: u32 = 3;
/// Page Pointer commands per wait for free space.
const QUESTIONS: u32 = 3;

impl PageOwner {
    /// Takes a position for a value of `bytes`, at most a page.
    async fn place(&self, queue: &QueuePair, bytes: u32) -> Result<Placed<'_>, Lost> {
        let _turn = self.line.acquire(1).await;
        let mut questions = 0;
        loop {
            let placed = self.page.borrow_mut().place(bytes);
            match placed {
                Ok(position) => return Ok(Placed { owner: self, position, is_done: false }),
                Err(StoreWait::Completions) => self.changed.notified().await,
                Err(StoreWait::Pointer(_)) if questions == QUESTIONS => return Err(Lost::NotPlaced),
                Err(StoreWait::Pointer(question)) => {
                    let needs = Methods::new().with_cxl_mem(true);
                    let request = Request { needs, ..question.sqe(0, self.log.nsid).into() };
                    let answer = queue.execute(request).await?;
                    if !answer.status().is_success() {
                        return Err(Lost::NotPlaced);
                    }
                    self.page.borrow_mut().learn(answer.dw0, answer.dw1);
                    questions += 1;
                }
            }
        }
    }

    /// Waits until a store that the controller places may begin.
    pub(crate) async fn other(&self) -> OtherStore<'_> {
        let _turn = self.line.acquire(1).await;
        loop {
            let begun = self.page.borrow_mut().begin_other();
            match begun {
                Ok(()) => return OtherStore { owner: self, is_done: false },
                Err(_) => self.changed.notified().await,
            }
        }
    }
}

/// A value's position, until its command ends. The outcome of a command that no task waits for is unknown.
struct Placed<'a> {
    owner: &'a PageOwner,
    position: u32,
    is_done: bool,
}

impl Placed<'_> {
    /// Device address.
    fn address(&self) -> u64 {
        let placing = *self.owner.page.borrow().placing();
        u64::from(self.owner.log.buffer_offset) + u64::from(placing.offset(self.position))
    }

    fn complete(mut self, ended: &Result<Cqe, Lost>) {
        self.end(match ended {
            Ok(cqe) if cqe.status().is_success() => Outcome::Limit(cqe.dw1),
            Ok(cqe) if !is_misplaced(cqe) => Outcome::Refused,
            _ => Outcome::Lost,
        });
    }

    fn end(&mut self, outcome: Outcome) {
        self.is_done = true;
        self.owner.page.borrow_mut().complete(outcome);
        self.owner.changed.notify_one();
    }
}

impl Drop for Placed<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.end(Outcome::Lost);
        }
    }
}

/// A store whose position the controller selects, until it ends.
pub(crate) struct OtherStore<'a> {
    owner: &'a PageOwner,
    is_done: bool,
}

impl OtherStore<'_> {
    /// Ends the store. `says_places`: the queue is enabled for CXL.mem, so the completion reports the
    /// position of the value.
    pub(crate) fn complete(mut self, ended: Result<Cqe, Lost>, bytes: u32, says_places: bool) {
        self.is_done = true;
        let mut page = self.owner.page.borrow_mut();
        match ended {
            Ok(cqe) if cqe.status().is_success() && says_places => {
                page.complete_other(Some((cqe.dw0, Large { position: cqe.dw1, bytes })));
            }
            Ok(cqe) if !cqe.status().is_success() => page.complete_other(None),
            _ => page.lose_other(),
        }
        drop(page);
        self.owner.changed.notify_one();
    }
}

impl Drop for OtherStore<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.owner.page.borrow_mut().lose_other();
            self.owner.changed.notify_one();
        }
    }
}

/// Whether a command reports that its payload was not at an allowed position.
fn is_misplaced(cqe: &Cqe) -> bool {
    cqe.status().is(Status::SGL_OFFSET_INVALID) || cqe.status().is(Status::DATA_TRANSFER_ERROR)
}

impl Carrier {
    /// Executes a command whose payload goes to device memory. [`Lost::NotPlaced`]: there is no free space now.
    pub(crate) async fn send_in_memory(
        &self,
        request: Request<'_>,
        buffer: &IoBuffer,
        payload: Part<'_>,
    ) -> Result<Cqe, Lost> {
        let Some(owner) = self.page_owner() else {
            let held = buffer.memory.as_ref().ok_or(Lost::NotPlaced)?;
            let address = u64::from(self.queue.submission.extensions.memory().area_offset);
            held.is_used.set(true);
            let sent = self.send_at(request, address + u64::from(held.area.first), payload).await;
            held.is_used.set(false);
            return sent;
        };
        for _ in 0..TRIES {
            let placed = owner.place(&self.queue, payload.bytes).await?;
            self.waited(request.span);
            let ended = self.send_at(request, placed.address(), payload).await;
            placed.complete(&ended);
            match ended {
                Ok(cqe) if is_misplaced(&cqe) => {}
                ended => return ended,
            }
        }
        Err(Lost::NotPlaced)
    }

    /// Executes a Store by a record instead of a command: its answer, as a completion. [`Lost::NotPlaced`]: there is no
    /// ring, or no free space for the value now.
    pub(crate) async fn send_committed(
        &self,
        span: SpanId,
        store: &Store,
        nsid: u32,
        payload: Part<'_>,
    ) -> Result<Cqe, Lost> {
        let submission = &self.queue.submission;
        let owner = self.page_owner().ok_or(Lost::NotPlaced)?;
        for _ in 0..TRIES {
            submission.live().await?;
            let commits = submission.extensions.commits().ok_or(Lost::NotPlaced)?;
            let placed = owner.place(&self.queue, payload.bytes).await?;
            let slot = commits.place().await;
            self.waited(span);
            let ended =
                self.commit_at(span, (store, nsid), placed.address(), payload, (&commits, slot)).await;
            placed.complete(&ended);
            match ended {
                Ok(cqe) if is_misplaced(&cqe) => {}
                ended => return ended,
            }
        }
        Err(Lost::NotPlaced)
    }

    /// Stores the payload at device address `address`, and then the record that names it, in the slot `slot`.
    async fn commit_at(
        &self,
        span: SpanId,
        (store, nsid): (&Store, u32),
        address: u64,
        payload: Part<'_>,
        (commits, slot): (&Commits, Permit),
    ) -> Result<Cqe, Lost> {
        let submission = &self.queue.submission;
        let (epoch, port) = (submission.epoch(), self.queue.port());
        let (costs, line) = (&submission.costs, self.line_cost().0);
        let checksum = self.store_payload(span, address, payload, costs.submit + line).await;
        if submission.epoch() != epoch || !submission.is_live() {
            return Err(Lost::Reset); // a reset discards what was stored
        }
        let record = CommitRecord::new(store, nsid, address, checksum);
        let committing = commits.begin(slot, record)?;
        port.follow_stored(committing.index(), span);
        // Non-temporal stores need no flush: the answer acknowledges them.
        let ordering = (self.rules.ordering == Ordering::Flushed).then_some(StoreOrdering::Flushed);
        port.store_lines(committing.address(), committing.record().as_bytes(), ordering).await;
        let answer = committing.answer().await?;
        self.charge(span, Delay::ZERO, Stage::Link);
        if costs.complete > Delay::ZERO {
            let service = submission.cpu.reserve_for("complete", costs.complete);
            port.clock().sleep_until(service.end).await;
            self.charge(span, service.queued, Stage::Host);
        }
        Ok(Cqe { dw0: answer.pointer, dw1: answer.limit, ..Cqe::new(0, answer.status(), 0, 0) })
    }

    /// Processor time of storing a line, and how lines are stored.
    fn line_cost(&self) -> (Delay, Option<StoreOrdering>) {
        let costs = &self.queue.submission.costs;
        match self.rules.ordering {
            Ordering::Flushed => (costs.flush, Some(StoreOrdering::Flushed)),
            Ordering::ReadBack => (costs.store, Some(StoreOrdering::Streamed)),
            Ordering::Checksum => (costs.store, None),
        }
    }

    /// Stores the payload at device address `address`, charging its lines and `extra`. Returns its checksum.
    async fn store_payload(&self, span: SpanId, address: u64, payload: Part<'_>, extra: Delay) -> u32 {
        let (port, (cost, ordering)) = (self.queue.port(), self.line_cost());
        let mut bytes = self.lines.borrow_mut().pop().unwrap_or_default();
        bytes.clear();
        bytes.resize(payload.bytes as usize, 0);
        payload.read(self.memory(), 0, &mut bytes);
        let cost = cost * Lines::touched(address, u64::from(payload.bytes)).count + extra;
        if cost > Delay::ZERO {
            let service = self.queue.submission.cpu.reserve_for("store", cost);
            port.clock().sleep_until(service.end).await;
            self.charge(span, service.queued, Stage::Host);
        }
        port.store_lines(address, &bytes, ordering).await;
        self.charge(span, Delay::ZERO, Stage::Link);
        let checksum = crc32c::crc32c(&bytes);
        self.lines.borrow_mut().push(bytes);
        checksum
    }

    /// Stores the payload at device address `address`, and executes the command that names it.
    async fn send_at(&self, request: Request<'_>, address: u64, payload: Part<'_>) -> Result<Cqe, Lost> {
        let epoch = Some(self.queue.submission.epoch()); // a reset discards what was stored
        let checksum = self.store_payload(request.span, address, payload, Delay::ZERO).await;
        let checksum = (self.rules.ordering == Ordering::Checksum).then_some(checksum);
        let sqe: Sqe = InDeviceMemory { address, bytes: payload.bytes, checksum }.placed_in(request.sqe);
        let needs = request.needs.with_cxl_mem(true);
        self.queue.execute(Request { sqe, needs, epoch, ..request }).await
    }
}
