//! The initiator: one association with a target's controller, below the queues of its driver.

use super::adapter::{Adapter, Generated};
use super::login::{Authenticator, ConnectError, Talk, authenticate};
use super::message::{Connection, ToHost, ToTarget};
use super::rings::{Completions, Ring};
use byteway_auth::GeneratedPsk;
use byteway_clock::{Channel, Clock, Delay, Notify, Semaphore, SpanId, Stage};
use byteway_link::{Memory, MessageKind};
use byteway_wire::IntoBytes;
use byteway_wire::fabrics::auth::{AuthReceive, AuthSend, SecureChannel, SecurityProtocol};
use byteway_wire::fabrics::connect::CNTLID_DYNAMIC;
use byteway_wire::fabrics::status::AUTHENTICATION_REQUIRED;
use byteway_wire::fabrics::{
    AuthRequirements, Connect, ConnectData, Connected, DataPointer, Disconnect, Nqn, PropertyGet,
    PropertySet, PropertySize,
};
use byteway_wire::nvme::register::{ACQ, AQA, ASQ, Aqa, CC, Cc, Doorbell};
use byteway_wire::nvme::sgl::{SglSubType, SglType};
use byteway_wire::nvme::vendor::InlineSlots;
use byteway_wire::nvme::{AdminOpcode, Cqe, CreateCq, CreateSq, DeleteQueue, Sqe, Status};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};

/// Identifier of the initiator's own commands on the admin queue; the driver does not use it.
const OWN_CID: u16 = 0xFFFE;
/// Identifier of Property Sets, whose responses are ignored.
const POSTED_CID: u16 = 0xFFFD;
/// The identifier of a Disconnect.
const DISCONNECT_CID: u16 = 0xFFFC;
/// The identifier of an Authentication Send or Receive.
const AUTH_CID: u16 = 0xFFFB;
/// Identifiers of the driver's commands are below.
const CID_MAX: u16 = 0xFFF0;
/// Reconnection attempts, and the delay between them: as in Linux, a controller that does not come back for ten minutes
/// is given up.
const RECONNECTS_MAX: u32 = 60;
const RECONNECT_DELAY: Delay = Delay::from_s(10);
/// Maximum length of an authentication message, in bytes: a page.
const AUTH_BYTES: u32 = 4096;
/// In-capsule data that the target accepts on the admin queue, in bytes.
const ADMIN_CAPSULE_BYTES: u32 = 8192;

/// Configuration of an association.
#[derive(Clone, Debug)]
pub struct InitiatorConfig {
    /// The subsystem.
    pub subsystem: Nqn,
    /// This host.
    pub host: Nqn,
    /// The Host Identifier.
    pub host_id: [u8; 16],
    /// Entries of the admin queue.
    pub admin_entries: u16,
    /// Maximum in-capsule data of commands on I/O queues, in bytes.
    pub in_capsule_bytes: u32,
    /// Authentication, if required.
    pub authenticator: Option<Authenticator>,
    /// Time limit of each answer to the initiator itself, such as to Connect; without one in time, the connection is
    /// lost. `None`: no limit.
    pub timeout: Option<Delay>,
}

/// An association. A [`Port`](crate::Port) leads to it.
pub struct Initiator {
    own: Weak<Initiator>,
    adapter: Adapter,
    association: u16,
    clock: Clock,
    memory: Memory,
    config: InitiatorConfig,
    rings: RefCell<BTreeMap<u16, Ring>>,
    /// The connection number of each queue, and the next number.
    open: RefCell<BTreeMap<u16, u32>>,
    next: Cell<u32>,
    completions: RefCell<BTreeMap<u16, Completions>>,
    vectors: RefCell<Vec<Rc<Notify>>>,
    /// Create and Delete I/O Submission Queue commands that wait for their Connect or Disconnect: identifiers by queue.
    waiting: RefCell<BTreeMap<u16, u16>>,
    /// Serializes the initiator's own commands, and passes their completions.
    asking: Semaphore,
    answers: Channel<Cqe>,
    /// Serializes authentication: one queue, one command at a time.
    authenticating: Semaphore,
    auth_answers: Channel<Cqe>,
    /// Number of transactions begun.
    transactions: Cell<u16>,
    cntlid: Cell<u16>,
    aqa: Cell<Aqa>,
    asq: Cell<u64>,
    acq: Cell<u64>,
    /// Namespaces of key-value pairs.
    pairs: RefCell<BTreeSet<u32>>,
    is_gone: Cell<bool>,
    /// Whether a lost controller is connected again: not before a driver has initialized the first one.
    is_kept: Cell<bool>,
    is_given_up: Cell<bool>,
    losses: Cell<u64>,
    /// Notifies changes of both.
    lost: Notify,
    /// Unexpected responses.
    strays: Cell<u64>,
}

