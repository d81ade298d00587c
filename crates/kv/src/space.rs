//! Space: segments that were given up become free, and free ones join the pool of the value log.

use super::commit::{Change, commit};
use super::config::KvError;
use super::core::Core;
use byteway_clock::Spans;

/// Frees the given-up segments that no reader uses any more.
pub(super) async fn release(core: &Core, spans: &Spans) -> Result<bool, KvError> {
    let mut any = false;
    loop {
        let Some(segment) = core.state.borrow_mut().segments.unread() else { break };
        core.units.trim(spans, core.layout.first(segment), u64::from(core.layout.segment_units)).await?;
        core.state.borrow_mut().segments.release(segment);
        any = true;
    }
    if any {
        core.state.borrow_mut().wants.replenish();
        core.changed.notify_all();
    }
    Ok(any)
}

/// Moves free segments into the pool of the value log, if they are wanted and available.
pub(super) async fn refill(core: &Core, spans: &Spans) -> Result<bool, KvError> {
    let is_wanted = {
        let mut state = core.state.borrow_mut();
        let is_wanted = state.wants.take_pool();
        let has_free = state.segments.free() as usize > state.segments.pool().len();
        if is_wanted && !has_free {
            state.wants.ask_for_space();
        }
        is_wanted && has_free
    };
    if is_wanted {
        commit(core, spans, Change::default()).await?;
    }
    Ok(is_wanted)
}
