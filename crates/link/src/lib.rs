//! What a crossing costs: the PCIe link between host memory and a drive, and the two ledgers of what crossed it.
//!
//! | file | what |
//! |---|---|
//! | [`pcie`] | generations, lanes, payload and read-request sizes: TLPs and bytes of every kind of crossing |
//! | [`cxl`], [`hdm`] | CXL.mem over the same lanes: slots and flits; the device's memory as the host loads and stores it |
//! | [`ledger`] | every crossing by purpose and direction, in payload bytes and in wire bytes |
//! | [`network`] | a network between two machines: adapters, packets, messages in order, its ledgers |
//! | [`memory`] | the host's memory as DMA sees it: simulated pages, or pages shared with another process |
//! | [`port`] | the link itself: [`HostEnd`] and [`DeviceEnd`], where host and drive meet |
//! | [`switch`] | several links behind one, which they share |
//! | [`watch`] | the completion queues that a host waits on |
//!
//! What it does not do: it knows no NVMe command, decides no data pointer (that is `transfer`), and keeps no queue.
//! It carries an I/O's span across by queue and slot, because the device must not look into the host.

pub mod cxl;
pub mod hdm;
pub mod ledger;
pub mod memory;
pub mod network;
pub mod pcie;
pub mod port;
pub mod switch;
pub mod watch;

pub use cxl::{CxlConfig, Flit, Lines};
pub use hdm::{Hdm, HdmRange, Manner};
pub use ledger::{Direction, Entry, Ledger, Purpose};
pub use memory::{Epoch, Fault, Memory};
pub use network::{NetworkConfig, NetworkEnd, NetworkLedger, Parcel};
pub use pcie::{Generation, PcieConfig, Tlps};
pub use port::{Bar, DeviceEnd, HostEnd, Link, MmioWrite, Reading, STORE_BYTES, TakeParts};
pub use switch::{Switch, SwitchConfig};
pub use watch::Watch;
