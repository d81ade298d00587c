//! Frames of the cached map: the translation pages in them, and their recency.
//!
//! A frame is free, *loading* its page, or loaded. Loaded frames are in one list by last use, wherever they
//! lie. Frames in own DRAM are created on demand, up to their number; those of a borrowed
//! [segment](super::segments) all at once. A frame that is given up is *leaving*: it stays until its page is
//! evicted, and takes no further page.

use crate::ftl::recency::Recency;
use rustc_hash::FxHashMap;

struct Frame {
    page: u32,
    /// The borrowed segment that contains the frame; `None` for own DRAM.
    segment: Option<u32>,
    /// Loads so far: the number by which a waiting task identifies its load.
    loads: u64,
    /// In a borrowed segment: log records from this number on are newer than the page in flash.
    since: u64,
    is_loading: bool,
    is_taken: bool,
    is_leaving: bool,
    /// In a borrowed segment: the page in flash is obsolete, because all of its units had been deallocated
    /// when it was loaded.
    is_from_void: bool,
}

/// Basis for recovering a page of a borrowed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) struct Origin {
    /// Number of the first log record to replay.
    pub(in crate::ftl) since: u64,
    /// The records apply to an empty page, not to the one in flash.
    pub(in crate::ftl) is_void: bool,
}

/// The frames.
pub(in crate::ftl) struct Frames {
    /// Number of own frames, and of those that were created and are not leaving.
    own: u32,
    own_made: u32,
    /// Frames of borrowed segments that are not leaving.
    borrowed: u32,
    frames: Vec<Frame>,
    free: Vec<u32>,
    free_borrowed: Vec<u32>,
    /// Frame numbers that are free for reuse.
    unused: Vec<u32>,
    /// Own frames that are leaving with a page, in reverse order of eviction. Some may no longer exist.
    leaving: Vec<u32>,
    /// From a page to its frame, loading or loaded. Never iterated, since its order is unspecified.
    index: FxHashMap<u32, u32>,
    recency: Recency,
}

impl Frames {
    /// `own` frames, all free.
    pub(in crate::ftl) fn new(own: u32) -> Self {
        Frames {
            own,
            own_made: 0,
            borrowed: 0,
            frames: Vec::new(),
            free: Vec::new(),
            free_borrowed: Vec::new(),
            unused: Vec::new(),
            leaving: Vec::new(),
            index: FxHashMap::default(),
            recency: Recency::default(),
        }
    }

    /// Own and borrowed frames, without those that are leaving.
    pub(in crate::ftl) fn most(&self) -> u32 {
        self.own.saturating_add(self.borrowed)
    }

    /// Own frames, without those that are leaving.
    pub(in crate::ftl) fn own(&self) -> u32 {
        self.own
    }

    /// Pages that are loaded or loading.
    pub(in crate::ftl) fn held(&self) -> u64 {
        self.index.len() as u64
    }

    /// Sets the number of own frames.
    pub(in crate::ftl) fn resize(&mut self, own: u32) {
        self.own = own;
        if self.own_made < own {
            // Frames that are still leaving stay so.
            let leaving = std::mem::take(&mut self.leaving);
            for frame in leaving.into_iter().rev() {
                let Frame { is_leaving, is_taken, .. } = &mut self.frames[frame as usize];
                if self.own_made < own && *is_leaving && *is_taken {
                    *is_leaving = false;
                    self.own_made += 1;
                } else if *is_leaving && *is_taken {
                    self.leaving.insert(0, frame);
                }
            }
            return;
        }
        let surplus = (self.own_made - own) as usize;
        if surplus == 0 {
            return;
        }
        let of_own = |(_, frame): &(u32, &Frame)| frame.segment.is_none() && !frame.is_leaving;
        let last = (0..).zip(&self.frames).filter(of_own).map(|(index, _)| index).collect::<Vec<u32>>();
        let going = &last[last.len() - surplus..];
        for frame in going {
            let Frame { is_leaving, is_taken, .. } = &mut self.frames[*frame as usize];
            *is_leaving = true;
            if *is_taken {
                self.leaving.push(*frame);
            } else {
                self.unused.push(*frame);
            }
        }
        let frames = &self.frames;
        self.free.retain(|frame| !frames[*frame as usize].is_leaving);
        self.own_made = own;
    }

