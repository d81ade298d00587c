//! Tables for the terminal: at most 80 columns wide, each column in one unit.
//!
//! A table that is too wide omits columns, those with the highest rank first ([`Column::rank`]), and names
//! them; `--wide` shows all. The width depends on the contents, never on the terminal: the same run prints
//! the same bytes everywhere.
//!
//! A numeric column uses the largest unit in which its smallest value is still readable; the unit stands
//! below the heading. Numbers from 1000 on have no decimals, and a nonzero value is never shown as 0.

use std::fmt::{self, Write as _};

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle};

/// Characters of a line, unless all columns are shown.
const LINE_CHARS: usize = 80;

/// Maximum width of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    /// 80 characters: columns that do not fit are omitted, and named.
    #[default]
    Narrow,
    /// Unlimited.
    Wide,
}

/// The quantity in a numeric column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A time in nanoseconds.
    Time,
    /// Bytes, in decimal units.
    Bytes,
    /// Bytes, in binary units.
    BinaryBytes,
    /// Bytes per second.
    Rate,
    /// A fraction of 1, in percent.
    Share,
    /// A plain number, such as a ratio.
    Number,
}

impl Quantity {
    /// Units in ascending order: name and size.
    fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Quantity::Time => &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)],
            Quantity::Bytes => &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)],
            Quantity::BinaryBytes => &[
                ("B", 1.0),
                ("KiB", 1024.0),
                ("MiB", 1_048_576.0),
                ("GiB", 1_073_741_824.0),
                ("TiB", 1_099_511_627_776.0),
                ("PiB", 1_125_899_906_842_624.0),
                ("EiB", 1_152_921_504_606_846_976.0),
            ],
            Quantity::Rate => &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9), ("TB/s", 1e12)],
            Quantity::Share => &[("%", 0.01)],
            Quantity::Number => &[("", 1.0)],
        }
    }
}

/// A unit, and the number of decimals for small values.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    unit: &'static str,
    size: f64,
    decimals: usize,
}

/// Largest number of units that is still readable.
const READABLE_MAX: f64 = 999_999.0;

impl Scale {
    /// A common scale for all of these values.
    fn of(quantity: Quantity, values: &[f64]) -> Scale {
        let sizes = || values.iter().map(|value| value.abs()).filter(|value| *value > 0.0);
        let (least, most) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
        let units = quantity.units();
        let small = units.iter().rposition(|(_, size)| least / size >= 0.1).unwrap_or(0);
        let fits = |at: &usize| most / units[*at].1 <= READABLE_MAX;
        let at = (small..units.len()).find(fits).unwrap_or(units.len() - 1);
        let (unit, size) = units[if least.is_finite() { at } else { 0 }];
        let whole = |value: f64| value / size == libm::round(value / size);
        let decimals = match (quantity, least / size) {
            (Quantity::Share, _) => 1,
            (Quantity::Number, _) => 3,
            _ if sizes().all(whole) => 0,
            // Three significant digits for every value.
            (_, least) if least < 0.9995 => 3,
            (_, least) if least < 10.0 => 2,
            _ => 1,
        };
        Scale { unit, size, decimals }
    }

    fn show(self, value: f64) -> String {
        let value = value / self.size;
        let decimals = match value.abs() {
            value if value >= 999.5 => return grouped(libm::round(value) as u64),
            value if value >= 99.95 => self.decimals.min(1),
            value if value >= 9.995 => self.decimals.min(2),
            value if value >= 0.9995 && !self.unit.is_empty() => self.decimals.min(2),
            _ => self.decimals,
        };
        let shown = format!("{value:.decimals$}");
        match value != 0.0 && !shown.contains(|c: char| ('1'..='9').contains(&c)) {
            // Never 0.000 for a nonzero value.
            true => ["<1", "<0.1", "<0.01", "<0.001"][decimals.min(3)].to_owned(),
            false => shown,
        }
    }
}

/// A column: heading, quantity, rank.
#[derive(Clone, Debug)]
pub struct Column {
    heading: String,
    quantity: Option<Quantity>,
    left: bool,
    rank: usize,
    shares_unit: bool,
}

impl Column {
    /// A column of text, aligned left.
    pub fn text(heading: impl Into<String>) -> Column {
        Column { heading: heading.into(), quantity: None, left: true, rank: 0, shares_unit: false }
    }

    /// A column of counts, or of values with their own units, aligned right.
    pub fn count(heading: impl Into<String>) -> Column {
        Column { left: false, ..Column::text(heading) }
    }

