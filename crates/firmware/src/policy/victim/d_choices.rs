use super::view::{Candidate, Victim, VictimView};

/// Of a number of superblocks drawn at random, with repetition, the one with the fewest valid units (Van Houdt, "A mean field model for
/// a class of garbage collection algorithms in flash-based solid state drives", 2013). With one choice it is random; with many, greedy.
#[derive(Clone, Debug)]
pub struct DChoices {
    choices: u32,
    /// The candidates, reused from choice to choice.
    candidates: Vec<Candidate>,
}

impl DChoices {
    /// With this number of superblocks drawn.
    pub fn new(choices: u32) -> Self {
        DChoices { choices, candidates: Vec::new() }
    }
}

impl Victim for DChoices {
    fn choose(&mut self, view: &mut VictimView<'_>) -> u32 {
        self.candidates.clear();
        self.candidates.extend(view.candidates());
        let count = self.candidates.len() as u32;
        let mut best: Option<Candidate> = None;
        for _ in 0..self.choices {
            let drawn = self.candidates[view.random_below(count) as usize];
            if best.is_none_or(|best| drawn.valid < best.valid) {
                best = Some(drawn);
            }
        }
        best.map_or(0, |victim| victim.index)
    }
}
