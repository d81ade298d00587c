//! One controller, as its driver sees it.
//!
//! | file | what |
//! |---|---|
//! | `port.rs` | access to registers and memory: over the simulated link, or shared with another process |
//! | `controller.rs` | enable, identify, queues, reset, shutdown |
//! | `discovery.rs` | the client of Discovery Services |
//! | `queue.rs` | a queue pair: slots, command identifiers, submission and waiting |
//! | `completion.rs` | completion rings and their reapers, polled or by interrupt |
//! | `request_layer.rs` | a layer above submission, such as a block layer |
//! | `event.rs` | Asynchronous Event Requests |
//! | `lending.rs` | the Host Memory Buffer |
//! | `watchdog.rs` | timeouts: Abort, then reset |
//! | `costs.rs` | processor time of the host's software |
//! | `extension.rs` | vendor extensions of a controller, shared by its queues |
//! | `buffer.rs` | host memory for payloads, with its area of device memory |
//! | `page_owner.rs` | the owner of the page buffer in device memory |
//! | `commit.rs` | commit records: key-value pairs stored without a command |

pub(crate) mod buffer;
pub(crate) mod commit;
pub(crate) mod completion;
pub(crate) mod controller;
pub(crate) mod costs;
pub mod discovery;
pub(crate) mod event;
pub(crate) mod extension;
pub(crate) mod lending;
pub(crate) mod page_owner;
pub(crate) mod port;
pub(crate) mod queue;
pub(crate) mod request_layer;
pub(crate) mod watchdog;
