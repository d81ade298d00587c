//! A queue: one connection, from Connect to its end. It takes capsules and returns completions; the transport
//! moves them and their data.

use crate::admin;
use crate::authentication::{self, Authentication};
use crate::channel::Peer;
use crate::controller::{Controller, DISCOVERY_ENTRIES_MAX, Security, Service, ended};
use crate::discovery::{Discovery, Reached};
use crate::host_usage::{Credit, HostUsage};
use crate::movement::Movement;
use crate::path::CommandContext;
use crate::subsystem::{HostName, Subsystem};
use byteway_clock::{Awaited, Clock, Delay, SpanId, Stage, Time};
use byteway_link::{IoLabel, IoLedger, Verb};
use byteway_wire::FromBytes;
use byteway_wire::fabrics::auth::Explanation;
use byteway_wire::fabrics::connect::{CNTLID_DYNAMIC, SQHD_NO_FLOW_CONTROL};
use byteway_wire::fabrics::status::{
    AUTHENTICATION_REQUIRED, CONNECT_INVALID_HOST, CONTROLLER_BUSY, INCOMPATIBLE_FORMAT, INVALID_QUEUE_TYPE,
};
use byteway_wire::fabrics::tcp::ADMIN_CAPSULE_DATA_BYTES;
use byteway_wire::fabrics::{
    AuthRequirements, Connect, ConnectData, Connected, Disconnect, FabricsCommand, InvalidParameter, Nqn,
    PropertyGet, PropertySet,
};
use byteway_wire::nvme::register::CC;
use byteway_wire::nvme::{AdminOpcode, Cqe, Sqe, Status};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Commands allowed on an unencrypted admin queue that has generated a key. Linux initializes the controller
/// before it reconnects with TLS.
const PROVISIONAL_COMMANDS: [AdminOpcode; 7] = [
    AdminOpcode::IDENTIFY,
    AdminOpcode::GET_LOG_PAGE,
    AdminOpcode::GET_FEATURES,
    AdminOpcode::SET_FEATURES,
    AdminOpcode::ABORT,
    AdminOpcode::ASYNC_EVENT_REQUEST,
    AdminOpcode::KEEP_ALIVE,
];
/// Longest data of an admin command for the host that takes no credit of it, in bytes.
const ADMIN_BYTES_FREE: u32 = 8 << 10;
/// Commands that a queue may have outstanding before its Connect sets the queue size.
const ENTRIES_BEFORE: u16 = 1;

/// What a target offers: its subsystems by NQN, and the Discovery Service under the well-known NQN.
pub struct Target {
    subsystems: Vec<Rc<Subsystem>>,
    discovery: Option<Rc<Discovery>>,
}

impl Target {
    /// A target with these subsystems, whose NQNs are distinct.
    pub fn new(subsystems: Vec<Rc<Subsystem>>) -> Rc<Self> {
        Rc::new(Target { subsystems, discovery: None })
    }

    /// A target with these subsystems and a Discovery Service.
    pub fn with_discovery(subsystems: Vec<Rc<Subsystem>>, discovery: Rc<Discovery>) -> Rc<Self> {
        Rc::new(Target { subsystems, discovery: Some(discovery) })
    }

    /// The Discovery Service, if there is one.
    pub fn discovery(&self) -> Option<&Rc<Discovery>> {
        self.discovery.as_ref()
    }

    /// All current controllers.
    pub fn controllers(&self) -> Vec<Rc<Controller>> {
        let drives = self.subsystems.iter().flat_map(|subsystem| subsystem.controllers());
        drives.chain(self.discovery.iter().flat_map(|discovery| discovery.controllers())).collect()
    }

    /// All subsystems.
    pub fn subsystems(&self) -> &[Rc<Subsystem>] {
        &self.subsystems
    }

    /// The subsystem or Discovery Service with this NQN.
    fn service(&self, nqn: &Nqn) -> Option<Service> {
        if nqn.is_discovery() {
            return self.discovery.clone().map(Service::Discovery);
        }
        let found = self.subsystems.iter().find(|subsystem| subsystem.config().nqn == *nqn);
        found.cloned().map(Service::Drive)
    }
}

/// Connection state of a queue.
#[derive(Clone)]
enum ConnectionState {
    /// Not connected: the first command has to be Connect.
    New,
    /// The connection is gone: commands executed from now on have no effect on controllers.
    Closed,
    Connected {
        controller: Rc<Controller>,
        qid: u16,
        /// The life (reset count) of the controller that the queue belongs to.
        life: u32,
        /// `None`: the host has no secret.
        authentication: Option<Rc<Authentication>>,
    },
}

