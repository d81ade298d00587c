//! Garbage collection windows: a host of several drives lets all of them collect at the same time.
//!
//! A drive with feature C1h raises an event when it starts garbage collection because free superblocks are few
//! ([`AsyncEvent::COLLECTION_BEGUN`](crate::nvme::AsyncEvent::COLLECTION_BEGUN); reading log page C2h clears it), if
//! the host has enabled that. By the same feature the host opens a window, in which every die collects until more
//! superblocks are free. Unlike Predictable Latency Mode (NVMe Base 2.1, 8.1.18) it guarantees nothing: the drive may
//! leave a window early, and may collect outside one.

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Feature C1h, dword 11 of Set Features. Get Features returns it with `open` set if a die is in a window, and 0
/// blocks.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct CollectionWindow {
    /// Notify the host when garbage collection starts outside a window. Off after a reset.
    pub notify: bool,
    /// Open a window.
    pub open: bool,
    #[bits(14)]
    __: u16,
    /// Free superblocks that every die gains in the window, beyond the number at which garbage collection normally
    /// stops.
    pub blocks: u16,
}

/// Log page C2h: the state of garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CollectionLog {
    /// Windows opened since power-on.
    pub windows: u64,
    /// Dies in a window.
    pub dies_in_window: u32,
    /// Free superblocks of the die with the fewest.
    pub free_least: u32,
    /// Free superblocks of a die at which it starts garbage collection by itself.
    pub free_start: u32,
    /// Reserved.
    pub reserved: [u32; 11],
}

const _: () = assert!(size_of::<CollectionLog>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a host would open a window when it wants a notification.
    #[test]
    fn bits_are_where_the_documentation_says() {
        let asked = CollectionWindow::new().with_notify(true).with_open(true).with_blocks(5);
        assert_eq!(asked.into_bits(), 0x0005_0003);
    }
}
