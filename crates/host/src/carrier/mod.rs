//! The carrier: sends a command's payload to the device by the method that rules and limits choose, and counts it.

mod device_memory;
pub(crate) mod stream;

use crate::carrier::stream::Stream;
use crate::driver::buffer::{IoBuffer, Part, Planned};
use crate::driver::page_owner::PageOwner;
use crate::driver::queue::{Chunks, QueuePair, Request};
use crate::error::IoError;
use crate::error::Lost;
use byteway_clock::{Awaited, Delay, SpanId, Stage};
use byteway_link::Memory;
use byteway_link::memory::Fault;
use byteway_transfer::choice::choose;
use byteway_transfer::host::{Buffer, DataPointer, PlanError, Planner, PointerKind};
use byteway_transfer::inline;
use byteway_transfer::own::{OwnMethod, QueueView};
use byteway_transfer::reassembly::Chunked;
use byteway_transfer::result::ResultMethod;
use byteway_transfer::{Limits, Method, Rules, TransferChoice, TransferKind};
use byteway_wire::nvme::kv::Store;
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::{Cqe, Segment, Sqe};
use std::cell::{Cell, RefCell};
use std::ops::AddAssign;
use std::rc::Rc;

/// Number of counts of payloads to the device.
const KINDS: usize = TransferKind::NAMES.len();

/// Payloads by transfer method. Each payload counts once, even if it took several commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Payloads to the device, by what carried them ([`TransferKind::index`]).
    pub payloads: [u64; KINDS],
    /// The part of all these that their method could not carry, so that the fallback did.
    pub fallbacks: u64,
    /// Results transferred to the data pointer.
    pub pointer_results: u64,
    /// Results that followed their completion.
    pub inline_results: u64,
    /// The part of `pointer_results` that should have followed their completion.
    pub result_fallbacks: u64,
}

impl Counts {
    /// Payloads that a method has carried itself; 0 of one that stands for others.
    pub fn of(&self, method: Method) -> u64 {
        let index = TransferKind::NAMES.iter().position(|name| *name == method.name());
        index.map_or(0, |index| self.payloads[index])
    }

    /// All counts, with the names that reports use.
    pub fn named(&self) -> [(&'static str, u64); KINDS + 4] {
        let others = [
            ("fallbacks", self.fallbacks),
            ("pointer results", self.pointer_results),
            ("inline results", self.inline_results),
            ("result fallbacks", self.result_fallbacks),
        ];
        std::array::from_fn(|index| match index.checked_sub(KINDS) {
            None => (TransferKind::NAMES[index], self.payloads[index]),
            Some(other) => others[other],
        })
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.payloads.iter_mut().zip(other.payloads).for_each(|(sum, one)| *sum += one);
        self.fallbacks += other.fallbacks;
        self.pointer_results += other.pointer_results;
        self.inline_results += other.inline_results;
        self.result_fallbacks += other.result_fallbacks;
    }
}

/// How a client transfers its payloads, and what verifies them.
pub struct TransferConfig<O> {
    /// The transfer methods to the device. Results by data pointer use the same kind of pointers.
    pub rules: Rules,
    /// How results are returned.
    pub results: ResultMethod,
    /// The longest payload or list of an operation, in bytes.
    pub bytes_max: u32,
    /// Queues that carry chunks in addition to the client's own, round robin.
    pub chunk_queues: Vec<QueuePair>,
    /// Generates the contents of payloads, and verifies what is read back.
    pub oracle: Option<Rc<RefCell<O>>>,
}

impl<O> Clone for TransferConfig<O> {
    fn clone(&self) -> Self {
        let (chunk_queues, oracle) = (self.chunk_queues.clone(), self.oracle.clone());
        TransferConfig { chunk_queues, oracle, ..*self }
    }
}

impl<O> TransferConfig<O> {
    /// With `rules`, results by data pointer, up to `bytes_max` bytes, and no oracle.
    pub fn new(rules: Rules, bytes_max: u32) -> Self {
        TransferConfig {
            rules,
            results: ResultMethod::Pointer,
            bytes_max,
            chunk_queues: Vec::new(),
            oracle: None,
        }
    }

