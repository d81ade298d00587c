//! The boards of the papers, each with the one configuration from which all claims start, and departures from it.
//!
//! A [`Spec`] begins with a board. What crosses by which method is the claim's subject ([`Spec::by`]), and so is by which path
//! a target serves the drive ([`Board::behind`]); any other key of the scenario is changed by a [`Departure`] only, which
//! states who demands it. So no claim has a configuration of its own without a reason.

use super::point::Spec;

/// A board: its drive, its host, and what they are set to.
#[derive(Debug)]
pub struct Board {
    /// The drive's profile.
    pub drive: &'static str,
    /// The host's profile. It waits for interrupts, as Linux's pass-through does.
    pub host: &'static str,
    /// Keys and values of a key-value drive, in TOML.
    pub store: &'static [(&'static str, &'static str)],
    /// Keys and values of a block device, in TOML.
    pub blocks: &'static [(&'static str, &'static str)],
    /// Network and target, where the drive is behind one, in TOML.
    pub remote: &'static [(&'static str, &'static str)],
}

/// Of a key-value drive. BandSlim's drive has 1 TB, of which a part holds all pairs. Every value is copied to the write
/// pointer, by whatever method it came: the time of a PUT beside its transfer, to which the profile's constants were fitted,
/// grows with every byte of every value.
const STORE: &[(&str, &str)] = &[("drive.capacity", "\"16 GiB\""), ("drive.override.kv.packing", "\"all\"")];

/// The board of ByteExpress and BandSlim.
pub const COSMOS: Board =
    Board { drive: "cosmos-plus", host: "cosmos", store: STORE, blocks: &[], remote: &[] };

/// What BandSlim makes of it on PCIe Gen5 x8, with CXL.mem.
pub const GEN5: Board =
    Board { drive: "bandslim-gen5x8", host: "cosmos", store: STORE, blocks: &[], remote: &[] };

/// The machines of light-weight NVMe-oF, by its Table 1. No LBA was written, so the drive answers without flash: with what its
/// flash takes, no network would cost more than a fifth of the IOPS, and the paper has up to 56 %.
pub const P4500: Board = Board {
    drive: "p4500",
    host: "xeon-e5-v4",
    store: &[],
    blocks: &[("drive.precondition", "\"empty\"")],
    remote: &[("network.profile", "\"roce-100g\""), ("target.profile", "\"xeon-e5-v4\"")],
};

/// Of a drive of which the host's processors and memory are followed, in blocks of 512 B: the paper's default.
const FOLLOWED: &[(&str, &str)] = &[("drive.lba_size", "\"512 B\""), ("measure.host", "true")];

/// The from-scratch drive of "Challenges in getting flash closer to CPU": its firmware is a driver of the host's.
pub const FSSD: Board =
    Board { drive: "fssd", host: "sandy-bridge", store: &[], blocks: FOLLOWED, remote: &[] };

/// The bridge-based drive of the same paper: whole drives behind a bridge.
pub const BSSD: Board =
    Board { drive: "bssd", host: "sandy-bridge", store: &[], blocks: FOLLOWED, remote: &[] };

/// Of the drives of a box: a 512th of the paper's, so that caches are warm in the time of a run, with as small a map, smaller segments of
/// DRAM, and as much spare flash as a burst can't fill, as it could not fill the paper's.
const BOXED: &[(&str, &str)] = &[
    ("drive.name", "\"ssd\""),
    ("drive.copies", "12"),
    ("drive.capacity", "\"8 GiB\""),
    ("drive.override.firmware.op", "\"100 %\""),
    ("jbof.segment", "\"32 KiB\""),
    ("jbof.central.spare", "\"100 %\""),
];

/// The box of "Espresso": twelve drives of its Table 2 behind a DPU.
pub const ESPRESSO: Board = Board { drive: "espresso", host: "dpu", store: &[], blocks: BOXED, remote: &[] };

/// All boards.
pub const BOARDS: [&Board; 6] = [&COSMOS, &GEN5, &P4500, &FSSD, &BSSD, &ESPRESSO];

impl Board {
    /// With payloads that end in the drive's DRAM: the papers' "NAND off".
    pub fn sink(&self) -> Spec {
        Spec::on(self, "sink", &[])
    }

    /// As a key-value drive, with its flash.
    pub fn kv(&self) -> Spec {
        Spec::on(self, "kv", self.store)
    }

    /// As a block device of the host's own.
    pub fn block(&self) -> Spec {
        Spec::on(self, "block", self.blocks)
    }

    /// As a block device behind a target, which serves it by this path.
    pub fn behind(&self, path: &str) -> Spec {
        self.block().behind(self.remote, path)
    }
}

/// A key of the scenario that differs from the board's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Departure {
    key: &'static str,
    /// In TOML.
    value: &'static str,
    reason: Reason,
}

/// Why a point departs from its board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The paper does: where, and in which words.
    Paper {
        /// Its section.
        place: &'static str,
        /// What it says.
        words: &'static str,
    },
    /// The paper's run takes too long to be simulated: a smaller drive comes to the same state sooner. Only of claims that ask for
    /// an order.
    Scaled(&'static str),
    /// It is no claim's: a figure of ours shows it.
    Ours(&'static str),
}

impl Departure {
    /// A paper's. Panics (when compiled, as a constant) if no place or no words are stated.
    pub const fn of_paper(
        key: &'static str,
        value: &'static str,
        place: &'static str,
        words: &'static str,
    ) -> Departure {
        assert!(!place.is_empty() && !words.is_empty(), "a departure states who demands it");
        Departure { key, value, reason: Reason::Paper { place, words } }
    }

    /// One that stands for a longer run on a larger drive. Panics (when compiled, as a constant) if it is not stated why.
    pub const fn scaled(key: &'static str, value: &'static str, why: &'static str) -> Departure {
        assert!(!why.is_empty(), "a departure states why");
        Departure { key, value, reason: Reason::Scaled(why) }
    }

    /// One of a figure of ours.
    pub const fn ours(key: &'static str, value: &'static str, why: &'static str) -> Departure {
        assert!(!why.is_empty(), "a departure states why");
        Departure { key, value, reason: Reason::Ours(why) }
    }

    /// The key, and its value in TOML.
    pub const fn setting(&self) -> (&'static str, &'static str) {
        (self.key, self.value)
    }

    /// Why.
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// Whether it stands for a longer run on a larger drive.
    pub fn is_scaled(&self) -> bool {
        matches!(self.reason, Reason::Scaled(_))
    }

    /// In words: `kv.packing = none ("...", In-device packing)`.
    pub fn sentence(&self) -> String {
        let key = self.key.strip_prefix("drive.override.").unwrap_or(self.key);
        let value = self.value.trim_matches('"');
        match self.reason {
            Reason::Paper { place, words } => format!("{key} = {value} (\"{words}\", {place})"),
            Reason::Scaled(why) | Reason::Ours(why) => format!("{key} = {value} ({why})"),
        }
    }
}