    /// A column of numbers of one quantity.
    pub fn of(heading: impl Into<String>, quantity: Quantity) -> Column {
        Column { quantity: Some(quantity), ..Column::count(heading) }
    }

    /// Sets the rank: if not all columns fit, those with the highest rank are omitted first; rank 0 is always
    /// shown.
    pub fn rank(mut self, rank: usize) -> Column {
        self.rank = rank;
        self
    }

    /// Uses the unit of the column before, so that the two can be compared.
    pub fn same_unit(mut self) -> Column {
        self.shares_unit = true;
        self
    }
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    value: Value,
    /// Half the width of the value's interval.
    half_width: Option<f64>,
    below: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(String),
    Number(f64),
}

impl Cell {
    /// Adds the half width of a value's interval, in the unit of its column: `51.2 ± 0.3`. An exact value has none.
    pub fn within(mut self, half_width: Option<f64>) -> Cell {
        self.half_width = half_width.filter(|half| *half > 0.0);
        self
    }

    /// Adds a second line to the cell.
    pub fn below(mut self, text: impl Into<String>) -> Cell {
        self.below = text.into();
        self
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::from(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { value: Value::Text(text), half_width: None, below: String::new() }
    }
}

/// An exact count.
impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::from(grouped(count))
    }
}

