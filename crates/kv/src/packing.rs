//! Placement of values in a segment's log pages (BandSlim, 3.3): the write pointer, and the table of values that came
//! by DMA.
//!
//! A value crosses no page boundary unless it is longer than a page; then it starts at a page boundary. All positions
//! are bytes from the segment's beginning. No value is placed before the write pointer, and every value after it is in
//! the table, so no two values overlap, in whatever order they arrive.

use super::config::{Origin, Packing};
use byteway_content::UNIT_BYTES;
use std::collections::VecDeque;

/// The planned position of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// First byte of the value.
    pub(super) offset: u32,
    /// The write pointer afterwards.
    pointer: u32,
    /// Number of the table's oldest entries that are dropped.
    dropped: usize,
    /// The value becomes a new entry of the table.
    is_logged: bool,
    /// The processor copies it there.
    pub(super) is_copied: bool,
    /// Index of the gap that it fills.
    gap: Option<usize>,
}

/// The write pointer of a segment, and the table of values transferred by DMA.
#[derive(Clone, Debug)]
pub(super) struct Packer {
    packing: Packing,
    page_bytes: u32,
    /// Capacity of the table: at least 1.
    entries_max: usize,
    /// Maximum distance, in bytes, between the start of the write pointer's page and the end of a value.
    window_bytes: u32,
    pointer: u32,
    /// Values after the write pointer, which were transferred by DMA: begin and end of each, in order.
    log: VecDeque<(u32, u32)>,
    /// Gaps that the host has left before values that it placed itself, all in one page: begin and end. Their commands
    /// may arrive in any order.
    gaps: Vec<(u32, u32)>,
}

impl Packer {
    pub(super) fn new(packing: Packing, page_bytes: u32, buffer_pages: u32, entries_max: u32) -> Packer {
        Packer {
            packing,
            page_bytes,
            entries_max: entries_max.max(1) as usize,
            window_bytes: page_bytes.saturating_mul(buffer_pages.max(1)),
            pointer: 0,
            log: VecDeque::new(),
            gaps: Vec::new(),
        }
    }

    /// Starts a new segment.
    pub(super) fn restart(&mut self) {
        self.pointer = 0;
        self.log.clear();
        self.gaps.clear();
    }

    /// The write pointer: all space before it is used or given up.
    pub(super) fn pointer(&self) -> u32 {
        self.pointer
    }

    /// End of all placed values.
    pub(super) fn end(&self) -> u32 {
        self.log.back().map_or(self.pointer, |(_, end)| self.pointer.max(*end))
    }

    /// Whether a position is used or given up.
    pub(super) fn is_taken(&self, at: u32) -> bool {
        let is_in = |(begin, end): &(u32, u32)| (*begin..*end).contains(&at);
        at < self.pointer && !self.gaps.iter().any(is_in) || self.log.iter().any(is_in)
    }

    /// Start of the first page that may still change.
    pub(super) fn open_page(&self) -> u32 {
        let first = self.gaps.first().map_or(self.pointer, |(begin, _)| self.pointer.min(*begin));
        first / self.page_bytes * self.page_bytes
    }

    /// Gives up the gaps before values transferred by DMA.
    pub(super) fn give_up(&mut self) {
        self.pointer = self.end();
        self.log.clear();
        self.gaps.clear();
    }

    /// Plans a value that the host has placed at `at`: after the write pointer, or in a gap. `None` if the space is
    /// used, or the position is not allowed for a value.
    pub(super) fn plan_at(&self, at: u32, bytes: u32) -> Option<Placement> {
        let end = at.checked_add(bytes)?;
        let align = if self.packing == Packing::None { UNIT_BYTES as u32 } else { 1 };
        let crosses = at % self.page_bytes + bytes > self.page_bytes;
        let overlaps = |(begin, until): &(u32, u32)| at < *until && *begin < end;
        if !at.is_multiple_of(align) || crosses || self.log.iter().any(overlaps) {
            return None;
        }
        let plan = Placement {
            offset: at,
            pointer: self.pointer,
            dropped: 0,
            is_logged: false,
            is_copied: false,
            gap: None,
        };
        if let Some(gap) = self.gaps.iter().position(|(begin, until)| *begin <= at && end <= *until) {
            return Some(Placement { gap: Some(gap), ..plan });
        }
        let dropped = self.log.iter().take_while(|(_, until)| *until <= at).count();
        (at >= self.pointer).then_some(Placement { pointer: end, dropped, ..plan })
    }

