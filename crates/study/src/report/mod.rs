//! Reports: one self-contained HTML file each, with charts and explanations of every figure.
//!
//! | file | what |
//! |---|---|
//! | `page.rs` | a page: sections of text, tables and figures, as one self-contained file |
//! | `style.css`, `theme.js`, `page.js` | style on screen and in print; look and drawing of the charts |
//! | [`script`] | the chart library, Plotly |
//! | `chart.rs` | charts: lines, bands, bars and heat maps |
//! | `axis.rs` | their axes: units and ticks |
//! | `run/` | the report of a run |

mod axis;
mod chart;
mod page;
mod run;
pub mod script;

pub use axis::{Axis, Unit};
pub use chart::{Chart, Ink};
pub use page::{Block, Figure, List, Page, Section, Table, Tile, Tone};
pub use page::{STYLE, THEME};
pub use run::run_report;
