//! Rings as host and drive share them (NVMe Base 2.1, 3.3): wrap, phase, SQHD, full, shared, deleted.
//!
//! Not here: arbitration between queues, and deletion or reset at each wait of each command: they have files of their
//! own.

use crate::fixture::{
    Bench, LONG, NS_4K, Pair, TestHost, create_cq, create_sq, delete_cq, delete_sq, pattern, read_write,
};
use byteway_clock::Delay;
use byteway_firmware::Base;
use byteway_wire::nvme::{AsyncEvent, Cns, Cqe, Doorbell, Flush, NvmOpcode, QueuePriority, Sqe, Status};

/// A command that completes in a few microseconds.
fn quick() -> Sqe {
    Flush.sqe(0, NS_4K)
}

/// A drive whose reads of flash take a millisecond.
fn slow() -> Bench {
    let mut bench = Bench::default();
    bench.drive.timing.read = vec![Delay::from_ms(1)];
    bench.drive.base = Base::Filled;
    bench
}

fn read(host: &TestHost, lba: u64) -> Sqe {
    read_write(NvmOpcode::READ, NS_4K, lba, 1).with_prp(host.pages(1), 0)
}

// Rings of every awkward size, many times round: an index or a phase that is off by one stops the queue for good.
#[test]
fn rings_wrap_and_turn_the_phase() {
    for (sq_entries, cq_entries) in
        [(2, 2), (2, 3), (3, 2), (5, 7), (64, 64), (1024, 3), (2, 1024), (1000, 1000)]
    {
        Bench::default().enabled(async move |host| {
            let cq = host.create_cq(1, cq_entries, None).await;
            let pair = host.create_sq(1, sq_entries, &cq, QueuePriority::Urgent).await;
            let rounds = 3 * sq_entries.max(cq_entries) + 1;
            for round in 0..rounds {
                let cqe = host.io(&pair, quick()).await;
                assert_eq!(cqe.status(), Status::SUCCESS);
                assert_eq!(u32::from(cqe.sqhd), (round + 1) % sq_entries, "the head counts slots");
            }
        });
    }
}

// One doorbell for many commands, and batches that wrap: what a driver under load does.
#[test]
fn batches_are_fetched_whole() {
    for entries in [8, 10, 64] {
        Bench::default().enabled(async move |host| {
            let pair = host.create_pair(1, entries).await;
            for batch in 1..entries {
                let bytes = pattern(u64::from(batch), 4096);
                let mut cids: Vec<u16> = (0..batch)
                    .map(|index| host.place(&pair.sq, host.write_sqe(NS_4K, u64::from(index), &bytes)))
                    .collect();
                host.ring_tail(&pair.sq);
                let mut done: Vec<Cqe> = host.next_many(&pair.cq, batch as usize).await;
                assert!(done.iter().all(|cqe| cqe.status() == Status::SUCCESS && cqe.sqid == 1));
                assert_eq!(
                    u32::from(done.last().unwrap().sqhd),
                    pair.sq.tail.get(),
                    "all slots are free again"
                );
                done.sort_by_key(|cqe| cqe.cid);
                cids.sort_unstable();
                assert_eq!(done.iter().map(|cqe| cqe.cid).collect::<Vec<_>>(), cids, "each once");
                assert_eq!(host.read(&pair, NS_4K, u64::from(batch) - 1, 1).await, bytes);
            }
        });
    }
}

