//! A wear policy, and what it sees.

use byteway_clock::random::Stream as Random;
use std::collections::VecDeque;

/// Levels wear among the superblocks of a die. One is made for each drive; it may keep state, which a power cut forgets.
pub trait Wear {
    /// Whether it moves data. A die then keeps one more superblock open. Always the same.
    fn moves(&self) -> bool {
        false
    }

    /// The [`index`](WornBlock::index) of the free superblock to open, one of [`WearView::free`], of which there are two or more.
    fn open(&mut self, view: &mut WearView<'_>, opening: Opening) -> u32;

    /// The closed superblock whose data are to be moved, so that it wears as the others do, if any: one of [`WearView::closed`]. Asked if
    /// the policy [moves](Wear::moves) data, when a superblock was erased since the last time. They are moved when the die has its turn for
    /// that and a superblock to spare; if another one is erased before that, it is asked again, and what it says then counts.
    fn level(&mut self, view: &mut WearView<'_>) -> Option<u32> {
        let _ = view;
        None
    }

    /// What went wrong in a choice that was none of those, if there is more to say than that. The run ends with it.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// What a superblock is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// What the host writes.
    Host,
    /// What garbage collection moves.
    Collector,
    /// What wear leveling or refresh moves, which may stay for long.
    Moved,
}

/// A superblock, and how worn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WornBlock {
    /// Number within its die.
    pub index: u32,
    /// Program/erase cycles, those from before the run included.
    pub erases: u32,
}

/// A superblock that is full of data, valid or stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedBlock {
    /// Number within its die.
    pub index: u32,
    /// Program/erase cycles.
    pub erases: u32,
    /// Units of 4 KiB that are valid, and would have to be moved.
    pub valid: u32,
    /// Superblocks of the die that were closed since this one was.
    pub age: u32,
}

/// What a policy sees: the superblocks of a die, but for those of a one-bit cache, and bad ones that hold nothing.
pub struct WearView<'a> {
    /// Program/erase cycles, by index; and so for the next three.
    pub(crate) erases: &'a [u32],
    pub(crate) is_bad: &'a [bool],
    /// Valid units; more than `valid_most` in those that are not closed.
    pub(crate) counts: &'a [u32],
    /// Number of closings of the die when each was closed.
    pub(crate) closed_at: &'a [u32],
    pub(crate) valid_most: u32,
    pub(crate) closings: u32,
    /// Those that are free, by their numbers within the drive, in the order in which they were erased.
    pub(crate) free: &'a VecDeque<u32>,
    /// Number within the drive of that with index 0.
    pub(crate) first: u32,
    pub(crate) units: u32,
    pub(crate) die: u32,
    pub(crate) random: &'a mut Random,
}

impl WearView<'_> {
    /// All of them, open ones included, by rising index.
    pub fn all(&self) -> impl Iterator<Item = WornBlock> + Clone {
        let all = (0..).zip(self.erases.iter().zip(self.is_bad));
        all.filter(|(_, (_, is_bad))| !**is_bad)
            .map(|(index, (erases, _))| WornBlock { index, erases: *erases })
    }

    /// Free ones: that which has been free for longest first.
    pub fn free(&self) -> impl Iterator<Item = WornBlock> + Clone {
        let index = |block: &u32| block - self.first;
        self.free
            .iter()
            .map(move |block| WornBlock { index: index(block), erases: self.erases[index(block) as usize] })
    }

    /// Closed ones, by rising index.
    pub fn closed(&self) -> impl Iterator<Item = ClosedBlock> + Clone {
        let all = (0..).zip(self.erases.iter().zip(self.counts.iter().zip(self.closed_at)));
        let (valid_most, closings) = (self.valid_most, self.closings);
        all.filter(move |(_, (_, (valid, _)))| **valid <= valid_most).map(
            move |(index, (erases, (valid, closed_at)))| {
                let age = closings.wrapping_sub(*closed_at);
                ClosedBlock { index, erases: *erases, valid: *valid, age }
            },
        )
    }

    /// Program/erase cycles of the most worn one.
    pub fn most_worn(&self) -> u32 {
        self.all().map(|block| block.erases).max().unwrap_or(0)
    }

    /// Superblocks of the die: indices are below.
    pub fn blocks(&self) -> u32 {
        self.erases.len() as u32
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

    /// Place of a superblock among the free ones.
    pub(crate) fn place_of_free(&self, index: u32) -> Option<usize> {
        self.free.iter().position(|block| block - self.first == index)
    }

    /// Whether a superblock is closed.
    pub(crate) fn is_closed(&self, index: u32) -> bool {
        self.counts.get(index as usize).is_some_and(|valid| *valid <= self.valid_most)
    }
}
