//! Waits that nothing will satisfy: when no collector has work and no host program is in flight.

use crate::ftl::core::Core;
use crate::ftl::state::EndOfLife;
use crate::ftl::write::dispatch::dispatch;

/// Marks the collector of a die as idle.
pub(in crate::ftl) fn rest(core: &Core, die: u32) {
    core.collectors.rest(true);
    look_for_an_end_but(core, Some(die));
}

/// Whether no collector has work or a pending notification, and no host program is in flight. The
/// collector of `but` is the caller itself.
pub(in crate::ftl) fn is_at_rest(core: &Core, but: Option<u32>) -> bool {
    core.collectors.are_at_rest(but) && core.state.borrow().filling.is_idle()
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
    if !is_read_only || state.buffer.waiting() == 0 || state.filling.can_send(&state.buffer) {
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
