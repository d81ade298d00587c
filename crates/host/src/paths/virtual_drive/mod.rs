//! Virtual drives: drives that a hypervisor presents to tenants, and that lend each other space ("simple virtualization
//! and harvesting", "Espresso", 3.1; BlockFlex).
//!
//! To its tenant a virtual drive is an ordinary drive: a queue pair and a namespace. While the drive is busy the
//! hypervisor groups it with idle ones, its *lenders*, and a write goes to the drive of the group with the fewest
//! outstanding commands. Each drive has a separate namespace for others' data, so no tenant's commands reach another's
//! data. A map in host memory tells which units are at lenders; all others are at home. Reads go where the data is, and
//! are split if it is in several places.
//!
//! | file | what |
//! |---|---|
//! | `command.rs` | handling of each command |
//! | `copyback.rs` | copying data home from reclaimed lenders |
//! | `map.rs` | the places of units |
//! | `space.rs` | free space in spare namespaces |
//! | `payload.rs` | data pointers for parts of a command |
//!
//! Lenders are chosen elsewhere: [`VirtualDrive::set_lenders`].
//!
//! **Order.** A command locks the units that it touches while it is in flight, for reading or for changing them. So of
//! overlapping writes the last is the newest wherever they went, and space is reused only when no command reads it any
//! more.
//!
//! **Location.** A unit of 4 KiB is at home or at one lender, as a whole. Writes of whole units may be redirected;
//! commands on parts of units go where the units are. A write that a lender did not execute goes home.
//!
//! **Flush** reaches home and every lender with data of the tenant, and copies nothing. A copy is written home with
//! Force Unit Access, because the data may have been flushed at the lender.
//!
//! Its futures must be run to their end, as tenants do, or dropped with everything, as in a power loss of the host.
//!
//! What it does not do, as in the paper:
//!
//! - The map is volatile: after a restart of the host, data at lenders can't be found. Nor is a power loss of a lender
//!   covered: what its write cache loses is lost, and unreadable data fails.
//! - Fused commands and batches would bypass the map: they are [not placed](crate::Lost::NotPlaced).
//! - Commands other than plain reads and writes of blocks (Copy, Write Uncorrectable, vendor commands, payload in the
//!   queue) first copy everything home.

mod command;
mod copyback;
mod map;
mod payload;
mod space;

use crate::driver::controller::Namespace;
use crate::driver::queue::{QueuePair, Request};
use crate::error::DriverError;
use byteway_clock::{Clock, Delay, Notify, RangeLocks, SpanId, Stage, Station, TaskId, Time};
use byteway_transfer::host::Buffer;
use byteway_wire::nvme::{DatasetManagement, Range};
use map::{Part, RedirectionMap, Run};
use payload::Pointers;
use space::Space;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Size of a unit, in bytes.
const UNIT: u64 = byteway_content::UNIT_BYTES as u64;

/// Number of outstanding commands, now and in the mean.
#[derive(Default)]
struct Outstanding {
    now: Cell<u32>,
    /// `now`, integrated over picoseconds since the mean was last taken.
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

/// Counts a command as outstanding until it is dropped.
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

/// Configuration of a drive's hypervisor.
pub struct HypervisorDriveConfig {
    /// The hypervisor's own queue pair.
    pub queue: QueuePair,
    /// The namespace of the drive's tenant.
    pub tenant: Namespace,
    /// The namespace for others' data.
    pub spare: Namespace,
    /// Maximum data transfer of a command, in bytes.
    pub transfer_bytes_max: u32,
}

struct HypervisorDrive {
    config: HypervisorDriveConfig,
    space: RefCell<Space>,
    /// Outstanding commands at the drive, of all tenants.
    load: Outstanding,
    /// The spare namespace may hold data that was not deallocated.
    is_used: Cell<bool>,
    /// A page of memory for the list of deallocated ranges.
    page: u64,
    /// A command was lost there.
    is_lost: Cell<bool>,
}

/// Processor time of managing virtual drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HypervisorCosts {
    /// Processor time for each command of a tenant, and for each copy.
    pub command: Delay,
    /// The part of it under the hypervisor's lock, which serializes commands. Waiting for the lock occupies no
    /// processor.
    pub lock: Delay,
}

/// Configuration of copying data home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopybackConfig {
    /// Maximum number of units in a copy.
    pub units: u32,
    /// Maximum number of copies in flight for a tenant, at least one.
    pub copies: usize,
    /// Delay before a failed copy is tried again.
    pub retry: Delay,
}

/// A hypervisor: all drives of a JBOF, and the cost of managing them. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Hypervisor(Rc<HypervisorInner>);

struct HypervisorInner {
    clock: Clock,
    /// The host's processors.
    cpu: Rc<Station>,
    /// The lock, held by one command at a time.
    lock: Station,
    costs: HypervisorCosts,
    drives: Vec<HypervisorDrive>,
}

impl Hypervisor {
    /// A hypervisor of these drives, which manages commands and copies on `cpu`. Existing contents of spare namespaces
    /// are ignored.
    ///
    /// # Errors
    /// [`DriverError`] if no memory is available for a page per drive.
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

    /// Deallocates a drive's spare namespace, if it holds no data of others: its contents on a new drive are stale.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub async fn restore(&self, drive: usize) {
        self.0.restore(drive).await;
    }

    /// Free units of a drive's spare namespace, and all its units.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn spare(&self, drive: usize) -> (u64, u64) {
        let space = self.0.drives[drive].space.borrow();
        (space.free(), space.units())
    }

    /// Whether a command to a drive's spare namespace was lost: its driver has given the drive up, or has reset it.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn is_lost(&self, drive: usize) -> bool {
        self.0.drives[drive].is_lost.get()
    }

    /// Time for which the lock was held, including reservations of waiting commands.
    pub fn lock_busy(&self) -> Delay {
        self.0.lock.busy()
    }
}

