use super::view::{Opening, Wear, WearView};

/// Opens the superblock that has been free for longest, and moves nothing. A drive does this itself, without asking.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Wear for Fifo {
    fn open(&mut self, view: &mut WearView<'_>, _opening: Opening) -> u32 {
        view.free().next().map_or(0, |block| block.index)
    }
}
