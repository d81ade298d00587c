//! Trains: payload in the entries after its command, in order.
//!
//! Verified: every byte that arrives, at every place in the ring; what a partial doorbell holds up and what not; exactly
//! how many entries a train takes, also one that fails; queues that break; shares of arbitration; ledger and time. How
//! waits of trains end early is in `train_cancellation.rs`.

use crate::fixture;
use crate::fixture::payload::{INLINE, PAYLOAD_BYTES_MAX, TAIL, board_link, sink_write};
use crate::fixture::{Bench, NS_4K, NS_512, Pair, TestHost, delete_cq, delete_sq, pattern, read_write};
use byteway_clock::Delay;
use byteway_clock::random::Rng;
use byteway_firmware::{Cycles, WorkKind};
use byteway_link::{Direction, Entry, Purpose};
use byteway_transfer::inline;
use byteway_wire::nvme::feature::Arbitration;
use byteway_wire::nvme::vendor::{Methods, inline_descriptor};
use byteway_wire::nvme::{
    AsyncEvent, AsyncEventType, Cns, DatasetManagement, Flush, Identify, NvmOpcode, QueuePriority, Range,
    Sqe, Status, fid, lid,
};
use std::collections::BTreeMap;

const BOTH: Methods = INLINE.or(TAIL);

fn flush() -> Sqe {
    Flush.sqe(0, NS_4K)
}

/// Does a train that must succeed, and looks into the sink.
async fn carry(host: &TestHost, pair: &Pair, offset: u64, seed: u64, bytes: usize) {
    let payload = pattern(seed, bytes);
    let cqe = host.inline(pair, sink_write(offset, bytes as u32), &payload).await;
    assert_eq!(cqe.status(), Status::SUCCESS, "{bytes} bytes");
    assert_eq!(cqe.dw0, crc32c::crc32c(&payload), "the checksum of {bytes} bytes");
    assert!(host.sink_read(pair, offset, bytes as u32).await == payload, "{bytes} bytes");
}

// Padding that is taken for payload, or an entry that is lost, is silent corruption.
#[test]
fn payloads_of_every_length_arrive() {
    for fetch_burst in [1, 4, 64] {
        let mut bench = Bench::offering(BOTH);
        bench.drive.controller.fetch_burst = fetch_burst;
        bench.with_methods(256, async |host, pair| {
            for bytes in [0, 1, 63, 64, 65, 127, 128, 129, 1000, 4032, 4095, 4096] {
                for in_cdw3 in [false, true] {
                    let payload = pattern(bytes as u64, bytes);
                    let sqe = sink_write(100, bytes as u32);
                    let cid = host.place_train(&pair.sq, sqe, &payload, in_cdw3);
                    host.ring_tail(&pair.sq);
                    let cqe = host.completion(&pair.cq, cid).await;
                    assert_eq!((cqe.status(), cqe.dw1), (Status::SUCCESS, 0), "{bytes} bytes, {in_cdw3}");
                    assert!(host.sink_read(&pair, 100, bytes as u32).await == payload, "{bytes} bytes");
                }
            }
        });
    }
}

// A prototype jumps over the ring's end, or reads on behind it: payload of another train, or of no command.
#[test]
fn a_train_wraps_at_every_place() {
    for fetch_burst in [1, 3, 64] {
        let mut bench = Bench::offering(INLINE);
        bench.drive.controller.fetch_burst = fetch_burst;
        bench.with_methods(8, async |host, pair| {
            let mut seed = 0;
            for slots in 1..=6 {
                // A train and a plain command: in a ring of 8 entries all beginnings come, as no step is a multiple.
                for _ in 0..16 {
                    seed += 1;
                    let first = pair.sq.tail.get();
                    let bytes = slots * 64 - (seed % 60) as usize;
                    let payload = pattern(seed, bytes);
                    let cqe = host.inline(&pair, sink_write(seed * 7, bytes as u32), &payload).await;
                    assert_eq!(cqe.dw0, crc32c::crc32c(&payload), "{slots} slots behind {first}");
                    let head = (first + 1 + slots as u32) % 8;
                    assert_eq!(u32::from(cqe.sqhd), head, "SQHD counts every slot");
                    assert!(host.sink_read(&pair, seed * 7, bytes as u32).await == payload);
                    if slots % 2 == 0 {
                        host.io(&pair, flush()).await;
                    }
                }
            }
        });
    }
}

