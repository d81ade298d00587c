//! Queue pairs, as drivers use them: submission of commands, and waiting for their completions.
//!
//! The submission ring is in host memory. A command occupies a slot of the ring until the controller reports, by SQHD,
//! that it has fetched it, and a command identifier until it has completed. These are two resources, either of which
//! may run out first. Waiting for them allocates nothing: waiters queue up, and command records are reused.
//!
//! Entries may carry payload: a train after its command, or chunks of a payload that is assembled by identifier. A
//! command gets the slots for itself and its payload at once, or waits for them.

use crate::driver::buffer::Part;
use crate::driver::completion::{CompletionQueue, OutstandingCommands};
use crate::driver::costs::HostCosts;
use crate::driver::extension::{Extensions, PAYLOAD_ID_MIN};
use crate::driver::port::Port;
use crate::driver::request_layer::RequestLayer;
use crate::error::Lost;
use byteway_clock::{
    Awaited, Clock, Delay, Notify, Semaphore, Service, Sleep, SpanId, Stage, Station, TaskId, Time,
};
use byteway_transfer::Limits;
use byteway_transfer::area::{Area, LINE_BYTES};
use byteway_transfer::inline;
use byteway_transfer::reassembly::Chunked;
use byteway_wire::nvme::vendor::{Capabilities, Chunk, InlineSlots, Methods};
use byteway_wire::nvme::{Cqe, Doorbell, Sqe};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Chunks of a payload: every `step`th from `first` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunks<'a> {
    pub chunked: Chunked,
    pub payload: Part<'a>,
    pub first: u32,
    pub step: u32,
    /// The last one requests a completion.
    pub completes: bool,
}

impl Chunks<'_> {
    pub(crate) fn count(&self) -> u32 {
        self.chunked.count().saturating_sub(self.first).div_ceil(self.step)
    }
}

/// Payload that the host itself moves with a command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Carried<'a> {
    /// No data.
    #[default]
    Nothing,
    /// Payload in the entries after the command.
    Train(Part<'a>),
    /// Payload stored to the device's payload buffer, before the command.
    Stores(Area, Part<'a>),
    /// Chunks of its payload, placed before the command, so that a command with a completion slot never waits for
    /// chunks after it in its own queue.
    Chunks(Chunks<'a>),
}

/// A command to be submitted.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The command; its identifier is replaced.
    pub sqe: Sqe,
    /// Trace span of the I/O.
    pub span: SpanId,
    /// Pages of payload that the driver describes: this costs processor time.
    pub pages: u32,
    /// May stay outstanding indefinitely: no timeout applies (Asynchronous Event Request).
    pub patient: bool,
    /// Payload that the host moves with it.
    pub(crate) carried: Carried<'a>,
    /// Methods that must be enabled when it is placed.
    pub(crate) needs: Methods,
    /// If the queue was reset since, or is being reset, the command is not placed.
    pub(crate) epoch: Option<u64>,
    /// Bits 15:0 of its CDW2 name the first command submitted with it.
    pub(crate) names_first: bool,
    /// Length of the result that may follow its completion; 0: none.
    pub(crate) result_bytes: u32,
    /// The result may be shorter.
    pub(crate) may_be_short: bool,
    /// The band of its identifier.
    pub(crate) band: Band,
}

/// Bands of command identifiers, one per owner of a queue pair. If two owners share it, the identifier in a completion
/// tells the owner (light-weight NVMe-oF, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Band {
    /// Identifiers that are a block layer's tags.
    #[default]
    Tags,
    /// Higher identifiers, for commands that bypass the block layer.
    OutOfBand,
}

impl Request<'_> {
    /// The same command, with a payload in `pages` pages that the driver describes.
    pub fn with_pages(self, pages: u32) -> Self {
        Request { pages, ..self }
    }
}

impl From<Sqe> for Request<'_> {
    #[inline]
    fn from(sqe: Sqe) -> Self {
        Request {
            sqe,
            span: SpanId::NONE,
            pages: 0,
            patient: false,
            carried: Carried::Nothing,
            needs: Methods::new(),
            epoch: None,
            names_first: false,
            result_bytes: 0,
            may_be_short: false,
            band: Band::Tags,
        }
    }
}

impl<'a> Request<'a> {
    /// Makes it a part of the I/O of `span`, which may have begun on another link.
    pub fn within(mut self, span: SpanId) -> Self {
        self.span = span;
        self
    }

    /// Adds `train` in the entries after it, as announced by the data pointer or CDW3.
    pub fn with_train(self, train: Part<'a>) -> Self {
        let needs = match inline::is_described(&self.sqe) {
            true => self.needs.with_inline(true),
            false => self.needs.with_inline_tail(true),
        };
        Request { carried: Carried::Train(train), needs, ..self }
    }

    /// Adds its payload in an area of the payload buffer, to which the data pointer refers; a method that `needs` these stores it there.
    pub(crate) fn with_stores(self, area: Area, payload: Part<'a>, needs: Methods) -> Self {
        Request { carried: Carried::Stores(area, payload), needs: self.needs.or(needs), ..self }
    }

    /// Adds a payload in chunks, to which the data pointer refers.
    pub(crate) fn with_chunks(self, chunks: Chunks<'a>) -> Self {
        Request { carried: Carried::Chunks(chunks), needs: self.needs.with_reassembly(true), ..self }
    }

    /// Number of entries that it takes.
    #[inline]
    fn slots(&self) -> usize {
        1 + self.entries_carried() as usize
    }

    /// Number of entries with payload.
    #[inline]
    fn entries_carried(&self) -> u32 {
        match self.carried {
            Carried::Nothing | Carried::Stores(..) => 0,
            Carried::Train(train) => InlineSlots { bytes: train.bytes }.count(),
            Carried::Chunks(chunks) => chunks.count(),
        }
    }

