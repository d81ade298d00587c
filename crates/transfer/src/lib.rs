//! How a payload crosses: one method a file, host end and device end side by side.
//!
//! | file | what |
//! |---|---|
//! | [`prp`] | PRP1, PRP2 and PRP lists |
//! | [`sgl`] | SGL data blocks, segments, bit buckets |
//! | [`host`] | the host's end of every method: from a buffer to a command's data pointer |
//! | [`collector`] | the device's end of every method: from a command's data pointer to extents of host memory |
//!
//! What it does not do: it moves no payload itself (the link does), allocates no host memory while I/O runs, and
//! knows no command's meaning.

pub mod collector;
pub mod host;
pub mod prp;
pub mod sgl;

pub use collector::{Collector, Extent};
