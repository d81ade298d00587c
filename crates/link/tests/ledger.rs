//! The two ledgers against the per-operation table of the two papers' boards (Gen2 x8, MPS 256, MRRS 512,
//! every address above 4 GiB), and against the independent counters of host memory.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::{Delay, Executor};
use byteway_content::Content;
use byteway_link::{Direction, Entry, Ledger, Link, Memory, PcieConfig, Purpose};
use byteway_testkit::board_link_config;
use byteway_wire::nvme::Segment;

/// One write command of `payload` bytes by PRP as the boards do it: whole pages are fetched. Returns payload
/// and wire bytes.
fn write_by_prp(payload: u32, interrupted: bool) -> (u64, u64) {
    let executor = Executor::new();
    let memory = Memory::simulated();
    let (host, device) = Link::connect(executor.clock(), board_link_config(), memory.clone());
    let queue = memory.allocate(1).unwrap();
    let buffer = memory.allocate(1).unwrap();
    let ledger = executor
        .run(async move {
            host.write32(0x1008, 1, Purpose::Doorbell);
            device.next_write().await;
            let mut entry = [0; 64];
            device.read(queue, &mut entry, Purpose::SqeFetch).await.unwrap();
            let mut seen = 0;
            let segment = Segment { address: buffer, bytes: payload };
            device
                .gather([segment], device.epoch(), 4096, Purpose::Data, |_: usize, bytes: &[u8]| {
                    seen += bytes.len()
                })
                .await
                .unwrap();
            assert_eq!(seen, payload as usize, "the command gets what it asked for, whatever was fetched");
            let mut arrival = device.post(queue + 1024, [0xff; 16]).unwrap().arrival;
            if interrupted {
                arrival = device.interrupt(1).arrival;
            }
            device.clock().sleep_until(arrival).await;
            device.clock().yield_now().await;
            host.write32(0x100c, 1, Purpose::Doorbell);
            let ledger = host.ledger().snapshot();
            assert_eq!(ledger.total(Direction::Down).payload - 8, host.memory().dma_read_bytes());
            let messages = ledger.of(Purpose::MsiX).payload;
            assert_eq!(ledger.total(Direction::Up).payload - messages, host.memory().dma_written_bytes());
            ledger
        })
        .unwrap();
    let sum = ledger.sum();
    (sum.payload, sum.wire)
}

// A byte too many or too few in any packet would move every traffic figure of the papers.
#[test]
fn prp_columns_of_the_per_operation_table() {
    for payload in [32, 64, 128, 256, 1024, 4096] {
        assert_eq!(write_by_prp(payload, false), (4184, 4812), "{payload} B polled");
        assert_eq!(write_by_prp(payload, true), (4188, 4840), "{payload} B interrupted");
    }
}

// Latencies rest on this: request, memory, completion, to the picosecond.
#[test]
fn a_read_takes_a_round_trip() {
    let executor = Executor::new();
    let memory = Memory::simulated();
    let (_host, device) = Link::connect(executor.clock(), board_link_config(), memory.clone());
    let page = memory.allocate(1).unwrap();
    let took = executor
        .run(async move {
            let mut bytes = [0; 64];
            device.read(page, &mut bytes, Purpose::SqeFetch).await.unwrap();
            device.clock().now()
        })
        .unwrap();
    // 24 bytes up at 250 ps, 100 ns, 150 ns in memory, 84 bytes down, 100 ns.
    assert_eq!(took.0, 24 * 250 + 100_000 + 150_000 + 84 * 250 + 100_000);
}

// Bytes seen before they arrive would let a host verify data that a real one could not have.
#[test]
fn posted_writes_are_seen_when_they_arrive() {
    let executor = Executor::new();
    let memory = Memory::simulated();
    let (host, device) = Link::connect(executor.clock(), board_link_config(), memory.clone());
    let page = memory.allocate(1).unwrap();
    executor
        .run(async move {
            let bytes: std::rc::Rc<[u8]> = vec![7u8; 64].into();
            let passage = device.write_bytes(page, bytes, device.epoch(), Purpose::Data).unwrap();
            let look = |at: &Memory| at.with(page, 1, |b| b[0]).unwrap();
            device.clock().sleep_until(passage.sent).await;
            assert_eq!(look(host.memory()), 0);
            device.clock().sleep_until(passage.arrival).await;
            device.clock().yield_now().await;
            assert_eq!(look(host.memory()), 7);
            let content = Content::Zero;
            assert!(
                device.write_content(page + 4096, content, 0, 64, device.epoch(), Purpose::Data).is_err(),
                "not given"
            );
        })
        .unwrap();
}

