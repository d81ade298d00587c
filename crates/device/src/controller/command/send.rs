//! Sending data to the data pointer's address.

use crate::controller::command::context::Context;
use crate::controller::command::workspace::Workspace;
use crate::controller::state::counters::add;
use byteway_clock::{Stage, Time};
use byteway_content::{Content, UNIT_BYTES};
use byteway_link::{Fault, Purpose};
use byteway_transfer::Extent;
use byteway_wire::nvme::{Segment, Status};
use std::rc::Rc;

/// Posts `workspace.bytes` to the host's extents, which may be longer; returns when the last byte has left.
pub(crate) fn send_bytes(context: &Context<'_>, workspace: &Workspace) -> Result<Time, Status> {
    let core = context.core;
    let epoch = workspace.collector.epoch();
    let mut sent = core.clock.now();
    let mut at = 0;
    for extent in workspace.collector.extents() {
        let count = (extent.bytes() as usize).min(workspace.bytes.len() - at);
        if count == 0 {
            continue;
        }
        if let Extent::Memory(segment) = extent {
            let segment = Segment { bytes: count as u32, ..*segment };
            let part = workspace.bytes[at..at + count].iter().copied();
            let padding = context.padding(segment);
            let bytes: Rc<[u8]> = part.chain(std::iter::repeat_n(0, padding as usize)).collect();
            let written = core.port.write_bytes(segment.address, bytes, epoch, Purpose::Data);
            sent = written.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?.sent;
            add(&core.counters.data_out_bytes, count as u64 + u64::from(padding));
        }
        at += count;
    }
    Ok(sent)
}

/// Sends a page of data to the host.
pub(crate) async fn send_page(
    context: &Context<'_>,
    workspace: &mut Workspace,
    page: Vec<u8>,
) -> Result<u32, Status> {
    let core = context.core;
    context.resolve(workspace, page.len() as u64, true).await?;
    let mut at = 0;
    let mut sent = core.clock.now();
    for extent in workspace.collector.extents() {
        let count = extent.bytes() as usize;
        if let Extent::Memory(segment) = extent {
            let bytes: Rc<[u8]> = page[at..at + count].into();
            let epoch = workspace.collector.epoch();
            let written = core.port.write_bytes(segment.address, bytes, epoch, Purpose::Data);
            sent = written.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?.sent;
            add(&core.counters.data_out_bytes, count as u64);
        }
        at += count;
    }
    core.clock.sleep_until(sent).await;
    context.charge(Stage::Link);
    context.check()?;
    Ok(0)
}

/// Sends `workspace.bytes` to the resolved data pointer, whose extents may be longer.
pub(crate) async fn send(context: &Context<'_>, workspace: &Workspace) -> Result<(), Status> {
    context.set_up_dma(workspace.bytes.len() as u64).await?;
    let sent = send_bytes(context, workspace)?;
    context.core.clock.sleep_until(sent).await;
    context.charge(Stage::Link);
    context.check()
}

/// Posts `workspace.contents`, from byte `offset` on, to the host's extents; returns when the last byte has left.
/// Units that are sent whole are moved out.
pub(crate) fn send_units(
    context: &Context<'_>,
    workspace: &mut Workspace,
    offset: u32,
) -> Result<Time, Status> {
    let core = context.core;
    let Workspace { collector, contents, .. } = workspace;
    let mut at = offset as usize;
    let mut sent = core.clock.now();
    let epoch = collector.epoch();
    for extent in collector.extents() {
        let Extent::Memory(segment) = *extent else {
            at += extent.bytes() as usize;
            continue;
        };
        let mut done = 0;
        while done < segment.bytes {
            let (unit, offset) = (at / UNIT_BYTES, at % UNIT_BYTES);
            let count = (segment.bytes - done).min((UNIT_BYTES - offset) as u32);
            let content = match count as usize == UNIT_BYTES {
                true => std::mem::take(&mut contents[unit]),
                false => contents[unit].clone(),
            };
            let address = segment.address + u64::from(done);
            let written =
                core.port.write_content(address, content, offset as u32, count, epoch, Purpose::Data);
            sent = written.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?.sent;
            add(&core.counters.data_out_bytes, u64::from(count));
            done += count;
            at += count as usize;
        }
        let padding = context.padding(segment);
        if padding > 0 {
            let address = segment.address + u64::from(segment.bytes);
            let zeroes = Content::Zero;
            let written = core.port.write_content(address, zeroes, 0, padding, epoch, Purpose::Data);
            sent = written.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?.sent;
            add(&core.counters.data_out_bytes, u64::from(padding));
        }
    }
    Ok(sent)
}
