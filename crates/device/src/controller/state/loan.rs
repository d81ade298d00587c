//! Loans: queues of this controller that execute commands for another drive, and the reverse ("Espresso", 4.4).
//!
//! The commands of a lent queue (a *shadow queue*) are fetched, parsed and completed by the controller that owns it,
//! the *lender*. They are executed over the namespaces, flash and link of the other one, the *borrower*.
//!
//! A loan ends in one of two ways. [`Loan::end`]: commands in flight end at their next check, and what they have
//! requested of the borrower by then takes place. [`Loan::revoke`]: the borrower accepts nothing more from the lender.
//! Whatever a command waits for at that moment, on the fabric or at the borrower, it does not get, so no later action
//! of the lender changes the borrower's data. A host that gave a command up may therefore submit it to the borrower,
//! and what it writes afterwards stays. In both cases commands complete with Command Interrupted.

use byteway_clock::{Clock, TaskId};
use byteway_firmware::Route;
use byteway_wire::nvme::Status;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::Poll;

/// The state of a loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Holds,
    Ended,
    Revoked,
}

/// The loan of a queue.
pub struct Loan {
    /// Route of the borrower's placement for the firmware work of its commands.
    pub route: Route,
    /// The lender's number among its peers.
    pub lender: u8,
    clock: Clock,
    standing: Cell<Standing>,
    /// Tasks that execute its commands.
    executing: RefCell<Vec<TaskId>>,
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loan { route, lender, standing, .. } = self;
        write!(f, "Loan {{ route: {route:?}, lender: {lender}, standing: {:?} }}", standing.get())
    }
}

impl Loan {
    /// A loan in effect.
    pub fn new(clock: &Clock, route: Route, lender: u8) -> Rc<Loan> {
        let (standing, executing) = (Cell::new(Standing::Holds), RefCell::default());
        Rc::new(Loan { route, lender, clock: clock.clone(), standing, executing })
    }

    /// Ends the loan: commands in flight end at their next check, and no further ones are executed.
    pub fn end(&self) {
        self.standing.set(self.standing.get().max(Standing::Ended));
    }

    /// Revokes the loan: the borrower accepts nothing more, and commands in flight end at the wait that they are in.
    pub fn revoke(&self) {
        self.standing.set(Standing::Revoked);
        self.executing.borrow().iter().for_each(|task| self.clock.wake(*task));
    }

    /// Checks whether commands may continue.
    ///
    /// # Errors
    /// [`Status::COMMAND_INTERRUPTED`] asks the host to submit them to the borrower itself.
    pub fn check(&self) -> Result<(), Status> {
        match self.standing.get() {
            Standing::Holds => Ok(()),
            Standing::Ended | Standing::Revoked => Err(Status::COMMAND_INTERRUPTED),
        }
    }

    /// Runs `execution`; `None` if the loan was revoked before it ended. The caller must then drop it
    /// immediately, with everything that it holds of the borrower.
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

/// Registers a task that executes a command of a loan, while it exists.
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

/// The loans of a controller as borrower. The references are weak.
#[derive(Default)]
pub struct Borrowed(RefCell<Vec<Weak<Loan>>>);

impl Borrowed {
    /// Adds a loan.
    pub fn add(&self, loan: &Rc<Loan>) {
        let mut loans = self.0.borrow_mut();
        loans.retain(|loan| loan.strong_count() > 0);
        loans.push(Rc::downgrade(loan));
    }

    /// Number of loans in effect.
    pub fn count(&self) -> u32 {
        let loans = self.0.borrow();
        let hold = loans.iter().filter_map(Weak::upgrade).filter(|loan| loan.check().is_ok());
        hold.count() as u32
    }

    /// Revokes all loans of this lender.
    pub fn revoke(&self, lender: u8) {
        let loans: Vec<Rc<Loan>> = self.0.borrow().iter().filter_map(Weak::upgrade).collect();
        loans.iter().filter(|loan| loan.lender == lender).for_each(|loan| loan.revoke());
    }

    /// Revokes all loans: the controller is reset, or loses power.
    pub fn end(&self) {
        self.0.take().iter().filter_map(Weak::upgrade).for_each(|loan| loan.revoke());
    }
}
