//! What a block holds, as somebody who looks at its bytes sees it.

use byteway_wire::content::Stamp;
use std::fmt;

/// What a block should hold, or does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Zeroes throughout.
    Zeroes,
    /// A stamp's pattern throughout.
    Stamp(Stamp),
    /// It begins as a stamp's pattern, but the rest isn't.
    Damaged(Stamp),
    /// Nothing: reading it fails.
    Unreadable,
    /// Anything else.
    Other,
}

impl Found {
    /// What `block` is.
    pub(super) fn of(block: &[u8]) -> Found {
        match Stamp::read_header(block) {
            Some(stamp) if stamp.block.bytes() == block.len() && stamp.matches(block) => Found::Stamp(stamp),
            Some(stamp) => Found::Damaged(stamp),
            None if block.iter().all(|byte| *byte == 0) => Found::Zeroes,
            None => Found::Other,
        }
    }

    /// Whether `block` is exactly that.
    pub(super) fn holds(self, block: &[u8]) -> bool {
        match self {
            Found::Zeroes => block.iter().all(|byte| *byte == 0),
            Found::Stamp(stamp) => stamp.matches(block),
            Found::Damaged(_) | Found::Unreadable | Found::Other => false,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |f: &mut fmt::Formatter<'_>, stamp: &Stamp| {
            write!(f, "version {} of logical block {} (tag {})", stamp.version, stamp.lba, stamp.tag)
        };
        match self {
            Found::Zeroes => write!(f, "zeroes"),
            Found::Stamp(stamp) => named(f, stamp),
            Found::Damaged(stamp) => named(f, stamp).and_then(|()| write!(f, ", damaged")),
            Found::Unreadable => write!(f, "nothing that can be read"),
            Found::Other => write!(f, "bytes that nobody wrote"),
        }
    }
}

/// A block that holds what it must not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The block.
    pub lba: u64,
    /// What it could hold without any other I/O under way; the likeliest last.
    pub expected: Vec<Found>,
    /// What it holds.
    pub found: Found,
    /// The first byte of the block that differs from the likeliest.
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
