//! Retirement: a superblock with a failed program or erase takes no more programs.
//!
//! It is marked in the medium at once, so that it stays bad across a power cut. Its data are still readable;
//! a collector moves them when it has space, and then the superblock is out of use. All of its planes are
//! retired: a program or an erase covers all planes together, and reports only that one of them failed.

use crate::ftl::blocks::Failed;
use crate::ftl::inner::Inner;
use crate::ftl::inner::State;
use byteway_flash::BlockId;

impl Inner {
    /// Handles a failed program or erase of a superblock.
    pub(in crate::ftl) fn fail(&self, state: &mut State, block: BlockId) {
        let failed = state.blocks.fail(block);
        if failed == Failed::Before {
            return;
        }
        self.flash.mark_bad(block);
        state.counters.blocks_retired += 1;
        self.signals.health_changed.notify_one();
        let die = self.geometry.die_of_block(block);
        state.refresh(die);
        self.signals.collectors[die as usize].notify_one();
        if failed == Failed::Missed {
            self.end_life(state);
        }
    }
}
