//! The journal of deallocations.
//!
//! A host write identifies its unit and version in its spare area. A deallocation leaves no such trace, so it
//! is recorded here. A record takes its number from the counter of buffered units, so it is known which
//! versions of a unit it ends: all earlier ones.
//!
//! The pages lie in the system area: they are small, belong to no superblock that would need garbage
//! collection, and can be written whatever the state of the dies. So no task that waits for the journal waits
//! for a collector; collectors wait for it, because no superblock may be erased while a deallocation that
//! made its units stale is not durable. An older copy of such a unit may lie elsewhere, and would return.
//!
//! The alternative, a version of each deallocated unit's translation page, would program a page for each of them, and
//! could not tell which buffered versions a deallocation ends.
//!
//! It also records which dies' collectors have left a superblock (`duplicates`), as deallocations of units
//! behind the host's.
//!
//! There is always space for records that are not yet written: when no further record fits, the host waits
//! for a checkpoint, which makes earlier records obsolete.
//!
//! | file | contents |
//! |---|---|
//! | [`writer`] | the task that writes it, and the notifications that follow |
//! | [`checkpoints`], [`root`] | state of checkpoints, which make records obsolete; the entry point that they write |

pub(in crate::ftl) mod checkpoints;
pub(in crate::ftl) mod root;
pub(in crate::ftl) mod writer;

use crate::ftl::journal::root::COUNT_MAX;
use crate::ftl::space::Space;
use std::collections::VecDeque;
use std::rc::Rc;

/// A deallocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) struct Trim {
    pub(in crate::ftl) first: u64,
    pub(in crate::ftl) count: u64,
    /// Versions of its units with lower numbers are obsolete.
    pub(in crate::ftl) sequence: u64,
}

const PAGE_BYTES: usize = 4096;
const HEADER_BYTES: usize = 16;
const MAGIC: u32 = 0x4a57_5942; // "BYWJ"
/// Magic number of a page whose records have 64-bit units.
const WIDE_MAGIC: u32 = 0x4b57_5942; // "BYWK"

/// Bytes of a record: first unit, number of units, and sequence number.
const fn record_bytes(is_wide: bool) -> usize {
    if is_wide { 24 } else { 16 }
}

/// Records of a page.
const fn page_records(is_wide: bool) -> usize {
    (PAGE_BYTES - HEADER_BYTES) / record_bytes(is_wide)
}

/// The journal: pages in flash, and records to be written.
pub(in crate::ftl) struct Journal {
    /// For each page in flash, oldest first, the number of its last record.
    pages: VecDeque<u64>,
    /// Maximum pages.
    most: usize,
    /// Records have 64-bit units.
    is_wide: bool,
    /// Records that are not durable, oldest first.
    pending: VecDeque<Trim>,
    /// Number of those in the page being written.
    writing: usize,
    /// Records before this number must not wait for a full page.
    wanted: u64,
    /// Records before this number become obsolete when the checkpoint in progress is written.
    sealed: u64,
    /// Dies whose collectors hold back an erase.
    waiting: Vec<u32>,
}

impl Journal {
    /// An empty journal for these units.
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

    /// The journal after a power cut: last numbers of the pages in flash, and saved records.
    pub(in crate::ftl) fn recovered(space: Space, pages: VecDeque<u64>, pending: VecDeque<Trim>) -> Self {
        Journal { pages, pending, ..Self::new(space) }
    }

