//! Collection windows: a host of several drives lets all of them collect at once.
//!
//! A drive with feature C1h says by an event when it begins garbage collection because free superblocks are few
//! ([`AsyncEvent::COLLECTION_BEGUN`](crate::nvme::AsyncEvent::COLLECTION_BEGUN); reading log page C2h clears it), if the host has enabled
//! that. By the same feature the host opens a window, in which every die collects until more superblocks are free. It differs from
//! Predictable Latency Mode (NVMe Base 2.1, 8.1.18) in that the drive is free to leave a window early, and to collect outside one:
//! nothing is promised.

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Feature C1h, dword 11 of Set Features. Get Features gives it back with `open` set if a die is in a window now, and 0 blocks.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct CollectionWindow {
    /// The drive says when it begins to collect outside a window. Off after a reset.
    pub notify: bool,
    /// A window is opened by this command.
    pub open: bool,
    #[bits(14)]
    __: u16,
    /// In it every die collects until so many superblocks more are free than it leaves when it collects by itself.
    pub blocks: u16,
}

/// Log page C2h: how the drive stands with garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CollectionLog {
    /// Windows that have been opened since the drive was powered on.
    pub windows: u64,
    /// Dies that are in a window.
    pub dies_in_window: u32,
    /// Free superblocks of the die that has the fewest.
    pub free_least: u32,
    /// Free superblocks of a die at which it begins to collect by itself.
    pub free_start: u32,
    /// Reserved.
    pub reserved: [u32; 11],
}

const _: () = assert!(size_of::<CollectionLog>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a host would open a window where it means to be told of one.
    #[test]
    fn bits_are_where_the_documentation_says() {
        let asked = CollectionWindow::new().with_notify(true).with_open(true).with_blocks(5);
        assert_eq!(asked.into_bits(), 0x0005_0003);
    }
}
