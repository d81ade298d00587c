//! Units into the buffer, within a call.

use crate::ftl::buffer::UNTRACED;
use crate::ftl::core::Core;
use crate::ftl::map::table::Entry;
use crate::ftl::state::State;
use crate::placement::Route;
use byteway_content::{Content, Keep, UNIT_BYTES};

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
        taken += u32::from(buffer_unit(&mut state, lpa, content, io, route).is_some());
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

/// Buffers a unit; the caller holds a credit. Returns the slot taken; None if the unit replaced one that
/// waits.
pub(in crate::ftl) fn buffer_unit(
    state: &mut State,
    lpa: u64,
    content: Content,
    io: u32,
    route: Route,
) -> Option<u32> {
    let State { map, buffer, streams, filling, .. } = state;
    let stream = streams.as_mut().map_or(0, |streams| streams.place_written(lpa));
    let entry = map.get(lpa);
    let slot = match entry.as_slot() {
        Some(index) if buffer.waits(index) => {
            let slot = buffer.slot_mut(index);
            (slot.content, slot.io, slot.route) = (content, io, route);
            buffer.move_to(index, stream);
            return None;
        }
        Some(slot) => {
            // The new slot inherits the version in flash, and will inherit the one in flight.
            debug_assert_eq!(buffer.slot(slot).lpa, lpa, "a map entry leads to a slot of its own unit");
            let before = buffer.slot_mut(slot);
            let old = std::mem::replace(&mut before.old, Entry::UNMAPPED);
            let old_sequence = before.old_sequence;
            buffer.take(stream, lpa, content, io, old, old_sequence)
        }
        None => {
            // Anything in flight for this unit is older than the map entry.
            let sequence = buffer.next_sequence();
            buffer.take(stream, lpa, content, io, entry, sequence)
        }
    };
    buffer.slot_mut(slot).route = route;
    if filling.streams() > 1 {
        // Those of other streams may overtake it.
        buffer.slot_mut(slot).first_stripe = Some(filling.next_number());
    }
    map.buffered(lpa, slot);
    Some(slot)
}

/// Buffers the present state of a translation page; the caller holds a credit. Returns whether it took a
/// slot.
pub(in crate::ftl) fn buffer_page(state: &mut State, page: u32, keep: Keep) -> bool {
    let unit = state.map.pages.unit(page);
    let content = state.map.capture(&state.buffer, page, keep);
    let reflects = state.buffer.settled();
    let taken = buffer_unit(state, unit, content, UNTRACED, Route::OWN).is_some();
    if let Some(slot) = state.map.get(unit).as_slot() {
        state.buffer.slot_mut(slot).stamp = reflects;
    }
    taken
}
