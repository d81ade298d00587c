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
//! A command that a lender has not carried out (Command Interrupted, or its queue is gone) goes by the borrower's queue pair. It may
//! have been carried out in part, or whole: those that are redirected are the same if done twice, as long as the lender does not go on
//! with the first when the second is under way. A controller that is reset has ended its commands when its driver says so; and its
//! queue pair is its own from then on, so nothing goes by it any more until it is bound anew.

use crate::error::Lost;
use crate::queue::{Carried, QueuePair, Request, Routed, Routes};
use byteway_clock::random::Stream;
use byteway_clock::{Clock, Delay, Notify};
use byteway_wire::nvme::command::FUSE_NONE;
use byteway_wire::nvme::{Cqe, NvmOpcode, Sqe, Status};
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
        let id = ShadowId(self.0.next.replace(self.0.next.get() + 1));
        let epoch = queue.submission.epoch();
        let (share, under_way, is_leaving) = Default::default();
        self.0.shadows.borrow_mut().push(Rc::new(Shadow { id, queue, epoch, share, under_way, is_leaving }));
        id
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
        self.0.shadows.borrow_mut().retain(|shadow| shadow.id != id);
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
            let done = under_way.shadow.queue.execute_placed(&attempt).await;
            drop(under_way);
            match done {
                Ok(cqe) if !cqe.status().is(Status::COMMAND_INTERRUPTED) => return Ok(cqe),
                Ok(_) | Err(_) => self.count(|figures| figures.returned += 1),
            }
        }
        self.own.execute_placed(request).await
    }
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
