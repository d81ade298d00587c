//! Payload in device memory that the host stores to over CXL.mem, and the page buffer of a KV namespace in such memory
//! (BandSlim, fine-grained transfer by CXL).
//!
//! Device memory has up to three parts, which log page C0h ([`DeviceMemoryLog`]) describes: an area for payloads of any
//! command, a ring of commit records ([`commit`](super::commit)), and the page buffer. An SGL descriptor
//! ([`device_memory_descriptor`]) names a payload in the first or the last by its device address: the host's address
//! minus the memory's base.
//!
//! CXL.mem and CXL.io are not ordered against each other. So the host flushes each line, or reads the last line back,
//! before it writes the doorbell; or the command carries the payload's checksum:
//!
//! | field | of a command with its payload in device memory |
//! |---|---|
//! | DPTR | vendor descriptor, sub-type 3h: address = device address, length |
//! | CDW4 | CRC-32C of the payload, if bit 0 of CDW5 is set |
//! | CDW5 | bit 0: CDW4 is valid |
//!
//! **The page buffer.** Its pages form a ring. A position counts bytes since power-on, modulo 2^32; its offset in the
//! buffer is the position modulo the buffer's size. One owner in the host places values by the rules of [`Placing`], as
//! the device does for values that arrive otherwise. Completions on queues that are enabled for
//! [`Methods::cxl_mem`](super::Methods::cxl_mem) keep both sides consistent:
//!
//! | command | DW0 | DW1 |
//! |---|---|---|
//! | Store of a value in the page buffer | pointer | limit |
//! | Store of a value that arrived otherwise | pointer | the value's position |
//! | Page Pointer | pointer | limit |
//!
//! The pointer is after everything placed; from there to the limit the host may store, except where large values lie. A
//! command whose value is not there, or overlaps another, fails with
//! [`Status::SGL_OFFSET_INVALID`](crate::nvme::Status::SGL_OFFSET_INVALID) and changes nothing. Commands of one page
//! may arrive in any order, and gaps between them are padding. A value in a later page closes the pages before. Page
//! Pointer with bit 0 of CDW10 first moves the pointer after all large values and gives up the gaps before them: for a
//! host that does not know those values.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::SUB_TYPE_DEVICE_MEMORY;
use crate::nvme::command::PSDT_SGL;
use crate::nvme::sgl::{SglDescriptor, SglType};
use crate::nvme::{Sqe, VendorOpcode, assert_offsets};

/// A payload of `length` bytes at device address `address`.
pub const fn device_memory_descriptor(address: u64, length: u32) -> SglDescriptor {
    SglDescriptor::new(SglType::VENDOR, SUB_TYPE_DEVICE_MEMORY, address, length)
}

/// A payload in device memory, as a command names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InDeviceMemory {
    /// Device address of the value.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// CRC-32C, if the host sent it.
    pub checksum: Option<u32>,
}

impl InDeviceMemory {
    /// Flag in CDW5: CDW4 is a checksum.
    const HAS_CHECKSUM: u64 = 1;

    /// The payload that a command's data pointer names, if it is in device memory.
    pub fn named_by(sqe: &Sqe) -> Option<InDeviceMemory> {
        let pointer = sqe.sgl();
        let named = sqe.psdt() == PSDT_SGL
            && pointer.sgl_type() == SglType::VENDOR
            && pointer.sub_type() == SUB_TYPE_DEVICE_MEMORY;
        let checksum = (sqe.mptr >> 32 & Self::HAS_CHECKSUM != 0).then_some(sqe.mptr as u32);
        named.then_some(InDeviceMemory { address: pointer.address, bytes: pointer.length, checksum })
    }

    /// The command with this payload.
    pub fn placed_in(self, sqe: Sqe) -> Sqe {
        let mptr = self.checksum.map_or(0, |checksum| u64::from(checksum) | Self::HAS_CHECKSUM << 32);
        sqe.with_sgl(device_memory_descriptor(self.address, self.bytes)).with_mptr(mptr)
    }
}

/// Page Pointer: requests pointer and limit. It completes when a value of a page's length fits before the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagePointer {
    /// First move the pointer after all large values.
    pub gives_up: bool,
}

impl PagePointer {
    /// Decodes the submission queue entry.
    pub const fn parse(sqe: &Sqe) -> PagePointer {
        PagePointer { gives_up: sqe.cdw10 & 1 == 1 }
    }

