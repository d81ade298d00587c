//! A mailbox: values that arrive later, in order, without a task of their own.
//!
//! Posted writes, doorbells and interrupts: the sender goes on at once, the receiver sees the value when it arrives.

use crate::executor::Clock;
use crate::task::TaskId;
use crate::time::Time;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

struct Letter<T> {
    at: Time,
    /// Whether its arrival wakes the reader.
    wakes: bool,
    value: T,
}

struct Inner<T> {
    clock: Clock,
    letters: RefCell<VecDeque<Letter<T>>>,
    /// Letters under way that wake the reader.
    wakers: Cell<usize>,
    /// Every letter wakes the reader.
    heeds: Cell<bool>,
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
    /// An empty one.
    pub fn new(clock: &Clock) -> Self {
        Mailbox(Rc::new(Inner {
            clock: clock.clone(),
            letters: RefCell::default(),
            wakers: Cell::default(),
            heeds: Cell::default(),
            reader: Cell::new(None),
        }))
    }

    /// Delivers `value` at `at`, but not before what was sent earlier.
    pub fn send_at(&self, at: Time, value: T) {
        self.send(at, true, value);
    }

    /// The same without waking the reader: it finds the value together with the next one that does, or with
    /// [`Mailbox::try_receive`]. For values that no task reads before then. Gives when it arrives.
    pub fn send_quietly_at(&self, at: Time, value: T) -> Time {
        self.send(at, false, value)
    }

    /// Whether quiet values wake the reader, too, those under way included: while somebody waits for one.
    pub fn heed_quiet(&self, heeds: bool) {
        if self.0.heeds.replace(heeds) || !heeds {
            return;
        }
        let mut letters = self.0.letters.borrow_mut();
        letters.iter_mut().for_each(|letter| letter.wakes = true);
        self.0.wakers.set(letters.len());
        if let (Some(first), Some(reader)) = (letters.front(), self.0.reader.get()) {
            self.0.clock.wake_at(first.at, reader);
        }
    }

    fn send(&self, at: Time, wakes: bool, value: T) -> Time {
        let wakes = wakes || self.0.heeds.get();
        let mut letters = self.0.letters.borrow_mut();
        let at = letters.back().map_or(at, |last| at.max(last.at));
        letters.push_back(Letter { at, wakes, value });
        drop(letters);
        if !wakes {
            return at;
        }
        // A reader that waits already has a timer for the first letter that wakes it.
        if self.0.wakers.replace(self.0.wakers.get() + 1) == 0
            && let Some(reader) = self.0.reader.get()
        {
            let clock = &self.0.clock;
            clock.wake_at(if clock.is_immediate() { clock.now() } else { at }, reader);
        }
        at
    }

    /// The next value, when it has arrived. Under `timing = "none"` that is at once.
    pub fn receive(&self) -> Receive<'_, T> {
        Receive { mailbox: self, reader: None }
    }

    /// The next value, if it has arrived.
    pub fn try_receive(&self) -> Option<T> {
        let clock = &self.0.clock;
        let mut letters = self.0.letters.borrow_mut();
        match letters.front() {
            Some(letter) if letter.at <= clock.now() || clock.is_immediate() => {
                let letter = letters.pop_front()?;
                self.0.wakers.set(self.0.wakers.get() - usize::from(letter.wakes));
                Some(letter.value)
            }
            _ => None,
        }
    }

    /// Whether there is a value that has arrived.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        let clock = &self.0.clock;
        let letters = self.0.letters.borrow();
        letters.front().is_some_and(|letter| letter.at <= clock.now() || clock.is_immediate())
    }

    /// When the first value arrives that is such a one.
    pub fn arrival_of(&self, mut is_such: impl FnMut(&T) -> bool) -> Option<Time> {
        self.0.letters.borrow().iter().find(|letter| is_such(&letter.value)).map(|letter| letter.at)
    }

    /// The next value, if it has arrived and woke nobody.
    pub fn try_receive_quiet(&self) -> Option<T> {
        let is_quiet = self.0.letters.borrow().front().is_some_and(|letter| !letter.wakes);
        is_quiet.then(|| self.try_receive()).flatten()
    }

    /// The next value, arrived or not.
    pub fn receive_early(&self) -> Option<T> {
        let letter = self.0.letters.borrow_mut().pop_front()?;
        self.0.wakers.set(self.0.wakers.get() - usize::from(letter.wakes));
        Some(letter.value)
    }

    /// The sum of what `size` says of each value under way.
    pub fn sum(&self, size: impl Fn(&T) -> u64) -> u64 {
        self.0.letters.borrow().iter().map(|letter| size(&letter.value)).sum()
    }

    /// Values under way.
    pub fn len(&self) -> usize {
        self.0.letters.borrow().len()
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Loses what is under way: a link that goes down.
    pub fn clear(&self) {
        self.0.wakers.set(0);
        drop(self.0.letters.take()); // not under the borrow: what is dropped may look at this mailbox
    }
}

/// A wait for the next value; nothing is lost if it is dropped.
#[must_use = "nothing is received unless it is awaited"]
pub struct Receive<'a, T> {
    mailbox: &'a Mailbox<T>,
    reader: Option<TaskId>,
}

impl<T> Future for Receive<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let inner = &self.mailbox.0;
        if let Some(value) = self.mailbox.try_receive() {
            return Poll::Ready(value);
        }
        let task = inner.clock.current();
        if inner.wakers.get() > 0
            && let Some(letter) = inner.letters.borrow().iter().find(|letter| letter.wakes)
        {
            inner.clock.wake_at(letter.at, task);
        }
        // Also while a letter is under way: it may be lost, and the next one may arrive sooner.
        inner.reader.set(Some(task));
        self.reader = Some(task);
        Poll::Pending
    }
}

impl<T> Drop for Receive<'_, T> {
    fn drop(&mut self) {
        // The reader may be another by now: a task that took over before this one was dropped.
        let reader = &self.mailbox.0.reader;
        if self.reader.is_some() && reader.get() == self.reader {
            reader.set(None);
        }
    }
}