/// A value in the base unit of its column's quantity.
impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        Cell { value: Value::Number(value), half_width: None, below: String::new() }
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or_else(|| Cell::from(""), Into::into)
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct TextTable {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// A table rendered as text: headings with units, and cells.
pub struct ShownCells {
    /// For each column: heading and unit.
    pub header: Vec<(String, &'static str)>,
    /// For each row and column: number and unit, as shown.
    pub rows: Vec<Vec<(String, String)>>,
}

impl TextTable {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> TextTable {
        TextTable { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row with one cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Index of the first column that is not aligned left.
    pub fn numbers_from(&self) -> usize {
        self.columns.iter().position(|column| !column.left).unwrap_or(self.columns.len())
    }

    /// The scale of each column; `None` for columns without numbers.
    fn scales(&self, shown: &[usize]) -> Vec<Option<Scale>> {
        let numbers = |column: usize| {
            self.rows.iter().filter_map(move |row| match &row[column].value {
                Value::Number(number) if number.is_finite() => Some(*number),
                _ => None,
            })
        };
        // The column whose unit is shared; it may be omitted itself.
        let head = |index: usize| {
            let heads = (0..=index).rev();
            heads.into_iter().find(|at| !self.columns[*at].shares_unit).unwrap_or(0)
        };
        let scale = |index: &usize| {
            let quantity = self.columns[*index].quantity?;
            let family = shown.iter().copied().filter(|other| head(*other) == head(*index));
            Some(Scale::of(quantity, &family.flat_map(numbers).collect::<Vec<f64>>()))
        };
        shown.iter().map(scale).collect()
    }

    /// Renders some of the columns.
    fn texts(&self, shown: &[usize]) -> ShownCells {
        let scales = self.scales(shown);
        let text = |cell: &Cell, scale: Option<Scale>| {
            let text = match &cell.value {
                Value::Text(text) => text.clone(),
                Value::Number(number) if !number.is_finite() => String::new(),
                Value::Number(number) => {
                    let scale = scale.unwrap_or(Scale { unit: "", size: 1.0, decimals: 3 });
                    let half = cell.half_width.map(|half| format!(" \u{b1} {}", scale.show(half)));
                    scale.show(*number) + &half.unwrap_or_default()
                }
            };
            (text, cell.below.clone())
        };
        let unit = |at: usize| scales[at].map_or("", |scale| scale.unit);
        let heading = |(at, index): (usize, &usize)| (self.columns[*index].heading.clone(), unit(at));
        let row = |row: &Vec<Cell>| {
            shown.iter().zip(&scales).map(|(index, scale)| text(&row[*index], *scale)).collect()
        };
        ShownCells {
            header: shown.iter().enumerate().map(heading).collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }

    /// Renders all columns.
    pub fn all_texts(&self) -> ShownCells {
        self.texts(&(0..self.columns.len()).collect::<Vec<_>>())
    }

    /// The columns that fit.
    fn fitting(&self, width: Width) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        while width == Width::Narrow && self.texts(&shown).chars() > LINE_CHARS {
            let rank = |index: &usize| self.columns[*index].rank;
            let Some(last) = shown.iter().copied().filter(|index| rank(index) > 0).max_by_key(rank) else {
                break;
            };
            shown.retain(|index| *index != last);
        }
        shown
    }

    /// The text of the table, and the headings of omitted columns.
    pub fn render(&self, width: Width) -> (String, Vec<String>) {
        let shown = self.fitting(width);
        let texts = self.texts(&shown);
        let lines = |above: &str, below: &str| match below {
            "" => above.to_owned(),
            below => format!("{above}\n{below}"),
        };
        let mut table = Table::new();
        table.load_style(RULED).force_no_tty();
        table.set_header(texts.header.iter().map(|(heading, unit)| lines(heading, unit)));
        for row in &texts.rows {
            table.add_row(row.iter().map(|(value, below)| lines(value, below)));
        }
        let too_wide = width == Width::Narrow && texts.chars() > LINE_CHARS;
        if too_wide {
            // No further column can be omitted, so long cells are wrapped.
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(LINE_CHARS as u16);
        }
        for (at, index) in shown.iter().enumerate() {
            if let Some(column) = table.column_mut(at)
                && !self.columns[*index].left
            {
                column.set_cell_alignment(CellAlignment::Right);
                if too_wide {
                    column.set_constraint(ColumnConstraint::ContentWidth);
                }
            }
        }
        let out = (0..self.columns.len()).filter(|index| !shown.contains(index));
        (table.trim_fmt(), out.map(|index| self.columns[index].heading.clone()).collect())
    }
}

impl ShownCells {
    /// Characters of the longest line: each column has a space on both sides, with one separator between two.
    fn chars(&self) -> usize {
        let of = |at: usize| {
            let (heading, unit) = &self.header[at];
            let cells = self.rows.iter().flat_map(move |row| [row[at].0.as_str(), row[at].1.as_str()]);
            let lines = cells.chain([heading.as_str(), unit]).flat_map(str::lines);
            lines.map(|line| line.chars().count()).max().unwrap_or(0) + 2
        };
        let columns = self.header.len();
        (0..columns).map(of).sum::<usize>() + columns.saturating_sub(1)
    }
}

/// A style with one rule, below the header.
const RULED: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('\u{2500}').junction('\u{2500}'));

/// The output of a command: sentences and tables.
#[derive(Debug, Default)]
pub struct Printout {
    text: String,
    width: Width,
    left_out: Vec<String>,
}

impl Printout {
    /// An empty printout.
    pub fn new(width: Width) -> Printout {
        Printout { width, ..Printout::default() }
    }

    /// Adds a table with a title, unless it is empty.
    pub fn section(&mut self, title: &str, table: &TextTable) {
        if table.is_empty() {
            return;
        }
        let _ = writeln!(self.text, "\n{title}");
        self.table(table);
    }

    /// Adds a table.
    pub fn table(&mut self, table: &TextTable) {
        let (text, left_out) = table.render(self.width);
        let _ = writeln!(self.text, "{text}");
        for heading in left_out {
            if !self.left_out.contains(&heading) {
                self.left_out.push(heading);
            }
        }
    }

    /// The text, with a note on omitted columns.
    pub fn finish(mut self) -> String {
        if !self.left_out.is_empty() {
            let _ = writeln!(self.text, "\n--wide shows also: {}", self.left_out.join(", "));
        }
        self.text
    }
}

impl fmt::Write for Printout {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.write_str(text)
    }
}

/// Wraps sentences to 80 characters for [`Width::Narrow`]. Lines of tables begin with a space, or are rules,
/// and stay unchanged.
pub fn wrapped(text: &str, width: Width) -> String {
    if width == Width::Wide {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + text.len() / 40);
    for line in text.split_inclusive('\n') {
        let is_table = line.starts_with([' ', '\u{2500}']);
        match !is_table && line.trim_end_matches('\n').chars().count() > LINE_CHARS {
            true => wrap(&mut out, line),
            false => out.push_str(line),
        }
    }
    out
}

/// Wraps a line at its spaces. Text after an item's dash, or after a name and several spaces, is indented to
/// its first word. An overlong word gets its own line.
fn wrap(out: &mut String, line: &str) {
    let named = line.find("  ").map(|at| at + line[at..].len() - line[at..].trim_start().len());
    let indent = match named {
        Some(indent) if indent <= LINE_CHARS / 4 => indent,
        _ if line.starts_with("- ") => 2,
        _ => 0,
    };
    out.push_str(&line[..indent]);
    let (mut used, mut begins) = (indent, true);
    for word in line[indent..].split_whitespace() {
        let chars = word.chars().count();
        if !begins && used + 1 + chars > LINE_CHARS {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            used = indent;
        } else if !begins {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += chars;
        begins = false;
    }
    if line.ends_with('\n') {
        out.push('\n');
    }
}

/// Groups digits by thousands: 1234567 as 1,234,567.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A single value with its unit, for use in a sentence.
fn alone(quantity: Quantity, value: f64) -> String {
    let units = quantity.units();
    let (unit, size) = units.iter().rev().find(|(_, size)| value >= *size).copied().unwrap_or(units[0]);
    let decimals = match value / size {
        in_unit if in_unit >= 999.5 => return format!("{} {unit}", grouped(libm::round(in_unit) as u64)),
        in_unit if in_unit >= 99.95 => 1,
        _ if size == 1.0 => 1,
        _ => 2,
    };
    format!("{:.decimals$} {unit}", value / size)
}

/// A time, such as `115.8 us`.
pub fn time(ns: f64) -> String {
    alone(Quantity::Time, ns)
}

/// A rate in bytes per second, such as `35.41 MB/s`.
pub fn rate(bytes_per_second: f64) -> String {
    alone(Quantity::Rate, bytes_per_second)
}

/// Bytes in decimal units, such as `4.87 kB`.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        few if few < 999.5 && few == libm::round(few) => format!("{few:.0} B"),
        bytes => alone(Quantity::Bytes, bytes),
    }
}

/// Bytes in binary units, such as `36.84 MiB`; whole numbers have no decimals.
pub fn binary_bytes(bytes: u64) -> String {
    let shown = alone(Quantity::BinaryBytes, bytes as f64);
    let (number, unit) = shown.split_once(' ').unwrap_or((&shown, ""));
    let size = Quantity::BinaryBytes.units().iter().find(|(name, _)| *name == unit);
    match size.map(|(_, size)| *size as u64) {
        Some(size) if bytes.is_multiple_of(size) => format!("{} {unit}", grouped(bytes / size)),
        _ => format!("{number} {unit}"),
    }
}

/// A fraction of 1 in percent, such as `72.7 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent >= 999.5 => format!("{} %", grouped(libm::round(percent) as u64)),
        percent => format!("{percent:.1} %"),
    }
}

