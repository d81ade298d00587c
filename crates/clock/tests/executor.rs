//! The executor in virtual time: the order of tasks, the advance of time, and the effects of killing.

use byteway_clock::{Clock, Delay, Executor, Handler, Notify, RunOutcome, Semaphore, TaskId, Time};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Events in order, with the instant in picoseconds.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<(u64, String)>>>);

impl Log {
    fn add(&self, clock: &Clock, what: impl Into<String>) {
        self.0.borrow_mut().push((clock.now().0, what.into()));
    }

    fn names(&self) -> Vec<String> {
        self.0.borrow().iter().map(|(_, what)| what.clone()).collect()
    }

    fn entries(&self) -> Vec<(u64, String)> {
        self.0.borrow().clone()
    }
}

/// Runs its closure when dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A task that logs its name, sleeps, and logs it again.
fn spawn_sleeper(clock: &Clock, log: &Log, name: &'static str, delay: Delay) -> TaskId {
    let (inner, log) = (clock.clone(), log.clone());
    clock.spawn(name, async move {
        log.add(&inner, name);
        inner.sleep(delay).await;
        log.add(&inner, format!("{name}'"));
    })
}

// Tasks that run in another order than they became ready would make two runs of one program differ.
#[test]
fn tasks_run_in_the_order_in_which_they_became_ready() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    for name in ["a", "b", "c"] {
        let (inner, log) = (clock.clone(), log.clone());
        clock.spawn(name, async move {
            log.add(&inner, name);
            inner.yield_now().await;
            log.add(&inner, format!("{name}'"));
        });
    }
    executor.run(async move { clock.sleep(Delay(1)).await }).unwrap();
    assert_eq!(log.names(), ["a", "b", "c", "a'", "b'", "c'"]);
}

// Events at one instant are ordered too: by the order of arming, and the consequences of one come before the
// next.
#[test]
fn timers_of_one_instant_fire_in_the_order_in_which_they_were_armed() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    spawn_sleeper(&clock, &log, "late", Delay(200));
    spawn_sleeper(&clock, &log, "a", Delay(100));
    spawn_sleeper(&clock, &log, "b", Delay(100));
    let notify = Rc::new(Notify::new(&clock));
    let (inner, notifier, log_c) = (clock.clone(), notify.clone(), log.clone());
    clock.spawn("c", async move {
        inner.sleep(Delay(100)).await;
        log_c.add(&inner, "c'");
        notifier.notify_one();
    });
    let (inner, log_d) = (clock.clone(), log.clone());
    clock.spawn("d", async move {
        notify.notified().await;
        log_d.add(&inner, "d, by c");
    });
    spawn_sleeper(&clock, &log, "e", Delay(100));
    executor.run(async move { clock.sleep(Delay(200)).await }).unwrap();
    let expected = [
        (0, "late"),
        (0, "a"),
        (0, "b"),
        (0, "e"),
        (100, "a'"),
        (100, "b'"),
        (100, "c'"),
        (100, "d, by c"),
        (100, "e'"),
        (200, "late'"),
    ];
    assert_eq!(log.entries(), expected.map(|(at, what)| (at, what.to_owned())));
}

// A wait that is over must cost neither a poll nor a turn: most waits of firmware are.
#[test]
fn a_wait_that_has_elapsed_does_not_yield() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    spawn_sleeper(&clock, &log, "other", Delay(1));
    let (inner, log_main) = (clock.clone(), log.clone());
    let polls = executor
        .run(async move {
            inner.sleep(Delay(10)).await;
            let before = inner.counters();
            inner.sleep(Delay::ZERO).await;
            inner.sleep_until(Time(3)).await;
            inner.timer(Delay::ZERO).await;
            log_main.add(&inner, "main");
            assert_eq!(inner.counters(), before);
            inner.counters().polls
        })
        .unwrap();
    assert_eq!(log.names(), ["other", "other'", "main"]);
    assert_eq!(polls, 4); // two of each task
}

