//! Schedules and policies of suspension: built-in ones against queueing theory and by hand, others against the rules that none can break.

use crate::array::fixture::{COMMAND, Dice, GEOMETRY, UNIT, batch, ends, read_one, run_with, timing};
use byteway_clock::random::{Exponential, Rng};
use byteway_clock::{Delay, Time};
use byteway_content::Content;
use byteway_flash::policy::schedule::ByPriority;
use byteway_flash::policy::{
    OperationKind, Schedule, SchedulePolicy, ScheduleView, Suspend, SuspendPolicy, SuspendView, Waiting,
};
use byteway_flash::{BlockId, Flash, Geometry, Priority, SuspendTiming, Ticket, Timing};
use byteway_policy::{Set, UnknownPolicy};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

fn us(us: u64) -> Delay {
    Delay::from_us(us)
}

fn schedule(name: &str) -> SchedulePolicy {
    Set::<dyn Schedule>::default().find(name, "").expect("it is built in")
}

fn with_schedule(schedule: SchedulePolicy) -> Timing {
    Timing { schedule, ..timing() }
}

/// A schedule of the test's own.
struct Own<F>(F);

impl<F: FnMut(&mut ScheduleView<'_>) -> Priority> Schedule for Own<F> {
    fn choose(&mut self, view: &mut ScheduleView<'_>) -> Priority {
        self.0(view)
    }
}

fn own<F: FnMut(&mut ScheduleView<'_>) -> Priority + Clone + Send + Sync + 'static>(
    choose: F,
) -> SchedulePolicy {
    SchedulePolicy::new("own", Some("1".into()), move || Box::new(Own(choose.clone())))
}

/// Submits a read of one unit of block 0 of die 0.
fn read(flash: &Flash, priority: Priority) -> Ticket {
    read_one(flash, 0, 0, priority)
}

fn erase(flash: &Flash, block: u32, priority: Priority) -> Ticket {
    let ticket = flash.ticket();
    flash.submit_erase(BlockId(block), priority, &ticket);
    ticket
}

/// Mean waits, in microseconds, of reads for hosts and of deferrable erases that arrive at random at one die.
fn waits(schedule: SchedulePolicy, reads_per_s: f64, erases_per_s: f64) -> [f64; 2] {
    const COUNT: [u32; 2] = [120_000, 6_000];
    let sums = Rc::new(RefCell::new([(0.0, 0_u32); 2]));
    let found = sums.clone();
    let one = Geometry { channels: 1, ways: 1, ..GEOMETRY };
    run_with(one, with_schedule(schedule), async move |flash, clock| {
        let mut arrivals = Vec::new();
        for (class, rate) in [reads_per_s, erases_per_s].into_iter().enumerate() {
            let gaps = Exponential::new(1e12 / rate).expect("a rate above 0");
            let mut random = Rng::new(7).stream(if class == 0 { "reads" } else { "erases" });
            let mut at = 0.0;
            for _ in 0..COUNT[class] {
                at += gaps.sample(&mut random);
                arrivals.push((Time::ZERO + Delay(at as u64), class));
            }
        }
        arrivals.sort();
        // As long as both arrive.
        let end = [0, 1].map(|class| arrivals.iter().rfind(|arrival| arrival.1 == class).map(|last| last.0));
        arrivals.retain(|arrival| Some(arrival.0) <= end[0].min(end[1]));
        let waiting = Rc::new(Cell::new(arrivals.len()));
        for (at, class) in arrivals {
            clock.sleep_until(at).await;
            let (ticket, service) = match class {
                0 => (read(&flash, Priority::HostRead), us(30) + COMMAND + UNIT),
                _ => (erase(&flash, 2, Priority::Background), us(3000) + COMMAND),
            };
            let (sums, now, waiting) = (sums.clone(), clock.clone(), waiting.clone());
            clock.spawn("wait", async move {
                ticket.wait().await;
                let (sum, count) = &mut sums.borrow_mut()[class];
                *sum += (now.now().since(at) - service).0 as f64 / 1e6;
                *count += 1;
                waiting.set(waiting.get() - 1);
            });
        }
        while waiting.get() > 0 {
            clock.sleep(us(1000)).await;
        }
    });
    let found = found.borrow();
    found.map(|(sum, count)| sum / f64::from(count))
}

// The mean waits of a single server with Poisson arrivals: Pollaczek and Khinchine in order of arrival, Cobham by priority. A schedule that
// served another operation than it says would be far from both.
#[test]
fn waits_are_those_of_queueing_theory() {
    // A third of the time for reads, and a third for erases.
    let (reads, erases) = (9_500.0, 110.0);
    let (of_read, of_erase) = (35.22, 3_000.1);
    let rho = [reads * of_read, erases * of_erase].map(|busy| busy / 1e6);
    let residual = (reads * of_read * of_read + erases * of_erase * of_erase) / 2e6;
    let all = rho[0] + rho[1];
    let in_order = residual / (1.0 - all);
    let urgent = residual / (1.0 - rho[0]);
    let deferred = urgent / (1.0 - all);
    for (name, expected) in [("fifo", [in_order; 2]), ("priority:1000000", [urgent, deferred])] {
        let found = waits(schedule(name), reads, erases);
        println!("{name}: {found:?}, in theory {expected:?}");
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found / expected - 1.0).abs() < 0.05, "{name}: {found} us, in theory {expected} us");
        }
    }
    // Between the two: as urgent ones wait longer, the others wait less.
    let [read, erase] = waits(schedule("deadline:3000"), reads, erases);
    assert!(urgent < read && read < in_order && in_order < erase && erase < deferred, "{read} {erase}");
}

