//! A drive as lender of its processor: it publishes a descriptor, serves the borrower that claims it, and takes its
//! queue back.

use super::state::{Inner, Lending, Member, Present};
use crate::decision::DriveId;
use crate::decision::descriptor::{Descriptor, Resource};
use crate::fabric::Node;
use byteway_device::Loan;
use std::rc::Rc;

impl Member {
    /// Lends the processor, or ends the loan, as `wants` says, and takes the steps that have become possible.
    pub(super) fn lend(&self, inner: &Inner, number: usize, own: &Present, wants: bool) {
        let (busy, controller) = (self.figures.get().processor, &own.powered.drive.controller);
        let resets = controller.counters().resets.get();
        let Some(Lending { index, qid, resets: made, loan }) = own.lends.borrow().clone() else {
            let shadow = self.attached().map(|attached| attached.shadow.clone());
            if let Some(shadow) = shadow.filter(|_| wants) {
                let (borrower, directory, borrower_queue) = Default::default();
                let (lender, shadow_queue) = (busy, shadow.cqid());
                let resource =
                    Resource::Processor { borrower, lender, directory, borrower_queue, shadow_queue };
                let lending = |index| Lending { index, qid: shadow.qid(), resets, loan: None };
                own.lends.replace(self.table.publish(resource).map(lending));
            }
            return;
        };
        self.table.update(index, |resource| {
            if let Resource::Processor { lender, .. } = resource {
                *lender = busy;
            }
        });
        let is_reset = resets != made;
        let failed = loan.filter(|(to, loan)| {
            // Its commands in flight there would wait for the link, while the borrower can execute them itself.
            let is_cut_off = !inner.fabric.reaches(Node::Drive(number), Node::Drive(*to));
            if is_cut_off {
                loan.revoke();
            }
            loan.check().is_err()
        });
        if !wants || is_reset || failed.is_some() {
            let was_valid = self.table.read(index).is_some_and(|now| now.valid);
            self.table.withdraw(index);
            if was_valid && (is_reset || failed.is_some()) {
                self.count(|figures| figures.lost += 1);
            }
            // A burst of its own has priority: the borrower's commands would wait here until its end.
            let its_loan = own.lends.borrow().as_ref().and_then(|lending| lending.loan.clone());
            if was_valid && let Some((_, loan)) = its_loan {
                loan.revoke();
            }
        }
        match self.table.read(index) {
            Some(Descriptor { served: true, .. }) => {
                // After a reset the queue is a new one, not lent to any drive: it is taken back at once.
                if self.table.is_service_over(index) && controller.take_back(qid).is_ok() {
                    self.table.end_service(index);
                    if let Some(lending) = &mut *own.lends.borrow_mut() {
                        lending.loan = None;
                    }
                }
            }
            Some(Descriptor { valid: true, borrower: Some(borrower), .. }) => {
                let to = usize::from(borrower.0);
                if !inner.is_reachable(Node::Drive(number), to) {
                    self.table.give_back(index, borrower); // a drive that is gone forgets its claims
                } else if let Some(loan) = inner.loan(number, own, qid, to) {
                    self.table.serve(index);
                    self.count(|figures| figures.lent += 1);
                    if let Some(lending) = &mut *own.lends.borrow_mut() {
                        lending.loan = Some((to, loan));
                    }
                }
            }
            Some(_) | None => {}
        }
        if self.table.read(index).is_none() {
            own.lends.replace(None);
        }
    }
}

impl Inner {
    /// Lends the queue of a lender to a borrower; `None`: the borrower is not there, or can't be lent to.
    fn loan(&self, lender: usize, own: &Present, qid: u16, borrower: usize) -> Option<Rc<Loan>> {
        let to = self.members.get(borrower)?;
        let route = (*to.routes.get(lender)?)?;
        let drive = to.present()?;
        let number = DriveId(lender as u8).0;
        own.powered.drive.controller.lend_as(number, qid, &drive.powered.drive.controller, route).ok()
    }
}
