//! A fetched command that has no command slot yet.

use crate::controller::queue::ring::Permit;
use byteway_clock::SpanId;
use byteway_wire::nvme::Sqe;

/// A command that waits for the chunks of its payload, or for the other command of its fused operation. It occupies no
/// command slot meanwhile.
pub struct Waiting {
    /// The command.
    pub sqe: Sqe,
    /// The permit to complete it.
    pub permit: Permit,
    /// Trace span of the I/O.
    pub span: SpanId,
}
