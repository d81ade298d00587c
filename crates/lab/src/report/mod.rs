//! Reports: one HTML file each, with charts and what every figure means; nothing is fetched from anywhere.
//!
//! | file | what |
//! |---|---|
//! | `page.rs` | a page: sections of text, tables and figures, as one self-contained file |
//! | `run.rs` | the report of a run |

mod page;
mod run;

pub use page::{Figure, Page, Section};
pub use run::run_report;
