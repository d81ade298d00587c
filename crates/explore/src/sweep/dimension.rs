//! A varied key: values in order, or a range that is drawn from.

use crate::compare::{Amount, Axis, Jobs, Value, place, resolve};
use byteway_text::error::InputError;
use byteway_text::units::excerpt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A varied key, as a user writes it: `values`, or `from` and `to`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DimensionSection {
    /// The key, as for `byteway compare --vary`: `iodepth`, `job.0.bs`, `drive.override.flash.read`.
    pub key: String,
    /// Its values, as for `byteway compare --vary`: `1..256x2`, `prp,inline`.
    #[serde(default)]
    pub values: Option<String>,
    /// The lower end of a range of numbers, sizes or times, for searches that draw points. Between whole numbers, whole numbers are drawn.
    #[serde(default)]
    pub from: Option<String>,
    /// The upper end.
    #[serde(default)]
    pub to: Option<String>,
    /// How values are spread over the range.
    #[serde(default)]
    pub spacing: Spacing,
}

/// How drawn values are spread over a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// Evenly.
    #[default]
    Linear,
    /// Evenly by factors: as many between 1 and 10 as between 10 and 100.
    Log,
}

/// A varied key, checked.
#[derive(Clone, Debug)]
pub enum Dimension {
    /// Values in order.
    Values(Axis),
    /// A range.
    Range {
        /// The key in the user's notation.
        key: String,
        /// The keys of the scenario that it selects.
        paths: Vec<String>,
        /// Both ends.
        ends: (Amount, Amount),
        /// How values are spread.
        spacing: Spacing,
    },
}

/// Significant digits of drawn values: more would suggest a precision that no drive's constant has.
const DIGITS: i32 = 4;

impl DimensionSection {
    /// Checks it for a scenario with these jobs.
    ///
    /// # Errors
    /// There is no such key, a value is no value, or both `values` and a range are given.
    pub fn check(&self, jobs: Jobs) -> Result<Dimension, InputError> {
        let place = || place("vary", &self.key);
        let refuse = |what: String, help: &str| InputError::new(what, help).at(place());
        let key = excerpt(&self.key);
        match (&self.values, &self.from, &self.to) {
            (Some(values), None, None) => Axis::parse(&format!("{}={values}", self.key), jobs)
                .map(Dimension::Values)
                .map_err(|error| error.at(place())),
            (None, Some(from), Some(to)) => {
                let paths = resolve(&self.key, jobs).map_err(|(what, help)| refuse(what, &help))?;
                let help =
                    "write numbers, sizes or times of one kind, such as from = \"20 us\" and to = \"100 us\"";
                let amount = |text: &str| {
                    Amount::parse(text)
                        .ok_or_else(|| refuse(format!("`{key}`: `{}` is no amount", excerpt(text)), help))
                };
                let ends = (amount(from)?, amount(to)?);
                if !ends.0.is_like(ends.1) {
                    return Err(refuse(format!("`{key}` starts and ends in different units"), help));
                }
                if ends.1.value() <= ends.0.value() {
                    return Err(refuse(format!("`{key}` ends before its start"), "swap `from` and `to`"));
                }
                if self.spacing == Spacing::Log && ends.0.value() == 0 {
                    let what = format!("`{key}` starts at 0, from which no factor leads away");
                    return Err(refuse(what, "start above 0, or leave `spacing` out"));
                }
                Ok(Dimension::Range { key: self.key.clone(), paths, ends, spacing: self.spacing })
            }
            _ => {
                let what = format!("`{key}` has neither `values` nor a range, or both");
                Err(refuse(what, "write `values = \"1..256x2\"`, or `from` and `to`"))
            }
        }
    }
}

impl Dimension {
    /// The key in the user's notation.
    pub fn key(&self) -> &str {
        match self {
            Dimension::Values(axis) => &axis.key,
            Dimension::Range { key, .. } => key,
        }
    }

    /// The keys of the scenario that it selects.
    pub fn paths(&self) -> &[String] {
        match self {
            Dimension::Values(axis) => &axis.paths,
            Dimension::Range { paths, .. } => paths,
        }
    }

    /// Whether its values are numbers.
    pub fn is_numeric(&self) -> bool {
        match self {
            Dimension::Values(axis) => axis.is_numeric(),
            Dimension::Range { .. } => true,
        }
    }

    /// Its values in order; `None` for a range.
    pub fn values(&self) -> Option<&[Value]> {
        match self {
            Dimension::Values(axis) => Some(&axis.values),
            Dimension::Range { .. } => None,
        }
    }

    /// The value at a position between 0 (included) and 1.
    pub fn at(&self, position: f64) -> Value {
        match self {
            Dimension::Values(axis) => {
                let index = (position * axis.values.len() as f64) as usize;
                axis.values[index.min(axis.values.len() - 1)].clone()
            }
            Dimension::Range { ends: (from, to), spacing, .. } => {
                let (low, high) = (from.value() as f64, to.value() as f64);
                let exact = match spacing {
                    Spacing::Linear => low + position * (high - low),
                    Spacing::Log => libm::exp(libm::log(low) + position * (libm::log(high) - libm::log(low))),
                };
                let grain = from.grain(*to) as f64;
                let rounded = libm::round(rounded(exact) / grain) * grain;
                from.with(rounded.clamp(low, high) as u64).into_value()
            }
        }
    }
}

/// A positive number with few significant digits.
fn rounded(exact: f64) -> f64 {
    if exact <= 0.0 {
        return 0.0;
    }
    let digits = libm::floor(libm::log10(exact)) as i32;
    let step = libm::pow(10.0, f64::from((digits - DIGITS + 1).max(0)));
    libm::round(exact / step) * step
}
