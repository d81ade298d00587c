//! Values that the host places itself in the page buffer, over CXL.mem, next to those that the drive places.
//!
//! Verified: with many of both kinds in flight in many queues, each value is what was stored, and none lies over another; each
//! place that a value cannot have is refused, with nothing changed; what was stored without its command is lost, and nothing
//! else; a reset, after which the host asks again; both ledgers. Not verified here: packing (`byteway-kv`).

use super::client::{client, config, key, oracle, queue, run, run_with};
use super::pairs::{KV, VALUE_BYTES_MAX, offering, store};
use crate::fixture::pattern;
use byteway_clock::Channel;
use byteway_clock::random::Rng;
use byteway_host::{Method, StoreIf};
use byteway_kv::Packing;
use byteway_link::{Direction, Purpose, StoreOrdering};
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::vendor::cxl::{InDeviceMemory, PagePointer};
use byteway_wire::nvme::{Sqe, Status};

pub(super) const CXL: Methods = Methods::new().with_cxl_mem(true);
/// Where the page buffer begins in a raw host's drive: after the area.
pub(super) const BUFFER: u64 = 8192;

/// A Store of what lies in the page buffer at `at`.
pub(super) fn placed(name: &[u8], at: u64, bytes: u32, checksum: Option<u32>) -> Sqe {
    let address = BUFFER.wrapping_add(at);
    InDeviceMemory { address, bytes, checksum }.placed_in(store(name, bytes as usize).sqe(0, KV))
}

// Eight queues with 32 stores each, by every method, all to one page buffer: two sides that place values over one another, or
// wait for each other indefinitely, would show here.
#[test]
fn both_sides_place_values_at_once() {
    for seed in 0..3 {
        run(async move |driver| {
            let oracle = oracle();
            let ended: Channel<u64> = Channel::bounded(driver.clock(), 8 * 32);
            let ways = [Method::CxlMem, Method::PiggybackCxl, Method::Prp, Method::CxlMem, Method::Piggyback];
            let mut clients = Vec::new();
            for which in 0..8usize {
                let queue = queue(&driver).await;
                clients.push(client(&queue, ways[which % ways.len()], &oracle));
            }
            for (which, one) in clients.iter().enumerate() {
                for slot in 0..32u64 {
                    let (one, ended) = (one.clone(), ended.clone());
                    let worker = which as u64 * 32 + slot;
                    driver.clock().spawn("stores", async move {
                        let mut stream = Rng::new(seed).stream(&format!("worker {worker}"));
                        let mut buffer = one.buffer().expect("a buffer");
                        for turn in 0..6 {
                            let bytes = match stream.below(8) {
                                0..5 => 1 + stream.below(300),
                                5 | 6 => 1 + stream.below(4096),
                                _ => 1 + stream.below(20_000),
                            } as u32;
                            let name = key(worker * 2 + turn % 2);
                            let stored = one.store(&mut buffer, name, bytes, StoreIf::Any).await;
                            stored.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                        }
                        ended.send(worker).await;
                    });
                }
            }
            for _ in 0..8 * 32 {
                ended.receive().await;
            }
            let carried: u64 = clients.iter().map(|client| client.counts().of(Method::CxlMem)).sum();
            assert!(carried > 500, "seed {seed}: {carried} by CXL.mem");
            let mut buffer = clients[0].buffer().expect("a buffer");
            for index in 0..8 * 32 * 2 {
                let found = clients[0].retrieve(&mut buffer, key(index), 0, VALUE_BYTES_MAX).await;
                let found = found.unwrap_or_else(|error| panic!("seed {seed}, key {index}: {error}"));
                assert!(found.found, "seed {seed}, key {index}");
            }
        });
    }
}

