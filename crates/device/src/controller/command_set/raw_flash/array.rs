//! Raw Read, Raw Program, Raw Copy, Raw Erase and Raw Report.

use crate::controller::command::context::{Context, Reply};
use crate::controller::command::send::{send, send_units};
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::raw_flash::INVALID_FIELD;
use byteway_clock::Stage;
use byteway_content::{Content, UNIT_BYTES};
use byteway_flash::{BlockId, Geometry, Mode, Outcome, Ppa, Priority, Spare, Ticket};
use byteway_wire::IntoBytes;
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::raw_flash::{
    NO_LPA, NO_NUMBER, RawBlock, RawErase, RawProgram, RawRead, RawReport, RawUnit, copy_bytes, metadata,
    metadata_bytes, payload_bytes, push_metadata,
};
use std::rc::Rc;

/// Raw Read. Unreadable units are reported in the completion, and read as zeroes.
pub(super) async fn read(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let (core, flash) = (context.core, context.flash());
    let read = RawRead::parse(context.sqe);
    let geometry = flash.geometry();
    let priority = priority(read.priority)?;
    let block = stripe(geometry, read.block, read.stripe)?;
    if read.mask == 0 || read.mask & !geometry.full_mask() != 0 {
        return Err(INVALID_FIELD);
    }
    context.check_length(read.bytes())?;
    context.resolve(workspace, read.bytes().into(), true).await?;
    let first = geometry.ppa(block, read.stripe, 0);
    let ticket = flash.ticket();
    // Sensing a page yields the metadata of all its units, so one unit of the mask suffices.
    let mask = if read.metadata_only { 1 } else { read.mask };
    flash.submit_read(first, mask, priority, &ticket);
    let outcome = ticket.wait().await;
    context.charge_flash(&outcome);
    context.check()?;
    let contents = &mut workspace.contents;
    contents.clear();
    ticket.take_contents(contents);
    let number = flash.stripe_number(block, read.stripe);
    let unreadable = match read.metadata_only {
        true if number.is_none() => read.mask,
        true => 0,
        false => unreadable(&ticket, read.mask),
    };
    let units = bits(read.mask).enumerate().map(|(index, unit)| {
        let ppa = Ppa(first.0 + u64::from(unit));
        let spare = flash.spare(ppa).unwrap_or(Spare::PADDING);
        let content = contents.get(index).filter(|_| !read.metadata_only);
        let marred = content.map_or(0, Content::marred);
        RawUnit { lpa: spare.lpa, sequence: spare.sequence, marred, ..RawUnit::default() }
    });
    let mut metadata = Vec::with_capacity(metadata_bytes(read.units()) as usize);
    push_metadata(&mut metadata, number.unwrap_or(NO_NUMBER), units);
    if read.metadata_only {
        contents.clear();
    }
    contents.push(Content::Head(Rc::new(metadata.into())));
    context.set_up_dma(read.bytes().into()).await?;
    let sent = send_units(context, workspace, 0)?;
    core.clock.sleep_until(sent).await;
    context.charge(Stage::Link);
    context.check()?;
    core.count_read(context.span, u64::from(read.bytes()));
    Ok(Reply::Done([unreadable as u32, (unreadable >> 32) as u32]))
}

/// Raw Program.
pub(super) async fn program(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let (core, flash) = (context.core, context.flash());
    let program = RawProgram::parse(context.sqe);
    let (block, priority) = target(flash.geometry(), &program)?;
    let units = u32::from(program.units);
    context.check_length(payload_bytes(units))?;
    context.bring(workspace, payload_bytes(units).into(), Landing::Units).await?;
    let Workspace { contents, unit, .. } = workspace;
    let (number, spares) = numbered(&unit[..metadata_bytes(units) as usize])?;
    let mut batch = flash.take_batch();
    batch.number = number;
    batch.units.extend(spares.zip(contents.drain(..)).map(|(unit, content)| {
        let content = match unit.marred {
            0 => content,
            marred => content.edited(core.config.keep, |_, blocks| *blocks |= marred),
        };
        (spare(&unit), content)
    }));
    let ticket = flash.ticket();
    flash.submit_program(block, program.stripe, batch, priority, &ticket);
    written(context, ticket.wait().await)?;
    core.count_write(context.span, u64::from(payload_bytes(units)));
    Ok(Reply::Done([0; 2]))
}

