//! The list of the controllers of one drive, which share namespaces, flash and background work (NVMe Base 2.1, 2.4).

use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// One part of each controller of a drive, by controller number. The references are weak.
pub(crate) struct Peers<T>(RefCell<Vec<Weak<T>>>);

impl<T> Default for Peers<T> {
    fn default() -> Self {
        Peers(RefCell::default())
    }
}

impl<T> Peers<T> {
    /// Adds a controller; its number is the next one.
    pub(crate) fn join(&self, peer: &Rc<T>) {
        self.0.borrow_mut().push(Rc::downgrade(peer));
    }

    /// Number of controllers.
    pub(crate) fn count(&self) -> usize {
        self.0.borrow().len()
    }

    /// The controller with this number, from 0.
    pub(crate) fn at(&self, number: usize) -> Option<Rc<T>> {
        self.0.borrow().get(number)?.upgrade()
    }

    /// Calls `each` with all, in ascending order.
    pub(crate) fn each(&self, mut each: impl FnMut(&T)) {
        self.0.borrow().iter().filter_map(Weak::upgrade).for_each(|peer| each(&peer));
    }
}
