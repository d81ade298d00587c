//! `[jbof]` of a scenario as it is written.

use byteway_console::units::{Bytes, Frequency, Percent, Picos, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[jbof]`: the drives are in one box, on a CXL fabric, behind a host that is small for so many ("Espresso"). Their profile is that of a
/// drive with all the cores and DRAM that it can use; `platform` says how much of that they have here, and who helps them out.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JbofSection {
    /// How the box is built. Left out, "espresso".
    #[serde(default)]
    pub platform: Platform,
    /// Cores of each drive. Left out, those of the profile for "conv", half as many for the others.
    #[serde(default)]
    pub cores: Option<u16>,
    /// DRAM for the map, GB for each TB of flash: 1 holds the whole map. Left out, 1 for "conv", 0.5 for the others; for "oc", what each
    /// drive has of `host_dram`.
    #[serde(default)]
    pub dram: Option<f64>,
    /// How often drives and host look what is lent. Left out, 10 ms.
    #[serde(default = "ten_ms")]
    pub period: Picos,
    /// Busier than this a drive borrows. Left out, 75 %.
    #[serde(default = "watermark")]
    pub watermark: Percent,
    /// Peers that a drive borrows processors of at once, at most. Left out, 11.
    #[serde(default = "eleven")]
    pub lenders: u16,
    /// Processor time of a drive to take an operation out of the queue that peers put it into. Left out, 114.2 ns.
    #[serde(default = "agent")]
    pub agent: Picos,
    /// Processor time for a record of the redo log. Left out, 321.9 ns.
    #[serde(default = "log_commit")]
    pub log_commit: Picos,
    /// Processor time of a drive's daemon, each period. Left out, 5 us.
    #[serde(default = "daemon")]
    pub daemon: Picos,
    /// Processor time of the host for each command of a queue that is redirected in part. Left out, 20 ns.
    #[serde(default = "redirect")]
    pub redirect: Picos,
    /// DRAM is lent in pieces of this size: a multiple of 4 KiB. Left out, 2 MiB.
    #[serde(default = "two_mib")]
    pub segment: Bytes,
    /// A drive borrows DRAM until its map's miss ratio is below this. Left out, 10 %.
    #[serde(default = "ten_percent")]
    pub miss_ratio: Percent,
    /// The fabric.
    #[serde(default)]
    pub fabric: FabricSection,
    /// What "oc" and "vh" do on the host.
    #[serde(default)]
    pub central: CentralSection,
    /// Prices.
    #[serde(default)]
    pub prices: PricesSection,
}

/// How a box is built ("Espresso", 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Platform {
    /// Every drive has all the cores and DRAM that it can use.
    Conv,
    /// Firmware and map of all drives are on the host: open-channel drives.
    Oc,
    /// Drives have half of it, and nobody helps.
    Shrunk,
    /// Such drives, whose writes a hypervisor redirects to idle ones, and copies back.
    Vh,
    /// The same without copying back.
    VhIdeal,
    /// Such drives, which lend each other processors.
    Proch,
    /// Such drives, which lend each other processors and DRAM.
    #[default]
    Espresso,
}

impl Platform {
    /// All, in the order in which the paper shows them.
    pub const ALL: [Platform; 7] = [
        Platform::Conv,
        Platform::Oc,
        Platform::Shrunk,
        Platform::Vh,
        Platform::VhIdeal,
        Platform::Proch,
        Platform::Espresso,
    ];

    /// As a scenario names it.
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

    /// As the paper names it.
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
    /// Drives at each switch of the lowest level.
    pub drives_of_switch: u16,
    /// What a port carries each way.
    pub port: Rate,
    /// From one port of a switch to another.
    pub switch: Picos,
    /// Putting a message into flits, and taking it out.
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

/// `[jbof.central]`: what is done on the host for all drives, on its processors.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CentralSection {
    /// A processor of the host.
    pub clock: Frequency,
    /// Its DRAM, for the maps of all drives of a box whose flash is as large as the profile says.
    pub dram: Bytes,
    /// What its DRAM moves of data that firmware there buffers, in and out together. What is written passes it 2.5 times: in, out, and for
    /// parity, which is not charged apart; so the default is 1.25 times less than two channels of DDR5-5600 move. The drives' own profile
    /// has their DRAM by the same measure, where the way in alone is charged.
    pub dram_bandwidth: Rate,
    /// Processor time to send up to 64 flash operations of a command to an open-channel drive.
    pub submit: Picos,
    /// Processor time to take their completion.
    pub complete: Picos,
    /// Processor time of the hypervisor for each command of a virtual drive.
    pub virtual_command: Picos,
    /// The part of that which only one processor at a time can do.
    pub virtual_lock: Picos,
    /// What drives of "vh" and "vh-ideal" have more for what is redirected to them: a share of their capacity.
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

/// `[jbof.prices]`: dollars ("Espresso", 5.2).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PricesSection {
    /// 128 GB of flash.
    pub flash_128_gb: f64,
    /// 1 GB of DRAM.
    pub dram_gb: f64,
    /// The controller of a drive with all of its cores; with half of them it costs half.
    pub controller: f64,
    /// Board, packaging and the rest of a drive.
    pub other: f64,
    /// How much more controller and DRAM cost with CXL.
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
