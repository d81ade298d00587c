//! Results after a completion, and results that are rounded up to DMA units.
//!
//! Verified: every byte and every phase tag, at every place in the ring; that a result which has no free space goes by its data
//! pointer; that entries and results of several queues that complete to one are never mixed; what a reset, a deletion
//! and an Abort give back; the ledger.

use crate::fixture::{Bench, Cq, NS_4K, NS_512, PAGE, Pair, TestHost, delete_sq, pattern, read_write};
use byteway_clock::Delay;
use byteway_firmware::WorkKind;
use byteway_link::{Direction, Purpose};
use byteway_transfer::result::Joining;
use byteway_wire::nvme::feature::InterruptCoalescing;
use byteway_wire::nvme::vendor::{Methods, ResultSlot, Sink};
use byteway_wire::nvme::{
    Abort, Cqe, Flush, NvmOpcode, QueuePriority, SglDescriptor, Sqe, Status, VendorOpcode, fid,
};

const BEHIND: Methods = Methods::new().with_inline_result(true);
const ROUNDED: Methods = Methods::new().with_rounded_results(true);
/// Fill byte of memory that no data must reach.
const UNTOUCHED: u8 = 0x5c;

/// A Sink Read whose result may come after its completion; else it goes to `address`.
fn sink_read(offset: u64, bytes: u32, address: u64) -> Sqe {
    let sqe = Sink { offset, bytes }.sqe(VendorOpcode::SINK_READ, 0, 1).with_prp(address, 0);
    Sqe { cdw2: Sink::INLINE_RESULT, ..sqe }
}

/// A page that holds [`UNTOUCHED`].
fn page(host: &TestHost) -> u64 {
    host.holding(&[UNTOUCHED; PAGE as usize])
}

/// Consumes the slots after a completion, which are all there with it; writes no doorbell.
fn take_result(host: &TestHost, cq: &Cq, bytes: u32) -> Vec<u8> {
    let mut joining = Joining::new(bytes);
    let mut result = Vec::new();
    while joining.missing() > 0 {
        let slot = host.take(cq).expect("a result arrives with its completion, phases right");
        joining.add(&ResultSlot::from_bytes(&slot.to_bytes()), &mut result).expect("the part that is due");
    }
    result
}

/// Waits for a completion with its result, and rings for both.
async fn next_result(host: &TestHost, cq: &Cq) -> (Cqe, Vec<u8>) {
    let cqe = host.next_quietly(cq).await;
    let result = take_result(host, cq, if cqe.status() == Status::SUCCESS { cqe.dw1 } else { 0 });
    host.ring_head(cq);
    (cqe, result)
}

/// A queue pair with `sq_entries` and `cq_entries`, results enabled.
async fn create(host: &TestHost, id: u16, sq_entries: u32, cq_entries: u32, vector: Option<u16>) -> Pair {
    let cq = host.create_cq(id, cq_entries, vector).await;
    let pair = host.create_sq(id, sq_entries, &cq, QueuePriority::Urgent).await;
    host.enable_methods(&pair, BEHIND).await;
    pair
}

/// Fills the sink.
async fn fill(host: &TestHost, pair: &Pair) -> Vec<u8> {
    let held = pattern(77, 8192);
    let sqe = host.sink_write(0, &held);
    host.submit(&pair.sq, sqe);
    assert_eq!(host.next(&pair.cq).await.status(), Status::SUCCESS);
    held
}

fn fallbacks(host: &TestHost) -> u64 {
    host.drive().controller.counters().results_fallen_back.get()
}

