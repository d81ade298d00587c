//! The DVSEC by which a device announces memory for the host (CXL 2.0, 8.1.3): a designated vendor-specific extended
//! capability in configuration space. Enumeration reads the memory's size there, and writes its base.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Granularity of sizes and bases, in bytes.
pub const RANGE_UNIT: u64 = 256 << 20;

/// PCIe DVSEC for CXL Devices: little endian, the capability's header first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DeviceDvsec {
    /// Extended capability 0023h in bits 15:0, version 1 in 19:16, the next capability's offset in 31:20.
    pub header: u32,
    /// Vendor 1E98h in bits 15:0, revision 1 in 19:16, length in 31:20.
    pub vendor: u32,
    /// DVSEC 0: that of a device.
    pub id: u16,
    /// Bit 0: CXL.cache, bit 1: CXL.io, bit 2: CXL.mem; bits 5:4: ranges.
    pub capability: u16,
    /// Bit 2: CXL.mem is on. Written by the host.
    pub control: u16,
    /// Status.
    pub status: u16,
    /// Control 2, Status 2, Lock, Capability 2.
    pub more: [u16; 4],
    /// Bits 63:32 of range 1's size.
    pub size_high: u32,
    /// Bits 31:28 of its size; bit 0: the information is valid, bit 1: the memory is active.
    pub size_low: u32,
    /// Bits 63:32 of its base. Written by the host.
    pub base_high: u32,
    /// Bits 31:28 of its base. Written by the host.
    pub base_low: u32,
    /// Range 2, which is unused.
    pub range2: [u32; 4],
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<DeviceDvsec>() == 0x38);
    assert!(offset_of!(DeviceDvsec, id) == 0x08 && offset_of!(DeviceDvsec, capability) == 0x0A);
    assert!(offset_of!(DeviceDvsec, control) == 0x0C && offset_of!(DeviceDvsec, more) == 0x10);
    assert!(offset_of!(DeviceDvsec, size_high) == 0x18 && offset_of!(DeviceDvsec, base_low) == 0x24);
};

const CAPABILITY: u32 = 0x23 | 1 << 16;
const VENDOR: u32 = 0x1E98 | 1 << 16 | 0x38 << 20;
const IO: u16 = 1 << 1;
const MEM: u16 = 1 << 2;
const ONE_RANGE: u16 = 1 << 4;
const VALID: u32 = 1 << 0;
const ACTIVE: u32 = 1 << 1;
const RANGE_LOW: u32 = 0xF000_0000;

impl DeviceDvsec {
    /// The DVSEC of a device with `bytes` of memory (rounded up to 256 MiB) that the host has not mapped. It is the
    /// last capability in the list.
    pub fn new(bytes: u64) -> DeviceDvsec {
        let size = bytes.next_multiple_of(RANGE_UNIT);
        DeviceDvsec {
            header: CAPABILITY,
            vendor: VENDOR,
            id: 0,
            capability: IO | MEM | ONE_RANGE,
            control: IO,
            status: 0,
            more: [0; 4],
            size_high: (size >> 32) as u32,
            size_low: size as u32 & RANGE_LOW | VALID | ACTIVE,
            base_high: 0,
            base_low: 0,
            range2: [0; 4],
        }
    }

    /// Whether it is such a capability, and the device has memory.
    pub const fn has_memory(&self) -> bool {
        let known = self.header & 0xFFFFF == CAPABILITY && self.vendor == VENDOR && self.id == 0;
        known && self.capability & MEM != 0 && self.size_low & (VALID | ACTIVE) == VALID | ACTIVE
    }

    /// The range's size, in bytes.
    pub const fn bytes(&self) -> u64 {
        (self.size_high as u64) << 32 | (self.size_low & RANGE_LOW) as u64
    }

    /// Maps the range at `base` (rounded down to 256 MiB), and enables CXL.mem.
    pub fn map(&mut self, base: u64) {
        self.base_high = (base >> 32) as u32;
        self.base_low = base as u32 & RANGE_LOW;
        self.control |= MEM;
    }

    /// The range's base address; `None` until it is mapped.
    pub const fn base(&self) -> Option<u64> {
        let base = (self.base_high as u64) << 32 | self.base_low as u64;
        if self.control & MEM != 0 { Some(base) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A host that reads another size or base would store to memory of another owner.
    #[test]
    fn the_range_comes_back() {
        let mut dvsec = DeviceDvsec::new(128 << 10);
        assert!(dvsec.has_memory());
        assert_eq!((dvsec.bytes(), dvsec.base()), (256 << 20, None));
        dvsec.map(0x50_1234_5678);
        assert_eq!(dvsec.base(), Some(0x50_1000_0000));
        let bytes = dvsec.as_bytes();
        assert_eq!(bytes[..12], [0x23, 0, 1, 0, 0x98, 0x1E, 0x81, 0x03, 0, 0, 0x16, 0]);
        assert_eq!(bytes[0x20..0x28], [0x50, 0, 0, 0, 0, 0, 0, 0x10]);
        assert_eq!(DeviceDvsec::new(5 << 30).bytes(), 5 << 30);
        dvsec.vendor = 0x8086;
        assert!(!dvsec.has_memory());
    }
}
