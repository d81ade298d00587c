//! A slot of a box and the drive in it: its part of what is lent, its monitor, and what it does as a lender.

use super::Inner;
use super::dram::PresentDram;
use super::host::Attached;
use byteway_clock::{Clock, Delay, Station, TaskId, Time};
use byteway_device::{DriveConfig, Loan};
use byteway_firmware::{Placement, Route, Site};
use byteway_flash::Medium;
use byteway_host::driver::DriverConfig;
use byteway_jbof::DriveId;
use byteway_jbof::descriptor::{Descriptor, IdleTable, Resource, Utilisation};
use byteway_jbof::fabric::Node;
use byteway_world::PoweredDrive;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// A slot of a box, and the drive that belongs there.
pub(super) struct Member {
    pub(super) name: Option<String>,
    pub(super) config: DriveConfig,
    /// What its driver is to be like, and the processor of the queue pair that it lends, if that is said.
    pub(super) driver: Option<DriverConfig>,
    pub(super) lent_cpu: Option<Rc<Station>>,
    pub(super) site: Site,
    pub(super) placement: Placement,
    /// By which route of this drive's placement each peer works for it.
    pub(super) routes: Vec<Option<Route>>,
    /// The drive, while it has power.
    pub(super) present: RefCell<Option<Rc<Present>>>,
    /// What it holds, while it has none.
    pub(super) medium: RefCell<Option<Medium>>,
    /// In the drive's DRAM: empty when its power comes.
    pub(super) table: IdleTable,
    /// The host's driver and queue pairs; none: the host knows of no drive here.
    pub(super) attached: RefCell<Option<Rc<Attached>>>,
    pub(super) figures: Cell<MemberFigures>,
}

/// A drive that has power, with what its firmware remembers.
pub(super) struct Present {
    pub(super) powered: Rc<PoweredDrive>,
    /// Counts the power-ons of all drives of the box.
    pub(super) life: u64,
    /// What it lends, or has not ended lending.
    pub(super) lends: RefCell<Option<Lending>>,
    pub(super) borrows: RefCell<Vec<Borrowing>>,
    /// What it had borrowed of peers that it could then not reach: which, and by which descriptor.
    pub(super) forgotten: RefCell<Vec<(usize, usize)>>,
    /// Looks in a row at which it needed no more than it has.
    pub(super) calm: Cell<u32>,
    /// What its peers offered at its last look: of use for a canary alone.
    pub(super) seen: RefCell<Vec<(usize, usize, Descriptor)>>,
    pub(super) daemon: Cell<Option<TaskId>>,
    /// Its power is off, which ends what waits for an answer of it and has no time limit of its own.
    pub(super) is_off: Cell<bool>,
    /// The task that does so.
    pub(super) attaching: Cell<Option<TaskId>>,
    pub(super) dram: PresentDram,
}

/// What a drive lends.
#[derive(Clone)]
pub(super) struct Lending {
    /// The descriptor.
    index: usize,
    /// The submission queue that is lent.
    qid: u16,
    /// The queue was made after so many resets of the controller: one that came later has ended it.
    resets: u64,
    /// To whom, and the loan.
    loan: Option<(usize, Rc<Loan>)>,
}

/// What a drive borrows: of which peer, by which descriptor, for which of its completion queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Borrowing {
    pub(super) lender: usize,
    pub(super) index: usize,
    pub(super) queue: u16,
}

/// What a drive has done for its peers, and they for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberFigures {
    /// How often it has borrowed a processor.
    pub borrowed: u64,
    /// How often it has lent its own.
    pub lent: u64,
    /// How often what it lent or borrowed was over because something had failed.
    pub lost: u64,
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
    /// What was asked of the cores for others, and was not done by then.
    pub(super) pending: Delay,
    pub(super) channels: Delay,
}

impl Then {
    /// Now, for a drive whose power has just come.
    pub(super) fn now(at: Time, site: &Site) -> Then {
        let (pending, channels) = Default::default();
        Then { at, cores: site.busy(), lent: site.lent(), pending, channels }
    }
}

impl Present {
    /// Carries out what the drive may never answer; none: its power has gone before.
    pub(super) async fn while_on<T>(&self, clock: &Clock, attaching: impl Future<Output = T>) -> Option<T> {
        let mut attaching = pin!(attaching);
        self.attaching.set(Some(clock.current()));
        let attached = poll_fn(|context| match self.is_off.get() {
            true => Poll::Ready(None),
            false => attaching.as_mut().poll(context).map(Some),
        });
        let attached = attached.await;
        self.attaching.set(None);
        attached
    }
}

impl Member {
    /// The drive, if it has power.
    pub(super) fn present(&self) -> Option<Rc<Present>> {
        self.present.borrow().clone()
    }

    /// The host's driver and queue pairs, if it has any for the drive as it is: not for one that has lost its power since.
    pub(super) fn attached(&self) -> Option<Rc<Attached>> {
        let life = self.present.borrow().as_ref()?.life;
        self.attached.borrow().clone().filter(|attached| attached.life == life)
    }

    /// How busy cores were since `then`, how busy with the drive's own work, and how busy channels were.
    pub(super) fn monitor(&self, drive: &PoweredDrive, now: Time, then: &mut Then) -> (f64, f64, f64) {
        let (cores, lent) = (self.site.busy(), self.site.lent());
        let flash = drive.arrays();
        let count: u32 = flash.iter().map(|flash| flash.geometry().channels).sum();
        let channels = flash.iter().fold(Delay::ZERO, |sum, flash| {
            (0..flash.geometry().channels).fold(sum, |sum, channel| sum + flash.channel_busy(channel))
        });
        let elapsed = now.since(then.at).0.max(1);
        let share = |busy: Delay, of: usize| busy.0 as f64 / (elapsed * of.max(1) as u64) as f64;
        let done = cores.saturating_sub(then.cores);
        // Work for others is counted when it is asked for: what waits then is done in a later period, and is not the drive's own there.
        let asked = then.pending + lent.saturating_sub(then.lent);
        let done_for_others = asked.min(done);
        let processor = share(done, self.site.cores());
        let for_others = share(done_for_others, self.site.cores());
        let data_end = share(channels.saturating_sub(then.channels), count as usize);
        *then = Then { at: now, cores, lent, pending: asked.saturating_sub(done_for_others), channels };
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
            // What it has under way there would wait for the link: who has sent it may as well have it done by the borrower.
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
        }
        match self.table.read(index) {
            Some(Descriptor { served: true, .. }) => {
                // After a reset the queue is another one, which is lent to no drive: that is taken back at once.
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
                    self.table.give_back(index, borrower); // it is gone, and will not know that it has claimed this
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
    /// The queue of a lender is lent to a borrower; none: that is not there, or can't be.
    fn loan(&self, lender: usize, own: &Present, qid: u16, borrower: usize) -> Option<Rc<Loan>> {
        let to = self.members.get(borrower)?;
        let route = (*to.routes.get(lender)?)?;
        let drive = to.present()?;
        let number = DriveId(lender as u8).0;
        own.powered.drive.controller.lend_as(number, qid, &drive.powered.drive.controller, route).ok()
    }
}
