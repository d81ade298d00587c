//! A drive with raw flash, and a host that drives it across a link, for translation layers that run on the
//! host.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_assembly::{RawFlash, RawFlashConfig};
use byteway_clock::{Clock, Delay};
use byteway_content::Keep;
use byteway_device::{ControllerConfig, DriveConfig, NamespaceConfig};
use byteway_firmware::{Base, FtlConfig};
use byteway_flash::{Far, FaultPlan, Geometry, Medium, Timing};
use byteway_host::{Driver, DriverConfig, QueueConfig};
use byteway_host::{PointerKind, Port};
use byteway_link::HostEnd;
use byteway_testkit::{SmallWorld, drive_config};
use byteway_world::PoweredDrive;

/// Operations in flight at once.
const LANES: usize = 16;

/// Description of a raw drive; `ftl` only tells which superblocks are factory-bad.
pub fn raw_drive(geometry: Geometry, timing: Timing, ftl: &FtlConfig) -> DriveConfig {
    let small = drive_config();
    DriveConfig {
        controller: ControllerConfig {
            transfer_bytes_max: 1 << 19,
            ready_delay: Delay::ZERO,
            ..small.controller
        },
        namespaces: vec![NamespaceConfig::raw_flash(&geometry)],
        geometry,
        timing,
        base: Base::Empty,
        keep: Keep::Stamps,
        ftl: FtlConfig { upkeep: ftl.upkeep.clone(), ..FtlConfig::default() },
        ..small
    }
}

/// A raw drive with this medium, or a new one.
pub fn power_on(
    clock: &Clock,
    mut config: DriveConfig,
    faults: FaultPlan,
    seed: u64,
    medium: Option<Medium>,
) -> PoweredDrive {
    (config.media.faults, config.seed) = (faults, seed);
    SmallWorld { medium, ..SmallWorld::of(config) }.power_on(clock)
}

/// The host attaches to the flash.
pub async fn attach(host: HostEnd) -> Far {
    let clock = host.clock().clone();
    let driver = Driver::attach(Port::Link(host), DriverConfig::default()).await.unwrap();
    let queue = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
    let config = RawFlashConfig { lanes: LANES, pointer: PointerKind::Prp, keep: Keep::Stamps };
    let flash = RawFlash::open(&driver, queue, config).await.unwrap().expect("the drive has raw flash");
    Far::attach(&clock, flash).await.unwrap()
}
