//! Virtual drives in a JBOF: which are busy, which are idle, and which lend space to which ("Espresso", 3.1; VH and VH
//! (ideal)).
//!
//! A hypervisor sees a drive from outside only. At the end of each period it takes each tenant's mean number of
//! outstanding commands. At [`VirtualConfig::busy`] or above a tenant's drive is busy and borrows; up to
//! [`VirtualConfig::idle`] it is idle and may lend, to one borrower at a time. Idle drives go to busy ones round robin,
//! one each before any has a second.
//!
//! A lender is reclaimed when its own tenant needs it, when its borrower is no longer busy, or when its space is used
//! up; its data is then copied back, and it lends again when it is empty. In VH (ideal) nothing is copied: redirected
//! data stays at the lender, which serves it until the tenant overwrites it. Space used up this way does not come back,
//! so an endless burst ends at the drive's own speed in both.
//!
//! A lender whose commands are lost lends nothing further. A drive that was away, or whose host has restarted, has no
//! virtual drive any more ([`JbofError::Gone`]): the map was in the host's memory, as in the paper.
//!
//! What it does not do: it predicts no burst, and moves no data that a tenant wrote before.

use super::error::JbofError;
use super::platform::{Copyback, VirtualConfig};
use super::state::Member;
use byteway_clock::{Clock, Station, TaskId};
use byteway_content::BlockSize;
use byteway_device::{DriveConfig, NamespaceConfig};
use byteway_host::QueueConfig;
use byteway_host::{
    CopybackConfig, DriverError, Hypervisor, HypervisorCosts, HypervisorDriveConfig, QueuePair, VirtualDrive,
};
use std::cell::RefCell;
use std::rc::Rc;

/// Divisor of a lender's space: with less than this part free it is used up.
const USED_UP: u64 = 8;
/// Maximum transfer of a drive that reports no limit, in bytes.
const TRANSFER_BYTES: u32 = 2 << 20;

/// Adds the namespace for others' data to a drive.
pub(super) fn with_spare(mut drive: DriveConfig, config: &VirtualConfig) -> DriveConfig {
    let block = drive.namespaces.first().map_or(BlockSize::B512, |tenant| tenant.block);
    drive.namespaces.push(NamespaceConfig::blocks(config.spare_units, block));
    drive
}

/// The hypervisor of a JBOF, and its tenants' drives.
pub(super) struct Harvest {
    pub(super) hypervisor: Hypervisor,
    pub(super) drives: Vec<VirtualDrive>,
    config: VirtualConfig,
    /// Power-on number of each drive, and the number of its controller's resets.
    lives: Vec<(u64, u64)>,
    /// The borrower of each lending drive.
    lends_to: RefCell<Vec<Option<usize>>>,
}

impl Harvest {
    /// Starts the hypervisor over drives with a namespace for their tenant, the first, and one for others, the last.
    /// Its own queue pairs are those that drives would lend on other platforms. Returns the tasks that end with the
    /// JBOF.
    pub(super) async fn begin(
        clock: &Clock,
        cpu: &Rc<Station>,
        members: &[Member],
        config: VirtualConfig,
    ) -> Result<(Rc<Harvest>, Vec<TaskId>), JbofError> {
        let failed = |drive: usize, error| JbofError::Driver { drive, error };
        let (mut of_drives, mut lives) = (Vec::new(), Vec::new());
        for (number, member) in members.iter().enumerate() {
            let (attached, present) =
                member.attached().zip(member.present()).ok_or(JbofError::Gone(number))?;
            let namespaces = attached.driver.namespaces();
            let (Some(tenant), Some(spare)) = (namespaces.first(), namespaces.get(1..).and_then(<[_]>::last))
            else {
                return Err(failed(number, DriverError::CommandSet));
            };
            let longest = attached.driver.transfer_bytes_max().unwrap_or(u64::MAX);
            of_drives.push(HypervisorDriveConfig {
                queue: attached.shadow.clone(),
                tenant: *tenant,
                spare: *spare,
                transfer_bytes_max: longest.min(TRANSFER_BYTES.into()) as u32,
            });
            lives.push((present.life, attached.driver.resets()));
        }
        let costs = HypervisorCosts { command: config.command, lock: config.lock };
        let hypervisor = Hypervisor::new(clock, cpu.clone(), costs, of_drives);
        let hypervisor = hypervisor.map_err(|error| failed(0, error))?;
        let copyback =
            CopybackConfig { units: config.copy_units, copies: config.copies, retry: config.period };
        let copyback = (config.copyback == Copyback::Copied).then_some(copyback);
        let (mut drives, mut tasks) = (Vec::new(), Vec::new());
        for number in 0..members.len() {
            hypervisor.restore(number).await;
            let drive = VirtualDrive::new(&hypervisor, number, copyback);
            tasks.extend(drive.start().map_err(|error| failed(number, error))?);
            drives.push(drive);
        }
        let lends_to = RefCell::new(vec![None; drives.len()]);
        let harvest = Rc::new(Harvest { hypervisor, drives, config, lives, lends_to });
        tasks.push(clock.spawn("hypervisor", watch(clock.clone(), harvest.clone())));
        Ok((harvest, tasks))
    }

