//! The pace log page: whether a drive that is served in real time keeps up with its model.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Log page C1h: lateness of modelled waits since power-on. A drive has it in real time only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PaceLog {
    /// 1: latencies are modelled; 0: the drive runs as fast as its machine, and all other fields are zero.
    pub modelled: u32,
    /// Lateness at which a wait counts as late, in nanoseconds.
    pub late_from_ns: u32,
    /// Modelled waits that have ended.
    pub waits: u64,
    /// The part of `waits` that were late.
    pub late: u64,
    /// Total lateness, in nanoseconds.
    pub lateness_ns: u64,
    /// Greatest lateness, in nanoseconds.
    pub worst_ns: u64,
    /// Time by which modelled time has fallen behind wall-clock time, because the machine could not keep up, in
    /// nanoseconds.
    pub slipped_ns: u64,
    /// Reserved.
    pub reserved: [u8; 16],
}

const _: () = assert!(size_of::<PaceLog>() == 64);
