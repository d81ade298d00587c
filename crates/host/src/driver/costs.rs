//! Processor time of the host's own software.

use byteway_clock::{Delay, Stage};

/// Processor time of the driver, from the host profile. All zero: the host's software costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCosts {
    /// Building a command and writing its entry.
    pub submit: Delay,
    /// Writing a doorbell, as far as it stalls the processor.
    pub doorbell: Delay,
    /// Describing one page of payload.
    pub per_page: Delay,
    /// Reading a completion queue entry and passing the result on.
    pub complete: Delay,
    /// Taking an interrupt, before the first completion is read.
    pub interrupt: Delay,
    /// Writing a further entry with payload of a train or a chunk, or reading one of a result.
    pub chunk: Delay,
    /// Between a completion and the next command of the same payload, if that waits for it.
    pub turnaround: Delay,
    /// A write-combined store of 64 bytes to the device's buffer, or a non-temporal one to its memory.
    pub store: Delay,
    /// Storing and flushing a line of 64 bytes in device memory, without the link's time.
    pub flush: Delay,
    /// The stage that submissions and completions are charged to: the host, except in a target's driver.
    pub stage: Stage,
}

impl HostCosts {
    /// Submission of `commands` commands with `pages` pages of payload in all, and one doorbell write.
    pub fn submission(&self, commands: u64, pages: u64) -> Delay {
        self.submit * commands + self.per_page * pages + self.doorbell
    }
}
