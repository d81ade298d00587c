//! What all parts of the controller share, and what they all do with it.
//!
//! | file | what |
//! |---|---|
//! | [`doorbell`] | writes to BAR0 |
//! | [`shadow`] | doorbells in host memory |
//! | [`completion`] | completions, posted and announced |
//! | [`waiting`] | how commands end that have no command slot |
//! | [`record`] | what the controller must not forget |
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
use crate::controller::state::registers::Registers;
use crate::controller::state::slot::{Command, Slots};
use byteway_clock::{Clock, Delay, TaskId};
use byteway_firmware::{Placement, Route};
use byteway_link::DeviceEnd;
use byteway_wire::nvme::feature::HostMemoryBuffer;
use byteway_wire::nvme::register::Cap;
use byteway_wire::nvme::{Sqe, Status};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

pub mod completion;
pub mod doorbell;
pub(crate) mod peers;
pub mod record;
pub mod shadow;
pub mod waiting;

/// Looks again whether all posted writes have arrived after this time.
const ARRIVAL: Delay = Delay::from_ns(100);

/// Says by which route of the placement the firmware work of a command of a submission queue is done.
pub type Router = Rc<dyn Fn(u16, &Sqe) -> Route>;

/// What a controller has of its drive, in common with the drive's other controllers.
struct Shared {
    peers: Rc<Peers<Core>>,
    config: DriveConfig,
    placement: Placement,
    backing: Backing,
    inventory: Inventory,
    background: Rc<Background>,
}

impl Shared {
    /// The state of the drive's next controller, at this end of a link.
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
            backing,
            port: port.clone(),
            tasks: RefCell::default(),
            clock,
            config,
        });
        core.peers.join(&core);
        core
    }
}

/// The controller's state, shared by its tasks. A drive with two ports has a controller at each: `inventory`, `background` and
/// `backing` are the drive's, all else is the controller's own.
pub struct Core {
    /// Which of the drive's controllers it is, from 0.
    pub(crate) number: usize,
    /// All controllers of the drive.
    pub(crate) peers: Rc<Peers<Core>>,
    pub(crate) clock: Clock,
    pub(crate) config: DriveConfig,
    pub(crate) port: DeviceEnd,
    pub(crate) placement: Placement,
    pub(crate) router: OnceCell<Router>,
    pub(crate) backing: Backing,
    pub(crate) registers: Registers,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) interrupts: Interrupts,
    pub(crate) queues: Queues,
    pub(crate) slots: Slots,
    pub(crate) parked: Parked,
    pub(crate) events: Events,
    pub(crate) features: Features,
    pub(crate) counters: Counters,
    pub(crate) errors: ErrorLog,
    pub(crate) inventory: Inventory,
    pub(crate) background: Rc<Background>,
    /// Queues of other drives that execute commands for this one.
    pub(crate) borrowed: Borrowed,
    pub(crate) memory: Memory,
    /// What the controller does, until its power goes.
    pub(crate) tasks: RefCell<Vec<TaskId>>,
}

impl Core {
    /// The state of a drive's first controller, which is powered on and not enabled.
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

    /// The state of a further controller of the same drive, at a link of its own: powered on and not enabled.
    pub(crate) fn beside(&self, port: &DeviceEnd) -> Rc<Self> {
        let mut config = self.config.clone();
        config.controller.host_buffer = None; // the map borrows memory of one host, the first controller's
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

    /// Its identifier in the drive's NVM subsystem (CNTLID).
    pub(crate) fn id(&self) -> u16 {
        self.number as u16 + 1
    }

    /// The identifiers of all controllers of the drive, ascending.
    pub(crate) fn ids(&self) -> std::ops::RangeInclusive<u16> {
        1..=self.peers.count() as u16
    }

    /// Whether the drive has several controllers, all of which have its namespaces.
    pub(crate) fn is_shared(&self) -> bool {
        self.peers.count() > 1
    }

    /// The route of a command.
    #[inline]
    pub(crate) fn route(&self, qid: u16, sqe: &Sqe) -> Route {
        self.router.get().map_or(Route::OWN, |router| router(qid, sqe))
    }

    /// Begins something that a reset waits for.
    pub(crate) fn begin(&self) {
        self.slots.begin(self.clock.now());
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        if let Some(busy) = self.slots.end(self.clock.now()) {
            self.counters.busy.set(self.counters.busy.get() + busy);
        }
    }

    /// A command goes to a slot, which was taken for it.
    pub(crate) fn start(&self, slot: u32, command: Command) {
        self.begin();
        self.slots.at(slot).dispatch(command);
    }

    /// A slot is free again.
    pub(crate) fn free_slot(&self, index: u32) {
        self.slots.give_back(index);
        self.queues.freed();
    }

    /// A namespace that takes commands. Whoever executes one holds it until the command ends.
    #[inline]
    pub(crate) fn namespace(&self, nsid: u32) -> Result<Rc<Namespace>, Status> {
        let namespace = self.inventory.active(nsid)?;
        match namespace.refusal.get() {
            Status::SUCCESS => Ok(namespace),
            // Another controller's host is to look at it first, not this one's.
            Status::NAMESPACE_NOT_READY if !self.inventory.is_barred(nsid) => Ok(namespace),
            status => Err(status),
        }
    }

    /// Gives memory that the host lends back, if it does: when this ends nothing is on its way to it or from it.
    pub(crate) async fn return_host_buffer(&self) {
        if self.config.controller.host_buffer.is_some() {
            self.features.host_buffer.set(HostMemoryBuffer::default());
            self.backing.return_memory().await;
        }
        self.settle().await;
    }

    /// Waits until everything that was sent to the host has arrived.
    pub(crate) async fn settle(&self) {
        while !self.port.has_arrived() {
            self.clock.sleep(ARRIVAL).await;
        }
    }

    /// A queue lies in memory that is not there: Controller Fatal Status. The host resets.
    pub(crate) fn fail(&self) {
        self.registers.csts.set(self.registers.csts.get().with_cfs(true));
    }

    /// Whether every slot, permit and fetch is free: nothing leaked.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.slots.is_busy()
            && self.queues.permits_are_free()
            && self.parked.partials.is_empty()
            && self.slots.all_free()
            && self.port.tags_free()
    }
}