    /// Records the gaps in its page that a value placed by the host leaves.
    fn leave_gaps(&mut self, at: u32) {
        let mut from = self.pointer.max(at / self.page_bytes * self.page_bytes);
        for (begin, end) in &self.log {
            if *begin >= at {
                break;
            }
            if from < *begin {
                self.gaps.push((from, *begin));
            }
            from = from.max(*end);
        }
        if from < at {
            self.gaps.push((from, at));
        }
    }

    /// `at`, moved to the next page if `bytes` bytes would cross a page boundary.
    fn fit(&self, at: u32, bytes: u32) -> u32 {
        let page = self.page_bytes;
        let crosses = !at.is_multiple_of(page) && at % page + bytes > page;
        if crosses { at.next_multiple_of(page) } else { at }
    }

    /// Plans the position of a value of `bytes` with this origin.
    pub(super) fn plan(&self, bytes: u32, origin: Origin) -> Placement {
        let unit = UNIT_BYTES as u32;
        let is_dma = origin == Origin::Dma;
        let whole = |offset: u32, is_copied: bool| Placement {
            offset,
            pointer: offset + bytes,
            dropped: self.log.len(),
            is_logged: false,
            is_copied: is_copied && bytes > 0,
            gap: None,
        };
        let is_processors = origin == Origin::Memory;
        match self.packing {
            Packing::None => whole(self.fit(self.pointer.next_multiple_of(unit), bytes), is_processors),
            Packing::All => whole(self.fit(self.pointer, bytes), is_processors || is_dma),
            Packing::Selective if is_dma => {
                whole(self.fit(self.pointer.next_multiple_of(unit), bytes), false)
            }
            Packing::Selective => whole(self.fit(self.pointer, bytes), is_processors),
            // A value longer than a page starts at a page boundary, which gives up all gaps in the pages before.
            Packing::Backfill if bytes > self.page_bytes && !is_dma => {
                whole(self.fit(self.end(), bytes), is_processors)
            }
            Packing::Backfill if is_dma => self.plan_behind(bytes),
            Packing::Backfill => self.plan_before(bytes, is_processors),
        }
    }

    /// A value by DMA, with backfilling: at the next multiple of 4 KiB after all others. The write pointer stays.
    fn plan_behind(&self, bytes: u32) -> Placement {
        let offset = self.fit(self.end().next_multiple_of(UNIT_BYTES as u32), bytes);
        // A full table gives up the oldest gap, and so does a window that does not reach the new value.
        let (mut pointer, mut dropped) = (self.pointer, 0);
        let reach = offset + bytes.min(self.window_bytes);
        let page_of = |at: u32| at / self.page_bytes * self.page_bytes;
        while dropped < self.log.len()
            && (self.log.len() - dropped >= self.entries_max || page_of(pointer) + self.window_bytes < reach)
        {
            pointer = pointer.max(self.log[dropped].1);
            dropped += 1;
        }
        if page_of(pointer) + self.window_bytes < reach {
            pointer = offset; // no entry is left, so the last gap is given up, too
        }
        Placement { offset, pointer, dropped, is_logged: true, is_copied: false, gap: None }
    }

    /// A value that was not transferred by DMA, with backfilling: at the write pointer, which skips values
    /// transferred by DMA.
    fn plan_before(&self, bytes: u32, is_copied: bool) -> Placement {
        let (mut at, mut dropped) = (self.pointer, 0);
        loop {
            at = self.fit(at, bytes);
            match self.log.get(dropped) {
                // The entry overlaps the value, or lies in a page that the pointer has passed.
                Some((begin, end)) if *begin < at + bytes || *end <= at => {
                    at = at.max(*end);
                    dropped += 1;
                }
                _ => break,
            }
        }
        let is_copied = is_copied && bytes > 0;
        Placement { offset: at, pointer: at + bytes, dropped, is_logged: false, is_copied, gap: None }
    }

