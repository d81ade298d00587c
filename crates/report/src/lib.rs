//! Reports: one self-contained HTML file each, with charts and explanations of every figure.
//!
//! | file | what |
//! |---|---|
//! | `page.rs` | a page: sections of text, tables and figures, as one self-contained file |
//! | `page.js` | drawing of a page's charts, on screen and in print |
//! | `chart.rs` | charts: lines, bands, bars and heat maps |
//! | `axis.rs` | their axes: units and ticks |
//! | `object.rs` | the JSON that the chart library reads |
//! | `run/` | the report of a run |
//! | [`shell`] | shell commands in reports |
//!
//! Equal results yield equal bytes: nothing in a page depends on the time, the machine or the version of a library. Style, chart
//! library and tables are those of every page ([`byteway_text::html`]).
//!
//! A page of one chart:
//!
//! ```
//! use byteway_report::{Axis, Chart, Figure, Ink, Page, Section, Unit};
//!
//! let (x, y) = (Axis::linear("elapsed", Unit::Nanoseconds), Axis::linear("throughput", Unit::BytesPerSecond));
//! let chart = Chart::new(x, y).line("reads", Ink::nth(0), vec![(0.0, 1e9), (1e9, 2e9)]);
//! let figure = Figure { title: "Throughput".into(), caption: "Reads only".into(), chart, wide: true };
//! let section = Section::new("Reads").text("They become faster.").figure(figure);
//! let page = Page { title: "A drive".into(), sections: vec![section], ..Page::default() };
//! assert!(page.render().contains("<h2>Reads</h2>"));
//! ```
//!
//! What it does not do: it runs nothing and computes no result. A report shows what [`byteway_results`] holds, and comparisons and
//! papers compose their own pages of these parts.

mod axis;
mod chart;
mod object;
mod page;
mod run;
pub mod shell;

pub use axis::{Axis, Unit};
pub use byteway_text::html::{Table, Tone};
pub use chart::{Chart, Ink};
pub use page::{Block, Figure, List, Page, Section, Tile};
pub use run::run_report;
