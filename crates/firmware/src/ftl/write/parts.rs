//! Absorbed parts: blocks that the host has written, waiting in DRAM for the rest of their units. See
//! [`FtlConfig::absorbs_parts`](crate::ftl::FtlConfig::absorbs_parts).
//!
//! A part is newer than what buffer and flash have of its unit. A write or deallocation of the whole unit
//! drops it at the same instant; a read of the unit overlays it.

use byteway_content::UnitBytes;
use byteway_content::{BLOCKS, Content, Keep, MARRED_BYTES, Marred, Pattern, UNIT_BYTES, marred_parts};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

/// Blocks of 512 bytes of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ftl) struct Patch {
    held: Held,
    /// One bit for each present block, the first one lowest. The content of other blocks is meaningless.
    blocks: u8,
}

/// Content of the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    /// Patterns, for which a small write takes little memory.
    Patterns([Pattern; BLOCKS]),
    /// Arbitrary bytes.
    Bytes(UnitBytes),
}

impl Held {
    /// Writes a block into `into`.
    fn write_block(&self, block: usize, into: &mut [u8]) {
        match self {
            Held::Patterns(patterns) => patterns[block].fill(into),
            Held::Bytes(bytes) => into.copy_from_slice(&bytes[block * MARRED_BYTES..][..MARRED_BYTES]),
        }
    }

    fn to_bytes(&self) -> UnitBytes {
        match self {
            Held::Patterns(patterns) => {
                let mut bytes = [0; UNIT_BYTES];
                Content::of_blocks(patterns).write_to(&mut bytes);
                bytes.into()
            }
            Held::Bytes(bytes) => bytes.clone(),
        }
    }
}

impl Patch {
    /// A patch without blocks.
    fn new() -> Patch {
        Patch { held: Held::Patterns([Pattern::Zero; BLOCKS]), blocks: 0 }
    }

    #[inline]
    fn has(&self, block: usize) -> bool {
        self.blocks >> block & 1 == 1
    }

    /// Whether all blocks are present.
    #[inline]
    pub(in crate::ftl) fn is_whole(&self) -> bool {
        self.blocks == u8::MAX
    }

    /// Content of the unit when this overlays `old`. Unreadable blocks of `old` stay so unless they are
    /// covered.
    pub(in crate::ftl) fn over(&self, old: &Content, keep: Keep) -> Content {
        let old = if self.is_whole() { &Content::Zero } else { old };
        if let (Held::Patterns(patterns), Keep::Stamps, Some(mut blocks)) = (&self.held, keep, old.blocks()) {
            for (block, at) in blocks.iter_mut().enumerate().filter(|(block, _)| self.has(*block)) {
                *at = patterns[block];
            }
            return Content::of_blocks(&blocks);
        }
        old.edited(keep, |bytes, marred| {
            let blocks = bytes.chunks_exact_mut(MARRED_BYTES).enumerate();
            for (block, into) in blocks.filter(|(block, _)| self.has(*block)) {
                self.held.write_block(block, into);
            }
            *marred &= !self.blocks;
        })
    }

    fn write(&mut self, offset: usize, bytes: &[u8], keep: Keep) {
        self.blocks |= marred_parts(offset, bytes.len());
        if let (Held::Patterns(patterns), Keep::Stamps) = (&mut self.held, keep) {
            let places = patterns[offset / MARRED_BYTES..].iter_mut();
            let mut each = places.zip(bytes.chunks_exact(MARRED_BYTES));
            if each.all(|(place, block)| Pattern::of_block(block).map(|pattern| *place = pattern).is_some()) {
                return;
            }
        }
        let mut held = self.held.to_bytes();
        // Drops this reference, so that the bytes are unshared and change in place.
        self.held = Held::Patterns([Pattern::Zero; BLOCKS]);
        held.make_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.held = Held::Bytes(held);
    }

    /// Encodes for saving: missing blocks are marked unreadable.
    fn to_saved(&self) -> Content {
        let bytes = self.held.to_bytes();
        match self.blocks {
            u8::MAX => Content::Bytes(bytes),
            blocks => Content::Marred(Rc::new(Marred { bytes: *bytes, blocks: !blocks })),
        }
    }

    /// The reverse of `to_saved`.
    fn of_saved(saved: &Content) -> Patch {
        let mut bytes = [0; UNIT_BYTES];
        saved.write_to(&mut bytes);
        Patch { held: Held::Bytes(bytes.into()), blocks: !saved.marred() }
    }
}

