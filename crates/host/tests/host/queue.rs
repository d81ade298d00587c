//! Slots, identifiers, batches, wraps, costs, and invalid completions.

use crate::fake::{Rig, run};
use byteway_clock::{Channel, Delay, Stage, Time};
use byteway_host::{Completion, Driver, DriverConfig, HostCosts, QueueConfig, QueuePair, Request};
use byteway_link::{Direction, Purpose};
use byteway_wire::nvme::{Cqe, Doorbell, Flush, Status};

async fn pair(rig: &Rig, config: QueueConfig) -> (Driver, QueuePair) {
    let driver = rig.attach(DriverConfig::default()).await;
    let pair = driver.create_queue_pair(config).await.unwrap();
    (driver, pair)
}

/// Flushes `count` times from each of `tasks` tasks, and waits for all.
async fn flood(rig: &Rig, pair: &QueuePair, tasks: usize, count: usize) {
    let done = Channel::unbounded(&rig.clock);
    for _ in 0..tasks {
        let (pair, done) = (pair.clone(), done.clone());
        rig.clock.spawn("flood", async move {
            for _ in 0..count {
                let cqe = pair.execute(Flush.sqe(0, 1)).await.unwrap();
                assert_eq!((cqe.sqid, cqe.status()), (pair.qid(), Status::SUCCESS));
            }
            done.send(()).await;
        });
    }
    for _ in 0..tasks {
        done.receive().await;
    }
}

// An entry that overwrites one the controller has not fetched is a lost command. The fake asserts the rule.
#[test]
fn slots_are_used_again_only_when_they_were_fetched() {
    run(|rig| async move {
        for (entries, outstanding_max) in [(2, None), (2, Some(9)), (3, Some(40)), (4, Some(200)), (64, None)]
        {
            let config = QueueConfig { outstanding_max, ..QueueConfig::new(entries) };
            let (driver, pair) = pair(&rig, config).await;
            rig.fake.outstanding_max.set(0);
            flood(&rig, &pair, 100, 20).await;
            assert_eq!(pair.slots_free() as u32, entries - 1);
            assert_eq!((pair.outstanding(), driver.protocol_errors()), (0, 0));
            if let Some(more) = outstanding_max {
                let outstanding = rig.fake.outstanding_max.get();
                // Only a completion frees slots, so a ring of few slots hardly gets ahead.
                let least = if entries > 3 { entries } else { entries - 1 };
                assert!(
                    outstanding >= least && outstanding <= u32::from(more),
                    "{outstanding} with {entries}"
                );
            } else {
                assert!(rig.fake.outstanding_max.get() < entries);
            }
        }
    });
}

// While nothing is fetched, exactly entries - 1 commands fit; the next must wait, not overwrite.
#[test]
fn a_full_ring_makes_submissions_wait() {
    run(|rig| async move {
        let config = QueueConfig { outstanding_max: Some(100), ..QueueConfig::new(4) };
        let (_, pair) = pair(&rig, config).await;
        rig.fake.stopped.set(true);
        for _ in 0..10 {
            let pair = pair.clone();
            rig.clock.spawn("flush", async move { assert!(pair.execute(Flush.sqe(0, 1)).await.is_ok()) });
        }
        rig.clock.sleep(Delay::from_us(100)).await;
        assert_eq!((pair.outstanding(), pair.slots_free()), (3, 0));
        rig.fake.stopped.set(false);
        rig.fake.fetch(pair.qid());
        rig.clock.sleep(Delay::from_ms(1)).await;
        assert_eq!((pair.outstanding(), pair.slots_free()), (0, 3));
    });
}

// Phase tags must be followed through many wraps of a completion queue of any size.
#[test]
fn completion_queues_wrap() {
    run(|rig| async move {
        for completion_entries in [2, 3, 7, 64] {
            let completion_entries = Some(completion_entries);
            let config = QueueConfig { completion_entries, ..QueueConfig::new(16) };
            let (driver, pair) = pair(&rig, config).await;
            flood(&rig, &pair, 10, 50).await;
            assert_eq!(driver.protocol_errors(), 0);
        }
    });
}

