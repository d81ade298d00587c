//! A drive and its host under either runner, and the paths between them.

use crate::both_runners::{MEMORY_BASE, MEMORY_BYTES, TRANSFER_BYTES_MAX, give_up_after, map_memory, memfd};
use byteway_clock::{Clock, Delay, Executor, Station, Timing};
use byteway_device::DriveConfig;
use byteway_host::fabric::{Adapter, Initiator, InitiatorConfig};
use byteway_host::{Driver, DriverConfig, Port};
use byteway_link::memory::{Access, Backing};
use byteway_link::{Memory, network};
use byteway_nvmeof::{Path, PathConfig, SimulatedTarget, Subsystem, SubsystemConfig, Target, TransportCosts};
use byteway_serve::function::{Doorbells, Function, REGION_BAR0};
use byteway_serve::nvme_tcp::{self, Server};
use byteway_serve::tcp_host::Sockets;
use byteway_testkit::SmallWorld;
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::tcp::Digests;
use byteway_world::PoweredDrive;
use std::net::SocketAddr;
use std::rc::Rc;

/// How a test is run.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// In virtual time, over the simulated link, in simulated memory.
    Virtual,
    /// In real time, over the simulated link, in shared memory.
    Link(Timing),
    /// In real time, through the served function, in shared memory.
    Served(Timing, Doorbells),
    /// In virtual time, behind a target and a simulated network.
    Network,
    /// In real time, behind a target and NVMe/TCP sockets.
    Tcp,
}

impl How {
    /// Whether the path includes a fabric.
    pub fn is_remote(self) -> bool {
        matches!(self, How::Network | How::Tcp)
    }
}

/// A drive, and the path to it.
pub struct Setting {
    pub port: Port,
    pub powered: PoweredDrive,
}

/// Registers, accessed like a client of the function.
struct Registers(Rc<Function>);

impl byteway_host::Registers for Registers {
    fn read(&self, offset: u64, bytes: u32) -> u64 {
        let mut value = [0; 8];
        self.0.read(REGION_BAR0, offset, &mut value[..bytes as usize]).unwrap();
        u64::from_le_bytes(value)
    }

    fn write(&self, offset: u64, value: u64, bytes: u32) {
        self.0.write(REGION_BAR0, offset, &value.to_le_bytes()[..bytes as usize]).unwrap();
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        self.0.write(REGION_BAR0, offset, bytes).unwrap();
    }
}

/// Runs `main` with a drive.
pub fn run<T: 'static>(how: How, config: DriveConfig, main: impl AsyncFnOnce(Setting) -> T + 'static) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let file = memfd("byteway-memory", MEMORY_BYTES);
    let memory = match how {
        How::Virtual | How::Network | How::Tcp => Memory::simulated(),
        How::Link(_) => map_memory(&file),
        How::Served(..) => Memory::guest(),
    };
    let powered = SmallWorld { memory, ..SmallWorld::of(config) }.power_on(&clock);
    let port = match how {
        How::Served(_, doorbells) => {
            let function = Function::new(&powered.host, &powered.drive.controller, 1, 5, doorbells).unwrap();
            let backing = Backing::File { file: &file, offset: 0 };
            powered.memory.map(MEMORY_BASE, MEMORY_BYTES, backing, Access::ReadWrite).unwrap();
            let doorbells = function.region(REGION_BAR0).mappable.map(|mappable| {
                let doorbells = Memory::guest();
                let backing = Backing::File { file: &mappable.file, offset: mappable.offset };
                doorbells.map(mappable.offset, mappable.bytes, backing, Access::ReadWrite).unwrap();
                doorbells
            });
            Port::shared(Box::new(Registers(function)), doorbells, map_memory(&file), &clock)
        }
        _ => Port::Link(powered.host.clone()),
    };
    let inner = clock.clone();
    let main = async move {
        let port = if how.is_remote() { fabric(how, &inner, port).await } else { port };
        main(Setting { port, powered }).await
    };
    match how {
        How::Virtual | How::Network => executor.run(main).unwrap(),
        How::Tcp => {
            give_up_after(&clock, Delay::from_s(200));
            executor.run_real(Timing::None, None, main).unwrap()
        }
        How::Link(timing) | How::Served(timing, _) => {
            give_up_after(&clock, Delay::from_s(200));
            executor.run_real(timing, None, main).unwrap()
        }
    }
}

/// Puts a target in front of the drive at `link`, and returns the host's path to it.
async fn fabric(how: How, clock: &Clock, link: Port) -> Port {
    let driver = Driver::attach(link, DriverConfig::default()).await.unwrap();
    let config = PathConfig { bytes_max: TRANSFER_BYTES_MAX, ..PathConfig::default() };
    let path = Path::open(driver, config).await.unwrap();
    let subsystem = Nqn::new("nqn.2026-11.org.byteway:both").unwrap();
    let target = Target::new(vec![Subsystem::new(clock, SubsystemConfig::new(subsystem), path)]);
    let adapter = if let How::Network = how {
        let (near, far) = network::connect(clock, byteway_testkit::network_config());
        let processor = Rc::new(Station::new(clock, 1));
        // It serves as long as the executor runs.
        let _ = SimulatedTarget::serve(far, &target, &[processor], TransportCosts::default());
        Adapter::new(near)
    } else {
        let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let sockets = Sockets::new(clock, server.address(), Digests::new().with_header(true).with_data(true));
        let inner = clock.clone();
        clock.spawn("target", async move {
            nvme_tcp::run(&inner, &target, &[server], &Default::default(), std::future::pending())
                .await
                .unwrap();
        });
        Adapter::real(clock, Box::new(sockets))
    };
    let config = InitiatorConfig {
        subsystem,
        host: Nqn::new("nqn.2026-11.org.byteway:host").unwrap(),
        host_id: [7; 16],
        admin_entries: 32,
        in_capsule_bytes: 8192,
        authenticator: None,
        timeout: None,
    };
    Port::Fabric(Initiator::connect(&adapter, Memory::simulated(), config).await.unwrap())
}