// A host that polls slowly must not lose completions: the drive waits, and continues when slots are free.
#[test]
fn a_full_completion_queue_holds_up_and_recovers() {
    for (cq_entries, at_once) in [(2, 1), (3, 2), (4, 3), (9, 8), (9, 1), (9, 5)] {
        Bench::default().enabled(async move |host| {
            let cq = host.create_cq(1, cq_entries, None).await;
            let pair = host.create_sq(1, 64, &cq, QueuePriority::Urgent).await;
            let cids: Vec<u16> = (0..40).map(|_| host.place(&pair.sq, quick())).collect();
            host.ring_tail(&pair.sq);
            let room = cq_entries as usize - 1;
            let admin = host.drive().controller.counters().posted.get();
            let mut done = Vec::new();
            for identified in 0.. {
                host.sleep(LONG).await;
                let posted = host.drive().controller.counters().posted.get() - admin - identified;
                assert_eq!(posted as usize, (done.len() + room).min(cids.len()), "as many as slots are free");
                if done.len() == cids.len() {
                    break;
                }
                for _ in 0..at_once {
                    done.extend(host.take(&pair.cq).map(|cqe| cqe.cid));
                }
                host.ring_head(&pair.cq);
                assert_eq!(host.identify(Cns::CONTROLLER, 0).await.len(), 4096, "other queues go on");
            }
            done.sort_unstable();
            assert_eq!(done, cids, "each once, none overwritten");
        });
    }
}

// The admin completion queue is a queue like any other.
#[test]
fn a_full_admin_completion_queue_holds_up_and_recovers() {
    Bench { admin_entries: 4, ..Bench::default() }.enabled(async |host| {
        let admin = host.admin_pair();
        let page = host.pages(1);
        let identify = byteway_wire::nvme::Identify { cns: Cns::CONTROLLER, ..Default::default() };
        for _ in 0..3 {
            host.submit(&admin.sq, identify.sqe(0, 0).with_prp(page, 0));
        }
        host.sleep(LONG).await;
        for _ in 0..3 {
            host.submit(&admin.sq, identify.sqe(0, 0).with_prp(page, 0));
        }
        host.sleep(LONG).await;
        for _ in 0..3 {
            assert!(host.take(&admin.cq).is_some());
        }
        assert!(host.look(&admin.cq).is_none(), "three fit");
        host.ring_head(&admin.cq);
        for _ in 0..3 {
            assert_eq!(host.next(&admin.cq).await.status(), Status::SUCCESS);
        }
    });
}

// Several submission queues to one completion queue: the entry says which one, and its head, not another's.
#[test]
fn submission_queues_share_a_completion_queue() {
    Bench::default().enabled(async |host| {
        let cq = host.create_cq(4, 6, None).await;
        let mut pairs = Vec::new();
        for (id, entries) in [(1, 8), (2, 16), (7, 32)] {
            pairs.push(host.create_sq(id, entries, &cq, QueuePriority::Urgent).await);
        }
        let mut expected = Vec::new();
        for round in 0..30 {
            for pair in &pairs {
                for _ in 0..(round + pair.sq.id) % 5 + 1 {
                    expected.push((pair.sq.id, host.place(&pair.sq, quick())));
                }
                host.ring_tail(&pair.sq);
            }
            let mut done = Vec::new();
            for cqe in host.next_many(&cq, expected.len()).await {
                assert_eq!(cqe.status(), Status::SUCCESS);
                let pair = pairs.iter().find(|pair| pair.sq.id == cqe.sqid).expect("one of the three");
                assert!(u32::from(cqe.sqhd) < pair.sq.entries, "its own queue's head");
                done.push((cqe.sqid, cqe.cid));
            }
            done.sort_unstable();
            expected.sort_unstable();
            assert_eq!(done, expected);
            expected.clear();
        }
        host.refused(delete_cq(4), Status::INVALID_QUEUE_DELETION).await;
        host.succeed(delete_sq(2)).await;
        assert_eq!(host.io(&pairs[0], quick()).await.status(), Status::SUCCESS, "the others go on");
        host.succeed(delete_sq(1)).await;
        host.refused(delete_cq(4), Status::INVALID_QUEUE_DELETION).await;
        host.succeed(delete_sq(7)).await;
        host.succeed(delete_cq(4)).await;
    });
}

// A command identifier is the host's, per queue: the same one in two queues is two commands.
#[test]
fn identifiers_belong_to_a_queue() {
    Bench::default().enabled(async |host| {
        let (first, second) = (host.create_pair(1, 8).await, host.create_pair(2, 8).await);
        let (mine, theirs) = (pattern(1, 4096), pattern(2, 4096));
        for (pair, lba, bytes) in [(&first, 1, &mine), (&second, 2, &theirs)] {
            host.place_as_is(&pair.sq, host.write_sqe(NS_4K, lba, bytes).with_cid(0));
            host.ring_tail(&pair.sq);
        }
        for pair in [&first, &second] {
            let cqe = host.next(&pair.cq).await;
            assert_eq!((cqe.cid, cqe.sqid, cqe.status()), (0, pair.sq.id, Status::SUCCESS));
        }
        assert_eq!(host.read(&first, NS_4K, 1, 2).await, [mine, theirs].concat());
    });
}

