//! A nudge: "look again".

use crate::executor::Clock;
use crate::wait::{Ticket, WaitLine};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Wakes tasks that wait for something to change. One nudge is kept for the next to come when nobody waits.
pub struct Notify {
    clock: Clock,
    kept: Cell<bool>,
    /// What is granted: whether the nudge is to be passed on if its waiter is dropped.
    line: WaitLine<(), bool>,
}

impl Notify {
    /// With no nudge kept.
    pub fn new(clock: &Clock) -> Self {
        Notify { clock: clock.clone(), kept: Cell::new(false), line: WaitLine::default() }
    }

    /// Wakes the first that waits, or keeps the nudge for the next that will.
    pub fn notify_one(&self) {
        match self.line.grant(|()| true) {
            Some(task) => self.clock.wake(task),
            None => self.kept.set(true),
        }
    }

    /// Wakes all that wait now; keeps nothing.
    pub fn notify_all(&self) {
        while let Some(task) = self.line.grant(|()| false) {
            self.clock.wake(task);
        }
    }

    /// Waits for a nudge.
    pub fn notified(&self) -> Notified<'_> {
        Notified { notify: self, ticket: None }
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.line.len()
    }
}

/// A wait for a nudge; one that had come by [`Notify::notify_one`] is passed on if this is dropped.
#[must_use = "waits only when it is awaited"]
pub struct Notified<'a> {
    notify: &'a Notify,
    ticket: Option<Ticket>,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let notify = self.notify;
        if self.ticket.is_some() {
            return match notify.line.take(&mut self.ticket) {
                Some(_) => Poll::Ready(()),
                None => Poll::Pending,
            };
        }
        if notify.kept.replace(false) {
            return Poll::Ready(());
        }
        self.ticket = Some(notify.line.join(notify.clock.current(), ()));
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        if self.notify.line.cancel(&mut self.ticket) == Some(true) {
            self.notify.notify_one();
        }
    }
}
