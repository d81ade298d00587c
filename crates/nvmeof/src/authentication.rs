//! A queue's authentication by DH-HMAC-CHAP (NVMe Base 2.1, 8.3.4.2): the host sends messages with
//! Authentication Send and receives them with Authentication Receive, one at a time. [`byteway_auth`]
//! implements their contents.
//!
//! A host has one attempt for each connection. An authenticated queue may reauthenticate; until that fails
//! the association continues, then it ends.

use crate::channel::{GeneratedKeys, Terms};
use crate::controller::{Controller, Ended, Security, ended};
use crate::movement::Movement;
use byteway_auth::{Concatenation, Progress, TakeError};
use byteway_clock::{Clock, Delay, Semaphore, Time};
use byteway_wire::fabrics::AuthRequirements;
use byteway_wire::fabrics::auth::{AuthReceive, AuthSend, Explanation, SecurityProtocol};
use byteway_wire::nvme::{Cqe, Status};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// Size of a message, and of the data of any command before authentication, at most: the longest reply has
/// 1168 bytes.
pub(crate) const BYTES_MAX: u32 = 4096;
/// Time limit for the host's next message if its controller has no keep-alive timeout (NVMe Base 2.1,
/// 8.3.4.2).
const MESSAGE_LIMIT: Delay = Delay::from_s(120);
/// Time limit for a host that has failed to ask for the reason.
const FAILURE_LIMIT: Delay = Delay::from_s(1);

const INVALID_FIELD: Status = Status::INVALID_FIELD.with_dnr();
const OUT_OF_SEQUENCE: Status = Status::COMMAND_SEQUENCE_ERROR.with_dnr();

/// The authentication of one queue.
pub(crate) struct Authentication {
    clock: Clock,
    concatenation: Concatenation,
    keys: Option<Rc<dyn GeneratedKeys>>,
    is_secure: bool,
    /// The key that the next one replaces: that of its secure channel, or the last one generated.
    own_key: Cell<Option<u64>>,
    /// Serializes commands, several of which may arrive at once.
    turn: Semaphore,
    /// `None` while a command uses it.
    part: RefCell<Option<byteway_auth::Controller>>,
    is_authenticated: Cell<bool>,
    /// When the last message was sent or received.
    last: Cell<Time>,
    /// The reason for refusing the host; set when the host has learned it.
    due: Cell<Option<Explanation>>,
    refusal: Cell<Option<Explanation>>,
    /// Whether a task is going to refuse the host.
    is_failing: Cell<bool>,
    /// Whether the host exceeded a time limit without an earlier success.
    has_expired: Cell<bool>,
}

impl Authentication {
    /// State of a newly connected queue. A channel with a generated key counts as authentication, because the
    /// host had to authenticate to get the key.
    pub fn new(clock: &Clock, terms: Terms) -> Self {
        let Terms { part, concatenation, keys, peer } = terms;
        let own_key = peer.and_then(|peer| peer.generated);
        let is_proven = own_key.is_some();
        let part = part.concatenating(concatenation);
        Authentication {
            clock: clock.clone(),
            concatenation,
            keys,
            is_secure: peer.is_some(),
            own_key: Cell::new(own_key),
            turn: Semaphore::new(clock, 1),
            part: RefCell::new(Some(if is_proven { part.proven() } else { part })),
            is_authenticated: Cell::new(is_proven),
            last: Cell::new(clock.now()),
            due: Cell::default(),
            refusal: Cell::default(),
            is_failing: Cell::default(),
            has_expired: Cell::default(),
        }
    }