    /// Number of stored lines.
    fn lines(&self) -> u32 {
        match self.carried {
            Carried::Stores(_, payload) => payload.bytes.div_ceil(LINE_BYTES),
            _ => 0,
        }
    }
}

/// A command sent by one of several paths.
pub(crate) type Routed<'a> = Pin<Box<dyn Future<Output = Result<Cqe, Lost>> + 'a>>;

/// Several queue pairs that form one for their user.
pub(crate) trait Routes {
    /// Executes a command on one of them.
    fn execute<'a>(&'a self, request: &'a Request<'a>) -> Routed<'a>;

    /// Whether batches may be submitted to the queue pair itself.
    fn takes_batches(&self) -> bool {
        true
    }
}

/// A submission queue and its completion queue. Cheap to clone.
#[derive(Clone)]
pub struct QueuePair {
    pub(crate) submission: Rc<SubmissionQueue>,
    pub(crate) completion: Rc<CompletionQueue>,
    /// The owner of these commands.
    pub(crate) band: Band,
    /// The layer that they pass first.
    pub(crate) layer: Option<Rc<dyn RequestLayer>>,
    /// Routes for executed commands, in place of this queue pair.
    pub(crate) routes: Option<Rc<dyn Routes>>,
}

impl QueuePair {
    /// The same queue pair for an owner whose commands pass `layer` one by one ([`QueuePair::execute`]); batches do
    /// not.
    pub fn behind(&self, layer: Rc<dyn RequestLayer>) -> QueuePair {
        QueuePair { layer: Some(layer), ..self.clone() }
    }

    /// The same queue pair for a second owner, whose identifiers do not overlap those of the first:
    /// [`QueueConfig::out_of_band`](crate::QueueConfig::out_of_band) of them, which is its share of the queue. `None`:
    /// it has none.
    pub fn out_of_band(&self) -> Option<QueuePair> {
        let has_any = self.submission.identifiers.len() > 1;
        has_any.then(|| QueuePair { band: Band::OutOfBand, ..self.clone() })
    }

    /// The submission queue's identifier.
    pub fn qid(&self) -> u16 {
        self.submission.qid
    }

    /// The completion queue's identifier.
    pub fn cqid(&self) -> u16 {
        self.completion.cqid
    }

    /// Size of the submission ring in entries, one of which always stays empty.
    pub fn entries(&self) -> u32 {
        self.submission.entries
    }

    /// Free slots that are not reserved.
    pub fn slots_free(&self) -> usize {
        self.submission.slots.available()
    }

    /// Commands that were placed and have not completed.
    pub fn outstanding(&self) -> usize {
        let commands = self.submission.commands.borrow();
        commands.iter().filter(|command| command.progress.is_outstanding()).count()
    }

    /// Methods enabled for it ([`Driver::enable_methods`](crate::Driver::enable_methods)).
    pub fn enabled(&self) -> Methods {
        self.submission.enabled()
    }

    /// Vendor extensions of its controller.
    pub fn capabilities(&self) -> Capabilities {
        self.submission.extensions.capabilities()
    }

    /// Payload limits of its commands.
    pub fn limits(&self) -> Limits {
        self.submission.extensions.limits(self.enabled(), self.entries())
    }

    /// Port to the controller.
    pub fn port(&self) -> &Port {
        &self.submission.port
    }

    /// The processor charged for submissions.
    pub fn cpu(&self) -> &Rc<Station> {
        &self.submission.cpu
    }

    /// Waits for a free slot and identifier, charges the submission, places the command and writes the
    /// doorbell.
    ///
    /// # Errors
    /// [`Lost`] if the queue no longer exists, or the controller has failed.
    pub async fn submit(&self, request: impl Into<Request<'_>>) -> Result<Pending, Lost> {
        self.takes_batches()?;
        let request = Request { band: self.band, ..request.into() };
        let cid = self.submission.submit(&request).await?;
        Ok(self.submission.pending(cid))
    }

