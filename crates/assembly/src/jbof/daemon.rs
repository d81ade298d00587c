//! A drive's daemon: each period its monitor looks, and its manager lends, borrows, or does neither.
//!
//! A drive borrows of as many peers as [`JbofConfig::loans_max`](super::JbofConfig::loans_max) says, one more each time that all it
//! has claimed are bound and it is above the watermark still; each for the queue pair that has most commands outstanding for each lender
//! that it has already. It gives them back one by one, as soon as it and those that are left can do without.

use super::Inner;
use super::failure::Canary;
use super::member::{Borrowing, Member, Present, Then};
use byteway_clock::{Clock, Delay, Time};
use byteway_firmware::Work;
use byteway_jbof::DriveId;
use byteway_jbof::descriptor::{Descriptor, Resource, TABLE_BYTES, Utilisation};
use byteway_jbof::fabric::{LINE_BYTES, Node};
use byteway_jbof::policy::{self, Action};
use std::rc::Rc;

/// Above it a processor is full: what comes waits.
const FULL: f64 = 0.95;

/// When to look next: at the next multiple of the period, and `quarters` of a period behind it.
pub(super) fn next_look(clock: &Clock, period: Delay, quarters: u64) -> Time {
    let period = period.0.max(4);
    let behind = period / 4 * quarters;
    Time(((clock.now().0 - behind.min(clock.now().0)) / period + 1) * period + behind)
}

/// Why a table was not read: its drive has no power, or the link to it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreachable;

/// A drive's daemon: monitor and manager.
pub(super) async fn daemon(inner: Rc<Inner>, number: usize, own: Rc<Present>) {
    let Inner { clock, config, members, .. } = &*inner;
    let member = &members[number];
    let mut then = Then::now(clock.now(), &member.site);
    inner.give_all_back(number).await;
    loop {
        clock.sleep_until(next_look(clock, config.period, 0)).await;
        let (processor, alone, data_end) = member.monitor(&own.powered, clock.now(), &mut then);
        let service = member.site.spend(Work::Poll, config.daemon);
        clock.sleep_until(service.end).await;
        // What it does for a borrower is no reason to end that: it lends what its own work leaves.
        let action = policy::action(alone, data_end, config.watermark);
        // One that is full while it lends has work of its own waiting behind that of others, though its own had not begun when the
        // period did.
        let is_full = processor > FULL && alone > 1.0 - config.watermark;
        let borrows_none = own.borrows.borrow().is_empty();
        member.lend(&inner, number, &own, action == Action::Lend && borrows_none && !is_full);
        inner.keep_or_give_back(number, &own, action == Action::Borrow, processor).await;
        if action == Action::Borrow {
            inner.borrow(number, &own, processor).await;
        }
    }
}

impl Inner {
    /// Whether a drive's table can be read from there.
    pub(super) fn is_reachable(&self, from: Node, of: usize) -> bool {
        let is_there = self.members.get(of).is_some_and(|member| member.present().is_some());
        is_there && self.fabric.reaches(from, Node::Drive(of))
    }

    /// Reads a table over the fabric.
    pub(super) async fn read_table(&self, from: Node, of: usize) -> Result<(), Unreachable> {
        if !self.is_reachable(from, of) {
            return Err(Unreachable);
        }
        let asked = self.fabric.send(from, Node::Drive(of), 0);
        self.clock.sleep_until(asked.arrival).await;
        let table = self.fabric.send(Node::Drive(of), from, TABLE_BYTES as u64);
        self.clock.sleep_until(table.arrival).await;
        if self.is_reachable(from, of) { Ok(()) } else { Err(Unreachable) }
    }

    /// Writes a line of a peer's table. What is written is there when this ends.
    pub(super) async fn write_table(&self, from: Node, of: usize) -> Result<(), Unreachable> {
        if !self.is_reachable(from, of) {
            return Err(Unreachable);
        }
        let said = self.fabric.send(from, Node::Drive(of), LINE_BYTES);
        self.clock.sleep_until(said.arrival).await;
        if self.is_reachable(from, of) { Ok(()) } else { Err(Unreachable) }
    }

    /// A drive whose power has come knows nothing of what it had claimed before: it gives that back.
    async fn give_all_back(&self, number: usize) {
        for peer in (0..self.members.len()).filter(|peer| *peer != number) {
            if self.read_table(Node::Drive(number), peer).await.is_ok() {
                self.members[peer].table.forget(DriveId(number as u8));
            }
        }
    }

