//! Collection windows: a host with several drives lets all of them run garbage collection at the same time.
//!
//! A drive that collects only when it must is slow at times of its own, and a request striped over several
//! drives waits for the slowest. So a host may open a *window*: every die collects until a given number of
//! superblocks more are free than its own start threshold, or until there is nothing more to gain. After that
//! it runs for some time without garbage collection. A drive reports when it has to start outside a window
//! ([`Ftl::collection_begun`]), which is when the host should open the next one.
//!
//! Source: Kim, Oral, Shipman, Lee, Dillow, Wang: "Harmonia: A Globally Coordinated Garbage Collector for
//! Arrays of Solid-State Drives" (MSST 2011).
//!
//! A window is not persistent: a power cut ends it. Writes are not held back; they wait for free superblocks
//! as usual.

use crate::ftl::Ftl;
use crate::ftl::inner::State;
use byteway_clock::Notify;

/// State of a drive's garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionState {
    /// Windows opened since power-on.
    pub windows: u64,
    /// Dies in a window.
    pub dies_in_window: u32,
    /// Free superblocks of the die with the fewest.
    pub free_least: u32,
    /// Free superblocks at which a die starts garbage collection by itself.
    pub free_start: u32,
}

impl Ftl {
    /// Opens a window: every die collects until `blocks` superblocks more are free than its start threshold,
    /// or until there is nothing more to gain. Dies that are in a window already take the greater target. A
    /// drive that was never written to, or is read-only, is left as it is.
    pub fn open_collection_window(&self, blocks: u32) {
        let inner = &*self.0;
        let mut state = inner.state.borrow_mut();
        if state.filling.next_number <= 1 || state.is_read_only() {
            return;
        }
        let until = inner.start().saturating_add(blocks).saturating_add(1);
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

    /// Waits until a die starts garbage collection outside a window because few superblocks are free. For one
    /// task; events between calls are not lost.
    pub async fn collection_begun(&self) {
        self.0.signals.collection_begun.notified().await;
    }

    /// State of garbage collection.
    pub fn collection(&self) -> CollectionState {
        let inner = &*self.0;
        let state = inner.state.borrow();
        let in_window = state.collecting.upkeep.iter().filter(|of_die| of_die.window > 0);
        CollectionState {
            windows: state.counters.collection_windows,
            dies_in_window: in_window.count() as u32,
            free_least: (0..inner.geometry.dies()).map(|die| state.blocks.free(die)).min().unwrap_or(0),
            free_start: inner.start(),
        }
    }
}

impl State {
    /// Whether a die is in a window and stays there, with `free` superblocks free or about to be.
    pub(in crate::ftl) fn stays_in_window(&mut self, die: u32, free: u32) -> bool {
        let window = &mut self.collecting.upkeep[die as usize].window;
        if free >= *window {
            *window = 0;
        }
        *window > 0
    }
}
