//! Stores to controller memory in the BAR, and results behind a completion: their bytes, order and times.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::{Delay, Executor, Timing};
use byteway_link::{Bar, DeviceEnd, Direction, HostEnd, Link, Memory, MmioWrite, Purpose};
use byteway_testkit::board_link_config;
use std::cell::RefCell;
use std::rc::Rc;

/// Arrivals: stores with their bytes, register writes with their value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Arrived {
    Store(u64, Vec<u8>),
    Write(u64, u64),
}

#[derive(Default)]
struct Recorder(RefCell<Vec<Arrived>>);

impl Bar for Recorder {
    fn read(&self, _: u64, _: u32) -> u64 {
        self.0.borrow().len() as u64
    }

    fn write(&self, write: MmioWrite) {
        self.0.borrow_mut().push(Arrived::Write(write.offset, write.value));
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        self.0.borrow_mut().push(Arrived::Store(offset, bytes.to_vec()));
    }
}

/// A link with a recorder at the device's end, which takes register writes as they arrive.
fn connect(executor: &Executor) -> (HostEnd, DeviceEnd, Rc<Recorder>) {
    let (host, device) = Link::connect(executor.clock(), board_link_config(), Memory::simulated());
    let bar = Rc::new(Recorder::default());
    device.attach(bar.clone());
    let (port, registers) = (device.clone(), bar.clone());
    executor.clock().spawn("registers", async move {
        loop {
            let write = port.next_write().await;
            registers.write(write);
        }
    });
    (host, device, bar)
}

// A doorbell that overtook the store before it would make the device take old data.
#[test]
fn stores_and_register_writes_arrive_in_the_order_in_which_they_were_sent() {
    let executor = Executor::new();
    let (host, _device, bar) = connect(&executor);
    let expected = vec![
        Arrived::Store(0x10000, vec![1; 64]),
        Arrived::Write(0x1000, 7),
        // Cut at cache line boundaries of the host.
        Arrived::Store(0x1003c, vec![2; 4]),
        Arrived::Store(0x10040, vec![2; 64]),
        Arrived::Store(0x10080, vec![2; 2]),
        Arrived::Write(0x1004, 8),
    ];
    let seen = executor
        .run(async move {
            host.store(0x10000, &[1; 64]);
            host.write32(0x1000, 7, Purpose::Doorbell);
            host.store(0x1003c, &[2; 70]);
            host.store(0x10000, &[]);
            host.write32(0x1004, 8, Purpose::Doorbell);
            assert!(bar.0.borrow().is_empty(), "nothing arrives in no time");
            host.clock().sleep(Delay::from_us(1)).await;
            let stored = host.ledger().entry(Purpose::MmioData, Direction::Down);
            assert_eq!((stored.tlps, stored.payload, stored.wire), (4, 134, 134 + 4 * 24));
            bar.0.borrow().clone()
        })
        .unwrap();
    assert_eq!(seen, expected);
}

// A read is answered after the posted writes before it, including those that woke no task.
#[test]
fn reads_do_not_pass_stores() {
    let executor = Executor::new();
    let (host, _device, _bar) = connect(&executor);
    executor
        .run(async move {
            for count in 1..4 {
                host.store(0x10000, &[1; 8]);
                assert_eq!(host.read32(0).await, count);
            }
            host.store(0x10000, &[1; 8]);
            host.write32(0x1000, 7, Purpose::Doorbell);
            host.hasten_writes();
            assert_eq!(host.read32(0).await, 5, "hastened, both of them");
        })
        .unwrap();
}

// A host that finds the entry, and not yet the parts behind it, would take the parts of the previous pass.
#[test]
fn a_result_is_there_with_its_completion() {
    let executor = Executor::new();
    let (host, device, _bar) = connect(&executor);
    executor
        .run(async move {
            let memory = host.memory().clone();
            let ring = memory.allocate(1).unwrap();
            let watched = host.watch(ring, 4096);
            let slot = |index: u32| [index as u8 + 1; 16];
            // Two before the ring's end, the entry being the first, and three from its beginning.
            let passage = device.post_result([(ring + 4064, 2), (ring, 3)], slot).unwrap();
            device.clock().sleep_until(passage.sent).await;
            let peek = |at: u64| host.memory().with(at, 1, |bytes| bytes[0]).unwrap();
            let all = || [4064, 4080, 0, 16, 32].map(|at| peek(ring + at));
            assert_eq!(all(), [0; 5], "nothing arrives before the last has");
            watched.notified().await;
            assert_eq!(all(), [1, 2, 3, 4, 5]);
            assert_eq!(host.clock().now(), passage.arrival);
            let (entry, data) = (
                host.ledger().entry(Purpose::Cqe, Direction::Up),
                host.ledger().entry(Purpose::Data, Direction::Up),
            );
            assert_eq!((entry.payload, entry.tlps, data.payload, data.tlps), (16, 2, 64, 0));
            assert_eq!(entry.wire + data.wire, 5 * 16 + 2 * 24);
            // If the memory is not there, nothing crosses.
            memory.free(ring, 1);
            assert!(device.post_result([(ring, 2), (ring, 0)], slot).is_err());
            assert_eq!(host.ledger().of(Purpose::Cqe).tlps, 2);
        })
        .unwrap();
}

// The same without modelled time, as in a served drive.
#[test]
fn the_order_is_kept_where_waits_take_no_time() {
    let executor = Executor::new();
    let (host, device, bar) = connect(&executor);
    executor
        .run_real(Timing::None, None, async move {
            for round in 0..3u8 {
                host.store(0x10000, &[round; 64]);
                host.write32(0x1000, round.into(), Purpose::Doorbell);
                if round == 1 {
                    // A write in flight is not overtaken by those that arrive at once.
                    device.deliver(MmioWrite { offset: 0x1000, value: 9, bytes: 4 });
                }
            }
            assert_eq!(host.read32(0).await, 7);
            let stored = |round: u8| Arrived::Store(0x10000, vec![round; 64]);
            let rung = |value| Arrived::Write(0x1000, value);
            let expected = [stored(0), rung(0), stored(1), rung(1), rung(9), stored(2), rung(2)];
            assert_eq!(*bar.0.borrow(), expected);
            let ring = host.memory().allocate(1).unwrap();
            device.post_result([(ring, 1), (ring + 64, 2)], |index| [index as u8 + 1; 16]).unwrap();
            let peek = |at: u64| host.memory().with(at, 1, |bytes| bytes[0]).unwrap();
            assert_eq!([0, 64, 80].map(|at| peek(ring + at)), [1, 2, 3]);
        })
        .unwrap();
}
