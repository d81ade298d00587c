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
        Notified { notify: self, place: NotifyPlace::None }
    }

    /// For a call: whether it was notified, with a `place` of its own for each wait. Otherwise this call is made again when it is.
    pub fn has_notified(&self, place: &mut NotifyPlace) -> bool {
        match place {
            NotifyPlace::Only => {
                let granted = matches!(self.only.get(), Only::Granted(_));
                if granted {
                    self.only.set(Only::Free);
                    *place = NotifyPlace::None;
                }
                granted
            }
            NotifyPlace::Line(ticket) => self.line.take(ticket).is_some(),
            NotifyPlace::None => {
                if self.kept.replace(false) {
                    return true;
                }
                let task = self.clock.current();
                *place = match self.only.get() {
                    Only::Free if self.line.len() == 0 => {
                        self.only.set(Only::Waiting(task));
                        NotifyPlace::Only
                    }
                    _ => NotifyPlace::Line(Some(self.line.join(task, ()))),
                };
                false
            }
        }
    }

    /// Number of waiting tasks.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.line.len() + usize::from(matches!(self.only.get(), Only::Waiting(_)))
    }
}

/// A place among the waiters.
#[derive(Default)]
pub enum NotifyPlace {
    /// It does not wait.
    #[default]
    None,
    /// It is the waiter that needs no line.
    Only,
    /// It is in line; `None`: it was notified.
    Line(Option<Ticket>),
}

/// A wait for a notification. If dropped after [`Notify::notify_one`] chose it, the notification passes on.
#[must_use = "waits only when it is awaited"]
pub struct Notified<'a> {
    notify: &'a Notify,
    place: NotifyPlace,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let notify = self.notify;
        if notify.has_notified(&mut self.place) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        let granted = match &mut self.place {
            NotifyPlace::None => return,
            NotifyPlace::Only => matches!(self.notify.only.replace(Only::Free), Only::Granted(true)),
            NotifyPlace::Line(ticket) => self.notify.line.cancel(ticket) == Some(true),
        };
        if granted {
            self.notify.notify_one();
        }
    }
}
