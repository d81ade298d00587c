//! The real runner: wall-clock time, no time, other threads; and the same tasks under both runners.
//!
//! Lower bounds are exact, upper ones generous: a busy machine may be late, but the runner must not be early.
#![allow(
    clippy::disallowed_methods,
    reason = "these tests hold the real runner against the wall clock and threads"
)]

use byteway_clock::{
    Channel, Clock, Delay, Executor, Inbox, Mailbox, Notify, Pipe, Rate, Semaphore, Station, Time, Timing,
};
use std::cell::{Cell, RefCell};
use std::io::{Read as _, Write as _};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

type Log = Rc<RefCell<Vec<String>>>;

/// Waits until `ready` returns true, checking whenever the task is woken.
async fn until(ready: impl Fn() -> bool) {
    std::future::poll_fn(|_| if ready() { Poll::Ready(()) } else { Poll::Pending }).await;
}

// A served drive stalls if it owes an answer that no task here can produce, even though descriptors are
// waited for and doorbells are polled; it does not if a timer, or an outside event, may help.
#[test]
fn a_duty_that_nothing_will_fulfil_is_found() {
    for looks_without_a_rest in [false, true] {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let looking = clock.clone();
        clock.spawn_watcher("watcher", async move {
            loop {
                match looks_without_a_rest {
                    true => looking.yield_now().await,
                    false => looking.timer(Delay::from_ms(1)).await,
                }
            }
        });
        let owes = Rc::new(Cell::new(false));
        let comes = Rc::new(Cell::new(false));
        let (duty, from_a_thread) = (owes.clone(), comes.clone());
        clock.set_duty(move || duty.get() && !from_a_thread.get());
        let reached = Rc::new(Cell::new(0));
        let step = reached.clone();
        let stalled = executor.run_real(Timing::None, None, async move {
            let (mine, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            let mine = Rc::new(std::os::fd::OwnedFd::from(mine));
            clock.timer(Delay::from_ms(5)).await;
            step.set(1);
            owes.set(true);
            clock.timer(Delay::from_ms(5)).await; // a timer is something that comes
            step.set(2);
            comes.set(true);
            let peer = thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                theirs.write_all(b"x").unwrap();
                theirs
            });
            clock.readable(&mine).await;
            step.set(3);
            owes.set(false);
            comes.set(false);
            let mut theirs = peer.join().unwrap();
            rustix::io::read(&*mine, &mut [0; 8]).unwrap();
            let late = thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                theirs.write_all(b"x").unwrap();
                theirs
            });
            clock.readable(&mine).await; // nothing is owed
            step.set(4);
            let _theirs = late.join().unwrap();
            rustix::io::read(&*mine, &mut [0; 8]).unwrap();
            owes.set(true);
            clock.readable(&mine).await;
        });
        let stalled = stalled.unwrap_err();
        assert_eq!(reached.get(), 4);
        assert_eq!(stalled.waiting, [("watcher", 1), ("main", 1)]);
    }
}

// A modelled latency that ends early would be a drive faster than its model.
#[test]
fn modelled_waits_take_at_least_as_long() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let start = Instant::now();
    let passed = executor
        .run_real(Timing::Model, None, async move {
            let begin = clock.now();
            for delay in [Delay::from_us(20), Delay::from_us(400), Delay::from_ms(15)] {
                let before = clock.now();
                clock.sleep(delay).await;
                assert!(clock.now().since(before) >= delay);
            }
            let pipe = Pipe::new(&clock, Rate::per_second(1_000_000), Delay::from_ms(2));
            pipe.transfer(3000).await; // 3 ms and 2 ms
            let station = Station::new(&clock, 1);
            station.reserve(Delay::from_ms(2));
            station.serve(Delay::from_ms(2)).await;
            clock.now().since(begin)
        })
        .unwrap();
    assert!(passed >= Delay::from_us(24_420), "{passed}");
    assert!(start.elapsed() >= Duration::from_micros(24_420));
    assert!(executor.clock().now() <= Time(start.elapsed().as_nanos() as u64 * 1000));
}

