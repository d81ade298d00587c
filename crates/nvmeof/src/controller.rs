//! A controller that a host has connected to: its properties, keep-alive timer and events.
//! [`queue`](crate::queue) implements its queues.

use crate::abort::Waiting;
use crate::discovery::{ACTIVITY_LIMIT, Discovery, KEEP_ALIVE_MAX, Reached};
use crate::event::Events;
use crate::host_usage::HostUsage;
use crate::subsystem::{Controllers, HostName, Subsystem};
use byteway_clock::{Clock, Delay, Notify, Time};
use byteway_link::{IoHost, IoLedger};
use byteway_wire::nvme::ana::AnaState;
use byteway_wire::nvme::feature::{AsyncEvent, AsyncEventConfig};
use byteway_wire::nvme::register::{Cap, Cc, Csts};
use byteway_wire::nvme::{ChangedNamespaceLog, Cqe, NSID_ALL, Status};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::rc::{Rc, Weak};
use zerocopy::FromZeros;

/// VS: version 2.1, as the drives behind the target report it.
pub(crate) const VERSION: u32 = 0x0002_0100;
/// SGLS: SGLs without alignment, an offset in the address (in-capsule data), and the Transport SGL Data Block.
pub(crate) const SGLS: u32 = 1 | 1 << 20 | 1 << 21;
/// AERL: Asynchronous Event Requests that may be outstanding, zero-based.
pub(crate) const AERL: u8 = 3;
/// KAS: keep-alive granularity in units of 100 ms.
pub(crate) const KEEP_ALIVE_GRANULARITY: u16 = 10;
/// Entries of a Discovery controller's admin queue.
pub(crate) const DISCOVERY_ENTRIES_MAX: u16 = 128;
/// How long a controller may stay disabled or shut down before it is removed. Common hosts expect two
/// minutes.
const UNUSED_LIMIT: Delay = Delay::from_s(120);
/// CAP.CSS: NVM command set.
const CSS_NVM: u8 = 1;

/// A completion with this status. The sender fills in the identifiers.
pub(crate) const fn ended(status: Status) -> Cqe {
    Cqe::new(0, status, 0, 0)
}

/// Why a controller has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its host closed the admin queue's connection.
    Disconnected,
    /// Its host was silent for longer than the keep-alive timeout.
    Silent,
    /// Its host failed to reauthenticate.
    Unauthenticated,
    /// It was not authenticated, and made way for controllers of other hosts.
    Displaced,
    /// Its host authenticated, but already has the maximum number of controllers.
    Crowded,
    /// Its host has not enabled it, or has shut it down, for too long.
    Unused,
    /// The target is stopping.
    Stopped,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ended::Disconnected => "its host has disconnected",
            Ended::Silent => "its host has been silent for longer than the keep-alive time-out",
            Ended::Unauthenticated => "its host has failed to authenticate again",
            Ended::Displaced => "displaced before its host authenticated",
            Ended::Crowded => "its host has as many controllers as it may",
            Ended::Unused => "its host has not enabled it, or has shut it down, and left it so for 120 s",
            Ended::Stopped => "the target stops",
        })
    }
}

/// What a controller belongs to.
#[derive(Clone)]
pub(crate) enum Service {
    Drive(Rc<Subsystem>),
    Discovery(Rc<Discovery>),
}

impl Service {
    pub(crate) fn clock(&self) -> &Clock {
        match self {
            Service::Drive(subsystem) => &subsystem.clock,
            Service::Discovery(discovery) => &discovery.clock,
        }
    }

    fn controllers(&self) -> &Controllers {
        match self {
            Service::Drive(subsystem) => &subsystem.controllers,
            Service::Discovery(discovery) => &discovery.controllers,
        }
    }

