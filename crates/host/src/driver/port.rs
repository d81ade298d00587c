//! Ports: access to a controller's registers and to host memory, over the simulated link, shared with the process that
//! serves the drive, or beyond a network.

use crate::fabric::Initiator;
use byteway_clock::{Clock, Notify, SpanId, Spans, Time};
use byteway_link::{HdmRange, HostEnd, Memory, Purpose, StoreOrdering, Watch};
use byteway_transfer::host::PointerKind;
use std::rc::Rc;

/// The registers of a controller in another process.
pub trait Registers {
    /// Reads `bytes` (4 or 8) at `offset`. All ones if there is no controller.
    fn read(&self, offset: u64, bytes: u32) -> u64;

    /// Writes the low `bytes` (4 or 8) of `value` at `offset`, before any later access. Doorbells are written through
    /// this, too, unless they are in shared memory.
    fn write(&self, offset: u64, value: u64, bytes: u32);

    /// Stores `bytes` at `offset` in BAR0, in the controller's payload buffer. They are there on return, so no doorbell
    /// write overtakes them, by whatever path.
    fn store(&self, offset: u64, bytes: &[u8]);
}

/// A controller in another process, and the shared memory.
pub struct SharedPort {
    registers: Box<dyn Registers>,
    /// Memory of the doorbells, by their offsets in BAR0, if they are shared.
    doorbells: Option<Memory>,
    memory: Memory,
    clock: Clock,
}

/// A port to a controller. Cheap to clone.
#[derive(Clone)]
pub enum Port {
    /// Over the simulated link: crossings take time, and completions and interrupts wake waiting tasks.
    Link(HostEnd),
    /// Shared with another process: nothing wakes this side, so it polls.
    Shared(Rc<SharedPort>),
    /// Beyond a network: doorbell writes send capsules, registers are properties, and every completion interrupts.
    Fabric(Rc<Initiator>),
}

impl Port {
    /// A port to a controller in another process. `doorbells`: shared memory of the doorbells, by their offsets in
    /// BAR0; `None`: they are written like other registers.
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

    /// The current time, for latencies: over shared memory, from the wall clock.
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

    /// The memory of queues and buffers.
    #[inline]
    pub fn memory(&self) -> &Memory {
        match self {
            Port::Link(end) => end.memory(),
            Port::Shared(shared) => &shared.memory,
            Port::Fabric(initiator) => initiator.memory(),
        }
    }

    /// The trace spans. `None` over shared memory, because the other process can't charge them.
    pub fn spans(&self) -> Option<&Spans> {
        match self {
            Port::Link(end) => Some(end.spans()),
            Port::Shared(_) => None,
            Port::Fabric(initiator) => initiator.is_simulated().then(|| initiator.clock().spans()),
        }
    }

    /// Opens a trace span at `now`, if I/Os are traced here.
    pub fn open_span(&self, now: Time) -> SpanId {
        let span = self.spans().map_or(SpanId::NONE, |spans| spans.open(now));
        self.clock().io_begins(span);
        span
    }

    /// Whether this side must poll.
    pub fn is_shared(&self) -> bool {
        matches!(self, Port::Shared(_))
    }

    /// Reads a 32-bit register. All ones if there is no controller.
    pub async fn read32(&self, offset: u64) -> u32 {
        match self {
            Port::Link(end) => end.read32(offset).await,
            Port::Shared(shared) => shared.registers.read(offset, 4) as u32,
            Port::Fabric(initiator) => initiator.read(offset, 4).await as u32,
        }
    }

    /// Reads a 64-bit register. All ones if there is no controller.
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

    /// Stores `bytes` at `offset` in BAR0, in the controller's payload buffer: posted, in stores of 64 bytes, which
    /// later doorbell writes do not overtake.
    pub fn store(&self, offset: u64, bytes: &[u8]) {
        match self {
            Port::Link(end) => _ = end.store(offset, bytes),
            Port::Shared(shared) => shared.registers.store(offset, bytes),
            Port::Fabric(_) => {}
        }
    }

    /// Device memory over CXL.mem. `None` over shared memory: a served drive has none.
    pub fn device_memory(&self) -> Option<HdmRange> {
        match self {
            Port::Link(end) => end.hdm(),
            Port::Shared(_) | Port::Fabric(_) => None,
        }
    }

    /// Stores `bytes` to device memory at `address`. With a `ordering` they are there on return; otherwise a doorbell
    /// write may overtake them.
    pub async fn store_lines(&self, address: u64, bytes: &[u8], ordering: Option<StoreOrdering>) {
        match (self, ordering) {
            (Port::Link(end), Some(ordering)) => end.store_lines(address, bytes, ordering).await,
            (Port::Link(_), None) => self.store_lines_unordered(address, bytes),
            (Port::Shared(_) | Port::Fabric(_), _) => {}
        }
    }

    /// Stores `bytes` to device memory, non-temporally and without waiting.
    pub(crate) fn store_lines_unordered(&self, address: u64, bytes: &[u8]) {
        if let Port::Link(end) = self {
            end.store_lines_unordered(address, bytes);
        }
    }

    /// Loads from device memory: zeroes, if there is none.
    pub async fn load_lines(&self, address: u64, into: &mut [u8]) {
        match self {
            Port::Link(end) => end.load_lines(address, into).await,
            Port::Shared(_) | Port::Fabric(_) => into.fill(0),
        }
    }

    /// Writes the head doorbell of an I/O completion queue at `offset`, posted.
    pub fn ring_head(&self, offset: u64, value: u32) {
        match self {
            Port::Link(end) => end.ring_head(offset, value),
            Port::Shared(_) => self.ring(offset, value),
            // The adapter never posts more completions than there are entries, since there are only as many commands.
            Port::Fabric(_) => {}
        }
    }

    /// Writes the doorbell at `offset`, posted.
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

    /// Watches for completions in the `bytes` bytes at `address`. `None` over shared memory.
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

    /// Notified at each interrupt of `vector`. `None` over shared memory.
    pub(crate) fn interrupt(&self, vector: u16) -> Option<Rc<Notify>> {
        match self {
            Port::Link(end) => Some(end.interrupt(vector)),
            Port::Shared(_) => None,
            Port::Fabric(initiator) => Some(initiator.interrupt(vector)),
        }
    }

    /// Sets the span of what is stored at `index` of a ring in device memory.
    pub(crate) fn follow_stored(&self, index: u32, span: SpanId) {
        if let Port::Link(end) = self {
            end.follow_stored(index, span);
        }
    }

    /// Sets the span of the command in `slot` of submission queue `qid`.
    pub(crate) fn follow(&self, qid: u16, slot: u16, span: SpanId) {
        match self {
            Port::Link(end) => end.follow(qid, slot, span),
            Port::Shared(_) => {}
            Port::Fabric(initiator) => initiator.follow(qid, slot, span),
        }
    }

    /// The kind of data pointers: fabrics do not have PRPs.
    pub(crate) fn pointer_kind(&self) -> PointerKind {
        match self {
            Port::Link(_) | Port::Shared(_) => PointerKind::Prp,
            Port::Fabric(_) => PointerKind::Sgl,
        }
    }
}

/// The value of a register read from an empty slot.
pub(crate) const ABSENT: u64 = u64::MAX;
