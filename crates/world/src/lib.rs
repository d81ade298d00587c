//! A world: a host, the links at it, and a drive at the end of each; how they are built, and the power that comes and goes.
//!
//! | file | what |
//! |---|---|
//! | [`world`] | a host and its drives, on one executor |
//! | [`host`] | the host: its processors |
//! | [`bay`] | where a drive is attached: a region of host memory and a link |
//! | [`drive`] | a drive in its bay, from power-on to the end of the power |
//! | [`books`] | ledger, host memory and controller have counted the same bytes |
//!
//! ```text
//! World::add, or DriveBay::power_on ── a PoweredDrive ── PoweredDrive::power_off ── a Medium ──┐
//!        └────────────────────────────── in the next world's bay ◄─────────────────────────────┘
//! ```
//!
//! A run, a served drive, a random run with power cuts and a test all build their drives here. What attaches to a drive, a driver
//! or a server, takes the host's end of its link ([`PoweredDrive::host`]).
//!
//! Where further parts will attach:
//!
//! - A switch: the host's end of each link is then a downstream port, and the links share an upstream one. It hands out bays, as
//!   [`World::add`] does now.
//! - Peer-to-peer: today a bay's [`Memory`](byteway_link::Memory) is everything that its drive reaches. A peer's BAR will be another
//!   range of those addresses.
//! - A fabric: a second [`Host`] on the same executor; its target drives the bays of the first one by their host ends.
//! - CXL: a drive's own memory is attached at its link already; a pool that several hosts share belongs to the switch.
//!
//! What it does not do: it knows configurations, not scenarios; attaches no driver, runs no executor, and measures nothing.

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
