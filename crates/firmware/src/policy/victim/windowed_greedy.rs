use super::view::{Candidate, Victim, VictimView};
use std::cmp::Reverse;

/// Of a number of superblocks that were closed first, the one with the fewest valid units; among equals the one that was closed first
/// (Hu et al., "Write Amplification Analysis in Flash-Based Solid State Drives", 2009).
///
/// The window is of candidates: one in which nothing is stale takes no place in it.
#[derive(Clone, Debug)]
pub struct WindowedGreedy {
    window: u32,
    /// The candidates, reused from choice to choice.
    oldest: Vec<Candidate>,
}

impl WindowedGreedy {
    /// With this number of superblocks in the window.
    pub fn new(window: u32) -> Self {
        WindowedGreedy { window, oldest: Vec::new() }
    }
}

impl Victim for WindowedGreedy {
    fn choose(&mut self, view: &mut VictimView<'_>) -> u32 {
        self.oldest.clear();
        self.oldest.extend(view.candidates());
        let window = self.window as usize;
        if window < self.oldest.len() {
            self.oldest.select_nth_unstable_by_key(window - 1, |candidate| {
                (Reverse(candidate.age), candidate.index)
            });
            self.oldest.truncate(window);
        }
        let least = self
            .oldest
            .iter()
            .min_by_key(|candidate| (candidate.valid, Reverse(candidate.age), candidate.index));
        least.map_or(0, |victim| victim.index)
    }
}
