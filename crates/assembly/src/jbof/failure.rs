//! What goes wrong in a box while the rest of it goes on ("Espresso", 4.5).
//!
//! | what fails | what it meets | how it is over |
//! |---|---|---|
//! | a lender is unplugged ([`Jbof::unplug`]), or loses its power ([`Jbof::cut_power`]) | commands under way at its shadow queue have no completion | its driver gives it up: at once if its slot says that it is empty, else after [`JbofConfig::timeout`]: an Abort, a reset, which finds nothing there. The host has the borrower revoke the loan, has it carry the commands out, and unbinds |
//! | a borrower is unplugged, or loses its power | the lender waits for flash that does not answer | the loan is revoked: the lender completes the commands as interrupted, withdraws its descriptor, and takes its queue back when the host has unbound it. What the borrower had claimed elsewhere is given back by its lenders, or by itself when it comes back |
//! | the link of a drive to the fabric is lost ([`Jbof::lose_link`]) | what crosses waits ([`fabric`](byteway_jbof::fabric)); tables can't be read | who can't read a table takes it to offer nothing, and what was borrowed of its drive to be over: the host redirects nothing more, the lender revokes the loan, a borrower forgets that it has one. With the link back they begin anew |
//! | the host restarts ([`Jbof::restart_host`]) | queue pairs are gone, and what was bound is forgotten | its drivers reset every controller, which ends all loans; lenders withdraw; the host unbinds what stands as bound |
//! | a drive with DRAM that others have borrowed is lost, or its link | their dirty pages were there | they make the map of these anew of what flash and their logs say; what waits for a line from there looks the page up again. What the drive had borrowed is its lenders' again |
//! | a controller is reset | as its own queues are, what it lends is gone, and what it borrows is revoked | as above |
//!
//! **No command of a lender's comes late.** A lender that hangs, or is cut off, may come to when the host has long given its commands up
//! and others have written the same blocks. So the borrower revokes the loan first ([`Loan::revoke`](byteway_device::Loan::revoke)), and
//! only then the command goes to it; what the lender does after that reaches neither map, nor flash, nor link of the borrower. A lender that
//! completes a command as interrupted does not go on with it.
//!
//! A drive that comes back has an empty table and knows of no loan. Its life has a number, by which the host tells it from what it had
//! bound before.

use super::dram::{self, PresentDram};
use super::member::{Member, Present};
use super::{Inner, Jbof, JbofError, Platform, daemon};
use crate::hosted::call;
use byteway_clock::Owner;
use byteway_flash::Medium;
use byteway_host::Lost;
use byteway_link::Memory;
use byteway_world::DriveBay;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[cfg(doc)]
use super::JbofConfig;

/// A mistake made on purpose, for tests that must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// A borrower takes what it saw to be free when it looked last, though it may have been claimed since.
    StaleDescriptor,
    /// The host unbinds a shadow queue pair while commands are under way by it.
    UnbindWithoutDrain,
}

