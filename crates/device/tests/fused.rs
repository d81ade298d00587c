//! Fused operations (NVMe Base 2.1, 3.4.2): Compare and Write, whatever lies between, around and after the two commands.
//!
//! Cuts at every wait are in `cancellation.rs`; power cuts are the swarm's.

use crate::fixture::payload::INLINE;
use crate::fixture::{Bench, NS_4K, NS_512, Pair, TestHost, block_bytes, delete_sq, pattern, read_write};
use byteway_clock::random::Rng;
use byteway_clock::{Delay, Notify};
use byteway_firmware::Base;
use byteway_wire::FromBytes;
use byteway_wire::nvme::command::{FUSE_FIRST, FUSE_SECOND};
use byteway_wire::nvme::identify::fuses;
use byteway_wire::nvme::{
    Abort, AdminOpcode, Cns, Copy, CopyRange, DatasetManagement, Flush, IdentifyController, NvmOpcode,
    QueuePriority, Range, SetFeatures, Sqe, Status, WriteZeroes, fid,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const FAILED: Status = Status::ABORTED_FAILED_FUSED;
const MISSING: Status = Status::ABORTED_MISSING_FUSED;

/// A Compare of `bytes` that is the first of two.
fn compare(host: &TestHost, nsid: u32, slba: u64, bytes: &[u8]) -> Sqe {
    let mut sqe = host.write_sqe(nsid, slba, bytes).with_fuse(FUSE_FIRST);
    sqe.set_opcode(NvmOpcode::COMPARE);
    sqe
}

/// A Write of `bytes` that is the second of two.
fn write(host: &TestHost, nsid: u32, slba: u64, bytes: &[u8]) -> Sqe {
    host.write_sqe(nsid, slba, bytes).with_fuse(FUSE_SECOND)
}

/// Does both; gives how they ended. The completions come in the order of the commands.
async fn fused(host: &TestHost, pair: &Pair, first: Sqe, second: Sqe) -> [Status; 2] {
    let cids = [host.place(&pair.sq, first), host.place(&pair.sq, second)];
    host.ring_tail(&pair.sq);
    let mut statuses = [Status::SUCCESS; 2];
    for (cid, status) in cids.into_iter().zip(&mut statuses) {
        let cqe = host.next(&pair.cq).await;
        assert_eq!(
            (cqe.cid, cqe.sqid),
            (cid, pair.sq.id),
            "the completions are in the order of the commands"
        );
        *status = cqe.status();
    }
    statuses
}

/// A drive whose reads of flash take a millisecond, so that something can happen meanwhile; all of it was written.
fn slow() -> Bench {
    let mut bench = Bench::default();
    bench.drive.timing.read = vec![Delay::from_ms(1)];
    bench.drive.base = Base::Filled;
    bench
}

// VMware's locks, and every compare-and-swap over a drive, are this: to write what was not to be written is a lost lock.
#[test]
fn writes_if_equal_and_only_then() {
    Bench::default().with_queue(async |host, pair| {
        // Whole units, and parts of two units.
        for (nsid, slba, blocks) in [(NS_4K, 5, 1), (NS_4K, 8, 4), (NS_512, 7, 2), (NS_512, 17, 4)] {
            let bytes = blocks * block_bytes(nsid);
            let [old, new, other] = [1, 2, 3].map(|seed| pattern(seed, bytes));
            assert_eq!(host.write(&pair, nsid, slba, &old).await, Status::SUCCESS);
            let around = host.read(&pair, nsid, slba - 1, 1).await;
            let operation = async |expected: &[u8], new: &[u8]| {
                let first = compare(&host, nsid, slba, expected);
                fused(&host, &pair, first, write(&host, nsid, slba, new)).await
            };
            assert_eq!(operation(&old, &new).await, [Status::SUCCESS; 2]);
            assert_eq!(host.read(&pair, nsid, slba, blocks as u32).await, new);
            assert_eq!(operation(&old, &other).await, [Status::COMPARE_FAILURE, FAILED]);
            let mut nearly = new.clone();
            nearly[bytes - 1] ^= 1;
            assert_eq!(operation(&nearly, &other).await, [Status::COMPARE_FAILURE, FAILED]);
            assert_eq!(host.read(&pair, nsid, slba, blocks as u32).await, new);
            assert_eq!(host.read(&pair, nsid, slba - 1, 1).await, around);
        }
    });
}

// Two commands that are no Compare and Write, or too long, or not over the same blocks, would be half executed.
#[test]
fn what_is_no_compare_and_write_is_refused_whole() {
    Bench::default().with_queue(async |host, pair| {
        let page = host.identify(Cns::CONTROLLER, 0).await;
        let id = IdentifyController::read_from_bytes(&page).expect("a page is as long as its structure");
        assert_eq!(id.fuses, fuses::COMPARE_AND_WRITE);
        let most = u32::from(id.acwu) + 1;
        assert_eq!(most, 4, "the units of a stripe");
        let zeroes = vec![0; 4096];
        let invalid = [Status::INVALID_FIELD.with_dnr(); 2];
        let first = || compare(&host, NS_4K, 1, &zeroes);
        let second = || write(&host, NS_4K, 1, &pattern(1, 4096));
        let mut reads = first();
        reads.set_opcode(NvmOpcode::READ);
        let mut compares = second();
        compares.set_opcode(NvmOpcode::COMPARE);
        let elsewhere = write(&host, NS_4K, 2, &pattern(1, 4096));
        let longer = write(&host, NS_4K, 1, &pattern(1, 8192));
        let of_another = write(&host, NS_512, 1, &pattern(1, 512));
        for (first, second) in [
            (reads, second()),
            (first(), compares),
            (first(), elsewhere),
            (first(), longer),
            (first(), of_another),
            (second().with_fuse(FUSE_FIRST), second()),
        ] {
            assert_eq!(fused(&host, &pair, first, second).await, invalid, "{first:?} {second:?}");
        }
        // The first's own failure is the first's.
        let longest = vec![0; 4096 * (most as usize + 1)];
        let ends = [
            (
                compare(&host, NS_4K, 0, &longest),
                write(&host, NS_4K, 0, &longest),
                Status::ATOMIC_WRITE_UNIT_EXCEEDED,
            ),
            (Sqe { nsid: 9, ..first() }, Sqe { nsid: 9, ..second() }, Status::INVALID_FIELD),
            (Sqe { cdw11: 1, ..first() }, Sqe { cdw11: 1, ..second() }, Status::LBA_OUT_OF_RANGE),
            (first().with_prp(3, 0), second(), Status::PRP_OFFSET_INVALID),
        ];
        for (first, second, status) in ends {
            let ended = fused(&host, &pair, first, second).await;
            assert!(ended[0].is(status) && ended[1] == FAILED, "{first:?}: {ended:?}");
        }
        // The reserved value, and the admin queue.
        let reserved = host.io(&pair, first().with_fuse(0b11)).await;
        assert_eq!(reserved.status(), Status::INVALID_FIELD.with_dnr());
        for fuse in [FUSE_FIRST, FUSE_SECOND] {
            host.refused(Sqe::new(AdminOpcode::GET_FEATURES, 0, 0).with_fuse(fuse), Status::INVALID_FIELD)
                .await;
        }
        assert_eq!(host.read(&pair, NS_4K, 0, 8).await, vec![0; 8 * 4096], "nothing was written");
    });
}

// The Compare is a Compare, whatever becomes of the Write.
#[test]
fn a_write_that_fails_leaves_the_compare_as_it_is() {
    Bench::default().with_queue(async |host, pair| {
        let (old, other) = (pattern(1, 4096), pattern(2, 4096));
        assert_eq!(host.write(&pair, NS_4K, 1, &old).await, Status::SUCCESS);
        let hole = host.hole();
        let nowhere = write(&host, NS_4K, 1, &other).with_prp(hole, 0);
        let compared = fused(&host, &pair, compare(&host, NS_4K, 1, &old), nowhere).await;
        assert_eq!(compared[0], Status::SUCCESS);
        assert!(compared[1].is(Status::DATA_TRANSFER_ERROR), "{compared:?}");
        let compared = fused(&host, &pair, compare(&host, NS_4K, 1, &other), nowhere).await;
        assert_eq!(compared, [Status::COMPARE_FAILURE, FAILED]);
        let protect = |state| {
            SetFeatures { fid: fid::NAMESPACE_WRITE_PROTECTION, cdw11: state, ..SetFeatures::default() }
                .sqe(0, NS_4K)
        };
        host.succeed(protect(1)).await;
        let second = || write(&host, NS_4K, 1, &other);
        let compared = fused(&host, &pair, compare(&host, NS_4K, 1, &old), second()).await;
        assert_eq!(compared, [Status::SUCCESS, Status::NAMESPACE_WRITE_PROTECTED.with_dnr()]);
        let compared = fused(&host, &pair, compare(&host, NS_4K, 1, &other), second()).await;
        assert_eq!(compared, [Status::COMPARE_FAILURE, FAILED]);
        host.succeed(protect(0)).await;
        // Unreadable data is unequal to everything.
        let marred = read_write(NvmOpcode::WRITE_UNCORRECTABLE, NS_4K, 1, 1);
        assert_eq!(host.io(&pair, marred).await.status(), Status::SUCCESS);
        let compared = fused(&host, &pair, compare(&host, NS_4K, 1, &old), second()).await;
        assert_eq!(compared, [Status::UNRECOVERED_READ_ERROR, FAILED]);
    });
}

/// Expected status of each command of a sequence, by its FUSE.
fn expected(fuses: &[u8]) -> Vec<Status> {
    let is = |index: usize, fuse| fuses.get(index) == Some(&fuse);
    (0..fuses.len())
        .map(|index| match fuses[index] {
            // A first that follows a first is still a first; a second belongs to the entry before it alone.
            FUSE_FIRST if is(index + 1, FUSE_SECOND) => Status::SUCCESS,
            FUSE_SECOND if index > 0 && is(index - 1, FUSE_FIRST) => Status::SUCCESS,
            FUSE_FIRST | FUSE_SECOND => MISSING,
            _ => Status::SUCCESS,
        })
        .collect()
}

// Entries are read some at a time, by several readers, as slots and completion slots allow. Where a read ends must not
// decide what belongs together; and two queues that complete to one must not wait for each other.
#[test]
fn halves_find_each_other_wherever_reads_end() {
    for seed in 0..24 {
        let mut random = Rng::new(seed).stream("halves");
        let mut bench = Bench::default();
        bench.drive.controller.fetch_burst = [1, 2, 3, 4, 64][random.below(5) as usize];
        bench.drive.controller.fetch_outstanding = 1 + random.below(4) as u32;
        bench.drive.controller.command_slots = [1, 2, 3, 64][random.below(4) as usize];
        bench.drive.controller.arbitration_burst = [1, 2, 128][random.below(3) as usize];
        let cq_entries = [3, 4, 7, 64][random.below(4) as usize];
        if seed % 2 == 0 {
            // Reads of entries take their requests in several steps.
            (bench.link.mrrs, bench.link.read_tags) = (128, 4);
        }
        bench.enabled(async move |host| {
            let cq = host.create_cq(1, cq_entries, None).await;
            let mut queues = Vec::new();
            for id in 1..=3 {
                queues.push(host.create_sq(id, 9, &cq, QueuePriority::Urgent).await);
            }
            let zeroes = host.pages(1);
            for _ in 0..12 {
                let mut wanted = std::collections::BTreeMap::new();
                for pair in &queues {
                    let count = random.below(9) as usize;
                    let fuses: Vec<u8> =
                        (0..count).map(|_| [0, FUSE_FIRST, FUSE_SECOND][random.below(3) as usize]).collect();
                    for (fuse, status) in fuses.iter().zip(expected(&fuses)) {
                        let opcode = if *fuse == FUSE_SECOND { NvmOpcode::WRITE } else { NvmOpcode::COMPARE };
                        let sqe = read_write(opcode, NS_4K, pair.sq.id.into(), 1)
                            .with_prp(zeroes, 0)
                            .with_fuse(*fuse);
                        wanted.insert((pair.sq.id, host.place(&pair.sq, sqe)), status);
                    }
                    if count > 0 {
                        host.ring_tail(&pair.sq);
                    }
                }
                while !wanted.is_empty() {
                    let cqe = host.next(&cq).await;
                    let status = wanted.remove(&(cqe.sqid, cqe.cid)).expect("each completes once");
                    assert_eq!(cqe.status(), status, "seed {seed}, queue {}", cqe.sqid);
                }
            }
        });
    }
}

// In a queue with payload among its entries, the entry after a command may be none.
#[test]
fn payload_in_the_queue_is_no_half_and_has_none() {
    for fetch_burst in [1, 2, 3, 4, 64] {
        let mut bench = Bench::offering(INLINE);
        bench.drive.controller.fetch_burst = fetch_burst;
        bench.with_methods(64, async move |host, pair| {
            let zeroes = host.pages(1);
            let half = |opcode, fuse| read_write(opcode, NS_4K, 1, 1).with_prp(zeroes, 0).with_fuse(fuse);
            let (first, second) = (half(NvmOpcode::COMPARE, FUSE_FIRST), half(NvmOpcode::WRITE, FUSE_SECOND));
            let train = read_write(NvmOpcode::WRITE, NS_512, 3, 1);
            // Payload that looks like the other half.
            let payload = second.to_bytes().repeat(8);
            for _ in 0..3 {
                let mut wanted = Vec::new();
                let mut place = |sqe: Sqe, status| wanted.push((host.place(&pair.sq, sqe), status));
                place(first, Status::SUCCESS);
                place(second, Status::SUCCESS);
                place(first, MISSING);
                wanted.push((host.place_train(&pair.sq, train, &payload, false), Status::SUCCESS));
                let fused_train = host.place_train(&pair.sq, train.with_fuse(FUSE_FIRST), &payload, false);
                wanted.push((fused_train, Status::INVALID_FIELD.with_dnr()));
                let mut place = |sqe: Sqe, status| wanted.push((host.place(&pair.sq, sqe), status));
                place(second, MISSING);
                place(first, Status::SUCCESS);
                place(second, Status::SUCCESS);
                host.ring_tail(&pair.sq);
                for (index, (cid, status)) in wanted.into_iter().enumerate() {
                    let ended = host.completion(&pair.cq, cid).await.status();
                    assert_eq!(ended, status, "command {index} with a burst of {fetch_burst}");
                }
            }
        });
    }
}

// One doorbell write exposes both: a half that is exposed alone must end, not wait for what may never come.
#[test]
fn a_half_that_is_exposed_alone_ends() {
    Bench::default().with_queue(async |host, pair| {
        let zeroes = vec![0; 4096];
        for sqe in [compare(&host, NS_4K, 1, &zeroes), write(&host, NS_4K, 1, &zeroes)] {
            assert_eq!(host.io(&pair, sqe).await.status(), MISSING);
        }
        // A completion queue that can never hold both.
        let cq = host.create_cq(2, 2, None).await;
        let narrow = host.create_sq(2, 16, &cq, QueuePriority::Urgent).await;
        let ended =
            fused(&host, &narrow, compare(&host, NS_4K, 1, &zeroes), write(&host, NS_4K, 1, &zeroes)).await;
        assert_eq!(ended, [MISSING; 2]);
        assert_eq!(host.io(&narrow, Flush.sqe(0, NS_4K)).await.status(), Status::SUCCESS);
    });
}

/// A half that waits: its second is exposed, and has no completion slot. Gives the two identifiers.
async fn waiting_half(host: &TestHost) -> (Pair, [u16; 2]) {
    let cq = host.create_cq(2, 3, None).await;
    let pair = host.create_sq(2, 16, &cq, QueuePriority::Urgent).await;
    let zeroes = vec![0; 4096];
    let full = host.place(&pair.sq, Flush.sqe(0, NS_4K));
    let first = host.place(&pair.sq, compare(host, NS_4K, 1, &zeroes));
    let second = host.place(&pair.sq, write(host, NS_4K, 1, &pattern(1, 4096)));
    host.ring_tail(&pair.sq);
    host.sleep(Delay::from_us(100)).await;
    let cqe = host.look(&pair.cq).expect("the flush has completed");
    assert_eq!(cqe.cid, full);
    (pair, [first, second])
}

// A half that waits without a command slot must end in every way in which commands end.
#[test]
fn a_half_that_waits_can_be_ended() {
    // By the place that it waits for.
    Bench::default().enabled(async |host| {
        let (pair, cids) = waiting_half(&host).await;
        for cid in
            [0, cids[0], cids[1]].into_iter().enumerate().map(|(index, cid)| (index > 0).then_some(cid))
        {
            let cqe = host.next(&pair.cq).await;
            assert_eq!(cqe.status(), Status::SUCCESS);
            assert!(cid.is_none_or(|cid| cid == cqe.cid));
        }
        assert_eq!(host.read(&pair, NS_4K, 1, 1).await, pattern(1, 4096));
    });
    // By Abort; the other is then alone.
    Bench::default().enabled(async |host| {
        let (pair, [first, second]) = waiting_half(&host).await;
        assert_eq!(host.succeed(Abort { sqid: 2, cid: first }.sqe(0)).await, 0);
        assert_eq!(host.succeed(Abort { sqid: 2, cid: first }.sqe(0)).await, Abort::NOT_ABORTED);
        host.next(&pair.cq).await;
        assert_eq!(host.completion(&pair.cq, first).await.status(), Status::ABORT_REQUESTED);
        assert_eq!(host.completion(&pair.cq, second).await.status(), MISSING);
    });
    // By deletion of its queue, and by a reset.
    Bench::default().enabled(async |host| {
        let (pair, _) = waiting_half(&host).await;
        host.succeed(delete_sq(2)).await;
        host.next(&pair.cq).await;
        let sq = host.create_sq(2, 16, &pair.cq, QueuePriority::Urgent).await;
        while let Some(cqe) = host.take(&pair.cq) {
            assert_eq!(cqe.status(), Status::ABORTED_SQ_DELETED);
            host.ring_head(&pair.cq);
        }
        assert_eq!(host.io(&sq, Flush.sqe(0, NS_4K)).await.status(), Status::SUCCESS);
    });
    Bench::default().enabled(async |host| {
        waiting_half(&host).await;
        host.disable().await;
        assert!(host.drive().controller.is_quiet());
        host.enable().await;
        let pair = host.create_pair(1, 16).await;
        assert_eq!(host.read(&pair, NS_4K, 1, 1).await, vec![0; 4096]);
    });
}

/// A drive that reads 32 entries at a time, of which each two cross after others that wait, and take 20 us: a read of one entry that begins
/// later ends long before.
fn reads_overtake() -> Bench {
    let mut bench = Bench::default();
    let controller = &mut bench.drive.controller;
    (controller.fetch_burst, controller.fetch_outstanding, controller.arbitration_burst) = (32, 2, 128);
    (bench.link.mrrs, bench.link.read_tags, bench.link.memory_latency) = (128, 1, Delay::from_us(20));
    bench
}

/// A second half that waits: the read of its first, with 31 commands before it, goes on. Gives the two identifiers.
async fn waiting_second(host: &TestHost) -> (Pair, [u16; 2]) {
    let pair = host.create_pair(2, 64).await;
    let zeroes = vec![0; 4096];
    (0..31).for_each(|_| {
        host.place(&pair.sq, Flush.sqe(0, NS_4K));
    });
    let first = host.place(&pair.sq, compare(host, NS_4K, 1, &zeroes));
    let second = host.place(&pair.sq, write(host, NS_4K, 1, &pattern(1, 4096)));
    host.ring_tail(&pair.sq);
    host.sleep(Delay::from_us(100)).await;
    (pair, [first, second])
}

// The second half that is there before its first waits without a command slot, too, and must end in every way in which commands end.
#[test]
fn a_second_half_that_waits_can_be_ended() {
    // By its first.
    reads_overtake().enabled(async |host| {
        let (pair, cids) = waiting_second(&host).await;
        let ended = host.next_many(&pair.cq, 33).await;
        assert!(ended.iter().all(|cqe| cqe.status() == Status::SUCCESS), "{ended:?}");
        let ended: Vec<u16> = ended.iter().map(|cqe| cqe.cid).filter(|cid| cids.contains(cid)).collect();
        assert_eq!(ended, cids, "in the order of the commands");
        assert_eq!(host.read(&pair, NS_4K, 1, 1).await, pattern(1, 4096));
    });
    // By Abort, at once; the other is then alone.
    reads_overtake().enabled(async |host| {
        let (pair, [first, second]) = waiting_second(&host).await;
        assert_eq!(host.succeed(Abort { sqid: 2, cid: second }.sqe(0)).await, 0);
        let cqe = host.next(&pair.cq).await;
        assert_eq!((cqe.cid, cqe.status()), (second, Status::ABORT_REQUESTED), "before all others");
        assert_eq!(host.succeed(Abort { sqid: 2, cid: second }.sqe(0)).await, Abort::NOT_ABORTED);
        for cqe in host.next_many(&pair.cq, 32).await {
            assert_eq!(cqe.status(), if cqe.cid == first { MISSING } else { Status::SUCCESS });
        }
        assert_eq!(host.read(&pair, NS_4K, 1, 1).await, vec![0; 4096], "nothing was written");
    });
    // By deletion of its queue, and by a reset.
    reads_overtake().enabled(async |host| {
        let (pair, _) = waiting_second(&host).await;
        assert!(host.look(&pair.cq).is_none(), "the first read goes on");
        host.succeed(delete_sq(2)).await;
        let sq = host.create_sq(2, 16, &pair.cq, QueuePriority::Urgent).await;
        while let Some(cqe) = host.take(&pair.cq) {
            assert_eq!(cqe.status(), Status::ABORTED_SQ_DELETED);
            host.ring_head(&pair.cq);
        }
        assert_eq!(host.io(&sq, Flush.sqe(0, NS_4K)).await.status(), Status::SUCCESS);
        assert_eq!(host.read(&sq, NS_4K, 1, 1).await, vec![0; 4096]);
    });
    reads_overtake().enabled(async |host| {
        let (pair, _) = waiting_second(&host).await;
        assert!(host.look(&pair.cq).is_none(), "the first read goes on");
        host.disable().await;
        assert!(host.drive().controller.is_quiet());
        host.enable().await;
        let pair = host.create_pair(1, 16).await;
        assert_eq!(host.read(&pair, NS_4K, 1, 1).await, vec![0; 4096]);
    });
}

// Each command has an Abort of its own (NVMe Base 2.1, 3.4.2).
#[test]
fn each_of_the_two_can_be_aborted() {
    for is_second in [false, true] {
        slow().with_queue(async move |host, pair| {
            let old = host.read(&pair, NS_4K, 1, 1).await;
            let first = host.place(&pair.sq, compare(&host, NS_4K, 1, &old));
            let second = host.place(&pair.sq, write(&host, NS_4K, 1, &pattern(1, 4096)));
            host.ring_tail(&pair.sq);
            host.sleep(Delay::from_us(100)).await;
            let cid = if is_second { second } else { first };
            assert_eq!(host.succeed(Abort { sqid: 1, cid }.sqe(0)).await, 0);
            let ended =
                [first, second].map(|_| host.take(&pair.cq).expect("both are there when the Abort's is"));
            host.ring_head(&pair.cq);
            let statuses = match is_second {
                false => [Status::ABORT_REQUESTED, FAILED],
                true => [Status::SUCCESS, Status::ABORT_REQUESTED],
            };
            assert_eq!(ended.map(|cqe| cqe.status()), statuses);
            assert_eq!(host.read(&pair, NS_4K, 1, 1).await, old);
        });
    }
}

/// Every command that changes blocks, each over block 1 and its neighbours, and what it leaves in block 1.
fn changes(host: &TestHost, nsid: u32) -> Vec<(Sqe, Option<Vec<u8>>)> {
    let bytes = block_bytes(nsid);
    let zeroes = vec![0; bytes];
    let range = host.holding(&Range::new(0, 3).to_bytes());
    let source = host.holding(&CopyRange::new(64, 1).to_bytes());
    vec![
        (host.write_sqe(nsid, 1, &pattern(7, bytes)), Some(pattern(7, bytes))),
        (
            host.write_sqe(nsid, 0, &pattern(8, 16 * bytes)),
            Some(pattern(8, 16 * bytes)[bytes..2 * bytes].to_vec()),
        ),
        (WriteZeroes { slba: 1, ..WriteZeroes::default() }.sqe(0, nsid), Some(zeroes.clone())),
        (
            DatasetManagement { ad: true, ..DatasetManagement::default() }.sqe(0, nsid).with_prp(range, 0),
            Some(zeroes),
        ),
        (Copy { sdlba: 1, ..Copy::default() }.sqe(0, nsid).with_prp(source, 0), None),
        (read_write(NvmOpcode::WRITE_UNCORRECTABLE, nsid, 1, 1), None),
    ]
}

// Whatever another queue writes between the comparison and the write would be lost.
#[test]
fn nothing_comes_between_the_two() {
    for nsid in [NS_4K, NS_512] {
        slow().with_queue(async move |host, pair| {
            let other = host.create_pair(2, 16).await;
            for (index, (change, left)) in changes(&host, nsid).into_iter().enumerate() {
                // From flash, which takes a millisecond: the change comes while it is being compared.
                let old = pattern(20 + index as u64, block_bytes(nsid));
                assert_eq!(host.write(&pair, nsid, 1, &old).await, Status::SUCCESS);
                assert_eq!(host.io(&pair, Flush.sqe(0, nsid)).await.status(), Status::SUCCESS);
                let copied = host.read(&pair, nsid, 64, 1).await;
                let new = pattern(40 + index as u64, block_bytes(nsid));
                host.place(&pair.sq, compare(&host, nsid, 1, &old));
                host.place(&pair.sq, write(&host, nsid, 1, &new));
                host.ring_tail(&pair.sq);
                host.sleep(Delay::from_us(200)).await;
                assert_eq!(host.io(&other, change).await.status(), Status::SUCCESS, "change {index}");
                for cqe in host.next_many(&pair.cq, 2).await {
                    assert_eq!(cqe.status(), Status::SUCCESS, "change {index}");
                }
                let (status, held) = host.try_read(&pair, nsid, 1, 1, block_bytes(nsid)).await;
                if NvmOpcode(change.opcode()) == NvmOpcode::WRITE_UNCORRECTABLE {
                    assert!(status.is(Status::UNRECOVERED_READ_ERROR), "{status}");
                } else {
                    assert_eq!(held, left.unwrap_or(copied), "change {index} was lost");
                }
            }
        });
    }
}

// A lock that two hosts take at once is none: each value is replaced once.
#[test]
fn each_value_is_exchanged_once() {
    const QUEUES: u16 = 4;
    slow().enabled(async |host| {
        let taken = Rc::new(RefCell::new(std::collections::BTreeSet::new()));
        let (done, ended) = (Rc::new(Cell::new(0)), Rc::new(Notify::new(host.clock())));
        let mut pairs = Vec::new();
        for id in 1..=QUEUES {
            pairs.push(host.create_pair(id, 16).await);
        }
        assert_eq!(host.write(&pairs[0], NS_512, 7, &pattern(0, 1024)).await, Status::SUCCESS);
        for pair in pairs {
            let (taken, done, ended, own) = (taken.clone(), done.clone(), ended.clone(), host.clone());
            host.clock().spawn("exchanger", async move {
                for turn in 0..10 {
                    // To flash: what is compared there takes a millisecond, in which all others are comparing.
                    assert_eq!(own.io(&pair, Flush.sqe(0, NS_512)).await.status(), Status::SUCCESS);
                    let old = own.read(&pair, NS_512, 7, 2).await;
                    let new = pattern(1 + u64::from(pair.sq.id) * 1000 + turn, 1024);
                    let first = compare(&own, NS_512, 7, &old);
                    let statuses = fused(&own, &pair, first, write(&own, NS_512, 7, &new)).await;
                    if statuses[0] == Status::SUCCESS {
                        assert_eq!(statuses[1], Status::SUCCESS);
                        assert!(taken.borrow_mut().insert(old), "two have exchanged the same value");
                    } else {
                        assert_eq!(statuses, [Status::COMPARE_FAILURE, FAILED]);
                    }
                }
                done.set(done.get() + 1);
                ended.notify_one();
            });
        }
        while done.get() < QUEUES {
            ended.notified().await;
        }
        assert!(taken.borrow().len() >= 10, "{} exchanges", taken.borrow().len());
    });
}