// A prototype takes the command after a train for payload, or payload for a command, once several come by one doorbell.
#[test]
fn trains_and_plain_commands_come_by_one_doorbell() {
    for fetch_burst in [1, 4, 64] {
        for command_slots in [1, 3, 64] {
            let mut bench = Bench::offering(BOTH);
            bench.drive.controller.fetch_burst = fetch_burst;
            bench.drive.controller.command_slots = command_slots;
            bench.with_methods(64, async |host, pair| {
                for round in 0..8 {
                    let mut sent = Vec::new();
                    for (index, slots) in [1, 0, 3, 9, 0, 0, 2, 5, 1, 20].into_iter().enumerate() {
                        let (offset, bytes) =
                            (index as u64 * 2000, slots * 64 - (slots > 0) as usize * round);
                        let payload = pattern((round * 16 + index) as u64, bytes);
                        let sqe = sink_write(offset, bytes as u32);
                        let cid = match slots {
                            0 => host.place(&pair.sq, flush()),
                            _ => host.place_train(&pair.sq, sqe, &payload, index % 2 == 0),
                        };
                        sent.push((cid, offset, payload));
                    }
                    host.ring_tail(&pair.sq);
                    let all = host.next_many(&pair.cq, sent.len()).await;
                    let statuses: BTreeMap<_, _> = all.iter().map(|cqe| (cqe.cid, cqe.status())).collect();
                    for (cid, offset, payload) in sent {
                        assert_eq!(statuses[&cid], Status::SUCCESS);
                        assert!(host.sink_read(&pair, offset, payload.len() as u32).await == payload);
                    }
                }
            });
        }
    }
}

/// A drive where whatever a train that waits would keep is missing at once: one slot, one read of entries.
fn narrow() -> Bench {
    let mut bench = Bench::offering(BOTH);
    bench.drive.controller.command_slots = 1;
    bench.drive.controller.fetch_outstanding = 1;
    bench
}

// A host that rings in mid-train, and then is slow or gone, must not stop its neighbours: a train that waits for its
// rest holds no slot and no read.
#[test]
fn a_partial_doorbell_holds_up_its_own_queue_only() {
    for exposed in 1..=5 {
        narrow().with_methods(64, async move |host, pair| {
            let other = host.create_pair(2, 64).await;
            let payload = pattern(exposed, 300);
            let first = pair.sq.tail.get();
            let cid = host.place_train(&pair.sq, sink_write(0, 300), &payload, false);
            let behind = host.place(&pair.sq, flush());
            let all = pair.sq.tail.get();
            // As much as `exposed` entries of the six, one by one.
            for entry in 1..=exposed as u32 {
                pair.sq.tail.set(first + entry);
                host.ring_tail(&pair.sq);
                host.sleep(Delay::from_us(10)).await;
            }
            for _ in 0..20 {
                assert_eq!(host.io(&other, flush()).await.status(), Status::SUCCESS);
                let page = host.pages(1);
                let identify = Identify { cns: Cns::CONTROLLER, ..Identify::default() };
                host.succeed(identify.sqe(0, 0).with_prp(page, 0)).await;
            }
            assert!(host.look(&pair.cq).is_none(), "it waits for the rest");
            assert!(!host.drive().controller.is_quiet(), "it has its place for a completion");
            pair.sq.tail.set(all);
            host.ring_tail(&pair.sq);
            for cid in [cid, behind] {
                assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::SUCCESS);
            }
            assert!(host.sink_read(&pair, 0, 300).await == payload);
        });
    }
}

// Time that another queue's commands take longer, because some queue is stuck indefinitely, is an attack on a neighbour.
#[test]
fn a_queue_that_is_stuck_for_ever_costs_the_others_nothing() {
    let latencies = [false, true].map(|is_stuck| {
        let mut bench = Bench::offering(INLINE);
        bench.ends_quiet = false;
        bench.with_methods(64, async move |host, pair| {
            let other = host.create_pair(2, 64).await;
            host.place(&pair.sq, sink_write(0, 300).with_sgl(inline_descriptor(300)));
            if is_stuck {
                host.ring_tail(&pair.sq);
            }
            host.sleep(Delay::from_us(50)).await;
            let mut latencies = Vec::new();
            for offset in 0..50 {
                let start = host.clock().now();
                host.io(&other, host.sink_write(offset, &[7; 64])).await;
                latencies.push(host.clock().now().since(start));
                let start = host.clock().now();
                host.feature(fid::ARBITRATION).await;
                latencies.push(host.clock().now().since(start));
            }
            latencies
        })
    });
    assert_eq!(latencies[0], latencies[1]);
}

