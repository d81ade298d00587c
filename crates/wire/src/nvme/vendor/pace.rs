//! Whether a drive that is served in real time keeps to its model.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Log page C1h: how late modelled waits have ended since the drive was powered on. A drive has it in real time only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PaceLog {
    /// 1: latencies are modelled; 0: the drive is as fast as its machine, and all else is zero.
    pub modelled: u32,
    /// A wait that ends this much too late counts as late, nanoseconds.
    pub late_from_ns: u32,
    /// Modelled waits that have passed.
    pub waits: u64,
    /// Of these, late ones.
    pub late: u64,
    /// How late all of them ended, together.
    pub lateness_ns: u64,
    /// How late the latest was.
    pub worst_ns: u64,
    /// What modelled time has lost against the wall clock's, because the machine could not keep up for long.
    pub slipped_ns: u64,
    /// Reserved.
    pub reserved: [u8; 16],
}

const _: () = assert!(size_of::<PaceLog>() == 64);
