//! The host's part: it reads the tables, binds the queue pairs that lenders lend, unbinds them, and sets which part of a queue pair's
//! commands goes by which.

use super::Inner;
use byteway_host::{Redirection, ShadowId};
use byteway_jbof::DriveId;
use byteway_jbof::descriptor::{DESCRIPTORS, Resource, Utilisation};
use byteway_jbof::fabric::Node;
use byteway_jbof::policy::{self, Load, Weight};
use std::rc::Rc;

/// What the host has bound: a shadow queue pair of a lender to a queue pair of a borrower.
pub(super) struct Bound {
    lender: usize,
    index: usize,
    borrower: usize,
    redirection: Redirection,
    id: ShadowId,
}

/// The host's part: it reads the tables, and binds and unbinds.
pub(super) async fn bind(inner: Rc<Inner>) {
    let Inner { clock, config, members, .. } = &*inner;
    loop {
        clock.sleep(config.period).await;
        for lender in 0..members.len() {
            inner.read_table(Node::Host, lender).await;
            for index in 0..DESCRIPTORS {
                inner.bind_or_unbind(lender, index).await;
            }
        }
    }
}

impl Inner {
    async fn bind_or_unbind(self: &Rc<Self>, lender: usize, index: usize) {
        let table = &self.members[lender].table;
        let now = table.read(index);
        let at = self.bound.borrow().iter().position(|it| (it.lender, it.index) == (lender, index));
        match (at, now) {
            (None, Some(now)) if now.may_be_bound() => {
                let Some(borrower) = now.borrower.map(|drive| usize::from(drive.0)) else { return };
                let Resource::Processor { borrower_queue, .. } = now.resource else { return };
                let redirection = {
                    let own = self.members[borrower].own.borrow();
                    own.iter().find(|it| it.queue().cqid() == borrower_queue).cloned()
                };
                let Some(redirection) = redirection.filter(|_| table.bind(index).is_some()) else { return };
                let id = redirection.bind(self.members[lender].shadow.clone());
                self.bound.borrow_mut().push(Bound { lender, index, borrower, redirection, id });
                self.share_out(borrower);
            }
            (Some(at), now) => {
                let (borrower, redirection, id) = {
                    let bound = self.bound.borrow();
                    let Bound { borrower, redirection, id, .. } = &bound[at];
                    (*borrower, redirection.clone(), *id)
                };
                let me = Some(DriveId(borrower as u8));
                if now.is_some_and(|now| now.may_be_bound() && now.borrower == me) {
                    self.share_out(borrower);
                    return;
                }
                redirection.unbind(id).await;
                self.bound.borrow_mut().retain(|it| (it.lender, it.index) != (lender, index));
                table.unbind(index);
                self.share_out(borrower);
            }
            (None, _) => {}
        }
    }

    /// Sets which part of a borrower's commands goes by which of its lenders ([`policy::next_shares`]).
    fn share_out(&self, borrower: usize) {
        let bound = self.bound.borrow();
        let of_borrower: Vec<&Bound> = bound.iter().filter(|it| it.borrower == borrower).collect();
        let even = Weight { own: 1, all: 1 };
        let mut own = Utilisation::of(1.0);
        let mut lenders = Vec::with_capacity(of_borrower.len());
        for it in &of_borrower {
            let descriptor = self.members[it.lender].table.read(it.index);
            if let Some(Resource::Processor { borrower, lender, .. }) = descriptor.map(|it| it.resource) {
                own = borrower;
                lenders.push(Load { utilisation: lender, weight: even });
            }
        }
        let now: Vec<f64> = of_borrower.iter().map(|it| it.redirection.share(it.id)).collect();
        let own = Load { utilisation: own, weight: even };
        let next = policy::next_shares(&now, own, &lenders, self.config.watermark);
        for (it, share) in of_borrower.iter().zip(next) {
            it.redirection.set_share(it.id, share);
        }
    }
}
