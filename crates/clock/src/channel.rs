//! A bounded FIFO between tasks.

use crate::executor::Clock;
use crate::wait::{Ticket, WaitLine};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

struct Inner<T> {
    clock: Clock,
    capacity: usize,
    values: RefCell<VecDeque<Numbered<T>>>,
    receivers: WaitLine<(), Numbered<T>>,
    senders: WaitLine<T, ()>,
    sent: Cell<u64>,
}

/// A value with its sequence number, by which a value returned by a receiver finds its position again.
struct Numbered<T>(u64, T);

impl<T> Inner<T> {
    fn number(&self, value: T) -> Numbered<T> {
        let number = self.sent.get();
        self.sent.set(number + 1);
        Numbered(number, value)
    }
}

/// A FIFO of values with a capacity, for any number of senders and receivers. Cheap to clone.
pub struct Channel<T>(Rc<Inner<T>>);

impl<T> Clone for Channel<T> {
    fn clone(&self) -> Self {
        Channel(self.0.clone())
    }
}

impl<T: Unpin> Channel<T> {
    /// Holds at most `capacity` values, at least one. A sender waits for a free slot.
    pub fn bounded(clock: &Clock, capacity: usize) -> Self {
        Channel(Rc::new(Inner {
            clock: clock.clone(),
            capacity: capacity.max(1),
            values: RefCell::default(),
            receivers: WaitLine::default(),
            senders: WaitLine::default(),
            sent: Cell::new(0),
        }))
    }

    /// A channel without a limit, for traffic that is bounded elsewhere.
    pub fn unbounded(clock: &Clock) -> Self {
        Self::bounded(clock, usize::MAX)
    }

    /// Sends `value`.
    ///
    /// # Errors
    /// Returns the value if the channel is full.
    pub fn try_send(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        let granted = |()| self.0.number(value.take().expect("granted once"));
        if let Some(task) = self.0.receivers.grant(granted) {
            self.0.clock.wake(task);
            return Ok(());
        }
        let value = value.expect("no receiver took it");
        let mut values = self.0.values.borrow_mut();
        if values.len() >= self.0.capacity {
            return Err(value);
        }
        values.push_back(self.0.number(value));
        Ok(())
    }

    /// Sends, waiting for a free slot.
    pub fn send(&self, value: T) -> Send<'_, T> {
        Send { channel: self, value: Some(value), ticket: None }
    }

    /// Waits for the next value.
    pub fn receive(&self) -> Receive<'_, T> {
        Receive { channel: self, ticket: None }
    }

    /// The next value, if there is one.
    pub fn try_receive(&self) -> Option<T> {
        let mut values = self.0.values.borrow_mut();
        let Numbered(_, value) = values.pop_front()?;
        // Values returned by dropped receivers may exceed the capacity; then no slot is free yet.
        if values.len() < self.0.capacity
            && let Some(task) = self.0.senders.grant(|value| values.push_back(self.0.number(value)))
        {
            self.0.clock.wake(task);
        }
        Some(value)
    }

    /// Values in the queue. Exceeds the capacity only by values that dropped receivers have returned.
    pub fn len(&self) -> usize {
        self.0.values.borrow().len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A wait for a free slot. If dropped before it completes, the value is not sent.
#[must_use = "sends only when it is awaited"]
pub struct Send<'a, T> {
    channel: &'a Channel<T>,
    value: Option<T>,
    ticket: Option<Ticket>,
}

impl<T: Unpin> Future for Send<'_, T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let inner = &this.channel.0;
        if this.ticket.is_some() {
            return match inner.senders.take(&mut this.ticket) {
                Some(()) => Poll::Ready(()),
                None => Poll::Pending,
            };
        }
        let Some(value) = this.value.take() else { return Poll::Ready(()) };
        match this.channel.try_send(value) {
            Ok(()) => Poll::Ready(()),
            Err(value) => {
                this.ticket = Some(inner.senders.join(inner.clock.current(), value));
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Send<'_, T> {
    fn drop(&mut self) {
        self.channel.0.senders.cancel(&mut self.ticket);
    }
}

/// A wait for a value. If dropped after a value was granted, the value returns to its position in the queue.
#[must_use = "receives only when it is awaited"]
pub struct Receive<'a, T> {
    channel: &'a Channel<T>,
    ticket: Option<Ticket>,
}

impl<T: Unpin> Future for Receive<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let inner = &self.channel.0;
        if self.ticket.is_some() {
            return match inner.receivers.take(&mut self.ticket) {
                Some(Numbered(_, value)) => Poll::Ready(value),
                None => Poll::Pending,
            };
        }
        if let Some(value) = self.channel.try_receive() {
            return Poll::Ready(value);
        }
        let ticket = inner.receivers.join(inner.clock.current(), ());
        self.ticket = Some(ticket);
        Poll::Pending
    }
}

impl<T> Drop for Receive<'_, T> {
    fn drop(&mut self) {
        let inner = &self.channel.0;
        let Some(value) = inner.receivers.cancel(&mut self.ticket) else { return };
        let mut value = Some(value);
        match inner.receivers.grant(|()| value.take().expect("granted once")) {
            Some(task) => inner.clock.wake(task),
            None => {
                let value = value.expect("no receiver took it");
                let mut values = inner.values.borrow_mut();
                // Behind later values it would arrive out of order.
                let position = values.partition_point(|other| other.0 < value.0);
                debug_assert!(
                    values.get(position).is_none_or(|next| next.0 != value.0),
                    "numbers are unique"
                );
                values.insert(position, value);
            }
        }
    }
}
