//! Trials: a scenario with one constant of its profiles changed, to see what rests on a value that is only assumed.
//!
//! A constant that is assumed has the right order, not the right digits: it is tried at half and at twice its value. What counts entries in
//! flight, or entries of a burst, differs more from controller to controller, and is tried from a quarter to four times.

use byteway_scenario::profile::SourcedConstant;
use byteway_text::error::{InputError, suggest};
use byteway_text::units::excerpt;
use toml::Value;

/// The constants to try.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Constants {
    /// All that are assumed.
    #[default]
    Assumed,
    /// Those with these keys, whatever their source: `controller.fetch_burst`, `host.override.submit`.
    Named(Vec<String>),
}

impl Constants {
    /// Parses keys with commas between them; all that are assumed if there is none.
    pub fn parse(text: &str) -> Constants {
        let keys: Vec<String> =
            text.split(',').map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned).collect();
        if keys.is_empty() { Constants::Assumed } else { Constants::Named(keys) }
    }

    fn has(&self, constant: &SourcedConstant) -> bool {
        match self {
            Constants::Assumed => constant.is_assumed(),
            Constants::Named(keys) => keys.iter().any(|key| is_named(constant, key)),
        }
    }
}

/// Whether a key names a constant: by its key in the profile, or as `--set` has it.
fn is_named(constant: &SourcedConstant, key: &str) -> bool {
    let whole = format!("{}.override.{}", owner(constant), constant.key);
    constant.key == key || whole == key
}

/// The section of a constant, without the number of a drive.
fn owner(constant: &SourcedConstant) -> &str {
    constant.section.split('.').next().unwrap_or_default()
}

/// A constant with another value.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Where it stands: `drive`, `host`, `target` or `network`.
    pub section: String,
    /// Its key in the profile.
    pub key: String,
    /// Its value in the profile, and the one that is tried, in TOML. Several drives may have others, which change by the same factor.
    pub values: (String, String),
    /// Its source.
    pub source: String,
    factor: f64,
    /// Other profiles that have the constant from a source keep it.
    only_assumed: bool,
}

impl Trial {
    /// In words: `controller.fetch_burst = 2 instead of 8`.
    pub fn words(&self) -> String {
        let (own, tried) = (self.values.0.replace('"', ""), self.values.1.replace('"', ""));
        let section = if self.section == "drive" { String::new() } else { format!("{}.", self.section) };
        format!("{section}{} = {tried} instead of {own}", self.key)
    }

    /// The `--set` flags that make the change in a scenario with these constants.
    pub fn sets(&self, constants: &[SourcedConstant]) -> Vec<String> {
        let same = |one: &&SourcedConstant| {
            owner(one) == self.section && one.key == self.key && (one.is_assumed() || !self.only_assumed)
        };
        let set = |one: &SourcedConstant| Some(one.set(&scaled(&one.value, self.factor)?));
        constants.iter().filter(same).filter_map(set).collect()
    }
}

/// Keys that are never tried: cycles are stated at this clock, and capacity is the user's choice.
const UNTRIED: [&str; 2] = ["firmware.clock", "drive.capacity"];

/// Keys that are tried from a quarter to four times.
const WIDE: [&str; 5] = [
    "controller.arbitration_burst",
    "controller.command_slots",
    "controller.fetch_burst",
    "controller.fetch_outstanding",
    "link.read_tags",
];

/// All trials of scenarios with these constants.
///
/// # Errors
/// A named constant is in none of them, or is no quantity.
pub fn trials(which: &Constants, all: &[SourcedConstant]) -> Result<Vec<Trial>, InputError> {
    let mut trials: Vec<Trial> = Vec::new();
    for constant in all.iter().filter(|one| which.has(one) && !UNTRIED.contains(&one.key.as_str())) {
        let section = owner(constant);
        if trials.iter().any(|trial| trial.section == section && trial.key == constant.key) {
            continue;
        }
        let factors: &[f64] =
            if WIDE.contains(&constant.key.as_str()) { &[0.25, 0.5, 2.0, 4.0] } else { &[0.5, 2.0] };
        // In one line, which an array of a profile need not be.
        let Some(own) = parsed(&constant.value).map(|value| value.to_string()) else { continue };
        let mut tried: Vec<String> = vec![own.clone()];
        for factor in factors {
            let Some(value) = scaled(&constant.value, *factor).filter(|value| !tried.contains(value)) else {
                continue;
            };
            tried.push(value.clone());
            trials.push(Trial {
                section: section.to_owned(),
                key: constant.key.clone(),
                values: (own.clone(), value),
                source: constant.source.clone(),
                factor: *factor,
                only_assumed: *which == Constants::Assumed,
            });
        }
    }
    if let Constants::Named(keys) = which {
        for key in keys {
            let is_key = |trial: &Trial| {
                trial.key == *key || *key == format!("{}.override.{}", trial.section, trial.key)
            };
            if trials.iter().any(is_key) {
                continue;
            }
            let (what, help) = match all.iter().any(|one| is_named(one, key)) {
                true => (
                    format!("`{}` is not tried: half or twice its value means nothing", excerpt(key)),
                    "name a time, a rate, a size or a number, or vary it with --vary".to_owned(),
                ),
                false => {
                    let known: Vec<&str> = all.iter().map(|one| one.key.as_str()).collect();
                    let what = format!("no profile of this scenario sets `{}`", excerpt(key));
                    (what, suggest(key, &known))
                }
            };
            return Err(InputError::new(what, help));
        }
    }
    Ok(trials)
}

