//! Sending stripes of waiting units to dies.

use crate::ftl::blocks::Lane;
use crate::ftl::buffer::UNTRACED;
use crate::ftl::core::Core;
use crate::ftl::state::State;
use crate::ftl::write::filling::PROGRAMS_PER_DIE;
use byteway_clock::Clock;
use byteway_flash::{Priority, Spare};

/// Sends stripes to dies while there is a stripe to send and a die to take it.
pub(in crate::ftl) fn dispatch(core: &Core) {
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    while !state.filling.housekeeping.is_due
        && let Some((stream, die)) = next_program(core, state)
    {
        send(core, state, stream, die);
    }
}

/// The stream to send a stripe of, and the die to take it: of several streams the one with the oldest
/// unit that waits.
fn next_program(core: &Core, state: &State) -> Option<(u8, u32)> {
    let State { filling, buffer, .. } = state;
    let (mut is_wanted, mut next): (bool, Option<(u64, u8, u32)>) = (false, None);
    for (stream, lane) in (0..).zip(&filling.lanes) {
        let (waiting, since) = (buffer.waiting_in(stream), buffer.waiting_since(stream));
        let urgent = waiting > 0 && since < filling.flush_to;
        let full = waiting >= core.geometry.units_per_stripe();
        if !full && !urgent && !lane.wordlines.must_end(&lane.ready, filling.flush_to) {
            continue;
        }
        is_wanted = true;
        if let Some(die) = filling.next_die(stream, full, urgent)
            && next.is_none_or(|(oldest, ..)| since < oldest)
        {
            next = Some((since, stream, die));
        }
    }
    // All dies are busy or full, and any collector may free space.
    if is_wanted && next.is_none() {
        core.collectors.rouse();
    }
    next.map(|(_, stream, die)| (stream, die))
}

/// Sends a stripe of a stream to a die.
fn send(core: &Core, state: &mut State, stream: u8, die: u32) {
    let stripe_units = core.geometry.units_per_stripe();
    let filling = &mut state.filling;
    let host_lane = &mut filling.lanes[usize::from(stream)];
    host_lane.next_die = (die + 1) % core.geometry.dies();
    let is_cached = !host_lane.wordlines.is_begun(die) && state.blocks.has_space(die, Lane::Cache);
    let lane = if is_cached { Lane::Cache } else { Lane::Host(stream) };
    let (block, stripe) = state.blocks.take_stripe(die, lane).expect("a ready die has a stripe");
    if stripe == 0 {
        core.set_mode(&state.blocks, block);
        if let Some(streams) = &mut state.streams {
            streams.opened(block, lane);
        }
    }
    let index = filling.idle_jobs.pop().expect("there is a job for each program that can be in flight");
    let job = &mut filling.jobs[index as usize];
    debug_assert!(job.slots.is_empty() && job.number.is_none(), "an idle job has no program");
    (job.stream, job.block, job.stripe) = (stream, block, stripe);
    let mut batch = core.flash.take_batch();
    (batch.number, job.number) = (filling.next_number, Some(filling.next_number));
    filling.next_number += 1;
    // Taken before `send_first` advances it: the wordline must know its oldest unit.
    let waiting = state.buffer.waiting_in(stream);
    let first = (waiting > 0).then(|| state.buffer.waiting_since(stream));
    if !is_cached {
        host_lane.wordlines.give(die, block, stripe, first);
    }
    let mut map_units = 0;
    for _ in 0..stripe_units.min(waiting) {
        let Some(slot) = state.buffer.send_first(stream) else { break };
        let unit = state.buffer.slot(slot);
        batch.units.push((Spare { lpa: unit.lpa, sequence: unit.stamp }, unit.content.clone()));
        job.slots.push(slot);
        map_units += u64::from(core.space.is_map(unit.lpa));
    }
    let units = batch.units.len() as u64;
    state.counters.units_programmed_host += units - map_units;
    state.counters.units_programmed_map += map_units;
    state.counters.units_programmed_cache += if is_cached { units } else { 0 };
    state.counters.units_programmed_padding += u64::from(stripe_units) - units;
    if filling.housekeeping.count(core.config.housekeeping.as_ref(), u64::from(stripe_units)) {
        core.signals.housekeeping.notify_one();
    }
    debug_assert!(filling.in_flight[die as usize] < PROGRAMS_PER_DIE, "a ready die has a free program");
    filling.in_flight[die as usize] += 1;
    state.refresh(die);
    let writer = &core.writers[index as usize];
    let traced = core.clock.is_traced();
    if traced {
        work_for_writers(state, &core.clock, index);
    }
    core.flash.submit_program(block, stripe, batch, Priority::HostProgram, &writer.ticket);
    if traced {
        core.clock.swap_ios(&mut state.filling.ios);
    }
    writer.start.notify_one();
    // A new superblock was opened, so fewer are free.
    if stripe == 0 {
        core.collectors.call(die);
    }
}

/// In a trace, charges the program to the I/Os that wrote its units, whichever task sends it. The current
/// task works for them until its own I/Os are swapped back.
#[cold]
fn work_for_writers(state: &mut State, clock: &Clock, job: u32) {
    let slots = state.filling.jobs[job as usize].slots.iter().map(|slot| state.buffer.slot(*slot).io);
    state.filling.ios.clear();
    state.filling.ios.extend(slots.filter(|io| *io != UNTRACED));
    state.filling.ios.sort_unstable();
    state.filling.ios.dedup();
    clock.swap_ios(&mut state.filling.ios);
}
