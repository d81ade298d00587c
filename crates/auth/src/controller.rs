//! The controller's part of a transaction: what it makes of a host's messages, and what it has to say.

use crate::credentials::HostSecrets;
use crate::endpoint::{Algorithms, Endpoint, NoRandomness};
use crate::generated::GeneratedPsk;
use crate::group::PrivateKey;
use crate::response::{Challenged, Prover};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::auth::{
    AuthError, Challenge, DhGroup, Explanation, Failure, HashFunction, Message, Negotiate, Reply,
    SecureChannel, Success1, Success2,
};
use std::rc::Rc;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// How far a transaction has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// None has begun, or the last one is over.
    Idle,
    /// One is under way.
    Going,
    /// The host has proved who it is, and knows that.
    Authenticated,
    /// It has failed, and the host was told, or has said so itself.
    Failed(Explanation),
}

/// Why a message is not taken; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// The host is authenticated, and this begins no further transaction.
    #[error("an authentication message of no transaction")]
    OutOfSequence,
    /// This end has no random bytes.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// Whether a queue's transactions generate a key for TLS: which values of SC_C are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concatenation {
    /// NOSC alone: on I/O queues, where TLS is not available, and over TLS with a configured key.
    #[default]
    Refused,
    /// NOSC and NEWTLSPSK, as the host likes: on admin queues without TLS.
    Offered,
    /// NEWTLSPSK alone: on admin queues without TLS, where TLS is required.
    Required,
    /// NOSC and REPLACETLSPSK: on admin queues over TLS with a generated key.
    Replacing,
}

impl Concatenation {
    /// Whether a host may ask for this.
    fn takes(self, asked: SecureChannel) -> bool {
        match asked {
            SecureChannel::NONE => self != Concatenation::Required,
            SecureChannel::NEW_TLS_PSK => matches!(self, Concatenation::Offered | Concatenation::Required),
            SecureChannel::REPLACE_TLS_PSK => self == Concatenation::Replacing,
            _ => false,
        }
    }
}

/// A challenge that a host has been given, or is to be given.
struct Open {
    secure_channel: SecureChannel,
    hash: HashFunction,
    group: DhGroup,
    sequence: u32,
    challenge: Zeroizing<Vec<u8>>,
    /// None with the null group.
    key: Option<PrivateKey>,
}

enum State {
    /// Nothing is under way.
    Idle,
    /// The host is to ask for its challenge.
    Challenge(Open, Vec<u8>),
    Reply(Open),
    /// The host is to ask whether it has succeeded; whether it then has to say the same of the controller.
    Success1(Vec<u8>, bool),
    Success2,
    /// The host is to ask why not.
    Failure1(Explanation),
    Ended(Progress),
}

/// The controller's end of one queue.
pub struct Controller {
    endpoint: Rc<Endpoint>,
    algorithms: Algorithms,
    secrets: HostSecrets,
    host: Nqn,
    subsystem: Nqn,
    concatenation: Concatenation,
    transaction: u16,
    state: State,
    /// A transaction has succeeded before.
    has_succeeded: bool,
    /// Of the transaction, once the host has proved who it is.
    generated: Option<GeneratedPsk>,
}

impl Controller {
    /// For a host of these secrets and this name, which has connected a queue.
    pub fn new(endpoint: &Rc<Endpoint>, secrets: &HostSecrets, host: Nqn, subsystem: Nqn) -> Controller {
        let (endpoint, secrets) = (endpoint.clone(), secrets.clone());
        Controller {
            algorithms: endpoint.algorithms().clone(),
            endpoint,
            secrets,
            host,
            subsystem,
            concatenation: Concatenation::Refused,
            transaction: 0,
            state: State::Idle,
            has_succeeded: false,
            generated: None,
        }
    }

    /// With these algorithms instead of the endpoint's.
    #[must_use]
    pub fn choosing(self, algorithms: Algorithms) -> Controller {
        Controller { algorithms, ..self }
    }

    /// Whose transactions generate keys for TLS.
    #[must_use]
    pub fn concatenating(self, concatenation: Concatenation) -> Controller {
        Controller { concatenation, ..self }
    }

    /// Whose host has proved who it is by a secure channel: a transaction is a further one.
    #[must_use]
    pub fn proven(self) -> Controller {
        Controller { has_succeeded: true, ..self }
    }

    /// The secrets that it was made with.
    pub fn secrets(&self) -> &HostSecrets {
        &self.secrets
    }