// A batch with a doorbell write per command would cost what batching must save.
#[test]
fn a_batch_rings_once() {
    run(|rig| async move {
        let (_, pair) = pair(&rig, QueueConfig::new(32)).await;
        let rung = || {
            let offset = Doorbell::SubmissionTail(pair.qid()).offset(0);
            rig.fake.rung.borrow().get(&offset).copied().unwrap_or(0)
        };
        let requests = vec![Request::from(Flush.sqe(0, 1)); 20];
        let mut pending = Vec::new();
        pair.submit_batch(&requests, &mut pending).await.unwrap();
        for command in pending.drain(..) {
            assert!(command.await.is_ok());
        }
        assert_eq!(rung(), 1);
        // More than fits: as few doorbell writes as free slots allow, and entries that wait for slots were rung before.
        let requests = vec![Request::from(Flush.sqe(0, 1)); 100];
        let (mine, clock) = (pair.clone(), rig.clock.clone());
        let all = Channel::unbounded(&clock);
        let sent = all.clone();
        clock.spawn("batch", async move {
            for batch in requests.chunks(25) {
                let mut pending = Vec::new();
                mine.submit_batch(batch, &mut pending).await.unwrap();
                for command in pending {
                    sent.try_send(command).map_err(drop).unwrap();
                }
            }
        });
        for _ in 0..100 {
            assert!(all.receive().await.await.is_ok());
        }
    });
}

// A batch longer than the ring must be split: it never fits as a whole.
#[test]
fn a_batch_longer_than_the_ring_goes_in_pieces() {
    run(|rig| async move {
        let config = QueueConfig { outstanding_max: Some(500), ..QueueConfig::new(4) };
        let (_, pair) = pair(&rig, config).await;
        let mut pending = Vec::new();
        pair.submit_batch(&[Request::from(Flush.sqe(0, 1)); 100], &mut pending).await.unwrap();
        assert_eq!(pending.len(), 100);
        for command in pending {
            assert!(command.await.is_ok());
        }
    });
}

// Invalid completions of a hostile controller must be counted, not used, and must not harm other commands.
#[test]
fn impossible_completions_are_counted_and_harmless() {
    run(|rig| async move {
        let (driver, pair) = pair(&rig, QueueConfig::new(8)).await;
        let cqid = pair.cqid();
        let ok = Status::SUCCESS;
        let qid = pair.qid();
        let impossible = [
            Cqe::new(6, ok, qid, 0),        // a free identifier
            Cqe::new(7, ok, qid, 0),        // a nonexistent identifier
            Cqe::new(0xffff, ok, qid, 0),   // another one
            Cqe::new(0, ok, qid + 1, 0),    // a queue that doesn't exist
            Cqe::new(0, ok, 0, 0),          // a queue that completes elsewhere
            Cqe::new(6, ok, qid, 5),        // more entries fetched than there are
            Cqe::new(6, ok, qid, 8),        // a head outside the ring
            Cqe::new(6, ok, qid, u16::MAX), // also outside the ring
        ];
        for round in 1..4 {
            for cqe in impossible {
                rig.fake.post(cqid, cqe).await;
            }
            rig.clock.sleep(Delay::from_us(10)).await;
            assert_eq!(driver.protocol_errors(), round * impossible.len() as u64);
            flood(&rig, &pair, 5, 10).await;
            assert_eq!((pair.slots_free(), pair.outstanding()), (7, 0));
        }
        // A command completed twice, and one with an invalid head: both count once, both commands end.
        rig.fake.swallows.set(true);
        let before = driver.protocol_errors();
        let command = pair.submit(Flush.sqe(0, 1)).await.unwrap();
        let cid = command.cid();
        rig.clock.sleep(Delay::from_us(20)).await;
        rig.fake.complete(qid, cid, ok, 0).await;
        rig.fake.complete(qid, cid, ok, 0).await;
        assert!(command.await.is_ok());
        rig.clock.sleep(Delay::from_us(20)).await;
        assert_eq!(driver.protocol_errors(), before + 1);
        let command = pair.submit(Flush.sqe(0, 1)).await.unwrap();
        rig.clock.sleep(Delay::from_us(20)).await;
        rig.fake.post(cqid, Cqe::new(command.cid(), ok, qid, 77)).await;
        assert!(command.await.is_ok());
        assert_eq!(driver.protocol_errors(), before + 2);
    });
}