// A slot with the phase of the pass before, or one that is written past the ring's end, is a result that the host never
// sees, or memory that is not the queue's.
#[test]
fn results_of_every_length_arrive_at_every_place() {
    for cq_entries in [12, 16, 17] {
        Bench::offering(BEHIND).enabled(async move |host| {
            let pair = create(&host, 1, 16, cq_entries, None).await;
            let held = fill(&host, &pair).await;
            let target = page(&host);
            let guard = pair.cq.base + u64::from(cq_entries) * 16;
            host.poke(guard, &[UNTOUCHED; 64]);
            // As each result moves on by another number of slots, each length begins at each place.
            for round in 0..u64::from(cq_entries) {
                for bytes in [1, 13, 14, 15, 28, 29, 100, 126, 127, 140] {
                    host.submit(&pair.sq, sink_read(round + 3, bytes, target));
                    let (cqe, result) = next_result(&host, &pair.cq).await;
                    assert_eq!((cqe.status(), cqe.dw1), (Status::SUCCESS, bytes));
                    let at = round as usize + 3;
                    assert!(result == held[at..at + bytes as usize], "{bytes} bytes, round {round}");
                    assert_eq!(cqe.dw0, crc32c::crc32c(&result));
                }
                // A completion without a result shifts all by one.
                host.submit(&pair.sq, Flush.sqe(0, NS_4K));
                assert_eq!(next_result(&host, &pair.cq).await.0.status(), Status::SUCCESS);
            }
            assert_eq!(host.peek(guard, 64), [UNTOUCHED; 64], "nothing behind the ring's end");
            assert_eq!(host.peek(target, 4096), [UNTOUCHED; 4096], "nothing by the data pointer");
            assert_eq!(fallbacks(&host), 0);
        });
    }
}

// A result that waited for free slots would hold up its command for as long as the host likes; one that took it would
// overwrite completions.
#[test]
fn without_room_the_result_goes_by_the_data_pointer() {
    // 12 entries hold 11 slots: a result of 140 bytes takes all of them, one of `before` others none less.
    for before in 0..=11u32 {
        Bench::offering(BEHIND).enabled(async move |host| {
            let pair = create(&host, 1, 32, 12, None).await;
            let held = fill(&host, &pair).await;
            let target = page(&host);
            for _ in 0..before {
                host.submit(&pair.sq, Flush.sqe(0, NS_4K));
            }
            host.sleep(Delay::from_us(50)).await;
            let bytes = 98; // 7 slots and the completion
            host.submit(&pair.sq, sink_read(5, bytes, target));
            host.sleep(Delay::from_us(50)).await;
            for _ in 0..before {
                assert_eq!(host.take(&pair.cq).expect("it was there before").status(), Status::SUCCESS);
            }
            if before > 0 {
                host.ring_head(&pair.cq);
            }
            let (cqe, result) = next_result(&host, &pair.cq).await;
            let expected = &held[5..5 + bytes as usize];
            assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(expected)));
            // With 11 there is no free space for the completion either: it is fetched when there is.
            let has_room = before <= 3 || before == 11;
            assert_eq!((cqe.dw1, fallbacks(&host)), if has_room { (bytes, 0) } else { (0, 1) }, "{before}");
            match has_room {
                true => assert!(result == expected),
                false => assert!(host.peek(target, bytes as usize) == expected),
            }
        });
    }
}

// Slots that two results were promised at once are slots that one of them does not have.
#[test]
fn results_under_way_at_once_share_the_room() {
    Bench::offering(BEHIND).enabled(async |host| {
        let pair = create(&host, 1, 64, 64, None).await;
        let held = fill(&host, &pair).await;
        let targets: Vec<_> = (0..20).map(|_| page(&host)).collect();
        let mut cids = Vec::new();
        for (which, target) in targets.iter().enumerate() {
            cids.push(host.place(&pair.sq, sink_read(which as u64, 70, *target)));
        }
        host.ring_tail(&pair.sq);
        let mut behind = 0;
        for _ in 0..20 {
            let (cqe, mut result) = next_result(&host, &pair.cq).await;
            let which = cids.iter().position(|cid| *cid == cqe.cid).expect("one of these");
            behind += u64::from(cqe.dw1 > 0);
            if cqe.dw1 == 0 {
                result = host.peek(targets[which], 70);
            }
            assert_eq!(cqe.status(), Status::SUCCESS);
            assert!(result == held[which..which + 70]);
        }
        assert!(behind > 0 && behind < 20, "some find free slots and some do not: {behind}");
        assert_eq!(fallbacks(&host), 20 - behind);
    });
}

