//! Payload in chunks: of any submission queue, in any order, before or after their command.
//!
//! Verified: every byte that arrives; what is refused, and with what status; that a payload which is not complete ends,
//! in each of the ways in which it may, and leaves nothing behind; that nothing waits for a slot that a waiting command
//! holds; ledger and time. Orders and contradictions of all kinds are tested where payloads are put together, in
//! `byteway-transfer`.

use crate::fixture;
use crate::fixture::payload::{INLINE, PAYLOAD_BYTES_MAX, set_methods, sink_write};
use crate::fixture::{Bench, NS_4K, NS_512, Pair, Sq, TestHost, delete_sq, pattern, read_write};
use byteway_clock::Delay;
use byteway_clock::random::Rng;
use byteway_device::TransferConfig;
use byteway_firmware::{Cycles, WorkKind};
use byteway_link::{Direction, Purpose};
use byteway_transfer::reassembly::Chunked;
use byteway_wire::nvme::vendor::{Chunk, Methods, reassembled_descriptor};
use byteway_wire::nvme::{
    Abort, Cqe, DatasetManagement, Flush, NvmOpcode, QueuePriority, Range, Sqe, Status, VendorOpcode,
};
use std::collections::BTreeMap;

const CHUNKS: Methods = Methods::new().with_reassembly(true);
/// The first identifier of payloads, as hosts use them.
const ID: u16 = 0x8000;
/// After this, what is incomplete was given up.
const TIMED_OUT: Delay = Delay::from_ms(6);

fn flush() -> Sqe {
    Flush.sqe(0, NS_4K)
}

fn cut(id: u16, payload: &[u8]) -> Chunked {
    Chunked { id, bytes: payload.len() as u32 }
}

/// Places chunk `index` of `payload`; writes no doorbell.
fn place_chunk(host: &TestHost, sq: &Sq, id: u16, payload: &[u8], index: u32, completes: bool) {
    let cut = cut(id, payload);
    host.place_as_is(sq, cut.entry(index, &payload[cut.range(index)], completes));
}

fn place_chunks(host: &TestHost, sq: &Sq, id: u16, payload: &[u8]) {
    (0..cut(id, payload).count()).for_each(|index| place_chunk(host, sq, id, payload, index, false));
}

/// A Sink Write to `offset` whose payload comes in chunks.
fn command(id: u16, offset: u64, payload: &[u8]) -> Sqe {
    cut(id, payload).placed_in(sink_write(offset, payload.len() as u32))
}

/// Submits the command alone, and lets it begin to wait.
async fn wait_for_chunks(host: &TestHost, pair: &Pair, id: u16, payload: &[u8]) -> u16 {
    let cid = host.submit(&pair.sq, command(id, 0, payload));
    host.sleep(Delay::from_us(20)).await;
    cid
}

/// Submits chunks and command, and looks into the sink.
async fn carry(host: &TestHost, pair: &Pair, id: u16, seed: u64, bytes: usize) {
    let payload = pattern(seed, bytes);
    place_chunks(host, &pair.sq, id, &payload);
    let cqe = host.io(pair, command(id, seed, &payload)).await;
    assert_eq!((cqe.status(), cqe.dw1), (Status::SUCCESS, 0), "{bytes} bytes");
    assert_eq!(cqe.dw0, crc32c::crc32c(&payload), "the checksum of {bytes} bytes");
    assert!(host.sink_read(pair, seed, bytes as u32).await == payload, "{bytes} bytes");
}

async fn status_of(host: &TestHost, pair: &Pair, cid: u16) -> Status {
    host.completion(&pair.cq, cid).await.status()
}

// Padding that is taken for payload, or a chunk that lands at another's place, is silent corruption.
#[test]
fn payloads_of_every_length_and_order_arrive() {
    for fetch_burst in [1, 4, 64] {
        for command_slots in [1, 64] {
            let mut bench = Bench::offering(CHUNKS);
            bench.drive.controller.fetch_burst = fetch_burst;
            bench.drive.controller.command_slots = command_slots;
            bench.with_methods(128, async |host, pair| {
                for bytes in [0, 1, 55, 56, 57, 112, 113, 1000, 4095, 4096] {
                    carry(&host, &pair, ID, bytes, bytes as usize).await;
                    // The command somewhere among its chunks, which come backwards.
                    let payload = pattern(bytes + 1, bytes as usize);
                    let count = cut(ID, &payload).count();
                    let at = (bytes % 5) as u32 * count / 4;
                    let mut cid = None;
                    for index in (0..count).rev() {
                        if index + 1 == at {
                            cid = Some(host.place(&pair.sq, command(ID, 5, &payload)));
                        }
                        place_chunk(&host, &pair.sq, ID, &payload, index, false);
                    }
                    let cid = cid.unwrap_or_else(|| host.place(&pair.sq, command(ID, 5, &payload)));
                    host.ring_tail(&pair.sq);
                    let cqe = host.completion(&pair.cq, cid).await;
                    assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(&payload)));
                    assert!(host.sink_read(&pair, 5, bytes as u32).await == payload);
                }
            });
        }
    }
}