    /// The key that a transaction has generated which has succeeded; none a second time.
    pub fn take_generated(&mut self) -> Option<GeneratedPsk> {
        self.generated.take_if(|_| matches!(self.state, State::Ended(Progress::Authenticated)))
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        match self.state {
            State::Idle => Progress::Idle,
            State::Ended(progress) => progress,
            _ => Progress::Going,
        }
    }

    /// Why the transaction has failed, as soon as that is known.
    pub fn failure(&self) -> Option<Explanation> {
        match self.state {
            State::Failure1(explanation) | State::Ended(Progress::Failed(explanation)) => Some(explanation),
            _ => None,
        }
    }

    /// Forgets the transaction that is under way.
    pub fn reset(&mut self) {
        self.state = State::Idle;
    }

    /// Takes a message of the host's. What is wrong with it the host learns from the message that it asks for next.
    ///
    /// # Errors
    /// See [`TakeError`].
    pub async fn take(&mut self, bytes: &[u8]) -> Result<(), TakeError> {
        if self.failure().is_some() {
            return Ok(()); // the first reason stays
        }
        let message = Message::parse(bytes);
        let is_idle = self.progress() != Progress::Going;
        if self.has_succeeded && is_idle && !matches!(message, Ok(Message::Negotiate(_))) {
            return Err(TakeError::OutOfSequence);
        }
        let done = match message {
            Ok(Message::Negotiate(negotiate)) if is_idle => self.negotiate(&negotiate).await?,
            Ok(Message::Reply(Reply { transaction, .. }))
            | Ok(Message::Success2(Success2 { transaction }))
            | Ok(Message::Failure2(Failure { transaction, .. }))
                if !is_idle && transaction != self.transaction =>
            {
                Err(Explanation::INCORRECT_PAYLOAD)
            }
            Ok(message) => self.go_on(&message).await,
            Err(AuthError::Unknown(..)) => Err(Explanation::INCORRECT_MESSAGE),
            Err(_) => Err(Explanation::INCORRECT_PAYLOAD),
        };
        self.state = done.unwrap_or_else(State::Failure1);
        self.has_succeeded |= self.progress() == Progress::Authenticated;
        Ok(())
    }

    /// What follows a message of the transaction.
    async fn go_on(&mut self, message: &Message<'_>) -> Result<State, Explanation> {
        match (std::mem::replace(&mut self.state, State::Idle), message) {
            (State::Reply(open), Message::Reply(reply)) => self.reply(&open, reply).await,
            (State::Success2, Message::Success2(_)) => Ok(State::Ended(Progress::Authenticated)),
            (State::Reply(_) | State::Success2, Message::Failure2(failure)) => {
                Ok(State::Ended(Progress::Failed(failure.explanation)))
            }
            _ => Err(Explanation::INCORRECT_MESSAGE),
        }
    }

    /// The message that the host is to get, if it asks for one now. [`Controller::given`] says that it has.
    pub fn message(&self) -> Option<Vec<u8>> {
        match &self.state {
            State::Challenge(_, message) | State::Success1(message, _) => Some(message.clone()),
            State::Failure1(explanation) => {
                Some(Message::Failure1(Failure::new(self.transaction, *explanation)).to_bytes())
            }
            State::Idle | State::Reply(_) | State::Success2 | State::Ended(_) => None,
        }
    }

