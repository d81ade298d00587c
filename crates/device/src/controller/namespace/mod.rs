//! Namespaces: runs of the drive's units, interpreted by a command set.
//!
//! | file | what |
//! |---|---|
//! | [`inventory`] | the namespaces of a drive |
//! | [`capacity`] | the part of the drive that each occupies |
//! | [`record`] | non-volatile state of namespaces and controller |

use crate::config::{CommandSet, NamespaceConfig};
use crate::controller::namespace::capacity::Extent;
use byteway_content::{BlockSize, UNIT_BYTES};
use byteway_wire::nvme::feature::WriteProtection;
use byteway_wire::nvme::identify::IdentifyNamespaceIndependent;
use byteway_wire::nvme::{IdentifyNamespace, Status};
use std::any::Any;
use std::cell::{Cell, RefCell};

pub mod capacity;
pub mod inventory;
pub mod record;

/// A namespace. Every executing command holds a reference, so a reference count of 1 means that it is unused.
#[derive(Debug)]
pub struct Namespace {
    /// Identifier, from 1.
    pub nsid: u32,
    /// Unique among all namespaces that the drive has ever had.
    pub uid: u64,
    /// I/O command set.
    pub set: CommandSet,
    /// Size of a logical block; in a namespace without blocks, of a unit.
    pub block: BlockSize,
    /// Number of logical blocks; in a namespace without blocks, of units.
    pub blocks: u64,
    /// Extents of units on the drive, possibly more units than `blocks` needs.
    extents: Vec<Extent>,
    /// Whether it is attached to the controller.
    pub attached: Cell<bool>,
    /// Write protection state.
    pub protection: Cell<WriteProtection>,
    /// Remaining per cent of a format in progress; `None` if there is none.
    pub formatting: Cell<Option<u8>>,
    /// Status of refused commands; success: commands are accepted.
    pub refusal: Cell<Status>,
    /// State that its command set keeps for it while it is usable; the type is private to the set.
    contents: RefCell<Option<Box<dyn Any>>>,
}

/// The format of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// I/O command set.
    pub set: CommandSet,
    /// Size of a logical block; [`BlockSize::B4096`] without blocks.
    pub block: BlockSize,
}

impl Format {
    /// A block format.
    pub const fn blocks(block: BlockSize) -> Format {
        Format { set: CommandSet::Nvm, block }
    }

    /// The format of a command set without blocks.
    pub const fn of(set: CommandSet) -> Format {
        Format { set, block: BlockSize::B4096 }
    }

    /// Encoding in one byte of the record: log2 of the block size, or the code of a command set without blocks. The
    /// smallest block is 1 << 9, so the two don't collide.
    pub const fn code(self) -> u8 {
        match self.set {
            CommandSet::Nvm => self.block as u8,
            set => set as u8,
        }
    }

    /// The format without blocks that this byte encodes.
    pub fn of_code(code: u8) -> Option<Format> {
        let is_block_size = code >= BlockSize::B512 as u8;
        let set = CommandSet::ALL.iter().find(|set| !is_block_size && **set as u8 == code)?;
        Some(Format::of(*set))
    }
}

/// The byte range of a run of logical blocks, over units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First unit in the namespace.
    pub unit: u64,
    /// Number of units touched.
    pub units: u32,
    /// Offset in the first unit, in bytes.
    pub offset: u32,
    /// Length in bytes.
    pub bytes: u64,
}

impl Span {
    /// Whether it consists of whole units.
    pub fn is_whole(self) -> bool {
        self.offset == 0 && self.bytes.is_multiple_of(UNIT_BYTES as u64)
    }

    /// First and number of the whole units within; `None` if there is none.
    pub fn whole_units(self) -> Option<(u64, u64)> {
        let unit = UNIT_BYTES as u64;
        let first = u64::from(self.offset).div_ceil(unit);
        let end = (u64::from(self.offset) + self.bytes) / unit;
        (end > first).then(|| (self.unit + first, end - first))
    }

    /// The part in its unit `index`: offset in that unit, and bytes.
    pub fn part(self, index: u32) -> (usize, usize) {
        let offset = if index == 0 { self.offset as usize } else { 0 };
        let before = (u64::from(index) * UNIT_BYTES as u64).saturating_sub(u64::from(self.offset));
        (offset, (UNIT_BYTES - offset).min((self.bytes - before) as usize))
    }
}

/// The FNV-1a prime for 128 bits.
const FNV_PRIME: u128 = 1 << 88 | 0x13b;

/// Hashes of a drive's serial number, the base of its namespaces' identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveIdentity {
    short: u64,
    long: u128,
}

impl DriveIdentity {
    /// Identifiers derived from a serial number: FNV-1a with 64 and with 128 bits.
    pub fn new(serial: &str) -> Self {
        let short = serial
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        let long = serial.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME)
        });
        DriveIdentity { short, long }
    }
}

