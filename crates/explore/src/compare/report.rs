//! The report of a comparison: first the compared figure against the main key, with findings; then charts
//! along each key, distributions, and a table of all points.

use super::comparison::{Comparison, Point};
use super::finding::{Corner, Fact, FindingInput, SHOWN_MAX, Series, series, throughput_of, without};
use super::pareto;
use super::plan::describe;
use super::sizes::is_method;
use super::tried::{Sensitivity, TrialEnd};
use super::vary::{Axis as Key, Scale};
use crate::assumption::Trial;
use byteway_report::{Axis, Chart, Figure, Ink, Page, Section, Table, Unit};
use byteway_results::RunResult;
use byteway_results::figures::Metric;
use byteway_results::summary::Summary;
use byteway_run::probe::PointOutcome;
use byteway_scenario::profile::Completion;
use byteway_text::table::{Cell, Column, TextTable, grouped, time};
use byteway_workload::Kind;

/// Lines in one chart, at most, so that they can be distinguished.
const LINES_MAX: usize = 12;

/// Maximum number of combinations of the other keys in one chart: each may have two lines. Equals the number
/// of sizes from 32 B to 4 KiB in powers of two.
const COMBINATIONS_MAX: usize = 8;

/// Adds height for the legend, which has one entry per line on a telephone.
fn roomy(chart: Chart, entries: usize) -> Chart {
    chart.height(340 + 22 * entries.saturating_sub(4))
}

/// The report, `report.html`.
pub fn report(comparison: &Comparison) -> Page {
    let keys: Vec<&str> = comparison.axes.iter().map(|axis| axis.key.as_str()).collect();
    let mut sections = Vec::new();
    for (axis, key) in comparison.axes.iter().enumerate().filter(|(_, key)| key.values.len() > 1) {
        sections.push(along(comparison, axis, key));
    }
    sections.extend(pareto::section(comparison));
    sections.extend(distributions(comparison));
    if let Some(sensitivity) = &comparison.sensitivity {
        let text = "The whole comparison, once for each other value of a constant: half and twice, or a quarter to four times for what counts \
                    entries in flight or of a burst. A size that moves by less than a tenth is the same finding.";
        let section = Section::new("Sensitivity").text(text).list(sensitivity.lines(&comparison.findings));
        sections.push(section.table(trials(sensitivity)));
    }
    sections.push(table(comparison));
    let repeat = Section::new("The scenario")
        .text("This file and this command reproduce the same figures, to the byte, on any machine.")
        .listing(comparison.command.clone())
        .listing(comparison.text.clone());
    sections.push(repeat);
    let mut warnings = Vec::new();
    if comparison.repeat.is_several() && !comparison.points.is_empty() {
        let text = "Figures are means over replicates, with error bars of their 95 % intervals by Student's t; stages, distributions and the \
                    busiest resource are of the first replicate.";
        sections.push(Section::new("Replicates").text(text).list(seeds(comparison)));
    }
    if comparison.is_partial() {
        warnings.push("The comparison was interrupted: some points were not run.".to_owned());
    }
    for point in &comparison.points {
        if let PointOutcome::Failed(reason, _) = &point.outcome {
            warnings.push(format!("Failed: {}: {reason}", describe(&comparison.axes, &point.seen.choice)));
        }
    }
    Page {
        title: format!("{}: by {}", comparison.scenario, keys.join(" and ")),
        subtitle: format!(
            "{} points{}, compared with {}; in virtual time",
            grouped(comparison.points.len() as u64),
            comparison.replicates(),
            comparison.baseline
        ),
        facts: facts(comparison),
        warnings,
        answer: Some(answer(comparison)),
        sections,
        ..Page::default()
    }
}

/// The seeds of the points' replicates: one list for all points that have the same.
fn seeds(comparison: &Comparison) -> Vec<String> {
    let seeds = comparison.points.iter().map(|point| {
        let seeds: Vec<String> = point.replicates.iter().map(|one| one.seed.to_string()).collect();
        format!("Seeds: {}", seeds.join(", "))
    });
    let mut seeds: Vec<String> = seeds.collect();
    seeds.dedup();
    seeds
}

