//! "Espresso": a JBOF whose drives lend each other processors and DRAM over a CXL fabric, compared with six
//! other designs.
//!
//! | file | what |
//! |---|---|
//! | `workloads.rs` | the paper's production workloads, synthesized |
//! | `points.rs` | the JBOF, and its loads |
//! | `recipes.rs` | measurements of the claims |
//! | `cost.rs` | claims that are arithmetic |
//! | `figures.rs` | the paper's figures, redrawn |

mod cost;
mod figures;
mod points;
mod recipes;
mod workloads;

use super::paper::Paper;
use super::point::Lengths;
use byteway_scenario::Platform;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "espresso",
    about: "a JBOF whose drives lend each other processors and DRAM over a CXL fabric",
    claims: include_str!("../../../../claims/espresso.toml"),
    recipes: &[&recipes::RECIPES, &recipes::MORE, &cost::RECIPES],
    lengths: Lengths { payloads: 5_000, puts: 5_000 },
    drawn: figures::drawn,
    figures: figures::figures,
    agreement: || vec![points::latency(Platform::Conv, points::Pattern::RandomRead, 4)],
};
