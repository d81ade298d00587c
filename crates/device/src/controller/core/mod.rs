//! The controller's shared state, and the operations on it that all parts use.
//!
//! | file | what |
//! |---|---|
//! | [`doorbell`] | writes to BAR0 |
//! | [`shadow`] | shadow doorbells in host memory |
//! | [`completion`] | completions: posting and announcing |
//! | [`waiting`] | ending commands that have no command slot |
//! | [`record`] | the controller's non-volatile state |
//! | `books` | what commands have moved, in counters and in the I/O ledger of a drive that is watched |
//! | `peers` | the controllers of one drive |
//!
//! It knows no command and no command set.

use crate::backing::Backing;
use crate::config::DriveConfig;
use crate::controller::core::peers::Peers;
use crate::controller::memory::Memory;
use crate::controller::namespace::Namespace;
use crate::controller::namespace::inventory::Inventory;
use crate::controller::queue::Queues;
use crate::controller::queue::parked::Parked;
use crate::controller::state::background::Background;
use crate::controller::state::counters::{Counters, ErrorLog};
use crate::controller::state::event::Events;
use crate::controller::state::feature::Features;
use crate::controller::state::interrupt::Interrupts;
use crate::controller::state::lifecycle::Lifecycle;
use crate::controller::state::loan::Borrowed;
use crate::controller::state::merging::Merging;
use crate::controller::state::registers::Registers;
use crate::controller::state::slot::{Command, Slots};
use byteway_clock::{Clock, Delay, Handler, TaskId};
use byteway_firmware::{Placement, Route};
use byteway_link::DeviceEnd;
use byteway_wire::nvme::feature::HostMemoryBuffer;
use byteway_wire::nvme::register::Cap;
use byteway_wire::nvme::{Sqe, Status};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

mod books;
pub mod completion;
pub mod doorbell;
pub(crate) mod peers;
pub mod record;
pub mod shadow;
pub mod waiting;

/// Interval of checks whether all posted writes have arrived.
const ARRIVAL: Delay = Delay::from_ns(100);

/// Chooses the route of the placement for the firmware work of a command, by submission queue and entry.
pub type Router = Rc<dyn Fn(u16, &Sqe) -> Route>;

/// Firmware hook that runs when a controller reset begins, before the host sees it done.
pub type OnReset = Box<dyn Fn()>;

/// State that the controllers of one drive share.
struct Shared {
    peers: Rc<Peers<Core>>,
    config: DriveConfig,
    placement: Placement,
    backing: Backing,
    inventory: Inventory,
    background: Rc<Background>,
}

impl Shared {
    /// The state of the drive's next controller, at `port`.
    fn core(self, port: &DeviceEnd, cap: Cap) -> Rc<Core> {
        let Shared { peers, config, placement, backing, inventory, background } = self;
        let clock = port.clock().clone();
        let c = &config.controller;
        let features = Features::new(c.arbitration_burst);
        let core = Rc::new(Core {
            number: peers.count(),
            peers,
            registers: Registers::new(cap),
            lifecycle: Lifecycle::new(&clock),
            interrupts: Interrupts::new(port, c.vectors),
            queues: Queues::new(&clock, c.io_queues_max, features.weights()),
            slots: Slots::new(&clock, c.command_slots as usize),
            parked: Parked::new(&clock, &config),
            merging: Merging::default(),
            events: Events::new(&clock),
            features,
            counters: Counters::default(),
            errors: ErrorLog::default(),
            inventory,
            background,
            borrowed: Borrowed::default(),
            memory: Memory::new(&clock, &config),
            placement,
            router: OnceCell::new(),
            on_reset: OnceCell::new(),
            backing,
            port: port.clone(),
            tasks: RefCell::default(),
            handlers: RefCell::default(),
            clock,
            config,
        });
        core.peers.join(&core);
        core
    }
}

/// The controller's state, shared by its tasks. A drive with two ports has a controller at each: they share
/// `inventory`, `background` and `backing`; the rest is each controller's own.
pub struct Core {
    /// Number of the controller in the drive, from 0.
    pub(crate) number: usize,
    /// All controllers of the drive.
    pub(crate) peers: Rc<Peers<Core>>,
    pub(crate) clock: Clock,
    pub(crate) config: DriveConfig,
    pub(crate) port: DeviceEnd,
    pub(crate) placement: Placement,
    pub(crate) router: OnceCell<Router>,
    pub(crate) on_reset: OnceCell<OnReset>,
    pub(crate) backing: Backing,
    pub(crate) registers: Registers,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) interrupts: Interrupts,
    pub(crate) queues: Queues,
    pub(crate) slots: Slots,
    pub(crate) parked: Parked,
    pub(crate) merging: Merging,
    pub(crate) events: Events,
    pub(crate) features: Features,
    pub(crate) counters: Counters,
    pub(crate) errors: ErrorLog,
    pub(crate) inventory: Inventory,
    pub(crate) background: Rc<Background>,
    /// Queues of other drives that execute commands for this controller.
    pub(crate) borrowed: Borrowed,
    pub(crate) memory: Memory,
    /// Tasks of the controller, which end with its power.
    pub(crate) tasks: RefCell<Vec<TaskId>>,
    /// Functions of the controller's calls, which end with its power.
    pub(crate) handlers: RefCell<Vec<Handler>>,
}

