//! The cost and order of service of each shared resource, to the picosecond. Dropped waits: `drops.rs`.

use byteway_clock::random::Rng;
use byteway_clock::{
    Channel, Clock, Delay, Executor, Mailbox, Notify, Passage, Pipe, Rate, Semaphore, Service, SpanId, Spans,
    Stage, Station, Time,
};
use std::cell::RefCell;
use std::rc::Rc;

const NS: u64 = 1_000;

fn ns(ns: u64) -> Delay {
    Delay::from_ns(ns)
}

fn at_ns(ns: u64) -> Time {
    Time(ns * NS)
}

/// Runs `main` in virtual time.
fn run<T: 'static, F: Future<Output = T> + 'static>(main: impl FnOnce(Clock) -> F) -> T {
    let executor = Executor::new();
    let main = main(executor.clock().clone());
    executor.run(main).expect("main ends")
}

/// Events in order: nanosecond and name.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<(u64, &'static str)>>>);

impl Log {
    fn add(&self, clock: &Clock, what: &'static str) {
        let now = clock.now().0;
        assert_eq!(now % NS, 0, "{what} at {now} ps");
        self.0.borrow_mut().push((now / NS, what));
    }

    fn take(&self) -> Vec<(u64, &'static str)> {
        self.0.take()
    }
}

mod pipe {
    use super::*;

    // A link that is late by a picosecond a packet shifts every table.
    #[test]
    fn bytes_go_one_after_another_and_then_take_a_while() {
        run(|clock| async move {
            let pipe = Pipe::new(&clock, Rate::per_second(4_000_000_000), ns(100));
            let first = pipe.send(4608); // 1,152 ns at 4 GB/s
            assert_eq!(first, Passage { queued: ns(0), sent: Time(1_152_000), arrival: Time(1_252_000) });
            let second = pipe.send(16); // 4 ns, behind the first
            assert_eq!(second, Passage { queued: ns(1152), sent: at_ns(1156), arrival: at_ns(1256) });
            clock.sleep_until(at_ns(1000)).await;
            let third = pipe.send(1); // 250 ps
            assert_eq!(third, Passage { queued: ns(156), sent: Time(1_156_250), arrival: Time(1_256_250) });
            clock.sleep_until(at_ns(2000)).await;
            let fourth = pipe.transfer(40).await; // an idle pipe: nothing of the gap is caught up
            assert_eq!(fourth, Passage { queued: ns(0), sent: at_ns(2010), arrival: at_ns(2110) });
            assert_eq!(clock.now(), at_ns(2110));
            assert_eq!((pipe.bytes(), pipe.busy()), (4608 + 16 + 1 + 40, Delay(1_166_250)));
            assert_eq!((pipe.propagation(), pipe.rate().units_per_second()), (ns(100), 4_000_000_000));
        });
    }

    // A rate that is no whole number of picoseconds a byte: each passage is rounded separately, to the
    // nearest.
    #[test]
    fn a_passage_is_rounded_to_the_nearest_picosecond() {
        run(|clock| async move {
            let pipe = Pipe::new(&clock, Rate::per_second(3_000_000_000), Delay(1));
            assert_eq!(pipe.send(1).sent, Time(333));
            assert_eq!(pipe.send(2).sent, Time(333 + 667));
            assert_eq!(pipe.send(0), Passage { queued: Delay(1000), sent: Time(1000), arrival: Time(1001) });
            assert_eq!(pipe.send(4096).sent, Time(1000 + 1_365_333));
        });
    }

    // Transfers overlap only in their propagation.
    #[test]
    fn transfers_arrive_in_the_order_of_the_calls() {
        let log = Log::default();
        let log_m = log.clone();
        run(|clock| async move {
            let pipe = Rc::new(Pipe::new(&clock, Rate::per_second(1_000_000_000), ns(500)));
            for (name, bytes) in [("large", 1000), ("small", 1), ("middle", 100)] {
                let (inner, pipe, log) = (clock.clone(), pipe.clone(), log_m.clone());
                clock.spawn(name, async move {
                    pipe.transfer(bytes).await;
                    log.add(&inner, name);
                });
            }
            clock.sleep(ns(10_000)).await;
        });
        assert_eq!(log.take(), [(1500, "large"), (1501, "small"), (1601, "middle")]);
    }
}

mod station {
    use super::*;

