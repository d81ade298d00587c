//! Contents of a 4 KiB unit, and the self-describing test pattern that is stored in 16 bytes.
//!
//! A tester fills each logical block with a pattern that names the block: address, version and tag. A host always sees
//! real bytes. Inside the drive, a unit that holds only such blocks is stored as its [`Stamp`], and one whose 512-byte
//! blocks were written separately as the [`Pattern`] of each; every other unit keeps its bytes. So terabytes can be
//! written and verified on a laptop, and a real host's data takes the same path.

use crate::unit::{UNIT_BYTES, UnitBytes};
use multiversion::multiversion;
use std::rc::Rc;

/// The logical block sizes of patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum BlockSize {
    /// 512 bytes.
    B512 = 9,
    /// 4096 bytes.
    B4096 = 12,
}

impl BlockSize {
    /// Size in bytes.
    pub const fn bytes(self) -> usize {
        1 << self as u8
    }

    /// Number of blocks in a unit.
    pub const fn per_unit(self) -> usize {
        UNIT_BYTES / self.bytes()
    }

    /// Converts a size in bytes; `None` unless it is one of the two.
    pub fn from_bytes(bytes: u64) -> Option<Self> {
        match bytes {
            512 => Some(BlockSize::B512),
            4096 => Some(BlockSize::B4096),
            _ => None,
        }
    }
}

/// Identifies the pattern of consecutive logical blocks that were written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Logical block address of the first block.
    pub lba: u64,
    /// Number of the write of that block; 0 is the preconditioned contents.
    pub version: u32,
    /// Origin: identifies a namespace, a drive or a seed.
    pub tag: u16,
    /// Size of a block.
    pub block: BlockSize,
}

const WORD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Stamp {
    /// The first two words of a block, which encode the whole stamp.
    fn header(self, index: u64) -> [u64; 2] {
        let block = self.block as u64;
        [self.lba + index, u64::from(self.version) | u64::from(self.tag) << 32 | block << 48 | 0x5a00 << 48]
    }

    /// Start of the count in the remaining words: a checksum of the header, in effect.
    fn filler(header: [u64; 2]) -> u64 {
        let mixed = (header[0] ^ header[1].rotate_left(29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 31)
    }

    /// Writes the pattern over `bytes`, a whole number of blocks beginning with block `lba`.
    pub fn fill(self, bytes: &mut [u8]) {
        for (index, block) in bytes.chunks_exact_mut(self.block.bytes()).enumerate() {
            let header = self.header(index as u64);
            write_lines(first_line(header), block);
            block[..8].copy_from_slice(&header[0].to_le_bytes());
            block[8..16].copy_from_slice(&header[1].to_le_bytes());
        }
    }

    /// Whether `bytes` is this pattern, to the last byte.
    pub fn matches(self, bytes: &[u8]) -> bool {
        bytes.chunks_exact(self.block.bytes()).enumerate().all(|(index, block)| {
            let header = self.header(index as u64);
            let line = first_line(header);
            let (head, body) = block.split_at(LINE_BYTES);
            let words = header.iter().chain(&line[2..]).enumerate();
            are_lines(next_line(line), body)
                && words.fold(true, |all, (at, word)| all & (word_at(head, at * 8) == *word))
        })
    }

    /// Decodes the header of `bytes`, if it is that of a stamp. [`Stamp::matches`] verifies the rest.
    pub fn read_header(bytes: &[u8]) -> Option<Stamp> {
        if bytes.len() < 16 {
            return None;
        }
        let word = word_at(bytes, 8);
        let block = match word >> 48 {
            0x5a09 => BlockSize::B512,
            0x5a0c => BlockSize::B4096,
            _ => return None,
        };
        Some(Stamp { lba: word_at(bytes, 0), version: word as u32, tag: (word >> 32) as u16, block })
    }

    /// The stamp of a unit that holds nothing else.
    pub fn recognise(unit: &[u8]) -> Option<Stamp> {
        let stamp = Self::read_header(unit)?;
        (stamp.lba <= u64::MAX - 8 && stamp.matches(unit)).then_some(stamp)
    }
}

/// The pattern is generated eight words at a time, so that the compiler can use wide registers.
const LINE_WORDS: usize = 8;
const LINE_BYTES: usize = LINE_WORDS * 8;

/// Contents of a block's first line without a header: words that count up from a checksum of the header.
fn first_line(header: [u64; 2]) -> [u64; LINE_WORDS] {
    let filler = Stamp::filler(header);
    std::array::from_fn(|index| filler.wrapping_add(WORD.wrapping_mul(index as u64)))
}

fn next_line(line: [u64; LINE_WORDS]) -> [u64; LINE_WORDS] {
    line.map(|word| word.wrapping_add(WORD.wrapping_mul(LINE_WORDS as u64)))
}

/// Writes lines that count up from `line`.
#[multiversion(targets("x86_64+avx2"))]
fn write_lines(mut line: [u64; LINE_WORDS], bytes: &mut [u8]) {
    for into in bytes.as_chunks_mut::<LINE_BYTES>().0 {
        for (into, word) in into.as_chunks_mut::<8>().0.iter_mut().zip(line) {
            *into = word.to_le_bytes();
        }
        line = next_line(line);
    }
}

/// Whether the bytes are lines that count up from `line`.
#[multiversion(targets("x86_64+avx2"))]
fn are_lines(mut line: [u64; LINE_WORDS], bytes: &[u8]) -> bool {
    for from in bytes.as_chunks::<LINE_BYTES>().0 {
        let expected: [u8; LINE_BYTES] = zerocopy::transmute!(line.map(u64::to_le));
        if *from != expected {
            return false;
        }
        line = next_line(line);
    }
    true
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Whether all bytes are zeroes. `bytes`: a whole number of lines.
fn are_zero(bytes: &[u8]) -> bool {
    debug_assert!(bytes.len().is_multiple_of(LINE_BYTES));
    // Combine the words first: a comparison per line would call memcmp for each.
    let is_zero = |line: &[u8; LINE_BYTES]| line.iter().fold(0, |all, byte| all | byte) == 0;
    bytes.as_chunks::<LINE_BYTES>().0.iter().all(is_zero)
}

/// Granularity of unreadable parts of a unit, in bytes: the smallest logical block.
pub const MARRED_BYTES: usize = 512;

/// Blocks of [`MARRED_BYTES`] in a unit.
pub const BLOCKS: usize = UNIT_BYTES / MARRED_BYTES;

/// Maximum length of a head; a longer one would not save much.
const HEAD_BYTES_MAX: usize = UNIT_BYTES / 2;

/// A unit with unreadable parts: marked by the host (Write Uncorrectable), or lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marred {
    /// The bytes; zeroes where they are unreadable.
    pub bytes: [u8; UNIT_BYTES],
    /// Bit mask of the unreadable parts of [`MARRED_BYTES`], the first part in the lowest bit. Never 0.
    pub blocks: u8,
}

/// Contents of a whole unit, or of a block of [`MARRED_BYTES`], that a name describes without any byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Zeroes only.
    Zero,
    /// A test pattern only.
    Stamp(Stamp),
}

