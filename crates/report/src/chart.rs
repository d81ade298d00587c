//! Charts: lines, bands, bars and heat maps over two axes, in colours and strokes that are also
//! distinguishable without colour vision.
//!
//! A chart defines its contents. Size, font and frame colours are the page's; Plotly draws it from
//! [`Chart::to_json`].

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::axis::{Axis, AxisLayout, FittedAxis, rounded};
use crate::object::{Object, escaped, titled};
use byteway_workload::Kind;

/// The colours of Okabe and Ito that are dark enough for lines on white and light enough for lines on black.
const HUES: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#808080"];
const SHADE: &str = "rgba(128,128,128,0.25)";
const CLEAR: &str = "rgba(0,0,0,0)";
const DASHES: [&str; 5] = ["solid", "dash", "dot", "dashdot", "longdash"];
const SYMBOLS: [&str; 5] = ["circle", "square", "diamond", "triangle-up", "cross"];
const PATTERNS: [&str; 5] = ["", "/", ".", "-", "+"];

/// The look of a series: a colour and a stroke (dash of lines, symbol of points, hatching of bars), so that
/// it can be distinguished without colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    hue: usize,
    stroke: usize,
}

impl Ink {
    /// Color of totals and ranges, which belong to no series.
    pub const GRAY: Ink = Ink { hue: 6, stroke: 0 };
    /// Median latency, in all charts. These five are distinguishable by everyone, and in print without
    /// colour.
    pub const MEDIAN: Ink = Ink::of(0, 0);
    /// The 99th percentile.
    pub const P99: Ink = Ink::of(1, 1);
    /// The longest.
    pub const LONGEST: Ink = Ink::of(6, 2);
    /// The 99.9th percentile.
    pub const P999: Ink = Ink::of(3, 3);
    /// The mean.
    pub const MEAN: Ink = Ink::of(2, 4);

    /// The look of series `index` of a chart, from 0.
    pub const fn nth(index: usize) -> Ink {
        Ink { hue: index % HUES.len(), stroke: index % DASHES.len() }
    }

    /// The colour of `hue` with the stroke of `stroke`, numbered as for [`Ink::nth`]: for series that vary in
    /// two ways.
    pub const fn of(hue: usize, stroke: usize) -> Ink {
        Ink { hue: hue % HUES.len(), stroke: stroke % DASHES.len() }
    }

    /// Color and stroke for series `index` with two figures, 0 and 1: one color, two strokes; ten series are
    /// distinguishable.
    pub const fn twice(index: usize, which: usize) -> Ink {
        Ink { hue: index % HUES.len(), stroke: (which + 2 * (index / HUES.len())) % DASHES.len() }
    }

    /// Reads, writes and trims have the same look in all charts.
    pub const fn kind(kind: Kind) -> Ink {
        match kind {
            Kind::Read => Ink::nth(0),
            Kind::Write => Ink::nth(1),
            Kind::Trim => Ink::nth(2),
        }
    }

    fn color(self) -> &'static str {
        HUES[self.hue]
    }

    /// The colour, translucent.
    fn wash(self) -> String {
        format!("{}38", self.color())
    }
}

/// Symbols of stated points: the second is for another statement about the same series.
const STATED: [&str; 2] = ["star", "square"];

/// Markers of stated points: larger than those of a series and white inside, so that they are visible on a
/// bar or line of the same colour.
fn stated(ink: Ink, symbol: &str) -> Object {
    let rim = Object::new().set("width", 2.5).set("color", ink.color());
    Object::new().set("symbol", symbol).set("size", 13).object("line", rim).set("color", "#ffffff")
}

/// Markers of a series. Odd strokes are rings around even ones: where two series have the same value, both
/// are visible.
fn mark_of(ink: Ink, size: usize) -> Object {
    let marker = Object::new().set("symbol", SYMBOLS[ink.stroke]);
    match ink.stroke % 2 {
        0 => marker.set("size", size).set("color", ink.color()),
        _ => {
            let rim = Object::new().set("width", 2.0).set("color", ink.color());
            marker.set("size", size + 6).object("line", rim).set("color", CLEAR)
        }
    }
}

/// The beginning of a trace of lines or points.
fn scatter(name: &str, mode: &str, xs: impl Serialize, ys: impl Serialize) -> Object {
    let trace = Object::new().set("type", "scatter").set("name", escaped(name));
    trace.set("mode", mode).set("x", xs).set("y", ys)
}

/// Share of a name's space on its axis that no bar covers.
const BAR_GAP: f64 = 0.25;

/// Connection of a line's points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    Straight,
    Marked,
    Steps,
    /// Points only.
    Not,
}

#[derive(Clone, Debug)]
enum Mark {
    Line { name: String, ink: Ink, join: Join, points: Vec<(f64, f64)> },
    Band { name: String, ink: Ink, points: Vec<(f64, f64, f64)> },
    Bars { name: String, ink: Ink, values: Vec<f64>, labels: Vec<String> },
    Gap { values: Vec<f64> },
    Dots { name: String, ink: Ink, values: Vec<f64> },
    Heat { x: Vec<f64>, y: Vec<f64>, rows: Vec<Vec<f64>>, most: f64, label: String },
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    x: Axis,
    y: Axis,
    marks: Vec<Mark>,
    /// Half widths of error bars, by the index of their mark.
    errors: BTreeMap<usize, Vec<f64>>,
    shades: Vec<(f64, f64, String)>,
    rules: Vec<(f64, String)>,
    stacked: bool,
    height_px: usize,
}

