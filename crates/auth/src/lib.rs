//! DH-HMAC-CHAP (NVMe Base 2.1, 8.3.4.5): how a host and a controller prove to each other that they know a secret.
//!
//! | file | what |
//! |---|---|
//! | [`secret`] | a secret in its written form, `DHHC-1:...`, and the key that it is for a name |
//! | [`credentials`] | the secrets that a target knows, by host |
//! | `response.rs` | what a challenge is answered with |
//! | [`group`] | Diffie-Hellman over the groups of RFC 7919 |
//! | `primes.rs` | their primes |
//! | [`endpoint`] | what both ends have: algorithms, random bytes, sequence numbers |
//! | [`generated`] | the pre-shared key for TLS that a transaction generates |
//! | [`controller`] | the controller's part of a transaction |
//! | [`host`] | the host's part |
//!
//! What it does not do: it sends nothing, knows no queue and no time, and has no random source of its own, so that what is built on it can be
//! simulated. Hashes, HMAC and modular arithmetic are those of the RustCrypto libraries. It makes no
//! secure channel: what is generated for TLS is given to its user.

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