// The length by which a train is framed is the descriptor's: a disagreement must neither shift all that follows nor
// store anything.
#[test]
fn a_length_that_disagrees_skips_exactly_the_train() {
    for fetch_burst in [1, 4, 64] {
        let mut bench = Bench::offering(BOTH);
        bench.drive.controller.fetch_burst = fetch_burst;
        bench.with_methods(64, async |host, pair| {
            for (said, in_cdw3, carried) in
                [(64, false, 65), (65, false, 64), (640, false, 64), (64, false, 640), (64, true, 65)]
            {
                let before = host.sink_read(&pair, 0, 1024).await;
                let first = pair.sq.tail.get();
                let payload = pattern(said, carried);
                let cid = host.place_train(&pair.sq, sink_write(0, said as u32), &payload, in_cdw3);
                let follower = pattern(carried as u64, 100);
                let next = host.place_train(&pair.sq, sink_write(2000, 100), &follower, false);
                host.ring_tail(&pair.sq);
                let cqe = host.completion(&pair.cq, cid).await;
                assert_eq!(cqe.status(), Status::DATA_SGL_LENGTH_INVALID.with_dnr());
                let cqe = host.completion(&pair.cq, next).await;
                assert_eq!(cqe.status(), Status::SUCCESS, "what follows is framed as before");
                let all = 1 + carried.div_ceil(64) as u32 + 3;
                assert_eq!(u32::from(cqe.sqhd), (first + all) % 64);
                assert!(host.sink_read(&pair, 2000, 100).await == follower);
                assert!(host.sink_read(&pair, 0, 1024).await == before, "nothing was stored");
            }
        });
    }
}

// Payload behind a read, or a command without data, belongs to no command: it must be passed over, and not executed.
#[test]
fn only_commands_with_data_to_the_controller_have_trains() {
    Bench::offering(BOTH).with_methods(64, async |host, pair| {
        let poison = Flush.sqe(0xdead, 99).to_bytes();
        for opcode in [NvmOpcode::READ, NvmOpcode::FLUSH, NvmOpcode::WRITE_ZEROES, NvmOpcode(0x87)] {
            let cqe = host.inline(&pair, Sqe::new(opcode, 0, NS_4K), &poison.repeat(3)).await;
            assert_eq!(cqe.status(), Status::SGL_TYPE_INVALID.with_dnr(), "{opcode:?}");
        }
        // One that is not known, and one with another fault, are passed over too.
        let unknown = Sqe::new(NvmOpcode(0x85), 0, NS_4K);
        let fused = sink_write(0, 64).with_fuse(1);
        for (sqe, status) in [(unknown, Status::INVALID_OPCODE), (fused, Status::INVALID_FIELD)] {
            assert_eq!(host.inline(&pair, sqe, &poison).await.status(), status.with_dnr());
        }
        carry(&host, &pair, 0, 1, 64).await;
        // CDW3 of a read means nothing.
        let page = host.pages(1);
        let read = read_write(NvmOpcode::READ, NS_4K, 0, 1).with_prp(page, 0);
        assert_eq!(host.io(&pair, Sqe { cdw3: 64, ..read }).await.status(), Status::SUCCESS);
    });
}

