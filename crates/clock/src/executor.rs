//! The executor: tasks, calls, timers and the virtual-time runner.
//!
//! Tasks live in a slab and are polled with a no-op waker. A leaf future records the task that polls it
//! ([`Clock::current`]); the code that satisfies the wait calls [`Clock::wake`]. A task waits on one leaf at
//! a time, and a leaf tolerates being polled early. When no task is ready, the clock jumps to the next timer.
//!
//! A call is an event without a task: a function ([`Clock::handle`]) and an index, which says for which record of the
//! function's owner it is. Calls and tasks share timers and the queue of what is ready, so there is one order. What a
//! drive does for nearly every I/O is written as calls: a poll takes a future out of the slab and back, and goes
//! through the state machines of all its callers again; a call is an indirect jump.

use crate::descriptor::Watches;
use crate::real::{Lateness, Timing, Wall};
use crate::span::Spans;
use crate::task::{Handler, TaskId};
use crate::time::{Delay, Time};
use crate::tracer::{Owner, Tracing};
use crate::wheel::{Timer, Wheel};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Task {
    /// Shown in [`Stalled`].
    name: &'static str,
    /// None while the task is being polled, and after it has ended.
    future: Option<TaskFuture>,
    /// Incremented whenever the slot is reused, so that a stale [`TaskId`] matches no later task.
    generation: u32,
    alive: bool,
    /// Already in `ready`: a second wake adds no second entry.
    queued: bool,
    /// Whether the task only polls for outside events, so that its readiness and timers do not count as
    /// progress.
    is_watcher: bool,
}

type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The function of a handler.
type Function = Rc<dyn Fn(u32)>;

/// The slot of a handler.
struct HandlerSlot {
    /// `None`: removed.
    function: Option<Function>,
    generation: u32,
}

/// What is to be run next.
enum Due {
    Task(TaskFuture),
    Call(Function),
}

/// Ready queue, timers, and the slab of tasks.
#[derive(Default)]
struct Schedule {
    slots: Vec<Task>,
    free: Vec<u32>,
    handlers: Vec<HandlerSlot>,
    free_handlers: Vec<usize>,
    ready: VecDeque<TaskId>,
    wheel: Wheel<TaskId>,
    /// Number of watcher tasks.
    watchers: usize,
    /// Armed timers that belong to watchers.
    watcher_timers: usize,
}

impl Schedule {
    fn is_watcher(&self, id: TaskId) -> bool {
        let task = self.slots.get(id.index as usize);
        task.is_some_and(|task| task.is_watcher && task.generation == id.generation)
    }

    #[inline(always)]
    fn arm(&mut self, at: u64, id: TaskId) {
        // The look-up is skipped in the usual case, where no watcher exists.
        if self.watchers > 0 {
            self.watcher_timers += usize::from(self.is_watcher(id));
        }
        self.wheel.insert(at, id);
    }

    /// Takes the next timer, with its share of the watcher count.
    #[inline(always)]
    fn pop_timer(&mut self) -> Option<Timer<TaskId>> {
        let timer = self.wheel.pop()?;
        if self.watchers > 0 {
            self.watcher_timers -= usize::from(self.is_watcher(timer.target));
        }
        Some(timer)
    }

    /// The function of a handler, unless it was removed.
    #[inline]
    fn function(&self, handler: Handler) -> Option<&Function> {
        let slot = self.handlers.get(handler.slot()).filter(|slot| slot.generation == handler.generation());
        slot.and_then(|slot| slot.function.as_ref())
    }

    /// Whether every ready task and every armed timer belongs to a watcher.
    fn has_only_watchers(&self) -> bool {
        self.wheel.len() == self.watcher_timers
            && self.ready.len() <= self.watchers
            && self.ready.iter().all(|id| self.is_watcher(*id))
    }

