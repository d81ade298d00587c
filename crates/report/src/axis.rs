//! Axes of charts: quantity, unit and ticks.

use crate::object::{Object, titled};

/// The quantity on an axis. Values are given in the unit named here; the axis shows them in a suitable unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Time in nanoseconds.
    Nanoseconds,
    /// A rate in bytes per second.
    BytesPerSecond,
    /// A rate in I/Os per second.
    Iops,
    /// Bytes, counted in decimal units.
    Bytes,
    /// A size that is usually a power of two: 4 KiB, 1 MiB.
    BinaryBytes,
    /// A share, as a fraction of 1; shown in percent.
    Share,
    /// A count, or a plain number.
    Count,
}

impl Unit {
    /// Units in ascending order: name and size.
    fn scales(self) -> &'static [(&'static str, f64)] {
        match self {
            Unit::Nanoseconds => &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)],
            Unit::BytesPerSecond => &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9)],
            Unit::Iops => &[("IOPS", 1.0), ("thousand IOPS", 1e3), ("million IOPS", 1e6)],
            Unit::Bytes => &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)],
            Unit::BinaryBytes => &[
                ("B", 1.0),
                ("KiB", 1024.0),
                ("MiB", 1_048_576.0),
                ("GiB", 1_073_741_824.0),
                ("TiB", 1_099_511_627_776.0),
            ],
            Unit::Share => &[("%", 0.01)],
            Unit::Count => &[("", 1.0)],
        }
    }

    /// The largest unit that is not above `value`.
    fn scale(self, value: f64) -> (&'static str, f64) {
        let scales = self.scales();
        scales.iter().rev().find(|(_, size)| value >= *size).copied().unwrap_or(scales[0])
    }

    /// The text of a tick: `10 us`.
    fn label(self, value: f64) -> String {
        let (name, size) = match self {
            Unit::Iops | Unit::Count => match value {
                value if value >= 1e9 => ("G", 1e9),
                value if value >= 1e6 => ("M", 1e6),
                value if value >= 1e4 => ("K", 1e3),
                _ => ("", 1.0),
            },
            _ => self.scale(value),
        };
        let space = if name.is_empty() { "" } else { " " };
        format!("{}{space}{name}", rounded(value / size))
    }
}

/// `value` to five significant digits, which is enough for a chart and a third as long.
pub(crate) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[derive(Clone, Debug, PartialEq)]
enum Scale {
    Linear,
    Log { ticks_at_points: bool },
    Tail,
    Names(Vec<String>),
}

/// An axis of a chart.
#[derive(Clone, Debug)]
pub struct Axis {
    title: String,
    unit: Unit,
    scale: Scale,
    range: Option<(f64, f64)>,
    span: Option<(f64, f64)>,
    from_zero: bool,
}

impl Axis {
    /// A linear axis; begins at 0, unless it has a range or the data are negative.
    pub fn linear(title: impl Into<String>, unit: Unit) -> Axis {
        Axis { title: title.into(), unit, scale: Scale::Linear, range: None, span: None, from_zero: true }
    }

    /// A logarithmic axis. Values that are not above 0 are omitted.
    pub fn log(title: impl Into<String>, unit: Unit) -> Axis {
        Axis { scale: Scale::Log { ticks_at_points: false }, ..Axis::linear(title, unit) }
    }

    /// A logarithmic axis with ticks at the points, for chosen values such as 1, 2, 4, ... 256.
    pub fn log_at_points(title: impl Into<String>, unit: Unit) -> Axis {
        Axis { scale: Scale::Log { ticks_at_points: true }, ..Axis::linear(title, unit) }
    }

    /// An axis for cumulative shares, stretched towards 1: 90 %, 99 % and 99.9 % are at equal distances, so
    /// that a tail is visible. A share of 1 is infinitely far away, and is omitted.
    pub fn tail(title: impl Into<String>) -> Axis {
        Axis { scale: Scale::Tail, ..Axis::linear(title, Unit::Share) }
    }