impl Initiator {
    /// Connects the admin queue.
    ///
    /// # Errors
    /// [`ConnectError`] if the target refuses, or an end fails to authenticate.
    pub async fn connect(
        adapter: &Adapter,
        memory: Memory,
        config: InitiatorConfig,
    ) -> Result<Rc<Initiator>, ConnectError> {
        let clock = adapter.clock().clone();
        let initiator = Rc::new_cyclic(|own| Initiator {
            own: own.clone(),
            association: adapter.join(own.clone()),
            adapter: adapter.clone(),
            memory,
            rings: RefCell::default(),
            open: RefCell::default(),
            next: Cell::default(),
            lost: Notify::new(&clock),
            completions: RefCell::default(),
            vectors: RefCell::default(),
            waiting: RefCell::default(),
            asking: Semaphore::new(&clock, 1),
            answers: Channel::unbounded(&clock),
            authenticating: Semaphore::new(&clock, 1),
            auth_answers: Channel::unbounded(&clock),
            transactions: Cell::default(),
            cntlid: Cell::new(CNTLID_DYNAMIC),
            aqa: Cell::default(),
            asq: Cell::default(),
            acq: Cell::default(),
            pairs: RefCell::default(),
            is_gone: Cell::default(),
            is_kept: Cell::default(),
            is_given_up: Cell::default(),
            losses: Cell::default(),
            strays: Cell::default(),
            config,
            clock,
        });
        initiator.associate().await?;
        Ok(initiator)
    }

    /// Connects the admin queue, which creates a controller. With secure channel concatenation it connects twice: in
    /// the clear, to generate a key, and with TLS and that key (NVMe Base 2.1, 8.3.4.3, figure 730).
    async fn associate(&self) -> Result<(), ConnectError> {
        let _turn = self.asking.acquire(1).await;
        if self.concatenates() {
            // The key of a former association is invalid.
            self.adapter.secure(self.association, None).map_err(|_| ConnectError::NoChannel)?;
            // The requirements matter only on the second connection.
            self.connect_admin().await?;
            let generated = self.authenticate(0, SecureChannel::NEW_TLS_PSK).await?;
            // `None`: the login would have failed.
            let psk = generated.as_ref().ok_or(ConnectError::SecureChannel)?;
            self.close(0);
            let InitiatorConfig { host, subsystem, .. } = self.config;
            let secured = self.adapter.secure(self.association, Some(Generated { psk, host, subsystem }));
            secured.map_err(|_| ConnectError::NoChannel)?;
        }
        let connected = self.connect_admin().await?;
        self.meet(0, connected).await?;
        self.is_gone.set(false);
        self.lost.notify_all();
        Ok(())
    }

    /// Connects the admin queue; returns the target's requirements.
    async fn connect_admin(&self) -> Result<AuthRequirements, ConnectError> {
        self.cntlid.set(CNTLID_DYNAMIC);
        while self.answers.try_receive().is_some() {}
        self.open(0, self.config.admin_entries);
        let cqe = self.in_time(&self.answers).await;
        let connected = Connected::parse(&cqe).ok_or(ConnectError::Refused(cqe.status()))?;
        self.cntlid.set(connected.cntlid);
        Ok(connected.requirements)
    }

    fn concatenates(&self) -> bool {
        self.config.authenticator.as_ref().is_some_and(|own| own.concatenates)
    }