/// One queue of a host.
pub struct Queue {
    target: Rc<Target>,
    reached: Reached,
    peer: Cell<Option<Peer>>,
    stage: RefCell<ConnectionState>,
    entries: Cell<u16>,
    /// SQHD. `None`: flow control is disabled.
    head: Cell<Option<u16>>,
    /// The outstanding commands.
    outstanding: RefCell<Vec<Outstanding>>,
    /// Identifiers of held requests that the host has reused for another command.
    given_up: RefCell<Vec<u16>>,
}

/// A protocol violation that ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueViolation {
    /// More commands than the queue has entries.
    #[error("it has more than {0} commands outstanding, which is the size of its queue")]
    Overflow(u16),
    /// Two outstanding commands with the same identifier.
    #[error("it uses command identifier {0} twice at once")]
    Identifier(u16),
}

impl Queue {
    /// A queue of a new connection, where the port does not matter.
    pub fn new(target: &Rc<Target>) -> Self {
        Queue::at(target, Reached::default())
    }

    /// A queue of a new connection; `reached` is where the host reached the target.
    pub fn at(target: &Rc<Target>, reached: Reached) -> Self {
        Queue {
            target: target.clone(),
            reached,
            peer: Cell::new(None),
            stage: RefCell::new(ConnectionState::New),
            entries: Cell::new(ENTRIES_BEFORE),
            head: Cell::new(Some(0)),
            outstanding: RefCell::default(),
            given_up: RefCell::default(),
        }
    }

    /// Marks the queue as carried by a secure channel; its Connect has to match the channel's identity.
    pub fn secure(&self, peer: Peer) {
        self.peer.set(Some(peer));
    }

    /// Its controller, once it is connected.
    pub fn controller(&self) -> Option<Rc<Controller>> {
        match &*self.stage.borrow() {
            ConnectionState::Connected { controller, .. } => Some(controller.clone()),
            _ => None,
        }
    }

    /// Its queue identifier, once it is connected.
    pub fn qid(&self) -> Option<u16> {
        match &*self.stage.borrow() {
            ConnectionState::Connected { qid, .. } => Some(*qid),
            _ => None,
        }
    }

    fn authentication(&self) -> Option<Rc<Authentication>> {
        match &*self.stage.borrow() {
            ConnectionState::Connected { authentication, .. } => authentication.clone(),
            _ => None,
        }
    }

    /// Whether it is connected.
    pub fn is_connected(&self) -> bool {
        self.qid().is_some()
    }

    /// Whether it accepts commands: connected, and authenticated if required.
    pub fn is_established(&self) -> bool {
        self.is_connected() && self.authentication().is_none_or(|own| own.is_authenticated())
    }

    /// Why its host failed to authenticate; set when the connection has to close.
    pub fn refusal(&self) -> Option<Explanation> {
        self.authentication().and_then(|own| own.refusal())
    }

    /// In-capsule data that a command may have; before Connect, only Connect's.
    pub fn in_capsule_bytes(&self) -> u32 {
        match &*self.stage.borrow() {
            ConnectionState::Connected { controller, qid, .. } if *qid > 0 => {
                let subsystem = controller.subsystem();
                subsystem.map_or(ADMIN_CAPSULE_DATA_BYTES, |subsystem| subsystem.config().in_capsule_bytes)
            }
            _ => ADMIN_CAPSULE_DATA_BYTES,
        }
    }

    /// The longest data of a command, in bytes.
    pub fn bytes_max(&self) -> u32 {
        match &*self.stage.borrow() {
            ConnectionState::Connected { authentication: Some(own), .. } if !own.is_authenticated() => {
                authentication::BYTES_MAX
            }
            ConnectionState::Connected { controller, .. } => match controller.subsystem() {
                Some(subsystem) => subsystem.path().bytes_max(),
                None => crate::discovery::BYTES_MAX,
            },
            ConnectionState::New | ConnectionState::Closed => ConnectData::SIZE as u32,
        }
    }

    /// Whether completions carry a valid SQHD.
    pub fn controls_flow(&self) -> bool {
        self.head.get().is_some()
    }

    /// The host's usage of the subsystem.
    pub(crate) fn usage(&self) -> Option<Rc<HostUsage>> {
        match &*self.stage.borrow() {
            ConnectionState::Connected { controller, qid: 1.., .. } => controller.usage().cloned(),
            _ => None,
        }
    }