// Waits that ran one after another instead of in parallel would turn a drive of 64 dies into one of a single
// die.
#[test]
fn modelled_waits_pass_together() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let start = Instant::now();
    executor
        .run_real(Timing::Model, None, async move {
            let left = Rc::new(Cell::new(200));
            let done = Rc::new(Notify::new(&clock));
            for _ in 0..200 {
                let (inner, left, done) = (clock.clone(), left.clone(), done.clone());
                clock.spawn("sleeper", async move {
                    inner.sleep(Delay::from_ms(50)).await;
                    left.set(left.get() - 1);
                    if left.get() == 0 {
                        done.notify_one();
                    }
                });
            }
            done.notified().await;
        })
        .unwrap();
    assert!(
        (Duration::from_millis(50)..Duration::from_secs(5)).contains(&start.elapsed()),
        "{:?}",
        start.elapsed()
    );
}

// As fast as the machine allows, yet a task that never has to wait must yield after 64 steps: otherwise one
// command stream starves the doorbells of all others.
#[test]
fn waits_of_no_time_give_way_after_64_steps() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let steps = Rc::new(Cell::new(0));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (inner, count) = (clock.clone(), steps.clone());
    clock.spawn("busy", async move {
        let station = Station::new(&inner, 1);
        let pipe = Pipe::new(&inner, Rate::per_second(1), Delay::from_s(10));
        for step in 0.. {
            match step % 3 {
                0 => inner.sleep(Delay::from_s(1000)).await,
                1 => _ = station.serve(Delay::from_s(1000)).await,
                _ => _ = pipe.transfer(1_000).await,
            }
            count.set(step + 1);
        }
    });
    // The same with one kind of wait alone.
    let (inner, served) = (clock.clone(), Rc::new(Cell::new(0)));
    let count = served.clone();
    clock.spawn("busy station", async move {
        let station = Station::new(&inner, 1);
        loop {
            station.serve(Delay::from_s(1000)).await;
            count.set(count.get() + 1);
        }
    });
    let start = Instant::now();
    let (inner, seen_m, steps_m) = (clock.clone(), seen.clone(), steps.clone());
    executor
        .run_real(Timing::None, None, async move {
            for _ in 0..10 {
                seen_m.borrow_mut().push((steps_m.get(), served.get()));
                inner.yield_now().await;
            }
        })
        .unwrap();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    // The 64th wait yields; after it 63 more and the next.
    let expected: Vec<_> = (0..10).map(|turn| (63 + 64 * turn, 63 + 64 * turn)).collect();
    assert_eq!(*seen.borrow(), expected);
}

// A time-out is not modelled: if it took no time, every command would time out at once.
#[test]
fn timers_of_the_protocol_are_real_under_every_timing() {
    for timing in [Timing::Model, Timing::None] {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let start = Instant::now();
        executor.run_real(timing, None, async move { clock.timer(Delay::from_ms(20)).await }).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(20), "{timing:?}");
    }
}

// A posted write with its modelled delay, where everything else takes no time, would be the slowest part of
// all.
#[test]
fn posted_messages_arrive_at_once_without_modelled_time() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let start = Instant::now();
    let got = executor
        .run_real(Timing::None, None, async move {
            let hour = Delay::from_s(3600);
            let mailbox = Mailbox::new(&clock);
            mailbox.send_at(clock.now() + hour, 1);
            let mut got = vec![mailbox.receive().await];
            // Also for a reader that waits already.
            let (inner, sender) = (clock.clone(), mailbox.clone());
            clock.spawn("sender", async move {
                sender.send_at(inner.now() + hour + hour, 2);
                sender.send_at(inner.now() + hour, 3);
            });
            got.push(mailbox.receive().await);
            got.push(mailbox.receive().await);
            got
        })
        .unwrap();
    assert_eq!(got, [1, 2, 3]);
    assert!(start.elapsed() < Duration::from_secs(60));
}

// Sockets and helper threads reach the tasks only through the inbox; a lost wake there hangs the drive.
#[test]
fn an_inbox_wakes_a_task_from_another_thread() {
    for timing in [Timing::Model, Timing::None] {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let inbox = Inbox::new().unwrap();
        let rung = Arc::new(AtomicBool::new(false));
        let (outside, bell) = (inbox.clone(), rung.clone());
        executor
            .run_real(timing, Some(&inbox), async move {
                let me = clock.current();
                let thread = thread::spawn(move || {
                    thread::sleep(Duration::from_millis(10)); // the runner has parked
                    bell.store(true, Ordering::SeqCst);
                    outside.wake(me);
                });
                until(|| rung.load(Ordering::SeqCst)).await;
                thread.join().unwrap();
            })
            .unwrap();
    }
}

