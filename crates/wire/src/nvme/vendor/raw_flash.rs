//! Raw flash: a namespace that is the drive's flash array, for a translation layer that runs elsewhere.
//!
//! Modelled on the Open-Channel SSD specification (revision 2.0), reduced to an array of superblocks and stripes: the
//! geometry is reported, chunks are reported (here superblocks, which are erased as a whole), and vectors of units are
//! read, programmed and copied with their metadata (here units of one stripe, which is programmed as a whole). The
//! command set is [`CSI`]; its Identify Namespace data structure (CNS 05h)
//! begins with [`RawFlashIdentify`].
//!
//! | field | Raw Read | Raw Program, Raw Copy | Raw Erase | Raw Report |
//! |---|---|---|---|---|
//! | CDW10 | superblock | superblock | superblock | first superblock |
//! | CDW11 | stripe | stripe | 0 | number of superblocks |
//! | CDW12 | bits 3:0 priority; bit 8: metadata only | bits 3:0 priority; bits 22:16 units | bits 3:0 priority | 0 |
//! | CDW14, 15 | bit mask of the units | 0 | 0 | 0 |
//! | DPTR | buffer for the units, in ascending order, followed by their metadata | Program: the units, from the first of the stripe on, followed by their metadata; Copy: the units' addresses, 8 bytes each, followed by their metadata | - | buffer for [`RawBlock`]s |
//! | completion DW0, 1 | bit mask of the unreadable units | 0 | 0 | 0 |
//!
//! **Metadata** of units: the number of their stripe in 8 bytes, and a [`RawUnit`] for each. An unreadable stripe has
//! the number [`NO_NUMBER`], a unit without metadata the logical address [`NO_LPA`]. The data pointer's length follows
//! from the fields; the metadata pointer is unused, so everything is one transfer.
//!
//! | field | Raw System Read | Raw System Write | Raw Manage |
//! |---|---|---|---|
//! | CDW10 | part: [`RawPart`] | part | action: [`RawAction`] |
//! | CDW11 | bytes of the buffer | bytes of this piece | the action's superblock or number of pages |
//! | CDW12 | offset in the part | offset in the part | the action's bits per cell |
//! | CDW13 | 0 | bytes of all pieces | 0 |
//! | DPTR | buffer | the piece | - |
//! | completion DW0 | bytes of the whole part | 0 | 0 |
//! | completion DW1 | 1: the part exists | 0 | 0 |
//!
//! What does not fit in one command is transferred in pieces, in order. A read from byte 0 takes a copy of the part,
//! from which the following pieces are read; a write takes effect when its last piece has arrived. A read of the
//! journal returns all its pages, each after its length ([`push_page`]); a write appends one.
//!
//! | status | when |
//! |---|---|
//! | LBA Out of Range | a superblock, stripe or unit out of range |
//! | Invalid Field in Command | a read of no units; more units than a stripe has; an undefined priority, part or action; no superblocks, or more than a transfer holds; an unsupported mode; reserved bytes of metadata that are not 0 |
//! | Command Sequence Error | a piece out of order; a mode for a superblock that is not erased |
//! | Write Fault | a program or copy that is out of order, or of a superblock that must be erased, or that failed; an erase that failed |
//! | Unrecovered Read Error | a copy of unreadable units: nothing is programmed |
//!
//! What it does not do: it does not order commands in flight (a host that needs order waits for completions), and it
//! has no logical blocks, no mapping, no wear leveling and no retries.

use crate::nvme::{Sqe, VendorOpcode, assert_offsets};
use byteway_content::UNIT_BYTES;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Command Set Identifier, among those for vendors.
pub const CSI: u8 = 0x30;

/// Maximum number of units in a stripe: a read selects them by a mask.
pub const UNITS_MAX: u32 = 64;
/// The number of an unreadable or unprogrammed stripe.
pub const NO_NUMBER: u64 = u64::MAX;
/// The logical address of a unit without metadata: padding, or an unreadable unit.
pub const NO_LPA: u64 = u64::MAX;
/// Mask of the priority.
const PRIORITY: u32 = 0xf;