    /// An own frame that is leaving and has a page, loaded or loading, with the page.
    pub(in crate::ftl) fn next_to_leave(&mut self) -> Option<(u32, u32)> {
        while let Some(index) = self.leaving.last().copied() {
            let frame = &self.frames[index as usize];
            if frame.is_taken && frame.is_leaving && frame.segment.is_none() {
                return Some((index, frame.page));
            }
            self.leaving.pop();
        }
        None
    }

    /// Adds the frames of a borrowed segment, all free. Returns their numbers.
    pub(in crate::ftl) fn add_segment(&mut self, segment: u32, pages: u32) -> Vec<u32> {
        let numbers: Vec<u32> = (0..pages).map(|_| self.make(Some(segment))).collect();
        self.free_borrowed.extend(numbers.iter().rev());
        self.borrowed += pages;
        numbers
    }

    /// Closes the frames of a borrowed segment to further pages.
    pub(in crate::ftl) fn close_segment(&mut self, numbers: &[u32]) {
        for number in numbers {
            let is_leaving = &mut self.frames[*number as usize].is_leaving;
            self.borrowed -= u32::from(!std::mem::replace(is_leaving, true));
        }
        let frames = &self.frames;
        self.free_borrowed.retain(|frame| !frames[*frame as usize].is_leaving);
    }

    /// Removes the frames of a closed segment. Pages in them, loaded or loading, are lost.
    pub(in crate::ftl) fn drop_segment(&mut self, numbers: &[u32]) {
        self.close_segment(numbers);
        for number in numbers {
            let frame = &self.frames[*number as usize];
            match (frame.is_taken, frame.is_loading) {
                (true, true) => _ = self.release(*number),
                (true, false) => self.drop_page(*number),
                (false, _) => {}
            }
        }
        self.unused.extend(numbers.iter().rev());
    }

    /// The page in a frame; None if it is free.
    pub(in crate::ftl) fn page(&self, frame: u32) -> Option<u32> {
        let frame = &self.frames[frame as usize];
        frame.is_taken.then_some(frame.page)
    }

    /// The borrowed segment of a frame.
    #[inline]
    pub(in crate::ftl) fn segment(&self, frame: u32) -> Option<u32> {
        self.frames[frame as usize].segment
    }

    /// Frame and segment of a page that is loaded in a borrowed segment.
    #[inline]
    pub(in crate::ftl) fn find_borrowed(&self, page: u32) -> Option<(u32, u32)> {
        let number = self.find(page)?;
        let frame = &self.frames[number as usize];
        frame.segment.filter(|_| !frame.is_loading).map(|segment| (number, segment))
    }

    /// Basis for recovering the page of a frame in a borrowed segment.
    pub(in crate::ftl) fn origin(&self, frame: u32) -> Origin {
        let Frame { since, is_from_void, .. } = self.frames[frame as usize];
        Origin { since, is_void: is_from_void }
    }

    /// Sets the basis for recovering the page of a frame.
    pub(in crate::ftl) fn set_origin(&mut self, frame: u32, origin: Origin) {
        let frame = &mut self.frames[frame as usize];
        (frame.since, frame.is_from_void) = (origin.since, origin.is_void);
    }

    /// Frees a loaded frame.
    pub(in crate::ftl) fn drop_page(&mut self, frame: u32) {
        self.recency.remove(frame);
        self.release(frame);
    }

    /// The frame in which a page is loaded.
    #[inline]
    pub(in crate::ftl) fn find(&self, page: u32) -> Option<u32> {
        self.index.get(&page).copied()
    }

    /// The number of the load in flight in a frame.
    pub(in crate::ftl) fn load(&self, frame: u32) -> Option<u64> {
        let frame = &self.frames[frame as usize];
        frame.is_loading.then_some(frame.loads)
    }

    /// Whether no frame is free.
    pub(in crate::ftl) fn is_full(&self) -> bool {
        self.free.is_empty() && self.own_made >= self.own && self.free_borrowed.is_empty()
    }

    /// Starts to load a page into a free frame, preferably of own DRAM.
    pub(in crate::ftl) fn begin(&mut self, page: u32) -> Option<u32> {
        let own = self.begin_own(page);
        if own.is_some() {
            return own;
        }
        let index = self.free_borrowed.pop()?;
        Some(self.begin_in(index, page))
    }

