//! The boards of the papers: each has one configuration that all of its claims start from, and documented
//! departures from it.
//!
//! A [`Spec`] begins with a board. The transfer method is the subject of a claim ([`Spec::by`]), as is the
//! path by which a target serves the drive ([`Board::behind`]). Any other key of the scenario is changed only
//! by a [`Departure`], which states its reason. So no claim has its own configuration without a reason.

use crate::point::Spec;

/// A board: drive, host and settings.
#[derive(Debug)]
pub struct Board {
    /// The drive's profile.
    pub drive: &'static str,
    /// The host's profile. It waits for interrupts, as Linux's pass-through does.
    pub host: &'static str,
    /// Keys and values for a key-value drive, in TOML.
    pub store: &'static [(&'static str, &'static str)],
    /// Keys and values for a drive with tables, in TOML.
    pub tables: &'static [(&'static str, &'static str)],
    /// Keys and values for a block device, in TOML.
    pub blocks: &'static [(&'static str, &'static str)],
    /// Keys and values of network and target, for a drive behind one, in TOML.
    pub remote: &'static [(&'static str, &'static str)],
}

/// For a key-value drive. BandSlim's drive has 1 TB, a part of which stores all pairs. Every value is copied
/// to the write pointer, for any transfer method: the time of a PUT in addition to its transfer, to which the
/// profile's constants were fitted, grows with every byte of a value.
const STORE: &[(&str, &str)] = &[("drive.capacity", "\"16 GiB\""), ("drive.override.kv.packing", "\"all\"")];

/// Drive with tables: those of ByteExpress's queries, with so few rows that a query's time is its transfer.
const TABLES: &[(&str, &str)] = &[
    ("drive.capacity", "\"16 GiB\""),
    (
        "drive.table",
        "[{ name = \"particles\", generate = \"vpic\", rows = 1000 }, { name = \"laghos\", generate = \"laghos\", rows = 1000 }, \
         { name = \"asteroid\", generate = \"deep-water\", rows = 1000 }, \
         { name = \"lineitem\", generate = \"tpch-lineitem\", rows = 1000 }, \
         { name = \"region\", generate = \"tpch-region\", rows = 5 }]",
    ),
];

/// The board of ByteExpress and BandSlim.
pub const COSMOS: Board =
    Board { drive: "cosmos-plus", host: "cosmos", store: STORE, tables: TABLES, blocks: &[], remote: &[] };

/// BandSlim's outlook for it: PCIe Gen5 x8 with CXL.mem.
pub const GEN5: Board =
    Board { drive: "bandslim-gen5x8", host: "cosmos", store: STORE, tables: &[], blocks: &[], remote: &[] };

/// The machines of light-weight NVMe-oF, by its Table 1. No LBA was written, so the drive answers without
/// flash reads: with the time of its flash, no network would cost more than a fifth of the IOPS, and the
/// paper reports up to 56 %.
pub const P4500: Board = Board {
    drive: "p4500",
    host: "xeon-e5-v4",
    store: &[],
    tables: &[],
    blocks: &[("drive.precondition", "\"empty\"")],
    remote: &[("network.profile", "\"roce-100g\""), ("target.profile", "\"xeon-e5-v4\"")],
};

/// Settings to follow the host's processors and memory, with blocks of 512 B, the paper's default.
const FOLLOWED: &[(&str, &str)] = &[("drive.lba_size", "\"512 B\""), ("measure.host", "true")];

/// The from-scratch drive of "Challenges in getting flash closer to CPU": its firmware is a driver on the
/// host.
pub const FSSD: Board =
    Board { drive: "fssd", host: "sandy-bridge", store: &[], tables: &[], blocks: FOLLOWED, remote: &[] };

/// The bridge-based drive of the same paper: complete drives behind a bridge.
pub const BSSD: Board =
    Board { drive: "bssd", host: "sandy-bridge", store: &[], tables: &[], blocks: FOLLOWED, remote: &[] };

