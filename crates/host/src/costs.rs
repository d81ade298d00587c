//! What the host's own software costs in processor time.

use byteway_clock::Delay;

/// Processor time of the driver, from the host profile. All zero: the host costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCosts {
    /// Building a command and placing its entry.
    pub submit: Delay,
    /// A store to a doorbell, as far as it holds the processor up.
    pub doorbell: Delay,
    /// Describing one page of payload.
    pub per_page: Delay,
    /// Looking at a completion queue entry and handing the result on.
    pub complete: Delay,
    /// Taking one interrupt, before the first completion is looked at.
    pub interrupt: Delay,
}

impl HostCosts {
    /// Submitting `commands` that have `pages` pages of payload in all, with one doorbell.
    pub fn submission(&self, commands: u64, pages: u64) -> Delay {
        self.submit * commands + self.per_page * pages + self.doorbell
    }
}
