//! Raw System Read, Raw System Write and Raw Manage.

use crate::controller::command::context::{Context, Reply};
use crate::controller::command::send::send;
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::raw_flash::INVALID_FIELD;
use byteway_clock::Stage;
use byteway_flash::{BlockId, Flash, Mode};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::raw_flash::{RawAction, RawPart, RawSystem, push_page};
use std::cell::RefCell;
use std::rc::Rc;

const SEQUENCE_ERROR: Status = Status::COMMAND_SEQUENCE_ERROR.with_dnr();

/// A part of the system area that is read in pieces, as it was at the first one.
struct Reading {
    part: RawPart,
    bytes: Option<Rc<[u8]>>,
}

/// A part of the system area that is written in pieces: the pieces received.
struct Writing {
    part: RawPart,
    total: u32,
    bytes: Vec<u8>,
}

/// Transfers of the system area. A host reads and writes one part at a time.
#[derive(Default)]
pub(super) struct SystemArea {
    reading: RefCell<Option<Reading>>,
    writing: RefCell<Option<Writing>>,
}

impl SystemArea {
    pub(super) fn clear(&self) {
        self.reading.take();
        self.writing.take();
    }

    /// Raw System Read.
    pub(super) async fn read(
        &self,
        context: &Context<'_>,
        workspace: &mut Workspace,
    ) -> Result<Reply, Status> {
        let command = RawSystem::parse(context.sqe).ok_or(INVALID_FIELD)?;
        context.check_length(command.bytes)?;
        context.resolve(workspace, command.bytes.into(), true).await?;
        if command.offset == 0 {
            let bytes = load(context.flash(), command.part).await;
            context.charge(Stage::Flash);
            context.check()?;
            self.reading.replace(Some(Reading { part: command.part, bytes }));
        }
        let (total, is_there) = {
            let reading = self.reading.borrow();
            let reading = reading.as_ref().filter(|reading| reading.part == command.part);
            let part = &reading.ok_or(SEQUENCE_ERROR)?.bytes;
            let bytes = part.as_deref().unwrap_or_default();
            let rest = bytes.get(command.offset as usize..).ok_or(INVALID_FIELD)?;
            workspace.bytes.clear();
            workspace.bytes.extend_from_slice(&rest[..rest.len().min(command.bytes as usize)]);
            (bytes.len() as u32, part.is_some())
        };
        send(context, workspace).await?;
        Ok(Reply::Done([total, u32::from(is_there)]))
    }

    /// Raw System Write.
    pub(super) async fn write(
        &self,
        context: &Context<'_>,
        workspace: &mut Workspace,
    ) -> Result<Reply, Status> {
        let RawSystem { part, bytes, offset, total } = RawSystem::parse(context.sqe).ok_or(INVALID_FIELD)?;
        context.check_length(bytes)?;
        let end = offset.checked_add(bytes).filter(|end| *end <= total && total <= RawSystem::TOTAL_MAX);
        let end = end.ok_or(INVALID_FIELD)?;
        context.bring(workspace, bytes.into(), Landing::Bytes).await?;
        {
            let mut writing = self.writing.borrow_mut();
            if offset == 0 {
                *writing = Some(Writing { part, total, bytes: Vec::new() });
            }
            let follows = |writing: &&mut Writing| {
                writing.part == part && writing.total == total && writing.bytes.len() == offset as usize
            };
            let writing = writing.as_mut().filter(follows).ok_or(SEQUENCE_ERROR)?;
            writing.bytes.extend_from_slice(&workspace.bytes);
        }
        if end == total
            && let Some(writing) = self.writing.take()
        {
            store(context.flash(), part, writing.bytes.into()).await;
            context.charge(Stage::Flash);
            context.check()?;
        }
        Ok(Reply::Done([0; 2]))
    }
}

async fn load(flash: &Flash, part: RawPart) -> Option<Rc<[u8]>> {
    match part {
        RawPart::Root0 => flash.read_root(0).await,
        RawPart::Root1 => flash.read_root(1).await,
        RawPart::Record => flash.record(),
        RawPart::Journal => {
            let mut bytes = Vec::new();
            flash.read_journal().await.iter().for_each(|page| push_page(&mut bytes, page));
            Some(bytes.into())
        }
    }
}

async fn store(flash: &Flash, part: RawPart, bytes: Rc<[u8]>) {
    match part {
        RawPart::Root0 => flash.write_root(0, bytes).await,
        RawPart::Root1 => flash.write_root(1, bytes).await,
        RawPart::Record => flash.write_record(bytes).await,
        RawPart::Journal => flash.append_journal(bytes).await,
    }
}

/// Raw Manage.
pub(super) async fn manage(context: &Context<'_>) -> Result<Reply, Status> {
    let flash = context.flash();
    let known = |block: u32| match block < flash.geometry().total_blocks() {
        true => Ok(BlockId(block)),
        false => Err(Status::LBA_OUT_OF_RANGE.with_dnr()),
    };
    match RawAction::parse(context.sqe).ok_or(INVALID_FIELD)? {
        RawAction::Sync => {
            flash.sync().await;
            context.charge(Stage::Flash);
            context.check()?;
        }
        RawAction::MarkBad { block } => flash.mark_bad(known(block)?),
        RawAction::SetMode { one_bit: true, .. } if flash.timing().slc.is_none() => {
            return Err(INVALID_FIELD);
        }
        RawAction::SetMode { block, one_bit } => {
            let mode = if one_bit { Mode::OneBit } else { Mode::Full };
            if !flash.set_mode(known(block)?, mode) {
                return Err(SEQUENCE_ERROR);
            }
        }
        RawAction::CutJournal { pages } => flash.cut_journal(pages as usize),
    }
    Ok(Reply::Done([0; 2]))
}
