//! A queue pair as a driver uses it: commands go in where there is a free slot, completions come back to who waits.
//!
//! The submission ring lies in host memory. A command takes a slot of the ring until the controller says, by SQHD,
//! that it has fetched it, and a command identifier until it has completed: two different things, of which either
//! may run out first. Waiting for one allocates nothing: waiters stand in line, command records are reused.

use crate::completion::{CompletionQueue, Work};
use crate::costs::HostCosts;
use crate::port::Port;
use byteway_clock::{Clock, Delay, Notify, Semaphore, SpanId, Stage, Station, TaskId, Time};
use byteway_wire::nvme::{Cqe, Doorbell, Sqe};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Why a command has no completion. Whether it took effect is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The controller was reset while the command was outstanding.
    #[error("the controller was reset while the command was outstanding")]
    Reset,
    /// Its queue was deleted.
    #[error("the command's queue was deleted")]
    Deleted,
    /// The controller was shut down.
    #[error("the controller was shut down")]
    ShutDown,
    /// The controller didn't come back from a reset.
    #[error("the controller has failed: it didn't come back from a reset")]
    Failed,
}

/// A command to submit.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The command; its identifier is replaced.
    pub sqe: Sqe,
    /// The I/O that it belongs to.
    pub span: SpanId,
    /// Pages of payload that the driver describes for it: processor time.
    pub pages: u32,
    /// May stay outstanding for ever: no timeout applies (Asynchronous Event Request).
    pub patient: bool,
}

impl From<Sqe> for Request {
    fn from(sqe: Sqe) -> Request {
        Request { sqe, span: SpanId::NONE, pages: 0, patient: false }
    }
}

/// A submission queue and the completion queue that takes its completions. Cheap to clone.
#[derive(Clone)]
pub struct QueuePair {
    pub(crate) submission: Rc<SubmissionQueue>,
    pub(crate) completion: Rc<CompletionQueue>,
}

impl QueuePair {
    /// The submission queue's identifier.
    pub fn qid(&self) -> u16 {
        self.submission.qid
    }

    /// The completion queue's identifier.
    pub fn cqid(&self) -> u16 {
        self.completion.cqid
    }

    /// Entries of the submission ring; one of them is always empty.
    pub fn entries(&self) -> u32 {
        self.submission.entries
    }

    /// Slots that a command can be placed in now, and that nobody has reserved.
    pub fn slots_free(&self) -> usize {
        self.submission.slots.available()
    }

    /// Commands that have been placed and not been completed.
    pub fn outstanding(&self) -> usize {
        let commands = self.submission.commands.borrow();
        commands.iter().filter(|command| command.progress.is_outstanding()).count()
    }

    /// Port to the controller.
    pub fn port(&self) -> &Port {
        &self.submission.port
    }

    /// The processor that pays for submissions.
    pub fn cpu(&self) -> &Rc<Station> {
        &self.submission.cpu
    }

    /// Waits for a free slot and identifier, pays for the submission, places the command and rings.
    ///
    /// # Errors
    /// The queue is gone, or the controller has failed.
    pub async fn submit(&self, request: impl Into<Request>) -> Result<Pending, Lost> {
        let request = request.into();
        let mut cid = 0;
        self.submission.enter(std::slice::from_ref(&request), |placed| cid = placed).await?;
        Ok(self.submission.pending(cid))
    }

    /// Submits several with as few doorbells as there is room for: one, if all fit. Appends to `pending` in order.
    ///
    /// # Errors
    /// As [`QueuePair::submit`]; those that went before are in `pending`.
    pub async fn submit_batch(&self, requests: &[Request], pending: &mut Vec<Pending>) -> Result<(), Lost> {
        let queue = &self.submission;
        queue.enter(requests, |cid| pending.push(queue.pending(cid))).await
    }

    /// Submits a command and waits for its completion.
    ///
    /// # Errors
    /// The command has no completion and never will.
    pub async fn execute(&self, request: impl Into<Request>) -> Result<Cqe, Lost> {
        self.submit(request).await?.await
    }
}

/// A command under way; the completion when it is awaited. Dropped, the command goes on and its result is lost:
/// memory that it uses must stay.
#[must_use = "the completion comes only when it is awaited"]
pub struct Pending {
    queue: Rc<SubmissionQueue>,
    cid: u16,
    finished: bool,
}

