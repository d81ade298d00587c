//! Tasks, and the runner in virtual time.
//!
//! Tasks live in a slab and are polled with a no-op waker: a leaf future notes the task that polls it
//! ([`Clock::current`]) and whoever satisfies it calls [`Clock::wake`]. A task waits on one leaf at a time; a leaf
//! tolerates being polled early. When no task is ready the clock jumps to the next timer.

use crate::descriptor::Watches;
use crate::real::{Pace, Timing, Wall};
use crate::span::Spans;
use crate::task::TaskId;
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
    name: &'static str,
    future: Option<TaskFuture>,
    generation: u32,
    alive: bool,
    queued: bool,
    /// It only looks whether something has come from outside: that it is ready, or has a timer, moves nothing.
    is_watcher: bool,
}

type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Tasks, which of them are ready, and the timers of the others.
#[derive(Default)]
struct Schedule {
    slots: Vec<Task>,
    free: Vec<u32>,
    ready: VecDeque<TaskId>,
    wheel: Wheel<TaskId>,
    /// Watchers, and the timers that are armed for them.
    watchers: usize,
    watcher_timers: usize,
}

impl Schedule {
    fn is_watcher(&self, id: TaskId) -> bool {
        let task = self.slots.get(id.index as usize);
        task.is_some_and(|task| task.is_watcher && task.generation == id.generation)
    }

    #[inline]
    fn arm(&mut self, at: u64, id: TaskId) {
        if self.watchers > 0 {
            self.watcher_timers += usize::from(self.is_watcher(id));
        }
        self.wheel.insert(at, id);
    }

    /// Takes the next timer.
    #[inline]
    fn pop_timer(&mut self) -> Option<Timer<TaskId>> {
        let timer = self.wheel.pop()?;
        if self.watchers > 0 {
            self.watcher_timers -= usize::from(self.is_watcher(timer.target));
        }
        Some(timer)
    }

    /// Whether nothing happens up to and at `at` beside what `current` does, which lives: no task is ready, and no timer fires by
    /// then. Only told of few timers, where asking costs less than it saves.
    #[inline]
    fn is_idle_until(&self, at: u64, current: TaskId) -> bool {
        self.ready.is_empty()
            && self.wheel.len() <= FEW_TIMERS
            && self.wheel.next_at().is_none_or(|next| next > at)
            && self.slots.get(current.index as usize).is_some_and(|task| task.alive)
    }

    /// Whether no task but watchers is ready or has a timer.
    fn has_only_watchers(&self) -> bool {
        self.wheel.len() == self.watcher_timers
            && self.ready.len() <= self.watchers
            && self.ready.iter().all(|id| self.is_watcher(*id))
    }

    /// The task, if it lives.
    fn task(&mut self, id: TaskId) -> Option<&mut Task> {
        let task = self.slots.get_mut(id.index as usize)?;
        (task.generation == id.generation && task.alive).then_some(task)
    }

    /// Takes the task's future, to poll it. None if it has ended since it was made ready.
    #[inline]
    fn take(&mut self, id: TaskId) -> Option<TaskFuture> {
        let task = self.slots.get_mut(id.index as usize)?;
        if task.generation != id.generation {
            return None;
        }
        task.queued = false;
        task.future.take()
    }

    /// Puts a future back after its poll. One that has ended, or was killed meanwhile, is given back to be dropped.
    #[inline]
    fn put_back(&mut self, id: TaskId, future: TaskFuture, has_ended: bool) -> Option<TaskFuture> {
        let task = &mut self.slots[id.index as usize];
        if !has_ended && task.alive {
            // It was taken for the poll, so nothing is there to be dropped.
            std::mem::forget(task.future.replace(future));
            return None;
        }
        task.alive = false;
        self.free.push(id.index);
        Some(future)
    }

