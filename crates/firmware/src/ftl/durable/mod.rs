//! Persistent state of the translation layer apart from the units, and recovery after a power cut.
//!
//! | file | contents |
//! |---|---|
//! | [`journal`], [`journal_writer`] | deallocations, in the system area; the task that writes them |
//! | [`checkpoint`], [`root`] | persisting the map; its entry point |
//! | [`recover`] | recovery of the state at power-on |
//! | [`audit`] | comparison of the map with the spare areas, for inspecting a directory |
//! | [`medium`] | media in files: their fixed parameters, and inspecting them |

pub(in crate::ftl) mod audit;
pub(in crate::ftl) mod checkpoint;
pub(in crate::ftl) mod journal;
pub(in crate::ftl) mod journal_writer;
pub(in crate::ftl) mod medium;
pub(in crate::ftl) mod recover;
pub(in crate::ftl) mod root;

use crate::ftl::config::MediaError;
use audit::Disagreement;
use byteway_clock::{Clock, Notify};
use byteway_content::Content;
use byteway_flash::Dump;
use root::Root;
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

/// What damage of the medium has lost, as found by a recovery.
#[derive(Clone, Debug, Default)]
pub(in crate::ftl) struct Losses {
    /// Pages and units, by rising number.
    pub(in crate::ftl) findings: Vec<Disagreement>,
    /// Units in all.
    pub(in crate::ftl) units: u64,
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
}

/// State of checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::ftl) struct Checkpoints {
    /// Number of the last root; its slot is this modulo 2.
    pub(in crate::ftl) generation: u64,
    /// Units programmed when the last checkpoint began.
    units_then: u64,
    /// Checkpoints requested, and those of them completed.
    asked: u64,
    done: u64,
    /// The next checkpoint to begin belongs to a shutdown.
    is_shutdown: bool,
    /// Why the last checkpoint of a shutdown was not written.
    failed: Option<MediaError>,
    /// The last root is that of a shutdown, and nothing has come since.
    is_clean: bool,
    /// Dirty translation pages were dropped from DRAM without being written, so no root may be written any
    /// more.
    pub(in crate::ftl) is_over: bool,
    pub(in crate::ftl) power_cycles: u64,
    pub(in crate::ftl) unsafe_shutdowns: u64,
}

impl Checkpoints {
    /// Continues from the last root. A power cut came after it, unless it `was_clean`.
    pub(in crate::ftl) fn recovered(&mut self, root: &Root, was_clean: bool) {
        self.generation = root.generation;
        self.power_cycles = root.power_cycles + 1;
        self.unsafe_shutdowns = root.unsafe_shutdowns + u64::from(!was_clean);
    }
}
