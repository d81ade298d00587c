//! A victim policy, and what it sees.

use byteway_clock::random::Stream;

/// Chooses victims. One is made for each drive; it may keep state, which a power cut forgets.
pub trait Victim {
    /// The [`index`](Candidate::index) of one of the view's candidates, of which there is at least one.
    fn choose(&mut self, view: &mut VictimView<'_>) -> u32;

    /// What went wrong in a choice that was none of the candidates, if there is more to say than that. The run ends with it.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// A superblock that can be emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Number within its die.
    pub index: u32,
    /// Units of 4 KiB that are valid, and have to be moved.
    pub valid: u32,
    /// Superblocks of the die that were closed since this one was.
    pub age: u32,
}

/// What a policy sees: the superblocks of a die that can be emptied.
pub struct VictimView<'a> {
    /// Valid units of the die's superblocks; more than `valid_most` in those that are no candidates.
    pub(crate) counts: &'a [u32],
    /// Number of closings of the die when each was closed.
    pub(crate) closed_at: &'a [u32],
    pub(crate) valid_most: u32,
    pub(crate) closings: u32,
    pub(crate) units: u32,
    pub(crate) die: u32,
    pub(crate) random: &'a mut Stream,
}

impl VictimView<'_> {
    /// The candidates, by rising index.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> + Clone {
        let all = (0..).zip(self.counts.iter().zip(self.closed_at));
        let (valid_most, closings) = (self.valid_most, self.closings);
        all.filter(move |(_, (valid, _))| **valid <= valid_most).map(move |(index, (valid, closed_at))| {
            Candidate { index, valid: *valid, age: closings.wrapping_sub(*closed_at) }
        })
    }

    /// Fewest valid units of a candidate.
    pub fn least(&self) -> u32 {
        // Of all: those that are no candidates have more, and a minimum without conditions is vectorized.
        self.counts.iter().copied().min().unwrap_or(0)
    }

    /// Whether a superblock is a candidate.
    pub fn has(&self, index: u32) -> bool {
        self.counts.get(index as usize).is_some_and(|valid| *valid <= self.valid_most)
    }

    /// Units of a superblock.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Number of the die within its drive.
    pub fn die(&self) -> u32 {
        self.die
    }

    /// A random number: the next one of the drive's own sequence, which follows from the scenario's seed.
    pub fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// The same, below `bound`; 0 below 0.
    pub fn random_below(&mut self, bound: u32) -> u32 {
        self.random.below(bound.max(1).into()) as u32
    }
}
