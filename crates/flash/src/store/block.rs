//! State of a superblock.

use crate::timing::Mode;

/// A superblock, whose first `programmed` stripes are readable.
pub(super) struct Block {
    /// [`BASE`] if the contents are those of the closed form. Otherwise, in memory the location of the
    /// contents, and in files the generation: the number of its erases since the medium was made.
    pub(super) live: u32,
    pub(super) programmed: u32,
    pub(super) erases: u32,
    /// Sensings since its erase.
    pub(super) reads: u32,
    /// Time of the first stripe's program, by the medium's calendar.
    pub(super) programmed_at_ns: u64,
    pub(super) ongoing: OngoingChange,
    pub(super) mode: Mode,
    /// Whether the superblock is marked as bad.
    pub(super) is_bad: bool,
}

/// The program or erase in progress on a superblock. Its unprogrammed stripes count as torn meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OngoingChange {
    None,
    Program,
    /// Also an erase interrupted by a power cut: only another erase ends it.
    Erase,
}

const _: () = assert!(size_of::<Block>() == 32);

pub(super) const BASE: u32 = u32::MAX;