    /// Has a drive tell its lenders how busy it is, and give back what it can do without, or what is of no use any more.
    async fn keep_or_give_back(&self, number: usize, own: &Present, wants: bool, processor: f64) {
        let (me, here) = (DriveId(number as u8), Node::Drive(number));
        self.give_back_forgotten(number, own).await;
        let all = own.borrows.borrow().clone();
        // What a lender says of itself may be of before it had anything to do for this drive: so not at the first look.
        let calm = if wants { 0 } else { own.calm.get() + 1 };
        own.calm.set(calm);
        let mut may_give_back = calm > 1;
        for borrowing in all.into_iter().rev() {
            let Borrowing { lender, index, queue } = borrowing;
            let table = &self.members[lender].table;
            // What it says is a line that crosses, like what it gives back. A table that can't be read offers nothing, and what was
            // borrowed of its drive is over.
            let is_there = self.write_table(here, lender).await.is_ok();
            let has = table.read(index).filter(|it| is_there && it.valid && it.borrower == Some(me));
            let is_used = self.members[number].attached().is_some_and(|own| own.find(queue).is_some());
            match has.map(|it| it.resource) {
                // It is less busy because a part of its commands goes elsewhere: what the lender does may all be for it.
                Some(Resource::Processor { lender, .. })
                    if !is_used || may_give_back && processor + lender.share() <= self.config.watermark =>
                {
                    table.give_back(index, me);
                    own.no_longer_borrows(borrowing);
                    may_give_back = false; // first it is seen what that does
                }
                Some(_) => table.update(index, |resource| {
                    if let Resource::Processor { borrower, .. } = resource {
                        *borrower = Utilisation::of(processor);
                    }
                }),
                None => {
                    own.no_longer_borrows(borrowing);
                    if !is_there {
                        own.forgotten.borrow_mut().push((lender, index));
                    }
                }
            }
        }
    }

    /// A lender that could not be reached for less than a period may not have noticed: what this drive took to be over then is its own
    /// still in that table. It gives it back when it can.
    async fn give_back_forgotten(&self, number: usize, own: &Present) {
        let me = DriveId(number as u8);
        for (lender, index) in own.forgotten.take() {
            if self.write_table(Node::Drive(number), lender).await.is_err() {
                own.forgotten.borrow_mut().push((lender, index));
                continue;
            }
            let is_known = own.borrows.borrow().iter().any(|it| (it.lender, it.index) == (lender, index));
            let table = &self.members[lender].table;
            let is_processor = |it: &Descriptor| matches!(it.resource, Resource::Processor { .. });
            if !is_known && table.read(index).is_some_and(|it| it.borrower == Some(me) && is_processor(&it)) {
                table.give_back(index, me);
            }
        }
    }

    /// Has a drive borrow a processor of a peer, if it may borrow one more.
    async fn borrow(&self, number: usize, own: &Present, processor: f64) {
        let (member, me) = (&self.members[number], DriveId(number as u8));
        let here = Node::Drive(number);
        let is_bound =
            |it: &Borrowing| self.members[it.lender].table.read(it.index).is_some_and(|it| it.bound);
        let (count, all_bound) = {
            let borrows = own.borrows.borrow();
            (borrows.len(), borrows.iter().all(is_bound))
        };
        if count >= self.config.loans_max || !all_bound || own.lends.borrow().is_some() {
            return;
        }
        let mut offers = Vec::new();
        for peer in (0..self.members.len()).filter(|peer| *peer != number) {
            if self.read_table(here, peer).await.is_err() {
                continue;
            }
            let free = self.members[peer].table.iter().filter(|(_, it)| it.valid && it.borrower.is_none());
            offers
                .extend(free.filter(|(_, it)| !it.served && !it.bound).map(|(index, it)| (peer, index, it)));
        }
        let is_stale = self.config.canary == Some(Canary::StaleDescriptor);
        if is_stale {
            offers = own.seen.replace(offers); // of its last look
        }
        let idle = |descriptor: &Descriptor| match descriptor.resource {
            Resource::Processor { lender, .. } => u64::from(u16::MAX - lender.0),
            Resource::Dram { .. } => 0,
        };
        // Half of what it needs, so that both are as busy.
        let wanted = (processor / 2.0 * f64::from(u16::MAX)) as u64;
        let Some(queue) = busiest_queue(member, own) else { return };
        // Peers that look at the same moment find the same one to be best: who comes too late takes the next.
        while let Some(best) = policy::best_fit(offers.iter().map(|(.., it)| idle(it)), wanted) {
            let (lender, index, seen) = offers.swap_remove(best);
            if self.write_table(here, lender).await.is_err() {
                continue;
            }
            let table = &self.members[lender].table;
            let claimed = match is_stale {
                true => {
                    table.take(index, me);
                    true
                }
                false => table.claim(index, &seen, me).is_ok(),
            };
            if !claimed {
                continue;
            }
            table.update(index, |resource| {
                if let Resource::Processor { borrower_queue, borrower, .. } = resource {
                    (*borrower_queue, *borrower) = (queue, Utilisation::of(processor));
                }
            });
            own.borrows.borrow_mut().push(Borrowing { lender, index, queue });
            return member.count(|figures| figures.borrowed += 1);
        }
    }
}

/// The completion queue of a drive's users with most commands outstanding for each drive that takes some of them.
fn busiest_queue(member: &Member, own: &Present) -> Option<u16> {
    let attached = member.attached()?;
    let borrows = own.borrows.borrow();
    let queues = attached.own.borrow();
    let load = |queue: &byteway_host::QueuePair| {
        let takers = 1 + borrows.iter().filter(|it| it.queue == queue.cqid()).count();
        (queue.outstanding() * 1000 / takers, queue.qid())
    };
    let busiest = queues.iter().map(|own| own.redirection.queue()).max_by_key(load);
    busiest.map(|queue| queue.cqid())
}

impl Present {
    fn no_longer_borrows(&self, borrowing: Borrowing) {
        self.borrows.borrow_mut().retain(|it| *it != borrowing);
    }
}
