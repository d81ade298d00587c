//! A JBOF: drives on one coherent fabric that lend each other processors and DRAM ("Espresso"; section numbers are that paper's).
//!
//! Every drive has a daemon in its firmware. At the end of each period it measures how busy cores and flash channels
//! were, and lends a processor, borrows one, or does neither ([`decision::policy`]). Its offers are in its idle-resource table,
//! which its peers read over the fabric. The host reads the tables, too, binds the queue pairs that lenders lend
//! ([`Redirection`](byteway_host::Redirection)), and sets each lender's share of a queue pair's commands. The order of
//! these actions does not matter: see [`decision::descriptor`].
//!
//! A lender's firmware uses the borrower's map over the fabric, and controls the borrower's flash and DMA by messages
//! to its agent ([`Placement::with_agent`]); payload is transferred over the borrower's own link. Garbage collection
//! stays with the borrower.
//!
//! What it does not do: a lock of the map between lender and borrower costs nothing beyond the lines that cross,
//! because the map of a simulated drive is one object and always coherent. A drive lends one processor at a time, to
//! one borrower; it may borrow from several. What it costs to buy and run is in `results`.
//!
//! | file | what |
//! |---|---|
//! | [`decision`] | what is decided, without any drive: when and to whom to lend, descriptors of what is idle, the demand for DRAM |
//! | [`fabric`] | the CXL fabric: ports, switches, flits |
//! | `config`, `platform`, `weights` | parameters of a JBOF, shared resources, and queue weights |
//! | `error` | errors |
//! | `state/` | a slot and its drive, its DRAM, the host's view of it; the whole |
//! | `build` | building a JBOF |
//! | `power` | power-on and power-off of a drive |
//! | `failure` | failures and recovery from them |
//! | `tables` | access to idle-resource tables over the fabric |
//! | `daemon`, `monitor` | the firmware's task in each period; a drive as borrower |
//! | `lend` | a drive as lender |
//! | `dram` | DRAM: lending, borrowing, reclaim, return and loss |
//! | `host` | drivers and queue pairs |
//! | `binding` | the host's task in each period: binding, draining, shares |
//! | `central` | firmware of all drives on the host |
//! | `harvest` | a hypervisor on the host, which redirects writes to spare space of others |
//!
//! State stands below behavior, so there is no import circle: `decision`, `fabric` < `config`, `platform`, `weights`, `error` < `state`,
//! with `central` and `harvest` < `tables`, `monitor`, `host` < `lend`, `dram`, `daemon`, `binding` < `power` < [`Jbof`] <
//! `build`, `failure`.

mod binding;
mod build;
mod central;
mod config;
mod daemon;
pub mod decision;
mod dram;
mod error;
pub mod fabric;
mod failure;
mod harvest;
mod host;
mod lend;
mod monitor;
mod platform;
mod power;
mod state;
mod tables;
mod weights;

use byteway_clock::{Delay, Station};
use byteway_firmware::HardwareFigures;
use byteway_host::{Driver, QueueConfig};
use byteway_host::{QueuePair, VirtualDrive};
use byteway_link::HostEnd;
use byteway_wire::nvme::QueuePriority;
use byteway_world::PoweredDrive;
use fabric::Fabric;
use harvest::Harvest;
use state::{Inner, Member, Present};
use std::rc::Rc;

#[cfg(doc)]
use byteway_firmware::Placement;

pub use config::{DRIVES_MAX, Defect, DramConfig, JbofConfig, JbofDrive};
pub use decision::DriveId;
pub use decision::demand::SampleConfig;
pub use error::JbofError;
pub use failure::is_failure;
pub use platform::{CentralConfig, Copyback, HostConfig, Platform, VirtualConfig};
pub use state::{DramFigures, MemberFigures};
pub use weights::QueueWeights;

/// A powered JBOF, with drivers attached.
pub struct Jbof(Rc<Inner>);

impl Jbof {
    /// Attaches a driver to each drive without one, and starts the host's task. Call it once.
    ///
    /// # Errors
    /// [`JbofError`] if a controller fails.
    pub async fn attach(&self) -> Result<(), JbofError> {
        let inner = &self.0;
        let _turn = inner.attaching.acquire(1).await;
        for number in 0..inner.members.len() {
            inner.attach(number).await?;
        }
        if let Platform::Virtual(its) = &inner.config.platform {
            let (harvest, tasks) =
                Harvest::begin(&inner.clock, &inner.cpu, &inner.members, its.clone()).await?;
            inner.harvest.replace(Some(harvest));
            inner.tasks.borrow_mut().extend(tasks);
        }
        if inner.config.platform.lends_processors() {
            let task = inner.clock.spawn("binding", binding::bind(inner.clone()));
            inner.tasks.borrow_mut().push(task);
        }
        Ok(())
    }