// A wake after the runner has checked the inbox and before it sleeps. Here it comes from the task itself, so
// that it always falls there.
#[test]
fn an_inbox_that_is_written_to_just_before_the_pause_prevents_it() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let inbox = Inbox::new().unwrap();
    let own = inbox.clone();
    executor
        .run_real(Timing::Model, Some(&inbox), async move {
            for _ in 0..1000 {
                let rung = Cell::new(false);
                until(|| {
                    let again = rung.replace(true);
                    own.wake(clock.current());
                    again
                })
                .await;
            }
        })
        .unwrap();
}

// The same with a distant timer armed: the inbox must end that sleep, too.
#[test]
fn an_inbox_ends_the_pause_for_a_timer() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let inbox = Inbox::new().unwrap();
    let rung = Arc::new(AtomicBool::new(false));
    let (outside, bell) = (inbox.clone(), rung.clone());
    let start = Instant::now();
    executor
        .run_real(Timing::Model, Some(&inbox), async move {
            let (inner, me) = (clock.clone(), clock.current());
            clock.spawn("far", async move { inner.sleep(Delay::from_s(1000)).await });
            let thread = thread::spawn(move || {
                thread::sleep(Duration::from_millis(10));
                bell.store(true, Ordering::SeqCst);
                outside.wake(me);
            });
            until(|| rung.load(Ordering::SeqCst)).await;
            thread.join().unwrap();
        })
        .unwrap();
    assert!(start.elapsed() < Duration::from_secs(100));
}

// Many threads, many wakes, at every moment of the runner's loop, with tasks that compete for a semaphore.
#[test]
fn no_wake_up_from_a_thread_is_lost() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 2000;
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let inbox = Inbox::new().unwrap();
    let outside = inbox.clone();
    let served = executor
        .run_real(Timing::None, Some(&inbox), async move {
            let served = Rc::new(Cell::new(0));
            let done = Rc::new(Notify::new(&clock));
            let tags = Semaphore::new(&clock, 2);
            for _ in 0..THREADS {
                let (asked, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
                let (inner, tags, served, done) = (clock.clone(), tags.clone(), served.clone(), done.clone());
                let (asked_task, answered_task) = (asked.clone(), answered.clone());
                let task = clock.spawn("serves a thread", async move {
                    for round in 1..=ROUNDS {
                        until(|| asked_task.load(Ordering::SeqCst) >= round).await;
                        let _permit = tags.acquire(1).await;
                        inner.sleep(Delay::from_s(1)).await;
                        served.set(served.get() + 1);
                        answered_task.store(round, Ordering::SeqCst);
                    }
                    done.notify_one();
                });
                let outside = outside.clone();
                thread::spawn(move || {
                    for round in 1..=ROUNDS {
                        asked.store(round, Ordering::SeqCst);
                        outside.wake(task);
                        while answered.load(Ordering::SeqCst) < round {
                            thread::yield_now();
                        }
                    }
                    outside.wake(task); // it has ended: nothing
                });
            }
            while served.get() < THREADS * ROUNDS {
                done.notified().await;
            }
            served.get()
        })
        .unwrap();
    assert_eq!(served, THREADS * ROUNDS);
}

// Without an inbox no wake can come: report a stall instead of sleeping indefinitely. Afterwards timing is as
// before.
#[test]
fn a_standstill_is_reported_and_leaves_the_timing_as_it_was() {
    for timing in [Timing::Model, Timing::None] {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let never = Notify::new(&clock);
        let inner = clock.clone();
        let stalled = executor
            .run_real(timing, None, async move {
                inner.sleep(Delay::from_us(10)).await;
                never.notified().await;
            })
            .unwrap_err();
        assert_eq!(stalled.waiting, [("main", 1)]);
        assert!(!clock.is_immediate());
        let before = clock.now();
        let inner = clock.clone();
        executor.run(async move { inner.sleep(Delay(1000)).await }).unwrap();
        assert_eq!(clock.now().since(before), Delay(1000), "{timing:?}");
    }
}