// A controller that keeps payloads queue by queue, or one at a time, would wait for chunks that have come.
#[test]
fn chunks_of_several_payloads_come_by_several_queues() {
    let mut bench = Bench::offering(CHUNKS);
    bench.drive.controller.command_slots = 2;
    bench.with_methods(64, async |host, first| {
        let mut pairs = vec![first];
        for id in 2..=4 {
            let pair = host.create_pair(id, 64).await;
            host.enable_methods(&pair, CHUNKS).await;
            pairs.push(pair);
        }
        let mut random = Rng::new(7).stream("chunks");
        for round in 0..20 {
            let payloads: Vec<_> =
                (0..6).map(|which| pattern(round * 6 + which, 1 + random.below(500) as usize)).collect();
            let mut parts: Vec<_> = payloads
                .iter()
                .zip(ID..)
                .flat_map(|(payload, id)| {
                    (0..cut(id, payload).count()).map(Some).chain([None]).map(move |part| (id, part))
                })
                .collect();
            let mut cids = BTreeMap::new();
            while !parts.is_empty() {
                let (id, part) = parts.swap_remove(random.below(parts.len() as u64) as usize);
                let which = usize::from(id - ID);
                let pair = &pairs[random.below(4) as usize];
                match part {
                    Some(index) => place_chunk(&host, &pair.sq, id, &payloads[which], index, false),
                    None => {
                        let sqe = command(id, which as u64 * 1000, &payloads[which]);
                        cids.insert(which, (pair, host.place(&pair.sq, sqe)));
                    }
                }
                if random.below(4) == 0 {
                    host.ring_tail(&pair.sq);
                    host.sleep(Delay::from_ns(random.below(3000))).await;
                }
            }
            for pair in &pairs {
                host.ring_tail(&pair.sq);
            }
            for (which, (pair, cid)) in cids {
                let cqe = host.completion(&pair.cq, cid).await;
                assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(&payloads[which])));
                let bytes = payloads[which].len() as u32;
                assert!(host.sink_read(pair, which as u64 * 1000, bytes).await == payloads[which]);
            }
        }
    });
}

// Every command with data to the controller can use this method; otherwise a host could not use it for block
// I/O.
#[test]
fn any_command_with_data_to_the_controller_takes_chunks() {
    Bench::offering(CHUNKS).with_methods(128, async |host, pair| {
        let payload = pattern(3, 4096);
        for nsid in [NS_512, NS_4K] {
            let blocks = (4096 / fixture::block_bytes(nsid)) as u32;
            for opcode in [NvmOpcode::WRITE, NvmOpcode::COMPARE] {
                place_chunks(&host, &pair.sq, ID, &payload);
                let sqe = cut(ID, &payload).placed_in(read_write(opcode, nsid, 8, blocks));
                assert_eq!(host.io(&pair, sqe).await.status(), Status::SUCCESS, "{opcode:?}");
            }
            assert!(host.read(&pair, nsid, 8, blocks).await == payload);
        }
        let range = Range { length: 1, slba: 8, ..Range::default() };
        let bytes = byteway_wire::IntoBytes::as_bytes(&range).to_vec();
        place_chunks(&host, &pair.sq, ID, &bytes);
        let sqe = DatasetManagement { nr_z: 0, ad: true, ..DatasetManagement::default() }.sqe(0, NS_4K);
        assert_eq!(host.io(&pair, cut(ID, &bytes).placed_in(sqe)).await.status(), Status::SUCCESS);
        assert!(host.read(&pair, NS_4K, 8, 1).await == [0; 4096]);
    });
}

