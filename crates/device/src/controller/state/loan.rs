//! Loans: what a queue of this controller does for another drive, and what queues of others do for this one ("Espresso", 4.4).
//!
//! The commands of a lent queue (a *shadow queue*) are fetched, parsed and completed by the controller that has the queue, the
//! *lender*, and executed over the namespaces, flash and link of the other, the *borrower*.

use byteway_firmware::Route;
use byteway_wire::nvme::Status;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// The loan of a queue.
#[derive(Debug)]
pub struct Loan {
    /// How the borrower's placement does the work for its commands.
    pub route: Route,
    is_over: Cell<bool>,
}

impl Loan {
    /// One that holds.
    pub fn new(route: Route) -> Rc<Loan> {
        Rc::new(Loan { route, is_over: Cell::default() })
    }

    /// Commands that are under way end as soon as they look, and no further ones are executed.
    pub fn end(&self) {
        self.is_over.set(true);
    }

    /// Whether commands go on. Those that don't can be given to the borrower itself.
    pub fn check(&self) -> Result<(), Status> {
        if self.is_over.get() { Err(Status::COMMAND_INTERRUPTED) } else { Ok(()) }
    }
}

/// The loans that a controller has, as a borrower. It keeps none of them alive.
#[derive(Default)]
pub struct Borrowed(RefCell<Vec<Weak<Loan>>>);

impl Borrowed {
    /// It has one more.
    pub fn add(&self, loan: &Rc<Loan>) {
        let mut loans = self.0.borrow_mut();
        loans.retain(|loan| loan.strong_count() > 0);
        loans.push(Rc::downgrade(loan));
    }

    /// It is reset, or its power goes: all end.
    pub fn end(&self) {
        self.0.take().iter().filter_map(Weak::upgrade).for_each(|loan| loan.end());
    }
}