/// The parts of a unit.
struct Part {
    /// Order in which units got their first part.
    sequence: u64,
    patch: Rc<Patch>,
    /// Being merged, with the unit locked: parts that arrive now are merged with it.
    is_held: bool,
}

/// The waiting parts, by unit.
pub(in crate::ftl) struct Parts {
    most: usize,
    keep: Keep,
    units: BTreeMap<u64, Part>,
    /// Units that no merger has claimed, and units being merged, by sequence number.
    waiting: BTreeMap<u64, u64>,
    claimed: BTreeMap<u64, u64>,
    /// Completely present units, with their sequence numbers; some may be gone. They are merged without a
    /// read.
    whole: VecDeque<(u64, u64)>,
    next_sequence: u64,
    /// Units that got their first part before this sequence number must be merged soon.
    flush_to: u64,
    /// Memory of former patches, for reuse.
    spare: Vec<Rc<Patch>>,
}

impl Parts {
    /// Parts of at most `most` units. `keep` determines how merged units are stored.
    pub(in crate::ftl) fn new(most: u32, keep: Keep) -> Self {
        Parts {
            most: most as usize,
            keep,
            units: BTreeMap::new(),
            waiting: BTreeMap::new(),
            claimed: BTreeMap::new(),
            whole: VecDeque::new(),
            next_sequence: 1,
            flush_to: 0,
            spare: Vec::new(),
        }
    }

    /// Number of units with parts.
    #[inline]
    pub(in crate::ftl) fn len(&self) -> usize {
        self.units.len()
    }

    /// The parts of a unit.
    #[inline]
    pub(in crate::ftl) fn get(&self, lpa: u64) -> Option<&Rc<Patch>> {
        if self.units.is_empty() {
            return None;
        }
        self.units.get(&lpa).map(|part| &part.patch)
    }

    /// Content of a unit: the parts over what lies beneath.
    pub(in crate::ftl) fn over(&self, patch: &Patch, old: &Content) -> Content {
        patch.over(old, self.keep)
    }

    /// Whether a part of this unit can be accepted now.
    pub(in crate::ftl) fn has_space(&self, lpa: u64) -> bool {
        self.units.len() < self.most || self.units.contains_key(&lpa)
    }

    /// Whether the unit is locked by its merger.
    pub(in crate::ftl) fn is_held(&self, lpa: u64) -> bool {
        self.units.get(&lpa).is_some_and(|part| part.is_held)
    }

    /// Absorbs whole blocks of a unit. Returns whether it had parts already.
    pub(in crate::ftl) fn absorb(&mut self, lpa: u64, offset: usize, bytes: &[u8]) -> bool {
        if let Some(part) = self.units.get_mut(&lpa) {
            let was_whole = part.patch.is_whole();
            // Copies if a reader still holds the old state.
            Rc::make_mut(&mut part.patch).write(offset, bytes, self.keep);
            if !was_whole && part.patch.is_whole() {
                self.whole.push_back((lpa, part.sequence));
            }
            return true;
        }
        let mut patch = self.spare.pop().unwrap_or_else(|| Rc::new(Patch::new()));
        let fresh = Rc::make_mut(&mut patch);
        *fresh = Patch::new();
        fresh.write(offset, bytes, self.keep);
        self.add(lpa, patch);
        false
    }

    fn add(&mut self, lpa: u64, patch: Rc<Patch>) {
        debug_assert!(!self.units.contains_key(&lpa), "a unit has one patch");
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        if patch.is_whole() {
            self.whole.push_back((lpa, sequence));
        }
        self.waiting.insert(sequence, lpa);
        self.units.insert(lpa, Part { sequence, patch, is_held: false });
    }

    /// Removes the parts of a unit.
    pub(in crate::ftl) fn remove(&mut self, lpa: u64) -> Option<Rc<Patch>> {
        if self.units.is_empty() {
            return None;
        }
        let Part { sequence, patch, .. } = self.units.remove(&lpa)?;
        self.waiting.remove(&sequence);
        self.claimed.remove(&sequence);
        Some(patch)
    }

    /// Drops the parts of a unit. Returns whether there were any.
    #[inline]
    pub(in crate::ftl) fn drop_unit(&mut self, lpa: u64) -> bool {
        match self.remove(lpa) {
            None => false,
            Some(patch) => {
                self.give_back(patch);
                true
            }
        }
    }

    /// Drops the parts of these units. Returns the number of units that had any.
    pub(in crate::ftl) fn drop_units(&mut self, units: Range<u64>) -> u32 {
        let mut dropped = 0;
        while let Some(lpa) = self.units.range(units.clone()).next().map(|(lpa, _)| *lpa) {
            dropped += u32::from(self.drop_unit(lpa));
        }
        dropped
    }

