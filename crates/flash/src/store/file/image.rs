//! The image of a checkpoint: the state of every superblock, and the system area. Written aside and renamed,
//! so that it is replaced atomically.

use super::bytes::{COUNT_32_MAX, COUNT_MAX, Reader, Writer};
use super::record::{KIND, lpa_bits, spare_of};
use crate::geometry::Geometry;
use crate::store::content::Dump;
use byteway_content::{Content, Keep, Marred, UNIT_BYTES};
use std::collections::VecDeque;
use std::rc::Rc;

/// Recorded state of a superblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Leading stripes that are programmed and durable. More may have been programmed since.
    pub(super) programmed: u32,
    /// Erases so far.
    pub(super) erases: u32,
    /// Generation: incremented when an erase starts.
    pub(super) generation: u32,
    /// Stripes in the base state.
    pub(super) base: u32,
    /// Sensings since its erase, as far as recorded.
    pub(super) reads: u32,
    /// Time of the first stripe's program, by the medium's calendar.
    pub(super) programmed_at_ns: u64,
    /// An erase has started and not ended.
    pub(super) is_erasing: bool,
    /// Whether the superblock is in one-bit mode.
    pub(super) is_one_bit: bool,
    /// Whether the superblock is marked as bad.
    pub(super) is_bad: bool,
}

const ENTRY_BYTES: usize = 29;

impl Entry {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for number in [self.programmed, self.erases, self.generation, self.base, self.reads] {
            out.u32(number);
        }
        out.u64(self.programmed_at_ns);
        let flags = [self.is_erasing, self.is_one_bit, self.is_bad];
        out.u8((0..).zip(flags).map(|(bit, flag)| u8::from(flag) << bit).sum());
    }

    /// Whether the values are possible in this geometry.
    pub(super) fn fits(&self, geometry: &Geometry) -> bool {
        self.programmed.max(self.base) <= geometry.pages
            && [self.erases, self.generation].iter().all(|count| *count <= COUNT_32_MAX)
            && self.programmed_at_ns <= COUNT_MAX
    }

    pub(super) fn read(reader: &mut Reader) -> Option<Entry> {
        let (programmed, erases) = (reader.u32()?, reader.u32()?);
        let (generation, base) = (reader.u32()?, reader.u32()?);
        let (reads, programmed_at_ns, flags) = (reader.u32()?, reader.u64()?, reader.u8()?);
        let [is_erasing, is_one_bit, is_bad] = [0, 1, 2].map(|bit| flags >> bit & 1 == 1);
        Some(Entry {
            programmed,
            erases,
            generation,
            base,
            reads,
            programmed_at_ns,
            is_erasing,
            is_one_bit,
            is_bad,
        })
    }
}

/// The system area, and the state saved at a power cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct System {
    pub(super) roots: [Option<Vec<u8>>; 2],
    pub(super) record: Option<Vec<u8>>,
    /// Journal pages of firmware, oldest first.
    pub(super) journal: VecDeque<Vec<u8>>,
    /// An encoded dump.
    pub(super) dump: Option<Vec<u8>>,
}

/// A whole checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Image {
    /// Number of the checkpoint; its journal has the same number.
    pub(super) number: u64,
    /// Number of starts of the drive.
    pub(super) epoch: u32,
    /// The drive was closed cleanly, and nothing has changed since.
    pub(super) is_clean: bool,
    /// Age of the medium in nanoseconds.
    pub(super) calendar_ns: u64,
    /// Stripes programmed in this start, all durable.
    pub(super) order: u64,
    pub(super) blocks: Vec<Entry>,
    /// Torn stripes: superblock and stripe.
    pub(super) torn: Vec<(u32, u32)>,
    pub(super) system: System,
}

const MAGIC: &[u8; 8] = b"BWCHKPT1";

impl Image {
    /// Upper bound of the file's bytes: all superblocks, each with some torn stripes, and firmware's data.
    pub(super) const BYTES_MAX: u64 = 8 << 30;

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.blocks.len() * ENTRY_BYTES + self.torn.len() * 8);
        out.extend_from_slice(MAGIC);
        out.u64(self.number);
        out.u32(self.epoch);
        out.u8(self.is_clean.into());
        out.u64(self.calendar_ns);
        out.u64(self.order);
        out.u32(self.blocks.len() as u32);
        self.blocks.iter().for_each(|entry| entry.write(&mut out));
        out.u32(self.torn.len() as u32);
        for (block, stripe) in &self.torn {
            out.u32(*block);
            out.u32(*stripe);
        }
        let System { roots: [first, second], record, journal, dump } = &self.system;
        out.u32(journal.len() as u32);
        journal.iter().for_each(|page| out.counted(page));
        for part in [first, second, record, dump] {
            out.u8(part.is_some().into());
            out.counted(part.as_deref().unwrap_or_default());
        }
        let crc = crc32c::crc32c(&out);
        out.u32(crc);
        out
    }

    /// Decodes a checkpoint; None unless it is intact.
    pub(super) fn of(bytes: &[u8]) -> Option<Image> {
        let (body, crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        if crc32c::crc32c(body).to_le_bytes() != crc {
            return None;
        }
        let mut reader = Reader(body);
        if reader.take(8)? != MAGIC {
            return None;
        }
        let (number, epoch) = (reader.u64()?, reader.u32()?);
        let (is_clean, calendar_ns, order) = (reader.u8()? != 0, reader.u64()?, reader.u64()?);
        let count = reader.u32()? as usize;
        if count > reader.0.len() / ENTRY_BYTES {
            return None;
        }
        let blocks = (0..count).map(|_| Entry::read(&mut reader)).collect::<Option<_>>()?;
        let count = reader.u32()? as usize;
        if count > reader.0.len() / 8 {
            return None;
        }
        let torn = (0..count).map(|_| Some((reader.u32()?, reader.u32()?))).collect::<Option<_>>()?;
        let count = reader.u32()? as usize;
        if count > reader.0.len() / 4 {
            return None;
        }
        let journal = (0..count).map(|_| reader.counted().map(<[u8]>::to_vec)).collect::<Option<_>>()?;
        let mut part = || {
            let is_there = reader.u8()? != 0;
            let bytes = reader.counted()?.to_vec();
            Some(is_there.then_some(bytes))
        };
        let system = System { roots: [part()?, part()?], record: part()?, journal, dump: part()? };
        Some(Image { number, epoch, is_clean, calendar_ns, order, blocks, torn, system })
    }
}

