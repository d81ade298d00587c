//! Trials: a scenario with one constant of its profiles changed, to see what rests on a value that is only assumed.
//!
//! A constant that is assumed has the right order, not the right digits: it is tried at half and at twice its value. What counts entries in
//! flight, or entries of a burst, differs more from controller to controller, and is tried from a quarter to four times.

use crate::replicate::{in_parallel, locked};
use byteway_scenario::profile::SourcedConstant;
use byteway_text::error::{InputError, nearest};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Points;
use byteway_text::units::excerpt;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
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
    /// Its value, and the one that is tried instead, in TOML, for each value that a profile has.
    pub values: Vec<(String, String)>,
    /// Its source in the first of these profiles.
    pub source: String,
    factor: f64,
    /// Other profiles that have the constant from a source keep it.
    only_assumed: bool,
}

impl Trial {
    /// In words: `controller.fetch_burst = 2 instead of 8`.
    pub fn words(&self) -> String {
        let section = if self.section == "drive" { String::new() } else { format!("{}.", self.section) };
        let values = self.values.iter().map(|(own, tried)| format!("{tried} instead of {own}"));
        format!("{section}{} = {}", self.key, values.collect::<Vec<_>>().join(", and ").replace('"', ""))
    }

    /// The values of the profiles, and those that are tried.
    pub fn listed(&self) -> (String, String) {
        let list =
            |of: fn(&(String, String)) -> &str| self.values.iter().map(of).collect::<Vec<_>>().join("; ");
        (list(|(own, _)| own), list(|(_, tried)| tried))
    }

    /// Whether it changes this constant.
    fn changes(&self, one: &SourcedConstant) -> bool {
        owner(one) == self.section && one.key == self.key && (one.is_assumed() || !self.only_assumed)
    }

    /// The `--set` flags that make the change in a scenario with these constants.
    pub fn sets(&self, constants: &[SourcedConstant]) -> Vec<String> {
        let set = |one: &SourcedConstant| Some(one.set(&scaled(&one.value, self.factor)?));
        constants.iter().filter(|one| self.changes(one)).filter_map(set).collect()
    }
}

/// Sizes and figures that differ by no more than this part of the larger one are the same conclusion.
pub(crate) const AGREE: f64 = 0.1;

/// Whether two sizes in bytes are the same conclusion.
pub(crate) fn sizes_agree(a: u64, b: u64) -> bool {
    a.abs_diff(b) as f64 <= AGREE * a.max(b) as f64
}

/// Has `work` done for each trial, in as many threads as there are; `None` for those that an interrupt left out. `bar` counts trials.
pub(crate) fn tried<T: Clone + Send>(
    planned: &[Trial],
    threads: usize,
    interrupt: &Interrupt,
    bar: &dyn Points,
    work: impl Fn(&Trial) -> Option<T> + Sync,
) -> Vec<Option<T>> {
    let found = Mutex::new(vec![None; planned.len()]);
    in_parallel(threads, planned.len(), interrupt, &|at| {
        let one = work(&planned[at]);
        locked(&found)[at] = one;
        bar.one();
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
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
    let is_tried = |one: &&SourcedConstant| which.has(one) && !UNTRIED.contains(&one.key.as_str());
    for constant in all.iter().filter(is_tried) {
        let section = owner(constant);
        if trials.iter().any(|trial| trial.section == section && trial.key == constant.key) {
            continue;
        }
        let factors: &[f64] =
            if WIDE.contains(&constant.key.as_str()) { &[0.25, 0.5, 2.0, 4.0] } else { &[0.5, 2.0] };
        for &factor in factors {
            let mut trial = Trial {
                section: section.to_owned(),
                key: constant.key.clone(),
                values: Vec::new(),
                source: constant.source.clone(),
                factor,
                only_assumed: *which == Constants::Assumed,
            };
            for one in all.iter().filter(|one| trial.changes(one)).collect::<Vec<_>>() {
                // In one line, which an array of a profile need not be.
                let own = parsed(&one.value).map(|value| value.to_string());
                if let Some(values) = own.zip(scaled(&one.value, factor))
                    && !trial.values.contains(&values)
                {
                    trial.values.push(values);
                }
            }
            // A small number has the same quarter as half.
            let is_new = |other: &Trial| {
                other.key != trial.key || other.section != trial.section || other.values != trial.values
            };
            if !trial.values.is_empty() && trials.iter().all(is_new) {
                trials.push(trial);
            }
        }
    }
    let Constants::Named(keys) = which else { return Ok(trials) };
    for key in keys {
        let is_key =
            |trial: &Trial| trial.key == *key || *key == format!("{}.override.{}", trial.section, trial.key);
        if trials.iter().any(is_key) {
            continue;
        }
        let (what, help) = match all.iter().any(|one| is_named(one, key)) {
            true => (
                format!("`{}` is not tried: half or twice its value says nothing by itself", excerpt(key)),
                "vary it with --vary, with what depends on it".to_owned(),
            ),
            false => {
                let what = format!(
                    "`{}` is no constant of a profile here, or the scenario sets or varies it",
                    excerpt(key)
                );
                (what, similar(key, all))
            }
        };
        return Err(InputError::new(what, help));
    }
    Ok(trials)
}

/// Advice on a key that no profile has: those that end like it, or that are spelt like it.
fn similar(key: &str, all: &[SourcedConstant]) -> String {
    let known: BTreeSet<&str> = all.iter().map(|one| one.key.as_str()).collect();
    let ends = known.iter().copied().find(|known| known.rsplit('.').next() == Some(key));
    match ends.or_else(|| nearest(key, known.iter().copied())) {
        Some(known) => format!("did you mean `{known}`? A constant that is set can be varied with --vary"),
        None => "`byteway profile show NAME` lists the constants of a profile; one that is set can be varied with --vary".to_owned(),
    }
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
            let scaled = match unit.trim() {
                "" => return None,
                // There is no half of a byte.
                "B" => libm::round(number * factor).max(1.0),
                _ => number * factor,
            };
            Some(Value::String(format!("{scaled}{unit}")))
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
        assert_eq!((half("\"1 B\""), half("\"512 B\"").as_deref()), (None, Some("\"256 B\"")));
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
        let burst = [("2", "1"), ("4", "2"), ("16", "8"), ("32", "16")]
            .map(|(a, b)| format!("controller.fetch_burst = {a} instead of 8, and {b} instead of 4"));
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
        assert!(wrong.help.contains("did you mean `flash.erase`?"), "{}", wrong.help);
        assert!(named("fetch_burst").unwrap_err().help.contains("did you mean `controller.fetch_burst`?"));
        // Drives with few entries have fewer values to try, but not fewer than the others.
        let small = [
            constant("drive.0", "controller.fetch_burst", "1", "assumed"),
            constant("drive.1", "controller.fetch_burst", "8", "assumed"),
        ];
        let small: Vec<String> =
            trials(&Constants::Assumed, &small).unwrap().iter().map(Trial::words).collect();
        assert_eq!(small[0], "controller.fetch_burst = 2 instead of 8");
        assert_eq!(small[2], "controller.fetch_burst = 2 instead of 1, and 16 instead of 8");
        assert!(named("firmware.clock").unwrap_err().what.contains("is not tried"));
    }
}