    /// Number of held commands: Asynchronous Event Requests.
    pub(crate) fn held(&self) -> usize {
        match &*self.stage.borrow() {
            ConnectionState::Connected { controller, qid: 0, .. } => controller.held(),
            _ => 0,
        }
    }

    /// Waits until the connection has to close, because its controller has ended or its host is refused.
    pub async fn over(&self) {
        let connected = match &*self.stage.borrow() {
            ConnectionState::Connected { controller, qid, life, authentication } => {
                Some((controller.clone(), (*qid > 0).then_some(*life), authentication.clone()))
            }
            _ => None,
        };
        if let Some((controller, life, authentication)) = connected {
            let is_refused = || authentication.as_ref().is_some_and(|own| own.refusal().is_some());
            controller.over(life, is_refused).await;
        }
    }

    /// Registers a received command. Returns its data movement, or the status with which it completes at
    /// once.
    ///
    /// # Errors
    /// A protocol violation: the connection has to end.
    pub fn begin(&self, sqe: &Sqe) -> Result<Result<Movement, Status>, QueueViolation> {
        let mut outstanding = self.outstanding.borrow_mut();
        if outstanding.len() >= usize::from(self.entries.get()) {
            return Err(QueueViolation::Overflow(self.entries.get()));
        }
        if outstanding.iter().any(|other| other.cid == sqe.cid()) {
            match &*self.stage.borrow() {
                ConnectionState::Connected { controller, qid: 0, .. } if controller.give_up(sqe.cid()) => {}
                _ => return Err(QueueViolation::Identifier(sqe.cid())),
            }
            // Both the abandoned request and the new command are outstanding under this identifier; `forget` of the
            // former must not remove the latter.
            outstanding.retain(|other| other.cid != sqe.cid());
            self.given_up.borrow_mut().push(sqe.cid());
        }
        outstanding.push(Outstanding { cid: sqe.cid(), arrived: self.watched_time() });
        debug_assert!(
            outstanding.len() <= usize::from(self.entries.get()),
            "the overflow check bounds the list"
        );
        if let Some(head) = self.head.get() {
            self.head.set(Some(if head + 1 >= self.entries.get() { 0 } else { head + 1 }));
        }
        Ok(self.movement(sqe))
    }

    /// The time, if the drive is watched.
    fn watched_time(&self) -> Option<Time> {
        match &*self.stage.borrow() {
            ConnectionState::Connected { controller, qid: 1.., .. } => {
                controller.io_book().map(|_| controller.service().clock().now())
            }
            _ => None,
        }
    }

    /// When an outstanding command arrived.
    fn arrival(&self, cid: u16) -> Option<Time> {
        self.outstanding.borrow().iter().find(|other| other.cid == cid)?.arrived
    }

