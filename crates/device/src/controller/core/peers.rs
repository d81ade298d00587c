//! The controllers of one drive, which share its namespaces, its flash and the work behind commands (NVMe Base 2.1, 2.4).

use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// A part of each controller of a drive, in the order of the controllers' numbers. It keeps none of them alive.
pub(crate) struct Peers<T>(RefCell<Vec<Weak<T>>>);

impl<T> Default for Peers<T> {
    fn default() -> Self {
        Peers(RefCell::default())
    }
}

impl<T> Peers<T> {
    /// A controller has started: its number is the next one.
    pub(crate) fn join(&self, peer: &Rc<T>) {
        self.0.borrow_mut().push(Rc::downgrade(peer));
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.borrow().len()
    }

    /// The controller with this number, from 0.
    pub(crate) fn at(&self, number: usize) -> Option<Rc<T>> {
        self.0.borrow().get(number)?.upgrade()
    }

    /// Shows all, ascending.
    pub(crate) fn each(&self, mut each: impl FnMut(&T)) {
        self.0.borrow().iter().filter_map(Weak::upgrade).for_each(|peer| each(&peer));
    }
}
