//! DH-HMAC-CHAP (NVMe Base 2.1, 8.3.4.5): mutual authentication of a host and a controller by shared secrets.
//!
//! | file | what |
//! |---|---|
//! | [`secret`] | a secret's text form, `DHHC-1:...`, and the key derived for an NQN |
//! | [`credentials`] | the secrets of a target's hosts |
//! | `response.rs` | the response to a challenge |
//! | [`group`] | Diffie-Hellman over the groups of RFC 7919 |
//! | `primes.rs` | the primes of these groups |
//! | [`endpoint`] | the common part of both ends: algorithms, random bytes, sequence numbers |
//! | [`generated`] | the TLS key that a transaction generates |
//! | [`controller`] | the controller's end of a transaction |
//! | [`host`] | the host's end |
//!
//! What it does not do: it sends nothing, has no queues, no clock and no random source of its own, so that
//! its users can be simulated. Hashes, HMAC and modular arithmetic come from the RustCrypto libraries. It
//! sets up no secure channel: the caller uses the generated keys.

pub mod controller;
pub mod credentials;
pub mod endpoint;
pub mod generated;
pub mod group;
pub mod host;
mod primes;
mod response;
pub mod secret;

pub use controller::{Concatenation, Controller, Progress, TakeError};
pub use credentials::{Credentials, HostSecrets, TlsPolicy};
pub use endpoint::{Algorithms, Endpoint, NoRandomness, Provider};
pub use generated::GeneratedPsk;
pub use group::Exponentiation;
pub use host::{Login, LoginError};
pub use secret::{Secret, SecretError};
