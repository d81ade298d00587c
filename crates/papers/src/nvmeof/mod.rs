//! Light-weight NVMe-oF: a target that submits commands directly to the drive's queues, compared with one
//! that uses its block layer, and with a local drive.
//!
//! | file | what |
//! |---|---|
//! | `points.rs` | the three systems, and numbers of jobs |
//! | `recipes.rs` | measurements of the claims |
//! | `figures.rs` | the paper's figures 3 and 5, redrawn |

mod figures;
mod points;
mod recipes;

use super::paper::Paper;
use super::point::Lengths;
use points::System;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "nvmeof",
    about: "drives over an RDMA network, through the target's block layer or past it",
    claims: include_str!("../../../../claims/nvmeof.toml"),
    recipes: &[&recipes::RECIPES],
    lengths: Lengths { payloads: 10_000, puts: 10_000 },
    drawn: figures::drawn,
    figures: figures::figures,
    agreement: || vec![System::Block.reads(1)],
};