/// The beginning of the Identify Namespace data structure, 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawFlashIdentify {
    /// [`RawFlashIdentify::VERSION`].
    pub version: u16,
    /// Flags: [`RawFlashIdentify::ONE_BIT`] and following.
    pub flags: u16,
    /// Number of channels.
    pub channels: u32,
    /// Dies per channel.
    pub ways: u32,
    /// Planes per die.
    pub planes: u32,
    /// Superblocks per die.
    pub blocks: u32,
    /// Stripes per superblock.
    pub pages: u32,
    /// Size of a page in bytes, without metadata.
    pub page_bytes: u32,
    /// Stripes that share the cells of a wordline, with several bits per cell.
    pub wordline: u32,
    /// Age of the medium, in nanoseconds.
    pub calendar_ns: u64,
    #[doc(hidden)]
    pub reserved_40: [u8; 24],
}

assert_offsets!(RawFlashIdentify: 64; version = 0, flags = 2, channels = 4, ways = 8, planes = 12, blocks = 16,
    pages = 20, page_bytes = 24, wordline = 28, calendar_ns = 32);

impl RawFlashIdentify {
    /// The version of this command set.
    pub const VERSION: u16 = 1;
    /// Superblocks can store one bit per cell.
    pub const ONE_BIT: u16 = 1 << 0;
    /// Reads, programs and erases can fail.
    pub const CAN_FAIL: u16 = 1 << 1;
    /// The medium is new: never programmed or erased, system area empty.
    pub const IS_NEW: u16 = 1 << 2;

    /// Decodes the beginning of an Identify Namespace data structure; `None` if it is too short or of another version.
    pub fn parse(bytes: &[u8]) -> Option<RawFlashIdentify> {
        let (this, _) = RawFlashIdentify::read_from_prefix(bytes).ok()?;
        (this.version == Self::VERSION).then_some(this)
    }
}

/// A superblock, as Raw Report describes it, 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawBlock {
    /// Number of programmed stripes, torn ones included; the next stripe to program.
    pub programmed: u32,
    /// Flags: [`RawBlock::BAD`] and following.
    pub flags: u32,
    /// Program/erase cycles.
    pub erases: u32,
    /// The part of `erases` since the medium was made.
    pub erases_since_made: u32,
    /// Senses since the last erase.
    pub reads: u32,
    #[doc(hidden)]
    pub reserved_20: [u8; 4],
    /// Time at which its first stripe was programmed, in nanoseconds since the medium was made.
    pub programmed_at_ns: u64,
}

assert_offsets!(RawBlock: 32; programmed = 0, flags = 4, erases = 8, erases_since_made = 12, reads = 16,
    programmed_at_ns = 24);

impl RawBlock {
    /// Bytes of a descriptor.
    pub const SIZE: usize = 32;
    /// Marked as bad.
    pub const BAD: u32 = 1 << 0;
    /// Must be erased before it is programmed.
    pub const UNSTABLE: u32 = 1 << 1;
    /// Stores one bit per cell.
    pub const ONE_BIT: u32 = 1 << 2;

    /// The whole descriptors in `bytes`.
    pub fn parse_all(bytes: &[u8]) -> impl Iterator<Item = RawBlock> + '_ {
        let (whole, _) = bytes.as_chunks::<{ Self::SIZE }>();
        whole.iter().map(|bytes| zerocopy::transmute!(*bytes))
    }
}

/// The metadata of a unit, 24 bytes: its spare area, and its parts that were unreadable before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawUnit {
    /// Logical address that it was programmed for.
    pub lpa: u64,
    /// Sequence number among the versions of that address.
    pub sequence: u64,
    /// Bit mask of parts of 512 bytes that were lost before they were programmed here.
    pub marred: u8,
    #[doc(hidden)]
    pub reserved_17: [u8; 7],
}

assert_offsets!(RawUnit: 24; lpa = 0, sequence = 8, marred = 16);

/// Length of the metadata of `units` units, in bytes.
pub const fn metadata_bytes(units: u32) -> u32 {
    8 + units * size_of::<RawUnit>() as u32
}

/// Length of `units` units with their metadata, in bytes.
pub const fn payload_bytes(units: u32) -> u32 {
    units * UNIT_BYTES as u32 + metadata_bytes(units)
}

/// Length of the addresses of `units` units with their metadata, in bytes: the payload of Raw Copy.
pub const fn copy_bytes(units: u32) -> u32 {
    units * 8 + metadata_bytes(units)
}

/// Appends the metadata of units of one stripe.
pub fn push_metadata(into: &mut Vec<u8>, number: u64, units: impl Iterator<Item = RawUnit>) {
    into.extend_from_slice(&number.to_le_bytes());
    units.for_each(|unit| into.extend_from_slice(unit.as_bytes()));
}

