use super::view::{Suspend, SuspendView};
use byteway_clock::Delay;

/// What would hold the read up for at least this time beyond the latency of the suspension: what is nearly done is not worth it.
#[derive(Clone, Copy, Debug)]
pub struct Remaining {
    least: Delay,
}

impl Remaining {
    /// With this time.
    pub fn new(least: Delay) -> Self {
        Remaining { least }
    }
}

impl Suspend for Remaining {
    fn suspends(&mut self, view: &mut SuspendView<'_>) -> bool {
        view.remaining() >= view.latency() + self.least
    }
}