    /// The keep-alive timeout granted to a host that requests `wanted`.
    fn keep_alive(&self, wanted: Delay) -> Delay {
        match self {
            Service::Drive(subsystem) => wanted.min(subsystem.config.keep_alive_max),
            Service::Discovery(_) if wanted == Delay::ZERO => ACTIVITY_LIMIT,
            Service::Discovery(_) => wanted.min(KEEP_ALIVE_MAX),
        }
    }
}

/// A controller.
pub struct Controller {
    service: Service,
    id: u16,
    host: HostName,
    reached: Reached,
    /// The host's usage of the subsystem; `None` for a Discovery controller, which has no limits.
    usage: Option<Rc<HostUsage>>,
    /// Sequence number of the controller within its service.
    number: u64,
    /// Whether it counts towards its host's limit: it has authenticated, or need not.
    is_admitted: Cell<bool>,
    /// Since when it is disabled or shut down; `None`: it is in use.
    unused: Cell<Option<Time>>,
    cc: Cell<Cc>,
    csts: Cell<Csts>,
    keep_alive: Cell<Delay>,
    heard: Cell<Time>,
    /// I/O commands that are not yet at the drive.
    pub(crate) waiting: Waiting,
    /// Number of I/O queues granted to the host (Number of Queues).
    pub(crate) granted: Cell<u16>,
    /// A bit for each connected queue, including the admin queue.
    connected: Cell<u64>,
    events: Events,
    /// ANA state of its port, as last reported to the host.
    ana: Cell<AnaState>,
    /// NSIDs that have changed since the host read the changed namespace list.
    changed_namespaces: RefCell<BTreeSet<u32>>,
    /// Held Asynchronous Event Requests: command identifier and sequence number.
    requests: RefCell<Vec<(u16, u32)>>,
    requested: Cell<u32>,
    ended: Cell<Option<Ended>>,
    /// Notified when the controller ends, its I/O queues have to go, or an event is pending.
    changed: Notify,
    /// Number of resets: an I/O queue belongs to one life of the controller.
    life: Cell<u32>,
    security: Cell<Security>,
    /// The host in the I/O ledger of a drive that is watched.
    io_host: OnceCell<IoHost>,
}

/// State of secure channel concatenation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Security {
    /// Not used.
    #[default]
    Unchanged,
    /// The unencrypted admin queue has generated a key. The host has to disconnect and to connect again with
    /// TLS (NVMe Base 2.1, 8.3.4.3, figure 730); until then there is no I/O, and no command that changes the
    /// drive.
    Provisional,
    /// The admin queue is in a channel with a generated key; I/O queues have to be, too.
    Tls,
}

impl Controller {
    pub(crate) fn security(&self) -> Security {
        self.security.get()
    }

    pub(crate) fn set_security(&self, security: Security) {
        self.security.set(security);
    }

    pub(crate) fn new(
        service: Service,
        id: u16,
        host: HostName,
        reached: Reached,
        keep_alive: Delay,
        usage: Option<Rc<HostUsage>>,
        is_admitted: bool,
    ) -> Rc<Self> {
        let clock = &service.clock().clone();
        let granted = match &service {
            Service::Drive(subsystem) => subsystem.config.io_queues_max,
            Service::Discovery(_) => 0,
        };
        let keep_alive = service.keep_alive(keep_alive);
        let ana = match &service {
            Service::Drive(subsystem) => subsystem.config.ports.state(reached.port),
            Service::Discovery(_) => AnaState::OPTIMIZED,
        };
        let number = service.controllers().number();
        let controller = Rc::new(Controller {
            service,
            id,
            host,
            reached,
            usage,
            number,
            is_admitted: Cell::new(is_admitted),
            unused: Cell::new(Some(clock.now())),
            cc: Cell::new(Cc::new()),
            csts: Cell::new(Csts::new()),
            keep_alive: Cell::new(keep_alive),
            heard: Cell::new(clock.now()),
            waiting: Waiting::new(clock),
            granted: Cell::new(granted),
            connected: Cell::new(0),
            events: Events::default(),
            ana: Cell::new(ana),
            changed_namespaces: RefCell::default(),
            requests: RefCell::default(),
            requested: Cell::default(),
            ended: Cell::default(),
            changed: Notify::new(clock),
            life: Cell::default(),
            security: Cell::default(),
            io_host: OnceCell::new(),
        });
        clock.spawn("keep-alive timer", keep_alive_timer(Rc::downgrade(&controller), clock.clone()));
        controller
    }