impl Pending {
    /// The command's identifier, for an Abort.
    pub fn cid(&self) -> u16 {
        self.cid
    }

    /// Its submission queue.
    pub fn qid(&self) -> u16 {
        self.queue.qid
    }
}

impl Future for Pending {
    type Output = Result<Cqe, Lost>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let result = {
            let mut commands = self.queue.commands.borrow_mut();
            let command = &mut commands[self.cid as usize];
            match command.progress {
                Progress::Done(cqe) => Ok(cqe),
                Progress::Lost(lost) => Err(lost),
                _ => {
                    command.waiter = Some(self.queue.clock.current());
                    return Poll::Pending;
                }
            }
        };
        self.finished = true;
        self.queue.release(self.cid);
        Poll::Ready(result)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        {
            let mut commands = self.queue.commands.borrow_mut();
            let command = &mut commands[self.cid as usize];
            if matches!(command.progress, Progress::InFlight) {
                command.progress = Progress::Abandoned;
                return;
            }
        }
        self.queue.release(self.cid);
    }
}

/// Where a command is.
#[derive(Clone, Copy)]
enum Progress {
    /// The identifier is free.
    Free,
    /// The controller has it and somebody waits.
    InFlight,
    /// The controller has it and nobody waits.
    Abandoned,
    /// Completed; who waits has not looked yet.
    Done(Cqe),
    /// It will not complete; who waits has not looked yet.
    Lost(Lost),
}

impl Progress {
    fn is_outstanding(self) -> bool {
        matches!(self, Progress::InFlight | Progress::Abandoned)
    }
}

/// What is known of a command identifier.
struct Command {
    progress: Progress,
    waiter: Option<TaskId>,
    span: SpanId,
    submitted: Time,
    patient: bool,
    aborting: bool,
}

/// Whether commands may be placed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Live,
    /// A reset is under way: submissions wait for its end.
    Resetting,
    Gone(Lost),
}

/// What a submission queue is made of.
pub(crate) struct SubmissionConfig {
    pub qid: u16,
    pub entries: u32,
    pub address: u64,
    pub dstrd: u8,
    /// Command identifiers: 1 to 65535.
    pub identifiers: u16,
    pub cpu: Rc<Station>,
    pub costs: HostCosts,
}

/// The submission ring and the commands that went through it.
pub(crate) struct SubmissionQueue {
    pub(crate) qid: u16,
    pub(crate) entries: u32,
    pub(crate) address: u64,
    clock: Clock,
    port: Port,
    doorbell: u64,
    tail: Cell<u32>,
    /// As the controller last said.
    head: Cell<u32>,
    /// Credits: entries - 1 - ((tail - head) mod entries), less what is reserved.
    slots: Semaphore,
    identifiers: Semaphore,
    free: RefCell<Vec<u16>>,
    commands: RefCell<Vec<Command>>,
    state: Cell<State>,
    changed: Notify,
    cpu: Rc<Station>,
    costs: HostCosts,
    work: Rc<Work>,
}

/// Credits for commands that are about to be placed; given back if they aren't.
struct Room<'a> {
    queue: &'a SubmissionQueue,
    commands: usize,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if self.commands > 0 {
            self.queue.slots.release(self.commands);
            self.queue.identifiers.release(self.commands);
        }
    }
}

impl SubmissionQueue {
    pub(crate) fn new(port: &Port, config: SubmissionConfig, work: Rc<Work>) -> Self {
        let clock = port.clock().clone();
        let command = || Command {
            progress: Progress::Free,
            waiter: None,
            span: SpanId::NONE,
            submitted: Time::ZERO,
            patient: false,
            aborting: false,
        };
        SubmissionQueue {
            qid: config.qid,
            entries: config.entries,
            address: config.address,
            port: port.clone(),
            doorbell: Doorbell::SubmissionTail(config.qid).offset(config.dstrd),
            tail: Cell::new(0),
            head: Cell::new(0),
            slots: Semaphore::new(&clock, config.entries as usize - 1),
            identifiers: Semaphore::new(&clock, config.identifiers as usize),
            free: RefCell::new((0..config.identifiers).rev().collect()),
            commands: RefCell::new((0..config.identifiers).map(|_| command()).collect()),
            state: Cell::new(State::Live),
            changed: Notify::new(&clock),
            cpu: config.cpu,
            costs: config.costs,
            work,
            clock,
        }
    }

