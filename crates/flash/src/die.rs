//! A die: one operation at a time, and those that wait for it.

use crate::geometry::BlockId;
use crate::line::Line;
use crate::store::Batch;
use byteway_clock::{Delay, HeldIos, TaskId, Time};

/// Who asks, most urgent first. Within a priority the first comes first; a lower one that waits has its turn after
/// eight more urgent operations in a row. Erases are the collector's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A read that a host waits for.
    HostRead = 0,
    /// A program of what a host wrote.
    HostProgram = 1,
    /// Reads and programs that move data, and erases.
    Collector = 2,
}

impl Priority {
    /// For whom, in a trace.
    pub(crate) fn client(self) -> &'static str {
        match self {
            Priority::HostRead | Priority::HostProgram => "host",
            Priority::Collector => "collector",
        }
    }

    /// How many there are.
    pub const COUNT: usize = 3;
}

pub(crate) enum Verb {
    /// The units of a stripe, as a mask.
    Read(u64),
    Program(Batch),
    Erase,
}

pub(crate) struct Operation {
    pub(crate) verb: Verb,
    pub(crate) block: BlockId,
    pub(crate) stripe: u32,
    pub(crate) ticket: u32,
    /// Where in the ticket's contents a read delivers.
    pub(crate) at: u32,
    pub(crate) priority: Priority,
    pub(crate) submitted: Time,
    /// In a trace: the I/Os that it is for.
    pub(crate) ios: HeldIos,
}

/// What the die does for its current operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has none.
    Idle,
    /// Waits for the channel, to take the command, or command and data, before the cells work.
    AwaitsStart,
    /// The command is on its way and the cells work, until `until`.
    Works,
    /// Holds sensed data until the channel is free.
    AwaitsOut,
    /// The data moves out, until `until`.
    MovesOut,
}

/// Its state; [`array`](mod@crate::array) moves it.
pub(crate) struct Die {
    pub(crate) queue: Line<Operation, { Priority::COUNT }>,
    pub(crate) current: Option<Operation>,
    pub(crate) phase: Phase,
    pub(crate) until: Time,
    pub(crate) begun: Time,
    /// Of the current operation: time of the cells, and of the channel so far.
    pub(crate) cell: Delay,
    pub(crate) channel: Delay,
    busy: Delay,
    /// The task whose timer moves it on; none before it is spawned.
    pub(crate) task: Option<TaskId>,
}

impl Die {
    pub(crate) fn new() -> Self {
        Die {
            queue: Line::default(),
            current: None,
            phase: Phase::Idle,
            until: Time::ZERO,
            begun: Time::ZERO,
            cell: Delay::ZERO,
            channel: Delay::ZERO,
            busy: Delay::ZERO,
            task: None,
        }
    }

    /// The next operation. A turn of the collector's never lets an erase overtake a read of its block that came
    /// before.
    pub(crate) fn next(&mut self) -> Option<Operation> {
        self.queue.pop_unless(|candidate, urgent| {
            matches!(candidate.verb, Verb::Erase)
                && matches!(urgent.verb, Verb::Read(_))
                && candidate.block == urgent.block
        })
    }

    /// Ends the current operation.
    pub(crate) fn end(&mut self, now: Time) -> Operation {
        self.phase = Phase::Idle;
        self.busy += now.since(self.begun);
        self.current.take().expect("a die that ends an operation has one")
    }

    /// Its task.
    pub(crate) fn task(&self) -> TaskId {
        self.task.expect("operations come after the tasks were made")
    }

    /// How long it was held by operations up to `now`.
    pub(crate) fn busy(&self, now: Time) -> Delay {
        match self.current {
            Some(_) => self.busy + now.since(self.begun),
            None => self.busy,
        }
    }
}
