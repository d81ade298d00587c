//! Commands that were fetched and have no command slot yet.

use crate::controller::queue::ring::Permit;
use byteway_clock::SpanId;
use byteway_wire::nvme::Sqe;

/// A command that waits for the chunks of its payload, or for the other command of its fused operation. It has no command
/// slot meanwhile.
pub struct Waiting {
    /// The command.
    pub sqe: Sqe,
    /// The right and duty to complete it.
    pub permit: Permit,
    /// Who follows it.
    pub span: SpanId,
}
