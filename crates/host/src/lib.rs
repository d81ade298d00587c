//! The other end of the queue: what a host does to use a drive, and how it knows that the drive did right.
//!
//! | file | what |
//! |---|---|
//! | [`port`] | where registers and memory are: behind the simulated link, or shared with another process |
//! | [`fabric`] | a controller beyond a network, simulated or real: one association, what its messages are |
//! | [`driver`] | one controller: enable, identify, queues, reset, shutdown |
//! | [`multipath`] | controllers of one subsystem as paths to it: which one a command takes, and what is done when that fails |
//! | [`redirect`] | queue pairs of other drives by which a part of a drive's commands goes |
//! | [`virtual_drive`] | a tenant's drive as a hypervisor shows it, some of whose data is on others |
//! | [`discovery`] | where Discovery Services say that subsystems are |
//! | [`queue`] | a queue pair: slots, command identifiers, submission, and who waits for what |
//! | `completion.rs` | completion rings and their reapers, polled or by interrupt |
//! | `event.rs` | Asynchronous Event Requests |
//! | `lending.rs` | memory that a drive asks for |
//! | `watchdog.rs` | timeouts: Abort, then reset |
//! | [`costs`] | what all of this costs in processor time |
//! | `buffer.rs` | host memory for payloads |
//! | `device_memory.rs`, `page_owner.rs` | payloads stored to the controller's memory; the page buffer's one owner |
//! | `commit.rs` | commit records: pairs stored without a command |
//! | `extension.rs` | what a controller offers beyond NVMe, shared by its queues |
//! | `carrier.rs` | a command's payload to the device, by the way that rules and limits choose |
//! | `stream.rs` | payloads in the fields of commands |
//! | [`io`] | block I/O, each followed by a span and verified by an oracle |
//! | [`split`] | an I/O longer than a command, as several |
//! | [`payload`] | payloads of any length to and from the payload sink, by every method |
//! | [`sink_oracle`] | what each byte of a payload sink must hold |
//! | [`oracle`] | what each logical block must hold |
//! | [`kv`] | key value operations, and what each key must hold |
//! | [`request_layer`] | what commands go through before they are submitted, such as a block layer |
//! | [`member`] | a drive as a member of an array |
//! | [`raw_flash`], [`endpoints`] | a drive's flash array, or several as one, for a translation layer on this host |
//! | [`error`] | what can go wrong |
//!
//! What it does not do: it knows nothing of the device but what registers, queues and memory say, and believes none
//! of that unchecked. It chooses no workload (`lab` does), of a block layer it has only the splitting of long I/Os.

mod buffer;
mod carrier;
mod commit;
mod completion;
pub mod costs;
mod device_memory;
pub mod discovery;
pub mod driver;
pub mod endpoints;
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
pub mod queue;
pub mod raw_flash;
pub mod redirect;
pub mod request_layer;
pub mod sink_oracle;
pub mod split;
mod stream;
pub mod virtual_drive;
mod watchdog;

pub use buffer::{IoBuffer, Part};
pub use byteway_transfer::host::{Buffer, PointerKind};
pub use byteway_transfer::{Limits, Method, Rules};
pub use carrier::{Carrier, Counts, Results, TransferConfig};
pub use costs::HostCosts;
pub use driver::{Arbitration, Completion, Data, Driver, DriverConfig, KvNamespace, Namespace, QueueConfig};
pub use endpoints::Endpoints;
pub use error::{AnyClientError, AnyIoError, ClientError, DriverError, IoError, Lost, Meaning};
pub use io::{BlockError, BlockIoError, Client, ClientConfig, Opened};
pub use kv::{
    Answer, BulkLimits, KvBatch, KvBulk, KvClient, KvConfig, KvCursor, KvError, KvIoError, KvMismatch,
    KvOracle, KvOutcome, KvRead, KvWrite, LossFigures, LossWindow, StoreIf,
};
pub use member::{MemberConfig, MemberDrive};
pub use multipath::{Multipath, MultipathConfig, MultipathError, PathFigures};
pub use oracle::{BaseState, Mismatch, Oracle};
pub use payload::{PayloadClient, PayloadConfig, PayloadError, PayloadIoError};
pub use port::{Port, Registers};
pub use queue::{Band, OutOfBand, Pending, QueuePair, Request};
pub use raw_flash::{RawFlash, RawFlashConfig};
pub use redirect::{Redirection, RedirectionFigures, ShadowId};
pub use sink_oracle::{SinkBase, SinkOracle, WrongByte};
pub use split::{SplitBuffer, SplitDone};
pub use virtual_drive::{
    CopybackConfig, Hypervisor, HypervisorCosts, HypervisorDriveConfig, VirtualDrive, VirtualFigures,
};
