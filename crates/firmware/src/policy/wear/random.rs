use super::dynamic::Dynamic;
use super::view::{Opening, Wear, WearView};

/// Opens as [`Dynamic`] does, and moves the data of a closed superblock at random, after one in so many erases of others: as JFFS2 does, which takes one of
/// a hundred victims from the blocks in which nothing is stale (Woodhouse, "JFFS: The Journalling Flash File System", 2001). It counts nothing,
/// and bounds nothing: a superblock is passed over with a probability that falls exponentially with the erases of the others.
#[derive(Clone, Debug)]
pub struct AtRandom {
    period: u32,
    /// By die.
    dies: Vec<Turn>,
}

/// A die between two questions.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Erases of all superblocks at the last question.
    erases: Option<u64>,
    /// What was drawn, and how often it was erased then: it is to be moved until it is erased again.
    drawn: Option<(u32, u32)>,
}

impl AtRandom {
    /// With this number of erases for each superblock that is moved, on average.
    pub fn new(period: u32) -> Self {
        AtRandom { period, dies: Vec::new() }
    }
}

impl Wear for AtRandom {
    fn moves(&self) -> bool {
        true
    }

    fn open(&mut self, view: &mut WearView<'_>, opening: Opening) -> u32 {
        Dynamic.open(view, opening)
    }

    fn level(&mut self, view: &mut WearView<'_>) -> Option<u32> {
        let die = view.die() as usize;
        if self.dies.len() <= die {
            self.dies.resize(die + 1, Turn::default());
        }
        let turn = &mut self.dies[die];
        let is_drawn = |(index, erases): &(u32, u32)| {
            view.closed().any(|block| (block.index, block.erases) == (*index, *erases))
        };
        let before = turn.drawn;
        turn.drawn = before.filter(is_drawn);
        // The erase of what was drawn is no chance of its own: moving would feed itself.
        let is_own = before.is_some() && turn.drawn.is_none();
        // A chance for each erase: several may lie between two questions.
        let now: u64 = view.all().map(|block| u64::from(block.erases)).sum();
        let chances =
            now.saturating_sub(turn.erases.replace(now).unwrap_or(now)).saturating_sub(is_own.into());
        let is_due = (0..chances).fold(false, |is_due, _| (view.random_below(self.period) == 0) | is_due);
        if turn.drawn.is_none() && is_due {
            let count = view.closed().count() as u32;
            let place = view.random_below(count);
            turn.drawn = view.closed().nth(place as usize).map(|block| (block.index, block.erases));
        }
        turn.drawn.map(|(index, _)| index)
    }
}
