//! The host's end of a transaction: it creates three messages and processes two from the controller.

use crate::credentials::HostSecrets;
use crate::endpoint::{Algorithms, Endpoint, NoRandomness};
use crate::generated::GeneratedPsk;
use crate::group::PrivateKey;
use crate::response::{Challenged, Prover};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::auth::{
    AuthError, Challenge, Descriptor, DhGroup, Explanation, Failure, HashFunction, Message, Negotiate, Reply,
    SecureChannel, Success2,
};
use std::rc::Rc;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Why a host fails to authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The controller refused the host.
    #[error("the controller refuses this host: {0}")]
    Refused(Explanation),
    /// The controller's response does not match its secret.
    #[error(
        "the controller does not prove that it knows its secret: it is another controller, or the secret is wrong"
    )]
    NotAuthentic,
    /// The controller's message is malformed.
    #[error(transparent)]
    Malformed(#[from] AuthError),
    /// The message is not the expected one, or belongs to another transaction.
    #[error("the controller sent an unexpected authentication message")]
    Unexpected,
    /// The controller selected an algorithm that was not offered, or sent an invalid Diffie-Hellman value.
    #[error("the controller's challenge is invalid")]
    Challenge,
    /// The system has no random bytes.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// A transaction.
pub struct Login {
    endpoint: Rc<Endpoint>,
    secrets: HostSecrets,
    host: Nqn,
    subsystem: Nqn,
    transaction: u16,
    secure_channel: SecureChannel,
    /// The response expected from the controller; `None`: it is not challenged.
    expected: Option<Zeroizing<Vec<u8>>>,
    hash: Option<HashFunction>,
    generated: Option<GeneratedPsk>,
    has_succeeded: bool,
}

impl Login {
    /// Starts a transaction with this identifier, which has to be unique among the host's concurrent
    /// transactions with the subsystem. With a controller secret, the controller has to authenticate, too.
    pub fn new(
        endpoint: &Rc<Endpoint>,
        secrets: &HostSecrets,
        (host, subsystem): (Nqn, Nqn),
        transaction: u16,
    ) -> Login {
        let (endpoint, secrets) = (endpoint.clone(), secrets.clone());
        Login {
            endpoint,
            secrets,
            host,
            subsystem,
            transaction,
            secure_channel: SecureChannel::NONE,
            expected: None,
            hash: None,
            generated: None,
            has_succeeded: false,
        }
    }

    /// Makes the transaction generate a TLS key: NEWTLSPSK, or REPLACETLSPSK over TLS with a generated key.
    #[must_use]
    pub fn concatenating(self, secure_channel: SecureChannel) -> Login {
        Login { secure_channel, ..self }
    }

    /// The generated key, after the transaction has succeeded.
    pub fn generated(&self) -> Option<&GeneratedPsk> {
        self.generated.as_ref().filter(|_| self.has_succeeded)
    }

    /// The offered algorithms. When a key is generated, SHA-512 is left out because no TLS cipher suite uses
    /// it, and the null group because it has no shared value.
    fn offered(&self) -> Algorithms {
        let mut offered = self.endpoint.algorithms().clone();
        if self.secure_channel != SecureChannel::NONE {
            offered.hashes.retain(|hash| *hash != HashFunction::Sha512);
            offered.groups.retain(|group| *group != DhGroup::Null);
        }
        offered
    }

    /// The first message, AUTH_Negotiate. The host then receives the challenge.
    pub fn negotiate(&self) -> Vec<u8> {
        let algorithms = self.offered();
        Message::Negotiate(Negotiate {
            transaction: self.transaction,
            secure_channel: self.secure_channel,
            descriptors: &[Descriptor::new(&algorithms.hashes, &algorithms.groups)],
        })
        .to_bytes()
    }

    /// Processes the challenge and returns the reply. The host then receives Success1.
    ///
    /// # Errors
    /// The challenge cannot be answered: see [`Login::failure`].
    pub async fn reply(&mut self, bytes: &[u8]) -> Result<Vec<u8>, LoginError> {
        let challenge = match self.expect(bytes)? {
            Message::Challenge(challenge) if challenge.transaction == self.transaction => challenge,
            _ => return Err(LoginError::Unexpected),
        };
        let Challenge { hash, group, sequence, .. } = challenge;
        let endpoint = self.endpoint.clone();
        let offered = self.offered();
        if !offered.hashes.contains(&hash) || !offered.groups.contains(&group) || sequence == 0 {
            return Err(LoginError::Challenge);
        }
        let (own_value, shared) = match group {
            DhGroup::Null => (Zeroizing::default(), None),
            group => {
                let key = PrivateKey::generate(group, |bytes| endpoint.random(bytes))?;
                let work = key.shared(challenge.dh_value).map_err(|_| LoginError::Challenge)?;
                let own = endpoint.provider().exponentiate(key.public()).await;
                (own, Some(endpoint.provider().exponentiate(work).await))
            }
        };
        let challenged = Challenged {
            prover: Prover::Host,
            hash,
            secret: &self.secrets.host,
            host: &self.host,
            subsystem: &self.subsystem,
            transaction: self.transaction,
            secure_channel: self.secure_channel,
            sequence,
            challenge: challenge.challenge,
            shared: shared.as_ref().map(|shared| &shared[..]),
        };
        let response = challenged.response();
        let (mut own_challenge, mut own_sequence, mut expected) = (None, 0, None);
        if let Some(secret) = &self.secrets.controller {
            let challenge = endpoint.random(hash.bytes())?;
            own_sequence = endpoint.next_sequence()?;
            let asked = Challenged {
                prover: Prover::Controller,
                secret,
                sequence: own_sequence,
                challenge: &challenge,
                ..challenged
            };
            expected = Some(Zeroizing::new(asked.response()));
            own_challenge = Some(challenge);
        }
        if let (Some(shared), true) = (&shared, self.secure_channel != SecureChannel::NONE) {
            let own = match own_challenge.take() {
                Some(own) => own,
                None => endpoint.random(hash.bytes())?,
            };
            self.generated = Some(GeneratedPsk::new(hash, shared, [challenge.challenge, &own]));
            own_challenge = Some(own);
        }
        (self.hash, self.expected) = (Some(hash), expected);
        Ok(Message::Reply(Reply {
            transaction: self.transaction,
            sequence: own_sequence,
            response: &response,
            challenge: own_challenge.as_ref().map(|challenge| &challenge[..]),
            dh_value: &own_value,
        })
        .to_bytes())
    }

    /// Processes the controller's last message. Returns the host's final message, if one has to be sent.
    ///
    /// # Errors
    /// One of the ends has not authenticated: see [`Login::failure`].
    pub fn conclude(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, LoginError> {
        let success = match self.expect(bytes)? {
            Message::Success1(success)
                if success.transaction == self.transaction && Some(success.hash) == self.hash =>
            {
                success
            }
            _ => return Err(LoginError::Unexpected),
        };
        let Some(expected) = self.expected.take() else {
            self.has_succeeded = true;
            return Ok(None);
        };
        match success.response {
            Some(response) if bool::from(response.ct_eq(&expected[..])) => {
                self.has_succeeded = true;
                Ok(Some(Message::Success2(Success2 { transaction: self.transaction }).to_bytes()))
            }
            _ => Err(LoginError::NotAuthentic),
        }
    }

    /// The failure message to send to the controller for an error; `None` if the controller knows of the
    /// failure.
    pub fn failure(&self, error: &LoginError) -> Option<Vec<u8>> {
        let explanation = match error {
            LoginError::Refused(_) | LoginError::NoRandomness(_) => return None,
            LoginError::NotAuthentic => Explanation::FAILED,
            LoginError::Unexpected | LoginError::Malformed(AuthError::Unknown(..)) => {
                Explanation::INCORRECT_MESSAGE
            }
            LoginError::Malformed(_) | LoginError::Challenge => Explanation::INCORRECT_PAYLOAD,
        };
        Some(Message::Failure2(Failure::new(self.transaction, explanation)).to_bytes())
    }

    /// Parses a message of the controller; a failure message is an error.
    fn expect<'a>(&self, bytes: &'a [u8]) -> Result<Message<'a>, LoginError> {
        match Message::parse(bytes)? {
            Message::Failure1(failure) => Err(LoginError::Refused(failure.explanation)),
            message => Ok(message),
        }
    }
}