    /// The methods that its queue should be enabled for ([`Driver::enable_methods`](crate::Driver::enable_methods));
    /// payloads of methods that are not enabled use the fallback.
    pub const fn methods(&self) -> Methods {
        self.results.enabled_in(self.rules.methods())
    }
}

/// The completion if its status is success, otherwise an error.
pub(crate) fn succeeded<E>(cqe: Cqe) -> Result<Cqe, IoError<E>> {
    match cqe.status() {
        status if status.is_success() => Ok(cqe),
        status => Err(IoError::Status(status)),
    }
}

/// Shared part of the clients of all command sets: data pointers for their buffers, and the choice of
/// transfer methods.
pub struct Carrier {
    pub(crate) queue: QueuePair,
    /// Further queues that carry chunks.
    chunk_queues: Vec<QueuePair>,
    /// Lists of reserved slots in them, reused.
    lanes: RefCell<Vec<Lanes>>,
    pub(crate) rules: Rules,
    /// Counts of payloads, by what carried them.
    payloads: [Cell<u64>; KINDS],
    /// All other counts.
    counts: Cell<Counts>,
    /// The method, if it is not built in.
    own: Option<RefCell<OwnMethod>>,
    bytes_max: u32,
    prp: Option<Planner>,
    sgl: Option<Planner>,
    slots: Cell<usize>,
    /// Buffer for contiguous copies of payloads.
    scratch: RefCell<Vec<u8>>,
    /// The same, for concurrent stores.
    pub(crate) lines: RefCell<Vec<Vec<u8>>>,
    /// The KV namespace that its commands store to.
    pairs_of: Option<u32>,
    /// Lists of the commands of streams, reused.
    pub(crate) streams: RefCell<Vec<Stream>>,
}

impl Carrier {
    /// The carrier of a client on `queue`, which has been enabled for [`TransferConfig::methods`].
    pub fn new<O>(queue: QueuePair, config: &TransferConfig<O>) -> Carrier {
        let TransferConfig { rules, bytes_max, .. } = *config;
        let mut chunk_queues = config.chunk_queues.clone();
        chunk_queues.retain(|other| other.qid() != queue.qid());
        chunk_queues.sort_by_key(QueuePair::qid);
        let by_sgl = rules.method == Method::Sgl;
        let uses = |kind| match kind {
            PointerKind::Prp => !by_sgl || rules.sgl_bytes_min > 0,
            PointerKind::Sgl => by_sgl || rules.fallback == PointerKind::Sgl,
        };
        let memory = queue.port().memory().clone();
        let planner = |kind| uses(kind).then(|| Planner::new(&memory, kind, bytes_max));
        Carrier {
            prp: planner(PointerKind::Prp),
            sgl: planner(PointerKind::Sgl),
            own: OwnMethod::of(&rules, queue.qid()).map(RefCell::new),
            queue,
            chunk_queues,
            lanes: RefCell::default(),
            rules,
            payloads: [const { Cell::new(0) }; KINDS],
            counts: Cell::default(),
            bytes_max,
            slots: Cell::default(),
            scratch: RefCell::default(),
            lines: RefCell::default(),
            pairs_of: None,
            streams: RefCell::default(),
        }
    }

    /// The queue pair.
    pub fn queue(&self) -> &QueuePair {
        &self.queue
    }

    /// Counts of payloads to the device by method.
    pub fn counts(&self) -> Counts {
        Counts { payloads: self.payloads.each_ref().map(Cell::get), ..self.counts.get() }
    }

    /// Sets the carrier up for Store commands of KV namespace `nsid`, which have a key where others have the length of
    /// an inline tail.
    pub(crate) fn for_pairs(self, nsid: u32) -> Carrier {
        Carrier { pairs_of: Some(nsid), ..self }
    }

