//! A mailbox: delayed FIFO delivery of values, without a task.
//!
//! Used for posted writes, doorbells and interrupts: the sender continues at once, and the receiver sees the
//! value when it arrives.

use crate::executor::Clock;
use crate::task::TaskId;
use crate::time::Time;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

struct Message<T> {
    at: Time,
    /// Whether the arrival wakes the reader.
    wakes: bool,
    value: T,
}

struct Inner<T> {
    clock: Clock,
    messages: RefCell<VecDeque<Message<T>>>,
    /// Messages in flight that wake the reader.
    wakers: Cell<usize>,
    /// Every message wakes the reader, quiet ones included.
    wakes_all: Cell<bool>,
    reader: Cell<Option<TaskId>>,
}

/// Delayed FIFO delivery to one reader. Cheap to clone.
pub struct Mailbox<T>(Rc<Inner<T>>);

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Mailbox(self.0.clone())
    }
}

impl<T> Mailbox<T> {
    /// An empty mailbox.
    pub fn new(clock: &Clock) -> Self {
        Mailbox(Rc::new(Inner {
            clock: clock.clone(),
            messages: RefCell::default(),
            wakers: Cell::default(),
            wakes_all: Cell::default(),
            reader: Cell::new(None),
        }))
    }

    /// Delivers `value` at `at`, but not before any value sent earlier.
    pub fn send_at(&self, at: Time, value: T) {
        self.send(at, true, value);
    }

    /// Like [`send_at`](Mailbox::send_at), without waking the reader: it finds the value together with the next
    /// one that wakes it, or by [`Mailbox::try_receive`]. For values that no task needs earlier. Returns the
    /// arrival time.
    pub fn send_quietly_at(&self, at: Time, value: T) -> Time {
        self.send(at, false, value)
    }

    /// Sets whether quiet values wake the reader, those in flight included. Set it while a task waits for
    /// one.
    pub fn set_wake_on_quiet(&self, wakes_all: bool) {
        if self.0.wakes_all.replace(wakes_all) || !wakes_all {
            return;
        }
        let mut messages = self.0.messages.borrow_mut();
        messages.iter_mut().for_each(|message| message.wakes = true);
        self.0.wakers.set(messages.len());
        if let (Some(first), Some(reader)) = (messages.front(), self.0.reader.get()) {
            self.0.clock.wake_at(first.at, reader);
        }
    }

    fn send(&self, at: Time, wakes: bool, value: T) -> Time {
        let wakes = wakes || self.0.wakes_all.get();
        let mut messages = self.0.messages.borrow_mut();
        let at = messages.back().map_or(at, |last| at.max(last.at));
        messages.push_back(Message { at, wakes, value });
        drop(messages);
        if !wakes {
            return at;
        }
        // With a waking message already in flight, a waiting reader has its timer.
        if self.0.wakers.replace(self.0.wakers.get() + 1) == 0
            && let Some(reader) = self.0.reader.get()
        {
            let clock = &self.0.clock;
            clock.wake_at(if clock.is_immediate() { clock.now() } else { at }, reader);
        }
        at
    }