    /// Takes back the memory of a patch.
    pub(in crate::ftl) fn give_back(&mut self, patch: Rc<Patch>) {
        if self.spare.len() < self.most {
            self.spare.push(patch);
        }
    }

    /// Sequence number of the next unit.
    pub(in crate::ftl) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Everything before this sequence number has been merged or dropped.
    pub(in crate::ftl) fn settled(&self) -> u64 {
        let first = |parts: &BTreeMap<u64, u64>| parts.first_key_value().map(|(sequence, _)| *sequence);
        [first(&self.waiting), first(&self.claimed)].into_iter().flatten().min().unwrap_or(self.next_sequence)
    }

    /// Requests that all present parts are merged soon.
    pub(in crate::ftl) fn hurry(&mut self) {
        self.flush_to = self.next_sequence;
    }

    /// Whether a unit should be merged: one that a flush waits for, a complete one, or the oldest when more
    /// than half of the space is in use.
    pub(in crate::ftl) fn is_urgent(&self) -> bool {
        let is_late = || self.waiting.first_key_value().is_some_and(|(first, _)| *first < self.flush_to);
        !self.whole.is_empty() || self.waiting.len() > self.most / 2 || is_late()
    }

    /// Claims a unit for merging. Returns the unit and its sequence number.
    pub(in crate::ftl) fn claim(&mut self) -> Option<(u64, u64)> {
        let (sequence, lpa) = loop {
            // The oldest before those that need no read, because a flush waits for them.
            let oldest = self.waiting.first_key_value().map(|(sequence, lpa)| (*sequence, *lpa));
            match oldest {
                Some((sequence, lpa)) if sequence < self.flush_to || self.waiting.len() > self.most / 2 => {
                    break (sequence, lpa);
                }
                _ => {}
            }
            let (lpa, sequence) = self.whole.pop_front()?;
            if self.waiting.contains_key(&sequence) {
                break (sequence, lpa);
            }
        };
        self.waiting.remove(&sequence);
        self.claimed.insert(sequence, lpa);
        Some((lpa, sequence))
    }

    /// Returns a claim.
    pub(in crate::ftl) fn disclaim(&mut self, lpa: u64, sequence: u64) {
        if self.claimed.remove(&sequence).is_some() {
            self.waiting.insert(sequence, lpa);
        }
    }

    /// Marks a claimed unit as locked. Returns its parts; None if the claim is outdated.
    pub(in crate::ftl) fn hold(&mut self, lpa: u64, sequence: u64) -> Option<&Patch> {
        let part = self.units.get_mut(&lpa).filter(|part| part.sequence == sequence)?;
        debug_assert!(!part.is_held, "one merger holds a unit");
        part.is_held = true;
        Some(&part.patch)
    }

