//! Reports: one HTML file each, with charts and what every figure means; nothing is fetched from anywhere.
//!
//! | file | what |
//! |---|---|
//! | `page.rs` | a page: sections of text, tables and figures, as one self-contained file |
//! | `style.css`, `page.js` | how it looks, on a screen and printed; what draws its charts |
//! | `chart.rs` | charts: lines, bands, bars and heat maps |
//! | `axis.rs` | their axes: units and ticks |
//! | `run/` | the report of a run |

mod axis;
mod chart;
mod page;
mod run;

pub use axis::{Axis, Unit};
pub use chart::{Chart, Ink};
pub use page::{Block, Figure, Page, Section, Table, Tile};
pub use run::run_report;
