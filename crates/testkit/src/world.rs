//! A world with one small drive.

use crate::config::{drive_config, link_config};
use byteway_clock::{Clock, Delay, Executor, RunOutcome};
use byteway_device::DriveConfig;
use byteway_flash::Medium;
use byteway_host::{Driver, DriverConfig, Port};
use byteway_link::{HostEnd, Memory, PcieConfig};
use byteway_world::{DriveBay, PoweredDrive};

/// Long enough for all background work of a drive.
const SETTLED: Delay = Delay::from_ms(50);

/// A drive and its host, before power-on.
pub struct SmallWorld {
    /// Configuration of the drive.
    pub drive: DriveConfig,
    /// Configuration of its link.
    pub link: PcieConfig,
    /// The host memory.
    pub memory: Memory,
    /// Contents of the drive's medium; `None`: a new drive.
    pub medium: Option<Medium>,
}

impl Default for SmallWorld {
    fn default() -> Self {
        SmallWorld { drive: drive_config(), link: link_config(), memory: Memory::simulated(), medium: None }
    }
}

impl SmallWorld {
    /// A world with this drive, and defaults for the rest.
    pub fn of(drive: DriveConfig) -> Self {
        SmallWorld { drive, ..SmallWorld::default() }
    }

    /// Powers the drive on.
    pub fn power_on(self, clock: &Clock) -> PoweredDrive {
        let powered = DriveBay::new(clock, self.link, self.memory).power_on(self.drive, self.medium);
        powered.unwrap_or_else(|error| panic!("there can be no such drive: {error}"))
    }

    /// Runs a test with the powered drive, in virtual time.
    pub fn run<T: 'static>(self, test: impl AsyncFnOnce(PoweredDrive) -> T + 'static) -> T {
        let executor = Executor::new();
        let powered = self.power_on(executor.clock());
        let ran = executor.run(async move { test(powered).await });
        ran.unwrap_or_else(|stalled| panic!("{stalled}"))
    }

    /// Runs a test with an attached driver. Asserts at the end that the drive is quiet, and that no
    /// completion contradicted its submission.
    pub fn run_driven<T: 'static>(
        self,
        config: DriverConfig,
        test: impl AsyncFnOnce(Driver, &PoweredDrive) -> T + 'static,
    ) -> T {
        self.run(async move |powered| {
            let attached = Driver::attach(Port::Link(powered.host.clone()), config).await;
            let driver = attached.unwrap_or_else(|error| panic!("no driver attaches: {error}"));
            let result = test(driver.clone(), &powered).await;
            driver.clock().sleep(SETTLED).await;
            assert_eq!(driver.protocol_errors(), 0, "completions contradict what was submitted");
            assert!(powered.drive.controller.is_quiet(), "slots, permits and tags are free");
            result
        })
    }

    /// Runs `host` until it ends, or until the power is cut before poll `polls`. Returns the medium as it is
    /// then.
    pub fn run_cut<T: 'static>(
        self,
        polls: u64,
        life: impl AsyncFnOnce(HostEnd) -> T + 'static,
    ) -> (RunOutcome<T>, Medium) {
        let executor = Executor::new();
        let powered = self.power_on(executor.clock());
        let host = powered.host.clone();
        let ran = executor.run_cut(async move { life(host).await }, polls);
        (ran.unwrap_or_else(|stalled| panic!("{stalled}")), powered.power_off())
    }
}

/// Asserts that the drive holds no resources, and that ledger, host memory and drive agree on every byte that
/// crossed the link.
pub fn assert_at_rest(powered: &PoweredDrive) {
    powered.balance().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(powered.host.faults(), 0, "posted writes into memory that is not there");
    let controller = &powered.drive.controller;
    assert!(controller.is_quiet(), "slots, permits and tags are free");
    assert_eq!(controller.backing().locked(), 0, "units locked");
}