    /// Parts to save at a power cut, except for units that `leaves_out` selects: sequence number, unit, and
    /// encoded parts.
    pub(in crate::ftl) fn saved(
        &self,
        leaves_out: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = (u64, u64, Content)> {
        let kept = self.units.iter().filter(move |(lpa, _)| !leaves_out(**lpa));
        kept.map(|(lpa, part)| (part.sequence, *lpa, part.patch.to_saved()))
    }

    /// Restores saved parts of a unit, beyond the limit if necessary.
    pub(in crate::ftl) fn restore(&mut self, lpa: u64, saved: &Content) {
        self.drop_unit(lpa);
        self.add(lpa, Rc::new(Patch::of_saved(saved)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_content::{BlockSize, Stamp};

    fn block(fill: u8) -> [u8; 512] {
        [fill; 512]
    }

    fn bytes_of(content: &Content) -> [u8; UNIT_BYTES] {
        let mut bytes = [0; UNIT_BYTES];
        content.write_to(&mut bytes);
        bytes
    }

    // A block overlaid at the wrong place, or without content, would be foreign data.
    #[test]
    fn a_part_covers_its_blocks_and_no_others() {
        let mut parts = Parts::new(4, Keep::Bytes);
        assert!(!parts.absorb(9, 512, &block(1)));
        assert!(parts.absorb(9, 1024, &[2; 1024]));
        let patch = parts.get(9).unwrap().clone();
        let old = Content::of(&[7; UNIT_BYTES], Keep::Bytes);
        let new = bytes_of(&patch.over(&old, Keep::Bytes));
        let expected = [7, 1, 2, 2, 7, 7, 7, 7];
        assert!(new.chunks_exact(512).zip(expected).all(|(bytes, fill)| *bytes == block(fill)));
        let lost = patch.over(&Content::unreadable(), Keep::Bytes);
        assert_eq!(lost.marred(), 0b1111_0001, "what was never written still can't be read");
        // A concurrent reader keeps the state that it has read.
        parts.absorb(9, 512, &block(5));
        assert_eq!(bytes_of(&patch.over(&old, Keep::Bytes)), new);
        // Saved and back.
        let saved: Vec<_> = parts.saved(|lpa| lpa == 8).collect();
        let mut back = Parts::new(4, Keep::Bytes);
        back.restore(saved[0].1, &saved[0].2);
        assert_eq!(back.get(9), parts.get(9));
    }

    // Reused memory must not show its previous content.
    #[test]
    fn a_part_begins_with_nothing() {
        let mut parts = Parts::new(4, Keep::Bytes);
        parts.absorb(1, 0, &[3; UNIT_BYTES]);
        assert!(parts.drop_unit(1) && !parts.drop_unit(1));
        parts.absorb(2, 0, &block(4));
        let held = bytes_of(&parts.get(2).unwrap().over(&Content::Zero, Keep::Bytes));
        assert_eq!(
            (held[..512].to_vec(), held[512..].iter().all(|byte| *byte == 0)),
            (block(4).to_vec(), true)
        );
    }

    // A part kept by pattern name must overlay like its bytes, and become bytes as soon as one of its blocks
    // has no pattern.
    #[test]
    fn patterns_lie_over_whatever_is_beneath_as_their_bytes_do() {
        let stamp = |lba, block| Stamp { lba, version: 4, tag: 2, block };
        let mut own = [0; UNIT_BYTES];
        own.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8 | 1);
        let beneath = [
            Content::Zero,
            Content::Stamp(stamp(72, BlockSize::B512)),
            Content::Stamp(stamp(9, BlockSize::B4096)),
            Content::Bytes(own.into()),
            Content::unreadable(),
        ];
        let mut first = [0; 1024];
        stamp(74, BlockSize::B512).fill(&mut first[..512]); // and a block of zeroes
        for has_bytes in [false, true] {
            let (mut named, mut bytes) = (Parts::new(4, Keep::Stamps), Parts::new(4, Keep::Bytes));
            for parts in [&mut named, &mut bytes] {
                parts.absorb(9, 1024, &first);
                if has_bytes {
                    parts.absorb(9, 3584, &block(8));
                }
            }
            assert_eq!(matches!(named.get(9).unwrap().held, Held::Bytes(_)), has_bytes);
            for old in &beneath {
                let [named, bytes] = [&named, &bytes].map(|parts| parts.over(parts.get(9).unwrap(), old));
                assert_eq!((bytes_of(&named), named.marred()), (bytes_of(&bytes), bytes.marred()), "{old:?}");
            }
            let saved = |parts: &Parts| {
                let (.., content) = parts.saved(|_| false).next().unwrap();
                (bytes_of(&content), content.marred())
            };
            assert_eq!(saved(&named), saved(&bytes));
        }
    }

    // A part that is never merged blocks every flush; one merged too early costs a read that later parts
    // would have shared.
    #[test]
    fn what_is_late_or_whole_or_too_much_is_merged() {
        let mut parts = Parts::new(4, Keep::Bytes);
        (1..=2).for_each(|lpa| _ = parts.absorb(lpa, 0, &block(1)));
        assert!(!parts.is_urgent());
        assert_eq!(parts.claim(), None);
        parts.absorb(3, 0, &block(1));
        assert!(parts.is_urgent(), "more than half of the space is in use");
        assert_eq!((parts.claim(), parts.claim()), (Some((1, 1)), None));
        parts.absorb(3, 512, &[1; UNIT_BYTES - 512]);
        assert_eq!((parts.claim(), parts.settled()), (Some((3, 3)), 1));
        parts.hurry();
        parts.absorb(4, 0, &block(1));
        assert!(!parts.has_space(5) && parts.has_space(4));
        assert_eq!((parts.claim(), parts.claim()), (Some((2, 2)), None));
        assert!(parts.hold(1, 1).is_some() && parts.hold(1, 2).is_none());
        assert!(parts.is_held(1) && !parts.is_held(2));
        parts.disclaim(2, 2);
        assert_eq!(parts.claim(), Some((2, 2)));
        assert_eq!(parts.drop_units(0..3), 2);
        assert_eq!((parts.settled(), parts.len()), (3, 2));
        assert_eq!((parts.drop_units(0..9), parts.settled()), (2, 5));
    }
}
