//! A counting semaphore for command slots, buffer slots and tags.

use crate::executor::Clock;
use crate::wait::{Ticket, WaitLine};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

struct Inner {
    clock: Clock,
    available: Cell<usize>,
    is_closed: Cell<bool>,
    line: WaitLine<usize, usize>,
}

/// A number of credits, granted first come, first served. Cheap to clone.
#[derive(Clone)]
pub struct Semaphore(Rc<Inner>);

impl Semaphore {
    /// A semaphore with `credits` available.
    pub fn new(clock: &Clock, credits: usize) -> Self {
        Semaphore(Rc::new(Inner {
            clock: clock.clone(),
            available: Cell::new(credits),
            is_closed: Cell::new(false),
            line: WaitLine::default(),
        }))
    }

    /// Waits for `credits` together. A request for more than the total never completes. A closed semaphore
    /// grants zero credits instead of waiting, which [`Permit::credits`] shows.
    pub fn acquire(&self, credits: usize) -> Acquire<'_> {
        Acquire { semaphore: self, credits, place: CreditPlace::default() }
    }

    /// For a call: like [`acquire`](Semaphore::acquire), with a `place` of its own for each wait. Returns the credits, which are
    /// [released](Semaphore::release) one by one or together; `None`: this call is made again when it has them. A place that is not
    /// [given up](Semaphore::give_up) keeps the line waiting.
    #[inline]
    pub fn take_or_wait(&self, credits: usize, place: &mut CreditPlace) -> Option<usize> {
        if place.0.is_some() {
            return self.0.line.take(&mut place.0);
        }
        if self.try_take(credits) {
            return Some(credits);
        }
        if self.0.is_closed.get() {
            return Some(0);
        }
        place.0 = Some(self.0.line.join(self.0.clock.current(), credits));
        None
    }

    /// Gives up a place in line.
    pub fn give_up(&self, place: &mut CreditPlace) {
        let waited = place.0.is_some();
        match self.0.line.cancel(&mut place.0) {
            Some(credits) => self.release(credits),
            // The next waiter may want fewer credits than this one.
            None if waited => self.pass_on(),
            None => {}
        }
    }

    /// Takes `credits` if they are available and no task waits.
    pub fn try_acquire(&self, credits: usize) -> Option<Permit> {
        self.try_take(credits).then(|| Permit { semaphore: self.clone(), credits })
    }

    /// Like [`try_acquire`](Semaphore::try_acquire), without a permit that would return them.
    #[inline]
    pub fn try_take(&self, credits: usize) -> bool {
        let there = self.0.line.len() == 0 && self.0.available.get() >= credits;
        if there {
            self.0.available.set(self.0.available.get() - credits);
        }
        there
    }

    /// Adds credits: those of a forgotten permit, those taken without one, or new ones.
    #[inline]
    pub fn release(&self, credits: usize) {
        self.0.available.set(self.0.available.get() + credits);
        if self.0.line.len() > 0 {
            self.pass_on();
        }
    }

    /// Releases every waiter with zero credits, and from now on every caller that would have to wait.
    pub fn close(&self) {
        self.0.is_closed.set(true);
        while let Some(task) = self.0.line.grant(|_| 0) {
            self.0.clock.wake(task);
        }
    }

    /// Free credits.
    pub fn available(&self) -> usize {
        self.0.available.get()
    }

    /// Number of waiting tasks.
    pub fn waiting(&self) -> usize {
        self.0.line.len()
    }

    fn pass_on(&self) {
        while let Some(want) = self.0.line.first(|want| *want) {
            if want > self.0.available.get() {
                break;
            }
            self.0.available.set(self.0.available.get() - want);
            if let Some(task) = self.0.line.grant(|want| want) {
                self.0.clock.wake(task);
            }
        }
    }
}

/// A place in a semaphore's line.
#[derive(Default)]
pub struct CreditPlace(Option<Ticket>);

/// A wait for credits. Dropping it gives up its place in line.
#[must_use = "credits are granted only when it is awaited"]
pub struct Acquire<'a> {
    semaphore: &'a Semaphore,
    credits: usize,
    place: CreditPlace,
}

impl Future for Acquire<'_> {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Permit> {
        let (semaphore, credits) = (self.semaphore, self.credits);
        match semaphore.take_or_wait(credits, &mut self.place) {
            Some(credits) => Poll::Ready(Permit { semaphore: semaphore.clone(), credits }),
            None => Poll::Pending,
        }
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        self.semaphore.give_up(&mut self.place);
    }
}

/// Credits held, released on drop.
pub struct Permit {
    semaphore: Semaphore,
    credits: usize,
}

impl Permit {
    /// Number of credits held; zero if the semaphore was closed.
    pub fn credits(&self) -> usize {
        self.credits
    }

    /// Drops the permit without releasing the credits; [`Semaphore::release`] returns them.
    pub fn forget(mut self) {
        self.credits = 0;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.credits > 0 {
            self.semaphore.release(self.credits);
        }
    }
}