// A dropped command must not free its identifier while the controller still uses it, nor keep it afterwards.
#[test]
fn an_abandoned_command_gives_its_identifier_back_when_it_completes() {
    run(|rig| async move {
        let (driver, pair) = pair(&rig, QueueConfig::new(4)).await;
        for _ in 0..10 {
            for _ in 0..3 {
                drop(pair.submit(Flush.sqe(0, 1)).await.unwrap());
            }
        }
        // Dropped while it waits for a slot, and while it waits for the processor.
        rig.fake.stopped.set(true);
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let pair = pair.clone();
            tasks.push(
                rig.clock.spawn("flush", async move { assert!(pair.execute(Flush.sqe(0, 1)).await.is_ok()) }),
            );
        }
        rig.clock.sleep(Delay::from_us(50)).await;
        tasks.into_iter().for_each(|task| rig.clock.kill(task));
        rig.fake.stopped.set(false);
        rig.fake.fetch(pair.qid());
        rig.clock.sleep(Delay::from_us(50)).await;
        assert_eq!((pair.outstanding(), pair.slots_free()), (0, 3));
        flood(&rig, &pair, 5, 10).await;
        assert_eq!(driver.protocol_errors(), 0);
    });
}

// The host's share of a latency must equal its profile, to the picosecond, and be charged to the host.
#[test]
fn the_hosts_time_is_charged() {
    run(|rig| async move {
        let costs = HostCosts {
            submit: Delay::from_ns(60),
            doorbell: Delay::from_ns(7),
            per_page: Delay::from_ns(11),
            complete: Delay::from_ns(90),
            interrupt: Delay::from_ns(500),
            ..HostCosts::default()
        };
        for (completion, vector, interrupted) in
            [(Completion::Polled, None, Delay::ZERO), (Completion::Interrupt, Some(1), costs.interrupt)]
        {
            let driver = rig.attach(DriverConfig { costs, completion, ..DriverConfig::default() }).await;
            let pair = driver.create_queue_pair(QueueConfig { vector, ..QueueConfig::new(8) }).await.unwrap();
            rig.clock.sleep(Delay::from_us(10)).await;
            let (host, spans) = match &rig.port {
                byteway_host::Port::Link(end) => (end, end.spans()),
                byteway_host::Port::Shared(_) | byteway_host::Port::Fabric(_) => unreachable!(),
            };
            let doorbells = || host.ledger().entry(Purpose::Doorbell, Direction::Down).payload;
            let (busy, rung) = (driver.cpu().busy(), doorbells());
            let span = spans.open(rig.now());
            let begin = rig.now();
            let mut request = Request::from(Flush.sqe(0, 1));
            (request.span, request.pages) = (span, 3);
            let command = pair.submit(request).await.unwrap();
            let submission = Delay::from_ns(60 + 7 + 3 * 11);
            assert_eq!(rig.now().since(begin), submission);
            command.await.unwrap();
            let record = spans.close(span);
            assert_eq!(record.last, rig.now());
            // The fake charges nothing, so all time since the submission is charged at the end.
            assert_eq!(record.stage(Stage::Host), rig.now().since(begin));
            rig.clock.sleep(Delay::from_us(10)).await;
            let spent = driver.cpu().busy().saturating_sub(busy);
            assert_eq!(spent, submission + interrupted + costs.complete + costs.doorbell);
            assert_eq!(doorbells() - rung, 8, "one doorbell for the command, one for its completion");
        }
    });
}

// Commands of several tasks share one processor: a saturated host limits throughput to what its costs allow.
#[test]
fn a_busy_processor_limits_throughput() {
    run(|rig| async move {
        let costs =
            HostCosts { submit: Delay::from_ns(600), complete: Delay::from_ns(400), ..HostCosts::default() };
        let driver = rig.attach(DriverConfig { costs, ..DriverConfig::default() }).await;
        let pair = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
        rig.fake.latency.set(Delay::from_ns(100));
        let begin = rig.now();
        flood(&rig, &pair, 32, 100).await;
        let passed = rig.now().since(begin).ps();
        let least = 3200 * 1_000_000;
        assert!(passed >= least && passed < least + least / 50, "{passed}");
        assert!(rig.now() > Time::ZERO);
    });
}
