//! What a power cut leaves, and what is to be saved at the next one.

use crate::ftl::finding::Losses;
use byteway_clock::{Clock, Notify};
use byteway_content::Content;
use byteway_flash::Dump;
use std::cell::{Cell, Ref, RefCell};

/// State left by the last power cut, and to be saved at the next one.
pub(in crate::ftl) struct Power {
    /// Whether the drive was built in the steady state and has not been written to.
    is_untouched: Cell<bool>,
    /// Recovery is complete.
    is_ready: Cell<bool>,
    readied: Notify,
    /// The save of the capacitors, until it is back in the buffer.
    saved: RefCell<Option<Dump>>,
    /// Units that callers held in DRAM, taken over at a power cut.
    late: RefCell<Vec<(u64, Content)>>,
    /// What the recovery found to be lost.
    losses: RefCell<Losses>,
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

    /// Whether recovery is complete.
    #[inline]
    pub(in crate::ftl) fn is_ready(&self) -> bool {
        self.is_ready.get()
    }

    /// Ends recovery.
    pub(in crate::ftl) fn set_ready(&self) {
        self.is_ready.set(true);
        self.readied.notify_all();
    }

    /// Whether the drive was built in the steady state and has not been written to.
    pub(in crate::ftl) fn is_untouched(&self) -> bool {
        self.is_untouched.get()
    }

    /// The same, at a write: false from then on.
    #[inline]
    pub(in crate::ftl) fn touch(&self) -> bool {
        self.is_untouched.take()
    }

    /// The save of the capacitors, until it is back in the buffer.
    pub(in crate::ftl) fn saved(&self) -> Dump {
        self.saved.borrow().clone().unwrap_or_default()
    }

    /// Takes the save, if it is not back in the buffer yet.
    pub(in crate::ftl) fn take_saved(&self) -> Option<Dump> {
        self.saved.take()
    }

    /// Adds a unit to what is saved at the next power cut.
    pub(in crate::ftl) fn save(&self, lpa: u64, content: Content) {
        self.late.borrow_mut().push((lpa, content));
    }

    /// Takes the units that were added.
    pub(in crate::ftl) fn take_late(&self) -> Vec<(u64, Content)> {
        self.late.take()
    }

    /// Notes what the recovery found to be lost.
    pub(in crate::ftl) fn note_losses(&self, losses: Losses) {
        self.losses.replace(losses);
    }

    /// What the recovery found to be lost.
    pub(in crate::ftl) fn losses(&self) -> Ref<'_, Losses> {
        self.losses.borrow()
    }

    /// Waits until recovery is complete.
    pub(in crate::ftl) async fn ready(&self) {
        while !self.is_ready.get() {
            self.readied.notified().await;
        }
    }
}