// Identifiers with gaps, and all of them: a drive that counts on 1, 2, 3 mixes queues up.
#[test]
fn many_queues_with_any_identifiers_work_at_once() {
    for ids in [vec![3], vec![8, 2, 5], vec![1, 2, 3, 4, 5, 6, 7, 8]] {
        Bench::default().enabled(async move |host| {
            let mut pairs = Vec::new();
            for (index, id) in ids.iter().enumerate() {
                let cq = host.create_cq(9 - id, 33, None).await;
                pairs.push(host.create_sq(*id, 20 + index as u32, &cq, QueuePriority::Urgent).await);
            }
            let bytes = |id: u16, index: u64| pattern(u64::from(id) * 1000 + index, 8192);
            for pair in &pairs {
                for index in 0..16 {
                    let lba = u64::from(pair.sq.id) * 100 + index * 2;
                    host.place(&pair.sq, host.write_sqe(NS_4K, lba, &bytes(pair.sq.id, index)));
                }
                host.ring_tail(&pair.sq);
            }
            for pair in &pairs {
                for cqe in host.next_many(&pair.cq, 16).await {
                    assert_eq!((cqe.status(), cqe.sqid), (Status::SUCCESS, pair.sq.id));
                }
            }
            for (reader, writer) in pairs.iter().zip(pairs.iter().cycle().skip(1)) {
                for index in 0..16 {
                    let lba = u64::from(writer.sq.id) * 100 + index * 2;
                    assert!(host.read(reader, NS_4K, lba, 2).await == bytes(writer.sq.id, index));
                }
            }
        });
    }
}

// The largest queue that CAP allows is what a server's driver asks for.
#[test]
fn queues_of_the_greatest_size_fill_to_the_last_entry() {
    Bench::default().enabled(async |host| {
        let pair = host.create_pair(1, 1024).await;
        for _ in 0..3 {
            for _ in 0..1023 {
                host.place(&pair.sq, quick());
            }
            host.ring_tail(&pair.sq);
            let done = host.next_many(&pair.cq, 1023).await;
            assert!(done.iter().all(|cqe| cqe.status() == Status::SUCCESS));
        }
    });
}

// A driver that tears a queue down frees its buffers next: every command must have ended, and none may come later.
#[test]
fn deleting_a_submission_queue_ends_its_commands_first() {
    slow().enabled(async |host| {
        let (pair, other) = (host.create_pair(1, 64).await, host.create_pair(2, 64).await);
        let cids: Vec<u16> = (0..40).map(|lba| host.place(&pair.sq, read(&host, lba))).collect();
        host.ring_tail(&pair.sq);
        let survivor = host.submit(&other.sq, read(&host, 100));
        host.sleep(Delay::from_us(20)).await;
        host.succeed(delete_sq(1)).await;
        let mut ended = Vec::new();
        while let Some(cqe) = host.take(&pair.cq) {
            assert!(
                matches!(cqe.status(), Status::SUCCESS | Status::ABORTED_SQ_DELETED),
                "{:?}",
                cqe.status()
            );
            ended.push((cqe.cid, cqe.status()));
        }
        host.ring_head(&pair.cq);
        assert!(ended.iter().any(|(_, status)| *status == Status::ABORTED_SQ_DELETED), "some were in flight");
        assert!(ended.iter().all(|(cid, _)| cids.contains(cid)));
        host.sleep(LONG).await;
        assert!(host.look(&pair.cq).is_none(), "nothing comes after the Delete");
        assert_eq!(
            host.completion(&other.cq, survivor).await.status(),
            Status::SUCCESS,
            "other queues go on"
        );

        // A new queue of the same identifier begins at its first slot, and completes to the same queue.
        let sq = host.new_sq(1, 16);
        host.succeed(create_sq(&sq, 1, QueuePriority::Urgent)).await;
        let again = Pair { sq, cq: pair.cq.clone() };
        for lba in 0..40 {
            assert_eq!(host.io(&again, read(&host, lba)).await.status(), Status::SUCCESS);
        }
    });
}