// A waiting command that held a slot, or a read of entries, would stop everything once there are as many as slots: also the
// chunks that it waits for.
#[test]
fn what_waits_holds_neither_slots_nor_reads() {
    let mut bench = Bench::offering(CHUNKS);
    bench.drive.controller.command_slots = 1;
    bench.drive.controller.fetch_outstanding = 1;
    bench.with_methods(64, async |host, pair| {
        let other = host.create_pair(2, 64).await;
        let payloads: Vec<_> = (0..8).map(|which| pattern(which, 100)).collect();
        let mut cids = Vec::new();
        for (which, payload) in payloads.iter().enumerate() {
            cids.push(host.place(&pair.sq, command(ID + which as u16, which as u64 * 100, payload)));
        }
        host.ring_tail(&pair.sq);
        for _ in 0..10 {
            assert_eq!(host.io(&other, flush()).await.status(), Status::SUCCESS);
            assert_eq!(host.io(&pair, flush()).await.status(), Status::SUCCESS);
        }
        assert!(!host.drive().controller.is_quiet(), "they hold their places in the completion queue");
        for (which, payload) in payloads.iter().enumerate().rev() {
            place_chunks(&host, &pair.sq, ID + which as u16, payload);
        }
        host.ring_tail(&pair.sq);
        for (which, cid) in cids.into_iter().enumerate() {
            let cqe = host.completion(&pair.cq, cid).await;
            assert_eq!(cqe.dw0, crc32c::crc32c(&payloads[which]));
        }
    });
}

// Without a completion of its own, a chunk in a queue without commands would never tell the host that its entry is free.
#[test]
fn a_chunk_answers_where_it_is_asked_to() {
    Bench::offering(CHUNKS).with_methods(64, async |host, pair| {
        let quiet = host.create_pair(2, 8).await;
        host.enable_methods(&quiet, CHUNKS).await;
        let payload = pattern(1, 150);
        for index in 0..3 {
            place_chunk(&host, &quiet.sq, ID + 5, &payload, index, index == 2);
        }
        host.ring_tail(&quiet.sq);
        let cqe = host.next(&quiet.cq).await;
        assert_eq!((cqe.cid, cqe.status(), cqe.sqhd, cqe.sqid), (ID + 5, Status::SUCCESS, 3, 2));
        let cqe = host.io(&pair, command(ID + 5, 0, &payload)).await;
        assert_eq!(cqe.dw0, crc32c::crc32c(&payload));
        // The last of all answers too, in addition to its command.
        let cid = host.submit(&pair.sq, command(ID, 0, &payload));
        for index in 0..3 {
            place_chunk(&host, &quiet.sq, ID, &payload, index, true);
        }
        host.ring_tail(&quiet.sq);
        for head in 4..7 {
            let cqe = host.next(&quiet.cq).await;
            assert_eq!((cqe.cid, cqe.status()), (ID, Status::SUCCESS));
            assert!(u32::from(cqe.sqhd) >= head);
        }
        assert_eq!(status_of(&host, &pair, cid).await, Status::SUCCESS);
        // One that is refused says so.
        let beyond = Chunk::new(ID, 3, 3, &[1; 56], Chunk::COMPLETE).sqe();
        host.place_as_is(&quiet.sq, beyond);
        host.ring_tail(&quiet.sq);
        assert_eq!(host.next(&quiet.cq).await.status(), Status::DATA_TRANSFER_ERROR);
        assert_eq!(host.drive().controller.counters().chunks_refused.get(), 1);
    });
}

// A payload of which two parts contradict one another belongs to none: storing it would be silent corruption.
#[test]
fn what_contradicts_fails_its_command_and_nothing_else() {
    type Change = fn(&mut Chunk);
    let changes: [Change; 4] = [
        |chunk| chunk.payload[5] ^= 1,
        |chunk| chunk.total = 2,
        |chunk| chunk.total = 4,
        |chunk| chunk.index = 3,
    ];
    for (which, change) in changes.into_iter().enumerate() {
        for waits in [false, true] {
            Bench::offering(CHUNKS).with_methods(64, async move |host, pair| {
                let (payload, good) = (pattern(1, 150), pattern(2, 150));
                place_chunks(&host, &pair.sq, ID + 1, &good);
                let cut = cut(ID, &payload);
                let waiting = waits.then(|| host.place(&pair.sq, command(ID, 0, &payload)));
                place_chunk(&host, &pair.sq, ID, &payload, 0, false);
                let mut bad = Chunk::parse(&cut.entry(0, &payload[cut.range(0)], true));
                change(&mut bad);
                host.place_as_is(&pair.sq, bad.sqe());
                host.ring_tail(&pair.sq);
                assert_eq!(status_of(&host, &pair, ID).await, Status::DATA_TRANSFER_ERROR, "{which}");
                let cid = waiting.unwrap_or_else(|| host.submit(&pair.sq, command(ID, 0, &payload)));
                assert_eq!(status_of(&host, &pair, cid).await, Status::DATA_TRANSFER_ERROR, "{which}");
                let cqe = host.io(&pair, command(ID + 1, 0, &good)).await;
                assert_eq!(cqe.dw0, crc32c::crc32c(&good), "the other payload");
                // Nothing is left of it: the identifier is free again.
                carry(&host, &pair, ID, 9, 150).await;
                host.sleep(TIMED_OUT).await;
                let counters = host.drive().controller.counters();
                assert_eq!((counters.chunks_refused.get(), counters.payloads_given_up.get()), (1, 0));
            });
        }
    }
}

