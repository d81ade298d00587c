//! Erasing what was deleted: every superblock that may hold it is emptied and erased, however few are wanted free.
//!
//! What is deallocated or overwritten is still there until the collector comes by, and in an open superblock longer. A
//! purge dooms all superblocks that are not free and hold less than they could; open ones are closed for that. The
//! collectors then empty and erase them as they do others. What is valid in them is moved.
//!
//! A collector may be moving a unit when that becomes stale, and then programs it all the same, into a superblock that
//! is not doomed. It has done so when the first round is over, so there is a second one.
//!
//! A superblock whose erase fails is out of use, but what it held may be there all the same. In the end these are erased
//! once more, those that failed before the purge as well; what that says is what the purge says. When nothing moves any
//! more and superblocks are still doomed, as at the end of the drive's life, the purge has failed too. They stay doomed.

use crate::ftl::config::MediaError;
use crate::ftl::inner::Ftl;
use crate::ftl::inner::Inner;
use byteway_clock::Notify;
use byteway_flash::{BlockId, Priority};

/// Rounds, each of which dooms what is stale at its beginning.
const ROUNDS: u32 = 2;

impl Ftl {
    /// Ends when nothing that was not valid at the call is in flash any more. `progress` is told how much is done, per
    /// cent. One at a time: another waits for this one's superblocks as well.
    ///
    /// # Errors
    /// If a superblock can't be emptied or erased: what was deleted may be in it.
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
    /// Dooms what is stale; gives how many superblocks are doomed.
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

    /// Erases superblocks that are out of use because an erase of them failed.
    async fn erase_failed(&self) -> Result<(), MediaError> {
        let has_failed = |block: &BlockId| self.flash.is_bad(*block) && self.flash.is_unstable(*block);
        let ticket = self.flash.ticket();
        for block in (0..self.geometry.total_blocks()).map(BlockId).filter(has_failed) {
            self.flash.submit_erase(block, Priority::Collector, &ticket);
        }
        if ticket.wait().await.failed { Err(MediaError::NotErased) } else { Ok(()) }
    }

    /// Superblocks have been erased, or nothing moves any more: whoever purges wants to know.
    pub(in crate::ftl) fn erased_some(&self) {
        self.signals.purged.notify_all();
    }
}
