//! Payload in the fields of commands: streams, serialized and pipelined.
//!
//! Verified: every byte that is stored, and who answers for it; which commands are refused, and with what status; that a
//! stream which is not complete ends, in each of the ways in which it may, stores nothing and leaves nothing behind.
//! Orders and contradictions of all kinds are tested where payloads are put together, in `byteway-transfer`.

use crate::fixture::payload::{PAYLOAD_BYTES_MAX, SINK_BYTES};
use crate::fixture::{Bench, NS_4K, Pair, TestHost, delete_sq, pattern};
use byteway_clock::Delay;
use byteway_clock::random::Rng;
use byteway_link::{Direction, Purpose};
use byteway_transfer::piggyback::Pieces;
use byteway_transfer::reassembly::Chunked;
use byteway_wire::nvme::vendor::piggyback::{HEAD_BYTES, PIECE_BYTES, Piece, PipelinedPiece};
use byteway_wire::nvme::vendor::{Methods, Sink};
use byteway_wire::nvme::{Abort, Flush, QueuePriority, Sqe, Status, VendorOpcode};

const SERIALIZED: Methods = Methods::new().with_piggyback(true);
const PIPELINED: Methods = Methods::new().with_piggyback_pipelined(true);
/// After this, what is incomplete was given up.
const TIMED_OUT: Delay = Delay::from_ms(6);
/// The identifier of heads in these tests, which those of pieces are not.
const STREAM: u16 = 0x4000;

/// The commands of a payload that goes to `offset`; the head's identifier is `stream`.
fn commands(pipelined: bool, stream: u16, offset: u64, payload: &[u8]) -> Vec<Sqe> {
    let cut = Pieces { bytes: payload.len() as u32, pipelined };
    let head = Sink { offset, bytes: cut.bytes }.sqe(VendorOpcode::SINK_STORE, stream, 1);
    let part = |index| &payload[cut.range(index)];
    let pieces = (1..cut.count()).map(|index| cut.piece(index, 0, 1, stream, part(index)));
    std::iter::once(cut.head(head, part(0))).chain(pieces).collect()
}

/// Does the commands one after the other; gives the last one's answer, before which all have answered with success and
/// nothing else.
async fn one_by_one(host: &TestHost, pair: &Pair, commands: &[Sqe]) -> (Status, u32) {
    for (index, sqe) in commands.iter().enumerate() {
        let cqe = host.io(pair, *sqe).await;
        if index + 1 == commands.len() {
            return (cqe.status(), cqe.dw0);
        }
        assert_eq!((cqe.status(), cqe.dw0, cqe.dw1), (Status::SUCCESS, 0, 0), "command {index}");
    }
    unreachable!("a payload is at least one command")
}

/// Places the commands, the head as it is; gives their identifiers.
fn place_all(host: &TestHost, pair: &Pair, commands: &[Sqe]) -> Vec<u16> {
    let place = |sqe: &Sqe| match sqe.opcode() == VendorOpcode::SINK_STORE.0 {
        true => {
            host.place_as_is(&pair.sq, *sqe);
            sqe.cid()
        }
        false => host.place(&pair.sq, *sqe),
    };
    commands.iter().map(place).collect()
}

/// Does a serialized payload that must succeed.
async fn carry(host: &TestHost, pair: &Pair, offset: u64, bytes: usize) {
    let payload = pattern(offset, bytes);
    let answer = one_by_one(host, pair, &commands(false, STREAM, offset, &payload)).await;
    assert_eq!(answer, (Status::SUCCESS, crc32c::crc32c(&payload)), "{bytes} bytes");
    assert!(host.sink_read(pair, offset, bytes as u32).await == payload, "{bytes} bytes");
}

/// A stream that has begun, of two pieces, and the first piece of it.
async fn begin(host: &TestHost, pair: &Pair, offset: u64) -> Vec<Sqe> {
    let all = commands(false, STREAM, offset, &pattern(offset, HEAD_BYTES + 2 * PIECE_BYTES));
    for sqe in &all[..2] {
        assert_eq!(host.io(pair, *sqe).await.status(), Status::SUCCESS);
    }
    all
}

async fn refused(host: &TestHost, pair: &Pair, sqe: Sqe, status: Status) {
    assert_eq!(host.io(pair, sqe).await.status(), status.with_dnr(), "{sqe:?}");
}

