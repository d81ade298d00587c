//! A die: its operations in progress, and the queue of those that wait.

use crate::geometry::BlockId;
use crate::line::{Line, PASSED_MAX};
use crate::policy::{OperationKind, Schedule, ScheduleView, Suspend, SuspendView, Waiting};
use crate::priority::Priority;
use crate::store::{Batch, Store};
use crate::timing::SuspendTiming;
use byteway_clock::random::Stream as Random;
use byteway_clock::{Delay, HeldIos, Time};
use byteway_policy::Asked;

pub(crate) enum Verb {
    /// A read of units of a stripe, by mask. If the caller knows their contents, only their readability is
    /// reported.
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
    /// Index of a read's first unit in the ticket's contents.
    pub(crate) at: u32,
    pub(crate) priority: Priority,
    pub(crate) submitted: Time,
    /// What its die had done when it was submitted, or when it was suspended.
    pub(crate) before: Occupancy,
    /// The I/Os that it serves, for a trace.
    pub(crate) ios: HeldIos,
}

impl Operation {
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.verb, Verb::Read { .. })
    }

    fn kind(&self) -> OperationKind {
        match self.verb {
            Verb::Read { .. } => OperationKind::Read,
            Verb::Program(_) => OperationKind::Program,
            Verb::Erase => OperationKind::Erase,
        }
    }

    /// What its die does, seen by those that wait for it.
    pub(crate) fn occupant(&self) -> Occupant {
        match self.verb {
            Verb::Erase => Occupant::Erase,
            _ if self.priority >= Priority::Collector => Occupant::Collection,
            Verb::Read { .. } => Occupant::Read,
            Verb::Program(_) => Occupant::Program,
        }
    }
}

/// What a die does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Occupant {
    /// Reads for hosts.
    Read,
    /// Programs for hosts.
    Program,
    Erase,
    /// Reads and programs of collection, wear leveling and refresh.
    Collection,
    /// It waits for its channel.
    Channel,
}

/// Time of a die, or of several, by [`Occupant`].
pub(crate) type Occupancy = [Delay; 5];

/// What happened from `before` on.
pub(crate) fn since(now: Occupancy, before: Occupancy) -> Occupancy {
    std::array::from_fn(|class| now[class].saturating_sub(before[class]))
}

/// Progress of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No operation.
    #[default]
    Idle,
    /// Waits for the channel, to send the command, or command and data, before the cells work.
    AwaitsStart,
    /// The command is being sent and the cells work, until `until`.
    Works,
    /// The cells finish their step, until `until`; then the operation is suspended.
    Suspends,
    /// Holds sensed data while the previous read's data leave the cache register.
    AwaitsRegister,
    /// Holds sensed data until the channel is free.
    AwaitsOut,
    /// The data move out, until `until`.
    MovesOut,
}

/// An operation in progress.
#[derive(Default)]
pub(crate) struct ActiveOperation {
    pub(crate) operation: Option<Operation>,
    pub(crate) phase: Phase,
    pub(crate) until: Time,
    /// Instant at which the cells start working, and duration; for a suspended operation, the remaining time.
    pub(crate) cells_from: Time,
    pub(crate) cells: Delay,
    /// Instant at which it last took the die.
    pub(crate) begun: Time,
    /// Instant at which the next operation started, if that was before this one ended.
    pub(crate) overtaken: Option<Time>,
    /// Time spent waiting for the die, and what it did meanwhile, also while this was suspended.
    pub(crate) waited: Delay,
    pub(crate) waits: Occupancy,
    /// Total time of the cells, and of the channel so far.
    pub(crate) cell: Delay,
    pub(crate) channel: Delay,
    pub(crate) suspends: u32,
    /// The operation will fail when it ends.
    pub(crate) fails: bool,
    /// For a read: the units in this sensing, the sensings beyond the first, and for each unit of the stripe
    /// the sensings it needs beyond the first. `steps` is empty where no unit can fail.
    pub(crate) mask: u64,
    pub(crate) retries: u8,
    pub(crate) steps: Vec<u8>,
}