// A stalled simulation must report it, with the waiting tasks, instead of hanging or ending early.
#[test]
fn a_standstill_names_those_who_wait() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let never = Rc::new(Notify::new(&clock));
    for name in ["reader", "writer", "reader"] {
        let never = never.clone();
        clock.spawn(name, async move { never.notified().await });
    }
    clock.spawn("ends", async {});
    let inner = clock.clone();
    let stalled = executor
        .run(async move {
            inner.sleep(Delay::from_us(3)).await;
            never.notified().await;
        })
        .unwrap_err();
    assert_eq!(stalled.at, Time(3_000_000));
    assert_eq!(stalled.waiting, [("reader", 2), ("writer", 1), ("main", 1)]);
    assert_eq!(
        stalled.to_string(),
        "the simulation stalled at 3.000 us: no task is ready and no timer is armed; \
         waiting: 2 x reader, 1 x writer, 1 x main"
    );
}

// A power cut drops tasks wherever they wait. What they hold must be dropped then, once, and they must not
// run on.
#[test]
fn a_task_is_killed_at_each_kind_of_wait() {
    for stage in ["not yet polled", "asleep", "ready again", "queued", "granted", "ended"] {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let log = Log::default();
        let semaphore = Semaphore::new(&clock, 1);
        let (inner, log_v, semaphore_v) = (clock.clone(), log.clone(), semaphore.clone());
        let guard_log = log.clone();
        let guard_clock = clock.clone();
        let guard = OnDrop(move || guard_log.add(&guard_clock, "dropped"));
        let main_clock = clock.clone();
        let (main_log, main_semaphore) = (log.clone(), semaphore.clone());
        executor
            .run(async move {
                let clock = main_clock;
                let permit = main_semaphore.acquire(1).await;
                let victim = clock.spawn("victim", async move {
                    let _guard = guard;
                    inner.sleep(Delay(10)).await;
                    inner.yield_now().await;
                    let _permit = semaphore_v.acquire(1).await;
                    log_v.add(&inner, "ran to its end");
                });
                match stage {
                    "not yet polled" => {}
                    "asleep" => clock.sleep(Delay(5)).await,
                    "ready again" => {
                        clock.sleep(Delay(5)).await;
                        clock.wake(victim);
                    }
                    "queued" => clock.sleep(Delay(20)).await,
                    "granted" => {
                        clock.sleep(Delay(20)).await;
                        drop(permit);
                    }
                    _ => {
                        clock.sleep(Delay(20)).await;
                        drop(permit);
                        clock.sleep(Delay(20)).await;
                    }
                }
                clock.kill(victim);
                main_log.add(&clock, "killed");
                clock.kill(victim); // again: nothing
                clock.wake(victim);
                clock.sleep(Delay(100)).await;
            })
            .unwrap();
        let expected: &[&str] = match stage {
            "ended" => &["ran to its end", "dropped", "killed"],
            _ => &["dropped", "killed"],
        };
        assert_eq!(log.names(), expected, "{stage}");
        assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0), "{stage}");
    }
}

// If the timer of a killed task advanced time, the run after a power cut would begin later than the cut.
#[test]
fn timers_of_the_dead_do_not_move_time() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    let dead = spawn_sleeper(&clock, &log, "dead", Delay(1000));
    let never = Notify::new(&clock);
    let stalled = executor
        .run({
            let clock = clock.clone();
            async move {
                clock.sleep(Delay(10)).await;
                clock.kill(dead);
                never.notified().await;
            }
        })
        .unwrap_err();
    assert_eq!(stalled.at, Time(10));
    // Nor if its slot in the slab is reused by another task.
    let reused = clock.spawn("reuses the slot", async {});
    assert_ne!(reused, dead);
    executor
        .run({
            let clock = clock.clone();
            async move { clock.sleep(Delay(2000)).await }
        })
        .unwrap();
    assert_eq!(clock.now(), Time(2010));
}

// A killed task leaves its entry in the ready queue. A new task in its slot must not get that turn, or be
// polled twice: results would depend on which slot was free.
#[test]
fn a_new_task_in_a_dead_one_s_place_waits_for_its_own_turn() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    let before = clock.spawn("killed while ready", async {});
    spawn_sleeper(&clock, &log, "first", Delay(10));
    clock.kill(before);
    spawn_sleeper(&clock, &log, "second", Delay(10));
    let inner = clock.clone();
    executor.run(async move { inner.sleep(Delay(20)).await }).unwrap();
    assert_eq!(log.names(), ["first", "second", "first'", "second'"]);
    assert_eq!(clock.counters().polls, 6); // two of each, and none for nothing
}

