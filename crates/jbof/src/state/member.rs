//! A slot of a JBOF and its drive: the state of the slot, and the state that exists while the drive has power.

use super::attached::Attached;
use super::dram::PresentDram;
use crate::decision::descriptor::{Descriptor, IdleTable, Resource, Utilisation};
use byteway_clock::{Clock, Station, TaskId};
use byteway_device::{DriveConfig, Loan};
use byteway_firmware::{Placement, Route, Site};
use byteway_flash::Medium;
use byteway_host::DriverConfig;
use byteway_world::PoweredDrive;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// A slot of a JBOF, and the drive that belongs there.
pub(crate) struct Member {
    pub(crate) name: Option<String>,
    pub(crate) config: DriveConfig,
    /// Configuration of its driver, and the processor of the queue pair that it lends, if given.
    pub(crate) driver: Option<DriverConfig>,
    pub(crate) lent_cpu: Option<Rc<Station>>,
    pub(crate) site: Site,
    pub(crate) placement: Placement,
    /// The route of this drive's placement by which each peer works for it.
    pub(crate) routes: Vec<Option<Route>>,
    /// The drive, while it has power.
    pub(crate) present: RefCell<Option<Rc<Present>>>,
    /// Medium of the drive, while it is not powered.
    pub(crate) medium: RefCell<Option<Medium>>,
    /// Idle-resource table, in the drive's DRAM: empty at power-on.
    pub(crate) table: IdleTable,
    /// The host's driver and queue pairs; `None`: the host has no driver for a drive here.
    pub(crate) attached: RefCell<Option<Rc<Attached>>>,
    pub(crate) figures: Cell<MemberFigures>,
}

/// A powered drive, with the state of its firmware.
pub(crate) struct Present {
    pub(crate) powered: Rc<PoweredDrive>,
    /// Number of this power-on, counted over all drives of the JBOF.
    pub(crate) life: u64,
    /// The loan of its processor, until it has ended.
    pub(crate) lends: RefCell<Option<Lending>>,
    pub(crate) borrows: RefCell<Vec<Borrowing>>,
    /// Loans from peers that were unreachable at the time: peer and descriptor.
    pub(crate) forgotten: RefCell<Vec<(usize, usize)>>,
    /// Consecutive periods in which it needed no more than it has.
    pub(crate) calm: Cell<u32>,
    /// Offers of its peers in the last period, for a defect on purpose only.
    pub(crate) seen: RefCell<Vec<(usize, usize, Descriptor)>>,
    pub(crate) daemon: Cell<Option<TaskId>>,
    /// The power is off: ends waits for answers without a time limit.
    pub(crate) is_off: Cell<bool>,
    /// The task in such a wait.
    pub(crate) attaching: Cell<Option<TaskId>>,
    pub(crate) dram: PresentDram,
}

/// The loan of a drive's processor.
#[derive(Clone)]
pub(crate) struct Lending {
    /// Index of the descriptor.
    pub(crate) index: usize,
    /// The submission queue that is lent.
    pub(crate) qid: u16,
    /// Number of resets before the queue was created: a later reset has ended the loan.
    pub(crate) resets: u64,
    /// The borrower, and its loan.
    pub(crate) loan: Option<(usize, Rc<Loan>)>,
}

/// A borrowed processor: the peer, its descriptor, and the completion queue that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Borrowing {
    pub(crate) lender: usize,
    pub(crate) index: usize,
    pub(crate) queue: u16,
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
    pub(crate) async fn while_on<T>(&self, clock: &Clock, attaching: impl Future<Output = T>) -> Option<T> {
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
    pub(crate) fn no_longer_borrows(&self, borrowing: Borrowing) {
        self.borrows.borrow_mut().retain(|it| *it != borrowing);
    }
}

impl Member {
    /// The drive, if it has power.
    pub(crate) fn present(&self) -> Option<Rc<Present>> {
        self.present.borrow().clone()
    }

    /// The host's driver and queue pairs for the drive in its current power-on, if there are any.
    pub(crate) fn attached(&self) -> Option<Rc<Attached>> {
        let life = self.present.borrow().as_ref()?.life;
        self.attached.borrow().clone().filter(|attached| attached.life == life)
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut MemberFigures)) {
        let mut figures = self.figures.get();
        change(&mut figures);
        self.figures.set(figures);
    }

    /// Withdraws the offered processor at a controller reset, which has removed the lent queue.
    pub(crate) fn withdraw_processor(&self) {
        let is_processor = |it: &Descriptor| it.valid && matches!(it.resource, Resource::Processor { .. });
        for (index, _) in self.table.iter().filter(|(_, it)| is_processor(it)) {
            self.table.withdraw(index);
            self.count(|figures| figures.lost += 1);
        }
    }
}