    /// An axis of names, for bars: one for each value of [`crate::Chart::bars`].
    pub fn names<T: Into<String>>(title: impl Into<String>, names: impl IntoIterator<Item = T>) -> Axis {
        let names = names.into_iter().map(Into::into).collect();
        Axis { scale: Scale::Names(names), ..Axis::linear(title, Unit::Count) }
    }

    /// Sets the range, independent of the data.
    pub fn range(mut self, low: f64, high: f64) -> Axis {
        self.range = Some((low, high));
        self
    }

    /// Extends the range to these values: for charts that have to have the same scale.
    pub fn spanning(mut self, values: impl IntoIterator<Item = f64>) -> Axis {
        for value in values {
            if self.holds(value) {
                let (low, high) = self.span.unwrap_or((value, value));
                self.span = Some((low.min(value), high.max(value)));
            }
        }
        self
    }

    /// Makes a linear axis begin near the smallest value instead of at 0.
    pub fn from_data(mut self) -> Axis {
        self.from_zero = false;
        self
    }

    pub(crate) fn names_of(&self) -> Option<&[String]> {
        match &self.scale {
            Scale::Names(names) => Some(names),
            _ => None,
        }
    }

    pub(crate) fn is_log(&self) -> bool {
        matches!(self.scale, Scale::Log { .. })
    }

    pub(crate) fn is_linear(&self) -> bool {
        self.scale == Scale::Linear
    }

    /// Fits the axis to these values: selects a unit and ticks.
    pub(crate) fn fit(&self, values: impl Iterator<Item = f64>) -> FittedAxis<'_> {
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut points = Vec::new();
        let mut is_whole = self.unit == Unit::Count && self.is_linear();
        let keep = self.scale == Scale::Log { ticks_at_points: true };
        let ends = self.range.into_iter().chain(self.span).flat_map(|(low, high)| [low, high]);
        for value in values.chain(ends) {
            if self.holds(value) {
                min = min.min(value);
                max = max.max(value);
                is_whole &= value.fract() == 0.0;
                if keep && !points.contains(&value) && points.len() <= TICKS_MAX {
                    points.push(value);
                }
            }
        }
        points.sort_by(f64::total_cmp);
        let (unit_name, size) = match self.scale {
            _ if min > max => self.unit.scales()[0],
            Scale::Log { .. } => self.unit.scale(min),
            _ => self.unit.scale(max.abs().max(min.abs())),
        };
        FittedAxis { axis: self, min, max, is_whole, points, unit_name, size }
    }

    fn holds(&self, value: f64) -> bool {
        match self.scale {
            Scale::Linear | Scale::Names(_) => value.is_finite(),
            Scale::Log { .. } => value.is_finite() && value > 0.0,
            Scale::Tail => (0.0..1.0).contains(&value),
        }
    }
}

/// Factor by which a logarithmic axis extends beyond its outer ticks: for round numbers, and for ticks at
/// points.
const EDGE: f64 = 1.06;
const EDGE_OF_POINTS: f64 = 1.15;
/// Ticks, at most; more would overlap.
const TICKS_MAX: usize = 12;
/// Counts up to which an axis has a tick for each.
const WHOLE_TICKS_MAX: f64 = 8.0;
/// Ticks of a tail axis: from half of the I/Os to all but one in a million.
const TAIL_TICKS: [(f64, &str); 7] = [
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.99999, "99.999 %"),
    (0.999999, "99.9999 %"),
];

/// An axis that is fitted to its data.
pub(crate) struct FittedAxis<'a> {
    axis: &'a Axis,
    min: f64,
    max: f64,
    /// Whether it counts, and all its values are whole.
    is_whole: bool,
    points: Vec<f64>,
    pub(crate) unit_name: &'static str,
    size: f64,
}

