//! Waits of a host for completion queue entries.
//!
//! A posted completion wakes its waiter at the instant of its arrival, without a link task in between. Its
//! entry, and everything posted before it, lands in memory like any write that wakes no task: when memory is
//! next read (`Link::settle`), usually by the waiter.

use crate::port::Link;
use byteway_clock::TaskId;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A completion queue's memory, and the task that waits for entries in it.
pub(crate) struct Ring {
    first: u64,
    end: u64,
    /// An entry has arrived since the waiter was last notified.
    has_arrived: Cell<bool>,
    waiter: Cell<Option<TaskId>>,
    /// Entries in flight. A waiter has a timer for the first of them.
    crossing: Cell<u32>,
}

/// The watched completion queues of a link.
#[derive(Default)]
pub(crate) struct Rings(RefCell<Vec<Rc<Ring>>>);

impl Rings {
    pub(crate) fn add(&self, address: u64, bytes: u64) -> Rc<Ring> {
        let ring = Rc::new(Ring {
            first: address,
            end: address + bytes,
            has_arrived: Cell::default(),
            waiter: Cell::default(),
            crossing: Cell::default(),
        });
        self.0.borrow_mut().push(ring.clone());
        ring
    }

    pub(crate) fn remove(&self, address: u64) {
        self.0.borrow_mut().retain(|ring| ring.first != address);
    }

    /// The queue whose memory contains `address`.
    pub(crate) fn find(&self, address: u64) -> Option<Rc<Ring>> {
        self.0.borrow().iter().find(|ring| (ring.first..ring.end).contains(&address)).cloned()
    }
}

impl Ring {
    /// Counts an entry that is sent. Returns the task that its arrival must wake; None if an earlier entry
    /// wakes it.
    pub(crate) fn sets_out(&self) -> Option<TaskId> {
        let before = self.crossing.replace(self.crossing.get() + 1);
        if before == 0 { self.waiter.get() } else { None }
    }

    /// Counts an entry that has arrived.
    pub(crate) fn has_crossed(&self) {
        self.crossing.set(self.crossing.get() - 1);
    }

    /// Marks the arrival of an entry. Returns the waiting task.
    pub(crate) fn arrives(&self) -> Option<TaskId> {
        self.has_arrived.set(true);
        self.waiter.get()
    }
}

/// Handle of a host that waits for entries of one completion queue. One task waits at a time.
pub struct Watch {
    pub(crate) link: Rc<Link>,
    pub(crate) ring: Rc<Ring>,
}

impl Watch {
    /// For a call, if it is the one that waits: whether an entry has arrived since it was last told. Otherwise this call is made again
    /// when one does, and when an entry in flight should have.
    pub fn has_arrived(&self) -> bool {
        let waited = self.ring.waiter.take();
        self.look(waited.is_none())
    }

    /// Whether an entry has arrived. Otherwise the current task or call waits for one; `is_first`: it did not wait yet.
    fn look(&self, is_first: bool) -> bool {
        let Watch { link, ring } = self;
        link.settle();
        if ring.has_arrived.replace(false) {
            return true;
        }
        let task = link.clock.current();
        ring.waiter.set(Some(task));
        if is_first
            && ring.crossing.get() > 0
            && let Some(at) = link.arrival_at(ring)
        {
            link.clock.wake_at(at, task);
        }
        false
    }

    /// Waits until an entry has arrived since the last wait ended.
    pub fn notified(&self) -> Arrival<'_> {
        Arrival { watch: self, task: None }
    }
}

/// A wait for a completion; see [`Watch::notified`].
#[must_use = "waits only when it is awaited"]
pub struct Arrival<'a> {
    watch: &'a Watch,
    task: Option<TaskId>,
}

impl Future for Arrival<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        // Awake now, so arrivals while it looks need not wake it.
        let waiter = self.watch.ring.waiter.take();
        debug_assert_eq!(waiter, self.task, "one task waits for a completion queue's entries");
        if self.watch.look(waiter.is_none()) {
            self.task = None;
            return Poll::Ready(());
        }
        self.task = self.watch.ring.waiter.get();
        Poll::Pending
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if self.task.is_some() {
            self.watch.ring.waiter.set(None);
        }
    }
}