    // A core that served two at once, or idled while a task waits, would be worth more or less than it is.
    #[test]
    fn k_servers_take_who_comes_first() {
        run(|clock| async move {
            let station = Station::new(&clock, 2);
            assert_eq!(station.reserve(ns(100)), Service { queued: ns(0), end: at_ns(100) });
            assert_eq!(station.reserve(ns(30)), Service { queued: ns(0), end: at_ns(30) });
            assert_eq!(station.reserve(ns(50)), Service { queued: ns(30), end: at_ns(80) });
            assert_eq!(station.reserve(ns(1)), Service { queued: ns(80), end: at_ns(81) });
            clock.sleep(ns(90)).await;
            assert_eq!(station.reserve(ns(10)), Service { queued: ns(0), end: at_ns(100) });
            assert_eq!(station.serve(ns(20)).await, Service { queued: ns(10), end: at_ns(120) });
            assert_eq!(clock.now(), at_ns(120));
            assert_eq!((station.servers(), station.served()), (2, 6));
            assert_eq!(Station::new(&clock, 0).servers(), 1);
        });
    }

    // A utilisation above 1, as from counting work that is reserved but not done, is a wrong report.
    #[test]
    fn utilisation_counts_what_was_done_between_two_instants() {
        run(|clock| async move {
            let station = Station::new(&clock, 2);
            station.reserve(ns(100));
            assert_eq!(station.busy(), ns(0));
            station.reserve(ns(300));
            station.reserve(ns(200)); // behind the first
            clock.sleep(ns(50)).await;
            assert_eq!(station.busy(), ns(100));
            assert_eq!(station.utilisation(Time::ZERO, Delay::ZERO), 1.0);
            let (since, busy_then) = (clock.now(), station.busy());
            assert_eq!(station.utilisation(since, busy_then), 0.0); // no time has passed
            clock.sleep(ns(500)).await;
            assert_eq!(station.busy(), ns(600));
            assert_eq!(station.utilisation(since, busy_then), 0.5); // 500 of 2 x 500
            assert_eq!(station.utilisation(Time::ZERO, Delay::ZERO), 600.0 / 1100.0);
        });
    }
}

mod mailbox {
    use super::*;

    // Posted writes stay in order: a doorbell must not overtake the entry that it announces.
    #[test]
    fn messages_arrive_when_due_and_in_the_order_in_which_they_were_sent() {
        let log = Log::default();
        let log_m = log.clone();
        run(|clock| async move {
            let mailbox = Mailbox::new(&clock);
            mailbox.send_at(at_ns(100), "entry");
            mailbox.send_at(at_ns(50), "doorbell"); // sooner, but behind
            mailbox.send_at(at_ns(100), "interrupt");
            mailbox.send_at(at_ns(300), "late");
            assert_eq!(mailbox.len(), 4);
            assert_eq!(mailbox.try_receive(), None);
            for _ in 0..3 {
                let message = mailbox.receive().await;
                log_m.add(&clock, message);
            }
            assert_eq!(mailbox.try_receive(), None);
            clock.sleep(ns(500)).await;
            assert_eq!((mailbox.try_receive(), mailbox.is_empty()), (Some("late"), true));
        });
        assert_eq!(log.take(), [(100, "entry"), (100, "doorbell"), (100, "interrupt")]);
    }

    // A waiting reader is woken at the arrival, neither at the sending nor never.
    #[test]
    fn a_waiting_reader_gets_each_message_at_its_arrival() {
        let log = Log::default();
        let log_m = log.clone();
        run(|clock| async move {
            let mailbox = Mailbox::new(&clock);
            let (inner, log, messages) = (clock.clone(), log_m.clone(), mailbox.clone());
            clock.spawn("reader", async move {
                loop {
                    let message = messages.receive().await;
                    log.add(&inner, message);
                }
            });
            clock.sleep(ns(10)).await;
            mailbox.send_at(at_ns(20), "a");
            mailbox.send_at(at_ns(30), "b");
            clock.sleep_until(at_ns(40)).await;
            mailbox.send_at(at_ns(40), "c"); // at once
            mailbox.send_at(at_ns(35), "d"); // in the past: at once
            clock.sleep_until(at_ns(50)).await;
            mailbox.send_at(at_ns(70), "e");
            clock.sleep_until(at_ns(100)).await;
        });
        assert_eq!(log.take(), [(20, "a"), (30, "b"), (40, "c"), (40, "d"), (70, "e")]);
    }