/// All trials, with what became of the findings.
fn trials(sensitivity: &Sensitivity) -> Table {
    let columns = ["constant", "value", "tried", "findings that change", "source"];
    let mut table = TextTable::new(columns.map(Column::text));
    for one in &sensitivity.trials {
        let end = match &one.end {
            TrialEnd::Done(changes) => changes.len().to_string(),
            TrialEnd::Failed(reason) => format!("failed: {reason}"),
            TrialEnd::NotRun => "not run".to_owned(),
        };
        let Trial { section, key, source, .. } = &one.trial;
        let (value, tried) = one.trial.listed();
        table.row([format!("{section}.{key}"), value, tried, end, source.clone()].map(Cell::from));
    }
    Table::from(table)
}

/// Facts common to all points.
fn facts(comparison: &Comparison) -> Vec<(String, String)> {
    let found: Vec<_> = comparison.points.iter().filter_map(|point| point.outcome.found()).collect();
    let Some(first) = found.first() else { return Vec::new() };
    let of = |summary: &Summary| {
        let completion = match summary.completion {
            Completion::Polled => "polled",
            Completion::Interrupt => "by interrupt",
        };
        [
            ("Drive", summary.drive_model.clone()),
            ("Host", summary.host_profile.clone().unwrap_or_default()),
            ("Completions", completion.to_owned()),
            ("Seed", summary.seed.to_string()),
            ("Byteway", summary.byteway.clone()),
        ]
    };
    let common = of(&first.summary).into_iter().enumerate().filter_map(|(at, (name, value))| {
        let same = found.iter().all(|found| of(&found.summary)[at].1 == value);
        same.then(|| (name.to_owned(), value))
    });
    common.collect()
}

/// The compared figure against the main key, and the findings.
fn answer(comparison: &Comparison) -> Section {
    let metric = comparison.metric;
    let mut section = Section::new("The answer");
    if let Some((axis, key)) = main_key(comparison) {
        let direction = if metric.more_is_better() { "Higher" } else { "Lower" };
        let title = format!("{} by {}", capitalized(metric.noun()), key.key);
        let panels = panels(comparison, axis, key);
        // Charts side by side are compared, so they have the same scale.
        let all = || comparison.points.iter().filter_map(|point| point.seen.figures?.get(metric));
        let several = panels.len() > 1;
        let is_wide = key.is_numeric()
            && (several || panels.iter().any(|(_, lines)| lines.all.len() > 1))
            && is_wide(all());
        let y = match is_wide {
            true => Axis::log(metric.noun(), unit(metric)),
            false => Axis::linear(metric.noun(), unit(metric)),
        };
        let y = if several { y.spanning(all()) } else { y };
        for (name, lines) in panels.iter().take(PANELS_MAX) {
            let mut chart = lines.over(metric, y.clone());
            let scale = if is_wide { " The axis is logarithmic." } else { "" };
            let mut caption = format!("{}.{scale} {direction} is better.", metric.meaning());
            if comparison.repeat.is_several() {
                caption += &format!(
                    " Means of {} replicates; the bars are their 95 % intervals.",
                    comparison.repeat.count()
                );
            }
            if let Some((corner, true)) = corner(comparison, lines).filter(|_| metric == Metric::Iops) {
                chart = bounds(chart, lines, &corner);
                caption += &format!(
                    " The gray line is the bound of Little's law: in flight / {} up to the highest throughput, \
                     at {:.0} in flight.",
                    time(corner.latency_ns),
                    corner.outstanding
                );
            }
            if lines.left_out > 0 {
                caption += &format!(" {} more combinations are in the table.", lines.left_out);
            }
            let title = if several { format!("{title}, {name}") } else { title.clone() };
            let figure = Figure::new(title, caption, chart);
            section = section.figure(if several { figure } else { figure.wide() });
        }
        if panels.len() > PANELS_MAX {
            let left = panels.len() - PANELS_MAX;
            section = section.text(format!("{left} more combinations of the other keys are in the table."));
        }
    }
    if comparison.findings.is_empty() {
        return section.text("Too few points for findings.");
    }
    let said = |text: &String| format!("{text}.");
    let texts = comparison.findings.iter().map(|finding| &finding.text);
    section = section.list(texts.clone().take(SHOWN_MAX).map(said));
    let more = comparison.findings.len().saturating_sub(SHOWN_MAX);
    let words = match more {
        0 => "How to read them".to_owned(),
        more => format!("{more} more, and how to read them"),
    };
    section.folded(words, texts.skip(SHOWN_MAX).map(said).chain([TERMS.to_owned()]))
}

