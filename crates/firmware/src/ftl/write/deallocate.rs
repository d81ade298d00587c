//! Deallocation of units, within a call.

use crate::ftl::base::BaseState;
use crate::ftl::config::Base;
use crate::ftl::core::Core;
use crate::ftl::map::table::{Entry, EntryKind};
use crate::ftl::space::{REGION_UNITS, Space};
use crate::ftl::state::State;
use crate::ftl::write::finish::{dropped, lose};

/// Deallocates units of one region.
pub(in crate::ftl) fn deallocate(core: &Core, first: u64, end: u64) {
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    let whole =
        first.is_multiple_of(REGION_UNITS) && (end - first == REGION_UNITS || end == core.config.user_units);
    let mut freed = 0;
    if whole && core.config.base == Base::Empty {
        // Units without an entry are unmapped already; a host may deallocate terabytes of these.
        let mut kept = Vec::new();
        state.map.table().each_kept(first..end, |lpa, entry| kept.push((lpa, entry)));
        for (lpa, entry) in kept {
            freed += drop_unit(core, state, lpa, entry);
        }
        state.map.unmap_region(first);
    } else {
        for lpa in first..end {
            let entry = state.map.get(lpa);
            freed += drop_unit(core, state, lpa, entry);
            if !whole && entry != Entry::UNMAPPED {
                state.map.unmap(lpa);
            }
        }
        if whole {
            state.map.unmap_region(first);
        }
    }
    state.map.deallocated(first, end);
    core.settle_extents(state);
    state.counters.units_deallocated += end - first;
    // In the same step as the map change: recovery must know of it before any superblock of these units
    // is erased.
    state.journal.add(first, end - first, state.buffer.counter());
    let parts = state.parts.drop_units(first..end);
    note_dropped(state, freed + parts);
    drop(guard);
    core.cache.iter().for_each(|cache| cache.wake_frame_waiters(&core.state.borrow().map));
    dropped(core, freed);
    if parts > 0 {
        core.signals.settled.notify_all();
    }
}

/// Releases the versions of a unit in buffer and flash; the caller changes the map entry. Returns the
/// slots freed.
fn drop_unit(core: &Core, state: &mut State, lpa: u64, entry: Entry) -> u32 {
    let EntryKind::Slot(slot) = entry.kind() else {
        lose(core, state, lpa, entry);
        return 0;
    };
    let old = std::mem::replace(&mut state.buffer.slot_mut(slot).old, Entry::UNMAPPED);
    lose(core, state, lpa, old);
    if !state.buffer.waits(slot) {
        return 0; // in flight: stale when it is programmed
    }
    state.buffer.free(slot);
    1
}

/// Deallocates the whole drive without visiting each unit.
pub(in crate::ftl) fn deallocate_all(core: &Core) {
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    state.map.deallocate_all();
    state.blocks.lose_all();
    let user = core.config.user_units;
    state.counters.units_deallocated += user;
    state.journal.add(0, user, state.buffer.counter());
    let freed = state.buffer.drop_waiting(|lpa| lpa < user);
    count_own(state, &core.base, &core.space);
    let parts = state.parts.drop_units(0..user);
    note_dropped(state, freed + parts);
    drop(guard);
    core.cache.iter().for_each(|cache| cache.wake_frame_waiters(&core.state.borrow().map));
    dropped(core, freed);
    if parts > 0 {
        core.signals.settled.notify_all();
    }
    core.collectors.call_all();
}

/// Notes that a deallocation, whose record is in the journal, has dropped waiting units.
fn note_dropped(state: &mut State, units: u32) {
    if units > 0 {
        state.filling.dropped_to = state.buffer.next_sequence();
    }
}

/// Counts the valid units that are not the host's, when no others are valid.
fn count_own(state: &mut State, base: &BaseState, space: &Space) {
    let (first, count) = space.map;
    for lpa in first..first + count {
        match state.buffer.in_flash(state.map.get(lpa)).kind() {
            EntryKind::Base => base.block_of(lpa).into_iter().for_each(|block| state.blocks.gained(block)),
            EntryKind::Flash(ppa) => state.blocks.gained(state.blocks.block_of(ppa)),
            EntryKind::Unmapped | EntryKind::Slot(_) | EntryKind::Lost => {}
        }
    }
}
