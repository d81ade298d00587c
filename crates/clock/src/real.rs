//! The runner in real time: the same tasks, timers at wall time, file descriptors, and an inbox through which other
//! threads wake tasks.
//!
//! The one place where wall time becomes the executor's. Time passes as in a simulation that is held back: a timer that is served
//! late is served at its own instant, so that delays of the runner don't add up along the waits of a command; only
//! what comes from outside happens at the wall's time. How late modelled waits end is counted ([`Pace`]).
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

/// What modelled latencies mean in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// They take as long as modelled.
    Model,
    /// They take no time: as fast as the machine can.
    None,
}

/// How far the runner kept to modelled time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Modelled waits that have passed; timers of the protocol are not counted.
    pub waits: u64,
    /// Of these, later than [`Pace::LATE`].
    pub late: u64,
    /// How late all of them ended, together.
    pub lateness: Delay,
    /// How late the latest was.
    pub worst: Delay,
    /// What modelled time has lost against the wall's, because the machine could not keep up for long.
    pub slipped: Delay,
}

impl Pace {
    /// A wait that ends later than this counts as late.
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
    /// Something may be in `woken`.
    news: AtomicBool,
    /// The runner pauses, or is about to.
    paused: AtomicBool,
    bell: OwnedFd,
}

/// Wakes tasks from other threads. Cheap to clone.
#[derive(Clone)]
pub struct Inbox(Arc<Shared>);

impl Inbox {
    /// An empty inbox.
    ///
    /// # Errors
    /// The system has no file descriptor left.
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
            // It fails only when the bell rings already.
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

    /// Says that the runner is about to pause; true if it may.
    fn pause(&self) -> bool {
        self.0.paused.store(true, Ordering::SeqCst);
        !self.has_news()
    }

    fn resume(&self) {
        self.0.paused.store(false, Ordering::SeqCst);
        let _ = rustix::io::read(&self.0.bell, &mut [0; 8]);
    }
}

/// Polls before the wall clock and the inbox are looked at again: enough for what one doorbell sets going.
const BATCH: usize = 8;
/// A wait for a timer that is shorter is spent looking at the wall clock: a pause may take some tens of microseconds
/// longer than asked for.
const SPIN: Delay = Delay::from_us(100);
/// How often descriptors are looked at while there is something to do.
const LOOK: Delay = Delay::from_us(50);
/// How long the runner looks at descriptors before it pauses, at most: to be woken costs the one who wakes it, too, which is another
/// process that waits for an answer.
const LINGER_MAX: Delay = Delay::from_us(50);
/// A pause up to which lingering may have made it unnecessary: most of it is two processes that take turns to wake each other.
const SHORT_PAUSE: Delay = Delay::from_us(200);
/// How far modelled time may fall behind the wall's before it gives up what it has lost.
const BEHIND_MAX: Delay = Delay::from_ms(100);

/// How long the runner lingers at descriptors before it pauses: as long as it may while pauses are short, and not at all behind a
/// long one.
#[derive(Default)]
struct Linger {
    limit: Delay,
    /// When there was nothing to do.
    since: Option<Time>,
}

impl Linger {
    /// Whether to look once more, as there is nothing to do.
    fn goes_on(&mut self, now: Time) -> bool {
        let since = *self.since.get_or_insert(now);
        now.since(since) < self.limit
    }

    /// It has paused, until now.
    fn paused(&mut self, now: Time) {
        let idle = now.since(self.since.take().unwrap_or(now));
        self.limit = if idle <= SHORT_PAUSE { LINGER_MAX } else { Delay::ZERO };
    }
}

/// The wall's time, as the executor's.
#[derive(Clone, Copy)]
pub(crate) struct Wall {
    start: Instant,
    origin: Time,
    /// What was given up.
    slipped: Delay,
}

impl Wall {
    fn now(&self) -> Time {
        let passed = Delay::from_ns(self.start.elapsed().as_nanos() as u64);
        Time((self.origin + passed).0.saturating_sub(self.slipped.0))
    }
}

impl Executor {
    /// Runs `main` in real time until it ends. Without a ready task, a timer, a descriptor that is waited for or an
    /// inbox that another thread could write to, it is stalled; with a [duty](Clock::set_duty) also if there are some.
    pub fn run_real<T: 'static>(
        &self,
        timing: Timing,
        inbox: Option<&Inbox>,
        main: impl Future<Output = T> + 'static,
    ) -> Result<T, Stalled> {
        // Else the system adds 50 us to every pause. It may refuse; pauses are then longer.
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
    /// Now, by a look at the wall clock where modelled waits take no time. The runner looks at it between polls only, and
    /// what is measured within one, such as a message to another process and its answer, would take no time at all.
    pub fn now_measured(&self) -> Time {
        if let Some((wall, Timing::None)) = self.real() {
            self.set_now(wall.now());
        }
        self.now()
    }

    /// What modelled waits mean in real time; none in virtual time.
    pub fn timing(&self) -> Option<Timing> {
        self.real().map(|(_, timing)| timing)
    }

    /// Wakes who has waited for an instant up to `wall`: for the next such instant, which it is then, if modelled time
    /// passes; for all of them if it doesn't.
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