/// Definitions of the terms in findings.
const TERMS: &str = "Differences below 1 % are called equal. The knee is the point with the highest throughput relative to its latency. \
                     Little's law, in flight = throughput x latency, bounds throughput by in flight / latency of the idle \
                     drive, and the resources bound it by the highest value measured; the bounds intersect where that law puts the \
                     knee. Beyond it more I/Os in flight add more latency than throughput. Because requests fall \
                     on dies by chance, throughput comes within 5 % of its best only well after the knee.";

fn capitalized(noun: &str) -> String {
    let mut letters = noun.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn unit(metric: Metric) -> Unit {
    match metric {
        Metric::Iops => Unit::Iops,
        Metric::BytesPerSecond => Unit::BytesPerSecond,
        Metric::WireBytesPerIo | Metric::PayloadBytesPerIo => Unit::Bytes,
        Metric::WriteAmplification
        | Metric::RetriesPerRead
        | Metric::LogPages
        | Metric::IndexPages
        | Metric::DriveDollars
        | Metric::IopsPerDollar
        | Metric::MicrojoulesPerIo => Unit::Count,
        Metric::MapMissRatio | Metric::WearSpread => Unit::Share,
        Metric::MeanNs
        | Metric::P50Ns
        | Metric::P99Ns
        | Metric::P999Ns
        | Metric::ReadP999Ns
        | Metric::HostNsPerIo
        | Metric::DeviceNsPerIo
        | Metric::TargetNsPerIo => Unit::Nanoseconds,
    }
}

/// Ratio of figures beyond which lines have a logarithmic axis, so that none is flat.
const WIDE: f64 = 30.0;

fn is_wide(figures: impl Iterator<Item = f64>) -> bool {
    is_far(figures, WIDE)
}

/// Whether the ratio of maximum to minimum exceeds `factor`.
fn is_far(figures: impl Iterator<Item = f64>, factor: f64) -> bool {
    let ends = (f64::INFINITY, 0.0f64);
    let (least, most) = figures.fold(ends, |(least, most), figure| (least.min(figure), most.max(figure)));
    least > 0.0 && most / least > factor
}

/// Smallest visible part of a stacked bar, as a fraction of the longest.
const PARTS_VISIBLE: f64 = 12.0;

/// Mean latency of a point, as the sum of its stages.
fn whole(found: &RunResult) -> f64 {
    found.summary.spans.iter().map(|row| row.mean_ns).sum()
}

/// Small charts in the answer, at most.
const PANELS_MAX: usize = 6;

/// The key on the horizontal axis: a numeric one if possible, with the most values.
fn main_key(comparison: &Comparison) -> Option<(usize, &Key)> {
    let varied = comparison.axes.iter().enumerate().filter(|(_, key)| key.values.len() > 1);
    // Of equal ones, the first.
    varied.rev().max_by_key(|(_, key)| (key.is_numeric(), key.values.len()))
}

/// The charts of the answer with their names: one, or one for each value of another key if there are too many
/// combinations.
fn panels<'a>(comparison: &'a Comparison, axis: usize, key: &'a Key) -> Vec<(String, Lines<'a>)> {
    let one = lines(comparison, axis, key, None);
    if one.left_out == 0 {
        return vec![(String::new(), one)];
    }
    let others =
        comparison.axes.iter().enumerate().filter(|(at, other)| *at != axis && other.values.len() > 1);
    let Some((panel, other)) = others.rev().max_by_key(|(_, other)| other.values.len()) else {
        return vec![(String::new(), one)];
    };
    let name = |at: usize| format!("{}={}", other.key, other.values[at].label);
    (0..other.values.len()).map(|at| (name(at), lines(comparison, axis, key, Some((panel, at))))).collect()
}

