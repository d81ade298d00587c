//! The host's part: it reads the tables, binds the queue pairs that lenders lend, unbinds them, and sets which part of a queue pair's
//! commands goes by which.
//!
//! The host binds what is valid, claimed and served, and only that. A binding is over when that does not hold any more, when the table can't
//! be read, or when the lender's controller was reset or is another one. From then on no command is redirected, those that are under way
//! drain, and only then is the descriptor unbound, so that the lender may use its queue again. Other bindings do not wait for that.
//!
//! What stands as bound and is not known here was bound by a host before its restart, or is of a table that could not be read for a
//! while: nothing is under way by it, and it is unbound.

use super::Inner;
use super::daemon::next_look;
use super::failure::Canary;
use byteway_host::{QueuePair, Redirection, ShadowId};
use byteway_jbof::DriveId;
use byteway_jbof::descriptor::{DESCRIPTORS, Descriptor, Resource, Utilisation};
use byteway_jbof::fabric::Node;
use byteway_jbof::policy::{self, Load};
use std::cell::Cell;
use std::rc::Rc;

/// By what a lender's part becomes larger in a period, at most; and the least that it is.
const MORE: f64 = 1.25;
const LEAST: f64 = 0.01;

/// What the host has bound: a shadow queue pair of a lender to a queue pair of a borrower.
pub(super) struct Bound {
    lender: usize,
    /// In which life of the lender.
    life: u64,
    index: usize,
    borrower: usize,
    /// The completion queue of the borrower's queue pair.
    queue: u16,
    shadow: QueuePair,
    redirection: Redirection,
    id: ShadowId,
    /// No larger part of the commands goes there: what leaves the lender below the watermark.
    most: Cell<f64>,
}

/// The host's part: it reads the tables, and binds and unbinds.
pub(super) async fn bind(inner: Rc<Inner>) {
    let Inner { clock, config, members, .. } = &*inner;
    loop {
        clock.sleep_until(next_look(clock, config.period, 1)).await;
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
    /// Ends what the host has bound of a lender and is over. `is_read`: its table was read.
    fn let_go(&self, lender: usize, is_read: bool) {
        let table = &self.members[lender].table;
        let life = self.members[lender].present().map(|present| present.life);
        let mut changed = Vec::new();
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
            // A command whose user has gone is under way all the same.
            let is_drained = it.redirection.under_way(it.id) == 0 && it.shadow.outstanding() == 0;
            if !is_drained && self.config.canary != Some(Canary::UnbindWithoutDrain) {
                return true;
            }
            it.redirection.forget(it.id);
            if is_the_same {
                table.unbind(it.index);
            }
            changed.push(it.borrower);
            false
        });
        changed.sort_unstable();
        changed.dedup();
        changed.into_iter().for_each(|borrower| self.share_out(borrower));
    }

    /// Binds a descriptor of a table that was read, if it may be.
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
        let Resource::Processor { borrower_queue: queue, borrower: busy, lender: own, .. } = now.resource
        else {
            return;
        };
        let (Some(present), Some(from)) = (member.present(), member.attached()) else { return };
        let Some(to) = self.members.get(borrower).and_then(|member| member.attached()) else { return };
        let Some(redirection) = to.find(queue) else { return };
        if member.table.bind(index).is_none() {
            return;
        }
        let shadow = from.shadow.clone();
        let id = redirection.bind_loan(shadow.clone(), &to.driver, lender as u8);
        // As if what keeps the borrower busy were all that it has to do: what the lender can take of that.
        let room = self.config.watermark - own.share();
        let most = Cell::new((room / busy.share().max(0.01)).clamp(LEAST, 1.0));
        let life = present.life;
        let bound = Bound { lender, life, index, borrower, queue, shadow, redirection, id, most };
        self.bound.borrow_mut().push(bound);
        self.share_out(borrower);
    }

    /// Sets which part of a borrower's commands goes by which of its lenders, queue pair by queue pair: what the paper's formula says,
    /// but no more than leaves a lender below the watermark, so that its own work does not wait. The formula alone makes both equally
    /// busy, which is too busy where the borrower has no end of commands.
    ///
    /// A drive that is idle counts as busy by 1 % ([`policy::shares`]). Several lenders of one queue pair share by the same measure;
    /// several queue pairs of a borrower each have their own lenders, and weigh less for it.
    fn share_out(&self, borrower: usize) {
        let bound = self.bound.borrow();
        let mut queues: Vec<u16> =
            bound.iter().filter(|it| it.borrower == borrower).map(|it| it.queue).collect();
        queues.sort_unstable();
        queues.dedup();
        for queue in queues {
            let of_queue: Vec<&Bound> =
                bound.iter().filter(|it| (it.borrower, it.queue) == (borrower, queue)).collect();
            self.share_out_queue(borrower, queue, &of_queue, &bound);
        }
    }

    fn share_out_queue(&self, borrower: usize, queue: u16, of_queue: &[&Bound], bound: &[Bound]) {
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
                own = borrower;
                lenders.push((*it, Load { utilisation: lender, weight }));
            }
        }
        let Some(weight) = weight(borrower, queue) else { return };
        let loads: Vec<Load> = lenders.iter().map(|(_, load)| *load).collect();
        let shares = policy::shares(Load { utilisation: own, weight }, &loads);
        for ((it, load), share) in lenders.iter().zip(shares) {
            let room = self.config.watermark / load.utilisation.share().max(0.01);
            let most =
                if room < 1.0 { it.most.get().min(share) * room } else { it.most.get() * room.min(MORE) };
            it.most.set(most.clamp(LEAST, 1.0));
            it.redirection.set_share(it.id, share.min(it.most.get()));
        }
    }
}
