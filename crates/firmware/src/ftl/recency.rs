//! A least-recently-used list of numbers, in an array, with constant-time operations.

const NONE: u32 = u32::MAX;

/// The order of use of a set of numbers.
#[derive(Default)]
pub(in crate::ftl) struct Recency {
    links: Vec<Link>,
    /// The newest and the oldest; None if empty.
    ends: Option<(u32, u32)>,
}

#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
}

impl Recency {
    /// The most recently used number.
    #[inline]
    pub(in crate::ftl) fn newest(&self) -> Option<u32> {
        self.ends.map(|(newest, _)| newest)
    }

    /// All numbers, least recently used first.
    pub(in crate::ftl) fn oldest(&self) -> impl Iterator<Item = u32> {
        let first = self.ends.map(|(_, oldest)| oldest);
        std::iter::successors(first, |at| Some(self.links[*at as usize].newer).filter(|newer| *newer != NONE))
    }

    /// Adds a number that is not in the set, as the newest.
    pub(in crate::ftl) fn add(&mut self, at: u32) {
        if self.links.len() <= at as usize {
            self.links.resize(at as usize + 1, Link { newer: NONE, older: NONE });
        }
        let (newest, oldest) = self.ends.unwrap_or((NONE, at));
        self.links[at as usize] = Link { newer: NONE, older: newest };
        if newest != NONE {
            self.links[newest as usize].newer = at;
        }
        self.ends = Some((at, oldest));
    }

    /// Removes a number that is in the set.
    pub(in crate::ftl) fn remove(&mut self, at: u32) {
        let Link { newer, older } = self.links[at as usize];
        let (newest, oldest) = self.ends.unwrap_or((at, at));
        if newer != NONE {
            self.links[newer as usize].older = older;
        }
        if older != NONE {
            self.links[older as usize].newer = newer;
        }
        let newest = if newer == NONE { older } else { newest };
        let oldest = if older == NONE { newer } else { oldest };
        self.ends = (newest != NONE).then_some((newest, oldest));
    }

    /// Makes a number that is in the set the newest.
    #[inline]
    pub(in crate::ftl) fn touch(&mut self, at: u32) {
        if self.newest() != Some(at) {
            self.remove(at);
            self.add(at);
        }
    }
}
