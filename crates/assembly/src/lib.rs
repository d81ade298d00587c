//! Drives composed of other drives, which are one drive to a host. Each component has power and a link of its own, and
//! drivers attach to it before the whole can be used.
//!
//! | file | what |
//! |---|---|
//! | [`hosted`] | a drive whose firmware runs on the host, over endpoints with raw flash behind a switch |
//! | [`array`](mod@array) | drives that form one: RAID on the host, a bridge |
//! | `together` | synchronized garbage collection of array members |
//! | [`partial`] | a drive with its map, or its garbage collection decisions, on the host |
//!
//! ```text
//!   jobs ── a driver ── [front: a controller at a link that costs next to nothing]
//!                              │ its translation layer, on the host's processors
//!                        [far flash] ── drivers ── PCIe ── switch ── endpoints: raw flash
//! ```
//!
//! The front is what the system's driver for such hardware shows to applications: a block device. It is a complete NVMe
//! controller, so everything that uses a drive can use it: jobs, oracles, traces, power cuts.
//!
//! What it does not do: it knows configurations, not scenarios; `world` controls the power of the components.

pub mod array;
pub mod hosted;
pub mod partial;
mod together;

pub use array::{ArrayDriveConfig, ArrayDriveError, ArrayLocation, Members, PoweredArray, assemble};

pub use partial::{PartialConfig, power_on_partial};

pub use hosted::{EndpointConfig, Endpoints, Hosted, HostedConfig, HostedError, RawFlash, RawFlashConfig};
