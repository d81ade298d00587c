//! Writes of the host, and waiting for them.

use crate::ftl::collect::background::{attend, attend_writing};
use crate::ftl::config::MediaError;
use crate::ftl::core::Core;
use crate::ftl::host::read::read_unit;
use crate::ftl::paging::page::look_up_all;
use crate::ftl::steady::dram::begin_writing;
use crate::ftl::write::buffering::buffer_units;
use crate::ftl::write::dispatch::dispatch;
use crate::ftl::write::settle::settle_all;
use crate::placement::{Route, WorkContext};
use crate::work::WorkKind;
use byteway_clock::{SpanId, Spans, Stage};
use byteway_content::{Content, UNIT_BYTES};

/// [`Ftl::write`](crate::Ftl::write).
pub(in crate::ftl) async fn write(
    core: &Core,
    context: WorkContext,
    spans: &Spans,
    first: u64,
    contents: &mut Vec<Content>,
    durable: bool,
) -> Result<(), MediaError> {
    let span = context.span;
    let count = contents.len() as u64;
    let mut next = core.check(first, count)?;
    core.power.ready().await;
    let _attending = attend_writing(core)?;
    begin_writing(core);
    admit(core, context, spans, count, core.changes_at_once(count)).await;
    let mut contents = contents.drain(..);
    let mut left = count as u32;
    let mut paged = None;
    while left > 0 {
        // A chunk's worth of slots always exists, so this cannot wait for slots that only this write
        // could free.
        let chunk = left.min(core.geometry.units_per_stripe());
        if core.cache.is_some() {
            look_up_all(core, context, spans, next, chunk, &mut paged).await;
        }
        let permit = core.slots_for(span, spans, chunk).await?;
        // The lock comes after the slots: its holder must never wait for slots that this write keeps.
        core.locks.wait(next, chunk).await;
        let taken = buffer_units(core, context.route, next, contents.by_ref().take(chunk as usize));
        permit.forget();
        core.room.give_back(chunk - taken);
        dispatch(core);
        next += u64::from(chunk);
        left -= chunk;
    }
    spans.charge(span, core.clock.now(), Stage::Queueing);
    settle(core, span, spans, durable).await
}

/// [`Ftl::can_write_at_once`](crate::Ftl::can_write_at_once).
pub(in crate::ftl) fn can_write_at_once(core: &Core, unit: u64, durable: bool) -> bool {
    core.is_at_once()
        && (!durable || core.config.plp)
        && !core.power.is_untouched()
        && core.locks.len() == 0
        && core.room.has(1)
        && core.check(unit, 1).is_ok()
        && core.check_writable().is_ok()
}

/// [`Ftl::write_at_once`](crate::Ftl::write_at_once).
pub(in crate::ftl) fn write_at_once(core: &Core, unit: u64, content: Content) {
    let has_slot = core.room.try_take(1);
    debug_assert!(has_slot, "the slot was available at the check, and no wait has passed since");
    let attending = attend(core);
    let taken = buffer_units(core, Route::OWN, unit, std::iter::once(content));
    core.room.give_back(1 - taken);
    dispatch(core);
    drop(attending);
}

/// [`Ftl::edit`](crate::Ftl::edit), for a host write of `bytes` bytes.
pub(in crate::ftl) async fn edit_bytes(
    core: &Core,
    context: WorkContext,
    spans: &Spans,
    unit: u64,
    bytes: usize,
    edit: impl FnOnce(&mut [u8; UNIT_BYTES], &mut u8),
    durable: bool,
) -> Result<(), MediaError> {
    let span = context.span;
    let lpa = core.check(unit, 1)?;
    core.power.ready().await;
    let _attending = attend_writing(core)?;
    begin_writing(core);
    admit(core, context, spans, 1, core.look_ups(lpa, 1)).await;
    if core.cache.is_some() {
        look_up_all(core, context, spans, lpa, 1, &mut None).await;
    }
    let permit = core.slots_for(span, spans, 1).await?;
    let lock = core.locks.lock(lpa).await;
    spans.charge(span, core.clock.now(), Stage::Queueing);
    let old = read_unit(core, context, spans, lpa, false).await?;
    // From the read to this point the lock excludes other writers of the unit.
    let new = old.edited(core.config.keep, edit);
    let taken = buffer_units(core, context.route, lpa, std::iter::once(new));
    core.state.borrow_mut().counters.user_bytes_written -= (UNIT_BYTES - bytes) as u64;
    permit.forget();
    core.room.give_back(1 - taken);
    drop(lock);
    dispatch(core);
    settle(core, span, spans, durable).await
}

/// [`Ftl::flush`](crate::Ftl::flush).
pub(in crate::ftl) async fn flush(core: &Core, span: SpanId, spans: &Spans) -> Result<(), MediaError> {
    core.power.ready().await;
    let _attending = attend(core);
    settle(core, span, spans, true).await
}

/// Does the work of buffering `count` units and of `look_ups` look-ups, and transfers the units into the
/// buffer's DRAM.
pub(in crate::ftl) async fn admit(
    core: &Core,
    context: WorkContext,
    spans: &Spans,
    count: u64,
    look_ups: u64,
) {
    admit_bytes(core, context, spans, count, look_ups, count * UNIT_BYTES as u64).await;
}

/// Like [`admit`], with `bytes` bytes to transfer.
pub(in crate::ftl) async fn admit_bytes(
    core: &Core,
    context: WorkContext,
    spans: &Spans,
    count: u64,
    look_ups: u64,
    bytes: u64,
) {
    let WorkContext { span, route } = context;
    let entered = core.placement.enter(&core.clock, context, spans).await;
    let placement = &core.placement;
    let mut queued = if placement.is_lent(route) {
        let buffering = placement.work_by(&core.clock, route, WorkKind::Buffer, count).await;
        buffering + placement.work_by(&core.clock, route, WorkKind::Translate, look_ups).await
    } else {
        let service = placement.reserve_buffering(route, count, look_ups);
        core.clock.sleep_until(service.end).await;
        service.queued
    };
    if look_ups > 0
        && !placement.site_by(WorkKind::Buffer, route).is(placement.site_by(WorkKind::Translate, route))
    {
        let service = placement.reserve_by(route, WorkKind::Translate, look_ups);
        core.clock.sleep_until(service.end).await;
        queued += service.queued;
    }
    spans.charge_split(span, core.clock.now(), queued, Stage::Firmware);
    drop(entered);
    placement.update_map(&core.clock, context, spans).await;
    placement.add_to_buffer(&core.clock, context, spans, bytes).await;
}

/// With `durable`, waits until everything buffered now is programmed.
pub(in crate::ftl) async fn settle(
    core: &Core,
    span: SpanId,
    spans: &Spans,
    durable: bool,
) -> Result<(), MediaError> {
    if !durable || core.config.plp {
        return Ok(());
    }
    settle_all(core).await?;
    core.flash.sync().await;
    spans.charge(span, core.clock.now(), Stage::Flash);
    Ok(())
}