    // A link that goes down loses messages in flight. Messages sent after it is up again must not wait for
    // the arrival time of a lost one.
    #[test]
    fn what_is_sent_after_a_loss_is_not_late() {
        let log = Log::default();
        let log_m = log.clone();
        run(|clock| async move {
            let mailbox = Mailbox::new(&clock);
            mailbox.send_at(at_ns(1000), "lost");
            let (inner, log, messages) = (clock.clone(), log_m.clone(), mailbox.clone());
            clock.spawn("reader", async move {
                for _ in 0..2 {
                    let message = messages.receive().await;
                    log.add(&inner, message);
                }
            });
            clock.sleep(ns(10)).await;
            mailbox.clear();
            assert!(mailbox.is_empty());
            mailbox.send_at(at_ns(20), "sooner");
            clock.sleep_until(at_ns(500)).await;
            mailbox.send_at(at_ns(600), "again");
            clock.sleep_until(at_ns(2000)).await;
        });
        assert_eq!(log.take(), [(20, "sooner"), (600, "again")]);
    }

    // A quiet message costs no event, but a task that looks finds it, in order.
    #[test]
    fn a_quiet_message_waits_for_one_that_wakes() {
        let log = Log::default();
        let log_m = log.clone();
        run(|clock| async move {
            let mailbox = Mailbox::new(&clock);
            let (inner, log, messages) = (clock.clone(), log_m.clone(), mailbox.clone());
            clock.spawn("reader", async move {
                loop {
                    let message = messages.receive().await;
                    log.add(&inner, message);
                }
            });
            clock.sleep(ns(10)).await;
            mailbox.send_quietly_at(at_ns(20), "quiet 1");
            mailbox.send_at(at_ns(15), "wakes 1"); // behind the quiet one: at 20
            mailbox.send_quietly_at(at_ns(30), "quiet 2");
            mailbox.send_quietly_at(at_ns(50), "quiet 3");
            clock.sleep_until(at_ns(40)).await;
            assert_eq!(mailbox.try_receive(), Some("quiet 2"));
            assert_eq!(mailbox.try_receive(), None); // not there yet
            mailbox.send_at(at_ns(60), "wakes 2");
            clock.sleep_until(at_ns(100)).await;
            // A lost message no longer counts as one that wakes the reader.
            mailbox.send_at(at_ns(200), "lost");
            mailbox.clear();
            mailbox.send_quietly_at(at_ns(110), "quiet 4");
            clock.sleep_until(at_ns(300)).await;
            mailbox.send_at(at_ns(310), "wakes 3");
            clock.sleep_until(at_ns(400)).await;
        });
        let expected = [
            (20, "quiet 1"),
            (20, "wakes 1"),
            (60, "quiet 3"),
            (60, "wakes 2"),
            (200, "quiet 4"), // found by the timer of the lost one
            (310, "wakes 3"),
        ];
        assert_eq!(log.take(), expected);
    }

    // Messages may own things that look at the mailbox when they are dropped.
    #[test]
    fn a_lost_message_may_look_at_the_mailbox_as_it_is_dropped() {
        struct Nosy(Mailbox<Option<Nosy>>);
        impl Drop for Nosy {
            fn drop(&mut self) {
                assert!(self.0.is_empty());
            }
        }
        let executor = Executor::new();
        let mailbox = Mailbox::new(executor.clock());
        mailbox.send_at(at_ns(1), Some(Nosy(mailbox.clone())));
        mailbox.clear();
    }
}

mod semaphore {
    use super::*;