    /// Starts to load a page into a free frame of own DRAM.
    pub(in crate::ftl) fn begin_own(&mut self, page: u32) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.own_made < self.own => {
                self.own_made += 1;
                self.make(None)
            }
            None => return None,
        };
        Some(self.begin_in(index, page))
    }

    /// Creates a free frame that is in no list.
    fn make(&mut self, segment: Option<u32>) -> u32 {
        let index = self.unused.pop().unwrap_or(self.frames.len() as u32);
        // The count of loads continues, so that a task that waits for an earlier load does not take a later
        // one for it.
        let loads = self.frames.get(index as usize).map_or(0, |frame| frame.loads);
        let frame = Frame {
            page: 0,
            segment,
            loads,
            since: 0,
            is_loading: false,
            is_taken: false,
            is_leaving: false,
            is_from_void: false,
        };
        match self.frames.get_mut(index as usize) {
            Some(unused) => *unused = frame,
            None => self.frames.push(frame),
        }
        index
    }

    fn begin_in(&mut self, index: u32, page: u32) -> u32 {
        let frame = &mut self.frames[index as usize];
        (frame.page, frame.loads, frame.is_loading, frame.is_taken) = (page, frame.loads + 1, true, true);
        self.index.insert(page, index);
        index
    }

    /// Marks a frame as loaded and just used.
    pub(in crate::ftl) fn loaded(&mut self, frame: u32) {
        self.frames[frame as usize].is_loading = false;
        self.recency.add(frame);
    }

    /// Cancels a load. Returns the page.
    pub(in crate::ftl) fn abandoned(&mut self, frame: u32) -> u32 {
        self.release(frame)
    }

    /// Marks a frame as just used.
    #[inline]
    pub(in crate::ftl) fn touch(&mut self, frame: u32) {
        self.recency.touch(frame);
    }

    /// Frees the least recently used frame. Returns its page.
    pub(in crate::ftl) fn drop_oldest(&mut self) -> Option<u32> {
        let frame = self.recency.oldest().next()?;
        self.recency.remove(frame);
        Some(self.release(frame))
    }

    /// The loaded pages, least recently used first.
    pub(in crate::ftl) fn oldest(&self) -> impl Iterator<Item = u32> {
        self.recency.oldest().map(|frame| self.frames[frame as usize].page)
    }

    fn release(&mut self, frame: u32) -> u32 {
        let Frame { page, segment, is_loading, is_taken, is_leaving, .. } = &mut self.frames[frame as usize];
        (*is_loading, *is_taken) = (false, false);
        self.index.remove(page);
        match (*is_leaving, *segment) {
            (false, None) => self.free.push(frame),
            (false, Some(_)) => self.free_borrowed.push(frame),
            (true, None) => self.unused.push(frame),
            // It goes together with its segment.
            (true, Some(_)) => {}
        }
        *page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::Rng;

    // A list out of order would evict pages in use: checked against a list that is rewritten each time.
    #[test]
    fn the_page_that_was_used_least_recently_goes_first() {
        for most in [1, 2, 3, 17] {
            let mut frames = Frames::new(most);
            let mut model: Vec<u32> = Vec::new();
            let mut stream = Rng::new(3).stream("frames");
            for step in 0..2000 {
                let page = stream.below(2 * u64::from(most)) as u32;
                match frames.find(page) {
                    Some(frame) => {
                        frames.touch(frame);
                        model.retain(|other| *other != page);
                    }
                    None => {
                        if model.len() as u32 == most {
                            assert!(frames.is_full());
                            assert_eq!(frames.begin(page), None, "all are taken");
                            assert_eq!(frames.drop_oldest(), Some(model.remove(0)));
                        }
                        assert!(!frames.is_full());
                        let frame = frames.begin(page).expect("one is free");
                        assert!(frames.load(frame).is_some());
                        if stream.chance(0.1) {
                            assert_eq!(frames.abandoned(frame), page);
                            assert_eq!(frames.find(page), None);
                            continue;
                        }
                        frames.loaded(frame);
                        assert_eq!(frames.load(frame), None);
                    }
                }
                model.push(page);
                assert_eq!(frames.oldest().collect::<Vec<_>>(), model, "step {step}");
            }
        }
    }

    // A frame that is given up and still used, or added and never used, would defeat lending.
    #[test]
    fn frames_are_given_back_and_taken_again() {
        let mut stream = Rng::new(4).stream("lending");
        for _ in 0..200 {
            let mut frames = Frames::new(8);
            let mut held = std::collections::BTreeSet::new();
            for _ in 0..100 {
                match stream.below(4) {
                    0 => {
                        frames.resize(1 + stream.below(16) as u32);
                        while let Some((frame, page)) = frames.next_to_leave() {
                            frames.drop_page(frame);
                            assert!(held.remove(&page));
                        }
                    }
                    1 if !held.is_empty() => {
                        assert!(held.remove(&frames.drop_oldest().expect("there is one")));
                    }
                    _ => {
                        let page = stream.below(1000) as u32;
                        if frames.find(page).is_none() && !frames.is_full() {
                            let frame = frames.begin(page).expect("one is free");
                            frames.loaded(frame);
                            held.insert(page);
                        }
                    }
                }
                assert!(held.len() as u32 <= frames.most());
                assert_eq!(frames.is_full(), held.len() as u32 == frames.most());
                assert_eq!(frames.oldest().count(), held.len());
                assert!(held.iter().all(|page| frames.find(*page).is_some()));
            }
        }
    }

    // A waiting task must not take the next load of its frame for its own.
    #[test]
    fn each_load_of_a_frame_has_its_number() {
        let mut frames = Frames::new(1);
        assert_eq!(frames.drop_oldest(), None);
        let frame = frames.begin(7).expect("one is free");
        let first = frames.load(frame);
        frames.loaded(frame);
        assert_eq!((frames.load(frame), frames.drop_oldest()), (None, Some(7)));
        assert_eq!(frames.begin(8), Some(frame));
        assert_ne!(frames.load(frame), first);
    }

    // Segments come and go in any order among own frames. A frame used after its segment is gone, or lost to
    // both, or a page found where it no longer is, would leave lent DRAM unused, or used by two drives.
    #[test]
    fn segments_come_and_go_beside_own_frames() {
        const PAGES: u32 = 3;
        let mut stream = Rng::new(5).stream("segments");
        for _ in 0..100 {
            let mut frames = Frames::new(4);
            let mut own = 4;
            let (mut segments, mut next) = (std::collections::BTreeMap::new(), 0);
            for _ in 0..300 {
                match stream.below(7) {
                    0 if segments.len() < 5 => {
                        segments.insert(next, frames.add_segment(next, PAGES));
                        next += 1;
                    }
                    1 => {
                        let chosen = segments.keys().copied().nth(stream.below(5) as usize);
                        if let Some(numbers) = chosen.and_then(|chosen| segments.remove(&chosen)) {
                            let pages: Vec<u32> =
                                numbers.iter().filter_map(|number| frames.page(*number)).collect();
                            frames.drop_segment(&numbers);
                            assert!(pages.iter().all(|page| frames.find(*page).is_none()));
                        }
                    }
                    2 => {
                        own = 1 + stream.below(6) as u32;
                        frames.resize(own);
                        while let Some((frame, _)) = frames.next_to_leave() {
                            frames.drop_page(frame);
                        }
                    }
                    3 => _ = frames.drop_oldest(),
                    _ => {
                        let page = stream.below(1000) as u32;
                        if frames.find(page).is_none() && !frames.is_full() {
                            let frame = frames.begin(page).expect("one is free");
                            assert!(
                                frames.segment(frame).is_none_or(|segment| segments.contains_key(&segment))
                            );
                            frames.loaded(frame);
                        }
                    }
                }
                let held = |frames: &Frames, of: Option<u32>| {
                    frames
                        .oldest()
                        .filter(|page| frames.find(*page).map(|it| frames.segment(it)) == Some(of))
                        .count()
                };
                assert_eq!(frames.most(), own + PAGES * segments.len() as u32);
                assert!(held(&frames, None) <= own as usize);
                let in_segments: usize = segments.keys().map(|it| held(&frames, Some(*it))).sum();
                assert_eq!(
                    held(&frames, None) + in_segments,
                    frames.held() as usize,
                    "all that is held has a place"
                );
                assert_eq!(frames.is_full(), frames.held() == u64::from(frames.most()));
            }
        }
    }
}