    /// Whether there are no records, neither in flash nor pending.
    pub(in crate::ftl) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.pending.is_empty()
    }

    /// Whether another record fits.
    pub(in crate::ftl) fn has_space(&self) -> bool {
        let free = self.most.saturating_sub(self.pages.len() + usize::from(self.writing > 0));
        free * self.page_records() > self.pending.len() - self.writing
    }

    fn page_records(&self) -> usize {
        page_records(self.is_wide)
    }

    /// Whether a checkpoint is due, before a task has to wait for space.
    pub(in crate::ftl) fn is_half_full(&self) -> bool {
        self.pages.len() * 2 >= self.most
    }

    /// Records the deallocation of `count` units from `first`; `next` is the counter of sequence numbers.
    pub(in crate::ftl) fn add(&mut self, first: u64, count: u64, next: &mut u64) {
        let is_open = self.writing < self.pending.len();
        if let Some(last) = self.pending.back_mut()
            && is_open
            && last.sequence >= self.sealed
            && last.first.checked_add(last.count) == Some(first)
            && last.sequence + 1 == *next
        {
            // Nothing has been numbered in between, so the two merge into one deallocation.
            last.count += count;
            return;
        }
        debug_assert!(self.pending.back().is_none_or(|last| last.sequence < *next), "records are in order");
        self.pending.push_back(Trim { first, count, sequence: *next });
        *next += 1;
    }

    /// Notes that a checkpoint is about to make records before this number obsolete: new deallocations must
    /// not be merged into them.
    pub(in crate::ftl) fn seal(&mut self, sequence: u64) {
        self.sealed = self.sealed.max(sequence);
    }

    /// Records that the collector of a die has left a superblock; `user` is the number of host units. Needs
    /// no free space, since it is one rare record, and no checkpoint could be awaited while nothing moves.
    pub(in crate::ftl) fn note_left(&mut self, die: u32, user: u64, next: &mut u64) {
        self.add(user + u64::from(die), 1, next);
    }

    /// Every record before this number is durable.
    pub(in crate::ftl) fn durable_to(&self) -> u64 {
        self.pending.front().map_or(u64::MAX, |trim| trim.sequence)
    }

    /// Requests that records before this number become durable. Returns whether a page must be written for
    /// it.
    pub(in crate::ftl) fn want(&mut self, sequence: u64) -> bool {
        self.wanted = self.wanted.max(sequence);
        self.is_due()
    }

    fn is_due(&self) -> bool {
        self.writing == 0 && (self.pending.len() >= self.page_records() || self.durable_to() < self.wanted)
    }

    /// The next page to write, if one is full or requested.
    fn begin(&mut self) -> Option<Rc<[u8]>> {
        if !self.is_due() {
            return None;
        }
        debug_assert_eq!(self.writing, 0, "one page is written at a time");
        self.writing = self.pending.len().min(self.page_records());
        Some(encode(self.pending.iter().take(self.writing), self.is_wide))
    }

    /// Records that the page has been written.
    fn end(&mut self) {
        debug_assert!(self.writing > 0, "a page is being written");
        let last = self.pending.drain(..std::mem::take(&mut self.writing)).next_back();
        debug_assert!(
            self.pages.back().zip(last).is_none_or(|(before, last)| *before < last.sequence),
            "pages are in the order of their records"
        );
        self.pages.extend(last.map(|trim| trim.sequence));
    }

    /// Notes that the collector of a die holds back an erase until more records are durable.
    pub(in crate::ftl) fn hold_back(&mut self, die: u32) {
        self.waiting.push(die);
    }

    /// Takes the dies whose collectors hold back an erase.
    fn held_back(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.waiting)
    }

    /// Drops records before this number. Returns the number of pages, from the first, to remove from flash.
    pub(in crate::ftl) fn pass(&mut self, sequence: u64) -> usize {
        let pages = self.pages.partition_point(|last| *last < sequence);
        self.pages.drain(..pages);
        if self.writing == 0 {
            let pending = self.pending.partition_point(|trim| trim.sequence < sequence);
            self.pending.drain(..pending);
        }
        pages
    }

    /// Records that are not durable, for saving by capacitors.
    pub(in crate::ftl) fn dump(&self) -> Vec<u8> {
        let pending: Vec<Trim> = self.pending.iter().copied().collect();
        let pages = pending.chunks(self.page_records());
        pages.flat_map(|page| encode(page.iter(), self.is_wide).to_vec()).collect()
    }
}

impl Trim {
    /// The dies that this record names as having left a superblock.
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
        debug_assert!(is_wide || trim.first.max(trim.count) <= u32::MAX.into(), "a unit of a wide map");
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

/// Decodes the records of consecutive pages. A page that is not intact has none.
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

    // Otherwise the host could wait for a checkpoint that waits for a collector that waits for a journal page
    // without space.
    #[test]
    fn what_is_taken_fits_in_flash() {
        for is_wide in [false, true] {
            check_space(Space { journal_pages: 3, ..Space::new(100, is_wide) });
        }
    }

    fn check_space(space: Space) {
        let mut journal = Journal::new(space);
        let mut next = 1;
        while journal.has_space() {
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
        assert!(journal.has_space());
    }

    // A record extended over something numbered in between would end versions that came after it.
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

    // A checkpoint in progress drops the records that it reflects. A deallocation merged into one of them
    // would be lost with it, and deallocated, flushed data would return.
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

    // A die that is not named is not searched; one named in vain costs time.
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

    // A partly written page must not be taken for records.
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

    // A record without its upper half would deallocate foreign units.
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
