//! What crosses a network between a host and a target, as both ends' adapters know it: with RDMA as on NVMe/TCP.

use byteway_clock::{Delay, SpanId};
use byteway_wire::nvme::{Cqe, Sqe};

/// A connection: a queue of an association. Which queue Connect says; this is only who sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection {
    /// The association, of those that this network carries.
    pub association: u16,
    /// The queue.
    pub qid: u16,
    /// How many connections the association has opened before: what was sent on one is never taken for another's.
    pub number: u32,
}

/// From a host to the target.
#[derive(Debug)]
pub enum ToTarget {
    /// A connection is opened: nothing came before on it.
    Open,
    /// It is closed: nothing comes after.
    Close,
    /// A command capsule.
    Command {
        /// The I/O that it belongs to.
        span: SpanId,
        /// How long it has waited for the wire.
        queued: Delay,
        /// The command.
        sqe: Sqe,
        /// In-capsule data.
        data: Vec<u8>,
    },
    /// The data that a [`ToHost::Fetch`] asked for, with its tag.
    Data {
        /// Whose it is.
        tag: u16,
        /// The data; empty, if the host's memory does not have what was asked for.
        data: Vec<u8>,
    },
}

/// From the target to a host.
#[derive(Debug)]
pub enum ToHost {
    /// The connection is closed.
    Closed,
    /// Reads memory of the host's: an RDMA read, which its processors have no part in.
    Fetch {
        /// Comes back with the data.
        tag: u16,
        /// Where, as the command's data pointer says.
        address: u64,
        /// How much.
        bytes: u32,
    },
    /// Writes memory of the host's: an RDMA write.
    Deliver {
        /// Where.
        address: u64,
        /// What.
        data: Vec<u8>,
    },
    /// A response capsule.
    Response {
        /// The I/O that it belongs to.
        span: SpanId,
        /// How long it, or the data before it, has waited for the wire.
        queued: Delay,
        /// The completion.
        cqe: Cqe,
    },
}