    /// Controller identifier (CNTLID).
    pub fn id(&self) -> u16 {
        self.id
    }

    /// The host that it belongs to.
    pub fn host(&self) -> &HostName {
        &self.host
    }

    /// Its subsystem; `None` for a Discovery controller.
    pub fn subsystem(&self) -> Option<&Rc<Subsystem>> {
        match &self.service {
            Service::Drive(subsystem) => Some(subsystem),
            Service::Discovery(_) => None,
        }
    }

    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// Where the host reached the target.
    pub fn reached(&self) -> Reached {
        self.reached
    }

    /// Entries of one of its queues, at most.
    pub(crate) fn entries_max(&self) -> u16 {
        match &self.service {
            Service::Drive(subsystem) => subsystem.config.entries_max,
            Service::Discovery(_) => DISCOVERY_ENTRIES_MAX,
        }
    }

    /// Raises an event, and notifies the host if it has enabled it.
    pub(crate) fn raise(&self, event: AsyncEvent) {
        if self.events.raise(event) {
            self.changed.notify_all();
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether it counts towards its host's limit.
    pub(crate) fn is_admitted(&self) -> bool {
        self.is_admitted.get()
    }

    /// Its host has authenticated: the controller counts from now on, or ends if the host has too many.
    pub(crate) fn admit(&self) {
        if !self.is_admitted.get() {
            match self.subsystem().is_none_or(|subsystem| subsystem.may_add_controller(&self.host, false)) {
                true => self.is_admitted.set(true),
                false => self.end(Ended::Crowded),
            }
        }
    }

    /// The host's remaining credit: I/O commands, and bytes of data. `None` for a Discovery controller.
    pub fn free_credit(&self) -> Option<(usize, u64)> {
        self.usage.as_ref().map(|usage| usage.free())
    }

    /// The I/O ledger of the drive, and the host's index in it. `None`: the drive is not watched.
    pub(crate) fn io_book(&self) -> Option<(&Rc<IoLedger>, IoHost)> {
        let ledger = self.subsystem()?.ios()?;
        Some((ledger, *self.io_host.get_or_init(|| ledger.host(self.host.nqn.as_str()))))
    }

    /// Whether nothing proves who its host is: it has no secret, and did not use TLS.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        self.usage.as_ref().is_some_and(|usage| usage.is_unauthenticated())
    }

    pub(crate) fn usage(&self) -> Option<&Rc<HostUsage>> {
        self.usage.as_ref()
    }

    /// Number of connected I/O queues.
    pub(crate) fn io_queues(&self) -> usize {
        (self.connected.get() >> 1).count_ones() as usize
    }

    /// ANA state of all namespaces through this controller.
    pub fn ana(&self) -> AnaState {
        self.ana.get()
    }

    pub(crate) fn set_ana(&self, state: AnaState) {
        if self.ana.replace(state) != state {
            self.raise(AsyncEvent::ANA_CHANGE);
        }
    }

    /// Marks namespaces as changed.
    pub(crate) fn note_namespaces(&self, nsids: &[u32]) {
        self.changed_namespaces.borrow_mut().extend(nsids);
        self.raise(AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED);
    }

    /// The Changed Attached Namespace List (NVMe Base 2.1, 5.1.12.1.5).
    pub(crate) fn changed_namespaces(&self) -> Box<ChangedNamespaceLog> {
        let mut log = Box::new(ChangedNamespaceLog::new_zeroed());
        let changed = self.changed_namespaces.borrow();
        // More changes than the list has entries are reported as "all".
        match changed.len() > log.nsids.len() {
            true => log.nsids[0] = NSID_ALL,
            false => log.nsids.iter_mut().zip(changed.iter()).for_each(|(slot, nsid)| *slot = *nsid),
        }
        log
    }

    pub(crate) fn forget_changed_namespaces(&self) {
        self.changed_namespaces.borrow_mut().clear();
    }

    /// Number of held Asynchronous Event Requests.
    pub(crate) fn held(&self) -> usize {
        self.requests.borrow().len()
    }

    /// Holds an Asynchronous Event Request until an event is pending. `None`: send no completion, because the
    /// controller was reset or has ended, or the host reused the identifier.
    pub(crate) async fn event(&self, cid: u16) -> Option<AsyncEvent> {
        let (life, number) = (self.life.get(), self.requested.get());
        self.requested.set(number.wrapping_add(1));
        let own = (cid, number);
        self.requests.borrow_mut().push(own);
        let event = loop {
            if self.ended.get().is_some() || life != self.life.get() || !self.requests.borrow().contains(&own)
            {
                break None;
            }
            if let Some(event) = self.events.take() {
                break Some(event);
            }
            self.changed.notified().await;
        };
        self.requests.borrow_mut().retain(|request| *request != own);
        event
    }

    /// Drops the Asynchronous Event Request with this identifier, which the host uses for another command:
    /// some initiators abandon their requests before they shut the controller down. Returns false if there is
    /// no such request.
    pub(crate) fn give_up(&self, cid: u16) -> bool {
        let mut requests = self.requests.borrow_mut();
        let before = requests.len();
        requests.retain(|request| request.0 != cid);
        let has_changed = requests.len() < before;
        drop(requests);
        if has_changed {
            self.changed.notify_all();
        }
        has_changed
    }

    /// The host has read this log page, which clears its events.
    pub(crate) fn clear(&self, lid: u8) {
        self.events.clear(lid);
        self.changed.notify_all(); // masked events may now be reported
    }

    /// Which events the host has enabled.
    pub(crate) fn event_configuration(&self) -> AsyncEventConfig {
        self.events.configuration()
    }

    pub(crate) fn configure_events(&self, configuration: AsyncEventConfig) {
        self.events.configure(configuration);
    }

    /// Notes activity of the host, for the keep-alive timer.
    pub(crate) fn hear(&self) {
        self.heard.set(self.service.clock().now());
    }

    /// The keep-alive timeout; zero: disabled.
    pub fn keep_alive(&self) -> Delay {
        self.keep_alive.get()
    }

    /// Sets the keep-alive timeout.
    pub(crate) fn set_keep_alive(&self, keep_alive: Delay) {
        self.keep_alive.set(self.service.keep_alive(keep_alive));
        self.hear();
    }

    /// Registers a connected queue. Returns false if it is connected already.
    pub(crate) fn connect(&self, qid: u16) -> bool {
        let bit = 1 << qid;
        let is_new = self.connected.get() & bit == 0;
        self.connected.set(self.connected.get() | bit);
        is_new
    }

    /// A queue's connection is gone. The loss of the admin queue ends the controller.
    pub(crate) fn disconnect(&self, qid: u16) {
        self.connected.set(self.connected.get() & !(1 << qid));
        if qid == 0 {
            self.end(Ended::Disconnected);
        }
    }

    /// Ends the controller: its connections have to close.
    pub fn end(&self, why: Ended) {
        if self.ended.get().is_none() {
            self.ended.set(Some(why));
            self.service.controllers().forget(self.id);
            self.changed.notify_all();
        }
    }

    /// Why the controller has ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.ended.get()
    }