impl Jbof {
    /// A drive is pulled out of its slot: its power goes, and the slot says so. What it holds stays with the slot's number until the
    /// drive [comes back](Jbof::plug_in). One that is not there stays away.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn unplug(&self, drive: usize) {
        self.0.lose_power(drive, true);
    }

    /// A drive loses its power in its slot, which still says that there is a drive: it answers nothing any more.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn cut_power(&self, drive: usize) {
        self.0.lose_power(drive, false);
    }

    /// A drive that was pulled out, or has lost its power, is there again, and has a driver attached. Its users have new queue pairs to
    /// make.
    ///
    /// # Errors
    /// It has lost its power again, or does not do as it must.
    ///
    /// # Panics
    /// There is no such drive.
    pub async fn plug_in(&self, drive: usize) -> Result<(), JbofError> {
        let inner = &self.0;
        let _turn = inner.attaching.acquire(1).await;
        if inner.members[drive].present().is_some() {
            return Ok(());
        }
        inner.give_power(drive)?;
        inner.attach(drive).await
    }

    /// Whether a drive has power and a driver.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn is_there(&self, drive: usize) -> bool {
        let member = &self.0.members[drive];
        member.attached().is_some()
    }

    /// The number of a drive's life: another one each time that its power comes; none: it has no power.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn life(&self, drive: usize) -> Option<u64> {
        self.0.members[drive].present().map(|own| own.life)
    }

    /// The link between a drive and the fabric is lost. Its link to the host is another one, and stays.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn lose_link(&self, drive: usize) {
        self.0.fabric.set_up(drive, false);
        if let Some(own) = self.0.members[drive].present() {
            self.0.dram_lost(drive, &own, false);
        }
    }

    /// The link between a drive and the fabric is back.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn restore_link(&self, drive: usize) {
        self.0.fabric.set_up(drive, true);
    }

    /// The host restarts, while the drives keep their power: every command that it has under way is lost, as
    /// [`Lost::Deleted`], its drivers attach anew, and its users have new queue pairs to make. Ends when all drives that are there have
    /// drivers.
    ///
    /// # Errors
    /// A drive does not do as it must. The others have drivers all the same.
    pub async fn restart_host(&self) -> Result<(), JbofError> {
        let inner = &self.0;
        let _turn = inner.attaching.acquire(1).await;
        inner.host_restarts.set(inner.host_restarts.get() + 1);
        inner.bound.borrow_mut().clear();
        for member in &inner.members {
            if let Some(attached) = member.attached.take() {
                attached.driver.abandon();
            }
        }
        let mut outcome = Ok(());
        for (drive, member) in inner.members.iter().enumerate() {
            let attached = inner.attach(drive).await;
            // One that has lost its power meanwhile is not missed.
            outcome = outcome.and(attached.or_else(|error| match member.present() {
                None => Ok(()),
                Some(_) => Err(error),
            }));
        }
        outcome
    }

    /// How often the host has restarted, or has begun to.
    pub fn host_restarts(&self) -> u64 {
        self.0.host_restarts.get()
    }

    /// The power of all drives goes. Gives what they hold, in their order; to be called once, and at the end.
    ///
    /// # Panics
    /// A drive's medium was taken before.
    pub fn power_off(&self) -> Vec<Medium> {
        (0..self.0.members.len()).for_each(|drive| self.0.lose_power(drive, false));
        let media = self.0.members.iter().map(|member| member.medium.take());
        media.map(|medium| medium.expect("a drive without power has left its medium")).collect()
    }
}

impl Inner {
    /// A drive's power comes, over what it holds. The host knows nothing of that yet.
    pub(super) fn give_power(self: &Rc<Self>, number: usize) -> Result<(), JbofError> {
        let Inner { clock, config, members, .. } = &**self;
        let Member { config: drive, site, placement, present, medium, table, .. } = &members[number];
        let owned = clock.owned_by(Owner(number as u16));
        let (link, memory) = match &config.platform {
            Platform::Central(_) => (call(), Memory::simulated()),
            // A lender moves payload from where a borrower's tenant has it.
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
        }
        // The driver that the host has for this drive when the slot is empty learns of that.
        let (end, inner) = (powered.host.clone(), Rc::downgrade(self));
        clock.spawn("hot plug", async move {
            end.removed().await;
            let attached = inner.upgrade().and_then(|inner| inner.members[number].attached.borrow().clone());
            if let Some(attached) = attached.filter(|attached| attached.life == life) {
                let _ = attached.driver.reset().await; // which finds nothing there, and gives it up
            }
        });
        Ok(())
    }

    /// A drive's power goes; `is_seen`: its slot says that it is empty.
    fn lose_power(&self, number: usize, is_seen: bool) {
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

    /// What has to happen elsewhere in the box at the moment at which a drive is gone: what firmware has in its memory is gone with it.
    /// Loans of processors need nothing more than that the drive has no power; those who have any see that when they look.
    fn drive_lost(&self, number: usize, own: &Present) {
        self.dram_lost(number, own, true);
        // The host's driver stays until it finds out; what is of this life is told by its number.
        self.members[number].count(|figures| figures.lost += 1);
    }
}

/// Whether what a user was told means that the box has failed it, not the drive: the drive is gone, or the host has restarted. What was
/// not durable then may be lost as by a power cut, or may have been done.
pub fn is_failure(lost: Lost) -> bool {
    matches!(lost, Lost::Failed | Lost::Deleted | Lost::Reset)
}