    fn movement(&self, sqe: &Sqe) -> Result<Movement, Status> {
        let fabrics = FabricsCommand::parse(sqe);
        match &*self.stage.borrow() {
            ConnectionState::New if matches!(fabrics, Some(FabricsCommand::Connect(_))) => {
                Ok(Movement::ToDrive(ConnectData::SIZE as u32))
            }
            ConnectionState::New | ConnectionState::Closed => Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr()),
            ConnectionState::Connected { controller, qid, authentication, .. } => {
                controller.hear();
                if let Some(own) = authentication {
                    match &fabrics {
                        Some(FabricsCommand::AuthSend(command)) => return own.send_movement(command),
                        Some(FabricsCommand::AuthReceive(command)) => return own.receive_movement(command),
                        _ if !own.is_authenticated() => return Err(AUTHENTICATION_REQUIRED.with_dnr()),
                        _ => {}
                    }
                }
                match qid {
                    _ if fabrics.is_some() => Ok(Movement::None),
                    // All other commands are refused until the host has set up TLS.
                    _ if controller.security() == Security::Provisional
                        && (*qid > 0 || !PROVISIONAL_COMMANDS.contains(&AdminOpcode(sqe.opcode()))) =>
                    {
                        Err(Status::OPERATION_DENIED.with_dnr())
                    }
                    _ if !controller.is_ready() => Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr()),
                    0 => admin::movement(controller, sqe),
                    _ => match controller.subsystem() {
                        Some(subsystem) => match controller.ana().status() {
                            Some(status) => Err(status),
                            None => subsystem.path().movement(sqe),
                        },
                        None => Err(Status::INVALID_OPCODE.with_dnr()),
                    },
                }
            }
        }
    }

    /// Executes a registered command on any queue pair of the drive. `None`: send no completion.
    pub async fn execute(&self, sqe: &Sqe, movement: Movement, data: &mut Vec<u8>) -> Option<Cqe> {
        self.execute_for(CommandContext::NONE, sqe, movement, data, &mut None).await
    }

    /// Like [`Queue::execute`], with a trace span and a chosen queue pair. `credit` is the host's credit for
    /// the command's data. For data to the drive it is taken before the data is requested; for data to the
    /// host it is taken here, and held until the transport has sent the data.
    pub async fn execute_for(
        &self,
        context: CommandContext,
        sqe: &Sqe,
        movement: Movement,
        data: &mut Vec<u8>,
        credit: &mut Option<Credit>,
    ) -> Option<Cqe> {
        // A clone, because no borrow may be held across the awaits below: `close` replaces the stage meanwhile.
        let stage = self.stage.borrow().clone();
        match (stage, FabricsCommand::parse(sqe)) {
            (ConnectionState::New, Some(FabricsCommand::Connect(connect))) => {
                Some(self.connect(&connect, data).unwrap_or_else(|refused| refused))
            }
            (ConnectionState::Closed, _) => None,
            (ConnectionState::New, _) => Some(ended(Status::COMMAND_SEQUENCE_ERROR.with_dnr())),
            (
                ConnectionState::Connected { controller, authentication: Some(own), .. },
                Some(FabricsCommand::AuthSend(_)),
            ) => Some(own.send(&controller, data).await),
            (
                ConnectionState::Connected { controller, authentication: Some(own), .. },
                Some(FabricsCommand::AuthReceive(_)),
            ) => Some(own.receive(&controller, movement, data).await),
            (ConnectionState::Connected { controller, qid, .. }, Some(command)) => {
                Some(fabrics_command(&controller, qid, &command))
            }
            (ConnectionState::Connected { controller, qid: 0, .. }, None) => {
                if let (Movement::ToHost(bytes), Some(usage)) = (movement, controller.usage())
                    && bytes > ADMIN_BYTES_FREE
                {
                    *credit = Some(usage.bytes(bytes).await);
                }
                admin::execute(&controller, sqe, movement, data).await
            }
            (ConnectionState::Connected { controller, qid, .. }, None) => match controller.subsystem() {
                // The ANA state may have changed while the command's data arrived.
                Some(subsystem) => match controller.ana().status() {
                    Some(status) => Some(ended(status)),
                    None => {
                        let path = subsystem.path();
                        let booked = OpenSpan::of(&controller, sqe, self.arrival(sqe.cid()));
                        let turn = async {
                            let (mut command, mut bytes) = (None, None);
                            if let Some(usage) = controller.usage() {
                                // Take credit for bytes before credit for a command. Writes, whose data is
                                // requested earlier, do the same; in another order, reads that hold commands
                                // and writes that hold bytes would deadlock.
                                if let Movement::ToHost(count) = movement {
                                    bytes = Some(usage.bytes(count).await);
                                }
                                command = Some(usage.command().await);
                            }
                            (bytes, (command, path.admit().await))
                        };
                        let turn = controller.waiting.unless_aborted((qid, sqe.cid()), turn).await;
                        let Some((bytes, _turn)) = turn else { return Some(ended(Status::ABORT_REQUESTED)) };
                        if bytes.is_some() {
                            *credit = bytes;
                        }
                        let context = match &booked {
                            Some(booked) => CommandContext { span: booked.taken(), ..context },
                            None => context,
                        };
                        let cqe = path.execute(context, sqe, movement, data).await;
                        if let Some(booked) = booked {
                            booked.book(cqe.status());
                        }
                        Some(cqe)
                    }
                },
                None => Some(ended(Status::INVALID_OPCODE.with_dnr())),
            },
        }
    }

    /// Ends a command: returns its completion as the host receives it.
    pub fn end(&self, sqe: &Sqe, cqe: Cqe) -> Cqe {
        let cid = sqe.cid();
        self.outstanding.borrow_mut().retain(|other| other.cid != cid);
        if let ConnectionState::Connected { controller, authentication: Some(own), .. } =
            &*self.stage.borrow()
        {
            own.conclude(controller);
        }
        let sqhd = self.head.get().unwrap_or(SQHD_NO_FLOW_CONTROL);
        // SQID and the phase tag are reserved in capsules (NVMe Base 2.1, 4.2.1).
        Cqe { cid, sqid: 0, sqhd, ..cqe.with_phase(false) }
    }

    /// Ends a command without a completion.
    pub fn forget(&self, sqe: &Sqe) {
        let cid = sqe.cid();
        let mut given_up = self.given_up.borrow_mut();
        match given_up.iter().position(|other| *other == cid) {
            Some(at) => _ = given_up.swap_remove(at),
            None => self.outstanding.borrow_mut().retain(|other| other.cid != cid),
        }
    }

    /// The connection is gone, or the host has disconnected the queue. Commands not yet at the drive are
    /// dropped.
    pub fn close(&self) {
        if let ConnectionState::Connected { controller, qid, .. } =
            self.stage.replace(ConnectionState::Closed)
        {
            controller.waiting.abort_queue(qid);
            controller.disconnect(qid);
        }
    }

    /// Handles Connect (NVMe Base 2.1, 6.3). The error is a completion, too.
    fn connect(&self, connect: &Connect, data: &[u8]) -> Result<Cqe, Cqe> {
        let invalid = |parameter: InvalidParameter| parameter.cqe(0);
        let data = ConnectData::read_from_bytes(data).map_err(|_| ended(Status::INVALID_FIELD.with_dnr()))?;
        if connect.recfmt != 0 {
            return Err(ended(INCOMPATIBLE_FORMAT.with_dnr()));
        }
        let named = data.subsystem().map_err(invalid)?;
        let service = self.target.service(&named).ok_or(invalid(InvalidParameter::SUBNQN))?;
        let host = HostName { nqn: data.host().map_err(invalid)?, id: data.hostid };
        // The PSK identity contains both NQNs: the key is valid for one host and one subsystem.
        if let Some(peer) = self.peer.get() {
            if peer.subsystem != named {
                return Err(invalid(InvalidParameter::SUBNQN));
            }
            if peer.host != host.nqn {
                return Err(ended(CONNECT_INVALID_HOST.with_dnr()));
            }
        }
        let most = match &service {
            Service::Drive(subsystem) if !subsystem.admits(&host.nqn) => {
                return Err(ended(CONNECT_INVALID_HOST.with_dnr()));
            }
            Service::Drive(subsystem) if connect.qid == 0 => subsystem.config().admin_entries_max(),
            Service::Drive(subsystem) => subsystem.config().entries_max,
            Service::Discovery(_) => DISCOVERY_ENTRIES_MAX,
        };
        let entries = connect.sqsize_z.saturating_add(1);
        if !(2..=most).contains(&entries) {
            return Err(invalid(InvalidParameter::SQSIZE));
        }
        let controller = match connect.qid {
            0 if data.cntlid != CNTLID_DYNAMIC => return Err(invalid(InvalidParameter::CNTLID)),
            0 => {
                let keep_alive = Delay::from_ms(u64::from(connect.kato_ms));
                let made = match &service {
                    Service::Drive(subsystem) => {
                        subsystem.make(host, self.reached, keep_alive, self.peer.get().is_some())
                    }
                    Service::Discovery(discovery) => discovery.make(host, self.reached, keep_alive),
                };
                made.map_err(ended)?
            }
            qid => {
                let controller = match &service {
                    Service::Drive(subsystem) => subsystem.controller(data.cntlid),
                    // A Discovery controller has no I/O queues (NVMe Base 2.1, 3.1.3.3).
                    Service::Discovery(_) => return Err(invalid(InvalidParameter::QID)),
                };
                let controller = controller.ok_or(invalid(InvalidParameter::CNTLID))?;
                if *controller.host() != host {
                    return Err(ended(CONNECT_INVALID_HOST.with_dnr()));
                }
                if qid > controller.granted.get() {
                    return Err(invalid(InvalidParameter::QID));
                }
                let is_in_channel = self.peer.get().is_some();
                let is_secure = match (controller.security(), controller.subsystem()) {
                    (Security::Provisional, _) => false,
                    // The policy may have changed since the admin queue was connected.
                    (Security::Unchanged, Some(subsystem)) => {
                        is_in_channel || !subsystem.requires_generated_key(&host.nqn)
                    }
                    (Security::Unchanged, None) => true,
                    (Security::Tls, _) => is_in_channel,
                };
                if !controller.is_ready() || !is_secure {
                    return Err(ended(Status::COMMAND_SEQUENCE_ERROR.with_dnr()));
                }
                if controller.subsystem().is_some_and(|subsystem| !subsystem.has_queue_for(&controller)) {
                    return Err(ended(CONTROLLER_BUSY));
                }
                controller
            }
        };
        if !controller.connect(connect.qid) {
            return Err(invalid(InvalidParameter::QID));
        }
        controller.hear();
        self.entries.set(entries);
        self.head.set((!connect.attributes.dissqfc()).then_some(1));
        let (cntlid, life) = (controller.id(), controller.life());
        let (host, peer) = (&controller.host().nqn, self.peer.get());
        let terms = controller.subsystem().and_then(|subsystem| subsystem.terms(host, connect.qid, peer));
        let authentication =
            terms.map(|terms| Rc::new(Authentication::new(controller.service().clock(), terms)));
        let requirements = authentication.as_ref().map_or(AuthRequirements::new(), |own| own.requirements());
        if connect.qid == 0 && peer.is_some_and(|peer| peer.generated.is_some()) {
            controller.set_security(Security::Tls);
        }
        self.stage.replace(ConnectionState::Connected { controller, qid: connect.qid, life, authentication });
        Ok(Connected { cntlid, requirements }.cqe(0, 0))
    }
}

