//! Virtual drives: what a hypervisor shows to tenants whose drives lend each other space ("simple virtualization and harvesting",
//! "Espresso", 3.1; BlockFlex).
//!
//! To a tenant a virtual drive is its own drive: a queue pair, and its namespace. While the drive is busy the hypervisor groups it with
//! idle ones, its *lenders*, and a write goes to whichever of the group has the fewest commands outstanding. Each drive has a namespace
//! for what it holds of others, so no tenant's commands reach another's data. A map in the host's memory says which units are at
//! lenders; what is not in it is at home. Reads go where the data is, and are split if it is in several places.
//!
//! | file | what |
//! |---|---|
//! | `command.rs` | what becomes of each command |
//! | `copyback.rs` | bringing data home from lenders that are reclaimed |
//! | `map.rs` | which units are where |
//! | `space.rs` | places in spare namespaces |
//! | `lock.rs` | ranges that commands use |
//! | `payload.rs` | data pointers of parts of a command |
//!
//! Who is busy, and who lends to whom, is decided above: [`VirtualDrive::set_lenders`].
//!
//! **Order.** A command holds the units that it touches, as long as it is under way, for reading or for changing them. So of overlapping
//! writes the last is the newest wherever they went, and a place is given to others only when no command reads it any more.
//!
//! **What is in one place.** A unit of 4 KiB is at home or at one lender, whole. Writes of whole units may be redirected; what touches
//! parts of units goes where these are. A write that a lender has not carried out goes home.
//!
//! **Flush** reaches home and every lender that holds data of the tenant's, and copies nothing. A copy is written home with Force Unit
//! Access, because what it replaces may have been flushed already.
//!
//! Its futures are to be run to their end, as tenants do, or to be dropped with all of it, as when the host's power goes.
//!
//! What it does not do, as the paper's does not:
//!
//! - The map does not outlive the host's power: after a restart what is at lenders can't be found. Nor is a lender's power covered: what
//!   its write cache loses is lost, and what it can't give fails.
//! - Fused commands and batches would pass by: they are [not placed](crate::Lost::NotPlaced).
//! - A command that neither reads nor writes whole blocks plainly (Copy, Write Uncorrectable, vendor commands, payload in the queue)
//!   first brings everything home.

mod command;
mod copyback;
mod lock;
mod map;
mod payload;
mod space;

use crate::driver::Namespace;
use crate::error::DriverError;
use crate::queue::{QueuePair, Request};
use byteway_clock::{Clock, Delay, Notify, SpanId, Stage, Station, TaskId, Time};
use byteway_transfer::host::Buffer;
use byteway_wire::nvme::{DatasetManagement, Range};
use lock::RangeLocks;
use map::{Part, RedirectionMap, Run};
use payload::Pointers;
use space::Space;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Bytes of a unit.
const UNIT: u64 = byteway_wire::content::UNIT_BYTES as u64;

/// Commands that are outstanding, now and in the mean.
#[derive(Default)]
struct Outstanding {
    now: Cell<u32>,
    /// The number times the picoseconds that it held, since the mean was taken last.
    sum: Cell<u128>,
    changed: Cell<Time>,
    since: Cell<Time>,
}

impl Outstanding {
    fn add(&self, now: Time, change: i64) {
        let held = now.since(self.changed.replace(now)).0;
        self.sum.set(self.sum.get() + u128::from(held) * u128::from(self.now.get()));
        self.now.set((i64::from(self.now.get()) + change) as u32);
    }

    fn take_mean(&self, now: Time) -> f64 {
        self.add(now, 0);
        let elapsed = now.since(self.since.replace(now)).0.max(1);
        self.sum.take() as f64 / elapsed as f64
    }
}

/// One more is outstanding, until dropped.
struct Counted<'a> {
    outstanding: &'a Outstanding,
    clock: &'a Clock,
}

impl<'a> Counted<'a> {
    fn new(outstanding: &'a Outstanding, clock: &'a Clock) -> Self {
        outstanding.add(clock.now(), 1);
        Counted { outstanding, clock }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.outstanding.add(self.clock.now(), -1);
    }
}

/// A drive as the hypervisor has it.
pub struct HypervisorDriveConfig {
    /// The hypervisor's own queue pair.
    pub queue: QueuePair,
    /// The namespace of the drive's tenant.
    pub tenant: Namespace,
    /// The namespace for what the drive holds of others.
    pub spare: Namespace,
    /// The longest transfer of a command, bytes.
    pub transfer_bytes_max: u32,
}

