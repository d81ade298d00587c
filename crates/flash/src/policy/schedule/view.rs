//! A schedule of a die, and what it sees.

use crate::priority::Priority;
use byteway_clock::Delay;
use byteway_clock::random::Stream as Random;

/// Chooses the next operation of a die. One is made for each drive; it may keep state, which a power cut forgets.
pub trait Schedule {
    /// The priority whose first operation is next: one of the view's, of which there are at least two.
    fn choose(&mut self, view: &mut ScheduleView<'_>) -> Priority;

    /// What went wrong, if it did: its choice then does not count. The run ends with it.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// It senses units of a stripe, and moves them out.
    Read,
    /// It programs a stripe.
    Program,
    /// It erases a superblock.
    Erase,
}

/// Operations of one priority that wait for a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Their priority.
    pub priority: Priority,
    /// Their number.
    pub count: u32,
    /// What the first of them does. They are served in order.
    pub first: OperationKind,
    /// For how long the first of them has waited.
    pub waited: Delay,
    /// More urgent operations that were served while these waited, since the last of this priority.
    pub passed: u32,
}

impl Waiting {
    pub(crate) const NONE: Waiting = Waiting {
        priority: Priority::Background,
        count: 0,
        first: OperationKind::Read,
        waited: Delay::ZERO,
        passed: 0,
    };
}

/// What a policy sees: the operations that wait for a die.
pub struct ScheduleView<'a> {
    pub(crate) waiting: &'a [Waiting],
    pub(crate) die: u32,
    pub(crate) random: &'a mut Random,
}

impl ScheduleView<'_> {
    /// Those that wait, the most urgent ones first; at least two.
    pub fn waiting(&self) -> &[Waiting] {
        self.waiting
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
