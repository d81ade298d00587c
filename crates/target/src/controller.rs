//! A controller that a host has connected to: its properties, its keep-alive timer, its events. What its queues do is
//! [`queue`](crate::queue)'s.

use crate::abort::Waiting;
use crate::discovery::{ACTIVITY_LIMIT, Discovery, KEEP_ALIVE_MAX, Reached};
use crate::event::Events;
use crate::host_usage::HostUsage;
use crate::subsystem::{Controllers, HostName, Subsystem};
use byteway_clock::{Clock, Delay, Notify, Time};
use byteway_wire::nvme::ana::AnaState;
use byteway_wire::nvme::feature::{AsyncEvent, AsyncEventConfig};
use byteway_wire::nvme::register::{Cap, Cc, Csts};
use byteway_wire::nvme::{ChangedNamespaceLog, NSID_ALL};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::rc::{Rc, Weak};
use zerocopy::FromZeros;

/// Version 2.1, as the drives behind report it.
pub(crate) const VERSION: u32 = 0x0002_0100;
/// Asynchronous Event Requests that may be outstanding, less one.
pub(crate) const AERL: u8 = 3;
/// Units of KATO's granularity: 100 ms each.
pub(crate) const KEEP_ALIVE_GRANULARITY: u16 = 10;
/// Entries of a Discovery controller's admin queue.
pub(crate) const DISCOVERY_ENTRIES_MAX: u16 = 128;
/// How long a controller is kept that is not enabled, or shut down. Hosts in use expect two minutes.
const UNUSED_LIMIT: Delay = Delay::from_s(120);
/// CAP.CSS: the NVM command set.
const CSS_NVM: u8 = 1;

/// Why a controller has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its host has closed the admin queue's connection.
    Disconnected,
    /// Its host has been silent for longer than the keep-alive time-out.
    Silent,
    /// Its host has failed to authenticate again.
    Unauthenticated,
    /// Further hosts have come, and this one had not authenticated.
    Displaced,
    /// Its host has authenticated, and has as many controllers already as it may.
    Crowded,
    /// Its host has not enabled it, or has shut it down, and left it so.
    Unused,
    /// The target ends.
    Stopped,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ended::Disconnected => "its host has disconnected",
            Ended::Silent => "its host has been silent for longer than the keep-alive time-out",
            Ended::Unauthenticated => "its host has failed to authenticate again",
            Ended::Displaced => "others have come, and its host has not authenticated",
            Ended::Crowded => "its host has as many controllers as it may",
            Ended::Unused => "its host has not enabled it, or has shut it down, and left it so for 120 s",
            Ended::Stopped => "the target stops",
        })
    }
}

/// What a controller is of.
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

    /// The keep-alive time-out of a host that asks for this one.
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
    /// What its host has of the subsystem; a Discovery controller's has nothing that counts.
    usage: Option<Rc<HostUsage>>,
    /// Of all of the service's, in the order in which they were made.
    number: u64,
    /// Whether it counts as its host's: it has authenticated, or needn't.
    is_admitted: Cell<bool>,
    /// Since when it is not enabled, or shut down; none: it is in use.
    unused: Cell<Option<Time>>,
    cc: Cell<Cc>,
    csts: Cell<Csts>,
    keep_alive: Cell<Delay>,
    heard: Cell<Time>,
    /// I/O commands that are not at the drive yet.
    pub(crate) waiting: Waiting,
    /// I/O queues that the host was granted.
    pub(crate) granted: Cell<u16>,
    /// A bit for each queue that is connected, the admin queue's too.
    connected: Cell<u64>,
    events: Events,
    /// Of its port, as its host was told.
    ana: Cell<AnaState>,
    /// Namespaces that have changed since the host has read their list.
    changed_namespaces: RefCell<BTreeSet<u32>>,
    /// Asynchronous Event Requests that are held: their identifiers, and which of all it is.
    requests: RefCell<Vec<(u16, u32)>>,
    requested: Cell<u32>,
    ended: Cell<Option<Ended>>,
    /// It has ended, its I/O queues are to go, or there is an event.
    changed: Notify,
    /// Counts the resets: an I/O queue belongs to one of the controller's lives.
    life: Cell<u32>,
    security: Cell<Security>,
}

