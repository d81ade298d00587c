//! Redirection: a part of a queue pair's commands goes through shadow queue pairs, which belong to other drives
//! ("Espresso", 4.4).
//!
//! A busy drive borrows the processors of others: each lends it a queue pair, whose commands it executes on the
//! borrower's data. Users of the borrower's queue pair see one queue pair; each command goes through it, or, with the
//! configured shares, through a shadow queue pair. The choice is drawn from a random stream, so runs are reproducible.
//!
//! Only Read, Write, Write Zeroes, Compare and Verify are redirected, and in KV namespaces Retrieve and Store (which
//! share the opcodes of Read and Write), without payload in the queue, and not fused. Commands that concern more than
//! their blocks or their pair (Flush, Dataset Management, Copy, vendor commands) stay with the borrower. So does a
//! Store with a precondition on its key: executed twice, it would give another answer. NVMe does not order commands
//! (NVMe Base 2.1, 3.3.2), so several queue pairs are as good as one; a user that needs an order waits for completions,
//! in any of them.
//!
//! A command that a lender has not executed (Command Interrupted, aborted by its driver's time limit, or its queue is
//! gone) goes to the borrower's queue pair. It may have been executed in part, or in whole: redirected commands are
//! idempotent, as long as the lender does not continue the first execution while the second is in flight. That is
//! ensured as follows:
//!
//! - A command that has completed is not continued.
//! - A command without a completion, because the lender has failed ("multiple I/O timeouts occur", 4.5), may be
//!   continued. So the borrower revokes the loan before the command goes to its queue pair
//!   ([`Redirection::bind_loan`]). Later actions of the lender do not reach the borrower's data. If the borrower can't
//!   be asked, the command is lost like the lender's commands.
//!
//! A reset makes a shadow queue pair its controller's own again, so no command goes through it until it is bound again.
//!
//! An Abort names a queue and an identifier there: those of a redirected command belong to the shadow queue pair, and
//! its users can't know them. The lender's driver aborts it when it takes too long; an Abort at the borrower does not
//! find it, and reports that.

