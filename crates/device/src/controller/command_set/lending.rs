//! Lending: queues of this controller whose commands are executed for another drive ("Espresso", 4.4: shadow queue
//! pairs).
//!
//! To its host such a queue is like any other I/O queue: it takes part in arbitration, and its commands occupy command
//! slots here, are parsed here and complete here. Execution, from the namespace to the payload's transfer, uses the
//! borrower; its firmware work runs where the loan's route says.

use crate::controller::command_set::CommandSets;
use crate::controller::core::Core;
use crate::controller::queue::ring::{QueueFate, SubmissionQueue};
use crate::controller::state::loan::Loan;
use byteway_firmware::Route;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Why a queue can't be lent or taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LendError {
    /// The queue is not an existing I/O queue.
    #[error("there is no I/O submission queue {0} to lend")]
    NoQueue(u16),
    /// The queue is lent already.
    #[error("submission queue {0} is lent already")]
    IsLent(u16),
    /// Commands are in flight or wait to be fetched: they would be executed for the wrong drive.
    #[error("submission queue {0} has commands in flight")]
    IsInUse(u16),
    /// Transfer methods that use the lender's memory are enabled.
    #[error("submission queue {0} has transfer methods enabled that use the lender's memory")]
    HasMethods(u16),
    /// The lender or the borrower is not enabled, or is being reset, which deletes its queues.
    #[error("lender and borrower must be enabled, and not in a reset")]
    NotEnabled,
    /// Borrower and lender are the same controller.
    #[error("a drive can't lend to itself")]
    IsOwn,
}

/// A lent queue.
pub(crate) struct Lent {
    pub(crate) borrower: Rc<CommandSets>,
    pub(crate) loan: Rc<Loan>,
}

/// Delays a reset of the borrower while a command is executed for it, even if the executing task is killed.
pub(crate) struct HeldByLoan<'a>(&'a Core);

impl<'a> HeldByLoan<'a> {
    pub(crate) fn of(borrower: &'a Core) -> Self {
        borrower.begin();
        HeldByLoan(borrower)
    }
}

impl Drop for HeldByLoan<'_> {
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
    /// The loan of a queue, if it is lent. The list may contain deleted queues.
    #[inline]
    pub(crate) fn of(&self, queue: &SubmissionQueue) -> Option<Rc<Lent>> {
        if queue.is_lent.get() { self.queues.borrow().get(&queue.id).cloned() } else { None }
    }

    /// Forgets all loans: the queues no longer exist.
    pub(crate) fn clear(&self) {
        self.queues.take().values().for_each(|lent| lent.loan.end());
    }

    /// Ends the loan of a queue. The queue stays lent, and further commands of it are not executed.
    pub(crate) fn end(&self, qid: u16) {
        if let Some(lent) = self.queues.borrow().get(&qid) {
            lent.loan.end();
        }
    }
}

/// Whether a controller accepts commands, and no reset is pending.
fn is_enabled(core: &Core) -> bool {
    let admin = core.queues.submission(0);
    core.registers.csts.get().rdy() && admin.is_some_and(|queue| queue.fate.get() == QueueFate::Live)
}

/// Lends the idle queue `qid` to `borrower`, whose placement runs firmware work for it by `route`. `lender` is this
/// drive's number among the borrower's peers.
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
    if ![&sets.core, &borrower.core].into_iter().all(|core| is_enabled(core)) {
        return Err(LendError::NotEnabled);
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

/// Takes an idle lent queue back.
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
