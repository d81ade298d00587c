//! What a power cut leaves, and what is to be saved at the next one.

use crate::ftl::finding::Losses;
use byteway_clock::{Clock, Notify};
use byteway_content::Content;
use byteway_flash::Dump;
use std::cell::{Cell, RefCell};

/// State left by the last power cut, and to be saved at the next one.
pub(in crate::ftl) struct Power {
    /// Whether the drive was built in the steady state and has not been written to.
    pub(in crate::ftl) is_untouched: Cell<bool>,
    /// Recovery is complete.
    pub(in crate::ftl) is_ready: Cell<bool>,
    pub(in crate::ftl) readied: Notify,
    /// The save of the capacitors, until it is back in the buffer.
    pub(in crate::ftl) saved: RefCell<Option<Dump>>,
    /// Units that callers held in DRAM, taken over at a power cut.
    pub(in crate::ftl) late: RefCell<Vec<(u64, Content)>>,
    /// What the recovery found to be lost.
    pub(in crate::ftl) losses: RefCell<Losses>,
}

impl Power {
    /// `saved`: the save of the capacitors in the medium.
    pub(in crate::ftl) fn new(
        clock: &Clock,
        is_untouched: bool,
        is_ready: bool,
        saved: Option<Dump>,
    ) -> Self {
        Power {
            is_untouched: Cell::new(is_untouched),
            is_ready: Cell::new(is_ready),
            readied: Notify::new(clock),
            saved: RefCell::new(saved),
            late: RefCell::default(),
            losses: RefCell::default(),
        }
    }

    /// Waits until recovery is complete.
    pub(in crate::ftl) async fn ready(&self) {
        while !self.is_ready.get() {
            self.readied.notified().await;
        }
    }
}