    /// The entry.
    pub fn sqe(self, cid: u16, nsid: u32) -> Sqe {
        Sqe { cdw10: self.gives_up.into(), ..Sqe::new(VendorOpcode::PAGE_POINTER, cid, nsid) }
    }
}

/// Log page C0h: the division of device memory. A part of zero bytes does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DeviceMemoryLog {
    /// Size of all of it, in bytes.
    pub bytes: u64,
    /// Offset of the area for payloads of any command.
    pub area_offset: u32,
    /// Size of that area, in bytes.
    pub area_bytes: u32,
    /// Offset of the page buffer.
    pub buffer_offset: u32,
    /// Size of the page buffer in bytes: a power of two, and a multiple of `page_bytes`.
    pub buffer_bytes: u32,
    /// Size of one of its pages in bytes: a power of two.
    pub page_bytes: u32,
    /// Alignment of values, in bytes.
    pub align: u32,
    /// The namespace that the page buffer belongs to.
    pub nsid: u32,
    /// The write pointer.
    pub pointer: u32,
    /// The limit.
    pub limit: u32,
    /// Offset of the ring of commit records.
    pub records_offset: u32,
    /// Number of records: a power of two; 0 if there is no ring.
    pub records: u32,
    /// Polling interval of the ring, in nanoseconds.
    pub poll_ns: u32,
    /// Number of activations of the ring since power-on; 0: it is off.
    pub generation: u32,
    #[doc(hidden)]
    pub reserved: [u8; 4],
}

assert_offsets!(DeviceMemoryLog: 64; bytes = 0, area_offset = 8, area_bytes = 12, buffer_offset = 16,
    buffer_bytes = 20, page_bytes = 24, align = 28, nsid = 32, pointer = 36, limit = 40, records_offset = 44,
    records = 48, poll_ns = 52, generation = 56);

impl DeviceMemoryLog {
    /// The placement rules of the page buffer; `None` if there is no page buffer, or the log page is inconsistent.
    pub fn placing(&self) -> Option<Placing> {
        let two = |bytes: u32| bytes.is_power_of_two();
        let sound = two(self.buffer_bytes) && two(self.page_bytes) && two(self.align);
        let sound = sound && self.page_bytes <= self.buffer_bytes / 2 && self.align <= self.page_bytes;
        sound.then_some(Placing {
            page_bytes: self.page_bytes,
            buffer_bytes: self.buffer_bytes,
            align: self.align,
        })
    }
}

/// Placement of values in the page buffer, computed identically on both sides. Sizes are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placing {
    /// Page size in bytes; no value crosses a page's end.
    pub page_bytes: u32,
    /// Size of the whole buffer in bytes: offsets are positions modulo this.
    pub buffer_bytes: u32,
    /// Alignment of values, in bytes.
    pub align: u32,
}

/// A value that the DMA engine has placed after the pointer: an entry of the DMA log table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Large {
    /// Position of its first byte.
    pub position: u32,
    /// Length in bytes.
    pub bytes: u32,
}

impl Large {
    /// The position after its last byte.
    pub const fn end(self) -> u32 {
        self.position.wrapping_add(self.bytes)
    }
}

/// Whether position `at` is at or after `other`: less than half the circle of positions lies between.
pub const fn is_from(at: u32, other: u32) -> bool {
    at.wrapping_sub(other) < 1 << 31
}

impl Placing {
    /// Start of the page that contains a position.
    pub const fn page(&self, position: u32) -> u32 {
        position & !(self.page_bytes - 1)
    }

    /// Start of the following page.
    pub const fn next_page(&self, position: u32) -> u32 {
        self.page(position).wrapping_add(self.page_bytes)
    }

    /// Offset of a position in the buffer.
    pub const fn offset(&self, position: u32) -> u32 {
        position & (self.buffer_bytes - 1)
    }

    /// Places a value of `bytes` with the pointer at `pointer` and the values `table` after it, in order. Returns its
    /// position and the number of those values that it passes: the gaps before them are given up. A value moves after
    /// one that it would overlap, and to the next page instead of crossing a page's end. `None`: it exceeds a page.
    pub fn place(
        &self,
        pointer: u32,
        table: impl IntoIterator<Item = Large>,
        bytes: u32,
    ) -> Option<(u32, usize)> {
        if bytes > self.page_bytes {
            return None;
        }
        let (mut at, mut passed) = (self.fit(pointer, bytes), 0);
        for large in table {
            let is_behind = is_from(large.position, at.wrapping_add(bytes));
            let is_left = is_from(at, large.end());
            if is_behind && !is_left {
                break;
            }
            if !is_left {
                at = self.fit(large.end(), bytes);
            }
            passed += 1;
        }
        Some((at, passed))
    }

