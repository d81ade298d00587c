//! Copy (NVM Command Set 1.1, 3.2.2): copies blocks within a namespace, inside the drive.
//!
//! Ranges are copied one after another: each is read, then written. Each unit of 4 KiB is read at one instant, so a
//! copy never holds a half-written unit. If a source overlaps the destination, that order is visible; descriptor format
//! 0h permits it, and leaves it to the host to avoid.

use crate::controller::command::context::Context;
use crate::controller::command::media::settle;
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::nvm::blocks::{Fill, fetch_units, write_part, write_units};
use crate::controller::command_set::nvm::identify::{COPY_RANGES_MAX, copy_limits_of};
use crate::controller::namespace::{Namespace, Span};
use byteway_wire::nvme::{Copy, CopyRange, Status};

/// Executes a Copy. On a failure, dword 0 of the completion is the number of the first range that was not copied.
pub async fn copy(context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
    let core = context.core;
    let command = Copy::parse(context.sqe);
    workspace.failed_lba = command.sdlba;
    let namespace = context.writable()?;
    if command.format != 0 {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    if command.ranges() > COPY_RANGES_MAX {
        return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.with_dnr());
    }
    let bytes = command.ranges() * CopyRange::SIZE;
    context.bring(workspace, bytes as u64, Landing::Bytes).await?;
    workspace.ranges.clear();
    workspace.ranges.extend(CopyRange::parse_list(&workspace.bytes));
    let blocks = check(context, &namespace, &command, workspace)?;
    let mut to = command.sdlba;
    for index in 0..workspace.ranges.len() {
        let range = workspace.ranges[index];
        workspace.failed_dword = index as u32;
        copy_range(context, &namespace, range, to, workspace).await?;
        to += u64::from(range.blocks());
    }
    workspace.failed_dword = 0;
    if context.durable(command.fua) {
        settle(context).await?;
    }
    core.count_write(context.span, blocks * namespace.block.bytes() as u64);
    Ok(())
}

/// Checks all ranges before anything is copied; returns the total number of blocks.
fn check(
    context: &Context<'_>,
    namespace: &Namespace,
    command: &Copy,
    workspace: &mut Workspace,
) -> Result<u64, Status> {
    let (range_max, all_max) = copy_limits_of(namespace, context.core.config.controller.transfer_bytes_max);
    let ranges = &workspace.ranges;
    let blocks: u64 = ranges.iter().map(|range| u64::from(range.blocks())).sum();
    let too_long = ranges.iter().any(|range| range.blocks() > u32::from(range_max));
    if too_long || blocks > u64::from(all_max) {
        return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.with_dnr());
    }
    namespace.span(command.sdlba, blocks)?;
    for range in ranges {
        workspace.failed_lba = range.slba;
        namespace.span(range.slba, range.blocks().into())?;
    }
    Ok(blocks)
}

async fn copy_range(
    context: &Context<'_>,
    namespace: &Namespace,
    range: CopyRange,
    to: u64,
    workspace: &mut Workspace,
) -> Result<(), Status> {
    let blocks = u64::from(range.blocks());
    let (source, target) = (namespace.span(range.slba, blocks)?, namespace.span(to, blocks)?);
    workspace.failed_lba = range.slba;
    fetch_units(context, workspace, namespace, source).await?;
    workspace.failed_lba = to;
    if source.is_whole() && target.is_whole() {
        write_units(context, namespace, target.unit, &mut workspace.contents, false).await?;
        return context.check();
    }
    let mut bytes = std::mem::take(&mut workspace.bytes);
    lay_out(workspace, source, &mut bytes);
    let written = write_part(context, namespace, target, Fill::Bytes(&bytes), false).await;
    workspace.bytes = bytes;
    written
}

/// Extracts the bytes of a span from its units.
fn lay_out(workspace: &Workspace, span: Span, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.resize(span.bytes as usize, 0);
    let mut at = 0;
    for (index, content) in (0..).zip(&workspace.contents) {
        let (offset, count) = span.part(index);
        content.write_part(offset, &mut bytes[at..at + count]);
        at += count;
    }
}
