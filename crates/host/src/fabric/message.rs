//! Messages between a host and a target, independent of the transport (NVMe/TCP or RDMA).

use byteway_clock::{Delay, SpanId};
use byteway_wire::nvme::{Cqe, Sqe};

/// A connection: a queue of an association. Connect tells which queue; this only identifies the sender and the
/// receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection {
    /// Number of the association in this network.
    pub association: u16,
    /// Identifier of the queue.
    pub qid: u16,
    /// Number of connections that the association opened before, so that messages of a former connection are
    /// recognized.
    pub number: u32,
}

/// From a host to the target.
#[derive(Debug)]
pub enum ToTarget {
    /// Opens the connection; it is the first message.
    Open,
    /// Closes the connection; it is the last message.
    Close,
    /// A command capsule.
    Command {
        /// Trace span of the I/O.
        span: SpanId,
        /// Time spent waiting for the wire.
        queued: Delay,
        /// The command.
        sqe: Sqe,
        /// In-capsule data.
        data: Vec<u8>,
        /// It may succeed with less data for the host than its buffer holds.
        may_be_short: bool,
    },
    /// The data that a [`ToHost::Fetch`] requested, with its tag.
    Data {
        /// Tag of the request.
        tag: u16,
        /// The data; empty if the host's memory does not contain the requested range.
        data: Vec<u8>,
    },
}

/// From the target to a host.
#[derive(Debug)]
pub enum ToHost {
    /// The connection is closed.
    Closed,
    /// Reads host memory: an RDMA read, without processor time.
    Fetch {
        /// Returned with the data.
        tag: u16,
        /// Address, from the command's data pointer.
        address: u64,
        /// Number of bytes.
        bytes: u32,
    },
    /// Writes host memory: an RDMA write.
    Deliver {
        /// Address.
        address: u64,
        /// The data.
        data: Vec<u8>,
    },
    /// A response capsule.
    Response {
        /// Trace span of the I/O.
        span: SpanId,
        /// Time that it, or its data, spent waiting for the wire.
        queued: Delay,
        /// The completion.
        cqe: Cqe,
    },
}
