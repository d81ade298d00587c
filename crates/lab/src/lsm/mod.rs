//! The baseline of a key-value drive: a log-structured merge tree on the host, over a drive of blocks.
//!
//! The tree is [`rusty_leveldb`], LevelDB's design in Rust: a log, a memtable of 4 MiB, tables of 2 MiB in seven levels,
//! Bloom filters of 10 bits a key, blocks of 4 KiB and a cache of 1024 of them, no compression. It was chosen because all that
//! it does outside memory goes through an environment of its user's and because it does everything, compaction too, in the
//! caller's thread; others (fjall) call the operating system's files, threads and clock.
//!
//! | file | what |
//! |---|---|
//! | `files.rs` | files on units of a drive, in memory but for what is in them |
//! | `turns.rs` | the tree waits for the drive, the simulation for the tree: one at a time |
//!
//! What it charges: each byte that the tree reads and writes crosses the link and goes to flash, in the order in which it asks,
//! one command at a time. What it does not: the processor time of the tree, and a file system's own reads and writes. Reads
//! and writes pass by the page cache. So what it shows is what the drive makes of a tree at best.

mod files;
mod turns;

pub use turns::{Found, Lsm, LsmError};

/// Bytes of a unit of the drive's, in which files lie.
const UNIT_BYTES: usize = 4096;

/// The tree writes its files in parts of so many units.
const PART_UNITS: u32 = 32;

/// The most that it reads or writes at once: 128 KiB.
pub const PART_BYTES: u32 = PART_UNITS * UNIT_BYTES as u32;
