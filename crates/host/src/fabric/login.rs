//! How a queue authenticates by DH-HMAC-CHAP: messages go by Authentication Send and are asked for by Authentication Receive. What they say
//! is [`byteway_auth`]'s.

use byteway_auth::{Endpoint, GeneratedPsk, HostSecrets, Login, LoginError};
use byteway_wire::fabrics::auth::SecureChannel;
use byteway_wire::fabrics::{Nqn, status};
use byteway_wire::nvme::Status;
use std::rc::Rc;

/// What a host authenticates with.
#[derive(Clone, Debug)]
pub struct Authenticator {
    /// Its secret, and, if the controller has to authenticate too, the controller's.
    pub secrets: HostSecrets,
    /// Algorithms and random bytes.
    pub endpoint: Rc<Endpoint>,
    /// Whether it generates a key for TLS on an admin queue in the clear, and connects again with that, whatever the target requires
    /// (NVMe Base 2.1, 8.3.4.5.11, figure 752: TLS Required).
    pub concatenates: bool,
}

/// Why there is no association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The target refuses Connect, or an authentication command.
    #[error("the target refuses: {}", status::name(*.0))]
    Refused(Status),
    /// The target asks for a secret.
    #[error("the subsystem asks for authentication, and this host has no secret")]
    NoSecret,
    /// The target requires TLS with a key from authentication.
    #[error("the subsystem requires TLS with a key from authentication, which this host is not told to use")]
    SecureChannel,
    /// Authentication has generated a key for TLS, which there is not.
    #[error("no TLS can be used on this network")]
    NoChannel,
    /// Either end has not authenticated.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The host's memory has no page for messages.
    #[error("the host has no memory left")]
    NoMemory,
}

impl ConnectError {
    /// Whether it is so whenever it is tried again.
    pub fn is_final(&self) -> bool {
        !matches!(self, ConnectError::Refused(_) | ConnectError::NoMemory)
    }
}

/// Authentication commands of a queue.
pub(crate) trait Talk {
    /// Sends a message.
    async fn send(&self, message: Vec<u8>) -> Result<(), ConnectError>;
    /// Asks for one.
    async fn receive(&self) -> Result<Vec<u8>, ConnectError>;
}

/// Authenticates a queue of the host and subsystem with these names. Gives the generated key if one is asked for.
pub(crate) async fn authenticate(
    authenticator: &Authenticator,
    names: (Nqn, Nqn),
    transaction: u16,
    asked: SecureChannel,
    talk: &impl Talk,
) -> Result<Option<GeneratedPsk>, ConnectError> {
    let Authenticator { endpoint, secrets, .. } = authenticator;
    let mut login = Login::new(endpoint, secrets, names, transaction).concatenating(asked);
    let ended = transact(&mut login, talk).await;
    if let Err(ConnectError::Login(error)) = &ended
        && let Some(failure) = login.failure(error)
    {
        // That it fails is known already.
        let _ = talk.send(failure).await;
    }
    ended.map(|()| login.generated().cloned())
}

async fn transact(login: &mut Login, talk: &impl Talk) -> Result<(), ConnectError> {
    talk.send(login.negotiate()).await?;
    let reply = login.reply(&talk.receive().await?).await?;
    talk.send(reply).await?;
    if let Some(last) = login.conclude(&talk.receive().await?)? {
        talk.send(last).await?;
    }
    Ok(())
}
