//! The host: everything that it does to use a drive, and to verify the drive.
//!
//! | file | what |
//! |---|---|
//! | [`port`] | access to registers and memory: over the simulated link, or shared with another process |
//! | [`fabric`] | a controller beyond a network, simulated or real: an association and its messages |
//! | [`driver`] | one controller: enable, identify, queues, reset, shutdown |
//! | [`multipath`] | controllers of one subsystem as paths: selection and failover |
//! | [`redirect`] | redirection of commands to queue pairs of other drives |
//! | [`virtual_drive`] | a tenant's virtual drive, with some of its data on other drives |
//! | [`discovery`] | the client of Discovery Services |
//! | [`queue`] | a queue pair: slots, command identifiers, submission and waiting |
//! | `completion.rs` | completion rings and their reapers, polled or by interrupt |
//! | `event.rs` | Asynchronous Event Requests |
//! | `lending.rs` | the Host Memory Buffer |
//! | `watchdog.rs` | timeouts: Abort, then reset |
//! | [`costs`] | processor time of the host's software |
//! | `buffer.rs` | host memory for payloads |
//! | `device_memory.rs`, `page_owner.rs` | payloads stored to device memory; the owner of the page buffer |
//! | `commit.rs` | commit records: key-value pairs stored without a command |
//! | `extension.rs` | vendor extensions of a controller, shared by its queues |
//! | `carrier.rs` | transfers a command's payload by the method that rules and limits choose |
//! | `stream.rs` | payloads in command fields |
//! | [`io`] | block I/O, traced by spans and verified by an oracle |
//! | [`split`] | I/Os longer than a command, split into several |
//! | [`payload`] | payloads to and from the payload sink, by every method |
//! | [`sink_oracle`] | expected contents of a payload sink |
//! | [`oracle`] | expected contents of each logical block |
//! | [`kv`] | key-value operations, and expected contents of each key |
//! | [`tables`] | tables, and queries over them |
//! | [`request_layer`] | a layer above submission, such as a block layer |
//! | [`member`] | a drive as a member of an array |
//! | [`programs`] | programs that a drive runs, and its local memory |
//! | [`error`] | errors |
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

mod buffer;
mod carrier;
mod commit;
mod completion;
pub mod costs;
mod device_memory;
pub mod discovery;
pub mod driver;
pub mod error;
mod event;
mod extension;
pub mod fabric;
pub mod io;
pub mod kv;
mod lending;
pub mod member;
pub mod multipath;
pub mod oracle;
mod page_owner;
pub mod payload;
pub mod port;
pub mod programs;
pub mod queue;
pub mod redirect;
pub mod request_layer;
pub mod sink_oracle;
pub mod split;
mod stream;
pub mod tables;
pub mod virtual_drive;
mod watchdog;

pub use buffer::{IoBuffer, Part};
pub use byteway_transfer::host::{Buffer, PointerKind};
pub use byteway_transfer::{Limits, Method, Rules};
pub use carrier::{Carrier, Counts, TransferConfig};
pub use costs::HostCosts;
pub use driver::{Arbitration, Completion, Data, Driver, DriverConfig, KvNamespace, Namespace, QueueConfig};
pub use error::{AnyClientError, AnyIoError, ClientError, ClientErrorKind, DriverError, IoError, Lost};
pub use io::{BlockError, BlockIoError, Client, ClientConfig, Opened};
pub use kv::{
    Answer, KvBatch, KvBulk, KvClient, KvConfig, KvCursor, KvError, KvIoError, KvMismatch, KvOracle,
    KvOutcome, KvRead, KvWrite, LossFigures, LossWindow, StoreIf,
};
pub use member::{MemberConfig, MemberDrive};
pub use multipath::{Multipath, MultipathConfig, MultipathError, PathFigures};
pub use oracle::{BaseState, Mismatch, Oracle};
pub use payload::{PayloadClient, PayloadConfig, PayloadError, PayloadIoError};
pub use port::{Port, Registers};
pub use programs::{Execution, ProgramsClient, ProgramsError};
pub use queue::{Band, OutOfBand, Pending, QueuePair, Request};
pub use redirect::{Redirection, RedirectionFigures, ShadowId};
pub use sink_oracle::{SinkBase, SinkOracle, WrongByte};
pub use split::{SplitBuffer, SplitDone};
pub use tables::{Fetched, TablesClient, TablesConfig, TablesError, TablesIoError};
pub use virtual_drive::{
    CopybackConfig, Hypervisor, HypervisorCosts, HypervisorDriveConfig, VirtualDrive, VirtualFigures,
};
