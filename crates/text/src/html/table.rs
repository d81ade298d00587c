//! A table of a page: cells of text, numbers to the right, and a rating as a colour.

use super::escaped;
use crate::table::TextTable;
use std::fmt::Write as _;

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Caption; empty for none.
    pub caption: String,
    /// Column headings.
    pub header: Vec<String>,
    /// Rows, each as long as the header.
    pub rows: Vec<Vec<String>>,
    /// Index of the first numeric column; numeric columns are aligned right.
    pub numbers_from: usize,
    /// A column whose cells are coloured by rating, and the rating of each row; the text states it, too.
    pub toned: Option<(usize, Vec<Tone>)>,
}

/// A rating, as a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Meets the requirement.
    Good,
    /// Partly.
    Fair,
    /// Not.
    Bad,
    /// No rating.
    Plain,
}

impl Tone {
    const fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Fair => "fair",
            Tone::Bad => "bad",
            Tone::Plain => "plain",
        }
    }
}

impl Table {
    /// A table whose columns from `numbers_from` on are numeric.
    pub fn new<T: Into<String>>(header: impl IntoIterator<Item = T>, numbers_from: usize) -> Table {
        let header = header.into_iter().map(Into::into).collect();
        Table { header, numbers_from, ..Table::default() }
    }

    /// Sets the caption.
    pub fn caption(mut self, caption: impl Into<String>) -> Table {
        self.caption = caption.into();
        self
    }

    /// Adds a row.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

/// All columns of a terminal table, in the same units.
impl From<TextTable> for Table {
    fn from(table: TextTable) -> Table {
        let numbers_from = table.numbers_from();
        let texts = table.all_texts();
        let both = |above: String, below: &str| match below {
            "" => above,
            // A line may break between the two parts, but not within.
            below => format!("{above} ({})", below.replace(' ', "\u{a0}")),
        };
        let header = texts.header.into_iter().map(|(heading, unit)| both(heading, unit));
        let mut own = Table::new(header, numbers_from);
        for row in texts.rows {
            own.row(row.into_iter().map(|(value, below)| both(value, &below)));
        }
        own
    }
}

/// Tables with more columns use smaller type.
const COLUMNS_DENSE: usize = 8;

/// Longer cell texts are wrapped.
const CELL_CHARS_MAX: usize = 22;

impl Table {
    /// Appends the table as HTML.
    pub fn render(&self, html: &mut String) {
        let dense = if self.header.len() > COLUMNS_DENSE { " dense" } else { "" };
        let _ = writeln!(html, "<div class=\"table{dense}\" tabindex=\"0\"><table>");
        if !self.caption.is_empty() {
            let _ = writeln!(html, "<caption>{}</caption>", escaped(&self.caption));
        }
        let class = |column: usize| if column >= self.numbers_from { " class=\"number\"" } else { "" };
        // Wrap sentences, so that they fit on the page.
        let class_of = |column: usize, cell: &str| match class(column) {
            "" if cell.chars().count() > CELL_CHARS_MAX => " class=\"long\"",
            class => class,
        };
        html.push_str("<thead><tr>");
        for (column, heading) in self.header.iter().enumerate() {
            let _ = write!(html, "<th scope=\"col\"{}>{}</th>", class(column), escaped(heading));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for (index, row) in self.rows.iter().enumerate() {
            html.push_str("<tr>");
            let tone = |column: usize| {
                let (toned, tones) = self.toned.as_ref()?;
                (*toned == column).then(|| tones.get(index).copied()).flatten()
            };
            for (column, cell) in row.iter().enumerate() {
                let _ = match tone(column) {
                    Some(tone) => write!(
                        html,
                        "<td{}><span class=\"tone {}\">{}</span></td>",
                        class(column),
                        tone.class(),
                        escaped(cell)
                    ),
                    None => write!(html, "<td{}>{}</td>", class_of(column, cell), escaped(cell)),
                };
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div>\n");
    }
}