// The same, for a task that woke itself in its last poll.
#[test]
fn a_task_that_ends_while_ready_leaves_no_turn_behind() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    let inner = clock.clone();
    clock.spawn("wakes itself and ends", async move { inner.wake(inner.current()) });
    let (inner, log_s) = (clock.clone(), log.clone());
    clock.spawn("spawns", async move {
        spawn_sleeper(&inner, &log_s, "new", Delay(10));
        log_s.add(&inner, "spawned");
    });
    let inner = clock.clone();
    executor.run(async move { inner.sleep(Delay(20)).await }).unwrap();
    assert_eq!(log.names(), ["spawned", "new", "new'"]);
    assert_eq!(clock.counters().polls, 6);
}

// A drive that cuts its own power kills the task that does it: its future cannot be dropped while it runs,
// and must be when it returns.
#[test]
fn a_task_that_kills_itself_runs_to_its_next_wait() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    let (inner, log_t, guard_log, guard_clock) = (clock.clone(), log.clone(), log.clone(), clock.clone());
    clock.spawn("kills itself", async move {
        let _guard = OnDrop(move || guard_log.add(&guard_clock, "dropped"));
        inner.kill(inner.current());
        log_t.add(&inner, "still here");
        inner.sleep(Delay(10)).await;
        log_t.add(&inner, "must not be reached");
    });
    let inner = clock.clone();
    executor.run(async move { inner.sleep(Delay(100)).await }).unwrap();
    assert_eq!(log.entries(), [(0, "still here".to_owned()), (0, "dropped".to_owned())]);
    // Its slot is free again, once.
    let a = clock.spawn("a", async {});
    let b = clock.spawn("b", async {});
    assert_ne!(a, b);
}

// A main that kills itself has no result: it must stall, not hang or panic.
#[test]
fn a_main_that_kills_itself_stalls() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let stalled = executor
        .run(async move {
            clock.kill(clock.current());
            clock.sleep(Delay(10)).await;
        })
        .unwrap_err();
    assert_eq!((stalled.at, stalled.waiting), (Time::ZERO, vec![]));
}

// Controllers spawn tasks while they run, and dropped futures may spawn, wake or kill others: a borrow held
// across would panic.
#[test]
fn tasks_are_spawned_woken_and_killed_while_one_is_polled_or_dropped() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    let other = spawn_sleeper(&clock, &log, "other", Delay(50));
    let (inner, log_p) = (clock.clone(), log.clone());
    let parent = clock.spawn("parent", async move {
        let (guard_clock, guard_log) = (inner.clone(), log_p.clone());
        let _guard = OnDrop(move || {
            guard_clock.kill(other);
            spawn_sleeper(&guard_clock, &guard_log, "heir", Delay(5));
        });
        for name in ["child 1", "child 2"] {
            spawn_sleeper(&inner, &log_p, name, Delay(10));
        }
        log_p.add(&inner, "parent");
        inner.sleep(Delay(1000)).await;
    });
    let inner = clock.clone();
    executor
        .run(async move {
            inner.sleep(Delay(20)).await;
            inner.kill(parent);
            inner.sleep(Delay(100)).await;
        })
        .unwrap();
    assert_eq!(
        log.names(),
        ["other", "parent", "child 1", "child 2", "child 1'", "child 2'", "heir", "heir'"]
    );
}

// Dropping the executor must drop the tasks, which hold clocks: otherwise each run of a comparison would leak
// the last one.
#[test]
fn dropping_the_executor_drops_its_tasks() {
    let dropped = Rc::new(Cell::new(0));
    let executor = Executor::new();
    let clock = executor.clock().clone();
    for _ in 0..3 {
        let (inner, dropped) = (clock.clone(), dropped.clone());
        clock.spawn("waits", async move {
            let (late, dropped_2) = (inner.clone(), dropped.clone());
            let _guard = OnDrop(move || {
                dropped.set(dropped.get() + 1);
                let dropped = dropped_2.clone();
                let guard = OnDrop(move || dropped.set(dropped.get() + 10));
                late.spawn("spawned by a drop", async move { drop(guard) });
            });
            inner.sleep(Delay::from_s(1)).await;
        });
    }
    let inner = clock.clone();
    executor.run(async move { inner.sleep(Delay(1)).await }).unwrap();
    drop(executor);
    assert_eq!(dropped.get(), 33);
}