// Each packing puts what comes by DMA elsewhere, and both sides must know where. Two live values over one another, whichever
// way they came, are the worst that they can do; a read finds that only where the bytes differ.
#[test]
fn no_two_live_values_overlap_whatever_the_packing() {
    for packing in [Packing::None, Packing::All, Packing::Selective, Packing::Backfill] {
        let mut config = config();
        config.kv.as_mut().expect("pairs").store.packing = packing;
        run_with(config, async move |driver, pairs| {
            let oracle = oracle();
            let ended: Channel<()> = Channel::bounded(driver.clock(), 8 * 32);
            let mut clients = Vec::new();
            for which in 0..8 {
                let method = if which % 2 == 0 { Method::CxlMem } else { Method::Prp };
                clients.push(client(&queue(&driver).await, method, &oracle));
            }
            for round in 0..4u64 {
                for (which, one) in clients.iter().enumerate() {
                    for slot in 0..32u64 {
                        let (one, ended) = (one.clone(), ended.clone());
                        let worker = which as u64 * 32 + slot;
                        driver.clock().spawn("stores", async move {
                            let mut stream = Rng::new(round).stream(&format!("worker {worker}"));
                            let mut buffer = one.buffer().expect("a buffer");
                            for _ in 0..3 {
                                let bytes = match stream.below(10) {
                                    0..6 => 1 + stream.below(300),
                                    6..9 => 1 + stream.below(5000),
                                    _ => 1 + stream.below(20_000),
                                } as u32;
                                // Half of the keys are another worker's, too, which comes by the other way.
                                let name = key(worker / 2 * 2 + stream.below(2));
                                let stored = one.store(&mut buffer, name, bytes, StoreIf::Any).await;
                                stored.unwrap_or_else(|error| panic!("{packing:?}, round {round}: {error}"));
                            }
                            ended.send(()).await;
                        });
                    }
                }
                for _ in 0..8 * 32 {
                    ended.receive().await;
                }
                let checked = pairs.check().await;
                checked.unwrap_or_else(|error| panic!("{packing:?}, round {round}: {error}"));
            }
            let carried = |which: usize| clients[which].counts();
            let placed: u64 = (0..8).step_by(2).map(|which| carried(which).of(Method::CxlMem)).sum();
            let fetched: u64 = (1..8).step_by(2).map(|which| carried(which).of(Method::Prp)).sum();
            assert!(placed > 1000 && fetched == 4 * 4 * 32 * 3, "{packing:?}: {placed}, {fetched}");
            let mut buffer = clients[0].buffer().expect("a buffer");
            for index in 0..8 * 32 {
                let found = clients[0].retrieve(&mut buffer, key(index), 0, VALUE_BYTES_MAX).await;
                found.unwrap_or_else(|error| panic!("{packing:?}, key {index}: {error}"));
            }
        });
    }
}

// After a reset the host knows nothing of the page buffer any more; a value that it placed as before would be refused, or lie
// where the drive has put another meanwhile.
#[test]
fn the_host_asks_anew_after_a_reset() {
    run(async |driver| {
        let (queue, oracle) = (queue(&driver).await, oracle());
        let client = client(&queue, Method::CxlMem, &oracle);
        let mut buffer = client.buffer().expect("a buffer");
        for round in 0..4u64 {
            for index in 0..40 {
                let bytes = 1 + (index * 97 % 900) as u32;
                client.store(&mut buffer, key(index), bytes, StoreIf::Any).await.expect("a store");
            }
            if round < 3 {
                driver.reset().await.expect("a reset");
            }
        }
        assert_eq!((client.counts().of(Method::CxlMem), client.counts().fallbacks), (160, 0));
        for index in 0..40 {
            assert!(client.retrieve(&mut buffer, key(index), 0, 1000).await.expect("a value").found);
        }
    });
}