/// A queue whose next train can't be framed: `bytes` in a queue of `entries`.
fn breaks(entries: u32, bytes: u32, in_cdw3: bool, fetch_burst: u32) {
    let mut bench = Bench::offering(BOTH);
    bench.drive.controller.fetch_burst = fetch_burst;
    bench.with_methods(entries, async move |host, pair| {
        let other = host.create_sq(2, 16, &pair.cq, QueuePriority::Urgent).await;
        let event = host.request_event();
        let page = host.pages(1);
        let running = host.place(&pair.sq, read_write(NvmOpcode::READ, NS_4K, 0, 1).with_prp(page, 0));
        let cid = host.place(&pair.sq, inline::place(sink_write(0, bytes), bytes, in_cdw3));
        let lost = (entries > 4).then(|| host.place(&pair.sq, flush()));
        host.ring_tail(&pair.sq);
        let cqe = host.completion(&pair.cq, cid).await;
        assert_eq!(cqe.status(), Status::DATA_SGL_LENGTH_INVALID.with_dnr(), "{bytes} in {entries}");
        let cqe = host.completion(&pair.cq, running).await;
        assert_eq!(cqe.status(), Status::SUCCESS, "what runs goes on");
        let told = host.completion(&host.admin_pair().cq, event).await;
        let expected =
            AsyncEvent { event_type: AsyncEventType::VENDOR, info: 0, lid: lid::ERROR_INFORMATION };
        assert_eq!(AsyncEvent::from_dw0(told.dw0), expected);
        let log = host.log(lid::ERROR_INFORMATION, 0, 64).await;
        assert_eq!(u16::from_le_bytes([log[10], log[11]]), cid, "the error log names the command");
        // Nothing more is fetched, whatever the doorbell says.
        let fetched = host.drive().controller.counters().fetched.get();
        if lost.is_some() {
            host.submit(&pair.sq, flush());
        }
        host.sleep(Delay::from_us(50)).await;
        assert!(host.look(&pair.cq).is_none());
        assert_eq!(host.drive().controller.counters().fetched.get(), fetched);
        assert_eq!(host.io(&other, flush()).await.status(), Status::SUCCESS, "others go on");
        host.succeed(delete_sq(1)).await;
        let again = host.create_sq(1, 64, &pair.cq, QueuePriority::Urgent).await;
        host.enable_methods(&again, BOTH).await;
        carry(&host, &again, 0, 1, 200).await;
    });
}

// Entries after a train that can't be are commands to one reader and payload to another: no reader may continue, and the
// host must be told, or it waits indefinitely.
#[test]
fn a_train_that_cannot_be_breaks_its_queue() {
    for fetch_burst in [1, 4, 64] {
        breaks(256, PAYLOAD_BYTES_MAX + 1, false, fetch_burst);
        breaks(256, PAYLOAD_BYTES_MAX + 1, true, fetch_burst);
        breaks(256, u32::MAX, false, fetch_burst);
        // 1 + 7 slots in a queue that holds 7.
        breaks(8, 6 * 64 + 1, false, fetch_burst);
        breaks(3, 65, true, fetch_burst);
    }
}

// One entry less than a queue has is what fits: refusing that would send payloads the slow way for nothing.
#[test]
fn a_train_may_fill_the_whole_queue() {
    Bench::offering(INLINE).with_methods(8, async |host, pair| {
        for seed in 0..20 {
            let payload = pattern(seed, 6 * 64);
            let cqe = host.inline(&pair, sink_write(0, 6 * 64), &payload).await;
            assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(&payload)));
        }
    });
}

// A masked event that reading its log does not unmask is the last that the host hears.
#[test]
fn each_broken_queue_is_told_of() {
    Bench::offering(INLINE).with_methods(64, async |host, pair| {
        for _ in 0..3 {
            let sq = host.create_sq(2, 16, &pair.cq, QueuePriority::Urgent).await;
            host.enable_methods(&sq, INLINE).await;
            let event = host.request_event();
            host.submit(&sq.sq, sink_write(0, 5000).with_sgl(inline_descriptor(5000)));
            host.completion(&host.admin_pair().cq, event).await;
            host.log(lid::ERROR_INFORMATION, 0, 64).await;
            host.succeed(delete_sq(2)).await;
        }
    });
}

// Payload that only one command can take inline would be a special case of the host's, for each command.
#[test]
fn any_command_with_data_to_the_controller_takes_a_train() {
    Bench::offering(BOTH).with_methods(256, async |host, pair| {
        let (bytes, other) = (pattern(1, 1024), pattern(2, 1024));
        let write = read_write(NvmOpcode::WRITE, NS_512, 5, 2);
        assert_eq!(host.inline(&pair, write, &bytes).await.status(), Status::SUCCESS);
        assert!(host.read(&pair, NS_512, 5, 2).await == bytes);
        let compare = read_write(NvmOpcode::COMPARE, NS_512, 5, 2);
        assert_eq!(host.inline(&pair, compare, &bytes).await.status(), Status::SUCCESS);
        assert_eq!(host.inline(&pair, compare, &other).await.status(), Status::COMPARE_FAILURE);
        let whole = pattern(3, 4096);
        let write = read_write(NvmOpcode::WRITE, NS_4K, 9, 1);
        assert_eq!(host.inline(&pair, write, &whole).await.status(), Status::SUCCESS);
        assert!(host.read(&pair, NS_4K, 9, 1).await == whole);
        let ranges: Vec<u8> = [Range::new(5, 1), Range::new(8, 8)].iter().flat_map(Range::to_bytes).collect();
        let command = DatasetManagement { nr_z: 1, ad: true, ..DatasetManagement::default() };
        assert_eq!(host.inline(&pair, command.sqe(0, NS_512), &ranges).await.status(), Status::SUCCESS);
        assert_eq!(host.read(&pair, NS_512, 5, 1).await, [0; 512]);
    });
}

