//! MSI-X messages: one eventfd a vector, which the host's process provides and waits on.
//!
//! The host shares the open file description: it can fill the counter, and can make writes block. So only
//! eventfds are accepted, and one is written only when it is writable.
//!
//! Each message takes two system calls, more than the rest of a command. So messages raised while other tasks
//! run in the same turn are sent together after them, one a vector: an eventfd would merge them anyway.

use byteway_clock::{Clock, Notify};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

/// The MSI-X vectors of a function.
pub struct Interrupts {
    vectors: RefCell<Vec<Option<OwnedFd>>>,
    /// Vectors with a message to send, each once, in the order in which they were raised.
    raised: RefCell<Vec<u32>>,
    has_raised: Notify,
    lost: Cell<u64>,
}

impl Interrupts {
    /// `count` vectors, none of them assigned.
    pub fn new(clock: &Clock, count: u16) -> Self {
        Interrupts {
            vectors: RefCell::new((0..count).map(|_| None).collect()),
            raised: RefCell::default(),
            has_raised: Notify::new(clock),
            lost: Cell::default(),
        }
    }

    /// Number of vectors.
    pub fn count(&self) -> u32 {
        self.vectors.borrow().len() as u32
    }

    /// Directs messages of `vector` to `event`; `None` drops them.
    ///
    /// # Errors
    /// The vector is out of range, or the descriptor is not an eventfd.
    pub fn assign(&self, vector: u32, event: Option<OwnedFd>) -> io::Result<()> {
        let mut vectors = self.vectors.borrow_mut();
        let place = vectors.get_mut(vector as usize).ok_or(io::ErrorKind::InvalidInput)?;
        if let Some(event) = &event {
            if !is_eventfd(event) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            fcntl_setfl(event, fcntl_getfl(event)? | OFlags::NONBLOCK)?;
        }
        *place = event;
        Ok(())
    }

    /// Drops every assigned eventfd.
    pub fn clear(&self) {
        self.raised.borrow_mut().clear();
        self.vectors.borrow_mut().iter_mut().for_each(|vector| *vector = None);
    }

    /// Queues the message of `vector`, to be sent with the others of this turn.
    pub fn raise(&self, vector: u32) {
        let mut raised = self.raised.borrow_mut();
        if !raised.contains(&vector) {
            raised.push(vector);
        }
        self.has_raised.notify_one();
    }

    /// Sends queued messages, indefinitely.
    pub async fn run(self: Rc<Self>) {
        loop {
            self.has_raised.notified().await;
            self.raised.borrow_mut().drain(..).for_each(|vector| self.trigger(vector));
        }
    }

    /// Sends the message of `vector` now, if an eventfd is assigned.
    pub fn trigger(&self, vector: u32) {
        let vectors = self.vectors.borrow();
        let Some(Some(event)) = vectors.get(vector as usize) else { return };
        let mut polled = [PollFd::new(event, PollFlags::OUT)];
        let is_writable = poll(&mut polled, Some(&Timespec::default())) == Ok(1)
            && polled[0].revents().contains(PollFlags::OUT);
        if !is_writable || rustix::io::write(event.as_fd(), &1u64.to_ne_bytes()).is_err() {
            self.lost.set(self.lost.get() + 1);
        }
    }

    /// Messages that could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.get()
    }
}

/// Whether a descriptor is an eventfd: a file of another kind could block the writer.
fn is_eventfd(descriptor: &OwnedFd) -> bool {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    name.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
}
