//! Units into the buffer, within a call, and the work that it costs.

use crate::ftl::buffer::UNTRACED;
use crate::ftl::core::Core;
use crate::placement::Route;
use crate::work::WorkKind;
use byteway_clock::Service;
use byteway_content::{Content, UNIT_BYTES};

/// Reserves the cores for buffering and, at the same site, translating as one piece of work.
pub(in crate::ftl) fn reserve_buffering(core: &Core, route: Route, count: u64, look_ups: u64) -> Service {
    let placement = &core.placement;
    let site = placement.site_by(WorkKind::Buffer, route);
    let cycles = |work, count| (work, placement.cycles().of(work).saturating_mul(count));
    match look_ups > 0 && site.is(placement.site_by(WorkKind::Translate, route)) {
        true => {
            let (buffer, translate) =
                (cycles(WorkKind::Buffer, count), cycles(WorkKind::Translate, look_ups));
            if route != Route::OWN {
                site.note_lent(buffer.1.saturating_add(translate.1));
            }
            site.reserve_both(buffer, translate)
        }
        false => placement.reserve_by(route, WorkKind::Buffer, count),
    }
}

/// Buffers units on behalf of `route`; the caller holds a credit for each. Returns the number of slots
/// taken.
pub(in crate::ftl) fn buffer_units(
    core: &Core,
    route: Route,
    first: u64,
    contents: impl Iterator<Item = Content>,
) -> u32 {
    let mut state = core.state.borrow_mut();
    let (mut count, mut taken, mut has_dropped) = (0, 0, false);
    let io = core.clock.io().unwrap_or(UNTRACED);
    for (lpa, content) in (first..).zip(contents) {
        count += 1;
        taken += u32::from(state.buffer_unit(lpa, content, io, route).is_some());
        has_dropped |= state.parts.drop_unit(lpa);
    }
    state.counters.user_units_written += u64::from(count);
    state.counters.user_bytes_written += u64::from(count) * UNIT_BYTES as u64;
    state.counters.units_overwritten_in_buffer += u64::from(count - taken);
    drop(state);
    if has_dropped {
        core.signals.settled.notify_all();
    }
    taken
}