/// The lines of a chart along a key: the combinations of the other keys, each with its completed points.
struct Lines<'a> {
    key: &'a Key,
    axis: usize,
    all: Vec<(String, Vec<&'a Point>)>,
    left_out: usize,
}

/// All combinations of the other keys, or only those with one value of another key.
fn lines<'a>(
    comparison: &'a Comparison,
    axis: usize,
    key: &'a Key,
    panel: Option<(usize, usize)>,
) -> Lines<'a> {
    let seen: Vec<FindingInput> = comparison.points.iter().map(|point| point.seen.clone()).collect();
    let mut all: Vec<(String, Vec<&Point>)> = series(&comparison.axes, &seen, axis)
        .iter()
        .filter(|series| panel.is_none_or(|(other, value)| series.others[other] == value))
        .map(|series: &Series| {
            let points = series.points.iter().map(|at| &comparison.points[*at]);
            let left_out: Vec<usize> = [axis].into_iter().chain(panel.map(|(other, _)| other)).collect();
            let name = without(&comparison.axes, &series.others, &left_out);
            (name, points.filter(|point| point.seen.figures.is_some()).collect())
        })
        .collect();
    let left_out = all.len().saturating_sub(COMBINATIONS_MAX);
    all.truncate(COMBINATIONS_MAX);
    Lines { key, axis, all, left_out }
}

fn along(comparison: &Comparison, axis: usize, key: &Key) -> Section {
    let lines = lines(comparison, axis, key, None);
    // Skip the figure that the answer already shows.
    let answered = main_key(comparison).filter(|(main, _)| *main == axis).map(|_| comparison.metric);
    let mut section = Section::new(format!("Along {}", key.key));
    if lines.left_out > 0 {
        section = section.text(format!(
            "The charts show the first {COMBINATIONS_MAX} combinations of the other keys; {} more are in the table.",
            lines.left_out
        ));
    }
    let figures = comparison.points.iter().filter_map(|point| point.seen.figures.as_ref());
    let metric = throughput_of(figures);
    if answered != Some(metric) {
        let caption = "All jobs together. Higher is better.";
        let title = format!("Throughput by {}", key.key);
        section = section.figure(Figure::new(title, caption, lines.chart(metric, false)));
    }
    section = section.figure(Figure::new(
        format!("Latency by {}", key.key),
        "Of all I/Os of all jobs, from submission to completion. 1 % of the I/Os exceed the p99. The axis is \
         logarithmic. Lower is better.",
        lines.latency(),
    ));
    section = section.figure(Figure::new(
        format!("Bytes on the link by {}", key.key),
        "Per I/O, both directions, in both ledgers: what a performance counter sees (payload), and what the wire \
         carries with headers, CRC and framing.",
        lines.link(),
    ));
    let is_new =
        |metric: Metric| answered != Some(metric) && lines.all.iter().any(|(_, points)| has(points, metric));
    if is_new(Metric::WriteAmplification) {
        section = section.figure(Figure::new(
            format!("Write amplification by {}", key.key),
            "Bytes programmed into flash per byte written by the host. Below 1, the last writes were still in the \
             drive's buffer, or were overwritten there.",
            lines.chart(Metric::WriteAmplification, true),
        ));
    }
    for (metric, title, caption) in OF_THE_DRIVE {
        if is_new(metric) {
            let figure = Figure::new(format!("{title} by {}", key.key), caption, lines.chart(metric, false));
            section = section.figure(figure);
        }
    }
    for (metric, whose) in [(Metric::HostNsPerIo, "Host"), (Metric::DeviceNsPerIo, "Drive")] {
        if is_new(metric) {
            section = section.figure(Figure::new(
                format!("{whose} processor time by {}", key.key),
                "Work per I/O, without polling for completions.",
                lines.chart(metric, false),
            ));
        }
    }
    if is_new(Metric::TargetNsPerIo) {
        section = section.figure(Figure::new(
            format!("Target processor time by {}", key.key),
            "Work of the target's processors per I/O, including interrupts.",
            lines.chart(Metric::TargetNsPerIo, false),
        ));
    }
    // Transfer methods have separate charts, because they differ in the time of the stages.
    let pictures = if comparison.axes.iter().any(is_method) { lines.all.len() } else { 1 };
    for at in 0..pictures.max(1) {
        let others = lines.all.get(at).map(|(name, _)| name.clone()).unwrap_or_default();
        let said = if others.is_empty() { String::new() } else { format!(" At {others}.") };
        let as_shares = lines.stages_as_shares();
        let caption = match as_shares {
            true => "Shares of the mean latency, whose absolute values above differ too much for one scale.",
            false => "Mean of all I/Os; the parts add up to the mean latency.",
        };
        let figure = Figure::new(
            format!("Where the time of an I/O goes, by {}", key.key),
            format!("{caption}{said}"),
            lines.stages(at, as_shares),
        );
        section = section.figure(if pictures > 1 { figure } else { figure.wide() });
    }
    section
}

