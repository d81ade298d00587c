//! How the drive is, and its end: when it has lost more superblocks than it had spare ones it is read-only.
//!
//! From then on writes, zeroes and deallocations fail, and reads go on. What is buffered is still programmed as far as
//! there is room, for which the host's stream may have the reserve as well once no collector has anything to do. When
//! that doesn't do either, a flush fails: nothing waits for what can't come.

use crate::ftl::config::FtlConfig;
use crate::ftl::config::MediaError;
use crate::ftl::inner::EndOfLife;
use crate::ftl::inner::Ftl;
use crate::ftl::inner::Inner;
use crate::ftl::inner::State;
use byteway_clock::{Notify, Permit};
use byteway_flash::Geometry;

/// What a drive says of its health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Spare superblocks that are left, in percent of those that the drive left the factory with, in the die that has
    /// the fewest. A drive without spare ones has 100 until it loses the first superblock, and then 0.
    pub available_spare_percent: u8,
    /// Below this a host should worry.
    pub spare_threshold_percent: u8,
    /// Writes fail.
    pub is_read_only: bool,
    /// Units that flash could not give: to the host, or when they were to be moved.
    pub unreadable: u64,
    /// Superblocks that have failed since the power came.
    pub blocks_retired: u64,
}

impl Health {
    /// The usual threshold.
    pub const SPARE_THRESHOLD_PERCENT: u8 = 10;
}

impl Ftl {
    /// How the drive is.
    pub fn health(&self) -> Health {
        let inner = &*self.0;
        let state = inner.state.borrow();
        Health {
            available_spare_percent: state.available_spare_percent(&inner.config, &inner.geometry),
            spare_threshold_percent: Health::SPARE_THRESHOLD_PERCENT,
            is_read_only: state.is_read_only(),
            unreadable: state.counters.units_unreadable + state.counters.units_lost,
            blocks_retired: state.counters.blocks_retired,
        }
    }

    /// Ends when [`health`](Ftl::health) may be worse than at the last call: spares have gone, or writes fail. For one task,
    /// which hears of what came in between as well.
    pub async fn worsened(&self) {
        self.0.signals.ails.notified().await;
    }

    /// Counts units that flash could not give.
    #[cold]
    pub(in crate::ftl) fn unreadable(&self, units: u32) -> MediaError {
        self.0.state.borrow_mut().counters.units_unreadable += u64::from(units);
        MediaError::Unreadable
    }
}

impl State {
    pub(in crate::ftl) fn is_read_only(&self) -> bool {
        self.end > EndOfLife::Far
    }

    fn available_spare_percent(&self, config: &FtlConfig, geometry: &Geometry) -> u8 {
        if self.is_read_only() {
            return 0;
        }
        let mut initial = vec![config.upkeep.spare_blocks; geometry.dies() as usize];
        for block in config.factory_bad(geometry) {
            initial[geometry.die_of_block(block) as usize] -= 1;
        }
        let left = (0..).zip(&initial).filter(|(_, initial)| **initial > 0);
        let percent = left.map(|(die, initial)| self.blocks.spares(die) * 100 / initial);
        percent.min().unwrap_or(100).min(100) as u8
    }
}

impl Inner {
    /// Waits for slots of the buffer.
    ///
    /// # Errors
    /// If the drive takes no more, also if it does so while this waits.
    pub(in crate::ftl) async fn slots(&self, count: u32) -> Result<Permit, MediaError> {
        let permit = self.credits.acquire(count as usize).await;
        if permit.credits() < count as usize || self.state.borrow().is_read_only() {
            return Err(MediaError::WriteProtected);
        }
        Ok(permit)
    }

    /// Fails if the drive takes nothing new.
    pub(in crate::ftl) fn check_writable(&self) -> Result<(), MediaError> {
        if self.state.borrow().is_read_only() { Err(MediaError::WriteProtected) } else { Ok(()) }
    }

    /// Fails if what is buffered has nowhere to go.
    pub(in crate::ftl) fn check_room(&self) -> Result<(), MediaError> {
        if self.state.borrow().end == EndOfLife::Full { Err(MediaError::WriteProtected) } else { Ok(()) }
    }

    /// From now on nothing new is taken, and whoever waits to write is told so.
    pub(in crate::ftl) fn end_life(&self, state: &mut State) {
        if state.is_read_only() {
            return;
        }
        state.end = EndOfLife::ReadOnly;
        self.signals.ails.notify_one();
        self.credits.close();
        self.signals.settled.notify_all();
        // A die that waits for something to become stale may be what a flush waits for.
        self.signals.collectors.iter().for_each(Notify::notify_one);
    }

    /// The collector of a die has nothing to do.
    pub(in crate::ftl) fn rest(&self, die: u32) {
        self.state.borrow_mut().collecting.resting += 1;
        self.look_for_an_end_but(Some(die));
    }

    /// Whether no collector has anything to do, nor has been called, and no program of the host's is under way. The
    /// collector of `but` asks itself.
    pub(in crate::ftl) fn is_at_rest(&self, but: Option<u32>) -> bool {
        let state = self.state.borrow();
        let is_called = |(die, collector): (u32, &Notify)| but != Some(die) && collector.waiting() == 0;
        state.collecting.resting == self.geometry.dies()
            && state.filling.under_way.iter().all(|count| *count == 0)
            && !(0..).zip(&self.signals.collectors).any(is_called)
    }

    /// If something waits for what won't come, it is told; at the end of life, goes on to the next resort.
    pub(in crate::ftl) fn look_for_an_end(&self) {
        self.look_for_an_end_but(None);
    }

    fn look_for_an_end_but(&self, die: Option<u32>) {
        let (is_read_only, is_purging) = {
            let state = self.state.borrow();
            (state.is_read_only(), state.blocks.doomed() > 0)
        };
        if !(is_read_only || is_purging) || !self.is_at_rest(die) {
            return;
        }
        self.erased_some();
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        if !is_read_only || state.buffer.waiting() == 0 || !state.filling.ready.is_empty() {
            return;
        }
        match state.end {
            EndOfLife::ReadOnly => {
                state.end = EndOfLife::LastRoom;
                state.blocks.give_reserve();
                (0..self.geometry.dies()).for_each(|die| state.refresh(die));
                drop(guard);
                self.dispatch();
                self.look_for_an_end_but(die);
            }
            EndOfLife::LastRoom => {
                state.end = EndOfLife::Full;
                self.signals.settled.notify_all();
            }
            EndOfLife::Far | EndOfLife::Full => {}
        }
    }
}