// With a full completion queue the aborted commands have their places reserved; those not fetched just go.
#[test]
fn a_queue_that_is_held_up_can_be_deleted() {
    Bench::default().enabled(async |host| {
        let cq = host.create_cq(1, 4, None).await;
        let pair = host.create_sq(1, 64, &cq, QueuePriority::Urgent).await;
        for _ in 0..30 {
            host.place(&pair.sq, quick());
        }
        host.ring_tail(&pair.sq);
        host.sleep(LONG).await;
        host.succeed(delete_sq(1)).await;
        host.succeed(delete_cq(1)).await;
        let pair = host.create_pair(1, 8).await;
        for _ in 0..20 {
            assert_eq!(host.io(&pair, quick()).await.status(), Status::SUCCESS);
        }
    });
}

// A doorbell of a queue that is gone belongs to none, and one of a new queue isn't the old one's.
#[test]
fn deleted_queues_have_no_doorbells() {
    Bench::default().enabled(async |host| {
        let pair = host.create_pair(1, 8).await;
        host.io(&pair, quick()).await;
        host.succeed(delete_sq(1)).await;
        host.succeed(delete_cq(1)).await;
        let fetched = host.drive().controller.counters().fetched.get();
        for doorbell in [Doorbell::SubmissionTail(1), Doorbell::CompletionHead(1)] {
            let request = host.request_event();
            host.sleep(Delay::from_us(20)).await;
            host.ring(doorbell, 3);
            let cqe = host.completion(&host.admin_pair().cq, request).await;
            assert_eq!(AsyncEvent::from_dw0(cqe.dw0), AsyncEvent::INVALID_DOORBELL_REGISTER);
            host.log(byteway_wire::nvme::lid::ERROR_INFORMATION, 0, 64).await;
        }
        assert_eq!(host.drive().controller.counters().fetched.get(), fetched + 4, "admin commands only");
    });
}

// A wrong doorbell value between right ones must not cost the queue a command or a completion.
#[test]
fn a_queue_survives_wrong_doorbells() {
    Bench::default().with_queue(async |host, pair| {
        for round in 0u32..200 {
            let cid = host.place(&pair.sq, quick());
            host.ring(Doorbell::SubmissionTail(1), 64 + round);
            host.ring(Doorbell::CompletionHead(1), pair.cq.head.get() + 5); // more than there is
            host.ring(Doorbell::CompletionHead(1), 64 + round);
            host.ring_tail(&pair.sq);
            host.ring_tail(&pair.sq); // the same again
            assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::SUCCESS);
        }
        host.sleep(LONG).await;
        assert!(host.look(&pair.cq).is_none());
    });
}

// Queues whose memory is not there: the drive must stop and say so, not write elsewhere; a reset repairs it.
#[test]
fn io_queues_outside_memory_are_a_fatal_status() {
    for wrong_sq in [true, false] {
        for address in [u64::MAX << 12, 0, 1 << 63] {
            Bench::default().enabled(async move |host| {
                let (sq, cq) = (host.new_sq(1, 1024), host.new_cq(1, 1024));
                let mut create = [create_cq(&cq, None), create_sq(&sq, 1, QueuePriority::Urgent)];
                create[usize::from(wrong_sq)].prp1 = address;
                for sqe in create {
                    host.succeed(sqe).await;
                }
                for _ in 0..1000 {
                    host.place(&sq, quick());
                }
                host.ring_tail(&sq);
                host.csts_until(|csts| csts.cfs()).await;
                host.disable().await;
                host.enable().await;
                let pair = host.create_pair(1, 16).await;
                assert_eq!(host.io(&pair, quick()).await.status(), Status::SUCCESS);
            });
        }
    }
}
