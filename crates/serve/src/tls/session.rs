//! Either end of TLS over a socket, by s2n-tls.

use super::hello::Offer;
use super::io::{self, Descriptor};
use super::psk::GENERATED_PREFIX;
use super::ring::{Hold, KeyRing};
use super::{Hash, Keys, TlsError, TlsPsk, is_tls};
use byteway_nvmeof::Peer;
use byteway_wire::fabrics::Nqn;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use s2n_tls::callbacks::{ClientHelloCallback, ConnectionFuture};
use s2n_tls::config::Config;
use s2n_tls::connection::Connection;
use s2n_tls::enums::{Blinding, Mode, PskHmac};
use s2n_tls::error::{Error, ErrorType};
use s2n_tls::psk::Psk;
use s2n_tls::security::Policy;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Poll, Waker};

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

/// A policy with TLS 1.3 only, AES-GCM preferred.
const POLICY: &str = "AWS-CRT-SDK-TLSv1.3-2023";
/// Maximum number of encrypted bytes sent at once.
const SEND_BYTES: u32 = 128 << 10;
/// Encrypted bytes to receive from a socket before other tasks run.
const RECEIVE_BYTES: usize = 128 << 10;
/// Keys that a host may offer, at most: each costs a hash of its ClientHello.
const OFFERED_MAX: usize = 8;
/// Bytes shown of an unknown identity.
const SHOWN_BYTES: usize = 480;

impl TlsError {
    fn of(error: &Error, connection: &Connection) -> TlsError {
        if let Some(own) = error.application_error().and_then(|error| error.downcast_ref::<TlsError>()) {
            return own.clone();
        }
        match (error.kind(), connection.alert()) {
            (ErrorType::Alert, Some(alert)) => TlsError::Alert(alert),
            (ErrorType::ConnectionClosed, _) => TlsError::Closed,
            _ => TlsError::Protocol(error.message()),
        }
    }
}

fn config(mode: Mode, chooser: Option<Chooser>) -> Result<Config, Error> {
    let mut builder = Config::builder();
    builder
        .set_security_policy(&Policy::from_version(POLICY)?)?
        .with_system_certs(false)?
        .set_send_buffer_size(SEND_BYTES)?
        // Blinding delays hide the padding of CBC, which TLS 1.3 does not use; without them the other end
        // gets its alert at once.
        .set_max_blinding_delay(0)?;
    if let (Mode::Server, Some(chooser)) = (mode, chooser) {
        builder.set_client_hello_callback(chooser)?;
    }
    builder.build()
}

impl TlsPsk {
    fn to_library(&self) -> Result<Psk, Error> {
        let mut builder = Psk::builder()?;
        builder.set_identity(self.identity.as_bytes())?.set_secret(&self.secret)?.set_hmac(
            match self.hash {
                Hash::Sha256 => PskHmac::SHA256,
                Hash::Sha384 => PskHmac::SHA384,
            },
        )?;
        builder.build()
    }
}

/// The owner of an identity, and the keys that may belong to it.
struct Known {
    peer: Peer,
    psks: Vec<TlsPsk>,
}

/// The hosts that a target accepts.
#[derive(Default)]
struct Identities {
    configured: RwLock<BTreeMap<Vec<u8>, Known>>,
    generated: KeyRing,
}

impl Identities {
    /// The keys that may belong to an identity; none: unknown.
    fn psks(&self, identity: &[u8]) -> Option<Vec<TlsPsk>> {
        let configured = self.configured.read().unwrap_or_else(PoisonError::into_inner);
        match configured.get(identity) {
            Some(known) => Some(known.psks.clone()),
            None => self.generated.psk(identity).map(|psk| vec![psk]),
        }
    }

    /// The owner of an identity, and a hold on the key if it was generated.
    fn owner(&self, identity: &[u8]) -> Option<(Peer, Option<Hold>)> {
        let configured = self.configured.read().unwrap_or_else(PoisonError::into_inner);
        match configured.get(identity) {
            Some(known) => Some((known.peer, None)),
            None => self.generated.owner(identity).map(|(peer, hold)| (peer, Some(hold))),
        }
    }
}

/// Selects the key for a ClientHello.
struct Chooser(Arc<Identities>);

impl Chooser {
    fn choose(&self, hello: &[u8]) -> Result<TlsPsk, TlsError> {
        let offer = Offer::parse(hello).ok_or(TlsError::NoPsk)?;
        let mut error = TlsError::NoPsk;
        for (identity, binder) in offer.psks().take(OFFERED_MAX) {
            let shown = || String::from_utf8_lossy(&identity[..identity.len().min(SHOWN_BYTES)]);
            match self.0.psks(identity) {
                Some(psks) => match psks.into_iter().find(|psk| offer.is_bound_by(psk, binder)) {
                    Some(psk) => return Ok(psk),
                    None => error = TlsError::WrongKey(shown().escape_debug().to_string()),
                },
                None if error == TlsError::NoPsk => {
                    let shown = shown().escape_debug().to_string();
                    error = match identity.starts_with(GENERATED_PREFIX) {
                        true => TlsError::NotGenerated(shown),
                        false => TlsError::Unknown(shown),
                    };
                }
                None => {}
            }
        }
        Err(error)
    }
}

