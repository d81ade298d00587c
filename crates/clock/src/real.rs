//! The real-time runner: the same tasks, timers at wall-clock time, file descriptors, and an inbox through
//! which other threads wake tasks.
//!
//! Only this file turns wall-clock time into the executor's. The run is a simulation that is held back: a
//! timer that is served late still fires at its own instant, so delays of the runner do not add up along the
//! waits of a command. Only outside events happen at wall-clock time. [`Lateness`] counts how late modelled
//! waits end.
#![allow(clippy::disallowed_methods, reason = "the real runner is where wall time comes from")]

use crate::executor::{Clock, Executor, Stalled};
use crate::task::TaskId;
use crate::time::{Delay, Time};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::future::Future;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Relation of modelled latencies to real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Modelled latencies take their time.
    Model,
    /// Modelled latencies take no time: the run is as fast as the machine allows.
    None,
}

/// Lateness of modelled waits in real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Modelled waits that have ended. Protocol timers are not counted.
    pub waits: u64,
    /// Delays longer than [`Lateness::LATE`].
    pub late: u64,
    /// Sum of the lateness of all waits.
    pub lateness: Delay,
    /// Lateness of the latest wait.
    pub worst: Delay,
    /// Modelled time dropped because the machine fell behind by more than 100 ms.
    pub slipped: Delay,
}

impl Lateness {
    /// A wait that ends later than this counts as late: 10 us.
    pub const LATE: Delay = Delay::from_us(10);

    pub(crate) fn note(&mut self, late: Delay) {
        self.waits += 1;
        self.late += u64::from(late > Self::LATE);
        self.lateness += late;
        self.worst = self.worst.max(late);
    }
}

struct Shared {
    woken: Mutex<Vec<TaskId>>,
    /// `woken` may be non-empty.
    news: AtomicBool,
    /// The runner sleeps, or is about to.
    paused: AtomicBool,
    bell: OwnedFd,
}

/// Queue through which other threads wake tasks. Cheap to clone.
#[derive(Clone)]
pub struct Inbox(Arc<Shared>);

impl Inbox {
    /// An empty inbox.
    ///
    /// # Errors
    /// The error of `eventfd`, as when the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (woken, news, paused) = Default::default();
        Ok(Inbox(Arc::new(Shared { woken, news, paused, bell })))
    }

    /// Makes a task ready, from any thread.
    pub fn wake(&self, task: TaskId) {
        self.0.woken.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(task);
        self.0.news.store(true, Ordering::SeqCst);
        if self.0.paused.load(Ordering::SeqCst) {
            // Fails only if the counter is at its maximum, and then the descriptor is readable already.
            let _ = rustix::io::write(&self.0.bell, &1u64.to_ne_bytes());
        }
    }

    fn has_news(&self) -> bool {
        self.0.news.load(Ordering::SeqCst)
    }

    fn drain(&self, into: &mut Vec<TaskId>) {
        if self.0.news.swap(false, Ordering::SeqCst) {
            into.append(&mut self.0.woken.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        }
    }

    /// Announces that the runner is about to sleep; false if a wake has come in meanwhile.
    fn pause(&self) -> bool {
        self.0.paused.store(true, Ordering::SeqCst);
        !self.has_news()
    }

    fn resume(&self) {
        self.0.paused.store(false, Ordering::SeqCst);
        let _ = rustix::io::read(&self.0.bell, &mut [0; 8]);
    }
}

/// Polls between two looks at the wall clock and the inbox: enough for the work of one doorbell.
const BATCH: usize = 8;
/// A timer wait shorter than this spins on the wall clock, because a sleep may take tens of microseconds
/// longer than asked for.
const SPIN: Delay = Delay::from_us(100);
/// Interval at which descriptors are checked while tasks are ready.
const LOOK: Delay = Delay::from_us(50);
/// Longest time for which the runner polls descriptors before it sleeps. A sleep also costs the peer process,
/// which pays for the wake while it waits for an answer.
const LINGER_MAX: Delay = Delay::from_us(50);
/// A sleep up to this long could have been avoided by lingering: most of it is two processes waking each
/// other in turn.
const SHORT_PAUSE: Delay = Delay::from_us(200);
/// Maximum lag of modelled time behind wall-clock time; a larger lag is dropped.
const BEHIND_MAX: Delay = Delay::from_ms(100);

/// Adaptive polling before a sleep: up to [`LINGER_MAX`] while sleeps are short, none after a long one.
#[derive(Default)]
struct Linger {
    limit: Delay,
    /// Instant at which the runner became idle.
    since: Option<Time>,
}

impl Linger {
    /// Whether to poll descriptors once more instead of sleeping.
    fn goes_on(&mut self, now: Time) -> bool {
        let since = *self.since.get_or_insert(now);
        now.since(since) < self.limit
    }

    /// Records a sleep that ended at `now`.
    fn paused(&mut self, now: Time) {
        let idle = now.since(self.since.take().unwrap_or(now));
        self.limit = if idle <= SHORT_PAUSE { LINGER_MAX } else { Delay::ZERO };
    }
}