    /// The next task in virtual time: one that is ready, else that of the next timer, which sets `now`.
    #[inline]
    fn next(&mut self, now: &Cell<u64>) -> Option<(TaskId, TaskFuture)> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(future) = self.take(id) {
                return Some((id, future));
            }
        }
        loop {
            let timer = self.pop_timer()?;
            // A timer of a task that has gone must not move time.
            if let Some(future) = self.take(timer.target) {
                now.set(timer.at.max(now.get()));
                return Some((timer.target, future));
            }
        }
    }

    fn wake(&mut self, id: TaskId) {
        if let Some(task) = self.task(id)
            && !task.queued
        {
            task.queued = true;
            self.ready.push_back(id);
        }
    }
}

/// How much the executor did: for benchmarks and for numbering power cuts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times a task was polled.
    pub polls: u64,
    /// Timers armed.
    pub timers: u64,
}

/// Waits that did not yield before a task must, under `timing = "none"`.
const STEPS_MAX: u32 = 64;

/// Timers that may be armed where a wait that nothing precedes ends without a poll of its own: with more it is seldom so.
const FEW_TIMERS: usize = 8;

struct Inner {
    now: Cell<u64>,
    current: Cell<TaskId>,
    /// Modelled waits take no time (`timing = "none"`).
    immediate: Cell<bool>,
    /// Somebody wants to know of every use of a resource.
    traced: Cell<bool>,
    steps: Cell<u32>,
    polls: Cell<u64>,
    timers: Cell<u64>,
    schedule: RefCell<Schedule>,
    watches: Watches,
    pace: Cell<Pace>,
    /// The wall's time, where modelled time is held to it.
    wall: Cell<Option<Time>>,
    /// The next instant at which `observer` looks; beyond all time if there is none.
    looks_at: Cell<u64>,
    /// A wait that nothing precedes ends without a poll of its own: see [`Executor::leap`].
    leaps: Cell<bool>,
    /// The wall clock and what waits mean, while the real runner runs.
    real: Cell<Option<(Wall, Timing)>>,
    observer: RefCell<Option<Observer>>,
    tracing: Tracing,
    spans: Spans,
    /// Whether somebody waits for what the tasks do.
    duty: RefCell<Option<Duty>>,
}

type Duty = Box<dyn Fn() -> bool>;

/// Sees an instant, and says which one it wants to see next.
type Observer = Box<dyn FnMut(Time) -> Option<Time>>;

/// The handle through which everything tells and spends time. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Rc<Inner>, Owner);

/// Owns the tasks: dropping it drops them.
pub struct Executor {
    clock: Clock,
}

/// How [`Executor::run_cut`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran<T> {
    /// The main task has ended with this.
    Ended(T),
    /// The power was cut before.
    Cut,
}