    /// The number of the current life (reset count).
    pub(crate) fn life(&self) -> u32 {
        self.life.get()
    }

    /// Waits until the controller has ended, a life other than `life` has begun, or `is_over` returns true
    /// (checked after [`Controller::wake`]).
    pub(crate) async fn over(&self, life: Option<u32>, is_over: impl Fn() -> bool) {
        while self.ended.get().is_none() && life.is_none_or(|life| life == self.life.get()) && !is_over() {
            self.changed.notified().await;
        }
    }

    /// Wakes the waiters of [`Controller::over`], because a queue has ended.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Whether it accepts commands (CSTS.RDY).
    pub(crate) fn is_ready(&self) -> bool {
        self.csts.get().rdy()
    }

    /// Value of the property CAP, CSTS, CC or VS; `None`: no such property, or not of this size.
    pub(crate) fn property(&self, offset: u32, bytes: u32) -> Option<u64> {
        use byteway_wire::nvme::register::{CAP, CC, CSTS, NSSR, VS};
        match (u64::from(offset), bytes) {
            (CAP, 8) => Some(self.cap().into_bits()),
            (VS, 4) => Some(u64::from(VERSION)),
            (CC, 4) => Some(u64::from(self.cc.get().into_bits())),
            (CSTS, 4) => Some(u64::from(self.csts.get().into_bits())),
            (NSSR, 4) => Some(0),
            _ => None,
        }
    }