/// Figures of the drive's background work and of its effect on reads.
const OF_THE_DRIVE: [(Metric, &str, &str); 6] = [
    (
        Metric::ReadP999Ns,
        "p99.9 latency of reads",
        "0.1 % of the reads exceed it: with concurrent writes, those that waited for a program or an \
         erase.",
    ),
    (
        Metric::MapMissRatio,
        "Map misses",
        "Share of map lookups whose page was not in DRAM: each costs a flash read before the host's own.",
    ),
    (
        Metric::WearSpread,
        "Spread of wear",
        "Difference of erase counts between the most and least worn block, relative to the mean: the most worn blocks determine a drive's end of life.",
    ),
    (Metric::RetriesPerRead, "Retries", "Mean number of retries per flash read."),
    (
        Metric::LogPages,
        "Pages of the value log",
        "Pages of flash programmed for values and their records; incomplete pages are still in DRAM.",
    ),
    (
        Metric::IndexPages,
        "Pages of the index",
        "Pages of flash programmed for the index, including compaction, and for its manifest.",
    ),
];

fn has(points: &[&Point], metric: Metric) -> bool {
    points.iter().any(|point| point.figures.is_some_and(|figures| figures.get(metric).is_some()))
}

/// The corner of the only line, and whether the key is the number of outstanding I/Os.
fn corner(comparison: &Comparison, lines: &Lines<'_>) -> Option<(Corner, bool)> {
    if comparison.axes.len() > 1 {
        return None;
    }
    let corner = comparison.findings.iter().find_map(|finding| match &finding.fact {
        Fact::Knee { little, .. } => *little,
        _ => None,
    })?;
    let (_, points) = lines.all.first()?;
    let same = points
        .iter()
        .all(|point| point.seen.outstanding.map(|outstanding| outstanding as f64) == lines.number(point));
    Some((corner, same))
}

/// Draws the asymptotic bounds.
fn bounds(chart: Chart, lines: &Lines<'_>, corner: &Corner) -> Chart {
    let Some((_, points)) = lines.all.first() else { return chart };
    let mut x: Vec<f64> = points.iter().filter_map(|point| lines.number(point)).collect();
    // The corner itself may not be one of the points.
    if x.iter().any(|x| *x < corner.outstanding) && x.iter().any(|x| *x > corner.outstanding) {
        x.push(corner.outstanding);
        x.sort_by(f64::total_cmp);
    }
    let bound = x.into_iter().map(|x| (x, (x * 1e9 / corner.latency_ns).min(corner.iops_max))).collect();
    let at = format!("Little's law: {:.0}", corner.outstanding);
    let chart = chart.rule(corner.outstanding, at);
    chart.line("bound by Little's law", Ink::GRAY, bound)
}

