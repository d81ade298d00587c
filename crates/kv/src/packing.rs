//! Where in a segment's log pages a value goes (BandSlim, 3.3): the write pointer, and the log table of what came by DMA.
//!
//! A value never crosses a log page unless it is longer than one; then it begins with a page. All positions are bytes from
//! the segment's beginning. Nothing is placed before the write pointer, and all that lies behind it is in the log table;
//! so no two values overlap, whatever the order in which they come.

use super::config::{Origin, Packing};
use byteway_wire::content::UNIT_BYTES;
use std::collections::VecDeque;

/// A place for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// Where it begins.
    pub(super) offset: u32,
    /// Where the write pointer is then.
    pointer: u32,
    /// How many of the oldest entries of the log table are gone then.
    dropped: usize,
    /// It is a new entry of the log table.
    is_logged: bool,
    /// The processor copies it there.
    pub(super) is_copied: bool,
    /// It goes into this one of the gaps.
    gap: Option<usize>,
}

/// The write pointer of a segment, and the log table.
#[derive(Clone, Debug)]
pub(super) struct Packer {
    packing: Packing,
    page_bytes: u32,
    /// Of the log table.
    entries_max: usize,
    /// How far before the write pointer's page a value may end.
    window_bytes: u32,
    pointer: u32,
    /// What came by DMA and lies behind the write pointer: begin and end, in order.
    log: VecDeque<(u32, u32)>,
    /// What the host has left out so far before values that it has placed itself, all in one page: begin and end. Their
    /// commands come in any order.
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

    /// A new segment.
    pub(super) fn restart(&mut self) {
        self.pointer = 0;
        self.log.clear();
        self.gaps.clear();
    }

    /// The write pointer: everything before it is given away, or given up.
    pub(super) fn pointer(&self) -> u32 {
        self.pointer
    }

    /// The end of all that is given away.
    pub(super) fn end(&self) -> u32 {
        self.log.back().map_or(self.pointer, |(_, end)| self.pointer.max(*end))
    }

    /// Whether a position is given away, or given up.
    pub(super) fn is_taken(&self, at: u32) -> bool {
        let is_in = |(begin, end): &(u32, u32)| (*begin..*end).contains(&at);
        at < self.pointer && !self.gaps.iter().any(is_in) || self.log.iter().any(is_in)
    }

    /// Where the first page begins that may still be changed.
    pub(super) fn open_page(&self) -> u32 {
        let first = self.gaps.first().map_or(self.pointer, |(begin, _)| self.pointer.min(*begin));
        first / self.page_bytes * self.page_bytes
    }

    /// The gaps before what came by DMA are given up.
    pub(super) fn give_up(&mut self) {
        self.pointer = self.end();
        self.log.clear();
        self.gaps.clear();
    }

    /// The place `at` for a value that the host has put there: behind the write pointer, or in a gap. None, if it is taken,
    /// or no place that a value may have.
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

    /// What a value that the host has put behind the write pointer leaves out, in its page.
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

    /// Where `at` must move to, so that so many bytes don't cross a page.
    fn fit(&self, at: u32, bytes: u32) -> u32 {
        let page = self.page_bytes;
        let crosses = !at.is_multiple_of(page) && at % page + bytes > page;
        if crosses { at.next_multiple_of(page) } else { at }
    }

    /// Where a value of `bytes` goes that has come in this way.
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
            // What is longer than a page leaves no gap that a page flip wouldn't give up.
            Packing::Backfill if bytes > self.page_bytes && !is_dma => {
                whole(self.fit(self.end(), bytes), is_processors)
            }
            Packing::Backfill if is_dma => self.plan_behind(bytes),
            Packing::Backfill => self.plan_before(bytes, is_processors),
        }
    }

    /// By DMA, with backfilling: at the next multiple of 4 KiB behind all others; the write pointer stays.
    fn plan_behind(&self, bytes: u32) -> Placement {
        let offset = self.fit(self.end().next_multiple_of(UNIT_BYTES as u32), bytes);
        // A full table gives up the oldest gap; so does a window that doesn't reach so far.
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
            pointer = offset; // nothing is left behind it, so this gap is the last
        }
        Placement { offset, pointer, dropped, is_logged: true, is_copied: false, gap: None }
    }

    /// Not by DMA, with backfilling: at the write pointer, which jumps over what came by DMA.
    fn plan_before(&self, bytes: u32, is_copied: bool) -> Placement {
        let (mut at, mut dropped) = (self.pointer, 0);
        loop {
            at = self.fit(at, bytes);
            match self.log.get(dropped) {
                // In a page that is left, or in the way.
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

    /// A value of the host's has gone where [`Packer::plan_at`] has said.
    pub(super) fn take_at(&mut self, placement: &Placement, bytes: u32) {
        let (at, end) = (placement.offset, placement.offset + bytes);
        match placement.gap {
            Some(gap) => {
                let (begin, until) = std::mem::take(&mut self.gaps[gap]);
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

    /// A value goes to the page of `at`: gaps in those before are given up.
    fn close_pages(&mut self, at: u32) {
        let page = at / self.page_bytes * self.page_bytes;
        self.gaps.retain(|(begin, _)| *begin >= page);
    }

    /// A value has gone where [`Packer::plan`] has said.
    pub(super) fn take(&mut self, placement: &Placement, bytes: u32) {
        if !placement.is_logged && bytes > 0 {
            self.close_pages(placement.offset);
        }
        self.pointer = placement.pointer;
        self.log.drain(..placement.dropped);
        if placement.is_logged {
            match placement.offset + bytes {
                end if placement.offset <= self.pointer => self.pointer = self.pointer.max(end),
                end => self.log.push_back((placement.offset, end)),
            }
        }
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

    // Two live values over one another: the worst that packing can do. And one across a page boundary would need two
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

    // The policies by hand, as the paper draws them.
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

    // A small value that would run into what came by DMA goes behind it; an entry of a page that was left must not move the
    // pointer of the next.
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

    // Commands of values that the host has placed come in any order. One that was refused for that would cost the host all it
    // knows; one that is accepted over another, a value.
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
        // The page is full, but what is left out may come; until a value of the next page does.
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

    // A full table must not lose an entry without giving up the gap before it: the pointer would run into a value.
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
