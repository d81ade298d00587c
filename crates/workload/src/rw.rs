//! Direction and order of I/Os: `rw`.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use byteway_trace::Kind;

/// Direction and order of a job, with fio's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum Rw {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Sequential, reads and writes mixed by `rwmixread`; they advance through the range together.
    #[serde(alias = "readwrite")]
    #[value(alias = "readwrite")]
    Rw,
    /// Sequential trims.
    Trim,
    /// Random reads.
    RandRead,
    /// Random writes.
    RandWrite,
    /// Random, reads and writes mixed by `rwmixread`.
    RandRw,
    /// Random trims.
    RandTrim,
    /// Sequential, each block trimmed and then written.
    TrimWrite,
    /// Random, each block trimmed and then written.
    RandTrimWrite,
}

impl Rw {
    /// Whether addresses follow each other.
    pub fn is_sequential(self) -> bool {
        matches!(self, Rw::Read | Rw::Write | Rw::Rw | Rw::Trim | Rw::TrimWrite)
    }

    /// Whether any of its I/Os is a read.
    pub fn has_reads(self) -> bool {
        self.kinds().contains(&Kind::Read)
    }

    /// Whether any of its I/Os is a write.
    pub fn has_writes(self) -> bool {
        self.kinds().contains(&Kind::Write)
    }

    /// Whether reads and writes are mixed.
    pub fn is_mixed(self) -> bool {
        matches!(self, Rw::Rw | Rw::RandRw)
    }

    /// Whether each block is trimmed and then written.
    pub fn trims_then_writes(self) -> bool {
        matches!(self, Rw::TrimWrite | Rw::RandTrimWrite)
    }

    /// The kinds of its I/Os.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Rw::Read | Rw::RandRead => &[Kind::Read],
            Rw::Write | Rw::RandWrite => &[Kind::Write],
            Rw::Trim | Rw::RandTrim => &[Kind::Trim],
            Rw::Rw | Rw::RandRw => &[Kind::Read, Kind::Write],
            Rw::TrimWrite | Rw::RandTrimWrite => &[Kind::Trim, Kind::Write],
        }
    }
}