// A tail at the wrong place, or data fetched by the data pointer for the tail, would be silent corruption.
#[test]
fn a_tail_follows_what_the_data_pointer_describes() {
    for granularity in [1, 4096] {
        let mut bench = Bench::offering(TAIL);
        bench.drive.controller.dma_granularity = granularity;
        bench.with_methods(256, async |host, pair| {
            for (before, tail) in [(4096, 1), (4096, 64), (4096, 4000), (8192, 100), (512, 512), (3, 130)] {
                let payload = pattern(before as u64 + tail as u64, before + tail);
                let (prp1, prp2) = host.prp(host.holding(&payload[..before]), before as u64);
                let sqe = sink_write(77, payload.len() as u32).with_prp(prp1, prp2);
                let cid = host.place(&pair.sq, inline::place(sqe, tail as u32, true));
                host.place_payload(&pair.sq, &payload[before..]);
                host.ring_tail(&pair.sq);
                let cqe = host.completion(&pair.cq, cid).await;
                assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(&payload)));
                assert!(host.sink_read(&pair, 77, payload.len() as u32).await == payload);
            }
            // Blocks: whole units, and parts of units.
            for (nsid, blocks, before) in [(NS_4K, 2, 4096), (NS_512, 9, 4096), (NS_512, 16, 4096)] {
                let payload = pattern(blocks, blocks as usize * fixture::block_bytes(nsid));
                let (prp1, prp2) = host.prp(host.holding(&payload[..before]), before as u64);
                let write = read_write(NvmOpcode::WRITE, nsid, 3, blocks as u32).with_prp(prp1, prp2);
                let tail = &payload[before..];
                let cid = host.place(&pair.sq, inline::place(write, tail.len() as u32, true));
                host.place_payload(&pair.sq, tail);
                host.ring_tail(&pair.sq);
                assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::SUCCESS);
                assert!(host.read(&pair, nsid, 3, blocks as u32).await == payload);
            }
        });
    }
}

// ByteExpress's prototype leaves the data pointer as it is, and a controller that follows it reads a buffer that was
// never given: address 0. A command whose entries do not come must wait, and not be executed on it.
#[test]
fn an_orphan_with_a_null_buffer_is_not_executed() {
    Bench::offering(TAIL).with_methods(64, async |host, pair| {
        let orphan = inline::place(sink_write(0, 64), 64, true);
        assert_eq!((orphan.prp1, orphan.prp2), (0, 0));
        let cid = host.submit(&pair.sq, orphan);
        host.sleep(Delay::from_ms(1)).await;
        assert!(host.look(&pair.cq).is_none());
        let payload = pattern(1, 64);
        host.place_payload(&pair.sq, &payload);
        host.ring_tail(&pair.sq);
        let cqe = host.completion(&pair.cq, cid).await;
        assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(&payload)));
        // Where CDW3 means nothing, the pointer counts, and fails.
        host.enable_methods(&pair, Methods::new()).await;
        let cqe = host.io(&pair, orphan).await;
        assert_eq!(cqe.status(), Status::DATA_TRANSFER_ERROR);
        assert_eq!(host.sink_read(&pair, 0, 64).await, payload);
    });
}

// A command has a completion slot from the beginning: payload must not need one, or a full completion queue
// and a train wait for each other.
#[test]
fn payload_needs_no_room_for_completions() {
    let mut bench = Bench::offering(INLINE);
    bench.drive.controller.fetch_burst = 64;
    bench.enabled(async |host| {
        let cq = host.create_cq(1, 2, None).await; // space for one
        let pairs = [
            host.create_sq(1, 64, &cq, QueuePriority::Urgent).await,
            host.create_sq(2, 64, &cq, QueuePriority::Urgent).await,
        ];
        for pair in &pairs {
            host.enable_methods(pair, INLINE).await;
            for seed in 0..3 {
                host.place_train(&pair.sq, sink_write(0, 640), &pattern(seed, 640), false);
            }
            host.ring_tail(&pair.sq);
        }
        for cqe in host.next_many(&cq, 6).await {
            assert_eq!(cqe.status(), Status::SUCCESS);
        }
        // Nor does the rest of one that waits, which has the only place itself.
        let pair = &pairs[0];
        let first = pair.sq.tail.get();
        host.place_train(&pair.sq, sink_write(0, 640), &pattern(9, 640), false);
        let all = pair.sq.tail.replace(first + 2);
        host.ring_tail(&pair.sq);
        host.sleep(Delay::from_us(5)).await;
        pair.sq.tail.set(all);
        host.ring_tail(&pair.sq);
        assert_eq!(host.next(&cq).await.status(), Status::SUCCESS);
    });
}

