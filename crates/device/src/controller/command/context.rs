//! The context of a command in execution.

use crate::controller::core::Core;
use crate::controller::queue::ring::{Permit, QueueFate, SubmissionQueue};
use crate::controller::state::loan::Loan;
use crate::controller::state::slot::{Member, Payload, Slot};
use byteway_clock::{Delay, SpanId, Stage};
use byteway_firmware::{Route, WorkContext, WorkKind};
use byteway_wire::nvme::command::FUSE_NONE;
use byteway_wire::nvme::opcode::Direction;
use byteway_wire::nvme::{Sqe, Status};
use std::rc::Rc;

/// How a command completes.
pub enum Reply {
    /// Success, with these dwords 0 and 1 in the completion.
    Done([u32; 2]),
    /// Like `Done`, followed by the workspace's bytes in reserved completion queue slots.
    Result([u32; 2]),
    /// Not yet: the command is held (Asynchronous Event Request).
    Parked,
}

/// The context of a command in execution.
pub struct Context<'a> {
    pub(crate) core: &'a Rc<Core>,
    pub(crate) slot: &'a Slot,
    pub(crate) queue: &'a SubmissionQueue,
    pub(crate) permit: &'a Permit,
    pub(crate) sqe: &'a Sqe,
    pub(crate) span: SpanId,
    pub(crate) payload: Payload,
    pub(crate) member: Member,
    /// Route of the placement for the translation layer's work.
    pub(crate) route: Route,
    /// Set if the queue is lent: `core` is then the borrower's.
    pub(crate) loan: Option<&'a Loan>,
}

impl Context<'_> {
    /// Attributes of the command for the translation layer.
    pub(crate) fn work_context(&self) -> WorkContext {
        WorkContext { span: self.span, route: self.route }
    }

    /// The status that ends the command, if it must end. Called after each wait.
    pub(crate) fn check(&self) -> Result<(), Status> {
        self.slot.check(self.queue, self.member)?;
        self.loan.map_or(Ok(()), Loan::check)
    }

    /// Takes the payload of `entries` entries from the queue: charges parsing each and storing it in DRAM.
    pub(crate) async fn take_in(&self, entries: u32) {
        let core = self.core;
        let taken = core.placement.run(WorkKind::Chunk, u64::from(entries)).await;
        self.charge_firmware(taken.queued);
        core.clock.sleep(core.config.transfer.chunk_store * u64::from(entries)).await;
        self.charge(Stage::Dram);
    }

    /// Like [`Context::check`], for work that Abort cannot stop.
    pub(crate) fn check_queue(&self) -> Result<(), Status> {
        match self.queue.fate.get() {
            QueueFate::Live => self.loan.map_or(Ok(()), Loan::check),
            QueueFate::Deleting | QueueFate::Reset => Err(Status::ABORTED_SQ_DELETED),
        }
    }

    pub(crate) fn charge(&self, stage: Stage) {
        self.core.port.spans().charge(self.span, self.core.clock.now(), stage);
    }

    pub(crate) fn charge_firmware(&self, queued: Delay) {
        let stage = Stage::Firmware;
        self.core.port.spans().charge_split(self.span, self.core.clock.now(), queued, stage);
    }

    /// Whether the command can be executed with its payload.
    pub(crate) fn check_payload(&self) -> Result<(), Status> {
        match self.payload {
            // A payload after a command that takes no data is ignored.
            Payload::Train(_) if Direction::of(self.sqe.opcode()) != Direction::HostToController => {
                Err(Status::SGL_TYPE_INVALID.with_dnr())
            }
            Payload::Refused(status) => Err(status),
            // Halves of fused operations are executed elsewhere, unless their payload is in the queue; 11b is reserved.
            _ if self.sqe.fuse() != FUSE_NONE => Err(Status::INVALID_FIELD.with_dnr()),
            Payload::Train(_) | Payload::Chunked(_) | Payload::Pointer => Ok(()),
        }
    }
}