    /// Satisfies the target's requirements for a connected queue, in the channel in which it will be used.
    async fn meet(&self, qid: u16, required: AuthRequirements) -> Result<(), ConnectError> {
        if required.ascr() {
            return Err(ConnectError::SecureChannel);
        }
        if required.atr() {
            self.authenticate(qid, SecureChannel::NONE).await?;
        }
        Ok(())
    }

    /// Authenticates a queue. Returns the generated key if one is requested.
    async fn authenticate(
        &self,
        qid: u16,
        asked: SecureChannel,
    ) -> Result<Option<GeneratedPsk>, ConnectError> {
        let authenticator = self.config.authenticator.as_ref().ok_or(ConnectError::NoSecret)?;
        let _turn = self.authenticating.acquire(1).await;
        let transaction = self.transactions.replace(self.transactions.get().wrapping_add(1));
        let page = self.memory.allocate(1).ok_or(ConnectError::NoMemory)?;
        let talk = QueueTalk { initiator: self, qid, page };
        let names = (self.config.host, self.config.subsystem);
        let authenticated = authenticate(authenticator, names, transaction, asked, &talk).await;
        self.memory.free(page, 1);
        authenticated
    }

    /// The next answer. Without one in time the connection is lost, which is an answer, too.
    async fn in_time(&self, answers: &Channel<Cqe>) -> Cqe {
        let answer = match self.config.timeout {
            Some(limit) => self.clock.within(limit, answers.receive()).await,
            None => Some(answers.receive().await),
        };
        answer.unwrap_or_else(|| {
            self.lose();
            Cqe::new(0, Status::INTERNAL_PATH_ERROR, 0, 0)
        })
    }

    /// The namespaces of key-value pairs, whose values have any length.
    pub(crate) fn set_pairs(&self, nsids: impl Iterator<Item = u32>) {
        self.pairs.replace(nsids.collect());
    }

    /// Connects a lost controller again from now on.
    pub(crate) fn keep(&self) {
        self.is_kept.set(true);
    }

    /// Waits until the controller is lost: only a reset, which reconnects, brings one back.
    pub(crate) async fn lost(&self) {
        while !self.is_gone.get() {
            self.lost.notified().await;
        }
    }