impl FittedAxis<'_> {
    /// Position of a value in the axis's unit; NaN if it has none.
    pub(crate) fn place(&self, value: f64) -> f64 {
        match self.axis.scale {
            _ if !self.axis.holds(value) => f64::NAN,
            Scale::Tail => rounded(-libm::log10(1.0 - value)),
            _ => rounded(value / self.size),
        }
    }

    /// Position of an annotation or an end of the axis. For these Plotly counts a logarithmic axis in
    /// decades; for shapes, in data values.
    pub(crate) fn place_of_note(&self, value: f64) -> f64 {
        match self.axis.scale {
            Scale::Log { .. } => rounded(libm::log10(value / self.size)),
            _ => self.place(value),
        }
    }

    /// The title with the unit.
    pub(crate) fn title(&self) -> String {
        let plain = matches!(self.axis.scale, Scale::Names(_) | Scale::Tail | Scale::Log { .. });
        match self.unit_name {
            "" => self.axis.title.clone(),
            _ if plain => self.axis.title.clone(),
            unit if self.axis.title.is_empty() => unit.to_owned(),
            unit => format!("{} ({unit})", self.axis.title),
        }
    }

    /// Plotly's hover template for a value; `letter` is `x` or `y`.
    pub(crate) fn hover(&self, letter: &str) -> String {
        match self.axis.scale {
            Scale::Names(_) | Scale::Tail => format!("%{{{letter}}}"),
            _ => format!("%{{{letter}:,.4~g}} {}", self.unit_name).trim_end().to_owned(),
        }
    }

    /// The range, in words.
    pub(crate) fn extent(&self) -> String {
        match &self.axis.scale {
            Scale::Names(names) => names.join(", "),
            _ if self.min > self.max => "no values".to_owned(),
            _ => {
                let label = |value| match self.axis.unit {
                    Unit::Share => format!("{} %", rounded(value * 100.0)),
                    unit => unit.label(value),
                };
                format!("{} to {}", label(self.min), label(self.max))
            }
        }
    }

    /// The axis as Plotly's layout.
    pub(crate) fn layout(&self) -> AxisLayout {
        let title = self.title();
        let axis =
            |kind| AxisLayout { title, kind, is_from_zero: false, range: None, ticks: None, step: None };
        match &self.axis.scale {
            Scale::Names(_) => axis("category"),
            Scale::Linear => {
                let low = if self.axis.from_zero { self.min.min(0.0) } else { self.min };
                // Plotly divides what is small into halves and fifths: half a command is in no queue.
                let is_small = self.is_whole && (0.0..=WHOLE_TICKS_MAX).contains(&(self.max - low));
                let axis = AxisLayout { step: is_small.then_some(1.0), ..axis("linear") };
                match self.axis.range {
                    Some((low, high)) => {
                        AxisLayout { range: Some((self.place(low), self.place(high))), ..axis }
                    }
                    None if self.axis.span.is_some() => {
                        let (low, high) = spanned(self.min, self.max, self.axis.from_zero);
                        AxisLayout { range: Some((self.place(low), self.place(high))), ..axis }
                    }
                    None => AxisLayout { is_from_zero: self.axis.from_zero, ..axis },
                }
            }
            Scale::Log { .. } if self.min > self.max => axis("log"),
            Scale::Log { ticks_at_points } => {
                let by_points = *ticks_at_points && self.points.len() <= TICKS_MAX;
                let (mut low, mut high) = (self.min, self.max);
                let ticks = match by_points {
                    true => {
                        low /= EDGE_OF_POINTS;
                        high *= EDGE_OF_POINTS;
                        self.points.clone()
                    }
                    false => {
                        let ticks = match self.axis.unit {
                            Unit::BinaryBytes => binary_ticks(self.min, self.max),
                            _ => log_ticks(self.min, self.max),
                        };
                        // Extend the range beyond the outer ticks: at the edge a label is omitted, and a mark
                        // is cut in half.
                        low = ticks.first().copied().unwrap_or(low) / EDGE;
                        high = ticks.last().copied().unwrap_or(high) * EDGE;
                        if self.axis.unit == Unit::BinaryBytes { ticks } else { thinned(ticks) }
                    }
                };
                let label = |value: f64| (rounded(value / self.size), self.axis.unit.label(value));
                let range = Some((self.place_of_note(low), self.place_of_note(high)));
                AxisLayout { range, ticks: Some(ticks.into_iter().map(label).collect()), ..axis("log") }
            }
            Scale::Tail => {
                let ticks = TAIL_TICKS.map(|(share, label)| (self.place(share), label.to_owned()));
                let most = self.place(self.max.clamp(0.99, 0.999999)) + 0.1;
                let range = Some((0.0, rounded(most)));
                AxisLayout { range, ticks: Some(ticks.to_vec()), ..axis("linear") }
            }
        }
    }
}