// Tasks that continue under the other runner must not wait for events of the first one.
#[test]
fn tasks_go_on_under_the_other_runner() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let steps = Rc::new(Cell::new(0));
    let (inner, count) = (clock.clone(), steps.clone());
    clock.spawn("steps", async move {
        loop {
            inner.sleep(Delay::from_s(1)).await;
            count.set(count.get() + 1);
        }
    });
    executor.run_real(Timing::None, None, async {}).unwrap();
    assert_eq!(steps.get(), 63); // it has just given way
    let inner = clock.clone();
    executor.run(async move { inner.sleep(Delay::from_s(100)).await }).unwrap();
    assert!((162..=164).contains(&steps.get()), "{}", steps.get());
    let inner = clock.clone();
    executor.run_real(Timing::Model, None, async move { inner.sleep(Delay::from_ms(1)).await }).unwrap();
    assert!(clock.now() >= Time(100_001_000_000_000), "{}", clock.now());
}

// A lost wake at a socket is a host that waits indefinitely; a spurious one costs only time.
#[test]
fn a_task_waits_for_a_socket_beside_timers_and_busy_tasks() {
    for (timing, busy) in [(Timing::Model, false), (Timing::None, false), (Timing::None, true)] {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let near = Rc::new(std::os::fd::OwnedFd::from(near));
        let inner = clock.clone();
        clock.spawn("other", async move {
            loop {
                if busy {
                    inner.yield_now().await;
                } else {
                    inner.timer(Delay::from_ms(3)).await;
                }
            }
        });
        let echo = thread::spawn(move || {
            let mut byte = [0];
            for _ in 0..100 {
                (&far).read_exact(&mut byte).unwrap();
                (&far).write_all(&[byte[0] + 1]).unwrap();
            }
        });
        executor
            .run_real(timing, None, async move {
                for sent in 0..100u8 {
                    clock.writable(&near).await;
                    rustix::io::write(&near, &[sent]).unwrap();
                    clock.readable(&near).await;
                    let mut byte = [0];
                    assert_eq!(rustix::io::read(&near, &mut byte).unwrap(), 1);
                    assert_eq!(byte, [sent + 1]);
                }
                echo.join().unwrap();
                clock.readable(&near).await; // the other end has gone
                drop(clock.readable(&near));
            })
            .unwrap();
    }
}

// A runner that served each timer at the time it got round to it would add its delays to each of the dozen
// waits of a command, and the drive would be slower than its model.
#[test]
fn timers_that_are_served_late_are_served_at_their_own_instants() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    executor
        .run_real(Timing::Model, None, async move {
            let begin = clock.now();
            for step in 1..=20u64 {
                clock.sleep(Delay::from_us(10)).await;
                assert_eq!(clock.now().since(begin), Delay::from_us(10) * step);
                thread::sleep(Duration::from_micros(100)); // the machine is busy elsewhere
            }
            let pace = clock.pace();
            assert!(pace.waits >= 20 && pace.late >= 18, "{pace:?}");
            assert!(pace.worst >= Delay::from_us(1000) && pace.slipped == Delay::ZERO, "{pace:?}");
            thread::sleep(Duration::from_millis(120));
            clock.sleep(Delay::from_us(10)).await;
            clock.yield_now().await;
            let slipped = clock.pace().slipped;
            assert!((Delay::from_ms(100)..Delay::from_s(100)).contains(&slipped), "{slipped}: it gave up");
        })
        .unwrap();
}

/// Runs `program` under both runners. Returns their logs.
fn under_each_runner<F: Future<Output = ()> + 'static>(
    timings: &[Timing],
    program: impl Fn(Clock, Log) -> F,
) -> Vec<Vec<String>> {
    let run = |timing: Option<Timing>| {
        let executor = Executor::new();
        let log = Log::default();
        let main = program(executor.clock().clone(), log.clone());
        match timing {
            None => executor.run(main).expect("main ends"),
            Some(timing) => executor.run_real(timing, None, main).expect("main ends"),
        }
        log.take()
    };
    std::iter::once(None).chain(timings.iter().copied().map(Some)).map(run).collect()
}