    /// Whether the controller is lost, and none is connected again.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_gone.get()
    }

    /// Number of times a controller was lost; `None` once reconnection was given up.
    pub(crate) fn losses(&self) -> Option<u64> {
        (!self.is_given_up.get()).then(|| self.losses.get())
    }

    /// Waits until a controller is connected again, or reconnection is given up.
    pub(crate) async fn found(&self) {
        while self.is_gone.get() && !self.is_given_up.get() {
            self.lost.notified().await;
        }
    }

    /// Closes all connections, because the target has closed one, or no longer answers: commands in flight can't complete.
    pub(crate) fn lose(&self) {
        let open: Vec<u16> = self.open.borrow().keys().copied().collect();
        open.into_iter().for_each(|qid| self.close(qid));
        // A task that waits for an answer is notified.
        if self.asking.available() == 0 {
            let _ = self.answers.try_send(Cqe::new(0, Status::INTERNAL_PATH_ERROR, 0, 0));
        }
        if self.authenticating.available() == 0 {
            let _ = self.auth_answers.try_send(Cqe::new(0, Status::INTERNAL_PATH_ERROR, 0, 0));
        }
        if !self.is_gone.replace(true) {
            self.losses.set(self.losses.get() + 1);
            self.lost.notify_all();
        }
    }

    /// The subsystem.
    pub(crate) fn subsystem(&self) -> &Nqn {
        &self.config.subsystem
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The memory of rings and buffers.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whether the network is simulated.
    pub fn is_simulated(&self) -> bool {
        self.adapter.network().is_some()
    }

    /// The adapter that it uses.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Unexpected responses.
    pub fn strays(&self) -> u64 {
        self.strays.get()
    }

    /// The connection of a queue; `None`: it is not open.
    fn connection(&self, qid: u16) -> Option<Connection> {
        let number = *self.open.borrow().get(&qid)?;
        Some(Connection { association: self.association, qid, number })
    }

    fn send(&self, qid: u16, span: SpanId, sqe: Sqe, data: Vec<u8>) {
        let bytes = (Sqe::SIZE + data.len()) as u64;
        if let Some(connection) = self.connection(qid) {
            // Key-value commands, and an authentication's; all others move exactly what they ask for.
            let may_be_short = match qid {
                0 => sqe.cid() == AUTH_CID,
                _ => self.pairs.borrow().contains(&sqe.nsid),
            };
            let message = |queued| ToTarget::Command { span, queued, sqe, data, may_be_short };
            self.adapter.send(MessageKind::Command, bytes, connection, message);
        }
    }

    /// Closes a queue's connection, if it is open.
    fn close(&self, qid: u16) {
        if let Some(connection) = self.connection(qid) {
            self.open.borrow_mut().remove(&qid);
            self.adapter.send(MessageKind::Connection, 0, connection, |_| ToTarget::Close);
        }
    }

    /// Opens a connection and sends its Connect.
    fn open(&self, qid: u16, entries: u16) {
        self.close(qid);
        let number = self.next.replace(self.next.get() + 1);
        self.open.borrow_mut().insert(qid, number);
        let connection = Connection { association: self.association, qid, number };
        self.adapter.send(MessageKind::Connection, 0, connection, |_| ToTarget::Open);
        let InitiatorConfig { subsystem, host, host_id, .. } = &self.config;
        let data = ConnectData::new(*host_id, self.cntlid.get(), subsystem, host);
        let connect = Connect { qid, sqsize_z: entries - 1, ..Connect::default() };
        let pointer = DataPointer::InCapsule { offset: 0, bytes: ConnectData::SIZE as u32 };
        let sqe = connect.sqe(OWN_CID, pointer.descriptor());
        self.send(qid, SpanId::NONE, sqe, data.as_bytes().to_vec());
    }

    /// Reads a register, waiting for a new controller if it was lost. All ones: there is none, or no such property.
    pub(crate) async fn read(&self, offset: u64, bytes: u32) -> u64 {
        let property = u32::try_from(offset).ok().and_then(PropertySize::of);
        let Some(size) = property.filter(|size| size.bytes() == Some(bytes)) else { return u64::MAX };
        let command = PropertyGet { size, offset: offset as u32 };
        let mut tries = 0;
        loop {
            if self.is_given_up.get() || self.is_gone.get() && !self.is_kept.get() {
                return u64::MAX;
            }
            if self.is_gone.get()
                && let Err(error) = self.associate().await
            {
                tries += 1;
                if tries == RECONNECTS_MAX || error.is_final() {
                    self.is_given_up.set(true);
                    self.lost.notify_all();
                    continue;
                }
                self.clock.timer(RECONNECT_DELAY).await;
                continue;
            }
            let cqe = self.ask(command.sqe(OWN_CID)).await;
            match cqe.status().is_success() {
                true => return command.value(&cqe),
                false if self.is_gone.get() => {}
                false => return u64::MAX,
            }
        }
    }

    /// Executes a command of the initiator's own.
    async fn ask(&self, sqe: Sqe) -> Cqe {
        let _turn = self.asking.acquire(1).await;
        if self.connection(0).is_none() {
            return Cqe::new(0, Status::INTERNAL_PATH_ERROR, 0, 0);
        }
        while self.answers.try_receive().is_some() {} // stale answers of a lost controller
        self.send(0, SpanId::NONE, sqe, Vec::new());
        self.in_time(&self.answers).await
    }

    /// Writes a register, posted.
    pub(crate) fn write(&self, offset: u64, value: u64) {
        match offset {
            AQA => self.aqa.set(Aqa::from_bits(value as u32)),
            ASQ => self.asq.set(value),
            ACQ => self.acq.set(value),
            CC => {
                self.begin_life(Cc::from_bits(value as u32).en());
                let command = PropertySet { size: PropertySize(0), offset: CC as u32, value };
                self.send(0, SpanId::NONE, command.sqe(POSTED_CID), Vec::new());
            }
            _ => {}
        }
    }

    /// Handles a write of CC.EN: the admin rings start over, and the I/O queues end.
    fn begin_life(&self, is_enabled: bool) {
        let open: Vec<u16> = self.open.borrow().keys().copied().filter(|qid| *qid > 0).collect();
        open.into_iter().for_each(|qid| self.close(qid));
        self.rings.borrow_mut().retain(|qid, _| *qid == 0);
        self.completions.borrow_mut().retain(|cqid, _| *cqid == 0);
        self.waiting.borrow_mut().clear();
        if is_enabled {
            let aqa = self.aqa.get();
            let entries = u32::from(aqa.asqs_z()) + 1;
            self.rings.borrow_mut().insert(0, Ring::new(self.asq.get(), entries, 0));
            let entries = u32::from(aqa.acqs_z()) + 1;
            self.completions.borrow_mut().insert(0, Completions::new(self.acq.get(), entries, 0));
        }
    }

    /// Handles a doorbell write.
    pub(crate) fn ring(&self, offset: u64, value: u32) {
        let Some(Doorbell::SubmissionTail(qid)) = Doorbell::decode(offset, 0) else { return };
        loop {
            let mut rings = self.rings.borrow_mut();
            let Some(ring) = rings.get_mut(&qid) else { return };
            if ring.tail == value || value >= ring.entries {
                return;
            }
            let (sqe, span, data) = self.take(ring);
            drop(rings);
            match qid {
                0 => self.admin(sqe, span, data),
                _ => self.command(qid, sqe, span, data),
            }
        }
    }

    /// Takes the entry at the tail of a ring, and the train after it.
    fn take(&self, ring: &mut Ring) -> (Sqe, SpanId, Vec<u8>) {
        let mut entry = [0; Sqe::SIZE];
        self.read_slot(ring, &mut entry);
        let span = ring.spans[ring.tail as usize];
        ring.advance();
        let sqe = Sqe::from_bytes(&entry);
        let mut data = self.adapter.buffer();
        if let (true, Ok(DataPointer::InCapsule { bytes, .. })) =
            (sqe.psdt() != 0, DataPointer::parse(&sqe.sgl()))
        {
            for _ in 0..(InlineSlots { bytes }).count() {
                self.read_slot(ring, &mut entry);
                ring.advance();
                data.extend_from_slice(&entry);
            }
            data.truncate(bytes as usize);
        }
        (sqe, span, data)
    }

    fn read_slot(&self, ring: &Ring, entry: &mut [u8; Sqe::SIZE]) {
        let read = self.memory.read(ring.address + u64::from(ring.tail) * Sqe::SIZE as u64, entry);
        read.expect("the ring's memory is the driver's own");
    }

    /// Handles an admin command: queues are created and deleted by their connections.
    fn admin(&self, sqe: Sqe, span: SpanId, data: Vec<u8>) {
        let cid = sqe.cid();
        match AdminOpcode(sqe.opcode()) {
            AdminOpcode::CREATE_CQ => {
                let create = CreateCq::parse(&sqe);
                let entries = u32::from(create.qsize_z) + 1;
                let ring = Completions::new(sqe.prp1, entries, create.iv);
                self.completions.borrow_mut().insert(create.qid, ring);
                self.answer(cid, Status::SUCCESS);
            }
            AdminOpcode::CREATE_SQ => {
                let create = CreateSq::parse(&sqe);
                let entries = u32::from(create.qsize_z) + 1;
                self.rings.borrow_mut().insert(create.qid, Ring::new(sqe.prp1, entries, create.cqid));
                self.waiting.borrow_mut().insert(create.qid, cid);
                self.open(create.qid, entries.min(u32::from(u16::MAX)) as u16);
            }
            AdminOpcode::DELETE_SQ => {
                let qid = DeleteQueue::parse(&sqe).qid;
                if self.connection(qid).is_none() && !self.is_gone.get() {
                    return self.answer(cid, Status::INVALID_QUEUE_ID.with_dnr());
                }
                let sqe = Disconnect::default().sqe(DISCONNECT_CID);
                self.waiting.borrow_mut().insert(qid, cid);
                self.send(qid, SpanId::NONE, sqe, Vec::new());
            }
            AdminOpcode::DELETE_CQ => {
                self.completions.borrow_mut().remove(&DeleteQueue::parse(&sqe).qid);
                self.answer(cid, Status::SUCCESS);
            }
            _ => self.command(0, sqe, span, data),
        }
    }

    /// Sends a driver's command in a capsule, with a fabrics data pointer.
    fn command(&self, qid: u16, mut sqe: Sqe, span: SpanId, mut data: Vec<u8>) {
        let in_capsule = if qid == 0 { ADMIN_CAPSULE_BYTES } else { self.config.in_capsule_bytes };
        let is_to_controller = sqe.opcode() & 3 == 1;
        let block = sqe.sgl();
        // Targets refuse other descriptors: fabrics do not have them.
        let is_block = sqe.psdt() != 0
            && (block.sgl_type(), block.sub_type()) == (SglType::DATA_BLOCK, SglSubType::ADDRESS);
        if is_block && data.is_empty() {
            let (address, bytes) = (block.address, block.length);
            data.resize(if is_to_controller && bytes <= in_capsule { bytes as usize } else { 0 }, 0);
            let is_taken = !data.is_empty() && self.memory.read(address, &mut data).is_ok();
            let pointer = match is_taken {
                true => DataPointer::InCapsule { offset: 0, bytes },
                false => {
                    data.clear();
                    DataPointer::Keyed { address, bytes, key: u32::from(sqe.cid()), invalidate: true }
                }
            };
            sqe = sqe.with_sgl(pointer.descriptor());
        }
        self.send(qid, span, sqe, data);
    }

    /// Handles a received message.
    pub(crate) fn receive(&self, connection: Connection, message: ToHost) {
        let qid = connection.qid;
        if self.connection(qid) != Some(connection) {
            return; // for a connection closed since
        }
        match message {
            ToHost::Closed => self.lose(),
            ToHost::Fetch { tag, address, bytes } => {
                let mut data = self.adapter.buffer();
                data.resize(bytes as usize, 0);
                if self.memory.read(address, &mut data).is_err() {
                    data.clear();
                }
                let message = |_| ToTarget::Data { tag, data };
                self.adapter.send(MessageKind::Data, u64::from(bytes), connection, message);
            }
            ToHost::Deliver { address, data } => {
                // The buffer of an abandoned command may be gone.
                let _ = self.memory.write(address, &data);
                self.adapter.reuse(data);
            }
            ToHost::Response { span, queued, cqe } => {
                self.clock.spans().charge_split(span, self.clock.now(), queued, Stage::Fabric);
                self.respond(qid, cqe);
            }
        }
    }

    fn respond(&self, qid: u16, cqe: Cqe) {
        match cqe.cid {
            OWN_CID if qid == 0 => drop(self.answers.try_send(cqe)),
            OWN_CID => match Connected::parse(&cqe) {
                None => self.settle(qid, cqe.status(), false),
                Some(connected) if connected.requirements == AuthRequirements::new() => {
                    self.settle(qid, cqe.status(), true);
                }
                Some(connected) => self.meet_later(qid, connected.requirements),
            },
            DISCONNECT_CID => self.settle(qid, cqe.status(), false),
            AUTH_CID => drop(self.auth_answers.try_send(cqe)),
            POSTED_CID => {}
            cid if cid < CID_MAX => self.complete(qid, cqe),
            _ => self.strays.set(self.strays.get() + 1),
        }
    }

    /// Reports to the waiting admin command that a queue exists, or not (any more).
    fn settle(&self, qid: u16, status: Status, is_there: bool) {
        let waiting = self.waiting.borrow_mut().remove(&qid);
        if !is_there {
            self.rings.borrow_mut().remove(&qid);
            self.close(qid);
        }
        if let Some(cid) = waiting {
            self.answer(cid, status);
        }
    }

    /// Satisfies the target's requirements for an I/O queue, and then reports that it exists.
    fn meet_later(&self, qid: u16, required: AuthRequirements) {
        let (Some(own), Some(connection)) = (self.own.upgrade(), self.connection(qid)) else { return };
        self.clock.spawn("authentication of a queue", async move {
            let met = own.meet(qid, required).await;
            // It may have been lost meanwhile, and opened again.
            if own.connection(qid) == Some(connection) {
                let status = if met.is_ok() { Status::SUCCESS } else { AUTHENTICATION_REQUIRED.with_dnr() };
                own.settle(qid, status, met.is_ok());
            }
        });
    }

    /// Completes a driver's command that the initiator has handled itself.
    fn answer(&self, cid: u16, status: Status) {
        self.complete(0, Cqe::new(cid, status, 0, 0));
    }

    /// Writes a completion to the driver's ring, and interrupts. SQHD: all submitted entries were read.
    fn complete(&self, qid: u16, cqe: Cqe) {
        let (sqhd, cqid) = match self.rings.borrow().get(&qid) {
            Some(ring) => (ring.tail as u16, ring.cqid),
            None => return self.strays.set(self.strays.get() + 1),
        };
        let mut queues = self.completions.borrow_mut();
        let Some(queue) = queues.get_mut(&cqid) else { return self.strays.set(self.strays.get() + 1) };
        let entry = Cqe { sqid: qid, sqhd, ..cqe.with_phase(queue.phase) };
        let address = queue.address + u64::from(queue.tail) * Cqe::SIZE as u64;
        let posted = self.memory.write(address, &entry.to_bytes());
        posted.expect("the ring's memory is the driver's own");
        queue.tail += 1;
        if queue.tail == queue.entries {
            queue.tail = 0;
            queue.phase = !queue.phase;
        }
        let vector = queue.vector;
        drop(queues);
        self.interrupt(vector).notify_one();
    }

    /// Notified at each interrupt of `vector`.
    pub(crate) fn interrupt(&self, vector: u16) -> Rc<Notify> {
        let mut vectors = self.vectors.borrow_mut();
        while vectors.len() <= usize::from(vector) {
            vectors.push(Rc::new(Notify::new(&self.clock)));
        }
        vectors[usize::from(vector)].clone()
    }

    /// Sets the span of the command in `slot` of a queue.
    pub(crate) fn follow(&self, qid: u16, slot: u16, span: SpanId) {
        if let Some(place) =
            self.rings.borrow_mut().get_mut(&qid).and_then(|ring| ring.spans.get_mut(usize::from(slot)))
        {
            *place = span;
        }
    }
}

