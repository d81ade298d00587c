//! Garbage collection while the host is idle.
//!
//! Every host request is counted while it is in progress. When there has been none for a while, the
//! collectors continue until more superblocks are free than they would otherwise provide, and fold the cache.
//! When a request arrives, they finish the current round and leave the rest of the victim for later. A drive
//! that was never written to is left as it is.

use crate::ftl::config::MediaError;
use crate::ftl::inner::Inner;
use byteway_clock::Notify;
use std::rc::Rc;

/// The task that detects an idle host, spawned only if background garbage collection is enabled.
pub(in crate::ftl) async fn run(inner: Rc<Inner>) {
    let Some(background) = inner.config.upkeep.background else { return };
    let idleness = &inner.idleness;
    loop {
        idleness.stirred.notified().await;
        loop {
            if idleness.in_flight.get() > 0 {
                idleness.stirred.notified().await;
            } else if inner.clock.now() < idleness.last.get() + background.idle {
                let end = idleness.last.get() + background.idle;
                inner.clock.timer(end.since(inner.clock.now())).await;
            } else {
                break;
            }
        }
        idleness.is_watched.set(false);
        let mut state = inner.state.borrow_mut();
        if state.filling.next_number > 1 {
            state.collecting.is_idle = true;
            drop(state);
            inner.signals.collectors.iter().for_each(Notify::notify_one);
        }
    }
}

/// A host request in progress, until dropped.
pub(in crate::ftl) struct Attending<'a> {
    inner: &'a Inner,
    turn: usize,
}

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        let inner = self.inner;
        inner.superseded.end(self.turn);
        if inner.config.upkeep.background.is_none() {
            return;
        }
        let idleness = &inner.idleness;
        idleness.last.set(inner.clock.now());
        idleness.in_flight.set(idleness.in_flight.get() - 1);
        if idleness.in_flight.get() == 0 {
            idleness.stirred.notify_one();
        }
    }
}

impl Inner {
    /// Counts a request of the host.
    #[inline]
    pub(in crate::ftl) fn attend(&self) -> Attending<'_> {
        if self.config.upkeep.background.is_some() {
            self.stir();
        }
        Attending { inner: self, turn: self.superseded.begin() }
    }

    fn stir(&self) {
        let idleness = &self.idleness;
        idleness.in_flight.set(idleness.in_flight.get() + 1);
        if !idleness.is_watched.replace(true) {
            self.state.borrow_mut().collecting.is_idle = false;
            idleness.stirred.notify_one();
        }
    }

    /// Counts a write request of the host.
    ///
    /// # Errors
    /// [`MediaError::WriteProtected`] if the drive is read-only.
    pub(in crate::ftl) fn attend_writing(&self) -> Result<Attending<'_>, MediaError> {
        self.check_writable()?;
        Ok(self.attend())
    }
}