/// Decodes the number of the stripe, and the metadata of all whole units; `None` if `bytes` is too short for a number,
/// or reserved bytes are not 0.
pub fn metadata(bytes: &[u8]) -> Option<(u64, impl Iterator<Item = RawUnit> + '_)> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    let (units, _) = rest.as_chunks::<{ size_of::<RawUnit>() }>();
    let unit = |bytes: &[u8; size_of::<RawUnit>()]| -> RawUnit { zerocopy::transmute!(*bytes) };
    let is_clean = units.iter().all(|bytes| unit(bytes).reserved_17 == [0; 7]);
    is_clean.then(|| (u64::from_le_bytes(*number), units.iter().map(unit)))
}

/// A Raw Read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawRead {
    /// Superblock.
    pub block: u32,
    /// Stripe in the superblock.
    pub stripe: u32,
    /// Bit mask of the units.
    pub mask: u64,
    /// Priority; 0 is the most urgent.
    pub priority: u8,
    /// Transfer the metadata only. This takes the sense of one unit nevertheless.
    pub metadata_only: bool,
}

impl RawRead {
    const METADATA_ONLY: u32 = 1 << 8;

    /// Decodes the entry.
    pub const fn parse(sqe: &Sqe) -> RawRead {
        RawRead {
            block: sqe.cdw10,
            stripe: sqe.cdw11,
            mask: sqe.cdw14 as u64 | (sqe.cdw15 as u64) << 32,
            priority: (sqe.cdw12 & PRIORITY) as u8,
            metadata_only: sqe.cdw12 & Self::METADATA_ONLY != 0,
        }
    }

    /// Builds the entry, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let only = if self.metadata_only { Self::METADATA_ONLY } else { 0 };
        Sqe {
            cdw10: self.block,
            cdw11: self.stripe,
            cdw12: u32::from(self.priority) & PRIORITY | only,
            cdw14: self.mask as u32,
            cdw15: (self.mask >> 32) as u32,
            ..Sqe::new(VendorOpcode::RAW_READ, cid, nsid)
        }
    }

    /// Number of selected units.
    pub const fn units(&self) -> u32 {
        self.mask.count_ones()
    }

    /// Length of its data, in bytes.
    pub const fn bytes(&self) -> u32 {
        if self.metadata_only { metadata_bytes(self.units()) } else { payload_bytes(self.units()) }
    }
}

/// A Raw Program, or a Raw Copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawProgram {
    /// Superblock.
    pub block: u32,
    /// Stripe in the superblock.
    pub stripe: u32,
    /// Number of units, from the first of the stripe on; the rest is padding (all, if 0).
    pub units: u8,
    /// Priority; 0 is the most urgent.
    pub priority: u8,
}

impl RawProgram {
    /// Decodes the entry.
    pub const fn parse(sqe: &Sqe) -> RawProgram {
        RawProgram {
            block: sqe.cdw10,
            stripe: sqe.cdw11,
            units: (sqe.cdw12 >> 16 & 0x7f) as u8,
            priority: (sqe.cdw12 & PRIORITY) as u8,
        }
    }

    /// Builds the entry of a Raw Program or a Raw Copy, without its data pointer.
    pub fn sqe(&self, opcode: VendorOpcode, cid: u16, nsid: u32) -> Sqe {
        let units = u32::from(self.units) & 0x7f;
        Sqe {
            cdw10: self.block,
            cdw11: self.stripe,
            cdw12: u32::from(self.priority) & PRIORITY | units << 16,
            ..Sqe::new(opcode, cid, nsid)
        }
    }
}

/// A Raw Erase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawErase {
    /// Superblock.
    pub block: u32,
    /// Priority; 0 is the most urgent.
    pub priority: u8,
}

impl RawErase {
    /// Decodes the entry.
    pub const fn parse(sqe: &Sqe) -> RawErase {
        RawErase { block: sqe.cdw10, priority: (sqe.cdw12 & PRIORITY) as u8 }
    }

    /// The entry.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let cdw12 = u32::from(self.priority) & PRIORITY;
        Sqe { cdw10: self.block, cdw12, ..Sqe::new(VendorOpcode::RAW_ERASE, cid, nsid) }
    }
}