    /// Announces a train of `bytes` bytes after a command: in its data pointer, or in addition to that.
    fn announce(&self, sqe: Sqe, bytes: u32, in_addition: bool) -> Sqe {
        match in_addition && self.pairs_of.is_some() {
            true => inline::place_store(sqe, bytes),
            false => inline::place(sqe, bytes, in_addition),
        }
    }

    /// Owner of the page buffer for this client's values, if any.
    pub(crate) fn page_owner(&self) -> Option<Rc<PageOwner>> {
        self.queue.submission.extensions.page_owner(self.pairs_of?)
    }

    /// Checks that a payload fits in a buffer, before any state changes.
    pub(crate) fn fits(&self, buffer: &IoBuffer, bytes: u32) -> Result<(), IoError> {
        let (bytes, bytes_max) = (u64::from(bytes), u64::from(buffer.buffer.bytes()));
        if bytes > bytes_max { Err(PlanError::TooLong { bytes, bytes_max }.into()) } else { Ok(()) }
    }

    /// Writes the beginning of a buffer.
    pub fn put(&self, buffer: &IoBuffer, from: &[u8]) -> Result<(), IoError> {
        self.fits(buffer, u32::try_from(from.len()).unwrap_or(u32::MAX))?;
        put(self.memory(), &buffer.buffer, from)
    }

    /// Reads the beginning of a buffer.
    pub fn get(&self, buffer: &IoBuffer, into: &mut [u8]) -> Result<(), IoError> {
        self.fits(buffer, u32::try_from(into.len()).unwrap_or(u32::MAX))?;
        get(self.memory(), &buffer.buffer, into)
    }

    /// Like [`Carrier::get`], into a vector, whose contents are replaced.
    pub fn take(&self, buffer: &IoBuffer, bytes: u32, into: &mut Vec<u8>) -> Result<(), IoError> {
        self.fits(buffer, bytes)?;
        into.clear();
        each_extent(&buffer.buffer, bytes, |part| {
            self.memory().with(part.address, part.bytes as usize, |bytes| into.extend_from_slice(bytes))
        })
    }

    pub(crate) fn memory(&self) -> &Memory {
        self.queue.port().memory()
    }

    /// The longest payload of a command, in bytes.
    pub(crate) fn bytes_max(&self) -> u32 {
        self.bytes_max
    }

    /// A buffer for the longest payload, in consecutive pages.
    pub fn buffer(&self) -> Result<IoBuffer, IoError> {
        let bytes = self.bytes_max;
        let buffer = Buffer::contiguous(self.memory(), 0, bytes).ok_or(IoError::NoRoom { bytes })?;
        self.adopt(buffer)
    }

    /// Wraps a buffer that was allocated elsewhere.
    pub fn adopt(&self, buffer: Buffer) -> Result<IoBuffer, IoError> {
        for planner in [&self.prp, &self.sgl].into_iter().flatten() {
            planner.add_slot().ok_or(IoError::NoRoom { bytes: buffer.bytes() })?;
        }
        let slot = self.slots.replace(self.slots.get() + 1);
        let stores = self.rules.methods().mmio();
        let bytes = self.bytes_max.min(buffer.bytes());
        let extensions = &self.queue.submission.extensions;
        let area = if stores { extensions.area(bytes) } else { None };
        let stores = self.rules.methods().cxl_mem();
        let memory = if stores { extensions.memory_area(bytes) } else { None };
        Ok(IoBuffer { buffer, slot, planned: Cell::default(), area, memory })
    }

