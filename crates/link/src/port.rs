//! The link between a host and a drive: its two ends, and the timing and ordering of crossings.
//!
//! Posted writes (doorbells, data, completions, interrupts) arrive later, in order, while their sender
//! continues. A read is two waits: for the request, which samples memory when it arrives, and for the
//! completion. Each direction is a pipe, and everything that enters a pipe is entered in the ledger.

use crate::hdm::Cxl;
use crate::ios::{IoHost, IoLedger};
use crate::ledger::{Direction, Entry, Ledger, Purpose};
use crate::memory::{Epoch, Fault, Memory};
use crate::pcie::{PcieConfig, Tlps};
use crate::switch::Switch;
use crate::watch::{Ring, Rings, Watch};
use byteway_clock::{
    Clock, CreditPlace, Delay, Detail, Mailbox, Notify, Passage, Pipe, Resource, Semaphore, SpanId, Spans,
    Time, Track, Usage,
};
use byteway_content::{Content, Pattern, UNIT_BYTES};
use byteway_wire::nvme::Segment;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// A register write that has arrived at the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmioWrite {
    /// Byte offset in BAR0.
    pub offset: u64,
    /// The value, in the low `bytes` bytes.
    pub value: u64,
    /// Width in bytes, 4 or 8.
    pub bytes: u32,
}

/// Bytes that the host's processor combines into one store: a cache line.
pub const STORE_BYTES: usize = 64;

/// A store to the controller memory in the BAR, in flight.
#[derive(Clone, Copy)]
struct Store {
    offset: u64,
    bytes: u8,
    line: [u8; STORE_BYTES],
}

impl Store {
    fn bytes(&self) -> &[u8] {
        &self.line[..usize::from(self.bytes)]
    }
}

/// A posted write in flight to the device.
enum Downstream {
    Write(MmioWrite),
    Store(Store),
}

/// The device's register space.
pub trait Bar {
    /// Reads `bytes` (4 or 8) at `offset`, as of the instant at which the read arrives. An offset without a
    /// register reads as zero.
    fn read(&self, offset: u64, bytes: u32) -> u64;

    /// Receives a write if modelled waits take no time; otherwise writes wait for [`DeviceEnd::serve_writes`].
    fn write(&self, write: MmioWrite);

    /// Receives a store of at most [`STORE_BYTES`] to controller memory, before every register write that was
    /// sent after it. A device without such memory ignores it.
    fn store(&self, offset: u64, bytes: &[u8]) {
        let _ = (offset, bytes);
    }
}

/// A posted write in flight to the host.
enum Upstream {
    Content {
        address: u64,
        content: Content,
        offset: u32,
        bytes: u32,
        epoch: Epoch,
    },
    Bytes {
        address: u64,
        bytes: Rc<[u8]>,
        epoch: Epoch,
    },
    Completion {
        address: u64,
        entry: [u8; 16],
        /// The completion queue, if a task waited on it at the time of sending: the arrival wakes that task.
        ring: Option<Rc<Ring>>,
    },
    /// A slot of the completion queue behind an entry, which arrives with it.
    Slot {
        address: u64,
        entry: [u8; 16],
    },
    Interrupt {
        vector: u16,
    },
}

impl Upstream {
    /// Target memory: address, bytes, and the epoch in which it was checked. None for an interrupt message.
    #[inline]
    fn target(&self) -> Option<(u64, u64, Epoch)> {
        match self {
            Upstream::Content { address, bytes, epoch, .. } => Some((*address, u64::from(*bytes), *epoch)),
            Upstream::Bytes { address, bytes, epoch } => Some((*address, bytes.len() as u64, *epoch)),
            Upstream::Completion { address, entry, .. } | Upstream::Slot { address, entry } => {
                Some((*address, entry.len() as u64, Epoch::LAST))
            }
            Upstream::Interrupt { .. } => None,
        }
    }
}

/// Consumer of the parts of a read, with the offset of each in the payload.
pub trait PartConsumer {
    /// Takes a part of any length.
    fn bytes(&mut self, offset: usize, part: &[u8]);

    /// Takes a whole page that holds `pattern`. False asks for the page as bytes instead.
    fn page(&mut self, offset: usize, pattern: Pattern) -> bool {
        let _ = (offset, pattern);
        false
    }
}

impl<F: FnMut(usize, &[u8])> PartConsumer for F {
    fn bytes(&mut self, offset: usize, part: &[u8]) {
        self(offset, part);
    }
}

/// Handler of interrupt messages, by vector.
type InterruptHandler = Rc<dyn Fn(u16)>;

/// Where the I/Os of a link are booked.
pub struct IoBook {
    /// The drive's ledger, which all its links share.
    pub ledger: Rc<IoLedger>,
    /// Host of the commands without a label.
    pub host: IoHost,
}

/// A PCIe link.
pub struct Link {
    pub(crate) clock: Clock,
    config: PcieConfig,
    down: Pipe,
    up: Pipe,
    /// The switch between the host and this link, if any.
    switch: Option<Switch>,
    ledger: Ledger,
    memory: Memory,
    tags: Semaphore,
    mmio: Mailbox<Downstream>,
    upstream: Mailbox<Upstream>,
    bar: RefCell<Option<Rc<dyn Bar>>>,
    /// Notified when the device is removed from the link.
    removed: Notify,
    pub(crate) cxl: RefCell<Option<Cxl>>,
    rings: Rings,
    vectors: RefCell<Vec<Rc<Notify>>>,
    /// Handler for interrupt messages, in addition to the tasks that wait for them.
    on_interrupt: RefCell<Option<InterruptHandler>>,
    /// Spans of the I/Os whose commands are in the queues, by queue and slot.
    followed: RefCell<Vec<Vec<SpanId>>>,
    /// Interrupt messages still to be lost, an injected fault.
    interrupts_to_lose: Cell<u32>,
    /// Set where the drive is watched.
    ios: OnceCell<IoBook>,
    faults: Cell<u64>,
    /// Largest extent of one batch of read requests in bytes: a power of two.
    batch_bytes: u64,
}