    /// Waits for the next value to arrive. Under `timing = "none"` a value arrives at once.
    pub fn receive(&self) -> Receive<'_, T> {
        Receive { mailbox: self, reader: None }
    }

    /// For a call that is the only reader: passes `take` each value that has arrived. This call is made again when the next one that
    /// wakes the reader does.
    pub fn serve(&self, mut take: impl FnMut(T)) {
        self.0.reader.set(None); // what is sent meanwhile is found without a wake
        while let Some(value) = self.receive_or_wait() {
            take(value);
        }
    }

    /// The next value, if it has arrived. Otherwise the current task or call becomes the reader.
    fn receive_or_wait(&self) -> Option<T> {
        let inner = &self.0;
        if let Some(value) = self.try_receive() {
            return Some(value);
        }
        let task = inner.clock.current();
        if inner.wakers.get() > 0
            && let Some(message) = inner.messages.borrow().iter().find(|message| message.wakes)
        {
            inner.clock.wake_at(message.at, task);
        }
        // Registered even while a message is in flight: `clear` may drop that one, and its successor may
        // arrive sooner.
        inner.reader.set(Some(task));
        None
    }

    /// The next value, if it has arrived.
    pub fn try_receive(&self) -> Option<T> {
        let clock = &self.0.clock;
        let mut messages = self.0.messages.borrow_mut();
        match messages.front() {
            Some(message) if message.at <= clock.now() || clock.is_immediate() => {
                let message = messages.pop_front()?;
                debug_assert!(
                    self.0.wakers.get() >= usize::from(message.wakes),
                    "every waking message is counted"
                );
                self.0.wakers.set(self.0.wakers.get() - usize::from(message.wakes));
                Some(message.value)
            }
            _ => None,
        }
    }

    /// Shows `take` each value that has arrived, in place, and drops it; until `take` is false, which leaves that value here. For values
    /// that are large and many. `take` must not use this mailbox.
    pub fn take_in_place(&self, mut take: impl FnMut(&T) -> bool) {
        let (clock, now) = (&self.0.clock, self.0.clock.now());
        let mut messages = self.0.messages.borrow_mut();
        while let Some(message) = messages.front() {
            if message.at > now && !clock.is_immediate() || !take(&message.value) {
                return;
            }
            self.0.wakers.set(self.0.wakers.get() - usize::from(message.wakes));
            messages.pop_front();
        }
    }

    /// Whether the next value has arrived.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        let clock = &self.0.clock;
        let messages = self.0.messages.borrow();
        messages.front().is_some_and(|message| message.at <= clock.now() || clock.is_immediate())
    }

    /// Arrival time of the first value for which `is_such` holds.
    pub fn arrival_of(&self, mut is_such: impl FnMut(&T) -> bool) -> Option<Time> {
        self.0.messages.borrow().iter().find(|message| is_such(&message.value)).map(|message| message.at)
    }

    /// The next value, if it has arrived and was sent quietly.
    pub fn try_receive_quiet(&self) -> Option<T> {
        let is_quiet = self.0.messages.borrow().front().is_some_and(|message| !message.wakes);
        is_quiet.then(|| self.try_receive()).flatten()
    }

    /// Takes the next value whether or not it has arrived.
    pub fn receive_early(&self) -> Option<T> {
        let message = self.0.messages.borrow_mut().pop_front()?;
        self.0.wakers.set(self.0.wakers.get() - usize::from(message.wakes));
        Some(message.value)
    }

    /// The sum of `size` over the values in flight.
    pub fn sum(&self, size: impl Fn(&T) -> u64) -> u64 {
        self.0.messages.borrow().iter().map(|message| size(&message.value)).sum()
    }

    /// Values sent and not yet received.
    pub fn len(&self) -> usize {
        self.0.messages.borrow().len()
    }

    /// Whether no value is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops every value in flight, as a link that goes down does.
    pub fn clear(&self) {
        self.0.wakers.set(0);
        drop(self.0.messages.take()); // outside the borrow: the drop of a value may look at this mailbox
    }
}

/// A wait for the next value. Dropping it loses nothing.
#[must_use = "nothing is received unless it is awaited"]
pub struct Receive<'a, T> {
    mailbox: &'a Mailbox<T>,
    reader: Option<TaskId>,
}

impl<T> Future for Receive<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        match self.mailbox.receive_or_wait() {
            Some(value) => Poll::Ready(value),
            None => {
                self.reader = Some(self.mailbox.0.clock.current());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Receive<'_, T> {
    fn drop(&mut self) {
        // A task may have taken over as the reader before this future was dropped.
        let reader = &self.mailbox.0.reader;
        if self.reader.is_some() && reader.get() == self.reader {
            reader.set(None);
        }
    }
}
