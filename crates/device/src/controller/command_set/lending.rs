//! Lending: queues of this controller whose commands are executed for another drive ("Espresso", 4.4: shadow queue pairs).
//!
//! Such a queue is an I/O queue like any other to its host: it is arbitrated with the others, and its commands have command slots
//! here, are parsed here and complete here. What is between, from the namespace to the payload's way over the link, is the
//! borrower's; what of that is firmware work is done where the loan's route says.

use crate::controller::command_set::CommandSets;
use crate::controller::core::Core;
use crate::controller::queue::ring::SubmissionQueue;
use crate::controller::state::loan::Loan;
use byteway_firmware::Route;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Why a queue is not lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LendError {
    /// There is no such I/O queue.
    #[error("there is no I/O submission queue {0} to lend")]
    NoQueue(u16),
    /// Its commands are another drive's already.
    #[error("submission queue {0} is lent already")]
    IsLent(u16),
    /// Commands are under way in it, or wait there: they would be executed for the wrong drive.
    #[error("submission queue {0} has commands under way")]
    IsInUse(u16),
    /// It takes payload in ways that end in the lender's memory.
    #[error("submission queue {0} has transfer methods enabled, which are the lender's")]
    HasMethods(u16),
    /// Borrower and lender are one.
    #[error("a drive can't lend to itself")]
    IsOwn,
}

/// A queue that is lent, and to whom.
pub(crate) struct Lent {
    pub(crate) borrower: Rc<CommandSets>,
    pub(crate) loan: Rc<Loan>,
}

/// Holds up a reset of the borrower while a command is executed for it, also if the task that does so is killed.
pub(crate) struct UnderWay<'a>(&'a Core);

impl<'a> UnderWay<'a> {
    pub(crate) fn of(borrower: &'a Core) -> Self {
        borrower.begin();
        UnderWay(borrower)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The queues that a controller has lent.
#[derive(Default)]
pub(crate) struct Lending {
    queues: RefCell<BTreeMap<u16, Rc<Lent>>>,
}

impl Lending {
    /// To whom a queue is lent. One that was deleted may be here still.
    #[inline]
    pub(crate) fn of(&self, queue: &SubmissionQueue) -> Option<Rc<Lent>> {
        if queue.is_lent.get() { self.queues.borrow().get(&queue.id).cloned() } else { None }
    }

    /// The queues are gone.
    pub(crate) fn clear(&self) {
        self.queues.take().values().for_each(|lent| lent.loan.end());
    }

    /// The loan of a queue ends. It stays lent: what comes by it is not executed.
    pub(crate) fn end(&self, qid: u16) {
        if let Some(lent) = self.queues.borrow().get(&qid) {
            lent.loan.end();
        }
    }
}

/// Lends queue `qid`, of which nothing is under way, to `borrower`, whose placement does the work for its commands by `route`, and to
/// which this drive is `lender`.
pub(crate) fn lend(
    sets: &CommandSets,
    qid: u16,
    borrower: &Rc<CommandSets>,
    (route, lender): (Route, u8),
) -> Result<Rc<Loan>, LendError> {
    let queue = (qid > 0).then(|| sets.core.queues.submission(qid)).flatten();
    let queue = queue.ok_or(LendError::NoQueue(qid))?;
    if std::ptr::eq(sets, Rc::as_ptr(borrower)) {
        return Err(LendError::IsOwn);
    }
    if queue.is_lent.get() {
        return Err(LendError::IsLent(qid));
    }
    if queue.outstanding() > 0 || queue.waiting() > 0 {
        return Err(LendError::IsInUse(qid));
    }
    if !queue.methods.get().is_empty() {
        return Err(LendError::HasMethods(qid));
    }
    let loan = Loan::new(&sets.core.clock, route, lender);
    borrower.core.borrowed.add(&loan);
    let lent = Rc::new(Lent { borrower: borrower.clone(), loan: loan.clone() });
    sets.lending.queues.borrow_mut().insert(qid, lent);
    queue.is_lent.set(true);
    Ok(loan)
}

/// Takes a queue back, if it is lent and nothing of it is under way.
pub(crate) fn take_back(sets: &CommandSets, qid: u16) -> Result<(), LendError> {
    let Some(queue) = sets.core.queues.submission(qid).filter(|queue| queue.is_lent.get()) else {
        return Ok(());
    };
    if queue.outstanding() > 0 || queue.waiting() > 0 {
        return Err(LendError::IsInUse(qid));
    }
    queue.is_lent.set(false);
    if let Some(lent) = sets.lending.queues.borrow_mut().remove(&qid) {
        lent.loan.end();
    }
    Ok(())
}
