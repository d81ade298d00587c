//! Waiting for file descriptors. Only the real runner polls them.

use crate::executor::Clock;
use crate::task::TaskId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

struct Watch {
    number: u64,
    descriptor: Rc<OwnedFd>,
    flags: PollFlags,
    task: TaskId,
}

/// The descriptors that tasks wait for.
#[derive(Default)]
pub(crate) struct Watches {
    list: RefCell<Vec<Watch>>,
    next: Cell<u64>,
}

impl Watches {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    /// Waits up to `timeout` (None: indefinitely) until a watched descriptor or `other` is ready. Calls
    /// `wake` with the task of each ready descriptor and stops watching it.
    pub(crate) fn wait(&self, other: Option<&OwnedFd>, timeout: Option<Timespec>, wake: impl Fn(TaskId)) {
        let mut list = self.list.borrow_mut();
        let mut polled: Vec<_> =
            list.iter().map(|watch| PollFd::new(&*watch.descriptor, watch.flags)).collect();
        polled.extend(other.map(|other| PollFd::new(other, PollFlags::IN)));
        // On a signal or out of memory nothing is ready, and the runner retries.
        if poll(&mut polled, timeout.as_ref()).unwrap_or(0) == 0 {
            return;
        }
        let ready: Vec<_> = polled.iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
        drop(polled);
        let mut ready = ready.into_iter();
        list.retain(|watch| {
            let is_ready = ready.next().unwrap_or(false);
            if is_ready {
                wake(watch.task);
            }
            !is_ready
        });
    }
}

impl Clock {
    /// Waits until `descriptor` is readable or its peer has closed. Completes only under the real runner.
    /// Safe to drop.
    pub fn readable<'a>(&'a self, descriptor: &Rc<OwnedFd>) -> Ready<'a> {
        Ready { clock: self, descriptor: Some(descriptor.clone()), flags: PollFlags::IN, number: 0 }
    }

    /// Waits until `descriptor` is writable or its peer has closed. Completes only under the real runner.
    /// Safe to drop.
    pub fn writable<'a>(&'a self, descriptor: &Rc<OwnedFd>) -> Ready<'a> {
        Ready { clock: self, descriptor: Some(descriptor.clone()), flags: PollFlags::OUT, number: 0 }
    }
}

/// A wait for a descriptor; see [`Clock::readable`] and [`Clock::writable`].
#[must_use = "waits only when it is awaited"]
pub struct Ready<'a> {
    clock: &'a Clock,
    /// None once the descriptor is watched.
    descriptor: Option<Rc<OwnedFd>>,
    flags: PollFlags,
    number: u64,
}

impl Future for Ready<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let watches = self.clock.watches();
        if let Some(descriptor) = self.descriptor.take() {
            self.number = watches.next.get();
            watches.next.set(self.number + 1);
            let (number, flags, task) = (self.number, self.flags, self.clock.current());
            watches.list.borrow_mut().push(Watch { number, descriptor, flags, task });
            return Poll::Pending;
        }
        let waits = watches.list.borrow().iter().any(|watch| watch.number == self.number);
        if waits { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        if self.descriptor.is_none() {
            let number = self.number;
            self.clock.watches().list.borrow_mut().retain(|watch| watch.number != number);
        }
    }
}
