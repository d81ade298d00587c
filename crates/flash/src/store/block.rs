//! The state of a superblock.

use crate::timing::Mode;

/// A superblock. Its first `programmed` stripes can be read.
pub(super) struct Block {
    /// [`BASE`] if the closed form has its contents. Else, in memory where they are, and in files which of its lives between
    /// two erases it is in.
    pub(super) live: u32,
    pub(super) programmed: u32,
    pub(super) erases: u32,
    /// Sensings since its erase.
    pub(super) reads: u32,
    /// When its first stripe was programmed, by the medium's calendar.
    pub(super) programmed_at_ns: u64,
    pub(super) work: Work,
    pub(super) mode: Mode,
    /// It is marked as bad.
    pub(super) is_bad: bool,
}

/// What is being done to a superblock. Its stripes that are not programmed are torn meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    None,
    Program,
    /// Also when the power was cut meanwhile: only another erase ends it.
    Erase,
}

const _: () = assert!(size_of::<Block>() == 32);

pub(super) const BASE: u32 = u32::MAX;