// Two queues that complete to one: an entry among the parts of another's result would be taken for one of them.
#[test]
fn results_on_a_shared_completion_queue_are_not_interleaved() {
    let mut bench = Bench::offering(BEHIND);
    bench.drive.controller.command_slots = 8;
    bench.enabled(async |host| {
        let first = create(&host, 1, 64, 40, Some(1)).await;
        let second = host.create_sq(2, 64, &first.cq, QueuePriority::Urgent).await;
        host.enable_methods(&second, BEHIND).await;
        let held = fill(&host, &first).await;
        let target = page(&host);
        for round in 0..30 {
            for which in 0..8 {
                let bytes = 1 + (round * 8 + which) % 60;
                host.place(&first.sq, sink_read(0, bytes, target));
                host.place(&second.sq, Flush.sqe(0, NS_4K));
                host.place(&second.sq, sink_read(0, 60 - bytes, target));
            }
            host.ring_tail(&first.sq);
            host.ring_tail(&second.sq);
            for _ in 0..24 {
                let (cqe, result) = next_result(&host, &first.cq).await;
                assert_eq!(cqe.status(), Status::SUCCESS);
                assert!((1..=2).contains(&cqe.sqid));
                assert!(result == held[..cqe.dw1 as usize]);
            }
        }
    });
}

// A result that counted as several completions would have the vector announce too early, or too often.
#[test]
fn a_result_is_one_completion_to_coalescing() {
    Bench::offering(BEHIND).enabled(async |host| {
        let pair = create(&host, 1, 64, 64, Some(1)).await;
        let held = fill(&host, &pair).await;
        host.sleep(Delay::from_us(10)).await; // what was announced of that
        let (target, messages) = (page(&host), host.listen(1));
        let threshold = InterruptCoalescing::new().with_thr_z(3).with_time(100);
        host.set_feature(fid::INTERRUPT_COALESCING, threshold.into_bits()).await;
        for which in 1..=8 {
            host.submit(&pair.sq, sink_read(0, 42, target));
            host.sleep(Delay::from_us(50)).await;
            assert_eq!(messages.get(), which / 4, "after {which}");
        }
        for _ in 0..8 {
            let (cqe, result) = next_result(&host, &pair.cq).await;
            assert_eq!(cqe.status(), Status::SUCCESS);
            assert!(result == held[..42]);
        }
    });
}

// A host that has not enabled it would read parts of results as completions.
#[test]
fn a_result_comes_behind_only_where_it_is_wanted() {
    Bench::offering(BEHIND).with_queue(async |host, pair| {
        let held = fill(&host, &pair).await;
        // The queue, the command, and the length must allow it.
        for (enabled, flag, bytes, behind) in [
            (false, 1, 14, false),
            (true, 0, 14, false),
            (true, 1, 141, false),
            (true, 1, 0, false),
            (true, 1, 140, true),
        ] {
            host.enable_methods(&pair, if enabled { BEHIND } else { Methods::new() }).await;
            let target = page(&host);
            host.submit(&pair.sq, Sqe { cdw2: flag, ..sink_read(9, bytes, target) });
            let (cqe, result) = next_result(&host, &pair.cq).await;
            let expected = &held[9..9 + bytes as usize];
            assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(expected)));
            assert_eq!(cqe.dw1, if behind { bytes } else { 0 });
            let found = if behind { result } else { host.peek(target, bytes as usize) };
            assert!(found == expected, "{enabled}, {flag}, {bytes}");
        }
        assert_eq!(fallbacks(&host), 1, "the one that was too long");
        // A failed command has no result.
        host.submit(&pair.sq, sink_read(u64::MAX, 14, page(&host)));
        let (cqe, _) = next_result(&host, &pair.cq).await;
        assert_eq!((cqe.status(), cqe.dw1), (Status::LBA_OUT_OF_RANGE.with_dnr(), 0));
    });
}