    /// The task, unless it has ended or its slot has been reused.
    fn task(&mut self, id: TaskId) -> Option<&mut Task> {
        let task = self.slots.get_mut(id.index as usize)?;
        (task.generation == id.generation && task.alive).then_some(task)
    }

    /// What is to be run: a function, or the task's future. None if the function was removed, or the task has ended
    /// since it became ready, or is being polled.
    #[inline(always)]
    fn take(&mut self, id: TaskId) -> Option<Due> {
        if let Some(handler) = id.handler() {
            return self.function(handler).cloned().map(Due::Call);
        }
        let task = self.slots.get_mut(id.index as usize)?;
        if task.generation != id.generation {
            return None;
        }
        task.queued = false;
        task.future.take().map(Due::Task)
    }

    /// Puts a future back after its poll. If the task has ended, or was killed during the poll, frees its
    /// slot and returns the future for the caller to drop.
    #[inline]
    fn put_back(&mut self, id: TaskId, future: TaskFuture, has_ended: bool) -> Option<TaskFuture> {
        let task = &mut self.slots[id.index as usize];
        debug_assert_eq!(task.generation, id.generation, "a slot is not reused while its task is polled");
        debug_assert!(task.future.is_none(), "the future of a polled task is with the poller");
        if !has_ended && task.alive {
            // `replace` returns None here, because the poll took the future; `forget` spares the drop check.
            std::mem::forget(task.future.replace(future));
            return None;
        }
        task.alive = false;
        // Only now: had `kill` freed the slot during the poll, this future would have landed in another task.
        self.free.push(id.index);
        Some(future)
    }

    /// What to run next in virtual time: what became ready first, otherwise what the next timer is for, which
    /// sets `now`.
    #[inline(always)]
    fn next(&mut self, now: &Cell<u64>) -> Option<(TaskId, Due)> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(due) = self.take(id) {
                return Some((id, due));
            }
        }
        loop {
            let timer = self.pop_timer()?;
            // A timer whose task has ended must not advance time.
            if let Some(due) = self.take(timer.target) {
                now.set(timer.at.max(now.get()));
                return Some((timer.target, due));
            }
        }
    }

    #[inline]
    fn wake(&mut self, id: TaskId) {
        if id.handler().is_some() {
            // Each wake is a call, since only its owner knows whether two are one.
            return self.ready.push_back(id);
        }
        if let Some(task) = self.task(id)
            && !task.queued
        {
            task.queued = true;
            self.ready.push_back(id);
        }
    }
}

/// Work counters of the executor, for benchmarks and for numbering power cuts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times a task was polled, and calls.
    pub polls: u64,
    /// Timers armed.
    pub timers: u64,
}

/// Modelled waits in one poll that complete without yielding under `timing = "none"`; the next one yields.
const STEPS_MAX: u32 = 64;

struct Inner {
    now: Cell<u64>,
    current: Cell<TaskId>,
    /// Modelled waits take no time (`timing = "none"`).
    immediate: Cell<bool>,
    /// A tracer wants every use of a resource.
    traced: Cell<bool>,
    /// Modelled waits skipped in the current poll, under `timing = "none"`.
    steps: Cell<u32>,
    polls: Cell<u64>,
    schedule: RefCell<Schedule>,
    watches: Watches,
    pace: Cell<Lateness>,
    /// Wall-clock time as of the last look, while modelled time is held to it.
    wall: Cell<Option<Time>>,
    /// The next instant that `observer` is to see; `u64::MAX` if there is none.
    looks_at: Cell<u64>,
    /// Wall clock and timing mode, while the real runner runs.
    real: Cell<Option<(Wall, Timing)>>,
    observer: RefCell<Option<Observer>>,
    tracing: Tracing,
    spans: Spans,
    /// Whether outside parties wait for what the tasks here do: see [`Clock::set_duty`].
    duty: RefCell<Option<Duty>>,
}

type Duty = Box<dyn Fn() -> bool>;

