//! Every wait in every resource, dropped at every stage by killing the task that waits.
//!
//! A power cut and a reset kill tasks wherever they are. A waiter that took its place or its grant along
//! would leave a die locked, a credit lost or a neighbour asleep indefinitely. First each stage by name, then
//! swarms of tasks that kill each other, from seeds that a failure prints, then everything killed at once at
//! each step of such a swarm.
//!
//! Verified: nothing is lost or granted twice, survivors get their grants, order is kept. Not verified:
//! [`Pipe`] and [`Station`] return nothing by design; here only that killing their users harms no other task.

use byteway_clock::random::{Rng, Stream};
use byteway_clock::{
    Channel, Clock, Delay, Executor, Mailbox, Notify, Pipe, Rate, Semaphore, Station, TaskId, Time,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Runs `main` in virtual time.
fn run<T: 'static, F: Future<Output = T> + 'static>(main: impl FnOnce(Clock) -> F) -> T {
    let executor = Executor::new();
    let main = main(executor.clock().clone());
    executor.run(main).expect("main ends")
}

mod stages {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Moment {
        BeforeTheFirstPoll,
        Queued,
        /// Granted, but not polled since.
        Granted,
        /// Polled, and holding the grant.
        Holding,
    }

    const MOMENTS: [Moment; 4] =
        [Moment::BeforeTheFirstPoll, Moment::Queued, Moment::Granted, Moment::Holding];

    /// A victim and behind it an heir wait for the same resource; `grant` gives it to the first of them.
    async fn kill_at(
        moment: Moment,
        clock: &Clock,
        victim: impl Future<Output = ()> + 'static,
        heir: impl Future<Output = ()> + 'static,
        grant: impl FnOnce(),
    ) {
        let victim = clock.spawn("victim", victim);
        if moment == Moment::BeforeTheFirstPoll {
            clock.kill(victim);
        }
        clock.spawn("heir", heir);
        clock.sleep(Delay(10)).await;
        if moment == Moment::Queued {
            clock.kill(victim);
        }
        grant();
        if moment == Moment::Granted {
            clock.kill(victim);
        }
        clock.sleep(Delay(10)).await;
        if moment == Moment::Holding {
            clock.kill(victim);
        }
        clock.sleep(Delay(10)).await;
    }

    #[test]
    fn credits() {
        for moment in MOMENTS {
            run(|clock| async move {
                let tags = Semaphore::new(&clock, 3);
                let held = tags.acquire(3).await;
                let got = Rc::new(Cell::new(0));
                let (tags_v, tags_h, got_h, clock_v) =
                    (tags.clone(), tags.clone(), got.clone(), clock.clone());
                let victim = async move {
                    let _permit = tags_v.acquire(2).await;
                    clock_v.sleep(Delay(1000)).await;
                };
                let heir = async move { got_h.set(tags_h.acquire(3).await.credits()) };
                kill_at(moment, &clock, victim, heir, || drop(held)).await;
                assert_eq!((got.get(), tags.available(), tags.waiting()), (3, 3, 0), "{moment:?}");
            });
        }
    }

    // A waiter for many credits blocks those behind it; when it goes, free credits must reach them without a
    // release.
    #[test]
    fn credits_for_those_behind_one_that_wanted_too_many() {
        run(|clock| async move {
            let tags = Semaphore::new(&clock, 3);
            let held = tags.acquire(1).await;
            let got = Rc::new(Cell::new(0));
            let wanting = tags.clone();
            let greedy = clock.spawn("greedy", async move { drop(wanting.acquire(3).await) });
            for _ in 0..3 {
                let (tags, got, inner) = (tags.clone(), got.clone(), clock.clone());
                clock.spawn("modest", async move {
                    let _permit = tags.acquire(1).await;
                    got.set(got.get() + 1);
                    inner.sleep(Delay(100)).await;
                });
            }
            clock.sleep(Delay(10)).await;
            assert_eq!((got.get(), tags.available()), (0, 2));
            clock.kill(greedy);
            clock.yield_now().await;
            assert_eq!((got.get(), tags.available(), tags.waiting()), (2, 0, 1));
            drop(held);
            clock.sleep(Delay(1000)).await;
            assert_eq!((got.get(), tags.available(), tags.waiting()), (3, 3, 0));
        });
    }

    #[test]
    fn values_to_receive() {
        for moment in MOMENTS {
            run(|clock| async move {
                let channel = Channel::bounded(&clock, 1);
                let got = Rc::new(RefCell::new(Vec::new()));
                let (channel_v, channel_h, got_v, got_h) =
                    (channel.clone(), channel.clone(), got.clone(), got.clone());
                let victim = async move {
                    let value = channel_v.receive().await;
                    got_v.borrow_mut().push(("victim", value));
                };
                let heir = async move {
                    let value = channel_h.receive().await;
                    got_h.borrow_mut().push(("heir", value));
                };
                kill_at(moment, &clock, victim, heir, || channel.try_send(1).unwrap()).await;
                channel.send(2).await;
                clock.sleep(Delay(10)).await;
                match moment {
                    Moment::Holding => assert_eq!(*got.borrow(), [("victim", 1), ("heir", 2)]),
                    _ => {
                        assert_eq!(*got.borrow(), [("heir", 1)], "{moment:?}");
                        assert_eq!(channel.try_receive(), Some(2));
                    }
                }
            });
        }
    }

    #[test]
    fn room_to_send() {
        for moment in MOMENTS {
            run(|clock| async move {
                let channel = Channel::bounded(&clock, 1);
                channel.send("first").await;
                let (channel_v, channel_h) = (channel.clone(), channel.clone());
                let victim = async move { channel_v.send("victim").await };
                let heir = async move { channel_h.send("heir").await };
                let taker = channel.clone();
                kill_at(moment, &clock, victim, heir, || assert_eq!(taker.try_receive(), Some("first")))
                    .await;
                let mut rest = Vec::new();
                while let Some(value) = channel.try_receive() {
                    rest.push(value);
                    clock.yield_now().await;
                }
                // Once there was space its value was in, though it was not yet polled.
                let expected: &[_] = match moment {
                    Moment::BeforeTheFirstPoll | Moment::Queued => &["heir"],
                    Moment::Granted | Moment::Holding => &["victim", "heir"],
                };
                assert_eq!(rest, expected, "{moment:?}");
            });
        }
    }

    // Returned values must come out in order, and count against the capacity.
    #[test]
    fn values_come_back_in_order_and_count_against_the_capacity() {
        for backwards in [false, true] {
            run(|clock| async move {
                let channel = Channel::bounded(&clock, 2);
                let mut receivers: Vec<_> = (0..3)
                    .map(|_| {
                        let channel = channel.clone();
                        clock.spawn("receiver", async move { _ = channel.receive().await })
                    })
                    .collect();
                clock.sleep(Delay(1)).await;
                (1..=5).for_each(|value| channel.try_send(value).unwrap()); // three handed over, two in the queue
                if backwards {
                    receivers.reverse();
                }
                receivers.into_iter().for_each(|receiver| clock.kill(receiver));
                assert_eq!(channel.len(), 5);
                let sender = channel.clone();
                clock.spawn("sender", async move { sender.send(6).await });
                clock.sleep(Delay(1)).await;
                for (value, left) in [(1, 4), (2, 3), (3, 2), (4, 2), (5, 1), (6, 0)] {
                    assert_eq!(channel.try_receive(), Some(value));
                    assert_eq!(channel.len(), left);
                }
            });
        }
    }

    #[test]
    fn notifications() {
        for moment in MOMENTS {
            run(|clock| async move {
                let notify = Rc::new(Notify::new(&clock));
                let got = Rc::new(RefCell::new(Vec::new()));
                let (notify_v, notify_h, got_v, got_h) =
                    (notify.clone(), notify.clone(), got.clone(), got.clone());
                let victim = async move {
                    notify_v.notified().await;
                    got_v.borrow_mut().push("victim");
                };
                let heir = async move {
                    notify_h.notified().await;
                    got_h.borrow_mut().push("heir");
                };
                kill_at(moment, &clock, victim, heir, || notify.notify_one()).await;
                let expected = if moment == Moment::Holding { "victim" } else { "heir" };
                assert_eq!(*got.borrow(), [expected], "{moment:?}");
            });
        }
    }

    // Without a second waiter the notification is kept; but notify_all has reached all, so it is not kept.
    #[test]
    fn a_notification_not_yet_seen_is_kept_if_it_was_for_one() {
        for all in [false, true] {
            run(|clock| async move {
                let notify = Rc::new(Notify::new(&clock));
                let waiter = notify.clone();
                let victim = clock.spawn("victim", async move { waiter.notified().await });
                clock.sleep(Delay(1)).await;
                if all {
                    notify.notify_all()
                } else {
                    notify.notify_one()
                }
                clock.kill(victim);
                let later = notify.clone();
                clock.spawn("later", async move { later.notified().await });
                clock.sleep(Delay(1)).await;
                assert_eq!(notify.waiting(), usize::from(all));
            });
        }
    }

    // The reader of a mailbox is replaced after a reset; it may be killed before or after its successor has
    // come.
    #[test]
    fn mailbox_messages() {
        for (successor_first, due) in [(false, 50), (true, 50), (false, 10), (true, 10)] {
            for sent_before in [false, true] {
                run(|clock| async move {
                    let mailbox = Mailbox::new(&clock);
                    let got = Rc::new(RefCell::new(Vec::new()));
                    let spawn_reader = |name: &'static str| {
                        let (inner, mailbox, got) = (clock.clone(), mailbox.clone(), got.clone());
                        clock.spawn(name, async move {
                            let message: &str = mailbox.receive().await;
                            got.borrow_mut().push((name, message, inner.now().0));
                        })
                    };
                    let old = spawn_reader("old");
                    clock.sleep(Delay(10)).await;
                    if sent_before {
                        mailbox.send_at(Time(due), "message");
                    }
                    if successor_first {
                        spawn_reader("new");
                        if due > 10 {
                            clock.yield_now().await; // the new one waits too
                        }
                        clock.kill(old);
                    } else {
                        clock.kill(old);
                        spawn_reader("new");
                    }
                    clock.yield_now().await;
                    if !sent_before {
                        mailbox.send_at(Time(due), "message");
                    }
                    clock.sleep(Delay(1000)).await;
                    assert_eq!(*got.borrow(), [("new", "message", due)], "{successor_first} {sent_before}");
                });
            }
        }
    }

    // A reservation stays reserved, and no other task is harmed.
    #[test]
    fn users_of_pipes_and_stations() {
        for killed_at in [0, 10, 150] {
            run(|clock| async move {
                let pipe = Rc::new(Pipe::new(&clock, Rate::per_second(1_000_000_000_000), Delay(20)));
                let station = Rc::new(Station::new(&clock, 1));
                let (pipe_v, station_v) = (pipe.clone(), station.clone());
                let victim = clock.spawn("victim", async move {
                    pipe_v.transfer(100).await;
                    station_v.serve(Delay(100)).await;
                });
                if killed_at > 0 {
                    clock.sleep(Delay(killed_at)).await;
                }
                clock.kill(victim);
                let (passage, service) = (pipe.send(10), station.reserve(Delay(10)));
                let (sent, end) = match killed_at {
                    0 => (10, 10),
                    10 => (110, 20),
                    _ => (160, 230),
                };
                assert_eq!((passage.sent, service.end), (Time(sent), Time(end)));
            });
        }
    }
}

