//! Measurements from a table (CSV) with a header: for published figures, which have no fio output.
//!
//! ```text
//! rw,bs,iodepth,numjobs,metric,value,unit,source
//! randread,4k,64,1,mean,282,us,MQSim
//! ```
//!
//! `metric` is `mean`, a percentile such as `p50`, `iops` or `bandwidth`; of a mix with `read` or `write` before it.
//! Further columns may be `name`, `state` (filled, unwritten, steady), `rwmixread`, `rate`, `arrivals` (I/Os a second that come independently of
//! each other, in place of `iodepth`) and `use` (fit, judge, aside). Lines of one load are one point. Lines that begin with `#` are comments.
//!
//! In place of `metric`, `value` and `unit`, a line may have a column for each figure, as the files in `measured/` do:
//!
//! ```text
//! name,rw,bs,iodepth,iops,mean_us,p50_us,p99_us,use
//! a,randread,4k,1,10672,92.1,84.4,120,fit
//! ```
//!
//! Those of a mix have `read_` or `write_` before them.

use super::measurement::{Figure, Load, Measurements, Point, Role, Sample, State};
use byteway_text::error::{InputError, SourceLocation, suggest};
use byteway_text::units::{excerpt, fio_bytes};
use byteway_workload::{Kind, Rw};

/// Columns, of which the first three are required, and a figure.
const COLUMNS: [&str; 22] = [
    "rw",
    "bs",
    "iodepth",
    "numjobs",
    "metric",
    "value",
    "unit",
    "source",
    "name",
    "state",
    "rwmixread",
    "rate",
    "arrivals",
    "use",
    "iops",
    "mean_us",
    "p50_us",
    "p90_us",
    "p95_us",
    "p99_us",
    "p999_us",
    "p9999_us",
];
const REQUIRED: [&str; 3] = ["rw", "bs", "iodepth"];
const FIGURE: [&str; 3] = ["metric", "value", "unit"];

/// A figure of a kind of I/O.
type OfKind = fn(Kind) -> Figure;

/// Columns of figures, with what they are.
const FIGURES: [(&str, OfKind); 8] = [
    ("iops", Figure::Iops),
    ("mean_us", Figure::Mean),
    ("p50_us", |kind| Figure::Percentile(kind, 50.0)),
    ("p90_us", |kind| Figure::Percentile(kind, 90.0)),
    ("p95_us", |kind| Figure::Percentile(kind, 95.0)),
    ("p99_us", |kind| Figure::Percentile(kind, 99.0)),
    ("p999_us", |kind| Figure::Percentile(kind, 99.9)),
    ("p9999_us", |kind| Figure::Percentile(kind, 99.99)),
];

/// The figure of a column such as `read_mean_us`.
fn figure_of_a_mix(column: &str) -> Option<Figure> {
    let kinds = [("read_", Kind::Read), ("write_", Kind::Write)];
    kinds.into_iter().find_map(|(before, kind)| {
        let own = column.strip_prefix(before)?;
        FIGURES.iter().find(|(name, _)| *name == own).map(|(_, figure)| figure(kind))
    })
}

/// Lines of a table, at most.
const LINES_MAX: usize = 10_000;

/// Units of times, in nanoseconds; of I/Os per second; of bytes per second.
const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
const RATES: [(&str, f64); 4] = [("IOPS", 1.0), ("/s", 1.0), ("kIOPS", 1e3), ("MIOPS", 1e6)];
const BANDWIDTHS: [(&str, f64); 7] = [
    ("B/s", 1.0),
    ("kB/s", 1e3),
    ("KiB/s", 1024.0),
    ("MB/s", 1e6),
    ("MiB/s", 1_048_576.0),
    ("GB/s", 1e9),
    ("GiB/s", 1_073_741_824.0),
];

/// A line of the table.
struct Line<'a> {
    file: &'a str,
    number: usize,
    text: &'a str,
    header: &'a [String],
    cells: Vec<String>,
}

