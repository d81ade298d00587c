//! The result of a fit, and `fit.json`:
//!
//! ```text
//! byteway, file, base, host, sets   version, the measurements, and what was given
//! partial                           it was interrupted: the best constants so far
//! structure[]                       key, value, identified, why (with --structure)
//! failed                            what is wrong with it in a sentence, or null: see [`Fit::failure`]
//! constants[]                       key, unit, base, value, low, high (bounds), verdict: "fitted", "improved" (a value
//!                                   that cuts residuals, but that the points don't identify) or "assumed"
//!                                   half_width: half of the 95 % interval, as a share of the value (null: none)
//!                                   given[]: assumed constants on which a fitted one rests
//!                                   why: of one that is not fitted, in a sentence
//! points[]                          name, load, source, held_out, figures[]: figure, unit, measured, base, simulated,
//!                                   residual: simulated / measured - 1; both null if an interrupt came before
//! fitted, held_out                  count, rms, largest: of the residuals of each; not_simulated
//! notes[]
//! ```

use std::fmt::Write as _;

use serde::Serialize;

use super::constant::{Constant, ConstantUnit};
use super::identify::Reason;
use super::measurement::{Figure, Load};
use super::model::quoted;
use super::search::WRONG_MAX;
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
    /// They don't, but this value cuts residuals: as near to the base's as it does.
    Improved(Reason),
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
    /// As the result gives it; `None` if an interrupt came before it was simulated.
    pub simulated: Option<f64>,
}

impl Residual {
    /// Relative difference of the simulated figure.
    pub fn relative(&self) -> Option<f64> {
        self.simulated.map(|simulated| simulated / self.measured - 1.0)
    }
}

/// Residual, as a share, above which a figure is off.
pub const RESIDUAL_MAX: f64 = 0.25;

/// Median residuals above which one that is off is a wrong point.
const WRONG_FROM: f64 = 5.0;

/// Figures that are off and named one by one, at most.
const NAMED_MAX: usize = 8;

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
    /// Further figures that were not simulated before an interrupt.
    pub not_simulated: usize,
}

/// Figures with their residuals.
fn named(off: &[(&FittedPoint, Figure, f64)]) -> String {
    let each = off.iter().take(NAMED_MAX).map(|(point, figure, relative)| {
        let held = if point.held_out { ", held out" } else { "" };
        format!("`{}` {} {:+.1} %{held}", point.name, figure.name(), relative * 100.0)
    });
    let mut each: Vec<String> = each.collect();
    if off.len() > NAMED_MAX {
        each.push(format!("and {} more", off.len() - NAMED_MAX));
    }
    each.join("; ")
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
pub(crate) fn shown_figure(figure: Figure, value: f64) -> String {
    if figure.is_time() { time(value) } else { format!("{}/s", number(value)) }
}

impl Fit {
    /// The residuals of the fitted points, or of those held out.
    pub fn spread(&self, held_out: bool) -> Spread {
        let own = self.points.iter().filter(|point| point.held_out == held_out);
        let own: Vec<&Residual> = own.flat_map(|point| &point.residuals).collect();
        let all: Vec<f64> = own.iter().filter_map(|residual| residual.relative()).collect();
        let squares: f64 = all.iter().map(|residual| residual * residual).sum();
        Spread {
            count: all.len(),
            rms: (squares / all.len().max(1) as f64).sqrt(),
            largest: all.iter().fold(
                0.0,
                |largest: f64, residual| if residual.abs() > largest.abs() { *residual } else { largest },
            ),
            not_simulated: own.len() - all.len(),
        }
    }

    /// The figures that are off by more than [`RESIDUAL_MAX`], fitted or held out; the largest residual first.
    fn off(&self) -> Vec<(&FittedPoint, Figure, f64)> {
        let each = self.points.iter().flat_map(|point| {
            let of = move |row: &Residual| row.relative().map(|relative| (point, row.figure, relative));
            point.residuals.iter().filter_map(of)
        });
        let mut off: Vec<_> = each.filter(|(.., relative)| relative.abs() > RESIDUAL_MAX).collect();
        off.sort_by(|left, right| right.2.abs().total_cmp(&left.2.abs()));
        off
    }

    /// Sizes of all residuals, in order.
    fn sizes(&self) -> Vec<f64> {
        let rows = self.points.iter().flat_map(|point| &point.residuals);
        let mut sizes: Vec<f64> =
            rows.filter_map(|row| row.relative().map(|relative| relative.abs())).collect();
        sizes.sort_by(f64::total_cmp);
        sizes
    }

    /// Whether the fit failed: more than a tenth of the figures are off by more than [`RESIDUAL_MAX`], or one is that
    /// does not stand out from the others. A single one that does is a wrong point: [`Fit::notes`] names it.
    pub fn is_failed(&self) -> bool {
        let (off, sizes) = (self.off(), self.sizes());
        let median = sizes.get(sizes.len() / 2).copied().unwrap_or(0.0);
        off.len() * WRONG_MAX > sizes.len()
            || off.iter().any(|(.., relative)| relative.abs() <= WRONG_FROM * median)
    }

    /// What is wrong with a fit that failed, and what helps.
    pub fn failure(&self) -> Option<String> {
        self.is_failed().then(|| {
            let (off, all) = (self.off(), self.sizes().len());
            format!(
                "FAILED: {} of {all} figures {} off by more than {:.0} %: {}. No constants of this base give these \
                 figures. help: check value, unit and state of these points; begin with a base of the drive's \
                 geometry, or add --structure; what the model leaves out, such as an SLC cache, no constant makes up for",
                off.len(),
                if off.len() == 1 { "is" } else { "are" },
                RESIDUAL_MAX * 100.0,
                named(&off)
            )
        })
    }

    /// The points that are wrong, where the fit did not fail for them.
    pub(super) fn strange_note(&self) -> Option<String> {
        let (off, sizes) = (self.off(), self.sizes());
        let is_good = !off.is_empty() && !self.is_failed();
        is_good.then(|| {
            format!(
                "probably measured wrong: {}, where half of the figures are within {:.1} %; it had next to no weight: check \
                 its value, unit and load",
                named(&off),
                sizes[sizes.len() / 2] * 100.0
            )
        })
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
            failed: self.failure(),
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
        if let Some(failure) = self.failure() {
            let _ = writeln!(out, "# {failure}.");
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
        if self.constants.iter().any(|outcome| matches!(outcome.verdict, Verdict::Improved(_))) {
            let _ = writeln!(
                out,
                "# `assumed: improved`: not the base's value, but one that cuts residuals; these points don't identify it."
            );
        }
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
            Verdict::Improved(reason) => format!("assumed: improved: {}", reason.sentence(outcome.constant)),
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
    failed: Option<String>,
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
        Verdict::Improved(reason) => ("improved", None, Some(reason.sentence(outcome.constant))),
        Verdict::Assumed(reason) => ("assumed", None, Some(reason.sentence(outcome.constant))),
    };
    let given = match &outcome.verdict {
        Verdict::Fitted { given, .. } => given.iter().map(|constant| constant.key()).collect(),
        Verdict::Improved(_) | Verdict::Assumed(_) => Vec::new(),
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
    simulated: Option<f64>,
    residual: Option<f64>,
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