struct HypervisorDrive {
    config: HypervisorDriveConfig,
    space: RefCell<Space>,
    /// Commands at the drive, whosever they are.
    load: Outstanding,
    /// The spare namespace may hold something that was not deallocated.
    is_used: Cell<bool>,
    /// A page of memory for the list of what is deallocated.
    page: u64,
    /// A command was lost there.
    is_lost: Cell<bool>,
}

/// What managing virtual drives costs the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HypervisorCosts {
    /// Processor time for each command of a tenant's, and for each copy.
    pub command: Delay,
    /// What of it is done under the hypervisor's lock, for one command after another. Who waits for the lock keeps no processor.
    pub lock: Delay,
}

/// How virtual drives copy data home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopybackConfig {
    /// Units of a copy, at most.
    pub units: u32,
    /// Copies of a tenant's under way at once, at least one.
    pub copies: usize,
    /// How long a copy that failed is let be.
    pub retry: Delay,
}

/// A hypervisor: all drives of a box, and what it costs to manage them. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Hypervisor(Rc<HypervisorInner>);

struct HypervisorInner {
    clock: Clock,
    /// The host's processors.
    cpu: Rc<Station>,
    /// The lock, which one command at a time holds.
    lock: Station,
    costs: HypervisorCosts,
    drives: Vec<HypervisorDrive>,
}

impl Hypervisor {
    /// Of these drives, whose commands and copies are managed on `cpu`. Whatever their spare namespaces hold is of no account.
    ///
    /// # Errors
    /// There is no memory for a page each.
    pub fn new(
        clock: &Clock,
        cpu: Rc<Station>,
        costs: HypervisorCosts,
        drives: Vec<HypervisorDriveConfig>,
    ) -> Result<Hypervisor, DriverError> {
        let drives = drives.into_iter().map(|config| {
            let units = config.spare.blocks / (UNIT / u64::from(config.spare.block_bytes));
            let page = config.queue.port().memory().allocate(1)?;
            let (space, is_used) = (RefCell::new(Space::new(units)), Cell::new(true));
            let (load, is_lost) = Default::default();
            Some(HypervisorDrive { config, space, load, is_used, page, is_lost })
        });
        let drives: Option<Vec<_>> = drives.collect();
        let drives = drives.ok_or(DriverError::Memory("the hypervisor's lists"))?;
        let (clock, lock) = (clock.clone(), Station::new(clock, 1));
        Ok(Hypervisor(Rc::new(HypervisorInner { clock, cpu, lock, costs, drives })))
    }

    /// Deallocates a drive's spare namespace, if it holds nothing of others: what a new drive holds there is stale.
    ///
    /// # Panics
    /// There is no such drive.
    pub async fn restore(&self, drive: usize) {
        self.0.restore(drive).await;
    }

    /// Units of a drive's spare namespace that hold nothing, and units that it has.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn spare(&self, drive: usize) -> (u64, u64) {
        let space = self.0.drives[drive].space.borrow();
        (space.free(), space.units())
    }

    /// Whether a command to a drive's spare namespace was lost: its driver has given the drive up, or has reset it.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn is_lost(&self, drive: usize) -> bool {
        self.0.drives[drive].is_lost.get()
    }

    /// How long the lock was held, and how long commands will still wait for it.
    pub fn lock_busy(&self) -> Delay {
        self.0.lock.busy()
    }
}

impl HypervisorInner {
    /// Manages a command: processor time, of which the last part is under the lock.
    async fn manage(&self, span: SpanId) {
        let HypervisorInner { clock, cpu, lock, costs, .. } = self;
        let under_lock = costs.lock.min(costs.command);
        let before = costs.command.saturating_sub(under_lock);
        if before > Delay::ZERO {
            let service = cpu.reserve_for("hypervisor", before);
            clock.sleep_until(service.end).await;
            clock.spans().charge_split(span, clock.now(), service.queued, Stage::Host);
        }
        if under_lock > Delay::ZERO {
            let (turn, service) = (lock.reserve(under_lock), cpu.reserve_for("hypervisor", under_lock));
            clock.sleep_until(turn.end.max(service.end)).await;
            let queued = turn.queued.max(service.queued);
            clock.spans().charge_split(span, clock.now(), queued, Stage::Host);
        }
    }

