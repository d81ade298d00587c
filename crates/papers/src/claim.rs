//! Claims of a paper, and the claims files (`claims/*.toml`).

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use crate::verdict::Verdict;
use byteway_scenario::source::{Index, Sources, Texts};
use byteway_text::error::InputError;
use byteway_text::table::grouped;
use byteway_text::units::excerpt;

/// The contents of a claims file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimsFile {
    /// Title of the paper.
    pub paper: String,
    /// Date of the full run whose results are in [`Claim::full`].
    #[serde(default)]
    pub full_run: Option<String>,
    /// The claims.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// A claim of a paper, and the expected result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Identifier, such as BX01, by which its recipe is found.
    pub id: String,
    /// Place in the paper.
    #[serde(rename = "where")]
    pub place: String,
    /// The claim in our words.
    pub says: String,
    /// The measured quantity.
    pub metric: String,
    /// The paper's figure; `None` where it shows an order only.
    #[serde(default)]
    pub value: Option<Value>,
    /// Difference up to which the claim counts as reproduced.
    pub tolerance: Tolerance,
    /// Significance of an agreement.
    pub basis: Basis,
    /// Kind of drive on which it is measured.
    pub needs: Needs,
    /// Whether it has to hold.
    #[serde(default)]
    pub required: bool,
    /// The last verdict; `None` if it cannot be measured yet.
    #[serde(default)]
    pub recorded: Option<Verdict>,
    /// Result of a full run, against which shorter ones are judged.
    #[serde(default)]
    pub full: Option<Full>,
    /// Whether the reported values depend only on parameters and on the workload's draws, not on the length
    /// of the run.
    #[serde(default)]
    pub any_length: bool,
    /// Why figures differ, or a remark.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Result of a full run, with as many PUTs as in the paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Full {
    /// The verdict.
    pub verdict: Verdict,
    /// The figures in the unit of the claim's value; `None` for an order.
    #[serde(default)]
    pub measured: Option<Value>,
}

/// A paper's figure: "-96.3 %", "> 130 x", "60 / 100 / 130 / 180 ns".
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Whether any larger value agrees.
    pub is_lower_bound: bool,
    /// One number for each measured row, at least one.
    pub numbers: Vec<f64>,
    /// Unit of the numbers.
    pub unit: Unit,
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A change in percent.
    Percent,
    /// A ratio.
    Times,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Gigabytes: 1,000,000,000 bytes.
    Gigabytes,
    /// Operations per second.
    PerSecond,
}

/// Difference up to which a claim counts as reproduced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Percent of the paper's figure.
    Percent(f64),
    /// Percentage points.
    Points(f64),
    /// Steps of doubling sizes.
    Steps(f64),
    /// The order has to be the same.
    Order,
    /// Reported without judgement.
    Report,
}

/// Significance of an agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Constants of the profile were fitted to the claim, or to one that it depends on.
    Calibrated,
    /// No constant was fitted to it.
    Predicted,
    /// Follows from stated constants by arithmetic, which the run confirms.
    Analytic,
}

/// The kind of drive on which a claim is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Needs {
    /// Blocks.
    Block,
    /// A payload sink.
    Sink,
    /// Key-value pairs.
    Kv,
    /// Tables, and queries over them.
    Tables,
    /// Traces of which only statistics are public.
    Traces,
    /// A commercial board, too few of whose constants are known to model it.
    Board,
}

impl Basis {
    /// Name in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Calibrated => "calibrated",
            Basis::Predicted => "predicted",
            Basis::Analytic => "analytic",
        }
    }
}

impl Needs {
    /// Name in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Needs::Block => "block",
            Needs::Sink => "sink",
            Needs::Kv => "kv",
            Needs::Tables => "tables",
            Needs::Traces => "traces",
            Needs::Board => "board",
        }
    }

    /// Whether it is available.
    pub const fn is_there(self) -> bool {
        matches!(self, Needs::Block | Needs::Sink | Needs::Kv | Needs::Tables)
    }
}

impl Unit {
    /// All units. A name that is a suffix of another comes after it.
    const ALL: [Unit; 6] =
        [Unit::Percent, Unit::Times, Unit::Nanoseconds, Unit::Gigabytes, Unit::Bytes, Unit::PerSecond];

