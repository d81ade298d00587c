//! The host's task in a JBOF: it reads the tables, binds and unbinds the queue pairs that lenders lend, and sets the
//! share of each lender in a queue pair's commands.
//!
//! The host binds only a descriptor that is valid, claimed and served, to all queue pairs of the borrower's users; the
//! descriptor names the one that was busiest when it was claimed. A binding ends when that no longer holds, when the
//! table can't be read, or when the lender's controller was reset or replaced. From then on no command is redirected,
//! those in flight drain, and only then is the descriptor unbound, so that the lender may use its queue again. Other
//! bindings do not wait for that.
//!
//! A reset of a lender makes the lent queue its own again. Its firmware withdraws the descriptor when the reset begins,
//! and lends nothing until it is done, so a new binding is always of a queue lent since. A binding from before is
//! recognized by the number of resets that the host counts.
//!
//! A descriptor marked as bound that is not known here was bound before the host restarted, or belongs to a table that
//! was unreadable for a while: no command is in flight through it, and it is unbound.

use super::config::Defect;
use super::state::{Bound, Inner};
use crate::decision::DriveId;
use crate::decision::descriptor::{DESCRIPTORS, Descriptor, Resource, Utilisation};
use crate::decision::policy::{self, Load, Weight};
use crate::fabric::Node;
use std::rc::Rc;

/// Runs the host's task.
pub(super) async fn bind(inner: Rc<Inner>) {
    let Inner { clock, config, members, .. } = &*inner;
    loop {
        clock.sleep_until(config.next_look(clock.now(), 1)).await;
        for lender in 0..members.len() {
            let is_read = inner.read_table(Node::Host, lender).await.is_ok();
            inner.let_go(lender, is_read);
            if is_read {
                (0..DESCRIPTORS).for_each(|index| inner.bind(lender, index));
            }
        }
    }
}

impl Inner {
    /// Ends bindings of a lender that are over. `is_read`: its table was read.
    fn let_go(&self, lender: usize, is_read: bool) {
        let table = &self.members[lender].table;
        let life = self.members[lender].present().map(|present| present.life);
        let (mut changed, mut over) = (Vec::new(), Vec::new());
        self.bound.borrow_mut().retain(|it| {
            if it.lender != lender {
                return true;
            }
            let is_the_same = is_read && life == Some(it.life);
            let stands = |now: Descriptor| {
                now.may_be_bound() && now.borrower.is_some_and(|to| usize::from(to.0) == it.borrower)
            };
            if is_the_same && it.redirection.holds(it.id) && table.read(it.index).is_some_and(stands) {
                changed.push(it.borrower);
                return true;
            }
            it.redirection.leave(it.id);
            // A command in flight counts even if its user is gone.
            let is_drained = it.redirection.in_flight(it.id) == 0 && it.shadow.outstanding() == 0;
            if !is_drained && !self.config.defect.has(Defect::UnbindWithoutDrain) {
                return true;
            }
            it.redirection.forget(it.id);
            if is_the_same {
                over.push(it.index);
            }
            changed.push(it.borrower);
            false
        });
        let is_bound = |index: usize| {
            let bound = self.bound.borrow();
            bound.iter().any(|it| (it.lender, it.index) == (lender, index))
        };
        over.retain(|index| !is_bound(*index));
        over.sort_unstable();
        over.dedup();
        over.into_iter().for_each(|index| table.unbind(index));
        changed.sort_unstable();
        changed.dedup();
        changed.into_iter().for_each(|borrower| self.share_out(borrower));
    }

    /// Binds a descriptor of a table that was read, if possible.
    fn bind(&self, lender: usize, index: usize) {
        let member = &self.members[lender];
        let Some(now) = member.table.read(index) else { return };
        if self.bound.borrow().iter().any(|it| (it.lender, it.index) == (lender, index)) {
            return;
        }
        if now.bound {
            member.table.unbind(index);
            return;
        }
        let Some(DriveId(borrower)) = now.borrower.filter(|_| now.may_be_bound()) else { return };
        let borrower = usize::from(borrower);
        let Resource::Processor { borrower_queue, .. } = now.resource else { return };
        let (Some(present), Some(from)) = (member.present(), member.attached()) else { return };
        let Some(to) = self.members.get(borrower).and_then(|member| member.attached()) else { return };
        if to.find(borrower_queue).is_none() || member.table.bind(index).is_none() {
            return;
        }
        let life = present.life;
        for user in to.users.borrow().iter() {
            let (redirection, shadow) = (user.redirection.clone(), from.shadow.clone());
            let id = redirection.bind_loan(shadow.clone(), &to.driver, lender as u8);
            let queue = redirection.queue().cqid();
            let bound = Bound { lender, life, index, borrower, queue, shadow, redirection, id };
            self.bound.borrow_mut().push(bound);
        }
        self.share_out(borrower);
    }

    /// Sets the share of each lender in a borrower's commands, queue pair by queue pair, as [`policy::next_shares`]
    /// says.
    ///
    /// An idle drive counts as 1 % busy ([`policy::shares`]). Several lenders of a queue pair share by the same
    /// measure; several queue pairs of a borrower have the same lenders, whose weight is divided among them.
    fn share_out(&self, borrower: usize) {
        let bound = self.bound.borrow();
        let mut queues: Vec<u16> =
            bound.iter().filter(|it| it.borrower == borrower).map(|it| it.queue).collect();
        queues.sort_unstable();
        queues.dedup();
        let count = queues.len() as u32;
        for queue in queues {
            let of_queue: Vec<&Bound> =
                bound.iter().filter(|it| (it.borrower, it.queue) == (borrower, queue)).collect();
            self.share_out_queue(borrower, (queue, count), &of_queue, &bound);
        }
    }

    /// Like [`Inner::share_out`], for one of `count` queue pairs.
    fn share_out_queue(
        &self,
        borrower: usize,
        (queue, count): (u16, u32),
        of_queue: &[&Bound],
        bound: &[Bound],
    ) {
        let weight = |drive: usize, queue: u16| {
            let is_bound = bound.iter().any(|it| it.lender == drive);
            let attached = self.members[drive].attached()?;
            Some(attached.weight(self.config.weights, queue, is_bound))
        };
        let mut own = Utilisation::of(1.0);
        let mut lenders = Vec::with_capacity(of_queue.len());
        for it in of_queue {
            let descriptor = self.members[it.lender].table.read(it.index);
            if let Some(Resource::Processor { borrower, lender, .. }) = descriptor.map(|it| it.resource)
                && let Some(weight) = weight(it.lender, it.shadow.cqid())
            {
                let weight = Weight { own: (weight.own / count.max(1)).max(1), ..weight };
                own = borrower;
                lenders.push((*it, Load { utilisation: lender, weight }));
            }
        }
        let Some(weight) = weight(borrower, queue) else { return };
        let loads: Vec<Load> = lenders.iter().map(|(_, load)| *load).collect();
        let now: Vec<f64> = lenders.iter().map(|(it, _)| it.redirection.share(it.id)).collect();
        let next =
            policy::next_shares(&now, Load { utilisation: own, weight }, &loads, self.config.watermark);
        for ((it, _), share) in lenders.iter().zip(next) {
            it.redirection.set_share(it.id, share);
        }
    }
}
