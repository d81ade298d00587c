//! Contents of 4 KiB units, which flash, firmware, link and host all pass on.
//!
//! | file | what |
//! |---|---|
//! | `content.rs` | contents of a unit: patterns of blocks, and bytes |
//! | `unit.rs` | shared memory for the bytes of a unit |
//! | `words.rs` | a large table of words, for maps and oracles |
//!
//! A block's pattern names its address, version and origin, so that a drive stores it in 16 bytes and a host still verifies all of it:
//!
//! ```
//! use byteway_content::{BlockSize, Stamp, UNIT_BYTES};
//!
//! let stamp = Stamp { lba: 8, version: 1, tag: 7, block: BlockSize::B4096 };
//! let mut bytes = [0; UNIT_BYTES];
//! stamp.fill(&mut bytes);
//! assert_eq!(Stamp::recognise(&bytes), Some(stamp));
//! ```
//!
//! What it does not do: it knows no wire format, no flash and no queue; nothing here takes time.

mod content;
mod unit;
mod words;

pub use content::{BLOCKS, BlockSize, Content, Keep, MARRED_BYTES, Marred, Pattern, Stamp, marred_parts};
pub use unit::{UNIT_BYTES, UnitBytes};
pub use words::Words;