    /// Submits several commands with as few doorbell writes as free slots allow: one, if all fit. Appends to `pending`
    /// in order. They belong to the first owner.
    ///
    /// # Errors
    /// Same as [`QueuePair::submit`]; the commands submitted before are in `pending`.
    pub async fn submit_batch(
        &self,
        requests: &[Request<'_>],
        pending: &mut Vec<Pending>,
    ) -> Result<(), Lost> {
        self.takes_batches()?;
        let queue = &self.submission;
        queue.enter(requests, false, |cid| pending.push(queue.pending(cid))).await
    }

    /// Submits several commands with one doorbell write, when there are free slots for all. Appends to `pending` in
    /// order.
    ///
    /// # Errors
    /// Same as [`QueuePair::submit`]; [`Lost::NotPlaced`] if the queue can never hold all of them.
    pub async fn submit_together(
        &self,
        requests: &[Request<'_>],
        pending: &mut Vec<Pending>,
    ) -> Result<(), Lost> {
        self.takes_batches()?;
        let queue = &self.submission;
        queue.enter(requests, true, |cid| pending.push(queue.pending(cid))).await
    }

    /// Refuses batches that would bypass the queue pair's routes.
    fn takes_batches(&self) -> Result<(), Lost> {
        match &self.routes {
            Some(routes) if !routes.takes_batches() => Err(Lost::NotPlaced),
            _ => Ok(()),
        }
    }

    /// Submits a command and waits for its completion.
    ///
    /// # Errors
    /// [`Lost`] if the command never completes.
    pub async fn execute(&self, request: impl Into<Request<'_>>) -> Result<Cqe, Lost> {
        self.execute_placed(Request { band: self.band, ..request.into() }).await
    }

    /// Like [`QueuePair::execute`], for a request whose band is set.
    #[inline]
    pub(crate) fn execute_placed<'a>(&'a self, request: Request<'a>) -> Execution<'a> {
        Execution { pair: self, request, step: ExecutionStep::Begin }
    }

    /// Executes a command by one of several paths, or behind a layer.
    async fn execute_apart(&self, request: &Request<'_>) -> Result<Cqe, Lost> {
        match (&self.routes, &self.layer) {
            (Some(routes), _) => routes.execute(request).await,
            (None, Some(layer)) => self.execute_behind(&**layer, request).await,
            (None, None) => {
                let cid = self.submission.submit(request).await?;
                self.submission.pending(cid).await
            }
        }
    }

    async fn execute_behind(&self, layer: &dyn RequestLayer, request: &Request<'_>) -> Result<Cqe, Lost> {
        let end = match layer.begin(request.span, self.cpu(), &request.sqe).await {
            Ok(end) => end,
            Err(status) => return Ok(Cqe::new(0, status, 0, 0)),
        };
        let completed = QueuePair { layer: None, ..self.clone() }.execute_placed(*request).await;
        end.await;
        completed
    }
}

/// A command from its submission to its completion: nearly every command of a run is one, so its state is laid out here, and only what
/// is rare is another future. If it is dropped after its submission the command continues, and its result is discarded.
#[must_use = "nothing is submitted unless it is awaited"]
pub(crate) struct Execution<'a> {
    pair: &'a QueuePair,
    request: Request<'a>,
    step: ExecutionStep<'a>,
}

/// The next step of an execution.
enum ExecutionStep<'a> {
    Begin,
    /// The submission is charged, until the end of the service.
    Submit(Entering<'a>, Service, Sleep<'a>),
    /// The command with this identifier is in flight.
    Await(u16),
    /// Another future executes it.
    Apart(Routed<'a>),
    Ended,
}

impl Future for Execution<'_> {
    type Output = Result<Cqe, Lost>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Execution { pair, request, step } = &mut *self;
        let (pair, queue) = (*pair, &*pair.submission);
        loop {
            match step {
                ExecutionStep::Begin => {
                    let is_direct = pair.routes.is_none() && pair.layer.is_none();
                    let entering = is_direct.then(|| queue.enter_now(request)).flatten();
                    *step = ExecutionStep::Ended; // if it can't be placed
                    *step = match entering {
                        Some(Entering { credits, service: Some(service) }) => {
                            let entering = Entering { credits, service: None };
                            ExecutionStep::Submit(entering, service, queue.clock.sleep_until(service.end))
                        }
                        Some(entering) => ExecutionStep::placed(queue, entering, request)?,
                        None => {
                            let request = *request;
                            ExecutionStep::Apart(Box::pin(async move { pair.execute_apart(&request).await }))
                        }
                    };
                }
                ExecutionStep::Submit(_, service, sleep) => {
                    if Pin::new(sleep).poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    queue.charge(std::slice::from_ref(request), service.queued, queue.costs.stage);
                    let taken = std::mem::replace(step, ExecutionStep::Ended);
                    let ExecutionStep::Submit(entering, ..) = taken else { unreachable!("this is its step") };
                    *step = match queue.is_live() {
                        true => ExecutionStep::placed(queue, entering, request)?,
                        false => ExecutionStep::Apart(Box::pin(pair.place_once_live(entering, *request))),
                    };
                }
                ExecutionStep::Await(cid) => {
                    let Poll::Ready(ended) = queue.poll_end(*cid) else { return Poll::Pending };
                    queue.release(*cid);
                    *step = ExecutionStep::Ended;
                    return Poll::Ready(ended);
                }
                ExecutionStep::Apart(apart) => {
                    let ended = std::task::ready!(apart.as_mut().poll(context));
                    *step = ExecutionStep::Ended;
                    return Poll::Ready(ended);
                }
                ExecutionStep::Ended => unreachable!("it is not polled after its end"),
            }
        }
    }
}

impl<'a> ExecutionStep<'a> {
    /// Places the command, whose submission was charged.
    #[inline]
    fn placed(
        queue: &SubmissionQueue,
        entering: Entering<'a>,
        request: &Request<'a>,
    ) -> Result<ExecutionStep<'a>, Lost> {
        queue.entered(entering, request).map(ExecutionStep::Await)
    }
}

impl QueuePair {
    /// Places a command, whose submission was charged, once the queue is live again.
    async fn place_once_live<'a>(
        &'a self,
        entering: Entering<'a>,
        request: Request<'a>,
    ) -> Result<Cqe, Lost> {
        let queue = &self.submission;
        queue.live().await?;
        queue.charge_wait(std::slice::from_ref(&request));
        let cid = queue.entered(entering, &request)?;
        queue.pending(cid).await
    }
}

impl Drop for Execution<'_> {
    #[inline]
    fn drop(&mut self) {
        if let ExecutionStep::Await(cid) = self.step {
            self.pair.submission.abandon(cid);
        }
    }
}

/// A command in flight; await it for the completion. If it is dropped the command continues and its result is
/// discarded: memory that it uses must stay allocated.
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

    /// Submission queue identifier.
    pub fn qid(&self) -> u16 {
        self.queue.qid
    }
}

impl Future for Pending {
    type Output = Result<Cqe, Lost>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let result = self.queue.poll_end(self.cid);
        if result.is_ready() {
            self.finish();
        }
        result
    }
}

impl Pending {
    #[inline]
    fn finish(&mut self) {
        self.finished = true;
        self.queue.release(self.cid);
    }

