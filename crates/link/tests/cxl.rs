//! CXL.mem: time and traffic of stores and loads, and the order in which they become visible.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::{Clock, Delay, Executor, Time};
use byteway_link::{
    CxlConfig, DeviceEnd, Direction, Entry, Flit, Generation, Hdm, HostEnd, Link, Memory, PcieConfig,
    Purpose, StoreOrdering,
};
use byteway_testkit::board_link_config;
use std::cell::RefCell;
use std::rc::Rc;

struct Bytes(RefCell<Vec<u8>>);

impl Hdm for Bytes {
    fn bytes(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        self.0.borrow_mut()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn load(&self, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow()[offset as usize..][..into.len()]);
    }
}

const PROPAGATION: Delay = Delay::from_ns(100);
const LATENCY: Delay = Delay::from_ns(80);

fn connect(clock: &Clock) -> (HostEnd, DeviceEnd, Rc<Bytes>) {
    let config = PcieConfig { generation: Generation::Gen5, propagation: PROPAGATION, ..board_link_config() };
    let (host, device) = Link::connect(clock, config, Memory::simulated());
    let memory = Rc::new(Bytes(RefCell::new(vec![0; 4096])));
    device.attach_memory(CxlConfig { flit: Flit::Bytes68, memory_latency: LATENCY }, memory.clone());
    (host, device, memory)
}

/// Runs `test`. Returns its duration.
fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(HostEnd, DeviceEnd, Rc<Bytes>) -> F) -> Time {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let (host, device, memory) = connect(&clock);
    let test = test(host, device, memory);
    executor
        .run(async move {
            test.await;
            clock.now()
        })
        .unwrap()
}

fn crossed(host: &HostEnd, direction: Direction) -> Entry {
    host.ledger().entry(Purpose::CxlMem, direction)
}

// A load that returns the data as of the arrival of its response, not of its request, would see the future.
#[test]
fn a_load_samples_when_its_request_is_there() {
    for (stored_after, seen) in [(0, [9; 8]), (150, [9; 8]), (190, [0; 8]), (250, [0; 8])] {
        run(async move |host, _device, memory| {
            let late = memory.clone();
            let clock = host.clock().clone();
            host.clock().spawn("a store on the device's side", async move {
                clock.sleep(Delay::from_ns(stored_after)).await;
                late.store(0, &[9; 8]);
            });
            let mut read = [5; 8];
            host.load_lines(0, &mut read).await;
            // The request has crossed after 100 ns and little, and is there 80 ns later.
            assert_eq!(read, seen, "after {stored_after} ns");
        });
    }
}

// A device that skips polls during which nothing can change must learn of everything that will, and when.
#[test]
fn stores_are_announced_for_when_they_can_be_seen() {
    struct Told(RefCell<Vec<(u64, u64, Time)>>, RefCell<Vec<(u64, usize)>>);
    impl Hdm for Told {
        fn bytes(&self) -> u64 {
            4096
        }
        fn store(&self, offset: u64, bytes: &[u8]) {
            self.1.borrow_mut().push((offset, bytes.len()));
        }
        fn load(&self, _offset: u64, into: &mut [u8]) {
            into.fill(0);
        }
        fn announce(&self, offset: u64, bytes: u64, at: Time) {
            self.0.borrow_mut().push((offset, bytes, at));
        }
    }
    run(async |host, device, _memory| {
        let told = Rc::new(Told(RefCell::default(), RefCell::default()));
        let config = CxlConfig { flit: Flit::Bytes68, memory_latency: LATENCY };
        device.attach_memory(config, told.clone());
        host.store_lines_unordered(48, &[1; 100]);
        let announced = told.0.borrow().clone();
        let at = announced[0].2;
        assert_eq!(announced, [(48, 16, at), (64, 64, at), (128, 20, at)]);
        host.clock().sleep_until(Time(at.0 - 1)).await;
        device.settle_memory();
        assert!(told.1.borrow().is_empty(), "a picosecond too soon");
        host.clock().sleep_until(at).await;
        device.settle_memory();
        assert_eq!(*told.1.borrow(), [(48, 16), (64, 64), (128, 20)]);
    });
}