/// What secure channel concatenation has made of an association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Security {
    /// Nothing: its queues are as their ports have them.
    #[default]
    Unchanged,
    /// Its admin queue has generated a key in the clear. The host is to disconnect, and to connect again with TLS (NVMe Base 2.1,
    /// 8.3.4.3, figure 730): until then there is no I/O, and nothing of the drive is changed.
    Provisional,
    /// Its admin queue lies in a channel with a generated key, and so do its I/O queues.
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
        });
        clock.spawn("keep-alive timer", keep_alive_timer(Rc::downgrade(&controller), clock.clone()));
        controller
    }

    /// Its identifier (CNTLID).
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Whose it is.
    pub fn host(&self) -> &HostName {
        &self.host
    }

    /// The subsystem with the drive; none of a Discovery controller.
    pub fn subsystem(&self) -> Option<&Rc<Subsystem>> {
        match &self.service {
            Service::Drive(subsystem) => Some(subsystem),
            Service::Discovery(_) => None,
        }
    }

    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// Where its host has reached it.
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

    /// An event has happened, of which its host is told if it wants to be.
    pub(crate) fn raise(&self, event: AsyncEvent) {
        if self.events.raise(event) {
            self.changed.notify_all();
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether it counts as its host's.
    pub(crate) fn is_admitted(&self) -> bool {
        self.is_admitted.get()
    }

    /// Its host has authenticated: it counts from now on, unless there are too many.
    pub(crate) fn admit(&self) {
        if !self.is_admitted.get() {
            match self.subsystem().is_none_or(|subsystem| subsystem.has_room_for(&self.host)) {
                true => self.is_admitted.set(true),
                false => self.end(Ended::Crowded),
            }
        }
    }

    /// I/O commands, and bytes of their data, that its host may still have at once; none of a Discovery controller.
    pub fn free_credit(&self) -> Option<(usize, u64)> {
        self.usage.as_ref().map(|usage| usage.free())
    }

    pub(crate) fn usage(&self) -> Option<&Rc<HostUsage>> {
        self.usage.as_ref()
    }

    /// I/O queues that are connected.
    pub(crate) fn io_queues(&self) -> usize {
        (self.connected.get() >> 1).count_ones() as usize
    }

    /// The state of all namespaces by this controller.
    pub fn ana(&self) -> AnaState {
        self.ana.get()
    }

    pub(crate) fn set_ana(&self, state: AnaState) {
        if self.ana.replace(state) != state {
            self.raise(AsyncEvent::ANA_CHANGE);
        }
    }

    /// These namespaces have changed.
    pub(crate) fn note_namespaces(&self, nsids: &[u32]) {
        self.changed_namespaces.borrow_mut().extend(nsids);
        self.raise(AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED);
    }

    /// The Changed Attached Namespace List (NVMe Base 2.1, 5.1.12.1.5).
    pub(crate) fn changed_namespaces(&self) -> Box<ChangedNamespaceLog> {
        let mut log = Box::new(ChangedNamespaceLog::new_zeroed());
        let changed = self.changed_namespaces.borrow();
        // More than there is room for are told as "all".
        match changed.len() > log.nsids.len() {
            true => log.nsids[0] = NSID_ALL,
            false => log.nsids.iter_mut().zip(changed.iter()).for_each(|(slot, nsid)| *slot = *nsid),
        }
        log
    }

    pub(crate) fn forget_changed_namespaces(&self) {
        self.changed_namespaces.borrow_mut().clear();
    }

    /// Asynchronous Event Requests that are held.
    pub(crate) fn held(&self) -> usize {
        self.requests.borrow().len()
    }

    /// Holds an Asynchronous Event Request until there is an event. None: no completion is to be sent, as the controller's life is over, or the
    /// host has given the request up.
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

    /// The host uses the identifier of an Asynchronous Event Request for another command, as initiators do that have given their
    /// requests up before they shut the controller down. False: there is no such request.
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

    /// The host has read this log page, and knows what has happened.
    pub(crate) fn clear(&self, lid: u8) {
        self.events.clear(lid);
        self.changed.notify_all(); // what was masked may be reported
    }

    /// Which events the host wants to be told of.
    pub(crate) fn event_configuration(&self) -> AsyncEventConfig {
        self.events.configuration()
    }

    pub(crate) fn configure_events(&self, configuration: AsyncEventConfig) {
        self.events.configure(configuration);
    }

    /// The host has spoken.
    pub(crate) fn hear(&self) {
        self.heard.set(self.service.clock().now());
    }

    /// The keep-alive time-out; zero: there is none.
    pub fn keep_alive(&self) -> Delay {
        self.keep_alive.get()
    }

    /// Another one, from now on.
    pub(crate) fn set_keep_alive(&self, keep_alive: Delay) {
        self.keep_alive.set(self.service.keep_alive(keep_alive));
        self.hear();
    }

    /// A queue connects. False: it is connected already.
    pub(crate) fn connect(&self, qid: u16) -> bool {
        let bit = 1 << qid;
        let is_new = self.connected.get() & bit == 0;
        self.connected.set(self.connected.get() | bit);
        is_new
    }

    /// A queue's connection is gone. With the admin queue's all is.
    pub(crate) fn disconnect(&self, qid: u16) {
        self.connected.set(self.connected.get() & !(1 << qid));
        if qid == 0 {
            self.end(Ended::Disconnected);
        }
    }

    /// Ends it: its connections are to be closed.
    pub fn end(&self, why: Ended) {
        if self.ended.get().is_none() {
            self.ended.set(Some(why));
            self.service.controllers().forget(self.id);
            self.changed.notify_all();
        }
    }

    /// Why it has ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.ended.get()
    }

    /// Which of its lives it is in.
    pub(crate) fn life(&self) -> u32 {
        self.life.get()
    }

    /// Waits until it has ended, a life other than this has begun, or this is so, of which [`Controller::wake`] tells.
    pub(crate) async fn over(&self, life: Option<u32>, is_over: impl Fn() -> bool) {
        while self.ended.get().is_none() && life.is_none_or(|life| life == self.life.get()) && !is_over() {
            self.changed.notified().await;
        }
    }

    /// One of its queues is over.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Whether it takes commands.
    pub(crate) fn is_ready(&self) -> bool {
        self.csts.get().rdy()
    }

    /// CAP, CSTS, CC and VS as properties; none: no such property, or not of this size.
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

    /// CC is written.
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
            // What was acknowledged is the drive's, which goes on for others.
            self.csts.set(self.csts.get().with_shst(Csts::SHST_COMPLETE));
            self.leave_unused();
        }
    }

    fn leave_unused(&self) {
        self.unused.set(self.unused.get().or(Some(self.service.clock().now())));
    }

    /// A controller reset: I/O queues go, and what the host has set.
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

/// Ends a controller whose host is silent, or leaves it unused. It holds nothing that would keep the controller.
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
                // It may be set later.
                Delay::ZERO => granularity,
                // A granularity more than was promised: the host's clock is another.
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