use crate::driver::controller::Driver;
use crate::driver::queue::{Carried, QueuePair, Request, Routed, Routes};
use crate::error::{DriverError, Lost};
use byteway_clock::random::Stream;
use byteway_clock::{Clock, Delay, Notify};
use byteway_wire::nvme::command::FUSE_NONE;
use byteway_wire::nvme::vendor::loans::Loans;
use byteway_wire::nvme::{Cqe, NvmOpcode, SetFeatures, Sqe, Status, fid};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Identifies a shadow queue pair of a [`Redirection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowId(u64);

struct Shadow {
    id: ShadowId,
    queue: QueuePair,
    /// Reset count of the queue pair at binding: a reset makes it the lender's own again.
    epoch: u64,
    /// Fraction of commands that use it.
    share: Cell<f64>,
    in_flight: Cell<u32>,
    /// Whether further commands are barred from it.
    is_leaving: Cell<bool>,
    /// The loan that the borrower revokes when the lender has failed.
    loan: Option<LoanOf>,
    revocation: Cell<Revocation>,
}

/// A loan, from the view of the borrower's host.
struct LoanOf {
    borrower: Driver,
    lender: u8,
}

/// Progress of the borrower in revoking a loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Revocation {
    NotAsked,
    Asked,
    Done,
}

/// Counts of a redirection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedirectionFigures {
    /// Commands.
    pub commands: u64,
    /// The part of `commands` sent to a shadow queue pair.
    pub redirected: u64,
    /// The part of `redirected` that was not executed there, and sent to the borrower's queue pair.
    pub returned: u64,
    /// Loans revoked because their lenders had failed.
    pub revoked: u64,
}

/// A queue pair with shadow queue pairs. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Redirection(Rc<Inner>);

struct Inner {
    own: QueuePair,
    draws: RefCell<Stream>,
    /// Processor time of the decision, per command.
    cost: Delay,
    clock: Clock,
    shadows: RefCell<Vec<Rc<Shadow>>>,
    next: Cell<u64>,
    figures: Cell<RedirectionFigures>,
    ended: Notify,
}

impl Redirection {
    /// A redirection of `own`, without shadow queue pairs yet. Decisions are drawn from `draws`, and take `cost` of the
    /// submitting processor while there are shadow queue pairs.
    pub fn new(clock: &Clock, own: QueuePair, draws: Stream, cost: Delay) -> Redirection {
        Redirection(Rc::new(Inner {
            own,
            draws: RefCell::new(draws),
            cost,
            clock: clock.clone(),
            shadows: RefCell::default(),
            next: Cell::default(),
            figures: Cell::default(),
            ended: Notify::new(clock),
        }))
    }

    /// The queue pair for users: commands [executed](QueuePair::execute) on it may be redirected. Batches are refused.
    pub fn queue(&self) -> QueuePair {
        QueuePair { routes: Some(self.0.clone()), ..self.0.own.clone() }
    }

    /// Binds a shadow queue pair, with a share of 0. A reset of its controller ends its use.
    pub fn bind(&self, queue: QueuePair) -> ShadowId {
        self.add(queue, None)
    }

    /// Like [`Redirection::bind`], for a lender that `borrower`'s drive knows by number, and that may fail during
    /// commands.
    pub fn bind_loan(&self, queue: QueuePair, borrower: &Driver, lender: u8) -> ShadowId {
        self.add(queue, Some(LoanOf { borrower: borrower.clone(), lender }))
    }

    fn add(&self, queue: QueuePair, loan: Option<LoanOf>) -> ShadowId {
        let id = ShadowId(self.0.next.replace(self.0.next.get() + 1));
        let epoch = queue.submission.epoch();
        let (share, in_flight, is_leaving) = Default::default();
        let revocation = Cell::new(Revocation::NotAsked);
        let shadow = Shadow { id, queue, epoch, share, in_flight, is_leaving, loan, revocation };
        self.0.shadows.borrow_mut().push(Rc::new(shadow));
        id
    }

    /// Whether commands may use a shadow queue pair: it is not leaving, and its controller was not reset or
    /// given up.
    pub fn holds(&self, id: ShadowId) -> bool {
        let holds =
            |shadow: Rc<Shadow>| !shadow.is_leaving.get() && shadow.queue.submission.epoch() == shadow.epoch;
        self.0.find(id).is_some_and(holds)
    }

    /// Stops sending commands through a shadow queue pair.
    pub fn leave(&self, id: ShadowId) {
        if let Some(shadow) = self.0.find(id) {
            shadow.is_leaving.set(true);
        }
    }

    /// Removes a shadow queue pair, even with commands in flight.
    pub fn forget(&self, id: ShadowId) {
        self.0.shadows.borrow_mut().retain(|shadow| shadow.id != id);
    }

    /// Sets the share of commands, from 0 to 1, for a shadow queue pair. If the sum exceeds 1, earlier bindings take
    /// precedence.
    pub fn set_share(&self, id: ShadowId, share: f64) {
        if let Some(shadow) = self.0.find(id) {
            shadow.share.set(share.clamp(0.0, 1.0));
        }
    }

    /// The share of commands of a shadow queue pair.
    pub fn share(&self, id: ShadowId) -> f64 {
        self.0.find(id).map_or(0.0, |shadow| shadow.share.get())
    }

    /// Removes a shadow queue pair, after waiting until none of its commands is in flight.
    pub async fn unbind(&self, id: ShadowId) {
        let Some(shadow) = self.0.find(id) else { return };
        shadow.is_leaving.set(true);
        while shadow.in_flight.get() > 0 {
            self.0.ended.notified().await;
        }
        self.forget(id);
    }

    /// Commands in flight through a shadow queue pair.
    pub fn in_flight(&self, id: ShadowId) -> u32 {
        self.0.find(id).map_or(0, |shadow| shadow.in_flight.get())
    }

    /// The counts so far.
    pub fn figures(&self) -> RedirectionFigures {
        self.0.figures.get()
    }
}

/// Counts a command through a shadow queue pair, even if its future is dropped.
struct InFlight<'a> {
    inner: &'a Inner,
    shadow: Rc<Shadow>,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        debug_assert!(self.shadow.in_flight.get() > 0, "a command leaves twice");
        self.shadow.in_flight.set(self.shadow.in_flight.get() - 1);
        self.inner.ended.notify_all();
    }
}

impl Inner {
    fn find(&self, id: ShadowId) -> Option<Rc<Shadow>> {
        self.shadows.borrow().iter().find(|shadow| shadow.id == id).cloned()
    }

    fn count(&self, of: impl FnOnce(&mut RedirectionFigures)) {
        let mut figures = self.figures.get();
        of(&mut figures);
        self.figures.set(figures);
    }

    /// Draws the shadow queue pair for a command; `None`: the borrower's own.
    fn draw(&self) -> Option<InFlight<'_>> {
        let drawn = self.draws.borrow_mut().unit();
        let mut sum = 0.0;
        let shadows = self.shadows.borrow();
        let shadow = shadows.iter().filter(|shadow| !shadow.is_leaving.get()).find(|shadow| {
            sum += shadow.share.get();
            drawn < sum
        })?;
        shadow.in_flight.set(shadow.in_flight.get() + 1);
        Some(InFlight { inner: self, shadow: shadow.clone() })
    }

    async fn redirect(&self, request: &Request<'_>) -> Result<Cqe, Lost> {
        self.count(|figures| figures.commands += 1);
        if self.shadows.borrow().is_empty() || !is_redirectable(request) {
            return self.own.execute_placed(*request).await;
        }
        // The choice is drawn after this wait, from the shares and bindings as they are when the command is sent.
        let service = self.own.cpu().reserve_for("submit", self.cost);
        self.clock.sleep_until(service.end).await;
        if let Some(in_flight) = self.draw() {
            self.count(|figures| figures.redirected += 1);
            // With the epoch of the binding: after a reset the queue pair belongs to the lender again, and refuses the
            // command.
            let attempt = Request { epoch: Some(in_flight.shadow.epoch), ..*request };
            match in_flight.shadow.queue.execute_placed(attempt).await {
                Ok(cqe) if !was_not_executed(cqe.status()) => return Ok(cqe),
                Ok(_) => {}
                Err(lost) => {
                    // Stop first: while the borrower is asked, no further command may go to a lender that has failed.
                    in_flight.shadow.is_leaving.set(true);
                    if !self.revoke(&in_flight.shadow).await {
                        return Err(lost);
                    }
                }
            }
            self.count(|figures| figures.returned += 1);
        }
        self.own.execute_placed(*request).await
    }
}

impl Inner {
    /// Makes the borrower revoke the loan of a lender that does not answer. Returns false if the borrower
    /// cannot be asked.
    async fn revoke(&self, shadow: &Shadow) -> bool {
        let Some(loan) = &shadow.loan else { return true };
        while shadow.revocation.get() == Revocation::Asked {
            self.ended.notified().await; // another command is asking
        }
        if shadow.revocation.get() == Revocation::Done {
            return true;
        }
        debug_assert!(shadow.revocation.get() == Revocation::NotAsked, "a loan is revoked twice");
        shadow.revocation.set(Revocation::Asked);
        let asking = Asking { inner: self, shadow };
        let cdw11 = Loans::new().with_lender(loan.lender).with_revoke(true).into_bits();
        let answer = loan
            .borrower
            .set_features(SetFeatures { fid: fid::LOANS, cdw11, ..SetFeatures::default() })
            .await;
        // A borrower that was reset, or is gone, accepts nothing more from any lender.
        let is_done = match answer {
            Ok(status) => status.is_success(),
            Err(DriverError::Lost { .. } | DriverError::Gone(_)) => true,
            Err(_) => false,
        };
        if is_done {
            shadow.revocation.set(Revocation::Done);
            self.count(|figures| figures.revoked += 1);
        }
        drop(asking);
        is_done
    }
}

/// Lets another command ask if this one is dropped before the answer.
struct Asking<'a> {
    inner: &'a Inner,
    shadow: &'a Shadow,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.shadow.revocation.get() == Revocation::Asked {
            self.shadow.revocation.set(Revocation::NotAsked);
        }
        self.inner.ended.notify_all();
    }
}

/// Whether a lender ended a command without executing it: the loan is over, or the lender's driver aborted it after its
/// time limit.
fn was_not_executed(status: Status) -> bool {
    status.is(Status::COMMAND_INTERRUPTED) || status.is(Status::ABORT_REQUESTED)
}

impl Routes for Inner {
    fn execute<'a>(&'a self, request: &'a Request<'a>) -> Routed<'a> {
        Box::pin(self.redirect(request))
    }
}

/// The options of a Store in CDW11 (NVMe KV Command Set 1.0, figure 26). A Write has bits 40 to 42 of its first block
/// there, which no drive in a JBOF reaches.
const STORE_OPTIONS: u32 = 7 << 8;

/// Whether a command may be redirected.
fn is_redirectable(request: &Request<'_>) -> bool {
    let sqe: &Sqe = &request.sqe;
    if sqe.opcode() == NvmOpcode::WRITE.0 && sqe.cdw11 & STORE_OPTIONS != 0 {
        return false;
    }
    let opcodes =
        [NvmOpcode::READ, NvmOpcode::WRITE, NvmOpcode::WRITE_ZEROES, NvmOpcode::COMPARE, NvmOpcode::VERIFY];
    matches!(request.carried, Carried::Nothing)
        && request.needs.is_empty()
        && request.result_bytes == 0
        && sqe.fuse() == FUSE_NONE
        && opcodes.contains(&NvmOpcode(sqe.opcode()))
}
