//! Configurations of a small drive and its link: 48 MiB, reads of 10 us, programs of 50 us, erases of 500 us,
//! Gen3 x4. A test overrides single fields: `DriveConfig { serial: .., ..drive_config() }`.

use byteway_clock::{Delay, Rate};
use byteway_content::{BlockSize, Keep};
use byteway_device::{ControllerConfig, DriveConfig, NamespaceConfig, SiteConfig, TransferConfig};
use byteway_firmware::{Base, Cycles, FtlConfig, WorkKind};
use byteway_flash::{Geometry, Timing};
use byteway_link::{Generation, NetworkConfig, PcieConfig};

/// Size of namespace 1 in units of 4 KiB; its logical blocks have 512 bytes.
pub const NS_512_UNITS: u64 = 4096;
/// Size of namespace 2 in units of 4 KiB; its logical blocks have 4096 bytes.
pub const NS_4K_UNITS: u64 = 8192;

/// The drive.
pub fn drive_config() -> DriveConfig {
    DriveConfig {
        model: "Byteway test drive".into(),
        serial: "TEST0001".into(),
        controller: ControllerConfig {
            io_queues_max: 8,
            queue_entries_max: 1024,
            command_slots: 64,
            fetch_outstanding: 2,
            fetch_burst: 4,
            transfer_bytes_max: 128 << 10,
            dma_granularity: 1,
            dstrd: 0,
            sgl: false,
            shadow_doorbells: false,
            host_buffer: None,
            collection_windows: false,
            borrows: false,
            vectors: 9,
            arbitration_burst: 128,
            ready_delay: Delay::from_us(10),
            read_pipeline: Delay::from_ns(500),
            read_large_pipeline: Delay::from_ns(800),
            write_pipeline: Delay::from_ns(300),
        },
        transfer: TransferConfig::default(),
        site: SiteConfig {
            cores: 2,
            hertz: 1_000_000_000,
            cycles: Cycles::FREE
                .with(WorkKind::Fetch, 50)
                .with(WorkKind::Parse, 100)
                .with(WorkKind::Translate, 50)
                .with(WorkKind::Buffer, 50)
                .with(WorkKind::Complete, 50),
            dram_latency: Delay::from_ns(50),
            dram_rate: Rate::per_second(10_000_000_000),
        },
        geometry: Geometry { channels: 2, ways: 2, planes: 1, blocks: 32, pages: 64, page_bytes: 16384 },
        timing: Timing {
            read: vec![Delay::from_us(10)],
            program: vec![Delay::from_us(50)],
            erase: Delay::from_us(500),
            channel: Rate::per_second(800_000_000),
            command: Delay::from_ns(100),
            ..Timing::default()
        },
        media: Default::default(),
        endurance_erases: 3000,
        ftl: FtlConfig { write_buffer_units: 256, ..FtlConfig::default() },
        namespaces: vec![
            NamespaceConfig::blocks(NS_512_UNITS, BlockSize::B512),
            NamespaceConfig::blocks(NS_4K_UNITS, BlockSize::B4096),
        ],
        kv: None,
        csd: None,
        programs: None,
        base: Base::Empty,
        keep: Keep::Bytes,
        seed: 1,
    }
}

/// The link.
pub fn link_config() -> PcieConfig {
    PcieConfig {
        generation: Generation::Gen3,
        lanes: 4,
        mps: 256,
        mrrs: 512,
        rcb: 64,
        read_tags: 32,
        propagation: Delay::from_ns(100),
        memory_latency: Delay::from_ns(150),
        slowdown: 1,
    }
}

/// The link of the boards of ByteExpress and BandSlim: Gen2 x8, with fewer outstanding requests.
pub fn board_link_config() -> PcieConfig {
    PcieConfig { generation: Generation::Gen2, lanes: 8, read_tags: 8, ..link_config() }
}

/// A network of 100 Gbit/s with RDMA.
pub fn network_config() -> NetworkConfig {
    NetworkConfig {
        rate: Rate::per_second(12_500_000_000),
        propagation: Delay::from_ns(500),
        packet_bytes_max: 4096,
        packet_overhead_bytes: 82,
        send: Delay::from_ns(300),
        receive: Delay::from_ns(200),
        header_bytes: [0, 0, 16, 16, 0],
    }
}