impl Chart {
    /// An empty chart with these axes.
    pub fn new(x: Axis, y: Axis) -> Chart {
        let (marks, shades, rules) = (Vec::new(), Vec::new(), Vec::new());
        Chart { x, y, marks, errors: BTreeMap::new(), shades, rules, stacked: false, height_px: 340 }
    }

    /// A line through the points (x, y), in order. A NaN y leaves a gap.
    pub fn line(self, name: impl Into<String>, ink: Ink, points: Vec<(f64, f64)>) -> Chart {
        self.mark(Mark::Line { name: name.into(), ink, join: Join::Straight, points })
    }

    /// A line with markers, for chosen values of x.
    pub fn marked(self, name: impl Into<String>, ink: Ink, points: Vec<(f64, f64)>) -> Chart {
        self.mark(Mark::Line { name: name.into(), ink, join: Join::Marked, points })
    }

    /// Unconnected points: values stated by a source about the series of the same ink.
    pub fn stated(self, name: impl Into<String>, ink: Ink, points: Vec<(f64, f64)>) -> Chart {
        self.mark(Mark::Line { name: name.into(), ink, join: Join::Not, points })
    }

    /// Stated points on the vertical bars of the same ink: a value for each name, NaN for none.
    pub fn stated_bars(self, name: impl Into<String>, ink: Ink, values: Vec<f64>) -> Chart {
        self.mark(Mark::Dots { name: name.into(), ink, values })
    }

    /// Error bars of the points or bars added last: half the width of the interval of each. Where all are 0 there are none.
    pub fn error_bars(mut self, half_widths: Vec<f64>) -> Chart {
        if let Some(last) = self.marks.len().checked_sub(1)
            && half_widths.iter().any(|half| *half > 0.0)
        {
            self.errors.insert(last, half_widths);
        }
        self
    }

    /// A stepped line: each y applies from its x to the next.
    pub fn steps(self, name: impl Into<String>, ink: Ink, points: Vec<(f64, f64)>) -> Chart {
        self.mark(Mark::Line { name: name.into(), ink, join: Join::Steps, points })
    }

    /// A translucent stepped band: x, lower and upper end.
    pub fn band(self, name: impl Into<String>, ink: Ink, points: Vec<(f64, f64, f64)>) -> Chart {
        self.mark(Mark::Band { name: name.into(), ink, points })
    }

    /// A bar for each name, next to those of other calls. Bars are vertical with names on the x axis,
    /// horizontal with names on the y axis. On a logarithmic axis they are points instead, because the length
    /// of a bar would depend on where the axis begins.
    pub fn bars(self, name: impl Into<String>, ink: Ink, values: Vec<f64>) -> Chart {
        self.labelled_bars(name, ink, values, Vec::new())
    }

    /// Bars with a text at each.
    pub fn labelled_bars(
        self,
        name: impl Into<String>,
        ink: Ink,
        values: Vec<f64>,
        labels: Vec<String>,
    ) -> Chart {
        self.mark(Mark::Bars { name: name.into(), ink, values, labels })
    }

    /// An invisible part of a stack, below the following bars.
    pub fn gap(self, values: Vec<f64>) -> Chart {
        self.mark(Mark::Gap { values })
    }

    /// A heat map: `rows[i][j]` is a share from 0 to 1 at `x[j]`, `y[i]` (the centres). `label` describes the
    /// colour.
    pub fn heat(self, x: Vec<f64>, y: Vec<f64>, rows: Vec<Vec<f64>>, label: impl Into<String>) -> Chart {
        self.mark(Mark::Heat { x, y, rows, most: 1.0, label: label.into() })
    }

    /// A heat map whose colours end at the largest share, rounded up to 5 %: for shares of a whole, none of
    /// which is near 1.
    pub fn heat_of_parts(
        self,
        x: Vec<f64>,
        y: Vec<f64>,
        rows: Vec<Vec<f64>>,
        label: impl Into<String>,
    ) -> Chart {
        let largest = rows.iter().flatten().copied().fold(0.0, f64::max);
        let most = (libm::ceil(largest * 20.0) / 20.0).clamp(0.05, 1.0);
        self.mark(Mark::Heat { x, y, rows, most, label: label.into() })
    }

    /// Stacks the bars of each name.
    pub fn stacked(mut self) -> Chart {
        self.stacked = true;
        self
    }

    /// Shades an interval of x, with a label.
    pub fn shade(mut self, from: f64, to: f64, label: impl Into<String>) -> Chart {
        self.shades.push((from, to, label.into()));
        self
    }

    /// A dotted vertical line at a value of x, with a label.
    pub fn rule(mut self, x: f64, label: impl Into<String>) -> Chart {
        self.rules.push((x, label.into()));
        self
    }

    /// Sets the height in CSS pixels; the default is 340.
    pub fn height(mut self, px: usize) -> Chart {
        self.height_px = px;
        self
    }

    fn mark(mut self, mark: Mark) -> Chart {
        self.marks.push(mark);
        self
    }

    pub(crate) fn height_px(&self) -> usize {
        self.height_px
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.marks.iter().all(|mark| match mark {
            Mark::Line { points, .. } => points.is_empty(),
            Mark::Band { points, .. } => points.is_empty(),
            Mark::Bars { values, .. } => values.is_empty(),
            Mark::Dots { values, .. } => values.is_empty(),
            Mark::Gap { .. } => true,
            Mark::Heat { rows, .. } => rows.is_empty(),
        })
    }