/// Host address of the drive's BAR0: above 4 GiB.
const BAR_ADDRESS: u64 = 0x40_0000_0000;
/// Address of interrupt messages: above 4 GiB, as with interrupt remapping.
const MSIX_ADDRESS: u64 = 0x41_0000_0000;
/// Read requests sent as one batch, at most: those of a page at the usual read request size.
const BATCH_REQUESTS_MAX: u32 = 8;

/// The host's end of a link.
#[derive(Clone)]
pub struct HostEnd(pub(crate) Rc<Link>);

/// The device's end of a link.
#[derive(Clone)]
pub struct DeviceEnd(pub(crate) Rc<Link>);

impl Link {
    /// Connects a link to `memory`. `config` must be valid ([`PcieConfig::validate`]).
    pub fn connect(clock: &Clock, config: PcieConfig, memory: Memory) -> (HostEnd, DeviceEnd) {
        Self::make(clock, config, memory, None)
    }

    /// Like [`Link::connect`], at a downstream port of a switch, whose ports share its upstream link.
    pub fn connect_behind(
        switch: &Switch,
        clock: &Clock,
        config: PcieConfig,
        memory: Memory,
    ) -> (HostEnd, DeviceEnd) {
        Self::make(clock, config, memory, Some(switch.clone()))
    }

    fn make(
        clock: &Clock,
        config: PcieConfig,
        memory: Memory,
        switch: Option<Switch>,
    ) -> (HostEnd, DeviceEnd) {
        let rate = config.rate();
        let link = Rc::new(Link {
            clock: clock.clone(),
            down: Pipe::new(clock, rate, config.propagation),
            up: Pipe::new(clock, rate, config.propagation),
            switch,
            ledger: Ledger::default(),
            memory,
            tags: Semaphore::new(clock, config.read_tags as usize),
            mmio: Mailbox::new(clock),
            upstream: Mailbox::new(clock),
            bar: RefCell::default(),
            removed: Notify::new(clock),
            cxl: RefCell::default(),
            rings: Rings::default(),
            vectors: RefCell::default(),
            on_interrupt: RefCell::default(),
            followed: RefCell::default(),
            interrupts_to_lose: Cell::default(),
            ios: OnceCell::new(),
            faults: Cell::default(),
            batch_bytes: u64::from(config.mrrs)
                << (config.read_tags / 4).clamp(1, BATCH_REQUESTS_MAX).ilog2(),
            config,
        });
        link.mmio.set_wake_on_quiet(true);
        let root = link.clone();
        clock.spawn("root complex", async move {
            loop {
                let write = root.upstream.receive().await;
                root.arrive_unasked(write);
            }
        });
        (HostEnd(link.clone()), DeviceEnd(link))
    }

    /// Brings host memory up to now. Payload that arrives wakes no task: it is written on the next access to
    /// memory, or with the completion behind it.
    #[inline]
    pub(crate) fn settle(&self) {
        if self.upstream.has_arrived() {
            self.take_arrived();
        }
    }

    fn take_arrived(&self) {
        loop {
            // Nearly all that arrives is data.
            self.upstream.take_in_place(|write| self.land(write));
            let Some(write) = self.upstream.try_receive() else { return };
            self.arrive_unasked(write);
        }
    }

    /// Lands a unit's data, and counts a fault. False for any other write.
    #[inline]
    fn land(&self, write: &Upstream) -> bool {
        let Upstream::Content { address, content, offset, bytes, epoch } = write else { return false };
        let landed =
            self.memory.dma_write_content(*address, content, *offset as usize, *bytes as usize, *epoch);
        if landed.is_err() {
            self.faults.set(self.faults.get() + 1); // as in `arrive_unasked`
        }
        true
    }

    /// Lands a posted write whose sender has moved on, and counts a fault.
    fn arrive_unasked(&self, write: Upstream) {
        if self.arrive(write).is_err() {
            // Freed since it was sent: a posted write has no completion that could report this.
            self.faults.set(self.faults.get() + 1);
        }
    }

    /// Lands a posted write in host memory.
    fn arrive(&self, write: Upstream) -> Result<(), Fault> {
        match write {
            Upstream::Content { address, content, offset, bytes, epoch } => {
                self.memory.dma_write_content(address, &content, offset as usize, bytes as usize, epoch)
            }
            Upstream::Bytes { address, bytes, epoch } => self.memory.dma_write(address, &bytes, epoch),
            Upstream::Completion { address, entry, ring } => {
                let posted = self.memory.dma_post(address, &entry);
                let ring = match ring {
                    Some(ring) => {
                        ring.has_crossed();
                        Some(ring)
                    }
                    None => self.rings.find(address),
                };
                if let Some(waiter) = ring.and_then(|ring| ring.arrives()) {
                    self.clock.wake(waiter);
                }
                posted
            }
            Upstream::Slot { address, entry } => self.memory.dma_post(address, &entry),
            Upstream::Interrupt { vector } => {
                if let Some(left) = self.interrupts_to_lose.get().checked_sub(1) {
                    self.interrupts_to_lose.set(left);
                    return Ok(());
                }
                if let Some(notify) = self.vectors.borrow().get(vector as usize) {
                    notify.notify_one();
                }
                let taker = self.on_interrupt.borrow().clone();
                if let Some(taker) = taker {
                    taker(vector);
                }
                Ok(())
            }
        }
    }

    /// Brings the device up to now. Stores and quiet register writes wake no task: they are taken on the next
    /// access, or with the next register write behind them.
    fn settle_stores(&self) {
        if self.mmio.is_empty() {
            return;
        }
        while let Some(write) = self.mmio.try_receive_quiet() {
            match write {
                Downstream::Store(store) => self.stored(&store),
                Downstream::Write(write) => {
                    let bar = self.bar.borrow().clone();
                    if let Some(bar) = bar {
                        bar.write(write);
                    }
                }
            }
        }
    }

