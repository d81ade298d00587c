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
//! | `host_usage.rs` | limits and usage of one host in a subsystem, and of all unauthenticated ones |
//! | `discovery_admin.rs` | admin commands of Discovery controllers |
//! | [`queue`] | a queue, which is a connection: capsules in, completions out; Connect |
//! | `authentication.rs` | a queue's authentication: commands allowed before it, messages, time limits |
//! | `channel.rs` | secure channels: the identity they prove, the sink of generated keys |
//! | `admin.rs` | admin commands |
//! | [`path`] | from the target to a drive, through a block layer or bypassing it |
//! | [`block`] | that block layer: requests, tags, scheduler, processor time |
//! | `movement.rs` | what data a command moves |
//! | `merge.rs` | merging of its requests |
//! | `split.rs` | splitting of commands that are too long or cross a boundary |
//! | [`tcp`] | the TCP transport: PDUs in, PDUs out |
//! | [`simulated`] | the target on a simulated network: adapter, processors, cost of messages |
//!
//! A host attaches over a simulated network to a small drive behind a target:
//!
//! ```
//! # use byteway_clock::Station;
//! use byteway_host::fabric::{Adapter, Initiator, InitiatorConfig};
//! use byteway_host::{Completion, Driver, DriverConfig, Port};
//! # use byteway_link::{Memory, network};
//! use byteway_nvmeof::{Path, PathConfig, SimulatedTarget, Subsystem, SubsystemConfig, Target, TransportCosts};
//! use byteway_testkit::{SmallWorld, network_config};
//! # use byteway_wire::fabrics::Nqn;
//! # use std::{error::Error, rc::Rc};
//!
//! SmallWorld::default().run_driven(DriverConfig::default(), async |driver, _| {
//!     let (clock, namespaces) = (driver.clock().clone(), driver.namespaces());
//!     let subsystem = Nqn::new("nqn.2026-11.org.byteway:a")?;
//!     let path = Path::open(driver, PathConfig { commands_max: 64, ..PathConfig::default() }).await?;
//!     let served = Subsystem::new(&clock, SubsystemConfig::new(subsystem), path);
//!     let target = Target::new(vec![served]);
//!     let (near, far) = network::connect(&clock, network_config());
//!     let (costs, processors) = (TransportCosts::default(), [Rc::new(Station::new(&clock, 1))]);
//!     let _served = SimulatedTarget::serve(far, &target, &processors, costs);
//!
//! #   let host = Nqn::new("nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555")?;
//!     let config = InitiatorConfig {
//!         subsystem, host, host_id: [7; 16], admin_entries: 32, in_capsule_bytes: 4096, authenticator: None,
//!         timeout: None,
//!     };
//!     let initiator = Initiator::connect(&Adapter::new(near), Memory::simulated(), config).await?;
//!     let config = DriverConfig { completion: Completion::Interrupt, ..DriverConfig::default() };
//!     let remote = Driver::attach(Port::Fabric(initiator), config).await?;
//!     assert_eq!(remote.namespaces()[0].blocks, namespaces[0].blocks);
//!     remote.shutdown().await?;
//!     Ok::<(), Box<dyn Error>>(())
//! })?;
//! # Ok::<(), Box<dyn Error>>(())
//! ```
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
mod movement;
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
pub use host_usage::{Credit, HostLimits, UnauthenticatedLimits};
pub use movement::Movement;
pub use path::{CommandContext, Path, PathConfig};
pub use queue::{Queue, QueueViolation, Target};
pub use shared::Watching;
pub use simulated::{SimulatedTarget, TransportCosts};
pub use subsystem::{HostName, Hosts, Subsystem, SubsystemConfig};
