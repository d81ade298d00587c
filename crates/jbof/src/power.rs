//! Power of a drive in its slot: what starts at power-on, and what ends at power-off.

use super::error::JbofError;
use super::platform::Platform;
use super::state::{Inner, Member, Present, PresentDram};
use super::{daemon, dram};
use byteway_assembly::hosted::call;
use byteway_clock::Owner;
use byteway_link::Memory;
use byteway_world::DriveBay;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

impl Inner {
    /// Powers on a drive, over its medium. The host has no driver for it yet.
    pub(super) fn give_power(self: &Rc<Self>, number: usize) -> Result<(), JbofError> {
        let Inner { clock, config, members, .. } = &**self;
        let Member { config: drive, site, placement, present, medium, table, .. } = &members[number];
        let owned = clock.owned_by(Owner(number as u16));
        let (link, memory) = match &config.platform {
            Platform::Central(_) => (call(), Memory::simulated()),
            // A lender transfers payload from the memory of the borrower's tenant.
            Platform::Virtual(_) => (config.link.clone(), self.memory.at_another_link()),
            Platform::Alone | Platform::Lending { .. } => (config.link.clone(), Memory::simulated()),
        };
        let bay = DriveBay::new(&owned, link, memory);
        let powered = bay.power_on_placed(drive.clone(), site.clone(), placement.clone(), medium.take());
        let mut powered = powered.map_err(|error| JbofError::Config { drive: number, error })?;
        powered.name = members[number].name.clone();
        powered.is_called = matches!(config.platform, Platform::Central(_));
        let powered = Rc::new(powered);
        table.clear();
        let life = self.lives.replace(self.lives.get() + 1);
        let dram = PresentDram::new(&config.dram, &powered, config.seed ^ (number as u64) << 32);
        let own = Rc::new(Present {
            powered: powered.clone(),
            life,
            lends: RefCell::default(),
            borrows: RefCell::default(),
            forgotten: RefCell::default(),
            calm: Cell::default(),
            seen: RefCell::default(),
            daemon: Cell::default(),
            is_off: Cell::default(),
            attaching: Cell::default(),
            dram,
        });
        present.replace(Some(own.clone()));
        if config.platform.lends_dram() {
            let task = clock.spawn("dram daemon", dram::daemon(self.clone(), number, own.clone()));
            own.dram.task.set(Some(task));
        }
        if config.platform.lends_processors() {
            let task = clock.spawn("daemon", daemon::daemon(self.clone(), number, own.clone()));
            own.daemon.set(Some(task));
            // The host binds what a table says: it must not say that a queue made after the reset is served.
            let inner = Rc::downgrade(self);
            powered.drive.controller.on_reset(Box::new(move || {
                inner.upgrade().into_iter().for_each(|inner| inner.members[number].withdraw_processor());
            }));
        }
        // When the slot becomes empty, the host's driver for this drive must notice.
        let (end, inner) = (powered.host.clone(), Rc::downgrade(self));
        clock.spawn("hot plug", async move {
            end.removed().await;
            let attached = inner.upgrade().and_then(|inner| inner.members[number].attached.borrow().clone());
            if let Some(attached) = attached.filter(|attached| attached.life == life) {
                let _ = attached.driver.reset().await; // finds the slot empty, and gives the drive up
            }
        });
        Ok(())
    }

    /// Cuts a drive's power; `is_seen`: its slot reports that it is empty.
    pub(super) fn lose_power(&self, number: usize, is_seen: bool) {
        let member = &self.members[number];
        let Some(own) = member.present.take() else { return };
        for task in own.daemon.take().into_iter().chain(own.dram.task.take()) {
            self.clock.kill(task);
        }
        let media = if is_seen { own.powered.pull_out() } else { own.powered.power_off_all() };
        member.medium.replace(media.into_iter().next());
        own.is_off.set(true);
        own.attaching.take().into_iter().for_each(|task| self.clock.wake(task));
        self.drive_lost(number, &own);
    }

    /// Handles the loss of a drive elsewhere in the JBOF. Loans of processors need no action: host and peers notice in
    /// their next period.
    fn drive_lost(&self, number: usize, own: &Present) {
        self.dram_lost(number, own, true);
        // The host's driver stays until it notices; the power-on number distinguishes it from that of a later drive.
        self.members[number].count(|figures| figures.lost += 1);
    }
}
