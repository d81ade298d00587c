//! A die: what it works at, and the operations that wait for it.

use crate::geometry::BlockId;
use crate::line::{Line, PASSED_MAX};
use crate::priority::Priority;
use crate::store::{Batch, Store};
use byteway_clock::{Delay, HeldIos, TaskId, Time};

pub(crate) enum Verb {
    /// The units of a stripe, as a mask. If their contents are known to the caller, only whether they can be read is reported.
    Read {
        mask: u64,
        is_known: bool,
    },
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

impl Operation {
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.verb, Verb::Read { .. })
    }
}

/// What is done for an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is none.
    #[default]
    Idle,
    /// Waits for the channel, to take the command, or command and data, before the cells work.
    AwaitsStart,
    /// The command is on its way and the cells work, until `until`.
    Works,
    /// The cells end their step, until `until`; then the operation is suspended.
    Suspends,
    /// Holds sensed data while the data of the read before leaves the cache register.
    AwaitsRegister,
    /// Holds sensed data until the channel is free.
    AwaitsOut,
    /// The data moves out, until `until`.
    MovesOut,
}

/// An operation at work.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) operation: Option<Operation>,
    pub(crate) phase: Phase,
    pub(crate) until: Time,
    /// When the cells begin, or began, to work, and how long they do; of a suspended operation, what is left.
    pub(crate) cells_from: Time,
    pub(crate) cells: Delay,
    /// When it took the die, or took it again.
    pub(crate) begun: Time,
    /// When the next one began, if before its end.
    pub(crate) overtaken: Option<Time>,
    /// How long it had waited for the die.
    pub(crate) waited: Delay,
    /// Time of the cells in all, and of the channel so far.
    pub(crate) cell: Delay,
    pub(crate) channel: Delay,
    pub(crate) suspends: u32,
    /// It will be found to have failed at its end.
    pub(crate) fails: bool,
    /// Of a read: the units that are being read, the sensings beyond the first, and for each unit of the stripe how
    /// many of those it takes. The latter has its length only where units can fail.
    pub(crate) mask: u64,
    pub(crate) retries: u8,
    pub(crate) steps: Vec<u8>,
}

impl Work {
    /// The units that the sensing so far have not corrected.
    pub(crate) fn uncorrected(&self) -> u64 {
        let failing =
            |mask: u64, (unit, steps): (usize, &u8)| mask | u64::from(*steps > self.retries) << unit;
        self.mask & self.steps.iter().enumerate().fold(0, failing)
    }
}

/// Its state; `sequencer` moves it.
pub(crate) struct Die {
    pub(crate) queue: Line<Operation, { Priority::COUNT }>,
    /// The two registers of a die, so to speak: without cache reads only the first is used.
    pub(crate) works: [Work; 2],
    /// Which of them the cells work for, or will next; the other's data is on its way out.
    pub(crate) front: u8,
    /// A program or an erase that is suspended, and the reads that were served meanwhile.
    pub(crate) suspended: Option<Work>,
    served: u32,
    /// How many hold the die, since when, and how long it was held before.
    held: u32,
    held_since: Time,
    busy: Delay,
    /// The task whose timer moves it on; none before it is spawned.
    pub(crate) task: Option<TaskId>,
}

impl Die {
    pub(crate) fn new() -> Self {
        Die {
            queue: Line::default(),
            works: [Work::default(), Work::default()],
            front: 0,
            suspended: None,
            served: 0,
            held: 0,
            held_since: Time::ZERO,
            busy: Delay::ZERO,
            task: None,
        }
    }

    /// From now on each of the `units` of a stripe can fail.
    pub(crate) fn make_fallible(&mut self, units: u32) {
        self.works.iter_mut().for_each(|work| work.steps.resize(units as usize, 0));
    }

    /// What the cells work for, or will next.
    pub(crate) fn front(&mut self) -> &mut Work {
        &mut self.works[self.front as usize]
    }

    /// Whether the next operation can begin, if it is a read.
    pub(crate) fn is_open(&self) -> bool {
        self.works[self.front as usize].phase == Phase::Idle
    }