/// Drives of a JBOF: 1/512 of the paper's size, so that caches are warm within a run, with a proportional map,
/// smaller DRAM segments, and enough spare flash that a burst cannot fill it, as in the paper.
const BOXED: &[(&str, &str)] = &[
    ("drive.name", "\"ssd\""),
    ("drive.copies", "12"),
    ("drive.capacity", "\"8 GiB\""),
    ("drive.override.firmware.op", "\"100 %\""),
    ("jbof.segment", "\"32 KiB\""),
    ("jbof.central.spare", "\"100 %\""),
];

/// The JBOF of "Espresso": twelve drives of its Table 2 behind a DPU.
pub const ESPRESSO: Board =
    Board { drive: "espresso", host: "dpu", store: &[], tables: &[], blocks: BOXED, remote: &[] };

/// All boards.
pub const BOARDS: [&Board; 6] = [&COSMOS, &GEN5, &P4500, &FSSD, &BSSD, &ESPRESSO];

impl Board {
    /// With a payload sink: the papers' "NAND off".
    pub fn sink(&self) -> Spec {
        Spec::on(self, "sink", &[])
    }

    /// With key-value pairs in flash.
    pub fn kv(&self) -> Spec {
        Spec::on(self, "kv", self.store)
    }

    /// With tables.
    pub fn tables(&self) -> Spec {
        Spec::on(self, "tables", self.tables)
    }

    /// A local block device on this board.
    pub fn block(&self) -> Spec {
        Spec::on(self, "block", self.blocks)
    }

    /// A block device behind a target that serves it by this path.
    pub fn behind(&self, path: &str) -> Spec {
        self.block().behind(self.remote, path)
    }
}

/// A key of the scenario that differs from the board's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Departure {
    key: &'static str,
    /// Value in TOML.
    value: &'static str,
    reason: Reason,
}

/// Reason for a departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The paper's own setting: section and quotation.
    Paper {
        /// The section.
        place: &'static str,
        /// The quotation.
        words: &'static str,
    },
    /// The paper's run is too long to simulate: a smaller drive reaches the same state sooner. Only for
    /// claims about an order.
    Scaled(&'static str),
    /// A figure of ours that belongs to no claim.
    Ours(&'static str),
}

impl Departure {
    /// A departure by the paper. Panics, at compile time for constants, if section or quotation are empty.
    pub const fn of_paper(
        key: &'static str,
        value: &'static str,
        place: &'static str,
        words: &'static str,
    ) -> Departure {
        assert!(!place.is_empty() && !words.is_empty(), "a departure states who demands it");
        Departure { key, value, reason: Reason::Paper { place, words } }
    }

    /// A departure that represents a longer run on a larger drive. Panics, at compile time for constants, if
    /// the reason is empty.
    pub const fn scaled(key: &'static str, value: &'static str, why: &'static str) -> Departure {
        assert!(!why.is_empty(), "a departure states why");
        Departure { key, value, reason: Reason::Scaled(why) }
    }

    /// A departure for a figure of ours.
    pub const fn ours(key: &'static str, value: &'static str, why: &'static str) -> Departure {
        assert!(!why.is_empty(), "a departure states why");
        Departure { key, value, reason: Reason::Ours(why) }
    }

    /// The key, and its value in TOML.
    pub const fn setting(&self) -> (&'static str, &'static str) {
        (self.key, self.value)
    }

    /// The reason.
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// Whether it represents a longer run on a larger drive.
    pub fn is_scaled(&self) -> bool {
        matches!(self.reason, Reason::Scaled(_))
    }

    /// The departure in words: `kv.packing = none ("...", In-device packing)`.
    pub fn sentence(&self) -> String {
        let key = self.key.strip_prefix("drive.override.").unwrap_or(self.key);
        let value = self.value.trim_matches('"');
        match self.reason {
            Reason::Paper { place, words } => format!("{key} = {value} (\"{words}\", {place})"),
            Reason::Scaled(why) | Reason::Ours(why) => format!("{key} = {value} ({why})"),
        }
    }
}