/// A plain number, such as `1.234` or `28,942`.
pub fn number(value: f64) -> String {
    Scale { unit: "", size: 1.0, decimals: 3 }.show(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(quantity: Quantity, values: &[f64]) -> (Vec<String>, &'static str) {
        let mut table = TextTable::new([Column::of("x", quantity)]);
        values.iter().for_each(|value| table.row([Cell::from(*value)]));
        let texts = table.all_texts();
        (texts.rows.into_iter().map(|row| row[0].0.clone()).collect(), texts.header[0].1)
    }

    // A half width in another unit than its value would make it look a thousand times as certain, and an exact value uncertain.
    #[test]
    fn an_interval_is_in_the_unit_of_its_column() {
        let mut table = TextTable::new([Column::of("mean", Quantity::Time)]);
        table.row([Cell::from(51_200.0).within(Some(310.0))]);
        table.row([Cell::from(48_000.0).within(Some(0.0))]);
        table.row([Cell::from(48_000.0).within(Some(0.01))]);
        let texts = table.all_texts();
        let shown: Vec<&str> = texts.rows.iter().map(|row| row[0].0.as_str()).collect();
        assert_eq!((shown, texts.header[0].1), (vec!["51.2 ± 0.3", "48.0", "48.0 ± <0.1"], "us"));
    }

    // Numbers of one column in several units, or with nine digits and a decimal, cannot be compared at a
    // glance. A small nonzero value must not look like zero.
    #[test]
    fn a_column_has_one_unit_in_which_all_its_values_are_readable() {
        let cases: [(Quantity, &[f64], &[&str], &str); 9] = [
            (Quantity::Bytes, &[316_199.7, 4_812.0], &["316.2", "4.81"], "kB"),
            (Quantity::Bytes, &[7.6, 4864.0, 0.0], &["7.60", "4,864", "0.00"], "B"),
            (Quantity::Bytes, &[64.0, 4096.0], &["64", "4,096"], "B"),
            (Quantity::Time, &[60.0, 1_980.0], &["60", "1,980"], "ns"),
            (Quantity::Time, &[207.1, 115_840.0, 1_080.0], &["0.207", "115.8", "1.08"], "us"),
            (Quantity::Time, &[60.0, 5e8], &["0.060", "500,000"], "us"),
            (Quantity::Rate, &[12.6e6, 1.13e9], &["12.6", "1,130"], "MB/s"),
            (Quantity::Share, &[0.5, 0.00001, 0.0], &["50.0", "<0.1", "0.0"], "%"),
            (Quantity::Number, &[1.2345, 0.00004, 2500.4], &["1.234", "<0.001", "2,500"], ""),
        ];
        for (quantity, values, shown, unit) in cases {
            let (texts, unit_shown) = column(quantity, values);
            assert_eq!((texts, unit_shown), (shown.iter().map(|text| (*text).to_owned()).collect(), unit));
        }
        assert_eq!(column(Quantity::Time, &[]), (Vec::new(), "ns"));
    }

    // A mean in microseconds next to a maximum in milliseconds would look like the larger value.
    #[test]
    fn columns_that_are_compared_share_their_unit() {
        let mut table = TextTable::new([
            Column::of("mean", Quantity::Time),
            Column::of("max", Quantity::Time).same_unit(),
            Column::of("CPU", Quantity::Time),
        ]);
        table.row([Cell::from(5_080.0), Cell::from(43_120_000.0), Cell::from(60.0)]);
        let texts = table.all_texts();
        assert_eq!(texts.header.iter().map(|(_, unit)| *unit).collect::<Vec<_>>(), ["us", "us", "ns"]);
        assert_eq!(texts.rows[0][1].0, "43,120");
    }

    // The terminal breaks every row of a table that is wider than itself.
    #[test]
    fn what_does_not_fit_is_left_out_by_rank_and_named() {
        let mut table = TextTable::new([
            Column::text("key"),
            Column::count("kept"),
            Column::count("second").rank(2),
            Column::count("first").rank(3),
        ]);
        table.row(["k", "1", "2", "3"].map(|text| Cell::from(text.repeat(25))));
        let mut out = Printout::new(Width::Narrow);
        out.section("Title", &table);
        let text = out.finish();
        assert!(text.lines().all(|line| line.chars().count() <= LINE_CHARS), "{text}");
        assert!(text.contains("kept") && text.contains("--wide shows also: second, first"), "{text}");
        let mut out = Printout::new(Width::Wide);
        out.section("Title", &table);
        let text = out.finish();
        assert!(text.contains("first") && !text.contains("--wide"), "{text}");
        // Columns that cannot be omitted are wrapped.
        let mut long = TextTable::new([Column::text("key"), Column::count("n")]);
        long.row([Cell::from("a-long-word-".repeat(12)), Cell::from(12_345_678u64)]);
        let (text, _) = long.render(Width::Narrow);
        assert!(text.lines().all(|line| line.chars().count() <= LINE_CHARS), "{text}");
        assert!(text.contains("12,345,678"), "{text}");
    }

    #[test]
    fn sentences_are_broken_and_rows_are_not() {
        let row = format!(" {}\n", "x ".repeat(60));
        let text = format!("- {}end\n{row}", "word ".repeat(30));
        let out = wrapped(&text, Width::Narrow);
        assert!(out.ends_with(&row) && out.lines().nth(1).is_some_and(|line| line.starts_with("  word")));
        assert!(out.lines().take(2).all(|line| line.chars().count() <= LINE_CHARS), "{out}");
        assert_eq!(wrapped(&text, Width::Wide), text);
        let named = format!("flash       {}", "8 channels x ".repeat(9));
        let out = wrapped(&named, Width::Narrow);
        assert!(out.starts_with("flash       8 channels") && out.contains("\n            "), "{out}");
    }

    #[test]
    fn a_value_in_a_sentence_has_its_own_unit() {
        assert_eq!(time(115_840.0), "115.8 us");
        assert_eq!(time(901.0), "901.0 ns");
        assert_eq!(time(1.99e3), "1.99 us");
        assert_eq!(time(2.5e12), "2,500 s");
        assert_eq!(rate(806.3e6), "806.3 MB/s");
        assert_eq!((bytes(64.0), bytes(316_199.7)), ("64 B".to_owned(), "316.2 kB".to_owned()));
        assert_eq!((percent(0.375), percent(28.0)), ("37.5 %".to_owned(), "2,800 %".to_owned()));
        assert_eq!(number(28_942.1), "28,942");
        let sizes = [0, 1, 1023, 1024, 1536, 1 << 20, (1 << 30) + (1 << 29), 1 << 63, u64::MAX];
        let shown = ["0 B", "1 B", "1,023 B", "1 KiB", "1.50 KiB", "1 MiB", "1.50 GiB", "8 EiB", "16.00 EiB"];
        assert_eq!(sizes.map(binary_bytes), shown);
    }
}
