//! "Challenges in getting flash closer to CPU": a PCIe SSD whose firmware is a driver on the host (FSSD),
//! compared with one that has complete drives behind a bridge (BSSD): performance, and use of the host's
//! processors and memory.
//!
//! | file | what |
//! |---|---|
//! | `points.rs` | the two drives, and their loads |
//! | `recipes.rs` | measurements of the claims about performance |
//! | `host.rs` | the same about the host's processors and memory |
//! | `figures.rs` | the paper's figures 3 to 9, redrawn |

mod figures;
mod host;
mod points;
mod recipes;

use super::paper::Paper;
use super::point::Lengths;
use crate::load::Pattern;
use points::{DEFAULT_BYTES, Drive};

/// The paper.
pub const PAPER: Paper = Paper {
    name: "pcie-ssd",
    about: "PCIe SSDs whose firmware runs on the host, or behind a bridge, and what they take of the host",
    claims: include_str!("../../../../claims/pcie-ssd.toml"),
    recipes: &[&recipes::RECIPES, &host::RECIPES],
    lengths: Lengths { payloads: 10_000, puts: 10_000 },
    drawn: figures::drawn,
    figures: figures::figures,
    agreement: || vec![Drive::Bssd.legacy(Pattern::RandomReads, DEFAULT_BYTES)],
};
