//! Read, Write, Flush, Write Zeroes, Dataset Management, Compare (NVM Command Set 1.1).

use crate::controller::command::context::Context;
use crate::controller::command::media::{settle, status_of};
use crate::controller::command::send::send_units;
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::nvm::blocks::{Fill, check_equal, fetch_units, write_part, write_units};
use crate::controller::namespace::{Namespace, Span};
use byteway_clock::Stage;
use byteway_content::UNIT_BYTES;
use byteway_wire::nvme::{DatasetManagement, NSID_ALL, Range, ReadWrite, Status, WriteZeroes};

/// Maximum number of blocks in a range of Dataset Management (DMRSL).
pub const DEALLOCATE_RANGE_BLOCKS_MAX: u32 = 1 << 20;
/// Maximum number of blocks in all its ranges (DMSL).
pub const DEALLOCATE_BLOCKS_MAX: u64 = 1 << 22;
/// Units deallocated between checks whether to continue.
const DEALLOCATE_STEP_UNITS: u64 = 1 << 16;

pub(crate) async fn read(context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
    let core = context.core;
    let rw = ReadWrite::parse(context.sqe);
    let (namespace, span) = context.transfer(&rw, workspace)?;
    context.resolve(workspace, span.bytes, true).await?;
    context.commit(rw.fua).await?;
    fetch_units(context, workspace, &namespace, span).await?;
    context.set_up_dma(span.bytes).await?;
    let passage = send_units(context, workspace, span.offset)?;
    core.clock.sleep_until(passage).await;
    context.charge(Stage::Link);
    context.check()?;
    core.count_read(context.span, span.bytes);
    Ok(())
}

pub(crate) async fn write(context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
    let core = context.core;
    let rw = ReadWrite::parse(context.sqe);
    let (namespace, span) = context.transfer(&rw, workspace)?;
    namespace.check_writable()?;
    let durable = context.durable(rw.fua);
    let landing = if span.is_whole() { Landing::Units } else { Landing::Bytes };
    context.bring(workspace, span.bytes, landing).await?;
    if span.is_whole() {
        write_units(context, &namespace, span.unit, &mut workspace.contents, durable).await?;
    } else {
        let bytes = std::mem::take(&mut workspace.bytes);
        let written = write_part(context, &namespace, span, Fill::Bytes(&bytes), durable).await;
        workspace.bytes = bytes;
        written?;
    }
    core.count_write(context.span, span.bytes);
    Ok(())
}

pub(crate) async fn flush(context: &Context<'_>) -> Result<(), Status> {
    if context.sqe.nsid != NSID_ALL {
        // Allowed even while the namespace is sanitized (NVMe Base 2.1, 8.1.24).
        context.core.inventory.active(context.sqe.nsid)?;
    }
    settle(context).await?;
    context.check()
}

pub(crate) async fn write_zeroes(context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
    let command = WriteZeroes::parse(context.sqe);
    workspace.failed_lba = command.slba;
    let namespace = context.writable()?;
    let span = namespace.span(command.slba, u64::from(command.blocks()))?;
    zero(context, &namespace, span).await?;
    if context.durable(command.fua) {
        settle(context).await?;
    }
    Ok(())
}

/// Makes a span read as zeroes: unmaps whole units, overwrites parts of units.
async fn zero(context: &Context<'_>, namespace: &Namespace, span: Span) -> Result<(), Status> {
    let core = context.core;
    let unit = UNIT_BYTES as u64;
    let (first, count) = span.whole_units().unwrap_or((span.unit, 0));
    let head = (first - span.unit) * unit; // bytes before the first whole unit
    if count == 0 {
        return write_part(context, namespace, span, Fill::Zero, false).await;
    }
    if head > 0 {
        let bytes = head - u64::from(span.offset);
        write_part(context, namespace, Span { units: 1, bytes, ..span }, Fill::Zero, false).await?;
    }
    let mut done = 0;
    while done < count {
        let (at, step) = namespace.run(first + done, (count - done).min(DEALLOCATE_STEP_UNITS));
        let trimmed = core.backing.trim(context.span, core.port.spans(), at, step).await;
        trimmed.map_err(|error| status_of(error, Status::INTERNAL_ERROR))?;
        done += step;
        context.check()?;
    }
    let tail = u64::from(span.offset) + span.bytes - head - count * unit;
    if tail > 0 {
        let rest = Span { unit: first + count, units: 1, offset: 0, bytes: tail };
        write_part(context, namespace, rest, Fill::Zero, false).await?;
    }
    Ok(())
}

pub(crate) async fn deallocate(context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
    let command = DatasetManagement::parse(context.sqe);
    // Without the deallocate attribute the command only gives hints, which have no effect.
    let namespace =
        if command.ad { context.writable()? } else { context.core.namespace(context.sqe.nsid)? };
    let bytes = command.ranges() * Range::SIZE;
    context.bring(workspace, bytes as u64, Landing::Bytes).await?;
    let Workspace { bytes, dataset, failed_lba, .. } = workspace;
    dataset.clear();
    let mut blocks = 0;
    for range in Range::parse_list(bytes) {
        *failed_lba = range.slba;
        namespace.span(range.slba, u64::from(range.length))?;
        blocks += u64::from(range.length);
        if range.length > DEALLOCATE_RANGE_BLOCKS_MAX || blocks > DEALLOCATE_BLOCKS_MAX {
            return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.with_dnr());
        }
        dataset.push(range);
    }
    if !command.ad {
        return Ok(()); // the other attributes are only hints
    }
    for range in dataset.iter().filter(|range| range.length > 0) {
        let span = namespace.span(range.slba, u64::from(range.length))?;
        zero(context, &namespace, span).await?;
    }
    if context.durable(false) {
        settle(context).await?;
    }
    Ok(())
}

pub(crate) async fn compare(context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
    let rw = ReadWrite::parse(context.sqe);
    let (namespace, span) = context.transfer(&rw, workspace)?;
    context.bring(workspace, span.bytes, Landing::Bytes).await?;
    context.commit(rw.fua).await?;
    fetch_units(context, workspace, &namespace, span).await?;
    let expected = std::mem::take(&mut workspace.bytes);
    let compared = check_equal(context, workspace, span, &expected);
    workspace.bytes = expected;
    compared
}
