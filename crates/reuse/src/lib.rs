//! Reuse distances of keys, and the miss-ratio curves that follow: how much a cache of any size would miss.
//!
//! | file | what |
//! |---|---|
//! | `distance.rs` | reuse distances, exact counts of them, miss-ratio curves |
//! | `shards.rs` | the same from a sample of the keys, in bounded memory (SHARDS) |
//!
//! A drive that lends or borrows DRAM estimates its demand with these (`jbof`), and `byteway trace inspect` shows the curve of a trace.
//!
//! What it does not do: it models no cache but the least recently used, and knows neither drives nor traces.

mod distance;
mod shards;

pub use distance::{Distances, Exact, MissRatioCurve, Recency};
pub use shards::Shards;
