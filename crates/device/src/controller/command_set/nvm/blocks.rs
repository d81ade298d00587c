//! Logical blocks over units: read, write and compare, for all commands of the set.

use crate::backing::UnitPart;
use crate::controller::command::context::Context;
use crate::controller::command::media::{settle, status_of};
use crate::controller::command::workspace::Workspace;
use crate::controller::namespace::{Namespace, Span};
use crate::controller::state::counters::add;
use byteway_content::{Content, UNIT_BYTES, marred_parts};
use byteway_firmware::MediaError;
use byteway_wire::nvme::{ReadWrite, Status};
use std::rc::Rc;

impl Context<'_> {
    /// The span of a transfer, if its range and length are valid.
    pub(crate) fn transfer(
        &self,
        rw: &ReadWrite,
        workspace: &mut Workspace,
    ) -> Result<(Rc<Namespace>, Span), Status> {
        workspace.failed_lba = rw.slba;
        let namespace = self.core.namespace(self.sqe.nsid)?;
        let span = namespace.span(rw.slba, u64::from(rw.blocks()))?;
        if span.bytes > u64::from(self.core.config.controller.transfer_bytes_max) {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        Ok((namespace, span))
    }

    /// The command's namespace, if it is writable.
    pub(crate) fn writable(&self) -> Result<Rc<Namespace>, Status> {
        let namespace = self.core.namespace(self.sqe.nsid)?;
        namespace.check_writable()?;
        Ok(namespace)
    }

    /// With `fua`: flushes the units to be read, so that they are read from flash.
    pub(crate) async fn commit(&self, fua: bool) -> Result<(), Status> {
        if fua {
            settle(self).await?;
            self.check()?;
        }
        Ok(())
    }

    /// Whether a write must be on flash when it completes.
    pub(crate) fn durable(&self, fua: bool) -> bool {
        fua || !self.core.features.write_cache.get().wce()
    }
}

/// Reads the units of `span` into `workspace.contents`. On a failure `workspace.failed_lba`, initially the span's first
/// block, becomes the first block that can't be read.
pub(crate) async fn fetch_units(
    context: &Context<'_>,
    workspace: &mut Workspace,
    namespace: &Namespace,
    span: Span,
) -> Result<(), Status> {
    let (core, contents) = (context.core, &mut workspace.contents);
    let (first, count) = namespace.run(span.unit, span.units.into());
    let spans = core.port.spans();
    let mut read = core.backing.read(context.work_context(), spans, first, count as u32, contents).await;
    if count < u64::from(span.units) && read.is_ok() {
        read = fetch_rest(context, contents, namespace, span, count).await;
    }
    read.map_err(|error: MediaError| {
        add(&core.counters.media_errors, 1);
        status_of(error, Status::UNRECOVERED_READ_ERROR)
    })?;
    context.check()?;
    check_readable(context, workspace, namespace, span)
}

/// Checks that all of `span`, whose units were read, is readable.
pub(crate) fn check_readable(
    context: &Context<'_>,
    workspace: &mut Workspace,
    namespace: &Namespace,
    span: Span,
) -> Result<(), Status> {
    if workspace.contents.iter().any(|content| content.marred() != 0) {
        return check_marred(context, workspace, namespace, span);
    }
    Ok(())
}

/// Reads the part of a span in further extents.
#[cold]
async fn fetch_rest(
    context: &Context<'_>,
    contents: &mut Vec<Content>,
    namespace: &Namespace,
    span: Span,
    mut done: u64,
) -> Result<(), MediaError> {
    let mut more = Vec::new();
    while done < u64::from(span.units) {
        let (first, count) = namespace.run(span.unit + done, u64::from(span.units) - done);
        let spans = context.core.port.spans();
        context.core.backing.read(context.work_context(), spans, first, count as u32, &mut more).await?;
        contents.append(&mut more);
        done += count;
    }
    Ok(())
}