// A flush that ends before the device has the line would let a command find nothing in the buffer.
#[test]
fn a_flushed_line_is_there_after_two_round_trips() {
    let took = run(|host, _, memory| async move {
        host.store_lines(64, &[7; 64], StoreOrdering::Flushed).await;
        assert_eq!(memory.0.borrow()[63..129], [&[0][..], &[7; 64], &[0]].concat());
        assert_eq!(crossed(&host, Direction::Down), Entry { tlps: 3, payload: 68, wire: 204 });
        assert_eq!(crossed(&host, Direction::Up), Entry { tlps: 3, payload: 0, wire: 204 });
        assert_eq!(host.lines(), (1, 1));
    });
    let waits = (PROPAGATION * 2 + LATENCY) * 2;
    let wire = took.since(Time(0)).saturating_sub(waits);
    assert!(wire >= Delay::from_ns(12) && wire <= Delay::from_ns(14), "six flits at 31.5 GB/s, not {wire:?}");
}

// Line by line the processor waits for each; streamed, only for the last. If both took the same, non-temporal
// stores would show no benefit.
#[test]
fn streamed_lines_wait_once() {
    let took = |ordering, bytes: usize| {
        run(move |host, _, memory| async move {
            let value: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
            host.store_lines(10, &value, ordering).await;
            assert_eq!(memory.0.borrow()[10..10 + bytes], value);
        })
        .0
    };
    assert!(took(StoreOrdering::Flushed, 1000) > 15 * took(StoreOrdering::Flushed, 50));
    assert!(took(StoreOrdering::Streamed, 1000) < 2 * took(StoreOrdering::Streamed, 50));
}

// CXL.mem and CXL.io are not ordered: with neither flush nor read back a doorbell write comes first, and the
// device finds old data.
#[test]
fn a_doorbell_overtakes_a_store_without_a_wait() {
    run(|host, device, memory| async move {
        host.store_lines_unordered(0, &[9; 32]);
        host.write32(0x1008, 1, Purpose::Doorbell);
        device.next_write().await;
        device.settle_memory();
        assert!(!device.memory_is_settled());
        assert_eq!(memory.0.borrow()[..32], [0; 32]);
        device.clock().sleep(LATENCY).await;
        device.settle_memory();
        assert_eq!(memory.0.borrow()[..32], [9; 32]);
        assert!(device.memory_is_settled());
    });
}

// Addresses behind the end of the memory must be harmless, whatever a host stores or loads there.
#[test]
fn nothing_reaches_behind_the_memory() {
    run(|host, device, memory| async move {
        let range = host.hdm().unwrap();
        assert_eq!((range.offset(range.base + 77), range.offset(range.base + 4096)), (Some(77), None));
        assert_eq!(range.offset(range.base - 1), None);
        for ordering in [StoreOrdering::Flushed, StoreOrdering::Streamed] {
            host.store_lines(4090, &[1; 64], ordering).await;
            host.store_lines(4096, &[1; 64], ordering).await;
            host.store_lines(u64::MAX, &[1; 64], ordering).await;
        }
        host.store_lines_unordered(u64::MAX, &[1; 2]);
        assert_eq!(memory.0.borrow()[4080..], [[0; 10].as_slice(), &[1; 6]].concat());
        let mut read = [5; 16];
        host.load_lines(4088, &mut read).await;
        assert_eq!(read, [0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        host.load_lines(u64::MAX, &mut read).await;
        assert_eq!(read, [0; 16]);
        device.detach();
        assert_eq!(host.hdm(), None);
        host.store_lines(0, &[1], StoreOrdering::Flushed).await;
    });
}