/// Tasks that kill each other.
struct Swarm {
    clock: Clock,
    random: RefCell<Stream>,
    living: RefCell<Vec<TaskId>>,
    spawned: Cell<usize>,
    finished: Cell<usize>,
    killed: Cell<usize>,
    /// Of 1,000 opportunities to kill, the number taken.
    kills_per_mille: u64,
    /// At this step all tasks are killed.
    cut_at: u64,
    steps: Cell<u64>,
}

impl Swarm {
    fn new(clock: &Clock, seed: u64, kills_per_mille: u64, cut_at: u64) -> Rc<Self> {
        Rc::new(Swarm {
            clock: clock.clone(),
            random: RefCell::new(Rng::new(seed).stream("swarm")),
            living: RefCell::default(),
            spawned: Cell::new(0),
            finished: Cell::new(0),
            killed: Cell::new(0),
            kills_per_mille,
            cut_at,
            steps: Cell::new(0),
        })
    }

    fn spawn(self: &Rc<Self>, name: &'static str, future: impl Future<Output = ()> + 'static) -> TaskId {
        let swarm = self.clone();
        let task = self.clock.spawn(name, async move {
            future.await;
            let me = swarm.clock.current();
            let mut living = swarm.living.borrow_mut();
            let before = living.len();
            living.retain(|task| *task != me);
            swarm.finished.set(swarm.finished.get() + before - living.len());
        });
        self.living.borrow_mut().push(task);
        self.spawned.set(self.spawned.get() + 1);
        task
    }

