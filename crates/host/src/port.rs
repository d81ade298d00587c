//! Where a controller's registers and the host's memory are: behind the simulated link, or in pages shared with the
//! process that serves the drive.

use byteway_clock::{Clock, Notify, SpanId, Spans, Time};
use byteway_link::{HostEnd, Memory, Purpose, SharedBar};
use byteway_wire::nvme::Doorbell;
use std::rc::Rc;

/// Registers in a page shared with another process, and the memory shared with it.
pub struct SharedPort {
    bar: SharedBar,
    memory: Memory,
    clock: Clock,
}

/// The way to a controller. Cheap to clone.
#[derive(Clone)]
pub enum Port {
    /// Over the simulated link: crossings take time, completions and interrupts wake who waits for them.
    Link(HostEnd),
    /// In shared memory: nothing wakes this side, so it looks again and again.
    Shared(Rc<SharedPort>),
}

impl Port {
    /// Over shared memory.
    pub fn shared(bar: SharedBar, memory: Memory, clock: &Clock) -> Port {
        Port::Shared(Rc::new(SharedPort { bar, memory, clock: clock.clone() }))
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        match self {
            Port::Link(end) => end.clock(),
            Port::Shared(shared) => &shared.clock,
        }
    }

    /// The memory in which queues and buffers lie.
    pub fn memory(&self) -> &Memory {
        match self {
            Port::Link(end) => end.memory(),
            Port::Shared(shared) => &shared.memory,
        }
    }

    /// The spans of the I/Os that are followed. None over shared memory: the other process could not charge them.
    pub fn spans(&self) -> Option<&Spans> {
        match self {
            Port::Link(end) => Some(end.spans()),
            Port::Shared(_) => None,
        }
    }

    /// Begins to follow an I/O at `now`, if I/Os are followed here.
    pub fn open_span(&self, now: Time) -> SpanId {
        self.spans().map_or(SpanId::NONE, |spans| spans.open(now))
    }

    /// Whether nothing wakes this side.
    pub fn is_shared(&self) -> bool {
        matches!(self, Port::Shared(_))
    }

    /// Reads a 32-bit register. All ones: nothing is there.
    pub async fn read32(&self, offset: u64) -> u32 {
        match self {
            Port::Link(end) => end.read32(offset).await,
            Port::Shared(shared) => shared.bar.load(offset),
        }
    }

    /// Reads a 64-bit register. All ones: nothing is there.
    pub async fn read64(&self, offset: u64) -> u64 {
        match self {
            Port::Link(end) => end.read64(offset).await,
            Port::Shared(shared) => {
                let low = shared.bar.load(offset);
                u64::from(low) | u64::from(shared.bar.load(offset + 4)) << 32
            }
        }
    }

    /// Writes a 32-bit register, posted.
    pub fn write32(&self, offset: u64, value: u32) {
        match self {
            Port::Link(end) => end.write32(offset, value, Purpose::Register),
            Port::Shared(shared) => shared.bar.store(offset, value),
        }
    }

    /// Writes a 64-bit register, posted; over shared memory the low half first.
    pub fn write64(&self, offset: u64, value: u64) {
        match self {
            Port::Link(end) => end.write64(offset, value),
            Port::Shared(shared) => {
                shared.bar.store(offset, value as u32);
                shared.bar.store(offset + 4, (value >> 32) as u32);
            }
        }
    }

    /// Rings the doorbell at `offset`, posted.
    pub fn ring(&self, offset: u64, value: u32) {
        match self {
            Port::Link(end) => end.write32(offset, value, Purpose::Doorbell),
            Port::Shared(shared) => shared.bar.store(offset, value),
        }
    }

    /// While the controller is disabled: makes the doorbell words of queues up to `qid_max` zero, as a real
    /// controller's are after a reset. A shared word keeps what was stored, and the same value again is no news.
    pub(crate) fn clear_doorbells(&self, qid_max: u16, dstrd: u8) {
        if let Port::Shared(shared) = self {
            for qid in 0..=qid_max {
                for doorbell in [Doorbell::SubmissionTail(qid), Doorbell::CompletionHead(qid)] {
                    shared.bar.store(doorbell.offset(dstrd), 0);
                }
            }
        }
    }

    /// A nudge at each completion that arrives in the `bytes` from `address`. None over shared memory.
    pub(crate) fn watch(&self, address: u64, bytes: u64) -> Option<Rc<Notify>> {
        match self {
            Port::Link(end) => Some(end.watch(address, bytes)),
            Port::Shared(_) => None,
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
        }
    }

    /// Says which I/O the command in `slot` of submission queue `qid` belongs to.
    pub(crate) fn follow(&self, qid: u16, slot: u16, span: SpanId) {
        if let Port::Link(end) = self {
            end.follow(qid, slot, span);
        }
    }
}

/// What an empty slot answers to a register read.
pub(crate) const ABSENT: u64 = u64::MAX;
