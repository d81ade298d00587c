//! A queue pair as a driver uses it: commands go in where there is a free slot, completions come back to who waits.
//!
//! The submission ring lies in host memory. A command takes a slot of the ring until the controller says, by SQHD,
//! that it has fetched it, and a command identifier until it has completed: two different things, of which either
//! may run out first. Waiting for one allocates nothing: waiters stand in line, command records are reused.
//!
//! Entries may carry payload: a train behind its command, chunks of a payload that is put together by its identifier. A
//! command and what is placed with it get their room at once, or wait for it.

use crate::buffer::Part;
use crate::completion::{CompletionQueue, Work};
use crate::costs::HostCosts;
use crate::error::Lost;
use crate::extension::{Extensions, PAYLOAD_ID_MIN};
use crate::port::Port;
use crate::request_layer::RequestLayer;
use byteway_clock::{Clock, Delay, Notify, Semaphore, Service, SpanId, Stage, Station, TaskId, Time};
use byteway_transfer::Limits;
use byteway_transfer::inline;
use byteway_transfer::mmio::{self, Area};
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
    /// The last one asks for a completion.
    pub completes: bool,
}

impl Chunks<'_> {
    pub(crate) fn count(&self) -> u32 {
        self.chunked.count().saturating_sub(self.first).div_ceil(self.step)
    }
}

/// What the host itself moves with a command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Carried<'a> {
    /// Nothing.
    #[default]
    Nothing,
    /// Payload in the entries behind it.
    Train(Part<'a>),
    /// Payload stored to the device's buffer, before it.
    Stores(Area, Part<'a>),
    /// Chunks of its payload, before it: so that it doesn't wait for those of its own queue, with a completion's place.
    Chunks(Chunks<'a>),
}

/// A command to submit.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The command; its identifier is replaced.
    pub sqe: Sqe,
    /// The I/O that it belongs to.
    pub span: SpanId,
    /// Pages of payload that the driver describes for it: processor time.
    pub pages: u32,
    /// May stay outstanding for ever: no timeout applies (Asynchronous Event Request).
    pub patient: bool,
    /// Payload that goes with it.
    pub(crate) carried: Carried<'a>,
    /// What the queue must be enabled for when it is placed.
    pub(crate) needs: Methods,
    /// If the queue has been reset since, or is being reset, it is not placed.
    pub(crate) epoch: Option<u64>,
    /// Bits 15:0 of its CDW2 name the first command that is submitted together with it.
    pub(crate) names_first: bool,
    /// Its result may come behind its completion: this many bytes, or none.
    pub(crate) result_bytes: u32,
    /// Or fewer.
    pub(crate) may_be_short: bool,
    /// From which band its identifier is.
    pub(crate) band: Band,
}

/// Command identifiers of one owner of a queue pair. Where two share it, a completion says by its identifier whose it is
/// (light-weight NVMe-oF, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Band {
    /// Those that a block layer's tags are.
    #[default]
    Tags,
    /// Those above: of commands that came past the block layer.
    OutOfBand,
}

impl From<Sqe> for Request<'_> {
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
    /// As a part of the I/O that `span` follows, wherever that began: on another link, too.
    pub fn within(mut self, span: SpanId) -> Self {
        self.span = span;
        self
    }

    /// With `train` in the entries behind it, as the command's data pointer or CDW3 says.
    pub fn with_train(self, train: Part<'a>) -> Self {
        let needs = match inline::is_described(&self.sqe) {
            true => self.needs.with_inline(true),
            false => self.needs.with_inline_tail(true),
        };
        Request { carried: Carried::Train(train), needs, ..self }
    }

    /// With its payload in an area of the device's buffer, as the command's data pointer says.
    pub(crate) fn with_stores(self, area: Area, payload: Part<'a>) -> Self {
        Request { carried: Carried::Stores(area, payload), needs: self.needs.with_mmio(true), ..self }
    }

    /// With chunks of its payload, which the command's data pointer names.
    pub(crate) fn with_chunks(self, chunks: Chunks<'a>) -> Self {
        Request { carried: Carried::Chunks(chunks), needs: self.needs.with_reassembly(true), ..self }
    }

    /// Entries that it takes.
    fn slots(&self) -> usize {
        1 + self.entries_carried() as usize
    }

    /// Entries that carry payload.
    fn entries_carried(&self) -> u32 {
        match self.carried {
            Carried::Nothing | Carried::Stores(..) => 0,
            Carried::Train(train) => InlineSlots { bytes: train.bytes }.count(),
            Carried::Chunks(chunks) => chunks.count(),
        }
    }

    /// Lines that are stored.
    fn lines(&self) -> u32 {
        match self.carried {
            Carried::Stores(_, payload) => payload.bytes.div_ceil(mmio::LINE_BYTES),
            _ => 0,
        }
    }
}

