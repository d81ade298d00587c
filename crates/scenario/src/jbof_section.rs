//! The section `[jbof]` of a scenario file.

use byteway_text::units::{Bytes, Frequency, Percent, Picos, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[jbof]`: the drives are in one JBOF, on a CXL fabric, with a host that is small for their number
/// ("Espresso"). The profile is that of a drive with all the cores and DRAM that it can use; `platform`
/// determines how much of this each drive has, and who provides the rest.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JbofSection {
    /// Design of the JBOF. Default: "espresso".
    #[serde(default)]
    pub platform: Platform,
    /// Cores of each drive; not for "oc", whose firmware runs on the host. Default: the profile's for "conv",
    /// half of it for the others.
    #[serde(default)]
    pub cores: Option<u16>,
    /// DRAM for the map in GB per TB of flash; 1 holds the whole map. Default: 1 for "conv", 0.5 for the
    /// others; for "oc", each drive's part of `central.dram`.
    #[serde(default)]
    pub dram: Option<f64>,
    /// Interval at which drives and host check what is lent. Default: 10 ms.
    #[serde(default = "ten_ms")]
    pub period: Picos,
    /// Utilisation above which a drive borrows. Default: 75 %.
    #[serde(default = "watermark")]
    pub watermark: Percent,
    /// Maximum number of peers from which a drive borrows processors at once. Default: 11.
    #[serde(default = "eleven")]
    pub lenders: u16,
    /// Processor time of a drive to take an operation from the queue into which peers put it. Default: 114.2
    /// ns.
    #[serde(default = "agent")]
    pub agent: Picos,
    /// Processor time for a record of the redo log. Default: 321.9 ns.
    #[serde(default = "log_commit")]
    pub log_commit: Picos,
    /// Processor time of a drive's daemon per period. Default: 5 us.
    #[serde(default = "daemon")]
    pub daemon: Picos,
    /// Processor time of the host per command on a partly redirected queue. Default: 20 ns.
    #[serde(default = "redirect")]
    pub redirect: Picos,
    /// Size of a lent segment of DRAM: a multiple of 4 KiB. Default: 2 MiB.
    #[serde(default = "two_mib")]
    pub segment: Bytes,
    /// Miss ratio of its map above which a drive borrows DRAM. Default: 10 %.
    #[serde(default = "ten_percent")]
    pub miss_ratio: Percent,
    /// The fabric.
    #[serde(default)]
    pub fabric: FabricSection,
    /// Work that "oc" and "vh" do on the host.
    #[serde(default)]
    pub central: CentralSection,
    /// Prices.
    #[serde(default)]
    pub prices: PricesSection,
}

/// Design of a JBOF ("Espresso", 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Platform {
    /// Every drive has all the cores and DRAM that it can use.
    Conv,
    /// Firmware and map of all drives are on the host: open-channel drives.
    Oc,
    /// Drives have half of these resources, and do not share them.
    Shrunk,
    /// Shrunk drives, with a hypervisor that redirects writes to idle drives and copies the data back.
    Vh,
    /// The same without copying back.
    VhIdeal,
    /// Shrunk drives that lend each other processors.
    Proch,
    /// Shrunk drives that lend each other processors and DRAM.
    #[default]
    Espresso,
}

impl Platform {
    /// All platforms, in the paper's order.
    pub const ALL: [Platform; 7] = [
        Platform::Conv,
        Platform::Oc,
        Platform::Shrunk,
        Platform::Vh,
        Platform::VhIdeal,
        Platform::Proch,
        Platform::Espresso,
    ];

    /// Name in a scenario.
    pub const fn word(self) -> &'static str {
        match self {
            Platform::Conv => "conv",
            Platform::Oc => "oc",
            Platform::Shrunk => "shrunk",
            Platform::Vh => "vh",
            Platform::VhIdeal => "vh-ideal",
            Platform::Proch => "proch",
            Platform::Espresso => "espresso",
        }
    }

    /// Name in the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Platform::Conv => "Conv",
            Platform::Oc => "OC",
            Platform::Shrunk => "Shrunk",
            Platform::Vh => "VH",
            Platform::VhIdeal => "VH (ideal)",
            Platform::Proch => "ProcH",
            Platform::Espresso => "Espresso",
        }
    }

    /// Whether drives lend each other processors.
    pub const fn lends_processors(self) -> bool {
        matches!(self, Platform::Proch | Platform::Espresso)
    }

    /// Whether they lend each other DRAM.
    pub const fn lends_dram(self) -> bool {
        matches!(self, Platform::Espresso)
    }

    /// Whether a hypervisor redirects writes.
    pub const fn is_virtual(self) -> bool {
        matches!(self, Platform::Vh | Platform::VhIdeal)
    }
}

/// `[jbof.fabric]`: a tree of switches, the host at its root.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FabricSection {
    /// Number of drives at each switch of the lowest level.
    pub drives_of_switch: u16,
    /// Bandwidth of a port in each direction.
    pub port: Rate,
    /// Latency of a switch, from port to port.
    pub switch: Picos,
    /// Time to pack a message into flits, and to unpack it.
    pub framing: Picos,
}

impl Default for FabricSection {
    fn default() -> Self {
        FabricSection {
            drives_of_switch: 4,
            port: Rate(16_000_000_000),
            switch: Picos(20_000),
            framing: Picos(20_000),
        }
    }
}

/// `[jbof.central]`: work on the host's processors for all drives.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CentralSection {
    /// Clock of a host processor.
    pub clock: Frequency,
    /// DRAM of the host for the maps of all drives of a JBOF whose flash is as large as the profile's. Not
    /// included in the price, because the host has it anyway.
    pub dram: Bytes,
    /// Bandwidth of the host's DRAM for data that firmware there buffers, both directions together. Written
    /// data passes it 2.5 times: in, out, and for parity, which is not charged separately; so the default is
    /// two channels of DDR5-5600 divided by 1.25. The drives' own profile states their DRAM by the same
    /// measure, where only the way in is charged.
    pub dram_bandwidth: Rate,
    /// Processor time to send up to 64 flash operations of a command to an open-channel drive. Our estimate,
    /// as is `complete`; the paper does not say.
    pub submit: Picos,
    /// Processor time to process their completion.
    pub complete: Picos,
    /// Processor time of the hypervisor per command of a virtual drive. The paper does not say: this and
    /// `virtual_lock` are chosen so that twelve busy drives lose the paper's 21.4 % (ES15).
    pub virtual_command: Picos,
    /// The serialized part of `virtual_command`: at most all of it.
    pub virtual_lock: Picos,
    /// Additional capacity of drives of "vh" and "vh-ideal" for redirected writes, as a share of their
    /// capacity.
    pub spare: Percent,
}

impl Default for CentralSection {
    fn default() -> Self {
        CentralSection {
            clock: Frequency(2_100_000_000),
            dram: Bytes(16 << 30),
            dram_bandwidth: Rate(71_680_000_000),
            submit: Picos(1_000_000),
            complete: Picos(1_000_000),
            virtual_command: Picos(6_000_000),
            virtual_lock: Picos(350_000),
            spare: Percent(6.0),
        }
    }
}

/// `[jbof.prices]`: prices in dollars ("Espresso", 5.2).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PricesSection {
    /// Price of 128 GB of flash.
    pub flash_128_gb: f64,
    /// Price of 1 GB of DRAM.
    pub dram_gb: f64,
    /// Price of the controller of a drive with all its cores; with half of them it costs half.
    pub controller: f64,
    /// Price of the board, packaging and the rest of a drive.
    pub other: f64,
    /// Additional price of controller and DRAM with CXL.
    pub cxl: Percent,
}

impl Default for PricesSection {
    fn default() -> Self {
        PricesSection { flash_128_gb: 4.95, dram_gb: 7.2, controller: 48.0, other: 6.0, cxl: Percent(10.0) }
    }
}

fn ten_ms() -> Picos {
    Picos(10_000_000_000)
}

fn watermark() -> Percent {
    Percent(75.0)
}

fn eleven() -> u16 {
    11
}

fn agent() -> Picos {
    Picos(114_200)
}

fn log_commit() -> Picos {
    Picos(321_900)
}

fn daemon() -> Picos {
    Picos(5_000_000)
}

fn redirect() -> Picos {
    Picos(20_000)
}

fn two_mib() -> Bytes {
    Bytes(2 << 20)
}

fn ten_percent() -> Percent {
    Percent(10.0)
}