/// Wall-clock time on the executor's scale.
#[derive(Clone, Copy)]
pub(crate) struct Wall {
    start: Instant,
    origin: Time,
    /// Total time given up, subtracted from wall-clock time.
    slipped: Delay,
}

impl Wall {
    fn now(&self) -> Time {
        let passed = Delay::from_ns(self.start.elapsed().as_nanos() as u64);
        Time((self.origin + passed).0.saturating_sub(self.slipped.0))
    }
}

impl Executor {
    /// Runs `main` in real time until it ends.
    ///
    /// # Errors
    /// [`Stalled`] if there is no ready task, no timer, no watched descriptor and no inbox; with a
    /// [duty](Clock::set_duty), also as soon as only watchers are left.
    pub fn run_real<T: 'static>(
        &self,
        timing: Timing,
        inbox: Option<&Inbox>,
        main: impl Future<Output = T> + 'static,
    ) -> Result<T, Stalled> {
        // The default slack adds 50 us to every sleep. The system may refuse the change; sleeps are then
        // longer.
        let slack = rustix::thread::current_timer_slack().ok().and_then(NonZeroU64::new);
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        self.clock().set_immediate(timing == Timing::None);
        let result = self.run_to_wall(timing, inbox, main);
        self.clock().set_immediate(false);
        self.clock().set_wall(None);
        self.clock().set_real(None);
        let _ = rustix::thread::set_current_timer_slack(slack);
        result
    }

    fn run_to_wall<T: 'static>(
        &self,
        timing: Timing,
        inbox: Option<&Inbox>,
        main: impl Future<Output = T> + 'static,
    ) -> Result<T, Stalled> {
        let clock = self.clock();
        let mut wall = Wall { start: Instant::now(), origin: clock.now(), slipped: Delay::ZERO };
        clock.set_real(Some((wall, timing)));
        let (main, result) = clock.spawn_main(main);
        let mut woken = Vec::new();
        let mut look_at = clock.now();
        let mut linger = Linger::default();
        loop {
            let mut now = wall.now();
            clock.serve_timers(timing, now);
            clock.set_wall((timing == Timing::Model).then_some(now));
            if now.since(clock.now()) > BEHIND_MAX {
                let behind = now.since(clock.now());
                wall.slipped += behind;
                clock.change_pace(|pace| pace.slipped += behind);
                now = wall.now();
                look_at = now;
            }
            if let Some(inbox) = inbox {
                inbox.drain(&mut woken);
                woken.drain(..).for_each(|task| clock.wake(task));
            }
            for _ in 0..BATCH {
                let Some(task) = clock.poll_ready() else { break };
                linger.since = None;
                if task == main
                    && let Some(value) = result.take()
                {
                    return Ok(value);
                }
            }
            if clock.has_stalled() && !inbox.is_some_and(Inbox::has_news) {
                return Err(clock.stalled());
            }
            let is_busy = clock.ready_len() > 0;
            let next = clock.next_timer();
            if is_busy || next.is_some_and(|at| at < now + SPIN) {
                if now >= look_at {
                    look_at = now + LOOK;
                    if !clock.watches().is_empty() {
                        clock.watches().wait(None, Some(timespec(Delay::ZERO)), |task| clock.wake(task));
                    }
                } else if !is_busy {
                    std::hint::spin_loop();
                }
                continue;
            }
            if next.is_none() && inbox.is_none() && clock.watches().is_empty() {
                return Err(clock.stalled());
            }
            if linger.goes_on(now) {
                clock.watches().wait(None, Some(timespec(Delay::ZERO)), |task| clock.wake(task));
                continue;
            }
            let pause = next.map(|at| timespec(at.since(wall.now())));
            match inbox {
                None => clock.watches().wait(None, pause, |task| clock.wake(task)),
                Some(inbox) => {
                    if inbox.pause() {
                        clock.watches().wait(Some(&inbox.0.bell), pause, |task| clock.wake(task));
                    }
                    inbox.resume();
                }
            }
            linger.paused(wall.now());
        }
    }
}

impl Clock {
    /// The current time, by a fresh look at the wall clock if modelled waits take no time. The runner itself
    /// looks only between polls, so anything measured within one poll, such as a message to another process
    /// and its answer, would appear to take no time.
    pub fn now_measured(&self) -> Time {
        if let Some((wall, Timing::None)) = self.real() {
            self.set_now(wall.now());
        }
        self.now()
    }

    /// The timing mode of the real runner; None in virtual time.
    pub fn timing(&self) -> Option<Timing> {
        self.real().map(|(_, timing)| timing)
    }

    /// Wakes tasks whose timers are due by `wall`. If modelled time passes, only those of the next instant,
    /// to which the clock then moves; otherwise all of them.
    fn serve_timers(&self, timing: Timing, wall: Time) {
        let mut served = 0;
        while let Some(at) = self.next_timer().filter(|at| *at <= wall) {
            if timing == Timing::Model {
                if served > 0 && at > self.now() {
                    return;
                }
                self.set_now(at);
            }
            self.wake_next_timer();
            served += 1;
        }
        if timing == Timing::None || served == 0 {
            self.set_now(wall);
        }
    }
}

fn timespec(delay: Delay) -> Timespec {
    let ns = delay.0 / 1_000;
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}