    /// A store arrives at the device.
    fn stored(&self, store: &Store) {
        let bar = self.bar.borrow().clone();
        if let Some(bar) = bar {
            bar.store(store.offset, store.bytes());
        }
    }

    /// Sends a posted write, which puts `tlps` on the link. On a fault nothing crosses. Inlined, because each
    /// caller knows the kind of write.
    #[inline(always)]
    fn post(&self, write: Upstream, purpose: Purpose, tlps: Tlps, payload: u64) -> Result<Passage, Fault> {
        if self.clock.is_immediate() && self.upstream.is_empty() {
            // It arrives in no time and overtakes nothing: the mailbox is only for writes that are in flight.
            self.arrive(write)?;
            return Ok(self.send_up(purpose, tlps, payload));
        }
        if let Some((address, bytes, epoch)) = write.target() {
            self.memory.check_dma(address, bytes, Direction::Up, epoch)?;
        }
        let passage = self.send_up(purpose, tlps, payload);
        match write {
            Upstream::Completion { address, entry, .. } => {
                self.send_completion(passage.arrival, address, entry);
            }
            Upstream::Interrupt { .. } => self.upstream.send_at(passage.arrival, write),
            _ => {
                self.upstream.send_quietly_at(passage.arrival, write);
            }
        }
        Ok(passage)
    }

    /// Schedules a completion's arrival at `at`. It wakes the task that waits on the queue; without one it
    /// goes through the root complex, since the reader is then no task of this simulation.
    fn send_completion(&self, at: Time, address: u64, entry: [u8; 16]) {
        let Some(ring) = self.rings.find(address) else {
            return self.upstream.send_at(at, Upstream::Completion { address, entry, ring: None });
        };
        let waiter = ring.sets_out();
        let write = Upstream::Completion { address, entry, ring: Some(ring) };
        let at = self.upstream.send_quietly_at(at, write);
        if let Some(waiter) = waiter {
            self.clock.wake_at(if self.clock.is_immediate() { self.clock.now() } else { at }, waiter);
        }
    }

    /// Arrival time of the first entry in flight to a completion queue.
    pub(crate) fn arrival_at(&self, ring: &Rc<Ring>) -> Option<Time> {
        let is_its = |write: &Upstream| match write {
            Upstream::Completion { ring: Some(its), .. } => Rc::ptr_eq(its, ring),
            _ => false,
        };
        self.upstream.arrival_of(is_its)
    }

    pub(crate) fn send_down(&self, purpose: Purpose, tlps: Tlps, payload: u64) -> Passage {
        let crossing = tlps.carrying(payload);
        self.ledger.enter(purpose, Direction::Down, crossing);
        let passage = self.down.send(tlps.wire);
        let passage = match &self.switch {
            None => passage,
            Some(switch) => switch.pass(Direction::Down, passage, tlps.wire),
        };
        if self.clock.is_traced() {
            self.trace(Resource::LinkDown, purpose, crossing, passage);
        }
        passage
    }

    /// Whether the requests of a read are one batch.
    fn is_one_batch(&self, address: u64, bytes: u64) -> bool {
        bytes <= self.batch_bytes && address & (self.batch_bytes - 1) <= self.batch_bytes - bytes
    }

    /// A read under `timing = "none"`. It is entered in the ledger as usual but takes no tag, since none is
    /// held across a wait.
    async fn read_at_once(
        &self,
        part: Part,
        purpose: Purpose,
        sample: impl FnOnce(&Memory) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let passage = self.read_now(part, purpose, sample)?;
        self.clock.sleep_until(passage.arrival).await; // lets other tasks run
        Ok(())
    }

    fn read_now(
        &self,
        part: Part,
        purpose: Purpose,
        sample: impl FnOnce(&Memory) -> Result<(), Fault>,
    ) -> Result<Passage, Fault> {
        self.send_up(purpose, part.requests(self), 0);
        self.settle();
        sample(&self.memory)?;
        Ok(self.send_down(purpose, part.completions(self), part.bytes))
    }

    pub(crate) fn send_up(&self, purpose: Purpose, tlps: Tlps, payload: u64) -> Passage {
        let crossing = tlps.carrying(payload);
        self.ledger.enter(purpose, Direction::Up, crossing);
        let passage = self.up.send(tlps.wire);
        let passage = match &self.switch {
            None => passage,
            Some(switch) => switch.pass(Direction::Up, passage, tlps.wire),
        };
        if self.clock.is_traced() {
            self.trace(Resource::LinkUp, purpose, crossing, passage);
        }
        passage
    }

    /// Traces a crossing for as long as it occupies the link: it arrives `propagation` later.
    #[cold]
    fn trace(&self, direction: Resource, purpose: Purpose, crossing: Entry, passage: Passage) {
        let details = [
            ("payload_bytes", Detail::Number(crossing.payload)),
            ("wire_bytes", Detail::Number(crossing.wire)),
            ("tlps", Detail::Number(crossing.tlps)),
        ];
        let begin = self.clock.now() + passage.queued;
        let track = Track::new(direction, 0);
        let what = purpose.name();
        self.clock.note(&Usage { track, what, begin, end: passage.sent, details: &details });
    }
}

/// Methods of both ends.
macro_rules! shared {
    ($end:ident) => {
        impl $end {
            /// The clock of this link.
            pub fn clock(&self) -> &Clock {
                &self.0.clock
            }

            /// The ledgers of this link.
            pub fn ledger(&self) -> &Ledger {
                &self.0.ledger
            }

            /// The constants of this link.
            pub fn config(&self) -> &PcieConfig {
                &self.0.config
            }

            /// The spans of open I/Os.
            pub fn spans(&self) -> &Spans {
                self.0.clock.spans()
            }

            /// Time for which each direction has been busy: down, up.
            pub fn busy(&self) -> (Delay, Delay) {
                (self.0.down.busy(), self.0.up.busy())
            }

            /// The same for the link at the root complex: behind a switch, its upstream link.
            pub fn root_busy(&self) -> (Delay, Delay) {
                self.0.switch.as_ref().map_or_else(|| self.busy(), Switch::busy)
            }

            /// Where its I/Os are booked. `None`: the drive is not watched.
            #[inline]
            pub fn ios(&self) -> Option<&IoBook> {
                self.0.ios.get()
            }

            /// Posted writes that arrived at memory that is not (or no longer) there.
            pub fn faults(&self) -> u64 {
                self.0.faults.get()
            }
        }
    };
}
shared!(HostEnd);
shared!(DeviceEnd);

