//! The journal of deallocations.
//!
//! What the host writes says in its spare area which unit it is, and which of that unit's states. What it deallocates
//! leaves no such trace: it is written down here. A record takes its number from the counter that numbers buffered units,
//! so it is known which of a unit's states it ends: all those before.
//!
//! The pages lie in the system area: they are small, belong to no superblock that would have to be collected, and can be
//! written whatever state the dies are in. So nobody who waits for the journal waits for a collector: collectors wait for
//! it, for no superblock may be erased while a deallocation that made units of it stale is not durable. An older copy of
//! such a unit may lie elsewhere, and would come back.
//!
//! It also says which dies' collectors have left a superblock (`duplicates`), as a deallocation of units behind the host's.
//!
//! There is always room for what is not written yet: when there is none for another record, the host waits for a
//! checkpoint, after which earlier records say nothing any more.

use crate::ftl::durable::root::COUNT_MAX;
use crate::ftl::space::Space;
use std::collections::VecDeque;
use std::rc::Rc;

/// A deallocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) struct Trim {
    pub(in crate::ftl) first: u64,
    pub(in crate::ftl) count: u64,
    /// States of its units with lower numbers are history.
    pub(in crate::ftl) sequence: u64,
}

const PAGE_BYTES: usize = 4096;
const HEADER_BYTES: usize = 16;
const MAGIC: u32 = 0x4a57_5942; // "BYWJ"
/// Of a page whose records name units with 64 bits.
const WIDE_MAGIC: u32 = 0x4b57_5942; // "BYWK"

/// Bytes of a record: the first unit and how many with as many each, and the number.
const fn record_bytes(is_wide: bool) -> usize {
    if is_wide { 24 } else { 16 }
}

/// Records of a page.
const fn page_records(is_wide: bool) -> usize {
    (PAGE_BYTES - HEADER_BYTES) / record_bytes(is_wide)
}

/// What is in the journal, and what is to come into it.
pub(in crate::ftl) struct Journal {
    /// Of each page in flash, the number of its last record. The oldest first.
    pages: VecDeque<u64>,
    /// How many pages there can be.
    most: usize,
    /// Records name units with 64 bits.
    is_wide: bool,
    /// Not durable, the oldest first.
    pending: VecDeque<Trim>,
    /// How many of those are in the page that is being written.
    writing: usize,
    /// Records before this number must not wait for a full page.
    wanted: u64,
    /// Records before this number say nothing any more when the checkpoint is written that is under way.
    sealed: u64,
    /// Collectors that hold an erase back.
    pub(in crate::ftl) waiting: Vec<u32>,
}

impl Journal {
    /// An empty one, for these units.
    pub(in crate::ftl) fn new(space: Space) -> Self {
        Journal {
            pages: VecDeque::new(),
            most: space.journal_pages as usize,
            is_wide: space.is_wide,
            pending: VecDeque::new(),
            writing: 0,
            wanted: 0,
            sealed: 0,
            waiting: Vec::new(),
        }
    }

    /// As a power cut left it: the pages' last numbers, and what was saved of the rest.
    pub(in crate::ftl) fn recovered(space: Space, pages: VecDeque<u64>, pending: VecDeque<Trim>) -> Self {
        Journal { pages, pending, ..Self::new(space) }
    }

