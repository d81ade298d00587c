//! Shadow queue pairs: queue pairs of other drives by which a part of a queue pair's commands goes ("Espresso", 4.4).
//!
//! A drive that is busy borrows the processors of others: each lends it a queue pair of its own, whose commands it executes on the
//! borrower's data. To who uses the borrower's queue pair there is one; here each command is sent by it, or, with the shares that are
//! set, by a shadow queue pair. Which one is drawn from a stream of random numbers, so a run is the same again.
//!
//! Only Read, Write, Write Zeroes, Compare and Verify are redirected, without a payload of their own in the queue, and not fused: what
//! concerns more than its blocks (Flush, Dataset Management, Copy, vendor commands) is the borrower's own to do. NVMe orders no commands
//! (NVMe Base 2.1, 3.3.2), so commands by several queue pairs are as good as by one; who needs an order waits for completions, which is
//! the same by any of them.
//!
//! A command that a lender has not carried out (Command Interrupted, or aborted by its driver's own time limit, or its queue is gone)
//! goes by the borrower's queue pair. It may have been carried out in part, or whole: those that are redirected are the same if done
//! twice, as long as the lender does not go on with the first when the second is under way. That is ensured so:
//!
//! - One that has completed is not gone on with.
//! - One that has no completion, as the lender has failed ("multiple I/O timeouts occur", 4.5), may still be gone on with: so the borrower
//!   revokes the loan before the command goes by its queue pair ([`Redirection::bind_loan`]). What the lender does after that
//!   reaches nothing of the borrower's. If the borrower can't be asked, the command is lost as the lender's commands are.
//!
//! A controller that was reset has its queue pair for its own from then on, so nothing goes by it any more until it is bound anew.
//!
//! An Abort names a queue and an identifier there: those of a redirected command are the shadow queue pair's, which its users can't
//! know. The lender's driver aborts it when it takes too long; an Abort of the borrower's finds nothing, and says so.