// To the nanosecond: when an erase has its turn that comes after one read, and before nineteen others.
#[test]
fn an_erase_has_its_turn() {
    for (name, before) in [
        ("priority", 9),
        ("priority:8", 9),
        ("priority:3", 4),
        ("deadline:100", 3),
        ("deadline:3000", 20),
        ("fifo", 1),
    ] {
        let erased = run_with(GEOMETRY, with_schedule(schedule(name)), async |flash, clock| {
            let first = read(&flash, Priority::HostRead);
            clock.sleep(us(1)).await;
            let erase = erase(&flash, 2, Priority::Collector);
            clock.sleep(us(1)).await;
            let others: Vec<Ticket> = (0..19).map(|_| read(&flash, Priority::HostRead)).collect();
            erase.wait().await;
            let erased = clock.now();
            first.wait().await;
            ends(&flash, &others).await;
            erased
        });
        let of_read = us(30) + COMMAND + UNIT;
        assert_eq!(erased, Time::ZERO + of_read * before + us(3000) + COMMAND, "{name}");
    }
}

/// A random history of one die; returns the end of each operation.
fn history(seed: u64, schedule: SchedulePolicy) -> Vec<Time> {
    run_with(GEOMETRY, with_schedule(schedule), async move |flash, clock| {
        let mut dice = Dice(seed);
        let ended = Rc::new(RefCell::new(Vec::new()));
        let mut stripes = [0, 0];
        for number in 0..400 {
            clock.sleep(us(dice.roll(120))).await;
            let priority = Priority::ALL[dice.roll(5) as usize];
            let index = dice.roll(2) as usize;
            let block = 2 + index as u32;
            let ticket = match dice.roll(8) {
                0 => {
                    stripes[index] = 0;
                    erase(&flash, block, Priority::Collector)
                }
                1 | 2 if stripes[index] < 6 => {
                    let ticket = flash.ticket();
                    let units = batch(&flash, number, 1);
                    flash.submit_program(
                        BlockId(block),
                        stripes[index],
                        units,
                        Priority::HostProgram,
                        &ticket,
                    );
                    stripes[index] += 1;
                    ticket
                }
                _ => read(&flash, priority),
            };
            let (ended, now) = (ended.clone(), clock.clone());
            clock.spawn("wait", async move {
                ticket.wait().await;
                ended.borrow_mut().push((number, now.now()));
            });
        }
        while ended.borrow().len() < 400 {
            clock.sleep(us(1000)).await;
        }
        assert_eq!(flash.policy_fault(), None);
        let mut ended = ended.take();
        ended.sort_unstable();
        ended.into_iter().map(|(_, at)| at).collect()
    })
}

