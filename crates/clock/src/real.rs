//! The runner in real time: the same tasks, timers at wall time, and an inbox through which other threads wake them.
//!
//! The one place that reads the wall clock.
#![allow(clippy::disallowed_methods, reason = "the real runner is where wall time comes from")]

use crate::executor::{Executor, Stalled, TaskId};
use crate::time::Delay;
use std::future::Future;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// What modelled latencies mean in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// They take as long as modelled.
    Model,
    /// They take no time: as fast as the machine can.
    None,
}

#[derive(Default)]
struct Shared {
    woken: Mutex<Vec<TaskId>>,
    changed: Condvar,
}

/// Wakes tasks from other threads.
#[derive(Clone, Default)]
pub struct Inbox(Arc<Shared>);

impl Inbox {
    /// Makes a task ready, from any thread.
    pub fn wake(&self, task: TaskId) {
        self.0.woken.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(task);
        self.0.changed.notify_one();
    }

    fn drain(&self, into: &mut Vec<TaskId>) {
        into.append(&mut self.0.woken.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    fn park(&self, timeout: Option<Duration>) {
        let woken = self.0.woken.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !woken.is_empty() {
            return;
        }
        match timeout {
            Some(timeout) => drop(self.0.changed.wait_timeout(woken, timeout)),
            None => drop(self.0.changed.wait(woken)),
        }
    }
}

/// Tasks polled before the wall clock and the inbox are looked at again.
const BATCH: usize = 32;

impl Executor {
    /// Runs `main` in real time until it ends. Without a ready task, a timer or an inbox that somebody could write
    /// to, it is stalled.
    pub fn run_real<T: 'static>(
        &self,
        timing: Timing,
        inbox: Option<&Inbox>,
        main: impl Future<Output = T> + 'static,
    ) -> Result<T, Stalled> {
        self.clock().set_immediate(timing == Timing::None);
        let result = self.run_to_wall(inbox, main);
        self.clock().set_immediate(false);
        result
    }

    fn run_to_wall<T: 'static>(
        &self,
        inbox: Option<&Inbox>,
        main: impl Future<Output = T> + 'static,
    ) -> Result<T, Stalled> {
        let clock = self.clock();
        let start = Instant::now();
        let origin = clock.now();
        let wall = || origin + Delay::from_ns(start.elapsed().as_nanos() as u64);
        let (main, result) = clock.spawn_main(main);
        let mut woken = Vec::new();
        loop {
            clock.set_now(wall());
            while clock.next_timer().is_some_and(|at| at <= clock.now()) {
                clock.wake_next_timer();
            }
            if let Some(inbox) = inbox {
                inbox.drain(&mut woken);
                woken.drain(..).for_each(|task| clock.wake(task));
            }
            for _ in 0..clock.ready_len().min(BATCH) {
                let Some(task) = clock.poll_ready() else { break };
                if task == main
                    && let Some(value) = result.take()
                {
                    return Ok(value);
                }
            }
            if clock.ready_len() > 0 {
                continue;
            }
            let until = clock.next_timer().map(|at| Duration::from_nanos(at.since(wall()).0 / 1_000));
            match (inbox, until) {
                (_, Some(wait)) if wait < Duration::from_micros(50) => std::hint::spin_loop(),
                (Some(inbox), wait) => inbox.park(wait),
                (None, Some(wait)) => std::thread::sleep(wait),
                (None, None) => return Err(clock.stalled()),
            }
        }
    }
}
