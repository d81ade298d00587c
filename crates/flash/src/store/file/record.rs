//! The spare record: a unit's spare area in its file, 64 bytes, eight to a sector, so that no record is ever
//! torn.

use super::bytes::{COUNT_32_MAX, COUNT_MAX};
use crate::geometry::Ppa;
use crate::store::content::{NO_LPA, Spare};
use byteway_content::UnitBytes;
use byteway_content::{BlockSize, Content, Marred, Stamp, UNIT_BYTES};
use std::rc::Rc;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Size of a record.
pub(super) const RECORD_BYTES: usize = size_of::<Record>();

const _: () = assert!(RECORD_BYTES == 64);

/// Spare area of a unit, as encoded.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Record {
    /// Lower 32 bits of the logical unit.
    lpa: U32,
    /// Lower half: kind of the content, one of the constants below, never 0, which marks a record that was
    /// never written. Upper half: bits 32 to 35 of the logical unit.
    kind: u8,
    /// For a stamp, its block size; for a partly unreadable unit, the unreadable parts.
    detail: u8,
    /// Tag of a stamp.
    tag: U16,
    sequence: U64,
    /// The number of its stripe.
    pub(super) number: U64,
    stamp_lba: U64,
    /// Generation of the superblock at the time of the program.
    pub(super) generation: U32,
    /// Start of the drive that wrote it, the same for all units of a stripe.
    pub(super) epoch: U32,
    /// CRC-32C of the unit's bytes, if they are in the file; for a stamp, its version.
    word: U32,
    /// Time of the program of the superblock's first stripe, by the medium's calendar.
    begun_at_ns: U64,
    /// Stripes programmed before it since the start of the drive.
    order: U64,
    /// CRC-32C of all preceding fields and of the unit's address.
    crc: U32,
}

/// Bits of a byte that hold the kind.
pub(super) const KIND: u8 = 0xf;

const ZERO: u8 = 1;
const STAMP: u8 = 2;
const BYTES: u8 = 3;
/// Bytes of which some are unreadable, as `detail` says.
const MARRED: u8 = 4;

/// Encodes the logical unit of a spare area: its lower 32 bits, and a byte with the higher bits in the upper
/// half and the lower half free.
pub(super) fn lpa_bits(spare: Spare) -> (u32, u8) {
    match spare.lpa {
        NO_LPA => (u32::MAX, 0),
        lpa => (lpa as u32, ((lpa >> 32) as u8) << 4),
    }
}

/// The reverse. Padding is encoded as the largest 32-bit logical unit with sequence 0, which that unit itself
/// never has, for compatibility with existing files.
pub(super) fn spare_of(lpa: u32, byte: u8, sequence: u64) -> Spare {
    match u64::from(lpa) | u64::from(byte >> 4) << 32 {
        0xffff_ffff if sequence == 0 => Spare::PADDING,
        lpa => Spare { lpa, sequence },
    }
}

/// Fields that are the same for all units of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) number: u64,
    pub(super) generation: u32,
    pub(super) epoch: u32,
    /// Time of the program of the superblock's first stripe.
    pub(super) begun_at_ns: u64,
    /// Stripes programmed before it in that start.
    pub(super) order: u64,
}

impl Record {
    /// The record of a unit at `ppa`. Copies to `bytes` the unit's bytes, if they belong in the file.
    pub(super) fn of(
        ppa: Ppa,
        spare: Spare,
        content: &Content,
        origin: Origin,
        bytes: &mut [u8],
    ) -> (Record, bool) {
        let mut record = Record::new_zeroed();
        let (lpa, above) = lpa_bits(spare);
        record.lpa.set(lpa);
        record.sequence.set(spare.sequence);
        record.number.set(origin.number);
        record.generation.set(origin.generation);
        record.epoch.set(origin.epoch);
        record.begun_at_ns.set(origin.begun_at_ns);
        record.order.set(origin.order);
        let mut has_bytes = false;
        match content {
            Content::Zero => record.kind = ZERO,
            Content::Stamp(stamp) => {
                record.kind = STAMP;
                record.detail = stamp.block as u8;
                record.tag.set(stamp.tag);
                record.stamp_lba.set(stamp.lba);
                record.word.set(stamp.version);
            }
            Content::Blocks(_) | Content::Bytes(_) | Content::Head(_) => {
                record.kind = BYTES;
                has_bytes = true;
                content.write_to(bytes);
            }
            Content::Marred(marred) => {
                record.kind = MARRED;
                record.detail = marred.blocks;
                has_bytes = true;
                bytes.copy_from_slice(&marred.bytes);
            }
        }
        if has_bytes {
            record.word.set(crc32c::crc32c(bytes));
        }
        record.kind |= above;
        record.crc.set(record.sum(ppa));
        (record, has_bytes)
    }

    fn sum(&self, ppa: Ppa) -> u32 {
        // Above 2^32 the address is 8 bytes.
        let address = ppa.0.to_le_bytes();
        let crc = crc32c::crc32c(if ppa.0 >> 32 == 0 { &address[..4] } else { &address });
        crc32c::crc32c_append(crc, &self.as_bytes()[..RECORD_BYTES - 4])
    }

    fn kind(&self) -> u8 {
        self.kind & KIND
    }

    /// Whether the record is intact, belongs to `ppa`, and has counts within their bounds.
    pub(super) fn is_whole(&self, ppa: Ppa) -> bool {
        let Origin { number, generation, epoch, begun_at_ns, order } = self.origin();
        let counts = [number, begun_at_ns, order, self.sequence.get()];
        self.kind() != 0
            && self.crc.get() == self.sum(ppa)
            && counts.iter().all(|count| *count <= COUNT_MAX)
            && [generation, epoch].iter().all(|count| *count <= COUNT_32_MAX)
    }

