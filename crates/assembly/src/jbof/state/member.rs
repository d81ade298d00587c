//! A slot of a box and its drive: the state of the slot, and the state that exists while the drive has power.

use super::attached::Attached;
use super::dram::PresentDram;
use byteway_clock::{Clock, Station, TaskId};
use byteway_device::{DriveConfig, Loan};
use byteway_firmware::{Placement, Route, Site};
use byteway_flash::Medium;
use byteway_host::DriverConfig;
use byteway_jbof::descriptor::{Descriptor, IdleTable, Resource, Utilisation};
use byteway_world::PoweredDrive;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// A slot of a box, and the drive that belongs there.
pub(in crate::jbof) struct Member {
    pub(in crate::jbof) name: Option<String>,
    pub(in crate::jbof) config: DriveConfig,
    /// Configuration of its driver, and the processor of the queue pair that it lends, if given.
    pub(in crate::jbof) driver: Option<DriverConfig>,
    pub(in crate::jbof) lent_cpu: Option<Rc<Station>>,
    pub(in crate::jbof) site: Site,
    pub(in crate::jbof) placement: Placement,
    /// The route of this drive's placement by which each peer works for it.
    pub(in crate::jbof) routes: Vec<Option<Route>>,
    /// The drive, while it has power.
    pub(in crate::jbof) present: RefCell<Option<Rc<Present>>>,
    /// Medium of the drive, while it is not powered.
    pub(in crate::jbof) medium: RefCell<Option<Medium>>,
    /// Idle-resource table, in the drive's DRAM: empty at power-on.
    pub(in crate::jbof) table: IdleTable,
    /// The host's driver and queue pairs; `None`: the host has no driver for a drive here.
    pub(in crate::jbof) attached: RefCell<Option<Rc<Attached>>>,
    pub(in crate::jbof) figures: Cell<MemberFigures>,
}

/// A powered drive, with the state of its firmware.
pub(in crate::jbof) struct Present {
    pub(in crate::jbof) powered: Rc<PoweredDrive>,
    /// Number of this power-on, counted over all drives of the box.
    pub(in crate::jbof) life: u64,
    /// The loan of its processor, until it has ended.
    pub(in crate::jbof) lends: RefCell<Option<Lending>>,
    pub(in crate::jbof) borrows: RefCell<Vec<Borrowing>>,
    /// Loans from peers that were unreachable at the time: peer and descriptor.
    pub(in crate::jbof) forgotten: RefCell<Vec<(usize, usize)>>,
    /// Consecutive periods in which it needed no more than it has.
    pub(in crate::jbof) calm: Cell<u32>,
    /// Offers of its peers in the last period, for a defect on purpose only.
    pub(in crate::jbof) seen: RefCell<Vec<(usize, usize, Descriptor)>>,
    pub(in crate::jbof) daemon: Cell<Option<TaskId>>,
    /// The power is off: ends waits for answers without a time limit.
    pub(in crate::jbof) is_off: Cell<bool>,
    /// The task in such a wait.
    pub(in crate::jbof) attaching: Cell<Option<TaskId>>,
    pub(in crate::jbof) dram: PresentDram,
}

/// The loan of a drive's processor.
#[derive(Clone)]
pub(in crate::jbof) struct Lending {
    /// Index of the descriptor.
    pub(in crate::jbof) index: usize,
    /// The submission queue that is lent.
    pub(in crate::jbof) qid: u16,
    /// Number of resets before the queue was created: a later reset has ended the loan.
    pub(in crate::jbof) resets: u64,
    /// The borrower, and its loan.
    pub(in crate::jbof) loan: Option<(usize, Rc<Loan>)>,
}

/// A borrowed processor: the peer, its descriptor, and the completion queue that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jbof) struct Borrowing {
    pub(in crate::jbof) lender: usize,
    pub(in crate::jbof) index: usize,
    pub(in crate::jbof) queue: u16,
}

/// Counters of a drive's loans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberFigures {
    /// Number of processors borrowed.
    pub borrowed: u64,
    /// Number of times its processor was lent.
    pub lent: u64,
    /// Number of times a loan of its processor, or the drive itself, was lost by a failure.
    pub lost: u64,
    /// Utilization of its cores in the last period.
    pub processor: Utilisation,
    /// Utilization of its flash channels, in the mean.
    pub data_end: Utilisation,
}

impl Present {
    /// Waits for an answer that the drive may never give; `None`: the power was lost first.
    pub(in crate::jbof) async fn while_on<T>(
        &self,
        clock: &Clock,
        attaching: impl Future<Output = T>,
    ) -> Option<T> {
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

    /// Removes a borrowed processor.
    pub(in crate::jbof) fn no_longer_borrows(&self, borrowing: Borrowing) {
        self.borrows.borrow_mut().retain(|it| *it != borrowing);
    }
}

impl Member {
    /// The drive, if it has power.
    pub(in crate::jbof) fn present(&self) -> Option<Rc<Present>> {
        self.present.borrow().clone()
    }

    /// The host's driver and queue pairs for the drive in its current power-on, if there are any.
    pub(in crate::jbof) fn attached(&self) -> Option<Rc<Attached>> {
        let life = self.present.borrow().as_ref()?.life;
        self.attached.borrow().clone().filter(|attached| attached.life == life)
    }

    pub(in crate::jbof) fn count(&self, change: impl FnOnce(&mut MemberFigures)) {
        let mut figures = self.figures.get();
        change(&mut figures);
        self.figures.set(figures);
    }

    /// Withdraws the offered processor at a controller reset, which has removed the lent queue.
    pub(in crate::jbof) fn withdraw_processor(&self) {
        let is_processor = |it: &Descriptor| it.valid && matches!(it.resource, Resource::Processor { .. });
        for (index, _) in self.table.iter().filter(|(_, it)| is_processor(it)) {
            self.table.withdraw(index);
            self.count(|figures| figures.lost += 1);
        }
    }
}