impl Lines<'_> {
    fn number(&self, point: &Point) -> Option<f64> {
        self.key.values[point.seen.choice[self.axis]].number
    }

    fn x(&self) -> Axis {
        let key = self.key;
        match &key.scale {
            Scale::Names => Axis::names(key.key.clone(), key.values.iter().map(|value| value.label.clone())),
            Scale::Numbers(unit) => {
                let (title, unit) = match unit.as_str() {
                    "B" => (key.key.clone(), Unit::BinaryBytes),
                    "ns" => (key.key.clone(), Unit::Nanoseconds),
                    _ => (key.title(), Unit::Count),
                };
                match key.is_geometric() {
                    true => Axis::log_at_points(title, unit),
                    false => Axis::linear(title, unit).from_data(),
                }
            }
        }
    }

    /// A figure as one line or set of bars for each combination, with a linear axis.
    fn chart(&self, metric: Metric, from_data: bool) -> Chart {
        let y = Axis::linear(metric.noun(), unit(metric));
        self.over(metric, if from_data { y.from_data() } else { y })
    }

    /// The same with this axis.
    fn over(&self, metric: Metric, y: Axis) -> Chart {
        let mut chart = Chart::new(self.x(), y);
        for (index, (name, points)) in self.all.iter().enumerate() {
            let name = if name.is_empty() { metric.noun() } else { name };
            chart = self.add(chart, name, Ink::nth(index), points, metric);
        }
        roomy(chart, self.all.len())
    }

    fn add(&self, chart: Chart, name: &str, ink: Ink, points: &[&Point], metric: Metric) -> Chart {
        let figure = |point: &Point| point.figures.and_then(|figures| figures.get(metric));
        let half =
            |point: &Point| point.figures.and_then(|figures| figures.half_width(metric)).unwrap_or(0.0);
        if self.key.is_numeric() {
            let line = points.iter().filter_map(|point| Some((self.number(point)?, figure(point)?)));
            let drawn = points.iter().filter(|point| self.number(point).is_some() && figure(point).is_some());
            return chart
                .marked(name, ink, line.collect())
                .error_bars(drawn.map(|point| half(point)).collect());
        }
        let mut halves = vec![0.0; self.key.values.len()];
        let mut bars = vec![f64::NAN; self.key.values.len()];
        for point in points {
            bars[point.seen.choice[self.axis]] = figure(point).unwrap_or(f64::NAN);
            halves[point.seen.choice[self.axis]] = half(point);
        }
        chart.bars(name, ink, bars).error_bars(halves)
    }

    fn latency(&self) -> Chart {
        let y = Axis::log("latency", Unit::Nanoseconds);
        let mut chart = Chart::new(self.x(), y);
        if let [(_, points)] = &self.all[..] {
            let all = [
                (Metric::MeanNs, "mean", Ink::MEAN),
                (Metric::P50Ns, "p50", Ink::MEDIAN),
                (Metric::P99Ns, "p99", Ink::P99),
                (Metric::P999Ns, "p99.9", Ink::P999),
            ];
            for (metric, name, ink) in all {
                chart = self.add(chart, name, ink, points, metric);
            }
            return chart;
        }
        for (index, (name, points)) in self.all.iter().enumerate() {
            for (stroke, (metric, what)) in
                [(Metric::P50Ns, "p50"), (Metric::P99Ns, "p99")].iter().enumerate()
            {
                chart =
                    self.add(chart, &format!("{name}, {what}"), Ink::twice(index, stroke), points, *metric);
            }
        }
        roomy(chart, 2 * self.all.len())
    }

    fn link(&self) -> Chart {
        let mut chart = Chart::new(self.x(), Axis::linear("bytes per I/O", Unit::Bytes));
        for (index, (name, points)) in self.all.iter().enumerate() {
            let ledgers = [(Metric::WireBytesPerIo, "wire"), (Metric::PayloadBytesPerIo, "payload")];
            for (stroke, (metric, ledger)) in ledgers.iter().enumerate() {
                let name = if name.is_empty() { (*ledger).to_owned() } else { format!("{name}, {ledger}") };
                let ink = if self.all.len() == 1 { Ink::nth(stroke) } else { Ink::twice(index, stroke) };
                chart = self.add(chart, &name, ink, points, *metric);
            }
        }
        roomy(chart, 2 * self.all.len())
    }

    /// Mean latencies of all points, as sums of stages.
    fn wholes(&self) -> impl Iterator<Item = f64> {
        let points = self.all.iter().flat_map(|(_, points)| points.iter());
        points.filter_map(|point| Some(whole(point.outcome.found()?)))
    }

    /// Whether the parts of the shortest latency would be invisible next to the longest on a common scale.
    fn stages_as_shares(&self) -> bool {
        self.all.len() > 1 && is_far(self.wholes(), PARTS_VISIBLE)
    }

    /// The stages for one combination of the other keys: nanoseconds, or shares.
    fn stages(&self, at: usize, as_shares: bool) -> Chart {
        let points = self.all.get(at).map(|(_, points)| points.as_slice()).unwrap_or_default();
        let labels: Vec<&str> =
            points.iter().map(|point| self.key.values[point.seen.choice[self.axis]].label.as_str()).collect();
        let x = Axis::names(self.key.key.clone(), labels);
        // The charts of all combinations have the same scale.
        let y = match as_shares {
            true => Axis::linear("share of the mean latency", Unit::Share).range(0.0, 1.0),
            false => Axis::linear("mean latency", Unit::Nanoseconds).spanning(self.wholes()),
        };
        let mut chart = Chart::new(x, y).stacked();
        let rows = |point: &Point| {
            let Some(found) = point.outcome.found() else { return Vec::new() };
            let mut rows = found.summary.spans.clone();
            let of = if as_shares { whole(found) } else { 1.0 };
            rows.iter_mut().for_each(|row| row.mean_ns /= of);
            rows
        };
        let all: Vec<Vec<_>> = points.iter().map(|point| rows(point)).collect();
        let names: Vec<String> =
            all.first().map(|rows| rows.iter().map(|row| row.span.clone()).collect()).unwrap_or_default();
        let mut shown = 0;
        for (index, name) in names.iter().enumerate() {
            let values: Vec<f64> =
                all.iter().map(|rows| rows.get(index).map_or(0.0, |row| row.mean_ns)).collect();
            if values.iter().any(|value| *value > 0.0) {
                chart = chart.bars(name.clone(), Ink::nth(shown), values);
                shown += 1;
            }
        }
        chart
    }
}

