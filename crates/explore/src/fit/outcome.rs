//! The result of a fit, and `fit.json`:
//!
//! ```text
//! byteway, file, base, host, sets   version, the measurements, and what was given
//! partial                           it was interrupted: the best constants so far
//! structure[]                       key, value, identified, why (with --structure)
//! constants[]                       key, unit, base, value, low, high (bounds), verdict: "fitted" or "assumed"
//!                                   half_width: half of the 95 % interval, as a share of the value (null: none)
//!                                   given[]: assumed constants on which a fitted one rests
//!                                   why: of an assumed one, in a sentence
//! points[]                          name, load, source, held_out, figures[]: figure, unit, measured, base, simulated,
//!                                   residual: simulated / measured - 1
//! fitted, held_out                  count, rms, largest: of the residuals of each
//! notes[]
//! ```

use std::fmt::Write as _;

use serde::Serialize;

use super::constant::{Constant, ConstantUnit};
use super::identify::Reason;
use super::measurement::{Figure, Load};
use super::model::quoted;
use super::structure::Derived;
use byteway_scenario::profile::Profile;
use byteway_text::table::{number, rate, time};

/// What became of a constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The points determine it.
    Fitted {
        /// Half of the 95 % confidence interval, as a share of the value; `None` after an interrupt.
        half_width: Option<f64>,
        /// Constants on whose assumed values this one rests: only a combination with them is identified.
        given: Vec<Constant>,
    },
    /// They don't: it is the base's.
    Assumed(Reason),
}

/// A constant of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstantOutcome {
    /// The constant.
    pub constant: Constant,
    /// Its value in the base.
    pub base: f64,
    /// Its value in the result.
    pub value: f64,
    /// Fitted or assumed.
    pub verdict: Verdict,
}

/// A figure, measured and simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// The figure.
    pub figure: Figure,
    /// As measured.
    pub measured: f64,
    /// As the base gives it.
    pub base: f64,
    /// As the result gives it.
    pub simulated: f64,
}

impl Residual {
    /// Relative difference of the simulated figure.
    pub fn relative(&self) -> f64 {
        self.simulated / self.measured - 1.0
    }
}

/// A point of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedPoint {
    /// Its name.
    pub name: String,
    /// The load.
    pub load: Load,
    /// Where its values come from.
    pub source: Option<String>,
    /// Whether it was held out.
    pub held_out: bool,
    /// Its figures.
    pub residuals: Vec<Residual>,
}

/// The result of a fit.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Name of the measurements' file.
    pub file: String,
    /// The base, as it was given.
    pub base: String,
    /// The host's profile.
    pub host: String,
    /// Further keys of the scenarios.
    pub sets: Vec<String>,
    /// Keys of the profile with their TOML, and the constant of each.
    pub(super) settings: Vec<(String, String, Constant)>,
    /// Whole numbers that were searched.
    pub derived: Vec<Derived>,
    /// All constants.
    pub constants: Vec<ConstantOutcome>,
    /// All points, in the order of the file.
    pub points: Vec<FittedPoint>,
    /// Notes on the measurements.
    pub notes: Vec<String>,
    /// Whether it was interrupted.
    pub partial: bool,
    /// The base profile.
    pub(super) profile: Profile,
}

/// Residuals in short.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Number of figures.
    pub count: usize,
    /// Root of the mean square, as a share.
    pub rms: f64,
    /// The largest, as a share.
    pub largest: f64,
}

/// A value with its unit.
pub(super) fn shown(constant: Constant, value: f64) -> String {
    match constant.unit() {
        ConstantUnit::Nanoseconds => time(value),
        ConstantUnit::Cycles => format!("{value} cycles"),
        ConstantUnit::BytesPerSecond => rate(value),
        ConstantUnit::Percent => format!("{value} %"),
    }
}

/// A figure with its unit.
pub(super) fn shown_figure(figure: Figure, value: f64) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    if figure.is_time() { time(value) } else { format!("{}/s", number(value)) }
}

impl Fit {
    /// The residuals of the fitted points, or of those held out.
    pub fn spread(&self, held_out: bool) -> Spread {
        let own = self.points.iter().filter(|point| point.held_out == held_out);
        let relative = own.flat_map(|point| &point.residuals).map(Residual::relative);
        let all: Vec<f64> = relative.filter(|residual| residual.is_finite()).collect();
        let squares: f64 = all.iter().map(|residual| residual * residual).sum();
        Spread {
            count: all.len(),
            rms: (squares / all.len().max(1) as f64).sqrt(),
            largest: all.iter().fold(
                0.0,
                |largest: f64, residual| if residual.abs() > largest.abs() { *residual } else { largest },
            ),
        }
    }

