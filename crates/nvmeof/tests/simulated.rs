//! The target on a simulated network: hosts drive it like any controller.

use crate::host::{HOST, SUBSYSTEM, with_target};
use byteway_clock::{Clock, Delay, Stage, Station};
use byteway_content::BlockSize;
use byteway_host::fabric::{Adapter, Initiator, InitiatorConfig};
use byteway_host::{BaseState, Oracle};
use byteway_host::{Client, ClientConfig, Driver, DriverConfig, HostCosts, Method, Port, Rules};
use byteway_host::{Completion, QueueConfig};
use byteway_link::{Memory, MessageKind, network};
use byteway_nvmeof::{Reached, SimulatedTarget, Target, TransportCosts};
use byteway_wire::fabrics::Nqn;
use std::cell::RefCell;
use std::rc::Rc;

const COSTS: TransportCosts = TransportCosts {
    interrupt: Delay::from_ns(1_000),
    receive: Delay::from_ns(500),
    fetch: Delay::from_ns(400),
    respond: Delay::from_ns(600),
    sent: Delay::from_ns(300),
    copy: Delay::ZERO,
};

/// Both ends of a network, with the target at one of them.
pub fn connect(target: &Rc<Target>, clock: &Clock, processors: usize) -> (Adapter, SimulatedTarget) {
    connect_at(Reached::default(), target, clock, processors)
}

/// As above, at one of the target's ports.
pub fn connect_at(
    reached: Reached,
    target: &Rc<Target>,
    clock: &Clock,
    processors: usize,
) -> (Adapter, SimulatedTarget) {
    let (near, far) = network::connect(clock, byteway_testkit::network_config());
    let processors: Vec<Rc<Station>> = (0..processors).map(|_| Rc::new(Station::new(clock, 1))).collect();
    (Adapter::new(near), SimulatedTarget::serve_at(reached, far, target, &processors, COSTS))
}

pub async fn attach(adapter: &Adapter, costs: HostCosts) -> Driver {
    attach_to(SUBSYSTEM, adapter, Memory::simulated(), costs).await
}

/// As above, for a subsystem with this name and this memory.
pub async fn attach_to(subsystem: &str, adapter: &Adapter, memory: Memory, costs: HostCosts) -> Driver {
    let config = InitiatorConfig {
        subsystem: Nqn::new(subsystem).unwrap(),
        host: Nqn::new(HOST).unwrap(),
        host_id: [7; 16],
        admin_entries: 32,
        in_capsule_bytes: 4096,
        authenticator: None,
        timeout: None,
    };
    let initiator = Initiator::connect(adapter, memory, config).await.unwrap();
    let config = DriverConfig { costs, completion: Completion::Interrupt, ..DriverConfig::default() };
    Driver::attach(Port::Fabric(initiator), config).await.unwrap()
}

pub async fn client(driver: &Driver, oracle: &Rc<RefCell<Oracle>>) -> Client {
    let queue =
        driver.create_queue_pair(QueueConfig { vector: Some(1), ..QueueConfig::new(64) }).await.unwrap();
    let namespace = driver.namespaces()[0];
    let config = ClientConfig {
        rules: Rules::only(Method::Sgl),
        bytes_max: 32 << 10,
        oracle: Some(oracle.clone()),
        verify_bytes: true,
    };
    Client::new(queue, namespace, config).unwrap()
}

fn oracle(driver: &Driver) -> Rc<RefCell<Oracle>> {
    let namespace = driver.namespaces()[0];
    let block = BlockSize::from_bytes(namespace.block_bytes.into()).unwrap();
    Rc::new(RefCell::new(Oracle::new(namespace.blocks, block, 1, BaseState::Zeroes)))
}

