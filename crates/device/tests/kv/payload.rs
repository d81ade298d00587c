//! Values by every method: behind their command, in its fields, in chunks, in the buffer; results behind completions.

use super::pairs::{KV, VALUE_BYTES_MAX, field, offering, store};
use crate::fixture::payload::PAYLOAD_BYTES_MAX;
use crate::fixture::{Pair, TestHost, pattern};
use byteway_clock::Delay;
use byteway_transfer::inline;
use byteway_transfer::piggyback::Pieces;
use byteway_transfer::reassembly::Chunked;
use byteway_transfer::result::Joining;
use byteway_wire::nvme::kv::{Retrieve, Store};
use byteway_wire::nvme::vendor::{Methods, ResultSlot};
use byteway_wire::nvme::{Sqe, Status, VendorOpcode};

const NO_KEY: Status = Status::KEY_DOES_NOT_EXIST.with_dnr();
/// The identifier of heads in these tests, which those of pieces are not.
const STREAM: u16 = 0x4000;

/// The commands of a piggybacked Store; the head's identifier is [`STREAM`].
fn stream(pipelined: bool, key: &[u8], value: &[u8]) -> Vec<Sqe> {
    let cut = Pieces { bytes: value.len() as u32, pipelined };
    let mut head = store(key, value.len()).sqe(STREAM, KV);
    head.set_opcode(match pipelined {
        true => VendorOpcode::KV_STORE_PIPELINED,
        false => VendorOpcode::KV_STORE_PIGGYBACK,
    });
    let part = |index| &value[cut.range(index)];
    let pieces = (1..cut.count()).map(|index| cut.piece(index, 0, KV, STREAM, part(index)));
    std::iter::once(cut.head(head, part(0))).chain(pieces).collect()
}

/// Does the commands of a stream one after the other; gives the last one's status, or the first that is none of success.
async fn one_by_one(host: &TestHost, pair: &Pair, commands: &[Sqe]) -> Status {
    let mut last = Status::SUCCESS;
    for sqe in commands {
        let is_head = sqe.cid() == STREAM;
        let cid = if is_head { STREAM } else { host.place(&pair.sq, *sqe) };
        if is_head {
            host.place_as_is(&pair.sq, *sqe);
        }
        host.ring_tail(&pair.sq);
        let cqe = host.completion(&pair.cq, cid).await;
        assert_eq!((cqe.dw0, cqe.dw1), (0, 0));
        last = cqe.status();
        if last != Status::SUCCESS {
            break;
        }
    }
    last
}

// A key lies where other commands announce their trains: taken for a length, payload would be executed as commands.
#[test]
fn values_behind_their_command() {
    let methods = Methods::new().with_inline(true).with_inline_tail(true);
    offering(methods).with_methods(128, async |host, pair| {
        for (index, bytes) in [1, 35, 64, 65, 1000, 4096].into_iter().enumerate() {
            for beside in [false, true] {
                let (key, value) = (&[255 - index as u8; 16][..], pattern(bytes as u64, bytes));
                let sqe = store(key, bytes).sqe(0, KV);
                let sqe = match beside {
                    true => inline::place_store(sqe, bytes as u32),
                    false => inline::place(sqe, bytes as u32, false),
                };
                let cid = host.place(&pair.sq, sqe);
                host.place_payload(&pair.sq, &value);
                host.ring_tail(&pair.sq);
                assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::SUCCESS);
                assert_eq!(host.value(&pair, key).await, Ok(value), "{bytes} bytes, {beside}");
                assert_eq!(host.remove(&pair, key).await, Status::SUCCESS);
            }
        }
        // Whole pages by PRPs, the rest behind.
        for bytes in [4097_usize, 8192 + 100, 12288 + 4000] {
            let (key, value) = (b"hybrid", pattern(bytes as u64, bytes));
            let before = bytes - bytes % 4096;
            let sqe = host.with_data(store(key, bytes).sqe(0, KV), &value[..before]);
            let cid = host.place(&pair.sq, inline::place_store(sqe, (bytes - before) as u32));
            host.place_payload(&pair.sq, &value[before..]);
            host.ring_tail(&pair.sq);
            assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::SUCCESS);
            assert_eq!(host.value(&pair, key).await, Ok(value), "{bytes} bytes");
        }
        // A train of another length than the value.
        let short = inline::place(store(b"short", 100).sqe(0, KV), 99, false);
        let cid = host.place(&pair.sq, short);
        host.place_payload(&pair.sq, &pattern(1, 99));
        host.ring_tail(&pair.sq);
        let status = host.completion(&pair.cq, cid).await.status();
        assert_eq!(status, Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        assert_eq!(host.value(&pair, b"short").await, Err(NO_KEY));
    });
}