impl HypervisorInner {
    /// Charges the management of a command: processor time, of which the last part is under the lock.
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

    /// Deallocates the spare namespace of a drive that holds no data of others, so that its garbage collection does not
    /// move stale data.
    async fn restore(&self, number: usize) {
        let drive = &self.drives[number];
        let units = {
            let mut space = drive.space.borrow_mut();
            let units = space.units();
            // Take all of it meanwhile, so that nothing is written there.
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
            // On a failure the space is as before: stale, and free.
            let _ = queue.execute(Request { pages: 1, ..Request::from(sqe) }).await;
        }
        drive.space.borrow_mut().give(0, units);
    }

    /// Returns space that holds no data any more.
    fn give(&self, freed: &mut Vec<Run>) {
        for run in freed.drain(..) {
            self.drives[run.lender].space.borrow_mut().give(run.at, run.count);
        }
    }
}

/// Counters of a virtual drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtualFigures {
    /// Commands of its tenant.
    pub commands: u64,
    /// Write commands.
    pub writes: u64,
    /// The part of `writes` executed by lenders.
    pub redirected: u64,
    /// Units of these writes.
    pub units_redirected: u64,
    /// Writes that a lender did not execute, and that were written at home.
    pub returned: u64,
    /// Reads of data at lenders, in whole or in part.
    pub reads_at_lenders: u64,
    /// Commands that were split.
    pub split: u64,
    /// Units copied home.
    pub units_copied: u64,
    /// Time of the last copy.
    pub last_copy: Time,
    /// Failed copies; they are tried again.
    pub copies_failed: u64,
}

/// A virtual drive. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct VirtualDrive(Rc<Inner>);

struct Inner {
    clock: Clock,
    hypervisor: Rc<HypervisorInner>,
    /// Index of its own drive in the hypervisor.
    home: usize,
    /// Blocks per unit.
    blocks_per_unit: u64,
    copyback: Option<CopybackConfig>,
    pointers: Pointers,
    map: RefCell<RedirectionMap>,
    locks: RangeLocks,
    lenders: RefCell<Vec<usize>>,
    /// Outstanding commands of the tenant, wherever they are.
    own: Outstanding,
    figures: Cell<VirtualFigures>,
    /// Unit at which copiers continue.
    cursor: Cell<u64>,
    /// No further copy begins.
    is_stopped: Cell<bool>,
    /// Copies in flight.
    copying: Cell<u32>,
    /// There may be something to copy.
    to_copy: Notify,
    /// A copy has ended, or units were copied back.
    copied: Notify,
    /// Emptied lists, reused.
    parts: RefCell<Vec<Vec<Part>>>,
    freed: RefCell<Vec<Run>>,
}

impl VirtualDrive {
    /// The virtual drive of the tenant of `home`. Data at former lenders is copied back; without `copyback` it stays
    /// there until it is overwritten.
    ///
    /// # Panics
    /// If the drive does not exist.
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

    /// Starts the copiers. Returns their tasks, which never end; empty without copyback.
    ///
    /// # Errors
    /// [`DriverError`] if no memory is available for the copies.
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

    /// A queue pair for the tenant, over `own`, which belongs to its drive.
    pub fn queue(&self, own: QueuePair) -> QueuePair {
        command::tenant_queue(self.0.clone(), own)
    }

    /// Sets the drives that take a part of the writes. Data at former lenders is copied back, if copyback is
    /// configured.
    pub fn set_lenders(&self, lenders: &[usize]) {
        let mut present = self.0.lenders.borrow_mut();
        present.clear();
        present.extend(lenders.iter().filter(|lender| self.0.may_lend(**lender)));
        drop(present);
        self.0.to_copy.notify_all();
    }

    /// Lenders of the drive.
    pub fn lenders(&self) -> Vec<usize> {
        self.0.lenders.borrow().clone()
    }

    /// Units that a drive holds for it.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn held(&self, drive: usize) -> u64 {
        self.0.map.borrow().held(drive)
    }

    /// Number of units that are not at home.
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

    /// Stops copying, and waits until copies in flight have ended. Units that are away then stay there.
    pub async fn stop_copying(&self) {
        self.0.is_stopped.set(true);
        while self.0.copying.get() > 0 {
            self.0.copied.notified().await;
        }
    }

    /// Mean number of its tenant's outstanding commands since the last call.
    pub fn mean_outstanding(&self) -> f64 {
        self.0.own.take_mean(self.0.clock.now())
    }

    /// The counters so far.
    pub fn figures(&self) -> VirtualFigures {
        self.0.figures.get()
    }

    /// Whether no command and no copy is in flight.
    pub fn is_quiet(&self) -> bool {
        self.0.locks.is_empty()
    }
}

impl Inner {
    fn own_drive(&self) -> &HypervisorDriveConfig {
        &self.hypervisor.drives[self.home].config
    }

    /// Units of the maximum transfer.
    fn transfer_units(&self) -> u64 {
        (u64::from(self.own_drive().transfer_bytes_max) / UNIT).max(1)
    }

    /// Whether a drive can hold the data of this one's commands.
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

    /// Notes that `units` are at home.
    fn is_at_home(&self, units: std::ops::Range<u64>) {
        let freed = &mut *self.freed.borrow_mut();
        self.map.borrow_mut().remove(units, freed);
        if !freed.is_empty() {
            self.hypervisor.give(freed);
            self.copied.notify_all();
        }
    }
}
