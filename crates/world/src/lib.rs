//! A world: a host, its links, and a drive at the end of each; construction, power-on and power-off.
//!
//! | file | what |
//! |---|---|
//! | [`world`] | a host and its drives, on one executor |
//! | [`host`] | the host's processors |
//! | [`bay`] | the place of a drive: a region of host memory and a link |
//! | [`drive`] | a powered drive, from power-on to power-off |
//! | [`books`] | checks that ledger, host memory and controller have counted the same bytes |
//!
//! ```text
//! World::add, or DriveBay::power_on ── a PoweredDrive ── PoweredDrive::power_off ── a Medium ──┐
//!        └────────────────────────────── in the next world's bay ◄─────────────────────────────┘
//! ```
//!
//! Runs, served drives, random runs with power cuts and tests all build their drives here. A driver or a server
//! attaches to the host's end of a drive's link ([`PoweredDrive::host`]).
//!
//! Where extensions will attach:
//!
//! - A switch: the host's end of each link becomes a downstream port, and the links share an upstream one. It provides
//!   bays, as [`World::add`] does now.
//! - Peer-to-peer: today a bay's [`Memory`](byteway_link::Memory) is all that its drive reaches. A peer's BAR will be
//!   another range of those addresses.
//! - A fabric: a second [`Host`] on the same executor; its target accesses the bays of the first one through their host
//!   ends.
//! - CXL: a drive's own memory is already attached at its link; a pool that several hosts share belongs to the switch.
//!
//! What it does not do: it knows configurations, not scenarios; it attaches no driver, runs no executor, and measures
//! nothing.

pub mod bay;
pub mod books;
pub mod drive;
pub mod host;
pub mod world;

pub use bay::DriveBay;
pub use books::UnbalancedBooks;
pub use drive::{PoweredDrive, SecondPort};
pub use host::Host;
pub use world::World;
