//! What the host's own software costs in processor time.

use byteway_clock::{Delay, Stage};

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
    /// Placing one more entry that carries payload, of a train or a chunk, or taking one of a result.
    pub chunk: Delay,
    /// Between a completion and the next command of the same payload, where one waits for the other.
    pub turnaround: Delay,
    /// A write-combined store of 64 bytes to the device's buffer, or past the cache to its memory.
    pub store: Delay,
    /// Storing a line of 64 bytes to the device's memory and flushing it, without what the link takes for that.
    pub flush: Delay,
    /// What submissions and completions are charged to: the host, unless the driver is a target's.
    pub stage: Stage,
}

impl HostCosts {
    /// Submitting `commands` that have `pages` pages of payload in all, with one doorbell.
    pub fn submission(&self, commands: u64, pages: u64) -> Delay {
        self.submit * commands + self.per_page * pages + self.doorbell
    }
}