const _: () = assert!(size_of::<Pattern>() == 16);

impl Pattern {
    /// Writes the contents to `bytes`, a whole number of blocks.
    pub fn fill(self, bytes: &mut [u8]) {
        match self {
            Pattern::Zero => bytes.fill(0),
            Pattern::Stamp(stamp) => stamp.fill(bytes),
        }
    }

    /// The pattern of a block of [`MARRED_BYTES`]; `None` for other bytes, or a part of a larger block.
    pub fn of_block(block: &[u8]) -> Option<Pattern> {
        match Stamp::read_header(block) {
            Some(stamp) if stamp.block.bytes() == block.len() && stamp.matches(block) => {
                Some(Pattern::Stamp(stamp))
            }
            Some(_) => None,
            None => are_zero(block).then_some(Pattern::Zero),
        }
    }

    /// The pattern `blocks` blocks later, if both blocks were written together.
    fn further(self, blocks: usize) -> Option<Pattern> {
        match self {
            Pattern::Zero => Some(Pattern::Zero),
            Pattern::Stamp(stamp) => {
                let lba = stamp.lba.checked_add(blocks as u64)?;
                Some(Pattern::Stamp(Stamp { lba, ..stamp }))
            }
        }
    }
}

/// The contents of a unit. Clones share memory.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Content {
    /// Zeroes: never written, or deallocated.
    #[default]
    Zero,
    /// A test pattern.
    Stamp(Stamp),
    /// Blocks of [`MARRED_BYTES`] with a pattern each.
    Blocks(Rc<[Pattern; BLOCKS]>),
    /// Anything else.
    Bytes(UnitBytes),
    /// Like `Bytes`, for few bytes followed by zeroes.
    Head(Rc<Box<[u8]>>),
    /// Bytes with unreadable parts.
    Marred(Rc<Marred>),
}

const _: () = assert!(size_of::<Content>() == 16);