/// The latency distributions of all points, if they are few.
fn distributions(comparison: &Comparison) -> Option<Section> {
    let mut chart =
        Chart::new(Axis::log("latency", Unit::Nanoseconds), Axis::tail("cumulative share of I/Os"));
    let mut lines = 0;
    for point in &comparison.points {
        let Some(found) = point.outcome.done() else { continue };
        for curve in &found.curves {
            let mut name = describe(&comparison.axes, &point.seen.choice);
            if found.summary.jobs.len() > 1 {
                name += &format!(", {}", curve.job);
            }
            if found.curves.len() > 1 {
                name += match curve.kind {
                    Kind::Read => ", reads",
                    Kind::Write => ", writes",
                    Kind::Trim => ", trims",
                };
            }
            chart = chart.line(name, Ink::nth(lines), curve.points.clone());
            lines += 1;
        }
    }
    let caption = "Cumulative distributions. The axis is stretched towards 100 %, so that the slowest 1 %, 0.1 % \
                   and so on are visible. Further left is better.";
    let figure = Figure::new("Latency distributions", caption, roomy(chart, lines)).wide();
    (1..=LINES_MAX).contains(&lines).then(|| Section::new("Latency distributions").figure(figure))
}

fn table(comparison: &Comparison) -> Section {
    let table = Table::from(comparison.table())
        .caption(format!("In parentheses: the difference; `=` means {}.", comparison.equality()));
    Section::new("All points")
        .text(format!(
            "Compared with {}. Latencies are of all I/Os of all jobs; bytes per I/O are both directions of the link; busiest is \
             the resource with the highest mean utilization.",
            comparison.baseline
        ))
        .table(table)
}
