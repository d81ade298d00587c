//! Collection while the host is idle.
//!
//! Whatever comes from the host says so, and is there until it is done. When nothing has been there for a while the
//! collectors go on until more superblocks
//! are free than they would see to otherwise, and fold the cache; when something comes they end the round that they are
//! at, and leave the rest of the victim for later. A drive that was never written to is left as it is.

use crate::ftl::config::MediaError;
use crate::ftl::inner::Inner;
use byteway_clock::Notify;
use std::rc::Rc;

/// The task that finds out that the host is idle. It is only there if that matters.
pub(in crate::ftl) async fn run(inner: Rc<Inner>) {
    let Some(background) = inner.config.upkeep.background else { return };
    let idleness = &inner.idleness;
    loop {
        idleness.stirred.notified().await;
        loop {
            if idleness.under_way.get() > 0 {
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

/// Something that the host has asked for, until it is dropped.
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
        idleness.under_way.set(idleness.under_way.get() - 1);
        if idleness.under_way.get() == 0 {
            idleness.stirred.notify_one();
        }
    }
}

impl Inner {
    /// Something has come from the host.
    #[inline]
    pub(in crate::ftl) fn attend(&self) -> Attending<'_> {
        if self.config.upkeep.background.is_some() {
            self.stir();
        }
        Attending { inner: self, turn: self.superseded.begin() }
    }

    fn stir(&self) {
        let idleness = &self.idleness;
        idleness.under_way.set(idleness.under_way.get() + 1);
        if !idleness.is_watched.replace(true) {
            self.state.borrow_mut().collecting.is_idle = false;
            idleness.stirred.notify_one();
        }
    }

    /// The same of something that is to be written.
    ///
    /// # Errors
    /// If the drive takes nothing new.
    pub(in crate::ftl) fn attend_writing(&self) -> Result<Attending<'_>, MediaError> {
        self.check_writable()?;
        Ok(self.attend())
    }
}
