//! The target's block layer: merging, splitting, and sharing with local applications.

use crate::host::SUBSYSTEM;
use crate::simulated::{attach, client, connect};
use byteway_clock::{Clock, Delay};
use byteway_content::BlockSize;
use byteway_host::Completion;
use byteway_host::{BaseState, Oracle};
use byteway_host::{Client, ClientConfig, Driver, DriverConfig, HostCosts, Method, Port, Rules};
use byteway_nvmeof::{
    BlockConfig, BlockCosts, BlockLayer, Path, PathConfig, Scheduler, Subsystem, SubsystemConfig, Target,
};
use byteway_testkit::SmallWorld;
use byteway_wire::fabrics::Nqn;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const COSTS: BlockCosts = BlockCosts {
    build: Delay::from_ns(500),
    schedule: Delay::from_ns(300),
    dispatch: Delay::from_ns(400),
    complete: Delay::from_ns(600),
};

/// A remote client of a drive behind a block layer, and a local client on the target.
struct TargetSetup {
    clock: Clock,
    layer: BlockLayer,
    own: Driver,
    remote: Client,
    local: Client,
}

/// Runs `test` with a drive that takes `drive_bytes_max` per command, behind a target that takes 32 KiB and
/// has `block`.
fn with_block(drive_bytes_max: u32, block: BlockConfig, test: impl AsyncFnOnce(TargetSetup) + 'static) {
    let mut drive = byteway_testkit::drive_config();
    drive.controller.transfer_bytes_max = drive_bytes_max;
    let driven = DriverConfig { completion: Completion::Interrupt, ..DriverConfig::default() };
    SmallWorld::of(drive).run(async move |powered| {
        let own = Driver::attach(Port::Link(powered.host.clone()), driven).await.unwrap();
        let clock = own.clock().clone();
        let layer = BlockLayer::new(&clock, block);
        let config = PathConfig { bytes_max: 32 << 10, commands_max: 64, ..PathConfig::default() };
        let processor = own.cpu().clone();
        let path = Path::open_on(own.clone(), config, &[processor], Some(layer.clone())).await.unwrap();
        let local = path.local_queue(0);
        let config = SubsystemConfig::new(Nqn::new(SUBSYSTEM).unwrap());
        let target = Target::new(vec![Subsystem::new(&clock, config, path)]);
        let (adapter, _served) = connect(&target, &clock, 1);
        let host = attach(&adapter, HostCosts::default()).await;
        let namespace = own.namespaces()[0];
        let size = BlockSize::from_bytes(namespace.block_bytes.into()).unwrap();
        let oracle = Rc::new(RefCell::new(Oracle::new(namespace.blocks, size, 1, BaseState::Zeroes)));
        let config = ClientConfig {
            rules: Rules::only(Method::Prp),
            bytes_max: drive_bytes_max.min(32 << 10),
            oracle: Some(oracle.clone()),
            verify_bytes: true,
        };
        let local = Client::new(local, namespace, config).unwrap();
        let remote = client(&host, &oracle).await;
        test(TargetSetup { clock, layer, own, remote, local }).await;
    });
}

/// I/Os of `blocks` blocks at these addresses, all at once: writes, or reads of what was written.
async fn at_once(clock: &Clock, client: &Client, reads: bool, at: &[u64], blocks: u32) {
    let running = Rc::new(Cell::new(at.len()));
    for lba in at.iter().copied() {
        let (client, running) = (client.clone(), running.clone());
        clock.spawn("I/O", async move {
            let mut buffer = client.buffer().unwrap();
            match reads {
                true => client.read(&mut buffer, lba, blocks).await.unwrap(),
                false => client.write(&mut buffer, lba, blocks).await.unwrap(),
            };
            running.set(running.get() - 1);
        });
    }
    while running.get() > 0 {
        clock.timer(Delay::from_us(10)).await;
    }
}

fn deadline(dispatched_max: u32) -> BlockConfig {
    BlockConfig { costs: COSTS, tags: 64, scheduler: Scheduler::Deadline, dispatched_max }
}

