//! Drives that are made of others, and to a host are one: what is behind has power and a link of its own, and drivers attach to it
//! before the whole can be used.
//!
//! | file | what |
//! |---|---|
//! | [`hosted`] | a drive whose firmware runs on the host, over endpoints with raw flash behind a switch |
//! | [`array`](mod@array) | drives that are one: RAID on the host, a bridge |
//! | [`jbof`] | drives in one box that lend each other processors, or for which the host works |
//! | `together` | members that collect garbage at once |
//! | [`partial`] | a drive of which the map, or the collector, is on the host |
//!
//! ```text
//!   jobs ── a driver ── [front: a controller at a link that costs next to nothing]
//!                              │ its translation layer, on the host's processors
//!                        [far flash] ── drivers ── PCIe ── switch ── endpoints: raw flash
//! ```
//!
//! The front is what the system's driver for such hardware shows to applications: a block device. It is a whole NVMe controller, so
//! everything that uses a drive uses this one as well: jobs, oracles, traces, power cuts.
//!
//! What it does not do: it knows configurations, not scenarios; the power of what is behind is `world`'s.

pub mod array;
pub mod hosted;
pub mod jbof;
pub mod partial;
mod together;

pub use array::{ArrayDriveConfig, ArrayDriveError, ArrayPlace, Members, PoweredArray, assemble};

pub use partial::{PartialConfig, power_on_partial};

pub use jbof::{Jbof, JbofConfig, JbofError};

pub use hosted::{EndpointConfig, Hosted, HostedConfig, HostedError};
