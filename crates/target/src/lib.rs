//! An NVMe over Fabrics target: the protocol without I/O of its own, so that the same code runs over sockets and over a simulated
//! fabric.
//!
//! | file | what |
//! |---|---|
//! | [`subsystem`] | a drive under one name, who may use it, and the controllers made for hosts |
//! | [`ana`] | asymmetric access: the states of a subsystem's ports |
//! | [`controller`] | a host's controller: properties, keep-alive, its end |
//! | `abort.rs` | commands that wait for their turn, and may be aborted |
//! | `event.rs` | its asynchronous events |
//! | [`discovery`] | the Discovery Service: what a process serves, and where hosts find it |
//! | `shared.rs` | what threads share, and who is told of changes |
//! | `host_usage.rs` | what one host may have of a subsystem, and has |
//! | `discovery_admin.rs` | admin commands of its controllers |
//! | [`queue`] | a queue, which is a connection: capsules in, completions out; Connect |
//! | `authentication.rs` | a queue's authentication: which commands it takes before, messages, time limits |
//! | `channel.rs` | secure channels: for whom one was made, where generated keys go |
//! | `admin.rs` | admin commands |
//! | [`path`] | from the target to a drive, through a block layer or past it |
//! | [`block`] | that block layer: requests, tags, a scheduler, what each step costs |
//! | `merge.rs` | requests that it makes one of |
//! | `split.rs` | commands that are too long for the drive, or cross a boundary of its, as several |
//! | [`tcp`] | the TCP transport: PDUs in, PDUs out |
//! | [`simulated`] | the target on a simulated network: its adapter, its processors, what messages cost them |
//!
//! What it does not do: it opens no socket; it believes nothing of a host's, and passes
//! no address of a host's to a drive.

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
pub use path::{Errand, Movement, Path, PathConfig};
pub use queue::{Misuse, Queue, Target};
pub use shared::Watching;
pub use simulated::{SimulatedTarget, TransportCosts};
pub use subsystem::{HostName, Hosts, Subsystem, SubsystemConfig};
