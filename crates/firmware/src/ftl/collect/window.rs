//! Collection windows: a host that has several drives lets all of them collect at once.
//!
//! A drive that collects when it must is slow at a moment of its own; a request that is striped over several drives waits for the
//! slowest of them. So a host may open a *window*: every die collects until so many more superblocks are free than those at which
//! it would begin by itself, or until there is nothing more to be gained. Then it has some time without collection before
//! it. A drive says when it has to begin outside a window ([`Ftl::collection_begun`]), which is when the host should open the next.
//!
//! Source: Kim, Oral, Shipman, Lee, Dillow, Wang: "Harmonia: A Globally Coordinated Garbage Collector for Arrays of Solid-State
//! Drives" (MSST 2011).
//!
//! A window is not persistent: a power cut ends it. It holds no write back, which wait for free superblocks as ever.

use crate::ftl::Ftl;
use crate::ftl::inner::State;
use byteway_clock::Notify;

/// How a drive stands with collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionState {
    /// Windows that have been opened since the power came.
    pub windows: u64,
    /// Dies that are in a window.
    pub dies_in_window: u32,
    /// Free superblocks of the die that has the fewest.
    pub free_least: u32,
    /// Free superblocks of a die at which it begins to collect by itself.
    pub free_start: u32,
}

impl Ftl {
    /// Opens a window: every die collects until `blocks` superblocks more are free than those at which it begins by itself, or until
    /// that gains nothing. Dies that are in a window already go on to the greater of both. A drive that was never written to, or
    /// takes nothing new, is left as it is.
    pub fn open_collection_window(&self, blocks: u32) {
        let inner = &*self.0;
        let mut state = inner.state.borrow_mut();
        if state.filling.next_number <= 1 || state.is_read_only() {
            return;
        }
        let until = inner.config.gc_start_free_blocks.saturating_add(blocks).saturating_add(1);
        let mut is_open = false;
        for die in 0..inner.geometry.dies() {
            let free = state.blocks.free(die);
            let of_die = &mut state.collecting.upkeep[die as usize];
            if free < until {
                of_die.window = of_die.window.max(until);
                is_open = true;
            }
        }
        if is_open {
            state.counters.collection_windows += 1;
            drop(state);
            inner.signals.collectors.iter().for_each(Notify::notify_one);
        }
    }

    /// Ends when a die has begun to collect outside a window because free superblocks are few. For one task, which hears of what came
    /// in between as well.
    pub async fn collection_begun(&self) {
        self.0.signals.collection_begun.notified().await;
    }

    /// How the drive stands with collection.
    pub fn collection(&self) -> CollectionState {
        let inner = &*self.0;
        let state = inner.state.borrow();
        let in_window = state.collecting.upkeep.iter().filter(|of_die| of_die.window > 0);
        CollectionState {
            windows: state.counters.collection_windows,
            dies_in_window: in_window.count() as u32,
            free_least: (0..inner.geometry.dies()).map(|die| state.blocks.free(die)).min().unwrap_or(0),
            free_start: inner.config.gc_start_free_blocks,
        }
    }
}

impl State {
    /// Whether a die is in a window, and stays there with so many superblocks that are free or are about to be.
    pub(in crate::ftl) fn stays_in_window(&mut self, die: u32, free: u32) -> bool {
        let window = &mut self.collecting.upkeep[die as usize].window;
        if free >= *window {
            *window = 0;
        }
        *window > 0
    }
}
