//! The tasks that carry operations across the link, one operation at a time each.

use crate::far::Far;
use crate::far::link::{BlockMark, FarFlash, FarProgram, FarRead, FarStripe, Gone, SystemRequest};
use crate::far::outbox::{Operation, Verb};
use crate::geometry::BlockId;
use crate::priority::Priority;
use crate::ticket::Outcome;
use byteway_clock::{Clock, Notify};
use std::cell::RefCell;
use std::future;
use std::rc::Rc;

/// A request of the system area, with the task that waits for the answer.
pub(super) struct PendingRequest {
    pub(super) request: SystemRequest,
    pub(super) answer: Option<Rc<Answer>>,
}

pub(super) struct Answer {
    pages: RefCell<Option<Vec<Rc<[u8]>>>>,
    there: Notify,
}

impl Answer {
    pub(super) fn new(clock: &Clock) -> Self {
        Answer { pages: RefCell::default(), there: Notify::new(clock) }
    }

    pub(super) async fn wait(&self) -> Vec<Rc<[u8]>> {
        loop {
            if let Some(pages) = self.pages.take() {
                return pages;
            }
            self.there.notified().await;
        }
    }
}

/// Executes operations one after another.
pub(super) async fn run<L: FarFlash>(far: Far, link: Rc<L>, lane: usize) {
    let mut stripe = FarStripe::default();
    loop {
        let mut operation = far.next().await;
        let sent = far.0.clock.now();
        match far.carry_out(&*link, lane, &mut operation, &mut stripe).await {
            Ok(outcome) => {
                let now = far.0.clock.now();
                let (queued, channel) = (sent.since(operation.submitted), now.since(sent));
                far.conclude(operation, Outcome { queued, channel, ..outcome });
            }
            Err(gone) => far.end(&gone),
        }
    }
}

/// Executes requests of the system area one after another.
pub(super) async fn run_system<L: FarFlash>(far: Far, link: Rc<L>) {
    loop {
        let Some(PendingRequest { request, answer }) = far.next_system() else {
            far.0.requested.notified().await;
            continue;
        };
        match (link.system(request).await, answer) {
            (Ok(pages), Some(answer)) => {
                answer.pages.replace(Some(pages));
                answer.there.notify_one();
            }
            (Ok(_), None) => {}
            (Err(gone), _) => far.end(&gone),
        }
    }
}

impl Far {
    fn next_system(&self) -> Option<PendingRequest> {
        if self.0.is_off.get() { None } else { self.0.system.borrow_mut().pop_front() }
    }

    /// Waits for the next operation that may be sent.
    async fn next(&self) -> Operation {
        loop {
            if self.0.is_off.get() {
                future::pending::<()>().await;
            }
            if let Some(operation) = self.0.outbox.borrow_mut().take() {
                return operation;
            }
            self.0.sendable.notified().await;
        }
    }

    async fn carry_out<L: FarFlash>(
        &self,
        link: &L,
        lane: usize,
        operation: &mut Operation,
        landed: &mut FarStripe,
    ) -> Result<Outcome, Gone> {
        let inner = &*self.0;
        let Operation { block, stripe, priority, .. } = *operation;
        let done = match &operation.verb {
            Verb::Read(mask) => {
                let mask = *mask;
                let read = FarRead { block, stripe, mask, contents: true, priority };
                link.read(lane, read, landed).await?;
                return Ok(self.deliver(operation, mask, landed));
            }
            Verb::Learn => {
                self.look(link, lane, block, stripe, landed).await?;
                true
            }
            Verb::Program(batch) => {
                let program = FarProgram { block, stripe, batch, sources: None, priority };
                link.program(lane, program).await?
            }
            Verb::Move(sources, batch) => {
                let program = FarProgram { block, stripe, batch, sources: Some(sources), priority };
                link.program(lane, program).await?
            }
            Verb::Erase => {
                inner.mirror.borrow_mut().begin_erase(block);
                link.erase(lane, block, priority).await?
            }
            Verb::MarkBad => link.mark(block, BlockMark::Bad).await.map(|()| true)?,
            Verb::SetMode(mode) => link.mark(block, BlockMark::Mode(*mode)).await.map(|()| true)?,
            Verb::Sync => link.sync().await.map(|()| true)?,
        };
        match (&mut operation.verb, done) {
            (Verb::Program(batch) | Verb::Move(_, batch), true) => {
                let now_ns = self.calendar_ns();
                inner.mirror.borrow_mut().programmed(block, stripe, batch, now_ns);
            }
            (Verb::Erase, true) => inner.mirror.borrow_mut().end_erase(block),
            (_, true) => {}
            (_, false) => self.look_again(link, lane, block, stripe, landed).await?,
        }
        Ok(Outcome { failed: !done, ..Outcome::default() })
    }

