//! Ends of programs: the map moves to stripes that are safe, and units of failed ones wait again.

use crate::ftl::blocks::Lane;
use crate::ftl::core::Core;
use crate::ftl::journal::writer::want_checkpoint;
use crate::ftl::map::table::{Entry, EntryKind};
use crate::ftl::retire::fail;
use crate::ftl::state::State;
use crate::ftl::write::filling::Job;
use crate::ftl::write::wordline::Held;
use byteway_flash::{BlockId, Outdated};
use std::ops::Range;

/// Completes a job's program. Once that completes a wordline, all of its stripes are safe.
pub(super) fn finish(core: &Core, index: u32) {
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    let job = &mut state.filling.jobs[index as usize];
    let (stream, block, stripe) = (job.stream, job.block, job.stripe);
    let number = job.number.take().expect("a job that ends has started");
    let mut slots = std::mem::take(&mut job.slots);
    let die = core.geometry.die_of_block(block);
    let (mut count, mut host_units) = (0, 0);
    // A cache stripe is a wordline of its own. A failed superblock takes no more programs, so nothing can
    // destroy this stripe any more.
    let is_bad = state.blocks.is_bad(block);
    let wordlines = &mut state.filling.lanes[usize::from(stream)].wordlines;
    if wordlines.stripes() == 1 || state.blocks.is_one_bit(block) || is_bad {
        if is_bad {
            (count, host_units) = settle_held(core, state, stream, block, 0..u32::MAX);
        }
        count += slots.len();
        host_units += settle_stripe(core, state, block, stripe, &mut slots);
    } else {
        let memory = wordlines.slots();
        let slots = std::mem::replace(&mut slots, memory);
        wordlines.hold(die, Held { block, stripe, number, slots });
        if let Some(stripes) = wordlines.safe_wordline(die, block, stripe) {
            (count, host_units) = settle_held(core, state, stream, block, stripes);
        }
    }
    debug_assert!(state.filling.in_flight[die as usize] > 0, "a program that ends was counted");
    state.filling.in_flight[die as usize] -= 1;
    state.refresh(die);
    state.filling.jobs[index as usize].slots = slots;
    state.filling.idle_jobs.push(index);
    let is_checkpoint_due = state.checkpoints.is_due(core.config.checkpoint_units, &state.counters);
    let called = core.cache.as_ref().filter(|_| state.map.allow_updates(host_units));
    drop(guard);
    core.placement.programmed(count as u64);
    core.superseded.settle(|units| core.flash.forget(units));
    if count > 0 {
        core.room.give_back(count as u32);
        core.signals.settled.notify_all();
    }
    if let Some(cache) = called {
        cache.call_updater(&core.state.borrow().map);
    }
    if is_checkpoint_due {
        want_checkpoint(core);
    }
}

/// Completes the stripes of a superblock of a stream that waited for their wordline. Returns the slots
/// freed, and the host units among them.
fn settle_held(
    core: &Core,
    state: &mut State,
    stream: u8,
    block: BlockId,
    stripes: Range<u32>,
) -> (usize, u64) {
    let wordlines = &mut state.filling.lanes[usize::from(stream)].wordlines;
    if wordlines.stripes() == 1 {
        return (0, 0);
    }
    let mut held = wordlines.take_held(core.geometry.die_of_block(block), block, stripes);
    let (mut count, mut host_units) = (0, 0);
    for Held { block, stripe, slots, .. } in &mut held {
        count += slots.len();
        host_units += settle_stripe(core, state, *block, *stripe, slots);
    }
    state.filling.lanes[usize::from(stream)].wordlines.give_back(held);
    (count, host_units)
}

/// Completes held stripes of host superblocks that were closed early: no later program can destroy them.
pub(in crate::ftl) fn settle_closed(core: &Core) {
    let mut freed = 0;
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    for (die, stream) in (0..core.geometry.dies())
        .flat_map(|die| (0..core.streams.host as u8).map(move |stream| (die, stream)))
    {
        if state.blocks.opened(die, Lane::Host(stream)).is_none()
            && let Some((block, stripes)) = state.filling.lanes[usize::from(stream)].wordlines.close(die)
        {
            freed += settle_held(core, state, stream, block, stripes).0;
        }
    }
    drop(guard);
    dropped(core, freed as u32);
}

