//! Garbage collection while the host is idle.
//!
//! Every host request is counted while it is in progress. When there has been none for a while, the
//! collectors continue until more superblocks are free than they would otherwise provide, and fold the cache.
//! When a request arrives, they finish the current round and leave the rest of the victim for later. A drive
//! that was never written to is left as it is.

use crate::ftl::config::MediaError;
use crate::ftl::core::Core;
use std::rc::Rc;

/// The task that detects an idle host, spawned only if background garbage collection is enabled.
pub(in crate::ftl) async fn run(core: Rc<Core>) {
    let Some(background) = core.config.upkeep.background else { return };
    let idleness = &core.idleness;
    loop {
        idleness.stirred.notified().await;
        loop {
            if idleness.in_flight.get() > 0 {
                idleness.stirred.notified().await;
            } else if core.clock.now() < idleness.last.get() + background.idle {
                let end = idleness.last.get() + background.idle;
                core.clock.timer(end.since(core.clock.now())).await;
            } else {
                break;
            }
        }
        idleness.is_watched.set(false);
        let mut state = core.state.borrow_mut();
        if state.filling.has_begun() {
            state.collecting.is_idle = true;
            drop(state);
            core.collectors.call_all();
        }
    }
}

/// A host request in progress, until dropped.
pub(in crate::ftl) struct Attending<'a> {
    core: &'a Core,
    turn: usize,
}

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        end_request(self.core, self.turn);
    }
}

/// Counts a request of the host.
#[inline]
pub(in crate::ftl) fn attend(core: &Core) -> Attending<'_> {
    Attending { core, turn: begin_request(core) }
}

/// Counts the start of a host request, for a record. Returns what its [end](end_request) takes.
#[inline]
pub(in crate::ftl) fn begin_request(core: &Core) -> usize {
    if core.config.upkeep.background.is_some() {
        stir(core);
    }
    core.superseded.begin()
}

/// Counts the end of a host request.
#[inline]
pub(in crate::ftl) fn end_request(core: &Core, turn: usize) {
    core.superseded.end(turn);
    if core.config.upkeep.background.is_none() {
        return;
    }
    let idleness = &core.idleness;
    idleness.last.set(core.clock.now());
    idleness.in_flight.set(idleness.in_flight.get() - 1);
    if idleness.in_flight.get() == 0 {
        idleness.stirred.notify_one();
    }
}

fn stir(core: &Core) {
    let idleness = &core.idleness;
    idleness.in_flight.set(idleness.in_flight.get() + 1);
    if !idleness.is_watched.replace(true) {
        core.state.borrow_mut().collecting.is_idle = false;
        idleness.stirred.notify_one();
    }
}

/// Counts a write request of the host.
///
/// # Errors
/// [`MediaError::WriteProtected`] if the drive is read-only.
pub(in crate::ftl) fn attend_writing(core: &Core) -> Result<Attending<'_>, MediaError> {
    core.check_writable()?;
    Ok(attend(core))
}
