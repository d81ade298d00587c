//! Notifications without a value: "look again".

use crate::executor::Clock;
use crate::task::TaskId;
use crate::wait::{Ticket, WaitLine};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Wakes tasks that wait for a change. At most one notification is kept while no task waits.
pub struct Notify {
    clock: Clock,
    kept: Cell<bool>,
    /// Fast path: usually one task waits and needs no line. Later waiters join the line behind it.
    only: Cell<Only>,
    /// Waiters. A grant is true if the notification passes to the next waiter when its waiter is dropped.
    line: WaitLine<(), bool>,
}

/// State of the waiter that needs no line.
#[derive(Clone, Copy, Default)]
enum Only {
    #[default]
    Free,
    Waiting(TaskId),
    /// Notified. True if the notification passes on when the waiter is dropped.
    Granted(bool),
}

impl Notify {
    /// A notifier without a stored notification.
    pub fn new(clock: &Clock) -> Self {
        Notify {
            clock: clock.clone(),
            kept: Cell::new(false),
            only: Cell::default(),
            line: WaitLine::default(),
        }
    }

    /// Wakes the first waiter, or keeps one notification for the next.
    pub fn notify_one(&self) {
        match self.grant(true) {
            Some(task) => self.clock.wake(task),
            None => self.kept.set(true),
        }
    }

    /// Wakes all present waiters; keeps no notification.
    #[inline]
    pub fn notify_all(&self) {
        if self.waiting() > 0 {
            self.grant_all();
        }
    }

    fn grant_all(&self) {
        while let Some(task) = self.grant(false) {
            self.clock.wake(task);
        }
    }

    fn grant(&self, pass_on: bool) -> Option<TaskId> {
        if let Only::Waiting(task) = self.only.get() {
            self.only.set(Only::Granted(pass_on));
            return Some(task);
        }
        self.line.grant(|()| pass_on)
    }

    /// Waits for a notification.
    pub fn notified(&self) -> Notified<'_> {
        Notified { notify: self, place: WaitPosition::None }
    }

    /// Number of waiting tasks.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.line.len() + usize::from(matches!(self.only.get(), Only::Waiting(_)))
    }
}

enum WaitPosition {
    None,
    Only,
    Line(Option<Ticket>),
}

/// A wait for a notification. If dropped after [`Notify::notify_one`] chose it, the notification passes on.
#[must_use = "waits only when it is awaited"]
pub struct Notified<'a> {
    notify: &'a Notify,
    place: WaitPosition,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let notify = self.notify;
        match &mut self.place {
            WaitPosition::Only => {
                if !matches!(notify.only.get(), Only::Granted(_)) {
                    return Poll::Pending;
                }
                notify.only.set(Only::Free);
                self.place = WaitPosition::None;
                return Poll::Ready(());
            }
            WaitPosition::Line(ticket) => {
                return match notify.line.take(ticket) {
                    Some(_) => Poll::Ready(()),
                    None => Poll::Pending,
                };
            }
            WaitPosition::None => {}
        }
        if notify.kept.replace(false) {
            return Poll::Ready(());
        }
        let task = notify.clock.current();
        self.place = match notify.only.get() {
            Only::Free if notify.line.len() == 0 => {
                notify.only.set(Only::Waiting(task));
                WaitPosition::Only
            }
            _ => WaitPosition::Line(Some(notify.line.join(task, ()))),
        };
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        let granted = match &mut self.place {
            WaitPosition::None => return,
            WaitPosition::Only => matches!(self.notify.only.replace(Only::Free), Only::Granted(true)),
            WaitPosition::Line(ticket) => self.notify.line.cancel(ticket) == Some(true),
        };
        if granted {
            self.notify.notify_one();
        }
    }
}