    /// A task that takes `credits` at `at`, holds them for `hold`, and logs when it got them.
    fn spawn_taker(
        clock: &Clock,
        tags: &Semaphore,
        log: &Log,
        (name, credits, at, hold): (&'static str, usize, u64, u64),
    ) {
        let (inner, tags, log) = (clock.clone(), tags.clone(), log.clone());
        clock.spawn(name, async move {
            inner.sleep_until(at_ns(at)).await;
            let permit = tags.acquire(credits).await;
            assert_eq!(permit.credits(), credits);
            log.add(&inner, name);
            inner.sleep(ns(hold)).await;
        });
    }

    // First come, first served, also for a large request: small ones must not starve it.
    #[test]
    fn one_that_wants_many_is_not_overtaken() {
        let log = Log::default();
        let log_m = log.clone();
        run(|clock| async move {
            let tags = Semaphore::new(&clock, 4);
            spawn_taker(&clock, &tags, &log_m, ("holds 2", 2, 0, 100));
            spawn_taker(&clock, &tags, &log_m, ("holds 1", 1, 0, 50));
            spawn_taker(&clock, &tags, &log_m, ("wants 4", 4, 10, 30));
            spawn_taker(&clock, &tags, &log_m, ("small 1", 1, 20, 10));
            spawn_taker(&clock, &tags, &log_m, ("small 2", 3, 20, 10));
            clock.sleep(ns(60)).await;
            assert_eq!((tags.available(), tags.waiting()), (2, 3));
            assert!(tags.try_acquire(1).is_none()); // nor may one jump the line
            clock.sleep(ns(1000)).await;
            assert_eq!((tags.available(), tags.waiting()), (4, 0));
            assert!(tags.try_acquire(5).is_none());
            assert_eq!(tags.try_acquire(4).map(|permit| permit.credits()), Some(4));
        });
        let expected = [(0, "holds 2"), (0, "holds 1"), (100, "wants 4"), (130, "small 1"), (130, "small 2")];
        assert_eq!(log.take(), expected);
    }

    // One release can satisfy several waiters.
    #[test]
    fn credits_are_passed_on_as_far_as_they_go() {
        let log = Log::default();
        let log_m = log.clone();
        run(|clock| async move {
            let tags = Semaphore::new(&clock, 0);
            for (name, credits) in [("a", 1), ("b", 2), ("nothing", 0), ("c", 3), ("d", 1)] {
                spawn_taker(&clock, &tags, &log_m, (name, credits, 0, 10_000));
            }
            clock.sleep(ns(10)).await;
            tags.release(5);
            clock.sleep(ns(10)).await;
            assert_eq!((tags.available(), tags.waiting()), (2, 2));
            tags.release(2);
            clock.sleep(ns(10)).await;
            assert_eq!((tags.available(), tags.waiting()), (0, 0));
        });
        assert_eq!(log.take(), [(10, "a"), (10, "b"), (10, "nothing"), (20, "c"), (20, "d")]);
    }

    // A forgotten permit's credits return only explicitly: a command slot that its completion frees.
    #[test]
    fn a_forgotten_permit_keeps_its_credits_out() {
        run(|clock| async move {
            let tags = Semaphore::new(&clock, 3);
            tags.acquire(2).await.forget();
            assert_eq!(tags.available(), 1);
            tags.release(2);
            assert_eq!(tags.available(), 3);
        });
    }
}

mod channel {
    use super::*;

    // A bounded queue that took more would hide back-pressure.
    #[test]
    fn a_bounded_channel_makes_senders_wait_in_order() {
        let log = Log::default();
        let log_m = log.clone();
        run(|clock| async move {
            let channel = Channel::bounded(&clock, 2);
            for name in ["a", "b", "c", "d", "e"] {
                let (inner, log, channel) = (clock.clone(), log_m.clone(), channel.clone());
                clock.spawn(name, async move {
                    channel.send(name).await;
                    log.add(&inner, name);
                });
            }
            clock.sleep(ns(10)).await;
            assert_eq!(channel.len(), 2);
            assert_eq!(channel.try_send("full"), Err("full"));
            assert_eq!(channel.receive().await, "a");
            assert_eq!(channel.len(), 2); // c's value moved up, so no sender can overtake it
            assert_eq!(channel.try_send("full"), Err("full"));
            clock.sleep(ns(10)).await;
            assert_eq!(channel.try_receive(), Some("b"));
            for expected in ["c", "d", "e"] {
                assert_eq!(channel.receive().await, expected);
            }
            assert_eq!((channel.try_receive(), channel.is_empty()), (None, true));
            assert_eq!(channel.try_send("fits"), Ok(()));
            clock.sleep(ns(10)).await;
        });
        assert_eq!(log.take(), [(0, "a"), (0, "b"), (10, "c"), (20, "d"), (20, "e")]);
    }