impl ClientHelloCallback for Chooser {
    fn on_client_hello(
        &self,
        connection: &mut Connection,
    ) -> Result<Option<Pin<Box<dyn ConnectionFuture>>>, Error> {
        let hello = connection.client_hello()?;
        let (mut message, random) = (hello.raw_message()?, hello.random()?);
        // The library returns the random bytes separately.
        if let Some(place) = message.get_mut(2..34) {
            place.copy_from_slice(&random);
        }
        let chosen = self.choose(&message).map_err(|error| Error::application(Box::new(error)))?;
        connection.append_psk(&chosen.to_library()?)?;
        Ok(None)
    }
}

/// A target's end: the keys of hosts for the subsystems at a port. Cheap to clone.
#[derive(Clone)]
pub struct Acceptor {
    config: Config,
    identities: Arc<Identities>,
}

impl Acceptor {
    /// Accepts these hosts for these subsystems.
    ///
    /// # Errors
    /// The TLS library cannot be used.
    pub fn new(keys: &Keys, subsystems: &[Nqn]) -> Result<Self, TlsError> {
        let acceptor = Acceptor::of(Identities::default())?;
        acceptor.replace(keys, subsystems);
        Ok(acceptor)
    }

    /// Accepts hosts with generated keys of this ring.
    ///
    /// # Errors
    /// The TLS library cannot be used.
    pub fn by_ring(ring: &KeyRing) -> Result<Self, TlsError> {
        Acceptor::of(Identities { generated: ring.clone(), ..Identities::default() })
    }

    fn of(identities: Identities) -> Result<Self, TlsError> {
        let identities = Arc::new(identities);
        let config = config(Mode::Server, Some(Chooser(identities.clone())));
        let config = config.map_err(|error| TlsError::Protocol(error.message()))?;
        Ok(Acceptor { config, identities })
    }

    /// Replaces the keys for new handshakes; existing connections continue.
    pub fn replace(&self, keys: &Keys, subsystems: &[Nqn]) {
        let mut identities: BTreeMap<Vec<u8>, Known> = BTreeMap::new();
        for (host, key) in keys.iter() {
            for subsystem in subsystems {
                for psk in key.tls_psks(host, subsystem) {
                    let peer = Peer { host: *host, subsystem: *subsystem, generated: None };
                    let entry = identities.entry(psk.identity.clone().into_bytes());
                    entry.or_insert(Known { peer, psks: Vec::new() }).psks.push(psk);
                }
            }
        }
        *self.identities.configured.write().unwrap_or_else(PoisonError::into_inner) = identities;
    }

    pub(crate) fn accept(&self, socket: &Rc<OwnedFd>) -> Result<Session, TlsError> {
        Session::new(Mode::Server, self.config.clone(), socket, &[], Some(self.identities.clone()))
    }
}

/// A host's end. Cheap to clone.
#[derive(Clone)]
pub struct Connector {
    config: Config,
    psks: Vec<TlsPsk>,
}

impl Connector {
    /// Offers these keys, the preferred first; of several keys with one identity, only the first.
    ///
    /// # Errors
    /// The TLS library cannot be used.
    pub fn new(mut psks: Vec<TlsPsk>) -> Result<Self, TlsError> {
        let mut offered: Vec<String> = Vec::new();
        psks.retain(|psk| {
            let is_new = !offered.contains(&psk.identity);
            offered.push(psk.identity.clone());
            is_new
        });
        let config = config(Mode::Client, None).map_err(|error| TlsError::Protocol(error.message()))?;
        Ok(Connector { config, psks })
    }

    pub(crate) fn connect(&self, socket: &Rc<OwnedFd>) -> Result<Session, TlsError> {
        Session::new(Mode::Client, self.config.clone(), socket, &self.psks, None)
    }
}

/// One end of TLS over a non-blocking socket.
pub(crate) struct Session {
    connection: Connection,
    /// The connection holds a pointer to it.
    descriptor: Rc<Descriptor>,
    socket: Rc<OwnedFd>,
    /// Set at the server's end.
    identities: Option<Arc<Identities>>,
    /// Hold on the generated key that the handshake used.
    hold: Option<Hold>,
    /// Whether the other end has sent a TLS record.
    is_heard: bool,
    /// An error to report after the data received before it.
    failed: Option<TlsError>,
}

