//! Abort, Delete SQ, reset and reset of the function at every wait of a train.
//!
//! A train of four entries and a plain command after it are rung for in parts. Run alone first, looked at every
//! nanosecond, they show the instants at which any task was polled. Then they run again and again on the same drive, and
//! in each run one of the four arrives at another instant, or between two.
//!
//! Verified after each run: an aborted train completes once, before its Abort does, and its entries are passed over
//! exactly, so that what is placed after them is done; a deleted queue's commands complete before the deletion; nothing
//! is held; nothing is written to host memory after a reset; the drive takes the next train. Not verified: two waits that
//! end within the same nanosecond are one here.

use crate::fixture::payload::{INLINE, sink_write};
use crate::fixture::{Bench, NS_4K, Pair, TestHost, cc, delete_sq, pattern};
use byteway_clock::Delay;
use byteway_wire::nvme::vendor::inline_descriptor;
use byteway_wire::nvme::{Abort, Cqe, Flush, NvmOpcode, QueuePriority, ReadWrite, Sqe, Status};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Entries of the train after its command.
const SLOTS: u32 = 4;
/// Between two doorbells, where there are two.
const PAUSE: Delay = Delay::from_ns(2500);
/// From the first doorbell on: all of it has happened.
const END_NS: u64 = 12_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Abort,
    DeleteSq,
    Disable,
    ResetFunction,
}

struct Rig {
    host: TestHost,
    pair: RefCell<Pair>,
    seed: Cell<u64>,
    /// The doorbell exposes as many entries of the train and its command first, and then the rest.
    exposed: u32,
}

impl Rig {
    async fn new(host: TestHost, exposed: u32) -> Rc<Rig> {
        let pair = host.create_pair(1, 64).await;
        host.enable_methods(&pair, INLINE).await;
        Rc::new(Rig { host, pair: RefCell::new(pair), seed: Cell::new(1), exposed })
    }

    /// Places the train and the plain command after it, and has them rung for in two parts by a task of its own; gives
    /// their identifiers.
    fn depart(self: &Rc<Self>) -> (u16, u16) {
        let (host, pair) = (&self.host, self.pair.borrow().clone());
        self.seed.set(self.seed.get() + 1);
        let payload = pattern(self.seed.get(), SLOTS as usize * 64);
        let first = pair.sq.tail.get();
        let cid = host.place_train(&pair.sq, sink_write(0, SLOTS * 64), &payload, false);
        let behind = host.place(&pair.sq, Flush.sqe(0, NS_4K));
        let all = pair.sq.tail.get();
        let rig = self.clone();
        host.clock().spawn("doorbells", async move {
            for tail in [(first + rig.exposed) % 64, all] {
                let doorbell = byteway_wire::nvme::Doorbell::SubmissionTail(1);
                rig.host.ring(doorbell, tail);
                rig.host.sleep(PAUSE).await;
            }
        });
        (cid, behind)
    }

    /// Runs alone; gives the instants, in nanoseconds from the first doorbell on, at which something happened.
    async fn instants(self: &Rc<Self>) -> Vec<u64> {
        let (host, pair) = (&self.host, self.pair.borrow().clone());
        self.depart();
        let mut instants = vec![0];
        let mut polls = host.clock().counters().polls;
        for now_ns in 1..END_NS {
            host.sleep(Delay::from_ns(1)).await;
            let now = host.clock().counters().polls;
            if now > polls + 1 {
                instants.push(now_ns);
            }
            polls = now;
        }
        for cqe in host.next_many(&pair.cq, 2).await {
            assert_eq!(cqe.status(), Status::SUCCESS);
        }
        instants
    }

