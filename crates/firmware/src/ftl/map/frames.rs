//! The places of the cached map: which translation pages they hold, and which of those was used least recently.
//!
//! A frame is free, is *loading* its page, or has it. Frames that have theirs are in a list by their last use. Frames
//! are made as they are needed, up to the number that the DRAM has. When that becomes smaller, those that are taken back
//! stay until their pages have left.

use crate::ftl::recency::Recency;
use rustc_hash::FxHashMap;

struct Frame {
    page: u32,
    /// How often it has begun to load: who waits for a load knows by this which one.
    loads: u64,
    is_loading: bool,
    is_taken: bool,
}

/// The frames.
pub(in crate::ftl) struct Frames {
    most: u32,
    frames: Vec<Frame>,
    free: Vec<u32>,
    /// From a page to its frame, loading or loaded. Never iterated.
    index: FxHashMap<u32, u32>,
    recency: Recency,
}

impl Frames {
    /// `most` of them, all free.
    pub(in crate::ftl) fn new(most: u32) -> Self {
        Frames {
            most,
            frames: Vec::new(),
            free: Vec::new(),
            index: FxHashMap::default(),
            recency: Recency::default(),
        }
    }

    /// How many there are; those that are to be given back and still have a page don't count.
    pub(in crate::ftl) fn most(&self) -> u32 {
        self.most
    }

    /// How many pages are in them, or on their way there.
    pub(in crate::ftl) fn held(&self) -> u64 {
        self.index.len() as u64
    }

    /// From now on there are `most`.
    pub(in crate::ftl) fn resize(&mut self, most: u32) {
        let made = self.frames.len() as u32;
        for index in self.most..most.min(made) {
            if !self.frames[index as usize].is_taken {
                self.free.push(index);
            }
        }
        self.free.retain(|index| *index < most);
        self.most = most;
    }

    /// A frame that is to be given back and has a page, or is loading one.
    pub(in crate::ftl) fn to_give_back(&self) -> Option<(u32, u32)> {
        let beyond = self.frames.iter().enumerate().skip(self.most as usize);
        beyond.rev().find(|(_, frame)| frame.is_taken).map(|(index, frame)| (index as u32, frame.page))
    }

    /// Frees a frame that has its page.
    pub(in crate::ftl) fn drop_page(&mut self, frame: u32) {
        self.recency.remove(frame);
        self.release(frame);
    }

    /// The frame of a page, if it has one.
    #[inline]
    pub(in crate::ftl) fn find(&self, page: u32) -> Option<u32> {
        self.index.get(&page).copied()
    }

    /// The load that is under way in a frame, by its number.
    pub(in crate::ftl) fn load(&self, frame: u32) -> Option<u64> {
        let frame = &self.frames[frame as usize];
        frame.is_loading.then_some(frame.loads)
    }

    /// Whether no frame is free.
    pub(in crate::ftl) fn is_full(&self) -> bool {
        self.free.is_empty() && self.frames.len() as u32 >= self.most
    }

    /// A free frame begins to load a page.
    pub(in crate::ftl) fn begin(&mut self, page: u32) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if (self.frames.len() as u32) < self.most => {
                self.frames.push(Frame { page, loads: 0, is_loading: true, is_taken: true });
                self.frames.len() as u32 - 1
            }
            None => return None,
        };
        let frame = &mut self.frames[index as usize];
        (frame.page, frame.loads, frame.is_loading, frame.is_taken) = (page, frame.loads + 1, true, true);
        self.index.insert(page, index);
        Some(index)
    }

    /// A frame has its page, which was just used.
    pub(in crate::ftl) fn loaded(&mut self, frame: u32) {
        self.frames[frame as usize].is_loading = false;
        self.recency.add(frame);
    }

    /// A load was given up. Gives the page.
    pub(in crate::ftl) fn abandoned(&mut self, frame: u32) -> u32 {
        self.release(frame)
    }

    /// A page is used.
    #[inline]
    pub(in crate::ftl) fn touch(&mut self, frame: u32) {
        self.recency.touch(frame);
    }

    /// Frees the frame whose page was used least recently. Gives the page.
    pub(in crate::ftl) fn drop_oldest(&mut self) -> Option<u32> {
        let frame = self.recency.oldest().next()?;
        self.recency.remove(frame);
        Some(self.release(frame))
    }

    /// The pages that were used least recently, those first.
    pub(in crate::ftl) fn oldest(&self) -> impl Iterator<Item = u32> {
        self.recency.oldest().map(|frame| self.frames[frame as usize].page)
    }

    fn release(&mut self, frame: u32) -> u32 {
        let Frame { page, is_loading, is_taken, .. } = &mut self.frames[frame as usize];
        (*is_loading, *is_taken) = (false, false);
        self.index.remove(page);
        if frame < self.most {
            self.free.push(frame);
        }
        *page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::Rng;

    // A list that lost its order would drop pages that are in use: checked against a list that is rewritten each time.
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

    // A frame that is given back and used all the same, or taken and never used, would make lending a word.
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
                        while let Some((frame, page)) = frames.to_give_back() {
                            assert!(frame >= frames.most());
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
                            assert!(frame < frames.most());
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

    // Who waits for a page must not take the next load of its frame for the one that it waits for.
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
}
