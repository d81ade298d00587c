//! The task that writes the journal of deallocations, and the notifications that follow.

use crate::ftl::core::Core;
use std::rc::Rc;

/// The task that writes the journal's pages, one at a time.
pub(in crate::ftl) async fn run(core: Rc<Core>) {
    loop {
        core.signals.journal.notified().await;
        loop {
            let Some(page) = core.state.borrow_mut().journal.begin() else { break };
            core.flash.append_journal(page).await;
            journal_written(&core);
        }
    }
}

fn journal_written(core: &Core) {
    let mut guard = core.state.borrow_mut();
    guard.journal.end();
    let is_half_full = guard.journal.is_half_full();
    guard.counters.journal_pages_programmed += 1;
    drop(guard);
    journal_moved(core);
    core.signals.settled.notify_all();
    if is_half_full {
        want_checkpoint(core);
    }
}

/// Whether another deallocation can be recorded. If not, requests a checkpoint, which frees space and
/// wakes the tasks that wait for it.
pub(in crate::ftl) fn has_journal_space(core: &Core) -> bool {
    let has_space = core.state.borrow().journal.has_space();
    if !has_space {
        want_checkpoint(core);
    }
    has_space
}

/// Starts the writer if a page is due.
pub(in crate::ftl) fn journal_filled(core: &Core) {
    if core.state.borrow().journal.is_due() {
        core.signals.journal.notify_one();
    }
}

/// Wakes collectors that hold back an erase, because more records are durable.
pub(in crate::ftl) fn journal_moved(core: &Core) {
    let waiting = core.state.borrow_mut().journal.held_back();
    waiting.into_iter().for_each(|die| core.collectors.call(die));
}

/// Requests a checkpoint, unless one is in progress.
pub(in crate::ftl) fn want_checkpoint(core: &Core) {
    if core.state.borrow_mut().checkpoints.ask() {
        core.signals.checkpoint.notify_one();
    }
}
