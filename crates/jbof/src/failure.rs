//! Failures in a running JBOF ("Espresso", 4.5).
//!
//! | failure | effect | recovery |
//! |---|---|---|
//! | a lender is unplugged ([`Jbof::unplug`]), or loses its power ([`Jbof::cut_power`]) | commands in flight at its shadow queue do not complete | its driver gives it up: at once if its slot reports that it is empty, otherwise after [`JbofConfig::timeout`]: an Abort, then a reset, which finds the slot empty. The host has the borrower revoke the loan and execute the commands, and unbinds |
//! | a borrower is unplugged, or loses its power | the lender waits for flash that does not answer | the loan is revoked: the lender completes the commands as interrupted, withdraws its descriptor, and takes its queue back when the host has unbound it. Its claims elsewhere are given back by its lenders, or by itself when it comes back |
//! | the link of a drive to the fabric is lost ([`Jbof::lose_link`]) | messages wait ([`fabric`](crate::fabric)); tables can't be read | host and peers treat an unreadable table as offering nothing, and loans of its drive as over: the host redirects nothing more, the lender revokes the loan, a borrower forgets it. When the link is back they start over |
//! | the host restarts ([`Jbof::restart_host`]) | queue pairs are gone, and bindings are forgotten | its drivers reset every controller, which ends all loans; lenders withdraw; the host unbinds every descriptor that is marked as bound |
//! | a drive with DRAM that others have borrowed is lost, or its link | their dirty pages were there | they rebuild these pages from flash and their logs; a command that waits for a line from there looks the page up again. DRAM that the drive had borrowed returns to its lenders |
//! | a controller is reset | its queues and offers are gone, and its loans are revoked | as above |
//!
//! **No command of a lender takes effect late.** A lender that hangs, or is cut off, may resume long after the host has
//! given its commands up and others have written the same blocks. So the borrower first revokes the loan
//! ([`Loan::revoke`](byteway_device::Loan::revoke)), and only then gets the command; later actions of the lender reach
//! neither map, nor flash, nor link of the borrower. A lender that completes a command as interrupted does not continue
//! it.
//!
//! A drive that comes back has an empty table and no loans. Each power-on has a number, by which the host distinguishes
//! it from what it had bound before.

use super::Jbof;
use super::error::JbofError;
use byteway_flash::Medium;
use byteway_host::Lost;

#[cfg(doc)]
use super::JbofConfig;

impl Jbof {
    /// Removes a drive from its slot: its power is cut, and the slot reports it as empty. Its medium stays with the
    /// slot until the drive [comes back](Jbof::plug_in). No effect on a slot that is empty.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn unplug(&self, drive: usize) {
        self.0.lose_power(drive, true);
    }

    /// Cuts the power of a drive in its slot, which still reports a drive: it stops answering.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn cut_power(&self, drive: usize) {
        self.0.lose_power(drive, false);
    }

    /// Powers on a drive that was removed or has lost its power, and attaches a driver. Its users must create new queue
    /// pairs.
    ///
    /// # Errors
    /// [`JbofError`] if it has lost its power again, or fails.
    ///
    /// # Panics
    /// If the drive does not exist.
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
    /// If the drive does not exist.
    pub fn is_there(&self, drive: usize) -> bool {
        let member = &self.0.members[drive];
        member.attached().is_some()
    }

    /// The number of a drive's power-on, unique in the JBOF; `None`: it has no power.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn life(&self, drive: usize) -> Option<u64> {
        self.0.members[drive].present().map(|own| own.life)
    }

    /// Takes the link between a drive and the fabric down. Its link to the host is separate, and stays up.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn lose_link(&self, drive: usize) {
        self.0.fabric.set_up(drive, false);
        if let Some(own) = self.0.members[drive].present() {
            self.0.dram_lost(drive, &own, false);
        }
    }

    /// Brings the link between a drive and the fabric up.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn restore_link(&self, drive: usize) {
        self.0.fabric.set_up(drive, true);
    }

    /// Restarts the host, while the drives keep their power: every command in flight is lost as [`Lost::Deleted`],
    /// drivers attach again, and users must create new queue pairs. Returns when all present drives have drivers.
    ///
    /// # Errors
    /// [`JbofError`] of a drive that fails. The others have drivers nevertheless.
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
            // A drive that has lost its power meanwhile is no error.
            outcome = outcome.and(attached.or_else(|error| match member.present() {
                None => Ok(()),
                Some(_) => Err(error),
            }));
        }
        outcome
    }

    /// Number of host restarts, including one in progress.
    pub fn host_restarts(&self) -> u64 {
        self.0.host_restarts.get()
    }

    /// Cuts the power of all drives, at the end. Returns their media in order; `None`: taken before, or lost in a
    /// failed [`Jbof::plug_in`].
    pub fn power_off(&self) -> Vec<Option<Medium>> {
        (0..self.0.members.len()).for_each(|drive| self.0.lose_power(drive, false));
        self.0.members.iter().map(|member| member.medium.take()).collect()
    }
}

/// Whether a command was lost because the drive is gone or the host has restarted, rather than by an error of the
/// drive. Writes that were not durable may be lost, as in a power cut, or may have been done.
pub fn is_failure(lost: Lost) -> bool {
    matches!(lost, Lost::Failed | Lost::Deleted | Lost::Reset)
}