    /// The first aligned position from `at` on where the value crosses no page's end.
    const fn fit(&self, at: u32, bytes: u32) -> u32 {
        let at = at.wrapping_add(self.align - 1) & !(self.align - 1);
        let within = at & (self.page_bytes - 1);
        if within != 0 && within + bytes > self.page_bytes { self.next_page(at) } else { at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::NvmOpcode;

    const PLACING: Placing = Placing { page_bytes: 16384, buffer_bytes: 65536, align: 1 };

    fn large(position: u32, bytes: u32) -> Large {
        Large { position, bytes }
    }

    /// Without this a value would be looked for elsewhere, or compared with a checksum that was never sent.
    #[test]
    fn what_a_command_names_comes_back() {
        for checksum in [None, Some(0), Some(0xFFFF_FFFF)] {
            let value = InDeviceMemory { address: 0x1_2345, bytes: 77, checksum };
            let sqe = value.placed_in(Sqe::new(NvmOpcode::WRITE, 1, 1));
            assert_eq!(InDeviceMemory::named_by(&sqe), Some(value));
        }
        assert_eq!(InDeviceMemory::named_by(&Sqe::new(NvmOpcode::WRITE, 1, 1)), None);
    }

    /// Without this the two sides would disagree about the next value's position: at the pointer, after the head of the
    /// table that it would overlap, or in the next page (BandSlim, DMA log table).
    #[test]
    fn a_value_goes_where_the_rules_say() {
        let table = [large(4096, 5000), large(12288, 4000)];
        for (pointer, bytes, expected) in [
            (0, 4096, (0, 0)),
            (0, 4097, (16384, 2)),    // would overlap the head, and after that the second
            (4095, 3192, (9096, 1)),  // would overlap the head: after it
            (9096, 3192, (9096, 1)),  // ends where the second begins
            (9096, 3193, (16384, 2)), // after the second there is no space
            (100, 96, (100, 0)),
            (16300, 90, (16384, 2)), // entries before the pointer do not move it
            (4000, 97, (9096, 1)),
            (16288, 96, (16288, 2)),
            (16289, 96, (16384, 2)),
            (0, 16384, (16384, 2)),
        ] {
            assert_eq!(PLACING.place(pointer, table, bytes), Some(expected), "{bytes} from {pointer}");
        }
        assert_eq!(PLACING.place(0, [], 16384), Some((0, 0)));
        assert_eq!(PLACING.place(1, [], 16384), Some((16384, 0)));
        assert_eq!(PLACING.place(0, [], 16385), None);
        assert_eq!(PLACING.place(77, table, 0), Some((77, 0)));
        let last = 0u32.wrapping_sub(16384);
        assert_eq!(PLACING.place(last + 16000, [large(last + 16100, 100)], 200), Some((0, 1)));
        assert_eq!(PLACING.place(last + 16000, [large(last + 16100, 100)], 150), Some((last + 16200, 1)));
        let later = [large(4096, 100), large(20480, 100)];
        assert_eq!(PLACING.place(16000, later, 400), Some((16384, 1)), "in the next page lies one, too");
        assert_eq!(PLACING.place(16000, later, 4097), Some((20580, 2)));
        let whole = Placing { align: 4096, ..PLACING };
        assert_eq!(whole.place(1, [], 40), Some((4096, 0)));
        assert_eq!(whole.place(12289, [], 40), Some((16384, 0)));
        assert_eq!(whole.place(1, [large(4096, 10)], 40), Some((8192, 1)));
    }

    /// Without this a device with a malformed log page would make the host divide by zero, or store anywhere.
    #[test]
    fn sizes_are_checked() {
        let log = DeviceMemoryLog { buffer_bytes: 65536, page_bytes: 16384, align: 1, ..Default::default() };
        assert_eq!(log.placing(), Some(PLACING));
        for wrong in [
            DeviceMemoryLog::default(),
            DeviceMemoryLog { page_bytes: 12288, ..log },
            DeviceMemoryLog { page_bytes: 65536, ..log },
            DeviceMemoryLog { align: 0, ..log },
            DeviceMemoryLog { align: 32768, ..log },
        ] {
            assert_eq!(wrong.placing(), None);
        }
    }
}