    /// The host has its message.
    pub fn given(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Idle) {
            State::Challenge(open, _) => State::Reply(open),
            State::Success1(_, true) => State::Success2,
            State::Success1(_, false) => State::Ended(Progress::Authenticated),
            State::Failure1(explanation) => State::Ended(Progress::Failed(explanation)),
            other => other,
        };
        self.has_succeeded |= self.progress() == Progress::Authenticated;
    }

    /// The host has broken the protocol: the transaction fails.
    pub fn refuse(&mut self) {
        if self.failure().is_none() {
            self.state = State::Failure1(Explanation::INCORRECT_MESSAGE);
        }
    }

    /// Chooses of what the host offers, and makes a challenge of it.
    async fn negotiate(
        &mut self,
        negotiate: &Negotiate<'_>,
    ) -> Result<Result<State, Explanation>, NoRandomness> {
        let endpoint = self.endpoint.clone();
        self.transaction = negotiate.transaction;
        self.generated = None;
        let secure_channel = negotiate.secure_channel;
        // Linux gives this explanation, too.
        if !self.concatenation.takes(secure_channel) {
            return Ok(Err(Explanation::SECURE_CHANNEL_MISMATCH));
        }
        let concatenates = secure_channel != SecureChannel::NONE;
        let Some(offered) = negotiate.descriptors.iter().find(|descriptor| descriptor.is_chap()) else {
            return Ok(Err(Explanation::PROTOCOL_NOT_USABLE));
        };
        let Algorithms { hashes, groups } = &self.algorithms;
        // No TLS cipher suite has SHA-512.
        let usable = |hash: &HashFunction| !concatenates || *hash != HashFunction::Sha512;
        let offers = |hash: &HashFunction| offered.hashes().any(|other| other == *hash);
        let Some(hash) = hashes.iter().copied().find(|hash| usable(hash) && offers(hash)) else {
            return Ok(Err(Explanation::HASH_NOT_USABLE));
        };
        // With the null group there is nothing to generate a key from: it must not even be proposed (8.3.4.5.2).
        if concatenates && offered.groups().any(|group| group == DhGroup::Null) {
            return Ok(Err(Explanation::GROUP_NOT_USABLE));
        }
        let Some(group) = groups.iter().copied().find(|own| offered.groups().any(|other| other == *own))
        else {
            return Ok(Err(Explanation::GROUP_NOT_USABLE));
        };
        let (sequence, challenge) = (endpoint.next_sequence()?, endpoint.random(hash.bytes())?);
        let (key, dh_value) = match group {
            DhGroup::Null => (None, Zeroizing::default()),
            group => {
                let key = PrivateKey::generate(group, &endpoint)?;
                let value = endpoint.provider().exponentiate(key.public()).await;
                (Some(key), value)
            }
        };
        let message = Message::Challenge(Challenge {
            transaction: self.transaction,
            hash,
            group,
            sequence,
            challenge: &challenge,
            dh_value: &dh_value,
        })
        .to_bytes();
        Ok(Ok(State::Challenge(Open { secure_channel, hash, group, sequence, challenge, key }, message)))
    }

    /// Whether the host knows its secret, and what it is answered.
    async fn reply(&mut self, open: &Open, reply: &Reply<'_>) -> Result<State, Explanation> {
        let concatenates = open.secure_channel != SecureChannel::NONE;
        // A key is generated from C2, too; then S2 is 0 if this end does not have to answer that (8.3.4.5.4, 8.3.4.5.9).
        let challenge_fits = match reply.challenge {
            None => !concatenates,
            Some(_) => concatenates || reply.sequence != 0,
        };
        let fits = reply.response.len() == open.hash.bytes()
            && reply.dh_value.len() <= open.group.bytes()
            && reply.dh_value.is_empty() == (open.group == DhGroup::Null)
            && challenge_fits;
        if !fits {
            return Err(Explanation::INCORRECT_PAYLOAD);
        }
        // A host that does not know the secret could have this end answer its own challenge.
        if reply.challenge.is_some_and(|challenge| challenge == &open.challenge[..]) {
            return Err(Explanation::FAILED);
        }
        let shared = match &open.key {
            None => None,
            Some(key) => {
                let work = key.shared(reply.dh_value).map_err(|_| Explanation::INCORRECT_PAYLOAD)?;
                Some(self.endpoint.provider().exponentiate(work).await)
            }
        };
        let challenged = Challenged {
            prover: Prover::Host,
            hash: open.hash,
            secret: &self.secrets.host,
            host: &self.host,
            subsystem: &self.subsystem,
            transaction: self.transaction,
            secure_channel: open.secure_channel,
            sequence: open.sequence,
            challenge: &open.challenge,
            shared: shared.as_ref().map(|shared| &shared[..]),
        };
        if !bool::from(challenged.response().ct_eq(reply.response)) {
            return Err(Explanation::FAILED);
        }
        let generated = match (&shared, reply.challenge) {
            (Some(shared), Some(challenge)) if concatenates => {
                Some(GeneratedPsk::new(open.hash, shared, [&open.challenge, challenge]))
            }
            _ => None,
        };
        let asked = reply.challenge.filter(|_| reply.sequence != 0);
        let response = match (asked, &self.secrets.controller) {
            (None, _) => None,
            // This end has no secret to prove who it is with.
            (Some(_), None) => return Err(Explanation::FAILED),
            (Some(challenge), Some(secret)) => {
                let (prover, sequence) = (Prover::Controller, reply.sequence);
                Some(Challenged { prover, secret, sequence, challenge, ..challenged }.response())
            }
        };
        self.generated = generated;
        let success =
            Success1 { transaction: self.transaction, hash: open.hash, response: response.as_deref() };
        Ok(State::Success1(Message::Success1(success).to_bytes(), response.is_some()))
    }
}