    /// Text of the unit after a number.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Percent => "%",
            Unit::Times => "x",
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "B",
            Unit::Gigabytes => "GB",
            Unit::PerSecond => "op/s",
        }
    }

    /// Numbers with their unit, with a readable number of digits.
    pub fn show(self, numbers: &[f64]) -> String {
        let number = |number: &f64| match self {
            Unit::Percent => format!("{number:.1}"),
            Unit::Times | Unit::Gigabytes => format!("{number:.2}"),
            Unit::Nanoseconds | Unit::Bytes => format!("{number:.0}"),
            // Compared with whole thousands; below 2^53, so rounding loses nothing significant.
            Unit::PerSecond => grouped(libm::round(number.max(0.0)) as u64),
        };
        format!("{} {}", numbers.iter().map(number).collect::<Vec<_>>().join(" / "), self.name())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = if self.is_lower_bound { "> " } else { "" };
        // With exactly the digits in the paper.
        let numbers: Vec<String> = self.numbers.iter().map(f64::to_string).collect();
        write!(f, "{bound}{} {}", numbers.join(" / "), self.unit.name())
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tolerance::Percent(percent) => write!(f, "{percent} %"),
            Tolerance::Points(points) => write!(f, "{points} pt"),
            Tolerance::Steps(steps) if *steps == 1.0 => f.write_str("one step"),
            Tolerance::Steps(steps) => write!(f, "{steps} steps"),
            Tolerance::Order => f.write_str("order"),
            Tolerance::Report => f.write_str("report"),
        }
    }
}

/// Parses a finite number in a plausible range.
fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && number.abs() < 1e15)
}

impl FromStr for Value {
    type Err = String;

    fn from_str(text: &str) -> Result<Value, String> {
        let help = "write a figure with its unit (%, x, ns, B, GB or op/s), such as \"-96.3 %\", \"> 130 x\" or \"60 / 100 ns\"";
        let refuse = || format!("`{}` is not a figure\n{help}", excerpt(text));
        let rest = text.trim();
        let (is_lower_bound, rest) = match rest.strip_prefix('>') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let unit = Unit::ALL.into_iter().find(|unit| rest.ends_with(unit.name())).ok_or_else(refuse)?;
        let numbers = rest[..rest.len() - unit.name().len()].split('/').map(number);
        let numbers: Vec<f64> = numbers.collect::<Option<_>>().ok_or_else(refuse)?;
        Ok(Value { is_lower_bound, numbers, unit })
    }
}

impl FromStr for Tolerance {
    type Err = String;