/// Raw Copy.
pub(super) async fn copy(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let flash = context.flash();
    let copy = RawProgram::parse(context.sqe);
    let (block, priority) = target(flash.geometry(), &copy)?;
    let units = u32::from(copy.units);
    context.check_length(copy_bytes(units))?;
    context.bring(workspace, copy_bytes(units).into(), Landing::Bytes).await?;
    let (places, metadata) = workspace.bytes.split_at(units as usize * 8);
    let places = places.as_chunks::<8>().0.iter().map(|bytes| Ppa(u64::from_le_bytes(*bytes)));
    let sources: Vec<Ppa> = places.collect();
    if sources.iter().any(|source| source.0 >= flash.geometry().total_units()) {
        return Err(Status::LBA_OUT_OF_RANGE.with_dnr());
    }
    let (number, spares) = numbered(metadata)?;
    let mut batch = flash.take_batch();
    batch.number = number;
    batch.units.extend(spares.map(|unit| (spare(&unit), Content::Zero)));
    let ticket = flash.ticket();
    flash.submit_move(sources, block, copy.stripe, batch, priority, &ticket);
    let outcome = ticket.wait().await;
    if outcome.unreadable > 0 {
        context.charge_flash(&outcome);
        return Err(Status::UNRECOVERED_READ_ERROR.with_dnr());
    }
    written(context, outcome)?;
    Ok(Reply::Done([0; 2]))
}

/// Raw Erase.
pub(super) async fn erase(context: &Context<'_>) -> Result<Reply, Status> {
    let flash = context.flash();
    let erase = RawErase::parse(context.sqe);
    let block = stripe(flash.geometry(), erase.block, 0)?;
    let ticket = flash.ticket();
    flash.submit_erase(block, priority(erase.priority)?, &ticket);
    written(context, ticket.wait().await)?;
    Ok(Reply::Done([0; 2]))
}

/// Raw Report.
pub(super) async fn report(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let flash = context.flash();
    let RawReport { first, count } = RawReport::parse(context.sqe);
    let end = first.checked_add(count).filter(|end| *end <= flash.geometry().total_blocks());
    let end = end.ok_or(Status::LBA_OUT_OF_RANGE.with_dnr())?;
    let bytes = count.checked_mul(RawBlock::SIZE as u32).ok_or(INVALID_FIELD)?;
    context.check_length(bytes)?;
    context.resolve(workspace, bytes.into(), true).await?;
    workspace.bytes.clear();
    for block in (first..end).map(BlockId) {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let described = RawBlock {
            programmed: flash.programmed_stripes(block),
            flags: flag(flash.is_bad(block), RawBlock::BAD)
                | flag(flash.is_unstable(block), RawBlock::UNSTABLE)
                | flag(flash.mode(block) == Mode::OneBit, RawBlock::ONE_BIT),
            erases: flash.erases(block),
            erases_since_made: flash.erases_since_made(block),
            reads: flash.reads_since_erase(block),
            programmed_at_ns: flash.programmed_at(block).map_or(0, |age| age.as_nanos() as u64),
            ..RawBlock::default()
        };
        workspace.bytes.extend_from_slice(described.as_bytes());
    }
    send(context, workspace).await?;
    Ok(Reply::Done([0; 2]))
}

/// Maps the outcome of a program, a copy or an erase.
fn written(context: &Context<'_>, outcome: Outcome) -> Result<(), Status> {
    context.charge_flash(&outcome);
    context.check()?;
    if outcome.failed { Err(Status::WRITE_FAULT) } else { Ok(()) }
}

/// The target block and the priority of a Raw Program or Raw Copy.
fn target(geometry: &Geometry, program: &RawProgram) -> Result<(BlockId, Priority), Status> {
    let block = stripe(geometry, program.block, program.stripe)?;
    if u32::from(program.units) > geometry.units_per_stripe() {
        return Err(INVALID_FIELD);
    }
    Ok((block, priority(program.priority)?))
}

/// The superblock of a stripe, if the array has it.
fn stripe(geometry: &Geometry, block: u32, stripe: u32) -> Result<BlockId, Status> {
    match block < geometry.total_blocks() && stripe < geometry.pages {
        true => Ok(BlockId(block)),
        false => Err(Status::LBA_OUT_OF_RANGE.with_dnr()),
    }
}

fn priority(code: u8) -> Result<Priority, Status> {
    Priority::ALL.get(usize::from(code)).copied().ok_or(INVALID_FIELD)
}

/// Decodes metadata. The number that marks a stripe as unreadable is refused.
fn numbered(bytes: &[u8]) -> Result<(u64, impl Iterator<Item = RawUnit> + '_), Status> {
    metadata(bytes).filter(|(number, _)| *number != NO_NUMBER).ok_or(INVALID_FIELD)
}

fn spare(unit: &RawUnit) -> Spare {
    match unit.lpa {
        NO_LPA => Spare::PADDING,
        lpa => Spare { lpa, sequence: unit.sequence },
    }
}

/// The set bits of a mask, in ascending order.
fn bits(mask: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |bit| mask >> bit & 1 == 1)
}

/// The units of a mask that a ticket could not read.
fn unreadable(ticket: &Ticket, mask: u64) -> u64 {
    let units = bits(mask).enumerate().filter(|(index, _)| ticket.is_unreadable(*index));
    units.fold(0, |all, (_, unit)| all | 1 << unit)
}

const _: () =
    assert!(metadata_bytes(64) as usize <= UNIT_BYTES, "metadata of a stripe lies in the rest of a unit");