// A chunk that is sent twice, as after a time-out, is no contradiction.
#[test]
fn the_same_chunk_twice_is_the_same() {
    Bench::offering(CHUNKS).with_methods(64, async |host, pair| {
        let payload = pattern(1, 150);
        place_chunk(&host, &pair.sq, ID, &payload, 1, false);
        place_chunk(&host, &pair.sq, ID, &payload, 1, false);
        place_chunks(&host, &pair.sq, ID, &payload);
        let cqe = host.io(&pair, command(ID, 0, &payload)).await;
        assert_eq!(cqe.dw0, crc32c::crc32c(&payload));
        assert_eq!(host.drive().controller.counters().chunks_duplicate.get(), 2);
    });
}

// Each of these would have the drive look for a payload that can't be, indefinitely, or take one that is not the command's.
#[test]
fn commands_that_name_no_possible_payload_fail() {
    let mut bench = Bench::offering(CHUNKS);
    bench.drive.controller.sgl = true;
    bench.with_methods(128, async |host, pair| {
        let named = |id: u64, bytes: u32, written: u32| {
            let mut pointer = reassembled_descriptor(0, bytes);
            pointer.address = id;
            sink_write(0, written).with_sgl(pointer)
        };
        let max = PAYLOAD_BYTES_MAX;
        let id = u64::from(ID);
        for (sqe, status) in [
            (named(1 << 16 | id, 56, 56), Status::INVALID_FIELD),
            (named(u64::MAX, 56, 56), Status::INVALID_FIELD),
            (named(id, max + 1, max + 1), Status::DATA_SGL_LENGTH_INVALID),
            (named(id, u32::MAX, 56), Status::DATA_SGL_LENGTH_INVALID),
            (named(id, 0, 56), Status::DATA_SGL_LENGTH_INVALID),
            (
                read_write(NvmOpcode::READ, NS_512, 0, 1).with_sgl(reassembled_descriptor(ID, 512)),
                Status::SGL_TYPE_INVALID,
            ),
        ] {
            assert_eq!(host.io(&pair, sqe).await.status(), status.with_dnr());
        }
        // A payload of another length than the command's is taken and forgotten.
        let payload = pattern(1, 150);
        for written in [149, 151, 0] {
            place_chunks(&host, &pair.sq, ID, &payload);
            let sqe = cut(ID, &payload).placed_in(sink_write(0, written));
            assert_eq!(host.io(&pair, sqe).await.status(), Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        }
        // Another's payload is not to be had, and stays the other's.
        let first = wait_for_chunks(&host, &pair, ID, &payload).await;
        let second = host.io(&pair, command(ID, 900, &payload)).await;
        assert_eq!(second.status(), Status::COMMAND_SEQUENCE_ERROR.with_dnr());
        place_chunks(&host, &pair.sq, ID, &payload);
        host.ring_tail(&pair.sq);
        assert_eq!(status_of(&host, &pair, first).await, Status::SUCCESS);
        assert!(host.sink_read(&pair, 900, 150).await == [0; 150]);
    });
}

// A host that enabled nothing has a plain drive: a command that looks like a chunk must not vanish there.
#[test]
fn without_being_enabled_chunks_are_no_commands() {
    for sgl in [false, true] {
        let mut bench = Bench::offering(CHUNKS);
        bench.drive.controller.sgl = sgl;
        bench.with_queue(async |host, pair| {
            let payload = pattern(1, 56);
            let chunk = cut(ID, &payload).entry(0, &payload, false);
            assert_eq!(host.io(&pair, chunk).await.status(), Status::INVALID_OPCODE.with_dnr());
            let cqe = host.io(&pair, command(ID, 0, &payload)).await;
            assert_eq!(cqe.status(), Status::SGL_TYPE_INVALID.with_dnr());
            // And a reset takes it away again.
            host.enable_methods(&pair, CHUNKS).await;
            carry(&host, &pair, ID, 1, 100).await;
            host.disable().await;
            host.enable().await;
            let pair = host.create_pair(1, 64).await;
            let cqe = host.io(&pair, command(ID, 0, &payload)).await;
            assert_eq!(cqe.status(), Status::SGL_TYPE_INVALID.with_dnr());
        });
    }
}

// Without a bound a host could have the drive keep as much as it likes; without an end, a host that has gone would keep
// it indefinitely.
#[test]
fn incomplete_payloads_are_bounded_and_given_up() {
    Bench::offering(CHUNKS).with_methods(64, async |host, pair| {
        let payload = pattern(1, 100);
        let counters = host.drive().controller.counters();
        // Half of the places for commands without chunks, half for chunks without commands.
        let began = host.clock().now();
        let waiting: Vec<_> = (0..4).map(|id| host.submit(&pair.sq, command(ID + id, 0, &payload))).collect();
        for id in 4..8 {
            place_chunk(&host, &pair.sq, ID + id, &payload, 0, true);
        }
        host.ring_tail(&pair.sq);
        for _ in 4..8 {
            assert_eq!(host.next(&pair.cq).await.status(), Status::SUCCESS);
        }
        // No space for another chunk, nor another command.
        place_chunk(&host, &pair.sq, ID + 8, &payload, 0, true);
        let refused = host.io(&pair, command(ID + 9, 0, &payload)).await;
        assert_eq!(refused.status(), Status::DATA_TRANSFER_ERROR);
        assert_eq!(status_of(&host, &pair, ID + 8).await, Status::DATA_TRANSFER_ERROR);
        // A payload in progress continues, even within full bounds.
        place_chunks(&host, &pair.sq, ID, &payload);
        host.ring_tail(&pair.sq);
        assert_eq!(status_of(&host, &pair, waiting[0]).await, Status::SUCCESS);
        assert_eq!(counters.payloads_given_up.get(), 0);
        for cid in &waiting[1..] {
            assert_eq!(status_of(&host, &pair, *cid).await, Status::DATA_TRANSFER_ERROR);
            let waited = host.clock().now().since(began);
            assert!(waited > Delay::from_ms(5) && waited < TIMED_OUT, "{waited:?}");
        }
        host.sleep(Delay::from_us(100)).await;
        assert_eq!(counters.payloads_given_up.get(), 7);
        assert!(host.drive().controller.is_quiet(), "all memory is free");
        // A command whose first chunks were given up waits for them again, and fails for it.
        let late = host.submit(&pair.sq, command(ID + 4, 0, &payload));
        place_chunk(&host, &pair.sq, ID + 4, &payload, 1, false);
        host.ring_tail(&pair.sq);
        assert_eq!(status_of(&host, &pair, late).await, Status::DATA_TRANSFER_ERROR);
        for id in 0..20 {
            carry(&host, &pair, ID + id, u64::from(id), 100).await;
        }
    });
}

// A drive with numbers that its formats can't hold, or that never gives anything up, would fail in the middle of a run.
#[test]
fn impossible_bounds_are_refused() {
    let all = Methods::from_bits(0x1ff).with_cxl_mem(false);
    type Change = fn(&mut TransferConfig);
    let changes: [(Change, &str); 14] = [
        (|t| t.reassembly_bytes_max = 0, "reassembly_bytes_max"),
        (|t| t.reassembly_bytes_max = 65535 * 56 + 1, "reassembly_bytes_max"),
        (|t| t.piggyback_bytes_max = 0, "piggyback_bytes_max"),
        (|t| t.piggyback_bytes_max = 35 + 65535 * 52 + 1, "piggyback_bytes_max"),
        (|t| t.piggyback_bytes_max = (16 << 20) + 1, "piggyback_bytes_max"),
        (|t| t.partial_timeout = Delay::ZERO, "partial_timeout"),
        (|t| t.partial_payloads_max = 0, "partial_payloads_max"),
        (|t| t.partial_payloads_max = 4097, "partial_payloads_max"),
        (
            |t| t.partial_payloads_max = 257, // of 16 MiB
            "partial_payloads_max times",
        ),
        (|t| t.inline_result_bytes_max = 0, "inline_result_bytes_max"),
        (|t| t.inline_result_bytes_max = 32767 * 14 + 1, "inline_result_bytes_max"),
        (|t| t.bar_bytes = 4097, "bar_bytes"),
        (|t| t.bar_bytes = 0, "bar_bytes"),
        (|t| t.methods = t.methods.with_mmio(false), "bar_bytes"),
    ];
    let mut possible = Bench::offering(all).drive;
    possible.controller.transfer_bytes_max = 16 << 20;
    assert_eq!(possible.validate(), Ok(()));
    for (change, what) in changes {
        let mut config = possible.clone();
        change(&mut config.transfer);
        let error = config.validate().expect_err(what);
        assert!(error.message.starts_with(&format!("transfer.{what}")), "{error}");
    }
}

// Abort must not wait for chunks that will never come, and the drive must not write for a command that it has aborted.
#[test]
fn abort_ends_the_wait() {
    Bench::offering(CHUNKS).with_methods(64, async |host, pair| {
        let payload = pattern(1, 100);
        place_chunk(&host, &pair.sq, ID, &payload, 0, false);
        let cid = wait_for_chunks(&host, &pair, ID, &payload).await;
        let other = wait_for_chunks(&host, &pair, ID + 1, &payload).await;
        let abort = host.admin(Abort { sqid: 1, cid }.sqe(0)).await;
        assert_eq!((abort.status(), abort.dw0), (Status::SUCCESS, 0));
        let cqe = host.look(&pair.cq).expect("it completes before its Abort");
        assert_eq!((cqe.cid, cqe.status()), (cid, Status::ABORT_REQUESTED));
        assert_eq!(status_of(&host, &pair, cid).await, Status::ABORT_REQUESTED);
        let again = host.admin(Abort { sqid: 1, cid }.sqe(0)).await;
        assert_eq!(again.dw0, Abort::NOT_ABORTED);
        let unknown = host.admin(Abort { sqid: 2, cid: other }.sqe(0)).await;
        assert_eq!(unknown.status(), Status::INVALID_FIELD.with_dnr());
        place_chunks(&host, &pair.sq, ID + 1, &payload);
        host.ring_tail(&pair.sq);
        assert_eq!(status_of(&host, &pair, other).await, Status::SUCCESS);
        assert!(host.sink_read(&pair, 0, 100).await == payload);
    });
}

// Deletion that waited for a command without end would never end; one that forgot it would leave it to another queue.
#[test]
fn deletion_of_its_queue_ends_the_wait() {
    Bench::offering(CHUNKS).with_methods(64, async |host, pair| {
        let other = host.create_pair(2, 64).await;
        host.enable_methods(&other, CHUNKS).await;
        let payload = pattern(1, 100);
        // Chunks by the queue that is deleted, for a command of the other: they stay.
        place_chunk(&host, &pair.sq, ID + 2, &payload, 0, false);
        let first = wait_for_chunks(&host, &pair, ID, &payload).await;
        let second = wait_for_chunks(&host, &pair, ID + 1, &payload).await;
        let kept = wait_for_chunks(&host, &other, ID + 2, &payload).await;
        host.succeed(delete_sq(1)).await;
        for cid in [first, second] {
            assert_eq!(status_of(&host, &pair, cid).await, Status::ABORTED_SQ_DELETED);
        }
        place_chunk(&host, &other.sq, ID + 2, &payload, 1, false);
        host.ring_tail(&other.sq);
        assert_eq!(status_of(&host, &other, kept).await, Status::SUCCESS);
        host.sleep(Delay::from_us(100)).await;
        assert!(host.drive().controller.is_quiet());
        // A queue of the same identifier has nothing of it.
        let pair = host.create_sq(1, 64, &pair.cq, QueuePriority::Urgent).await;
        host.enable_methods(&pair, CHUNKS).await;
        carry(&host, &pair, ID, 3, 100).await;
    });
}

// A reset with commands that wait must end, give everything back, and write nothing to the host afterwards.
#[test]
fn resets_end_all_waits() {
    for function in [false, true] {
        Bench::offering(CHUNKS).with_methods(64, async move |host, pair| {
            let payload = pattern(1, 100);
            wait_for_chunks(&host, &pair, ID, &payload).await;
            place_chunk(&host, &pair.sq, ID + 1, &payload, 0, false);
            host.ring_tail(&pair.sq);
            host.sleep(Delay::from_us(20)).await;
            if function {
                host.drive().controller.reset().await;
            } else {
                host.disable().await;
            }
            assert!(host.drive().controller.is_quiet(), "all memory is free");
            let written = host.memory().dma_written_bytes();
            host.sleep(TIMED_OUT).await;
            assert_eq!(host.memory().dma_written_bytes(), written, "nothing completes after a reset");
            host.enable().await;
            let pair = host.create_pair(1, 64).await;
            host.enable_methods(&pair, CHUNKS).await;
            // A chunk of the time before would contradict these.
            carry(&host, &pair, ID + 1, 2, 100).await;
            carry(&host, &pair, ID, 3, 100).await;
        });
    }
}

// With one place for completions, a command that waits takes it: chunks behind it can't be fetched. The wait has to end
// by itself, and chunks by another queue have to reach the command.
#[test]
fn a_completion_queue_without_room_is_no_deadlock() {
    Bench::offering(CHUNKS).with_methods(64, async |host, other| {
        let cq = host.create_cq(2, 2, None).await;
        let narrow = host.create_sq(2, 64, &cq, QueuePriority::Urgent).await;
        host.enable_methods(&narrow, CHUNKS).await;
        let payload = pattern(1, 100);
        let cid = wait_for_chunks(&host, &narrow, ID, &payload).await;
        place_chunks(&host, &other.sq, ID, &payload);
        host.ring_tail(&other.sq);
        assert_eq!(status_of(&host, &narrow, cid).await, Status::SUCCESS);
        let cid = wait_for_chunks(&host, &narrow, ID, &payload).await;
        place_chunks(&host, &narrow.sq, ID, &payload);
        host.ring_tail(&narrow.sq);
        assert_eq!(status_of(&host, &narrow, cid).await, Status::DATA_TRANSFER_ERROR);
        host.sleep(TIMED_OUT).await; // the chunks, which were fetched then, are given up as well
        carry(&host, &narrow, ID, 2, 100).await;
    });
}

// A full completion queue stops fetching of chunks; consuming completions must resume it.
#[test]
fn a_full_completion_queue_holds_chunks_up_until_there_is_room() {
    Bench::offering(CHUNKS).with_methods(64, async |host, _| {
        let cq = host.create_cq(2, 4, None).await;
        let pair = host.create_sq(2, 64, &cq, QueuePriority::Urgent).await;
        host.enable_methods(&pair, CHUNKS).await;
        let payload = pattern(1, 300);
        let flushes: Vec<_> = (0..3).map(|_| host.submit(&pair.sq, flush())).collect();
        place_chunks(&host, &pair.sq, ID, &payload);
        let cid = host.submit(&pair.sq, command(ID, 0, &payload));
        host.sleep(Delay::from_us(100)).await;
        for cid in flushes {
            assert_eq!(host.next_quietly(&cq).await.cid, cid);
        }
        host.sleep(Delay::from_us(100)).await;
        assert!(host.look(&cq).is_none());
        host.ring_head(&cq);
        assert_eq!(status_of(&host, &pair, cid).await, Status::SUCCESS);
    });
}

// Payload of a train that looks like chunks is payload; and a chunk between two trains is no part of either.
#[test]
fn chunks_and_trains_share_a_queue() {
    for fetch_burst in [1, 3, 64] {
        let mut bench = Bench::offering(CHUNKS.or(INLINE));
        bench.drive.controller.fetch_burst = fetch_burst;
        bench.with_methods(32, async |host, pair| {
            for round in 0..20 {
                let payload = pattern(round, 150);
                let decoy = cut(ID, &payload).entry(1, &[0xEE; 38], true).to_bytes().repeat(3);
                place_chunk(&host, &pair.sq, ID, &payload, 0, false);
                let first = host.place_train(&pair.sq, sink_write(1000, 192), &decoy, false);
                place_chunk(&host, &pair.sq, ID, &payload, 1, false);
                let second = host.place_train(&pair.sq, sink_write(2000, 100), &decoy[..100], false);
                let third = host.place(&pair.sq, command(ID, 0, &payload));
                place_chunk(&host, &pair.sq, ID, &payload, 2, false);
                host.ring_tail(&pair.sq);
                for (cid, expected) in [(first, &decoy[..]), (second, &decoy[..100]), (third, &payload)] {
                    let cqe = host.completion(&pair.cq, cid).await;
                    assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(expected)));
                }
            }
            assert_eq!(host.drive().controller.counters().chunks_duplicate.get(), 0);
        });
    }
}

