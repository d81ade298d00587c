//! A queue: one connection, from its Connect to its end. It takes capsules and gives completions; how they and their data cross is
//! the transport's.

use crate::admin::{self, ended};
use crate::authentication::{self, Authentication};
use crate::channel::Peer;
use crate::controller::{Controller, DISCOVERY_ENTRIES_MAX, Security, Service};
use crate::discovery::{Discovery, Reached};
use crate::host_usage::{Credit, HostUsage};
use crate::path::{Errand, Movement};
use crate::subsystem::{HostName, Subsystem};
use byteway_clock::Delay;
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

/// What an admin queue takes in the clear once it has generated a key. Linux initializes the controller before it connects with TLS.
const PROVISIONAL_COMMANDS: [AdminOpcode; 7] = [
    AdminOpcode::IDENTIFY,
    AdminOpcode::GET_LOG_PAGE,
    AdminOpcode::GET_FEATURES,
    AdminOpcode::SET_FEATURES,
    AdminOpcode::ABORT,
    AdminOpcode::ASYNC_EVENT_REQUEST,
    AdminOpcode::KEEP_ALIVE,
];
/// Commands that a queue may have outstanding before its Connect has said how many.
const ENTRIES_BEFORE: u16 = 1;

/// What a target offers: its subsystems by name, and the Discovery Service under the well-known one.
pub struct Target {
    subsystems: Vec<Rc<Subsystem>>,
    discovery: Option<Rc<Discovery>>,
}

impl Target {
    /// Of these subsystems, whose names differ.
    pub fn new(subsystems: Vec<Rc<Subsystem>>) -> Rc<Self> {
        Rc::new(Target { subsystems, discovery: None })
    }

    /// Of these subsystems, and of a Discovery Service.
    pub fn with_discovery(subsystems: Vec<Rc<Subsystem>>, discovery: Rc<Discovery>) -> Rc<Self> {
        Rc::new(Target { subsystems, discovery: Some(discovery) })
    }

    /// Its Discovery Service.
    pub fn discovery(&self) -> Option<&Rc<Discovery>> {
        self.discovery.as_ref()
    }

    /// All controllers that hosts have now.
    pub fn controllers(&self) -> Vec<Rc<Controller>> {
        let drives = self.subsystems.iter().flat_map(|subsystem| subsystem.controllers());
        drives.chain(self.discovery.iter().flat_map(|discovery| discovery.controllers())).collect()
    }

    /// Its subsystems.
    pub fn subsystems(&self) -> &[Rc<Subsystem>] {
        &self.subsystems
    }

    /// What has this name.
    fn service(&self, nqn: &Nqn) -> Option<Service> {
        if nqn.is_discovery() {
            return self.discovery.clone().map(Service::Discovery);
        }
        let found = self.subsystems.iter().find(|subsystem| subsystem.config().nqn == *nqn);
        found.cloned().map(Service::Drive)
    }
}

/// What a queue is connected to.
#[derive(Clone)]
enum Stage {
    /// Nothing: the first command has to be Connect.
    New,
    /// Nothing any more: its connection is gone, and what comes to be executed only now has no effect on controllers.
    Closed,
    Connected {
        controller: Rc<Controller>,
        qid: u16,
        /// Of the controller's lives.
        life: u32,
        /// None: its host has no secret.
        authentication: Option<Rc<Authentication>>,
    },
}

/// One queue of a host's.
pub struct Queue {
    target: Rc<Target>,
    reached: Reached,
    peer: Cell<Option<Peer>>,
    stage: RefCell<Stage>,
    entries: Cell<u16>,
    /// None: the flow is not controlled.
    head: Cell<Option<u16>>,
    /// Identifiers of commands that have begun and not ended.
    outstanding: RefCell<Vec<u16>>,
    /// Those of held requests that have become another command's.
    given_up: RefCell<Vec<u16>>,
}

/// What no host that keeps to the protocol does: its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// More commands than entries.
    #[error("it has more than {0} commands outstanding, which is the size of its queue")]
    Overflow(u16),
    /// Two commands that nobody could tell apart.
    #[error("it uses command identifier {0} twice at once")]
    Identifier(u16),
}

