//! Light-weight NVMe-oF: a target that hands commands to the drive's queues past its block layer, against one that goes through
//! it, and against a drive of the host's own.
//!
//! | file | what |
//! |---|---|
//! | `points.rs` | the three systems, and numbers of jobs |
//! | `recipes.rs` | from points to what each claim says |
//! | `figures.rs` | the paper's figures 3 and 5, drawn anew |

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
    claims: include_str!("../../../../../claims/nvmeof.toml"),
    recipes: &[&recipes::RECIPES],
    lengths: Lengths { payloads: 10_000, puts: 10_000 },
    drawn: figures::drawn,
    figures: figures::figures,
    agreement: || vec![System::Block.reads(1)],
};