/// Called at an instant; returns the next instant that it wants to see.
type Observer = Box<dyn FnMut(Time) -> Option<Time>>;

/// Handle through which all code reads and spends time. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Rc<Inner>, Owner);

/// Owner of the tasks: dropping it drops them.
pub struct Executor {
    clock: Clock,
}

/// Outcome of [`Executor::run_cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome<T> {
    /// The main task ended with this value.
    Ended(T),
    /// The run was cut off before the main task ended.
    Cut,
}

/// A deadlock: no task is ready and no timer is armed, yet the main task has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stalled {
    /// When the simulation stalled.
    pub at: Time,
    /// Names of the waiting tasks, with the number of each.
    pub waiting: Vec<(&'static str, usize)>,
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the simulation stalled at {}: no task is ready and no timer is armed; waiting:", self.at)?;
        let mut separator = "";
        self.waiting.iter().try_for_each(|(name, count)| {
            write!(f, "{separator} {count} x {name}")?;
            separator = ",";
            Ok(())
        })
    }
}

impl std::error::Error for Stalled {}

impl Default for Executor {
    fn default() -> Self {
        Self::new()
    }
}

impl Executor {
    /// An executor at time zero, without tasks.
    pub fn new() -> Self {
        Executor {
            clock: Clock(
                Rc::new(Inner {
                    now: Cell::new(0),
                    current: Cell::new(TaskId::NONE),
                    immediate: Cell::new(false),
                    traced: Cell::new(false),
                    steps: Cell::new(0),
                    polls: Cell::new(0),
                    schedule: RefCell::default(),
                    watches: Watches::default(),
                    pace: Cell::default(),
                    wall: Cell::default(),
                    looks_at: Cell::new(u64::MAX),
                    real: Cell::default(),
                    observer: RefCell::default(),
                    tracing: Tracing::default(),
                    spans: Spans::default(),
                    duty: RefCell::default(),
                }),
                Owner::default(),
            ),
        }
    }

    /// The clock of this executor's tasks.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Sets whether modelled waits take virtual time ([`Timing::Model`], the default) or none. With none,
    /// tasks interleave as in a served drive that runs as fast as the machine can, yet the run stays
    /// repeatable. [`Executor::run_real`] overrides this.
    pub fn set_timing(&self, timing: Timing) {
        self.clock.set_immediate(timing == Timing::None);
    }

    /// Runs `main` in virtual time until it ends. Other tasks keep their state and continue in the next
    /// `run`.
    ///
    /// # Errors
    /// [`Stalled`] if no task is ready and no timer is armed before `main` ends.
    pub fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> Result<T, Stalled> {
        match self.run_cut(main, u64::MAX)? {
            RunOutcome::Ended(value) => Ok(value),
            RunOutcome::Cut => unreachable!("a run never makes 2^64 polls"),
        }
    }

