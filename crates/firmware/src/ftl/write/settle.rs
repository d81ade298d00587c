//! Waiting until what is buffered, and what was deallocated, is on flash.

use crate::ftl::config::MediaError;
use crate::ftl::core::Core;
use crate::ftl::state::State;
use crate::ftl::write::dispatch::dispatch;
use crate::ftl::write::standstill::look_for_an_end;

/// Waits until everything buffered now, and every deallocation up to now, is on flash.
///
/// # Errors
/// [`MediaError::WriteProtected`] at the end of life, if flash has no space for the buffer.
pub(in crate::ftl) async fn settle_all(core: &Core) -> Result<(), MediaError> {
    // First, so that the wait below covers the units that the parts are merged into or replaced with.
    settle_parts(core).await?;
    let (target, writes_journal) = {
        let mut guard = core.state.borrow_mut();
        let state = &mut *guard;
        let target = state.buffer.next_sequence();
        state.filling.flush_to = target;
        (target, state.journal.want(target))
    };
    if writes_journal {
        core.signals.journal.notify_one();
    }
    dispatch(core);
    look_for_an_end(core);
    while !is_durable(&core.state.borrow(), target) {
        core.check_space()?;
        core.signals.settled.notified().await;
    }
    // A deallocation in between may have dropped some of these units from the buffer. Its record must
    // then be durable too, otherwise recovery would bring back what flash had before.
    let (dropped_to, writes_journal) = {
        let mut guard = core.state.borrow_mut();
        let dropped_to = guard.filling.dropped_to;
        (dropped_to, dropped_to > target && guard.journal.want(dropped_to))
    };
    if writes_journal {
        core.signals.journal.notify_one();
    }
    while core.state.borrow().journal.durable_to() < dropped_to {
        core.signals.settled.notified().await;
    }
    Ok(())
}

/// Waits until everything buffered now is on flash.
///
/// # Errors
/// Same as [`settle_all`].
pub(in crate::ftl) async fn settle_units(core: &Core) -> Result<(), MediaError> {
    let target = {
        let mut state = core.state.borrow_mut();
        state.filling.flush_to = state.buffer.next_sequence();
        state.filling.flush_to
    };
    dispatch(core);
    look_for_an_end(core);
    while core.state.borrow().buffer.settled() < target {
        core.check_space()?;
        core.signals.settled.notified().await;
    }
    Ok(())
}

/// Waits until all present parts have been merged or dropped.
///
/// # Errors
/// [`MediaError::WriteProtected`] at the end of life.
pub(in crate::ftl) async fn settle_parts(core: &Core) -> Result<(), MediaError> {
    let target = {
        let mut state = core.state.borrow_mut();
        if state.parts.len() == 0 {
            return Ok(());
        }
        state.parts.hurry();
        state.parts.next_sequence()
    };
    core.signals.mergers.notify_one();
    while core.state.borrow().parts.settled() < target {
        core.check_writable()?;
        core.signals.settled.notified().await;
    }
    Ok(())
}

/// Whether everything before this sequence number is on flash.
fn is_durable(state: &State, target: u64) -> bool {
    state.buffer.settled() >= target && state.journal.durable_to() >= target
}
