//! Flash across a link, as seen by a translation layer at the near end.
//!
//! [`FarFlash`] is the contract of a far end; a new kind of link implements only that. [`Far`] is the near
//! side that all kinds share:
//!
//! | file | contents |
//! |---|---|
//! | [`link`] | [`FarFlash`], and the messages that cross |
//! | `mirror` | state of the flash that is known without crossing |
//! | `outbox` | waiting operations, and which of them may be sent |
//! | `lane` | the tasks that execute them |
//!
//! **Order.** A link may execute commands in any order, so an operation that must not pass another is kept at
//! this end until the other one's answer is here: programs of one superblock go one at a time, and an erase
//! waits for all earlier operations. Reads wait for a lane, and for an erase in flight.
//!
//! **State.** At attach every superblock reports its state, and the spare areas of all programmed stripes are
//! read, which takes the time of sensing each stripe once. From then on the answers to programs and erases
//! update the state. After a failure the superblock reports its state again, before the ticket completes as
//! failed.
//!
//! What it does not do: it learns nothing without crossing, so contents must be read; they are not cached.
//! Once the link is lost, no operation completes, as with an array whose power is off.

mod lane;
pub mod link;
mod mirror;
mod outbox;

use crate::geometry::{BlockId, Geometry, Ppa};
use crate::priority::Priority;
use crate::store::{Batch, Spare};
use crate::ticket::{Desk, Outcome, Ticket};
use crate::timing::Mode;
use byteway_clock::{Clock, Notify, TaskId, Time};
use byteway_content::Content;
use lane::PendingRequest;
use link::{FarFlash, FarShape, Gone, SystemRequest};
use mirror::Mirror;
use outbox::{Operation, Outbox, Verb};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::{self, Future};
use std::rc::Rc;
use std::time::Duration;

/// A translation layer's flash across a link. Cheap to clone.
#[derive(Clone)]
pub struct Far(Rc<Inner>);

struct Inner {
    clock: Clock,
    desk: Desk,
    shape: FarShape,
    attached: Time,
    mirror: RefCell<Mirror>,
    outbox: RefCell<Outbox>,
    /// Notified when an operation may have become sendable.
    sendable: Notify,
    system: RefCell<VecDeque<PendingRequest>>,
    requested: Notify,
    record: RefCell<Option<Rc<[u8]>>>,
    batches: RefCell<Vec<Batch>>,
    /// The reason why the link is lost; None while it works.
    gone: RefCell<Option<Rc<str>>>,
    failed: Notify,
    is_off: Cell<bool>,
    tasks: RefCell<Vec<TaskId>>,
}

/// Attempts to read a unit before its content counts as unreadable.
const CONTENT_READS: u32 = 4;

impl Far {
    /// Attaches to the flash behind `link`.
    ///
    /// # Errors
    /// [`Gone`] if the link is lost, or the reported shape or state is invalid.
    pub async fn attach<L: FarFlash>(clock: &Clock, link: L) -> Result<Far, Gone> {
        let shape = link.describe().await?;
        shape.geometry.validate().map_err(|error| Gone::because(&error))?;
        if shape.wordline == 0 {
            return Err(Gone::because("a wordline has at least one stripe"));
        }
        let mut reports = Vec::new();
        link.report(0..shape.geometry.total_blocks(), &mut reports).await?;
        let mirror = Mirror::new(&shape, &reports)?;
        let record = link.system(SystemRequest::ReadRecord).await?.into_iter().next();
        let far = Far(Rc::new(Inner {
            clock: clock.clone(),
            desk: Desk::new(clock),
            outbox: RefCell::new(Outbox::new(&shape.geometry)),
            shape,
            attached: clock.now(),
            mirror: RefCell::new(mirror),
            sendable: Notify::new(clock),
            system: RefCell::default(),
            requested: Notify::new(clock),
            record: RefCell::new(record),
            batches: RefCell::default(),
            gone: RefCell::default(),
            failed: Notify::new(clock),
            is_off: Cell::default(),
            tasks: RefCell::default(),
        }));
        let link = Rc::new(link);
        let lane = |lane| clock.spawn("far flash", lane::run(far.clone(), link.clone(), lane));
        let mut tasks: Vec<TaskId> = (0..link.lanes().max(1)).map(lane).collect();
        tasks.push(clock.spawn("far system area", lane::run_system(far.clone(), link.clone())));
        far.0.tasks.replace(tasks);
        far.scan().await?;
        Ok(far)
    }

