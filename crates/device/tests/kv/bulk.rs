//! Many pairs by one command, and the host's client that gathers them.
//!
//! Verified: bytes that are not exactly the pairs that a command says store nothing; what is there is what was put, in that
//! order; where space ends in the middle of a command, the drive says how many it has; a host that crashes loses exactly
//! what its loss window says; batches next to values that the host places itself. Power cuts are in `cuts`.

use super::client::{client, key, oracle, queue, run};
use super::pairs::{KV, VALUE_BYTES_MAX, bench};
use crate::fixture::{TestHost, pattern};
use byteway_clock::Delay;
use byteway_clock::random::Rng;
use byteway_host::{IoError, KvBulk, LossWindow, Method, StoreIf};
use byteway_wire::nvme::command::{FUSE_FIRST, FUSE_SECOND};
use byteway_wire::nvme::vendor::kv::BulkLimits;
use byteway_wire::nvme::vendor::kv::{StoreMany, push};
use byteway_wire::nvme::{Sqe, Status};
use std::cell::RefCell;
use std::rc::Rc;

fn payload(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    pairs.iter().for_each(|(key, value)| push(&mut bytes, key, value));
    bytes
}

fn many(host: &TestHost, pairs: u32, bytes: &[u8]) -> Sqe {
    host.with_data(StoreMany { pairs, bytes: bytes.len() as u32 }.sqe(0, KV), bytes)
}

// Pairs at their word: a count that is wrong, a pair that is cut off, a length beyond the transfer. A drive that believes one
// of them stores what lies past the host's buffer, or what another command has left in its own.
#[test]
fn what_is_not_so_many_pairs_stores_nothing() {
    bench().with_queue(async |host, pair| {
        assert_eq!(host.put(&pair, b"kept", b"value").await, Status::SUCCESS);
        let good = payload(&[(b"one", b"1234567"), (b"two", &pattern(1, 300)), (b"kept", b"changed")]);
        let refused = async |what: &str, sqe: Sqe, status: Status| {
            let cqe = host.io(&pair, sqe).await;
            assert_eq!((cqe.status(), cqe.dw0), (status.with_dnr(), 0), "{what}");
            assert_eq!(host.keys(&pair, b"", 4096).await, Ok(vec![b"kept".to_vec()]), "{what}");
        };
        for pairs in [0, 1, 2, 4, 5, 1 << 20, u32::MAX] {
            refused("another count", many(&host, pairs, &good), Status::INVALID_FIELD).await;
        }
        for cut in (0..good.len()).step_by(4).chain([1, 7, 9, good.len() - 1]) {
            let sqe = many(&host, 3, &good[..cut]);
            refused(&format!("cut off at {cut}"), sqe, Status::INVALID_FIELD).await;
        }
        let behind = [&good[..], &[0; 4]].concat();
        refused("something behind them", many(&host, 3, &behind), Status::INVALID_FIELD).await;
        for (at, byte, status) in [
            (4, 0, Status::INVALID_KEY_SIZE),
            (4, 17, Status::INVALID_KEY_SIZE),
            (5, 255, Status::INVALID_KEY_SIZE),
            (6, 1, Status::INVALID_FIELD),
            (3, 255, Status::INVALID_VALUE_SIZE),
        ] {
            let mut wrong = good.clone();
            wrong[at] = byte;
            refused(&format!("byte {at} is {byte}"), many(&host, 3, &wrong), status).await;
        }
        let long = payload(&[(b"one", b"1"), (b"long", &vec![0; VALUE_BYTES_MAX as usize + 1])]);
        refused("a value that is too long", many(&host, 2, &long), Status::INVALID_VALUE_SIZE).await;
        for bytes in [(128 << 10) + 1, u32::MAX] {
            let sqe = StoreMany { pairs: 3, bytes }.sqe(0, KV).with_prp(host.pages(1), 0);
            refused("more than a transfer", sqe, Status::INVALID_FIELD).await;
        }
        let reserved = FUSE_FIRST | FUSE_SECOND;
        refused("fused", many(&host, 3, &good).with_fuse(reserved), Status::INVALID_FIELD).await;
        let mut blocks = many(&host, 3, &good);
        blocks.nsid = 1;
        refused("blocks", blocks, Status::INVALID_OPCODE).await;
        let hole = StoreMany { pairs: 3, bytes: good.len() as u32 }.sqe(0, KV).with_prp(host.hole(), 0);
        assert_eq!(host.io(&pair, hole).await.status(), Status::DATA_TRANSFER_ERROR);
        assert_eq!(host.value(&pair, b"kept").await, Ok(b"value".to_vec()));

        let cqe = host.io(&pair, many(&host, 3, &good)).await;
        assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, 3));
        for (key, value) in
            [(&b"one"[..], b"1234567".to_vec()), (b"two", pattern(1, 300)), (b"kept", b"changed".to_vec())]
        {
            assert_eq!(host.value(&pair, key).await, Ok(value));
        }
        // The last of one key counts, and an empty value is a value.
        let again = payload(&[(b"one", b"first"), (b"one", &[]), (b"two", b"a"), (b"one", b"last")]);
        assert_eq!(host.io(&pair, many(&host, 4, &again)).await.dw0, 4);
        assert_eq!(host.value(&pair, b"one").await, Ok(b"last".to_vec()));
        assert_eq!(host.value(&pair, b"two").await, Ok(b"a".to_vec()));
    });
}

