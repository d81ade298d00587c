//! TLS 1.3 with pre-shared keys for NVMe/TCP (TCP Transport 1.0, 3.6): the keys, and sessions of either end over a socket.
//!
//! | file | what |
//! |---|---|
//! | `psk.rs` | configured keys, and the TLS keys derived from them |
//! | `keys.rs` | files with the keys of several hosts |
//! | `ring.rs` | keys that authentication generated |
//! | `hash.rs` | HKDF and HMAC |
//! | `hello.rs` | what a ClientHello offers |
//! | `io.rs` | the library's socket I/O |
//! | `session.rs` | either end of a connection |
//! | `absent.rs` | its place in a program without the feature `tls`, whose C takes a tenth of the whole build |
//!
//! s2n-tls implements handshake and records. There is no certificate, so only handshakes with a pre-shared
//! key succeed.

#![cfg_attr(
    not(feature = "tls"),
    allow(dead_code, reason = "keys are read and checked in any program, but used by sessions only")
)]

mod hash;
#[cfg(feature = "tls")]
mod hello;
#[cfg(feature = "tls")]
mod io;
mod keys;
mod psk;
mod ring;
#[cfg(feature = "tls")]
mod session;
#[cfg(not(feature = "tls"))]
#[path = "absent.rs"]
mod session;

pub use hash::Hash;
pub use keys::{KeyLineError, Keys};
pub use psk::{ConfiguredPsk, PskError, TlsPsk};
pub use ring::KeyRing;
pub(crate) use session::Session;
pub use session::{Acceptor, Connector};

/// Content types that may begin a TLS connection: alert, handshake.
const TLS_RECORDS: [u8; 2] = [21, 22];

/// Whether a connection that begins with this byte uses TLS: NVMe/TCP itself begins with 00h, the PDU type of
/// ICReq.
pub(crate) fn is_tls(first: u8) -> bool {
    TLS_RECORDS.contains(&first)
}

/// Why TLS has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The first bytes are not TLS.
    #[error("it does not speak TLS, which is required here (`nvme connect --tls`)")]
    NotTls,
    /// The client offers no pre-shared key, or none for TLS 1.3.
    #[error("it offers no pre-shared key for TLS 1.3")]
    NoPsk,
    /// No host has this identity.
    #[error("there is no key for `{0}`: is the host's NQN in the file of TLS keys?")]
    Unknown(String),
    /// The identity is that of a generated key that does not exist or has expired.
    #[error("its generated key `{0}` is not known, or not any more: it has to authenticate first")]
    NotGenerated(String),
    /// The identity is known, but the key is wrong.
    #[error("its key for `{0}` is not the one in the file of TLS keys")]
    WrongKey(String),
    /// The other end closed the connection during the handshake.
    #[error("it has closed the connection during the TLS handshake")]
    Closed,
    /// The handshake exceeded its time limit.
    #[error("it has not ended the TLS handshake in time")]
    Slow,
    /// The other end sent this alert.
    #[error("it has ended TLS with alert {0} ({name})", name = alert_name(*.0))]
    Alert(u8),
    /// A protocol error.
    #[error("TLS has failed: {0}")]
    Protocol(&'static str),
    /// The program has no TLS.
    #[error(
        "this program was built without TLS: build it with `--features tls`, or install a package, which has it"
    )]
    Absent,
}

/// Name of an alert (RFC 8446, 6).
fn alert_name(alert: u8) -> &'static str {
    match alert {
        0 => "close notify",
        10 => "unexpected message",
        20 => "bad record MAC",
        40 => "handshake failure",
        47 => "illegal parameter",
        50 => "decode error",
        51 => "decrypt error: another key",
        70 => "protocol version",
        80 => "internal error",
        115 => "unknown PSK identity",
        _ => "see RFC 8446, 6.2",
    }
}