    /// Reads the spare areas of all programmed stripes, all dies in parallel.
    async fn scan(&self) -> Result<(), Gone> {
        let geometry = self.geometry();
        let ticket = self.ticket();
        // One superblock of each die at a time, so that few operations queue at this end.
        for number in 0..geometry.blocks {
            for block in (0..geometry.dies()).map(|die| geometry.block(die, number)) {
                for stripe in 0..self.programmed_stripes(block) {
                    self.submit(Verb::Learn, block, stripe, Priority::HostRead, &ticket);
                }
            }
            // A lost link never answers, so wait for either.
            let mut wait = std::pin::pin!(ticket.wait());
            let mut failed = std::pin::pin!(self.failed());
            let why = future::poll_fn(|context| {
                if wait.as_mut().poll(context).is_ready() {
                    return std::task::Poll::Ready(None);
                }
                failed.as_mut().poll(context).map(Some)
            });
            if let Some(why) = why.await {
                return Err(Gone(why));
            }
        }
        Ok(())
    }

    /// Ends the tasks: operations in flight never complete.
    pub fn stop(&self) {
        self.0.is_off.set(true);
        for task in self.0.tasks.take() {
            self.0.clock.kill(task);
        }
    }

    /// Geometry of the far flash.
    pub fn geometry(&self) -> &Geometry {
        &self.0.shape.geometry
    }

    /// Properties reported at attach.
    pub fn shape(&self) -> &FarShape {
        &self.0.shape
    }

    /// The clock of this end.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// A new ticket.
    pub fn ticket(&self) -> Ticket {
        self.0.desk.ticket()
    }

    /// Tickets that are held or have operations in flight.
    pub fn tickets_in_use(&self) -> usize {
        self.0.desk.tickets(|tickets| tickets.in_use())
    }

    /// An empty batch, which reuses the memory of an earlier one.
    pub fn take_batch(&self) -> Batch {
        self.0.batches.borrow_mut().pop().unwrap_or_default()
    }

    /// Same as [`Flash::submit_read`](crate::Flash::submit_read).
    pub fn submit_read(&self, first: Ppa, mask: u64, priority: Priority, ticket: &Ticket) -> usize {
        let geometry = self.geometry();
        if first.0 >= geometry.total_units() || mask == 0 || mask & !geometry.full_mask() != 0 {
            return self.fail_read(mask, ticket);
        }
        let (block, stripe) = (geometry.block_of(first), geometry.stripe_of(first));
        self.submit(Verb::Read(mask), block, stripe, priority, ticket)
    }

    /// Fails a read that is out of range, without crossing the link. The address may come from damaged flash
    /// contents.
    #[cold]
    fn fail_read(&self, mask: u64, ticket: &Ticket) -> usize {
        let units = mask.count_ones();
        let at = self.0.desk.tickets(|tickets| {
            let at = tickets.add(ticket.index, units as usize);
            tickets.mark_unreadable(ticket.index, at, mask, mask);
            at
        });
        self.0.desk.complete(ticket.index, Outcome { failed: true, unreadable: units, ..Outcome::default() });
        at
    }

    /// Same as [`Flash::submit_program`](crate::Flash::submit_program).
    pub fn submit_program(
        &self,
        block: BlockId,
        stripe: u32,
        batch: Batch,
        priority: Priority,
        ticket: &Ticket,
    ) {
        self.submit(Verb::Program(batch), block, stripe, priority, ticket);
    }

    /// Like [`Flash::submit_move`](crate::Flash::submit_move). The data do not cross the link.
    pub fn submit_move(
        &self,
        sources: Vec<Ppa>,
        block: BlockId,
        stripe: u32,
        batch: Batch,
        priority: Priority,
        ticket: &Ticket,
    ) {
        self.submit(Verb::Move(sources, batch), block, stripe, priority, ticket);
    }

    /// Same as [`Flash::submit_erase`](crate::Flash::submit_erase).
    pub fn submit_erase(&self, block: BlockId, priority: Priority, ticket: &Ticket) {
        self.submit(Verb::Erase, block, 0, priority, ticket);
    }

    fn submit(&self, verb: Verb, block: BlockId, stripe: u32, priority: Priority, ticket: &Ticket) -> usize {
        let inner = &*self.0;
        debug_assert!(block.0 < self.geometry().total_blocks(), "the superblock is within the geometry");
        debug_assert!(inner.desk.has_issued(ticket), "a ticket belongs to the data end that it is used with");
        let at = inner.desk.tickets(|tickets| tickets.add(ticket.index, verb.units_delivered()));
        let submitted = inner.clock.now();
        let ticket = Some(ticket.index);
        self.send(Operation { verb, block, stripe, priority, ticket, at: at as u32, submitted });
        at
    }

