//! A driver, a link and a drive that offers every method, in one executor. [`Rig`] has the defaults; a test overrides what it is about.

use byteway_clock::random::Stream;
use byteway_clock::{Clock, Delay};
use byteway_content::BlockSize;
use byteway_device::{
    ControllerConfig, DriveConfig, MemoryConfig, NamespaceConfig, SiteConfig, TransferConfig,
};
use byteway_firmware::{Cycles, WorkKind};
use byteway_flash::Geometry;
use byteway_host::{Driver, DriverConfig, HostCosts};
use byteway_link::{CxlConfig, Flit, PcieConfig};
use byteway_testkit::SmallWorld;
use byteway_wire::nvme::vendor::Methods;

/// The longest payload in the tests.
pub const BYTES_MAX: u32 = 8192;
/// Size of the payload sink in bytes.
pub const SINK_BYTES: u64 = 1 << 20;

/// All transfer methods of a drive.
pub fn everything() -> TransferConfig {
    TransferConfig {
        methods: Methods::new()
            .with_inline(true)
            .with_inline_tail(true)
            .with_reassembly(true)
            .with_piggyback(true)
            .with_piggyback_pipelined(true)
            .with_mmio(true)
            .with_cxl_mem(true)
            .with_cxl_commit(true)
            .with_inline_result(true)
            .with_rounded_results(true),
        inline_bytes_max: BYTES_MAX,
        reassembly_bytes_max: BYTES_MAX,
        piggyback_bytes_max: BYTES_MAX,
        inline_result_bytes_max: BYTES_MAX,
        partial_payloads_max: 64,
        partial_timeout: Delay::from_ms(10),
        bar_bytes: 1 << 20,
        memory: Some(MemoryConfig {
            link: CxlConfig { flit: Flit::Bytes68, memory_latency: Delay::from_ns(80) },
            area_bytes: 1 << 20,
            records: 16,
            poll: Delay::from_us(1),
        }),
        sink_bytes: SINK_BYTES,
        chunk_store: Delay::from_ns(200),
    }
}

/// Configuration of a test.
pub struct Rig {
    /// Drive.
    pub drive: DriveConfig,
    /// Link.
    pub link: PcieConfig,
    /// Costs of the driver.
    pub costs: HostCosts,
}

impl Default for Rig {
    fn default() -> Self {
        Rig { drive: drive_config(), link: byteway_testkit::link_config(), costs: HostCosts::default() }
    }
}

/// Both ends, and what a test inspects.
#[derive(Clone)]
pub struct Stage {
    pub clock: Clock,
    pub driver: Driver,
}

impl Rig {
    /// Runs `test` with an attached driver. At the end the drive must hold no slot, permit, tag or partial payload.
    pub fn run<T: 'static>(self, test: impl AsyncFnOnce(Stage) -> T + 'static) -> T {
        let config = DriverConfig { costs: self.costs, queues_wanted: 8, ..DriverConfig::default() };
        let world = SmallWorld { link: self.link, ..SmallWorld::of(self.drive) };
        world.run_driven(config, async |driver, _| {
            let clock = driver.clock().clone();
            test(Stage { clock, driver }).await
        })
    }
}

/// Random bytes that identify their position.
pub fn payload(random: &mut Stream, bytes: u32) -> Vec<u8> {
    (0..bytes).map(|_| random.next_u64() as u8).collect()
}

fn drive_config() -> DriveConfig {
    let small = byteway_testkit::drive_config();
    DriveConfig {
        serial: "METHODS1".into(),
        controller: ControllerConfig {
            queue_entries_max: 256,
            command_slots: 32,
            dma_granularity: 4096,
            sgl: true,
            arbitration_burst: 8,
            ..small.controller
        },
        transfer: everything(),
        site: SiteConfig {
            cycles: Cycles::FREE
                .with(WorkKind::Fetch, 50)
                .with(WorkKind::Parse, 100)
                .with(WorkKind::Complete, 50)
                .with(WorkKind::Dma, 200)
                .with(WorkKind::Chunk, 20),
            ..small.site
        },
        geometry: Geometry { channels: 1, ways: 1, blocks: 20, ..small.geometry },
        namespaces: vec![NamespaceConfig::blocks(2048, BlockSize::B512)],
        ..small
    }
}