/// A command on its way by one of several paths.
pub(crate) type Routed<'a> = Pin<Box<dyn Future<Output = Result<Cqe, Lost>> + 'a>>;

/// Several queue pairs that are one for who uses them.
pub(crate) trait Routes {
    /// Carries a command out by one of them.
    fn execute<'a>(&'a self, request: &'a Request<'a>) -> Routed<'a>;

    /// Whether what is submitted without being executed may go by the queue pair itself.
    fn takes_batches(&self) -> bool {
        true
    }
}

/// A submission queue and the completion queue that takes its completions. Cheap to clone.
#[derive(Clone)]
pub struct QueuePair {
    pub(crate) submission: Rc<SubmissionQueue>,
    pub(crate) completion: Rc<CompletionQueue>,
    /// Whose commands these are.
    pub(crate) band: Band,
    /// What they go through first.
    pub(crate) layer: Option<Rc<dyn RequestLayer>>,
    /// Commands that are executed go by one of these instead.
    pub(crate) routes: Option<Rc<dyn Routes>>,
}

impl QueuePair {
    /// The same queue pair for an owner whose commands go through `layer` one by one ([`QueuePair::execute`]); batches do not.
    pub fn behind(&self, layer: Rc<dyn RequestLayer>) -> QueuePair {
        QueuePair { layer: Some(layer), ..self.clone() }
    }

    /// The same queue pair for another owner, whose commands have identifiers out of the range of the first one's: as many as
    /// [`QueueConfig::out_of_band`](crate::QueueConfig::out_of_band) says, which is its share of the queue. None: it has none.
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

    /// Extensions that are enabled for it ([`Driver::enable_methods`](crate::Driver::enable_methods)).
    pub fn enabled(&self) -> Methods {
        self.submission.enabled()
    }

    /// What its controller offers beyond NVMe.
    pub fn capabilities(&self) -> Capabilities {
        self.submission.extensions.capabilities()
    }

