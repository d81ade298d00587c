//! ByteExpress over a fabric: an inline payload on a link goes in the capsule on a network, and inline again
//! from the target to the drive.

use crate::host::SUBSYSTEM;
use crate::simulated::{attach, connect};
use byteway_clock::Delay;
use byteway_content::BlockSize;
use byteway_device::{DriveConfig, TransferConfig};
use byteway_host::{BaseState, Oracle};
use byteway_host::{Client, ClientConfig, Driver, DriverConfig, HostCosts, Method, PointerKind, Port, Rules};
use byteway_host::{Completion, QueueConfig};
use byteway_link::{Direction, MessageKind, Purpose};
use byteway_nvmeof::{Path, PathConfig, Subsystem, SubsystemConfig, Target};
use byteway_testkit::SmallWorld;
use byteway_wire::fabrics::Nqn;
use byteway_wire::nvme::vendor::Methods;
use std::cell::RefCell;
use std::rc::Rc;

const BLOCKS: u64 = 24;

/// Location of the host in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostLocation {
    Link,
    Network,
}

/// Traffic on the drive's link, and on the network, if there is one.
#[derive(Debug, PartialEq, Eq)]
struct Crossed {
    commands: u64,
    inline_bytes: u64,
    data_bytes: u64,
}

fn drive() -> DriveConfig {
    let transfer = TransferConfig {
        methods: Methods::new().with_inline(true),
        inline_bytes_max: 4096,
        ..TransferConfig::default()
    };
    DriveConfig { transfer, ..byteway_testkit::drive_config() }
}

/// Writes of one block, read back and compared, by a method from the host and a method to the drive.
fn run(place: HostLocation, from_host: Method, to_drive: Method) -> Crossed {
    let driven = DriverConfig { completion: Completion::Interrupt, ..DriverConfig::default() };
    SmallWorld::of(drive()).run(async move |powered| {
        let own = Driver::attach(Port::Link(powered.host.clone()), driven).await.unwrap();
        let clock = own.clock().clone();
        let (driver, network) = match place {
            HostLocation::Link => (own.clone(), None),
            HostLocation::Network => {
                let config = PathConfig {
                    bytes_max: 32 << 10,
                    commands_max: 64,
                    rules: Rules::only(to_drive),
                    ..PathConfig::default()
                };
                let path = Path::open(own.clone(), config).await.unwrap();
                let config = SubsystemConfig::new(Nqn::new(SUBSYSTEM).unwrap());
                let target = Target::new(vec![Subsystem::new(&clock, config, path)]);
                let (adapter, served) = connect(&target, &clock, 1);
                (attach(&adapter, HostCosts::default()).await, Some((adapter, served)))
            }
        };
        let config = QueueConfig { vector: Some(2), ..QueueConfig::new(128) };
        let queue = driver.create_queue_pair(config).await.unwrap();
        let fallback = if place == HostLocation::Link { PointerKind::Prp } else { PointerKind::Sgl };
        let rules = Rules { fallback, ..Rules::only(from_host) };
        let enabled = driver.enable_methods(&queue, rules.methods()).await.unwrap();
        assert_eq!(enabled, rules.methods());
        let namespace = driver.namespaces()[0];
        let size = BlockSize::from_bytes(namespace.block_bytes.into()).unwrap();
        let oracle = Oracle::new(namespace.blocks, size, 1, BaseState::Zeroes);
        let oracle = Some(Rc::new(RefCell::new(oracle)));
        let config = ClientConfig { rules, bytes_max: 32 << 10, oracle, verify_bytes: true };
        let client = Client::new(queue, namespace, config).unwrap();
        let mut buffer = client.buffer().unwrap();
        let before = powered.host.ledger().snapshot();
        let sent = network.as_ref().and_then(|(adapter, _)| adapter.network().map(|network| network.sent()));
        for lba in 0..BLOCKS {
            client.write(&mut buffer, lba, 1).await.unwrap();
        }
        let after = powered.host.ledger().since(&before);
        if let (Some((adapter, _)), Some(sent)) = (&network, sent) {
            let network = adapter.network().unwrap();
            let sent = network.sent().since(&sent);
            // The command and its block, in one message.
            assert_eq!(
                sent.of(MessageKind::Command).payload_bytes,
                BLOCKS * (64 + u64::from(namespace.block_bytes))
            );
            assert_eq!(sent.of(MessageKind::Data).payload_bytes, 0);
        }
        for lba in 0..BLOCKS {
            client.read(&mut buffer, lba, 1).await.unwrap();
        }
        clock.timer(Delay::from_us(10)).await;
        let payload = |purpose| after.entry(purpose, Direction::Down).payload;
        Crossed {
            commands: payload(Purpose::SqeFetch) / 64,
            inline_bytes: payload(Purpose::InlineChunk),
            data_bytes: payload(Purpose::Data),
        }
    })
}

// Without this an inline payload would be lost on a network, or be transferred separately to the drive.
#[test]
fn an_inline_payload_crosses_a_fabric_unchanged() {
    let bytes = BLOCKS * 512;
    let on_link = run(HostLocation::Link, Method::Inline, Method::Inline);
    assert_eq!(on_link, Crossed { commands: BLOCKS, inline_bytes: bytes, data_bytes: 0 });
    assert_eq!(run(HostLocation::Network, Method::Inline, Method::Inline), on_link);
    // In the capsule nevertheless: the method to the drive is the target's choice.
    assert_eq!(run(HostLocation::Network, Method::Sgl, Method::Inline), on_link);
    let pointed = Crossed { commands: BLOCKS, inline_bytes: 0, data_bytes: bytes };
    assert_eq!(run(HostLocation::Network, Method::Inline, Method::Prp), pointed);
    assert_eq!(run(HostLocation::Network, Method::Sgl, Method::Prp), pointed);
}
