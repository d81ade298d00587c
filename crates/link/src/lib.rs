//! The link between a host and a drive: PCIe and CXL timing, host memory, and the two ledgers of traffic.
//!
//! | file | contents |
//! |---|---|
//! | [`pcie`] | generations, lanes, payload and read-request sizes: TLPs and bytes of each kind of crossing |
//! | [`cxl`], [`hdm`] | CXL.mem over the same lanes: slots and flits; loads and stores to device memory |
//! | [`ios`] | I/Os by host and namespace, with their latency by stage, where a drive is watched |
//! | [`ledger`] | traffic by purpose and direction, in payload bytes and in wire bytes |
//! | [`network`] | a network between two machines: adapters, packets, ordered messages, its ledgers |
//! | [`memory`] | host memory as DMA sees it: simulated pages, or pages shared with another process |
//! | [`port`] | the link itself: [`HostEnd`] and [`DeviceEnd`], where host and drive meet |
//! | [`switch`] | several links behind one shared upstream link |
//! | [`watch`] | waits for completion queue entries |
//!
//! A device fetches 64 bytes from host memory, and the ledger counts payload and wire bytes:
//!
//! ```
//! use byteway_clock::{Delay, Executor};
//! use byteway_link::{Generation, Link, Memory, PcieConfig, Purpose};
//!
//! let config = PcieConfig {
//!     generation: Generation::Gen3, lanes: 4, mps: 256, mrrs: 512, rcb: 64, read_tags: 32, slowdown: 1,
//!     propagation: Delay::from_ns(100), memory_latency: Delay::from_ns(150),
//! };
//! let (executor, memory) = (Executor::new(), Memory::simulated());
//! let (host, device) = Link::connect(executor.clock(), config, memory.clone());
//! let queue = memory.allocate(1).expect("memory is not exhausted");
//! memory.write(queue, &[7; 64])?;
//! let mut entry = [0; 64];
//! let entry = executor.run(async move {
//!     device.read(queue, &mut entry, Purpose::SqeFetch).await.map(|()| entry)
//! })??;
//! assert_eq!(entry, [7; 64]);
//! // The request has 24 bytes on the wire; the completion has 20 in addition to the payload.
//! let fetched = host.ledger().snapshot().of(Purpose::SqeFetch);
//! assert_eq!((fetched.payload, fetched.wire), (64, 24 + 20 + 64));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it parses no NVMe command, follows no data pointer (that is `transfer`), and keeps no
//! queue. It carries the span of an I/O across by queue and slot, because the device must not look into the
//! host.

pub mod cxl;
pub mod hdm;
pub mod ios;
pub mod ledger;
pub mod memory;
pub mod network;
pub mod pcie;
pub mod port;
pub mod switch;
pub mod watch;

pub use cxl::{CxlConfig, Flit, Lines};
pub use hdm::{Hdm, HdmRange, StoreOrdering};
pub use ios::{IoFigures, IoHost, IoLabel, IoLedger, IoRow, LatencyCounts, Verb};
pub use ledger::{Direction, Entry, Ledger, Purpose};
pub use memory::{Epoch, Fault, Memory};
pub use network::{MessageKind, NetworkConfig, NetworkEnd, NetworkLedger};
pub use pcie::{Generation, PcieConfig, Tlps};
pub use port::{Bar, DeviceEnd, HostEnd, IoBook, Link, MmioWrite, Part, PartConsumer, STORE_BYTES};
pub use switch::{Switch, SwitchConfig};
pub use watch::Watch;