impl HostEnd {
    /// Books the I/Os of this link in `ledger` from now on; those whose span has no label under `host`. Only the first
    /// call has an effect.
    pub fn book_ios(&self, ledger: Rc<IoLedger>, host: IoHost) {
        self.0.ios.set(IoBook { ledger, host }).ok();
    }

    /// Host memory, including everything that has arrived by now.
    pub fn memory(&self) -> &Memory {
        self.0.settle();
        &self.0.memory
    }

    /// Waits until the device is removed from the link. For one task.
    pub async fn removed(&self) {
        self.0.removed.notified().await;
    }

    /// Delivers every register write in flight, before a read that is answered immediately and must not pass
    /// them.
    pub fn hasten_writes(&self) {
        let link = &self.0;
        let bar = link.bar.borrow().clone();
        let Some(bar) = bar else { return };
        while let Some(write) = link.mmio.receive_early() {
            match write {
                Downstream::Write(write) => bar.write(write),
                Downstream::Store(store) => bar.store(store.offset, store.bytes()),
            }
        }
    }

    /// Lets every posted write arrive now: before memory is unmapped, so that no successful command's data
    /// are lost.
    pub fn land_posted_writes(&self) {
        while let Some(write) = self.0.upstream.receive_early() {
            self.0.arrive_unasked(write);
        }
    }

    /// Bytes of posted writes in flight to host memory: entered in the ledger, not yet arrived.
    pub fn bytes_in_flight(&self) -> u64 {
        self.0.upstream.sum(|write| write.target().map_or(0, |(_, bytes, _)| bytes))
    }

    /// Writes a 32-bit register, posted; `purpose` is doorbell or other register.
    pub fn write32(&self, offset: u64, value: u32, purpose: Purpose) {
        self.write(offset, u64::from(value), 4, purpose);
    }

    /// Writes a 64-bit register, posted.
    pub fn write64(&self, offset: u64, value: u64) {
        self.write(offset, value, 8, Purpose::Register);
    }

    /// Writes the head doorbell of a completion queue, posted. It only frees slots, so the device takes it
    /// when it next looks for a free slot.
    pub fn ring_head(&self, offset: u64, value: u32) {
        self.send_write(offset, u64::from(value), 4, Purpose::Doorbell, true);
    }

    fn write(&self, offset: u64, value: u64, bytes: u32, purpose: Purpose) {
        self.send_write(offset, value, bytes, purpose, false);
    }

    fn send_write(&self, offset: u64, value: u64, bytes: u32, purpose: Purpose, is_quiet: bool) {
        let link = &self.0;
        let tlps = link.config.write(BAR_ADDRESS, u64::from(bytes));
        let passage = link.send_down(purpose, tlps, u64::from(bytes));
        let write = MmioWrite { offset, value, bytes };
        if link.clock.is_immediate() && link.mmio.is_empty() {
            let bar = link.bar.borrow().clone();
            if let Some(bar) = bar {
                return bar.write(write);
            }
        }
        if is_quiet {
            link.mmio.send_quietly_at(passage.arrival, Downstream::Write(write));
        } else {
            link.mmio.send_at(passage.arrival, Downstream::Write(write));
        }
    }

