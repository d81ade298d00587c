//! A controller beyond a network, simulated or real: the layer between the queues of a [`Driver`](crate::Driver), which
//! are the same for any controller, and the messages on the network.
//!
//! | file | what |
//! |---|---|
//! | [`message`] | messages in both directions |
//! | [`tcp`] | a connection to a real target: messages as NVMe/TCP PDUs |
//! | [`adapter`] | the adapter: dispatches messages to associations |
//! | [`initiator`] | one association: ring entries become capsules, responses become completion queue entries |
//! | `rings.rs` | the rings of its queues |
//! | [`login`] | authentication of a queue |
//!
//! A queue pair is used as over a link: an entry, with any payload after it, is written to a ring, a doorbell is
//! written, and a completion arrives with an interrupt. So every client, method and oracle works over a fabric
//! unchanged. The payload of a train becomes in-capsule data. Creating a queue is a Connect, and a register is a
//! property.

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
