//! A page: sections of text, tables and figures, as one self-contained HTML file.

use plotly::Plot;

/// A report.
pub struct Page {
    /// What it is about.
    pub title: String,
    /// A line below the title.
    pub subtitle: String,
    /// Its sections, in order.
    pub sections: Vec<Section>,
}

/// A part of a report with a heading.
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Paragraphs of plain text before the figures: what there is to be seen.
    pub text: Vec<String>,
    /// Rows of a table, the first of which is its header; empty for none.
    pub table: Vec<Vec<String>>,
    /// Charts.
    pub figures: Vec<Figure>,
    /// Text in a fixed-width face after the figures, such as a scenario; empty for none.
    pub listing: String,
}

/// A chart.
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// How to read it: what the axes are, what is counted and what is not.
    pub caption: String,
    /// The chart. The page gives it its size, colours and fonts.
    pub plot: Plot,
}

impl Page {
    /// The page as HTML.
    pub fn render(&self) -> String {
        String::new()
    }
}