// Whatever the bytes are, the drive answers, continues to work, and keeps key-value pairs that the command
// does not name.
#[test]
fn any_payload_is_answered() {
    bench().with_queue(async |host, pair| {
        assert_eq!(host.put(&pair, b"kept-as-it-is", b"value").await, Status::SUCCESS);
        let mut random = Rng::new(11).stream("payloads");
        let mut stored = 0;
        for _ in 0..600 {
            let mut bytes = Vec::new();
            let pairs = 1 + random.below(6) as u32;
            for _ in 0..pairs {
                let key = [b'a' + random.below(8) as u8; 3];
                push(&mut bytes, &key, &pattern(random.next_u64(), random.below(90) as usize));
            }
            for _ in 0..random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = [0, 1, 255, random.next_u64() as u8][random.below(4) as usize];
            }
            let sqe = many(&host, pairs, &bytes);
            stored += u32::from(host.io(&pair, sqe).await.status().is_success());
        }
        assert!((100..600).contains(&stored), "{stored}");
        assert_eq!(host.value(&pair, b"kept-as-it-is").await, Ok(b"value".to_vec()));
    });
}

// A drive that says less than it has stored has pairs that no host counts on; one that says more loses them.
#[test]
fn where_room_ends_the_drive_says_how_many_it_has() {
    bench().with_queue(async |host, pair| {
        let value = pattern(3, 30 << 10);
        let name = |index: u32| index.to_be_bytes();
        let mut put = 0;
        let (status, stored) = loop {
            let names = [0, 1, 2, 3].map(|index| name(put + index));
            let bytes = payload(&names.each_ref().map(|name| (&name[..], &value[..])));
            let cqe = host.io(&pair, many(&host, 4, &bytes)).await;
            if !cqe.status().is_success() {
                break (cqe.status(), cqe.dw0);
            }
            assert_eq!(cqe.dw0, 4);
            put += 4;
            assert!(put < 1000);
        };
        assert_eq!(status, Status::CAPACITY_EXCEEDED.with_dnr());
        assert!(stored < 4 && put > 100, "{stored} after {put}");
        for index in 0..put + 4 {
            let found = host.has(&pair, &name(index)).await;
            assert_eq!(found.is_success(), index < put + stored, "pair {index} of {}", put + stored);
        }
    });
}

// Purpose and price of the client: without the window it is unknown what a crash of the host loses.
#[test]
fn a_crash_of_the_host_loses_what_the_window_says() {
    run(async |driver| {
        let (queue, oracle) = (queue(&driver).await, oracle());
        let client = client(&queue, Method::Prp, &oracle);
        let mut buffer = client.buffer().expect("a buffer");
        for (pairs, bytes) in [(1, 4096), (10, 16 << 10), (u32::MAX, 2000), (64, 300)] {
            let window = Rc::new(RefCell::new(LossWindow::default()));
            let limits = BulkLimits { pairs, bytes };
            let mut bulk = KvBulk::new(&client, limits, &window).expect("a buffer");
            let mut told = 0;
            for index in 0..95u32 {
                bulk.put_pattern(key(index.into()), index % 90).await.expect("a put");
                told += 1;
                assert_eq!(window.borrow().now().0, bulk.len() as u64);
                if pairs == 1 {
                    assert!(bulk.is_empty(), "what is told is on the drive");
                }
            }
            let (in_window, _) = window.borrow().now();
            let now = driver.clock().now();
            let before = window.borrow().figures(now);
            assert_eq!(before.lost, 0);
            assert_eq!(before.batch_pairs + in_window, 95);
            drop(bulk); // the host crashes
            let figures = window.borrow().figures(now);
            assert_eq!(
                (figures.lost, window.borrow().now()),
                (in_window, (0, 0)),
                "{pairs} pairs, {bytes} B"
            );
            let mut there = 0;
            for index in 0..95 {
                let found = client.retrieve(&mut buffer, key(index), 0, 4096).await.expect("an answer");
                assert_eq!(found.found, index < told - in_window, "{pairs} pairs, {bytes} B: {index}");
                there += u64::from(found.found);
                client.delete(key(index)).await.expect("an answer");
            }
            assert_eq!(there + in_window, told);
            if pairs == 10 {
                // The put that fills a batch tells its caller when the drive has it.
                assert_eq!((figures.pairs_max, figures.batches, in_window), (9, 9, 5));
                assert!(figures.pair_time > 0 && figures.time_max > Delay::ZERO);
            }
        }
        let window = Rc::default();
        let mut bulk = KvBulk::new(&client, BulkLimits { pairs: 9, bytes: 100 }, &window).expect("a buffer");
        assert!(matches!(bulk.put_pattern(key(1), 100).await, Err(IoError::Plan(_))), "longer than a batch");
        assert!(bulk.is_empty());
    });
}

// Two hosts' worth of ways at once: the drive places batches where the host is about to place values itself.
#[test]
fn batches_beside_values_that_the_host_places() {
    run(async |driver| {
        let oracle = oracle();
        let (first, second) = (queue(&driver).await, queue(&driver).await);
        let placing = client(&first, Method::CxlMem, &oracle);
        let gathering = client(&second, Method::Prp, &oracle);
        let window = Rc::default();
        let mut bulk =
            KvBulk::new(&gathering, BulkLimits { pairs: 7, bytes: 8192 }, &window).expect("a buffer");
        let mut buffer = placing.buffer().expect("a buffer");
        for index in 0..400u32 {
            bulk.put_pattern(key(u64::from(index) % 50), index % 700).await.expect("a put");
            let name = key(50 + u64::from(index) % 50);
            placing.store(&mut buffer, name, 1 + index % 500, StoreIf::Any).await.expect("a store");
        }
        bulk.send().await.expect("all is sent");
        assert_eq!(placing.counts().of(Method::CxlMem), 400);
        assert_eq!(window.borrow().now(), (0, 0));
        for index in 0..100 {
            assert!(placing.retrieve(&mut buffer, key(index), 0, 4096).await.expect("a value").found);
        }
        assert_eq!(oracle.borrow().unsettled_keys(), 0);
    });
}