impl ActiveOperation {
    /// Units that the sensings so far have not corrected.
    pub(crate) fn uncorrected(&self) -> u64 {
        let failing =
            |mask: u64, (unit, steps): (usize, &u8)| mask | u64::from(*steps > self.retries) << unit;
        self.mask & self.steps.iter().enumerate().fold(0, failing)
    }
}

/// What all dies have done. Times may wrap: differences are right.
#[derive(Default)]
pub(crate) struct AllDies {
    /// By [`Occupant`]: time of what has ended, and number and sum of the beginnings of what goes on.
    ended: [u64; 5],
    ongoing: [u64; 5],
    beginnings: [u64; 5],
}

impl AllDies {
    fn begin(&mut self, now: Time, occupant: Occupant) {
        let occupant = occupant as usize;
        self.ongoing[occupant] += 1;
        self.beginnings[occupant] = self.beginnings[occupant].wrapping_add(now.0);
    }

    fn end(&mut self, begun: Time, passed: Delay, occupant: Occupant) {
        let occupant = occupant as usize;
        self.ongoing[occupant] -= 1;
        self.beginnings[occupant] = self.beginnings[occupant].wrapping_sub(begun.0);
        self.ended[occupant] = self.ended[occupant].wrapping_add(passed.0);
    }

    /// Time up to `now`.
    pub(crate) fn occupancy(&self, now: Time) -> Occupancy {
        std::array::from_fn(|occupant| {
            let ongoing = now.0.wrapping_mul(self.ongoing[occupant]).wrapping_sub(self.beginnings[occupant]);
            Delay(self.ended[occupant].wrapping_add(ongoing))
        })
    }
}

/// State of a die, which `sequencer` drives.
pub(crate) struct Die {
    pub(crate) queue: Line<Operation, { Priority::COUNT }>,
    /// One operation for each data register; without cache reads only the first is used.
    pub(crate) active: [ActiveOperation; 2],
    /// Index of the operation that the cells work for, now or next. The other operation's data are moving
    /// out.
    pub(crate) front: u8,
    /// A suspended program or erase, and the reads served since.
    pub(crate) suspended: Option<ActiveOperation>,
    served: u32,
    /// Number of operations that hold the die.
    held: u32,
    /// What the last of them does, since when, and what the die has done before.
    occupant: Option<Occupant>,
    occupied_since: Time,
    occupied: Occupancy,
    /// Time for which its cells worked for operations that have ended.
    pub(crate) array: Delay,
    /// Until when its last rest with something to do goes on: it has a timer then.
    pub(crate) rests_until: Time,
}

impl Die {
    pub(crate) fn new() -> Self {
        Die {
            queue: Line::default(),
            active: [ActiveOperation::default(), ActiveOperation::default()],
            front: 0,
            suspended: None,
            served: 0,
            held: 0,
            occupant: None,
            occupied_since: Time::ZERO,
            occupied: Occupancy::default(),
            array: Delay::ZERO,
            rests_until: Time::ZERO,
        }
    }

    /// Prepares for failures in any of the `units` of a stripe.
    pub(crate) fn make_fallible(&mut self, units: u32) {
        self.active.iter_mut().for_each(|work| work.steps.resize(units as usize, 0));
    }

    /// The operation that the cells work for, now or next.
    pub(crate) fn front(&mut self) -> &mut ActiveOperation {
        &mut self.active[self.front as usize]
    }

    /// Whether a read could start now.
    pub(crate) fn is_open(&self) -> bool {
        self.active[self.front as usize].phase == Phase::Idle
    }