// A value that is accepted where another lies, or where nothing may be, is another owner's bytes under this key.
#[test]
fn a_value_that_is_elsewhere_is_refused_and_changes_nothing() {
    offering(CXL).with_methods(64, async |host, pair| {
        let value = pattern(5, 100);
        let put = async |at: u64, bytes: &[u8]| {
            host.end().store_lines(BUFFER + at, bytes, StoreOrdering::Flushed).await;
        };
        let told = host.io(&pair, PagePointer { gives_up: true }.sqe(0, KV)).await;
        assert_eq!((told.status(), told.dw0), (Status::SUCCESS, 0));
        let limit = u64::from(told.dw1);
        put(0, &value).await;
        let stored = host.io(&pair, placed(b"first", 0, 100, Some(crc32c::crc32c(&value)))).await;
        assert_eq!((stored.status(), stored.dw0, u64::from(stored.dw1)), (Status::SUCCESS, 100, limit));
        let misplaced = Status::SGL_OFFSET_INVALID.with_dnr();
        let buffer_bytes = host.end().hdm().expect("memory").bytes - BUFFER;
        for (what, at, bytes) in [
            ("over it", 99, 10),
            ("over its beginning", 0, 1),
            ("over the page's end", 16_380, 10),
            ("longer than a page", 16_384, 16_385),
            ("across its beginning", u64::MAX, 2),
            ("behind the buffer", buffer_bytes - 5, 10),
        ] {
            let refused = host.io(&pair, placed(b"second", at, bytes, None)).await;
            assert_eq!(refused.status(), misplaced, "{what}");
            assert_eq!(host.value(&pair, b"second").await.ok(), None, "{what}");
        }
        let wrong = host.io(&pair, placed(b"second", 100, 10, Some(1))).await;
        assert_eq!(wrong.status(), Status::DATA_TRANSFER_ERROR);
        // Stores over a value that is there go nowhere.
        put(0, &[0; 100]).await;
        assert_eq!(host.value(&pair, b"first").await.ok(), Some(value.clone()));
        // Two commands in the wrong order, and the gap between them and the next.
        put(200, &pattern(6, 50)).await;
        put(100, &pattern(7, 90)).await;
        assert_eq!(host.io(&pair, placed(b"third", 200, 50, None)).await.status(), Status::SUCCESS);
        assert_eq!(host.io(&pair, placed(b"second", 100, 90, None)).await.dw0, 250);
        assert_eq!(host.io(&pair, placed(b"none", 185, 10, None)).await.status(), misplaced);
        // The drive places the next, and tells.
        let sqe = host.with_data(store(b"other", 40).sqe(0, KV), &pattern(8, 40));
        let other = host.io(&pair, sqe).await;
        assert_eq!((other.status(), other.dw0, other.dw1), (Status::SUCCESS, 290, 250));
        host.enable_methods(&pair, Methods::new()).await;
        assert_eq!(
            host.io(&pair, placed(b"none", 290, 10, None)).await.status(),
            Status::SGL_TYPE_INVALID.with_dnr()
        );
        assert_eq!(
            host.io(&pair, PagePointer::default().sqe(0, KV)).await.status(),
            Status::INVALID_OPCODE.with_dnr()
        );
        for (name, value) in [
            (&b"first"[..], value),
            (b"second", pattern(7, 90)),
            (b"third", pattern(6, 50)),
            (b"other", pattern(8, 40)),
        ] {
            assert_eq!(host.value(&pair, name).await.ok(), Some(value));
        }
        assert_eq!(host.value(&pair, b"none").await.ok(), None);
    });
}

// By hand: a line stored counts 68 B, a command 64 + 16 and two doorbells of 4, and no data crosses by PCIe. On the wire each
// line takes six flits of 68 B, three each way.
#[test]
fn both_ledgers_by_hand() {
    for (bytes, lines) in [(8u32, 1u64), (64, 1), (65, 2), (256, 4), (2048, 32), (4096, 64)] {
        offering(CXL).with_methods(64, async move |host, pair| {
            assert_eq!(host.io(&pair, PagePointer::default().sqe(0, KV)).await.dw0, 0);
            let all = |purpose, direction| host.end().ledger().entry(purpose, direction);
            let before = [
                all(Purpose::Doorbell, Direction::Down).payload,
                all(Purpose::SqeFetch, Direction::Down).payload,
                all(Purpose::Cqe, Direction::Up).payload,
            ];
            host.end().store_lines(BUFFER, &pattern(9, bytes as usize), StoreOrdering::Flushed).await;
            assert_eq!(host.io(&pair, placed(b"key", 0, bytes, None)).await.status(), Status::SUCCESS);
            let down = all(Purpose::CxlMem, Direction::Down);
            assert_eq!((down.payload, down.wire), (68 * lines, 204 * lines), "{bytes} B");
            assert_eq!(all(Purpose::CxlMem, Direction::Up).wire, 204 * lines);
            assert_eq!(all(Purpose::Data, Direction::Down).payload, 0);
            assert_eq!(all(Purpose::SqeFetch, Direction::Down).payload - before[1], 64);
            assert_eq!(all(Purpose::Cqe, Direction::Up).payload - before[2], 16);
            assert!(all(Purpose::Doorbell, Direction::Down).payload - before[0] <= 8);
        });
    }
}
