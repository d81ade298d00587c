//! What is written down beside the units, so that the power may go; and what is found when it comes back.
//!
//! | file | what |
//! |---|---|
//! | [`journal`] | what was deallocated, in the system area |
//! | [`checkpoint`], [`root`] | the map, written down; where it is |
//! | [`recover`] | what the medium holds, when the power has come back |
//! | [`audit`] | whether the map and the spare areas say the same, for who looks at a directory |
//! | [`medium`] | media in files: what must stay the same, and looking at them |

pub(in crate::ftl) mod audit;
pub(in crate::ftl) mod checkpoint;
pub(in crate::ftl) mod journal;
pub(in crate::ftl) mod medium;
pub(in crate::ftl) mod recover;
pub(in crate::ftl) mod root;

use byteway_clock::{Clock, Notify};
use byteway_flash::Dump;
use byteway_wire::content::Content;
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
