//! MSI-X messages: one eventfd a vector, which the host's process gives and waits on.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::cell::{Cell, RefCell};
use std::io;

/// The vectors of a function.
pub struct Interrupts {
    vectors: RefCell<Vec<Option<OwnedFd>>>,
    lost: Cell<u64>,
}

impl Interrupts {
    /// `count` vectors that nobody waits on.
    pub fn new(count: u16) -> Self {
        Interrupts { vectors: RefCell::new((0..count).map(|_| None).collect()), lost: Cell::default() }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.vectors.borrow().len() as u32
    }

    /// From now on messages of `vector` go to `event`, or nowhere.
    ///
    /// # Errors
    /// There is no such vector, or the descriptor cannot be made one that never blocks.
    pub fn assign(&self, vector: u32, event: Option<OwnedFd>) -> io::Result<()> {
        let mut vectors = self.vectors.borrow_mut();
        let place = vectors.get_mut(vector as usize).ok_or(io::ErrorKind::InvalidInput)?;
        if let Some(event) = &event {
            // A full pipe, or a counter that the host has filled, must not hold this side up.
            fcntl_setfl(event, fcntl_getfl(event)? | OFlags::NONBLOCK)?;
        }
        *place = event;
        Ok(())
    }

    /// Nobody waits any more.
    pub fn clear(&self) {
        self.vectors.borrow_mut().iter_mut().for_each(|vector| *vector = None);
    }

    /// Sends the message of `vector`, if somebody waits for it.
    pub fn trigger(&self, vector: u32) {
        let vectors = self.vectors.borrow();
        let Some(Some(event)) = vectors.get(vector as usize) else { return };
        if rustix::io::write(event.as_fd(), &1u64.to_ne_bytes()).is_err() {
            self.lost.set(self.lost.get() + 1);
        }
    }

    /// Messages that could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.get()
    }
}