    /// Like [`run`](Executor::run), but stops before poll number `polls` (numbered from 0 since the executor
    /// was made). The tasks, `main` among them, stay where they wait and are dropped with the executor: a
    /// power cut at a repeatable point.
    ///
    /// # Errors
    /// Same as [`run`](Executor::run).
    pub fn run_cut<T: 'static>(
        &self,
        main: impl Future<Output = T> + 'static,
        polls: u64,
    ) -> Result<RunOutcome<T>, Stalled> {
        let (main, result) = self.clock.spawn_main(main);
        loop {
            if self.run_task(main, polls)? == RunOutcome::Cut {
                return Ok(RunOutcome::Cut);
            }
            if let Some(value) = result.take() {
                return Ok(RunOutcome::Ended(value));
            }
        }
    }

    /// Like [`run`](Executor::run), but calls `is_to_stop` every 65,536 polls, and ends as by
    /// [`run_cut`](Executor::run_cut) when it returns true. While it returns false it changes nothing.
    ///
    /// # Errors
    /// Same as [`run`](Executor::run).
    pub fn run_unless<T: 'static>(
        &self,
        main: impl Future<Output = T> + 'static,
        mut is_to_stop: impl FnMut() -> bool,
    ) -> Result<RunOutcome<T>, Stalled> {
        /// Takes a few milliseconds on present machines.
        const POLLS: u64 = 1 << 16;
        let (main, result) = self.clock.spawn_main(main);
        loop {
            let ran = self.run_task(main, self.clock.0.polls.get().saturating_add(POLLS))?;
            if let (RunOutcome::Ended(()), Some(value)) = (ran, result.take()) {
                return Ok(RunOutcome::Ended(value));
            }
            if is_to_stop() {
                return Ok(RunOutcome::Cut);
            }
        }
    }

    /// Runs all tasks until `main` has ended. Not generic, so that one copy of the hot loop serves every
    /// result type.
    fn run_task(&self, main: TaskId, polls: u64) -> Result<RunOutcome<()>, Stalled> {
        let clock = &self.clock;
        let mut context = Context::from_waker(Waker::noop());
        let mut schedule = clock.0.schedule.borrow_mut();
        loop {
            if clock.0.polls.get() >= polls {
                return Ok(RunOutcome::Cut);
            }
            let next = schedule.next(&clock.0.now);
            let Some((id, due)) = next else {
                drop(schedule);
                return Err(clock.stalled());
            };
            clock.begin_poll(id);
            // Tasks spawn and wake during a poll, which borrows the schedule.
            drop(schedule);
            if clock.0.now.get() >= clock.0.looks_at.get() {
                clock.look();
            }
            let mut future = match due {
                Due::Task(future) => future,
                Due::Call(function) => {
                    function(id.generation);
                    schedule = clock.0.schedule.borrow_mut();
                    continue;
                }
            };
            let polled = future.as_mut().poll(&mut context);
            schedule = clock.0.schedule.borrow_mut();
            if let Some(ended) = schedule.put_back(id, future, polled.is_ready()) {
                drop(schedule);
                drop(ended); // may wake other tasks, so no borrow is held
                if id == main {
                    return Ok(RunOutcome::Ended(()));
                }
                schedule = clock.0.schedule.borrow_mut();
            }
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.clock.drop_all();
    }
}

impl Clock {
    /// The current time of the simulation.
    pub fn now(&self) -> Time {
        Time(self.0.now.get())
    }

    /// The same clock on behalf of `owner`: resources made with this handle and its clones appear under that
    /// owner in a trace. Without this call they belong to the default owner.
    pub fn owned_by(&self, owner: Owner) -> Clock {
        Clock(self.0.clone(), owner)
    }

    /// The owner of resources that are made with this handle.
    pub(crate) fn owner(&self) -> Owner {
        self.1
    }

    /// The spans of all I/Os, shared by every link, queue and site.
    #[inline]
    pub fn spans(&self) -> &Spans {
        &self.0.spans
    }

    /// Polls and timers up to now.
    pub fn counters(&self) -> Counters {
        Counters { polls: self.0.polls.get(), timers: self.0.schedule.borrow().wheel.armed() }
    }

    /// How closely the real runner has kept to modelled time.
    pub fn pace(&self) -> Lateness {
        self.0.pace.get()
    }

    pub(crate) fn change_pace(&self, change: impl FnOnce(&mut Lateness)) {
        let mut pace = self.0.pace.get();
        change(&mut pace);
        self.0.pace.set(pace);
    }

    pub(crate) fn set_real(&self, real: Option<(Wall, Timing)>) {
        self.0.real.set(real);
    }

    pub(crate) fn real(&self) -> Option<(Wall, Timing)> {
        self.0.real.get()
    }

    pub(crate) fn set_wall(&self, wall: Option<Time>) {
        self.0.wall.set(wall);
    }