// Without its entries counted, a queue with trains gets ten times the share of its neighbour.
#[test]
fn a_train_counts_all_its_entries_in_arbitration() {
    for (ab, fetch_burst, fetch_outstanding) in [(0, 1, 1), (0, 4, 2), (2, 4, 1), (3, 64, 2)] {
        let mut bench = Bench::offering(INLINE);
        bench.drive.controller.command_slots = 4;
        bench.drive.controller.fetch_burst = fetch_burst;
        bench.drive.controller.fetch_outstanding = fetch_outstanding;
        bench.enabled(async move |host| {
            host.set_feature(fid::ARBITRATION, Arbitration::new().with_ab(ab).into_bits()).await;
            let cq = host.create_cq(1, 1024, None).await;
            let trains = host.create_sq(1, 512, &cq, QueuePriority::Urgent).await;
            let plain = host.create_sq(2, 512, &cq, QueuePriority::Urgent).await;
            host.enable_methods(&trains, INLINE).await;
            // Both queues hold 360 entries: 40 trains of 9, or 360 commands.
            for _ in 0..40 {
                host.place_train(&trains.sq, sink_write(0, 512), &pattern(1, 512), false);
            }
            for _ in 0..360 {
                host.place(&plain.sq, flush());
            }
            host.ring_tail(&trains.sq);
            host.ring_tail(&plain.sq);
            // When the trains are half through, so are the plain commands.
            let (mut of_trains, mut of_plain) = (0, 0);
            while of_trains < 20 {
                match host.next(&cq).await.sqid {
                    1 => of_trains += 1,
                    _ => of_plain += 1,
                }
            }
            // A second task continues with the plain queues while the first reads a train: they then get a
            // larger share.
            let most = if fetch_outstanding == 1 { 180 + 20 } else { 360 };
            let what = format!("{of_plain} commands next to 20 trains, burst {ab}, {fetch_burst} in a read");
            assert!((180 - 20..=most).contains(&of_plain), "{what}");
            host.next_many(&cq, 400 - of_trains - of_plain).await;
        });
    }
}

/// Bytes that crossed to the device for `purpose` since `then`.
fn down(host: &TestHost, then: &byteway_link::Ledger, purpose: Purpose) -> Entry {
    host.end().ledger().since(then).entry(purpose, Direction::Down)
}

// The reports rest on these two lines of the ledger: what the commands cost, and what the payload.
#[test]
fn the_ledger_keeps_payload_and_commands_apart() {
    let mut bench = Bench::offering(INLINE);
    bench.drive.controller.fetch_burst = 4;
    bench.with_methods(64, async |host, pair| {
        // One read: two commands and two entries of payload. Its packet's overhead is the commands'.
        let then = host.end().ledger().snapshot();
        host.place_train(&pair.sq, sink_write(0, 100), &pattern(1, 100), false);
        host.place(&pair.sq, flush());
        host.ring_tail(&pair.sq);
        host.next_many(&pair.cq, 2).await;
        assert_eq!(down(&host, &then, Purpose::SqeFetch), Entry { tlps: 1, payload: 128, wire: 148 });
        assert_eq!(down(&host, &then, Purpose::InlineChunk), Entry { tlps: 0, payload: 128, wire: 128 });
        // Two reads: the second brings payload alone.
        let then = host.end().ledger().snapshot();
        host.place_train(&pair.sq, sink_write(0, 320), &pattern(1, 320), false);
        host.ring_tail(&pair.sq);
        host.next(&pair.cq).await;
        assert_eq!(down(&host, &then, Purpose::SqeFetch), Entry { tlps: 1, payload: 64, wire: 84 });
        let chunks = Entry { tlps: 1, payload: 320, wire: 192 + 128 + 20 };
        assert_eq!(down(&host, &then, Purpose::InlineChunk), chunks);
        let counters = host.drive().controller.counters();
        assert_eq!((counters.carried_entries.get(), counters.carried_bytes.get()), (7, 420));
    });
}