// A die that asks nobody and one that asks the same policy must do the same, or adding a policy would change what it is compared with.
#[test]
fn a_die_that_asks_for_its_own_order_keeps_it() {
    for seed in 1..30 {
        let asked = own(|view| ByPriority::default().choose(view));
        assert_eq!(history(seed, asked), history(seed, SchedulePolicy::default()), "seed {seed}");
        assert_eq!(history(seed, schedule("priority:8")), history(seed, schedule("priority")), "seed {seed}");
    }
    assert_ne!(history(1, schedule("fifo")), history(1, schedule("priority")));
}

// Whatever a policy of a user's says, data that a read was promised must not be erased before it.
#[test]
fn no_schedule_lets_an_erase_overtake_a_read() {
    for seed in 0..40 {
        let schedule = match seed % 2 {
            0 => own(|view| view.waiting().last().unwrap().priority),
            _ => own(|view| {
                let number = view.random() as usize % view.waiting().len();
                view.waiting()[number].priority
            }),
        };
        run_with(GEOMETRY, with_schedule(schedule), async move |flash, clock| {
            let mut dice = Dice(seed + 1);
            let mut reads = Vec::new();
            for _ in 0..1 + dice.roll(12) {
                let priority = Priority::ALL[dice.roll(5) as usize];
                reads.push(read(&flash, priority));
            }
            let erase = erase(&flash, 0, Priority::ALL[dice.roll(5) as usize]);
            for read in &reads {
                assert_eq!(read.wait().await.unreadable, 0, "seed {seed}");
                assert_ne!(read.take(0), Content::Zero, "seed {seed}: it was there when it was asked for");
            }
            assert!(!erase.wait().await.failed);
            assert!(clock.now() > Time::ZERO + us(3000));
        });
    }
}

// A schedule sees what waits: numbers, kinds and times.
#[test]
fn a_schedule_sees_what_waits() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let looks = own(move |view| {
        let waiting = view.waiting().to_vec();
        let chosen = waiting[0].priority;
        kept.lock().unwrap().push((view.die(), waiting));
        chosen
    });
    run_with(GEOMETRY, with_schedule(looks), async |flash, clock| {
        let first = read(&flash, Priority::HostRead);
        clock.sleep(us(10)).await;
        let [second, third] = [0; 2].map(|_| read(&flash, Priority::Map));
        let erase = erase(&flash, 2, Priority::Background);
        ends(&flash, &[first, second, third, erase]).await;
    });
    let seen = seen.lock().unwrap();
    let [(0, first), (0, second)] = &seen[..] else { panic!("{seen:?}") };
    let of = |waiting: &[Waiting]| -> Vec<_> {
        let row = |w: &Waiting| (w.priority, w.count, w.first, w.waited.0 / 1_000, w.passed);
        waiting.iter().map(row).collect()
    };
    let erase = |waited, passed| (Priority::Background, 1, OperationKind::Erase, waited, passed);
    assert_eq!(of(first), [(Priority::Map, 2, OperationKind::Read, 25_220, 0), erase(25_220, 0)]);
    assert_eq!(of(second), [(Priority::Map, 1, OperationKind::Read, 60_440, 0), erase(60_440, 1)]);
}

// What goes wrong in a policy is told, and the die goes on: it can still be shut down.
#[test]
fn a_wrong_schedule_is_named_and_no_longer_asked() {
    for (wrong, says) in [
        (own(|_| Priority::HostProgram), "the schedule policy `own` failed: none of HostProgram waits"),
        (own(|_| panic!("on purpose")), "the schedule policy `own` failed: it panicked: on purpose"),
    ] {
        run_with(GEOMETRY, with_schedule(wrong), async move |flash, _| {
            let reads = [0; 3].map(|_| read(&flash, Priority::HostRead));
            let erase = erase(&flash, 2, Priority::Collector);
            assert!(!erase.wait().await.failed);
            assert_eq!(ends(&flash, &reads).await.len(), 3);
            assert_eq!(flash.policy_fault().unwrap(), says);
        });
    }
}

