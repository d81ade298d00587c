//! Operations of the host: what a controller's commands do. Each is a flow from top to bottom through the parts.
//!
//! | file | contents |
//! |---|---|
//! | [`read`], [`write`](mod@write), [`trim`] | reads, writes, deallocations |
//! | [`ahead`], [`reader`] | what a read owes to reading ahead; the readers |
//! | [`part`] | partial writes, and the mergers |
//! | [`exchange`] | read-modify-write of several units |
//! | [`plain`] | the fast path of reads and writes of one unit |

pub(in crate::ftl) mod ahead;
pub(in crate::ftl) mod exchange;
pub(in crate::ftl) mod part;
pub(in crate::ftl) mod plain;
pub(in crate::ftl) mod read;
pub(in crate::ftl) mod reader;
pub(in crate::ftl) mod trim;
pub(in crate::ftl) mod write;
