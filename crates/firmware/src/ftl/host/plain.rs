//! Fast path for reads and writes of one unit with the whole map in DRAM and nothing read ahead, as nearly all host I/Os are. Each
//! wait is a leaf, so that a poll runs through one state machine instead of one for each layer. Results,
//! times and order of events equal those of [`Ftl::read`](crate::Ftl::read) and
//! [`Ftl::write`](crate::Ftl::write), which handle all other cases.

use crate::ftl::collect::background::{attend, attend_writing};
use crate::ftl::collect::refresh::note_read;
use crate::ftl::config::MediaError;
use crate::ftl::core::Core;
use crate::ftl::host::read::{keep_read, origin, read_found};
use crate::ftl::state::UnitLocation;
use crate::ftl::steady::dram::begin_writing;
use crate::ftl::write::buffering::buffer_units;
use crate::ftl::write::dispatch::dispatch;
use crate::placement::Route;
use crate::work::WorkKind;
use byteway_clock::{Delay, SpanId, Spans, Stage};
use byteway_content::{Content, UNIT_BYTES};
use byteway_flash::Priority;

/// Whether the fast path applies.
#[inline]
pub(in crate::ftl) fn is_plain(core: &Core, route: Route) -> bool {
    route == Route::OWN && !core.placement.is_apart() && core.is_plain && core.power.is_ready()
}

/// [`Ftl::read_one`](crate::Ftl::read_one).
pub(in crate::ftl) async fn read_one(
    core: &Core,
    span: SpanId,
    spans: &Spans,
    unit: u64,
) -> Result<Content, MediaError> {
    let (clock, placement) = (&core.clock, &core.placement);
    let lpa = core.check(unit, 1)?;
    let _attending = attend(core);
    let service = placement.reserve(WorkKind::Translate, core.look_ups(lpa, 1));
    let access = placement.site(WorkKind::Translate).dram_latency();
    clock.sleep_until(service.end + access).await;
    let now = clock.now();
    spans.charge_split(span, service.end.min(now), service.queued, Stage::Firmware);
    if access > Delay::ZERO {
        spans.charge(span, now, Stage::Dram);
    }
    let found = {
        let mut state = core.state.borrow_mut();
        state.counters.units_read += 1;
        state.find_counted(&core.base, lpa)
    };
    match found {
        UnitLocation::Flash(ppa) => {
            let (ticket, origin) = (core.flash.ticket(), origin(core, ppa));
            let mask = 1 << core.geometry.unit_of_stripe(ppa);
            core.flash.submit_read(ppa, mask, Priority::HostRead, &ticket);
            let outcome = ticket.wait().await;
            spans.charge_waits(span, clock.now(), outcome.waits(), Stage::Flash);
            note_read(core, ppa);
            if outcome.failed {
                return Err(core.unreadable(outcome.unreadable));
            }
            let content = ticket.take(0);
            keep_read(core, lpa, origin, &content);
            Ok(content)
        }
        UnitLocation::Buffered(content) => {
            let passage = placement.site(WorkKind::Buffer).dram("out of the buffer", UNIT_BYTES as u64);
            clock.sleep_until(passage.arrival).await;
            spans.charge_split(span, clock.now(), passage.queued, Stage::Dram);
            Ok(content)
        }
        UnitLocation::Nowhere => Ok(Content::Zero),
        under @ UnitLocation::Under(..) => read_found(core, span.into(), spans, lpa, true, under).await,
    }
}

/// [`Ftl::write_one`](crate::Ftl::write_one).
pub(in crate::ftl) async fn write_one(
    core: &Core,
    span: SpanId,
    spans: &Spans,
    unit: u64,
    content: Content,
) -> Result<(), MediaError> {
    let (clock, placement) = (&core.clock, &core.placement);
    let lpa = core.check(unit, 1)?;
    let _attending = attend_writing(core)?;
    begin_writing(core);
    let changes = core.changes_at_once(1);
    let service = placement.reserve_buffering(Route::OWN, 1, changes);
    clock.sleep_until(service.end).await;
    let mut queued = service.queued;
    if changes > 0 && !placement.site(WorkKind::Buffer).is(placement.site(WorkKind::Translate)) {
        let service = placement.reserve(WorkKind::Translate, changes);
        clock.sleep_until(service.end).await;
        queued += service.queued;
    }
    spans.charge_split(span, clock.now(), queued, Stage::Firmware);
    let passage = placement.site(WorkKind::Buffer).dram("into the buffer", UNIT_BYTES as u64);
    clock.sleep_until(passage.arrival).await;
    spans.charge_split(span, clock.now(), passage.queued, Stage::Dram);
    let permit = core.slots_for(span, spans, 1).await?;
    core.locks.wait(lpa, 1).await;
    let taken = buffer_units(core, Route::OWN, lpa, std::iter::once(content));
    permit.forget();
    core.room.give_back(1 - taken);
    dispatch(core);
    spans.charge(span, clock.now(), Stage::Queueing);
    Ok(())
}