    /// Whether a tracer wants every use of a resource: see [`tracer`](crate::tracer).
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.0.traced.get()
    }

    pub(crate) fn set_traced(&self, traced: bool) {
        self.0.traced.set(traced);
    }

    pub(crate) fn tracing(&self) -> &Tracing {
        &self.0.tracing
    }

    pub(crate) fn watches(&self) -> &Watches {
        &self.0.watches
    }

    /// Calls `observer` at the instant `at`, and then at each instant that it returns: after everything that
    /// happens before that instant, and before anything that happens at it. It is not a task and arms no
    /// timer, so it changes nothing and does not hide a stall. It must wake no task.
    ///
    /// Only in virtual time: the real runner skips instants. A new observer replaces the previous one.
    pub fn observe(&self, at: Time, observer: impl FnMut(Time) -> Option<Time> + 'static) {
        self.0.looks_at.set(at.0.max(self.0.now.get() + 1));
        self.0.observer.replace(Some(Box::new(observer)));
    }

    /// Removes the observer.
    pub fn stop_observing(&self) {
        self.0.looks_at.set(u64::MAX);
        self.0.observer.take();
    }

    /// Shows the observer each of its instants up to now. The clock reads that instant during the call.
    #[cold]
    fn look(&self) {
        let arrived = self.0.now.get();
        while self.0.looks_at.get() <= arrived {
            let at = self.0.looks_at.get();
            self.0.now.set(at);
            let next = self.0.observer.borrow_mut().as_mut().and_then(|look| look(Time(at)));
            // At least one picosecond later, so that the loop ends.
            self.0.looks_at.set(next.map_or(u64::MAX, |next| next.0.max(at + 1)));
        }
        self.0.now.set(arrived);
    }

    /// Starts a task. `name` identifies it in [`Stalled`].
    pub fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + 'static) -> TaskId {
        let future: TaskFuture = Box::pin(future);
        let mut schedule = self.0.schedule.borrow_mut();
        let schedule = &mut *schedule;
        let index = match schedule.free.pop() {
            Some(index) => index,
            None => {
                schedule.slots.push(Task {
                    name,
                    future: None,
                    generation: 0,
                    alive: false,
                    queued: false,
                    is_watcher: false,
                });
                (schedule.slots.len() - 1) as u32
            }
        };
        debug_assert!(!schedule.slots[index as usize].alive, "a free slot has no live task");
        let task = &mut schedule.slots[index as usize];
        let generation = task.generation.wrapping_add(1);
        *task = Task { name, future: Some(future), generation, alive: true, queued: true, is_watcher: false };
        let id = TaskId { index, generation };
        schedule.ready.push_back(id);
        id
    }

    /// Starts a task that never ends and only polls for outside events. It does not count as progress, so a
    /// stall is detected despite it. See [`Clock::set_duty`].
    pub fn spawn_watcher(&self, name: &'static str, future: impl Future<Output = ()> + 'static) -> TaskId {
        let id = self.spawn(name, future);
        let schedule = &mut *self.0.schedule.borrow_mut();
        schedule.slots[id.index as usize].is_watcher = true;
        schedule.watchers += 1;
        id
    }

    /// Under the real runner: `duty` returns whether an outside party waits for something that only these
    /// tasks can bring about. If it returns true while nothing but watchers is ready or has a timer, the wait
    /// would never end, so the runner ends with [`Stalled`]. Work that another thread still has to do does
    /// not count. Without a duty, a runner that waits for descriptors or an inbox waits indefinitely.
    pub fn set_duty(&self, duty: impl Fn() -> bool + 'static) {
        self.0.duty.replace(Some(Box::new(duty)));
    }

    /// Whether a duty exists that no task here will fulfil.
    pub(crate) fn has_stalled(&self) -> bool {
        let duty = self.0.duty.borrow();
        let Some(duty) = &*duty else { return false };
        self.0.schedule.borrow().has_only_watchers() && duty()
    }

    /// Calls `function` for each event of the returned handler, with the event's index, until it is
    /// [removed](Clock::remove). It must tolerate a call for which there is nothing to do.
    pub fn handle(&self, function: impl Fn(u32) + 'static) -> Handler {
        let mut schedule = self.0.schedule.borrow_mut();
        let slot = schedule.free_handlers.pop().unwrap_or_else(|| {
            schedule.handlers.push(HandlerSlot { function: None, generation: 0 });
            schedule.handlers.len() - 1
        });
        assert!(slot < Handler::SLOTS_MAX, "no run has a million handlers at a time");
        let place = &mut schedule.handlers[slot];
        debug_assert!(place.function.is_none(), "a free slot has no function");
        place.function = Some(Rc::new(function));
        Handler::new(slot, place.generation)
    }

    /// Removes the function of a handler: its events have no effect any more. No effect if that was done before.
    pub fn remove(&self, handler: Handler) {
        let function = {
            let schedule = &mut *self.0.schedule.borrow_mut();
            let slot = schedule.handlers.get_mut(handler.slot());
            let Some(slot) = slot.filter(|slot| slot.generation == handler.generation()) else { return };
            let function = slot.function.take();
            if function.is_some() && slot.generation + 1 < Handler::GENERATIONS {
                slot.generation += 1;
                schedule.free_handlers.push(handler.slot());
            }
            function
        };
        drop(function); // outside the borrow, as in `kill`
    }

    /// For a call: whether a modelled wait until `at` is over. Otherwise this call is made again when it is, so its record must say by
    /// then what comes next.
    #[inline]
    pub fn has_passed(&self, at: Time) -> bool {
        if self.is_immediate() {
            return self.has_stepped();
        }
        let has_passed = at <= self.now();
        if !has_passed {
            self.arm(at, self.current());
        }
        has_passed
    }

    /// A modelled wait of a call under `timing = "none"`.
    #[cold]
    fn has_stepped(&self) -> bool {
        let skips = self.skip_step();
        if !skips {
            self.wake(self.current());
        }
        skips
    }

    /// Counts, in real time, how late a call came whose wait was to end at `at`.
    #[inline]
    pub fn note_call(&self, at: Time) {
        if let Some(wall) = self.0.wall.get() {
            self.change_pace(|pace| pace.note(wall.since(at)));
        }
    }

    /// Drops a task where it waits, as a power cut does. No effect on a task that has ended, and on a call.
    pub fn kill(&self, id: TaskId) {
        let future = {
            let mut schedule = self.0.schedule.borrow_mut();
            let Some(task) = schedule.task(id) else { return };
            task.alive = false;
            let future = task.future.take();
            if future.is_some() {
                schedule.free.push(id.index);
            } // else it is being polled, and `put_back` frees the slot
            future
        };
        // Outside the borrow: the drop may wake or kill other tasks.
        drop(future);
    }

    /// Makes a task ready, which has no effect if it is ready already or has ended, or a call.
    #[inline]
    pub fn wake(&self, id: TaskId) {
        self.0.schedule.borrow_mut().wake(id);
    }

    /// Makes a task ready before all else: for a call that leaves to a task what it was made for. No effect on a task that has ended.
    pub fn wake_first(&self, id: TaskId) {
        let schedule = &mut *self.0.schedule.borrow_mut();
        let Some(task) = schedule.task(id) else { return };
        // It may be in line already: usually as the last one, since it has just been started.
        if std::mem::replace(&mut task.queued, true)
            && let Some(place) = schedule.ready.iter().rposition(|ready| *ready == id)
        {
            schedule.ready.remove(place);
        }
        schedule.ready.push_front(id);
    }

    /// Makes a task ready at `at`, or now if that has passed.
    #[inline]
    pub fn wake_at(&self, at: Time, id: TaskId) {
        if at.0 <= self.0.now.get() {
            return self.wake(id);
        }
        self.arm(at, id);
    }

    /// Arms a timer for a future instant.
    #[inline]
    fn arm(&self, at: Time, id: TaskId) {
        debug_assert!(at > self.now(), "a wait that is over needs no timer");
        self.0.schedule.borrow_mut().arm(at.0, id);
    }

    /// The task that is being polled, or the call that is made. A leaf future records it before it returns `Pending`.
    pub fn current(&self) -> TaskId {
        self.0.current.get()
    }

    /// Waits for `delay` of modelled time; takes none under `timing = "none"`.
    pub fn sleep(&self, delay: Delay) -> Sleep<'_> {
        self.sleep_until(self.now() + delay)
    }

    /// Waits until the modelled instant `at`. Does not yield if it has passed.
    pub fn sleep_until(&self, at: Time) -> Sleep<'_> {
        Sleep { clock: self, at, armed: false, yielded: false, modelled: true }
    }

    /// Waits for a protocol timer (a time-out, an aggregation time), which elapses under every timing.
    pub fn timer(&self, delay: Delay) -> Sleep<'_> {
        Sleep { clock: self, at: self.now() + delay, armed: false, yielded: false, modelled: false }
    }

    /// Polls `work` with a limit: its result, or None if a timer of `limit` ends first.
    pub async fn within<T>(&self, limit: Delay, work: impl Future<Output = T>) -> Option<T> {
        let (mut stop, mut work) = (pin!(self.timer(limit)), pin!(work));
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => stop.as_mut().poll(context).map(|()| None),
        })
        .await
    }

    /// Yields once, so that every other ready task runs.
    pub fn yield_now(&self) -> Yield<'_> {
        Yield { clock: self, yielded: false }
    }

    /// Whether modelled waits take no time (`timing = "none"`).
    pub fn is_immediate(&self) -> bool {
        self.0.immediate.get()
    }

    pub(crate) fn set_immediate(&self, immediate: bool) {
        self.0.immediate.set(immediate);
    }

    pub(crate) fn set_now(&self, now: Time) {
        self.0.now.set(now.0.max(self.0.now.get()));
    }

    pub(crate) fn ready_len(&self) -> usize {
        self.0.schedule.borrow().ready.len()
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.0.schedule.borrow().wheel.next_at().map(Time)
    }

    /// Takes the next timer and makes its task ready. Does not advance the clock.
    #[inline(never)]
    pub(crate) fn wake_next_timer(&self) {
        let mut schedule = self.0.schedule.borrow_mut();
        if let Some(timer) = schedule.pop_timer() {
            schedule.wake(timer.target);
        }
    }

    /// Runs what became ready first. Returns its id even if it has ended since; None if nothing is ready.
    pub(crate) fn poll_ready(&self) -> Option<TaskId> {
        let (id, due) = {
            let mut schedule = self.0.schedule.borrow_mut();
            let id = schedule.ready.pop_front()?;
            (id, schedule.take(id))
        };
        match due {
            Some(Due::Task(future)) => self.poll(id, future),
            Some(Due::Call(function)) => {
                self.begin_poll(id);
                function(id.generation);
            }
            None => {}
        }
        Some(id)
    }

    pub(crate) fn spawn_main<T: 'static>(
        &self,
        main: impl Future<Output = T> + 'static,
    ) -> (TaskId, Rc<Cell<Option<T>>>) {
        let result = Rc::new(Cell::new(None));
        let slot = result.clone();
        let id = self.spawn("main", async move { slot.set(Some(main.await)) });
        (id, result)
    }

    fn begin_poll(&self, id: TaskId) {
        self.0.current.set(id);
        self.0.steps.set(0);
        self.0.polls.set(self.0.polls.get() + 1);
    }

    /// Polls a task and puts its future back.
    fn poll(&self, id: TaskId, mut future: TaskFuture) {
        self.begin_poll(id);
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let ended = self.0.schedule.borrow_mut().put_back(id, future, polled.is_ready());
        drop(ended); // may wake other tasks, so no borrow is held
    }

    pub(crate) fn stalled(&self) -> Stalled {
        let mut waiting: Vec<(&'static str, usize)> = Vec::new();
        for task in self.0.schedule.borrow().slots.iter().filter(|t| t.alive) {
            match waiting.iter_mut().find(|(name, _)| *name == task.name) {
                Some((_, count)) => *count += 1,
                None => waiting.push((task.name, 1)),
            }
        }
        Stalled { at: self.now(), waiting }
    }

    fn drop_all(&self) {
        loop {
            let futures: Vec<_> = {
                let mut schedule = self.0.schedule.borrow_mut();
                let slots = schedule.slots.iter_mut().filter(|t| t.alive);
                slots
                    .map(|t| {
                        t.alive = false;
                        t.future.take()
                    })
                    .collect()
            };
            if futures.is_empty() {
                break;
            }
            // A drop may spawn tasks, hence the loop. No borrow is held.
            drop(futures);
        }
        let mut schedule = self.0.schedule.borrow_mut();
        schedule.ready.clear();
        schedule.wheel.clear();
        schedule.watcher_timers = 0;
        let functions: Vec<_> = schedule.handlers.iter_mut().map(|slot| slot.function.take()).collect();
        drop(schedule);
        drop(functions);
        self.0.duty.take();
        self.stop_observing();
    }

    /// Under `timing = "none"`: whether this wait may complete without yielding. Every `STEPS_MAX`th one in
    /// a poll yields, so that a task that never blocks does not starve the others.
    pub fn skip_step(&self) -> bool {
        let steps = self.0.steps.get() + 1;
        self.0.steps.set(steps);
        steps < STEPS_MAX
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

/// A wait for an instant. Safe to drop: its timer then causes one spurious wake.
#[must_use = "time passes only when it is awaited"]
pub struct Sleep<'a> {
    clock: &'a Clock,
    at: Time,
    armed: bool,
    /// Whether the wait has yielded under `timing = "none"`; no timer is armed then.
    yielded: bool,
    modelled: bool,
}

impl Future for Sleep<'_> {
    type Output = ();

    /// Inlined up to the second poll, with which nearly every wait ends.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let inner = &*self.clock.0;
        if !self.armed || inner.immediate.get() {
            return self.begin();
        }
        if inner.now.get() < self.at.0 {
            return Poll::Pending;
        }
        if let Some(wall) = inner.wall.get() {
            self.note_lateness(wall);
        }
        Poll::Ready(())
    }
}