/// A Raw Report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawReport {
    /// First superblock.
    pub first: u32,
    /// Number of superblocks.
    pub count: u32,
}

impl RawReport {
    /// Decodes the entry.
    pub const fn parse(sqe: &Sqe) -> RawReport {
        RawReport { first: sqe.cdw10, count: sqe.cdw11 }
    }

    /// Builds the entry, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe { cdw10: self.first, cdw11: self.count, ..Sqe::new(VendorOpcode::RAW_REPORT, cid, nsid) }
    }
}

/// The action of a Raw Manage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawAction {
    /// 0: completes when everything completed before is durable.
    Sync,
    /// 1: marks a superblock as bad, permanently.
    MarkBad {
        /// The superblock.
        block: u32,
    },
    /// 2: sets the number of bits per cell of an erased superblock.
    SetMode {
        /// The superblock.
        block: u32,
        /// One bit per cell; otherwise the maximum.
        one_bit: bool,
    },
    /// 3: removes the oldest pages of the journal.
    CutJournal {
        /// Number of pages; a greater number than there are removes all.
        pages: u32,
    },
}

impl RawAction {
    /// Decodes the entry; `None` if the action is undefined.
    pub const fn parse(sqe: &Sqe) -> Option<RawAction> {
        match (sqe.cdw10, sqe.cdw12) {
            (0, _) => Some(RawAction::Sync),
            (1, _) => Some(RawAction::MarkBad { block: sqe.cdw11 }),
            (2, 0) => Some(RawAction::SetMode { block: sqe.cdw11, one_bit: false }),
            (2, 1) => Some(RawAction::SetMode { block: sqe.cdw11, one_bit: true }),
            (3, _) => Some(RawAction::CutJournal { pages: sqe.cdw11 }),
            _ => None,
        }
    }

    /// The entry.
    pub fn sqe(self, cid: u16, nsid: u32) -> Sqe {
        let (cdw10, cdw11, cdw12) = match self {
            RawAction::Sync => (0, 0, 0),
            RawAction::MarkBad { block } => (1, block, 0),
            RawAction::SetMode { block, one_bit } => (2, block, one_bit as u32),
            RawAction::CutJournal { pages } => (3, pages, 0),
        };
        Sqe { cdw10, cdw11, cdw12, ..Sqe::new(VendorOpcode::RAW_MANAGE, cid, nsid) }
    }
}

/// A part of the system area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawPart {
    /// The first root.
    Root0 = 0,
    /// The second root.
    Root1 = 1,
    /// The record.
    Record = 2,
    /// The journal.
    Journal = 3,
}

impl RawPart {
    const ALL: [RawPart; 4] = [RawPart::Root0, RawPart::Root1, RawPart::Record, RawPart::Journal];
}

/// A Raw System Read or Raw System Write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawSystem {
    /// The part to read or write.
    pub part: RawPart,
    /// Size of the buffer, or of the piece, in bytes.
    pub bytes: u32,
    /// Offset in the part, in bytes.
    pub offset: u32,
    /// Total length of the pieces of a write, in bytes.
    pub total: u32,
}

impl RawSystem {
    /// Maximum length of a part that is written, in bytes.
    pub const TOTAL_MAX: u32 = 64 << 20;

    /// Decodes the entry; `None` if the part is undefined.
    pub fn parse(sqe: &Sqe) -> Option<RawSystem> {
        let part = *RawPart::ALL.get(sqe.cdw10 as usize)?;
        Some(RawSystem { part, bytes: sqe.cdw11, offset: sqe.cdw12, total: sqe.cdw13 })
    }

    /// Builds the entry, without its data pointer.
    pub fn sqe(&self, opcode: VendorOpcode, cid: u16, nsid: u32) -> Sqe {
        let (cdw10, cdw11) = (self.part as u32, self.bytes);
        Sqe { cdw10, cdw11, cdw12: self.offset, cdw13: self.total, ..Sqe::new(opcode, cid, nsid) }
    }
}

/// Appends a page of the journal, after its length.
pub fn push_page(into: &mut Vec<u8>, page: &[u8]) {
    into.extend_from_slice(&(page.len() as u32).to_le_bytes());
    into.extend_from_slice(page);
}

