//! What every page of Byteway has in common, reports and the live page: style, charts' look and library, tables, escaping.
//!
//! | file | what |
//! |---|---|
//! | `style.css` | style on screen and in print |
//! | `theme.js` | how charts look, and how their library is unpacked |
//! | [`script`] | the chart library, Plotly |
//! | `table.rs` | tables |

pub mod script;
mod table;

pub use table::{Table, Tone};

/// Style of a page on screen and in print.
pub const STYLE: &str = include_str!("style.css");
/// Defines `bytewayCharts`: how charts look, and how the script that draws them is unpacked. It needs the script that
/// inflates.
pub const THEME: &str = include_str!("theme.js");

/// Escapes text for HTML, also within quotes.
pub fn escaped(raw: &str) -> std::borrow::Cow<'_, str> {
    if !raw.contains(['&', '<', '>', '"']) {
        return raw.into();
    }
    raw.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").into()
}