    /// Whether it works at nothing, and nothing waits for it.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.held == 0 && self.suspended.is_none() && self.queue.is_empty()
    }

    /// Whether the data of a read is on its way out while the cells may work for the next.
    pub(crate) fn is_emptying(&self) -> bool {
        self.works[1 - self.front as usize].phase != Phase::Idle
    }

    /// The next operation that can begin now: none but a read while the data of another is on its way out. A turn of a
    /// lower priority never lets an erase overtake a read of its block that waits, of whatever priority.
    pub(crate) fn next(&mut self) -> Option<Operation> {
        let class = self.queue.choose(|candidate, urgent| {
            matches!(candidate.verb, Verb::Erase) && urgent.is_read() && candidate.block == urgent.block
        })?;
        let first = self.queue.first_of(class)?;
        if first.is_read() {
            return self.queue.take(class);
        }
        if self.is_emptying() {
            return None;
        }
        let class = match first.verb {
            Verb::Erase => self.before_erase(class, first.block),
            _ => class,
        };
        self.queue.take(class)
    }

    /// The priority to serve instead of an erase of `block`, if a read of it waits there; else the erase's own.
    fn before_erase(&self, class: usize, block: BlockId) -> usize {
        let waits = |lower: &usize| {
            self.queue.of(*lower).any(|operation| operation.is_read() && operation.block == block)
        };
        (class + 1..Priority::COUNT).find(waits).unwrap_or(class)
    }

    /// The priority of a read that waits, and for which `work` should stand back: not one of what it is changing.
    pub(crate) fn awaited_read(&self, work: &Work, store: &Store) -> Option<usize> {
        let operation = work.operation.as_ref()?;
        let wordline = store.wordline(operation.block);
        let conflicts = |read: &Operation| {
            read.block == operation.block
                && match operation.verb {
                    Verb::Program(_) => read.stripe >= operation.stripe / wordline * wordline,
                    _ => true,
                }
        };
        let awaited = Priority::ALL.iter().take_while(|priority| priority.is_awaited());
        awaited.map(|priority| *priority as usize).find(|class| {
            self.queue.first_of(*class).is_some_and(|first| first.is_read() && !conflicts(first))
        })
    }

    /// The next read to serve while an operation is suspended, until that has its turn.
    pub(crate) fn next_in_suspension(&mut self, store: &Store) -> Option<Operation> {
        let suspended = self.suspended.as_ref()?;
        if self.served == PASSED_MAX {
            return None;
        }
        let class = self.awaited_read(suspended, store)?;
        self.served += 1;
        self.queue.take(class)
    }

    /// Sets the operation aside that the cells worked for.
    pub(crate) fn suspend(&mut self, now: Time) {
        let front = &mut self.works[self.front as usize];
        let mut work = std::mem::take(front);
        front.steps = std::mem::take(&mut work.steps);
        self.suspended = Some(work);
        self.served = 0;
        self.release(now);
    }

    /// Takes up what was set aside.
    pub(crate) fn resume(&mut self, now: Time) -> Option<&mut Work> {
        let mut work = self.suspended.take()?;
        let front = &mut self.works[self.front as usize];
        work.steps = std::mem::take(&mut front.steps);
        *front = work;
        self.hold(now);
        Some(self.front())
    }

    /// An operation takes the die from now on.
    pub(crate) fn hold(&mut self, now: Time) {
        if self.held == 0 {
            self.held_since = now;
        }
        self.held += 1;
    }

    /// An operation leaves it.
    pub(crate) fn release(&mut self, now: Time) {
        self.held -= 1;
        if self.held == 0 {
            self.busy += now.since(self.held_since);
        }
    }

    /// The power goes: what held it holds it no longer.
    pub(crate) fn stop(&mut self, now: Time) {
        if std::mem::take(&mut self.held) > 0 {
            self.busy += now.since(self.held_since);
        }
    }

    /// Its task.
    pub(crate) fn task(&self) -> TaskId {
        self.task.expect("operations come after the tasks were made")
    }

    /// How long it was held by operations up to `now`.
    pub(crate) fn busy(&self, now: Time) -> Delay {
        match self.held {
            0 => self.busy,
            _ => self.busy + now.since(self.held_since),
        }
    }

    /// Operations that wait or are at work.
    pub(crate) fn pending(&self) -> usize {
        let at_work = self.works.iter().chain(&self.suspended).filter(|work| work.operation.is_some());
        self.queue.len() + at_work.count()
    }

    /// Takes out what is at work, suspended operations first.
    pub(crate) fn take_works(&mut self) -> impl Iterator<Item = (Operation, bool)> {
        let works = self.suspended.iter_mut().chain(&mut self.works);
        works.filter_map(|work| work.operation.take().map(|operation| (operation, work.fails)))
    }
}
