//! DH-HMAC-CHAP (NVMe Base 2.1, 8.3.4.5): mutual authentication of a host and a controller by shared secrets.
//!
//! | file | what |
//! |---|---|
//! | [`secret`] | a secret's text form, `DHHC-1:...`, and the key derived for an NQN |
//! | [`credentials`] | the secrets of a target's hosts |
//! | `hash.rs` | hash functions and HMAC, by their identifiers |
//! | `response.rs` | the response to a challenge |
//! | [`group`] | Diffie-Hellman over the groups of RFC 7919 |
//! | `primes.rs` | the primes of these groups |
//! | [`endpoint`] | the common part of both ends: algorithms, random bytes, sequence numbers |
//! | [`generated`] | the TLS key that a transaction generates |
//! | [`controller`] | the controller's end of a transaction |
//! | [`host`] | the host's end |
//!
//! A host proves to a controller that it knows the shared secret:
//!
//! ```
//! use byteway_auth::{Algorithms, Controller, Endpoint, HostSecrets, Login, Progress};
//! use byteway_wire::fabrics::Nqn;
//! # use byteway_auth::{NoRandomness, Provider};
//! # use std::rc::Rc;
//! # struct Bytes(u8);
//! # impl Provider for Bytes {
//! #     fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
//! #         bytes.fill(self.0);
//! #         Ok(())
//! #     }
//! # }
//! # fn endpoint(random: u8) -> Rc<Endpoint> {
//! #     Rc::new(Endpoint::new(Algorithms::default(), Box::new(Bytes(random))))
//! # }
//! # let transaction = std::pin::pin!(async {
//!
//! let secret = "DHHC-1:01:kB5HZf02d83q8TfG7qIsXq/AOmoa2TpvbckY1N4T0OzkawRL:".parse()?;
//! let secrets = HostSecrets { host: secret, controller: None };
//! let host = Nqn::new("nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555")?;
//! let subsystem = Nqn::new("nqn.2026-11.org.byteway:a")?;
//! let mut controller = Controller::new(&endpoint(1), &secrets, host, subsystem);
//! let mut login = Login::new(&endpoint(2), &secrets, (host, subsystem), 7);
//!
//! controller.take(&login.negotiate()).await?;
//! let challenge = controller.message().expect("a challenge");
//! controller.given();
//! controller.take(&login.reply(&challenge).await?).await?;
//! let success = controller.message().expect("success, or the reason for failure");
//! controller.given();
//! assert_eq!(login.conclude(&success)?, None);
//! assert_eq!(controller.progress(), Progress::Authenticated);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # });
//! # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! # let std::task::Poll::Ready(result) = transaction.poll(&mut context) else { panic!("it waits") };
//! # result?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it sends nothing, has no queues, no clock and no random source of its own, so that
//! its users can be simulated. Hashes, HMAC and modular arithmetic come from the RustCrypto libraries. It
//! sets up no secure channel: the caller uses the generated keys.

pub mod controller;
pub mod credentials;
pub mod endpoint;
pub mod generated;
pub mod group;
mod hash;
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