    fn cap(&self) -> Cap {
        let css = match &self.service {
            Service::Drive(subsystem) => subsystem.path.driver().cap().css(),
            Service::Discovery(_) => CSS_NVM,
        };
        Cap::new()
            .with_mqes_z(self.entries_max() - 1)
            .with_cqr(true)
            .with_to(20)
            .with_css(css)
            .with_mpsmin(0)
            .with_mpsmax(0)
    }

    /// Handles a write of CC.
    pub(crate) fn configure(&self, value: u32) {
        let (before, cc) = (self.cc.get(), Cc::from_bits(value));
        self.cc.set(cc);
        match (before.en(), cc.en()) {
            (false, true) => {
                self.csts.set(Csts::new().with_rdy(true));
                self.unused.set(None);
            }
            (true, false) => self.reset(),
            _ => {}
        }
        if cc.shn() != Cc::SHN_NONE {
            // Acknowledged data is with the drive, which continues to serve other hosts.
            self.csts.set(self.csts.get().with_shst(Csts::SHST_COMPLETE));
            self.leave_unused();
        }
    }

    fn leave_unused(&self) {
        self.unused.set(self.unused.get().or(Some(self.service.clock().now())));
    }

    /// A controller reset: removes I/O queues and the host's settings.
    fn reset(&self) {
        self.cc.set(Cc::new());
        self.csts.set(Csts::new());
        self.leave_unused();
        self.events.reset();
        self.forget_changed_namespaces();
        self.life.set(self.life.get() + 1);
        self.changed.notify_all();
    }
}

/// Ends a controller whose host is silent or leaves it unused. Holds only a weak reference, so as not to keep
/// the controller alive.
async fn keep_alive_timer(controller: Weak<Controller>, clock: byteway_clock::Clock) {
    loop {
        let wait = {
            let Some(controller) = controller.upgrade() else { return };
            if controller.ended().is_some() {
                return;
            }
            if controller.unused.get().is_some_and(|since| clock.now() >= since + UNUSED_LIMIT) {
                controller.end(Ended::Unused);
                return;
            }
            let (limit, heard) = (controller.keep_alive.get(), controller.heard.get());
            let granularity = Delay::from_ms(100) * u64::from(KEEP_ALIVE_GRANULARITY);
            match limit {
                // The host may set it later.
                Delay::ZERO => granularity,
                // One granularity of tolerance, because the host's clock may run differently.
                _ if clock.now() >= heard + limit + granularity => {
                    controller.end(Ended::Silent);
                    return;
                }
                _ => (heard + limit + granularity).since(clock.now()).min(UNUSED_LIMIT),
            }
        };
        clock.timer(wait).await;
    }
}
