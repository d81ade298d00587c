//! The Keep Alive Timer: when it expires.

use byteway_clock::{TaskId, Time};
use std::cell::Cell;

/// The timer of one controller.
#[derive(Default)]
pub struct KeepAliveTimer {
    /// When it expires, if nothing has restarted it.
    pub(crate) until: Cell<Time>,
    /// Entries that had been fetched when it was last restarted.
    pub(crate) fetched: Cell<u64>,
    pub(crate) task: Cell<Option<TaskId>>,
}