    /// Submits without a ticket: no task waits for it.
    fn post(&self, verb: Verb, block: BlockId) {
        let (submitted, priority) = (self.0.clock.now(), Priority::HostProgram);
        self.send(Operation { verb, block, stripe: 0, priority, ticket: None, at: 0, submitted });
    }

    fn send(&self, operation: Operation) {
        self.0.outbox.borrow_mut().push(operation);
        self.0.sendable.notify_one();
    }

    /// Content of a unit, by a read; None if unreadable. Tries several times, because a single read may fail,
    /// and the caller has no other source.
    pub async fn content(&self, ppa: Ppa) -> Option<Content> {
        let geometry = self.geometry();
        if ppa.0 >= geometry.total_units() {
            return None;
        }
        for _ in 0..CONTENT_READS {
            let ticket = self.ticket();
            self.submit_read(ppa, 1 << geometry.unit_of_stripe(ppa), Priority::Map, &ticket);
            if !ticket.wait().await.failed {
                return Some(ticket.content(0));
            }
        }
        None
    }

    /// Like [`Flash::spare`](crate::Flash::spare), from what is known here.
    pub fn spare(&self, ppa: Ppa) -> Option<Spare> {
        self.0.mirror.borrow().spare(ppa)
    }

    /// Like [`Flash::spares`](crate::Flash::spares), likewise.
    pub fn spares(&self, first: Ppa, spares: &mut [Spare]) {
        self.0.mirror.borrow().spares(first, spares);
    }

    /// Like [`Flash::stripe_number`](crate::Flash::stripe_number), likewise.
    pub fn stripe_number(&self, block: BlockId, stripe: u32) -> Option<u64> {
        self.0.mirror.borrow().number(block, stripe)
    }

    /// Like [`Flash::programmed_stripes`](crate::Flash::programmed_stripes), likewise.
    pub fn programmed_stripes(&self, block: BlockId) -> u32 {
        self.0.mirror.borrow().block(block).programmed
    }

    /// Same as [`Flash::stripes_of`](crate::Flash::stripes_of).
    pub fn stripes_of(&self, block: BlockId) -> u32 {
        match self.mode(block) {
            Mode::Full => self.geometry().pages,
            Mode::OneBit => self.geometry().pages.div_ceil(self.0.shape.wordline),
        }
    }

    /// Same as [`Flash::mode`](crate::Flash::mode).
    pub fn mode(&self, block: BlockId) -> Mode {
        self.0.mirror.borrow().block(block).mode
    }

    /// Like [`Flash::set_mode`](crate::Flash::set_mode). The far end receives the mode before any program.
    pub fn set_mode(&self, block: BlockId, mode: Mode) -> bool {
        let has_mode = mode == Mode::Full || self.0.shape.has_one_bit_mode;
        if !has_mode || block.0 >= self.geometry().total_blocks() {
            return false;
        }
        let mut mirror = self.0.mirror.borrow_mut();
        let known = mirror.block_mut(block);
        if known.programmed > 0 || known.is_unstable {
            return false;
        }
        if std::mem::replace(&mut known.mode, mode) != mode {
            drop(mirror);
            self.post(Verb::SetMode(mode), block);
        }
        true
    }

    /// Like [`Flash::mark_bad`](crate::Flash::mark_bad): effective here at once, and at the far end when the
    /// mark has crossed.
    pub fn mark_bad(&self, block: BlockId) {
        if block.0 < self.geometry().total_blocks() {
            self.0.mirror.borrow_mut().block_mut(block).is_bad = true;
            self.post(Verb::MarkBad, block);
        }
    }