    /// A queue pair to a drive, whose commands may partly be redirected to its peers: of medium priority, if queues
    /// have weights.
    ///
    /// # Errors
    /// [`JbofError`] if the controller refuses it, or the drive is gone.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub async fn queue_pair(&self, drive: usize) -> Result<QueuePair, JbofError> {
        self.queue_pair_of(drive, QueuePriority::Medium).await
    }

    /// Like [`Jbof::queue_pair`], of another priority class.
    ///
    /// # Errors
    /// Same as [`Jbof::queue_pair`].
    ///
    /// # Panics
    /// If the drive does not exist.
    pub async fn queue_pair_of(&self, drive: usize, class: QueuePriority) -> Result<QueuePair, JbofError> {
        let queue = QueueConfig { priority: class, ..QueueConfig::new(self.0.config.entries) };
        self.queue_pair_with(drive, queue).await
    }

    /// Like [`Jbof::queue_pair`], with entries and a processor of its own.
    ///
    /// # Errors
    /// Same as [`Jbof::queue_pair`].
    ///
    /// # Panics
    /// If the drive does not exist.
    pub async fn queue_pair_with(&self, drive: usize, queue: QueueConfig) -> Result<QueuePair, JbofError> {
        match self.harvest() {
            Some(harvest) => harvest.queue_pair(&self.0.members[drive], drive, self.0.placed(queue)).await,
            None => self.0.queue_pair(drive, queue).await,
        }
    }

    /// Number of drives.
    pub fn len(&self) -> usize {
        self.0.members.len()
    }

    /// Always `false`: a JBOF has at least one drive.
    pub fn is_empty(&self) -> bool {
        self.0.members.is_empty()
    }

    /// A drive; `None`: it has no power.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn drive(&self, drive: usize) -> Option<Rc<PoweredDrive>> {
        self.0.members[drive].present().map(|present| present.powered.clone())
    }

    /// Driver of a drive; `None` if the drive is not powered or the host has no driver for it.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn driver(&self, drive: usize) -> Option<Driver> {
        self.0.members[drive].attached().map(|attached| attached.driver.clone())
    }

    /// Counts of its loans, and its utilization.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn figures(&self, drive: usize) -> MemberFigures {
        self.0.members[drive].figures.get()
    }

    /// Use of its DRAM, and of others' DRAM by it, since power-on. Zeroes without power.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn dram_figures(&self, drive: usize) -> DramFigures {
        self.0.dram_figures(drive)
    }

    /// Number of redirected commands of a drive's users, and of all commands of these users.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn redirected(&self, drive: usize) -> (u64, u64) {
        if let Some(own) = self.virtual_drive(drive) {
            return (own.figures().redirected, own.figures().commands);
        }
        let Some(attached) = self.0.members[drive].attached() else { return (0, 0) };
        let users = attached.users.borrow();
        users
            .iter()
            .map(|user| user.redirection.figures())
            .fold((0, 0), |sum, figures| (sum.0 + figures.redirected, sum.1 + figures.commands))
    }

    /// Number of loans of a drive that the host had it revoke because their lenders had failed, by its current queue
    /// pairs.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn revoked(&self, drive: usize) -> u64 {
        let Some(attached) = self.0.members[drive].attached() else { return 0 };
        let users = attached.users.borrow();
        users.iter().map(|user| user.redirection.figures().revoked).sum()
    }

    /// Whether nothing is lent, borrowed or bound.
    pub fn is_at_rest(&self) -> bool {
        let members = self.0.members.iter().filter_map(|member| Some((member, member.present()?)));
        let is_free = |(member, own): (&Member, Rc<Present>)| {
            own.borrows.borrow().is_empty()
                && member.table.iter().all(|(_, it)| it.borrower.is_none() && !it.served && !it.bound)
        };
        self.0.bound.borrow().is_empty() && members.into_iter().all(is_free)
    }

    /// Peers that a drive borrows from now.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn lenders(&self, drive: usize) -> Vec<usize> {
        let own = self.0.members[drive].present();
        own.map_or(Vec::new(), |own| own.borrows.borrow().iter().map(|it| it.lender).collect())
    }

    fn harvest(&self) -> Option<Rc<Harvest>> {
        self.0.harvest.borrow().clone()
    }

    /// The drive that a tenant sees, where drives are virtual.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn virtual_drive(&self, drive: usize) -> Option<VirtualDrive> {
        self.harvest().map(|harvest| harvest.drives[drive].clone())
    }

    /// Ends the host's background work for drives, once tenants have no I/O in flight: copies in progress
    /// finish, and none begins. The byte counts of link, memory and controller balance afterwards.
    pub async fn quiesce(&self) {
        let Some(harvest) = self.harvest() else { return };
        for drive in &harvest.drives {
            drive.stop_copying().await;
        }
    }

    /// The drive that a drive lends its space to, where drives are virtual.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn lends_to(&self, drive: usize) -> Option<usize> {
        self.harvest().and_then(|harvest| harvest.lends_to(drive))
    }

    /// Time for which the hypervisor's lock was held; `None` without a hypervisor.
    pub fn hypervisor_lock_busy(&self) -> Option<Delay> {
        self.harvest().map(|harvest| harvest.hypervisor.lock_busy())
    }

    /// Counters of the link of a drive whose firmware runs on the host, and the host's end of that link;
    /// [`Jbof::drive`] has that of the controller on the host, which is called.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn hardware(&self, drive: usize) -> Option<(HardwareFigures, &HostEnd)> {
        let central = (!self.0.central.is_empty()).then(|| &self.0.central[drive])?;
        Some((central.hardware.figures(), &central.link))
    }

    /// The host's processors, which record their work by name: all of it on the central platform, otherwise that of
    /// drivers without processors of their own.
    pub fn processors(&self) -> &Rc<Station> {
        &self.0.cpu
    }

    /// The fabric between the drives.
    pub fn fabric(&self) -> &Fabric {
        &self.0.fabric
    }
}

impl Drop for Jbof {
    fn drop(&mut self) {
        let daemons = self.0.members.iter().filter_map(Member::present).flat_map(|own| {
            let tasks = [own.daemon.take(), own.dram.task.take()];
            tasks.into_iter().flatten()
        });
        for task in self.0.tasks.take().into_iter().chain(daemons) {
            self.0.clock.kill(task);
        }
    }
}