    /// Passes the first `bytes` of `buffer`, as one slice, to `read`.
    pub(crate) fn with_payload<R>(
        &self,
        buffer: &Buffer,
        bytes: u32,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, IoError> {
        let memory = self.memory();
        let mut extents = buffer.extents(bytes);
        let (first, rest) = (extents.next(), extents.next());
        let Some(first) = first else { return Ok(look(&[])) };
        if rest.is_none() {
            return memory.with(first.address, first.bytes as usize, look).map_err(IoError::Memory);
        }
        let mut scratch = self.scratch.borrow_mut();
        scratch.resize(bytes as usize, 0);
        get(memory, buffer, &mut scratch)?;
        Ok(look(&scratch))
    }

    /// Passes the first `bytes` of `buffer`, as one mutable slice, to `change`.
    pub(crate) fn with_payload_mut<R>(
        &self,
        buffer: &Buffer,
        bytes: u32,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, IoError> {
        let memory = self.memory();
        let mut extents = buffer.extents(bytes);
        let (first, rest) = (extents.next(), extents.next());
        let Some(first) = first else { return Ok(change(&mut [])) };
        if rest.is_none() {
            return memory.with_mut(first.address, first.bytes as usize, change).map_err(IoError::Memory);
        }
        let mut scratch = self.scratch.borrow_mut();
        scratch.resize(bytes as usize, 0);
        get(memory, buffer, &mut scratch)?;
        let result = change(&mut scratch);
        put(memory, buffer, &scratch)?;
        Ok(result)
    }

    /// Counts a payload.
    pub(crate) fn note(&self, choice: TransferChoice) {
        if let Some(payloads) = self.payloads.get(choice.kind.index()) {
            payloads.set(payloads.get() + 1);
        }
        if choice.is_fallback {
            let counts = self.counts.get();
            self.counts.set(Counts { fallbacks: counts.fallbacks + 1, ..counts });
        }
    }

    /// Counts a result. `should`: it should have followed its completion.
    pub(crate) fn note_result(&self, behind: bool, should: bool) {
        let mut counts = self.counts.get();
        counts.inline_results += u64::from(behind);
        counts.pointer_results += u64::from(!behind);
        counts.result_fallbacks += u64::from(should && !behind);
        self.counts.set(counts);
    }

    /// Chooses the method for a payload of `bytes` to the device.
    pub(crate) fn choose(&self, buffer: &IoBuffer, bytes: u32) -> TransferChoice {
        if matches!(self.rules.method, Method::Prp | Method::Sgl) {
            return TransferChoice::pointer(self.result_kind(bytes)); // whatever methods are enabled
        }
        let bar_bytes = buffer.area.as_ref().map_or(0, |held| held.area.bytes);
        let area_bytes = buffer.memory.as_ref().map_or(0, |held| held.area.bytes);
        let memory_bytes = match self.queue.port().device_memory() {
            Some(_) => self.page_owner().map_or(area_bytes, |owner| owner.bytes_max()),
            None => 0,
        };
        let limits = self.queue.limits();
        // Only key-value pairs have records.
        let has_ring = self.pairs_of.is_some() && self.queue.submission.extensions.commits().is_some();
        let enabled = limits.enabled.with_cxl_commit(limits.enabled.cxl_commit() && has_ring);
        let limits = Limits { bar_bytes, memory_bytes, enabled, ..limits };
        match &self.own {
            None => choose(&self.rules, &limits, bytes),
            Some(own) => self.ask(own, &limits, bytes),
        }
    }

    /// Asks a method that is not built in.
    #[cold]
    fn ask(&self, own: &RefCell<OwnMethod>, limits: &Limits, bytes: u32) -> TransferChoice {
        let narrow = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let queue = QueueView {
            entries_free: narrow(self.queue.slots_free()),
            in_flight: narrow(self.queue.outstanding()),
            now_ns: self.queue.port().clock().now().0 / 1000,
        };
        own.borrow_mut().choose(&self.rules, limits, queue, bytes)
    }

    /// The kind of data pointer for a payload of `bytes` from the device.
    pub(crate) fn result_kind(&self, bytes: u32) -> PointerKind {
        match self.rules.method {
            Method::Sgl if bytes >= self.rules.sgl_bytes_min => PointerKind::Sgl,
            Method::Prp | Method::Sgl => PointerKind::Prp,
            _ => self.rules.fallback,
        }
    }

    /// A data pointer for the first `bytes` of `buffer`. If it equals the last one, its lists are in memory already.
    #[inline]
    pub(crate) fn plan(
        &self,
        kind: PointerKind,
        buffer: &IoBuffer,
        bytes: u32,
    ) -> Result<DataPointer, IoError> {
        match buffer.planned.get() {
            Some(planned) if planned.kind == kind && planned.bytes == bytes => Ok(planned.pointer),
            _ => self.plan_anew(kind, buffer, bytes),
        }
    }

    fn plan_anew(&self, kind: PointerKind, buffer: &IoBuffer, bytes: u32) -> Result<DataPointer, IoError> {
        buffer.planned.set(None);
        let planner = match kind {
            PointerKind::Prp => self.prp.as_ref(),
            PointerKind::Sgl => self.sgl.as_ref(),
        };
        let planner = planner.expect("there is a planner of each kind that the rules can choose");
        let pointer = planner.plan(buffer.slot, &buffer.buffer, bytes)?;
        buffer.planned.set(Some(Planned { kind, bytes, pointer }));
        Ok(pointer)
    }
}

impl Carrier {
    /// Executes a command with the first `bytes` of `buffer` as its data, by a method that needs a command. Its span
    /// stays open.
    pub async fn send(&self, span: SpanId, sqe: Sqe, buffer: &IoBuffer, bytes: u32) -> Result<Cqe, IoError> {
        self.send_chosen(self.choose(buffer, bytes), span, sqe, buffer, bytes).await
    }

    /// Like [`Carrier::send`], by what was chosen before: a payload is chosen for once, or a method that is not built in would see it twice.
    pub(crate) async fn send_chosen(
        &self,
        choice: TransferChoice,
        span: SpanId,
        sqe: Sqe,
        buffer: &IoBuffer,
        bytes: u32,
    ) -> Result<Cqe, IoError> {
        let choice = match choice {
            TransferChoice { kind: TransferKind::Piggyback | TransferKind::PiggybackPipelined, .. } => {
                self.fallback()
            }
            // A value that could not be placed by the host: the controller places it.
            TransferChoice { kind: TransferKind::CxlMem, .. } if self.page_owner().is_some() => {
                self.fallback()
            }
            TransferChoice { kind: TransferKind::CxlCommit, .. } => self.fallback(),
            choice => choice,
        };
        match self.send_by(choice, span, sqe, buffer, bytes).await {
            // A reset has changed the enabled methods.
            Err(IoError::Lost(Lost::NotPlaced)) if !matches!(choice.kind, TransferKind::Pointer(_)) => {
                self.send_by(self.fallback(), span, sqe, buffer, bytes).await
            }
            sent => sent,
        }
    }

    /// Executes a command that returns up to `bytes` bytes to the beginning of `buffer`, by its data pointer. Its span
    /// stays open.
    pub async fn receive(
        &self,
        span: SpanId,
        sqe: Sqe,
        buffer: &IoBuffer,
        bytes: u32,
    ) -> Result<Cqe, IoError> {
        let sqe = self.plan(self.result_kind(bytes), buffer, bytes)?.placed_in(sqe);
        let pages = buffer.buffer.pages_touched(bytes);
        Ok(self.queue.execute(Request { span, pages, ..sqe.into() }).await?)
    }

    /// Executes a Store whose value the host places itself, by a command or a record. [`Lost::NotPlaced`] if
    /// no position is available now.
    pub(crate) async fn send_placed(
        &self,
        kind: TransferKind,
        span: SpanId,
        store: &Store,
        nsid: u32,
        buffer: &IoBuffer,
    ) -> Result<Cqe, Lost> {
        let payload = Part { buffer: &buffer.buffer, offset: 0, bytes: store.bytes };
        let sent = match kind {
            TransferKind::CxlCommit => self.send_committed(span, store, nsid, payload).await,
            _ => {
                let request = Request { span, ..Request::from(store.sqe(0, nsid)) };
                self.send_in_memory(request, buffer, payload).await
            }
        };
        if sent != Err(Lost::NotPlaced) {
            self.note(TransferChoice { kind, is_fallback: false });
        }
        sent
    }

    async fn send_by(
        &self,
        choice: TransferChoice,
        span: SpanId,
        sqe: Sqe,
        buffer: &IoBuffer,
        bytes: u32,
    ) -> Result<Cqe, IoError> {
        let request = |sqe| Request { span, ..Request::from(sqe) };
        let whole = Part { buffer: &buffer.buffer, offset: 0, bytes };
        let sent = match choice.kind {
            TransferKind::Inline { paper } => {
                let sqe = self.announce(sqe, bytes, paper);
                self.queue.execute(request(sqe).with_train(whole)).await
            }
            TransferKind::Hybrid { before } => {
                let sqe = self.plan(PointerKind::Prp, buffer, before)?.placed_in(sqe);
                let tail = Part { offset: before, bytes: bytes - before, ..whole };
                let sqe = self.announce(sqe, tail.bytes, true);
                let pages = buffer.buffer.pages_touched(before);
                self.queue.execute(Request { pages, ..request(sqe) }.with_train(tail)).await
            }
            TransferKind::Reassembly => self.send_chunks(request(sqe), whole).await,
            TransferKind::Mmio if let Some(held) = &buffer.area => {
                let sqe = held.area.placed_in(bytes, sqe);
                held.is_used.set(true);
                let sent = self
                    .queue
                    .execute(request(sqe).with_stores(held.area, whole, Methods::new().with_mmio(true)))
                    .await;
                held.is_used.set(false);
                sent
            }
            TransferKind::CxlMem => self.send_in_memory(request(sqe), buffer, whole).await,
            TransferKind::Pointer(kind) => {
                let sqe = self.plan(kind, buffer, bytes)?.placed_in(sqe);
                let pages = buffer.buffer.pages_touched(bytes);
                self.queue.execute(Request { pages, ..request(sqe) }).await
            }
            TransferKind::Refused => return Err(self.refused()),
            TransferKind::Mmio
            | TransferKind::Piggyback
            | TransferKind::PiggybackPipelined
            | TransferKind::CxlCommit => Err(Lost::NotPlaced),
        };
        if sent != Err(Lost::NotPlaced) {
            self.note(choice);
        }
        Ok(sent?)
    }

    /// Executes a command whose payload comes in chunks: before it, and in the other queues round robin.
    async fn send_chunks(&self, request: Request<'_>, payload: Part<'_>) -> Result<Cqe, Lost> {
        let own = &self.queue.submission;
        let credit = own.extensions.partial().await;
        let id = credit.into_id();
        let chunked = Chunked { id: id.id, bytes: payload.bytes };
        let mut reserved =
            Reserved { carrier: self, lanes: self.lanes.borrow_mut().pop().unwrap_or_default() };
        let takes = |queue: &QueuePair| queue.enabled().reassembly() && chunked.count() < queue.entries();
        let others = (0..self.chunk_queues.len()).filter(|index| takes(&self.chunk_queues[*index]));
        let step = (1 + others.clone().count() as u32).min(chunked.count().max(1));
        let chunks = |first| Chunks { chunked, payload, first, step, completes: first > 0 };
        let command = Request { sqe: chunked.placed_in(request.sqe), ..request }.with_chunks(chunks(0));
        // Reserve slots in all queues before placing any chunk, or the device would have to keep an incomplete payload
        // for as long as the wait takes. Reserve in the order of the queues, so that no two payloads wait for each
        // other.
        let mut lanes = others.zip(1..step).peekable();
        while let Some((index, first)) = lanes.next_if(|(index, _)| self.chunk_queues[*index].qid() < own.qid)
        {
            reserved.add(index, &chunks(first)).await?;
        }
        let credits = own.credits_for_all(std::slice::from_ref(&command)).await?;
        for (index, first) in lanes {
            reserved.add(index, &chunks(first)).await?;
        }
        self.waited(request.span);
        let costs = &own.costs;
        let doorbells = costs.doorbell * reserved.lanes.len() as u64;
        let cost = costs.submission(1, 0) + costs.chunk * u64::from(chunked.count()) + doorbells;
        if cost > Delay::ZERO {
            let service = own.cpu.reserve_for("submit", cost);
            self.queue.port().clock().sleep_until(service.end).await;
            self.charge(request.span, service.queued, Stage::Host);
        }
        while let Some(waits) = reserved.queues().find(|queue| !queue.submission.is_live()) {
            waits.submission.live().await?;
            self.waited(request.span);
        }
        if reserved.queues().any(|queue| !takes(queue)) {
            return Err(Lost::NotPlaced);
        }
        let pending = own.place_alone(credits, &command)?;
        id.placed();
        reserved.place(chunks);
        drop(reserved);
        pending.await
    }

    /// Charges a wait during which nothing was in flight.
    pub(crate) fn waited(&self, span: SpanId) {
        let port = self.queue.port();
        if let Some(spans) = port.spans() {
            spans.wait(span, port.clock().now(), Awaited::QueueEntry);
        }
    }

    pub(crate) fn charge(&self, span: SpanId, queued: Delay, stage: Stage) {
        let port = self.queue.port();
        if let Some(spans) = port.spans() {
            spans.charge_split(span, port.clock().now(), queued, stage);
        }
    }

    /// The error of a method that is not built in and chose what is not possible.
    #[cold]
    fn refused(&self) -> IoError {
        let fault = self.own.as_ref().and_then(|own| own.borrow_mut().fault());
        IoError::Method(fault.unwrap_or("the transfer method refused a payload"))
    }

    pub(crate) fn fallback(&self) -> TransferChoice {
        TransferChoice { kind: TransferKind::Pointer(self.rules.fallback), is_fallback: true }
    }
}

/// Slots reserved for chunks in other queues, by queue and first chunk; released if the chunks are not
/// placed.
struct Reserved<'a> {
    carrier: &'a Carrier,
    lanes: Lanes,
}

/// Per queue that carries chunks: index of the queue, first chunk, number of chunks.
type Lanes = Vec<(usize, u32, usize)>;

impl Reserved<'_> {
    async fn add(&mut self, index: usize, chunks: &Chunks<'_>) -> Result<(), Lost> {
        let slots = chunks.count() as usize;
        self.carrier.chunk_queues[index].submission.reserve(slots).await?;
        self.lanes.push((index, chunks.first, slots));
        Ok(())
    }