    /// Waits for the completion; passes the result after it to `show`.
    pub(crate) async fn with_result<R>(
        mut self,
        look: impl FnOnce(&Cqe, Came, &[u8]) -> R,
    ) -> Result<R, Lost> {
        let ended = poll_fn(|_| self.queue.poll_end(self.cid)).await;
        let shown = ended.map(|cqe| {
            let commands = self.queue.commands.borrow();
            let command = &commands[self.cid as usize];
            look(&cqe, command.came, &command.result)
        });
        self.finish();
        shown
    }
}

impl Drop for Pending {
    #[inline]
    fn drop(&mut self) {
        if !self.finished {
            self.queue.abandon(self.cid);
        }
    }
}

/// State of a command identifier.
#[derive(Clone, Copy)]
enum Progress {
    /// Free.
    Free,
    /// In flight, with a waiting task.
    InFlight,
    /// In flight, without a waiting task.
    Abandoned,
    /// Completed; the waiting task has not seen it yet.
    Done(Cqe),
    /// The command will never complete; the waiting task has not been told yet.
    Lost(Lost),
}

impl Progress {
    fn is_outstanding(self) -> bool {
        matches!(self, Progress::InFlight | Progress::Abandoned)
    }
}

/// The record of a command identifier.
struct Command {
    progress: Progress,
    waiter: Option<TaskId>,
    span: SpanId,
    submitted: Time,
    patient: bool,
    aborting: bool,
    /// Band of the identifier.
    band: Band,
    /// Identifier of its payload, if that comes in chunks.
    payload: Option<u16>,
    /// Expected length of the result behind the completion, how it arrived, and its bytes.
    result_bytes: u32,
    may_be_short: bool,
    came: Came,
    result: Vec<u8>,
}

/// Arrival of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Came {
    /// At the data pointer, if at all.
    #[default]
    ByPointer,
    /// Behind the completion.
    Behind,
    /// Behind the completion, but incomplete.
    Broken,
}

/// State of a submission queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Live,
    /// A reset is in progress: submissions wait.
    Resetting,
    Gone(Lost),
}

/// Command identifiers of a queue pair's second owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBand {
    /// Number of identifiers, which limits its outstanding commands.
    pub count: u16,
    /// The first identifier; `None`: the next after the first owner's. A lower one is a deliberate error, for a test.
    pub first: Option<u16>,
}

/// Free identifiers of a band, and credits for them.
struct Identifiers {
    credits: Semaphore,
    free: RefCell<Vec<u16>>,
}

impl Identifiers {
    fn new(clock: &Clock, range: std::ops::Range<u16>) -> Identifiers {
        Identifiers { credits: Semaphore::new(clock, range.len()), free: RefCell::new(range.rev().collect()) }
    }
}

/// Parameters of a submission queue.
pub(crate) struct SubmissionConfig {
    pub qid: u16,
    pub entries: u32,
    pub address: u64,
    pub dstrd: u8,
    /// Number of command identifiers: 1 to 65535.
    pub identifiers: u16,
    /// Identifiers of a second owner, in addition.
    pub out_of_band: Option<OutOfBand>,
    pub cpu: Rc<Station>,
    pub costs: HostCosts,
    pub extensions: Rc<Extensions>,
}

/// The submission ring, and its commands in flight.
pub(crate) struct SubmissionQueue {
    pub(crate) qid: u16,
    pub(crate) entries: u32,
    pub(crate) address: u64,
    clock: Clock,
    port: Port,
    doorbell: u64,
    tail: Cell<u32>,
    /// SQHD of the last completion.
    head: Cell<u32>,
    /// Credits for slots: entries - 1 - ((tail - head) mod entries), minus reserved ones.
    slots: Semaphore,
    /// Identifiers by [`Band`].
    identifiers: Vec<Identifiers>,
    commands: RefCell<Vec<Command>>,
    state: Cell<State>,
    changed: Notify,
    pub(crate) cpu: Rc<Station>,
    pub(crate) costs: HostCosts,
    work: Rc<OutstandingCommands>,
    pub(crate) extensions: Rc<Extensions>,
    /// Requested methods; `enabled`: enabled ones.
    wanted: Cell<Methods>,
    enabled: Cell<Methods>,
    /// Number of resets.
    epoch: Cell<u64>,
    /// Payloads with chunks here whose requested completion has not arrived.
    chunks: RefCell<Vec<u16>>,
    /// Credit for an open stream that is not submitted as a whole.
    pub(crate) stream: Semaphore,
}

/// Credits for commands that are about to be placed; unused ones are returned when dropped.
pub(crate) struct PlaceCredits<'a> {
    queue: &'a SubmissionQueue,
    band: Band,
    commands: usize,
    slots: usize,
}

/// A command with credits, while its submission is charged.
struct Entering<'a> {
    credits: PlaceCredits<'a>,
    /// `None`: the submission costs nothing.
    service: Option<Service>,
}

impl PlaceCredits<'_> {
    /// Uses credits for commands that are placed now.
    fn spend(&mut self, commands: usize, slots: usize) {
        debug_assert!(
            self.commands >= commands && self.slots >= slots,
            "more is placed than there are credits for"
        );
        self.commands -= commands;
        self.slots -= slots;
    }
}

impl Drop for PlaceCredits<'_> {
    fn drop(&mut self) {
        if self.slots > 0 {
            self.queue.slots.release(self.slots);
        }
        if self.commands > 0 {
            self.queue.identifier_credits(self.band).release(self.commands);
        }
    }
}