use crate::driver::Driver;
use crate::error::{DriverError, Lost};
use crate::queue::{Carried, QueuePair, Request, Routed, Routes};
use byteway_clock::random::Stream;
use byteway_clock::{Clock, Delay, Notify};
use byteway_wire::nvme::command::FUSE_NONE;
use byteway_wire::nvme::vendor::loans::Loans;
use byteway_wire::nvme::{Cqe, NvmOpcode, SetFeatures, Sqe, Status, fid};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A shadow queue pair of a [`Redirection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowId(u64);

struct Shadow {
    id: ShadowId,
    queue: QueuePair,
    /// How often the queue pair had been reset when it was bound: a reset makes it the lender's own again.
    epoch: u64,
    /// The part of all commands that goes by it.
    share: Cell<f64>,
    under_way: Cell<u32>,
    /// No further command goes by it.
    is_leaving: Cell<bool>,
    /// What the borrower revokes when the lender has failed.
    loan: Option<LoanOf>,
    revocation: Cell<Revocation>,
}

/// A loan as the borrower's host has it.
struct LoanOf {
    borrower: Driver,
    lender: u8,
}

/// How far the borrower is with revoking a loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Revocation {
    NotAsked,
    Asked,
    Done,
}

/// What went which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedirectionFigures {
    /// Commands in all.
    pub commands: u64,
    /// Those that went by a shadow queue pair.
    pub redirected: u64,
    /// Of these, those that came back and went by the borrower's queue pair.
    pub returned: u64,
    /// Loans that were revoked, as their lenders had failed.
    pub revoked: u64,
}

/// A queue pair with shadow queue pairs. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Redirection(Rc<Inner>);

struct Inner {
    own: QueuePair,
    draws: RefCell<Stream>,
    /// Processor time for each command, to decide.
    cost: Delay,
    clock: Clock,
    shadows: RefCell<Vec<Rc<Shadow>>>,
    next: Cell<u64>,
    figures: Cell<RedirectionFigures>,
    ended: Notify,
}

impl Redirection {
    /// Of `own`, without any as yet. Which way a command goes is drawn from `draws`, and takes `cost` of the processor that submits
    /// as long as there are any.
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

    /// The queue pair for those who use it: what is [executed](QueuePair::execute) by it may be redirected. Batches are not.
    pub fn queue(&self) -> QueuePair {
        QueuePair { routes: Some(self.0.clone()), ..self.0.own.clone() }
    }

    /// Binds a shadow queue pair, by which nothing goes as yet. If its controller is reset, nothing goes by it any more.
    pub fn bind(&self, queue: QueuePair) -> ShadowId {
        self.add(queue, None)
    }

    /// The same, where the lender is known to the drive of `borrower` by its number, and can be lost in the middle of commands.
    pub fn bind_loan(&self, queue: QueuePair, borrower: &Driver, lender: u8) -> ShadowId {
        self.add(queue, Some(LoanOf { borrower: borrower.clone(), lender }))
    }

    fn add(&self, queue: QueuePair, loan: Option<LoanOf>) -> ShadowId {
        let id = ShadowId(self.0.next.replace(self.0.next.get() + 1));
        let epoch = queue.submission.epoch();
        let (share, under_way, is_leaving) = Default::default();
        let revocation = Cell::new(Revocation::NotAsked);
        let shadow = Shadow { id, queue, epoch, share, under_way, is_leaving, loan, revocation };
        self.0.shadows.borrow_mut().push(Rc::new(shadow));
        id
    }

    /// Whether commands may go by a shadow queue pair: it is not on its way out, and its controller has not been reset or given up.
    pub fn holds(&self, id: ShadowId) -> bool {
        let holds =
            |shadow: Rc<Shadow>| !shadow.is_leaving.get() && shadow.queue.submission.epoch() == shadow.epoch;
        self.0.find(id).is_some_and(holds)
    }

    /// No further command goes by a shadow queue pair.
    pub fn leave(&self, id: ShadowId) {
        if let Some(shadow) = self.0.find(id) {
            shadow.is_leaving.set(true);
        }
    }

    /// Forgets a shadow queue pair, whatever is under way by it.
    pub fn forget(&self, id: ShadowId) {
        self.0.shadows.borrow_mut().retain(|shadow| shadow.id != id);
    }

    /// From now on this part of the commands goes by a shadow queue pair, from 0 to 1. If all together are more than 1, those that
    /// were bound first have theirs.
    pub fn set_share(&self, id: ShadowId, share: f64) {
        if let Some(shadow) = self.0.find(id) {
            shadow.share.set(share.clamp(0.0, 1.0));
        }
    }

    /// The part of the commands that goes by a shadow queue pair.
    pub fn share(&self, id: ShadowId) -> f64 {
        self.0.find(id).map_or(0.0, |shadow| shadow.share.get())
    }

    /// Takes a shadow queue pair away, and waits until no command is under way by it.
    pub async fn unbind(&self, id: ShadowId) {
        let Some(shadow) = self.0.find(id) else { return };
        shadow.is_leaving.set(true);
        while shadow.under_way.get() > 0 {
            self.0.ended.notified().await;
        }
        self.forget(id);
    }

    /// Commands under way by a shadow queue pair.
    pub fn under_way(&self, id: ShadowId) -> u32 {
        self.0.find(id).map_or(0, |shadow| shadow.under_way.get())
    }

    /// What went which way.
    pub fn figures(&self) -> RedirectionFigures {
        self.0.figures.get()
    }
}

/// Counts a command by a shadow queue pair, also if who waits for it is dropped.
struct UnderWay<'a> {
    inner: &'a Inner,
    shadow: Rc<Shadow>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.shadow.under_way.set(self.shadow.under_way.get() - 1);
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

    /// The shadow queue pair that a command goes by.
    fn draw(&self) -> Option<UnderWay<'_>> {
        let drawn = self.draws.borrow_mut().unit();
        let mut sum = 0.0;
        let shadows = self.shadows.borrow();
        let shadow = shadows.iter().filter(|shadow| !shadow.is_leaving.get()).find(|shadow| {
            sum += shadow.share.get();
            drawn < sum
        })?;
        shadow.under_way.set(shadow.under_way.get() + 1);
        Some(UnderWay { inner: self, shadow: shadow.clone() })
    }

    async fn go(&self, request: &Request<'_>) -> Result<Cqe, Lost> {
        self.count(|figures| figures.commands += 1);
        if self.shadows.borrow().is_empty() || !may_go(request) {
            return self.own.execute_placed(request).await;
        }
        let service = self.own.cpu().reserve_for("submit", self.cost);
        self.clock.sleep_until(service.end).await;
        if let Some(under_way) = self.draw() {
            self.count(|figures| figures.redirected += 1);
            let attempt = Request { epoch: Some(under_way.shadow.epoch), ..*request };
            match under_way.shadow.queue.execute_placed(&attempt).await {
                Ok(cqe) if !was_given_back(cqe.status()) => return Ok(cqe),
                Ok(_) => {}
                Err(lost) => {
                    under_way.shadow.is_leaving.set(true);
                    if !self.revoke(&under_way.shadow).await {
                        return Err(lost);
                    }
                }
            }
            self.count(|figures| figures.returned += 1);
        }
        self.own.execute_placed(request).await
    }
}

impl Inner {
    /// Has the borrower take nothing more from a lender that does not answer. False: it can't be asked.
    async fn revoke(&self, shadow: &Shadow) -> bool {
        let Some(loan) = &shadow.loan else { return true };
        while shadow.revocation.get() == Revocation::Asked {
            self.ended.notified().await; // by another command
        }
        if shadow.revocation.get() == Revocation::Done {
            return true;
        }
        shadow.revocation.set(Revocation::Asked);
        let asking = Asking { inner: self, shadow };
        let cdw11 = Loans::new().with_lender(loan.lender).with_revoke(true).into_bits();
        let answer = loan
            .borrower
            .set_features(SetFeatures { fid: fid::LOANS, cdw11, ..SetFeatures::default() })
            .await;
        // A borrower that is reset, or gone, takes nothing more from anyone.
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

/// Has another command ask if this is dropped without an answer.
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

/// Whether a lender has ended a command without having carried it out: the loan is over, or its driver has aborted it, as it was under
/// way for too long.
fn was_given_back(status: Status) -> bool {
    status.is(Status::COMMAND_INTERRUPTED) || status.is(Status::ABORT_REQUESTED)
}

impl Routes for Inner {
    fn execute<'a>(&'a self, request: &'a Request<'a>) -> Routed<'a> {
        Box::pin(self.go(request))
    }
}

/// Whether a command may be carried out by a lender.
fn may_go(request: &Request<'_>) -> bool {
    let sqe: &Sqe = &request.sqe;
    let opcodes =
        [NvmOpcode::READ, NvmOpcode::WRITE, NvmOpcode::WRITE_ZEROES, NvmOpcode::COMPARE, NvmOpcode::VERIFY];
    matches!(request.carried, Carried::Nothing)
        && request.needs.is_empty()
        && request.result_bytes == 0
        && sqe.fuse() == FUSE_NONE
        && opcodes.contains(&NvmOpcode(sqe.opcode()))
}