// Tasks that outlive a run continue in the next, and main's result comes out however it ended.
#[test]
fn other_tasks_go_on_in_the_next_run() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    spawn_sleeper(&clock, &log, "long", Delay(100));
    assert_eq!(executor.run(async { "at once" }), Ok("at once"));
    assert_eq!(log.names(), ["long"]);
    let inner = clock.clone();
    assert_eq!(
        executor.run(async move {
            inner.sleep(Delay(500)).await;
            7
        }),
        Ok(7)
    );
    assert_eq!(log.entries(), [(0, "long".to_owned()), (100, "long'".to_owned())]);
}

// A dropped sleep leaves its timer; the spurious wake must not end another wait of that task.
#[test]
fn a_leaf_tolerates_being_polled_early() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let inner = clock.clone();
    executor
        .run(async move {
            let me = inner.current();
            for at in [10, 20, 30] {
                inner.wake_at(Time(at), me);
            }
            let semaphore = Semaphore::new(&inner, 0);
            let (releaser, credits) = (inner.clone(), semaphore.clone());
            inner.spawn("releases", async move {
                releaser.sleep(Delay(25)).await;
                credits.release(1);
            });
            inner.sleep(Delay(15)).await;
            assert_eq!(inner.now(), Time(15));
            let _permit = semaphore.acquire(1).await;
            assert_eq!(inner.now(), Time(25));
            inner.sleep(Delay(15)).await;
            assert_eq!(inner.now(), Time(40));
        })
        .unwrap();
}

/// Tasks with pseudo-random interactions, logged.
fn tangle() -> (Vec<(u64, String)>, byteway_clock::Counters) {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    let notify = Rc::new(Notify::new(&clock));
    let victims = Rc::new(RefCell::new(Vec::new()));
    for task in 0..20u64 {
        let (inner, log, notify, victims) = (clock.clone(), log.clone(), notify.clone(), victims.clone());
        clock.spawn("tangled", async move {
            let mut state = task;
            for step in 0..50 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                match (state >> 40) % 6 {
                    0 => notify.notify_one(),
                    1 => inner.yield_now().await,
                    2 => {
                        let child = spawn_sleeper(&inner, &log, "child", Delay((state >> 50) % 40));
                        victims.borrow_mut().push(child);
                    }
                    3 => {
                        let victim = victims.borrow_mut().pop();
                        victim.into_iter().for_each(|victim| inner.kill(victim));
                    }
                    _ => inner.sleep(Delay((state >> 50) % 20)).await,
                }
                log.add(&inner, format!("{task}.{step}"));
            }
        });
    }
    let inner = clock.clone();
    executor.run(async move { inner.sleep(Delay(100_000)).await }).expect("main ends");
    (log.entries(), clock.counters())
}

// The tool's promise: the same program gives the same events, at the same instants, with the same poll
// numbers, which place power cuts.
#[test]
fn two_runs_are_the_same() {
    let (first, second) = (tangle(), tangle());
    assert!(first.0.len() > 1000);
    assert_eq!(first, second);
}

// Benchmarks and power cuts count by these.
#[test]
fn counters_count_polls_and_timers() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let inner = clock.clone();
    executor
        .run(async move {
            assert_eq!((inner.counters().polls, inner.counters().timers), (1, 0));
            inner.sleep(Delay(5)).await;
            assert_eq!((inner.counters().polls, inner.counters().timers), (2, 1));
            inner.yield_now().await;
            assert_eq!((inner.counters().polls, inner.counters().timers), (3, 1));
            inner.wake_at(inner.now(), inner.current()); // at once: no timer
            inner.wake(inner.current()); // ready already
            inner.sleep(Delay(5)).await;
            assert_eq!((inner.counters().polls, inner.counters().timers), (5, 2));
        })
        .unwrap();
}

