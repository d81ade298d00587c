//! The root: the starting point of recovery. A checkpoint writes it into one of two slots of the system area
//! in turn.
//!
//! It locates the translation pages, and the stripe from which on the medium must be scanned for later
//! changes.

use crate::ftl::map::table::Entry;
use std::rc::Rc;

/// A run of translation pages that are in flash, or of which all units are unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) struct PageRun {
    pub(in crate::ftl) first: u32,
    pub(in crate::ftl) count: u32,
    /// Location of the first page, which is the only one if it is in flash.
    pub(in crate::ftl) place: Entry,
}

/// A root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::ftl) struct Root {
    /// Generation, increasing by one.
    pub(in crate::ftl) generation: u64,
    /// The translation pages reflect everything before this sequence number.
    pub(in crate::ftl) settled: u64,
    /// Everything with later sequence numbers is in stripes from this number on, or in `moving`.
    pub(in crate::ftl) first_stripe: u64,
    /// The next sequence number and the next stripe number.
    pub(in crate::ftl) next_sequence: u64,
    pub(in crate::ftl) next_number: u64,
    pub(in crate::ftl) power_cycles: u64,
    pub(in crate::ftl) unsafe_shutdowns: u64,
    /// Written at a shutdown.
    pub(in crate::ftl) is_clean: bool,
    /// The translation pages, by rising number.
    pub(in crate::ftl) pages: Vec<PageRun>,
    /// Stripes with lower numbers whose units may be nowhere else: superblock and stripe.
    pub(in crate::ftl) moving: Vec<(u32, u32)>,
}

/// Upper bound of every count. A larger value means damage.
pub(in crate::ftl) const COUNT_MAX: u64 = 1 << 62;

const MAGIC: u64 = 0x3154_4f4f_5257_4242; // "BBWROOT1"
/// Magic number of a root whose lists have 64-bit words, because an address exceeds 32 bits.
const WIDE_MAGIC: u64 = 0x3254_4f4f_5257_4242; // "BBWROOT2"
/// Words before the lists: magic, checksum, the fields in order, and the lists' lengths.
const HEADER_WORDS: usize = 12;

impl Root {
    /// Encodes the root.
    pub(in crate::ftl) fn encode(&self) -> Rc<[u8]> {
        let pages = self.pages.iter().flat_map(|PageRun { first, count, place }| {
            [u64::from(*first), u64::from(*count), place.kept().expect("a root holds no buffered location")]
        });
        let moving = self.moving.iter().flat_map(|(block, stripe)| [*block, *stripe].map(u64::from));
        let lists: Vec<u64> = pages.chain(moving).collect();
        let is_wide = lists.iter().any(|word| *word > u64::from(u32::MAX));
        let word_bytes = if is_wide { 8 } else { 4 };
        let mut bytes = Vec::with_capacity(HEADER_WORDS * 8 + lists.len() * word_bytes);
        let words = [
            if is_wide { WIDE_MAGIC } else { MAGIC },
            0,
            self.generation,
            self.settled,
            self.first_stripe,
            self.next_sequence,
            self.next_number,
            self.power_cycles,
            self.unsafe_shutdowns,
            u64::from(self.is_clean),
            self.pages.len() as u64,
            self.moving.len() as u64,
        ];
        bytes.extend(words.iter().flat_map(|word: &u64| word.to_le_bytes()));
        lists.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()[..word_bytes]));
        let checksum = crc32c::crc32c(&bytes[16..]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        bytes.into()
    }

    /// Decodes a root; None unless it is intact.
    pub(in crate::ftl) fn decode(bytes: &[u8]) -> Option<Root> {
        let (header, lists) = bytes.split_at_checked(HEADER_WORDS * 8)?;
        let mut words =
            header.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
        let (magic, checksum) = (words.next()?, words.next()?);
        let word_bytes = match magic {
            MAGIC => 4,
            WIDE_MAGIC => 8,
            _ => return None,
        };
        if checksum != u64::from(crc32c::crc32c(&bytes[16..])) {
            return None;
        }
        let mut root = Root {
            generation: words.next()?,
            settled: words.next()?,
            first_stripe: words.next()?,
            next_sequence: words.next()?,
            next_number: words.next()?,
            power_cycles: words.next()?,
            unsafe_shutdowns: words.next()?,
            is_clean: words.next()? == 1,
            ..Root::default()
        };
        let counts = [
            root.generation,
            root.settled,
            root.first_stripe,
            root.next_sequence,
            root.next_number,
            root.power_cycles,
            root.unsafe_shutdowns,
        ];
        if counts.iter().any(|count| *count > COUNT_MAX) {
            return None;
        }
        let (pages, moving) = (words.next()? as usize, words.next()? as usize);
        let mut words = lists.chunks_exact(word_bytes).map(|word| {
            let mut whole = [0; 8];
            whole[..word.len()].copy_from_slice(word);
            u64::from_le_bytes(whole)
        });
        let number = |word: Option<u64>| u32::try_from(word?).ok();
        for _ in 0..pages {
            let (first, count) = (number(words.next())?, number(words.next())?);
            root.pages.push(PageRun { first, count, place: Entry::of_kept(words.next()?) });
        }
        for _ in 0..moving {
            root.moving.push((number(words.next())?, number(words.next())?));
        }
        Some(root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_flash::Ppa;

    // A root that differs from what was written would lead anywhere: it is accepted whole or not at all.
    #[test]
    fn a_root_comes_back_whole_or_not_at_all() {
        for far in [77, 1 << 33] {
            check_root(far);
        }
        // Intact, yet impossible: the next number would overflow.
        let far = Root { next_sequence: u64::MAX, ..Root::default() };
        assert_eq!(Root::decode(&far.encode()), None);
    }

    fn check_root(ppa: u64) {
        let run = |first, count, place| PageRun { first, count, place };
        let root = Root {
            generation: 3,
            settled: 1 << 40,
            first_stripe: 7,
            next_sequence: 1 << 41,
            next_number: 9,
            power_cycles: 2,
            unsafe_shutdowns: 1,
            is_clean: true,
            pages: vec![run(0, 1, Entry::flash(Ppa(ppa))), run(4, 100, Entry::UNMAPPED)],
            moving: vec![(3, 4), (5, 6)],
        };
        let bytes = root.encode();
        assert_eq!(Root::decode(&bytes), Some(root));
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.to_vec();
            broken[bit / 8] ^= 1 << (bit % 8);
            // The upper half of the checksum's word is unused, and written as zero.
            assert_eq!(Root::decode(&broken), None, "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_eq!(Root::decode(&bytes[..length]), None, "{length} bytes");
        }
    }
}