/// A value in TOML times a factor; `None` for what is no quantity, and where it changes nothing.
fn scaled(value: &str, factor: f64) -> Option<String> {
    let value = parsed(value)?;
    let scaled = times(&value, factor)?;
    (scaled != value).then(|| scaled.to_string())
}

fn parsed(value: &str) -> Option<Value> {
    format!("v = {value}").parse::<toml::Table>().ok()?.remove("v")
}

fn times(value: &Value, factor: f64) -> Option<Value> {
    match value {
        Value::Integer(number) => {
            let scaled = libm::round(*number as f64 * factor);
            Some(Value::Integer(if *number > 0 { scaled.max(1.0) } else { scaled } as i64))
        }
        Value::Float(number) => Some(Value::Float(number * factor)),
        Value::String(text) => {
            let digits = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ',');
            let (number, unit) = text.split_at(text.len() - digits.len());
            let number: f64 = number.replace(',', "").parse().ok()?;
            (!unit.trim().is_empty()).then(|| Value::String(format!("{}{unit}", number * factor)))
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().map(|item| times(item, factor)).collect::<Option<Vec<_>>>().map(Value::Array)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(section: &str, key: &str, value: &str, source: &str) -> SourcedConstant {
        let [section, key, value, source] = [section, key, value, source].map(str::to_owned);
        SourcedConstant { section, key, value, source }
    }

    // A value with another unit, or a word for a number, would try what the user does not expect.
    #[test]
    fn quantities_are_scaled_and_words_are_not() {
        let half = |value: &str| scaled(value, 0.5);
        assert_eq!(half("\"200 ns\"").as_deref(), Some("\"100 ns\""));
        assert_eq!(half("\"1 %\"").as_deref(), Some("\"0.5 %\""));
        assert_eq!(half("[\"30 us\", \"50 us\"]").as_deref(), Some("[\"15 us\", \"25 us\"]"));
        assert_eq!((half("3").as_deref(), half("1"), half("0")), (Some("2"), None, None));
        for word in ["true", "\"greedy\"", "[\"inline\", \"mmio\"]", "\"30\"", "{ a = 1 }", "[]"] {
            assert_eq!(half(word), None, "{word}");
        }
    }

    // Several drives with one profile are one trial; what is published is not tried unless it is named.
    #[test]
    fn each_assumed_constant_is_tried_once() {
        let all = [
            constant("drive.0", "controller.fetch_burst", "8", "assumed: entries a read request"),
            constant("drive.1", "controller.fetch_burst", "4", "assumed"),
            constant("drive.0", "flash.erase", "\"3 ms\"", "public: data sheet"),
            constant("drive.0", "firmware.clock", "\"1 GHz\"", "assumed: makes a cycle a nanosecond"),
            constant("host", "store", "\"25 ns\"", "assumed"),
            constant("drive.2", "controller.fetch_burst", "2", "public: data sheet"),
        ];
        let found = trials(&Constants::Assumed, &all).unwrap();
        let words: Vec<String> = found.iter().map(Trial::words).collect();
        let burst =
            ["2", "4", "16", "32"].map(|value| format!("controller.fetch_burst = {value} instead of 8"));
        assert_eq!(words[..4], burst);
        assert_eq!(
            words[4..],
            ["host.store = 12.5 ns instead of 25 ns", "host.store = 50 ns instead of 25 ns"]
        );
        let sets = ["drive.0.override.controller.fetch_burst=2", "drive.1.override.controller.fetch_burst=1"];
        assert_eq!(found[0].sets(&all), sets);
        assert_eq!(found[4].sets(&all), ["host.override.store=\"12.5 ns\""]);
        let every = trials(&Constants::parse("controller.fetch_burst"), &all).unwrap();
        assert_eq!((found[0].sets(&all).len(), every[0].sets(&all).len()), (2, 3));
        let lines = [constant("drive", "flash.read", "[ # two\n \"30 us\",\n \"50 us\" ]", "assumed")];
        let lines = trials(&Constants::Assumed, &lines).unwrap();
        assert_eq!(lines[0].words(), "flash.read = [15 us, 25 us] instead of [30 us, 50 us]");
        let named = |keys: &str| trials(&Constants::parse(keys), &all);
        assert_eq!(named("flash.erase, host.override.store").unwrap().len(), 4);
        let wrong = named("flash.earse").unwrap_err();
        assert!(wrong.help.contains("did you mean `flash.erase`"), "{}", wrong.help);
        assert!(named("firmware.clock").unwrap_err().what.contains("is not tried"));
    }
}