// A stream that stores under another key, or without its last piece, loses a value that was acknowledged.
#[test]
fn values_in_the_fields_of_commands() {
    let methods = Methods::new().with_piggyback(true).with_piggyback_pipelined(true);
    offering(methods).with_methods(256, async |host, pair| {
        for pipelined in [false, true] {
            for bytes in [0, 1, 35, 36, 91, 92, 500, 4096] {
                let (key, value) = (pattern(bytes as u64 + 9, 16), pattern(bytes as u64, bytes));
                let commands = stream(pipelined, &key, &value);
                assert_eq!(one_by_one(&host, &pair, &commands[..commands.len() - 1]).await, Status::SUCCESS);
                assert_eq!(host.value(&pair, &key).await, Err(NO_KEY), "{bytes} bytes: it is not complete");
                if !pipelined && commands.len() > 1 {
                    // The Retrieve is no part of the stream, and does not end it.
                }
                assert_eq!(one_by_one(&host, &pair, &commands[commands.len() - 1..]).await, Status::SUCCESS);
                assert_eq!(host.value(&pair, &key).await, Ok(value), "{bytes} bytes, {pipelined}");
                assert_eq!(host.remove(&pair, &key).await, Status::SUCCESS);
            }
        }
        // Commands that a head must not begin.
        for pipelined in [false, true] {
            let mut wrong = stream(pipelined, b"key", &pattern(1, 100));
            wrong[0].cdw11 = wrong[0].cdw11 & !0xff | 17;
            assert_eq!(one_by_one(&host, &pair, &wrong[..1]).await, Status::INVALID_KEY_SIZE.with_dnr());
            for (bytes, status) in [
                (PAYLOAD_BYTES_MAX + 1, Status::INVALID_FIELD),
                (VALUE_BYTES_MAX + 1, Status::INVALID_VALUE_SIZE),
            ] {
                let mut wrong = stream(pipelined, b"key", &pattern(1, 100));
                wrong[0].cdw10 = bytes;
                assert_eq!(one_by_one(&host, &pair, &wrong[..1]).await, status.with_dnr());
            }
            let after = one_by_one(&host, &pair, &stream(pipelined, b"key", &pattern(1, 100))[1..]).await;
            assert!(!after.is_success(), "pieces without their head");
            host.sleep(Delay::from_ms(6)).await; // until what is left of the streams is given up
        }
        assert_eq!(host.keys(&pair, b"", 4096).await, Ok(vec![]));
    });
}

// Without leave a drive is a plain one: fields of commands are not payload.
#[test]
fn what_is_not_enabled_is_no_command() {
    offering(Methods::new().with_piggyback(true)).with_queue(async |host, pair| {
        let sqe = stream(false, b"key", b"value")[0];
        host.place_as_is(&pair.sq, sqe);
        host.ring_tail(&pair.sq);
        let status = host.completion(&pair.cq, STREAM).await.status();
        assert_eq!(status, Status::INVALID_OPCODE.with_dnr());
        assert_eq!(host.value(&pair, b"key").await, Err(NO_KEY));
    });
}

// Chunks of one value that end up under another key are another tenant's data.
#[test]
fn values_in_chunks() {
    let methods = Methods::new().with_reassembly(true);
    offering(methods).with_methods(128, async |host, pair| {
        for (id, bytes) in (0x8000..).zip([1_usize, 56, 57, 1000]) {
            let value = pattern(bytes as u64, bytes);
            let chunked = Chunked { id, bytes: bytes as u32 };
            for index in (0..chunked.count()).rev() {
                let entry = chunked.entry(index, &value[chunked.range(index)], false);
                host.place_as_is(&pair.sq, entry);
            }
            let sqe = chunked.placed_in(store(b"key", bytes).sqe(0, KV));
            let cid = host.submit(&pair.sq, sqe);
            assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::SUCCESS);
            assert_eq!(host.value(&pair, b"key").await, Ok(value), "{bytes} bytes");
        }
    });
}

// A value after its completion that is cut, or taken for the next completion, is silent corruption.
#[test]
fn results_behind_their_completion() {
    let methods = Methods::new().with_inline_result(true);
    offering(methods).with_methods(64, async |host, pair| {
        for bytes in [0_usize, 1, 14, 15, 100, 140, 141, 4096] {
            let value = pattern(bytes as u64, bytes);
            assert_eq!(host.put(&pair, b"key", &value).await, Status::SUCCESS);
            for buffer_bytes in [100_u32, 140, 8192] {
                let came = (bytes as u32).min(buffer_bytes);
                let retrieve =
                    Retrieve { key: field(b"key"), buffer_bytes, inline_result: true, ..Retrieve::default() };
                let page = host.pages(2);
                let (prp1, prp2) = host.prp(page, buffer_bytes.into());
                host.submit(&pair.sq, retrieve.sqe(0, KV).with_prp(prp1, prp2));
                let cqe = host.next_quietly(&pair.cq).await;
                assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, bytes as u32));
                let is_behind = (1..=140).contains(&came);
                assert_eq!(cqe.dw1, if is_behind { came } else { 0 }, "{bytes} bytes by {buffer_bytes}");
                let mut found = Vec::new();
                if is_behind {
                    let mut joining = Joining::new(came);
                    while joining.missing() > 0 {
                        let slot = host.take(&pair.cq).expect("a result arrives with its completion");
                        let slot = ResultSlot::from_bytes(&slot.to_bytes());
                        joining.add(&slot, &mut found).expect("the part that is due");
                    }
                } else {
                    found = host.peek(page, came as usize);
                }
                host.ring_head(&pair.cq);
                assert_eq!(found, value[..came as usize], "{bytes} bytes by {buffer_bytes}");
            }
        }
    });
}

// A Store whose options stand where a head has payload would be carried out without them.
#[test]
fn a_head_has_no_options() {
    let methods = Methods::new().with_piggyback(true);
    offering(methods).with_methods(64, async |host, pair| {
        // All ones in the payload: of a Store they would be its options.
        let commands = stream(false, b"key", &[255; 35]);
        let parsed = Store::parse(&commands[0]);
        assert!(parsed.must_exist && parsed.must_not_exist);
        assert_eq!(one_by_one(&host, &pair, &commands).await, Status::SUCCESS);
        assert_eq!(host.value(&pair, b"key").await, Ok(vec![255; 35]));
    });
}
