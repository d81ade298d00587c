//! Choice of the superblock of a die to empty next, and the reason.
//!
//! Space for the host comes first. Other maintenance (see [`Cause`]) has its turn when enough superblocks are
//! free, and otherwise after every [`TURN`] collected superblocks. Its victims may be full of valid units, so
//! it frees no more than it takes, and takes first: it starts only when a superblock is free beyond the
//! reserve, which is withheld from the host until then (`Blocks::claim`).

use crate::ftl::blocks::Queue;
use crate::ftl::collect::collecting::{Begun, Cause, InitialUpkeep, TURN};
use crate::ftl::core::Core;
use crate::ftl::counters::FtlCounters;
use crate::ftl::state::State;
use byteway_flash::{BlockId, Priority};

impl Cause {
    /// Whether its end is awaited, so that a partial stripe is padded.
    pub(in crate::ftl) fn is_to_end(self) -> bool {
        matches!(self, Cause::Retire | Cause::Refresh | Cause::Level | Cause::Fold)
    }

    /// Whether the moved data may stay for long, and have a lane of their own.
    pub(in crate::ftl) fn is_cold(self) -> bool {
        matches!(self, Cause::Refresh | Cause::Level)
    }
}

impl FtlCounters {
    /// The counter of units moved for a cause.
    pub(in crate::ftl) fn units_moved(&mut self, cause: Cause) -> &mut u64 {
        match cause {
            Cause::Space | Cause::Idle | Cause::Window => &mut self.units_programmed_collector,
            Cause::Retire => &mut self.units_programmed_retirement,
            Cause::Refresh => &mut self.units_programmed_refresh,
            Cause::Level => &mut self.units_programmed_levelling,
            Cause::Fold => &mut self.units_programmed_folding,
        }
    }

    /// The counter of superblocks emptied and erased for a cause.
    pub(in crate::ftl) fn blocks_emptied(&mut self, cause: Cause) -> &mut u64 {
        match cause {
            Cause::Space => &mut self.blocks_collected,
            Cause::Idle => &mut self.blocks_collected_idle,
            Cause::Window => &mut self.blocks_collected_window,
            Cause::Retire => &mut self.blocks_retired_empty,
            Cause::Refresh => &mut self.blocks_refreshed,
            Cause::Level => &mut self.blocks_levelled,
            Cause::Fold => &mut self.blocks_folded,
        }
    }
}

/// State of a collector that asks for the next superblock.
pub(in crate::ftl) struct Standing {
    /// Superblocks that it is erasing.
    pub(in crate::ftl) erasing: u32,
    /// Superblocks whose data are not all programmed elsewhere yet.
    pub(in crate::ftl) victims: u32,
}

impl State {
    /// The superblock that a die's collector should empty next. It is no longer closed.
    pub(in crate::ftl) fn next_victim(
        &mut self,
        core: &Core,
        die: u32,
        standing: &Standing,
    ) -> Option<(BlockId, Cause)> {
        if let Some(begun) = self.collecting.upkeep[die as usize].begun.take() {
            return Some(begun);
        }
        let config = &core.config;
        let (reserve, start) = (core.reserve(), core.start());
        let free = self.blocks.free(die) + standing.erasing;
        // Superblocks being erased are as good as free, and present victims will be without a further choice.
        let is_short = free + standing.victims <= start;
        let its_turn = !is_short || self.collecting.upkeep[die as usize].since >= TURN;
        let is_claimed = its_turn && self.is_due(core, die);
        self.blocks.claim(die, is_claimed);
        self.refresh(die);
        if is_claimed && let Some(found) = self.take_due(core, die) {
            self.collecting.upkeep[die as usize].since = 0;
            return Some(found);
        }
        let kept = reserve + u32::from(is_claimed);
        let is_wanted = free + standing.victims <= start.max(kept) || free <= kept;
        let is_idle = self.collecting.is_idle
            && config.upkeep.background.is_some_and(|it| free + standing.victims < it.free_blocks);
        let is_doomed = self.blocks.doomed_of(die) > 0;
        let is_in_window = self.collecting.upkeep[die as usize].stays_in_window(free + standing.victims);
        if !is_wanted && !is_idle && !is_doomed && !is_in_window {
            return None;
        }
        let fits = free > 0 || standing.victims > 0 && self.blocks.has_collectors_stripes(die);
        let wordline = self.filling.wordline() * core.geometry.units_per_stripe();
        let valid_most = core.geometry.units_per_block().saturating_sub(wordline);
        // An empty victim needs no space.
        let valid_most = if fits { valid_most } else { 0 };
        let victim = self.blocks.take_victim(die, valid_most);
        // All suitable victims may be waiting for refresh, and that for a free superblock, as after a long
        // time without power.
        match victim.or_else(|| if is_wanted { self.blocks.take_refreshing(die, valid_most) } else { None }) {
            Some(block) => {
                let of_die = &mut self.collecting.upkeep[die as usize];
                of_die.since = of_die.since.saturating_add(1);
                let cause = match (is_wanted, is_in_window, is_idle) {
                    (false, true, _) => Cause::Window,
                    (false, false, true) => Cause::Idle,
                    _ => Cause::Space,
                };
                if is_wanted && !is_in_window {
                    core.signals.collection_begun.notify_one();
                }
                Some((block, cause))
            }
            None => {
                // No further gain is possible, so the window of the die ends.
                self.collecting.upkeep[die as usize].window = 0;
                self.blocks.starve(die);
                if self.is_due(core, die) { self.take_due(core, die) } else { None }
            }
        }
    }

