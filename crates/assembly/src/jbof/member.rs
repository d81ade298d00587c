//! A drive of a box: its part of what is lent, its monitor, and what it does as a lender.

use super::Inner;
use byteway_clock::{Delay, Time};
use byteway_firmware::{Route, Site};
use byteway_host::driver::Driver;
use byteway_host::{QueuePair, Redirection};
use byteway_jbof::descriptor::{Descriptor, IdleTable, Resource, Utilisation};
use byteway_world::PoweredDrive;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A drive of a box.
pub(super) struct Member {
    pub(super) powered: Rc<PoweredDrive>,
    pub(super) site: Site,
    pub(super) driver: Driver,
    pub(super) table: IdleTable,
    /// By which route of this drive's placement each peer works for it.
    pub(super) routes: Vec<Option<Route>>,
    /// The queue pair that it lends.
    pub(super) shadow: QueuePair,
    /// The descriptor of that, if it is lent, or is not over.
    pub(super) lends: Cell<Option<usize>>,
    /// Queue pairs that its users have, which commands may leave.
    pub(super) own: RefCell<Vec<Redirection>>,
    /// What it borrows: of which peer, by which descriptor.
    pub(super) borrows: Cell<Option<(usize, usize)>>,
    pub(super) figures: Cell<MemberFigures>,
}

/// What a drive has done for its peers, and they for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberFigures {
    /// How often it has borrowed a processor.
    pub borrowed: u64,
    /// How often it has lent its own.
    pub lent: u64,
    /// How busy its cores were in the last period.
    pub processor: Utilisation,
    /// How busy its flash channels were, in the mean.
    pub data_end: Utilisation,
}

/// Where a resource monitor was at the end of the last period.
#[derive(Default)]
pub(super) struct Then {
    pub(super) at: Time,
    pub(super) cores: Delay,
    pub(super) lent: Delay,
    pub(super) channels: Delay,
}

impl Member {
    /// How busy cores were since `then`, how busy with the drive's own work, and how busy channels were.
    pub(super) fn monitor(&self, now: Time, then: &mut Then) -> (f64, f64, f64) {
        let (cores, lent) = (self.site.busy(), self.site.lent());
        let flash = self.powered.arrays();
        let count: u32 = flash.iter().map(|flash| flash.geometry().channels).sum();
        let channels = flash.iter().fold(Delay::ZERO, |sum, flash| {
            (0..flash.geometry().channels).fold(sum, |sum, channel| sum + flash.channel_busy(channel))
        });
        let elapsed = now.since(then.at).0.max(1);
        let share = |busy: Delay, of: usize| busy.0 as f64 / (elapsed * of.max(1) as u64) as f64;
        let processor = share(cores.saturating_sub(then.cores), self.site.cores());
        let for_others = share(lent.saturating_sub(then.lent), self.site.cores());
        let data_end = share(channels.saturating_sub(then.channels), count as usize);
        *then = Then { at: now, cores, lent, channels };
        self.count(|figures| {
            (figures.processor, figures.data_end) = (Utilisation::of(processor), Utilisation::of(data_end));
        });
        (processor, (processor - for_others).max(0.0), data_end)
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut MemberFigures)) {
        let mut figures = self.figures.get();
        change(&mut figures);
        self.figures.set(figures);
    }

    /// Lends its processor, or ends that; and takes the steps that have become possible.
    pub(super) fn lend(&self, inner: &Inner, number: usize, wants: bool) {
        let (busy, controller, qid) =
            (self.figures.get().processor, &self.powered.drive.controller, self.shadow.qid());
        let Some(index) = self.lends.get() else {
            if wants {
                let (borrower, directory, borrower_queue) = Default::default();
                let (lender, shadow_queue) = (busy, self.shadow.cqid());
                let resource =
                    Resource::Processor { borrower, lender, directory, borrower_queue, shadow_queue };
                self.lends.set(self.table.publish(resource));
            }
            return;
        };
        self.table.update(index, |resource| {
            if let Resource::Processor { lender, .. } = resource {
                *lender = busy;
            }
        });
        if !wants {
            self.table.withdraw(index);
        }
        match self.table.read(index) {
            Some(Descriptor { served: true, .. }) => {
                if self.table.is_service_over(index) && controller.take_back(qid).is_ok() {
                    self.table.end_service(index);
                }
            }
            Some(Descriptor { valid: true, borrower: Some(borrower), .. }) => {
                let borrower = &inner.members[usize::from(borrower.0)];
                let route = borrower.routes[number];
                let lent = route.map(|route| controller.lend(qid, &borrower.powered.drive.controller, route));
                if lent.is_some_and(|loan| loan.is_ok()) {
                    self.table.serve(index);
                    self.count(|figures| figures.lent += 1);
                }
            }
            Some(_) | None => {}
        }
        if self.table.read(index).is_none() {
            self.lends.set(None);
        }
    }
}