/// An axis as Plotly's layout.
pub(crate) struct AxisLayout {
    title: String,
    /// Plotly's type: `linear`, `log` or `category`.
    pub(crate) kind: &'static str,
    /// Whether the range includes zero, if Plotly selects it.
    is_from_zero: bool,
    /// Both ends; `None`: Plotly selects them.
    pub(crate) range: Option<(f64, f64)>,
    /// Places and labels; `None`: Plotly selects them.
    pub(crate) ticks: Option<Vec<(f64, String)>>,
    /// Distance of the ticks; `None`: Plotly selects it.
    step: Option<f64>,
}

impl AxisLayout {
    /// The attributes.
    pub(crate) fn into_object(self) -> Object {
        let mut axis = Object::new().object("title", titled(&self.title)).set("type", self.kind);
        if self.is_from_zero {
            axis = axis.set("rangemode", "tozero");
        }
        if let Some(range) = self.range {
            axis = axis.set("range", range);
        }
        if let Some(ticks) = self.ticks {
            let (places, labels): (Vec<f64>, Vec<String>) = ticks.into_iter().unzip();
            axis = axis.set("tickmode", "array").set("tickvals", places).set("ticktext", labels);
        }
        if let Some(step) = self.step {
            axis = axis.set("dtick", step);
        }
        axis.set("automargin", true).set("exponentformat", "SI").set("hoverformat", ",.4~g")
    }
}

/// The range of a linear axis for these values, with a margin.
fn spanned(min: f64, max: f64, from_zero: bool) -> (f64, f64) {
    let low = if from_zero { min.min(0.0) } else { min };
    let margin = (max - low) * 0.05;
    (if low == 0.0 { 0.0 } else { low - margin }, max + margin)
}

/// The numbers 1, 2 and 5 times a power of ten, from just below `min` to just above `max`, both above 0.
fn log_ticks(min: f64, max: f64) -> Vec<f64> {
    let (min, max) = (min.max(1e-9), max.clamp(1e-9, 1e30));
    let mut ticks = Vec::new();
    for exponent in -10..=31 {
        for digit in [1, 2, 5] {
            let tick: f64 = format!("{digit}e{exponent}").parse().unwrap_or(1.0);
            if tick <= min {
                ticks.clear();
            }
            ticks.push(tick);
            if tick >= max && ticks.len() > 1 {
                return ticks;
            }
        }
    }
    ticks
}

/// Powers of two, or of a power of two, from just below `min` to just above `max`, both above 0; at most
/// nine.
fn binary_ticks(min: f64, max: f64) -> Vec<f64> {
    let first = libm::floor(libm::log2(min)) as i32;
    let steps = libm::ceil(libm::log2(max)) as i32 - first;
    let step = (steps.max(1) as u32).div_ceil(8) as i32;
    (0..=(steps.max(1) + step - 1) / step).map(|tick| libm::ldexp(1.0, first + tick * step)).collect()
}

