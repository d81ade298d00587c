//! Compare and Write, the fused operation of the NVM command set (NVM Command Set 1.1, 2.1.4).
//! [`pairing`](crate::controller::fetch::pairing) pairs the two commands.
//!
//! Both payloads are fetched before the units are locked. [`Exchange`](byteway_firmware::Exchange) then keeps other
//! commands from changing the units between comparison and write.

use crate::controller::command::context::Context;
use crate::controller::command::media::status_of;
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::nvm::blocks::{check_equal, check_readable, fetch_units};
use crate::controller::core::Core;
use crate::controller::namespace::{Namespace, Span};
use crate::controller::state::counters::add;
use byteway_clock::Stage;
use byteway_content::{Content, Keep, UNIT_BYTES, marred_parts};
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Status};

/// Maximum number of blocks of a Compare and Write, in every format (ACWU, one-based). Wherever they begin, they touch
/// no more units than their number.
pub fn blocks_max(core: &Core) -> u32 {
    core.backing.exchange_units_max().min(1 << 16)
}

/// Executes the fused operation; returns the status of each command.
pub(crate) async fn execute(both: &[Context<'_>; 2], workspace: &mut Workspace) -> [Status; 2] {
    let [first, second] = both;
    if !is_compare_and_write(first, second) {
        return [Status::INVALID_FIELD.with_dnr(); 2];
    }
    let status_of = |outcome: Result<(), Status>| outcome.err().unwrap_or(Status::SUCCESS);
    match compare_and_write(first, second, workspace).await {
        Ok(written) => [Status::SUCCESS, status_of(written)],
        // If the queue is being deleted, the second is aborted for that reason.
        Err(failed) => [failed, second.check_queue().err().unwrap_or(Status::ABORTED_FAILED_FUSED)],
    }
}

/// Whether the two form a supported fused operation, over the same blocks.
fn is_compare_and_write(first: &Context<'_>, second: &Context<'_>) -> bool {
    let blocks = |sqe| {
        let ReadWrite { slba, nlb_z, .. } = ReadWrite::parse(sqe);
        (sqe.nsid, slba, nlb_z)
    };
    NvmOpcode(first.sqe.opcode()) == NvmOpcode::COMPARE
        && NvmOpcode(second.sqe.opcode()) == NvmOpcode::WRITE
        && blocks(first.sqe) == blocks(second.sqe)
}

/// Compares, and writes if equal. An error is the first command's, and nothing is written; a failure of the second
/// leaves the first's status unchanged.
async fn compare_and_write(
    first: &Context<'_>,
    second: &Context<'_>,
    workspace: &mut Workspace,
) -> Result<Result<(), Status>, Status> {
    let core = first.core;
    let (compare, write) = (ReadWrite::parse(first.sqe), ReadWrite::parse(second.sqe));
    let (namespace, span) = first.transfer(&compare, workspace)?;
    if compare.blocks() > blocks_max(core) {
        return Err(Status::ATOMIC_WRITE_UNIT_EXCEEDED.with_dnr());
    }
    first.check()?;
    first.bring(workspace, span.bytes, Landing::Bytes).await?;
    let expected = std::mem::take(&mut workspace.bytes);
    second.charge(Stage::Queueing);
    let prepared = prepare_write(second, workspace, &namespace, span).await;
    let new = std::mem::take(&mut workspace.bytes);
    first.charge(Stage::Queueing);
    first.check()?;
    first.commit(compare.fua).await?;
    let spans = core.port.spans();
    let exchange = match prepared {
        Ok(()) => {
            let units: Vec<u64> =
                (0..u64::from(span.units)).map(|index| namespace.run(span.unit + index, 1).0).collect();
            let exchange = core.backing.exchange(first.span, spans, &units).await;
            exchange.map_err(|error| status_of(error, Status::WRITE_FAULT))
        }
        Err(status) => Err(status),
    };
    let exchange = match exchange {
        Ok(exchange) => exchange,
        Err(status) => {
            // Nothing will be written; the comparison is done anyway, for the first command's status.
            fetch_units(first, workspace, &namespace, span).await?;
            check_equal(first, workspace, span, &expected)?;
            return Ok(Err(status));
        }
    };
    let read = exchange.read(first.span, spans, &mut workspace.contents).await;
    read.map_err(|error| {
        add(&core.counters.media_errors, 1);
        status_of(error, Status::UNRECOVERED_READ_ERROR)
    })?;
    first.check()?;
    check_readable(first, workspace, &namespace, span)?;
    check_equal(first, workspace, span, &expected)?;
    if let Err(status) = second.check() {
        return Ok(Err(status));
    }
    overwrite(&mut workspace.contents, core.config.keep, span, &new);
    second.charge(Stage::Queueing);
    let durable = second.durable(write.fua);
    let written = exchange.write(second.span, spans, &mut workspace.contents, durable).await;
    first.charge(Stage::Queueing);
    if written.is_ok() {
        core.count_write(second.span, span.bytes);
    }
    Ok(written.map_err(|error| status_of(error, Status::WRITE_FAULT)))
}

/// Fetches the payload of the Write, if the Write is valid.
async fn prepare_write(
    write: &Context<'_>,
    workspace: &mut Workspace,
    namespace: &Namespace,
    span: Span,
) -> Result<(), Status> {
    write.check()?;
    namespace.check_writable()?;
    write.bring(workspace, span.bytes, Landing::Bytes).await
}

/// Overwrites the part `span` of the units with `bytes`.
fn overwrite(contents: &mut [Content], keep: Keep, span: Span, bytes: &[u8]) {
    let mut rest = bytes;
    for (index, content) in (0..).zip(contents) {
        let (offset, count) = span.part(index);
        let (part, later) = rest.split_at(count);
        *content = match count {
            UNIT_BYTES => Content::of(part, keep),
            _ => content.edited(keep, |unit, marred| {
                unit[offset..offset + count].copy_from_slice(part);
                *marred &= !marred_parts(offset, count);
            }),
        };
        rest = later;
    }
}