/// Kind of a unit in a dump: its bytes, a named pattern, or bytes of which some are unreadable. As in a
/// record, it shares its byte with the upper bits of the logical unit.
const BYTES: u8 = 0;
const STAMP: u8 = 1;
const MARRED: u8 = 2;
/// Blocks of a unit; those marked unreadable are not part of it.
const PART: u8 = 3;

/// Encodes a dump.
pub(super) fn dump_bytes(dump: &Dump) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + dump.units.len() * (UNIT_BYTES + 13) + dump.records.len());
    out.counted(&dump.records);
    let units = dump.units.iter().map(|unit| (unit, false));
    for ((spare, content), is_part) in units.chain(dump.parts.iter().map(|part| (part, true))) {
        let (lpa, above) = lpa_bits(*spare);
        out.u32(lpa);
        out.u64(spare.sequence);
        match content {
            _ if is_part => {
                out.u8(PART | above);
                out.u8(content.marred());
            }
            Content::Bytes(_) | Content::Head(_) => out.u8(BYTES | above),
            Content::Zero | Content::Stamp(_) | Content::Blocks(_) => out.u8(STAMP | above),
            Content::Marred(marred) => {
                out.u8(MARRED | above);
                out.u8(marred.blocks);
            }
        }
        let mut bytes = [0; UNIT_BYTES];
        content.write_to(&mut bytes);
        out.extend_from_slice(&bytes);
    }
    out
}

/// Decodes a dump; None if malformed.
pub(super) fn dump_of(bytes: &[u8]) -> Option<Dump> {
    let mut reader = Reader(bytes);
    let records = reader.counted()?.to_vec();
    let (mut units, mut parts) = (Vec::new(), Vec::new());
    while !reader.0.is_empty() {
        let (lpa, sequence, kind) = (reader.u32()?, reader.u64()?, reader.u8()?);
        let spare = spare_of(lpa, kind, sequence);
        let content = match kind & KIND {
            PART | MARRED => match (reader.u8()?, reader.take(UNIT_BYTES)?) {
                (0, bytes) => Content::of(bytes, Keep::Bytes),
                (blocks, bytes) => Content::Marred(Rc::new(Marred { bytes: bytes.try_into().ok()?, blocks })),
            },
            STAMP => Content::of(reader.take(UNIT_BYTES)?, Keep::Stamps),
            _ => Content::of(reader.take(UNIT_BYTES)?, Keep::Bytes),
        };
        if kind & KIND == PART { &mut parts } else { &mut units }.push((spare, content));
    }
    Some(Dump { units, parts, records })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Spare;

    // A checkpoint from a file may be anything: it is what was written, or it is refused.
    #[test]
    fn an_image_comes_back_whole_or_not_at_all() {
        let image = Image {
            number: 9,
            epoch: 2,
            is_clean: true,
            calendar_ns: 1 << 50,
            order: 77,
            blocks: (0..5).map(|erases| Entry { erases, ..Entry::default() }).collect(),
            torn: vec![(1, 2), (3, 4)],
            system: System {
                roots: [None, Some(vec![1, 2])],
                record: Some(vec![]),
                journal: [vec![7]].into(),
                dump: None,
            },
        };
        let bytes = image.to_bytes();
        assert_eq!(Image::of(&bytes), Some(image));
        for byte in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[byte] ^= 1;
            assert_eq!(Image::of(&wrong), None, "byte {byte}");
            assert_eq!(Image::of(&bytes[..byte]), None, "cut at {byte}");
        }
    }

    // What a drive with power-loss protection saved is all that it has of its buffer: also that something
    // can't be read.
    #[test]
    fn a_dump_comes_back() {
        let spare = |lpa| Spare { lpa, sequence: lpa + 7 };
        let marred = Content::Marred(Rc::new(Marred { bytes: [4; UNIT_BYTES], blocks: 3 }));
        let bytes = Content::Bytes([3; UNIT_BYTES].into());
        let units = vec![(spare(1), Content::Zero), (spare(2), bytes), (spare((1 << 34) + 3), marred)];
        let part = Content::Marred(Rc::new(Marred { bytes: [9; UNIT_BYTES], blocks: 0xfe }));
        let parts = vec![(spare(1), part), (spare((1 << 34) + 5), Content::Bytes([8; UNIT_BYTES].into()))];
        let dump = Dump { units, parts, records: vec![1, 2, 3] };
        let back = dump_of(&dump_bytes(&dump)).unwrap();
        assert_eq!((back.units, back.parts, back.records), (dump.units, dump.parts, dump.records));
    }
}
