//! How a payload crosses: one method a file.
//!
//! | file | what |
//! |---|---|
//! | [`prp`] | PRP1, PRP2 and PRP lists |
//! | [`sgl`] | SGL data blocks, segments, bit buckets |
//! | [`collector`] | the device's end: from a command's data pointer to extents of host memory, whatever the method |
//! | [`host`] | the host's end: from a buffer to a command's data pointer |
//!
//! What it does not do: it moves no payload itself (the link does), allocates no host memory while I/O runs, and
//! knows no command's meaning.

pub mod collector;
pub mod host;
pub mod prp;
pub mod sgl;

pub use collector::{Collector, Extent};