/// Reads measurements from the text of the table `name`.
///
/// # Errors
/// A column is missing, or a cell is invalid; with its line.
pub fn read_csv(name: &str, text: &str) -> Result<Measurements, InputError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().enumerate();
    let mut lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    let place = |position| SourceLocation { source: name.to_owned(), position, excerpt: None };
    let help = format!("begin with the line `{}`", COLUMNS[..8].join(","));
    let Some((number, first)) = lines.next() else {
        return Err(InputError::new("the table is empty", help).at(place(None)));
    };
    let header = cells(first).unwrap_or_default();
    let wrong = |what: String, help: String| InputError::new(what, help).at(place(Some((number + 1, 1))));
    for (at, column) in header.iter().enumerate() {
        if !COLUMNS.contains(&column.as_str()) && figure_of_a_mix(column).is_none() {
            let what = format!("`{}` is no column", excerpt(column));
            return Err(wrong(what, suggest(column, &COLUMNS)));
        }
        if header[..at].contains(column) {
            return Err(wrong(format!("the column `{column}` is there twice"), "remove one".to_owned()));
        }
    }
    let has = |column: &str| header.iter().any(|own| own == column);
    let has_figures = FIGURES.iter().any(|(column, _)| has(column))
        || header.iter().any(|column| figure_of_a_mix(column).is_some());
    let metric = if has_figures { &[][..] } else { &FIGURE[..] };
    if let Some(missing) = REQUIRED.iter().chain(metric).find(|column| !has(column)) {
        return Err(wrong(format!("the column `{missing}` is missing"), help));
    }
    if let Some(both) = FIGURE.iter().find(|column| has_figures && has(column)) {
        let help = "remove it, or the columns of figures such as `mean_us`".to_owned();
        return Err(wrong(format!("the column `{both}` says what a column of its own says, too"), help));
    }
    let mut out = Measurements::default();
    for (count, (number, text)) in lines.enumerate() {
        let mut line = Line { file: name, number: number + 1, text, header: &header, cells: Vec::new() };
        if count == LINES_MAX {
            return Err(line.wrong(
                "rw",
                format!("more than {LINES_MAX} measurements"),
                "name a shorter table",
            ));
        }
        line.cells = cells(text).ok_or_else(|| {
            line.wrong("rw", "a quote is not closed".to_owned(), "close it with `\"` on the same line")
        })?;
        if line.cells.len() != header.len() {
            let what = format!("{} cells, where the header has {} columns", line.cells.len(), header.len());
            return Err(line.wrong("rw", what, "write a cell for each column; quote one with a comma"));
        }
        let load = line.load()?;
        let figures = if has_figures { line.figures(&load)? } else { vec![line.figure(&load)?] };
        let role = line.role()?;
        let source = line.cell("source").filter(|source| !source.is_empty()).map(str::to_owned);
        let own = line.cell("name").filter(|name| !name.is_empty());
        if own.is_some_and(|own| own.chars().count() > 100 || own.chars().any(char::is_control)) {
            return Err(line.wrong(
                "name",
                "this is no name".to_owned(),
                "use 1 to 100 printable characters",
            ));
        }
        let name = own.map_or_else(|| load.words(), str::to_owned);
        match out.points.iter_mut().find(|point| point.load == load && point.name == name) {
            Some(point) => {
                if point.role != role {
                    let help = "write the same `use` in all lines of a load";
                    return Err(line.wrong(
                        "use",
                        "another line of this load says otherwise".to_owned(),
                        help,
                    ));
                }
                for (figure, value) in figures {
                    if point.figures.iter().any(|(other, _)| *other == figure) {
                        let what = format!("`{}` of this load is there twice", figure.name());
                        let column = if has_figures { "name" } else { "metric" };
                        let help = "remove one, or give the lines different names";
                        return Err(line.wrong(column, what, help));
                    }
                    point.figures.push((figure, value));
                }
            }
            None => {
                let sample = Sample::default();
                out.points.push(Point { name, load, figures, source, sample, role })
            }
        }
    }
    if out.points.is_empty() {
        let help = "add a line for each measured figure";
        return Err(InputError::new("the table has no measurements", help).at(place(None)));
    }
    out.name_apart();
    Ok(out)
}

/// The cells of a line (RFC 4180, without line breaks in quotes); `None` if a quote is not closed.
fn cells(line: &str) -> Option<Vec<String>> {
    let (mut cells, mut cell, mut in_quotes) = (Vec::new(), String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if in_quotes && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => in_quotes = !in_quotes,
            ',' if !in_quotes => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            c => cell.push(c),
        }
    }
    cells.push(cell.trim().to_owned());
    (!in_quotes).then_some(cells)
}