    /// Stores `bytes` to the controller memory at `offset` of BAR0, posted: one write for each line of
    /// [`STORE_BYTES`] that it touches. The stores arrive before every register write that is sent after
    /// them, and wake no task. Returns when the last one arrives.
    pub fn store(&self, offset: u64, bytes: &[u8]) -> Time {
        let link = &self.0;
        link.settle_stores();
        let mut arrival = link.clock.now();
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let space = STORE_BYTES - (at % STORE_BYTES as u64) as usize;
            let (part, later) = rest.split_at(rest.len().min(space));
            let tlps = link.config.write(BAR_ADDRESS.saturating_add(at), part.len() as u64);
            let passage = link.send_down(Purpose::MmioData, tlps, part.len() as u64);
            let mut store = Store { offset: at, bytes: part.len() as u8, line: [0; STORE_BYTES] };
            store.line[..part.len()].copy_from_slice(part);
            if link.clock.is_immediate() && link.mmio.is_empty() {
                link.stored(&store);
            } else {
                link.mmio.send_quietly_at(passage.arrival, Downstream::Store(store));
            }
            (at, rest) = (at.saturating_add(part.len() as u64), later);
            arrival = passage.arrival;
        }
        arrival
    }

    /// Reads a 32-bit register.
    pub async fn read32(&self, offset: u64) -> u32 {
        self.read(offset, 4).await as u32
    }

    /// Reads a 64-bit register.
    pub async fn read64(&self, offset: u64) -> u64 {
        self.read(offset, 8).await
    }

    async fn read(&self, offset: u64, bytes: u32) -> u64 {
        let link = &self.0;
        let request = link.send_down(Purpose::Register, link.config.read_requests(BAR_ADDRESS, 4), 0);
        link.clock.sleep_until(request.arrival).await;
        // A read must not pass posted writes, so those that have arrived are taken first. A device that is
        // off takes none.
        loop {
            link.clock.yield_now().await;
            link.settle_stores();
            if link.mmio.is_empty() || link.bar.borrow().is_none() {
                break;
            }
            if !link.clock.is_immediate() {
                break; // the rest was sent later
            }
        }
        let bar = link.bar.borrow().clone();
        let value = bar.map_or(u64::MAX, |bar| bar.read(offset, bytes));
        let completion = link.config.register_completion(u64::from(bytes));
        let passage = link.send_up(Purpose::Register, completion, u64::from(bytes));
        link.clock.sleep_until(passage.arrival).await;
        value
    }

    /// A watch of the completion queue in the `bytes` at `address`.
    pub fn watch(&self, address: u64, bytes: u64) -> Watch {
        Watch { link: self.0.clone(), ring: self.0.rings.add(address, bytes) }
    }

    /// Ends the watch of the queue at `address`.
    pub fn unwatch(&self, address: u64) {
        self.0.rings.remove(address);
    }

    /// The notification of interrupt messages of `vector`.
    pub fn interrupt(&self, vector: u16) -> Rc<Notify> {
        let mut vectors = self.0.vectors.borrow_mut();
        while vectors.len() <= vector as usize {
            vectors.push(Rc::new(Notify::new(&self.0.clock)));
        }
        vectors[vector as usize].clone()
    }

    /// Calls `taker` with the vector of each interrupt message that arrives, to forward it. Tasks that wait
    /// for the vector are woken as well. A new taker replaces the previous one.
    pub fn on_interrupt(&self, taker: Rc<dyn Fn(u16)>) {
        self.0.on_interrupt.replace(Some(taker));
    }

    /// Injects a fault: the next interrupt message that arrives is lost.
    pub fn lose_interrupt(&self) {
        self.0.interrupts_to_lose.set(self.0.interrupts_to_lose.get() + 1);
    }

    /// Injects a fault: the link replays its last `bytes` in one direction, after an error that the other end
    /// detected. Later traffic queues behind them. The ledgers do not count them, since they count each
    /// crossing once.
    pub fn replay(&self, direction: Direction, bytes: u64) {
        match direction {
            Direction::Down => self.0.down.send(bytes),
            Direction::Up => self.0.up.send(bytes),
        };
    }

    /// Attaches the span of the I/O whose command the host has placed in `slot` of `queue`.
    pub fn follow(&self, queue: u16, slot: u16, span: SpanId) {
        let mut followed = self.0.followed.borrow_mut();
        let (queue, slot) = (queue as usize, slot as usize);
        match followed.get_mut(queue).and_then(|slots| slots.get_mut(slot)) {
            Some(place) => *place = span,
            None => follow_first(&mut followed, queue, slot, span),
        }
    }
}

/// Slow path: the first command in a slot.
#[cold]
fn follow_first(followed: &mut Vec<Vec<SpanId>>, queue: usize, slot: usize, span: SpanId) {
    if followed.len() <= queue {
        followed.resize_with(queue + 1, Vec::new);
    }
    followed[queue].resize(slot + 1, SpanId::NONE);
    followed[queue][slot] = span;
}

impl DeviceEnd {
    /// A posted message between parts of the device's firmware on either side of the link, into the other
    /// side's memory. It takes its time and is entered in the ledger; its content is up to the model.
    pub fn tell(&self, direction: Direction, bytes: u64) -> Passage {
        let tlps = self.0.config.write(BAR_ADDRESS, bytes);
        match direction {
            Direction::Down => self.0.send_down(Purpose::Firmware, tlps, bytes),
            Direction::Up => self.0.send_up(Purpose::Firmware, tlps, bytes),
        }
    }

    /// Sets the register space that answers register reads.
    pub fn attach(&self, bar: Rc<dyn Bar>) {
        self.0.bar.replace(Some(bar));
    }

    /// Removes the register space: the device is off, and the link does not keep it alive.
    pub fn detach(&self) {
        let bar = self.0.bar.take();
        drop(bar);
        let cxl = self.0.cxl.take();
        drop(cxl);
    }

    /// Signals to the other end that the device was removed: the port's Presence Detect Changed (PCIe Base
    /// 6.0, 6.7.3).
    pub fn announce_removal(&self) {
        self.0.removed.notify_one();
    }

    /// Waits for the next register write. Stores before it are delivered first ([`Bar::store`]).
    pub async fn next_write(&self) -> MmioWrite {
        loop {
            match self.0.mmio.receive().await {
                Downstream::Write(write) => return write,
                Downstream::Store(store) => self.0.stored(&store),
            }
        }
    }

    /// For the call that takes register writes: passes `take` each one that has arrived. Stores before it are delivered first
    /// ([`Bar::store`]). This call is made again when the next one arrives.
    pub fn serve_writes(&self, mut take: impl FnMut(MmioWrite)) {
        self.0.mmio.serve(|write| match write {
            Downstream::Write(write) => take(write),
            Downstream::Store(store) => self.0.stored(&store),
        });
    }

    /// Delivers the quiet register writes that have arrived: before the device reads the state that they
    /// change.
    #[inline]
    pub fn settle_writes(&self) {
        self.0.settle_stores();
    }

    /// Sets whether quiet writes wake the device as well. True at first; a device that polls sets it to
    /// false.
    pub fn heed_quiet_writes(&self, heeds: bool) {
        self.0.mmio.set_wake_on_quiet(heeds);
    }

    /// Delivers a register write of any length and offset, as from a hostile host. For tests.
    pub fn deliver(&self, write: MmioWrite) {
        self.0.mmio.send_at(self.0.clock.now(), Downstream::Write(write));
    }

    /// Drops the register writes in flight.
    pub fn lose_writes(&self) {
        self.0.mmio.clear();
    }

    /// Whether no posted write is in flight to host memory.
    pub fn has_arrived(&self) -> bool {
        self.0.settle();
        self.0.upstream.is_empty()
    }

    /// Reads a word of host memory at once, outside the link and its ledgers, with acquire.
    pub fn load32(&self, address: u64) -> Result<u32, Fault> {
        self.0.memory.load32(address)
    }

    /// Writes a word of host memory in the same way, with release.
    pub fn store32(&self, address: u64, value: u32) -> Result<(), Fault> {
        self.0.memory.store32(address, value)
    }