    /// The outcome of a constant, by its key.
    pub fn constant(&self, key: &str) -> Option<&ConstantOutcome> {
        self.constants.iter().find(|outcome| outcome.constant.key() == key)
    }

    /// The contents of `fit.json`.
    pub fn to_json(&self) -> String {
        let json = Json {
            byteway: env!("CARGO_PKG_VERSION"),
            file: &self.file,
            base: &self.base,
            host: &self.host,
            sets: &self.sets,
            partial: self.partial,
            structure: &self.derived,
            constants: self.constants.iter().map(constant_json).collect(),
            points: self.points.iter().map(point_json).collect(),
            fitted: self.spread(false),
            held_out: self.spread(true),
            notes: &self.notes,
        };
        let mut json = serde_json::to_string_pretty(&json).expect("a fit has only string keys");
        json.push('\n');
        json
    }

    /// The profile, in TOML: the base and every constant that was searched, each with its source. `base` is how
    /// the profile names the base, if not as it was given.
    pub fn to_profile(&self, base: Option<&str>) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "# Constants fitted by `byteway fit` to {}, on {} with host {}.",
            self.file, self.base, self.host
        );
        if self.partial {
            let _ = writeln!(
                out,
                "# PARTIAL: interrupted before the search was done: the best constants so far."
            );
        }
        let (fitted, held) = (self.spread(false), self.spread(true));
        let _ = writeln!(
            out,
            "# Residuals: {:.1} % (root mean square) of {} fitted figures, {:.1} % of {} held out, at most {:+.1} %.",
            fitted.rms * 100.0,
            fitted.count,
            held.rms * 100.0,
            held.count,
            held.largest * 100.0
        );
        let _ = writeln!(
            out,
            "# `derived`: fitted, with a 95 % interval. `assumed`: the base's value, because these points don't identify it."
        );
        let _ = writeln!(out, "base = {}\n", quoted(base.unwrap_or(&self.base)));
        let model: String = format!("{} (fitted)", self.profile.drive.model)
            .chars()
            .filter(char::is_ascii)
            .take(40)
            .collect();
        let mut lines: Vec<(String, String, String)> =
            vec![("drive.model".to_owned(), quoted(model.trim()), String::new())];
        for set in &self.sets {
            let Some((key, value)) = set.split_once('=') else { continue };
            let (key, value) = (key.trim(), value.trim());
            let key = match key.strip_prefix("drive.override.") {
                Some(key) => key.to_owned(),
                None if key == "drive.capacity" => key.to_owned(),
                None => continue,
            };
            let is_derived = self.derived.iter().find(|derived| derived.key == key);
            let source = match is_derived {
                Some(derived) if derived.identified => format!("derived: {}", derived.why),
                Some(derived) => format!("assumed: not identified from these points: {}", derived.why),
                None => "assumed: given by --set".to_owned(),
            };
            lines.retain(|(other, ..)| *other != key);
            lines.push((key, toml_value(value), source));
        }
        for (key, text, constant) in &self.settings {
            let Some(outcome) = self.constants.iter().find(|outcome| outcome.constant == *constant) else {
                continue;
            };
            let source = self.source(outcome);
            lines.retain(|(other, ..)| other != key);
            lines.push((key.clone(), text.clone(), source));
        }
        let section = |key: &str| {
            key.rsplit_once('.')
                .map(|(section, name)| (section.to_owned(), name.to_owned()))
                .unwrap_or_default()
        };
        lines.sort_by_key(|(key, ..)| order(&section(key).0));
        let mut at = String::new();
        for (key, text, source) in lines {
            let (section, name) = section(&key);
            if section != at {
                let _ = writeln!(out, "{}[{section}]", if at.is_empty() { "" } else { "\n" });
                at = section;
            }
            let line = format!("{name} = {text}");
            let _ = match source.is_empty() {
                true => writeln!(out, "{line}"),
                false => writeln!(out, "{line:<40} # {source}"),
            };
        }
        out
    }

    /// Where a constant's value comes from.
    fn source(&self, outcome: &ConstantOutcome) -> String {
        if let Constant::FlashRead(_) = outcome.constant {
            let types =
                self.constants.iter().filter(|other| matches!(other.constant, Constant::FlashRead(_)));
            let each: Vec<String> = types.map(|other| self.source_of(other)).collect();
            if each.iter().any(|other| *other != each[0]) {
                return each
                    .iter()
                    .enumerate()
                    .map(|(kind, source)| format!("[{kind}] {source}"))
                    .collect::<Vec<_>>()
                    .join("; ");
            }
        }
        self.source_of(outcome)
    }

    fn source_of(&self, outcome: &ConstantOutcome) -> String {
        match &outcome.verdict {
            Verdict::Fitted { half_width, given } => {
                let interval =
                    half_width.map_or("PARTIAL".to_owned(), |half| format!("+-{:.1} %", half * 100.0));
                format!("derived: fitted to {}, {interval}{}", self.file, given_words(given))
            }
            Verdict::Assumed(reason) => format!("assumed: {}", reason.sentence(outcome.constant)),
        }
    }
}