    async fn cancelled(self: &Rc<Self>, action: Action, at_ns: u64) {
        let (host, pair) = (&self.host, self.pair.borrow().clone());
        let controller = &host.drive().controller;
        let (cid, behind) = self.depart();
        host.sleep(Delay::from_ns(at_ns)).await;
        let admin = host.admin_pair();
        match action {
            Action::Abort => {
                let abort = host.admin(Abort { sqid: 1, cid }.sqe(0)).await;
                let before: Vec<Cqe> = std::iter::from_fn(|| host.take(&pair.cq)).collect();
                host.sleep(PAUSE * 4).await;
                let mut all = before.clone();
                all.extend(std::iter::from_fn(|| host.take(&pair.cq)));
                host.ring_head(&pair.cq);
                let of =
                    |cid| all.iter().filter(move |cqe| cqe.cid == cid).map(Cqe::status).collect::<Vec<_>>();
                assert_eq!(of(behind), [Status::SUCCESS], "what is behind the train is done, once");
                let was_aborted = of(cid) == [Status::ABORT_REQUESTED];
                assert!(was_aborted || of(cid) == [Status::SUCCESS], "{:?}", of(cid));
                assert_eq!(abort.dw0 & 1 == 0, was_aborted);
                let is_first = before.iter().any(|cqe| cqe.cid == cid);
                assert!(!was_aborted || is_first, "it completes before its Abort does");
                let last = all.last().expect("two have completed");
                assert_eq!(u32::from(last.sqhd), pair.sq.tail.get(), "SQHD counts what was passed over");
            }
            Action::DeleteSq => {
                let deleted = host.submit(&admin.sq, delete_sq(1));
                assert_eq!(host.completion(&admin.cq, deleted).await.status(), Status::SUCCESS);
                let seen = drain(host, &pair);
                assert!(seen.len() <= 2 && seen.iter().all(|cqe| [cid, behind].contains(&cqe.cid)));
                host.sleep(PAUSE * 4).await;
                assert!(host.look(&pair.cq).is_none(), "they complete before the deletion");
                // The doorbell of a deleted queue raises an event, which the host has not enabled.
                let again = host.create_sq(1, 64, &pair.cq, QueuePriority::Urgent).await;
                self.pair.replace(again);
            }
            Action::Disable | Action::ResetFunction => {
                if action == Action::Disable {
                    host.set_cc(cc().with_en(false));
                    host.csts_until(|csts| !csts.rdy()).await;
                } else {
                    controller.reset().await;
                }
                assert!(controller.is_quiet(), "a reset ends when nothing is held");
                let written = host.memory().dma_written_bytes();
                host.sleep(Delay::from_us(20)).await;
                assert_eq!(host.memory().dma_written_bytes(), written, "nothing is written after a reset");
                host.enable().await;
                let again = host.create_pair(1, 64).await;
                self.pair.replace(again);
            }
        }
        let pair = self.pair.borrow().clone();
        if action != Action::Abort {
            host.enable_methods(&pair, INLINE).await;
        }
        // The drive takes the next train.
        let payload = pattern(self.seed.get() << 32, 200);
        let cqe = host.inline(&pair, sink_write(5000, 200), &payload).await;
        assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(&payload)));
        assert!(host.sink_read(&pair, 5000, 200).await == payload);
        host.sleep(Delay::from_us(1)).await;
        assert!(controller.is_quiet(), "slots, permits and tags are free");
    }
}

fn drain(host: &TestHost, pair: &Pair) -> Vec<Cqe> {
    let seen: Vec<Cqe> = std::iter::from_fn(|| host.take(&pair.cq)).collect();
    if !seen.is_empty() {
        host.ring_head(&pair.cq);
    }
    seen
}

/// Says which run it was, if the test fails.
struct Says(Rc<Cell<(Action, u32, u32, u64)>>);

impl Drop for Says {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (action, exposed, burst, at_ns) = self.0.get();
            eprintln!("{action:?} {at_ns} ns after a doorbell for {exposed} entries, {burst} in a read");
        }
    }
}

fn cut_short(action: Action) {
    // The command alone, a part of its payload, all but one entry, all; with the command after it.
    for exposed in [1, 3, SLOTS, SLOTS + 1, SLOTS + 2] {
        for fetch_burst in [1, 2, 64] {
            let mut bench = Bench::offering(INLINE);
            bench.drive.controller.fetch_burst = fetch_burst;
            let which = Rc::new(Cell::new((action, exposed, fetch_burst, 0)));
            let _says = Says(which.clone());
            bench.enabled(async move |host| {
                let rig = Rig::new(host, exposed).await;
                let instants = rig.instants().await;
                assert!(instants.len() >= 8, "there are waits");
                let gaps = instants.windows(2).map(|pair| (pair[0] + pair[1]) / 2);
                let mut times: Vec<u64> = gaps.chain(instants.iter().copied()).collect();
                times.sort_unstable();
                times.dedup();
                for at_ns in times {
                    which.set((action, exposed, fetch_burst, at_ns));
                    rig.cancelled(action, at_ns).await;
                }
            });
        }
    }
}

// An Abort that leaves the rest of its train to be taken for commands executes payload.
#[test]
fn aborted() {
    cut_short(Action::Abort);
}

// A deletion that waits for entries that never come hangs the host that gives up its queue.
#[test]
fn deleted() {
    cut_short(Action::DeleteSq);
}

// A train that survives a reset meets another queue's memory.
#[test]
fn disabled() {
    cut_short(Action::Disable);
}

// As by the link, which asks for no register.
#[test]
fn reset_by_the_function() {
    cut_short(Action::ResetFunction);
}

