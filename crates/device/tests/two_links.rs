//! An I/O that continues over a second link: a relay in the middle takes commands from one link and hands them to a drive
//! behind another, as the target of a fabric does.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use crate::fixture::{NS_4K, drive_config, link_config};
use byteway_clock::{Executor, SpanId, SpanRecord, Stage};
use byteway_content::Keep;
use byteway_device::DriveConfig;
use byteway_firmware::Base;
use byteway_host::{Driver, DriverConfig, Port, QueueConfig, QueuePair, Request};
use byteway_link::{DeviceEnd, Generation, HostEnd, Link, Memory, PcieConfig, Purpose};
use byteway_testkit::SmallWorld;
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Sqe};
use byteway_wire::{FromBytes, IntoBytes};

/// Where the relay's client has its ring, its completion and its data.
#[derive(Clone, Copy)]
struct Places {
    ring: u64,
    completion: u64,
    data: u64,
}

/// The relay's one doorbell.
const DOORBELL: u64 = 0x1008;

/// A read of one block, whose data goes to `address`.
fn read(address: u64) -> Sqe {
    ReadWrite { slba: 5, nlb_z: 0, ..ReadWrite::default() }
        .sqe(NvmOpcode::READ, 0, NS_4K)
        .with_prp(address, 0)
}

/// Takes one command from `far`, has it carried out by `near`, and gives data and completion back.
async fn relay(far: DeviceEnd, places: Places, near: QueuePair, memory: Memory, buffer: u64) {
    let (clock, spans) = (far.clock().clone(), far.spans());
    far.next_write().await;
    let span = far.followed(1, 0);
    spans.charge(span, clock.now(), Stage::Doorbell);
    let mut entry = [0; 64];
    far.read(places.ring, &mut entry, Purpose::SqeFetch).await.unwrap();
    spans.charge(span, clock.now(), Stage::Fetch);
    let command = Sqe::read_from_bytes(&entry).unwrap();
    let sqe = command.with_prp(buffer, 0);
    let completed = near.execute(Request::from(sqe).within(span)).await.unwrap();
    assert!(completed.status().is_success());
    let mut data = vec![0; 4096];
    memory.read(buffer, &mut data).unwrap();
    far.write_bytes(places.data, data.into(), far.epoch(), Purpose::Data).unwrap();
    let mut entry = [0; 16];
    entry.copy_from_slice(completed.as_bytes());
    far.post(places.completion, entry).unwrap();
}

/// The client's I/O: its record, and the first bytes of its data.
async fn io(far: &HostEnd, places: Places) -> (SpanRecord, [u8; 64]) {
    let (clock, memory) = (far.clock(), far.memory());
    let span = clock.spans().open(clock.now());
    memory.write(places.ring, read(places.data).as_bytes()).unwrap();
    let arrived = far.watch(places.completion, 16);
    far.follow(1, 0, span);
    far.write32(DOORBELL, 1, Purpose::Doorbell);
    arrived.notified().await;
    clock.spans().charge(span, clock.now(), Stage::Link);
    let mut data = [0; 64];
    memory.read(places.data, &mut data).unwrap();
    (clock.spans().close(span), data)
}

// An I/O that began a new span on every link would be two I/Os, neither of whose latencies is the client's.
#[test]
fn an_io_over_two_links_is_one_span() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let slow = PcieConfig { generation: Generation::Gen1, lanes: 1, ..link_config() };
    let (far, far_device) = Link::connect(&clock, slow, Memory::simulated());
    let config = DriveConfig { base: Base::Filled, keep: Keep::Stamps, ..drive_config() };
    let powered = SmallWorld::of(config).power_on(&clock);
    let near = powered.host.clone();
    let finished = executor.run(async move {
        let driver = Driver::attach(Port::Link(near.clone()), DriverConfig::default()).await.unwrap();
        let queue = driver.create_queue_pair(QueueConfig::new(16)).await.unwrap();
        let memory = near.memory().clone();
        let buffer = memory.allocate(1).unwrap();

        // The same read by the relay itself: what the second link and the drive take.
        let own = near.clock().spans().open(near.clock().now());
        let request = Request::from(read(buffer)).within(own);
        queue.execute(request).await.unwrap();
        let alone = near.clock().spans().close(own);
        let fetched = near.ledger().of(Purpose::SqeFetch).payload;

        let clock = far.clock().clone();
        let [ring, completion, data] = std::array::from_fn(|_| far.memory().allocate(1).unwrap());
        let places = Places { ring, completion, data };
        clock.spawn("relay", relay(far_device, places, queue, memory.clone(), buffer));
        let begin = clock.now();
        let (record, data) = io(&far, places).await;
        let latency = clock.now().since(begin);

        let stages = |record: &SpanRecord| Stage::ALL.map(|stage| record.stage(stage));
        assert_eq!(stages(&record).into_iter().sum::<byteway_clock::Delay>(), latency, "{record:?}");
        for stage in [Stage::Host, Stage::Firmware, Stage::Dram, Stage::Flash, Stage::Queueing] {
            assert_eq!(record.stage(stage), alone.stage(stage), "{}", stage.name());
        }
        // The far link adds a doorbell write and a fetch each way, and 4 KiB at 200 MB/s net of coding.
        for stage in [Stage::Doorbell, Stage::Fetch, Stage::Link] {
            assert!(record.stage(stage) > alone.stage(stage), "{}", stage.name());
        }
        assert!(record.stage(Stage::Link) - alone.stage(Stage::Link) > slow_time(4096));
        assert_eq!(far.ledger().of(Purpose::SqeFetch).payload, 64);
        assert_eq!(near.ledger().of(Purpose::SqeFetch).payload - fetched, 64);
        let mut expected = [0; 64];
        memory.read(buffer, &mut expected).unwrap();
        assert_eq!(data, expected);
        assert_ne!(data, [0; 64], "there is something to read");
        assert_eq!(clock.spans().close(SpanId::NONE), SpanRecord::default());
    });
    finished.unwrap_or_else(|stalled| panic!("{stalled}"));
}

/// Time of `bytes` on the far link, without packet headers: 2.5 GT/s, 8 of 10 bits.
fn slow_time(bytes: u64) -> byteway_clock::Delay {
    byteway_clock::Delay::from_ns(bytes * 4)
}
