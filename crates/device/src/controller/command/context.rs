//! A command that is being executed.

use crate::controller::core::Core;
use crate::controller::queue::ring::{Fate, Permit, SubmissionQueue};
use crate::controller::state::loan::Loan;
use crate::controller::state::slot::{Member, Payload, Slot};
use byteway_clock::{Delay, SpanId, Stage};
use byteway_firmware::{Errand, Route, Work};
use byteway_wire::nvme::command::FUSE_NONE;
use byteway_wire::nvme::opcode::Direction;
use byteway_wire::nvme::{Sqe, Status};
use std::rc::Rc;

/// What a command answers with.
pub enum Reply {
    /// Success, with these in dwords 0 and 1 of the completion.
    Done([u32; 2]),
    /// The same, with the workspace's bytes behind the completion; room for them is reserved.
    Result([u32; 2]),
    /// Nothing yet: it is held (Asynchronous Event Request).
    Parked,
}

/// A command that is being executed.
pub struct Context<'a> {
    pub(crate) core: &'a Rc<Core>,
    pub(crate) slot: &'a Slot,
    pub(crate) queue: &'a SubmissionQueue,
    pub(crate) permit: &'a Permit,
    pub(crate) sqe: &'a Sqe,
    pub(crate) span: SpanId,
    pub(crate) payload: Payload,
    pub(crate) member: Member,
    /// By which route of the placement the translation layer's work for it is done.
    pub(crate) route: Route,
    /// `core` is another drive's, to which the queue is lent.
    pub(crate) loan: Option<&'a Loan>,
}

impl Context<'_> {
    /// What the translation layer's work for it is done for.
    pub(crate) fn errand(&self) -> Errand {
        Errand { span: self.span, route: self.route }
    }

    /// Whether to go on; asked after each wait.
    pub(crate) fn check(&self) -> Result<(), Status> {
        self.slot.check(self.queue, self.member)?;
        self.loan.map_or(Ok(()), Loan::check)
    }

    /// Takes in the payload of `entries` that came by the queue: they are looked at one by one, and stored in DRAM.
    pub(crate) async fn take_in(&self, entries: u32) {
        let core = self.core;
        let taken = core.placement.run(Work::Chunk, u64::from(entries)).await;
        self.charge_firmware(taken.queued);
        core.clock.sleep(core.config.transfer.chunk_store * u64::from(entries)).await;
        self.charge(Stage::Dram);
    }

    /// The same, for what an Abort can't stop.
    pub(crate) fn check_queue(&self) -> Result<(), Status> {
        match self.queue.fate.get() {
            Fate::Live => self.loan.map_or(Ok(()), Loan::check),
            Fate::Deleting | Fate::Reset => Err(Status::ABORTED_SQ_DELETED),
        }
    }

    pub(crate) fn charge(&self, stage: Stage) {
        self.core.port.spans().charge(self.span, self.core.clock.now(), stage);
    }

    pub(crate) fn charge_firmware(&self, queued: Delay) {
        let stage = Stage::Firmware;
        self.core.port.spans().charge_split(self.span, self.core.clock.now(), queued, stage);
    }

    /// Whether the command can be executed with the payload that it has.
    pub(crate) fn check_payload(&self) -> Result<(), Status> {
        match self.payload {
            // What came behind a command that takes no data is forgotten.
            Payload::Train(_) if Direction::of(self.sqe.opcode()) != Direction::HostToController => {
                Err(Status::SGL_TYPE_INVALID.with_dnr())
            }
            Payload::Refused(status) => Err(status),
            // A half of a fused operation never gets here, unless its payload comes by the queue; 11b is reserved.
            _ if self.sqe.fuse() != FUSE_NONE => Err(Status::INVALID_FIELD.with_dnr()),
            Payload::Train(_) | Payload::Chunked(_) | Payload::Pointer => Ok(()),
        }
    }
}
