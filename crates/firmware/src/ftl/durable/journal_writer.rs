//! The task that writes the journal of deallocations, and the notifications that follow.

use crate::ftl::inner::Inner;
use std::rc::Rc;

/// The task that writes the journal's pages, one at a time.
pub(in crate::ftl) async fn run(inner: Rc<Inner>) {
    loop {
        inner.signals.journal.notified().await;
        loop {
            let Some(page) = inner.state.borrow_mut().journal.begin() else { break };
            inner.flash.append_journal(page).await;
            inner.journal_written();
        }
    }
}

impl Inner {
    /// Whether another deallocation can be recorded. If not, requests a checkpoint, which frees space and
    /// wakes the tasks that wait for it.
    pub(in crate::ftl) fn has_journal_space(&self) -> bool {
        let has_space = self.state.borrow().journal.has_space();
        if !has_space {
            self.want_checkpoint();
        }
        has_space
    }

    /// Starts the writer if a page is due.
    pub(in crate::ftl) fn journal_filled(&self) {
        if self.state.borrow().journal.is_due() {
            self.signals.journal.notify_one();
        }
    }

    /// Wakes collectors that hold back an erase, because more records are durable.
    pub(in crate::ftl) fn journal_moved(&self) {
        let waiting = std::mem::take(&mut self.state.borrow_mut().journal.waiting);
        waiting.into_iter().for_each(|die| self.signals.collectors[die as usize].notify_one());
    }

    fn journal_written(&self) {
        let mut guard = self.state.borrow_mut();
        guard.journal.end();
        let is_half_full = guard.journal.is_half_full();
        guard.counters.journal_pages_programmed += 1;
        drop(guard);
        self.journal_moved();
        self.signals.settled.notify_all();
        if is_half_full {
            self.want_checkpoint();
        }
    }
}
