//! The scenarios for new users: each must load and run, as must every `byteway run` in its comments.

use crate::common::{finish, sections};
use byteway_scenario::{Options, Scenario};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn all() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).expect("the scenarios are there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

fn load(path: &Path, sets: Vec<String>) -> Scenario {
    match Scenario::load(path, &Options { sets: sets.clone(), ..Options::default() }) {
        Ok(scenario) => scenario,
        Err(error) => panic!("{} with {sets:?}: {error}", path.display()),
    }
}

/// Splits a line into words like a shell; single quotes keep their content together.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            _ => word.push(letter),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

/// The values of `--set` in a comment's `byteway run`.
fn sets(line: &str) -> Vec<String> {
    let words = words(line);
    let flags = words.iter().zip(words.iter().skip(1));
    flags.filter(|(flag, _)| *flag == "--set").map(|(_, value)| value.clone()).collect()
}

// A new user whose first scenario fails does not try a second one.
#[test]
fn every_scenario_runs() {
    let files = all();
    assert!(files.len() >= 5, "{files:?}");
    for path in files {
        let whole = load(&path, Vec::new());
        assert_eq!(Some(whole.name.as_str()), path.file_stem().unwrap().to_str());
        // A shorter run: errors show sooner than what a scenario demonstrates.
        let mut shorter = vec!["measure.warmup=0".to_owned()];
        for (section, job) in sections(&whole).iter().zip(&whole.jobs) {
            shorter.push(match job.runtime {
                Some(_) => format!("{section}.runtime=\"5 ms\""),
                // A query consists of many commands, and all of its rows are verified.
                None if section.starts_with("query") => format!("{section}.count=10"),
                None => format!("{section}.count=500"),
            });
        }
        let summary = finish(&load(&path, shorter));
        assert!(summary.ios > 0, "{}", path.display());
    }
}

// Comments must not recommend commands that are refused.
#[test]
fn what_the_comments_say_can_be_typed() {
    let mut tried = 0;
    for path in all() {
        let text = std::fs::read_to_string(&path).unwrap();
        let relative = format!("byteway run scenarios/{}", path.file_name().unwrap().to_str().unwrap());
        for line in text.lines().filter(|line| line.contains(&relative)) {
            let sets = sets(line);
            if sets.iter().any(|set| set.contains("/where/yours/is")) {
                continue;
            }
            load(&path, sets);
            tried += 1;
        }
    }
    assert!(tried >= 12, "{tried}");
}