// A byte that is lost at a boundary, or padding that is stored, is silent corruption.
#[test]
fn serialized_payloads_of_every_length_arrive() {
    for command_slots in [1, 64] {
        let mut bench = Bench::offering(SERIALIZED);
        bench.drive.controller.command_slots = command_slots;
        bench.with_methods(64, async |host, pair| {
            for bytes in [0, 1, 24, 25, 34, 35, 36, 91, 92, 147, 148, 1000, 4095, 4096] {
                let before = host.end().ledger().snapshot();
                let payload = pattern(9, bytes);
                let all = commands(false, STREAM, 500, &payload);
                let answer = one_by_one(&host, &pair, &all).await;
                assert_eq!(answer, (Status::SUCCESS, crc32c::crc32c(&payload)));
                let crossed = host.end().ledger().since(&before);
                let count = 1 + (bytes as u64).saturating_sub(35).div_ceil(56);
                assert_eq!(crossed.entry(Purpose::SqeFetch, Direction::Down).payload, 64 * count);
                assert_eq!(crossed.of(Purpose::Data).wire, 0);
                assert!(host.sink_read(&pair, 500, bytes as u32).await == payload, "{bytes} bytes");
            }
        });
    }
}

// One that waited for another would be serialized after all; and one that took another's pieces would corrupt both.
#[test]
fn pipelined_payloads_arrive_in_any_order_all_at_once() {
    for command_slots in [1, 3, 64] {
        let mut bench = Bench::offering(PIPELINED);
        bench.drive.controller.command_slots = command_slots;
        bench.with_methods(256, async move |host, pair| {
            let mut random = Rng::new(5).stream("pieces");
            for round in 0..12u64 {
                let payloads: Vec<_> =
                    (0..6).map(|which| pattern(round * 6 + which, random.below(900) as usize)).collect();
                let all: Vec<Vec<Sqe>> = payloads
                    .iter()
                    .enumerate()
                    .map(|(which, payload)| {
                        commands(true, STREAM + which as u16, which as u64 * 1000, payload)
                    })
                    .collect();
                let mut order: Vec<(usize, Sqe)> = all
                    .iter()
                    .enumerate()
                    .flat_map(|(which, commands)| commands.iter().map(move |sqe| (which, *sqe)))
                    .collect();
                random.shuffle(&mut order);
                let sqes: Vec<_> = order.iter().map(|(_, sqe)| *sqe).collect();
                let cids = place_all(&host, &pair, &sqes);
                host.ring_tail(&pair.sq);
                let mut sums = vec![0; payloads.len()];
                for (cid, (which, _)) in cids.into_iter().zip(&order) {
                    let cqe = host.completion(&pair.cq, cid).await;
                    assert_eq!(cqe.status(), Status::SUCCESS);
                    // One of the commands answers with the checksum, the others with nothing.
                    assert!(cqe.dw0 == 0 || sums[*which] == 0);
                    sums[*which] |= cqe.dw0;
                }
                for (which, payload) in payloads.iter().enumerate() {
                    assert_eq!(sums[which], crc32c::crc32c(payload), "round {round}, payload {which}");
                    let bytes = payload.len() as u32;
                    assert!(host.sink_read(&pair, which as u64 * 1000, bytes).await == *payload);
                }
            }
        });
    }
}

// Bytes of a stream that was left must not end up in the next one, nor one queue's in another's.
#[test]
fn a_queue_has_one_stream_and_a_store_begins_anew() {
    Bench::offering(SERIALIZED).with_methods(64, async |host, pair| {
        let other = host.create_pair(2, 64).await;
        host.enable_methods(&other, SERIALIZED).await;
        refused(&host, &pair, Piece::sqe(0, 1, &[1; 56]), Status::COMMAND_SEQUENCE_ERROR).await;
        let left = begin(&host, &pair, 0).await;
        let elsewhere = begin(&host, &other, 9000).await;
        carry(&host, &pair, 3000, 200).await;
        refused(&host, &pair, left[2], Status::COMMAND_SEQUENCE_ERROR).await;
        // One that fits into the head leaves none open either.
        begin(&host, &pair, 0).await;
        carry(&host, &pair, 3000, 10).await;
        refused(&host, &pair, left[2], Status::COMMAND_SEQUENCE_ERROR).await;
        let cqe = host.io(&other, elsewhere[2]).await;
        assert_eq!(cqe.dw0, crc32c::crc32c(&pattern(9000, HEAD_BYTES + 2 * PIECE_BYTES)));
        assert!(host.sink_read(&pair, 0, 147).await == [0; 147], "what was left was not stored");
    });
}