// Places that an ended command kept would make the queue smaller, until nothing is fetched any more.
#[test]
fn room_that_was_reserved_comes_back_however_the_command_ends() {
    for way in 0..3 {
        let mut bench = Bench::offering(BEHIND);
        // It is reserved before DRAM is read, which takes its time.
        bench.drive.site.dram_latency = Delay::from_us(100);
        bench.drive.site.cycles = bench.drive.site.cycles.with(WorkKind::Complete, 20_000);
        bench.enabled(async move |host| {
            let pair = create(&host, 1, 64, 24, None).await;
            let held = fill(&host, &pair).await;
            for _ in 0..10 {
                let target = page(&host);
                let cid = host.submit(&pair.sq, sink_read(0, 140, target));
                host.sleep(Delay::from_us(50)).await;
                if way == 0 {
                    host.admin(Abort { sqid: 1, cid }.sqe(0)).await;
                    let (cqe, _) = next_result(&host, &pair.cq).await;
                    assert_eq!(cqe.status(), Status::ABORT_REQUESTED);
                }
                if way > 0 {
                    break;
                }
            }
            let pair = match way {
                0 => pair,
                1 => {
                    host.succeed(delete_sq(1)).await;
                    let (cqe, _) = next_result(&host, &pair.cq).await;
                    assert_eq!(cqe.status(), Status::ABORTED_SQ_DELETED);
                    let pair = host.create_sq(1, 64, &pair.cq, QueuePriority::Urgent).await;
                    host.enable_methods(&pair, BEHIND).await;
                    pair
                }
                _ => {
                    host.disable().await;
                    assert!(host.drive().controller.is_quiet());
                    host.enable().await;
                    create(&host, 1, 64, 24, None).await
                }
            };
            let target = page(&host);
            for _ in 0..3 {
                host.submit(&pair.sq, sink_read(0, 140, target));
                let (cqe, result) = next_result(&host, &pair.cq).await;
                assert_eq!((cqe.dw1, cqe.dw0), (140, crc32c::crc32c(&held[..140])));
                assert!(result == held[..140]);
            }
            assert_eq!(fallbacks(&host), 0);
        });
    }
}

// A completion that is entered as data, or data as a completion, falsifies every figure of traffic.
#[test]
fn the_ledger_tells_results_from_completions() {
    Bench::offering(BEHIND).enabled(async |host| {
        let pair = create(&host, 1, 16, 64, None).await;
        fill(&host, &pair).await;
        let target = page(&host);
        // At 140 bytes 11 slots lie in one write of 176 bytes.
        for (bytes, slots) in [(1, 1), (14, 1), (15, 2), (140, 10)] {
            let before = host.end().ledger().snapshot();
            host.submit(&pair.sq, sink_read(0, bytes, target));
            next_result(&host, &pair.cq).await;
            let crossed = host.end().ledger().since(&before);
            let (entry, data) =
                (crossed.entry(Purpose::Cqe, Direction::Up), crossed.entry(Purpose::Data, Direction::Up));
            assert_eq!((entry.payload, data.payload, data.tlps), (16, slots * 16, 0), "{bytes} bytes");
            assert_eq!(entry.wire + data.wire, (1 + slots) * 16 + entry.tlps * 24, "{bytes} bytes");
        }
    });
}

// A shared queue's memory that has gone is a fatal error, no panic.
#[test]
fn results_into_memory_that_is_not_there_are_fatal() {
    let bench = Bench { ends_quiet: false, ..Bench::offering(BEHIND) };
    bench.enabled(async |host| {
        let pair = create(&host, 1, 16, 16, None).await;
        let target = page(&host);
        host.memory().free(pair.cq.base, 1);
        host.submit(&pair.sq, sink_read(0, 14, target));
        host.csts_until(|csts| csts.cfs()).await;
        host.disable().await;
    });
}