    /// What bounds the payloads of its commands.
    pub fn limits(&self) -> Limits {
        self.submission.extensions.limits(self.enabled(), self.entries())
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
    pub async fn submit(&self, request: impl Into<Request<'_>>) -> Result<Pending, Lost> {
        self.takes_batches()?;
        let request = Request { band: self.band, ..request.into() };
        let cid = self.submission.submit(&request).await?;
        Ok(self.submission.pending(cid))
    }

    /// Submits several with as few doorbells as there is room for: one, if all fit. Appends to `pending` in order. They are the
    /// first owner's.
    ///
    /// # Errors
    /// As [`QueuePair::submit`]; those that went before are in `pending`.
    pub async fn submit_batch(
        &self,
        requests: &[Request<'_>],
        pending: &mut Vec<Pending>,
    ) -> Result<(), Lost> {
        self.takes_batches()?;
        let queue = &self.submission;
        queue.enter(requests, false, |cid| pending.push(queue.pending(cid))).await
    }

    /// Submits several with one doorbell, as soon as there is room for all. Appends to `pending` in order.
    ///
    /// # Errors
    /// As [`QueuePair::submit`]. There can never be room for all: [`Lost::NotPlaced`].
    pub async fn submit_together(
        &self,
        requests: &[Request<'_>],
        pending: &mut Vec<Pending>,
    ) -> Result<(), Lost> {
        self.takes_batches()?;
        let queue = &self.submission;
        queue.enter(requests, true, |cid| pending.push(queue.pending(cid))).await
    }

    /// Refuses what would pass by the queue pair's routes.
    fn takes_batches(&self) -> Result<(), Lost> {
        match &self.routes {
            Some(routes) if !routes.takes_batches() => Err(Lost::NotPlaced),
            _ => Ok(()),
        }
    }

    /// Submits a command and waits for its completion.
    ///
    /// # Errors
    /// The command has no completion and never will.
    pub async fn execute(&self, request: impl Into<Request<'_>>) -> Result<Cqe, Lost> {
        let request = Request { band: self.band, ..request.into() };
        self.execute_placed(&request).await
    }

    /// The same for who has a place for the request, so that it is not moved, and has said whose it is.
    pub(crate) async fn execute_placed(&self, request: &Request<'_>) -> Result<Cqe, Lost> {
        if let Some(routes) = &self.routes {
            return routes.execute(request).await;
        }
        if let Some(layer) = &self.layer {
            return Box::pin(self.execute_behind(&**layer, request)).await;
        }
        let queue = &self.submission;
        let cid = match queue.enter_now(request) {
            Some(entering) => {
                if let Some(service) = entering.service {
                    queue.clock.sleep_until(service.end).await;
                    queue.charge(std::slice::from_ref(request), service.queued, queue.costs.stage);
                }
                if !queue.is_live() {
                    queue.live().await?;
                    queue.charge(std::slice::from_ref(request), Delay::ZERO, Stage::Queueing);
                }
                queue.entered(entering, request)?
            }
            None => queue.submit(request).await?,
        };
        queue.pending(cid).await
    }

    async fn execute_behind(&self, layer: &dyn RequestLayer, request: &Request<'_>) -> Result<Cqe, Lost> {
        let end = match layer.begin(request.span, self.cpu(), &request.sqe).await {
            Ok(end) => end,
            Err(status) => return Ok(Cqe::new(0, status, 0, 0)),
        };
        let completed = Box::pin(QueuePair { layer: None, ..self.clone() }.execute_placed(request)).await;
        end.await;
        completed
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

    /// Waits for the completion and shows, with it, what of a result came behind it.
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
    /// From which band its identifier is.
    band: Band,
    /// Its payload comes in chunks, by this identifier.
    payload: Option<u16>,
    /// How long a result may come behind its completion, whether it did, and what it is.
    result_bytes: u32,
    may_be_short: bool,
    came: Came,
    result: Vec<u8>,
}

/// How a result came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Came {
    /// To where the data pointer says, if there is one at all.
    #[default]
    ByPointer,
    /// Behind the completion.
    Behind,
    /// Behind the completion, but not all of it.
    Broken,
}

/// Whether commands may be placed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Live,
    /// A reset is under way: submissions wait for its end.
    Resetting,
    Gone(Lost),
}

/// Identifiers of a queue pair's second owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBand {
    /// How many: the most commands that it may have outstanding.
    pub count: u16,
    /// The first one. None: that above the first owner's. Any lower one is a mistake, which a test makes on purpose.
    pub first: Option<u16>,
}

/// The identifiers of a band that are free, and credits for them.
struct Identifiers {
    credits: Semaphore,
    free: RefCell<Vec<u16>>,
}

impl Identifiers {
    fn new(clock: &Clock, range: std::ops::Range<u16>) -> Identifiers {
        Identifiers { credits: Semaphore::new(clock, range.len()), free: RefCell::new(range.rev().collect()) }
    }
}

/// What a submission queue is made of.
pub(crate) struct SubmissionConfig {
    pub qid: u16,
    pub entries: u32,
    pub address: u64,
    pub dstrd: u8,
    /// Command identifiers: 1 to 65535.
    pub identifiers: u16,
    /// Further ones, out of the range of these.
    pub out_of_band: Option<OutOfBand>,
    pub cpu: Rc<Station>,
    pub costs: HostCosts,
    pub extensions: Rc<Extensions>,
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
    /// By [`Band`].
    identifiers: Vec<Identifiers>,
    commands: RefCell<Vec<Command>>,
    state: Cell<State>,
    changed: Notify,
    pub(crate) cpu: Rc<Station>,
    pub(crate) costs: HostCosts,
    work: Rc<Work>,
    pub(crate) extensions: Rc<Extensions>,
    /// Extensions that are to be enabled, and that are.
    wanted: Cell<Methods>,
    enabled: Cell<Methods>,
    /// Resets that it has gone through.
    epoch: Cell<u64>,
    /// Payloads of which a chunk was placed here whose completion has not come.
    chunks: RefCell<Vec<u16>>,
    /// Leave to have a stream open that is not submitted at once.
    pub(crate) stream: Semaphore,
}

/// Credits for commands that are about to be placed; given back if they aren't.
pub(crate) struct Room<'a> {
    queue: &'a SubmissionQueue,
    band: Band,
    commands: usize,
    slots: usize,
}