// Each of these would reach memory that is none, or one that the host was not told of.
#[test]
fn what_cannot_be_stored_is_refused_at_its_head() {
    for pipelined in [false, true] {
        Bench::offering(SERIALIZED.or(PIPELINED)).with_methods(64, async move |host, pair| {
            let head = |offset, bytes| {
                let sqe = Sink { offset, bytes }.sqe(VendorOpcode::SINK_STORE, STREAM, 1);
                Pieces { bytes, pipelined }.head(sqe, &[1; 35])
            };
            for (sqe, status) in [
                (head(SINK_BYTES - 34, 35), Status::LBA_OUT_OF_RANGE),
                (head(u64::MAX, 35), Status::LBA_OUT_OF_RANGE),
                (head(0, PAYLOAD_BYTES_MAX + 1), Status::INVALID_FIELD),
                (head(0, u32::MAX), Status::INVALID_FIELD),
                (Sqe { nsid: 999, ..head(0, 100) }, Status::INVALID_NAMESPACE),
                (Sqe { nsid: 999, ..Piece::sqe(0, 1, &[1; 56]) }, Status::INVALID_NAMESPACE),
            ] {
                refused(&host, &pair, sqe, status).await;
            }
            host.sleep(TIMED_OUT).await; // until then, pieces of such a head are refused
            assert!(host.drive().controller.is_quiet());
            carry(&host, &pair, SINK_BYTES - 100, 100).await;
        });
    }
}

// A method that works without having been enabled is one that a plain host can run into.
#[test]
fn without_being_enabled_they_are_no_commands() {
    let offered = SERIALIZED.or(PIPELINED);
    for enabled in [Methods::new(), SERIALIZED, PIPELINED] {
        Bench::offering(offered).with_queue(async move |host, pair| {
            host.enable_methods(&pair, enabled).await;
            let stream = PipelinedPiece { stream: STREAM, sequence: 1 };
            for (sqe, is_enabled) in [
                (commands(false, 0, 0, &[1; 35])[0], enabled.piggyback()),
                (commands(true, 0, 0, &[1; 35])[0], enabled.piggyback_pipelined()),
                (Piece::sqe(0, 1, &[1; 56]), enabled.piggyback()),
                (stream.sqe(0, 1, &[1; 52]), enabled.piggyback_pipelined()),
            ] {
                let status = host.io(&pair, sqe).await.status();
                assert_eq!(status == Status::INVALID_OPCODE.with_dnr(), !is_enabled, "{sqe:?}");
            }
        });
    }
}

// A stream that contradicts itself belongs to no command: storing it would be silent corruption.
#[test]
fn a_pipelined_stream_that_contradicts_itself_stores_nothing() {
    let bad = [
        (PipelinedPiece { stream: STREAM, sequence: 2 }.sqe(0, 1, &[9; 52]), Status::DATA_TRANSFER_ERROR),
        (
            PipelinedPiece { stream: STREAM, sequence: 0 }.sqe(0, 1, &[9; 52]),
            Status::INVALID_FIELD.with_dnr(),
        ),
        (
            PipelinedPiece { stream: STREAM, sequence: 4 }.sqe(0, 1, &[9; 52]),
            Status::INVALID_FIELD.with_dnr(),
        ),
        (
            PipelinedPiece { stream: STREAM, sequence: u16::MAX }.sqe(0, 1, &[9; 52]),
            Status::INVALID_FIELD.with_dnr(),
        ),
    ];
    for (sqe, status) in bad {
        Bench::offering(PIPELINED).with_methods(64, async move |host, pair| {
            let all = commands(true, STREAM, 0, &pattern(1, 150));
            assert_eq!(all.len(), 4);
            for index in [0, 2] {
                place_all(&host, &pair, &all[index..=index]);
            }
            host.ring_tail(&pair.sq);
            for cqe in host.next_many(&pair.cq, 2).await {
                assert_eq!(cqe.status(), Status::SUCCESS);
            }
            assert_eq!(host.io(&pair, sqe).await.status(), status);
            for index in [1, 3] {
                assert_eq!(host.io(&pair, all[index]).await.status(), Status::DATA_TRANSFER_ERROR);
            }
            assert!(host.sink_read(&pair, 0, 150).await == [0; 150]);
            // Its name is free at the latest when it was given up, or when another begins.
            let again = pattern(2, 150);
            let cids = place_all(&host, &pair, &commands(true, STREAM, 0, &again));
            host.ring_tail(&pair.sq);
            for cid in cids {
                assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::SUCCESS);
            }
            assert!(host.sink_read(&pair, 0, 150).await == again);
            assert!(host.drive().controller.is_quiet());
        });
    }
}

