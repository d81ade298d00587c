//! The contents of a block, as determined from its bytes.

use byteway_content::Stamp;
use std::fmt;

/// Contents of a block, expected or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockContents {
    /// Zeroes only.
    Zeroes,
    /// Exactly a stamp's pattern.
    Stamp(Stamp),
    /// The beginning of a stamp's pattern, with other bytes after it.
    Damaged(Stamp),
    /// Unreadable.
    Unreadable,
    /// Anything else.
    Other,
}

impl BlockContents {
    /// Classifies `block`.
    pub(super) fn of(block: &[u8]) -> BlockContents {
        match Stamp::read_header(block) {
            Some(stamp) if stamp.block.bytes() == block.len() && stamp.matches(block) => {
                BlockContents::Stamp(stamp)
            }
            Some(stamp) => BlockContents::Damaged(stamp),
            None if block.iter().all(|byte| *byte == 0) => BlockContents::Zeroes,
            None => BlockContents::Other,
        }
    }

    /// Whether `block` has exactly these contents.
    pub(super) fn holds(self, block: &[u8]) -> bool {
        match self {
            BlockContents::Zeroes => block.iter().all(|byte| *byte == 0),
            BlockContents::Stamp(stamp) => stamp.matches(block),
            BlockContents::Damaged(_) | BlockContents::Unreadable | BlockContents::Other => false,
        }
    }
}

impl fmt::Display for BlockContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |f: &mut fmt::Formatter<'_>, stamp: &Stamp| {
            write!(f, "version {} of logical block {} (tag {})", stamp.version, stamp.lba, stamp.tag)
        };
        match self {
            BlockContents::Zeroes => write!(f, "zeroes"),
            BlockContents::Stamp(stamp) => named(f, stamp),
            BlockContents::Damaged(stamp) => named(f, stamp).and_then(|()| write!(f, ", damaged")),
            BlockContents::Unreadable => write!(f, "nothing that can be read"),
            BlockContents::Other => write!(f, "bytes of no known write"),
        }
    }
}

/// A block with wrong contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The block.
    pub lba: u64,
    /// Allowed contents without any other I/O in flight, the most likely last.
    pub expected: Vec<BlockContents>,
    /// Contents of the block.
    pub found: BlockContents,
    /// Offset of the first byte that differs from the most likely contents.
    pub offset: usize,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "logical block {} holds {} where", self.lba, self.found)?;
        for (index, expected) in self.expected.iter().enumerate() {
            write!(f, "{} {expected}", if index == 0 { "" } else { " or" })?;
        }
        write!(f, " was expected; the first difference is at byte {}", self.offset)
    }
}

impl std::error::Error for Mismatch {}