    fn kill(&self, task: TaskId) {
        let mut living = self.living.borrow_mut();
        let before = living.len();
        living.retain(|other| *other != task);
        self.killed.set(self.killed.get() + before - living.len());
        drop(living);
        self.clock.kill(task);
    }

    fn below(&self, n: u64) -> u64 {
        self.random.borrow_mut().below(n)
    }

    /// An opportunity to kill any task, the caller included. Directly after a release the granted tasks have
    /// not been polled yet.
    fn step(&self) {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() == self.cut_at {
            let living = self.living.borrow().clone();
            living.into_iter().for_each(|task| self.kill(task));
        } else if self.below(1000) < self.kills_per_mille {
            let victim = {
                let living = self.living.borrow();
                (!living.is_empty()).then(|| living[self.below(living.len() as u64) as usize])
            };
            victim.into_iter().for_each(|victim| self.kill(victim));
        }
    }

    /// Waits a short time, or none, or only a turn, so that much falls into one instant.
    async fn pause(&self) {
        match self.below(6) {
            0 | 1 => {}
            2 => self.clock.yield_now().await,
            n => self.clock.sleep(Delay(n - 2)).await,
        }
        self.step();
    }

    /// Waits until all tasks should be done, and checks that they are.
    async fn finish(&self, what: &str) {
        self.clock.sleep(Delay::from_us(10)).await;
        let (spawned, finished, killed) = (self.spawned.get(), self.finished.get(), self.killed.get());
        assert_eq!(finished + killed, spawned, "{what}: a waiter that was not killed was never served");
    }
}