// One code base, two runners: where instants are apart, modelled order is real order.
#[test]
fn instants_that_are_apart_come_in_the_same_order_under_both_runners() {
    let logs = under_each_runner(&[Timing::Model], |clock, log| async move {
        let die = Rc::new(Station::new(&clock, 1));
        let pipe = Rc::new(Pipe::new(&clock, Rate::per_second(1_000_000), Delay::ZERO));
        let mailbox = Mailbox::new(&clock);
        for (task, at_ms, work_ms) in [(0u64, 0, 60), (1, 13, 60), (2, 28, 20), (3, 33, 20)] {
            let (inner, log, die, pipe, mailbox) =
                (clock.clone(), log.clone(), die.clone(), pipe.clone(), mailbox.clone());
            clock.spawn("command", async move {
                inner.sleep(Delay::from_ms(at_ms)).await;
                log.borrow_mut().push(format!("{task} wants the die"));
                die.serve(Delay::from_ms(work_ms)).await;
                log.borrow_mut().push(format!("{task} is sensed"));
                pipe.transfer(4_000).await;
                mailbox.send_at(inner.now() + Delay::from_ms(1), task);
            });
        }
        for _ in 0..4 {
            let task = mailbox.receive().await;
            log.borrow_mut().push(format!("{task} is complete"));
        }
    });
    assert_eq!(logs[0].len(), 12);
    assert_eq!(logs[0], logs[1]);
}

// Where order follows from waits between tasks, it is the same even if nothing takes time.
#[test]
fn causes_come_before_effects_under_every_timing() {
    let logs = under_each_runner(&[Timing::Model, Timing::None], |clock, log| async move {
        let (requests, answers) = (Channel::bounded(&clock, 2), Channel::bounded(&clock, 1));
        let core = Rc::new(Station::new(&clock, 1));
        let (inner, inbound, outbound, log_d) =
            (clock.clone(), requests.clone(), answers.clone(), log.clone());
        clock.spawn("device", async move {
            loop {
                let request: u32 = inbound.receive().await;
                core.serve(Delay::from_us(3)).await;
                log_d.borrow_mut().push(format!("serves {request}"));
                outbound.send(request * 10).await;
                inner.yield_now().await;
            }
        });
        let (inner, log_h) = (clock.clone(), log.clone());
        clock.spawn("host", async move {
            for request in 0..200 {
                inner.sleep(Delay::from_us(1)).await;
                requests.send(request).await;
            }
            log_h.borrow_mut().push("all sent".into());
        });
        for _ in 0..200 {
            let answer = answers.receive().await;
            log.borrow_mut().push(format!("gets {answer}"));
        }
    });
    // Each side's own order: how the two interleave is not determined.
    let side = |log: &[String], prefix| {
        log.iter().filter(|line| line.starts_with(prefix)).cloned().collect::<Vec<_>>()
    };
    for log in &logs[1..] {
        for prefix in ["serves", "gets"] {
            assert_eq!(side(log, prefix), side(&logs[0], prefix));
        }
        let place = |line: &str| log.iter().position(|other| other == line);
        (0..200).for_each(|i| assert!(place(&format!("serves {i}")) < place(&format!("gets {}", i * 10))));
    }
}

// Under either runner nothing runs after main has ended: the rest is left to the next run.
#[test]
fn nothing_runs_after_main_has_ended() {
    let logs = under_each_runner(&[Timing::Model, Timing::None], |clock, log| async move {
        let main = clock.current();
        let notify = Rc::new(Notify::new(&clock));
        let (inner, notifier) = (clock.clone(), notify.clone());
        let log_l = log.clone();
        clock.spawn("late", async move {
            notify.notified().await;
            log_l.borrow_mut().push("late".into());
        });
        let go = Rc::new(Cell::new(false));
        let went = go.clone();
        clock.spawn("wakes main, then the other", async move {
            went.set(true);
            inner.wake(main);
            notifier.notify_one();
        });
        until(|| go.get()).await;
        log.borrow_mut().push("main".into());
    });
    assert!(logs.iter().all(|log| *log == ["main"]), "{logs:?}");
}
