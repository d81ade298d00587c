//! Reports: one self-contained HTML file each, with charts and explanations of every figure.
//!
//! | file | what |
//! |---|---|
//! | `page.rs` | a page: sections of text, tables and figures, as one self-contained file |
//! | `style.css`, `page.js` | style on screen and in print; drawing of the charts |
//! | `script.rs` | the chart library, Plotly |
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
