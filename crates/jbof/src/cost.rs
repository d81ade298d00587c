//! What drives cost to buy and to run.
//!
//! The constants are the paper's (5.2 and Table 2). Whatever comes of them is arithmetic, and says nothing of other prices.

/// Prices, in dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// 128 GB of flash.
    pub flash_128_gb: f64,
    /// 1 GB of DRAM.
    pub dram_gb: f64,
    /// The controller of a drive with all of its processor.
    pub controller: f64,
    /// Board, packaging and the rest.
    pub other: f64,
    /// How much more controller and DRAM cost with CXL, a share.
    pub cxl: f64,
}

impl Default for Prices {
    fn default() -> Self {
        Prices { flash_128_gb: 4.95, dram_gb: 7.2, controller: 48.0, other: 6.0, cxl: 0.10 }
    }
}

/// What of a drive has a price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// Capacity in TB, of 1,024 GB as the paper's figures have it.
    pub terabytes: f64,
    /// DRAM, in GB for each TB.
    pub dram_gb_per_terabyte: f64,
    /// The part that its processor is of a whole one: a controller with half the cores costs half.
    pub processor: f64,
    /// Whether it has CXL.
    pub has_cxl: bool,
}

impl Parts {
    /// A drive with all that it can use, as in Conv.
    pub fn whole(terabytes: f64) -> Self {
        Parts { terabytes, dram_gb_per_terabyte: 1.0, processor: 1.0, has_cxl: false }
    }

    /// With this part of processor and DRAM, as in Shrunk and Espresso.
    pub fn with_share(self, share: f64) -> Self {
        Parts {
            dram_gb_per_terabyte: self.dram_gb_per_terabyte * share,
            processor: self.processor * share,
            ..self
        }
    }
}

/// What a drive costs, in dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bill {
    /// Controller and DRAM.
    pub compute: f64,
    /// Flash.
    pub flash: f64,
    /// The rest.
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

    /// All of it.
    pub fn total(&self) -> f64 {
        self.compute + self.flash + self.other
    }
}

/// What it takes to run a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// A flash operation of one die, watts (3.3 V times 25 mA).
    pub flash_operation: f64,
    /// A die that is selected and does nothing, watts (3.3 V times 5 mA).
    pub flash_idle: f64,
    /// A die in standby, watts (3.3 V times 10 uA).
    pub flash_standby: f64,
    /// A bit over the CXL or PCIe PHY, joules.
    pub phy_bit: f64,
    /// A drive's processor with all of its cores busy, watts.
    pub processor: f64,
    /// A bit read from DRAM or written there, joules.
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

/// What a drive did, over a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// How long, seconds.
    pub seconds: f64,
    /// Dies.
    pub dies: u64,
    /// Seconds of flash operations, summed over the dies.
    pub flash_seconds: f64,
    /// Core-seconds of its processor.
    pub core_seconds: f64,
    /// Cores of a whole processor, to which [`Power::processor`] belongs.
    pub cores_of_whole: u64,
    /// Bytes over its link, both ways.
    pub link_bytes: u64,
    /// Bytes into its DRAM and out of it.
    pub dram_bytes: u64,
}

impl Power {
    /// Joules for it. Dies that do nothing are in standby; cores that do nothing take nothing.
    pub fn joules(&self, work: &Work) -> f64 {
        let bits = |bytes: u64| bytes as f64 * 8.0;
        let idle = (work.dies as f64 * work.seconds - work.flash_seconds).max(0.0);
        work.flash_seconds * self.flash_operation
            + idle * self.flash_standby
            + work.core_seconds / work.cores_of_whole.max(1) as f64 * self.processor
            + bits(work.link_bytes) * self.phy_bit
            + bits(work.dram_bytes) * self.dram_bit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ES02, ES03: exact, or the bill is not the paper's.
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

    // A joule that is counted in watts, or a bit in bytes, is off by orders.
    #[test]
    fn energy_is_the_sum_of_what_was_done() {
        let power = Power::default();
        let work = Work { seconds: 2.0, dies: 1, cores_of_whole: 6, ..Work::default() };
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found}");
        near(power.joules(&work), 2.0 * 3.3e-5);
        near(power.joules(&Work { flash_seconds: 2.0, ..work }), 2.0 * 0.0825);
        let idle = power.joules(&work);
        near(power.joules(&Work { core_seconds: 12.0, ..work }) - idle, 12.9);
        near(power.joules(&Work { link_bytes: 1_000_000_000, ..work }) - idle, 0.048);
        near(power.joules(&Work { dram_bytes: 1_000_000_000, ..work }) - idle, 0.176);
    }
}
