//! Waits that nothing will satisfy: when no collector has work and no host program is in flight.

use crate::ftl::core::Core;
use crate::ftl::state::EndOfLife;
use crate::ftl::write::dispatch::dispatch;
use byteway_clock::Notify;

/// Marks the collector of a die as idle.
pub(in crate::ftl) fn rest(core: &Core, die: u32) {
    core.state.borrow_mut().collecting.resting += 1;
    look_for_an_end_but(core, Some(die));
}

/// Whether no collector has work or a pending notification, and no host program is in flight. The
/// collector of `but` is the caller itself.
pub(in crate::ftl) fn is_at_rest(core: &Core, but: Option<u32>) -> bool {
    let state = core.state.borrow();
    let is_called = |(die, collector): (u32, &Notify)| but != Some(die) && collector.waiting() == 0;
    state.collecting.resting == core.geometry.dies()
        && state.filling.in_flight.iter().all(|count| *count == 0)
        && !(0..).zip(&core.signals.collectors).any(is_called)
}

/// Detects waits that nothing will satisfy: fails them, or at end of life moves to the next resort.
pub(in crate::ftl) fn look_for_an_end(core: &Core) {
    look_for_an_end_but(core, None);
}

fn look_for_an_end_but(core: &Core, die: Option<u32>) {
    let (is_read_only, is_purging) = {
        let state = core.state.borrow();
        (state.is_read_only(), state.blocks.doomed() > 0)
    };
    if !(is_read_only || is_purging) || !is_at_rest(core, die) {
        return;
    }
    core.signals.purged.notify_all();
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    if !is_read_only || state.buffer.waiting() == 0 || state.can_send() {
        return;
    }
    match state.end {
        EndOfLife::ReadOnly => {
            state.end = EndOfLife::Reserve;
            state.blocks.give_reserve();
            (0..core.geometry.dies()).for_each(|die| state.refresh(die));
            drop(guard);
            dispatch(core);
            look_for_an_end_but(core, die);
        }
        EndOfLife::Reserve => {
            state.end = EndOfLife::Full;
            core.signals.settled.notify_all();
        }
        EndOfLife::Healthy | EndOfLife::Full => {}
    }
}