// Time that wraps would run backwards; an absurd wait from a file must end with a message, in release builds
// too.
#[test]
#[should_panic(expected = "simulated time ends after 213 days")]
fn time_does_not_wrap() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let _ = executor.run(async move {
        clock.sleep(Delay(1)).await;
        clock.sleep(Delay::from_s(u64::MAX)).await;
    });
}

// In a task, counters would depend on which of an instant's events came first, and nothing would ever stall.
#[test]
fn an_observer_sees_what_happened_before_its_instants() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let steps = Rc::new(Cell::new(0u32));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (count, log, eye) = (steps.clone(), seen.clone(), clock.clone());
    clock.observe(Time(10), move |at| {
        assert_eq!(eye.now(), at);
        log.borrow_mut().push((at.0, count.get()));
        (at.0 < 60).then_some(at + Delay::from_ps(10))
    });
    let (stepper, count) = (clock.clone(), steps.clone());
    let before = clock.counters();
    let stepped = executor.run(async move {
        // At 5, 10, 15 and 20; then nothing for a while.
        for _ in 0..4 {
            stepper.sleep(Delay::from_ps(5)).await;
            count.set(count.get() + 1);
        }
        stepper.sleep(Delay::from_ps(25)).await;
        assert_eq!(stepper.now(), Time(45), "time goes on where it was");
        count.set(count.get() + 1);
    });
    assert_eq!(stepped, Ok(()));
    assert_eq!(*seen.borrow(), [(10, 1), (20, 3), (30, 4), (40, 4)]);
    assert_eq!(clock.counters().timers - before.timers, 5, "it arms none");
    // A wait that is never satisfied is found, though the observer has not seen its last instant.
    let never = Notify::new(&clock);
    let stalled = executor.run(async move { never.notified().await }).expect_err("no task notifies");
    assert_eq!(stalled.at, Time(45));
    // Once stopped, or past its last instant, it sees no more.
    let sleeper = clock.clone();
    executor.run(async move { sleeper.sleep(Delay::from_ps(100)).await }).expect("it ends");
    assert_eq!(seen.borrow()[4..], [(50, 5), (60, 5)]);
    clock.observe(Time(0), |_| panic!("it was stopped"));
    clock.stop_observing();
    let sleeper = clock.clone();
    executor.run(async move { sleeper.sleep(Delay::from_ps(100)).await }).expect("it ends");
}

// A power cut must come at the very poll that it is numbered by, and leave nothing running.
#[test]
fn a_run_can_be_cut_before_any_poll() {
    let steps_until = |polls| {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let steps = Rc::new(Cell::new(0));
        let inner = steps.clone();
        let ran = executor.run_cut(
            async move {
                for _ in 0..4 {
                    inner.set(inner.get() + 1);
                    clock.sleep(Delay::from_ns(1)).await;
                }
                7
            },
            polls,
        );
        let ran = ran.expect("it does not stand still");
        drop(executor);
        assert_eq!(Rc::strong_count(&steps), 1, "the task is gone");
        (ran, steps.get())
    };
    assert_eq!(steps_until(0), (RunOutcome::Cut, 0));
    assert_eq!(steps_until(3), (RunOutcome::Cut, 3));
    assert_eq!(steps_until(4), (RunOutcome::Cut, 4));
    assert_eq!(steps_until(5), (RunOutcome::Ended(7), 4));
}

/// A handler that logs its calls as `name` and index.
fn handle_logging(clock: &Clock, log: &Log, name: &'static str) -> Handler {
    let (inner, log) = (clock.clone(), log.clone());
    clock.handle(move |index| log.add(&inner, format!("{name}{index}")))
}