    /// Whether the queue accepts commands.
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated.get()
    }

    /// The authentication requirements for Connect's response (NVMe Base 2.1, 8.3.4.5.11).
    pub fn requirements(&self) -> AuthRequirements {
        match (self.is_authenticated(), self.concatenation) {
            (true, _) => AuthRequirements::new(),
            (false, Concatenation::Required) => AuthRequirements::new().with_ascr(true),
            (false, _) => AuthRequirements::new().with_atr(true),
        }
    }

    /// Why the connection has to close, if it does.
    pub fn refusal(&self) -> Option<Explanation> {
        self.refusal.get()
    }

    /// Data movement of an Authentication Send.
    pub fn send_movement(&self, command: &AuthSend) -> Result<Movement, Status> {
        let AuthSend { protocol, transfer_bytes } = *command;
        let is_valid = protocol == SecurityProtocol::NVME && (1..=BYTES_MAX).contains(&transfer_bytes);
        if is_valid { Ok(Movement::ToDrive(transfer_bytes)) } else { Err(INVALID_FIELD) }
    }

    /// Data movement of an Authentication Receive.
    pub fn receive_movement(&self, command: &AuthReceive) -> Result<Movement, Status> {
        let AuthReceive { protocol, allocation_bytes } = *command;
        let is_valid = protocol == SecurityProtocol::NVME && (1..=BYTES_MAX).contains(&allocation_bytes);
        if is_valid { Ok(Movement::ToHost(allocation_bytes)) } else { Err(INVALID_FIELD) }
    }

    /// Processes the message of an Authentication Send.
    pub async fn send(self: &Rc<Self>, controller: &Rc<Controller>, message: &[u8]) -> Cqe {
        let _turn = self.turn.acquire(1).await;
        let Some(mut part) = self.part.take() else { return ended(Status::INTERNAL_ERROR) };
        self.expire(controller, &mut part);
        let status = match self.is_over() {
            true => OUT_OF_SEQUENCE,
            false => match part.take(message).await {
                Ok(()) => Status::SUCCESS,
                Err(TakeError::OutOfSequence) => OUT_OF_SEQUENCE,
                Err(TakeError::NoRandomness(_)) => Status::INTERNAL_ERROR,
            },
        };
        self.note(controller, part);
        ended(status)
    }

    /// Returns the message of an Authentication Receive.
    pub async fn receive(
        self: &Rc<Self>,
        controller: &Rc<Controller>,
        movement: Movement,
        data: &mut Vec<u8>,
    ) -> Cqe {
        let Movement::ToHost(allocation) = movement else { return ended(Status::INTERNAL_ERROR) };
        let _turn = self.turn.acquire(1).await;
        let Some(mut part) = self.part.take() else { return ended(Status::INTERNAL_ERROR) };
        self.expire(controller, &mut part);
        let is_due = part.progress() == Progress::InProgress || !self.is_authenticated.get();
        let status = match is_due && !self.is_over() {
            true => give(&mut part, allocation, data),
            false => OUT_OF_SEQUENCE,
        };
        self.note(controller, part);
        ended(status)
    }

    /// Discards a transaction whose next message is overdue. If none has succeeded before, the host is
    /// refused; otherwise it stays authenticated (NVMe Base 2.1, 8.3.4.2).
    fn expire(self: &Rc<Self>, controller: &Rc<Controller>, part: &mut byteway_auth::Controller) {
        let limit = match controller.keep_alive() {
            Delay::ZERO => MESSAGE_LIMIT,
            limit => limit,
        };
        if part.progress() == Progress::InProgress && self.clock.now().since(self.last.get()) > limit {
            part.reset();
            if !self.is_authenticated.get() {
                self.has_expired.set(true);
                // Linux reports that it has failed, too, and waits for that command to complete.
                self.refuse_soon(controller, Explanation::FAILED);
            }
        }
    }

    /// Whether the host receives no further message.
    fn is_over(&self) -> bool {
        self.has_expired.get() || self.due.get().or(self.refusal.get()).is_some()
    }

    /// Applies the effect of a command on the transaction.
    fn note(self: &Rc<Self>, controller: &Rc<Controller>, mut part: byteway_auth::Controller) {
        let (progress, failure) = (part.progress(), part.failure());
        // Store the key before the host learns of its success: it may connect with the key at once.
        if let (Some(key), Some(keys), Some(subsystem)) =
            (part.take_generated(), &self.keys, controller.subsystem())
        {
            let host = &controller.host().nqn;
            // A key derived from a secret that was replaced meanwhile is discarded: its host has to
            // authenticate again.
            if subsystem.knows(host, part.secrets()) {
                let number = keys.keep(host, &subsystem.config().nqn, &key, self.own_key.get());
                self.own_key.set(Some(number));
            }
            if !self.is_secure {
                controller.set_security(Security::Provisional);
            }
        }
        self.part.replace(Some(part));
        self.last.set(self.clock.now());
        match (progress, failure) {
            (Progress::Authenticated, _) => {
                self.is_authenticated.set(true);
                controller.admit();
            }
            (Progress::Failed(explanation), _) => self.due.set(Some(explanation)),
            // Continue until the host has learned the reason.
            (_, Some(explanation)) => self.refuse_soon(controller, explanation),
            _ => {}
        }
    }

    /// Arranges that the host is refused, whether it asks for the reason or not.
    fn refuse_soon(self: &Rc<Self>, controller: &Rc<Controller>, explanation: Explanation) {
        if !self.is_failing.replace(true) {
            let (clock, own, controller) =
                (self.clock.clone(), Rc::downgrade(self), Rc::downgrade(controller));
            self.clock.spawn("host that has failed", refuse_later(clock, own, controller, explanation));
        }
    }

    /// Called when the completion of a command is about to be sent. After the last one the connection has to
    /// close.
    pub fn conclude(&self, controller: &Controller) {
        if let Some(explanation) = self.due.get() {
            self.refuse(controller, explanation);
        }
    }

    /// Refuses the host: the connection has to close, and the association of a queue that was authenticated
    /// before.
    fn refuse(&self, controller: &Controller, explanation: Explanation) {
        if self.refusal.get().is_none() {
            self.refusal.set(Some(explanation));
            if self.is_authenticated.replace(false) {
                controller.end(Ended::Unauthenticated);
            }
            controller.wake();
        }
    }
}

/// Returns the pending message; without one, the host gets a failure message. It stays pending if the host's
/// buffer is too small.
fn give(part: &mut byteway_auth::Controller, allocation: u32, data: &mut Vec<u8>) -> Status {
    if part.message().is_none() {
        part.refuse();
    }
    let message = part.message().unwrap_or_default();
    if message.len() > allocation as usize {
        return INVALID_FIELD;
    }
    data.clear();
    data.extend_from_slice(&message);
    data.resize(allocation as usize, 0);
    part.given();
    Status::SUCCESS
}

/// Closes a failed host that does not ask for the reason.
async fn refuse_later(
    clock: Clock,
    own: Weak<Authentication>,
    controller: Weak<Controller>,
    why: Explanation,
) {
    clock.timer(FAILURE_LIMIT).await;
    if let (Some(own), Some(controller)) = (own.upgrade(), controller.upgrade()) {
        own.refuse(&controller, why);
    }
}