/// Nothing is ready and no timer is armed, yet the main task has not ended: a wait that nobody will satisfy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stalled {
    /// When it stood still.
    pub at: Time,
    /// The tasks that wait, by name, with how many of each.
    pub waiting: Vec<(&'static str, usize)>,
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "everything stands still at {}: no task is ready and no timer is armed; waiting:",
            self.at
        )?;
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
    /// An executor at time zero without tasks.
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
                    timers: Cell::new(0),
                    schedule: RefCell::default(),
                    watches: Watches::default(),
                    pace: Cell::default(),
                    wall: Cell::default(),
                    looks_at: Cell::new(u64::MAX),
                    leaps: Cell::new(false),
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

    /// From now on a wait ends at once, without a poll of its own, if nothing else happens before its end: the same events at
    /// the same instants in fewer polls. Not for runs whose polls are numbered ([`Executor::run_cut`]), nor in real time.
    pub fn leap(&self) {
        self.clock.0.leaps.set(true);
    }

    /// Its clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether modelled waits take virtual time ([`Timing::Model`], as they do if this is not called) or none: then tasks
    /// interleave as in a served drive that is as fast as the machine can, and a run can be repeated all the same. The
    /// real runner sets it anew.
    pub fn set_timing(&self, timing: Timing) {
        self.clock.set_immediate(timing == Timing::None);
    }

    /// Runs `main` in virtual time until it ends. Other tasks stay as they are and go on in the next `run`.
    pub fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> Result<T, Stalled> {
        match self.run_cut(main, u64::MAX)? {
            Ran::Ended(value) => Ok(value),
            Ran::Cut => unreachable!("so many polls are never made"),
        }
    }

    /// As [`run`](Executor::run), but ends before poll number `polls` (the first has number 0, and counting began with
    /// the executor): what was to come is cut off. The tasks, `main` among them, stay where they wait, to be dropped
    /// with the executor. That is how the power is cut at a place that can be found again.
    pub fn run_cut<T: 'static>(
        &self,
        main: impl Future<Output = T> + 'static,
        polls: u64,
    ) -> Result<Ran<T>, Stalled> {
        let (main, result) = self.clock.spawn_main(main);
        loop {
            if self.run_task(main, polls)? == Ran::Cut {
                return Ok(Ran::Cut);
            }
            if let Some(value) = result.take() {
                return Ok(Ran::Ended(value));
            }
        }
    }

    /// As [`run`](Executor::run), but asks `is_to_stop` after every so many polls, and ends when it says so: what
    /// was to come is cut off, as by [`run_cut`](Executor::run_cut). Whatever it says otherwise changes nothing.
    pub fn run_unless<T: 'static>(
        &self,
        main: impl Future<Output = T> + 'static,
        mut is_to_stop: impl FnMut() -> bool,
    ) -> Result<Ran<T>, Stalled> {
        /// Some milliseconds of this machine's time.
        const POLLS: u64 = 1 << 16;
        let (main, result) = self.clock.spawn_main(main);
        loop {
            let ran = self.run_task(main, self.clock.0.polls.get().saturating_add(POLLS))?;
            if let (Ran::Ended(()), Some(value)) = (ran, result.take()) {
                return Ok(Ran::Ended(value));
            }
            if is_to_stop() {
                return Ok(Ran::Cut);
            }
        }
    }

    /// Runs all tasks until `main` has ended. One loop for every kind of result: it is what every I/O goes through.
    fn run_task(&self, main: TaskId, polls: u64) -> Result<Ran<()>, Stalled> {
        let clock = &self.clock;
        let mut context = Context::from_waker(Waker::noop());
        let mut schedule = clock.0.schedule.borrow_mut();
        loop {
            if clock.0.polls.get() >= polls {
                return Ok(Ran::Cut);
            }
            let next = schedule.next(&clock.0.now);
            let Some((id, mut future)) = next else {
                drop(schedule);
                return Err(clock.stalled());
            };
            clock.begin_poll(id);
            drop(schedule);
            if clock.0.now.get() >= clock.0.looks_at.get() {
                clock.look();
            }
            let polled = future.as_mut().poll(&mut context);
            schedule = clock.0.schedule.borrow_mut();
            if let Some(ended) = schedule.put_back(id, future, polled.is_ready()) {
                drop(schedule);
                drop(ended); // its drop may wake others, so no borrow is held
                if id == main {
                    return Ok(Ran::Ended(()));
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
    /// Now.
    pub fn now(&self) -> Time {
        Time(self.0.now.get())
    }

    /// The same clock, in the hands of one of several drives: in a trace, what is made with this handle and its clones is
    /// `owner`'s. Without this it is that of the default owner.
    pub fn owned_by(&self, owner: Owner) -> Clock {
        Clock(self.0.clone(), owner)
    }

    /// Whose the resources are that are made with this handle.
    pub(crate) fn owner(&self) -> Owner {
        self.1
    }

    /// The I/Os that are being followed, on whatever links, queues and sites they are.
    #[inline]
    pub fn spans(&self) -> &Spans {
        &self.0.spans
    }

    /// What the executor has done so far.
    pub fn counters(&self) -> Counters {
        Counters { polls: self.0.polls.get(), timers: self.0.timers.get() }
    }

    /// How far the real runner kept to modelled time so far.
    pub fn pace(&self) -> Pace {
        self.0.pace.get()
    }

    pub(crate) fn change_pace(&self, change: impl FnOnce(&mut Pace)) {
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

    /// Whether anybody wants to know of every use of a resource: see [`tracer`](crate::tracer).
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

    /// Has `observer` look at the instant `at`, and at those that it names each time: after everything that happens
    /// before such an instant, and before anything that happens at it. It is no task and arms no timer, so it
    /// changes nothing, and a simulation that stands still is found to. It must wake nobody.
    ///
    /// Only in virtual time: the real runner has no instant between two. There is one observer; another takes its place.
    pub fn observe(&self, at: Time, observer: impl FnMut(Time) -> Option<Time> + 'static) {
        self.0.looks_at.set(at.0.max(self.0.now.get() + 1));
        self.0.observer.replace(Some(Box::new(observer)));
    }

    /// Drops the observer.
    pub fn stop_observing(&self) {
        self.0.looks_at.set(u64::MAX);
        self.0.observer.take();
    }

    /// Time has moved to, or beyond, an instant that the observer wants to see: it is now, while it looks.
    #[cold]
    fn look(&self) {
        let arrived = self.0.now.get();
        while self.0.looks_at.get() <= arrived {
            let at = self.0.looks_at.get();
            self.0.now.set(at);
            let next = self.0.observer.borrow_mut().as_mut().and_then(|look| look(Time(at)));
            self.0.looks_at.set(next.map_or(u64::MAX, |next| next.0.max(at + 1)));
        }
        self.0.now.set(arrived);
    }

    /// Starts a task. `name` says what it is when the simulation stands still.
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
        let task = &mut schedule.slots[index as usize];
        let generation = task.generation.wrapping_add(1);
        *task = Task { name, future: Some(future), generation, alive: true, queued: true, is_watcher: false };
        let id = TaskId { index, generation };
        schedule.ready.push_back(id);
        id
    }

    /// Starts a task that only looks, now and then, whether something has come from outside, and that never ends: what else
    /// stands still doesn't move because of it. See [`Clock::set_duty`].
    pub fn spawn_watcher(&self, name: &'static str, future: impl Future<Output = ()> + 'static) -> TaskId {
        let id = self.spawn(name, future);
        let schedule = &mut *self.0.schedule.borrow_mut();
        schedule.slots[id.index as usize].is_watcher = true;
        schedule.watchers += 1;
        id
    }

    /// Under the real runner: `duty` says whether somebody waits for what only the tasks here can bring about. If it does
    /// while no task is ready but watchers, and no other timer is armed, then nothing will ever come of it, and the runner
    /// ends as [`Stalled`]. What another thread is still to bring about is no duty of the tasks here. Without a duty, a runner that waits for descriptors or an inbox waits as long as it takes.
    pub fn set_duty(&self, duty: impl Fn() -> bool + 'static) {
        self.0.duty.replace(Some(Box::new(duty)));
    }

    /// Whether there is a duty that nothing here will ever fulfil.
    pub(crate) fn has_stalled(&self) -> bool {
        let duty = self.0.duty.borrow();
        let Some(duty) = &*duty else { return false };
        self.0.schedule.borrow().has_only_watchers() && duty()
    }

    /// Drops a task where it waits: what a power cut does. A task that has ended is left alone.
    pub fn kill(&self, id: TaskId) {
        let future = {
            let mut schedule = self.0.schedule.borrow_mut();
            let Some(task) = schedule.task(id) else { return };
            task.alive = false;
            let future = task.future.take();
            if future.is_some() {
                schedule.free.push(id.index);
            } // else it is being polled: `put_back` frees it
            future
        };
        drop(future);
    }

    /// Makes a task ready. One that has ended, or is ready already, is left alone.
    pub fn wake(&self, id: TaskId) {
        self.0.schedule.borrow_mut().wake(id);
    }

    /// Makes a task ready at `at`.
    #[inline]
    pub fn wake_at(&self, at: Time, id: TaskId) {
        if at.0 <= self.0.now.get() {
            return self.wake(id);
        }
        self.0.timers.set(self.0.timers.get() + 1);
        self.0.schedule.borrow_mut().arm(at.0, id);
    }

    /// Lets time pass to `at`, which is to come, if nothing else happens up to then: the task that is being polled would be the
    /// next one. Whether it has; else that task is made ready at `at`.
    #[inline]
    fn pass_to(&self, at: Time) -> bool {
        let inner = &*self.0;
        let current = inner.current.get();
        let mut schedule = inner.schedule.borrow_mut();
        if !inner.leaps.get() || !schedule.is_idle_until(at.0, current) {
            inner.timers.set(inner.timers.get() + 1);
            schedule.arm(at.0, current);
            return false;
        }
        drop(schedule);
        inner.now.set(at.0);
        if at.0 >= inner.looks_at.get() {
            self.look();
        }
        true
    }

    /// The task that is being polled: what a leaf future notes before it returns `Pending`.
    pub fn current(&self) -> TaskId {
        self.0.current.get()
    }

    /// Lets `delay` of modelled time pass. Under `timing = "none"` it takes none.
    pub fn sleep(&self, delay: Delay) -> Sleep<'_> {
        self.sleep_until(self.now() + delay)
    }

    /// Waits until the modelled instant `at`. One that has come doesn't yield.
    pub fn sleep_until(&self, at: Time) -> Sleep<'_> {
        Sleep { clock: self, at, armed: false, yielded: false, modelled: true }
    }

    /// Waits for a timer of the protocol (a time-out, an aggregation time): real under every timing.
    pub fn timer(&self, delay: Delay) -> Sleep<'_> {
        Sleep { clock: self, at: self.now() + delay, armed: false, yielded: false, modelled: false }
    }

    /// What `work` gives, if it does before a timer of `limit` ends.
    pub async fn within<T>(&self, limit: Delay, work: impl Future<Output = T>) -> Option<T> {
        let (mut stop, mut work) = (pin!(self.timer(limit)), pin!(work));
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => stop.as_mut().poll(context).map(|()| None),
        })
        .await
    }

    /// Lets every other ready task run once.
    pub fn yield_now(&self) -> Yield<'_> {
        Yield { clock: self, yielded: false }
    }

    /// Whether modelled waits take no time.
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

    /// Takes the next timer and makes its task ready.
    pub(crate) fn wake_next_timer(&self) {
        let mut schedule = self.0.schedule.borrow_mut();
        if let Some(timer) = schedule.pop_timer() {
            schedule.wake(timer.target);
        }
    }

    /// Polls the task that was made ready first, unless it has ended since.
    pub(crate) fn poll_ready(&self) -> Option<TaskId> {
        let (id, future) = {
            let mut schedule = self.0.schedule.borrow_mut();
            let id = schedule.ready.pop_front()?;
            (id, schedule.take(id))
        };
        if let Some(future) = future {
            self.poll(id, future);
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

    /// Polls a task.
    fn poll(&self, id: TaskId, mut future: TaskFuture) {
        self.begin_poll(id);
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let ended = self.0.schedule.borrow_mut().put_back(id, future, polled.is_ready());
        drop(ended); // its drop may wake others, so no borrow is held
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
            drop(futures);
        }
        let mut schedule = self.0.schedule.borrow_mut();
        schedule.ready.clear();
        schedule.wheel.clear();
        schedule.watcher_timers = 0;
        drop(schedule);
        self.0.duty.take();
        self.stop_observing();
    }

    /// Under `timing = "none"`: whether this wait may be skipped without yielding.
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

/// A wait for an instant. Safe to drop: the timer then wakes its task once for nothing.
#[must_use = "time passes only when it is awaited"]
pub struct Sleep<'a> {
    clock: &'a Clock,
    at: Time,
    armed: bool,
    /// It yielded under `timing = "none"`: no timer is armed for it.
    yielded: bool,
    modelled: bool,
}

impl Future for Sleep<'_> {
    type Output = ();

    /// In line where it is awaited as far as the second poll goes, with which nearly every wait ends.
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
    /// The first poll, and every one under `timing = "none"`.
    #[inline(never)]
    fn begin(&mut self) -> Poll<()> {
        let clock = self.clock;
        if self.modelled && clock.is_immediate() {
            return self.poll_immediate();
        }
        if clock.now() >= self.at || !self.armed && clock.pass_to(self.at) {
            return Poll::Ready(());
        }
        self.armed = true;
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

    /// In real time, when it is `wall`: how late a modelled wait has ended.
    #[cold]
    fn note_lateness(&self, wall: Time) {
        if self.modelled {
            self.clock.change_pace(|pace| pace.note(wall.since(self.at)));
        }
    }
}

/// See [`Clock::yield_now`].
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