// Rounding that leaves the page writes over what is not the host's buffer; without rounding where it was agreed to, a
// board that can't do better would be modelled as one that can.
#[test]
fn results_by_prp_are_rounded_up_where_the_host_allows() {
    for granularity in [1, 64, 512, 4096] {
        let mut bench = Bench::offering(ROUNDED);
        bench.drive.controller.dma_granularity = granularity;
        bench.drive.controller.sgl = true;
        bench.with_queue(async move |host, pair| {
            let held = fill(&host, &pair).await;
            for enabled in [false, true] {
                host.enable_methods(&pair, if enabled { ROUNDED } else { Methods::new() }).await;
                for (at, bytes) in [(0, 1), (0, 64), (0, 65), (100, 500), (4000, 96), (4000, 60), (512, 4000)]
                {
                    let first = host.holding(&[UNTOUCHED; 3 * PAGE as usize]);
                    let (prp1, prp2) = host.prp(first + at, bytes);
                    let sqe = Sink { offset: 0, bytes: bytes as u32 }.sqe(VendorOpcode::SINK_READ, 0, 1);
                    let before = host.end().ledger().snapshot();
                    let cqe = host.io(&pair, sqe.with_prp(prp1, prp2)).await;
                    assert_eq!(cqe.dw0, crc32c::crc32c(&held[..bytes as usize]));
                    let end = at + bytes;
                    let rounded = if enabled { end.next_multiple_of(granularity.into()) } else { end };
                    let mut expected = vec![UNTOUCHED; 3 * PAGE as usize];
                    expected[at as usize..end as usize].copy_from_slice(&held[..bytes as usize]);
                    expected[end as usize..rounded as usize].fill(0);
                    let found = host.peek(first, expected.len());
                    assert!(found == expected, "{bytes} bytes at {at} in units of {granularity}, {enabled}");
                    let data = host.end().ledger().since(&before).entry(Purpose::Data, Direction::Up);
                    assert_eq!(data.payload, rounded - at);
                }
                // An SGL says exactly what is the host's.
                let target = page(&host);
                let sqe = Sink { offset: 0, bytes: 65 }.sqe(VendorOpcode::SINK_READ, 0, 1);
                host.io(&pair, sqe.with_sgl(SglDescriptor::data_block(target, 65))).await;
                assert_eq!(host.peek(target + 65, 100), [UNTOUCHED; 100]);
            }
        });
    }
}

// Blocks are results too: of 512 bytes, a board of whole pages sends a page.
#[test]
fn blocks_by_prp_are_rounded_up_too() {
    let mut bench = Bench::offering(ROUNDED);
    bench.drive.controller.dma_granularity = 4096;
    bench.with_methods(64, async |host, pair| {
        let payload = pattern(5, 1024);
        assert_eq!(host.write(&pair, NS_512, 3, &payload).await, Status::SUCCESS);
        for (at, padding) in [(0, 3072), (1024, 2048), (3072, 0), (3584, 3584)] {
            let first = host.holding(&[UNTOUCHED; 3 * PAGE as usize]);
            let (prp1, prp2) = host.prp(first + at, 1024);
            let sqe = read_write(NvmOpcode::READ, NS_512, 3, 2).with_prp(prp1, prp2);
            assert_eq!(host.io(&pair, sqe).await.status(), Status::SUCCESS);
            let mut expected = vec![UNTOUCHED; 3 * PAGE as usize];
            let end = at as usize + 1024;
            expected[at as usize..end].copy_from_slice(&payload);
            expected[end..end + padding].fill(0);
            assert!(host.peek(first, expected.len()) == expected, "at {at}");
        }
    });
}