// The rest of an aborted train may come in any portions: each of them is passed over, and no more.
#[test]
fn an_aborted_train_is_passed_over_as_it_comes() {
    Bench::offering(INLINE).with_methods(16, async |host, pair| {
        for exposed in 0..=SLOTS {
            let first = pair.sq.tail.get();
            // A skipped entry would be a command, which fails.
            let poison = Sqe::new(byteway_wire::nvme::NvmOpcode(0x7f), 0xdead, 9).to_bytes();
            let sqe = sink_write(0, (SLOTS + 1) * 64);
            let cid = host.place_train(&pair.sq, sqe, &poison.repeat(SLOTS as usize + 1), false);
            let behind = host.place(&pair.sq, Flush.sqe(0, NS_4K));
            let all = pair.sq.tail.get();
            pair.sq.tail.set((first + 1 + exposed) % 16);
            host.ring_tail(&pair.sq);
            host.sleep(Delay::from_us(5)).await;
            assert_eq!(host.succeed(Abort { sqid: 1, cid }.sqe(0)).await, 0);
            assert_eq!(host.next(&pair.cq).await.status(), Status::ABORT_REQUESTED);
            assert!(host.drive().controller.is_quiet(), "nothing is held for what is passed over");
            // No second Abort of it.
            assert_eq!(host.succeed(Abort { sqid: 1, cid }.sqe(0)).await, Abort::NOT_ABORTED);
            for tail in (1..=SLOTS - exposed).map(|more| (first + 1 + exposed + more) % 16) {
                pair.sq.tail.set(tail);
                host.ring_tail(&pair.sq);
                host.sleep(Delay::from_ns(700)).await;
            }
            assert!(host.look(&pair.cq).is_none());
            pair.sq.tail.set(all);
            host.ring_tail(&pair.sq);
            assert_eq!(host.completion(&pair.cq, behind).await.status(), Status::SUCCESS);
        }
        let payload = pattern(1, 300);
        let cqe = host.inline(&pair, sink_write(0, 300), &payload).await;
        assert_eq!(cqe.dw0, crc32c::crc32c(&payload));
    });
}

// A train that lacks nothing but a slot is aborted too, and what is behind it is done when there is one.
#[test]
fn a_train_that_waits_for_a_slot_is_aborted() {
    let mut bench = Bench::offering(INLINE);
    bench.drive.controller.command_slots = 1;
    bench.with_methods(64, async |host, pair| {
        let other = host.create_pair(2, 16).await;
        let first = pair.sq.tail.get();
        let cid = host.place_train(&pair.sq, sink_write(0, 64), &[1; 64], false);
        let behind = host.place(&pair.sq, Flush.sqe(0, NS_4K));
        let all = pair.sq.tail.replace(first + 1);
        host.ring_tail(&pair.sq);
        host.sleep(Delay::from_us(5)).await;
        // It takes the only slot until it is on flash, after 50 us.
        let slow = ReadWrite { fua: true, ..ReadWrite::default() }.sqe(NvmOpcode::WRITE, 0, NS_4K);
        let slow = host.submit(&other.sq, slow.with_prp(host.pages(1), 0));
        host.sleep(Delay::from_us(5)).await;
        pair.sq.tail.set(all);
        host.ring_tail(&pair.sq);
        host.sleep(Delay::from_us(5)).await;
        assert_eq!(host.succeed(Abort { sqid: 1, cid }.sqe(0)).await, 0);
        assert!(host.look(&other.cq).is_none(), "the slot is taken still");
        let cqe = host.completion(&pair.cq, cid).await;
        // A host that waits for free slots must learn from it that the train's entries are free: nothing else may ever complete.
        assert_eq!((cqe.status(), u32::from(cqe.sqhd)), (Status::ABORT_REQUESTED, first + 2));
        assert_eq!(host.completion(&other.cq, slow).await.status(), Status::SUCCESS);
        assert_eq!(host.completion(&pair.cq, behind).await.status(), Status::SUCCESS);
    });
}

// A broken queue's entries belong to none: deletion and reset must not wait for them.
#[test]
fn a_broken_queue_is_reset() {
    Bench::offering(INLINE).with_methods(64, async |host, pair| {
        let cid = host.place_train(&pair.sq, sink_write(0, 3000), &pattern(1, 3000), false);
        host.place(&pair.sq, sink_write(0, 9000).with_sgl(inline_descriptor(9000)));
        host.ring_tail(&pair.sq);
        assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::SUCCESS);
        host.submit(&pair.sq, Flush.sqe(0, NS_4K));
        host.sleep(Delay::from_us(3)).await;
        host.disable().await;
        assert!(host.drive().controller.is_quiet());
        host.enable().await;
        let pair = host.create_pair(1, 64).await;
        host.enable_methods(&pair, INLINE).await;
        let payload = pattern(1, 300);
        let cqe = host.inline(&pair, sink_write(0, 300), &payload).await;
        assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(&payload)));
    });
}