// Without this data would be lost or mixed up between a host's buffer and the drive: in-capsule, fetched, or
// delivered.
#[test]
fn what_a_host_writes_over_a_network_it_reads() {
    with_target(
        |_| {},
        async |target, clock| {
            let (adapter, served) = connect(&target, &clock, 2);
            let driver = attach(&adapter, HostCosts::default()).await;
            let oracle = oracle(&driver);
            let (one, other) = (client(&driver, &oracle).await, client(&driver, &oracle).await);
            let per_unit = 4096 / driver.namespaces()[0].block_bytes;
            for round in 0..20u64 {
                for (client, units) in [(&one, 1), (&other, 2), (&one, 8)] {
                    let mut buffer = client.buffer().unwrap();
                    let lba = round * 8 * u64::from(per_unit);
                    client.write(&mut buffer, lba, units * per_unit).await.unwrap();
                    client.read(&mut buffer, lba, units * per_unit).await.unwrap();
                }
            }
            let network = adapter.network().unwrap();
            // 20 rounds of 8 KiB and 32 KiB are fetched, and all reads are delivered; 4 KiB go in the
            // capsule.
            assert_eq!(network.received().of(MessageKind::DataRequest).messages, 40);
            assert_eq!(network.sent().of(MessageKind::Data).payload_bytes, 20 * (8 + 32) * 1024 + 40 * 16);
            assert_eq!((adapter.strays(), served.strays(), driver.protocol_errors()), (0, 0, 0));
            driver.shutdown().await.unwrap();
        },
    );
}

// Without this an I/O's time could be lost between the two machines: its stages sum to a hand-made table.
#[test]
fn a_read_over_a_network_takes_what_a_table_says() {
    with_target(
        |_| {},
        async |target, clock| {
            let (adapter, _served) = connect(&target, &clock, 1);
            let costs = HostCosts {
                submit: Delay::from_ns(700),
                complete: Delay::from_ns(300),
                interrupt: Delay::from_ns(900),
                ..HostCosts::default()
            };
            let driver = attach(&adapter, costs).await;
            let oracle = oracle(&driver);
            let client = client(&driver, &oracle).await;
            let mut buffer = client.buffer().unwrap();
            let blocks = 4096 / driver.namespaces()[0].block_bytes;
            let record = client.read(&mut buffer, 0, blocks).await.unwrap();
            let begin = record.begin;
            assert_eq!(
                record.last.since(begin),
                Stage::ALL.map(|stage| record.stage(stage)).into_iter().sum()
            );
            // Submission; interrupt and completion.
            assert_eq!(record.stage(Stage::Host), Delay::from_ns(700 + 900 + 300));
            // A capsule of 64 bytes one way, 4096 bytes of data and 16 bytes of response the other way.
            let config = byteway_testkit::network_config();
            let data = config.rate.time_for(config.wire_bytes(4096 + 16));
            assert_eq!(record.stage(Stage::Fabric), config.latency(64) + data + config.latency(16));
            // Interrupt, command, response; the target's own driver costs nothing here.
            assert_eq!(record.stage(Stage::Target), Delay::from_ns(1_000 + 500 + 600));
            assert_eq!(record.stage(Stage::Queueing), Delay::ZERO);
            driver.shutdown().await.unwrap();
        },
    );
}

// Without this a reset controller would leave its I/O queues behind, or a deleted queue would remain
// indefinitely.
#[test]
fn queues_come_and_go_and_resets_end_them() {
    with_target(
        |_| {},
        async |target, clock| {
            let (adapter, served) = connect(&target, &clock, 2);
            let driver = attach(&adapter, HostCosts::default()).await;
            let oracle = oracle(&driver);
            for _ in 0..70 {
                let client = client(&driver, &oracle).await;
                let mut buffer = client.buffer().unwrap();
                client.write(&mut buffer, 0, 1).await.unwrap();
                driver.delete_queue_pair(client.queue()).await.unwrap();
            }
            let client = client(&driver, &oracle).await;
            for _ in 0..5 {
                driver.reset().await.unwrap();
                let mut buffer = client.buffer().unwrap();
                client.write(&mut buffer, 3, 1).await.unwrap();
                client.read(&mut buffer, 3, 1).await.unwrap();
            }
            assert_eq!((adapter.strays(), served.strays()), (0, 0));
            driver.shutdown().await.unwrap();
        },
    );
}
