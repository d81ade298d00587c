//! Collection windows: a host with several drives lets all of them run garbage collection at the same time.
//!
//! A drive that collects only when it must is slow at times of its own, and a request striped over several
//! drives waits for the slowest. So a host may open a *window*: every die collects until a given number of
//! superblocks more are free than its own start threshold, or until there is nothing more to gain. After that
//! it runs for some time without garbage collection. A drive reports when it has to start outside a window
//! ([`Ftl::collection_begun`](crate::Ftl::collection_begun)), which is when the host should open the next one.
//!
//! Source: Kim, Oral, Shipman, Lee, Dillow, Wang: "Harmonia: A Globally Coordinated Garbage Collector for
//! Arrays of Solid-State Drives" (MSST 2011).
//!
//! A window is not persistent: a power cut ends it. Writes are not held back; they wait for free superblocks
//! as usual.

use crate::ftl::core::Core;

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

/// Opens a window: every die collects until `blocks` superblocks more are free than its start threshold.
pub(in crate::ftl) fn open(core: &Core, blocks: u32) {
    let mut state = core.state.borrow_mut();
    if !state.filling.has_begun() || state.is_read_only() {
        return;
    }
    let until = core.start().saturating_add(blocks).saturating_add(1);
    let mut is_open = false;
    for die in 0..core.geometry.dies() {
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
        core.collectors.call_all();
    }
}

/// State of garbage collection.
pub(in crate::ftl) fn state(core: &Core) -> CollectionState {
    let state = core.state.borrow();
    let in_window = state.collecting.upkeep.iter().filter(|of_die| of_die.window > 0);
    CollectionState {
        windows: state.counters.collection_windows,
        dies_in_window: in_window.count() as u32,
        free_least: (0..core.geometry.dies()).map(|die| state.blocks.free(die)).min().unwrap_or(0),
        free_start: core.start(),
    }
}
