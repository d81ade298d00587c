use super::view::{Opening, Wear, WearView};
use std::cmp::Reverse;

/// Opens the least worn free superblock; for data that may stay for long, the most worn one. Moves nothing, so superblocks with data that
/// are never written again stay as new.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dynamic;

impl Wear for Dynamic {
    fn open(&mut self, view: &mut WearView<'_>, opening: Opening) -> u32 {
        // Of equals the one that has been free for longest.
        let free = (0..).zip(view.free());
        let chosen = match opening {
            Opening::Moved => free.min_by_key(|(place, block): &(u32, _)| (Reverse(block.erases), *place)),
            Opening::Host | Opening::Collector => free.min_by_key(|(place, block)| (block.erases, *place)),
        };
        chosen.map_or(0, |(_, block)| block.index)
    }
}
