//! BandSlim: values piggybacked in commands, packed in flash pages, and stored to the drive's memory over
//! CXL.mem.
//!
//! | file | what |
//! |---|---|
//! | `points.rs` | the board and its outlook, with methods and workloads |
//! | `transfer.rs` | recipes: traffic on the link of the board |
//! | `outlook.rs` | recipes: CXL.mem on PCIe Gen5 |
//! | `pages.rs` | recipes: flash pages, and reads |
//! | `figures.rs` | the paper's figures, redrawn |

mod figures;
mod outlook;
mod pages;
mod points;
mod transfer;

use super::paper::Paper;
use super::point::Lengths;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "bandslim",
    about: "values in the fields of commands and packed pages, on the Cosmos+ board; CXL.mem as an outlook",
    claims: include_str!("../../../../claims/bandslim.toml"),
    recipes: &[&transfer::RECIPES, &outlook::RECIPES, &pages::RECIPES],
    lengths: Lengths { payloads: 10_000, puts: 200_000 },
    drawn: figures::drawn,
    figures: figures::figures,
    agreement: || {
        let (board, w_m) = (&super::board::COSMOS, "w-m");
        vec![
            points::board(points::ValueMethod::Piggyback, 64),
            points::mixed(board, points::ValueMethod::Papers, w_m),
        ]
    },
};