/// Whether patterns may be kept as stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Store every byte (`store = "ram"`).
    Bytes,
    /// Store test patterns as stamps, everything else as bytes (`store = "stamp"`).
    Stamps,
}

impl From<Pattern> for Content {
    fn from(pattern: Pattern) -> Content {
        match pattern {
            Pattern::Zero => Content::Zero,
            Pattern::Stamp(stamp) => Content::Stamp(stamp),
        }
    }
}

impl Content {
    /// The pattern of the whole unit; `None` if there is none.
    #[inline]
    pub fn pattern(&self) -> Option<Pattern> {
        match self {
            Content::Zero => Some(Pattern::Zero),
            Content::Stamp(stamp) => Some(Pattern::Stamp(*stamp)),
            Content::Blocks(_) | Content::Bytes(_) | Content::Head(_) | Content::Marred(_) => None,
        }
    }

    /// The pattern of each block of [`MARRED_BYTES`]; `None` if a block has none.
    pub fn blocks(&self) -> Option<[Pattern; BLOCKS]> {
        let first = match self {
            Content::Blocks(blocks) => return Some(**blocks),
            Content::Zero => Pattern::Zero,
            Content::Stamp(stamp) if stamp.block == BlockSize::B512 => Pattern::Stamp(*stamp),
            Content::Stamp(_) | Content::Bytes(_) | Content::Head(_) | Content::Marred(_) => return None,
        };
        let mut blocks = [first; BLOCKS];
        for (index, block) in blocks.iter_mut().enumerate() {
            *block = first.further(index)?;
        }
        Some(blocks)
    }

    /// A unit with these blocks of [`MARRED_BYTES`]: zeroes, and patterns of blocks of that size.
    pub fn of_blocks(blocks: &[Pattern; BLOCKS]) -> Content {
        let first = blocks[0];
        match blocks.iter().enumerate().all(|(index, block)| first.further(index) == Some(*block)) {
            true => first.into(),
            false => Content::Blocks(Rc::new(*blocks)),
        }
    }

    /// The content of `unit`, [`UNIT_BYTES`] long.
    pub fn of(unit: &[u8], keep: Keep) -> Content {
        if keep == Keep::Stamps {
            if let Some(stamp) = Stamp::recognise(unit) {
                return Content::Stamp(stamp);
            }
            let mut blocks = [Pattern::Zero; BLOCKS];
            let mut each = blocks.iter_mut().zip(unit.chunks_exact(MARRED_BYTES));
            if each.all(|(block, bytes)| Pattern::of_block(bytes).map(|pattern| *block = pattern).is_some()) {
                return Content::of_blocks(&blocks);
            }
        }
        Content::Bytes(UnitBytes::copied(unit.try_into().expect("a unit is 4 KiB")))
    }

    /// A unit of these bytes. Trailing zeroes are not stored if they are the greater part.
    pub fn of_bytes(unit: &UnitBytes) -> Content {
        let head = unit.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if head > HEAD_BYTES_MAX {
            Content::Bytes(unit.clone())
        } else {
            Content::Head(Rc::new(unit[..head].into()))
        }
    }

    /// Writes the whole unit to `unit`, [`UNIT_BYTES`] long.
    pub fn write_to(&self, unit: &mut [u8]) {
        match self {
            Content::Zero => unit.fill(0),
            Content::Stamp(stamp) => stamp.fill(unit),
            Content::Blocks(blocks) => {
                blocks.iter().zip(unit.chunks_exact_mut(MARRED_BYTES)).for_each(|(block, at)| block.fill(at));
            }
            Content::Bytes(bytes) => unit.copy_from_slice(&bytes[..]),
            Content::Head(head) => {
                let (bytes, rest) = unit.split_at_mut(head.len());
                bytes.copy_from_slice(head);
                rest.fill(0);
            }
            Content::Marred(marred) => unit.copy_from_slice(&marred.bytes),
        }
    }

    /// A unit that is unreadable as a whole.
    pub fn unreadable() -> Content {
        Content::Marred(Rc::new(Marred { bytes: [0; UNIT_BYTES], blocks: u8::MAX }))
    }

    /// Bit mask of the unreadable parts, as [`Marred::blocks`]; 0 if there are none.
    #[inline]
    pub fn marred(&self) -> u8 {
        match self {
            Content::Marred(marred) => marred.blocks,
            Content::Zero | Content::Stamp(_) | Content::Blocks(_) | Content::Bytes(_) | Content::Head(_) => {
                0
            }
        }
    }