    /// Whether there is nothing in it, and nothing to come.
    pub(in crate::ftl) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.pending.is_empty()
    }

    /// Whether another record can be taken.
    pub(in crate::ftl) fn has_room(&self) -> bool {
        let free = self.most.saturating_sub(self.pages.len() + usize::from(self.writing > 0));
        free * self.page_records() > self.pending.len() - self.writing
    }

    fn page_records(&self) -> usize {
        page_records(self.is_wide)
    }

    /// Whether a checkpoint is due, so that nobody comes to wait for room.
    pub(in crate::ftl) fn is_half_full(&self) -> bool {
        self.pages.len() * 2 >= self.most
    }

    /// Notes that `count` units from `first` are deallocated; `next` is the counter of numbers.
    pub(in crate::ftl) fn add(&mut self, first: u64, count: u64, next: &mut u64) {
        let is_open = self.writing < self.pending.len();
        if let Some(last) = self.pending.back_mut()
            && is_open
            && last.sequence >= self.sealed
            && last.first.checked_add(last.count) == Some(first)
            && last.sequence + 1 == *next
        {
            // Nothing has been numbered in between: it might as well have been one command.
            last.count += count;
            return;
        }
        self.pending.push_back(Trim { first, count, sequence: *next });
        *next += 1;
    }

    /// A checkpoint begins to write pages, with which records before this number will say nothing any more: what is noted
    /// from now on is no part of them.
    pub(in crate::ftl) fn seal(&mut self, sequence: u64) {
        self.sealed = self.sealed.max(sequence);
    }

    /// Notes that the collector of a die has left a superblock, of a drive with so many units of the host's. There need be no
    /// room: it is one record, and rare. A checkpoint can't be waited for where nothing moves.
    pub(in crate::ftl) fn note_left(&mut self, die: u32, user: u64, next: &mut u64) {
        self.add(user + u64::from(die), 1, next);
    }

    /// Every record before this number is durable.
    pub(in crate::ftl) fn durable_to(&self) -> u64 {
        self.pending.front().map_or(u64::MAX, |trim| trim.sequence)
    }

    /// Records before this number are wanted in flash. Whether there is anything to be written for that.
    pub(in crate::ftl) fn want(&mut self, sequence: u64) -> bool {
        self.wanted = self.wanted.max(sequence);
        self.is_due()
    }

    pub(super) fn is_due(&self) -> bool {
        self.writing == 0 && (self.pending.len() >= self.page_records() || self.durable_to() < self.wanted)
    }

    /// Whether a page is full, or wanted.
    pub(in crate::ftl) fn begin(&mut self) -> Option<Rc<[u8]>> {
        if !self.is_due() {
            return None;
        }
        self.writing = self.pending.len().min(self.page_records());
        Some(encode(self.pending.iter().take(self.writing), self.is_wide))
    }

    /// The page is written.
    pub(super) fn end(&mut self) {
        let last = self.pending.drain(..std::mem::take(&mut self.writing)).next_back();
        self.pages.extend(last.map(|trim| trim.sequence));
    }

    /// Records before this number say nothing any more. Gives how many pages, from the first, are to go.
    pub(in crate::ftl) fn pass(&mut self, sequence: u64) -> usize {
        let pages = self.pages.partition_point(|last| *last < sequence);
        self.pages.drain(..pages);
        if self.writing == 0 {
            let pending = self.pending.partition_point(|trim| trim.sequence < sequence);
            self.pending.drain(..pending);
        }
        pages
    }

    /// What is not durable, for capacitors to save.
    pub(in crate::ftl) fn dump(&self) -> Vec<u8> {
        let pending: Vec<Trim> = self.pending.iter().copied().collect();
        let pages = pending.chunks(self.page_records());
        pages.flat_map(|page| encode(page.iter(), self.is_wide).to_vec()).collect()
    }
}

impl Trim {
    /// The dies that it names as those whose collectors have left a superblock.
    pub(in crate::ftl) fn dies_left(&self, user: u64) -> std::ops::Range<u64> {
        let (first, end) = (self.first, self.first.saturating_add(self.count));
        first.saturating_sub(user)..end.saturating_sub(user)
    }
}

fn encode<'a>(records: impl Iterator<Item = &'a Trim>, is_wide: bool) -> Rc<[u8]> {
    let mut page = vec![0; PAGE_BYTES];
    let mut count = 0u32;
    let word_bytes = if is_wide { 8 } else { 4 };
    for (trim, bytes) in records.zip(page[HEADER_BYTES..].chunks_exact_mut(record_bytes(is_wide))) {
        let (first, rest) = bytes.split_at_mut(word_bytes);
        let (number, sequence) = rest.split_at_mut(word_bytes);
        first.copy_from_slice(&trim.first.to_le_bytes()[..word_bytes]);
        number.copy_from_slice(&trim.count.to_le_bytes()[..word_bytes]);
        sequence.copy_from_slice(&trim.sequence.to_le_bytes());
        count += 1;
    }
    page[..4].copy_from_slice(&if is_wide { WIDE_MAGIC } else { MAGIC }.to_le_bytes());
    page[8..12].copy_from_slice(&count.to_le_bytes());
    let checksum = crc32c::crc32c(&page[8..]);
    page[4..8].copy_from_slice(&checksum.to_le_bytes());
    page.into()
}