/// Thins ticks to about eight: only the powers of ten, then every second of them.
fn thinned(ticks: Vec<f64>) -> Vec<f64> {
    if ticks.len() <= 8 {
        return ticks;
    }
    let tens: Vec<f64> = ticks.into_iter().filter(|tick| format!("{tick:e}").starts_with('1')).collect();
    let step = tens.len().div_ceil(8);
    tens.into_iter().step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // A depth of 1 to 3 had ticks at 1.5 and 2.5.
    #[test]
    fn ticks_of_counts_are_whole() {
        let step = |axis: Axis, values: &[f64]| axis.fit(values.iter().copied()).layout().step;
        let depth = || Axis::linear("depth", Unit::Count);
        assert_eq!(step(depth(), &[1.0, 2.0, 3.0]), Some(1.0));
        assert_eq!((step(depth(), &[1.0, 2.5]), step(depth(), &[1.0, 300.0])), (None, None));
        assert_eq!(step(Axis::linear("share", Unit::Share), &[0.0, 1.0]), None);
        assert_eq!(step(Axis::log("depth", Unit::Count), &[1.0, 2.0]), None);
    }

    // Plotly's own ticks of a logarithmic axis are 65.5k instead of 64 KiB, or missing.
    #[test]
    fn ticks_of_a_logarithmic_axis_are_round_numbers() {
        assert_eq!(log_ticks(65_000.0, 330_000.0), [50_000.0, 100_000.0, 200_000.0, 500_000.0]);
        assert_eq!(log_ticks(10.0, 10.0), [10.0, 20.0]);
        assert_eq!(thinned(log_ticks(1.0, 1e9)).len(), 5);
        let labels = |axis: &Axis, values: &[f64]| {
            let json = axis.fit(values.iter().copied()).layout().into_object().into_json();
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            (json["ticktext"].clone(), json["range"].clone())
        };
        let (text, range) = labels(&Axis::log("", Unit::Nanoseconds), &[65_000.0, 1_100_000.0, 0.0]);
        assert_eq!(text, serde_json::json!(["50 us", "100 us", "200 us", "500 us", "1 ms", "2 ms"]));
        assert_eq!(range, serde_json::json!([1.6737, 3.3263]), "decades of the axis's unit");
        let (text, range) = labels(&Axis::log("", Unit::BinaryBytes), &[8.0, 48.0, 2048.0]);
        assert_eq!(
            text,
            serde_json::json!(["8 B", "16 B", "32 B", "64 B", "128 B", "256 B", "512 B", "1 KiB", "2 KiB"])
        );
        assert_eq!(range, serde_json::json!([0.87778, 3.3366]));
        let (text, _) = labels(&Axis::log("", Unit::BinaryBytes), &[3.0, 4096.0]);
        assert_eq!(text, serde_json::json!(["2 B", "8 B", "32 B", "128 B", "512 B", "2 KiB", "8 KiB"]));
        assert_eq!(binary_ticks(32.0, 32.0), [32.0, 64.0]);
        let sizes = [512.0, 4096.0, 65_536.0, 1_048_576.0];
        let (text, _) = labels(&Axis::log_at_points("", Unit::BinaryBytes), &sizes);
        assert_eq!(text, serde_json::json!(["512 B", "4 KiB", "64 KiB", "1 MiB"]));
        let (text, _) = labels(&Axis::log_at_points("", Unit::Count), &[1.0, 16.0, 1024.0, 131_072.0]);
        assert_eq!(text, serde_json::json!(["1", "16", "1024", "131.07 K"]));
    }

    // On a linear axis the whole tail would be within one pixel of 100 %.
    #[test]
    fn a_tail_has_a_place_for_each_nine() {
        let axis = Axis::tail("share");
        let fitted = axis.fit([0.5, 0.9, 0.99].into_iter());
        assert_eq!((fitted.place(0.9), fitted.place(0.99), fitted.place(0.999)), (1.0, 2.0, 3.0));
        assert!(fitted.place(1.0).is_nan() && fitted.place(-0.1).is_nan());
        assert_eq!(rounded(0.1 + 0.2), 0.3);
    }

    // A run that is interrupted at once has no values, and its axes no range.
    #[test]
    fn an_axis_without_values_has_a_layout() {
        let axes = [
            Axis::linear("", Unit::Iops),
            Axis::log("", Unit::Nanoseconds),
            Axis::log_at_points("", Unit::Count),
            Axis::tail(""),
            Axis::names::<String>("", []),
        ];
        for axis in axes {
            let fitted = axis.fit([f64::NAN].into_iter());
            assert!(!fitted.layout().into_object().into_json().is_empty());
        }
    }
}