    /// The first unreadable byte in the range of `bytes` bytes from `offset` on.
    pub fn first_marred(&self, offset: usize, bytes: usize) -> Option<usize> {
        let marred = self.marred() & marred_parts(offset, bytes);
        (marred != 0).then(|| offset.max(marred.trailing_zeros() as usize * MARRED_BYTES))
    }

    /// The contents after `edit` has changed the bytes and the mask of unreadable parts.
    pub fn edited(&self, keep: Keep, edit: impl FnOnce(&mut [u8; UNIT_BYTES], &mut u8)) -> Content {
        let mut bytes = [0; UNIT_BYTES];
        self.write_to(&mut bytes);
        let mut blocks = self.marred();
        edit(&mut bytes, &mut blocks);
        if blocks == 0 {
            return Content::of(&bytes, keep);
        }
        for (part, bytes) in bytes.chunks_exact_mut(MARRED_BYTES).enumerate() {
            if blocks & 1 << part != 0 {
                bytes.fill(0); // an unreadable unit must not keep old bytes
            }
        }
        Content::Marred(Rc::new(Marred { bytes, blocks }))
    }

    /// Writes the part of the unit from `offset` on to `part`.
    pub fn write_part(&self, offset: usize, part: &mut [u8]) {
        if offset == 0 && part.len() == UNIT_BYTES {
            return self.write_to(part);
        }
        match self {
            Content::Zero => part.fill(0),
            Content::Bytes(bytes) => part.copy_from_slice(&bytes[offset..offset + part.len()]),
            Content::Marred(marred) => part.copy_from_slice(&marred.bytes[offset..offset + part.len()]),
            Content::Head(head) => {
                let held = head.get(offset..).unwrap_or_default();
                let (bytes, rest) = part.split_at_mut(held.len().min(part.len()));
                bytes.copy_from_slice(&held[..bytes.len()]);
                rest.fill(0);
            }
            Content::Stamp(_) | Content::Blocks(_) => {
                let is_blocks =
                    offset.is_multiple_of(MARRED_BYTES) && part.len().is_multiple_of(MARRED_BYTES);
                if let Some(blocks) = self.blocks().filter(|_| is_blocks) {
                    let blocks = &blocks[offset / MARRED_BYTES..];
                    let each = blocks.iter().zip(part.chunks_exact_mut(MARRED_BYTES));
                    return each.for_each(|(block, at)| block.fill(at));
                }
                let mut unit = [0; UNIT_BYTES];
                self.write_to(&mut unit);
                part.copy_from_slice(&unit[offset..offset + part.len()]);
            }
        }
    }
}

/// Bit mask of the parts that a range touches, as [`Marred::blocks`].
pub const fn marred_parts(offset: usize, bytes: usize) -> u8 {
    if bytes == 0 {
        return 0;
    }
    let (first, last) = (offset / MARRED_BYTES, (offset + bytes - 1) / MARRED_BYTES);
    (u8::MAX << first) & (u8::MAX >> (UNIT_BYTES / MARRED_BYTES - 1 - last))
}

#[cfg(test)]
mod tests {
    use super::*;

    // One block too many refuses good data; one too few returns lost data as zeroes.
    #[test]
    fn parts_that_cannot_be_read_are_told_to_the_block() {
        assert_eq!(marred_parts(0, 4096), 0xff);
        assert_eq!(marred_parts(512, 512), 0b10);
        assert_eq!(marred_parts(511, 2), 0b11);
        assert_eq!(marred_parts(3584, 512), 0x80);
        assert_eq!(marred_parts(100, 0), 0);
        let whole = Content::of(&[7; UNIT_BYTES], Keep::Stamps);
        let marred = whole.edited(Keep::Stamps, |_, blocks| *blocks |= 0b110);
        assert_eq!(marred.marred(), 0b110);
        assert_eq!(marred.first_marred(0, 512), None);
        assert_eq!(marred.first_marred(0, 4096), Some(512));
        assert_eq!(marred.first_marred(600, 10), Some(600));
        assert_eq!(marred.first_marred(1536, 2560), None);
        let mut bytes = [1; UNIT_BYTES];
        marred.write_to(&mut bytes);
        assert_eq!(
            (bytes[511], bytes[512], bytes[1535], bytes[1536]),
            (7, 0, 0, 7),
            "nothing is left of them"
        );
        let mut part = [1; 4];
        marred.write_part(510, &mut part);
        assert_eq!(part, [7, 7, 0, 0]);
    }