/// A counter that is raised while this lives.
struct Held(Rc<Cell<usize>>, usize);

impl Held {
    fn new(held: &Rc<Cell<usize>>, count: usize, most: usize) -> Self {
        held.set(held.get() + count);
        assert!(held.get() <= most, "{} held of {most}", held.get());
        Held(held.clone(), count)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

const SEEDS: u64 = 150;

/// From few kills, so that the work lasts long, to many.
fn kills_per_mille(seed: u64) -> u64 {
    [10, 30, 100][seed as usize % 3]
}

async fn take_credits(swarm: Rc<Swarm>, tags: Semaphore, held: Rc<Cell<usize>>) {
    for _ in 0..10 {
        swarm.pause().await;
        let credits = swarm.below(5) as usize;
        let permit = tags.acquire(credits).await;
        assert_eq!(permit.credits(), credits);
        let _held = Held::new(&held, credits, 4);
        swarm.pause().await;
        if swarm.below(4) == 0 {
            permit.forget();
            tags.release(credits); // no wait in between, so no task can be killed there
        } else {
            drop(permit);
        }
        drop(_held);
        swarm.step();
    }
}

#[test]
fn a_swarm_on_a_semaphore() {
    for seed in 0..SEEDS {
        run(|clock| async move {
            let swarm = Swarm::new(&clock, seed, kills_per_mille(seed), u64::MAX);
            let (tags, held) = (Semaphore::new(&clock, 4), Rc::default());
            for _ in 0..20 {
                swarm.spawn("taker", take_credits(swarm.clone(), tags.clone(), Rc::clone(&held)));
            }
            swarm.finish(&format!("seed {seed}")).await;
            assert_eq!((tags.available(), tags.waiting(), held.get()), (4, 0, 0), "seed {seed}");
        });
    }
}

/// Mortal senders and receivers; receivers are replaced. Returns what came out, in order.
async fn exchange(clock: Clock, seed: u64, receivers: usize) -> (Vec<(u64, u64)>, usize) {
    let swarm = Swarm::new(&clock, seed, kills_per_mille(seed), u64::MAX);
    let capacity = 1 + seed as usize % 3;
    let channel = Channel::bounded(&clock, capacity);
    let (sent, received) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
    for sender in 0..8 {
        let (inner, channel, sent) = (swarm.clone(), channel.clone(), sent.clone());
        swarm.spawn("sender", async move {
            for number in 0..30 {
                inner.pause().await;
                match inner.below(3) {
                    0 if channel.try_send((sender, number)).is_err() => continue,
                    0 => {}
                    _ => channel.send((sender, number)).await,
                }
                sent.borrow_mut().push((sender, number));
                inner.step();
            }
        });
    }
    let mut readers: Vec<TaskId> = Vec::new();
    for _ in 0..3000 {
        readers.retain(|reader| swarm.living.borrow().contains(reader));
        while readers.len() < receivers {
            let (inner, channel, received) = (swarm.clone(), channel.clone(), received.clone());
            readers.push(swarm.spawn("receiver", async move {
                loop {
                    let value: (u64, u64) = channel.receive().await;
                    received.borrow_mut().push(value);
                    inner.pause().await;
                }
            }));
        }
        assert!(channel.len() <= capacity + receivers, "seed {seed}");
        clock.sleep(Delay(1)).await;
    }
    let survivors: Vec<_> =
        swarm.living.borrow().iter().filter(|task| !readers.contains(task)).copied().collect();
    assert_eq!(survivors, [], "seed {seed}: a sender never got space");
    assert!(channel.is_empty(), "seed {seed}: a receiver sleeps although a value is queued");
    for value in sent.borrow().iter() {
        assert!(received.borrow().contains(value), "seed {seed}: {value:?} was sent and never came");
    }
    let got = received.borrow();
    let mut unique = got.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), got.len(), "seed {seed}: a value came twice");
    (got.clone(), swarm.killed.get())
}