impl Session {
    fn new(
        mode: Mode,
        config: Config,
        socket: &Rc<OwnedFd>,
        psks: &[TlsPsk],
        identities: Option<Arc<Identities>>,
    ) -> Result<Self, TlsError> {
        let descriptor = Descriptor::new(socket.as_raw_fd());
        let make = || {
            let mut connection = Connection::new(mode);
            connection
                .set_config(config)?
                .set_blinding(Blinding::SelfService)?
                .set_receive_buffering(true)?
                // The library requires a waker, but selecting a key never waits.
                .set_waker(Some(Waker::noop()))?
                .prefer_throughput()?;
            io::attach(&mut connection, &descriptor)?;
            psks.iter().try_for_each(|psk| connection.append_psk(&psk.to_library()?))?;
            Ok(connection)
        };
        let connection = make().map_err(|error: Error| TlsError::Protocol(error.message()))?;
        // The client speaks first.
        let is_heard = mode == Mode::Client;
        Ok(Session {
            connection,
            descriptor,
            socket: socket.clone(),
            identities,
            hold: None,
            is_heard,
            failed: None,
        })
    }

    /// Continues the handshake. When it completes at a server's end, returns the identity of the host.
    pub fn negotiate(&mut self) -> Poll<Result<Option<Peer>, TlsError>> {
        if !self.is_heard {
            let mut first = [0];
            match recv(&*self.socket, &mut first[..], RecvFlags::PEEK) {
                Ok((1.., _)) if !is_tls(first[0]) => {
                    return Poll::Ready(Err(TlsError::NotTls));
                }
                Ok(_) => self.is_heard = true,
                Err(Errno::AGAIN | Errno::INTR) => return Poll::Pending,
                Err(_) => return Poll::Ready(Err(TlsError::Closed)),
            }
        }
        self.descriptor.allow(RECEIVE_BYTES);
        match self.connection.poll_negotiate() {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(_)) => Poll::Ready(self.peer()),
            Poll::Ready(Err(error)) => Poll::Ready(Err(TlsError::of(&error, &self.connection))),
        }
    }

    /// Identity of the other end, by the key that was agreed on.
    fn peer(&mut self) -> Result<Option<Peer>, TlsError> {
        let failed = |error: Error| TlsError::Protocol(error.message());
        let mut identity = vec![0; self.connection.negotiated_psk_identity_length().map_err(failed)?];
        if identity.is_empty() {
            return Err(TlsError::NoPsk);
        }
        self.connection.negotiated_psk_identity(&mut identity).map_err(failed)?;
        let Some(known) = &self.identities else { return Ok(None) };
        let (peer, hold) = known.owner(&identity).ok_or(TlsError::NoPsk)?;
        self.hold = hold;
        Ok(Some(peer))
    }

    /// Whether the handshake waits for the socket to be writable.
    pub fn is_full(&mut self) -> bool {
        self.connection.poll_flush().is_pending()
    }

    /// Receives bytes; returns their number, 0 at the end. `Pending` means that the socket has no more to
    /// give for now.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Poll<Result<usize, TlsError>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        self.descriptor.allow(RECEIVE_BYTES);
        let mut filled = 0;
        while filled < buffer.len() {
            match self.connection.poll_recv(&mut buffer[filled..]) {
                Poll::Ready(Ok(0)) => break,
                Poll::Ready(Ok(bytes)) => filled += bytes,
                Poll::Pending if filled == 0 => return Poll::Pending,
                Poll::Pending => break,
                // Many hosts close without close_notify; PDUs carry their own lengths, so this is no
                // truncation attack.
                Poll::Ready(Err(error)) if error.kind() == ErrorType::ConnectionClosed => break,
                Poll::Ready(Err(error)) => {
                    let error = TlsError::of(&error, &self.connection);
                    if filled == 0 {
                        return Poll::Ready(Err(error));
                    }
                    self.failed = Some(error);
                    break;
                }
            }
        }
        Poll::Ready(Ok(filled))
    }

    /// Sends bytes; returns their number. After `Pending`, send the same bytes again once the socket is
    /// writable.
    pub fn send(&mut self, bytes: &[u8]) -> Poll<Result<usize, TlsError>> {
        let sent = self.connection.poll_send(bytes);
        sent.map(|sent| sent.map_err(|error| TlsError::of(&error, &self.connection)))
    }

    /// Sends close_notify as far as the socket is writable; after a failed handshake, nothing more is sent.
    pub fn finish(&mut self) {
        let _ = self.connection.poll_shutdown_send();
    }

    /// Switches sending to a new key (KeyUpdate).
    #[cfg(test)]
    pub fn update_key(&mut self) {
        let update = self.connection.request_key_update(s2n_tls::enums::PeerKeyUpdate::KeyUpdateNotRequested);
        update.expect("it is a connection that was negotiated");
    }
}