/// Moves the map to a stripe that is safe in flash, and frees its slots. Returns the host units in it.
fn settle_stripe(core: &Core, state: &mut State, block: BlockId, stripe: u32, slots: &mut Vec<u32>) -> u64 {
    let mut host_units = 0;
    for (unit, slot) in slots.drain(..).enumerate() {
        let ppa = core.geometry.ppa(block, stripe, unit as u32);
        let entry = Entry::flash(ppa);
        let done = state.buffer.slot(slot);
        let (lpa, sequence, stamp, route) = (done.lpa, done.sequence, done.stamp, done.route);
        host_units += u64::from(lpa < core.space.user);
        debug_assert!(state.map.get(lpa).as_slot().is_none_or(|slot| state.buffer.slot(slot).lpa == lpa));
        let current = state.map.get(lpa);
        let history = if current == Entry::slot(slot) {
            let old = done.old;
            state.map.move_to(lpa, entry, route);
            old
        } else {
            match current.as_slot() {
                // Rewritten meanwhile: until the rewrite is programmed, this is the version in flash.
                Some(later) if state.buffer.slot(later).old_sequence <= sequence => {
                    let later = state.buffer.slot_mut(later);
                    later.old_sequence = sequence;
                    let old = std::mem::replace(&mut later.old, entry);
                    state.map.changed(lpa, entry, route);
                    old
                }
                // Newer data have been programmed, or the unit was deallocated: this copy is stale on
                // arrival.
                _ => entry,
            }
        };
        state.buffer.free(slot);
        if history != entry {
            // Gain before loss: the replaced copy may lie in the same stripe, which holds both after a
            // failed program.
            state.blocks.gained(block);
            lose(core, state, lpa, history);
            match history.kind() {
                EntryKind::Flash(ppa) if lpa < core.space.user => {
                    core.superseded.add(Outdated { ppa, lpa, sequence });
                }
                EntryKind::Flash(ppa) => {
                    let reflects = core.flash.spare(ppa).map_or(stamp, |spare| spare.sequence);
                    core.superseded.add_page(Outdated { ppa, lpa, sequence: stamp }, reflects);
                }
                EntryKind::Base | EntryKind::Unmapped | EntryKind::Slot(_) | EntryKind::Lost => {}
            }
        }
    }
    core.settle_extents(state);
    if let Some(die) = state.blocks.programmed(block, 0) {
        core.collectors.call(die);
    }
    host_units
}

/// Whether a job's successful program was destroyed by a later failed program of its wordline. Without
/// modelled time that failure may be reported first.
pub(super) fn is_spoilt(core: &Core, index: usize) -> bool {
    let state = core.state.borrow();
    let Job { block, stripe, number, .. } = &state.filling.jobs[index];
    state.blocks.is_bad(*block) && core.flash.stripe_number(*block, *stripe) != *number
}

/// Handles a failed program: its units wait again, and so do those of earlier stripes of its wordline.
#[cold]
pub(super) fn send_back(core: &Core, index: u32) {
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    let job = &mut state.filling.jobs[index as usize];
    let number = job.number.take().expect("a job that ends has started");
    let (stream, block) = (job.stream, job.block);
    // Back into the buffer first: if the drive reaches its end of life below, these units still count as
    // unsaved.
    for slot in job.slots.drain(..) {
        state.buffer.send_back(slot, number);
    }
    state.filling.idle_jobs.push(index);
    let die = core.geometry.die_of_block(block);
    state.filling.in_flight[die as usize] -= 1;
    if state.blocks.opened(die, Lane::Host(stream)) == Some(block) {
        state.filling.lanes[usize::from(stream)].wordlines.abandon(die);
    }
    fail(core, state, block);
    // The failure destroyed these stripes too, although their own programs succeeded.
    let mut held = state.filling.lanes[usize::from(stream)].wordlines.take_held(die, block, 0..u32::MAX);
    for Held { number, slots, .. } in &mut held {
        slots.drain(..).for_each(|slot| state.buffer.send_back(slot, *number));
        close(core, state, block);
    }
    state.filling.lanes[usize::from(stream)].wordlines.give_back(held);
    close(core, state, block);
    state.refresh(die);
}

/// Counts a stripe without valid units as programmed.
fn close(core: &Core, state: &mut State, block: BlockId) {
    if let Some(die) = state.blocks.programmed(block, 0) {
        core.collectors.call(die);
    }
}

pub(in crate::ftl) fn lose(core: &Core, state: &mut State, lpa: u64, entry: Entry) {
    if let Some(die) = state.blocks.lose(&core.base, lpa, entry) {
        core.collectors.call(die);
    }
}

/// Slots were freed without a program, so no program's end will wake the tasks that wait for them.
pub(in crate::ftl) fn dropped(core: &Core, slots: u32) {
    if slots > 0 {
        core.room.give_back(slots);
        core.signals.settled.notify_all();
    }
}