    fn fit(&self) -> (FittedAxis<'_>, FittedAxis<'_>) {
        let lies = self.y.names_of().is_some();
        let bars = self.marks.iter().flat_map(|mark| match mark {
            Mark::Bars { values, .. } | Mark::Dots { values, .. } => values.as_slice(),
            _ => &[],
        });
        // For stacked bars, the height of the stack counts.
        let names = self.x.names_of().or(self.y.names_of()).map_or(0, <[String]>::len);
        let stack = |index: usize| -> f64 {
            let of = |mark: &Mark| match mark {
                Mark::Bars { values, .. } | Mark::Gap { values } => values.get(index).copied().unwrap_or(0.0),
                _ => 0.0,
            };
            self.marks.iter().map(of).sum()
        };
        let stacks = (0..if self.stacked { names } else { 0 }).map(stack);
        // An error bar must end within the chart.
        let ends = |index: usize, mark: &Mark| -> Vec<f64> {
            let halves = self.errors.get(&index).map(Vec::as_slice).unwrap_or_default();
            let ends = |(value, half): (f64, &f64)| [value - half, value + half];
            match mark {
                Mark::Line { points, .. } => {
                    points.iter().map(|(_, y)| *y).zip(halves).flat_map(ends).collect()
                }
                Mark::Bars { values, .. } => values.iter().copied().zip(halves).flat_map(ends).collect(),
                _ => Vec::new(),
            }
        };
        let ends: Vec<f64> =
            self.marks.iter().enumerate().flat_map(|(index, mark)| ends(index, mark)).collect();
        let bars: Vec<f64> = bars.copied().chain(stacks).chain(ends).collect();
        let (mut xs, mut ys) = if lies { (bars, Vec::new()) } else { (Vec::new(), bars) };
        for mark in &self.marks {
            match mark {
                Mark::Line { points, .. } => {
                    xs.extend(points.iter().map(|(x, _)| x));
                    ys.extend(points.iter().map(|(_, y)| y));
                }
                Mark::Band { points, .. } => {
                    xs.extend(points.iter().map(|(x, ..)| x));
                    ys.extend(points.iter().flat_map(|(_, low, high)| [low, high]));
                }
                Mark::Heat { x, y, .. } => {
                    xs.extend(x);
                    ys.extend(y);
                }
                Mark::Bars { .. } | Mark::Dots { .. } | Mark::Gap { .. } => {}
            }
        }
        (self.x.fit(xs.into_iter()), self.y.fit(ys.into_iter()))
    }

