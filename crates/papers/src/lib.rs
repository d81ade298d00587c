//! Claims of papers, measured again (`byteway reproduce`). The claims are in `claims/*.toml`; each is measured by a recipe over
//! points, which are ordinary scenarios, and judged by its tolerance.
//!
//! | file | what |
//! |---|---|
//! | `claim.rs` | a claim, and the file of claims |
//! | `verdict.rs`, `judgement.rs` | how well a claim was reproduced; from a measurement to a verdict |
//! | `board.rs` | the boards, with one configuration each, and departures from it |
//! | `load.rs` | a block load, which writes the data that it reads |
//! | `error.rs` | why a claim could not be measured |
//! | `point.rs` | points, and their results |
//! | `power.rs` | power cuts during PUTs |
//! | `paper.rs`, `papers.rs` | a paper: claims, recipes, figures; the list of papers |
//! | `plan.rs` | which points run, and how long |
//! | `work.rs` | running all points of a paper in parallel |
//! | `reproduction.rs` | the complete result, and `reproduce.json` |
//! | `table.rs` | the table for the terminal |
//! | `report.rs` | `report.html` |
//! | `sketch.rs` | helpers of figures and recipes |
//! | `bandslim/` | the recipes and figures of BandSlim |
//! | `byteexpress/` | the recipes and figures of ByteExpress |
//! | `tenants.rs` | tenants of a JBOF |
//! | `espresso/` | the recipes and figures of Espresso |
//! | `nvmeof/` | the recipes and figures of light-weight NVMe-oF |
//! | `pcie_ssd/` | the recipes and figures of PCIe SSDs with firmware on the host or behind a bridge |
//!
//! Results depend only on the claims, the profiles and the number of payloads, not on the number of threads.
//!
//! What it does not do: it does not know how payloads are transferred; a recipe evaluates the results of
//! runs. Verdicts are never set by hand: a claims file only records the last one, to detect regressions.

mod bandslim;
mod board;
pub mod byteexpress;
mod claim;
mod error;
mod espresso;
mod judgement;
mod load;
mod nvmeof;
mod paper;
mod papers;
mod pcie_ssd;
mod plan;
mod point;
mod power;
mod report;
mod reproduction;
mod sketch;
mod table;
mod tenants;
mod verdict;
mod work;

pub use board::{BOARDS, Board, Departure, Reason};
pub use claim::{Basis, Claim, ClaimsFile, Full, Needs, Tolerance, Unit, Value};
pub use error::{ClaimError, CutError, Measured};
pub use judgement::{Check, Judged, Measurement, Outcome, judge};
pub use load::{Load, Pattern};
pub use paper::{Paper, Recipe};
pub use papers::{PAPERS, paper};
pub use plan::{ReproducePlan, RunLength};
pub use point::{Job, Ledger, Lengths, PAYLOADS_FULL, Pairs, PointResult, Points, Spec};
pub use report::report;
pub use reproduction::{Agreement, Reproduction};
pub use verdict::Verdict;