// Without this a bio would never merge into a waiting request, or merged data would be mixed up, in either
// direction.
#[test]
fn what_lies_next_to_a_request_that_waits_joins_it() {
    with_block(128 << 10, deadline(1), async |place| {
        let TargetSetup { clock, layer, remote, own, .. } = place;
        let first: Vec<u64> = (0..16).collect();
        let commands = own.protocol_errors();
        for reads in [false, true] {
            let (requests, merged) = (layer.requests(), layer.merged());
            at_once(&clock, &remote, reads, &first, 1).await;
            let (requests, merged) = (layer.requests() - requests, layer.merged() - merged);
            assert_eq!(requests + merged, 16);
            assert!(merged >= 8, "{merged} of 16 were merged");
        }
        // Forwards, backwards and from the middle: a merged read returns what each write has written.
        for order in [[7u64, 6, 5, 4, 3, 2, 1, 0], [3, 4, 2, 5, 1, 6, 0, 7]] {
            let at: Vec<u64> = order.iter().map(|lba| 100 + lba).collect();
            at_once(&clock, &remote, false, &at, 1).await;
            at_once(&clock, &remote, true, &at, 1).await;
        }
        assert_eq!(own.protocol_errors(), commands);
    });
}

// Without this, bios would be merged that are not adjacent, exceed the length limit, or have another
// direction.
#[test]
fn other_commands_stay_alone() {
    with_block(8 << 10, deadline(1), async |place| {
        let TargetSetup { clock, layer, remote, own, .. } = place;
        let per_unit = u64::from(4096 / own.namespaces()[0].block_bytes);
        let apart: Vec<u64> = (0..12).map(|unit| unit * 2 * per_unit).collect();
        at_once(&clock, &remote, false, &apart, per_unit as u32).await;
        assert_eq!(layer.merged(), 0);
        // Two of them make the longest command.
        let together: Vec<u64> = (0..12).map(|unit| unit * per_unit).collect();
        at_once(&clock, &remote, false, &together, per_unit as u32).await;
        assert!(layer.merged() > 0 && layer.merged() <= 6, "{}", layer.merged());
        at_once(&clock, &remote, true, &together, per_unit as u32).await;
    });
    let none = BlockConfig { scheduler: Scheduler::None, ..deadline(1) };
    with_block(128 << 10, none, async |place| {
        let at: Vec<u64> = (0..16).collect();
        at_once(&place.clock, &place.remote, false, &at, 1).await;
        assert_eq!((place.layer.requests(), place.layer.merged()), (16, 0));
    });
}

// Without this local applications of the target would bypass its block layer: without its cost, and without a
// tag.
#[test]
fn local_applications_share_the_layer() {
    let one = BlockConfig { tags: 1, scheduler: Scheduler::None, ..deadline(64) };
    with_block(128 << 10, one, async |place| {
        let TargetSetup { clock, layer, local, remote, .. } = place;
        let at: Vec<u64> = (0..8).collect();
        let begun = clock.now();
        at_once(&clock, &local, false, &at, 1).await;
        assert_eq!(layer.requests(), 8);
        // One after another, because there is one tag; and each step takes processor time.
        let steps = COSTS.build + COSTS.dispatch + COSTS.complete;
        assert!(clock.now().since(begun) > Delay(steps.0 * 8));
        at_once(&clock, &remote, true, &at, 1).await;
        assert_eq!(layer.requests(), 16);
    });
}

// Without this a command longer than the drive's limit would be refused, or lose data.
#[test]
fn commands_that_are_too_long_for_the_drive_become_several() {
    for scheduler in [Scheduler::None, Scheduler::Deadline] {
        let block = BlockConfig { scheduler, ..deadline(4) };
        with_block(8 << 10, block, async |place| {
            let TargetSetup { clock, layer, remote, own, .. } = place;
            let blocks = (32 << 10) / own.namespaces()[0].block_bytes;
            let at: Vec<u64> = (0..4).map(|number| 3 + number * u64::from(blocks)).collect();
            for reads in [false, true] {
                let requests = layer.requests();
                at_once(&clock, &remote, reads, &at, blocks).await;
                assert_eq!(layer.requests() - requests, 4 * 4);
            }
        });
    }
}