impl Sleep<'_> {
    /// First poll, and every poll under `timing = "none"`.
    #[inline(never)]
    fn begin(&mut self) -> Poll<()> {
        let clock = self.clock;
        if self.modelled && clock.is_immediate() {
            return self.poll_immediate();
        }
        if clock.now() >= self.at {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut self.armed, true) {
            clock.arm(self.at, clock.current());
        }
        Poll::Pending
    }

    /// A modelled wait under `timing = "none"`.
    fn poll_immediate(&mut self) -> Poll<()> {
        let clock = self.clock;
        if self.yielded || clock.skip_step() {
            return Poll::Ready(());
        }
        self.yielded = true;
        clock.wake(clock.current());
        Poll::Pending
    }

    /// Counts how late a modelled wait has ended; `wall` is the wall-clock time now.
    #[cold]
    fn note_lateness(&self, wall: Time) {
        if self.modelled {
            self.clock.change_pace(|pace| pace.note(wall.since(self.at)));
        }
    }
}

/// A single yield; see [`Clock::yield_now`].
#[must_use = "yields only when it is awaited"]
pub struct Yield<'a> {
    clock: &'a Clock,
    yielded: bool,
}

impl Future for Yield<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        self.clock.wake(self.clock.current());
        Poll::Pending
    }
}