    /// Deallocates the spare namespace of a drive that holds nothing of others, so that its collector does not move what is stale.
    async fn restore(&self, number: usize) {
        let drive = &self.drives[number];
        let units = {
            let mut space = drive.space.borrow_mut();
            let units = space.units();
            // All of it is taken meanwhile, so that nothing is written there.
            if space.free() < units || !drive.is_used.get() || space.take(units).is_none() {
                return;
            }
            units
        };
        drive.is_used.set(false);
        let (queue, spare) = (&drive.config.queue, &drive.config.spare);
        let range = Range::new(0, spare.blocks.min(u64::from(u32::MAX)) as u32);
        if queue.port().memory().write(drive.page, &range.to_bytes()).is_ok() {
            let command = DatasetManagement { ad: true, ..DatasetManagement::default() };
            let sqe = command.sqe(0, spare.nsid).with_prp(drive.page, 0);
            let _counted = Counted::new(&drive.load, &self.clock);
            // If it fails the space is as it was: stale, and free.
            let _ = queue.execute(Request { pages: 1, ..Request::from(sqe) }).await;
        }
        drive.space.borrow_mut().give(0, units);
    }

    /// Gives places back that hold nothing any more.
    fn give(&self, freed: &mut Vec<Run>) {
        for run in freed.drain(..) {
            self.drives[run.lender].space.borrow_mut().give(run.at, run.count);
        }
    }
}

/// What a virtual drive has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtualFigures {
    /// Commands of its tenant's.
    pub commands: u64,
    /// Writes.
    pub writes: u64,
    /// Of these, those that lenders have taken.
    pub redirected: u64,
    /// Units of these.
    pub units_redirected: u64,
    /// Writes that a lender has not carried out, and that went home.
    pub returned: u64,
    /// Reads of data at lenders, in whole or in part.
    pub reads_at_lenders: u64,
    /// Commands that were split.
    pub split: u64,
    /// Units that were read from lenders and written home.
    pub units_copied: u64,
    /// When the last of them was.
    pub last_copy: Time,
    /// Copies that failed; they are tried again.
    pub copies_failed: u64,
}

/// A virtual drive. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct VirtualDrive(Rc<Inner>);

struct Inner {
    clock: Clock,
    hypervisor: Rc<HypervisorInner>,
    /// Which of the hypervisor's drives is its own.
    home: usize,
    /// Of a unit.
    blocks_per_unit: u64,
    copyback: Option<CopybackConfig>,
    pointers: Pointers,
    map: RefCell<RedirectionMap>,
    locks: RangeLocks,
    lenders: RefCell<Vec<usize>>,
    /// Commands of the tenant's, wherever they are.
    own: Outstanding,
    figures: Cell<VirtualFigures>,
    /// Where the copiers go on.
    cursor: Cell<u64>,
    /// No further copy begins.
    is_stopped: Cell<bool>,
    /// Copies under way.
    copying: Cell<u32>,
    /// There may be something to copy.
    to_copy: Notify,
    /// Something was copied or is at home, or a copy has ended.
    copied: Notify,
    /// Memory that serves again.
    parts: RefCell<Vec<Vec<Part>>>,
    freed: RefCell<Vec<Run>>,
}

