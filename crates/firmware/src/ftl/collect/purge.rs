//! Purge: erases deallocated and superseded data by emptying and erasing every superblock that may hold some.
//!
//! Deallocated or overwritten data remain until garbage collection reaches them, in an open superblock even
//! longer. A purge dooms all superblocks that are not free and have stale units; open ones are closed for it.
//! The collectors then empty and erase them as usual, moving the valid data.
//!
//! A collector may be moving a unit when it becomes stale, and still programs it, into a superblock that is
//! not doomed. It has done so by the end of the first round, so there is a second one.
//!
//! A superblock whose erase fails is out of use, but its data may remain. At the end these are erased once
//! more, including those that failed before the purge; the result of the purge is the result of these erases.
//! If no collector can proceed and superblocks are still doomed, as at the end of the drive's life, the purge
//! has failed as well. They stay doomed.

use crate::ftl::config::MediaError;
use crate::ftl::core::Core;
use crate::ftl::write::dispatch::dispatch;
use crate::ftl::write::finish::settle_closed;
use crate::ftl::write::standstill::is_at_rest;
use byteway_flash::{BlockId, Priority};

/// Number of rounds, each of which dooms the superblocks with stale data at its start.
const ROUNDS: u32 = 2;

/// Waits until all data that were not valid at the call are erased. `progress` receives the completed part in percent.
pub(in crate::ftl) async fn purge(core: &Core, progress: impl Fn(u32)) -> Result<(), MediaError> {
    core.power.ready().await;
    if let Some(cache) = &mut core.state.borrow_mut().read_cache {
        cache.clear();
    }
    for round in 0..ROUNDS {
        let all = doom(core);
        loop {
            let left = core.state.borrow().blocks.doomed();
            if left == 0 {
                break;
            }
            if is_at_rest(core, None) {
                return Err(MediaError::NotErased);
            }
            let done = u64::from(all.saturating_sub(left)) * 100 / u64::from(all.max(1));
            progress((round * 100 + done as u32) / ROUNDS);
            core.signals.purged.notified().await;
        }
    }
    erase_failed(core).await
}

/// Dooms superblocks with stale units. Returns the number of doomed ones.
fn doom(core: &Core) -> u32 {
    let doomed = {
        let mut state = core.state.borrow_mut();
        state.blocks.doom();
        for die in 0..core.geometry.dies() {
            state.refresh(die);
        }
        state.blocks.doomed()
    };
    settle_closed(core);
    core.collectors.call_all();
    dispatch(core);
    doomed
}

/// Erases superblocks that are out of use because an erase failed.
async fn erase_failed(core: &Core) -> Result<(), MediaError> {
    let has_failed = |block: &BlockId| core.flash.is_bad(*block) && core.flash.is_unstable(*block);
    let ticket = core.flash.ticket();
    for block in (0..core.geometry.total_blocks()).map(BlockId).filter(has_failed) {
        core.flash.submit_erase(block, Priority::Collector, &ticket);
    }
    if ticket.wait().await.failed { Err(MediaError::NotErased) } else { Ok(()) }
}