    /// Reads the spare areas of a stripe.
    async fn look<L: FarFlash>(
        &self,
        link: &L,
        lane: usize,
        block: BlockId,
        stripe: u32,
        landed: &mut FarStripe,
    ) -> Result<(), Gone> {
        let mask = self.0.shape.geometry.full_mask();
        let priority = Priority::HostRead;
        link.read(lane, FarRead { block, stripe, mask, contents: false, priority }, landed).await?;
        self.0.mirror.borrow_mut().learn(block, stripe, mask, landed);
        Ok(())
    }

    /// Queries the state of a superblock after a failed program or erase.
    #[cold]
    async fn look_again<L: FarFlash>(
        &self,
        link: &L,
        lane: usize,
        block: BlockId,
        stripe: u32,
        landed: &mut FarStripe,
    ) -> Result<(), Gone> {
        let mut reports = Vec::with_capacity(1);
        link.report(block.0..block.0 + 1, &mut reports).await?;
        let report = reports.first().ok_or_else(|| Gone::because("a superblock was not reported"))?;
        let spoilt = {
            let mut mirror = self.0.mirror.borrow_mut();
            mirror.report(block, report)?;
            mirror.spoilt_from(block, stripe)..report.programmed
        };
        for stripe in spoilt {
            self.look(link, lane, block, stripe, landed).await?;
        }
        Ok(())
    }

    /// Delivers the result of a read.
    fn deliver(&self, operation: &Operation, mask: u64, landed: &mut FarStripe) -> Outcome {
        let inner = &*self.0;
        let Operation { block, stripe, at, .. } = *operation;
        {
            let mut mirror = inner.mirror.borrow_mut();
            mirror.learn(block, stripe, mask, landed);
            let known = mirror.block_mut(block);
            known.reads = known.reads.saturating_add(1);
        }
        let bad = landed.unreadable & mask;
        if let Some(ticket) = operation.ticket {
            inner.desk.tickets(|tickets| {
                let places = tickets.contents_at(ticket, at as usize).iter_mut();
                places.zip(landed.contents.drain(..)).for_each(|(place, content)| *place = content);
                if bad != 0 {
                    tickets.mark_unreadable(ticket, at as usize, mask, bad);
                }
            });
        }
        Outcome { failed: bad != 0, unreadable: bad.count_ones(), ..Outcome::default() }
    }

    /// Completes an operation.
    fn conclude(&self, operation: Operation, outcome: Outcome) {
        let inner = &*self.0;
        let others_wait = inner.outbox.borrow_mut().done(&operation);
        if others_wait {
            // Another lane's operation may have waited for this one.
            inner.sendable.notify_one();
        }
        if let Verb::Program(mut batch) | Verb::Move(_, mut batch) = operation.verb {
            batch.units.clear();
            inner.batches.borrow_mut().push(batch);
        }
        if let Some(ticket) = operation.ticket {
            inner.desk.complete(ticket, outcome);
        }
    }
}
