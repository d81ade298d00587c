//! Retirement: a superblock with a failed program or erase takes no more programs.
//!
//! It is marked in the medium at once, so that it stays bad across a power cut. Its data are still readable;
//! a collector moves them when it has space, and then the superblock is out of use. All of its planes are
//! retired: a program or an erase covers all planes together, and reports only that one of them failed.

use crate::ftl::blocks::Failed;
use crate::ftl::core::Core;
use crate::ftl::state::State;
use byteway_flash::BlockId;

/// Handles a failed program or erase of a superblock.
pub(in crate::ftl) fn fail(core: &Core, state: &mut State, block: BlockId) {
    let failed = state.blocks.fail(block);
    if failed == Failed::Before {
        return;
    }
    core.flash.mark_bad(block);
    state.counters.blocks_retired += 1;
    core.signals.health_changed.notify_one();
    let die = core.geometry.die_of_block(block);
    state.refresh(die);
    core.collectors.call(die);
    if failed == Failed::Missed {
        core.end_life(state);
    }
}
