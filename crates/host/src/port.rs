//! Where a controller's registers and the host's memory are: behind the simulated link, with the process that serves the
//! drive, which shares memory with this one, or beyond a network.

use crate::fabric::Initiator;
use byteway_clock::{Clock, Notify, SpanId, Spans, Time};
use byteway_link::{HdmRange, HostEnd, Manner, Memory, Purpose, Watch};
use byteway_transfer::host::PointerKind;
use std::rc::Rc;

/// The registers of a controller that another process serves.
pub trait Registers {
    /// Reads the `bytes` (4 or 8) at `offset`. All ones: nobody is there.
    fn read(&self, offset: u64, bytes: u32) -> u64;

    /// Writes the low `bytes` (4 or 8) of `value` at `offset`; before any later access. Doorbells come this way, too,
    /// where they are not stored to memory.
    fn write(&self, offset: u64, value: u64, bytes: u32);

    /// Stores `bytes` at `offset` of BAR0, in the controller's buffer for payload. They are there when this returns, so that
    /// no doorbell is seen before them, however it is rung.
    fn store(&self, offset: u64, bytes: &[u8]);
}

/// A controller in another process, and the memory shared with it.
pub struct SharedPort {
    registers: Box<dyn Registers>,
    /// The doorbells' memory, by their offsets in BAR0, where they are stored to memory.
    doorbells: Option<Memory>,
    memory: Memory,
    clock: Clock,
}

/// The way to a controller. Cheap to clone.
#[derive(Clone)]
pub enum Port {
    /// Over the simulated link: crossings take time, completions and interrupts wake who waits for them.
    Link(HostEnd),
    /// With another process: nothing wakes this side, so it looks again and again.
    Shared(Rc<SharedPort>),
    /// Beyond a network: doorbells send capsules, registers are properties, and every completion interrupts.
    Fabric(Rc<Initiator>),
}

impl Port {
    /// To a controller in another process. `doorbells`: memory in which the doorbells lie by their offsets in BAR0;
    /// None: they are written like other registers.
    pub fn shared(
        registers: Box<dyn Registers>,
        doorbells: Option<Memory>,
        memory: Memory,
        clock: &Clock,
    ) -> Port {
        Port::Shared(Rc::new(SharedPort { registers, doorbells, memory, clock: clock.clone() }))
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        match self {
            Port::Link(end) => end.clock(),
            Port::Shared(shared) => &shared.clock,
            Port::Fabric(initiator) => initiator.clock(),
        }
    }

    /// Now, as latencies are measured: over shared memory by a look at the wall clock.
    pub fn now(&self) -> Time {
        match self {
            Port::Link(end) => end.clock().now(),
            Port::Shared(shared) => shared.clock.now_measured(),
            Port::Fabric(initiator) => match initiator.is_simulated() {
                true => initiator.clock().now(),
                false => initiator.clock().now_measured(),
            },
        }
    }

    /// The memory in which queues and buffers lie.
    pub fn memory(&self) -> &Memory {
        match self {
            Port::Link(end) => end.memory(),
            Port::Shared(shared) => &shared.memory,
            Port::Fabric(initiator) => initiator.memory(),
        }
    }

    /// The spans of the I/Os that are followed. None over shared memory: the other process could not charge them.
    pub fn spans(&self) -> Option<&Spans> {
        match self {
            Port::Link(end) => Some(end.spans()),
            Port::Shared(_) => None,
            Port::Fabric(initiator) => initiator.is_simulated().then(|| initiator.clock().spans()),
        }
    }

    /// Begins to follow an I/O at `now`, if I/Os are followed here.
    pub fn open_span(&self, now: Time) -> SpanId {
        let span = self.spans().map_or(SpanId::NONE, |spans| spans.open(now));
        self.clock().io_begins(span);
        span
    }

    /// Whether nothing wakes this side.
    pub fn is_shared(&self) -> bool {
        matches!(self, Port::Shared(_))
    }

    /// Reads a 32-bit register. All ones: nothing is there.
    pub async fn read32(&self, offset: u64) -> u32 {
        match self {
            Port::Link(end) => end.read32(offset).await,
            Port::Shared(shared) => shared.registers.read(offset, 4) as u32,
            Port::Fabric(initiator) => initiator.read(offset, 4).await as u32,
        }
    }

    /// Reads a 64-bit register. All ones: nothing is there.
    pub async fn read64(&self, offset: u64) -> u64 {
        match self {
            Port::Link(end) => end.read64(offset).await,
            Port::Shared(shared) => shared.registers.read(offset, 8),
            Port::Fabric(initiator) => initiator.read(offset, 8).await,
        }
    }

    /// Writes a 32-bit register, posted.
    pub fn write32(&self, offset: u64, value: u32) {
        match self {
            Port::Link(end) => end.write32(offset, value, Purpose::Register),
            Port::Shared(shared) => shared.registers.write(offset, value.into(), 4),
            Port::Fabric(initiator) => initiator.write(offset, value.into()),
        }
    }

