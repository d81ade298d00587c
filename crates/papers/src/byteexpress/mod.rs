//! ByteExpress: payload in the submission queue behind its command, compared with PRP and with BandSlim's
//! piggybacking.
//!
//! | file | what |
//! |---|---|
//! | `points.rs` | the board and its variations |
//! | `recipes.rs` | measurements of the claims |
//! | `pairs.rs` | the same on a key-value drive |
//! | `texts.rs`, `pushdown.rs` | queries, and their transfer to a drive with tables |
//! | `figures.rs` | the paper's figures, redrawn |
//! | `gain.rs` | sources of the gain, in words |

mod figures;
mod gain;
mod pairs;
mod points;
mod pushdown;
mod recipes;
mod texts;

pub use points::{TABLE, board, polled};

use super::paper::Paper;
use super::point::Lengths;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "byteexpress",
    about: "small payloads in the submission queue, on the Cosmos+ board",
    claims: include_str!("../../../../claims/byteexpress.toml"),
    recipes: &[&recipes::RECIPES, &pairs::RECIPES, &pushdown::RECIPES],
    lengths: Lengths { payloads: 10_000, puts: 200_000 },
    drawn: figures::drawn,
    figures: figures::figures,
    agreement: || vec![board("inline", 64), pairs::mixgraph("inline")],
};