    /// Takes the span of the I/O whose command lies in `slot` of `queue`.
    pub fn followed(&self, queue: u16, slot: u16) -> SpanId {
        let mut followed = self.0.followed.borrow_mut();
        let entry = followed.get_mut(queue as usize).and_then(|slots| slots.get_mut(slot as usize));
        entry.map_or(SpanId::NONE, |span| std::mem::replace(span, SpanId::NONE))
    }

    /// The current epoch of host memory. A transfer reads it before its extents are checked.
    pub fn epoch(&self) -> Epoch {
        self.0.memory.epoch()
    }

    /// Checks that the host gave the whole extent, in `epoch` or before, for payload in `direction`.
    pub fn check(&self, segment: Segment, direction: Direction, epoch: Epoch) -> Result<(), Fault> {
        self.0.memory.check_dma(segment.address, u64::from(segment.bytes), direction, epoch)
    }

    /// Reads a short extent of host memory (entries, lists) into `into`, from the memory mapped when the
    /// request arrives.
    pub async fn read(&self, address: u64, into: &mut [u8], purpose: Purpose) -> Result<(), Fault> {
        let link = &self.0;
        if link.clock.is_immediate() && link.is_one_batch(address, into.len() as u64) {
            let part = Part { address, bytes: into.len() as u64, skip: 0, wanted: into.len(), offset: 0 };
            let sample = |memory: &Memory| memory.dma_read_into(address, into, Epoch::LAST);
            return link.read_at_once(part, purpose, sample).await;
        }
        let segment = Segment { address, bytes: into.len() as u32 };
        let take = |offset: usize, part: &[u8]| into[offset..offset + part.len()].copy_from_slice(part);
        self.gather([segment], Epoch::LAST, 1, purpose, take).await
    }

    /// The extent as one batch of requests; None if it needs more.
    #[inline]
    pub fn part(&self, segment: Segment) -> Option<Part> {
        let Segment { address, bytes } = segment;
        let is_part = bytes > 0
            && self.0.is_one_batch(address, bytes.into())
            && address.checked_add(bytes.into()).is_some();
        let wanted = bytes as usize;
        is_part.then_some(Part { address, bytes: bytes.into(), skip: 0, wanted, offset: 0 })
    }

    /// For a call that reads one part as [`read_part`](DeviceEnd::read_part) does: sends its requests, and returns the instant at which
    /// memory is to be [sampled](DeviceEnd::sample_part). `None`: it waits for tags at `place`, and this call is made again.
    #[inline]
    pub fn ask_for_part(&self, part: &Part, purpose: Purpose, place: &mut CreditPlace) -> Option<Time> {
        let link = &self.0;
        let requests = part.requests(link);
        link.tags.take_or_wait(requests.count as usize, place)?;
        Some(link.send_up(purpose, requests, 0).arrival + link.config.memory_latency)
    }

    /// Like [`ask_for_part`](DeviceEnd::ask_for_part), for any call: `None`, with nothing sent, if there are no tags now.
    #[inline]
    pub fn try_ask_for_part(&self, part: &Part, purpose: Purpose) -> Option<Time> {
        let link = &self.0;
        let requests = part.requests(link);
        link.tags
            .try_take(requests.count as usize)
            .then(|| link.send_up(purpose, requests, 0).arrival + link.config.memory_latency)
    }

    /// Like [`sample_part`](DeviceEnd::sample_part), of the memory mapped now, into `into`.
    ///
    /// # Errors
    /// [`Fault`] if it is outside the host's memory; the tags are released.
    #[inline]
    pub fn sample_bytes(&self, part: &Part, purpose: Purpose, into: &mut [u8]) -> Result<Time, Fault> {
        let link = &self.0;
        debug_assert_eq!(part.bytes, into.len() as u64, "what was asked for is what is taken");
        link.settle();
        match link.memory.dma_read_into(part.address, into, Epoch::LAST) {
            Ok(()) => Ok(link.send_down(purpose, part.completions(link), part.bytes).arrival),
            Err(fault) => {
                self.release_part(part);
                Err(fault)
            }
        }
    }

    /// Samples memory for such a read. Returns the instant at which the last byte has arrived, when its tags are to be
    /// [released](DeviceEnd::release_part).
    ///
    /// # Errors
    /// Same as [`DeviceEnd::gather`]; the tags are released.
    #[inline]
    pub fn sample_part(
        &self,
        part: &Part,
        epoch: Epoch,
        purpose: Purpose,
        mut take: impl PartConsumer,
    ) -> Result<Time, Fault> {
        let link = &self.0;
        link.settle();
        match part.sample(&link.memory, epoch, &mut take) {
            Ok(()) => Ok(link.send_down(purpose, part.completions(link), part.bytes).arrival),
            Err(fault) => {
                self.release_part(part);
                Err(fault)
            }
        }
    }

    /// Gives up the place of a read that [waits for tags](DeviceEnd::ask_for_part).
    pub fn give_up_tags(&self, place: &mut CreditPlace) {
        self.0.tags.give_up(place);
    }

    /// Releases the tags of such a read.
    #[inline]
    pub fn release_part(&self, part: &Part) {
        self.0.tags.release(part.requests(&self.0).count as usize);
    }

    /// [Gathers](DeviceEnd::gather) one part, as nearly every read does, without tracking batches in flight.
    ///
    /// # Errors
    /// Same as [`DeviceEnd::gather`].
    pub async fn read_part(
        &self,
        part: Part,
        epoch: Epoch,
        purpose: Purpose,
        mut take: impl PartConsumer,
    ) -> Result<(), Fault> {
        let link = &self.0;
        if link.clock.is_immediate() {
            let sample = |memory: &Memory| part.sample(memory, epoch, &mut take);
            return link.read_at_once(part, purpose, sample).await;
        }
        let requests = part.requests(link);
        let tags = Tags::take(link, requests.count as usize).await;
        let reached = link.send_up(purpose, requests, 0).arrival + link.config.memory_latency;
        link.clock.sleep_until(reached).await;
        link.settle();
        part.sample(&link.memory, epoch, &mut take)?;
        let passage = link.send_down(purpose, part.completions(link), part.bytes);
        link.clock.sleep_until(passage.arrival).await;
        drop(tags);
        Ok(())
    }

