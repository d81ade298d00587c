//! The fixture of this crate's tests.

use byteway_assembly::{EndpointConfig, HostedConfig};
use byteway_clock::{Delay, Executor, Station};
use byteway_content::BlockSize;
use byteway_device::{DriveConfig, NamespaceConfig};
use byteway_firmware::{Cycles, FtlConfig, WorkKind};
use byteway_flash::Geometry;
use byteway_host::{Client, ClientConfig, HostCosts, Method, Oracle, Port, Rules};
use byteway_host::{Completion, Driver, DriverConfig, QueueConfig};
use byteway_link::{HostEnd, SwitchConfig};
use byteway_testkit::{drive_config, link_config};
use byteway_world::PoweredDrive;
use std::cell::RefCell;
use std::rc::Rc;

pub const PROCESSORS: usize = 4;
pub const UNITS: u64 = 2048;
pub const BLOCKS_PER_UNIT: u64 = 8;
pub const BLOCKS: u64 = UNITS * BLOCKS_PER_UNIT;

/// A small drive with four channels, whose firmware cycles are those of 1 GHz.
pub fn drive() -> DriveConfig {
    let small = drive_config();
    DriveConfig {
        geometry: Geometry { channels: 4, ways: 1, planes: 1, blocks: 10, pages: 32, page_bytes: 16384 },
        namespaces: vec![NamespaceConfig::blocks(UNITS, BlockSize::B512)],
        ftl: FtlConfig { write_buffer_units: 64, ..FtlConfig::default() },
        ..small
    }
}

pub fn hosted(endpoints: u32) -> HostedConfig {
    let mut drive = drive();
    drive.site.cycles = Cycles::FREE.with(WorkKind::Translate, 2_000).with(WorkKind::Buffer, 3_000);
    let mut controller = drive.controller.clone();
    controller.transfer_bytes_max = 1 << 17;
    HostedConfig {
        endpoint: EndpointConfig { controller, site: drive_config().site, link: link_config() },
        drive,
        endpoints,
        switch: Some(SwitchConfig {
            upstream: link_config(),
            latency: Delay::from_ns(150),
            buffer_bytes: 4096,
        }),
        lanes: 16,
        costs: HostCosts {
            submit: Delay::from_ns(200),
            complete: Delay::from_ns(300),
            ..HostCosts::default()
        },
        completion: Completion::Interrupt,
        is_locked: true,
        bounce: None,
        call: None,
    }
}

/// The processors of a host.
pub fn processors(executor: &Executor) -> Vec<Rc<Station>> {
    (0..PROCESSORS).map(|_| Rc::new(Station::new(executor.clock(), 1))).collect()
}

type Truth = Rc<RefCell<Oracle>>;

/// `count` clients, each on a queue of its own.
pub async fn clients(host: HostEnd, truth: &Truth, count: usize) -> Vec<Client> {
    let driver = Driver::attach(Port::Link(host), DriverConfig::default()).await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..count {
        let queue = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
        let config = ClientConfig {
            rules: Rules::only(Method::Prp),
            bytes_max: 64 << 10,
            oracle: Some(truth.clone()),
            verify_bytes: true,
        };
        clients.push(Client::new(queue, driver.namespaces()[0], config).unwrap());
    }
    clients
}

/// A client of a drive.
pub async fn client(powered: &PoweredDrive, truth: &Truth) -> Client {
    client_at(powered.host.clone(), truth).await
}

/// A client of a drive behind a link.
pub async fn client_at(host: HostEnd, truth: &Truth) -> Client {
    clients(host, truth, 1).await.remove(0)
}