    // Receivers that wait are served in order, each with one value.
    #[test]
    fn receivers_wait_in_order() {
        let got = run(|clock| async move {
            let channel = Channel::unbounded(&clock);
            let got = Rc::new(RefCell::new(Vec::new()));
            for receiver in 0..3 {
                let (channel, got) = (channel.clone(), got.clone());
                clock.spawn("receiver", async move {
                    for _ in 0..2 {
                        let value: u32 = channel.receive().await;
                        got.borrow_mut().push((receiver, value));
                    }
                });
            }
            clock.sleep(ns(1)).await;
            for value in 0..4 {
                channel.send(value).await;
            }
            assert_eq!(channel.len(), 1); // three were handed over
            clock.sleep(ns(1)).await;
            channel.send(4).await;
            channel.send(5).await;
            clock.sleep(ns(1)).await;
            got.take()
        });
        assert_eq!(got, [(0, 0), (0, 3), (1, 1), (2, 2), (1, 4), (2, 5)]);
    }

    #[test]
    fn an_unbounded_channel_never_makes_a_sender_wait() {
        run(|clock| async move {
            let channel = Channel::unbounded(&clock);
            let before = clock.counters();
            for value in 0..10_000 {
                channel.send(value).await;
            }
            assert_eq!((channel.len(), clock.counters()), (10_000, before));
            for value in 0..10_000 {
                assert_eq!(channel.receive().await, value);
            }
            assert_eq!(clock.counters(), before);
            assert_eq!(Channel::bounded(&clock, 0).try_send(()), Ok(())); // at least one
        });
    }

    // A value that waits to be sent may look at the channel when it is dropped with its sender.
    #[test]
    fn a_value_may_look_at_the_channel_as_it_is_dropped() {
        struct Nosy(Option<Channel<Nosy>>);
        impl Drop for Nosy {
            fn drop(&mut self) {
                if let Some(channel) = self.0.take() {
                    assert_eq!(channel.len(), 1);
                    assert!(channel.try_send(Nosy(None)).is_err());
                    drop(channel.try_receive());
                }
            }
        }
        run(|clock| async move {
            let channel = Channel::bounded(&clock, 1);
            channel.send(Nosy(None)).await;
            let sender = channel.clone();
            let task = clock.spawn("sender", async move { sender.send(Nosy(Some(sender.clone()))).await });
            clock.sleep(ns(1)).await;
            clock.kill(task);
        });
    }
}

mod notify {
    use super::*;

    // A notification just before the wait is the classic lost wake.
    #[test]
    fn one_notification_is_kept_for_the_next() {
        run(|clock| async move {
            let notify = Rc::new(Notify::new(&clock));
            notify.notify_one();
            notify.notify_one(); // one is kept, not two
            notify.notified().await;
            assert_eq!(clock.now(), Time::ZERO);
            let (inner, notifier) = (clock.clone(), notify.clone());
            clock.spawn("notifies", async move {
                inner.sleep(ns(10)).await;
                notifier.notify_one();
            });
            notify.notified().await;
            assert_eq!(clock.now(), at_ns(10));
        });
    }

    // notify_one wakes the first waiter; notify_all wakes the present ones, and keeps nothing.
    #[test]
    fn one_or_all_are_woken() {
        let log = Log::default();
        let log_m = log.clone();
        run(|clock| async move {
            let notify = Rc::new(Notify::new(&clock));
            for name in ["a", "b", "c"] {
                let (inner, log, notify) = (clock.clone(), log_m.clone(), notify.clone());
                clock.spawn(name, async move {
                    notify.notified().await;
                    log.add(&inner, name);
                });
            }
            clock.sleep(ns(10)).await;
            assert_eq!(notify.waiting(), 3);
            notify.notify_one();
            clock.sleep(ns(10)).await;
            notify.notify_all();
            assert_eq!(notify.waiting(), 0);
            clock.sleep(ns(10)).await;
            notify.notify_all(); // no task waits
            let (inner, log, late) = (clock.clone(), log_m.clone(), notify.clone());
            clock.spawn("late", async move {
                late.notified().await;
                log.add(&inner, "late");
            });
            clock.sleep(ns(10)).await;
            notify.notify_one();
            clock.sleep(ns(10)).await;
        });
        assert_eq!(log.take(), [(10, "a"), (20, "b"), (20, "c"), (40, "late")]);
    }
}

mod spans {
    use super::*;