    /// All queues that carry chunks of this payload.
    fn queues(&self) -> impl Iterator<Item = &QueuePair> {
        let others = self.lanes.iter().map(|(index, ..)| &self.carrier.chunk_queues[*index]);
        std::iter::once(&self.carrier.queue).chain(others)
    }

    /// Places the chunks. The last one in each queue requests a completion, because only its SQHD tells that the slots
    /// are free: commands of that queue may complete before the chunks are fetched.
    fn place<'b>(&mut self, chunks: impl Fn(u32) -> Chunks<'b>) {
        for (index, first, _) in self.lanes.drain(..) {
            let submission = &self.carrier.chunk_queues[index].submission;
            submission.place_chunks(&chunks(first));
            submission.ring();
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        for (index, _, slots) in self.lanes.drain(..) {
            self.carrier.chunk_queues[index].submission.unreserve(slots);
        }
        self.carrier.lanes.borrow_mut().push(std::mem::take(&mut self.lanes));
    }
}

/// Calls `act` with each extent of the first `bytes` of `buffer`.
pub(crate) fn each_extent(
    buffer: &Buffer,
    bytes: u32,
    mut act: impl FnMut(Segment) -> Result<(), Fault>,
) -> Result<(), IoError> {
    buffer.extents(bytes).try_for_each(&mut act).map_err(IoError::Memory)
}

fn put(memory: &Memory, buffer: &Buffer, from: &[u8]) -> Result<(), IoError> {
    let mut rest = from;
    each_extent(buffer, from.len() as u32, |part| {
        let (now, later) = rest.split_at(part.bytes as usize);
        rest = later;
        memory.write(part.address, now)
    })
}

fn get(memory: &Memory, buffer: &Buffer, into: &mut [u8]) -> Result<(), IoError> {
    let mut done = 0;
    each_extent(buffer, into.len() as u32, |part| {
        let range = done..done + part.bytes as usize;
        done = range.end;
        memory.read(part.address, &mut into[range])
    })
}