/// What a value rests on, behind it.
pub(super) fn given_words(given: &[Constant]) -> String {
    let keys: Vec<String> = given.iter().map(|constant| format!("`{}`", constant.key())).collect();
    if keys.is_empty() {
        String::new()
    } else {
        format!(", if {} {} as assumed", keys.join(" and "), if keys.len() == 1 { "is" } else { "are" })
    }
}

/// A value of `--set` as TOML: unquoted words are texts there.
fn toml_value(text: &str) -> String {
    match format!("x = {text}").parse::<toml::Table>() {
        Ok(_) => text.to_owned(),
        Err(_) => quoted(text),
    }
}

/// Place of a section in a profile.
fn order(section: &str) -> usize {
    const ORDER: [&str; 8] =
        ["drive", "link", "controller", "firmware", "firmware.cycles", "firmware.latency", "dram", "flash"];
    ORDER.iter().position(|other| *other == section).unwrap_or(ORDER.len())
}

#[derive(Serialize)]
struct Json<'a> {
    byteway: &'static str,
    file: &'a str,
    base: &'a str,
    host: &'a str,
    sets: &'a [String],
    partial: bool,
    structure: &'a [Derived],
    constants: Vec<ConstantJson>,
    points: Vec<PointJson<'a>>,
    fitted: Spread,
    held_out: Spread,
    notes: &'a [String],
}

#[derive(Serialize)]
struct ConstantJson {
    key: String,
    unit: &'static str,
    base: f64,
    value: f64,
    low: f64,
    high: f64,
    verdict: &'static str,
    half_width: Option<f64>,
    given: Vec<String>,
    why: Option<String>,
}

fn constant_json(outcome: &ConstantOutcome) -> ConstantJson {
    let bounds = outcome.constant.bounds();
    let (verdict, half_width, why) = match &outcome.verdict {
        Verdict::Fitted { half_width, .. } => ("fitted", *half_width, None),
        Verdict::Assumed(reason) => ("assumed", None, Some(reason.sentence(outcome.constant))),
    };
    let given = match &outcome.verdict {
        Verdict::Fitted { given, .. } => given.iter().map(|constant| constant.key()).collect(),
        Verdict::Assumed(_) => Vec::new(),
    };
    ConstantJson {
        key: outcome.constant.key(),
        unit: match outcome.constant.unit() {
            ConstantUnit::Nanoseconds => "ns",
            ConstantUnit::Cycles => "cycles",
            ConstantUnit::BytesPerSecond => "B/s",
            ConstantUnit::Percent => "%",
        },
        base: outcome.base,
        value: outcome.value,
        low: bounds.low,
        high: bounds.high,
        verdict,
        half_width,
        given,
        why,
    }
}

#[derive(Serialize)]
struct PointJson<'a> {
    name: &'a str,
    load: &'a Load,
    source: Option<&'a str>,
    held_out: bool,
    figures: Vec<FigureJson>,
}

#[derive(Serialize)]
struct FigureJson {
    figure: String,
    unit: &'static str,
    measured: f64,
    base: f64,
    simulated: f64,
    residual: f64,
}

fn point_json(point: &FittedPoint) -> PointJson<'_> {
    let figure = |residual: &Residual| FigureJson {
        figure: residual.figure.name(),
        unit: if residual.figure.is_time() { "ns" } else { "1/s" },
        measured: residual.measured,
        base: residual.base,
        simulated: residual.simulated,
        residual: residual.relative(),
    };
    PointJson {
        name: &point.name,
        load: &point.load,
        source: point.source.as_deref(),
        held_out: point.held_out,
        figures: point.residuals.iter().map(figure).collect(),
    }
}