impl VirtualDrive {
    /// The virtual drive of the tenant of `home`. What lenders hold is copied back when they are lenders no more; without `copyback` it
    /// stays there until it is written anew.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn new(hypervisor: &Hypervisor, home: usize, copyback: Option<CopybackConfig>) -> VirtualDrive {
        let (clock, hypervisor) = (hypervisor.0.clock.clone(), hypervisor.0.clone());
        let config = &hypervisor.drives[home].config;
        let memory = config.queue.port().memory().clone();
        VirtualDrive(Rc::new(Inner {
            home,
            blocks_per_unit: UNIT / u64::from(config.tenant.block_bytes),
            copyback,
            pointers: Pointers::new(&memory, config.transfer_bytes_max),
            map: RefCell::new(RedirectionMap::new(hypervisor.drives.len())),
            locks: RangeLocks::new(&clock),
            lenders: RefCell::default(),
            own: Outstanding::default(),
            figures: Cell::default(),
            cursor: Cell::default(),
            is_stopped: Cell::default(),
            copying: Cell::default(),
            to_copy: Notify::new(&clock),
            copied: Notify::new(&clock),
            parts: RefCell::default(),
            freed: RefCell::default(),
            clock,
            hypervisor,
        }))
    }

    /// Starts what copies data home. Gives the tasks, none where nothing is copied; they never end.
    ///
    /// # Errors
    /// There is no memory for the copies.
    pub fn start(&self) -> Result<Vec<TaskId>, DriverError> {
        let Some(config) = self.0.copyback else { return Ok(Vec::new()) };
        let memory = self.0.own_drive().queue.port().memory();
        let units = u64::from(config.units.max(1)).min(self.0.transfer_units());
        let buffers: Option<Vec<Buffer>> =
            (0..config.copies.max(1)).map(|_| Buffer::contiguous(memory, 0, (units * UNIT) as u32)).collect();
        let buffers = buffers.ok_or(DriverError::Memory("the hypervisor's copies"))?;
        let copier = |buffer| self.0.clock.spawn("copyback", copyback::run(self.0.clone(), buffer, config));
        Ok(buffers.into_iter().map(copier).collect())
    }

    /// A queue pair for the tenant, over `own`, which is one of its drive's.
    pub fn queue(&self, own: QueuePair) -> QueuePair {
        command::tenant_queue(self.0.clone(), own)
    }

    /// From now on these drives take a part of the writes, and no others. Data of those that took some before is copied back, if it
    /// is at all.
    pub fn set_lenders(&self, lenders: &[usize]) {
        let mut present = self.0.lenders.borrow_mut();
        present.clear();
        present.extend(lenders.iter().filter(|lender| self.0.may_lend(**lender)));
        drop(present);
        self.0.to_copy.notify_all();
    }

    /// Its lenders.
    pub fn lenders(&self) -> Vec<usize> {
        self.0.lenders.borrow().clone()
    }

    /// Units that a drive holds for it.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn held(&self, drive: usize) -> u64 {
        self.0.map.borrow().held(drive)
    }

    /// Units that are not at home.
    pub fn away(&self) -> u64 {
        let map = self.0.map.borrow();
        (0..self.0.hypervisor.drives.len()).map(|drive| map.held(drive)).sum()
    }

    /// Waits until everything is at home.
    pub async fn came_home(&self) {
        while !self.0.map.borrow().is_empty() {
            self.0.copied.notified().await;
        }
    }

    /// Begins no further copy, and waits until those under way have ended: what is away then stays there.
    pub async fn stop_copying(&self) {
        self.0.is_stopped.set(true);
        while self.0.copying.get() > 0 {
            self.0.copied.notified().await;
        }
    }

    /// Commands of its tenant's that were outstanding since this was asked last, in the mean.
    pub fn mean_outstanding(&self) -> f64 {
        self.0.own.take_mean(self.0.clock.now())
    }

    /// What it has done.
    pub fn figures(&self) -> VirtualFigures {
        self.0.figures.get()
    }

    /// Whether no command and no copy is under way.
    pub fn is_quiet(&self) -> bool {
        self.0.locks.len() == 0
    }
}

impl Inner {
    fn own_drive(&self) -> &HypervisorDriveConfig {
        &self.hypervisor.drives[self.home].config
    }

    /// Units of the longest transfer.
    fn transfer_units(&self) -> u64 {
        (u64::from(self.own_drive().transfer_bytes_max) / UNIT).max(1)
    }

    /// Whether a drive can hold what this one's commands write.
    fn may_lend(&self, drive: usize) -> bool {
        let own = self.own_drive();
        drive != self.home
            && self.hypervisor.drives.get(drive).is_some_and(|it| {
                !it.is_lost.get()
                    && it.config.spare.block_bytes == own.tenant.block_bytes
                    && it.config.transfer_bytes_max >= own.transfer_bytes_max
            })
    }

    fn count(&self, of: impl FnOnce(&mut VirtualFigures)) {
        let mut figures = self.figures.get();
        of(&mut figures);
        self.figures.set(figures);
    }

    /// `units` are at home from now on.
    fn is_at_home(&self, units: std::ops::Range<u64>) {
        let freed = &mut *self.freed.borrow_mut();
        self.map.borrow_mut().remove(units, freed);
        if !freed.is_empty() {
            self.hypervisor.give(freed);
            self.copied.notify_all();
        }
    }
}