/// The records of pages, one behind another. A page that is not whole has none.
pub(in crate::ftl) fn decode(bytes: &[u8]) -> impl Iterator<Item = Trim> {
    let word =
        |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let long =
        move |bytes: &[u8], at: usize| u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32;
    let whole = move |page: &&[u8]| {
        [MAGIC, WIDE_MAGIC].contains(&word(page, 0)) && word(page, 4) == crc32c::crc32c(&page[8..])
    };
    bytes.chunks_exact(PAGE_BYTES).filter(whole).flat_map(move |page| {
        let is_wide = word(page, 0) == WIDE_MAGIC;
        let records = page[HEADER_BYTES..].chunks_exact(record_bytes(is_wide)).take(word(page, 8) as usize);
        let trims = records.map(move |record| match is_wide {
            false => Trim {
                first: word(record, 0).into(),
                count: word(record, 4).into(),
                sequence: long(record, 8),
            },
            true => Trim { first: long(record, 0), count: long(record, 8), sequence: long(record, 16) },
        });
        trims.filter(|trim| trim.sequence <= COUNT_MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // The host would wait for a checkpoint that waits for a collector that waits for a page that has no room.
    #[test]
    fn what_is_taken_has_room_in_flash() {
        for is_wide in [false, true] {
            check_room(Space { journal_pages: 3, ..Space::new(100, is_wide) });
        }
    }

    fn check_room(space: Space) {
        let mut journal = Journal::new(space);
        let mut next = 1;
        while journal.has_room() {
            journal.add(0, 1, &mut next);
            if next % 100 == 0 {
                journal.want(next);
                journal.begin().expect("it is wanted");
            }
            if next % 100 == 50 && journal.writing > 0 {
                journal.end();
            }
        }
        journal.want(next);
        while journal.writing > 0 || journal.begin().is_some() {
            journal.end();
        }
        assert!(journal.pending.is_empty() && journal.pages.len() <= 3, "{} pages", journal.pages.len());
        let last = journal.pages.back().copied();
        assert_eq!(journal.pass(last.map_or(0, |last| last + 1)), 3);
        assert!(journal.has_room());
    }

    // A record that reached over what was numbered in between would end states that came after it.
    #[test]
    fn neighbours_are_one_record_only_if_nothing_came_between() {
        let mut journal = Journal::new(Space::new(100, false));
        let mut next = 7;
        journal.add(10, 5, &mut next);
        journal.add(15, 5, &mut next);
        next += 1;
        journal.add(20, 5, &mut next);
        let trim = |first, count, sequence| Trim { first, count, sequence };
        let expected = [trim(10, 10, 7), trim(20, 5, 9)];
        assert_eq!(decode(&journal.dump()).collect::<Vec<_>>(), expected);
    }

    // A checkpoint that is under way takes the records with it that it reflects: what became part of one of them since
    // would go unnoticed, and what was deallocated and flushed would come back.
    #[test]
    fn what_comes_during_a_checkpoint_is_a_record_of_its_own() {
        let mut journal = Journal::new(Space::new(100, false));
        let mut next = 7;
        journal.add(0, 1024, &mut next);
        journal.seal(next);
        journal.add(1024, 1024, &mut next);
        journal.pass(8);
        let rest = Trim { first: 1024, count: 1024, sequence: 8 };
        assert_eq!(decode(&journal.dump()).collect::<Vec<_>>(), [rest]);
    }

    // A die that is not named is not searched; one that is named in vain takes time.
    #[test]
    fn dies_are_named_behind_the_units_of_the_host() {
        let mut journal = Journal::new(Space::new(100, false));
        let mut next = 7;
        journal.add(90, 10, &mut next);
        journal.note_left(0, 100, &mut next);
        journal.note_left(1, 100, &mut next);
        next += 1;
        journal.note_left(5, 100, &mut next);
        journal.add(10, 5, &mut next);
        let records: Vec<Trim> = decode(&journal.dump()).collect();
        let dies: Vec<u64> = records.iter().flat_map(|record| record.dies_left(100)).collect();
        assert_eq!(dies, [0, 1, 5]);
    }

    // Half a page must not be taken for records.
    #[test]
    fn a_page_that_is_not_whole_says_nothing() {
        for is_wide in [false, true] {
            let mut page = encode([Trim { first: 1, count: 2, sequence: 3 }].iter(), is_wide).to_vec();
            assert_eq!(decode(&page).count(), 1);
            page[20] ^= 1;
            assert_eq!(decode(&page).count(), 0);
            assert_eq!(decode(&page[..100]).count(), 0);
        }
    }

    // A record that lost its upper half would deallocate what somebody else has written.
    #[test]
    fn units_beyond_32_bits_come_back() {
        let mut journal = Journal::new(Space::new(1 << 34, true));
        let trim = Trim { first: (1 << 33) + 5, count: 1 << 32, sequence: 7 };
        journal.add(trim.first, trim.count, &mut trim.sequence.clone());
        let pages = journal.dump();
        assert_eq!(decode(&pages).collect::<Vec<_>>(), [trim]);
        let far = Trim { first: u64::MAX, count: u64::MAX, sequence: 7 };
        let dies: Vec<_> = decode(&encode([far].iter(), true)).map(|trim| trim.dies_left(9)).collect();
        assert!(dies.len() == 1 && dies[0].is_empty(), "{dies:?}");
    }
}
