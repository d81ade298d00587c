//! Loans: what a queue of this controller does for another drive, and what queues of others do for this one ("Espresso", 4.4).
//!
//! The commands of a lent queue (a *shadow queue*) are fetched, parsed and completed by the controller that has the queue, the
//! *lender*, and executed over the namespaces, flash and link of the other, the *borrower*.
//!
//! A loan *ends* in one of two ways. [`Loan::end`]: commands that are under way end as soon as they look, and what they have asked of
//! the borrower by then happens. [`Loan::revoke`]: the borrower takes nothing more from the lender. What a command waits for at that
//! moment, on the fabric or at the borrower, it does not get, so nothing that the lender does later changes the borrower's data: a host
//! that has given a command up may have the borrower carry it out, and what is written after that stays. Either way commands complete
//! with Command Interrupted.

use byteway_clock::{Clock, TaskId};
use byteway_firmware::Route;
use byteway_wire::nvme::Status;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::Poll;

/// How a loan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Holds,
    Ended,
    Revoked,
}

/// The loan of a queue.
pub struct Loan {
    /// How the borrower's placement does the work for its commands.
    pub route: Route,
    /// The lender's number among its peers.
    pub lender: u8,
    clock: Clock,
    standing: Cell<Standing>,
    /// The tasks that execute its commands.
    executing: RefCell<Vec<TaskId>>,
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loan { route, lender, standing, .. } = self;
        write!(f, "Loan {{ route: {route:?}, lender: {lender}, standing: {:?} }}", standing.get())
    }
}

impl Loan {
    /// One that holds.
    pub fn new(clock: &Clock, route: Route, lender: u8) -> Rc<Loan> {
        let (standing, executing) = (Cell::new(Standing::Holds), RefCell::default());
        Rc::new(Loan { route, lender, clock: clock.clone(), standing, executing })
    }

    /// Commands that are under way end as soon as they look, and no further ones are executed.
    pub fn end(&self) {
        self.standing.set(self.standing.get().max(Standing::Ended));
    }

    /// The borrower takes nothing more from the lender: commands that are under way end at the wait that they are in.
    pub fn revoke(&self) {
        self.standing.set(Standing::Revoked);
        self.executing.borrow().iter().for_each(|task| self.clock.wake(*task));
    }

    /// Whether commands go on. Those that don't can be given to the borrower itself.
    pub fn check(&self) -> Result<(), Status> {
        match self.standing.get() {
            Standing::Holds => Ok(()),
            Standing::Ended | Standing::Revoked => Err(Status::COMMAND_INTERRUPTED),
        }
    }

    /// Carries `execution` out; none: the loan was revoked before its end. The caller drops it at once then, with all that it holds of
    /// the borrower.
    pub async fn unless_revoked<T>(&self, mut execution: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let task = self.clock.current();
        self.executing.borrow_mut().push(task);
        let _executing = Executing { loan: self, task };
        poll_fn(|context| match self.standing.get() {
            Standing::Revoked => Poll::Ready(None),
            Standing::Holds | Standing::Ended => execution.as_mut().poll(context).map(Some),
        })
        .await
    }
}

/// A task that executes a command of a loan.
struct Executing<'a> {
    loan: &'a Loan,
    task: TaskId,
}

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        let mut executing = self.loan.executing.borrow_mut();
        if let Some(index) = executing.iter().position(|task| *task == self.task) {
            executing.swap_remove(index);
        }
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

    /// How many hold.
    pub fn count(&self) -> u32 {
        let loans = self.0.borrow();
        let hold = loans.iter().filter_map(Weak::upgrade).filter(|loan| loan.check().is_ok());
        hold.count() as u32
    }

    /// It takes nothing more from this lender.
    pub fn revoke(&self, lender: u8) {
        let loans: Vec<Rc<Loan>> = self.0.borrow().iter().filter_map(Weak::upgrade).collect();
        loans.iter().filter(|loan| loan.lender == lender).for_each(|loan| loan.revoke());
    }

    /// It is reset, or its power goes: nothing is taken from any lender.
    pub fn end(&self) {
        self.0.take().iter().filter_map(Weak::upgrade).for_each(|loan| loan.revoke());
    }
}
