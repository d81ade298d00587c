//! A drive's daemon: in each period its monitor measures, and its manager lends, borrows, or does neither.
//!
//! A drive borrows from as many peers as [`JbofConfig::loans_max`](super::JbofConfig::loans_max) allows: one more
//! whenever all its claims are bound and it is still above the watermark, for the queue pair with most outstanding
//! commands per lender. It gives them back one by one, as soon as it and the remaining lenders can do without.

use super::config::Defect;
use super::monitor::{Busy, Monitor};
use super::state::{Borrowing, Inner, Member, Present};
use crate::decision::DriveId;
use crate::decision::descriptor::{Descriptor, Resource, Utilisation};
use crate::decision::policy::{self, Action};
use crate::fabric::Node;
use byteway_firmware::WorkKind;
use std::rc::Rc;

/// Utilization above which a processor is full: further work waits.
const FULL: f64 = 0.95;

/// Runs a drive's daemon: monitor and manager.
pub(super) async fn daemon(inner: Rc<Inner>, number: usize, own: Rc<Present>) {
    let Inner { clock, config, members, .. } = &*inner;
    let member = &members[number];
    let mut monitor = Monitor::new(clock.now(), &member.site);
    inner.give_all_back(number).await;
    loop {
        clock.sleep_until(config.next_look(clock.now(), 0)).await;
        let Busy { processor, alone, data_end } = monitor.look(member, &own.powered, clock.now());
        let service = member.site.spend(WorkKind::Poll, config.daemon);
        clock.sleep_until(service.end).await;
        // Work for a borrower does not end a loan: the drive lends time that its own work leaves.
        let action = policy::action(alone, data_end, config.watermark);
        // If a lender is full, its own work waits behind that of others, though its own work may have begun after the
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
    /// A drive that has just powered on does not know its former claims: it gives all of them back.
    async fn give_all_back(&self, number: usize) {
        for peer in (0..self.members.len()).filter(|peer| *peer != number) {
            if self.read_table(Node::Drive(number), peer).await.is_ok() {
                self.members[peer].table.forget(DriveId(number as u8));
            }
        }
    }

    /// Reports a drive's utilization to its lenders, and gives back loans that it can do without or can't use any more.
    async fn keep_or_give_back(&self, number: usize, own: &Present, wants: bool, processor: f64) {
        let (me, here) = (DriveId(number as u8), Node::Drive(number));
        self.give_back_forgotten(number, own).await;
        let all = own.borrows.borrow().clone();
        // At the first period a lender's utilization may predate its work for this drive.
        let calm = if wants { 0 } else { own.calm.get() + 1 };
        own.calm.set(calm);
        let mut may_give_back = calm > 1;
        for borrowing in all.into_iter().rev() {
            let Borrowing { lender, index, queue } = borrowing;
            let table = &self.members[lender].table;
            // An update is a line over the fabric, as is a return. An unreadable table offers nothing, and loans of its
            // drive are over.
            let is_there = self.write_table(here, lender).await.is_ok();
            let has = table.read(index).filter(|it| is_there && it.valid && it.borrower == Some(me));
            let is_used = self.members[number].attached().is_some_and(|own| own.find(queue).is_some());
            match has.map(|it| it.resource) {
                // The drive is less busy because some of its commands go elsewhere; all of the lender's work may be for
                // it.
                Some(Resource::Processor { lender, .. })
                    if !is_used || may_give_back && processor + lender.share() <= self.config.watermark =>
                {
                    table.give_back(index, me);
                    own.no_longer_borrows(borrowing);
                    may_give_back = false; // first wait for the effect of this one
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

    /// A lender that was unreachable for less than a period may not have noticed: in its table this drive still has the
    /// loan that it considered over. The drive gives it back when it can.
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

    /// Borrows a peer's processor, if the drive may borrow one more.
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
        let is_stale = self.config.defect.has(Defect::StaleDescriptor);
        if is_stale {
            offers = own.seen.replace(offers); // from the last period
        }
        let idle = |descriptor: &Descriptor| match descriptor.resource {
            Resource::Processor { lender, .. } => u64::from(u16::MAX - lender.0),
            Resource::Dram { .. } => 0,
        };
        // Half of the need, so that both are equally busy.
        let wanted = (processor / 2.0 * f64::from(u16::MAX)) as u64;
        let Some(queue) = busiest_queue(member, own) else { return };
        // Peers in the same period find the same best offer: one that comes too late takes the next.
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

/// The completion queue of the drive's users with most outstanding commands per drive that serves it.
fn busiest_queue(member: &Member, own: &Present) -> Option<u16> {
    let attached = member.attached()?;
    let borrows = own.borrows.borrow();
    let queues = attached.users.borrow();
    let load = |queue: &byteway_host::QueuePair| {
        let takers = 1 + borrows.iter().filter(|it| it.queue == queue.cqid()).count();
        (queue.outstanding() * 1000 / takers, queue.qid())
    };
    let busiest = queues.iter().map(|user| user.redirection.queue()).max_by_key(load);
    busiest.map(|queue| queue.cqid())
}
