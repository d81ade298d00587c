//! A controller beyond a network, simulated or real: what of a host's adapter and its driver for fabrics stands between the queues of
//! a [`Driver`](crate::Driver), which are those of any controller, and the messages that cross.
//!
//! | file | what |
//! |---|---|
//! | [`message`] | what crosses, either way |
//! | [`tcp`] | a connection to a real target: messages become PDUs of NVMe/TCP |
//! | [`adapter`] | the adapter: gives what comes to the association that it is for |
//! | [`initiator`] | one association: rings become capsules, responses become completion queue entries |
//! | `rings.rs` | the rings of its queues |
//! | [`login`] | how a queue of it authenticates |
//!
//! A queue pair is used as over a link: an entry and what is behind it are placed in a ring, a doorbell is rung, a completion
//! arrives and an interrupt with it. So every client, method and oracle works over a fabric as it is. What is data in a ring, the
//! train of an inline payload, is in-capsule data here. Creating a queue is Connect, and a register is a property.

pub mod adapter;
pub mod initiator;
pub mod login;
pub mod message;
mod rings;
pub mod tcp;

pub use adapter::{Adapter, Generated, HostNetwork, Messenger, NoChannel};
pub use initiator::{Initiator, InitiatorConfig};
pub use login::{Authenticator, ConnectError};
pub use message::{Connection, ToHost, ToTarget};