// Tags bound the reads in flight: without them a slow host would look as fast as a near one. A long read must
// still keep the link full if there are enough of them.
#[test]
fn read_tags_bound_and_pipeline_a_long_read() {
    let time = |tags: u32| {
        let executor = Executor::new();
        let memory = Memory::simulated();
        let config = PcieConfig { read_tags: tags, memory_latency: Delay::from_us(1), ..board_link_config() };
        let (_host, device) = Link::connect(executor.clock(), config, memory.clone());
        let pages = memory.allocate(256).unwrap();
        executor
            .run(async move {
                let segment = Segment { address: pages, bytes: 256 * 4096 };
                let mut next = 0;
                device
                    .gather([segment], device.epoch(), 1, Purpose::Data, |offset: usize, bytes: &[u8]| {
                        assert_eq!(offset, next);
                        next += bytes.len();
                    })
                    .await
                    .unwrap();
                assert!(device.tags_free());
                device.clock().now().0 as f64
            })
            .unwrap()
    };
    let wire = 256.0 * 4416.0 * 250.0;
    assert!(time(256) < wire * 1.02, "many tags keep the link full");
    let round_trip = 1_000_000.0 + 200_000.0;
    let four = time(4);
    let bound = 256.0 * 8.0 / 4.0 * round_trip;
    assert!(four > bound && four < bound * 1.3, "four tags: {four} against {bound}");
}

// A long read that runs into unallocated memory must end, and return its tags.
#[test]
fn a_fault_in_the_middle_leaves_no_tag_behind() {
    let executor = Executor::new();
    let memory = Memory::simulated();
    let (_host, device) = Link::connect(executor.clock(), board_link_config(), memory.clone());
    let pages = memory.allocate(4).unwrap();
    executor
        .run(async move {
            let segment = Segment { address: pages, bytes: 64 * 4096 };
            let result =
                device.gather([segment], device.epoch(), 1, Purpose::Data, |_: usize, _: &[u8]| ()).await;
            assert!(result.is_err());
            assert!(device.tags_free());
            let beyond = Segment { address: u64::MAX - 100, bytes: 4096 };
            assert!(
                device
                    .gather([beyond], device.epoch(), 4096, Purpose::Data, |_: usize, _: &[u8]| ())
                    .await
                    .is_err()
            );
            assert!(device.tags_free());
        })
        .unwrap();
}

// An extent at the very end of the address space must not count as read because its end wraps: the command
// would continue with bytes that never came.
#[test]
fn an_extent_that_reaches_the_last_byte_is_a_fault() {
    let executor = Executor::new();
    let memory = Memory::simulated();
    let (_host, device) = Link::connect(executor.clock(), board_link_config(), memory.clone());
    let page = memory.allocate(1).unwrap();
    executor
        .run(async move {
            for (address, bytes) in
                [(u64::MAX, 1), (u64::MAX, u32::MAX), (u64::MAX - 99, 100), (u64::MAX - 98, 99)]
            {
                for granularity in [1, 512, 4096] {
                    let last = Segment { address, bytes };
                    let alone = device
                        .gather([last], device.epoch(), granularity, Purpose::Data, |_: usize, _: &[u8]| {
                            panic!("nothing came")
                        })
                        .await;
                    assert!(alone.is_err(), "{bytes} bytes at {address:#x} in units of {granularity}");
                    let first = Segment { address: page, bytes: 64 };
                    let mut taken = 0;
                    let after = device
                        .gather(
                            [first, last, first],
                            device.epoch(),
                            granularity,
                            Purpose::Data,
                            |_: usize, bytes: &[u8]| taken += bytes.len(),
                        )
                        .await;
                    assert!(after.is_err() && taken <= 64, "{taken} bytes before {bytes} at {address:#x}");
                    assert!(device.tags_free());
                }
            }
        })
        .unwrap();
}

// A read may bring commands and payload together: reassigned later, nothing may be lost or counted twice.
#[test]
fn what_is_reassigned_stays_the_same_in_all() {
    let ledger = Ledger::default();
    ledger.enter(Purpose::SqeFetch, Direction::Down, Entry { tlps: 1, payload: 256, wire: 276 });
    ledger.enter(Purpose::InlineChunk, Direction::Down, Entry { tlps: 1, payload: 64, wire: 84 });
    let sum = ledger.sum();
    let part = Entry { tlps: 0, payload: 128, wire: 128 };
    ledger.reassign(Purpose::SqeFetch, Purpose::InlineChunk, Direction::Down, part);
    assert_eq!(ledger.sum(), sum);
    assert_eq!(ledger.of(Purpose::SqeFetch), Entry { tlps: 1, payload: 128, wire: 148 });
    assert_eq!(ledger.of(Purpose::InlineChunk), Entry { tlps: 1, payload: 192, wire: 212 });
}

// A read in flight when measuring begins must not make a figure negative, and the sums wrong.
#[test]
fn what_is_reassigned_later_was_entered_before() {
    let ledger = Ledger::default();
    let entry = |count: u64| Entry { tlps: count, payload: 64 * count, wire: 84 * count };
    ledger.enter(Purpose::SqeFetch, Direction::Down, entry(3));
    let begin = ledger.snapshot();
    let part = Entry { tlps: 0, payload: 128, wire: 128 };
    ledger.reassign(Purpose::SqeFetch, Purpose::InlineChunk, Direction::Down, part);
    let nothing = ledger.since(&begin);
    assert_eq!((nothing.sum(), nothing.of(Purpose::InlineChunk)), (Entry::default(), Entry::default()));
    ledger.enter(Purpose::SqeFetch, Direction::Down, entry(4));
    let since = ledger.since(&begin);
    assert_eq!(since.sum(), entry(4));
}
