//! ByteExpress: payload in the submission queue, behind its command, against PRP and BandSlim's commands that carry it.
//!
//! | file | what |
//! |---|---|
//! | `points.rs` | the board and its variations |
//! | `recipes.rs` | from points to what each claim says |
//! | `pairs.rs` | the same, on a drive of keys and values |
//! | `figures.rs` | the paper's figures, drawn anew |
//! | `gain.rs` | where the gain comes from, in words |

mod figures;
mod gain;
mod pairs;
mod points;
mod recipes;

pub use points::{TABLE, board, polled};

use super::paper::Paper;
use super::point::Lengths;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "byteexpress",
    about: "small payloads in the submission queue, on the Cosmos+ board",
    claims: include_str!("../../../../../claims/byteexpress.toml"),
    recipes: &[&recipes::RECIPES, &pairs::RECIPES],
    lengths: Lengths { payloads: 10_000, puts: 200_000 },
    drawn: figures::drawn,
    figures: figures::figures,
    agreement: || vec![board("inline", 64), pairs::mixgraph("inline")],
};
