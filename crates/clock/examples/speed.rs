//! Events that the executor handles in a second of CPU time.
//!
//! An event is a poll of a task. Three loads with 64 tasks each: sleeps only, so that every event is a timer;
//! passing a credit on, so that none is; and a read-like command through a link, a core, a die and a channel.
//! Run it with `cargo run --release -p byteway-clock --example speed`.

use byteway_clock::{Clock, Delay, Executor, Mailbox, Notify, Pipe, Rate, Semaphore, Station};
use rustix::time::{ClockId, clock_gettime};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::cell::Cell;
use std::rc::Rc;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TASKS: u64 = 64;

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs `spawn` for each task and then `rounds` rounds over all tasks, after a tenth of that to warm up.
fn measure(what: &str, rounds: u64, spawn: impl Fn(&Clock, Rounds, u64)) {
    let executor = Executor::new();
    let clock = executor.clock();
    let left = Rounds { left: Rc::default(), done: Rc::new(Notify::new(clock)) };
    (0..TASKS).for_each(|task| spawn(clock, left.clone(), task));
    let run = |rounds| {
        left.left.set(rounds);
        let done = left.done.clone();
        executor.run(async move { done.notified().await }).expect("no task ends");
    };
    run(rounds / 10);
    let (begin, before, allocated) = (cpu_seconds(), clock.counters(), ALLOCATOR.stats());
    run(rounds);
    let seconds = cpu_seconds() - begin;
    let (after, allocated) = (clock.counters(), ALLOCATOR.stats() - allocated);
    let (polls, timers) = ((after.polls - before.polls) as f64, (after.timers - before.timers) as f64);
    let (rounds, allocations) = (rounds as f64, (allocated.allocations + allocated.reallocations) as f64);
    println!(
        "{what:<18} {:>5.1} M events and {:>5.2} M rounds a CPU-second, {:>4.1} ns an event; \
         a round: {:.2} polls, {:.2} timers, {:.6} allocations",
        polls / seconds / 1e6,
        rounds / seconds / 1e6,
        seconds * 1e9 / polls,
        polls / rounds,
        timers / rounds,
        allocations / rounds,
    );
}

/// Counts down the remaining rounds.
#[derive(Clone)]
struct Rounds {
    left: Rc<Cell<u64>>,
    done: Rc<Notify>,
}

impl Rounds {
    fn one_less(&self) {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        if left == 1 {
            self.done.notify_one();
        }
    }
}

/// Delays of 0.1 to 100 us, without the random streams, whose cost is not the executor's.
fn next_delay(state: &mut u64) -> Delay {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    Delay::from_ns(100 + (*state >> 33) % 100_000)
}

fn main() {
    measure("sleep", 20_000_000, |clock, rounds, task| {
        let inner = clock.clone();
        clock.spawn("sleeper", async move {
            let mut state = task;
            loop {
                inner.sleep(next_delay(&mut state)).await;
                rounds.one_less();
            }
        });
    });

    let semaphores: Rc<Cell<Option<Semaphore>>> = Rc::default();
    measure("hand a credit on", 20_000_000, |clock, rounds, _| {
        let credit = semaphores.take().unwrap_or_else(|| Semaphore::new(clock, 1));
        semaphores.set(Some(credit.clone()));
        let inner = clock.clone();
        clock.spawn("taker", async move {
            loop {
                let _permit = credit.acquire(1).await;
                inner.yield_now().await; // lets the others queue for it
                rounds.one_less();
            }
        });
    });

    let drives: Rc<Cell<Option<Rc<Drive>>>> = Rc::default();
    measure("read-like command", 2_000_000, |clock, rounds, task| {
        let drive = drives.take().unwrap_or_else(|| Rc::new(Drive::new(clock)));
        drives.set(Some(drive.clone()));
        let inner = clock.clone();
        clock.spawn("command", async move {
            let (mut state, completion) = (task, Mailbox::new(&inner));
            loop {
                drive.read(next_delay(&mut state).0, &completion).await;
                rounds.one_less();
            }
        });
    });
}

/// The shared resources of a read.
struct Drive {
    clock: Clock,
    up: Pipe,
    down: Pipe,
    core: Station,
    dies: Vec<Station>,
    channels: Vec<Station>,
    tags: Semaphore,
}

impl Drive {
    fn new(clock: &Clock) -> Self {
        let link = || Pipe::new(clock, Rate::per_second(3_500_000_000), Delay::from_ns(100));
        Drive {
            clock: clock.clone(),
            up: link(),
            down: link(),
            core: Station::new(clock, 4),
            dies: (0..64).map(|_| Station::new(clock, 1)).collect(),
            channels: (0..8).map(|_| Station::new(clock, 1)).collect(),
            tags: Semaphore::new(clock, 32),
        }
    }

    async fn read(&self, address: u64, completion: &Mailbox<()>) {
        let tag = self.tags.acquire(1).await;
        self.up.transfer(24).await; // the request for the command
        self.down.transfer(88).await; // the command
        drop(tag);
        self.core.serve(Delay::from_ns(500)).await;
        let die = address as usize / 1000 % self.dies.len();
        self.dies[die].serve(Delay::from_us(5)).await;
        self.channels[die % self.channels.len()].serve(Delay::from_ns(3_400)).await;
        self.core.serve(Delay::from_ns(300)).await;
        self.up.transfer(4096 + 16 * 24).await;
        completion.send_at(self.clock.now() + Delay::from_ns(120), ());
        completion.receive().await;
    }
}