    /// Starts a die in the middle of its work, in the steady state: the victim that its collector has begun
    /// comes first. For a fold, present or imminent, one more free superblock is withheld from the host.
    /// `first` is the die's first superblock.
    pub(in crate::ftl) fn go_on_upkeep(&mut self, die: u32, first: BlockId, found: InitialUpkeep) {
        let InitialUpkeep { begun, collections } = found;
        self.blocks.claim(die, begun == Some(Begun::Fold) || collections > TURN);
        let begun = match begun {
            Some(Begun::Fold) => self.blocks.take_cached(die).map(|block| (block, Cause::Fold)),
            Some(Begun::Collect) if self.blocks.is_closed(first) => {
                self.blocks.take_closed(first);
                Some((first, Cause::Space))
            }
            _ => None,
        };
        let of_die = &mut self.collecting.upkeep[die as usize];
        (of_die.since, of_die.begun) = (collections, begun);
        self.refresh(die);
    }

    /// Whether a die has work other than garbage collection for space.
    fn is_due(&mut self, core: &Core, die: u32) -> bool {
        self.blocks.is_queued(die, Queue::Retiring)
            || !self.is_read_only()
                && (self.blocks.is_queued(die, Queue::Refreshing)
                    || self.is_uneven(die)
                    || self.is_to_fold(core, die))
    }

    /// Takes the next such work, if a superblock is free beyond the reserve.
    fn take_due(&mut self, core: &Core, die: u32) -> Option<(BlockId, Cause)> {
        if self.blocks.free(die) <= core.reserve() {
            return None;
        }
        if let Some(block) = self.blocks.take_queued(die, Queue::Retiring) {
            return Some((block, Cause::Retire));
        }
        if self.is_read_only() {
            return None;
        }
        if let Some(block) = self.blocks.take_queued(die, Queue::Refreshing) {
            return Some((block, Cause::Refresh));
        }
        if self.is_uneven(die) {
            let coldest = self.collecting.upkeep[die as usize].coldest.take()?;
            self.blocks.take_closed(coldest);
            self.collecting.upkeep[die as usize].moved += 1;
            return Some((coldest, Cause::Level));
        }
        if self.is_to_fold(core, die) {
            return self.blocks.take_cached(die).map(|block| (block, Cause::Fold));
        }
        None
    }

    /// Records an erase of superblocks of a die: the wear must be evaluated again. `is_levelled`: all of them were emptied for that.
    pub(in crate::ftl) fn note_erase(&mut self, die: u32, is_levelled: bool) {
        let of_die = &mut self.collecting.upkeep[die as usize];
        of_die.looked = false;
        if !is_levelled {
            of_die.moved = 0;
        }
    }

    /// Whether wear leveling should move the data of a die's `coldest` superblock: what its policy has said since the last erase.
    fn is_uneven(&mut self, die: u32) -> bool {
        let State { collecting, blocks, .. } = self;
        if !blocks.levels() {
            return false;
        }
        let of_die = &mut collecting.upkeep[die as usize];
        if of_die.moved >= blocks.moves_most() {
            return false;
        }
        if !std::mem::replace(&mut of_die.looked, true) {
            of_die.coldest = blocks.coldest(die);
        }
        of_die.coldest = of_die.coldest.filter(|block| blocks.is_closed(*block));
        of_die.coldest.is_some()
    }

    /// Whether a superblock of a die's cache should be folded: the host is idle, the cache is nearly full, or
    /// a purge needs it.
    fn is_to_fold(&self, core: &Core, die: u32) -> bool {
        let (free, full) = self.blocks.cache(die);
        let is_nearly_full = !core.config.upkeep.slc_folds_idle && free <= (free + full) / 4;
        full > 0 && (self.collecting.is_idle || is_nearly_full || self.blocks.doomed_of(die) > 0)
    }

    /// Priority of a collector's operations for a cause.
    pub(in crate::ftl) fn priority(&self, die: u32, cause: Cause) -> Priority {
        let awaited = matches!(cause, Cause::Space | Cause::Window) || self.is_awaited(die);
        if awaited { Priority::Collector } else { Priority::Background }
    }

    /// Whether a stream of the host can get no stripe in a die.
    fn is_awaited(&self, die: u32) -> bool {
        self.streams_with_space(die) < usize::from(self.filling.streams())
    }
}