#[test]
fn a_swarm_on_a_channel() {
    let killed: usize = (0..SEEDS).map(|seed| run(|clock| exchange(clock, seed, 3)).1).sum();
    assert!(killed as u64 > SEEDS * 8, "only {killed} killed");
}

// With one receiver at a time the order of each sender's values is visible: killing the receiver must not
// change it.
#[test]
fn a_channel_keeps_its_order_through_the_deaths_of_its_receivers() {
    for seed in 0..SEEDS {
        let (received, _) = run(|clock| exchange(clock, seed, 1));
        for sender in 0..8 {
            let numbers: Vec<_> =
                received.iter().filter(|value| value.0 == sender).map(|value| value.1).collect();
            assert!(numbers.is_sorted(), "seed {seed}: {numbers:?}");
        }
    }
}

#[test]
fn a_swarm_on_a_notify_loses_no_notification() {
    let mut killed = 0;
    for seed in 0..SEEDS {
        killed += run(|clock| async move {
            let swarm = Swarm::new(&clock, seed, kills_per_mille(seed), u64::MAX);
            let notify = Rc::new(Notify::new(&clock));
            let (items, made, used) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            for _ in 0..8 {
                let (inner, notify, items, made) =
                    (swarm.clone(), notify.clone(), items.clone(), made.clone());
                swarm.spawn("producer", async move {
                    for _ in 0..30 {
                        inner.pause().await;
                        items.set(items.get() + 1);
                        made.set(made.get() + 1);
                        notify.notify_one();
                        inner.step();
                    }
                });
            }
            let mut consumers: Vec<TaskId> = Vec::new();
            for _ in 0..2000 {
                consumers.retain(|task| swarm.living.borrow().contains(task));
                while consumers.len() < 3 {
                    let (inner, notify, items, used) =
                        (swarm.clone(), notify.clone(), items.clone(), used.clone());
                    consumers.push(swarm.spawn("consumer", async move {
                        loop {
                            while items.get() == 0 {
                                notify.notified().await;
                            }
                            items.set(items.get() - 1);
                            used.set(used.get() + 1);
                            inner.pause().await;
                        }
                    }));
                }
                clock.sleep(Delay(1)).await;
            }
            assert_eq!(
                (items.get(), used.get()),
                (0, made.get()),
                "seed {seed}: a consumer sleeps although an item is queued"
            );
            assert_eq!(notify.waiting(), 3, "seed {seed}");
            swarm.killed.get()
        });
    }
    assert!(killed as u64 > SEEDS * 8, "only {killed} killed");
}