    /// Places `requests` in order, in as few batches as there is room for, and rings after each batch.
    async fn enter(&self, requests: &[Request], mut placed: impl FnMut(u16)) -> Result<(), Lost> {
        let mut rest = requests;
        while !rest.is_empty() {
            let mut room = self.room(rest).await?;
            let (batch, later) = rest.split_at(room.commands);
            let pages = batch.iter().map(|request| u64::from(request.pages)).sum();
            let cost = self.costs.submission(batch.len() as u64, pages);
            if cost > Delay::ZERO {
                let service = self.cpu.reserve_for("submit", cost);
                self.clock.sleep_until(service.end).await;
                self.charge(batch, service.queued, Stage::Host);
            }
            if self.state.get() != State::Live {
                self.live().await?;
                self.charge(batch, Delay::ZERO, Stage::Queueing);
            }
            for request in batch {
                room.commands -= 1;
                placed(self.place(request));
            }
            self.ring();
            rest = later;
        }
        Ok(())
    }

    /// Room for the first of `requests`, and for as many more as there is now.
    async fn room(&self, requests: &[Request]) -> Result<Room<'_>, Lost> {
        if let State::Gone(lost) = self.state.get() {
            return Err(lost);
        }
        let begin = self.clock.now();
        let mut room = match self.room_now() {
            Some(room) => room,
            None => {
                let identifier = self.identifiers.acquire(1).await;
                let slot = self.slots.acquire(1).await;
                identifier.forget();
                slot.forget();
                Room { queue: self, commands: 1 }
            }
        };
        let more = (requests.len() - 1).min(self.identifiers.available()).min(self.slots.available());
        if more > 0
            && let Some(identifiers) = self.identifiers.try_acquire(more)
            && let Some(slots) = self.slots.try_acquire(more)
        {
            identifiers.forget();
            slots.forget();
            room.commands += more;
        }
        if self.clock.now() > begin {
            self.charge(&requests[..room.commands], Delay::ZERO, Stage::Queueing);
        }
        Ok(room)
    }

    /// Room for one command, if there is room now and nobody waits for it.
    fn room_now(&self) -> Option<Room<'_>> {
        if !self.identifiers.try_take(1) {
            return None;
        }
        if !self.slots.try_take(1) {
            self.identifiers.release(1);
            return None;
        }
        Some(Room { queue: self, commands: 1 })
    }

    fn charge(&self, requests: &[Request], queued: Delay, stage: Stage) {
        if let Some(spans) = self.port.spans() {
            let now = self.clock.now();
            requests.iter().for_each(|request| spans.charge_split(request.span, now, queued, stage));
        }
    }

    /// Waits until commands may be placed.
    async fn live(&self) -> Result<(), Lost> {
        loop {
            match self.state.get() {
                State::Live => return Ok(()),
                State::Gone(lost) => return Err(lost),
                State::Resetting => self.changed.notified().await,
            }
        }
    }

    /// Submits without waiting for anything and without paying; None if there is no room.
    pub(crate) fn try_submit(self: &Rc<Self>, request: Request) -> Option<Pending> {
        if self.state.get() != State::Live {
            return None;
        }
        let identifier = self.identifiers.try_acquire(1)?;
        let slot = self.slots.try_acquire(1)?;
        identifier.forget();
        slot.forget();
        let cid = self.place(&request);
        self.ring();
        Some(self.pending(cid))
    }

    fn pending(self: &Rc<Self>, cid: u16) -> Pending {
        Pending { queue: self.clone(), cid, finished: false }
    }

    /// Writes the entry at the tail. Credits for it are held.
    fn place(&self, request: &Request) -> u16 {
        let cid = self.free.borrow_mut().pop().expect("a credit stands for a free identifier");
        self.commands.borrow_mut()[cid as usize] = Command {
            progress: Progress::InFlight,
            waiter: None,
            span: request.span,
            submitted: self.clock.now(),
            patient: request.patient,
            aborting: false,
        };
        let slot = self.tail.get();
        let entry = request.sqe.with_cid(cid).to_bytes();
        let written = self.port.memory().write(self.address + u64::from(slot) * Sqe::SIZE as u64, &entry);
        written.expect("the ring's memory is the driver's own");
        self.port.follow(self.qid, slot as u16, request.span);
        self.tail.set(if slot + 1 == self.entries { 0 } else { slot + 1 });
        self.work.begin();
        cid
    }

    fn ring(&self) {
        self.port.ring(self.doorbell, self.tail.get());
    }

    /// Takes a completion of this queue. False if it contradicts what was submitted; what can be believed of it has
    /// then been taken.
    pub(crate) fn complete(&self, cqe: Cqe, queued: Delay) -> bool {
        let believable = self.advance(u32::from(cqe.sqhd));
        let waiter = {
            let mut commands = self.commands.borrow_mut();
            let Some(command) = commands.get_mut(cqe.cid as usize) else { return false };
            if !command.progress.is_outstanding() {
                return false;
            }
            self.work.end();
            if let Some(spans) = self.port.spans() {
                spans.charge_split(command.span, self.clock.now(), queued, Stage::Host);
            }
            match command.progress {
                Progress::InFlight => {
                    command.progress = Progress::Done(cqe);
                    Some(command.waiter.take())
                }
                _ => None,
            }
        };
        match waiter {
            Some(Some(task)) => self.clock.wake(task),
            Some(None) => {}
            None => self.release(cqe.cid),
        }
        believable
    }

    /// The I/O of a command.
    pub(crate) fn span(&self, cid: u16) -> SpanId {
        self.commands.borrow().get(cid as usize).map_or(SpanId::NONE, |command| command.span)
    }

    /// The controller has fetched up to `head`: the slots before it are free.
    fn advance(&self, head: u32) -> bool {
        if head == self.head.get() {
            return true;
        }
        let fetched = self.distance(self.head.get(), head);
        if head >= self.entries || fetched > self.distance(self.head.get(), self.tail.get()) {
            return false;
        }
        self.head.set(head);
        self.slots.release(fetched as usize);
        true
    }

    fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from { to - from } else { (to + self.entries).saturating_sub(from) }
    }

    fn release(&self, cid: u16) {
        self.commands.borrow_mut()[cid as usize].progress = Progress::Free;
        self.free.borrow_mut().push(cid);
        self.identifiers.release(1);
    }

    pub(crate) fn is(&self, state: State) -> bool {
        self.state.get() == state
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.set(state);
        self.changed.notify_all();
    }

    /// The controller has forgotten the queue: what is outstanding is lost, and the ring begins anew.
    pub(crate) fn restart(&self, lost: Lost) {
        let identifiers = self.commands.borrow().len() as u16;
        for cid in 0..identifiers {
            let waiter = {
                let mut commands = self.commands.borrow_mut();
                let command = &mut commands[cid as usize];
                match command.progress {
                    Progress::InFlight => {
                        command.progress = Progress::Lost(lost);
                        Some(command.waiter.take())
                    }
                    Progress::Abandoned => None,
                    _ => continue,
                }
            };
            self.work.end();
            match waiter {
                Some(task) => task.into_iter().for_each(|task| self.clock.wake(task)),
                None => self.release(cid),
            }
        }
        let fetched = self.distance(self.head.get(), self.tail.get());
        self.head.set(0);
        self.tail.set(0);
        self.slots.release(fetched as usize);
    }

    /// The first command from `from` on that has been outstanding for longer than `timeout`, and whether an Abort
    /// was sent for it.
    pub(crate) fn overdue(&self, from: u16, timeout: Delay) -> Option<(u16, bool)> {
        let now = self.clock.now();
        let commands = self.commands.borrow();
        let mut waiting = commands.iter().enumerate().skip(from as usize);
        waiting
            .find(|(_, command)| {
                let age = now.since(command.submitted);
                command.progress.is_outstanding() && !command.patient && age > timeout
            })
            .map(|(cid, command)| (cid as u16, command.aborting))
    }

    /// Notes that an Abort was sent for a command: it gets the same time once more.
    pub(crate) fn note_abort(&self, cid: u16) {
        let now = self.clock.now();
        if let Some(command) = self.commands.borrow_mut().get_mut(cid as usize) {
            command.aborting = true;
            command.submitted = now;
        }
    }
}
