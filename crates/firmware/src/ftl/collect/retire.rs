//! What fails: a superblock of which a program or an erase did not succeed takes no more programs.
//!
//! It is marked in the medium at once, so that it stays so whatever happens next. What it holds can still be read; a
//! collector moves that when it has room, and then the superblock is done with. All its planes go: a program or an
//! erase of a superblock is one of all planes together, and tells no more than that one of them failed.

use crate::ftl::blocks::Failed;
use crate::ftl::inner::Inner;
use crate::ftl::inner::State;
use byteway_flash::BlockId;

impl Inner {
    /// A program or an erase of a superblock has failed.
    pub(in crate::ftl) fn fail(&self, state: &mut State, block: BlockId) {
        let failed = state.blocks.fail(block);
        if failed == Failed::Before {
            return;
        }
        self.flash.mark_bad(block);
        state.counters.blocks_retired += 1;
        self.signals.ails.notify_one();
        let die = self.geometry.die_of_block(block);
        state.refresh(die);
        self.signals.collectors[die as usize].notify_one();
        if failed == Failed::Missed {
            self.end_life(state);
        }
    }
}
