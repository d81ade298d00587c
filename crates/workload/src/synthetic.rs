//! What is said of drawn I/Os: direction and order, lengths, addresses.

use super::direction::ByKind;
use super::distribution::Distribution;
use super::length::Lengths;
use super::rw::Rw;

/// Draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthetic {
    /// Direction and order.
    pub rw: Rw,
    /// Of a mix, the share of reads: 0 to 100.
    pub read_percent: u8,
    /// How long I/Os are.
    pub lengths: ByKind<Lengths>,
    /// What random addresses are multiples of, in blocks; `None`: the shortest length of their kind.
    pub align_blocks: Option<u32>,
    /// How random addresses are spread.
    pub distribution: Distribution,
    /// Whether random I/Os touch each block once before any twice.
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