#[test]
fn a_wrong_name_or_argument_is_refused() {
    let (schedules, suspends) = (Set::<dyn Schedule>::default(), Set::<dyn Suspend>::default());
    for wrong in
        ["priority:", "priority:0", "priority:x", "fifo:1", "deadline", "deadline:0", "deadline:5 ms"]
    {
        assert!(matches!(schedules.find(wrong, ""), Err(UnknownPolicy::Argument(_))), "{wrong}");
    }
    for wrong in ["always:1", "erases:", "remaining", "remaining:-1"] {
        assert!(matches!(suspends.find(wrong, ""), Err(UnknownPolicy::Argument(_))), "{wrong}");
    }
    assert_eq!(schedules.find("lifo", "").unwrap_err(), UnknownPolicy::Name);
    assert!(
        schedules.find("priority", "").unwrap().is_default()
            && suspends.find("always", "").unwrap().is_default()
    );
}

/// Whether it is an erase, the time that it would take, that for which the read has waited, in nanoseconds, waiting reads, and suspensions.
type Seen = (bool, u64, u64, u32, u32);

/// Keeps what it sees, and suspends nothing.
struct Sees(Arc<Mutex<Vec<Seen>>>);

impl Suspend for Sees {
    fn suspends(&mut self, view: &mut SuspendView<'_>) -> bool {
        let (remaining, waited) = (view.remaining().0 / 1000, view.waited().0 / 1000);
        self.0.lock().expect("it has not panicked").push((
            view.is_erase(),
            remaining,
            waited,
            view.reads(),
            view.suspends(),
        ));
        false
    }
}

// What holds a read up, and for how long, is what a policy of suspension decides by.
#[test]
fn suspensions_are_those_that_the_policy_wants() {
    let cost = SuspendTiming { latency: us(5), resume: us(7), most: 4, step: Delay::ZERO };
    let with = |policy: SuspendPolicy| Timing { suspend: Some(cost), suspend_policy: policy, ..timing() };
    let named = |name: &str| Set::<dyn Suspend>::default().find(name, "").unwrap();
    // A read after 100 us of a program of 200 us, and one after 1 ms of an erase of 3 ms.
    let suspends = |timing: Timing| {
        run_with(GEOMETRY, timing, async |flash, clock| {
            let program = flash.ticket();
            flash.submit_program(BlockId(2), 0, batch(&flash, 0, 1), Priority::HostProgram, &program);
            clock.sleep(us(100)).await;
            ends(&flash, &[read(&flash, Priority::HostRead)]).await;
            program.wait().await;
            let of_program = flash.counters().suspends;
            let erased = erase(&flash, 3, Priority::Collector);
            clock.sleep(us(1000)).await;
            ends(&flash, &[read(&flash, Priority::HostRead)]).await;
            erased.wait().await;
            assert_eq!(flash.policy_fault(), None);
            [of_program, flash.counters().suspends - of_program]
        })
    };
    for (name, expected) in [
        ("always", [1, 1]),
        ("erases", [0, 1]),
        ("remaining:100", [1, 1]),
        ("remaining:500", [0, 1]),
        ("remaining:5000", [0, 0]),
    ] {
        assert_eq!(suspends(with(named(name))), expected, "{name}");
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let sees = SuspendPolicy::new("sees", Some("1".into()), move || Box::new(Sees(kept.clone())));
    assert_eq!(suspends(with(sees)), [0, 0]);
    // The program's cells began after its command and its data: 100 ns and 8 times 5.12 us.
    assert_eq!(*seen.lock().unwrap(), [(false, 141_060, 0, 1, 0), (true, 2_000_100, 0, 1, 0)]);
}