/// Checks that all unreadable bytes of the units lie outside the span.
#[cold]
fn check_marred(
    context: &Context<'_>,
    workspace: &mut Workspace,
    namespace: &Namespace,
    span: Span,
) -> Result<(), Status> {
    for (index, content) in (0..).zip(&workspace.contents) {
        let (offset, bytes) = span.part(index);
        if let Some(at) = content.first_marred(offset, bytes) {
            let before = u64::from(index) * UNIT_BYTES as u64 + at as u64 - u64::from(span.offset);
            workspace.failed_lba += before / namespace.block.bytes() as u64;
            add(&context.core.counters.media_errors, 1);
            return Err(Status::UNRECOVERED_READ_ERROR);
        }
    }
    Ok(())
}

/// Writes whole units, and removes them from `contents`.
pub(crate) async fn write_units(
    context: &Context<'_>,
    namespace: &Namespace,
    mut unit: u64,
    contents: &mut Vec<Content>,
    durable: bool,
) -> Result<(), Status> {
    let core = context.core;
    loop {
        let (first, count) = namespace.run(unit, contents.len() as u64);
        // The part in other extents is written afterwards.
        let mut rest = Vec::new();
        if count < contents.len() as u64 {
            rest = contents.split_off(count as usize);
        }
        let written =
            core.backing.write(context.work_context(), core.port.spans(), first, contents, durable).await;
        written.map_err(|error| status_of(error, Status::WRITE_FAULT))?;
        if rest.is_empty() {
            return Ok(());
        }
        *contents = rest;
        unit += count;
    }
}

/// New contents of a span.
#[derive(Clone, Copy)]
pub(crate) enum Fill<'a> {
    /// These bytes, exactly as many as the span has.
    Bytes(&'a [u8]),
    /// Zeroes.
    Zero,
    /// Unreadable, until written again.
    Unreadable,
}

/// Writes a span that is not whole units: reads, changes and writes each unit in one atomic step.
pub(crate) async fn write_part(
    context: &Context<'_>,
    namespace: &Namespace,
    span: Span,
    fill: Fill<'_>,
    durable: bool,
) -> Result<(), Status> {
    let core = context.core;
    let mut at = 0;
    for index in 0..span.units {
        let (offset, count) = span.part(index);
        let edit = |unit: &mut [u8; UNIT_BYTES], marred: &mut u8| {
            let parts = marred_parts(offset, count);
            if let Fill::Unreadable = fill {
                return *marred |= parts;
            }
            unit[offset..offset + count].fill(0);
            *marred &= !parts;
        };
        let (unit, _) = namespace.run(span.unit + u64::from(index), 1);
        let (work, spans) = (context.work_context(), core.port.spans());
        let edited = match fill {
            Fill::Bytes(bytes) => {
                let part =
                    UnitPart { unit, offset, bytes: &bytes[at..at + count], command_bytes: span.bytes };
                core.backing.write_part(work, spans, part, durable).await
            }
            Fill::Zero | Fill::Unreadable => core.backing.edit(work, spans, unit, edit, durable).await,
        };
        edited.map_err(|error| status_of(error, Status::WRITE_FAULT))?;
        at += count;
        context.check()?;
    }
    Ok(())
}

/// Compares the units of `span`, which were read, with `expected`: the end of a Compare.
pub(crate) fn check_equal(
    context: &Context<'_>,
    workspace: &mut Workspace,
    span: Span,
    expected: &[u8],
) -> Result<(), Status> {
    for (index, content) in (0..).zip(&workspace.contents) {
        let (offset, bytes) = span.part(index);
        let at = (index as usize * UNIT_BYTES + offset) - span.offset as usize;
        let held = &mut workspace.unit[..bytes];
        content.write_part(offset, held);
        if *held != expected[at..at + bytes] {
            return Err(Status::COMPARE_FAILURE);
        }
    }
    context.core.count_read(context.span, span.bytes);
    Ok(())
}