// Pieces may come before their head. Those of a store that was refused must not be taken for the next one's of the same
// name, which would then be stored with another's bytes and be called a success.
#[test]
fn a_head_that_fails_takes_its_pieces_with_it() {
    Bench::offering(PIPELINED).with_methods(64, async |host, pair| {
        let head = |offset, payload: &[u8]| commands(true, STREAM, offset, payload);
        let old = pattern(1, 150);
        // The head before its pieces, among them, and behind them.
        for at in 0..4 {
            let mut refused = head(SINK_BYTES - 10, &old);
            refused[..=at].rotate_left(1);
            for cid in place_all(&host, &pair, &refused) {
                host.ring_tail(&pair.sq);
                let status = host.completion(&pair.cq, cid).await.status();
                let expected = if cid == STREAM { Status::LBA_OUT_OF_RANGE.with_dnr() } else { status };
                assert_eq!(status, expected);
            }
            let new = pattern(2 + at as u64, 150);
            let all = head(0, &new);
            let mut sum = 0;
            for cid in place_all(&host, &pair, &all) {
                host.ring_tail(&pair.sq);
                let cqe = host.completion(&pair.cq, cid).await;
                assert_eq!(cqe.status(), Status::SUCCESS);
                sum |= cqe.dw0;
            }
            assert_eq!(sum, crc32c::crc32c(&new));
            assert!(host.sink_read(&pair, 0, 150).await == new);
            assert!(host.drive().controller.is_quiet());
        }
    });
}

// A stream that lacks a piece, for that has failed, must not take the next stream's in its place.
#[test]
fn a_piece_that_fails_ends_its_stream() {
    for pipelined in [false, true] {
        Bench::offering(SERIALIZED.or(PIPELINED)).with_methods(64, async move |host, pair| {
            let all = commands(pipelined, STREAM, 0, &pattern(1, 150));
            let placed = place_all(&host, &pair, &all[..2]);
            host.ring_tail(&pair.sq);
            for cid in placed {
                assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::SUCCESS);
            }
            refused(&host, &pair, Sqe { nsid: 999, ..all[2] }, Status::INVALID_NAMESPACE).await;
            for sqe in &all[2..] {
                let status = host.io(&pair, *sqe).await.status();
                assert!(!status.is_success(), "{status:?}");
            }
            // And a store that is refused leaves none open.
            if !pipelined {
                begin(&host, &pair, 0).await;
                let beyond = commands(false, STREAM, SINK_BYTES, &[1; 150]);
                refused(&host, &pair, beyond[0], Status::LBA_OUT_OF_RANGE).await;
                refused(&host, &pair, beyond[1], Status::COMMAND_SEQUENCE_ERROR).await;
            }
            assert!(host.sink_read(&pair, 0, 150).await == [0; 150]);
        });
    }
}

