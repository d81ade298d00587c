//! An NVMe over Fabrics target: the protocol without I/O, so that the same code runs over sockets and over a
//! simulated network.
//!
//! | file | what |
//! |---|---|
//! | [`subsystem`] | a drive under one NQN, its allowed hosts, and their controllers |
//! | [`ana`] | asymmetric access: the states of a subsystem's ports |
//! | [`controller`] | a host's controller: properties, keep-alive, its end |
//! | `abort.rs` | commands that wait for their turn and may be aborted |
//! | `event.rs` | its asynchronous events |
//! | [`discovery`] | the Discovery Service: which subsystems a process serves, and where hosts find them |
//! | `shared.rs` | state shared by threads, with change notification |
//! | `host_usage.rs` | limits and usage of one host in a subsystem |
//! | `discovery_admin.rs` | admin commands of Discovery controllers |
//! | [`queue`] | a queue, which is a connection: capsules in, completions out; Connect |
//! | `authentication.rs` | a queue's authentication: commands allowed before it, messages, time limits |
//! | `channel.rs` | secure channels: the identity they prove, the sink of generated keys |
//! | `admin.rs` | admin commands |
//! | [`path`] | from the target to a drive, through a block layer or bypassing it |
//! | [`block`] | that block layer: requests, tags, scheduler, processor time |
//! | `merge.rs` | merging of its requests |
//! | `split.rs` | splitting of commands that are too long or cross a boundary |
//! | [`tcp`] | the TCP transport: PDUs in, PDUs out |
//! | [`simulated`] | the target on a simulated network: adapter, processors, cost of messages |
//!
//! What it does not do: it opens no socket, trusts nothing that a host sends, and passes no address of a host
//! to a drive.

mod abort;
mod admin;
pub mod ana;
mod authentication;
pub mod block;
mod channel;
pub mod controller;
pub mod discovery;
mod discovery_admin;
mod event;
mod host_usage;
mod merge;
pub mod path;
pub mod queue;
mod shared;
pub mod simulated;
mod split;
pub mod subsystem;
pub mod tcp;

pub use ana::PortStates;
pub use block::{BlockConfig, BlockCosts, BlockLayer, Scheduler};
pub use channel::{GeneratedKeys, Peer};
pub use controller::{Controller, Ended};
pub use discovery::{Directory, Discovery, Reached};
pub use host_usage::{Credit, HostLimits};
pub use path::{CommandContext, Movement, Path, PathConfig};
pub use queue::{Queue, QueueViolation, Target};
pub use shared::Watching;
pub use simulated::{SimulatedTarget, TransportCosts};
pub use subsystem::{HostName, Hosts, Subsystem, SubsystemConfig};