/// A command that was received, and whose completion was not sent.
struct Outstanding {
    cid: u16,
    /// When it was received, on a drive that is watched.
    arrived: Option<Time>,
}

/// The span of a host's command on a drive that is watched. Closed on drop: the connection may end before the command.
struct OpenSpan<'a> {
    ledger: &'a IoLedger,
    clock: &'a Clock,
    span: SpanId,
}

impl<'a> OpenSpan<'a> {
    /// Opens it, if the drive is watched, at the arrival of the command.
    fn of(controller: &'a Controller, sqe: &Sqe, arrived: Option<Time>) -> Option<OpenSpan<'a>> {
        let (ledger, host) = controller.io_book()?;
        let clock = controller.service().clock();
        let label = IoLabel { host, nsid: sqe.nsid, verb: Some(Verb::of_opcode(sqe.opcode())) };
        let arrived = arrived.unwrap_or_else(|| clock.now());
        Some(OpenSpan { ledger, clock, span: clock.spans().open_labelled(arrived, label.bits()) })
    }

    /// The span, when the drive takes the command: until now it has waited for its data, and for its turn.
    fn taken(&self) -> SpanId {
        self.clock.spans().wait(self.span, self.clock.now(), Awaited::Network);
        self.span
    }

    /// Books the latency of the command, which has completed with this status.
    fn book(self, status: Status) {
        let spans = self.clock.spans();
        spans.charge(self.span, self.clock.now(), Stage::Target);
        let label = IoLabel::from_bits(spans.label(self.span));
        if let Some(label) =
            label.filter(|label| label.nsid == u32::MAX || status == Status::INVALID_NAMESPACE)
        {
            spans.set_label(self.span, IoLabel { nsid: 0, ..label }.bits());
        }
        self.ledger.close(spans, self.span);
    }
}

impl Drop for OpenSpan<'_> {
    fn drop(&mut self) {
        // Without effect once the span is booked.
        self.clock.spans().close(self.span);
    }
}

