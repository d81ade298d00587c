//! Configurations of a small drive and its link: the [default](DriveConfig::default) with two namespaces of 48 MiB together, Gen3 x4.
//! A test overrides single fields: `DriveConfig { serial: .., ..drive_config() }`.

use byteway_clock::{Delay, Rate};
use byteway_content::BlockSize;
use byteway_device::{DriveConfig, NamespaceConfig};
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
        namespaces: vec![
            NamespaceConfig::blocks(NS_512_UNITS, BlockSize::B512),
            NamespaceConfig::blocks(NS_4K_UNITS, BlockSize::B4096),
        ],
        ..DriveConfig::default()
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