impl SubmissionQueue {
    pub(crate) fn new(port: &Port, config: SubmissionConfig, work: Rc<OutstandingCommands>) -> Self {
        let clock = port.clock().clone();
        let command = || Command {
            progress: Progress::Free,
            waiter: None,
            span: SpanId::NONE,
            submitted: Time::ZERO,
            patient: false,
            aborting: false,
            band: Band::Tags,
            payload: None,
            result_bytes: 0,
            may_be_short: false,
            came: Came::ByPointer,
            result: Vec::new(),
        };
        let mut identifiers = vec![Identifiers::new(&clock, 0..config.identifiers)];
        let mut count = config.identifiers;
        if let Some(OutOfBand { count: more, first }) = config.out_of_band {
            let first = first.unwrap_or(count);
            identifiers.push(Identifiers::new(&clock, first..first + more));
            count = count.max(first + more);
        }
        SubmissionQueue {
            qid: config.qid,
            entries: config.entries,
            address: config.address,
            port: port.clone(),
            doorbell: Doorbell::SubmissionTail(config.qid).offset(config.dstrd),
            tail: Cell::new(0),
            head: Cell::new(0),
            slots: Semaphore::new(&clock, config.entries as usize - 1),
            identifiers,
            commands: RefCell::new((0..count).map(|_| command()).collect()),
            state: Cell::new(State::Live),
            changed: Notify::new(&clock),
            cpu: config.cpu,
            costs: config.costs,
            work,
            extensions: config.extensions,
            wanted: Cell::default(),
            enabled: Cell::default(),
            epoch: Cell::default(),
            chunks: RefCell::default(),
            stream: Semaphore::new(&clock, 1),
            clock,
        }
    }

    /// Credits for identifiers of a band.
    #[inline]
    fn identifier_credits(&self, band: Band) -> &Semaphore {
        &self.identifiers[band as usize].credits
    }

    /// Methods to be enabled.
    pub(crate) fn wanted(&self) -> Methods {
        self.wanted.get()
    }

    /// Adds methods to be enabled; returns all of them.
    pub(crate) fn want(&self, more: Methods) -> Methods {
        self.wanted.set(self.wanted.get().or(more));
        self.wanted.get()
    }

    /// Enabled methods.
    pub(crate) fn enabled(&self) -> Methods {
        self.enabled.get()
    }

    /// Sets the methods that the controller has enabled.
    pub(crate) fn enable(&self, methods: Methods) {
        self.enabled.set(methods);
    }

    /// Number of resets.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Maximum number of outstanding commands of one entry each: streams submit that many together.
    pub(crate) fn commands_max(&self) -> usize {
        self.commands.borrow().len().min(self.entries as usize - 1)
    }

