//! Plain reads and writes: one whole unit, to or from the one page that PRP1 names. Nearly all I/O is plain, so it runs
//! in straight-line code whose waits are leaf futures. Everything else, and everything invalid, is left to
//! [`io`](super::io), which gives the same result at the same instants.

use crate::controller::command::context::Context;
use crate::controller::command::media::status_of;
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::nvm::blocks::check_readable;
use crate::controller::namespace::{Namespace, Span};
use crate::controller::state::counters::add;
use crate::controller::state::slot::Payload;
use byteway_clock::Stage;
use byteway_content::UNIT_BYTES;
use byteway_firmware::{MediaError, WorkKind};
use byteway_link::{Direction, Epoch, Fault, Purpose};
use byteway_wire::nvme::command::{FUSE_NONE, PSDT_PRP};
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Segment, Status};
use std::rc::Rc;

/// A plain read or write, checked as far as possible before the first wait.
pub(crate) struct Plain {
    direction: Direction,
    namespace: Rc<Namespace>,
    span: Span,
    lba: u64,
    /// The unit's address on the drive.
    unit: u64,
    page: Segment,
    epoch: Epoch,
}

impl Plain {
    /// The command of `context` as a plain read or write, if it is one.
    #[inline]
    pub(crate) fn of(context: &Context<'_>) -> Option<Plain> {
        let (core, sqe) = (context.core, context.sqe);
        let direction = match NvmOpcode(sqe.opcode()) {
            NvmOpcode::READ => Direction::Up,
            NvmOpcode::WRITE if core.features.write_cache.get().wce() => Direction::Down,
            _ => return None,
        };
        let rw = ReadWrite::parse(sqe);
        let is_pointed =
            context.payload == Payload::Pointer && sqe.psdt() == PSDT_PRP && sqe.fuse() == FUSE_NONE;
        let is_page = sqe.prp1.is_multiple_of(UNIT_BYTES as u64);
        if !is_pointed || !is_page || rw.fua || !core.backing.is_plain(context.route) {
            return None;
        }
        let namespace = core.namespace(sqe.nsid).ok()?;
        let span = namespace.span(rw.slba, u64::from(rw.blocks())).ok()?;
        if span.offset != 0
            || span.bytes != UNIT_BYTES as u64
            || span.bytes > u64::from(core.config.controller.transfer_bytes_max)
            || direction == Direction::Down && namespace.check_writable().is_err()
        {
            return None;
        }
        let page = Segment { address: sqe.prp1, bytes: UNIT_BYTES as u32 };
        let epoch = core.port.epoch();
        core.port.check(page, direction, epoch).ok()?;
        let (unit, _) = namespace.run(span.unit, 1);
        Some(Plain { direction, namespace, span, lba: rw.slba, unit, page, epoch })
    }

    /// Whether it is a read.
    pub(crate) fn is_read(&self) -> bool {
        self.direction == Direction::Up
    }

    /// Executes a read. Here and below, `self` is borrowed, so that the future does not contain a copy that moves with
    /// it.
    pub(crate) async fn read(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
        workspace.failed_lba = self.lba;
        let core = context.core;
        let read = core.backing.read_one(context.span, core.clock.spans(), self.unit).await;
        let content = read.map_err(|error: MediaError| {
            add(&core.counters.media_errors, 1);
            status_of(error, Status::UNRECOVERED_READ_ERROR)
        })?;
        context.check()?;
        if content.marred() != 0 {
            workspace.contents.clear();
            workspace.contents.push(content.clone());
            check_readable(context, workspace, &self.namespace, self.span)?;
        }
        if core.placement.cycles().of(WorkKind::Dma) > 0 {
            let work = core.placement.reserve(WorkKind::Dma, 1);
            core.clock.sleep_until(work.end).await;
            context.charge_firmware(work.queued);
            context.check()?;
        }
        let Segment { address, bytes } = self.page;
        let written = core.port.write_content(address, content, 0, bytes, self.epoch, Purpose::Data);
        let passage = written.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?;
        add(&core.counters.data_out_bytes, u64::from(bytes));
        core.clock.sleep_until(passage.sent).await;
        context.charge(Stage::Link);
        context.check()?;
        core.count_read(context.span, u64::from(bytes));
        Ok(())
    }

    /// Executes a write.
    pub(crate) async fn write(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
        workspace.failed_lba = self.lba;
        let core = context.core;
        if core.placement.cycles().of(WorkKind::Dma) > 0 {
            let work = core.placement.reserve(WorkKind::Dma, 1);
            core.clock.sleep_until(work.end).await;
            context.charge_firmware(work.queued);
            context.check()?;
        }
        workspace.contents.clear();
        let bytes = self.page.bytes;
        let keep = core.config.keep;
        let (_, take) = workspace.landed(Landing::Units, keep);
        let gathered = match core.port.part(self.page) {
            Some(part) => core.port.read_part(part, self.epoch, Purpose::Data, take).await,
            None => core.port.gather([self.page], self.epoch, 1, Purpose::Data, take).await,
        };
        gathered.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?;
        add(&core.counters.data_in_bytes, u64::from(bytes));
        context.charge(Stage::Link);
        context.check()?;
        let content = workspace.contents.pop().ok_or(Status::INTERNAL_ERROR)?;
        let written = core.backing.write_one(context.span, core.clock.spans(), self.unit, content).await;
        written.map_err(|error| status_of(error, Status::WRITE_FAULT))?;
        core.count_write(context.span, u64::from(bytes));
        Ok(())
    }
}