    // "Where the time goes" must add up, or no reader believes any of it.
    #[test]
    fn stages_sum_to_the_latency() {
        for seed in 0..100 {
            let mut random = Rng::new(seed).stream("spans");
            let spans = Spans::default();
            let mut now = Time(random.below(1000));
            let begin = now;
            let id = spans.open(now);
            for _ in 0..random.below(40) {
                now = now + Delay(random.below(1000));
                let stage = Stage::ALL[random.below(Stage::ALL.len() as u64) as usize];
                match random.below(3) {
                    0 => spans.charge_split(id, now, Delay(random.below(1500)), stage),
                    1 => spans.charge(id, Time(now.0.saturating_sub(5000)), stage), // before the last: nothing
                    _ => spans.charge(id, now, stage),
                }
            }
            let record = spans.close(id);
            assert_eq!(record.begin, begin);
            assert_eq!(
                record.stages.into_iter().sum::<Delay>(),
                record.last.since(record.begin),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn each_wait_goes_to_its_stage() {
        let spans = Spans::default();
        let id = spans.open(at_ns(10));
        spans.charge(id, at_ns(15), Stage::Doorbell);
        spans.charge_split(id, at_ns(45), ns(20), Stage::Flash);
        spans.charge_split(id, at_ns(50), ns(20), Stage::Link); // never more than passed
        spans.charge(id, at_ns(57), Stage::Flash);
        let record = spans.close(id);
        assert_eq!((record.begin, record.last), (at_ns(10), at_ns(57)));
        for stage in Stage::ALL {
            let expected = match stage {
                Stage::Doorbell => 5,
                Stage::Flash => 17,
                Stage::Queueing => 25,
                _ => 0,
            };
            assert_eq!(record.stage(stage), ns(expected), "{}", stage.name());
        }
    }

    // Entries are reused, so that a run's length costs no memory; an aborted command that still charges its
    // old id must not charge the I/O that has the entry now.
    #[test]
    fn a_closed_span_is_reused_but_not_by_its_old_id() {
        let spans = Spans::default();
        let old = spans.open(at_ns(0));
        spans.charge(old, at_ns(1), Stage::Host);
        assert_eq!(spans.close(old).stage(Stage::Host), ns(1));
        let new = spans.open(at_ns(10));
        assert_ne!(old, new);
        spans.charge(old, at_ns(20), Stage::Flash);
        assert_eq!(spans.close(old), Default::default());
        let third = spans.open(at_ns(10)); // an entry of its own: the second close freed nothing
        spans.charge(third, at_ns(12), Stage::Dram);
        spans.charge(new, at_ns(15), Stage::Link);
        let record = spans.close(new);
        assert_eq!((record.begin, record.stage(Stage::Link), record.last), (at_ns(10), ns(5), at_ns(15)));
        assert_eq!(spans.close(third).stage(Stage::Dram), ns(2));
    }

    // Most I/Os may be untracked: charging them does nothing, and does not panic.
    #[test]
    fn charges_without_a_span_are_ignored() {
        let spans = Spans::default();
        spans.charge(SpanId::NONE, at_ns(5), Stage::Host);
        assert_eq!(spans.close(SpanId::NONE), Default::default());
    }
}

// A reader that waits for a quiet value must be woken by it, even if it was sent before; otherwise a device
// that waits for a free slot of a completion queue would stall.
#[test]
fn quiet_messages_wake_a_reader_that_asks_for_it() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let mailbox = Mailbox::new(&clock);
    let (reader, seen) = (mailbox.clone(), Rc::new(RefCell::new(Vec::new())));
    let (inner, log) = (clock.clone(), seen.clone());
    clock.spawn("reader", async move {
        loop {
            let value = reader.receive().await;
            log.borrow_mut().push((inner.now().0, value));
        }
    });
    let main = clock.clone();
    executor
        .run(async move {
            mailbox.send_quietly_at(Time(10), 'a');
            main.sleep(Delay(20)).await;
            mailbox.set_wake_on_quiet(true); // it came long ago
            mailbox.send_quietly_at(Time(30), 'b');
            main.sleep(Delay(20)).await;
            mailbox.set_wake_on_quiet(false);
            mailbox.send_quietly_at(Time(50), 'c');
            mailbox.send_at(Time(60), 'd');
            main.sleep(Delay(40)).await;
        })
        .unwrap();
    assert_eq!(*seen.borrow(), [(20, 'a'), (30, 'b'), (60, 'c'), (60, 'd')]);
}
