//! Authentication of a queue by DH-HMAC-CHAP: messages are sent by Authentication Send and fetched by Authentication
//! Receive. [`byteway_auth`] implements their contents.

use byteway_auth::{Endpoint, GeneratedPsk, HostSecrets, Login, LoginError};
use byteway_wire::fabrics::auth::SecureChannel;
use byteway_wire::fabrics::{Nqn, status};
use byteway_wire::nvme::Status;
use std::rc::Rc;

/// Credentials of a host.
#[derive(Clone, Debug)]
pub struct Authenticator {
    /// The host's secret, and the controller's if the controller must authenticate, too.
    pub secrets: HostSecrets,
    /// Algorithms and random bytes.
    pub endpoint: Rc<Endpoint>,
    /// Generate a TLS key on an admin queue in the clear and reconnect with it, whatever the target requires (NVMe Base
    /// 2.1, 8.3.4.5.11, figure 752: TLS Required).
    pub concatenates: bool,
}

/// Why an association failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The target refused Connect, or an authentication command.
    #[error("the target refuses: {}", status::name(*.0))]
    Refused(Status),
    /// The target requires authentication, and the host has no secret.
    #[error("the subsystem requires authentication, and this host has no secret")]
    NoSecret,
    /// The target requires TLS with a generated key.
    #[error("the subsystem requires TLS with a generated key, which is not enabled on this host")]
    SecureChannel,
    /// A TLS key was generated, but TLS is not available.
    #[error("TLS is not available on this network")]
    NoChannel,
    /// An end failed to authenticate.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// No memory is available for a page of messages.
    #[error("no host memory is available for authentication")]
    NoMemory,
}

impl ConnectError {
    /// Whether another attempt would fail in the same way.
    pub fn is_final(&self) -> bool {
        !matches!(self, ConnectError::Refused(_) | ConnectError::NoMemory)
    }
}

/// The authentication commands of a queue.
pub(crate) trait Talk {
    /// Sends a message.
    async fn send(&self, message: Vec<u8>) -> Result<(), ConnectError>;
    /// Fetches a message.
    async fn receive(&self) -> Result<Vec<u8>, ConnectError>;
}

/// Authenticates a queue of this host and subsystem. Returns the generated key if one is requested.
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
        // The failure is reported anyway.
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
