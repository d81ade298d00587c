//! How a payload crosses: one method a file, host end and device end side by side.
//!
//! | file | what |
//! |---|---|
//! | [`method`] | the methods by name; which way a payload goes |
//! | [`prp`] | PRP1, PRP2 and PRP lists |
//! | [`sgl`] | SGL data blocks, segments, bit buckets |
//! | [`inline`] | payload in the entries behind its command |
//! | [`reassembly`] | chunks that are put together by their identifiers |
//! | [`piggyback`] | parts in the fields of commands, serialized and pipelined |
//! | [`partial`] | payloads of which parts are missing, as both of these keep them |
//! | [`mmio`] | a buffer of the device that the host stores to |
//! | [`cxl_mem`] | memory of the device that the host stores to over CXL.mem |
//! | [`result`] | results behind a completion |
//! | [`host`] | the host's end of every method: from a buffer to a command's data pointer |
//! | `extent.rs` | where a part of a payload lies |
//! | [`collector`] | the device's end of every method: from a command's data pointer to extents of host memory |
//!
//! What it does not do: it moves no payload itself (the link does), allocates no host memory while I/O runs, and
//! knows no command's meaning.

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
pub use method::{Choice, Limits, Method, Ordering, Rules, Way};
