//! The host: everything that it does to use a drive, and to verify the drive.
//!
//! | folder | what |
//! |---|---|
//! | `driver` | one controller: enable, queues, completions, reset; ports to registers and memory; discovery |
//! | `carrier` | how a command's payload gets to the drive: by the method that rules and limits choose |
//! | `client` | what is asked of a drive, by command set: blocks, key-value pairs, payload sinks, tables, programs |
//! | `oracle` | what drives must have: expected contents of blocks and of payload sinks |
//! | `paths` | which queue a command takes: several controllers of a drive, other drives, virtual drives |
//! | [`fabric`] | a controller beyond a network, simulated or real: an association and its messages |
//! | `error.rs` | errors |
//!
//! A folder imports those below it here: `client` and `paths` import `carrier` and `oracle`, these `driver`, and that `fabric`.
//!
//! A driver attaches to a small simulated drive; blocks are written, and verified when they are read:
//!
//! ```
//! use byteway_host::{BaseState, Client, ClientConfig, DriverConfig, Method, Oracle, QueueConfig, Rules};
//! use byteway_testkit::{NS_4K_UNITS, SmallWorld};
//! use byteway_content::BlockSize;
//! use std::cell::RefCell;
//! use std::error::Error;
//! use std::rc::Rc;
//!
//! SmallWorld::default().run_driven(DriverConfig::default(), async |driver, _| {
//!     let queue = driver.create_queue_pair(QueueConfig::new(64)).await?;
//!     let oracle = Oracle::new(NS_4K_UNITS, BlockSize::B4096, 1, BaseState::Zeroes);
//!     let oracle = Some(Rc::new(RefCell::new(oracle)));
//!     let rules = Rules::only(Method::Prp);
//!     let config = ClientConfig { rules, bytes_max: 128 << 10, oracle, verify_bytes: true };
//!     let client = Client::new(queue, driver.namespaces()[1], config)?;
//!     let mut buffer = client.buffer()?;
//!     client.write(&mut buffer, 100, 8).await?;
//!     client.flush().await?;
//!     let read = client.read(&mut buffer, 96, 16).await?;
//!     assert!(read.begin < read.last, "it took time");
//!     Ok::<(), Box<dyn Error>>(())
//! })?;
//! # Ok::<(), Box<dyn Error>>(())
//! ```
//!
//! What it does not do: it knows nothing of the device but what registers, queues and memory say, and uses none of that
//! unchecked. It chooses no workload (`run` does). Of a block layer it has only the splitting of long I/Os.

mod carrier;
mod client;
mod driver;
mod error;
pub mod fabric;
mod oracle;
mod paths;

pub use byteway_transfer::host::{Buffer, PointerKind};
pub use byteway_transfer::{Limits, Method, Rules};
pub use carrier::{Carrier, Counts, TransferConfig};
pub use client::*; // each client is listed there
pub use driver::buffer::{IoBuffer, Part};
pub use driver::controller::{
    Arbitration, Completion, Data, Driver, DriverConfig, KvNamespace, Namespace, QueueConfig,
};
pub use driver::costs::HostCosts;
pub use driver::discovery;
pub use driver::port::{Port, Registers, SharedPort};
pub use driver::queue::{Band, OutOfBand, Pending, QueuePair, Request};
pub use driver::request_layer::{BoxedWork, RequestLayer};
pub use error::{AnyClientError, AnyIoError, ClientError, ClientErrorKind, DriverError, IoError, Lost};
pub use oracle::block::{
    BaseState, BlockContents, FlushToken, Mismatch, Oracle, Outcome, ReadToken, SAMPLED_ONE_IN, WriteToken,
};
pub use oracle::sink::{SinkBase, SinkOracle, SinkToken, WrongByte};
pub use paths::multipath::{Multipath, MultipathConfig, MultipathError, PathFigures};
pub use paths::redirect::{Redirection, RedirectionFigures, ShadowId};
pub use paths::virtual_drive::{
    CopybackConfig, Hypervisor, HypervisorCosts, HypervisorDriveConfig, VirtualDrive, VirtualFigures,
};