// Calls and tasks share what is ready and the timers: a call that overtook a task would make a record differ from the task that it
// stands for.
#[test]
fn calls_and_tasks_have_one_order() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    let call = handle_logging(&clock, &log, "call ");
    spawn_sleeper(&clock, &log, "a", Delay(5));
    clock.wake(call.with(1));
    spawn_sleeper(&clock, &log, "b", Delay(5));
    clock.wake_at(Time(5), call.with(2));
    clock.wake_at(Time(3), call.with(3));
    executor.run(async move { clock.sleep(Delay(9)).await }).unwrap();
    let expected = [(0, "a"), (0, "call 1"), (0, "b"), (3, "call 3"), (5, "call 2"), (5, "a'"), (5, "b'")];
    assert_eq!(log.entries(), expected.map(|(at, name)| (at, name.to_owned())));
}

// A removed function's owner is gone. Its events must neither call, nor move time, nor reach the function that has its slot next.
#[test]
fn calls_of_a_removed_handler_have_no_effect() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    let before = handle_logging(&clock, &log, "before ");
    clock.wake(before.with(0));
    clock.wake_at(Time(1000), before.with(1));
    clock.remove(before);
    clock.remove(before);
    let after = handle_logging(&clock, &log, "after ");
    clock.wake_at(Time(10), after.with(2));
    let inner = clock.clone();
    executor.run(async move { inner.sleep(Delay(10)).await }).unwrap();
    assert_eq!(log.entries(), [(10, "after 2".to_owned())]);
    assert_eq!(
        executor.run(std::future::pending::<()>()).unwrap_err().at,
        Time(10),
        "a dead call has moved time"
    );
    // A slot can be used more often than its generations can be told apart.
    for _ in 0..10_000 {
        let handler = handle_logging(&clock, &log, "again ");
        assert_ne!(handler, before);
        clock.remove(handler);
    }
}

// A record waits as a task does: not at all for what has passed.
#[test]
fn a_call_waits_as_a_task_does() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    let step = Rc::new(Cell::new(0));
    let (inner, seen) = (clock.clone(), log.clone());
    let record = clock.handle(move |_| {
        loop {
            seen.add(&inner, format!("step {}", step.get()));
            step.set(step.get() + 1);
            let at = [Time(0), Time(7), Time(20), Time(50)].get(step.get() - 1).copied();
            if at.is_none_or(|at| !inner.has_passed(at)) {
                return;
            }
        }
    });
    clock.wake(record.with(0));
    clock.wake_at(Time(15), handle_logging(&clock, &log, "other ").with(0));
    let inner = clock.clone();
    executor.run(async move { inner.sleep(Delay(100)).await }).unwrap();
    let expected =
        [(0, "step 0"), (0, "step 1"), (7, "step 2"), (15, "other 0"), (20, "step 3"), (50, "step 4")];
    assert_eq!(log.entries(), expected.map(|(at, name)| (at, name.to_owned())));
    assert_eq!(
        clock.counters().timers,
        5,
        "one for each wait, those of the other call and of the end included"
    );
}

// Cuts are numbered by event, so that they strike records as they strike tasks.
#[test]
fn a_cut_counts_calls() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    let call = handle_logging(&clock, &log, "call ");
    (0..4).for_each(|index| clock.wake_at(Time(index), call.with(index as u32)));
    let outcome = executor.run_cut(std::future::pending::<()>(), 3);
    assert_eq!(outcome, Ok(RunOutcome::Cut));
    assert_eq!(log.names(), ["call 0", "call 1"], "the main task was polled between them");
}

// What a call leaves to a task is done before what was ready already: it stands where the call stood.
#[test]
fn a_call_hands_over_to_a_task_at_once() {
    let executor = Executor::new();
    let (clock, log) = (executor.clock().clone(), Log::default());
    let task = spawn_sleeper(&clock, &log, "task", Delay(1));
    let notify = Rc::new(Notify::new(&clock));
    let (inner, waits, seen) = (clock.clone(), notify.clone(), log.clone());
    let waiter = clock.spawn("waiter", async move {
        waits.notified().await;
        seen.add(&inner, "waiter");
    });
    let inner = clock.clone();
    let call = clock.handle(move |_| {
        notify.notify_one();
        inner.wake_first(task);
    });
    clock.wake_at(Time(1), call.with(0));
    let inner = clock.clone();
    executor.run(async move { inner.sleep(Delay(5)).await }).unwrap();
    assert_eq!(log.entries().iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(log.names(), ["task", "task'", "waiter"]);
    let _ = waiter;
}
