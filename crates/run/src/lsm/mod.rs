//! Baseline for key-value drives: an LSM tree on the host, on a block drive.
//!
//! The tree is [`rusty_leveldb`], LevelDB's design in Rust: a log, a memtable of 4 MiB, tables of 2 MiB in seven levels, Bloom filters of
//! 10 bits per key, blocks of 4 KiB and a cache of 1024 of them, no compression. It was chosen because it does all I/O through a
//! user-supplied environment, and all work, including compaction, in the caller's thread; others (fjall) use the operating system's files,
//! threads and clock.
//!
//! | file | what |
//! |---|---|
//! | `files.rs` | a file system on units of a drive, with metadata in memory |
//! | `turns.rs` | alternates between the tree and the simulation |
//!
//! What it charges: each byte that the tree reads and writes crosses the link and reaches flash, in the tree's order, one command at a
//! time. What it does not charge: the tree's processor time, and a file system's own reads and writes. Reads and writes bypass the page
//! cache. The result is therefore an upper bound of a tree's performance on the drive.

mod files;
mod turns;

pub use turns::{KeyValues, Lsm, LsmError};

/// Size of a unit of the drive, in which files are stored.
const UNIT_BYTES: usize = 4096;

/// Units of a part, in which the tree writes its files.
const PART_UNITS: u32 = 32;

/// Longest read or write of the tree: 128 KiB.
pub const PART_BYTES: u32 = PART_UNITS * UNIT_BYTES as u32;
