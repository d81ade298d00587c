//! Payload in the entries after its command, in order (ByteExpress 3.3): a train is the command and those entries.
//!
//! Only the command's entry tells how long a train is ([`Framing`](byteway_wire::nvme::vendor::Framing)). So one read
//! at a time takes entries of such a queue, in order, and payload is never taken for a command:
//!
//! - A doorbell may expose only a part of a train. The rest is read when all of it is exposed. Until then the command
//!   waits with its permit; it occupies neither a command slot nor a read, and only its queue waits.
//! - Deletion of the queue, Abort and reset end that wait. After an Abort the rest is skipped as it arrives.
//! - A train that does not fit into the queue, or exceeds the drive's limit, can't be skipped: where the next command
//!   begins is unknown. The queue is broken, and the host must delete it.

use crate::controller::command_set::CommandSets;
use crate::controller::core::Core;
use crate::controller::fetch::entry::reserve_parse;
use crate::controller::queue::ring::{Fetching, QueueFate, SubmissionQueue};
use crate::controller::queue::train::Train;
use crate::controller::state::counters::add;
use crate::controller::state::slot::{Command, Payload};
use byteway_clock::{SpanId, Stage};
use byteway_link::Fault;
use byteway_transfer::method::fits;
use byteway_wire::nvme::vendor::InlineSlots;
use byteway_wire::nvme::{AsyncEvent, Sqe, Status};
use std::rc::Rc;

impl Core {
    /// Whether a train with `slots` can be taken from `queue`.
    pub(crate) fn takes_train(&self, queue: &SubmissionQueue, slots: InlineSlots) -> bool {
        slots.bytes <= self.config.transfer.inline_bytes_max && fits(queue.entries(), slots.count())
    }

    /// Stops fetching from the queue, and reports an event to the host.
    pub(crate) fn break_queue(&self, queue: &SubmissionQueue) {
        queue.fetching.set(Fetching::Broken);
        self.events.raise(AsyncEvent::QUEUE_BROKEN);
    }

    /// Parks a train until the doorbell has exposed the `missing` entries; `carried` is the payload received so far.
    pub(crate) fn park_train(&self, train: Train, carried: Vec<u8>, missing: u32) {
        match train.queue().fate.get() {
            QueueFate::Live => self.parked.trains.park(train, carried, missing),
            QueueFate::Deleting => self.refuse(train, Status::ABORTED_SQ_DELETED),
            QueueFate::Reset => {}
        }
    }
}

impl Train {
    /// Starts the command in its slot, which has all of its payload.
    pub(crate) fn depart(self, sets: &CommandSets, slot: u32) {
        let core = &sets.core;
        let Train { sqe, permit, span, slots } = self;
        let parse = reserve_parse(sets, &sqe, permit.queue().id, span);
        core.slots.at(slot).carried.borrow_mut().truncate(slots.bytes as usize);
        core.start(slot, Command { parse, ..Command::new(sqe, permit, span, Payload::Train(slots)) });
    }
}

/// A train whose missing entries are exposed: they are read, as many at a time as one read can take.
pub struct Rest {
    train: Train,
    /// The slot of its command.
    slot: u32,
    /// Whether a read of it has failed.
    has_failed: bool,
}

impl Rest {
    /// The rest of a train that was fetched with the entries before.
    pub fn new(train: Train, slot: u32) -> Rest {
        Rest { train, slot, has_failed: false }
    }

    /// Takes the parked train of `queue`, all of which is exposed now.
    pub fn take_parked(core: &Core, queue: &SubmissionQueue) -> Rest {
        let (train, carried) = core.parked.trains.take(queue.id).expect("what lacks entries is a train");
        let slot = core.slots.take(false).expect("the arbiter was told how many slots are free");
        core.slots.at(slot).carried.replace(carried);
        queue.fetching.set(Fetching::Held);
        core.port.spans().charge(train.span, core.clock.now(), Stage::Doorbell);
        Rest::new(train, slot)
    }

    fn queue(&self) -> &Rc<SubmissionQueue> {
        self.train.queue()
    }

    /// The span of its I/O.
    pub fn span(&self) -> SpanId {
        self.train.span
    }

    /// Whether entries are to be read. If the queue is being deleted, the command only has to end.
    pub fn goes_on(&self) -> bool {
        let queue = self.queue();
        queue.missing.get() > 0 && queue.fate.get() == QueueFate::Live && !self.has_failed
    }

    /// Address of the next entry.
    pub fn address(&self) -> u64 {
        self.queue().address(self.queue().head())
    }

    /// Entries of the next read.
    pub fn wanted(&self, core: &Core) -> u32 {
        let queue = self.queue();
        queue.missing.get().min(queue.contiguous()).min(core.config.controller.fetch_burst)
    }

    /// Takes the entries that were read.
    pub fn take(&mut self, core: &Core, bytes: &[u8], read: Result<(), Fault>) {
        if read.is_err() {
            self.has_failed = true;
            return;
        }
        let (queue, count) = (self.queue(), self.wanted(core));
        debug_assert!(count > 0, "the missing entries are exposed");
        add(&core.counters.fetched, u64::from(count));
        add(&core.counters.carried_entries, u64::from(count));
        let bytes = &bytes[..count as usize * Sqe::SIZE];
        core.slots.at(self.slot).carried.borrow_mut().extend_from_slice(bytes);
        queue.consume(count);
        queue.missing.set(queue.missing.get() - count);
    }

    /// Starts its command.
    pub fn end(self, sets: &CommandSets) {
        let (core, queue) = (&sets.core, self.queue().clone());
        let Rest { train, slot, has_failed } = self;
        queue.missing.set(0);
        core.port.spans().charge(train.span, core.clock.now(), Stage::Fetch);
        if has_failed {
            core.fail();
        }
        if has_failed || queue.fate.get() == QueueFate::Reset {
            core.free_slot(slot);
        } else {
            train.depart(sets, slot);
        }
        queue.release();
    }
}
