//! A report page: sections of text, tables and charts, as one self-contained HTML file.
//!
//! The file includes the chart library, and its content security policy forbids it to fetch anything.

use std::fmt::Write as _;

use crate::chart::Chart;
use byteway_text::html::{STYLE, THEME, Table, escaped, script};

/// A report.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Title of the page.
    pub title: String,
    /// Line below the title.
    pub subtitle: String,
    /// Key facts: name and value.
    pub facts: Vec<(String, String)>,
    /// Warnings: the run was interrupted, data was wrong.
    pub warnings: Vec<String>,
    /// The main figures.
    pub tiles: Vec<Tile>,
    /// The section that answers the question, shown first.
    pub answer: Option<Section>,
    /// Sections of the page, in order.
    pub sections: Vec<Section>,
}

/// A main figure in large type.
#[derive(Clone, Debug, Default)]
pub struct Tile {
    /// Name of the section.
    pub label: String,
    /// The value with its unit.
    pub value: String,
    /// A short note about it.
    pub note: String,
}

/// A part of a report with a heading.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// Contents, in order. Consecutive figures are shown side by side where there is space.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph of plain text.
    Text(String),
    /// A chart.
    Figure(Box<Figure>),
    /// A table.
    Table(Table),
    /// Text in a fixed-width face, such as a scenario.
    Listing(String),
    /// A list; if folded, with a line that unfolds it.
    List(List),
}

/// A list of sentences.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The sentences.
    pub items: Vec<String>,
    /// Text shown in place of the folded list; empty: never folded.
    pub folded: String,
}

/// A chart with title and caption.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Title.
    pub title: String,
    /// How to read it: axes, what is included and what is not.
    pub caption: String,
    /// The chart.
    pub chart: Chart,
    /// Whether it takes the whole width of the page.
    pub wide: bool,
}

impl Section {
    /// A section without contents.
    pub fn new(title: impl Into<String>) -> Section {
        Section { title: title.into(), blocks: Vec::new() }
    }

    /// Adds a paragraph.
    pub fn text(mut self, text: impl Into<String>) -> Section {
        self.blocks.push(Block::Text(text.into()));
        self
    }

    /// Adds a chart, unless it is empty.
    pub fn figure(mut self, figure: Figure) -> Section {
        if !figure.chart.is_empty() {
            self.blocks.push(Block::Figure(Box::new(figure)));
        }
        self
    }

    /// Adds a table, unless it has no rows.
    pub fn table(mut self, table: Table) -> Section {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
        self
    }

    /// Adds a list, unless it is empty.
    pub fn list(mut self, items: impl IntoIterator<Item = String>) -> Section {
        self.push_list(List { items: items.into_iter().collect(), folded: String::new() });
        self
    }

    /// Adds a folded list with its replacement text, unless it is empty. It is unfolded in print.
    pub fn folded(mut self, words: impl Into<String>, items: impl IntoIterator<Item = String>) -> Section {
        self.push_list(List { items: items.into_iter().collect(), folded: words.into() });
        self
    }

    fn push_list(&mut self, list: List) {
        if !list.items.is_empty() {
            self.blocks.push(Block::List(list));
        }
    }

    /// Adds text in a fixed-width face.
    pub fn listing(mut self, text: impl Into<String>) -> Section {
        self.blocks.push(Block::Listing(text.into()));
        self
    }
}

impl Figure {
    /// A chart with its words.
    pub fn new(title: impl Into<String>, caption: impl Into<String>, chart: Chart) -> Figure {
        Figure { title: title.into(), caption: caption.into(), chart, wide: false }
    }

    /// Takes the whole width of the page.
    pub fn wide(mut self) -> Figure {
        self.wide = true;
        self
    }
}

const SCRIPT: &str = include_str!("page.js");
/// Content security policy: nothing is fetched; only the file's own scripts and styles, and images drawn by
/// charts, are allowed.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";

impl Page {
    /// The page as HTML. Equal pages yield equal bytes.
    pub fn render(&self) -> String {
        let mut html = String::with_capacity(1 << 20);
        let title = escaped(&self.title);
        let _ = write!(
            html,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n"
        );
        if !self.subtitle.is_empty() {
            let _ = writeln!(html, "<p class=\"subtitle\">{}</p>", escaped(&self.subtitle));
        }
        for warning in &self.warnings {
            let _ = writeln!(html, "<p class=\"warning\" role=\"alert\">{}</p>", escaped(warning));
        }
        html.push_str("</header>\n");
        html.push_str(
            "<noscript><p class=\"warning\">The charts need JavaScript, which is disabled. Nothing is loaded from the network: \
             this file is self-contained. The tables below have the main figures.</p></noscript>\n",
        );
        let mut charts = Vec::new();
        if let Some(answer) = &self.answer {
            answer.render(&mut html, "answer", &mut charts);
        }
        // The answer first: main figures, then their conditions.
        if !self.tiles.is_empty() {
            html.push_str("<ul class=\"tiles\">\n");
            for tile in &self.tiles {
                let (label, value) = (escaped(&tile.label), escaped(&tile.value));
                let _ = write!(
                    html,
                    "<li><span class=\"label\">{label}</span><span class=\"value\">{value}</span>"
                );
                let _ = writeln!(html, "<span class=\"note\">{}</span></li>", escaped(&tile.note));
            }
            html.push_str("</ul>\n");
        }
        if !self.facts.is_empty() {
            html.push_str("<dl class=\"facts\">\n");
            for (name, value) in &self.facts {
                let _ = writeln!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value));
            }
            html.push_str("</dl>\n");
        }
        if self.sections.len() > 1 {
            html.push_str("<nav aria-label=\"Contents\"><ol>\n");
            for (number, section) in self.sections.iter().enumerate() {
                let _ =
                    writeln!(html, "<li><a href=\"#s{}\">{}</a></li>", number + 1, escaped(&section.title));
            }
            html.push_str("</ol></nav>\n");
        }
        for (number, section) in self.sections.iter().enumerate() {
            section.render(&mut html, &format!("s{}", number + 1), &mut charts);
        }
        html.push_str("</main>\n<script type=\"application/json\" id=\"charts\">[\n");
        for (index, (chart, has_legend)) in charts.iter().enumerate() {
            let comma = if index > 0 { ",\n" } else { "" };
            let _ = write!(html, "{comma}{}", chart.to_json_with(*has_legend).replace('<', "\\u003c"));
        }
        html.push_str("\n]</script>\n");
        if !charts.is_empty() {
            let _ = writeln!(html, "<!-- {} -->", script::NOTICE);
            html.push_str("<script type=\"application/gzip;base64\" id=\"plotly\">");
            script::write(&mut html);
            html.push_str("</script>\n");
        }
        let _ = write!(html, "<script>\n{}{THEME}{SCRIPT}</script>\n</body>\n</html>\n", script::INFLATE);
        html
    }
}