impl Core {
    /// The state of a drive's first controller: powered on and not enabled.
    pub(crate) fn new(
        port: &DeviceEnd,
        config: DriveConfig,
        cap: Cap,
        placement: Placement,
        backing: Backing,
    ) -> Rc<Self> {
        let (inventory, background) = (Inventory::new(&config), Rc::new(Background::new(port.clock())));
        let shared = Shared { peers: Rc::default(), config, placement, backing, inventory, background };
        shared.core(port, cap)
    }

    /// The state of a further controller of the same drive, at `port`: powered on and not enabled.
    pub(crate) fn new_peer(&self, port: &DeviceEnd) -> Rc<Self> {
        let mut config = self.config.clone();
        config.controller.host_buffer = None; // the map borrows memory from one host only, that of the first controller
        let shared = Shared {
            peers: self.peers.clone(),
            config,
            placement: self.placement.clone(),
            backing: self.backing.clone(),
            inventory: self.inventory.view(),
            background: self.background.clone(),
        };
        shared.core(port, self.registers.cap)
    }

    /// Controller identifier in the drive's NVM subsystem (CNTLID).
    pub(crate) fn id(&self) -> u16 {
        self.number as u16 + 1
    }

    /// The identifiers of all controllers of the drive.
    pub(crate) fn ids(&self) -> std::ops::RangeInclusive<u16> {
        1..=self.peers.count() as u16
    }

    /// Whether the drive has several controllers, which then share its namespaces.
    pub(crate) fn is_shared(&self) -> bool {
        self.peers.count() > 1
    }

    /// The route of a command.
    #[inline]
    pub(crate) fn route(&self, qid: u16, sqe: &Sqe) -> Route {
        self.router.get().map_or(Route::OWN, |router| router(qid, sqe))
    }

    /// Begins an activity that a reset waits for.
    pub(crate) fn begin(&self) {
        self.slots.begin(self.clock.now());
    }

    /// Ends an activity that a reset waits for.
    pub(crate) fn end(&self) {
        if let Some(busy) = self.slots.end(self.clock.now()) {
            self.counters.busy.set(self.counters.busy.get() + busy);
        }
    }

    /// Starts a command in a slot that was taken for it.
    #[inline]
    pub(crate) fn start(&self, slot: u32, command: Command) {
        self.begin();
        self.name_span(&command.permit, &command.sqe);
        if let Some(second) = &command.second {
            self.name_span(&second.permit, &second.sqe);
        }
        self.slots.dispatch(slot, command);
    }

    /// Frees a slot, and wakes fetching if entries wait for one.
    pub(crate) fn free_slot(&self, index: u32) {
        self.slots.give_back(index);
        self.queues.freed();
    }

    /// An active namespace that accepts commands. The caller holds it until its command ends.
    #[inline]
    pub(crate) fn namespace(&self, nsid: u32) -> Result<Rc<Namespace>, Status> {
        let namespace = self.inventory.active(nsid)?;
        match namespace.refusal.get() {
            Status::SUCCESS => Ok(namespace),
            // The refusal is for the host of another controller, which must identify the namespace first; this
            // controller's host may proceed.
            Status::NAMESPACE_NOT_READY if !self.inventory.is_barred(nsid) => Ok(namespace),
            status => Err(status),
        }
    }

    /// Returns borrowed host memory. On return nothing is in flight to or from it.
    pub(crate) async fn return_host_buffer(&self) {
        if self.config.controller.host_buffer.is_some() {
            self.features.host_buffer.set(HostMemoryBuffer::default());
            self.backing.return_memory().await;
        }
        self.settle().await;
    }

    /// Waits until all posted writes have arrived.
    pub(crate) async fn settle(&self) {
        while !self.port.has_arrived() {
            self.clock.sleep(ARRIVAL).await;
        }
    }

    /// Sets Controller Fatal Status, because a queue or buffer is not in host memory. The host must reset the
    /// controller.
    pub(crate) fn fail(&self) {
        self.registers.csts.set(self.registers.csts.get().with_cfs(true));
    }

    /// Whether every slot, permit and fetch is free, so that nothing has leaked.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.slots.is_busy()
            && self.queues.permits_are_free()
            && self.parked.partials.is_empty()
            && self.slots.all_free()
            && self.port.tags_free()
    }
}