    /// Creates a queue pair for the tenant of a drive, `member` of the JBOF.
    pub(super) async fn queue_pair(
        &self,
        member: &Member,
        drive: usize,
        queue: QueueConfig,
    ) -> Result<QueuePair, JbofError> {
        let (attached, present) = member.attached().zip(member.present()).ok_or(JbofError::Gone(drive))?;
        // The map does not know the data of a drive that was away, or whose host has restarted.
        if self.lives[drive] != (present.life, attached.driver.resets()) {
            return Err(JbofError::Gone(drive));
        }
        let own = attached.driver.create_queue_pair(queue).await;
        Ok(self.drives[drive].queue(own.map_err(|error| JbofError::Driver { drive, error })?))
    }

    /// The drive that a drive lends its space to.
    pub(super) fn lends_to(&self, drive: usize) -> Option<usize> {
        self.lends_to.borrow()[drive]
    }

    /// Decides for a period; `means`: mean number of each tenant's outstanding commands in the last one.
    fn decide(&self, means: &[f64]) {
        let is_busy = |drive: usize| means[drive] >= self.config.busy;
        let is_idle = |drive: usize| means[drive] <= self.config.idle;
        let before = self.lends_to.borrow().clone();
        let mut lends_to = self.lends_to.borrow_mut();
        for lender in 0..means.len() {
            let Some(borrower) = lends_to[lender] else { continue };
            let (free, units) = self.hypervisor.spare(lender);
            let is_used_up = self.config.copyback == Copyback::Copied && free < units / USED_UP;
            let is_lost = self.hypervisor.is_lost(lender);
            if !is_busy(borrower) || !is_idle(lender) || is_used_up || is_lost {
                lends_to[lender] = None;
            }
        }
        for round in 0..self.config.lenders_max {
            for borrower in (0..means.len()).filter(|drive| is_busy(*drive)) {
                if lends_to.iter().filter(|it| **it == Some(borrower)).count() > round {
                    continue;
                }
                let free = |lender: &usize| {
                    lends_to[*lender].is_none()
                        && is_idle(*lender)
                        && self.can_lend(*lender)
                        && *lender != borrower
                };
                let Some(lender) = (0..means.len()).find(free) else { break };
                lends_to[lender] = Some(borrower);
            }
        }
        if before != *lends_to {
            for (number, drive) in self.drives.iter().enumerate() {
                let own: Vec<usize> = (0..means.len()).filter(|it| lends_to[*it] == Some(number)).collect();
                if drive.lenders() != own {
                    drive.set_lenders(&own);
                }
            }
        }
    }

    /// Whether a drive has space to lend: all of it, if data is copied back, and none of its own data waits to be
    /// copied.
    fn can_lend(&self, drive: usize) -> bool {
        let (free, units) = self.hypervisor.spare(drive);
        if self.hypervisor.is_lost(drive) {
            return false;
        }
        match self.config.copyback {
            Copyback::Copied => units > 0 && free == units && self.drives[drive].away() == 0,
            Copyback::Kept => free > units / USED_UP,
        }
    }
}

/// Acts at the end of each period.
async fn watch(clock: Clock, harvest: Rc<Harvest>) {
    loop {
        clock.sleep(harvest.config.period).await;
        let means: Vec<f64> = harvest.drives.iter().map(VirtualDrive::mean_outstanding).collect();
        harvest.decide(&means);
    }
}
