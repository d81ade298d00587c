//! `byteway reproduce`: what papers say, measured again. Their claims are in `claims/*.toml`; each is measured by a recipe
//! over points, which are ordinary scenarios, and judged by its tolerance.
//!
//! | file | what |
//! |---|---|
//! | `claim.rs` | a claim, and the file of claims |
//! | `verdict.rs` | from what was measured to a verdict |
//! | `board.rs` | the boards, one configuration each, and departures from it |
//! | `load.rs` | a load on blocks, with what it reads filled before |
//! | `error.rs` | why a claim could not be measured |
//! | `point.rs` | points, and what they found |
//! | `power.rs` | a power cut while values are put |
//! | `paper.rs`, `papers.rs` | a paper: claims, recipes, figures; all of them |
//! | `work.rs` | running all points of a paper, several at once |
//! | `reproduction.rs` | all of it together, and `reproduce.json` |
//! | `table.rs` | the table of the terminal |
//! | `report.rs` | `report.html` |
//! | `sketch.rs` | what figures and recipes have in common |
//! | `bandslim/` | the recipes and figures of BandSlim |
//! | `byteexpress/` | the recipes and figures of ByteExpress |
//! | `tenants.rs` | tenants of a box of drives |
//! | `espresso/` | the recipes and figures of Espresso |
//! | `nvmeof/` | the recipes and figures of light-weight NVMe-oF |
//! | `pcie_ssd/` | the recipes and figures of PCIe SSDs with firmware on the host or behind a bridge |
//!
//! Results depend on the claims, the profiles and the number of payloads alone: not on how many points run at once.
//!
//! What it does not do: nothing here knows how payloads cross; a recipe reads what runs have found. No verdict is written
//! down: a claims file has only what it was before, against which a worse one is a regression.

mod bandslim;
mod board;
pub mod byteexpress;
mod claim;
mod error;
mod espresso;
mod load;
mod nvmeof;
mod paper;
mod papers;
mod pcie_ssd;
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
pub use load::{Load, Pattern};
pub use paper::{Paper, Recipe};
pub use papers::{PAPERS, paper};
pub use point::{Job, Ledger, Lengths, PAYLOADS_FULL, Pairs, Points, Seen, Spec};
pub use report::report;
pub use reproduction::{Agreement, Reproduction};
pub use verdict::{Check, Judged, Measurement, Outcome, Verdict, judge};
pub use work::{Manner, specs, twice, work};