/// The board's link, and a drive with its constants of queue entries.
fn board() -> Bench {
    let mut bench = Bench::offering(INLINE);
    bench.link = board_link();
    bench.drive.controller.fetch_burst = 1;
    bench.drive.site.cores = 1;
    bench.drive.site.cycles = Cycles::FREE.with(WorkKind::Fetch, 73).with(WorkKind::Chunk, 73);
    bench
}

/// How long a train of `slots` takes from its doorbell to its completion.
fn latency(bench: Bench, slots: usize) -> Delay {
    bench.with_methods(64, async move |host, pair| {
        host.place_train(&pair.sq, sink_write(0, slots as u32 * 64), &vec![1; slots * 64], false);
        let start = host.clock().now();
        host.ring_tail(&pair.sq);
        host.next(&pair.cq).await;
        host.clock().now().since(start)
    })
}

// An entry takes the board 400 ns (ByteExpress, table 1): a round trip of 327 ns and 73 of firmware; and 200 ns more
// until its payload is stored, by the fit. Another sum, and the paper's figures do not come out.
#[test]
fn each_entry_costs_the_board_what_the_paper_says() {
    for (store_ns, each_ns) in [(0, 400), (200, 600)] {
        let mut last = None;
        for slots in 1..=8 {
            let mut bench = board();
            bench.drive.transfer.chunk_store = Delay::from_ns(store_ns);
            let took = latency(bench, slots);
            if let Some(last) = last {
                assert_eq!(took.saturating_sub(last), Delay::from_ns(each_ns), "entry {slots}");
            }
            last = Some(took);
        }
    }
    // And on the wire: 24 bytes of request, 64 + 20 of completion.
    board().with_methods(64, async |host, pair| {
        let then = host.end().ledger().snapshot();
        host.inline(&pair, sink_write(0, 256), &[1; 256]).await;
        let chunks = host.end().ledger().since(&then).of(Purpose::InlineChunk);
        assert_eq!((chunks.payload, chunks.wire), (256, 4 * 108));
    });
}

// Commands that are in flight when a queue is enabled or disabled were placed by the rules of before.
#[test]
fn enabling_in_mid_flight_changes_nothing_of_what_is_fetched() {
    let mut bench = Bench::offering(INLINE);
    bench.drive.controller.fetch_burst = 1;
    bench.with_methods(64, async |host, pair| {
        for round in 0..40 {
            let commands: Vec<_> = (0..12).map(|_| host.place(&pair.sq, flush())).collect();
            host.ring_tail(&pair.sq);
            host.sleep(Delay::from_ns(round * 50)).await;
            let methods = if round % 2 == 0 { Methods::new() } else { INLINE };
            host.enable_methods(&pair, methods).await;
            for cid in commands {
                assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::SUCCESS);
            }
        }
        host.enable_methods(&pair, INLINE).await;
        carry(&host, &pair, 0, 1, 500).await;
    });
}

/// Commands in flight of one of several hosts' queues.
struct Load {
    pair: Pair,
    /// By command: where its payload goes, or nothing for a plain command.
    sent: BTreeMap<u16, Option<(u64, Vec<u8>)>>,
    /// How far the doorbell has been rung.
    rung: u32,
    free: u32,
    base: u64,
}