    /// Same as [`Flash::is_bad`](crate::Flash::is_bad).
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.0.mirror.borrow().block(block).is_bad
    }

    /// Same as [`Flash::is_unstable`](crate::Flash::is_unstable).
    pub fn is_unstable(&self, block: BlockId) -> bool {
        self.0.mirror.borrow().block(block).is_unstable
    }

    /// Same as [`Flash::erases`](crate::Flash::erases).
    pub fn erases(&self, block: BlockId) -> u32 {
        self.0.mirror.borrow().block(block).erases
    }

    /// Same as [`Flash::erases_since_made`](crate::Flash::erases_since_made).
    pub fn erases_since_made(&self, block: BlockId) -> u32 {
        self.0.mirror.borrow().block(block).erases_since_made
    }

    /// Same as [`Flash::each_erases`](crate::Flash::each_erases).
    pub fn each_erases(&self, take: impl FnMut(u32)) {
        self.0.mirror.borrow().each_erases().for_each(take);
    }

    /// Like [`Flash::reads_since_erase`](crate::Flash::reads_since_erase): those before attach, and those from
    /// this end.
    pub fn reads_since_erase(&self, block: BlockId) -> u32 {
        self.0.mirror.borrow().block(block).reads
    }

    /// Same as [`Flash::calendar`](crate::Flash::calendar).
    pub fn calendar(&self) -> Duration {
        Duration::from_nanos(self.calendar_ns())
    }

    fn calendar_ns(&self) -> u64 {
        self.0.shape.calendar_ns + self.0.clock.now().since(self.0.attached).0 / 1000
    }

    /// Like [`Flash::programmed_at`](crate::Flash::programmed_at), as of the answer's arrival.
    pub fn programmed_at(&self, block: BlockId) -> Option<Duration> {
        let mirror = self.0.mirror.borrow();
        let known = mirror.block(block);
        (known.programmed > 0).then(|| Duration::from_nanos(known.programmed_at_ns))
    }

    /// Same as [`Flash::read_root`](crate::Flash::read_root).
    pub async fn read_root(&self, slot: usize) -> Option<Rc<[u8]>> {
        self.system(SystemRequest::ReadRoot(slot)).await.into_iter().next()
    }

    /// Same as [`Flash::write_root`](crate::Flash::write_root).
    pub async fn write_root(&self, slot: usize, bytes: Rc<[u8]>) {
        self.system(SystemRequest::WriteRoot(slot, bytes)).await;
    }

    /// Same as [`Flash::record`](crate::Flash::record).
    pub fn record(&self) -> Option<Rc<[u8]>> {
        self.0.record.borrow().clone()
    }

    /// Same as [`Flash::write_record`](crate::Flash::write_record).
    pub async fn write_record(&self, bytes: Rc<[u8]>) {
        self.system(SystemRequest::WriteRecord(bytes.clone())).await;
        self.0.record.replace(Some(bytes));
    }

    /// Same as [`Flash::read_journal`](crate::Flash::read_journal).
    pub async fn read_journal(&self) -> Vec<Rc<[u8]>> {
        self.system(SystemRequest::ReadJournal).await
    }

    /// Same as [`Flash::append_journal`](crate::Flash::append_journal).
    pub async fn append_journal(&self, page: Rc<[u8]>) {
        self.system(SystemRequest::AppendJournal(page)).await;
    }

    /// Like [`Flash::cut_journal`](crate::Flash::cut_journal). If the power is cut before the request has
    /// crossed, the pages reappear.
    pub fn cut_journal(&self, pages: usize) {
        self.0
            .system
            .borrow_mut()
            .push_back(PendingRequest { request: SystemRequest::CutJournal(pages), answer: None });
        self.0.requested.notify_one();
    }

    /// Sends one request of the system area at a time, in order.
    async fn system(&self, request: SystemRequest) -> Vec<Rc<[u8]>> {
        let answer = Rc::new(lane::Answer::new(&self.0.clock));
        self.0.system.borrow_mut().push_back(PendingRequest { request, answer: Some(answer.clone()) });
        self.0.requested.notify_one();
        answer.wait().await
    }

    /// Like [`Flash::sync`](crate::Flash::sync): asks the far end, and waits for its answer.
    pub async fn sync(&self) {
        let ticket = self.ticket();
        self.submit(Verb::Sync, BlockId(0), 0, Priority::HostProgram, &ticket);
        ticket.wait().await;
    }

    /// Declares the far end's data unusable by firmware: it counts as failed from now on, for this reason.
    pub fn refuse(&self, why: String) {
        self.end(&Gone(why.into()));
    }

    /// Waits until the link is lost, and returns the reason.
    pub async fn failed(&self) -> Rc<str> {
        loop {
            if let Some(why) = &*self.0.gone.borrow() {
                return why.clone();
            }
            self.0.failed.notified().await;
        }
    }

    fn end(&self, gone: &Gone) {
        self.0.is_off.set(true);
        self.0.gone.borrow_mut().get_or_insert_with(|| gone.0.clone());
        self.0.failed.notify_all();
    }
}

impl fmt::Debug for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Far({:?})", self.0.shape.geometry)
    }
}
