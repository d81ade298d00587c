//! Byteway's side of `docs/mqsim.md`: reruns every row of its tables.
//!
//! MQSim's side is its recorded output; MQSim is not run here.

use crate::common::finish;
use byteway_scenario::{Options, Scenario};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Two results agree if they differ by at most this many percent.
const AGREEMENT: f64 = 10.0;
const SPEC: &str = "mqsim-mlc";
const AS_RUN: &str = "mqsim-mlc-as-run";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    std::fs::read_to_string(repository().join("docs/mqsim.md")).expect("the page is there")
}

/// The rows of a numbered table with `columns` columns, by number.
fn rows(page: &str, columns: usize) -> BTreeMap<u32, Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let lines = page.lines().filter(|line| line.starts_with("| ")).map(cells);
    let numbered = lines.filter(|cells| cells.len() == columns);
    numbered.filter_map(|cells| Some((cells[0].parse().ok()?, cells))).collect()
}

/// The text between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// Mean time of an I/O of the scenario in microseconds.
fn mean_us(profile: &str, sets: Vec<String>) -> f64 {
    let sets = [format!("drive.profile={profile}")].into_iter().chain(sets).collect();
    let path = repository().join("scenarios/mqsim.toml");
    let scenario = match Scenario::load(&path, &Options { sets, ..Options::default() }) {
        Ok(scenario) => scenario,
        Err(error) => panic!("{error}"),
    };
    let summary = finish(&scenario);
    let kinds = summary.jobs.iter().flat_map(|job| job.read.iter().chain(&job.write));
    let (ios, sum_ns) = kinds
        .fold((0, 0.0), |(ios, sum), kind| (ios + kind.ios, sum + kind.ios as f64 * kind.latency.mean_ns));
    sum_ns / ios as f64 / 1e3
}

/// The comparison of a figure with MQSim's, as written on the page.
fn verdict(found: f64, peer: f64) -> String {
    let off = (found / peer - 1.0) * 100.0;
    format!("{off:+.0} %, {}", if off.abs() <= AGREEMENT { "agrees" } else { "differs" })
}

/// Whether a written figure equals `found`, rounded as written, within a percent.
fn is_written(cell: &str, found: f64) -> bool {
    let digits = if found < 100.0 { 0.05 } else { 0.5 };
    cell.parse::<f64>().is_ok_and(|written| (written - found).abs() <= digits + found / 100.0)
}

// Figures that are never rerun become wrong with the next change to a queue, a channel or a profile.
#[test]
fn the_page_says_what_its_commands_print() {
    let page = page();
    let (settings, results) = (rows(&page, 4), rows(&page, 7));
    assert!(settings.len() >= 14 && settings.keys().eq(results.keys()), "{settings:?} {results:?}");
    let mut wrong = Vec::new();
    for (number, cells) in &results {
        let settings = &settings[number];
        let peer: f64 = cells[2].parse().expect("MQSim prints whole microseconds");
        for (profile, own, column) in [(SPEC, 2, 3), (AS_RUN, 3, 5)] {
            let found = mean_us(profile, quoted(&settings[1]).chain(quoted(&settings[own])).collect());
            let written: f64 = cells[column].parse().unwrap_or_default();
            if !is_written(&cells[column], found)
                || cells[column + 1] != verdict(found, peer) && cells[column + 1] != verdict(written, peer)
            {
                wrong.push(format!("row {number}, {profile}: {found:.1} | {}", verdict(found, peer)));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/mqsim.md should say\n{}", wrong.join("\n"));
}

// The page's explanation beyond its tables: the effect of the dies, and that of the channel's order.
#[test]
fn dies_and_the_order_of_the_channel_explain_the_reads() {
    let page = page();
    let set = |sets: &[&str]| sets.iter().map(|set| format!("drive.override.flash.{set}")).collect();
    let one_die = mean_us(SPEC, set(&["dies=1"]));
    let data_first = mean_us(SPEC, set(&["dies=1", "channel_order=data-out-first"]));
    crate::common::assert_within(1.0, one_die, 233.0, "one die a chip");
    crate::common::assert_within(1.0, data_first, 285.0, "and data first");
    for told in ["160 us 233 us", "the 233 us become 285 us", "22 % more reads"] {
        assert!(page.contains(told), "{told}");
    }
    assert_eq!(((data_first / one_die - 1.0) * 100.0).round(), 22.0);
}

// If the profiles differed in more than the page explains, the comparison would be one of drives, not of simulators.
#[test]
fn every_key_of_the_profile_as_run_is_explained() {
    let page = page();
    let text = byteway_scenario::profile::text_of(AS_RUN).expect("it is built in");
    let mut section = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((key, _)) = line.split_once(" = ")
            && !["base", "model", "capacity", "mps"].contains(&key)
        {
            assert!(page.contains(&format!("`{section}.{key}`")), "{section}.{key} is not in docs/mqsim.md");
        }
    }
}