/// A command for which there is room, while its submission is paid for.
struct Entering<'a> {
    room: Room<'a>,
    /// None: it costs nothing.
    service: Option<Service>,
}

impl Room<'_> {
    /// What a command takes of it, that is placed now.
    fn spend(&mut self, commands: usize, slots: usize) {
        self.commands -= commands;
        self.slots -= slots;
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if self.slots > 0 {
            self.queue.slots.release(self.slots);
        }
        if self.commands > 0 {
            self.queue.credits(self.band).release(self.commands);
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

    /// Credits for identifiers.
    #[inline]
    fn credits(&self, band: Band) -> &Semaphore {
        &self.identifiers[band as usize].credits
    }

    /// Extensions that are to be enabled.
    pub(crate) fn wanted(&self) -> Methods {
        self.wanted.get()
    }

    /// Adds to what is to be enabled, and gives all of it.
    pub(crate) fn want(&self, more: Methods) -> Methods {
        self.wanted.set(self.wanted.get().or(more));
        self.wanted.get()
    }

    /// Extensions that are enabled.
    pub(crate) fn enabled(&self) -> Methods {
        self.enabled.get()
    }

    /// The controller has enabled `methods`, and nothing else.
    pub(crate) fn enable(&self, methods: Methods) {
        self.enabled.set(methods);
    }

    /// Resets that it has gone through.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Commands that can be outstanding at once, each an entry: the more a stream has, the more are submitted together.
    pub(crate) fn commands_max(&self) -> usize {
        self.commands.borrow().len().min(self.entries as usize - 1)
    }

    /// Takes a free slot and identifier for a command and reserves the processor for its submission, if both are there
    /// now, as they nearly always are.
    #[inline]
    fn enter_now(&self, request: &Request<'_>) -> Option<Entering<'_>> {
        let room = self.room_now(request.band, request.slots())?;
        if self.state.get() != State::Live {
            return None;
        }
        let cost = match request.carried {
            Carried::Nothing => self.costs.submission(1, request.pages.into()),
            _ => self.cost(std::slice::from_ref(request)),
        };
        let service = (cost > Delay::ZERO).then(|| self.cpu.reserve_for("submit", cost));
        Some(Entering { room, service })
    }

    /// Places the command, which has been paid for, and rings.
    #[inline]
    fn entered(&self, mut entering: Entering<'_>, request: &Request<'_>) -> Result<u16, Lost> {
        let placed = self.allows(request).map(|()| {
            entering.room.spend(1, request.slots());
            self.place(request, None)
        });
        self.ring();
        placed
    }

    /// Waits for a free slot and identifier, pays for the submission, places the command and rings.
    async fn submit(&self, request: &Request<'_>) -> Result<u16, Lost> {
        let mut cid = 0;
        self.enter(std::slice::from_ref(request), false, |placed| cid = placed).await?;
        Ok(cid)
    }

    /// Places `requests` in order, in as few batches as there is room for (in one, if `together`), and rings after each
    /// batch.
    async fn enter(
        &self,
        requests: &[Request<'_>],
        together: bool,
        mut placed: impl FnMut(u16),
    ) -> Result<(), Lost> {
        let mut first = None;
        let mut rest = requests;
        while !rest.is_empty() {
            let mut room = if together { self.room_for_all(rest).await? } else { self.room(rest).await? };
            let (batch, later) = rest.split_at(room.commands);
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
                self.charge(batch, Delay::ZERO, Stage::Queueing);
            }
            let mut refused = Ok(());
            for request in batch {
                refused = self.allows(request);
                if refused.is_err() {
                    break;
                }
                room.spend(1, request.slots());
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

    /// Whether a command may be placed as things are now: a reset may have changed them.
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

    /// Waits for slots for chunks of a payload whose command is in another queue; they are the caller's to give back.
    pub(crate) async fn reserve(&self, slots: usize) -> Result<(), Lost> {
        if let State::Gone(lost) = self.state.get() {
            return Err(lost);
        }
        self.slots.acquire(slots).await.forget();
        Ok(())
    }

    /// Gives slots back that were reserved.
    pub(crate) fn unreserve(&self, slots: usize) {
        self.slots.release(slots);
    }

    /// Whether entries may be placed now.
    pub(crate) fn is_live(&self) -> bool {
        self.state.get() == State::Live
    }

    /// Room for all of `requests`.
    pub(crate) async fn room_for_all(&self, requests: &[Request<'_>]) -> Result<Room<'_>, Lost> {
        let (commands, slots) = (requests.len(), requests.iter().map(Request::slots).sum::<usize>());
        if let State::Gone(lost) = self.state.get() {
            return Err(lost);
        }
        if slots >= self.entries as usize || commands > self.commands.borrow().len() {
            return Err(Lost::NotPlaced);
        }
        let begin = self.clock.now();
        let band = requests.first().map_or(Band::Tags, |request| request.band);
        let identifiers = self.credits(band).acquire(commands).await;
        self.slots.acquire(slots).await.forget();
        identifiers.forget();
        if self.clock.now() > begin {
            self.charge(requests, Delay::ZERO, Stage::Queueing);
        }
        Ok(Room { queue: self, band, commands, slots })
    }

    /// Room for the first of `requests`, and for as many more as there is now.
    async fn room(&self, requests: &[Request<'_>]) -> Result<Room<'_>, Lost> {
        if let State::Gone(lost) = self.state.get() {
            return Err(lost);
        }
        let (first, band) = (requests[0].slots(), requests[0].band);
        if first >= self.entries as usize {
            return Err(Lost::NotPlaced);
        }
        let begin = self.clock.now();
        let mut room = match self.room_now(band, first) {
            Some(room) => room,
            None => {
                let identifier = self.credits(band).acquire(1).await;
                let slots = self.slots.acquire(first).await;
                identifier.forget();
                slots.forget();
                Room { queue: self, band, commands: 1, slots: first }
            }
        };
        let (commands, slots) = self.more(band, &requests[1..]);
        if commands > 0
            && let Some(identifiers) = self.credits(band).try_acquire(commands)
            && let Some(permit) = self.slots.try_acquire(slots)
        {
            identifiers.forget();
            permit.forget();
            room.commands += commands;
            room.slots += slots;
        }
        if self.clock.now() > begin {
            self.charge(&requests[..room.commands], Delay::ZERO, Stage::Queueing);
        }
        Ok(room)
    }

    /// How many of `requests` there is room for now, and slots for them.
    fn more(&self, band: Band, requests: &[Request<'_>]) -> (usize, usize) {
        let commands_max = requests.len().min(self.credits(band).available());
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

    /// Room for one command, if there is room now and nobody waits for it.
    #[inline]
    fn room_now(&self, band: Band, slots: usize) -> Option<Room<'_>> {
        if !self.credits(band).try_take(1) {
            return None;
        }
        if !self.slots.try_take(slots) {
            self.credits(band).release(1);
            return None;
        }
        Some(Room { queue: self, band, commands: 1, slots })
    }

    #[inline]
    fn charge(&self, requests: &[Request<'_>], queued: Delay, stage: Stage) {
        if let Some(spans) = self.port.spans() {
            let now = self.clock.now();
            requests.iter().for_each(|request| spans.charge_split(request.span, now, queued, stage));
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

    /// Submits a plain command without waiting for anything and without paying; None if there is no room.
    pub(crate) fn try_submit(self: &Rc<Self>, request: Request<'_>) -> Option<Pending> {
        if self.state.get() != State::Live {
            return None;
        }
        let mut room = self.room_now(request.band, request.slots())?;
        self.allows(&request).ok()?;
        room.spend(1, request.slots());
        let cid = self.place(&request, None);
        self.ring();
        Some(self.pending(cid))
    }

    fn pending(self: &Rc<Self>, cid: u16) -> Pending {
        Pending { queue: self.clone(), cid, finished: false }
    }

    /// Writes the entry at the tail, and what it carries. Credits for it are held. `first` was submitted together with
    /// it.
    fn place(&self, request: &Request<'_>, first: Option<u16>) -> u16 {
        let free = &self.identifiers[request.band as usize].free;
        let cid = free.borrow_mut().pop().expect("a credit stands for a free identifier");
        let payload = match request.carried {
            Carried::Chunks(chunks) => Some(chunks.chunked.id),
            _ => None,
        };
        {
            // Field by field: the memory for its result stays where it is.
            let command = &mut self.commands.borrow_mut()[cid as usize];
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

    /// Places a command for which there is `room`, now, and rings.
    pub(crate) fn place_alone(
        self: &Rc<Self>,
        mut room: Room<'_>,
        request: &Request<'_>,
    ) -> Result<Pending, Lost> {
        self.allows(request)?;
        room.spend(1, request.slots());
        let cid = self.place(request, None);
        self.ring();
        Ok(self.pending(cid))
    }

    /// Writes entries with chunks at the tail. Credits for them are held.
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

    /// Stores payload to the device's buffer.
    fn store(&self, area: Area, payload: Part<'_>) {
        let base = self.extensions.capabilities().bar_offset + u64::from(area.first);
        let mut at = 0;
        while at < payload.bytes {
            let mut line = [0; mmio::LINE_BYTES as usize];
            let count = (payload.bytes - at).min(mmio::LINE_BYTES);
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
        self.tail.set(if slot + 1 == self.entries { 0 } else { slot + 1 });
    }

    pub(crate) fn ring(&self) {
        self.port.ring(self.doorbell, self.tail.get());
    }

    /// Takes a completion of this queue. False if it contradicts what was submitted; what can be believed of it has
    /// then been taken.
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

    /// Takes the completion of a chunk: what it says of the chunk, its command's completion will say, too. False if none
    /// was asked for.
    fn complete_chunk(&self, id: u16) -> bool {
        let mut chunks = self.chunks.borrow_mut();
        let Some(index) = chunks.iter().position(|chunk| *chunk == id) else { return false };
        chunks.swap_remove(index);
        self.work.end();
        true
    }

    /// How long the result is that comes behind this completion of a command; 0: there is none.
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

    /// Lets `join` put the result of the command that `cqe` completes together, in memory that is used again. False: it
    /// is not whole. False, too, if the completion promises another result than was agreed to.
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

    /// How a command ended, once it has; its identifier stays taken.
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

    /// Nobody waits for the command any more.
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
        self.credits(band).release(1);
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
                if command.progress.is_outstanding()
                    && let Some(id) = command.payload.take()
                {
                    self.extensions.end_payload(id, lost == Lost::Reset); // which keeps nothing
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

    /// The first command from `from` on that has been outstanding for longer than `timeout`, and whether an Abort
    /// was sent for it.
    pub(crate) fn overdue(&self, from: u16, timeout: Delay) -> Option<(u16, bool)> {
        let now = self.clock.now();
        let commands = self.commands.borrow();
        // Asked again and again while a host has nothing to do: not of each of many thousands then.
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

    /// Notes that an Abort was sent for a command: it gets the same time once more.
    pub(crate) fn note_abort(&self, cid: u16) {
        let now = self.clock.now();
        if let Some(command) = self.commands.borrow_mut().get_mut(cid as usize) {
            command.aborting = true;
            command.submitted = now;
        }
    }
}
