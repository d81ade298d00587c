//! State of the Keep Alive Timer.

use byteway_clock::{TaskId, Time};
use std::cell::Cell;

/// The Keep Alive Timer of a controller.
#[derive(Default)]
pub struct KeepAliveTimer {
    /// Expiry, unless it is restarted.
    pub(crate) until: Cell<Time>,
    /// Number of fetched entries at the last restart.
    pub(crate) fetched: Cell<u64>,
    pub(crate) task: Cell<Option<TaskId>>,
}