    /// Commits a placement of [`Packer::plan_at`].
    pub(super) fn take_at(&mut self, placement: &Placement, bytes: u32) {
        let (at, end) = (placement.offset, placement.offset + bytes);
        match placement.gap {
            Some(gap) => {
                let (begin, until) = std::mem::take(&mut self.gaps[gap]);
                debug_assert!(begin <= at && end <= until, "a value exceeds its gap");
                let rest = [(begin, at), (end, until)].into_iter().filter(|(begin, end)| begin < end);
                self.gaps.splice(gap..=gap, rest);
            }
            None => {
                self.close_pages(at);
                self.leave_gaps(at);
                self.take(placement, bytes);
            }
        }
    }

    /// Gives up gaps in the pages before that of `at`, which will not change any more.
    fn close_pages(&mut self, at: u32) {
        let page = at / self.page_bytes * self.page_bytes;
        self.gaps.retain(|(begin, _)| *begin >= page);
    }

    /// Commits a placement of [`Packer::plan`].
    pub(super) fn take(&mut self, placement: &Placement, bytes: u32) {
        if !placement.is_logged && bytes > 0 {
            self.close_pages(placement.offset);
        }
        // Space before the write pointer may be on its way to flash: moving it back would hand out written space again.
        debug_assert!(placement.pointer >= self.pointer, "the write pointer moves back");
        debug_assert!(placement.dropped <= self.log.len());
        self.pointer = placement.pointer;
        self.log.drain(..placement.dropped);
        debug_assert!(
            !placement.is_logged || self.log.back().is_none_or(|(_, end)| *end <= placement.offset),
            "entries of the table overlap"
        );
        if placement.is_logged {
            match placement.offset + bytes {
                end if placement.offset <= self.pointer => self.pointer = self.pointer.max(end),
                end => self.log.push_back((placement.offset, end)),
            }
        }
        debug_assert!(self.log.len() <= self.entries_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::Rng;

    const PAGE: u32 = 16384;

    fn packer(packing: Packing) -> Packer {
        Packer::new(packing, PAGE, 4, 3)
    }

    fn put(packer: &mut Packer, bytes: u32, origin: Origin) -> u32 {
        let placement = packer.plan(bytes, origin);
        packer.take(&placement, bytes);
        placement.offset
    }

    // Two live values that overlap are the worst that packing can do. A value across a page boundary would need two
    // page reads.
    #[test]
    fn values_never_overlap_nor_cross_pages() {
        for packing in [Packing::None, Packing::All, Packing::Selective, Packing::Backfill] {
            for seed in 0..200 {
                let mut stream = Rng::new(seed).stream("packing");
                let mut packer = packer(packing);
                let mut taken: Vec<(u32, u32)> = Vec::new();
                for _ in 0..200 {
                    let bytes = match stream.below(12) {
                        0 => 0,
                        1..8 => stream.below(100),
                        8..10 => stream.below(6000),
                        10 => stream.below(u64::from(PAGE)),
                        _ => stream.below(5 * u64::from(PAGE)),
                    } as u32;
                    let origin = [Origin::Memory, Origin::Dma, Origin::Cxl][stream.below(3) as usize];
                    let before = packer.pointer();
                    let at = put(&mut packer, bytes, origin);
                    assert!(packer.pointer() >= before && at >= before, "{packing:?} {seed}");
                    assert!(packer.log.len() <= 3);
                    let first = at / PAGE * PAGE;
                    assert!(at + bytes <= first + PAGE || at == first, "{packing:?} {seed}: crosses");
                    let overlaps = |(begin, end): &(u32, u32)| at < *end && *begin < at + bytes;
                    assert!(bytes == 0 || !taken.iter().any(overlaps), "{packing:?} {seed}: overlaps");
                    taken.push((at, at + bytes));
                }
            }
        }
    }

    // The policies, worked by hand as in the paper.
    #[test]
    fn each_policy_packs_as_it_says() {
        let sequence = [(100, Origin::Memory), (4000, Origin::Dma), (60, Origin::Memory), (8, Origin::Cxl)];
        let places = |packing| {
            let mut packer = packer(packing);
            sequence.map(|(bytes, origin)| put(&mut packer, bytes, origin))
        };
        assert_eq!(places(Packing::None), [0, 4096, 8192, 12288]);
        assert_eq!(places(Packing::All), [0, 100, 4100, 4160]);
        assert_eq!(places(Packing::Selective), [0, 4096, 8096, 8156]);
        assert_eq!(places(Packing::Backfill), [0, 4096, 100, 160]);
    }

    // A small value that would run into one that came by DMA goes after it. An entry of a page that the pointer has
    // passed must not move the pointer of the next page.
    #[test]
    fn backfilling_jumps_over_and_forgets_what_is_left() {
        let mut packer = packer(Packing::Backfill);
        assert_eq!(put(&mut packer, 4090, Origin::Memory), 0);
        assert_eq!(put(&mut packer, 5000, Origin::Dma), 4096);
        assert_eq!(put(&mut packer, 100, Origin::Dma), 12288);
        assert_eq!(put(&mut packer, 10, Origin::Memory), 9096, "4090 + 10 runs into 4096");
        assert_eq!(put(&mut packer, 8000, Origin::Memory), PAGE, "neither gap takes it");
        assert_eq!((packer.pointer(), packer.log.len()), (PAGE + 8000, 0));
        assert_eq!(put(&mut packer, 1, Origin::Memory), PAGE + 8000);
    }

    // Commands for values that the host has placed arrive in any order. Refusing one for its order would cost the host
    // its whole state; accepting one over another loses a value.
    #[test]
    fn places_of_the_hosts_come_in_any_order() {
        let place = |packer: &mut Packer, at, bytes| {
            let plan = packer.plan_at(at, bytes);
            plan.map(|plan| packer.take_at(&plan, bytes)).is_some()
        };
        let mut packer = packer(Packing::Backfill);
        assert!(place(&mut packer, 300, 100));
        assert_eq!((packer.pointer(), packer.is_taken(299), packer.is_taken(300)), (400, false, true));
        assert!(!place(&mut packer, 299, 2) && !place(&mut packer, 399, 2), "over a value");
        assert!(place(&mut packer, 100, 100));
        assert!(!place(&mut packer, 50, 60));
        assert!(place(&mut packer, 200, 100) && place(&mut packer, 0, 100));
        assert_eq!((packer.gaps.len(), packer.pointer()), (0, 400));
        assert_eq!(put(&mut packer, 4000, Origin::Dma), 4096);
        assert!(!place(&mut packer, 4000, 97), "over a large value");
        assert!(place(&mut packer, 8096, 10) && place(&mut packer, 400, 3696));
        assert_eq!((packer.gaps.len(), packer.log.len()), (0, 0));
        assert!(!place(&mut packer, PAGE - 10, 11), "over the page's end");
        // The page is full, but its gaps may be filled until a value of the next page arrives.
        assert!(place(&mut packer, PAGE - 10, 10));
        assert_eq!((packer.pointer(), packer.open_page()), (PAGE, 0));
        assert!(place(&mut packer, 8106, 10));
        assert!(place(&mut packer, PAGE + 50, 10));
        assert_eq!(packer.open_page(), PAGE);
        assert!(!place(&mut packer, 8116, 10), "its page has gone");
        assert_eq!(put(&mut packer, 8, Origin::Memory), PAGE + 60);
        packer.give_up();
        assert!(!place(&mut packer, PAGE, 10));
        let mut whole = super::tests::packer(Packing::None);
        assert!(!place(&mut whole, 100, 10) && place(&mut whole, 4096, 10));
    }

    // A full table must not drop an entry without giving up the gap before it: the pointer would run into a value.
    #[test]
    fn a_full_table_gives_up_the_oldest_gap() {
        let mut packer = packer(Packing::Backfill);
        let offsets: Vec<u32> = (0..4).map(|_| put(&mut packer, 100, Origin::Dma)).collect();
        assert_eq!(offsets, [0, 4096, 8192, 12288]);
        assert_eq!(packer.pointer(), 100);
        let offset = put(&mut packer, 100, Origin::Dma);
        assert_eq!((offset, packer.pointer(), packer.log.len()), (PAGE, 4196, 3));
        assert_eq!(put(&mut packer, 10, Origin::Memory), 4196);
    }
}