// Payload that is entered as commands, or the other way round, would falsify every figure of traffic.
#[test]
fn the_ledger_tells_chunks_from_commands() {
    for fetch_burst in [1, 4, 64] {
        let mut bench = Bench::offering(CHUNKS);
        bench.drive.controller.fetch_burst = fetch_burst;
        bench.with_methods(64, async move |host, pair| {
            let payload = pattern(1, 500);
            let before = host.end().ledger().snapshot();
            place_chunks(&host, &pair.sq, ID, &payload);
            host.io(&pair, command(ID, 0, &payload)).await;
            let crossed = host.end().ledger().since(&before);
            let down = |purpose| crossed.entry(purpose, Direction::Down);
            assert_eq!(down(Purpose::InlineChunk).payload, 9 * 64);
            assert_eq!(down(Purpose::SqeFetch).payload, 64);
            assert_eq!(crossed.of(Purpose::Data).wire, 0);
            if fetch_burst == 1 {
                // A request of 24 bytes, and 64 with a header of 20.
                assert_eq!(crossed.of(Purpose::InlineChunk).wire, 9 * 108);
                assert_eq!(crossed.of(Purpose::SqeFetch).wire, 108);
                assert_eq!(crossed.of(Purpose::InlineChunk).tlps, 18);
            }
        });
    }
}