    fn from_str(text: &str) -> Result<Tolerance, String> {
        let help = "write \"1 %\", \"0.3 pt\", \"one step\", \"order\" or \"report\"";
        let trimmed = text.trim();
        let of = |unit: &str| trimmed.strip_suffix(unit).and_then(number).filter(|number| *number >= 0.0);
        match trimmed {
            "order" => Ok(Tolerance::Order),
            "report" => Ok(Tolerance::Report),
            "one step" => Ok(Tolerance::Steps(1.0)),
            _ => (of("%").map(Tolerance::Percent))
                .or_else(|| of("pt").map(Tolerance::Points))
                .or_else(|| of("steps").map(Tolerance::Steps))
                .ok_or_else(|| format!("`{}` is not a tolerance\n{help}", excerpt(text))),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Tolerance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tolerance, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl ClaimsFile {
    /// Reads and validates a claims file. `recipes` are the identifiers with a recipe.
    ///
    /// # Errors
    /// The first mistake, with its location.
    pub fn load(path: &Path, recipes: &[&str]) -> Result<ClaimsFile, InputError> {
        let texts = Texts::default();
        let mut sources = Sources::new(&texts);
        let tree = sources.parse_file(path, "claims file")?;
        let (file, index) = sources.decode(tree, "claims file")?;
        checked(file, &index, &sources, recipes)
    }

    /// Like [`ClaimsFile::load`], for built-in claims.
    ///
    /// # Errors
    /// The first mistake, with its location.
    pub fn built_in(name: &str, text: &str, recipes: &[&str]) -> Result<ClaimsFile, InputError> {
        let texts = Texts::default();
        let mut sources = Sources::new(&texts);
        let tree = sources.parse_built_in(name, text)?;
        let (file, index) = sources.decode(tree, "claims file")?;
        checked(file, &index, &sources, recipes)
    }
}

/// Validates each claim, and the claims together.
fn checked(
    file: ClaimsFile,
    index: &Index,
    sources: &Sources<'_>,
    recipes: &[&str],
) -> Result<ClaimsFile, InputError> {
    let mut ids = BTreeSet::new();
    for (number, claim) in file.claims.iter().enumerate() {
        let refuse = |key: &str, what: String, help: &str| {
            let span = index.span(&format!("claim.{number}.{key}"));
            Err(InputError::new(what, help).at(sources.place(&span)))
        };
        let id = excerpt(&claim.id);
        if !ids.insert(&claim.id) {
            return refuse("id", format!("two claims have the id `{id}`"), "give each claim its own id");
        }
        let there = claim.needs.is_there();
        if there && !recipes.contains(&claim.id.as_str()) {
            let what = format!("no recipe exists for `{id}`");
            return refuse("id", what, "claims with a recipe are listed by byteway reproduce PAPER --list");
        }
        let number_wanted =
            matches!(claim.tolerance, Tolerance::Percent(_) | Tolerance::Points(_) | Tolerance::Steps(_));
        if number_wanted && claim.value.is_none() {
            let what = format!("`{id}` has a tolerance of `{}` but no value", claim.tolerance);
            return refuse("tolerance", what, "add the paper's value, or write \"order\" or \"report\"");
        }
        if let (Tolerance::Points(_), Some(value)) = (claim.tolerance, &claim.value)
            && value.unit != Unit::Percent
        {
            let what = format!("`{id}` has a tolerance in points, but its value is not in per cent");
            return refuse("tolerance", what, "write the tolerance in %");
        }
        match (there, claim.recorded) {
            (true, None) => {
                let what = format!("`{id}` has no recorded verdict");
                return refuse(
                    "id",
                    what,
                    "add a line `recorded = ...`: with the verdict of byteway reproduce",
                );
            }
            (false, Some(_)) => {
                let what = format!("`{id}` has a recorded verdict but cannot be measured yet");
                return refuse("recorded", what, "leave it out");
            }
            _ => {}
        }
        if claim.required && !there {
            let what = format!("`{id}` is required but cannot be measured yet");
            return refuse("required", what, "leave it out");
        }
        if let Some(Full { measured: Some(measured), .. }) = &claim.full
            && claim.value.as_ref().is_none_or(|value| value.unit != measured.unit)
        {
            let what = format!("`{id}` has a full run's figure in another unit than its value");
            return refuse("full", what, "write it in the unit of `value`, or leave `measured` out");
        }
        if claim.any_length && claim.tolerance != Tolerance::Report {
            let what = format!("`{id}` has a verdict, but is marked as valid for any length");
            return refuse("any_length", what, "leave it out: the full run's figure decides");
        }
        let short = matches!(claim.recorded, Some(Verdict::DirectionOnly | Verdict::NotReproduced));
        if short && claim.reason.is_none() {
            let what = format!("`{id}` is recorded as not fully reproduced, without a reason");
            return refuse("recorded", what, "add a line `reason = \"...\"`");
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
paper = "P"
[[claim]]
id = "A1"
where = "1"
says = "s"
metric = "m"
value = "-96.3 %"
tolerance = "0.3 pt"
basis = "predicted"
needs = "sink"
recorded = "reproduced"
"#;

    fn read(text: &str) -> Result<ClaimsFile, InputError> {
        ClaimsFile::built_in("claims.toml", text, &["A1"])
    }

    // A misread figure would be compared with the wrong number.
    #[test]
    fn figures_and_tolerances_are_read_as_they_are_shown() {
        let several = Value {
            is_lower_bound: false,
            numbers: vec![60.0, 100.0, 130.0, 180.0],
            unit: Unit::Nanoseconds,
        };
        assert_eq!("60 / 100 / 130 / 180 ns".parse(), Ok(several));
        for text in ["-96.3 %", "> 130 x", "256 B", "60 / 100 ns", "2 / 1.5 GB"] {
            assert_eq!(text.parse::<Value>().unwrap().to_string(), text);
        }
        for text in ["", "%", "x", "130", "1e99 x", "nan %", "inf %", "1 / %", "about 5 B", "5 m"] {
            assert!(text.parse::<Value>().is_err(), "{text}");
        }
        for text in ["1 %", "0.3 pt", "one step", "2 steps", "order", "report"] {
            assert_eq!(text.parse::<Tolerance>().unwrap().to_string(), text);
        }
        for text in ["", "1", "-1 %", "pt", "nan pt", "orders"] {
            assert!(text.parse::<Tolerance>().is_err(), "{text}");
        }
    }

    // A misspelt key must be an error, or a claim would silently lose its check.
    #[test]
    fn mistakes_have_their_place_and_their_cure() {
        assert_eq!(read(GOOD).unwrap().claims.len(), 1);
        for (from, to, line, what) in [
            ("tolerance", "tolerence", 9, "unknown key `tolerence`"),
            ("\"predicted\"", "\"guessed\"", 10, "`guessed` is not one of the choices"),
            ("\"predicted\"", "3", 10, "only a text fits here"),
            ("\"A1\"", "\"A2\"", 4, "no recipe exists for `A2`"),
            ("\"0.3 pt\"", "\"0.3\"", 9, "is not a tolerance"),
            ("value = \"-96.3 %\"", "", 9, "no value"),
            ("-96.3 %", "96.3 x", 9, "not in per cent"),
            ("\"sink\"", "\"traces\"", 12, "cannot be measured yet"),
            ("recorded = \"reproduced\"", "", 4, "no recorded verdict"),
            ("\"reproduced\"", "\"direction-only\"", 12, "without a reason"),
            ("needs = \"sink\"", "", 3, "lacks the key `needs`"),
            ("recorded =", "any_length = true\nrecorded =", 12, "valid for any length"),
        ] {
            let error = read(&GOOD.replace(from, to)).unwrap_err();
            let place = error.place.clone().unwrap();
            assert!(error.what.contains(what), "{error}");
            assert_eq!(place.position.unwrap().0, line, "{error}");
            assert!(!error.help.is_empty());
        }
        let twice = format!("{GOOD}{}", GOOD.replace("paper = \"P\"", ""));
        assert!(read(&twice).unwrap_err().what.contains("two claims"), "{twice}");
    }
}