    /// Writes a 64-bit register, posted.
    pub fn write64(&self, offset: u64, value: u64) {
        match self {
            Port::Link(end) => end.write64(offset, value),
            Port::Shared(shared) => shared.registers.write(offset, value, 8),
            Port::Fabric(initiator) => initiator.write(offset, value),
        }
    }

    /// Stores `bytes` at `offset` of BAR0, in the controller's buffer for payload: posted, in stores of 64 bytes, none of which
    /// a later ring of a doorbell passes.
    pub fn store(&self, offset: u64, bytes: &[u8]) {
        match self {
            Port::Link(end) => _ = end.store(offset, bytes),
            Port::Shared(shared) => shared.registers.store(offset, bytes),
            Port::Fabric(_) => {}
        }
    }

    /// The controller's memory that this side stores to over CXL.mem. None over shared memory: a served drive has none.
    pub fn device_memory(&self) -> Option<HdmRange> {
        match self {
            Port::Link(end) => end.hdm(),
            Port::Shared(_) | Port::Fabric(_) => None,
        }
    }

    /// Stores `bytes` to the controller's memory from device address `address` on. With a `manner` they are there when this
    /// returns; else a doorbell may pass them.
    pub async fn store_lines(&self, address: u64, bytes: &[u8], manner: Option<Manner>) {
        match (self, manner) {
            (Port::Link(end), Some(manner)) => end.store_lines(address, bytes, manner).await,
            (Port::Link(_), None) => self.store_lines_unordered(address, bytes),
            (Port::Shared(_) | Port::Fabric(_), _) => {}
        }
    }

    /// Stores `bytes` to the controller's memory past the cache, and waits for nothing.
    pub(crate) fn store_lines_unordered(&self, address: u64, bytes: &[u8]) {
        if let Port::Link(end) = self {
            end.store_lines_unordered(address, bytes);
        }
    }

    /// Loads from the controller's memory: zeroes, where there is none.
    pub async fn load_lines(&self, address: u64, into: &mut [u8]) {
        match self {
            Port::Link(end) => end.load_lines(address, into).await,
            Port::Shared(_) | Port::Fabric(_) => into.fill(0),
        }
    }

    /// Rings the head doorbell of an I/O completion queue at `offset`, posted.
    pub fn ring_head(&self, offset: u64, value: u32) {
        match self {
            Port::Link(end) => end.ring_head(offset, value),
            Port::Shared(_) => self.ring(offset, value),
            // What the adapter has posted it has room for: there are as many commands as entries.
            Port::Fabric(_) => {}
        }
    }

    /// Rings the doorbell at `offset`, posted.
    pub fn ring(&self, offset: u64, value: u32) {
        match self {
            Port::Link(end) => end.write32(offset, value, Purpose::Doorbell),
            Port::Shared(shared) => match &shared.doorbells {
                Some(doorbells) => {
                    let stored = doorbells.store32(offset, value);
                    debug_assert!(stored.is_ok(), "the doorbells of all queues lie in their memory");
                }
                None => shared.registers.write(offset, value.into(), 4),
            },
            Port::Fabric(initiator) => initiator.ring(offset, value),
        }
    }

    /// To wait for completions that arrive in the `bytes` from `address`. None over shared memory.
    pub(crate) fn watch(&self, address: u64, bytes: u64) -> Option<Watch> {
        match self {
            Port::Link(end) => Some(end.watch(address, bytes)),
            Port::Shared(_) | Port::Fabric(_) => None,
        }
    }

    /// Ends a watch.
    pub(crate) fn unwatch(&self, address: u64) {
        if let Port::Link(end) = self {
            end.unwatch(address);
        }
    }

    /// A nudge at each interrupt of `vector`. None over shared memory.
    pub(crate) fn interrupt(&self, vector: u16) -> Option<Rc<Notify>> {
        match self {
            Port::Link(end) => Some(end.interrupt(vector)),
            Port::Shared(_) => None,
            Port::Fabric(initiator) => Some(initiator.interrupt(vector)),
        }
    }

    /// Says which I/O what is stored at `index` of a ring in the controller's memory belongs to.
    pub(crate) fn follow_stored(&self, index: u32, span: SpanId) {
        if let Port::Link(end) = self {
            end.follow_stored(index, span);
        }
    }

    /// Says which I/O the command in `slot` of submission queue `qid` belongs to.
    pub(crate) fn follow(&self, qid: u16, slot: u16, span: SpanId) {
        match self {
            Port::Link(end) => end.follow(qid, slot, span),
            Port::Shared(_) => {}
            Port::Fabric(initiator) => initiator.follow(qid, slot, span),
        }
    }

    /// How data is described there: a fabric has no PRPs.
    pub(crate) fn pointer_kind(&self) -> PointerKind {
        match self {
            Port::Link(_) | Port::Shared(_) => PointerKind::Prp,
            Port::Fabric(_) => PointerKind::Sgl,
        }
    }
}

/// What an empty slot answers to a register read.
pub(crate) const ABSENT: u64 = u64::MAX;