/// Authentication commands of a queue, and a page for their data.
struct QueueTalk<'a> {
    initiator: &'a Initiator,
    qid: u16,
    page: u64,
}

impl QueueTalk<'_> {
    async fn ask(&self, sqe: Sqe, data: Vec<u8>) -> Result<(), ConnectError> {
        let answers = &self.initiator.auth_answers;
        while answers.try_receive().is_some() {} // stale answers of a lost connection
        if self.initiator.connection(self.qid).is_none() {
            return Err(ConnectError::Refused(Status::INTERNAL_PATH_ERROR));
        }
        self.initiator.send(self.qid, SpanId::NONE, sqe, data);
        match self.initiator.in_time(answers).await.status() {
            status if status.is_success() => Ok(()),
            status => Err(ConnectError::Refused(status)),
        }
    }
}

impl Talk for QueueTalk<'_> {
    async fn send(&self, message: Vec<u8>) -> Result<(), ConnectError> {
        let bytes = message.len() as u32;
        let command = AuthSend { protocol: SecurityProtocol::NVME, transfer_bytes: bytes };
        let pointer = DataPointer::InCapsule { offset: 0, bytes };
        self.ask(command.sqe(AUTH_CID, pointer.descriptor()), message).await
    }

    async fn receive(&self) -> Result<Vec<u8>, ConnectError> {
        let command = AuthReceive { protocol: SecurityProtocol::NVME, allocation_bytes: AUTH_BYTES };
        let pointer = DataPointer::Keyed {
            address: self.page,
            bytes: AUTH_BYTES,
            key: u32::from(AUTH_CID),
            invalidate: true,
        };
        let mut message = vec![0; AUTH_BYTES as usize];
        // Clear what an earlier message has left.
        let cleared = self.initiator.memory.write(self.page, &message);
        self.ask(command.sqe(AUTH_CID, pointer.descriptor()), Vec::new()).await?;
        let read = self.initiator.memory.read(self.page, &mut message);
        cleared.and(read).map_err(|_| ConnectError::NoMemory)?;
        Ok(message)
    }
}
