//! Purchase and running costs of drives.
//!
//! The constants are the paper's (5.2 and Table 2). The results are arithmetic on them, and are not valid for other
//! prices.

/// Prices, in dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// 128 GB of flash.
    pub flash_128_gb: f64,
    /// 1 GB of DRAM.
    pub dram_gb: f64,
    /// The controller of a drive with a full processor.
    pub controller: f64,
    /// Board, packaging and the rest.
    pub other: f64,
    /// Extra cost of controller and DRAM with CXL, as a fraction.
    pub cxl: f64,
}

impl Default for Prices {
    fn default() -> Self {
        Prices { flash_128_gb: 4.95, dram_gb: 7.2, controller: 48.0, other: 6.0, cxl: 0.10 }
    }
}

/// The priced parts of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// Capacity in TB of 1,024 GB, as in the paper's figures.
    pub terabytes: f64,
    /// DRAM, in GB per TB of flash.
    pub dram_gb_per_terabyte: f64,
    /// Fraction of a full processor: a controller with half the cores costs half.
    pub processor: f64,
    /// Whether it has CXL.
    pub has_cxl: bool,
}

impl Parts {
    /// A drive with full processor and DRAM, as Conv.
    pub fn whole(terabytes: f64) -> Self {
        Parts { terabytes, dram_gb_per_terabyte: 1.0, processor: 1.0, has_cxl: false }
    }

    /// The drive with this fraction of processor and DRAM, as Shrunk and Espresso.
    pub fn with_share(self, share: f64) -> Self {
        Parts {
            dram_gb_per_terabyte: self.dram_gb_per_terabyte * share,
            processor: self.processor * share,
            ..self
        }
    }
}

/// The price of a drive, in dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bill {
    /// Controller and DRAM.
    pub compute: f64,
    /// Flash.
    pub flash: f64,
    /// Everything else.
    pub other: f64,
}

impl Bill {
    /// The bill for a drive.
    pub fn of(parts: &Parts, prices: &Prices) -> Bill {
        let dram = parts.terabytes * parts.dram_gb_per_terabyte * prices.dram_gb;
        let premium = if parts.has_cxl { 1.0 + prices.cxl } else { 1.0 };
        Bill {
            compute: (dram + parts.processor * prices.controller) * premium,
            flash: parts.terabytes * 1024.0 / 128.0 * prices.flash_128_gb,
            other: prices.other,
        }
    }

    /// The total, in dollars.
    pub fn total(&self) -> f64 {
        self.compute + self.flash + self.other
    }
}

/// Power and energy constants of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// A die whose cells read, program or erase, in W (3.3 V times 25 mA).
    pub flash_operation: f64,
    /// A die held by an operation whose cells are idle, because data crosses the channel or waits for it, in W (3.3 V
    /// times 5 mA).
    pub flash_idle: f64,
    /// A die in standby, in W (3.3 V times 10 uA).
    pub flash_standby: f64,
    /// A bit over the CXL or PCIe PHY, in J.
    pub phy_bit: f64,
    /// A drive's processor with all of its cores busy, in W.
    pub processor: f64,
    /// A bit read from or written to DRAM, in J.
    pub dram_bit: f64,
}

impl Default for Power {
    fn default() -> Self {
        Power {
            flash_operation: 3.3 * 0.025,
            flash_idle: 3.3 * 0.005,
            flash_standby: 3.3 * 0.000_01,
            phy_bit: 6e-12,
            processor: 6.45,
            dram_bit: 22e-12,
        }
    }
}

/// The activity of a drive over a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Activity {
    /// Length of the period, in seconds.
    pub seconds: f64,
    /// Number of dies.
    pub dies: u64,
    /// Time in which operations held dies, in seconds, summed over all dies.
    pub held_seconds: f64,
    /// The part of `held_seconds` in which cells worked.
    pub array_seconds: f64,
    /// Busy time of its cores, in core-seconds.
    pub core_seconds: f64,
    /// Cores of a full processor, which [`Power::processor`] belongs to.
    pub cores_of_whole: u64,
    /// Bytes over its link, both directions.
    pub link_bytes: u64,
    /// Bytes read from and written to its DRAM; data that passes through to flash counts twice.
    pub dram_bytes: u64,
}

impl Power {
    /// Energy, in J. Dies that no operation holds are in standby; idle cores take nothing.
    pub fn joules(&self, activity: &Activity) -> f64 {
        let bits = |bytes: u64| bytes as f64 * 8.0;
        // Cell time is counted when an operation ends, so at the edges of a period it may exceed the held time.
        let waiting = (activity.held_seconds - activity.array_seconds).max(0.0);
        let standby = (activity.dies as f64 * activity.seconds - activity.held_seconds).max(0.0);
        activity.array_seconds * self.flash_operation
            + waiting * self.flash_idle
            + standby * self.flash_standby
            + activity.core_seconds / activity.cores_of_whole.max(1) as f64 * self.processor
            + bits(activity.link_bytes) * self.phy_bit
            + bits(activity.dram_bytes) * self.dram_bit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ES02, ES03: the bill must match the paper exactly.
    #[test]
    fn the_bill_is_the_papers() {
        let prices = Prices::default();
        let whole = Bill::of(&Parts::whole(4.0), &prices);
        assert!((whole.compute / whole.total() - 0.3184).abs() < 1e-4, "ES03: {whole:?}");
        let conv = Bill::of(&Parts::whole(2.0), &prices).total();
        let espresso = Parts { has_cxl: true, ..Parts::whole(2.0).with_share(0.5) };
        let saved = 1.0 - Bill::of(&espresso, &prices).total() / conv;
        assert!((saved - 0.1902).abs() < 1e-4, "ES02: {saved}");
    }

    // Counting a joule in watts, or a bit in bytes, is off by orders of magnitude.
    #[test]
    fn energy_is_the_sum_of_what_was_done() {
        let power = Power::default();
        let activity = Activity { seconds: 2.0, dies: 1, cores_of_whole: 6, ..Activity::default() };
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found}");
        near(power.joules(&activity), 2.0 * 3.3e-5);
        near(power.joules(&Activity { held_seconds: 2.0, array_seconds: 2.0, ..activity }), 2.0 * 0.0825);
        // Of two seconds, cells worked for half a second; for the rest the die was held for the channel.
        near(
            power.joules(&Activity { held_seconds: 2.0, array_seconds: 0.5, ..activity }),
            0.5 * 0.0825 + 1.5 * 0.0165,
        );
        let idle = power.joules(&activity);
        near(power.joules(&Activity { core_seconds: 12.0, ..activity }) - idle, 12.9);
        near(power.joules(&Activity { link_bytes: 1_000_000_000, ..activity }) - idle, 0.048);
        near(power.joules(&Activity { dram_bytes: 1_000_000_000, ..activity }) - idle, 0.176);
    }
}