impl Queue {
    /// One that has just been opened, at a place that doesn't matter.
    pub fn new(target: &Rc<Target>) -> Self {
        Queue::at(target, Reached::default())
    }

    /// One that has just been opened, by a host that has reached the target there.
    pub fn at(target: &Rc<Target>, reached: Reached) -> Self {
        Queue {
            target: target.clone(),
            reached,
            peer: Cell::new(None),
            stage: RefCell::new(Stage::New),
            entries: Cell::new(ENTRIES_BEFORE),
            head: Cell::new(Some(0)),
            outstanding: RefCell::default(),
            given_up: RefCell::default(),
        }
    }

    /// It lies in a secure channel, which its Connect has to fit.
    pub fn secure(&self, peer: Peer) {
        self.peer.set(Some(peer));
    }

    /// Its controller, once it is connected.
    pub fn controller(&self) -> Option<Rc<Controller>> {
        match &*self.stage.borrow() {
            Stage::Connected { controller, .. } => Some(controller.clone()),
            _ => None,
        }
    }

    /// Its identifier, once it is connected.
    pub fn qid(&self) -> Option<u16> {
        match &*self.stage.borrow() {
            Stage::Connected { qid, .. } => Some(*qid),
            _ => None,
        }
    }

    fn authentication(&self) -> Option<Rc<Authentication>> {
        match &*self.stage.borrow() {
            Stage::Connected { authentication, .. } => authentication.clone(),
            _ => None,
        }
    }

    /// Whether it is connected.
    pub fn is_connected(&self) -> bool {
        self.qid().is_some()
    }

    /// Whether it is connected, and authenticated if it has to be: it takes commands.
    pub fn is_established(&self) -> bool {
        self.is_connected() && self.authentication().is_none_or(|own| own.is_authenticated())
    }

    /// Why its host has not authenticated, once the connection is to be closed for that.
    pub fn refusal(&self) -> Option<Explanation> {
        self.authentication().and_then(|own| own.refusal())
    }

    /// Data that may come with a command: before Connect it is that command's alone.
    pub fn in_capsule_bytes(&self) -> u32 {
        match &*self.stage.borrow() {
            Stage::Connected { controller, qid, .. } if *qid > 0 => {
                let subsystem = controller.subsystem();
                subsystem.map_or(ADMIN_CAPSULE_DATA_BYTES, |subsystem| subsystem.config().in_capsule_bytes)
            }
            _ => ADMIN_CAPSULE_DATA_BYTES,
        }
    }

    /// The longest data of a command.
    pub fn bytes_max(&self) -> u32 {
        match &*self.stage.borrow() {
            Stage::Connected { authentication: Some(own), .. } if !own.is_authenticated() => {
                authentication::BYTES_MAX
            }
            Stage::Connected { controller, .. } => match controller.subsystem() {
                Some(subsystem) => subsystem.path().bytes_max(),
                None => crate::discovery::BYTES_MAX,
            },
            Stage::New | Stage::Closed => ConnectData::SIZE as u32,
        }
    }

    /// Whether completions say how far the queue was read.
    pub fn controls_flow(&self) -> bool {
        self.head.get().is_some()
    }

    /// What its host has of the subsystem.
    pub(crate) fn usage(&self) -> Option<Rc<HostUsage>> {
        match &*self.stage.borrow() {
            Stage::Connected { controller, qid: 1.., .. } => controller.usage().cloned(),
            _ => None,
        }
    }

    /// Commands that are held until something happens: Asynchronous Event Requests.
    pub(crate) fn held(&self) -> usize {
        match &*self.stage.borrow() {
            Stage::Connected { controller, qid: 0, .. } => controller.held(),
            _ => 0,
        }
    }

    /// Waits until the connection is to be closed, as its controller is over, or its host is refused.
    pub async fn over(&self) {
        let connected = match &*self.stage.borrow() {
            Stage::Connected { controller, qid, life, authentication } => {
                Some((controller.clone(), (*qid > 0).then_some(*life), authentication.clone()))
            }
            _ => None,
        };
        if let Some((controller, life, authentication)) = connected {
            let is_refused = || authentication.as_ref().is_some_and(|own| own.refusal().is_some());
            controller.over(life, is_refused).await;
        }
    }

