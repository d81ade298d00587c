//! Transfer methods: how a payload crosses the link, one method a file, host end and device end side by side.
//!
//! | file | contents |
//! |---|---|
//! | [`method`] | the methods by name; the choice for each payload |
//! | [`prp`] | PRP1, PRP2 and PRP lists |
//! | [`sgl`] | SGL data blocks, segments, bit buckets |
//! | [`inline`] | payload in the submission queue slots behind its command |
//! | [`reassembly`] | chunks that are joined by their identifiers |
//! | [`piggyback`] | payload in the fields of commands, serialized and pipelined |
//! | [`partial`] | incomplete payloads, for both of these |
//! | [`mmio`] | a buffer in the BAR that the host stores to |
//! | [`cxl_mem`] | device memory that the host stores to over CXL.mem |
//! | [`result`] | results in the completion queue slots behind a completion |
//! | [`host`] | the host's end of all pointer methods: from a buffer to a command's data pointer |
//! | `extent.rs` | location of part of a payload |
//! | [`collector`] | the device's end of all pointer methods: from a command's data pointer to extents of host memory |
//!
//! What it does not do: it moves no payload itself (the link does), allocates no host memory while I/O runs,
//! and knows no command's meaning.

pub mod collector;
pub mod cxl_mem;
mod extent;
pub mod host;
pub mod inline;
pub mod method;
pub mod mmio;
pub mod partial;
pub mod piggyback;
pub mod prp;
pub mod reassembly;
pub mod result;
pub mod sgl;

pub use collector::Collector;
pub use extent::Extent;
pub use method::{Limits, Method, Ordering, Rules, TransferChoice, TransferKind};