/// Limits that Identify reports of a namespace in addition to its own fields.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Identity of the drive.
    pub drive: DriveIdentity,
    /// Maximum data transfer, in bytes.
    pub transfer_bytes_max: u32,
    /// Units that the namespace occupies on the drive.
    pub units: u64,
    /// Several controllers share the namespace.
    pub is_shared: bool,
}

impl Namespace {
    /// A namespace of `blocks` blocks over `extents`, attached and ready. Without blocks, `blocks` counts units, and
    /// the namespace is ready once its command set has opened it.
    pub fn new(nsid: u32, uid: u64, format: Format, blocks: u64, extents: Vec<Extent>) -> Self {
        Namespace {
            nsid,
            uid,
            set: format.set,
            block: format.block,
            blocks,
            extents,
            attached: Cell::new(true),
            protection: Cell::default(),
            formatting: Cell::default(),
            refusal: Cell::default(),
            contents: RefCell::default(),
        }
    }

    /// The state that its command set keeps for it, cheap to clone. `None`: the namespace is not usable now.
    pub fn contents<T: Clone + 'static>(&self) -> Option<T> {
        self.contents.borrow().as_ref()?.downcast_ref::<T>().cloned()
    }

    /// Sets the state that its command set keeps for it.
    pub fn set_contents<T: Clone + 'static>(&self, contents: T) {
        self.contents.replace(Some(Box::new(contents)));
    }

    /// Removes that state.
    pub fn clear_contents(&self) {
        self.contents.replace(None);
    }

    /// The format.
    pub fn format(&self) -> Format {
        Format { set: self.set, block: self.block }
    }

    /// The namespaces of a new drive, laid out in order.
    pub fn layout(configs: &[NamespaceConfig]) -> Vec<Namespace> {
        let mut first = 0;
        let mut namespaces = Vec::new();
        for (index, config) in configs.iter().enumerate() {
            let nsid = index as u32 + 1;
            let extents = vec![Extent { at: 0, first, units: config.units }];
            let blocks = config.units * config.block.per_unit() as u64;
            let format = Format { set: config.set, block: config.block };
            namespaces.push(Namespace::new(nsid, nsid.into(), format, blocks, extents));
            first += config.units;
        }
        namespaces
    }

    /// The namespace after a format with `block`, over the same units. Without blocks, it stays the same, empty.
    pub fn formatted(&self, block: BlockSize) -> Namespace {
        let block = if self.set == CommandSet::Nvm { block } else { self.block };
        let blocks = self.units() * block.per_unit() as u64;
        let format = Format { block, ..self.format() };
        let formatted = Namespace::new(self.nsid, self.uid, format, blocks, self.extents.clone());
        formatted.attached.set(self.attached.get());
        formatted
    }

    /// Units that its blocks occupy.
    pub fn units(&self) -> u64 {
        self.blocks.div_ceil(self.block.per_unit() as u64)
    }

    /// First unit on the drive.
    pub fn first_unit(&self) -> u64 {
        self.extents.first().map_or(0, |extent| extent.first)
    }

    /// Extents of units on the drive.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The span of `blocks` blocks from `lba` on.
    ///
    /// # Errors
    /// LBA Out of Range.
    pub fn span(&self, lba: u64, blocks: u64) -> Result<Span, Status> {
        let end = lba.checked_add(blocks).filter(|end| *end <= self.blocks);
        if end.is_none() {
            return Err(Status::LBA_OUT_OF_RANGE.with_dnr());
        }
        let per_unit = self.block.per_unit() as u64;
        let offset = (lba % per_unit) as u32 * self.block.bytes() as u32;
        let bytes = blocks * self.block.bytes() as u64;
        let units = (u64::from(offset) + bytes).div_ceil(UNIT_BYTES as u64);
        Ok(Span { unit: lba / per_unit, units: units as u32, offset, bytes })
    }

    /// The first unit on the drive of `unit`, and how many of `units` units are contiguous from there: at least one.
    ///
    /// `unit` must lie in a span from [`Namespace::span`].
    #[inline]
    pub fn run(&self, unit: u64, units: u64) -> (u64, u64) {
        let extent = match &self.extents[..] {
            [only] => only,
            all => &all[all.partition_point(|extent| extent.at <= unit) - 1],
        };
        let offset = unit - extent.at;
        (extent.first + offset, units.min(extent.units - offset))
    }

    /// The write protection status, if it can't be written.
    #[inline]
    pub fn check_writable(&self) -> Result<(), Status> {
        match self.protection.get() {
            WriteProtection::None => Ok(()),
            _ => Err(Status::NAMESPACE_WRITE_PROTECTED.with_dnr()),
        }
    }

    /// The I/O Command Set Independent Identify Namespace data structure. `is_shared`: several controllers have the
    /// namespace.
    pub fn identify_independent(&self, is_shared: bool) -> IdentifyNamespaceIndependent {
        let ready = self.formatting.get().is_none();
        IdentifyNamespaceIndependent {
            nmic: u8::from(is_shared),
            nsattr: self.attributes(),
            fpi: IdentifyNamespace::FPI_SUPPORTED | self.formatting.get().unwrap_or(0),
            nstat: u8::from(ready),
            ..Default::default()
        }
    }

    pub(crate) fn attributes(&self) -> u8 {
        match self.protection.get() {
            WriteProtection::None => 0,
            _ => IdentifyNamespace::NSATTR_WRITE_PROTECTED,
        }
    }

    /// EUI-64: locally administered, derived from the drive's serial number and the unique identifier.
    pub fn eui64(&self, drive: DriveIdentity) -> [u8; 8] {
        let mut eui = (drive.short ^ self.uid.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes();
        eui[0] = eui[0] & 0xfc | 0x02;
        eui
    }

    /// NGUID: the EUI-64, extended by 8 bytes from the same sources.
    pub fn nguid(&self, drive: DriveIdentity) -> [u8; 16] {
        let extension = (self.unique(drive) >> 64) as u64;
        let mut nguid = [0; 16];
        nguid[..8].copy_from_slice(&extension.to_be_bytes());
        nguid[8..].copy_from_slice(&self.eui64(drive));
        nguid
    }

    /// UUID from the same sources: version 8, whose bits are vendor-specific (RFC 9562, 5.8).
    pub fn uuid(&self, drive: DriveIdentity) -> [u8; 16] {
        let mut uuid = self.unique(drive).to_be_bytes();
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }

    /// A number that is unlikely to occur twice among all drives: FNV-1a, continued over the unique identifier.
    fn unique(&self, drive: DriveIdentity) -> u128 {
        self.uid
            .to_be_bytes()
            .into_iter()
            .fold(drive.long, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // An off-by-one error at the end would give a tenant the first block of the next.
    #[test]
    fn spans_end_where_the_namespace_does() {
        let configs =
            [NamespaceConfig::blocks(4, BlockSize::B512), NamespaceConfig::blocks(4, BlockSize::B4096)];
        let both = Namespace::layout(&configs);
        assert_eq!(both[0].span(31, 1), Ok(Span { unit: 3, units: 1, offset: 7 * 512, bytes: 512 }));
        assert!(both[0].span(31, 2).is_err());
        assert!(both[0].span(u64::MAX, 2).is_err());
        assert_eq!(both[1].span(0, 4), Ok(Span { unit: 0, units: 4, offset: 0, bytes: 16384 }));
        assert_eq!(both[1].run(0, 4), (4, 4));
        assert!(both[1].span(4, 1).is_err());
        assert_eq!(both[0].span(7, 10).unwrap().units, 3);
        assert_eq!(both[0].span(7, 10).unwrap().whole_units(), Some((1, 1)));
        assert_eq!(both[0].span(1, 6).unwrap().whole_units(), None);
    }

    // A host that finds an identifier twice takes two namespaces for two paths to one.
    #[test]
    fn names_are_of_one_namespace_of_one_drive() {
        let hash = DriveIdentity::new("a").long;
        assert_eq!(hash, 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964, "FNV-1a with 128 bits");
        let mut names = std::collections::BTreeSet::new();
        for drive in ["S1", "S2"].map(DriveIdentity::new) {
            for uid in [1, 2, 3, 257] {
                let namespace = Namespace::new(1, uid, Format::blocks(BlockSize::B512), 8, Vec::new());
                assert!(names.insert(namespace.eui64(drive).to_vec()));
                assert!(names.insert(namespace.nguid(drive).to_vec()));
                assert!(names.insert(namespace.uuid(drive).to_vec()));
            }
        }
    }

    // A part that is a block too long writes blocks that the command does not name.
    #[test]
    fn a_span_is_the_sum_of_its_parts() {
        let configs = [NamespaceConfig::blocks(4, BlockSize::B512)];
        let span = Namespace::layout(&configs)[0].span(7, 10).unwrap();
        assert_eq!([0, 1, 2].map(|index| span.part(index)), [(3584, 512), (0, 4096), (0, 512)]);
        let one = Span { unit: 0, units: 1, offset: 512, bytes: 1024 };
        assert_eq!(one.part(0), (512, 1024));
    }

    // After the end of an extent lies another namespace.
    #[test]
    fn runs_end_where_their_extent_does() {
        let extents = vec![Extent { at: 0, first: 100, units: 4 }, Extent { at: 4, first: 8, units: 2 }];
        let namespace = Namespace::new(1, 1, Format::blocks(BlockSize::B4096), 6, extents);
        assert_eq!(namespace.run(0, 6), (100, 4));
        assert_eq!(namespace.run(3, 3), (103, 1));
        assert_eq!(namespace.run(4, 2), (8, 2));
        assert_eq!(namespace.run(5, 1), (9, 1));
    }
}