// Without a bound a host could have the drive keep as much as it likes; without an end, a host that has gone would keep
// it indefinitely.
#[test]
fn streams_are_bounded_and_given_up() {
    let offered = SERIALIZED.or(PIPELINED).with_reassembly(true);
    Bench::offering(offered).with_methods(64, async |host, pair| {
        let payload = pattern(1, 100);
        let counters = host.drive().controller.counters();
        // Payloads in chunks and streams share what there is.
        for which in 0..8 {
            let all = commands(true, STREAM + which, 0, &payload);
            match which % 3 {
                0 => place_all(&host, &pair, &all[..1]),
                1 => place_all(&host, &pair, &all[1..2]),
                _ => {
                    let cut = Chunked { id: 0x8000 + which, bytes: 100 };
                    host.place_as_is(&pair.sq, cut.entry(0, &payload[..56], true));
                    vec![]
                }
            };
        }
        host.ring_tail(&pair.sq);
        for cqe in host.next_many(&pair.cq, 8).await {
            assert_eq!(cqe.status(), Status::SUCCESS);
        }
        for sqe in commands(true, STREAM + 8, 0, &payload) {
            let cids = place_all(&host, &pair, &[sqe]);
            host.ring_tail(&pair.sq);
            let cqe = host.completion(&pair.cq, cids[0]).await;
            assert_eq!(cqe.status(), Status::DATA_TRANSFER_ERROR);
        }
        // A serialized stream has a place of its own.
        carry(&host, &pair, 5000, 300).await;
        let open = begin(&host, &pair, 9000).await;
        host.sleep(TIMED_OUT).await;
        assert!(host.drive().controller.is_quiet(), "all memory is free");
        assert_eq!(counters.payloads_given_up.get(), 9);
        refused(&host, &pair, open[2], Status::COMMAND_SEQUENCE_ERROR).await;
        // A piece that comes too late begins a stream that is never complete.
        assert_eq!(host.io(&pair, commands(true, STREAM, 0, &payload)[1]).await.status(), Status::SUCCESS);
        host.sleep(TIMED_OUT).await;
        assert!(host.sink_read(&pair, 0, 100).await == [0; 100]);
    });
}

// A payload whose last command was aborted must not be stored: the host has been told that it was not.
#[test]
fn a_stream_whose_last_command_is_aborted_stores_nothing() {
    for pipelined in [false, true] {
        let mut bench = Bench::offering(SERIALIZED.or(PIPELINED));
        bench.drive.site.dram_latency = Delay::from_us(100);
        bench.with_methods(64, async move |host, pair| {
            let all = commands(pipelined, STREAM, 0, &pattern(1, 150));
            let (last, first) = all.split_last().unwrap();
            for sqe in first {
                let cids = place_all(&host, &pair, &[*sqe]);
                host.ring_tail(&pair.sq);
                assert_eq!(host.completion(&pair.cq, cids[0]).await.status(), Status::SUCCESS);
            }
            let cid = host.submit(&pair.sq, *last);
            host.sleep(Delay::from_us(20)).await;
            let abort = host.admin(Abort { sqid: 1, cid }.sqe(0)).await;
            assert_eq!((abort.status(), abort.dw0), (Status::SUCCESS, 0));
            let cqe = host.completion(&pair.cq, cid).await;
            assert_eq!((cqe.status(), cqe.dw0), (Status::ABORT_REQUESTED, 0));
            assert!(host.drive().controller.is_quiet());
            assert!(host.sink_read(&pair, 0, 150).await == [0; 150]);
        });
    }
}

// A queue with a reused identifier must not continue a stream of its predecessor.
#[test]
fn deletion_and_reset_end_streams() {
    let offered = SERIALIZED.or(PIPELINED);
    for way in 0..3 {
        Bench::offering(offered).with_methods(64, async move |host, pair| {
            let open = begin(&host, &pair, 0).await;
            let named = commands(true, STREAM, 0, &pattern(1, 150));
            place_all(&host, &pair, &named[..3]);
            host.ring_tail(&pair.sq);
            host.next_many(&pair.cq, 3).await;
            assert!(!host.drive().controller.is_quiet());
            let pair = if way == 0 {
                host.succeed(delete_sq(1)).await;
                host.sleep(Delay::from_us(10)).await; // the deletion's own slot
                assert!(host.drive().controller.is_quiet(), "all memory is free");
                host.create_sq(1, 64, &pair.cq, QueuePriority::Urgent).await
            } else {
                match way {
                    1 => host.disable().await,
                    _ => host.drive().controller.reset().await,
                }
                assert!(host.drive().controller.is_quiet(), "all memory is free");
                host.enable().await;
                host.create_pair(1, 64).await
            };
            host.enable_methods(&pair, offered).await;
            refused(&host, &pair, open[2], Status::COMMAND_SEQUENCE_ERROR).await;
            assert_eq!(host.io(&pair, named[3]).await.dw0, 0);
            assert!(host.sink_read(&pair, 0, 150).await == [0; 150]);
            carry(&host, &pair, 7000, 150).await;
            assert_eq!(host.io(&pair, Flush.sqe(0, NS_4K)).await.status(), Status::SUCCESS);
        });
    }
}
