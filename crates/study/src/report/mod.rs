//! Reports: one HTML file each, with charts and what every figure means; nothing is fetched from anywhere.
//!
//! | file | what |
//! |---|---|
//! | `page.rs` | a page: sections of text, tables and figures, as one self-contained file |
//! | `style.css`, `page.js` | how it looks, on a screen and printed; where its charts are drawn |
//! | `script.rs` | Plotly, which draws them |
//! | `chart.rs` | charts: lines, bands, bars and heat maps |
//! | `axis.rs` | their axes: units and ticks |
//! | `run/` | the report of a run |

mod axis;
mod chart;
mod page;
mod run;
mod script;

pub use axis::{Axis, Unit};
pub use chart::{Chart, Ink};
pub use page::{Block, Figure, List, Page, Section, Table, Tile, Tone};
pub use run::run_report;