    /// Whether the die is idle with an empty queue.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.held == 0 && self.suspended.is_none() && self.queue.is_empty()
    }

    /// Whether the data of a read are moving out while the cells may work for the next.
    pub(crate) fn is_moving_out(&self) -> bool {
        self.active[1 - self.front as usize].phase != Phase::Idle
    }

    /// The next operation that can start now: only a read while another's data move out. When a lower
    /// priority has its turn, an erase still never overtakes a waiting read of its superblock, of whatever
    /// priority.
    pub(crate) fn next(&mut self) -> Option<Operation> {
        let class = self.queue.choose(|candidate, urgent| {
            matches!(candidate.verb, Verb::Erase) && urgent.is_read() && candidate.block == urgent.block
        })?;
        self.next_of(class)
    }

    /// The same, where a schedule chooses among priorities.
    #[cold]
    pub(crate) fn next_by(
        &mut self,
        schedule: &mut Asked<dyn Schedule, Random>,
        now: Time,
        die: u32,
    ) -> Option<Operation> {
        if !self.queue.has_several() {
            return self.next();
        }
        let mut all = [None; Priority::COUNT];
        for (into, priority) in all.iter_mut().zip(Priority::ALL) {
            *into = self.waiting(priority, now);
        }
        let mut waiting = [Waiting::NONE; Priority::COUNT];
        let count = all.iter().flatten().zip(&mut waiting).map(|(found, into)| *into = *found).count();
        let waiting = &waiting[..count];
        let chosen = schedule.ask(|policy, random| {
            let priority = policy.choose(&mut ScheduleView { waiting, die, random });
            match policy.fault() {
                Some(fault) => Err(fault),
                None if waiting.iter().any(|waiting| waiting.priority == priority) => Ok(priority as usize),
                None => Err(format!("none of {priority:?} waits")),
            }
        });
        match chosen {
            Some(class) => self.next_of(class),
            None => self.next(),
        }
    }

    /// What waits of a priority.
    fn waiting(&self, priority: Priority, now: Time) -> Option<Waiting> {
        let class = priority as usize;
        let first = self.queue.first_of(class)?;
        Some(Waiting {
            priority,
            count: self.queue.of(class).count() as u32,
            first: first.kind(),
            waited: now.since(first.submitted),
            passed: self.queue.passed(class),
        })
    }

    /// The first operation of a priority, if it can start now.
    #[inline]
    fn next_of(&mut self, class: usize) -> Option<Operation> {
        let first = self.queue.first_of(class)?;
        if first.is_read() {
            return self.queue.take(class);
        }
        if self.is_moving_out() {
            return None;
        }
        let class = match first.verb {
            Verb::Erase => self.before_erase(class, first.block),
            _ => class,
        };
        self.queue.take(class)
    }

    /// The priority of a waiting read of `block`, which must go before an erase of it; otherwise the erase's
    /// own priority.
    fn before_erase(&self, class: usize, block: BlockId) -> usize {
        let waits = |other: &usize| {
            self.queue.of(*other).any(|operation| operation.is_read() && operation.block == block)
        };
        (0..Priority::COUNT).find(waits).unwrap_or(class)
    }

    /// The priority of a waiting read for which `work` should be suspended: not one of the stripes that it is
    /// changing.
    pub(crate) fn awaited_read(&self, work: &ActiveOperation, store: &Store) -> Option<usize> {
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

    /// Whether a policy suspends the operation that the cells work for, at `at`, for the first read of a class.
    #[cold]
    pub(crate) fn suspends_by(
        &self,
        policy: &mut Asked<dyn Suspend, Random>,
        class: usize,
        (now, at): (Time, Time),
        costs: &SuspendTiming,
        die: u32,
    ) -> bool {
        let work = &self.active[self.front as usize];
        let (Some(operation), Some(read)) = (&work.operation, self.queue.first_of(class)) else {
            return true;
        };
        let decided = policy.ask(|policy, random| {
            let suspends = policy.suspends(&mut SuspendView {
                is_erase: matches!(operation.verb, Verb::Erase),
                priority: operation.priority,
                remaining: work.until.since(now),
                latency: at.since(now),
                resume: costs.resume,
                suspends: work.suspends,
                reads: self.queue.of(class).count() as u32,
                waited: now.since(read.submitted),
                die,
                random,
            });
            policy.fault().map_or(Ok(suspends), Err)
        });
        decided.unwrap_or(true)
    }

    /// The next read to serve during a suspension. None once the suspended operation has its turn.
    pub(crate) fn next_in_suspension(&mut self, store: &Store) -> Option<Operation> {
        let suspended = self.suspended.as_ref()?;
        // Bounded, or a stream of reads would keep the operation suspended indefinitely.
        if self.served == PASSED_MAX {
            return None;
        }
        let class = self.awaited_read(suspended, store)?;
        self.served += 1;
        self.queue.take(class)
    }

    /// Sets aside the operation that the cells worked for.
    pub(crate) fn suspend(&mut self, now: Time, all: &mut AllDies) {
        let front = &mut self.active[self.front as usize];
        let mut work = std::mem::take(front);
        debug_assert!(self.suspended.is_none(), "one operation is suspended at a time");
        front.steps = std::mem::take(&mut work.steps);
        self.release(now, all);
        if let Some(operation) = &mut work.operation {
            operation.before = self.occupancy(now);
        }
        self.suspended = Some(work);
        self.served = 0;
    }

    /// Resumes the suspended operation.
    pub(crate) fn resume(&mut self, now: Time, all: &mut AllDies) -> Option<&mut ActiveOperation> {
        let mut work = self.suspended.take()?;
        if let Some(operation) = &work.operation {
            let meanwhile = since(self.occupancy(now), operation.before);
            work.waits.iter_mut().zip(meanwhile).for_each(|(sum, time)| *sum += time);
            self.hold(now, operation.occupant(), all);
        }
        let front = &mut self.active[self.front as usize];
        work.steps = std::mem::take(&mut front.steps);
        *front = work;
        Some(self.front())
    }

    /// An operation takes the die.
    #[inline]
    pub(crate) fn hold(&mut self, now: Time, occupant: Occupant, all: &mut AllDies) {
        self.held += 1;
        self.occupy(now, Some(occupant), all);
    }

    /// An operation releases the die. Another may go on: the one whose turn came last.
    #[inline]
    pub(crate) fn release(&mut self, now: Time, all: &mut AllDies) {
        debug_assert!(self.held > 0, "an operation releases the die that it holds");
        self.held -= 1;
        if self.held == 0 {
            self.occupy(now, None, all);
        }
    }

    /// Releases the die at a power cut.
    pub(crate) fn stop(&mut self, now: Time, all: &mut AllDies) {
        self.held = 0;
        self.occupy(now, None, all);
    }

    /// One of its operations begins to wait for the channel, or ceases to. That of the cells counts while they
    /// work: the other only moves its data out meanwhile. What stands in the page register waits as the other does.
    #[inline]
    pub(crate) fn await_channel(&mut self, now: Time, number: u8, waits: bool, all: &mut AllDies) {
        let front = self.active[self.front as usize].phase;
        if number != self.front && !matches!(front, Phase::Idle | Phase::AwaitsRegister) {
            return;
        }
        let occupant = match &self.active[number as usize].operation {
            Some(operation) if !waits => operation.occupant(),
            _ => Occupant::Channel,
        };
        if self.occupant != Some(occupant) {
            self.occupy(now, Some(occupant), all);
        }
    }

    #[inline]
    fn occupy(&mut self, now: Time, occupant: Option<Occupant>, all: &mut AllDies) {
        if let Some(before) = self.occupant {
            let passed = now.since(self.occupied_since);
            self.occupied[before as usize] += passed;
            all.end(self.occupied_since, passed, before);
        }
        if let Some(after) = occupant {
            all.begin(now, after);
        }
        (self.occupant, self.occupied_since) = (occupant, now);
    }

    /// What it has done up to `now`.
    #[inline]
    pub(crate) fn occupancy(&self, now: Time) -> Occupancy {
        let mut occupied = self.occupied;
        if let Some(occupant) = self.occupant {
            occupied[occupant as usize] += now.since(self.occupied_since);
        }
        occupied
    }

    /// Time for which operations held it up to `now`.
    pub(crate) fn busy(&self, now: Time) -> Delay {
        let ongoing = self.occupant.map_or(Delay::ZERO, |_| now.since(self.occupied_since));
        self.occupied.into_iter().sum::<Delay>() + ongoing
    }

    /// Operations queued or in progress.
    pub(crate) fn pending(&self) -> usize {
        let at_work = self.active.iter().chain(&self.suspended).filter(|work| work.operation.is_some());
        self.queue.len() + at_work.count()
    }

    /// Takes out the operations in progress, the suspended one first, each with whether it would fail.
    pub(crate) fn take_active(&mut self) -> impl Iterator<Item = (Operation, bool)> {
        let active = self.suspended.iter_mut().chain(&mut self.active);
        active.filter_map(|work| work.operation.take().map(|operation| (operation, work.fails)))
    }
}