    /// A command has come: what data it has, or the status with which it ends at once.
    ///
    /// # Errors
    /// The connection is to end.
    pub fn begin(&self, sqe: &Sqe) -> Result<Result<Movement, Status>, Misuse> {
        let mut outstanding = self.outstanding.borrow_mut();
        if outstanding.len() >= usize::from(self.entries.get()) {
            return Err(Misuse::Overflow(self.entries.get()));
        }
        if outstanding.contains(&sqe.cid()) {
            match &*self.stage.borrow() {
                Stage::Connected { controller, qid: 0, .. } if controller.give_up(sqe.cid()) => {}
                _ => return Err(Misuse::Identifier(sqe.cid())),
            }
            outstanding.retain(|other| *other != sqe.cid());
            self.given_up.borrow_mut().push(sqe.cid());
        }
        outstanding.push(sqe.cid());
        if let Some(head) = self.head.get() {
            self.head.set(Some(if head + 1 >= self.entries.get() { 0 } else { head + 1 }));
        }
        Ok(self.movement(sqe))
    }

    fn movement(&self, sqe: &Sqe) -> Result<Movement, Status> {
        let fabrics = FabricsCommand::parse(sqe);
        match &*self.stage.borrow() {
            Stage::New if matches!(fabrics, Some(FabricsCommand::Connect(_))) => {
                Ok(Movement::ToDrive(ConnectData::SIZE as u32))
            }
            Stage::New | Stage::Closed => Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr()),
            Stage::Connected { controller, qid, authentication, .. } => {
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
                    // Everything else waits for the TLS channel.
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

    /// Executes a command that has begun, over any queue pair of the drive's. None: nobody is to be told.
    pub async fn execute(&self, sqe: &Sqe, movement: Movement, data: &mut Vec<u8>) -> Option<Cqe> {
        self.execute_for(Errand::NONE, sqe, movement, data, &mut None).await
    }

    /// The same, as a part of an I/O that is followed, over a queue pair that the caller chooses. `credit` is the host's for the
    /// command's data: data to the drive has it since it was asked for; data to the host takes it here, and has it until the
    /// transport has sent it.
    pub async fn execute_for(
        &self,
        errand: Errand,
        sqe: &Sqe,
        movement: Movement,
        data: &mut Vec<u8>,
        credit: &mut Option<Credit>,
    ) -> Option<Cqe> {
        let stage = self.stage.borrow().clone();
        match (stage, FabricsCommand::parse(sqe)) {
            (Stage::New, Some(FabricsCommand::Connect(connect))) => {
                Some(self.connect(&connect, data).unwrap_or_else(|refused| refused))
            }
            (Stage::Closed, _) => None,
            (Stage::New, _) => Some(ended(Status::COMMAND_SEQUENCE_ERROR.with_dnr())),
            (
                Stage::Connected { controller, authentication: Some(own), .. },
                Some(FabricsCommand::AuthSend(_)),
            ) => Some(own.send(&controller, data).await),
            (
                Stage::Connected { controller, authentication: Some(own), .. },
                Some(FabricsCommand::AuthReceive(_)),
            ) => Some(own.receive(&controller, movement, data).await),
            (Stage::Connected { controller, qid, .. }, Some(command)) => {
                Some(fabrics_command(&controller, qid, &command))
            }
            (Stage::Connected { controller, qid: 0, .. }, None) => {
                admin::execute(&controller, sqe, movement, data).await
            }
            (Stage::Connected { controller, qid, .. }, None) => match controller.subsystem() {
                // It may have changed while the command's data came.
                Some(subsystem) => match controller.ana().status() {
                    Some(status) => Some(ended(status)),
                    None => {
                        let path = subsystem.path();
                        let turn = async {
                            let (mut command, mut bytes) = (None, None);
                            if let Some(usage) = controller.usage() {
                                // In this order, which writes have, too, whose data is asked for before: in another, reads
                                // with commands and writes with bytes would wait for one another.
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
                        Some(path.execute(errand, sqe, movement, data).await)
                    }
                },
                None => Some(ended(Status::INVALID_OPCODE.with_dnr())),
            },
        }
    }

    /// A command has ended: its completion as the host is to get it.
    pub fn end(&self, sqe: &Sqe, cqe: Cqe) -> Cqe {
        let cid = sqe.cid();
        self.outstanding.borrow_mut().retain(|other| *other != cid);
        if let Stage::Connected { controller, authentication: Some(own), .. } = &*self.stage.borrow() {
            own.conclude(controller);
        }
        let sqhd = self.head.get().unwrap_or(SQHD_NO_FLOW_CONTROL);
        // SQID is reserved on a fabric, and there is no phase.
        Cqe { cid, sqid: 0, sqhd, ..cqe.with_phase(false) }
    }

    /// A command has ended without a completion.
    pub fn forget(&self, sqe: &Sqe) {
        let cid = sqe.cid();
        let mut given_up = self.given_up.borrow_mut();
        match given_up.iter().position(|other| *other == cid) {
            Some(at) => _ = given_up.swap_remove(at),
            None => self.outstanding.borrow_mut().retain(|other| *other != cid),
        }
    }

    /// The connection is gone, or the host has disconnected the queue. Its commands that are not at the drive yet won't be.
    pub fn close(&self) {
        if let Stage::Connected { controller, qid, .. } = self.stage.replace(Stage::Closed) {
            controller.waiting.abort_queue(qid);
            controller.disconnect(qid);
        }
    }

    /// Connect (NVMe Base 2.1, 6.3). The error is a completion, too.
    fn connect(&self, connect: &Connect, data: &[u8]) -> Result<Cqe, Cqe> {
        let invalid = |parameter: InvalidParameter| parameter.cqe(0);
        let data = ConnectData::read_from_bytes(data).map_err(|_| ended(Status::INVALID_FIELD.with_dnr()))?;
        if connect.recfmt != 0 {
            return Err(ended(INCOMPATIBLE_FORMAT.with_dnr()));
        }
        let named = data.subsystem().map_err(invalid)?;
        let service = self.target.service(&named).ok_or(invalid(InvalidParameter::SUBNQN))?;
        let host = HostName { nqn: data.host().map_err(invalid)?, id: data.hostid };
        // The names are those of the PSK identity, by which the key is one host's for one subsystem.
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
                    Service::Drive(subsystem) => subsystem.make(host, self.reached, keep_alive),
                    Service::Discovery(discovery) => discovery.make(host, self.reached, keep_alive),
                };
                made.map_err(ended)?
            }
            qid => {
                let controller = match &service {
                    Service::Drive(subsystem) => subsystem.controller(data.cntlid),
                    // It has no I/O queues (NVMe Base 2.1, 3.1.3.3).
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
                    // The policy may have become another one since the admin queue was connected.
                    (Security::Unchanged, Some(subsystem)) => {
                        is_in_channel || !subsystem.requires_generated_key(&host.nqn)
                    }
                    (Security::Unchanged, None) => true,
                    (Security::Tls, _) => is_in_channel,
                };
                if !controller.is_ready() || !is_secure {
                    return Err(ended(Status::COMMAND_SEQUENCE_ERROR.with_dnr()));
                }
                if controller.subsystem().is_some_and(|subsystem| !subsystem.has_queue_for(&host)) {
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
        self.stage.replace(Stage::Connected { controller, qid: connect.qid, life, authentication });
        Ok(Connected { cntlid, requirements }.cqe(0, 0))
    }
}

/// A fabrics command of a queue that is connected.
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
        // The admin queue goes with its connection alone (NVMe Base 2.1, 6.4).
        (FabricsCommand::Disconnect(_), 0) => ended(INVALID_QUEUE_TYPE.with_dnr()),
        // The transport closes the connection behind the completion.
        (FabricsCommand::Disconnect(Disconnect { recfmt: 0 }), _) => ended(Status::SUCCESS),
        (FabricsCommand::Disconnect(_), _) => ended(INCOMPATIBLE_FORMAT.with_dnr()),
        (FabricsCommand::Connect(_), _) => ended(Status::COMMAND_SEQUENCE_ERROR.with_dnr()),
        _ => invalid_field,
    }
}