    /// A description of the chart in words, for readers who cannot see it.
    pub fn describe(&self) -> String {
        let (x, y) = self.fit();
        let kind = match self.marks.first() {
            Some(Mark::Bars { .. }) if self.measures_in_log() => "Scatter chart",
            Some(Mark::Bars { .. } | Mark::Gap { .. }) => "Bar chart",
            Some(Mark::Heat { .. }) => "Heat map",
            _ => "Line chart",
        };
        let series = self.series();
        let names: Vec<&str> = series.iter().map(|(name, _)| *name).collect();
        let of = if names.is_empty() { String::new() } else { format!(" of {}", names.join(", ")) };
        let side = |axis: &Axis, fitted: &FittedAxis<'_>| {
            let title = fitted.title();
            if axis.names_of().is_some() || title.is_empty() {
                fitted.extent()
            } else {
                format!("{title}, {}", fitted.extent())
            }
        };
        format!("{kind}{of}. Horizontal: {}. Vertical: {}.", side(&self.x, &x), side(&self.y, &y))
    }

    /// The chart for `Plotly.newPlot`: an object of `data` and `layout`.
    pub fn to_json(&self) -> String {
        self.to_json_with(true)
    }

    /// The same, with or without its legend.
    pub(crate) fn to_json_with(&self, has_legend: bool) -> String {
        let (x, y) = self.fit();
        let figure = Object::new().objects("data", self.traces(&x, &y));
        figure.object("layout", self.layout(&x, &y, has_legend)).into_json()
    }

    /// Names of what is drawn, each with its ink if that is its own.
    fn series(&self) -> Vec<(&str, Option<Ink>)> {
        fn named(mark: &Mark) -> Option<(&str, Option<Ink>)> {
            match mark {
                Mark::Line { name, ink, .. }
                | Mark::Band { name, ink, .. }
                | Mark::Bars { name, ink, .. }
                | Mark::Dots { name, ink, .. } => Some((name, Some(*ink))),
                Mark::Heat { label, .. } => Some((label, None)),
                Mark::Gap { .. } => None,
            }
        }
        self.marks.iter().filter_map(named).filter(|(name, _)| !name.is_empty()).collect()
    }

    /// Whether the legend of `other` is this chart's, too.
    pub(crate) fn shares_legend(&self, other: &Chart) -> bool {
        let (own, shades) = (self.series(), self.shades.iter().map(|(.., name)| name));
        own.len() > 1 && own == other.series() && shades.eq(other.shades.iter().map(|(.., name)| name))
    }

    fn traces(&self, x: &FittedAxis<'_>, y: &FittedAxis<'_>) -> Vec<Object> {
        let mut traces: Vec<Object> = Vec::new();
        let hover = format!("{}<extra>%{{fullData.name}}</extra>", y.hover("y"));
        let measure = if self.y.names_of().is_some() { ("error_x", x) } else { ("error_y", y) };
        for (index, mark) in self.marks.iter().enumerate() {
            match mark {
                Mark::Line { name, ink, join, points } => {
                    let (xs, ys): (Vec<f64>, Vec<f64>) =
                        points.iter().map(|&(a, b)| (x.place(a), y.place(b))).unzip();
                    let line = Object::new().set("width", 2.0);
                    let line = if *join == Join::Steps { line.set("shape", "hv") } else { line };
                    let line = line.set("dash", DASHES[ink.stroke]).set("color", ink.color());
                    let mode = match join {
                        Join::Marked => "lines+markers",
                        Join::Not => "markers",
                        Join::Straight | Join::Steps => "lines",
                    };
                    let trace = scatter(name, mode, xs, ys).set("hovertemplate", &hover);
                    let trace = match join {
                        Join::Marked => trace.object("marker", mark_of(*ink, 7)),
                        Join::Not => trace.object("marker", stated(*ink, STATED[0])),
                        Join::Straight | Join::Steps => trace,
                    };
                    let is_cut = *join == Join::Straight || *join == Join::Steps;
                    let trace =
                        trace.object("line", line).set("cliponaxis", is_cut).set("connectgaps", false);
                    let values = points.iter().map(|(_, value)| *value);
                    traces.push(self.with_errors(trace, index, values, *ink, ("error_y", y)));
                }
                Mark::Dots { name, ink, values } => {
                    let is_same =
                        |mark: &&Mark| matches!(mark, Mark::Dots { ink: other, .. } if other == ink);
                    let before = self.marks[..index].iter().filter(is_same).count();
                    let all = self.marks.iter().filter(is_same).count();
                    let symbol = STATED[before % STATED.len()];
                    let offset = self.offset_of_dots(*ink, before, all);
                    let places = (0..values.len()).map(|place| rounded(place as f64 + offset));
                    let values: Vec<f64> = values.iter().map(|value| y.place(*value)).collect();
                    let trace = scatter(name, "markers", places.collect::<Vec<_>>(), values);
                    traces.push(trace.set("hovertemplate", &hover).object("marker", stated(*ink, symbol)));
                }
                Mark::Band { name, ink, points } => {
                    let xs: Vec<f64> = points.iter().map(|point| x.place(point.0)).collect();
                    let edge =
                        || Object::new().set("width", 0.0).set("shape", "hv").set("color", ink.color());
                    let lower: Vec<f64> = points.iter().map(|point| y.place(point.1)).collect();
                    let upper: Vec<f64> = points.iter().map(|point| y.place(point.2)).collect();
                    let base = Object::new().set("type", "scatter").set("showlegend", false);
                    let base = base.set("mode", "lines").set("x", &xs).set("y", lower);
                    traces.push(base.set("hoverinfo", "skip").object("line", edge()));
                    let top = scatter(name, "lines", xs, upper).set("hoverinfo", "skip");
                    let top = top.object("line", edge()).set("fill", "tonexty");
                    traces.push(top.set("fillcolor", ink.wash()));
                }
                Mark::Bars { name, ink, values, .. } if self.measures_in_log() => {
                    let dots = self.dots(name, *ink, values, x, y);
                    traces.push(self.with_errors(dots, index, values.iter().copied(), *ink, measure));
                }
                Mark::Bars { name, ink, values, labels } => {
                    let pattern = Object::new()
                        .set("shape", PATTERNS[ink.stroke])
                        .set("fillmode", "overlay")
                        .set("fgcolor", "#ffffff")
                        .set("fgopacity", 0.65)
                        .set("solidity", 0.3);
                    let marker = Object::new().set("color", ink.color()).object("pattern", pattern);
                    let labels: Vec<String> = labels.iter().map(|label| escaped(label)).collect();
                    let bar = self.bar(values, x, y, |bar| {
                        let bar = bar.set("name", escaped(name));
                        if labels.is_empty() {
                            return bar;
                        }
                        bar.set("text", &labels).set("textposition", "outside")
                    });
                    let bar = bar.object("marker", marker);
                    let bar = self.with_errors(bar, index, values.iter().copied(), Ink::GRAY, measure);
                    traces.push(if labels.is_empty() { bar } else { bar.set("cliponaxis", false) });
                }
                Mark::Gap { values } => {
                    let bar =
                        self.bar(values, x, y, |bar| bar.set("showlegend", false).set("hoverinfo", "skip"));
                    traces.push(bar.object("marker", Object::new().set("color", CLEAR)));
                }
                Mark::Heat { x: xs, y: ys, rows, most, label } => {
                    let percent = |row: &Vec<f64>| -> Vec<f64> {
                        row.iter().map(|share| libm::round(share * 1000.0) / 10.0).collect()
                    };
                    let xs: Vec<f64> = xs.iter().map(|value| x.place(*value)).collect();
                    let ys: Vec<f64> = ys.iter().map(|value| y.place(*value)).collect();
                    let rows: Vec<Vec<f64>> = rows.iter().map(percent).collect();
                    let bar = Object::new()
                        .set("outlinewidth", 0)
                        .set("thickness", 14)
                        .set("ticksuffix", " %")
                        .object("title", titled(label));
                    let hover = format!("{}<br>{}<br>%{{z}} %<extra></extra>", x.hover("x"), y.hover("y"));
                    let trace = Object::new()
                        .set("type", "heatmap")
                        .object("colorbar", bar)
                        .set("colorscale", "Cividis")
                        .set("hovertemplate", hover)
                        .set("x", xs)
                        .set("y", ys)
                        .set("z", rows)
                        .set("zmax", rounded(most * 100.0))
                        .set("zmin", 0.0);
                    traces.push(trace);
                }
            }
        }
        // The legend explains a shade: a text in the chart would cover the lines.
        for (_, _, label) in &self.shades {
            let swatch = Object::new().set("symbol", "square").set("size", 12).set("color", SHADE);
            let nothing = scatter(label, "markers", [f64::NAN], [f64::NAN]);
            traces.push(nothing.set("hoverinfo", "skip").object("marker", swatch));
        }
        traces
    }

    /// A trace with the error bars of its mark, along this axis.
    fn with_errors(
        &self,
        trace: Object,
        index: usize,
        values: impl Iterator<Item = f64>,
        ink: Ink,
        (key, axis): (&str, &FittedAxis<'_>),
    ) -> Object {
        let Some(halves) = self.errors.get(&index) else { return trace };
        // As lengths on a scaled axis; one that would reach below a logarithmic axis has no lower end there.
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for (value, half) in values.zip(halves) {
            let at = axis.place(value);
            above.push(rounded(axis.place(value + half) - at));
            below.push(rounded(at - axis.place(value - half)));
        }
        let bars = Object::new().set("type", "data").set("symmetric", false);
        let bars = bars.set("array", above).set("arrayminus", below);
        trace.object(key, bars.set("color", ink.color()).set("thickness", 1.5))
    }

    /// Offset of bars of this ink from their name, among bars side by side.
    fn offset_of_bars(&self, ink: Ink) -> f64 {
        let inks = self.marks.iter().filter_map(|mark| match mark {
            Mark::Bars { ink, .. } => Some(*ink),
            _ => None,
        });
        let inks: Vec<Ink> = inks.collect();
        let count = inks.len() as f64;
        let index = inks.iter().position(|other| *other == ink).map(|index| index as f64);
        index.map_or(0.0, |index| (index - (count - 1.0) / 2.0) * (1.0 - BAR_GAP) / count)
    }

    /// Offset of stated points: several on one bar are side by side.
    fn offset_of_dots(&self, ink: Ink, index: usize, count: usize) -> f64 {
        let bars = self.marks.iter().filter(|mark| matches!(mark, Mark::Bars { .. })).count().max(1);
        let width = (1.0 - BAR_GAP) / bars as f64;
        let beside = (index as f64 + 0.5) / count as f64 - 0.5;
        self.offset_of_bars(ink) + beside * width
    }

    /// Positions of names on their axis: the names or, with stated points on bars that are side by side,
    /// numbers from 0.
    fn places_of_names(&self) -> Vec<Value> {
        let names = self.x.names_of().or(self.y.names_of()).unwrap_or_default();
        match self.has_dots() {
            true => (0..names.len()).map(Value::from).collect(),
            false => names.iter().map(|name| Value::from(escaped(name))).collect(),
        }
    }

    fn has_dots(&self) -> bool {
        self.marks.iter().any(|mark| matches!(mark, Mark::Dots { .. }))
    }

    /// The horizontal axis.
    fn horizontal(&self, x: &FittedAxis<'_>) -> AxisLayout {
        let mut axis = x.layout();
        if !self.has_dots() {
            return axis;
        }
        let names = self.x.names_of().unwrap_or_default();
        let ticks = names.iter().enumerate().map(|(place, name)| (place as f64, escaped(name)));
        axis.kind = "linear";
        axis.range = Some((-0.5, names.len() as f64 - 0.5));
        axis.ticks = Some(ticks.collect());
        axis
    }

    /// Whether bars would be on a logarithmic axis.
    fn measures_in_log(&self) -> bool {
        if self.y.names_of().is_some() { self.x.is_log() } else { self.y.is_log() }
    }

    /// A point for each name.
    fn dots(&self, name: &str, ink: Ink, values: &[f64], x: &FittedAxis<'_>, y: &FittedAxis<'_>) -> Object {
        let lies = self.y.names_of().is_some();
        let names = self.places_of_names();
        let (measure, letter) = if lies { (x, "x") } else { (y, "y") };
        let values = values.iter().map(|value| Value::from(measure.place(*value))).collect();
        let (xs, ys) = if lies { (values, names) } else { (names, values) };
        let hover = format!("{}<extra>%{{fullData.name}}</extra>", measure.hover(letter));
        scatter(name, "markers", xs, ys).set("hovertemplate", hover).object("marker", mark_of(ink, 8))
    }

    /// Bars along the measured axis, without their marker: horizontal if the vertical axis has names. `own` sets
    /// their name and texts.
    fn bar(
        &self,
        values: &[f64],
        x: &FittedAxis<'_>,
        y: &FittedAxis<'_>,
        own: impl FnOnce(Object) -> Object,
    ) -> Object {
        let lies = self.y.names_of().is_some();
        let names = self.places_of_names();
        let (measure, letter) = if lies { (x, "x") } else { (y, "y") };
        let values = values.iter().map(|value| Value::from(measure.place(*value))).collect();
        let (xs, ys) = if lies { (values, names) } else { (names, values) };
        let hover = format!("{}<extra>%{{fullData.name}}</extra>", measure.hover(letter));
        let bar = own(Object::new().set("type", "bar").set("x", xs).set("y", ys)).set("hovertemplate", hover);
        if lies { bar.set("orientation", "h") } else { bar }
    }

    fn layout(&self, x: &FittedAxis<'_>, y: &FittedAxis<'_>, has_legend: bool) -> Object {
        let mut shapes = Vec::new();
        let mut annotations = Vec::new();
        // From the bottom to the top of the chart.
        let shape = |shape: Object, from: f64, to: f64| {
            let shape = shape.set("xref", "x").set("x0", from).set("x1", to);
            shape.set("yref", "paper").set("y0", 0.0).set("y1", 1.0)
        };
        for (from, to, _) in &self.shades {
            let rectangle = Object::new().set("type", "rect").set("layer", "below");
            let rectangle = shape(rectangle, x.place(*from), x.place(*to));
            let rectangle = rectangle.object("line", Object::new().set("width", 0.0));
            shapes.push(rectangle.set("fillcolor", SHADE));
        }
        for (at, label) in &self.rules {
            let line = Object::new().set("color", "#808080").set("width", 1.5).set("dash", "dot");
            let place = x.place(*at);
            shapes.push(shape(Object::new().set("type", "line"), place, place).object("line", line));
            let note = Object::new().set("text", escaped(label)).set("showarrow", false);
            let note = note.set("xref", "x").set("x", x.place_of_note(*at)).set("xanchor", "left");
            let note = note.set("xshift", 4.0).set("yref", "paper").set("y", 1.0).set("yanchor", "top");
            annotations.push(note);
        }
        let named = self.series().iter().filter(|(_, ink)| ink.is_some()).count();
        let lines = self.marks.iter().all(|mark| matches!(mark, Mark::Line { .. } | Mark::Band { .. }));
        let lies = self.y.names_of().is_some();
        let mut vertical = y.layout();
        if lies {
            // The first name is at the top.
            let last = self.y.names_of().map_or(0, <[String]>::len) as f64 - 0.5;
            vertical.range = Some((last, -0.5));
        }
        let legend = Object::new()
            .set("orientation", "h")
            .set("traceorder", "normal")
            .set("x", 0.0)
            .set("y", 1.02)
            .set("yanchor", "bottom");
        let margin = Object::new().set("l", 56).set("r", 16).set("t", 24).set("b", 48);
        Object::new()
            .set("showlegend", has_legend && named + self.shades.len() > 1)
            .object("legend", legend)
            .object("margin", margin)
            .set("hovermode", if lines && self.x.is_linear() { "x unified" } else { "closest" })
            .object("xaxis", self.horizontal(x).into_object())
            .object("yaxis", vertical.into_object())
            .objects("annotations", annotations)
            .objects("shapes", shapes)
            .set("barmode", if self.stacked { "stack" } else { "group" })
            .set("bargap", BAR_GAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;

    fn json(chart: &Chart) -> Value {
        serde_json::from_str(&chart.to_json()).unwrap()
    }

    // A value in the wrong unit is off by a factor of a thousand, which is invisible in a chart.
    #[test]
    fn values_are_in_the_unit_that_the_axis_names() {
        let chart =
            Chart::new(Axis::linear("time", Unit::Nanoseconds), Axis::linear("rate", Unit::BytesPerSecond))
                .steps("a", Ink::nth(0), vec![(0.0, 1.5e9), (2_500_000.0, f64::NAN), (5_000_000.0, 3e9)]);
        let json = json(&chart);
        assert_eq!(json["layout"]["xaxis"]["title"]["text"], "time (ms)");
        assert_eq!(json["layout"]["yaxis"]["title"]["text"], "rate (GB/s)");
        assert_eq!(json["data"][0]["x"], serde_json::json!([0.0, 2.5, 5.0]));
        assert_eq!(json["data"][0]["y"], serde_json::json!([1.5, null, 3.0]), "not a number is a gap");
        assert_eq!(
            chart.describe(),
            "Line chart of a. Horizontal: time (ms), 0 ns to 5 ms. Vertical: rate (GB/s), 1.5 GB/s to 3 GB/s."
        );
    }

    // Without them a difference by chance looks like one of the drives; in another unit than the values they would be invisible.
    #[test]
    fn error_bars_are_in_the_unit_of_their_axis_and_end_within_it() {
        let axis = || (Axis::linear("depth", Unit::Count), Axis::linear("latency", Unit::Nanoseconds));
        let (x, y) = axis();
        let points = vec![(1.0, 50_000.0), (2.0, 90_000.0)];
        let chart =
            Chart::new(x, y).marked("a", Ink::nth(0), points.clone()).error_bars(vec![1500.0, 20_000.0]);
        let drawn = json(&chart);
        assert_eq!(drawn["data"][0]["error_y"]["array"], serde_json::json!([1.5, 20.0]));
        assert_eq!(drawn["data"][0]["error_y"]["arrayminus"], serde_json::json!([1.5, 20.0]));
        assert!(chart.describe().contains("to 110 us"), "{}", chart.describe());
        // Runs without replicates look as before.
        let (x, y) = axis();
        let exact = Chart::new(x, y).marked("a", Ink::nth(0), points).error_bars(vec![0.0; 2]);
        assert!(json(&exact)["data"][0].get("error_y").is_none());
        let names = Axis::names("method", ["prp", "sgl"].map(str::to_owned));
        let bars = Chart::new(names, Axis::linear("latency", Unit::Nanoseconds))
            .bars("a", Ink::nth(0), vec![50_000.0, f64::NAN])
            .error_bars(vec![1000.0, 0.0]);
        assert_eq!(json(&bars)["data"][0]["error_y"]["array"], serde_json::json!([1.0, null]));
    }

    // Series that differ only in colour are one series to one reader in twelve, and in every grey print.
    #[test]
    fn no_two_of_the_first_series_look_the_same_without_colour() {
        for (a, b) in (0..5).flat_map(|a| (0..a).map(move |b| (a, b))) {
            assert_ne!(Ink::nth(a).stroke, Ink::nth(b).stroke);
        }
        for (a, b) in (0..7).flat_map(|a| (0..a).map(move |b| (a, b))) {
            assert_ne!(Ink::nth(a).color(), Ink::nth(b).color());
        }
    }

    /// CIELAB distance of two colours under simulated colour blindness (matrices of Machado, Oliveira and
    /// Fernandes 2009, severity 1, on linear RGB).
    fn distance(a: &str, b: &str, eye: [[f64; 3]; 3]) -> f64 {
        let lab = |hex: &str| -> [f64; 3] {
            let linear: Vec<f64> = [1, 3, 5]
                .iter()
                .map(|at| f64::from(u8::from_str_radix(&hex[*at..at + 2], 16).unwrap()) / 255.0)
                .map(|c| if c <= 0.04045 { c / 12.92 } else { libm::pow((c + 0.055) / 1.055, 2.4) })
                .collect();
            let seen =
                eye.map(|row| row.iter().zip(&linear).map(|(a, b)| a * b).sum::<f64>().clamp(0.0, 1.0));
            let [red, green, blue] = seen;
            let xyz = [
                (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
                0.2126 * red + 0.7152 * green + 0.0722 * blue,
                (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089,
            ];
            let [x, y, z] = xyz.map(|c| if c > 0.008856 { libm::cbrt(c) } else { 7.787 * c + 16.0 / 116.0 });
            [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
        };
        let (a, b) = (lab(a), lab(b));
        libm::sqrt((0..3).map(|at| (a[at] - b[at]) * (a[at] - b[at])).sum())
    }

    // p99 and maximum, which are adjacent, once had two oranges that look equal to one man in twelve. A
    // distance of 25 is that of two hues; theirs was below 20.
    #[test]
    fn p99_and_the_longest_look_different_to_everyone_and_in_print() {
        let eyes = [
            ("all cones", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
            (
                "no red",
                [
                    [0.152286, 1.052583, -0.204868],
                    [0.114503, 0.786281, 0.099216],
                    [-0.003882, -0.048116, 1.051998],
                ],
            ),
            (
                "no green",
                [
                    [0.367322, 0.860646, -0.227968],
                    [0.280085, 0.672501, 0.047413],
                    [-0.011820, 0.042940, 0.968881],
                ],
            ),
            (
                "no blue",
                [
                    [1.255528, -0.076749, -0.178779],
                    [-0.078411, 0.930809, 0.147602],
                    [0.004733, 0.691367, 0.303900],
                ],
            ),
        ];
        let look = [Ink::MEDIAN, Ink::P99, Ink::LONGEST];
        for (eye, matrix) in eyes {
            for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                let found = distance(look[a].color(), look[b].color(), matrix);
                assert!(found >= 25.0, "{:?} and {:?} to {eye}: {found:.0}", look[a], look[b]);
            }
            if eye == "no green" {
                assert!(distance("#D55E00", "#E69F00", matrix) < 20.0, "what they were");
            }
        }
        let all = [Ink::MEDIAN, Ink::P99, Ink::LONGEST, Ink::P999, Ink::MEAN];
        for (a, b) in (0..5).flat_map(|a| (0..a).map(move |b| (a, b))) {
            assert_ne!(all[a].stroke, all[b].stroke, "on paper the strokes are all there is");
        }
    }

    // The length of a bar on a logarithmic axis depends only on where the axis begins.
    #[test]
    fn there_are_no_bars_on_a_logarithmic_axis() {
        let names = || Axis::names("", ["a", "b"]);
        let log = || Axis::log("latency", Unit::Nanoseconds);
        for chart in [Chart::new(names(), log()), Chart::new(log(), names())] {
            let json = json(&chart.bars("p50", Ink::MEDIAN, vec![10.0, 1000.0]));
            assert_eq!(
                (&json["data"][0]["type"], &json["data"][0]["mode"]),
                (&"scatter".into(), &"markers".into())
            );
        }
        let linear = Chart::new(names(), Axis::linear("", Unit::Count)).bars("", Ink::GRAY, vec![1.0, 2.0]);
        assert_eq!(json(&linear)["data"][0]["type"], "bar");
    }

    // Two charts with separate scales make a flat curve look as steep as the other.
    #[test]
    fn charts_that_span_the_same_values_have_the_same_scale() {
        let of = |axis: Axis, top: f64| {
            let chart = Chart::new(Axis::linear("x", Unit::Count), axis.spanning([2.0, 5_000.0, f64::NAN]));
            json(&chart.line("a", Ink::nth(0), vec![(0.0, 5.0), (1.0, top)]))["layout"]["yaxis"].clone()
        };
        for axis in [Axis::linear("y", Unit::Nanoseconds), Axis::log("y", Unit::Nanoseconds)] {
            let (flat, steep) = (of(axis.clone(), 8.0), of(axis, 4_000.0));
            assert_eq!((&flat["range"], &flat["title"]), (&steep["range"], &steep["title"]));
            assert!(flat["range"].is_array(), "{flat}");
        }
    }

    // Positioned by its decade instead of its value, a line was at 1.4 instead of 24.
    #[test]
    fn a_rule_stands_at_its_value_on_a_logarithmic_axis() {
        let x = Axis::log_at_points("in flight", Unit::Count);
        let chart = Chart::new(x, Axis::linear("", Unit::Iops))
            .line("a", Ink::nth(0), vec![(1.0, 1.0), (256.0, 2.0)])
            .rule(24.0, "knee");
        let layout = &json(&chart)["layout"];
        assert_eq!((&layout["shapes"][0]["x0"], &layout["shapes"][0]["x1"]), (&24.0.into(), &24.0.into()));
        let note = layout["annotations"][0]["x"].as_f64().unwrap();
        assert!((note - libm::log10(24.0)).abs() < 1e-3, "a note is placed by decades: {note}");
    }

    // With shares of at most a third, all cells had the darkest third of the colours.
    #[test]
    fn the_colours_of_parts_end_at_the_largest() {
        let of = |chart: Chart| json(&chart)["data"][0]["zmax"].clone();
        let empty = || Chart::new(Axis::linear("", Unit::Count), Axis::linear("", Unit::Count));
        let rows = || vec![vec![0.02, 0.31]];
        assert_eq!(of(empty().heat_of_parts(vec![0.0, 1.0], vec![0.0], rows(), "")), 35.0);
        assert_eq!(of(empty().heat(vec![0.0, 1.0], vec![0.0], rows(), "")), 100.0);
    }

    // p50 and p99 are equal for a drive whose I/Os all take the same time; only one of them was visible.
    #[test]
    fn two_series_of_one_value_are_both_seen() {
        let look = |ink: Ink| {
            let chart = Chart::new(Axis::names("", ["a"]), Axis::log("", Unit::Nanoseconds));
            json(&chart.bars("p", ink, vec![5.0]))["data"][0]["marker"].clone()
        };
        for index in 0..10 {
            let (one, other) = (look(Ink::twice(index, 0)), look(Ink::twice(index, 1)));
            assert!(other["size"].as_f64() > one["size"].as_f64(), "{index}");
            assert_eq!(other["color"], "rgba(0,0,0,0)", "a ring: {index}");
            for before in 0..index {
                let same = (Ink::twice(before, 0), Ink::twice(before, 1));
                assert!(same.0 != Ink::twice(index, 0) && same.1 != Ink::twice(index, 1), "{before} {index}");
            }
        }
    }

    // In the middle of its name a stated point would be on the bar of another series, or between two.
    #[test]
    fn stated_points_lie_upon_the_bars_of_their_series() {
        let inks = [0, 1, 2, 3].map(Ink::nth);
        let mut chart = Chart::new(Axis::names("", ["a", "b"]), Axis::linear("", Unit::Count));
        for ink in inks {
            chart = chart.bars("ours", ink, vec![1.0, 2.0]);
        }
        for ink in [inks[0], inks[2], inks[2]] {
            chart = chart.stated_bars("paper", ink, vec![f64::NAN, 3.0]);
        }
        let json = json(&chart);
        let [first, third, again] = [4, 5, 6].map(|index| &json["data"][index]);
        // Each of four bars has a quarter of three quarters of the space.
        assert_eq!(json["data"][0]["x"], serde_json::json!([0, 1]));
        assert_eq!(first["x"], serde_json::json!([-0.28125, 0.71875]));
        // Two points of the third series are side by side on its bar, a quarter of its width from the centre.
        assert_eq!(third["x"], serde_json::json!([0.046875, 1.0469]));
        assert_eq!(again["x"], serde_json::json!([0.14062, 1.1406]));
        assert_eq!(first["marker"]["color"], "#ffffff", "upon a bar of its own colour it can be seen");
        assert_eq!(third["y"], serde_json::json!([null, 3.0]));
        assert_ne!(third["marker"]["symbol"], again["marker"]["symbol"], "two statements look different");
        let axis = &json["layout"]["xaxis"];
        assert_eq!((&axis["type"], &axis["ticktext"]), (&"linear".into(), &serde_json::json!(["a", "b"])));
    }

    // Stacked bars must fit the axis; names are text, not markup.
    #[test]
    fn bars_stack_within_the_axis() {
        let chart = Chart::new(Axis::linear("time", Unit::Nanoseconds), Axis::names("", ["a<b>", "c"]))
            .gap(vec![0.0, 900.0])
            .bars("", Ink::nth(0), vec![900.0, 600.0])
            .stacked();
        let json = json(&chart);
        assert_eq!(json["layout"]["xaxis"]["title"]["text"], "time (us)");
        assert_eq!(json["data"][1]["x"], serde_json::json!([0.9, 0.6]));
        assert_eq!(json["data"][1]["y"], serde_json::json!(["a&lt;b>", "c"]));
        assert_eq!(json["data"][1]["orientation"], "h");
        assert!(Chart::new(Axis::names("", ["a"]), Axis::linear("", Unit::Count)).is_empty());
    }
}
