//! What is counted while it is there, because there may only be so much of it.

use std::cell::Cell;
use std::rc::Rc;

/// Open pages at once: they stay, each on a connection.
pub const PAGES_MAX: usize = 16;

/// Counts one for as long as it lives.
pub(crate) struct Counted(Rc<Cell<usize>>);

impl Counted {
    pub(crate) fn new(count: &Rc<Cell<usize>>) -> Counted {
        count.set(count.get() + 1);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
