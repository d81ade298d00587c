//! The other end of the queue: what a host does to use a drive, and how it knows that the drive did right.
//!
//! | file | what |
//! |---|---|
//! | [`port`] | where registers and memory are: behind the simulated link, or shared with another process |
//! | [`driver`] | one controller: enable, identify, queues, reset, shutdown |
//! | [`queue`] | a queue pair: slots, command identifiers, submission, and who waits for what |
//! | `completion.rs` | completion rings and their reapers, polled or by interrupt |
//! | `event.rs` | Asynchronous Event Requests |
//! | `watchdog.rs` | timeouts: Abort, then reset |
//! | [`costs`] | what all of this costs in processor time |
//! | [`io`] | block I/O, each followed by a span and verified by an oracle |
//! | [`oracle`] | what each logical block must hold |
//! | [`error`] | what can go wrong |
//!
//! What it does not do: it knows nothing of the device but what registers, queues and memory say, and believes none
//! of that unchecked. It chooses no workload (`lab` does), it has no block layer: an I/O is one command.

mod completion;
pub mod costs;
pub mod driver;
pub mod error;
mod event;
pub mod io;
pub mod oracle;
pub mod port;
pub mod queue;
mod watchdog;

pub use byteway_transfer::host::{Buffer, Method};
pub use costs::HostCosts;
pub use driver::{Arbitration, Completion, Data, Driver, DriverConfig, Namespace, QueueConfig};
pub use error::DriverError;
pub use io::{Client, ClientConfig, IoBuffer, IoError};
pub use oracle::{BaseState, Mismatch, Oracle};
pub use port::{Port, Registers};
pub use queue::{Lost, Pending, QueuePair, Request};
