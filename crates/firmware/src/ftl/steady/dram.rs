//! DRAM contents and collector state of a drive in the steady state.

use crate::ftl::buffer::UNTRACED;
use crate::ftl::core::Core;
use crate::ftl::map::table::Entry;
use crate::ftl::state::State;
use crate::ftl::write::buffering::{buffer_page, buffer_unit};
use crate::ftl::write::dispatch::dispatch;
use crate::placement::Route;
use byteway_clock::permutation::Permutation;
use byteway_clock::random::{Rng, Stream};

/// Before each write of the host: the first one finds the drive in the middle of being overwritten.
#[inline]
pub(in crate::ftl) fn begin_writing(core: &Core) {
    if core.power.touch() {
        go_on_overwriting(core);
    }
}

/// Puts a drive that was built in the steady state into the middle of being overwritten, at its first
/// write. The write buffer of a saturated drive is full of units that have just been rewritten with their present contents,
/// and of translation pages evicted from the map cache; all collectors are active.
///
/// Units that are no longer as in the base state, because they were deallocated, are left out.
#[cold]
fn go_on_overwriting(core: &Core) {
    let free = if core.base.is_saturated() { core.room.free() } else { 0 };
    if !core.room.try_take(free) {
        return;
    }
    let mut stream = Rng::new(core.config.seed).stream("steady-buffer");
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    let mut taken = 0;
    let buffered = f64::from(core.config.rhythm.map_pages_ppm) * 1e-6;
    let share = if core.cache.is_some() { buffered / (1.0 + buffered) } else { 0.0 };
    let count = u64::from(state.map.pages.count());
    let mut pages = Vec::new();
    if share > 0.0 {
        let order = Permutation::new(stream.next_u64(), count).expect("pages are fewer than units");
        pages.extend((0..count.min(free.into())).rev().map(|rank| order.forward(rank) as u32));
    }
    // Twice as many draws as units, since on a small drive some are drawn more than once.
    for _ in 0..2 * u64::from(free) {
        if taken == free {
            break;
        }
        if share > 0.0
            && stream.unit() < share
            && let Some(page) = pages.pop()
        {
            taken += u32::from(buffer_page(state, page, core.config.keep));
            continue;
        }
        let lpa = stream.below(core.config.user_units);
        if state.map.get(lpa) == Entry::BASE {
            let content = core.base.content(lpa);
            taken += u32::from(buffer_unit(state, lpa, content, UNTRACED, Route::OWN).is_some());
        }
    }
    fill_map_cache(core, state, &mut stream);
    for die in 0..core.geometry.dies() {
        let first = core.geometry.block(die, 0);
        core.base.upkeep(die).into_iter().for_each(|found| state.go_on_upkeep(die, first, found));
    }
    drop(guard);
    core.room.give_back(free - taken);
    core.collectors.call_all();
    dispatch(core);
}

/// Fills the map cache. The longer ago a page was used, the likelier it is dirty. As many pages are away
/// as the updater tolerates.
fn fill_map_cache(core: &Core, state: &mut State, stream: &mut Stream) {
    let Some(frames) = core.config.map_cache_pages.filter(|_| core.cache.is_some()) else { return };
    let count = state.map.pages.count();
    let held = frames.min(count);
    let order = Permutation::new(stream.next_u64(), u64::from(count)).expect("pages are fewer than units");
    let page = |rank: u32| order.forward(u64::from(rank)) as u32;
    let missing = (1.0 - f64::from(held) / f64::from(count)).max(1.0 / f64::from(count));
    let changes = core.base.write_amplification() / (missing * f64::from(count));
    for rank in 0..held {
        let page = page(rank);
        if state.map.frames.find(page).is_some() {
            continue;
        }
        let Some(frame) = state.map.frames.begin_own(page) else { break };
        state.map.frames.loaded(frame);
        state.map.pages.hold(page, true);
        let unchanged = libm::exp(-changes * f64::from(held - rank));
        if stream.unit() >= unchanged {
            state.map.pages.changed(state.map.pages.units(page).start);
        }
    }
    for rank in held..count.min(held.saturating_add(frames)) {
        state.map.pages.changed(state.map.pages.units(page(rank)).start);
    }
}
