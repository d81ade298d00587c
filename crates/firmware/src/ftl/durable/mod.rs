//! What is written down beside the units, so that the power may go; and what is found when it comes back.
//!
//! | file | what |
//! |---|---|
//! | [`journal`], [`journal_writer`] | what was deallocated, in the system area; the task that writes it there |
//! | [`checkpoint`], [`root`] | the map, written down; where it is |
//! | [`recover`] | what the medium holds, when the power has come back |
//! | [`audit`] | whether the map and the spare areas say the same, for who looks at a directory |
//! | [`medium`] | media in files: what must stay the same, and looking at them |

pub(in crate::ftl) mod audit;
pub(in crate::ftl) mod checkpoint;
pub(in crate::ftl) mod journal;
pub(in crate::ftl) mod journal_writer;
pub(in crate::ftl) mod medium;
pub(in crate::ftl) mod recover;
pub(in crate::ftl) mod root;

use crate::ftl::config::MediaError;
use byteway_clock::{Clock, Notify};
use byteway_flash::Dump;
use byteway_wire::content::Content;
use root::Root;
use std::cell::{Cell, RefCell};

/// What the last loss of power has left, and the next one would take.
pub(in crate::ftl) struct Power {
    /// It was made in the steady state, and nothing has been written to it yet.
    pub(in crate::ftl) is_untouched: Cell<bool>,
    /// What the medium holds is known.
    pub(in crate::ftl) is_ready: Cell<bool>,
    pub(in crate::ftl) readied: Notify,
    /// What capacitors have saved, until it is in the buffer again.
    pub(in crate::ftl) saved: RefCell<Option<Dump>>,
    /// What somebody above had in DRAM, handed over when the power goes.
    pub(in crate::ftl) late: RefCell<Vec<(u64, Content)>>,
}

impl Power {
    /// `saved`: what capacitors have saved in the medium.
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
        }
    }
}

/// Checkpoints: what was written, and what is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::ftl) struct Checkpoints {
    /// Of the last root; its slot is this modulo 2.
    pub(in crate::ftl) generation: u64,
    /// Units that had been programmed when the last one began.
    units_then: u64,
    /// How many were asked for, and how many of those have ended.
    asked: u64,
    done: u64,
    /// The next one that begins is a shutdown's.
    is_shutdown: bool,
    /// Why the last one of a shutdown was not written.
    failed: Option<MediaError>,
    /// The last root is of a shutdown, and nothing has come since.
    is_clean: bool,
    /// Translation pages that had changed left DRAM without being written: a root would say that they are.
    pub(in crate::ftl) is_over: bool,
    pub(in crate::ftl) power_cycles: u64,
    pub(in crate::ftl) unsafe_shutdowns: u64,
}

impl Checkpoints {
    /// Goes on from the last root; a cut came after it, unless it `was_clean`.
    pub(in crate::ftl) fn recovered(&mut self, root: &Root, was_clean: bool) {
        self.generation = root.generation;
        self.power_cycles = root.power_cycles + 1;
        self.unsafe_shutdowns = root.unsafe_shutdowns + u64::from(!was_clean);
    }
}