    /// Reads extents of host memory that were checked in `epoch`. `take` is called as each part is sampled,
    /// in order, with offsets that count over all extents.
    ///
    /// # Errors
    /// [`Fault`] at the first extent that is by then outside the host's memory. Earlier parts were taken.
    ///
    /// `granularity` is that of the device's DMA, a power of two of at most 4 KiB: whole aligned units are
    /// read, of which `take` sees only the requested bytes.
    ///
    /// Requests go out in batches, as far as tags are available. A batch samples memory when its last request
    /// has arrived, and holds its tags until its last completion has.
    pub async fn gather(
        &self,
        segments: impl IntoIterator<Item = Segment>,
        epoch: Epoch,
        granularity: u64,
        purpose: Purpose,
        mut take: impl PartConsumer,
    ) -> Result<(), Fault> {
        let link = &self.0;
        let mut parts = Parts::new(segments.into_iter(), granularity, link.batch_bytes);
        let mut next = parts.next();
        let mut after = parts.next();
        if let (Some(part), None) = (next, after) {
            return self.read_part(part, epoch, purpose, take).await;
        }
        if link.clock.is_immediate() {
            while let Some(part) = next {
                let sample = |memory: &Memory| part.sample(memory, epoch, &mut take);
                link.read_at_once(part, purpose, sample).await?;
                next = after.take().or_else(|| parts.next());
            }
            return Ok(());
        }
        let mut requested = VecDeque::new();
        let mut completing = VecDeque::new();
        let mut fault = None;
        loop {
            // Issue while tags are available; wait for tags only if no batch of this read will return any.
            while let Some(part) = next.filter(|_| fault.is_none()) {
                let requests = part.requests(link);
                let tags = match link.tags.try_acquire(requests.count as usize) {
                    Some(tags) => tags,
                    None if requested.is_empty() && completing.is_empty() => {
                        link.tags.acquire(requests.count as usize).await
                    }
                    None => break,
                };
                let passage = link.send_up(purpose, requests, 0);
                requested.push_back((passage.arrival + link.config.memory_latency, part, tags));
                next = after.take().or_else(|| parts.next());
            }
            let reached = requested.front().map(|(at, ..)| *at);
            let completed = completing.front().map(|(at, _)| *at);
            let Some(at) = reached.into_iter().chain(completed).min() else { break };
            link.clock.sleep_until(at).await;
            if completed == Some(at) {
                completing.pop_front();
            } else if let Some((_, part, tags)) = requested.pop_front() {
                link.settle();
                let read = match fault {
                    None => part.sample(&link.memory, epoch, &mut take),
                    Some(_) => link.memory.dma_read(part.address, part.bytes as usize, epoch, |_| ()),
                };
                match read {
                    Ok(()) => {
                        let passage = link.send_down(purpose, part.completions(link), part.bytes);
                        completing.push_back((passage.arrival, tags));
                    }
                    Err(error) => fault = fault.or(Some(error)),
                }
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// Like [`gather`](DeviceEnd::gather) under `timing = "none"`, without yielding.
    pub fn gather_at_once(
        &self,
        segments: impl IntoIterator<Item = Segment>,
        epoch: Epoch,
        granularity: u64,
        purpose: Purpose,
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<(), Fault> {
        let link = &self.0;
        debug_assert!(link.clock.is_immediate(), "with modelled time a read has to wait");
        for part in Parts::new(segments.into_iter(), granularity, link.batch_bytes) {
            link.read_now(part, purpose, |memory| part.sample(memory, epoch, &mut take))?;
        }
        Ok(())
    }

    /// Writes `bytes` of `content`, from `offset` on, to host memory that was checked in `epoch`. Posted.
    pub fn write_content(
        &self,
        address: u64,
        content: Content,
        offset: u32,
        bytes: u32,
        epoch: Epoch,
        purpose: Purpose,
    ) -> Result<Passage, Fault> {
        let tlps = self.0.config.write(address, u64::from(bytes));
        let write = Upstream::Content { address, content, offset, bytes, epoch };
        self.0.post(write, purpose, tlps, u64::from(bytes))
    }

    /// Writes bytes to host memory that was checked in `epoch`. Posted.
    pub fn write_bytes(
        &self,
        address: u64,
        bytes: Rc<[u8]>,
        epoch: Epoch,
        purpose: Purpose,
    ) -> Result<Passage, Fault> {
        let length = bytes.len() as u64;
        let tlps = self.0.config.write(address, length);
        self.0.post(Upstream::Bytes { address, bytes, epoch }, purpose, tlps, length)
    }

    /// Writes a completion queue entry, posted, to the memory mapped when it arrives.
    pub fn post(&self, address: u64, entry: [u8; 16]) -> Result<Passage, Fault> {
        let tlps = self.0.config.write(address, 16);
        self.0.post(Upstream::Completion { address, entry, ring: None }, Purpose::Cqe, tlps, 16)
    }

    /// Writes a completion queue entry and the slots behind it, posted, as one write for each of `runs`
    /// (address and slots; the second may be empty): up to the end of the ring, and from its start.
    /// `slot(index)` returns the slots; 0 is the entry. The slots arrive before the entry and wake no task.
    /// They count as data, except for the packet overhead, which counts for the entry.
    pub fn post_result(
        &self,
        runs: [(u64, u32); 2],
        slot: impl Fn(u32) -> [u8; 16],
    ) -> Result<Passage, Fault> {
        let link = &self.0;
        let mut tlps = Tlps { count: 0, wire: 0 };
        for (address, slots) in runs.into_iter().filter(|(_, slots)| *slots > 0) {
            let bytes = u64::from(slots) * 16;
            link.memory.check_dma(address, bytes, Direction::Up, Epoch::LAST)?;
            let write = link.config.write(address, bytes);
            tlps = Tlps { count: tlps.count + write.count, wire: tlps.wire + write.wire };
        }
        let all = u64::from(runs[0].1 + runs[1].1) * 16;
        let passage = link.send_up(Purpose::Cqe, tlps, all);
        let data = Entry { tlps: 0, payload: all - 16, wire: all - 16 };
        link.ledger.reassign(Purpose::Cqe, Purpose::Data, Direction::Up, data);
        let address_of = |index: u32| match index.checked_sub(runs[0].1) {
            None => runs[0].0 + u64::from(index) * 16,
            Some(behind) => runs[1].0 + u64::from(behind) * 16,
        };
        let at_once = link.clock.is_immediate() && link.upstream.is_empty();
        for index in 1..runs[0].1 + runs[1].1 {
            let write = Upstream::Slot { address: address_of(index), entry: slot(index) };
            if at_once {
                link.arrive(write)?;
            } else {
                link.upstream.send_quietly_at(passage.arrival, write);
            }
        }
        let (address, entry) = (runs[0].0, slot(0));
        if at_once {
            link.arrive(Upstream::Completion { address, entry, ring: None })?;
        } else {
            link.send_completion(passage.arrival, address, entry);
        }
        Ok(passage)
    }

    /// Sends an interrupt message, posted.
    pub fn interrupt(&self, vector: u16) -> Passage {
        let tlps = self.0.config.write(MSIX_ADDRESS, 4);
        let sent = self.0.post(Upstream::Interrupt { vector }, Purpose::MsiX, tlps, 4);
        sent.expect("an interrupt message has no memory that could be missing")
    }

    /// Waits until the last byte of a passage has left.
    pub async fn sent(&self, passage: Passage) {
        self.0.clock.sleep_until(passage.sent).await;
    }

    /// Whether every read tag is free.
    pub fn tags_free(&self) -> bool {
        self.0.tags.available() == self.0.config.read_tags as usize
    }
}

/// Tags of read requests in flight, released on drop.
struct Tags<'a> {
    link: &'a Link,
    count: usize,
}

impl<'a> Tags<'a> {
    /// Waits until `count` tags are free.
    #[inline]
    async fn take(link: &'a Link, count: usize) -> Tags<'a> {
        if !link.tags.try_take(count) {
            link.tags.acquire(count).await.forget();
        }
        Tags { link, count }
    }
}

impl Drop for Tags<'_> {
    fn drop(&mut self) {
        self.link.tags.release(self.count);
    }
}

/// Part of a read that goes out as one batch of requests.
#[derive(Clone, Copy)]
pub struct Part {
    address: u64,
    bytes: u64,
    /// Offset and number of the requested bytes in this part.
    skip: usize,
    wanted: usize,
    /// Offset of those bytes in the payload.
    offset: usize,
}

impl Part {
    fn requests(&self, link: &Link) -> Tlps {
        link.config.read_requests(self.address, self.bytes)
    }

    fn completions(&self, link: &Link) -> Tlps {
        link.config.read_completions(self.address, self.bytes)
    }

    fn sample(&self, memory: &Memory, epoch: Epoch, take: &mut impl PartConsumer) -> Result<(), Fault> {
        let is_page = self.bytes == UNIT_BYTES as u64 && self.wanted == UNIT_BYTES;
        if is_page && memory.dma_read_pattern(self.address, |pattern| take.page(self.offset, pattern)) {
            return Ok(());
        }
        memory.dma_read(self.address, self.bytes as usize, epoch, |bytes| self.give(bytes, take))
    }

    fn give(&self, bytes: &[u8], take: &mut impl PartConsumer) {
        if self.wanted > 0 {
            take.bytes(self.offset, &bytes[self.skip..self.skip + self.wanted]);
        }
    }
}

/// Splits extents into parts: rounds them to the DMA's granularity, and cuts them at multiples of `size`, so
/// that no part needs more requests than a batch holds.
struct Parts<I> {
    segments: I,
    granularity: u64,
    size: u64,
    /// The rounded rest of the current extent: from, and to before.
    rest: (u64, u64),
    /// The requested part of the read.
    wanted: (u64, u64),
    offset: usize,
}

impl<I: Iterator<Item = Segment>> Parts<I> {
    fn new(segments: I, granularity: u64, size: u64) -> Self {
        debug_assert!(granularity.is_power_of_two() && granularity <= 4096);
        Parts { segments, granularity, size, rest: (0, 0), wanted: (0, 0), offset: 0 }
    }
}

impl<I: Iterator<Item = Segment>> Iterator for Parts<I> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        while self.rest.0 >= self.rest.1 {
            let segment = self.segments.next()?;
            if segment.bytes == 0 {
                continue;
            }
            // If an extent reaches or wraps past the end of the address space, its last byte is requested: no
            // memory is there, so the read fails.
            let Some(end) = segment.address.checked_add(u64::from(segment.bytes)) else {
                return Some(Part { address: u64::MAX, bytes: 1, skip: 0, wanted: 0, offset: self.offset });
            };
            let mask = self.granularity - 1;
            self.wanted = (segment.address, end);
            self.rest = match end.checked_add(mask) {
                Some(rounded) => (segment.address & !mask, rounded & !mask),
                None => (segment.address, end),
            };
        }
        let (address, end) = self.rest;
        let bytes = (end - address).min(self.size - (address & (self.size - 1)));
        self.rest.0 = address + bytes;
        let from = self.wanted.0.clamp(address, address + bytes);
        let to = self.wanted.1.clamp(from, address + bytes);
        let (skip, wanted) = ((from - address) as usize, (to - from) as usize);
        let part = Part { address, bytes, skip, wanted, offset: self.offset };
        self.offset += wanted;
        Some(part)
    }
}
