use super::dynamic::Dynamic;
use super::view::{Opening, Wear, WearView};
use std::cmp::Reverse;

/// Opens as [`Dynamic`] does, and moves cold data from little-worn superblocks: static wear leveling.
///
/// It starts when erase counts are further apart than the limit, and stops when they are a quarter below. Among the superblocks farthest
/// behind it chooses the one closed for longest, since warm data will be collected anyway. It waits until a worn superblock is free, which
/// takes the cold data and is then not erased for as long as the others need to catch up: moved to a little-worn superblock, the same data
/// would soon be moved again.
#[derive(Clone, Debug)]
pub struct Spread {
    limit: u32,
    /// Whether it levels, by die.
    is_levelling: Vec<bool>,
}

impl Spread {
    /// With this difference in erases between the most worn superblock of a die and the least worn closed one.
    pub fn new(limit: u32) -> Self {
        Spread { limit, is_levelling: Vec::new() }
    }
}

impl Wear for Spread {
    fn moves(&self) -> bool {
        true
    }

    fn open(&mut self, view: &mut WearView<'_>, opening: Opening) -> u32 {
        Dynamic.open(view, opening)
    }

    fn level(&mut self, view: &mut WearView<'_>) -> Option<u32> {
        let die = view.die() as usize;
        if self.is_levelling.len() <= die {
            self.is_levelling.resize(die + 1, false);
        }
        let is_levelling = &mut self.is_levelling[die];
        let end = self.limit - self.limit / 4;
        let most = view.most_worn();
        let least = view.closed().map(|block| block.erases).min().unwrap_or(most);
        let spread = most.saturating_sub(least);
        *is_levelling = spread > if *is_levelling { end } else { self.limit };
        let most_free = view.free().map(|block| block.erases).max().unwrap_or(0);
        if !*is_levelling || most_free + end - end / 4 < most {
            return None;
        }
        let behind = (spread - spread / 4).max(end + 1);
        let little_worn = view.closed().filter(|block| block.erases <= most - behind);
        little_worn.max_by_key(|block| (block.age, Reverse(block.index))).map(|block| block.index)
    }
}
