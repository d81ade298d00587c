//! Inspection of the data directories of served drives: what they hold, and whether all of it is intact.
//!
//! | file | what |
//! |---|---|
//! | `info.rs` | [`Info`]: capacity, wear, and how the drive ended |
//! | `check.rs` | [`Verdict`]: every checksum verified, and the map compared with the spare areas |
//! | `directory.rs` | opens a directory, with a lock against its use by a server |
//! | `error.rs` | [`MediaError`] |
//!
//! What it does not do: it changes no directory and repairs nothing. It builds no drive: the map is recovered by the firmware alone, without
//! a controller, link or host.

mod check;
mod directory;
mod error;
mod info;

pub use check::Verdict;
pub use error::MediaError;
pub use info::Info;