    // A block that is written again is readable again; after the last one the unit is an ordinary one.
    #[test]
    fn writing_clears_what_cannot_be_read() {
        let marred = Content::unreadable();
        let mended = marred.edited(Keep::Stamps, |bytes, blocks| {
            bytes.fill(3);
            *blocks = 0;
        });
        assert_eq!(mended, Content::of(&[3; UNIT_BYTES], Keep::Stamps));
        assert_eq!(marred.edited(Keep::Stamps, |_, blocks| *blocks &= 1).marred(), 1);
    }

    // A key-value store pads units with zeroes: they are not stored, but must be read.
    #[test]
    fn a_head_is_read_with_the_zeroes_behind_it() {
        for head in [0, 1, 700, HEAD_BYTES_MAX, HEAD_BYTES_MAX + 1, UNIT_BYTES] {
            let mut unit = [0; UNIT_BYTES];
            unit[..head].iter_mut().enumerate().for_each(|(at, byte)| *byte = 1 + at as u8 % 200);
            let content = Content::of_bytes(&unit.into());
            assert_eq!(matches!(content, Content::Head(_)), head <= HEAD_BYTES_MAX);
            let mut whole = [9; UNIT_BYTES];
            content.write_to(&mut whole);
            assert_eq!(whole, unit);
            for (offset, bytes) in
                [(0, 10), (690, 20), (699, 2), (700, 5), (2040, 100), (4000, 96), (0, 4096)]
            {
                let mut part = vec![9; bytes];
                content.write_part(offset, &mut part);
                assert_eq!(part, unit[offset..offset + bytes], "{bytes} of {head} from {offset}");
            }
        }
    }

    // A unit stored as a stamp must be restored to the byte, in both block sizes; otherwise verification would invent
    // data.
    #[test]
    fn a_pattern_is_recognised_and_comes_back_whole() {
        for block in [BlockSize::B512, BlockSize::B4096] {
            let stamp = Stamp { lba: 8 * 77, version: 3, tag: 9, block };
            let mut unit = [0u8; UNIT_BYTES];
            stamp.fill(&mut unit);
            let content = Content::of(&unit, Keep::Stamps);
            assert_eq!(content, Content::Stamp(stamp));
            let mut back = [0xffu8; UNIT_BYTES];
            content.write_to(&mut back);
            assert_eq!(unit, back);
        }
    }

    // Blocks written separately must be restored to the byte, in whole and in part, and be stored by name: a drive
    // under small writes would otherwise hold terabytes of bytes.
    #[test]
    fn blocks_of_their_own_patterns_come_back_whole() {
        let stamp = |lba, version| Pattern::Stamp(Stamp { lba, version, tag: 9, block: BlockSize::B512 });
        let run = std::array::from_fn(|index| stamp(80 + index as u64, 1));
        let mut mixed = run;
        (mixed[0], mixed[3], mixed[6]) = (Pattern::Zero, stamp(83, 2), stamp(7, 1));
        let zero = [Pattern::Zero; BLOCKS];
        for (blocks, is_named) in [(run, true), (mixed, false), (zero, true)] {
            let mut unit = [0xff; UNIT_BYTES];
            unit.chunks_exact_mut(MARRED_BYTES).zip(blocks).for_each(|(at, block)| block.fill(at));
            let content = Content::of(&unit, Keep::Stamps);
            assert_eq!((&content, content.blocks()), (&Content::of_blocks(&blocks), Some(blocks)));
            assert_eq!(content.pattern().is_some(), is_named);
            for (offset, bytes) in [(0, UNIT_BYTES), (512, 1024), (3584, 512), (100, 3000)] {
                let mut part = vec![0xff; bytes];
                content.write_part(offset, &mut part);
                assert_eq!(part, unit[offset..offset + bytes], "{bytes} from {offset}");
            }
            // One byte differs from the block's pattern: all bytes are stored.
            unit[3000] ^= 1;
            assert!(matches!(Content::of(&unit, Keep::Stamps), Content::Bytes(_)));
        }
    }

    // A flipped bit anywhere must be stored and read back; otherwise the drive would repair corruption unnoticed.
    #[test]
    fn a_flipped_bit_is_never_taken_for_the_pattern() {
        let stamp = Stamp { lba: 5, version: 1, tag: 0, block: BlockSize::B4096 };
        let mut unit = [0u8; UNIT_BYTES];
        stamp.fill(&mut unit);
        for bit in (0..UNIT_BYTES * 8).step_by(7) {
            unit[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(Content::of(&unit, Keep::Stamps), Content::Bytes(_)), "bit {bit}");
            unit[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
