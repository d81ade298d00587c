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
use crate::ftl::inner::Ftl;
use crate::ftl::inner::Inner;
use byteway_clock::Notify;
use byteway_flash::{BlockId, Priority};

/// Number of rounds, each of which dooms the superblocks with stale data at its start.
const ROUNDS: u32 = 2;

impl Ftl {
    /// Waits until all data that were not valid at the call are erased. `progress` receives the completed
    /// part in percent. One purge at a time: another one would wait for this one's superblocks as well.
    ///
    /// # Errors
    /// [`MediaError::NotErased`] if a superblock cannot be emptied or erased, so that deallocated data may
    /// remain.
    pub async fn purge(&self, progress: impl Fn(u32)) -> Result<(), MediaError> {
        self.ready().await;
        let inner = &*self.0;
        if let Some(cache) = &mut inner.state.borrow_mut().read_cache {
            cache.clear();
        }
        for round in 0..ROUNDS {
            let all = inner.doom();
            loop {
                let left = inner.state.borrow().blocks.doomed();
                if left == 0 {
                    break;
                }
                if inner.is_at_rest(None) {
                    return Err(MediaError::NotErased);
                }
                let done = u64::from(all.saturating_sub(left)) * 100 / u64::from(all.max(1));
                progress((round * 100 + done as u32) / ROUNDS);
                inner.signals.purged.notified().await;
            }
        }
        inner.erase_failed().await
    }
}

impl Inner {
    /// Dooms superblocks with stale units. Returns the number of doomed ones.
    fn doom(&self) -> u32 {
        let doomed = {
            let mut state = self.state.borrow_mut();
            state.blocks.doom();
            for die in 0..self.geometry.dies() {
                state.refresh(die);
            }
            state.blocks.doomed()
        };
        self.settle_closed();
        self.signals.collectors.iter().for_each(Notify::notify_one);
        self.dispatch();
        doomed
    }

    /// Erases superblocks that are out of use because an erase failed.
    async fn erase_failed(&self) -> Result<(), MediaError> {
        let has_failed = |block: &BlockId| self.flash.is_bad(*block) && self.flash.is_unstable(*block);
        let ticket = self.flash.ticket();
        for block in (0..self.geometry.total_blocks()).map(BlockId).filter(has_failed) {
            self.flash.submit_erase(block, Priority::Collector, &ticket);
        }
        if ticket.wait().await.failed { Err(MediaError::NotErased) } else { Ok(()) }
    }

    /// Wakes a purge: superblocks were erased, or no collector can proceed.
    pub(in crate::ftl) fn erased_some(&self) {
        self.signals.purged.notify_all();
    }
}