// Interleavings that no test author planned: random trains of several queues, doorbells at any place, every profile.
#[test]
fn random_trains_of_several_queues_arrive() {
    for seed in 0..24u64 {
        let mut random = Rng::new(seed).stream("trains");
        let mut bench = Bench::offering(BOTH);
        bench.drive.controller.fetch_burst = [1, 2, 4, 64][seed as usize % 4];
        bench.drive.controller.fetch_outstanding = 1 + (seed as u32 / 4) % 3;
        bench.drive.controller.command_slots = [1, 2, 64][seed as usize % 3];
        println!("seed {seed}");
        bench.enabled(async move |host| {
            let mut loads = Vec::new();
            for id in 1..=3 {
                let pair = host.create_pair(id, [16, 33, 64][id as usize - 1]).await;
                host.enable_methods(&pair, BOTH).await;
                let (sent, free, base) = (BTreeMap::new(), pair.sq.entries - 1, u64::from(id) << 16);
                loads.push(Load { pair, sent, rung: 0, free, base });
            }
            for step in 0..600 {
                let load = &mut loads[random.below(3) as usize];
                let sq = &load.pair.sq;
                let bytes = random.below(u64::from(sq.entries) * 50) as usize;
                let slots = 1 + bytes.div_ceil(64) as u32;
                match random.below(4) {
                    // Places a train, if there is space.
                    0 | 1 if slots <= load.free => {
                        let payload = pattern(seed << 20 | step, bytes);
                        let offset = load.base + random.below(60_000);
                        // Two that overlap may come to the sink in any order.
                        let taken = load.sent.values().flatten();
                        let clash = |(at, held): &(u64, Vec<u8>)| {
                            offset < at + held.len() as u64 && *at < offset + bytes as u64
                        };
                        if bytes == 0 || taken.into_iter().any(clash) {
                            continue;
                        }
                        let sqe = sink_write(offset, bytes as u32);
                        let cid = host.place_train(sq, sqe, &payload, random.chance(0.5));
                        load.sent.insert(cid, Some((offset, payload)));
                        load.free -= slots;
                    }
                    2 if load.free > 0 => {
                        load.sent.insert(host.place(sq, flush()), None);
                        load.free -= 1;
                    }
                    // Rings for some of what was placed.
                    _ => {
                        let placed = (sq.tail.get() + sq.entries - load.rung) % sq.entries;
                        if placed > 0 {
                            load.rung = (load.rung + 1 + random.below(placed.into()) as u32) % sq.entries;
                            let doorbell = byteway_wire::nvme::Doorbell::SubmissionTail(sq.id);
                            host.ring(doorbell, load.rung);
                        }
                        host.sleep(Delay::from_ns(random.below(3000))).await;
                    }
                }
                for load in &mut loads {
                    reap(&host, load).await;
                }
            }
            for load in &mut loads {
                if load.rung != load.pair.sq.tail.get() {
                    host.ring_tail(&load.pair.sq);
                }
                while !load.sent.is_empty() {
                    host.sleep(Delay::from_us(1)).await;
                    reap(&host, load).await;
                }
            }
        });
    }
}

/// Takes what has completed, and looks whether the payload is in the sink.
async fn reap(host: &TestHost, load: &mut Load) {
    let (sq, cq) = (&load.pair.sq, &load.pair.cq);
    while let Some(cqe) = host.take(cq) {
        host.ring_head(cq);
        assert_eq!(cqe.status(), Status::SUCCESS);
        let sent = load.sent.remove(&cqe.cid).expect("a command completes once");
        if let Some((_, payload)) = sent {
            assert_eq!(cqe.dw0, crc32c::crc32c(&payload));
        }
        let used = (sq.tail.get() + sq.entries - u32::from(cqe.sqhd)) % sq.entries;
        load.free = sq.entries - 1 - used;
    }
}

// Garbage in a queue that frames by it: nothing may hang, leak or reach another queue.
#[test]
fn garbage_in_one_queue_reaches_no_other() {
    for seed in 0..20u64 {
        println!("seed {seed}");
        let mut random = Rng::new(seed).stream("garbage");
        let mut bench = Bench::offering(BOTH);
        bench.drive.controller.fetch_burst = [1, 4, 64][seed as usize % 3];
        bench.drive.controller.command_slots = [1, 8][seed as usize % 2];
        bench.enabled(async move |host| {
            let good = host.create_pair(1, 64).await;
            host.enable_methods(&good, BOTH).await;
            for round in 0..12 {
                let bad = host.create_pair(2, 32).await;
                host.enable_methods(&bad, BOTH).await;
                for _ in 0..40 {
                    let mut sqe = match random.below(3) {
                        0 => sink_write(random.below(1 << 20), random.below(600) as u32),
                        1 => read_write(NvmOpcode::WRITE, NS_4K, random.below(100), 1),
                        _ => flush(),
                    };
                    if random.chance(0.6) {
                        sqe = inline::place(sqe, random.below(700) as u32, random.chance(0.5));
                    }
                    if random.chance(0.05) {
                        sqe.cdw3 = random.next_u64() as u32;
                    }
                    host.place(&bad.sq, sqe);
                    if random.chance(0.4) {
                        host.ring_tail(&bad.sq);
                        host.sleep(Delay::from_ns(random.below(4000))).await;
                    }
                    while host.take(&bad.cq).is_some() {
                        host.ring_head(&bad.cq);
                    }
                }
                carry(&host, &good, 0, round, 700).await;
                host.succeed(delete_sq(2)).await;
                host.succeed(delete_cq(2)).await;
                assert!(host.drive().controller.is_quiet() || round == 0, "nothing is kept");
            }
        });
    }
}