// What is taken in place is what a reader would have got: in order, once due, each once.
#[test]
fn messages_are_taken_in_place_once_they_have_arrived() {
    run(|clock| async move {
        let mailbox = Mailbox::new(&clock);
        for (at, value) in [(5, 1), (5, 2), (7, 3), (9, 4)] {
            mailbox.send_quietly_at(Time(at), value);
        }
        let take = |most: u64| {
            let mut taken = Vec::new();
            mailbox.take_in_place(|value| {
                *value <= most && {
                    taken.push(*value);
                    true
                }
            });
            taken
        };
        assert_eq!(take(9), [], "nothing has arrived");
        clock.sleep(Delay(7)).await;
        assert_eq!((take(1), mailbox.try_receive()), (vec![1], Some(2)), "what is not taken stays");
        assert_eq!((take(9), mailbox.len()), (vec![3], 1));
        clock.sleep(Delay(2)).await;
        assert_eq!((take(9), mailbox.is_empty()), (vec![4], true));
    });
}

// Every message, in order, in the picosecond in which it is due, whichever task reads.
#[test]
fn a_mailbox_is_on_time_through_the_deaths_of_its_readers() {
    for seed in 0..SEEDS {
        run(|clock| async move {
            let mut random = Rng::new(seed).stream("messages");
            let mailbox = Mailbox::new(&clock);
            let got = Rc::new(RefCell::new(Vec::new()));
            let spawn_reader = || {
                let (inner, mailbox, got) = (clock.clone(), mailbox.clone(), got.clone());
                clock.spawn("reader", async move {
                    loop {
                        let message = mailbox.receive().await;
                        got.borrow_mut().push((message, inner.now().0));
                    }
                })
            };
            let mut reader = spawn_reader();
            let (mut expected, mut due, mut next) = (Vec::new(), 0, 0);
            for _ in 0..300 {
                match random.below(4) {
                    0 | 1 => {
                        let at = clock.now().0 + random.below(30);
                        if mailbox.is_empty() {
                            due = 0;
                        }
                        due = due.max(at);
                        mailbox.send_at(Time(at), next);
                        expected.push((next, due));
                        next += 1;
                    }
                    2 => {
                        let successor = random.chance(0.5).then(&spawn_reader);
                        if successor.is_some() && random.chance(0.5) {
                            clock.yield_now().await;
                        }
                        clock.kill(reader);
                        reader = successor.unwrap_or_else(&spawn_reader);
                    }
                    _ => clock.sleep(Delay(random.below(20))).await,
                }
            }
            clock.sleep(Delay(1000)).await;
            assert_eq!(*got.borrow(), expected, "seed {seed}");
        });
    }
}

// The power cut: all tasks are killed in one instant, at each step in turn. Everything that survives must be
// intact.
#[test]
fn a_cut_at_each_step_leaves_everything_free() {
    let mut cut_at = 1;
    loop {
        let ended = run(|clock| async move {
            let swarm = Swarm::new(&clock, 7, 0, cut_at);
            let tags = Semaphore::new(&clock, 4);
            let channel = Channel::bounded(&clock, 1);
            let notify = Rc::new(Notify::new(&clock));
            let held: Rc<Cell<usize>> = Rc::default();
            for _ in 0..4 {
                swarm.spawn("taker", take_credits(swarm.clone(), tags.clone(), held.clone()));
                let (inner, channel_s, notifier) = (swarm.clone(), channel.clone(), notify.clone());
                swarm.spawn("sender", async move {
                    for value in 0..10 {
                        channel_s.send(value).await;
                        notifier.notify_one();
                        inner.step();
                    }
                });
                let (inner, channel_r, waiter) = (swarm.clone(), channel.clone(), notify.clone());
                swarm.spawn("receiver", async move {
                    for _ in 0..10 {
                        channel_r.receive().await;
                        inner.step();
                        waiter.notified().await;
                        waiter.notify_one();
                        inner.pause().await;
                    }
                });
            }
            swarm.finish(&format!("cut at {cut_at}")).await;
            assert_eq!((tags.available(), tags.waiting(), held.get()), (4, 0, 0), "cut at {cut_at}");
            assert_eq!(notify.waiting(), 0, "cut at {cut_at}");
            while channel.try_receive().is_some() {}
            // A receiver killed while it waited must not get this value.
            channel.try_send(0).unwrap();
            assert_eq!(channel.try_receive(), Some(0), "cut at {cut_at}");
            swarm.steps.get() < cut_at
        });
        if ended {
            break;
        }
        cut_at += 1;
    }
    assert!(cut_at > 200, "only {cut_at} steps");
}