// Work that is not charged makes a method look better than it is.
#[test]
fn each_chunk_is_worked_on_before_its_command_goes_on() {
    let time = |chunk: u64, bytes: usize| {
        let mut bench = Bench::offering(CHUNKS);
        bench.drive.site.cycles = Cycles::FREE.with(WorkKind::Chunk, chunk);
        bench.with_methods(128, async move |host, pair| {
            let payload = pattern(1, bytes);
            let quiet = host.create_pair(2, 128).await;
            host.enable_methods(&quiet, CHUNKS).await;
            place_chunks(&host, &quiet.sq, ID, &payload);
            host.ring_tail(&quiet.sq);
            host.sleep(Delay::from_us(100)).await;
            let began = host.clock().now();
            host.io(&pair, command(ID, 0, &payload)).await;
            host.clock().now().since(began)
        })
    };
    let (one, ten) = (time(0, 56), time(0, 560));
    assert_eq!(ten - one, Delay::from_ns(9 * 20), "9 more to store");
    assert_eq!(time(1000, 560) - ten, Delay::from_us(10), "10 to work on, at 1 GHz");
}

// A hostile host's chunks must not reach another payload, nor stop anything.
#[test]
fn random_chunks_and_commands_leave_nothing() {
    for seed in 0..4 {
        let mut bench = Bench::offering(CHUNKS);
        bench.drive.controller.command_slots = 2;
        bench.with_methods(64, async move |host, pair| {
            let mut random = Rng::new(seed).stream("chunks");
            let other = host.create_pair(2, 64).await;
            let mut commands = 0;
            for _ in 0..40 {
                for _ in 0..random.below(12) {
                    let (id, index, total) = (random.below(4), random.below(4), random.below(5));
                    let sqe = match random.below(4) {
                        0 => {
                            let bytes = random.below(5) as u32 * 56;
                            sink_write(0, bytes)
                                .with_sgl(reassembled_descriptor(id as u16, bytes))
                                .with_cid(7)
                        }
                        _ => {
                            let flags = random.below(2) as u8 & Chunk::COMPLETE;
                            let part = [random.below(2) as u8; 56];
                            Chunk::new(id as u16, index as u16, total as u16, &part, flags).sqe()
                        }
                    };
                    let is_answered =
                        sqe.opcode() == VendorOpcode::SINK_WRITE.0 || Chunk::parse(&sqe).completes();
                    commands += u32::from(is_answered);
                    host.place_as_is(&pair.sq, sqe);
                }
                host.ring_tail(&pair.sq);
                host.sleep(Delay::from_us(random.below(60))).await;
                assert_eq!(host.io(&other, flush()).await.status(), Status::SUCCESS, "seed {seed}");
                let mut answered: Vec<Cqe> = Vec::new();
                while let Some(cqe) = host.take(&pair.cq) {
                    answered.push(cqe);
                    host.ring_head(&pair.cq);
                }
                commands -= answered.len() as u32;
            }
            host.sleep(TIMED_OUT).await;
            while host.take(&pair.cq).is_some() {
                host.ring_head(&pair.cq);
                commands -= 1;
            }
            assert_eq!(commands, 0, "everything that is answered was, seed {seed}");
            host.succeed(set_methods(1, CHUNKS)).await;
            carry(&host, &pair, ID, seed, 100).await;
        });
    }
}
