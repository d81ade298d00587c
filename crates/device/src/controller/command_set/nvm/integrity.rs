//! Verify and Write Uncorrectable (NVM Command Set 1.1, 3.2.6 and 3.2.7): reading blocks without transferring them, and
//! making blocks unreadable until they are written again.

use crate::controller::command::context::Context;
use crate::controller::command::media::settle;
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::nvm::blocks::{Fill, fetch_units, write_part, write_units};
use crate::controller::namespace::Span;
use byteway_content::{Content, UNIT_BYTES};
use byteway_wire::nvme::{ReadWrite, Status};

/// Units between checks whether to continue: the transfer limit does not apply to these commands.
const STEP_UNITS: u32 = 256;

/// Executes Verify: reads the blocks and reports errors.
pub async fn verify(context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
    let core = context.core;
    let command = ReadWrite::parse(context.sqe);
    workspace.failed_lba = command.slba;
    let namespace = core.namespace(context.sqe.nsid)?;
    let blocks = u64::from(command.blocks());
    let whole = namespace.span(command.slba, blocks)?;
    context.commit(command.fua).await?;
    let step = u64::from(STEP_UNITS) * namespace.block.per_unit() as u64;
    let mut done = 0;
    while done < blocks {
        let count = step.min(blocks - done);
        let lba = command.slba + done;
        workspace.failed_lba = lba;
        let span = namespace.span(lba, count)?;
        fetch_units(context, workspace, &namespace, span).await?;
        done += count;
    }
    core.count_read(context.span, whole.bytes);
    Ok(())
}

/// Executes Write Uncorrectable: makes the blocks unreadable.
pub async fn mark_unreadable(context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
    let command = ReadWrite::parse(context.sqe);
    workspace.failed_lba = command.slba;
    let namespace = context.writable()?;
    let span = namespace.span(command.slba, u64::from(command.blocks()))?;
    let mut index = 0;
    while index < span.units {
        let (offset, bytes) = span.part(index);
        let unit = span.unit + u64::from(index);
        if bytes < UNIT_BYTES {
            let part = Span { unit, units: 1, offset: offset as u32, bytes: bytes as u64 };
            write_part(context, &namespace, part, Fill::Unreadable, false).await?;
            index += 1;
            continue;
        }
        let ends_whole = (u64::from(span.offset) + span.bytes).is_multiple_of(UNIT_BYTES as u64);
        let whole = span.units - index - u32::from(!ends_whole);
        let count = whole.min(STEP_UNITS);
        let contents = &mut workspace.contents;
        contents.clear();
        contents.resize(count as usize, Content::unreadable());
        write_units(context, &namespace, unit, contents, false).await?;
        context.check()?;
        index += count;
    }
    if context.durable(false) {
        settle(context).await?;
    }
    Ok(())
}