impl Section {
    fn render<'a>(&'a self, html: &mut String, id: &str, charts: &mut Vec<(&'a Chart, bool)>) {
        let _ = writeln!(html, "<section id=\"{id}\">\n<h2>{}</h2>", escaped(&self.title));
        let mut in_figures = false;
        // Figures are shown in pairs; one without a partner takes the whole width.
        let mut alone = true;
        for (index, block) in self.blocks.iter().enumerate() {
            let is_figure = matches!(block, Block::Figure(_));
            match (in_figures, is_figure) {
                (false, true) => html.push_str("<div class=\"figures\">\n"),
                (true, false) => html.push_str("</div>\n"),
                _ => {}
            }
            in_figures = is_figure;
            alone |= !is_figure;
            match block {
                Block::Text(paragraph) => {
                    let _ = writeln!(html, "<p>{}</p>", escaped(paragraph));
                }
                Block::Figure(figure) => {
                    let partner =
                        matches!(self.blocks.get(index + 1), Some(Block::Figure(next)) if !next.wide);
                    let wide = figure.wide || (alone && !partner);
                    // Small multiples share a legend: that of the first.
                    let before = index.checked_sub(1).map(|before| &self.blocks[before]);
                    let shares = matches!(before, Some(Block::Figure(before)) if figure.chart.shares_legend(&before.chart));
                    figure.render(html, charts, wide, !shares);
                    alone = wide || !alone;
                }
                Block::Table(table) => table.render(html),
                Block::List(list) => list.render(html),
                Block::Listing(listing) => {
                    let _ = writeln!(html, "<pre tabindex=\"0\">{}</pre>", escaped(listing));
                }
            }
        }
        if in_figures {
            html.push_str("</div>\n");
        }
        html.push_str("</section>\n");
    }
}

impl Figure {
    fn render<'a>(
        &'a self,
        html: &mut String,
        charts: &mut Vec<(&'a Chart, bool)>,
        wide: bool,
        has_legend: bool,
    ) {
        let index = charts.len();
        charts.push((&self.chart, has_legend));
        let wide = if wide { " wide" } else { "" };
        let described = escaped(&format!("{}. {}", self.title, self.chart.describe())).into_owned();
        let _ = write!(
            html,
            "<figure class=\"figure{wide}\">\n<h3>{}</h3>\n<div class=\"chart\" id=\"chart-{index}\" role=\"img\" \
             aria-label=\"{described}\" style=\"height:{}px\"></div>\n",
            escaped(&self.title),
            self.chart.height_px()
        );
        if !self.caption.is_empty() {
            let _ = writeln!(html, "<figcaption>{}</figcaption>", escaped(&self.caption));
        }
        html.push_str("</figure>\n");
    }
}

impl List {
    fn render(&self, html: &mut String) {
        if !self.folded.is_empty() {
            let _ = writeln!(html, "<details><summary>{}</summary>", escaped(&self.folded));
        }
        html.push_str("<ul>\n");
        for item in &self.items {
            let _ = writeln!(html, "<li>{}</li>", escaped(item));
        }
        html.push_str("</ul>\n");
        if !self.folded.is_empty() {
            html.push_str("</details>\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Ink, Unit};

    // A legend over each of five charts of the same three lines takes the space of the charts; one that is another's would be wrong.
    #[test]
    fn charts_of_the_same_series_share_a_legend() {
        let chart = |names: [&str; 2]| {
            let axes = Chart::new(Axis::linear("time", Unit::Nanoseconds), Axis::linear("busy", Unit::Share));
            let lines = names.into_iter().enumerate();
            lines.fold(axes, |chart, (at, name)| chart.line(name, Ink::nth(at), vec![(0.0, 0.5), (1.0, 0.7)]))
        };
        let figure = |names| Figure::new("", "", chart(names));
        let (own, other) = (["prp", "sgl"], ["prp", "inline"]);
        let section = Section::new("Charts").figure(figure(own)).figure(figure(own)).figure(figure(other));
        let section = section.text("Between.").figure(figure(other));
        let html = Page { sections: vec![section], ..Page::default() }.render();
        let legends: Vec<bool> = html
            .match_indices("\"showlegend\":")
            .map(|(at, key)| html[at + key.len()..].starts_with("true"))
            .collect();
        assert_eq!(legends, [true, false, true, true]);
    }
}
