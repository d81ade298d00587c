//! Parameters of drawn I/Os: direction and order, lengths, addresses.

use super::direction::ByKind;
use super::distribution::Distribution;
use super::length::Lengths;
use super::rw::Rw;

/// Parameters of drawn I/Os.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthetic {
    /// Direction and order.
    pub rw: Rw,
    /// Share of reads in a mix: 0 to 100.
    pub read_percent: u8,
    /// Lengths of I/Os.
    pub lengths: ByKind<Lengths>,
    /// Alignment of random addresses in blocks; `None`: the shortest length of their kind.
    pub align_blocks: Option<u32>,
    /// Distribution of random addresses.
    pub distribution: Distribution,
    /// Whether random I/Os cover each block once before any twice.
    pub once: bool,
}

impl Synthetic {
    /// I/Os of one length, with defaults otherwise.
    pub const fn fixed(rw: Rw, io_blocks: u32) -> Self {
        Synthetic {
            rw,
            read_percent: 50,
            lengths: ByKind {
                read: Lengths::Fixed(io_blocks),
                write: Lengths::Fixed(io_blocks),
                trim: Lengths::Fixed(io_blocks),
            },
            align_blocks: None,
            distribution: Distribution::Uniform,
            once: false,
        }
    }
}