    /// Origin of the stripe.
    pub(super) fn origin(&self) -> Origin {
        Origin {
            number: self.number.get(),
            generation: self.generation.get(),
            epoch: self.epoch.get(),
            begun_at_ns: self.begun_at_ns.get(),
            order: self.order.get(),
        }
    }

    /// The spare area of the unit.
    pub(super) fn spare(&self) -> Spare {
        spare_of(self.lpa.get(), self.kind, self.sequence.get())
    }

    /// Whether the unit's bytes are in the file.
    pub(super) fn has_bytes(&self) -> bool {
        matches!(self.kind(), BYTES | MARRED)
    }

    /// The content in `bytes`, if they are the unit's.
    pub(super) fn content_of(&self, bytes: UnitBytes) -> Option<Content> {
        if !self.is_of(&bytes[..]) {
            return None;
        }
        Some(match self.kind() {
            MARRED => Content::Marred(Rc::new(Marred { bytes: *bytes, blocks: self.detail })),
            _ => Content::Bytes(bytes),
        })
    }

    /// Whether `bytes` are the unit's, by checksum.
    pub(super) fn is_of(&self, bytes: &[u8]) -> bool {
        bytes.len() == UNIT_BYTES && crc32c::crc32c(bytes) == self.word.get()
    }

    /// Content of the unit, if it does not need the bytes.
    pub(super) fn content(&self) -> Option<Content> {
        match self.kind() {
            ZERO => Some(Content::Zero),
            STAMP => Some(Content::Stamp(Stamp {
                lba: self.stamp_lba.get(),
                version: self.word.get(),
                tag: self.tag.get(),
                block: BlockSize::from_bytes(1 << (self.detail & 31))?,
            })),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A unit beyond 2^32 would be taken for the one that many before it, or for padding, and the other way
    // round.
    #[test]
    fn units_and_addresses_of_more_than_32_bits_come_back() {
        let origin = Origin { number: 7, generation: 3, epoch: 2, begun_at_ns: 9, order: 5 };
        let mut bytes = [0; UNIT_BYTES];
        for (lpa, sequence) in [(0xffff_ffff, 1), (1 << 32, 1), ((1 << 35) - 1, 9), (5, 0), (NO_LPA, 0)] {
            let spare = Spare { lpa, sequence };
            for ppa in [Ppa(9), Ppa(u64::from(u32::MAX)), Ppa(1 << 32 | 9), Ppa((1 << 35) - 1)] {
                for content in [Content::Zero, Content::Bytes([5; UNIT_BYTES].into())] {
                    let (record, has_bytes) = Record::of(ppa, spare, &content, origin, &mut bytes);
                    assert_eq!((record.spare(), record.has_bytes()), (spare, has_bytes));
                    assert!(record.is_whole(ppa) && !record.is_whole(Ppa(ppa.0 ^ 1 << 32)), "{ppa:?}");
                }
            }
        }
        // As all drives have written padding.
        let (record, _) = Record::of(Ppa(0), Spare::PADDING, &Content::Zero, origin, &mut bytes);
        assert_eq!(record.as_bytes()[..5], [0xff, 0xff, 0xff, 0xff, ZERO]);
    }

    // A record that is taken for another unit's, or in which a bit has flipped, would give a host what it
    // never wrote.
    #[test]
    fn a_record_is_that_of_its_unit_or_none() {
        let origin = Origin { number: 7, generation: 3, epoch: 2, begun_at_ns: 9, order: 5 };
        let spare = Spare { lpa: 5, sequence: 9 };
        let stamp = Content::Stamp(Stamp { lba: 1 << 40, version: 8, tag: 3, block: BlockSize::B512 });
        let mut bytes = [0; UNIT_BYTES];
        for content in [Content::Zero, stamp] {
            let (record, has_bytes) = Record::of(Ppa(77), spare, &content, origin, &mut bytes);
            assert!(!has_bytes && record.is_whole(Ppa(77)) && !record.is_whole(Ppa(78)));
            assert_eq!((record.content(), record.spare(), record.origin()), (Some(content), spare, origin));
            for bit in 0..RECORD_BYTES * 8 {
                let mut bits = <[u8; RECORD_BYTES]>::try_from(record.as_bytes()).unwrap();
                bits[bit / 8] ^= 1 << (bit % 8);
                assert!(!Record::read_from_bytes(&bits).unwrap().is_whole(Ppa(77)), "bit {bit}");
            }
        }
        let (record, has_bytes) =
            Record::of(Ppa(1), spare, &Content::Bytes([5; UNIT_BYTES].into()), origin, &mut bytes);
        assert!(has_bytes && record.is_of(&[5; UNIT_BYTES]) && !record.is_of(&[4; UNIT_BYTES]));
        assert_eq!(record.content(), None);
        assert_eq!(record.content_of([5; UNIT_BYTES].into()), Some(Content::Bytes([5; UNIT_BYTES].into())));
        assert_eq!(record.content_of([4; UNIT_BYTES].into()), None);
        let marred = Content::Marred(Rc::new(Marred { bytes: [6; UNIT_BYTES], blocks: 0x81 }));
        let (record, has_bytes) = Record::of(Ppa(1), spare, &marred, origin, &mut bytes);
        assert!(has_bytes);
        assert_eq!(record.content_of(bytes.into()), Some(marred), "what can't be read stays so");
        assert!(!Record::new_zeroed().is_whole(Ppa(0)));
        // Intact, but no drive wrote it: a sequence number counted on from here would overflow at once.
        let far = Spare { sequence: u64::MAX, ..spare };
        assert!(!Record::of(Ppa(1), far, &Content::Zero, origin, &mut bytes).0.is_whole(Ppa(1)));
    }
}