    /// Takes a free slot and identifier for a command and reserves the processor for its submission, if both are free
    /// now, which is nearly always the case.
    #[inline]
    fn enter_now(&self, request: &Request<'_>) -> Option<Entering<'_>> {
        let credits = self.try_credits(request.band, request.slots())?;
        if self.state.get() != State::Live {
            return None;
        }
        let cost = match request.carried {
            Carried::Nothing => self.costs.submission(1, request.pages.into()),
            _ => self.cost(std::slice::from_ref(request)),
        };
        let service = (cost > Delay::ZERO).then(|| self.cpu.reserve_for("submit", cost));
        Some(Entering { credits, service })
    }

    /// Places the command, whose submission was charged, and writes the doorbell.
    #[inline]
    fn entered(&self, mut entering: Entering<'_>, request: &Request<'_>) -> Result<u16, Lost> {
        let placed = self.allows(request).map(|()| {
            entering.credits.spend(1, request.slots());
            self.place(request, None)
        });
        self.ring();
        placed
    }

    /// Waits for a free slot and identifier, charges the submission, places the command and writes the doorbell.
    async fn submit(&self, request: &Request<'_>) -> Result<u16, Lost> {
        let mut cid = 0;
        self.enter(std::slice::from_ref(request), false, |placed| cid = placed).await?;
        Ok(cid)
    }

    /// Places `requests` in order, in as few batches as free slots allow (in one, if `together`), with a doorbell write
    /// after each batch.
    async fn enter(
        &self,
        requests: &[Request<'_>],
        together: bool,
        mut placed: impl FnMut(u16),
    ) -> Result<(), Lost> {
        let mut first = None;
        let mut rest = requests;
        while !rest.is_empty() {
            let mut credits = if together {
                self.credits_for_all(rest).await?
            } else {
                self.wait_for_credits(rest).await?
            };
            let (batch, later) = rest.split_at(credits.commands);
            let cost = self.cost(batch);
            if cost > Delay::ZERO {
                let service = self.cpu.reserve_for("submit", cost);
                self.clock.sleep_until(service.end).await;
                self.charge(batch, service.queued, self.costs.stage);
            }
            if self.state.get() != State::Live {
                if self.is(State::Resetting) && batch.iter().any(|request| request.epoch.is_some()) {
                    return Err(Lost::Reset);
                }
                self.live().await?;
                self.charge_wait(batch);
            }
            let mut refused = Ok(());
            for request in batch {
                refused = self.allows(request);
                if refused.is_err() {
                    break;
                }
                credits.spend(1, request.slots());
                let cid = self.place(request, first);
                first.get_or_insert(cid);
                placed(cid);
            }
            self.ring();
            refused?;
            rest = later;
        }
        Ok(())
    }

    fn cost(&self, batch: &[Request<'_>]) -> Delay {
        let (mut pages, mut entries, mut lines) = (0, 0, 0);
        for request in batch {
            pages += u64::from(request.pages);
            entries += u64::from(request.entries_carried());
            lines += u64::from(request.lines());
        }
        self.costs.submission(batch.len() as u64, pages)
            + self.costs.chunk * entries
            + self.costs.store * lines
    }

    /// Whether a command may be placed now: a reset may have changed the conditions.
    fn allows(&self, request: &Request<'_>) -> Result<(), Lost> {
        if request.epoch.is_some_and(|epoch| epoch != self.epoch.get()) {
            return Err(Lost::Reset);
        }
        let offered = || self.extensions.capabilities();
        let fits = match request.carried {
            Carried::Nothing => true,
            Carried::Train(train) => train.bytes <= offered().inline_bytes_max,
            Carried::Stores(area, payload) => {
                payload.bytes <= area.bytes && area.first + area.bytes <= offered().bar_bytes
            }
            Carried::Chunks(chunks) => chunks.chunked.bytes <= offered().reassembly_bytes_max,
        };
        let allowed = fits && request.needs.is_within(self.enabled.get());
        if allowed { Ok(()) } else { Err(Lost::NotPlaced) }
    }

    /// Waits for slots for chunks of a payload whose command is in another queue. The caller must use or return them.
    pub(crate) async fn reserve(&self, slots: usize) -> Result<(), Lost> {
        if let State::Gone(lost) = self.state.get() {
            return Err(lost);
        }
        self.slots.acquire(slots).await.forget();
        Ok(())
    }

    /// Returns reserved slots.
    pub(crate) fn unreserve(&self, slots: usize) {
        self.slots.release(slots);
    }

    /// Whether entries may be placed now.
    pub(crate) fn is_live(&self) -> bool {
        self.state.get() == State::Live
    }

    /// Waits for credits for all of `requests`.
    pub(crate) async fn credits_for_all(&self, requests: &[Request<'_>]) -> Result<PlaceCredits<'_>, Lost> {
        let (commands, slots) = (requests.len(), requests.iter().map(Request::slots).sum::<usize>());
        if let State::Gone(lost) = self.state.get() {
            return Err(lost);
        }
        if slots >= self.entries as usize || commands > self.commands.borrow().len() {
            return Err(Lost::NotPlaced);
        }
        let begin = self.clock.now();
        let band = requests.first().map_or(Band::Tags, |request| request.band);
        let identifiers = self.identifier_credits(band).acquire(commands).await;
        self.slots.acquire(slots).await.forget();
        identifiers.forget();
        if self.clock.now() > begin {
            self.charge_wait(requests);
        }
        Ok(PlaceCredits { queue: self, band, commands, slots })
    }

    /// Waits for credits for the first of `requests`; takes those for as many more as are available.
    async fn wait_for_credits(&self, requests: &[Request<'_>]) -> Result<PlaceCredits<'_>, Lost> {
        if let State::Gone(lost) = self.state.get() {
            return Err(lost);
        }
        let (first, band) = (requests[0].slots(), requests[0].band);
        if first >= self.entries as usize {
            return Err(Lost::NotPlaced);
        }
        let begin = self.clock.now();
        let mut credits = match self.try_credits(band, first) {
            Some(credits) => credits,
            None => {
                let identifier = self.identifier_credits(band).acquire(1).await;
                let slots = self.slots.acquire(first).await;
                identifier.forget();
                slots.forget();
                PlaceCredits { queue: self, band, commands: 1, slots: first }
            }
        };
        let (commands, slots) = self.more_credits(band, &requests[1..]);
        if commands > 0
            && let Some(identifiers) = self.identifier_credits(band).try_acquire(commands)
            && let Some(permit) = self.slots.try_acquire(slots)
        {
            identifiers.forget();
            permit.forget();
            credits.commands += commands;
            credits.slots += slots;
        }
        if self.clock.now() > begin {
            self.charge_wait(&requests[..credits.commands]);
        }
        Ok(credits)
    }

    /// How many of `requests` have credits available now, and the number of their slots.
    fn more_credits(&self, band: Band, requests: &[Request<'_>]) -> (usize, usize) {
        let commands_max = requests.len().min(self.identifier_credits(band).available());
        let slots_max = self.slots.available();
        let mut slots = 0;
        for (commands, request) in requests[..commands_max].iter().enumerate() {
            if slots + request.slots() > slots_max {
                return (commands, slots);
            }
            slots += request.slots();
        }
        (commands_max, slots)
    }

    /// Credits for one command, if they are available and no task waits for them.
    #[inline]
    fn try_credits(&self, band: Band, slots: usize) -> Option<PlaceCredits<'_>> {
        if !self.identifier_credits(band).try_take(1) {
            return None;
        }
        if !self.slots.try_take(slots) {
            self.identifier_credits(band).release(1);
            return None;
        }
        Some(PlaceCredits { queue: self, band, commands: 1, slots })
    }

    #[inline]
    fn charge(&self, requests: &[Request<'_>], queued: Delay, stage: Stage) {
        if let Some(spans) = self.port.spans() {
            let now = self.clock.now();
            requests.iter().for_each(|request| spans.charge_split(request.span, now, queued, stage));
        }
    }

    /// Charges a wait for places in the queue.
    fn charge_wait(&self, requests: &[Request<'_>]) {
        if let Some(spans) = self.port.spans() {
            let now = self.clock.now();
            requests.iter().for_each(|request| spans.wait(request.span, now, Awaited::QueueEntry));
        }
    }

    /// Waits until commands may be placed.
    pub(crate) async fn live(&self) -> Result<(), Lost> {
        loop {
            match self.state.get() {
                State::Live => return Ok(()),
                State::Gone(lost) => return Err(lost),
                State::Resetting => self.changed.notified().await,
            }
        }
    }

    /// Submits a plain command without waiting and without a charge; `None` if there is no credit.
    pub(crate) fn try_submit(self: &Rc<Self>, request: Request<'_>) -> Option<Pending> {
        if self.state.get() != State::Live {
            return None;
        }
        let mut credits = self.try_credits(request.band, request.slots())?;
        self.allows(&request).ok()?;
        credits.spend(1, request.slots());
        let cid = self.place(&request, None);
        self.ring();
        Some(self.pending(cid))
    }

    fn pending(self: &Rc<Self>, cid: u16) -> Pending {
        Pending { queue: self.clone(), cid, finished: false }
    }

    /// Writes the entry at the tail, and its payload. The caller holds the credits. `first` is the first command
    /// submitted with it.
    fn place(&self, request: &Request<'_>, first: Option<u16>) -> u16 {
        let free = &self.identifiers[request.band as usize].free;
        let cid = free.borrow_mut().pop().expect("a credit stands for a free identifier");
        let payload = match request.carried {
            Carried::Chunks(chunks) => Some(chunks.chunked.id),
            _ => None,
        };
        {
            let command = &mut self.commands.borrow_mut()[cid as usize];
            // Not asserted to be free: a second owner whose identifiers overlap (`OutOfBand`) is found where it completes.
            // Assign fields, not the struct: the memory of its result is reused.
            command.progress = Progress::InFlight;
            command.waiter = None;
            command.span = request.span;
            command.submitted = self.clock.now();
            command.patient = request.patient;
            command.aborting = false;
            command.band = request.band;
            command.payload = payload;
            command.result_bytes = request.result_bytes;
            command.may_be_short = request.may_be_short;
            command.came = Came::ByPointer;
        }
        match request.carried {
            Carried::Stores(area, payload) => self.store(area, payload),
            Carried::Chunks(chunks) => self.place_chunks(&chunks),
            Carried::Nothing | Carried::Train(_) => {}
        }
        let mut sqe = request.sqe.with_cid(cid);
        if request.names_first {
            sqe.cdw2 |= u32::from(first.unwrap_or(cid));
        }
        self.port.follow(self.qid, self.tail.get() as u16, request.span);
        self.write_entry(&sqe.to_bytes());
        if let Carried::Train(train) = request.carried {
            for index in 0..request.entries_carried() {
                let mut entry = [0; Sqe::SIZE];
                train.read(self.port.memory(), index * InlineSlots::SLOT_BYTES, &mut entry);
                self.write_entry(&entry);
            }
        }
        self.work.begin();
        cid
    }

    /// Places a command with the credits `credits`, and writes the doorbell.
    pub(crate) fn place_alone(
        self: &Rc<Self>,
        mut credits: PlaceCredits<'_>,
        request: &Request<'_>,
    ) -> Result<Pending, Lost> {
        self.allows(request)?;
        credits.spend(1, request.slots());
        let cid = self.place(request, None);
        self.ring();
        Ok(self.pending(cid))
    }

    /// Writes entries with chunks at the tail. The caller holds the credits.
    pub(crate) fn place_chunks(&self, chunks: &Chunks<'_>) {
        let (chunked, count) = (chunks.chunked, chunks.count());
        for nth in 0..count {
            let index = chunks.first + nth * chunks.step;
            let range = chunked.range(index);
            let mut part = [0; Chunk::PAYLOAD_BYTES];
            chunks.payload.read(self.port.memory(), range.start as u32, &mut part[..range.len()]);
            let completes = chunks.completes && nth + 1 == count;
            self.write_entry(&chunked.entry(index, &part[..range.len()], completes).to_bytes());
        }
        if chunks.completes && count > 0 {
            self.chunks.borrow_mut().push(chunked.id);
            self.work.begin();
        }
    }

    /// Stores a payload to the device's payload buffer.
    fn store(&self, area: Area, payload: Part<'_>) {
        let base = self.extensions.capabilities().bar_offset + u64::from(area.first);
        let mut at = 0;
        while at < payload.bytes {
            let mut line = [0; LINE_BYTES as usize];
            let count = (payload.bytes - at).min(LINE_BYTES);
            let line = &mut line[..count as usize];
            payload.read(self.port.memory(), at, line);
            self.port.store(base + u64::from(at), line);
            at += count;
        }
    }

    fn write_entry(&self, entry: &[u8; Sqe::SIZE]) {
        let slot = self.tail.get();
        let written = self.port.memory().write(self.address + u64::from(slot) * Sqe::SIZE as u64, entry);
        written.expect("the ring's memory is the driver's own");
        let next = if slot + 1 == self.entries { 0 } else { slot + 1 };
        debug_assert!(next < self.entries, "the tail is within the ring");
        debug_assert_ne!(
            next,
            self.head.get(),
            "an entry that the controller has not fetched is overwritten"
        );
        self.tail.set(next);
    }

    pub(crate) fn ring(&self) {
        self.port.ring(self.doorbell, self.tail.get());
    }

    /// Takes a completion of this queue. Returns false if it contradicts what was submitted; its valid parts
    /// have then been used.
    pub(crate) fn complete(&self, cqe: Cqe, queued: Delay) -> bool {
        let believable = self.advance(u32::from(cqe.sqhd));
        if cqe.cid >= PAYLOAD_ID_MIN {
            return self.complete_chunk(cqe.cid) && believable;
        }
        let waiter = {
            let mut commands = self.commands.borrow_mut();
            let Some(command) = commands.get_mut(cqe.cid as usize) else { return false };
            if !command.progress.is_outstanding() {
                return false;
            }
            self.work.end();
            if let Some(spans) = self.port.spans() {
                spans.charge_split(command.span, self.clock.now(), queued, self.costs.stage);
            }
            if let Some(id) = command.payload.take() {
                self.extensions.end_payload(id, cqe.status().is_success());
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

    /// Takes the completion of a chunk, which only frees slots: the command's completion reports any error. `false` if
    /// none was requested.
    fn complete_chunk(&self, id: u16) -> bool {
        let mut chunks = self.chunks.borrow_mut();
        let Some(index) = chunks.iter().position(|chunk| *chunk == id) else { return false };
        chunks.swap_remove(index);
        self.work.end();
        true
    }

    /// Length of the result after this completion of a command; 0: none.
    pub(crate) fn result_behind(&self, cqe: &Cqe) -> u32 {
        let commands = self.commands.borrow();
        let Some(command) = commands.get(cqe.cid as usize) else { return 0 };
        let is_short = command.may_be_short && cqe.dw1 < command.result_bytes;
        let may = command.progress.is_outstanding()
            && (is_short || command.result_bytes == cqe.dw1)
            && self.enabled.get().inline_result()
            && cqe.status().is_success();
        if may { cqe.dw1 } else { 0 }
    }

    /// Lets `join` assemble the result of the command that `cqe` completes, in reused memory. `false` if it is
    /// incomplete, or another result than agreed.
    pub(crate) fn join_result(&self, cqe: &Cqe, join: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let behind = self.result_behind(cqe) > 0;
        let mut commands = self.commands.borrow_mut();
        let Some(command) = commands.get_mut(cqe.cid as usize) else { return true };
        let asked = command.progress.is_outstanding() && command.result_bytes > 0;
        if !asked || cqe.dw1 == 0 || !cqe.status().is_success() || !self.enabled.get().inline_result() {
            return true;
        }
        command.result.clear();
        let is_whole = behind && join(&mut command.result);
        command.came = if is_whole { Came::Behind } else { Came::Broken };
        is_whole
    }

    /// Trace span of a command.
    pub(crate) fn span(&self, cid: u16) -> SpanId {
        self.commands.borrow().get(cid as usize).map_or(SpanId::NONE, |command| command.span)
    }

    /// Takes SQHD: the controller has fetched all entries before `head`. `false` if that is impossible.
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
        debug_assert!(
            self.slots.available() < self.entries as usize,
            "more slots are free than the ring has"
        );
        true
    }

    fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from { to - from } else { (to + self.entries).saturating_sub(from) }
    }

    /// The end of a command, once it has ended; its identifier stays in use.
    #[inline]
    fn poll_end(&self, cid: u16) -> Poll<Result<Cqe, Lost>> {
        let mut commands = self.commands.borrow_mut();
        let command = &mut commands[cid as usize];
        match command.progress {
            Progress::Done(cqe) => Poll::Ready(Ok(cqe)),
            Progress::Lost(lost) => Poll::Ready(Err(lost)),
            _ => {
                command.waiter = Some(self.clock.current());
                Poll::Pending
            }
        }
    }

    /// Notes that no task waits for the command any more.
    #[cold]
    fn abandon(&self, cid: u16) {
        {
            let mut commands = self.commands.borrow_mut();
            let command = &mut commands[cid as usize];
            if matches!(command.progress, Progress::InFlight) {
                command.progress = Progress::Abandoned;
                return;
            }
        }
        self.release(cid);
    }

    #[inline]
    fn release(&self, cid: u16) {
        let band = {
            let command = &mut self.commands.borrow_mut()[cid as usize];
            command.progress = Progress::Free;
            command.band
        };
        self.identifiers[band as usize].free.borrow_mut().push(cid);
        self.identifier_credits(band).release(1);
    }

    pub(crate) fn is(&self, state: State) -> bool {
        self.state.get() == state
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.set(state);
        self.changed.notify_all();
    }

    /// Handles a reset of the queue: outstanding commands are lost, and the ring starts over.
    pub(crate) fn restart(&self, lost: Lost) {
        let identifiers = self.commands.borrow().len() as u16;
        for cid in 0..identifiers {
            let waiter = {
                let mut commands = self.commands.borrow_mut();
                let command = &mut commands[cid as usize];
                if command.progress.is_outstanding()
                    && let Some(id) = command.payload.take()
                {
                    self.extensions.end_payload(id, lost == Lost::Reset); // a reset controller keeps no chunks
                }
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
        self.chunks.borrow_mut().drain(..).for_each(|_| self.work.end());
        self.enabled.set(Methods::new());
        self.epoch.set(self.epoch.get() + 1);
        let fetched = self.distance(self.head.get(), self.tail.get());
        self.head.set(0);
        self.tail.set(0);
        self.slots.release(fetched as usize);
    }

    /// The first command from `from` on that is outstanding for longer than `timeout`, and whether an Abort was sent
    /// for it.
    pub(crate) fn overdue(&self, from: u16, timeout: Delay) -> Option<(u16, bool)> {
        let now = self.clock.now();
        let commands = self.commands.borrow();
        // An idle host asks repeatedly: do not scan thousands of free records.
        if self.identifiers.iter().map(|band| band.free.borrow().len()).sum::<usize>() == commands.len() {
            return None;
        }
        let mut waiting = commands.iter().enumerate().skip(from as usize);
        waiting
            .find(|(_, command)| {
                let age = now.since(command.submitted);
                command.progress.is_outstanding() && !command.patient && age > timeout
            })
            .map(|(cid, command)| (cid as u16, command.aborting))
    }

    /// Notes that an Abort was sent for a command, which restarts its timeout.
    pub(crate) fn note_abort(&self, cid: u16) {
        let now = self.clock.now();
        if let Some(command) = self.commands.borrow_mut().get_mut(cid as usize) {
            command.aborting = true;
            command.submitted = now;
        }
    }
}
