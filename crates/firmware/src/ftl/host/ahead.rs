//! What a read of the host owes to reading ahead.
//!
//! It asks the policy, and waits for those of its units that are on their way; then it finds them in the cache, if all is well, and else reads
//! as if nothing had been read ahead.

use crate::ftl::core::Core;
use crate::ftl::reading_ahead::ReadingAhead;
use crate::ftl::state::UnitLocation;
use byteway_clock::{SpanId, Spans, Stage};

/// Asks the policy at a read, and waits for what is on its way of it.
pub(in crate::ftl) async fn attend_read(core: &Core, span: SpanId, spans: &Spans, first: u64, count: u32) {
    let Some(signals) = &core.ahead else { return };
    let units = || first..first + u64::from(count);
    let runs = {
        let mut guard = core.state.borrow_mut();
        let state = &mut *guard;
        let (Some(ahead), Some(cache)) = (&mut state.ahead, &state.read_cache) else { return };
        let hits = units().filter(|unit| cache.is_ahead(*unit)).count() as u32;
        let dies = core.geometry.dies();
        let idle_dies = || match core.flash.own() {
            Some(flash) => (0..dies).filter(|die| flash.pending(*die) == 0).count() as u32,
            None => dies,
        };
        // What sets out later is not waited for: others' streams could hold this read up for ever.
        let runs = ahead.runs();
        if ahead.ask((first, count), hits, (&|unit| cache.holds(unit), &idle_dies), core.clock.now()) {
            signals.due.notify_one();
        }
        runs
    };
    let is_coming = || {
        let state = core.state.borrow();
        let is_in_flash =
            |unit| matches!(state.find(&core.base, unit), UnitLocation::Flash(_) | UnitLocation::Under(..));
        let is_coming =
            |ahead: &ReadingAhead| units().any(|unit| ahead.is_coming(unit, runs) && is_in_flash(unit));
        state.ahead.as_ref().is_some_and(|ahead| is_coming(ahead))
    };
    let mut has_waited = false;
    while is_coming() {
        has_waited = true;
        signals.came.notified().await;
    }
    if has_waited {
        spans.charge(span, core.clock.now(), Stage::Flash);
    }
}