/// Handles a fabrics command on a connected queue.
fn fabrics_command(controller: &Controller, qid: u16, command: &FabricsCommand) -> Cqe {
    let invalid_field = ended(Status::INVALID_FIELD.with_dnr());
    match (command, qid) {
        (FabricsCommand::PropertyGet(PropertyGet { size, offset }), 0) => {
            let value = size.bytes().and_then(|bytes| controller.property(*offset, bytes));
            value.map_or(invalid_field, |value| PropertyGet::response(value, 0, 0))
        }
        (FabricsCommand::PropertySet(PropertySet { size, offset, value }), 0) => {
            match (u64::from(*offset), size.bytes()) {
                (CC, Some(4)) => {
                    controller.configure(*value as u32);
                    ended(Status::SUCCESS)
                }
                _ => invalid_field,
            }
        }
        // An admin queue ends only with its connection (NVMe Base 2.1, 6.4).
        (FabricsCommand::Disconnect(_), 0) => ended(INVALID_QUEUE_TYPE.with_dnr()),
        // The transport closes the connection after the completion.
        (FabricsCommand::Disconnect(Disconnect { recfmt: 0 }), _) => ended(Status::SUCCESS),
        (FabricsCommand::Disconnect(_), _) => ended(INCOMPATIBLE_FORMAT.with_dnr()),
        (FabricsCommand::Connect(_), _) => ended(Status::COMMAND_SEQUENCE_ERROR.with_dnr()),
        _ => invalid_field,
    }
}