impl Line<'_> {
    fn wrong(&self, column: &str, what: String, help: &str) -> InputError {
        let shown = self.text.chars().count() <= 120 && !self.text.chars().any(char::is_control);
        let place = SourceLocation {
            source: self.file.to_owned(),
            position: Some((self.number, 1)),
            excerpt: shown.then(|| (self.text.to_owned(), self.text.chars().count())),
        };
        InputError::new(format!("`{column}`: {what}"), help).at(place)
    }

    fn cell(&self, column: &str) -> Option<&str> {
        let at = self.header.iter().position(|own| own == column)?;
        self.cells.get(at).map(String::as_str)
    }

    fn whole(
        &self,
        column: &str,
        default: u32,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<u32, InputError> {
        match self.cell(column).filter(|cell| !cell.is_empty()) {
            None => Ok(default),
            Some(text) => text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
                let what =
                    format!("`{}` is not a number from {} to {}", excerpt(text), range.start(), range.end());
                self.wrong(column, what, "write digits alone")
            }),
        }
    }

    fn load(&self) -> Result<Load, InputError> {
        let text = self.cell("rw").unwrap_or_default();
        let rw = serde_json::from_value::<Rw>(serde_json::Value::String(text.to_owned())).ok();
        let rw = rw.filter(|rw| !rw.kinds().contains(&Kind::Trim));
        let Some(rw) = rw else {
            let what = format!("`{}` is no direction", excerpt(text));
            return Err(self.wrong("rw", what, "write read, write, rw, randread, randwrite or randrw"));
        };
        let text = self.cell("bs").unwrap_or_default();
        let bs = fio_bytes(text).ok().map(|bytes| bytes.0);
        let Some(bs) = bs.filter(|bs| *bs > 0 && bs.is_multiple_of(512) && *bs <= 16 << 20) else {
            let what = format!("`{}` is no size of an I/O", excerpt(text));
            return Err(self.wrong("bs", what, "write a multiple of 512 B up to 16m, such as 4k"));
        };
        let text = self.cell("state").unwrap_or_default();
        let state = match text {
            "" => State::Filled,
            text => State::ALL.into_iter().find(|state| state.name() == text).ok_or_else(|| {
                let what = format!("`{}` is no state of a drive", excerpt(text));
                self.wrong("state", what, "write filled, unwritten or steady")
            })?,
        };
        let rate = match self.cell("rate").filter(|cell| !cell.is_empty()) {
            None => None,
            Some(text) => match fio_bytes(text).ok().map(|rate| rate.0).filter(|rate| *rate > 0) {
                Some(rate) => Some(rate),
                None => {
                    let what = format!("`{}` is no limit in bytes a second", excerpt(text));
                    return Err(self.wrong("rate", what, "write it as fio does, such as 20m"));
                }
            },
        };
        let arrivals = match self.cell("arrivals").filter(|cell| !cell.is_empty()) {
            None => None,
            Some(_) if rate.is_some() => {
                let what = "a load has a limit or arrivals, not both".to_owned();
                return Err(self.wrong("arrivals", what, "leave one of `rate` and `arrivals` empty"));
            }
            Some(_) => Some(self.whole("arrivals", 1, 1..=100_000_000)?.into()),
        };
        Ok(Load {
            rw,
            bs,
            iodepth: self.whole("iodepth", 1, 1..=4096)?,
            numjobs: self.whole("numjobs", 1, 1..=16)?,
            rwmixread: self.whole("rwmixread", 50, 0..=100)? as u8,
            rate,
            arrivals,
            state,
        })
    }

    /// What the point is for.
    fn role(&self) -> Result<Option<Role>, InputError> {
        match self.cell("use").filter(|cell| !cell.is_empty()) {
            None => Ok(None),
            Some(text) => Role::ALL.into_iter().find(|role| role.name() == text).map(Some).ok_or_else(|| {
                let what = format!("`{}` is no use of a point", excerpt(text));
                self.wrong("use", what, "write fit, judge or aside")
            }),
        }
    }

    /// The figures of a line with a column for each; an empty cell was not measured.
    fn figures(&self, load: &Load) -> Result<Vec<(Figure, f64)>, InputError> {
        let mut found = Vec::new();
        for (column, text) in self.header.iter().zip(&self.cells).filter(|(_, cell)| !cell.is_empty()) {
            let own = FIGURES.iter().find(|(name, _)| name == column);
            let figure = match (own, load.rw.kinds()) {
                (Some((_, figure)), [kind]) => figure(*kind),
                (Some(_), _) => {
                    let what = format!("`{}` is a mix: of which of its I/Os is this?", load.words());
                    let help = format!("name the column `read_{column}` or `write_{column}`");
                    return Err(self.wrong(column, what, &help));
                }
                (None, kinds) => match figure_of_a_mix(column) {
                    Some(figure) if kinds.contains(&figure.kind()) => figure,
                    Some(_) => {
                        let what = format!("`{}` has no such I/Os", load.words());
                        return Err(self.wrong(column, what, "leave the cell empty"));
                    }
                    None => continue,
                },
            };
            let size = if figure.is_time() { 1e3 } else { 1.0 };
            found.push((figure, self.number(column, text, size)?));
        }
        if found.is_empty() {
            return Err(self.wrong("iops", "no figure of this load".to_owned(), "write at least one"));
        }
        Ok(found)
    }

    /// A figure in units of `size`.
    fn number(&self, column: &str, text: &str, size: f64) -> Result<f64, InputError> {
        let value: Option<f64> = text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
        value.map(|value| value * size).filter(|value| *value > 0.0 && *value < 1e15).ok_or_else(|| {
            let what = format!("`{}` is no figure above 0", excerpt(text));
            self.wrong(column, what, "write a plain number, such as 88.6")
        })
    }

    fn figure(&self, load: &Load) -> Result<(Figure, f64), InputError> {
        let text = self.cell("metric").unwrap_or_default();
        let (kind, metric) = match text.split_once(' ') {
            Some(("read", metric)) => (Some(Kind::Read), metric.trim()),
            Some(("write", metric)) => (Some(Kind::Write), metric.trim()),
            _ => (None, text),
        };
        let kind = match (kind, load.rw.kinds()) {
            (None, [only]) => *only,
            (Some(kind), kinds) if kinds.contains(&kind) => kind,
            _ => {
                let what = format!("`{}`: of which I/Os of `{}`?", excerpt(text), load.words());
                return Err(self.wrong("metric", what, "write `read mean`, or `write iops`"));
            }
        };
        let share = metric.strip_prefix('p').and_then(|share| share.parse::<f64>().ok());
        let figure = match (metric, share) {
            ("mean", _) => Figure::Mean(kind),
            ("iops" | "bandwidth", _) => Figure::Iops(kind),
            (_, Some(share)) if share > 0.0 && share < 100.0 => Figure::Percentile(kind, share),
            _ => {
                let what = format!("`{}` is no figure", excerpt(metric));
                return Err(self.wrong(
                    "metric",
                    what,
                    "write mean, a percentile such as p50, iops or bandwidth",
                ));
            }
        };
        let units: &[(&str, f64)] = match (figure.is_time(), metric) {
            (true, _) => &TIMES,
            (false, "bandwidth") => &BANDWIDTHS,
            (false, _) => &RATES,
        };
        let unit = self.cell("unit").unwrap_or_default();
        let Some((_, size)) = units.iter().find(|(name, _)| *name == unit) else {
            let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
            let what = format!("`{}` is no unit of `{metric}`", excerpt(unit));
            return Err(self.wrong("unit", what, &format!("write one of {}", names.join(", "))));
        };
        let value = self.number("value", self.cell("value").unwrap_or_default(), *size)?;
        Ok((figure, if metric == "bandwidth" { value / load.bs as f64 } else { value }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "rw,bs,iodepth,numjobs,metric,value,unit,source\n";
    const WIDE: &str = "rw,bs,iodepth,iops,mean_us,use\n";

    // The same figures, whichever way a table has them; a cell that is empty is no figure.
    #[test]
    fn a_line_may_have_a_column_for_each_figure() {
        let wide = read_csv("t.csv", &format!("{WIDE}randread,4k,1,,88.5,judge\n")).unwrap();
        let tall = read_csv("t.csv", &format!("{HEADER}randread,4k,1,1,mean,88.5,us,\n")).unwrap();
        assert_eq!(wide.points[0].figures, tall.points[0].figures);
        assert_eq!((wide.points[0].role, tall.points[0].role), (Some(Role::Judge), None));
    }

    // Published figures come in every unit; a factor of 1000 would be fitted, not noticed.
    #[test]
    fn figures_have_their_units() {
        let text = format!(
            "# from a paper\n{HEADER}randread,4k,1,1,mean,88.5,us,\"a paper, table 1\"\nrandread,4k,1,1,p50,0.09,ms,\n\
             read,128k,32,1,bandwidth,3.2,GB/s,\n\nrandread,4k,256,,iops,490,kIOPS,data sheet\n"
        );
        let found = read_csv("t.csv", &text).unwrap();
        let [alone, sequential, deep] = &found.points[..] else { panic!("{found:?}") };
        assert_eq!(
            alone.figures,
            [(Figure::Mean(Kind::Read), 88_500.0), (Figure::Percentile(Kind::Read, 50.0), 90_000.0)]
        );
        assert_eq!(alone.source.as_deref(), Some("a paper, table 1"));
        assert_eq!(sequential.figures, [(Figure::Iops(Kind::Read), 3.2e9 / 131_072.0)]);
        assert_eq!((deep.load.outstanding(), deep.figures[0].1), (256, 490e3));
        let mix = "rw,bs,iodepth,metric,value,unit,rwmixread,state,rate,name\nrandrw,4k,64,read mean,604,us,70,steady,1m,a\n\
                   randrw,4k,64,write mean,604,us,70,steady,1m,a\n";
        let found = read_csv("t.csv", mix).unwrap();
        assert_eq!((found.points.len(), found.points[0].figures.len()), (1, 2));
        assert_eq!((found.points[0].load.state, found.points[0].load.rate), (State::Steady, Some(1 << 20)));
    }

    // A line that is wrong must be named: fitting goes on for minutes.
    #[test]
    fn wrong_tables_are_refused_with_line_and_cure() {
        let row = |row: &str| format!("{HEADER}{row}\n");
        for (text, said) in [
            (String::new(), "the table is empty"),
            ("rw,bs\n".to_owned(), "the column `iodepth` is missing"),
            ("rw,rw\n".to_owned(), "`rw` is there twice"),
            ("rw,blocksize\n".to_owned(), "`blocksize` is no column"),
            (HEADER.to_owned(), "has no measurements"),
            (row("randread,4k"), "2 cells"),
            (row("randread,4k,1,1,mean,88,us,\"open"), "a quote is not closed"),
            (row("trim,4k,1,1,mean,88,us,"), "`trim` is no direction"),
            (row("randread,5k,1,1,mean,88,us,"), ""),
            (row("randread,4000,1,1,mean,88,us,"), "`4000` is no size"),
            (row("randread,4k,0,1,mean,88,us,"), "`0` is not a number from 1 to 4096"),
            (row("randread,4k,1,1,median,88,us,"), "`median` is no figure"),
            (row("randread,4k,1,1,p101,88,us,"), "`p101` is no figure"),
            (row("randrw,4k,1,1,mean,88,us,"), "of which I/Os"),
            (row("randread,4k,1,1,write mean,88,us,"), "of which I/Os"),
            (row("randread,4k,1,1,mean,88,s/s,"), "`s/s` is no unit"),
            (row("randread,4k,1,1,mean,-88,us,"), "no figure above 0"),
            (row("randread,4k,1,1,mean,nan,us,"), "no figure above 0"),
            (row("randread,4k,1,1,mean,1e300,s,"), "no figure above 0"),
            (row("randread,4k,1,1,mean,1,us,\nrandread,4k,1,1,mean,2,us,"), "is there twice"),
            (format!("{WIDE}randread,4k,1,,,\n"), "no figure of this load"),
            (format!("{WIDE}randread,4k,1,x,,\n"), "`iops`: `x` is no figure above 0"),
            (format!("{WIDE}randrw,4k,1,7,,\n"), "is a mix"),
            (format!("{WIDE}randread,4k,1,7,8,test\n"), "`test` is no use of a point"),
            (format!("{WIDE}randread,4k,1,7,,fit\nrandread,4k,1,,8,judge\n"), "another line of this load"),
            ("rw,bs,iodepth,iops,metric\n".to_owned(), "says what a column of its own says"),
        ] {
            let found = read_csv("t.csv", &text);
            if said.is_empty() {
                assert!(found.is_ok(), "{text}");
                continue;
            }
            let message = found.unwrap_err().to_string();
            assert!(message.contains(said) && message.contains("help: "), "{text}: {message}");
            assert!(message.starts_with("t.csv"), "{message}");
        }
    }
}
