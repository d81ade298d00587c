//! A policy of suspension, and what it sees.

use crate::priority::Priority;
use byteway_clock::Delay;
use byteway_clock::random::Stream as Random;

/// Decides on suspensions. One is made for each drive; it may keep state, which a power cut forgets.
pub trait Suspend {
    /// Whether the operation is suspended now. If not, it is asked again when the next read of a host comes.
    fn suspends(&mut self, view: &mut SuspendView<'_>) -> bool;

    /// What went wrong, if it did. The run ends with it.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// What a policy sees: an operation that holds up a read.
pub struct SuspendView<'a> {
    pub(crate) is_erase: bool,
    pub(crate) priority: Priority,
    pub(crate) remaining: Delay,
    pub(crate) latency: Delay,
    pub(crate) resume: Delay,
    pub(crate) suspends: u32,
    pub(crate) reads: u32,
    pub(crate) waited: Delay,
    pub(crate) die: u32,
    pub(crate) random: &'a mut Random,
}

impl SuspendView<'_> {
    /// Whether it is an erase; otherwise, a program.
    pub fn is_erase(&self) -> bool {
        self.is_erase
    }

    /// Priority of the operation.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Time until it would end.
    pub fn remaining(&self) -> Delay {
        self.remaining
    }

    /// Time until the die could sense.
    pub fn latency(&self) -> Delay {
        self.latency
    }

    /// Time that it costs to resume.
    pub fn resume(&self) -> Delay {
        self.resume
    }

    /// Times that it has been suspended already.
    pub fn suspends(&self) -> u32 {
        self.suspends
    }

    /// Reads of the waiting read's priority that wait.
    pub fn reads(&self) -> u32 {
        self.reads
    }

    /// For how long the read has waited.
    pub fn waited(&self) -> Delay {
        self.waited
    }

    /// Number of the die within its drive.
    pub fn die(&self) -> u32 {
        self.die
    }

    /// A random number: the next one of the drive's own sequence, which follows from the scenario's seed.
    pub fn random(&mut self) -> u64 {
        self.random.next_u64()
    }
}