/// The pages in `bytes`, up to the first that is truncated.
pub fn pages(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        let (page, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = behind;
        Some(page)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a program would go to another stripe than the host meant.
    #[test]
    fn commands_come_back_as_they_were_built() {
        for (metadata_only, bytes) in [(false, 2 * 4096 + 56), (true, 56)] {
            let read = RawRead { block: 7, stripe: 9, mask: 1 << 63 | 1, priority: 4, metadata_only };
            assert_eq!((RawRead::parse(&read.sqe(1, 2)), read.bytes()), (read, bytes));
        }
        let program = RawProgram { block: u32::MAX, stripe: 3, units: 64, priority: 2 };
        for opcode in [VendorOpcode::RAW_PROGRAM, VendorOpcode::RAW_COPY] {
            let sqe = program.sqe(opcode, 1, 2);
            assert_eq!((RawProgram::parse(&sqe), sqe.opcode()), (program, opcode.0));
        }
        let erase = RawErase { block: 5, priority: 3 };
        assert_eq!(RawErase::parse(&erase.sqe(1, 2)), erase);
        let report = RawReport { first: 4, count: 100 };
        assert_eq!(RawReport::parse(&report.sqe(1, 2)), report);
        for action in [
            RawAction::Sync,
            RawAction::MarkBad { block: 8 },
            RawAction::SetMode { block: 8, one_bit: true },
            RawAction::SetMode { block: 8, one_bit: false },
            RawAction::CutJournal { pages: 12 },
        ] {
            assert_eq!(RawAction::parse(&action.sqe(1, 2)), Some(action));
        }
        for part in RawPart::ALL {
            let system = RawSystem { part, bytes: 4096, offset: 8192, total: 1 << 20 };
            assert_eq!(RawSystem::parse(&system.sqe(VendorOpcode::RAW_SYSTEM_WRITE, 1, 2)), Some(system));
        }
    }

    /// Without this an undefined code would be taken for a defined one.
    #[test]
    fn what_there_is_not_is_told() {
        let sqe = |cdw10, cdw12| Sqe { cdw10, cdw12, ..Sqe::new(VendorOpcode::RAW_MANAGE, 1, 2) };
        assert_eq!(RawAction::parse(&sqe(4, 0)), None);
        assert_eq!(RawAction::parse(&sqe(2, 2)), None);
        assert_eq!(RawSystem::parse(&sqe(4, 0)), None);
        assert_eq!(RawFlashIdentify::parse(&[0; 64]), None);
        assert_eq!(RawFlashIdentify::parse(&[1; 63]), None);
    }

    /// Without this a unit would be returned with another's spare area, or hostile bytes would crash the drive.
    #[test]
    fn metadata_comes_back_and_hostile_bytes_end() {
        let units: Vec<RawUnit> = (0..3)
            .map(|n| RawUnit { lpa: n, sequence: 10 + n, marred: n as u8, ..Default::default() })
            .collect();
        let mut bytes = Vec::new();
        push_metadata(&mut bytes, 77, units.iter().copied());
        assert_eq!(bytes.len(), metadata_bytes(3) as usize);
        let (number, found) = metadata(&bytes).unwrap();
        assert_eq!((number, found.collect::<Vec<_>>()), (77, units));
        for cut in 0..bytes.len() {
            let found = metadata(&bytes[..cut]).map(|(_, units)| units.count());
            assert_eq!(found, (cut >= 8).then(|| (cut - 8) / 24));
        }
        bytes[8 + 17] = 1;
        assert!(metadata(&bytes).is_none(), "a reserved byte");
        let blocks = [RawBlock { programmed: 3, ..Default::default() }, RawBlock::default()];
        let bytes = blocks.as_bytes();
        assert_eq!(RawBlock::parse_all(bytes).collect::<Vec<_>>(), blocks);
        assert_eq!(RawBlock::parse_all(&bytes[..63]).count(), 1);
    }

    /// Without this the journal's records would be read at wrong offsets.
    #[test]
    fn pages_come_back_and_hostile_lengths_end() {
        let mut bytes = Vec::new();
        push_page(&mut bytes, b"one");
        push_page(&mut bytes, b"");
        push_page(&mut bytes, &[7; 5000]);
        assert_eq!(pages(&bytes).collect::<Vec<_>>(), [&b"one"[..], &b""[..], &[7; 5000][..]]);
        assert_eq!(pages(&bytes[..bytes.len() - 1]).count(), 2);
        assert_eq!(pages(&[255; 100]).count(), 0);
    }
}
