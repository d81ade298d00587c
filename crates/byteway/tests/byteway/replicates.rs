//! `byteway run --repeat`: a run with its replicates, and a single run with the means of its batches.

use crate::common::{self, round, scenario};
use byteway_explore::replicate::{Repeat, replicate};
use byteway_run::run::{Session, run};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::{Hidden, Progress};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const READS: &str = "[[job]]\nname = 'reader'\nrw = 'randread'\ncount = 100\niodepth = 8\n";

/// Its second I/O arrives 100 us after the first in the mean: by some seeds after the warm-up, which is measured, and by others before.
const LUCK: &str = "[measure]\nwarmup = '100 us'\n[[job]]\nname = 'reader'\nrw = 'randread'\ncount = 2\nissue = 'open'\nrate_iops = 10000\n";

/// Runs a scenario on the drive of round numbers in a folder.
fn play(folder: &Path, jobs: &str, flags: &[&str]) -> Output {
    std::fs::write(folder.join("s.toml"), round("", jobs)).unwrap();
    for file in ["round.toml", "round-host.toml"] {
        std::fs::copy(common::folder().join(file), folder.join(file)).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_byteway"));
    command.current_dir(folder).args(["run", "s.toml", "--quiet"]).args(flags);
    command.output().expect("the binary is built")
}

fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&printed(output)).unwrap()
}

// All that is not a mean is of the run that the scenario's seed gives, or a user who asks for intervals would get other figures.
#[test]
fn replicates_add_means_and_change_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let with = |flags: &[&str]| json(&play(folder.path(), READS, &[&["--format", "json"], flags].concat()));
    let single = with(&[]);
    assert_eq!(with(&["--repeat", "1"]), single);
    let repeated = with(&["--repeat", "4", "--jobs", "1"]);
    assert_eq!(with(&["--repeat", "4", "--jobs", "3"]), repeated, "it depends on the number of threads");
    let mut rest = repeated.clone();
    let replicates = rest.as_object_mut().unwrap().remove("replicates").unwrap();
    assert_eq!(rest, single);
    let seed = &replicates["runs"][3]["seed"];
    let alone = with(&["--set", &format!("seed={seed}")]);
    let rows = replicates["figures"].as_array().unwrap();
    let iops = rows.iter().find(|row| row["figure"] == "iops").unwrap();
    assert_eq!((&iops["values"][0], &iops["values"][3]), (&single["iops"], &alone["iops"]));
    assert!(iops["half_width"].as_f64().unwrap() > 0.0);
    printed(&play(folder.path(), READS, &["--out", "one"]));
    printed(&play(folder.path(), READS, &["--out", "four", "--repeat", "4"]));
    let read = |file: &str| std::fs::read(folder.path().join(file)).unwrap();
    assert_eq!(read("one/results.parquet"), read("four/results.parquet"));
    let page = String::from_utf8(read("four/report.html")).unwrap();
    assert!(page.contains("Means over 4 replicates") && page.contains(&format!("{seed}")));
    let fio = play(folder.path(), READS, &["--repeat", "4", "--format", "fio"]);
    assert_eq!(fio.status.code(), Some(2));
    let alone = play(folder.path(), READS, &["--jobs", "2"]);
    assert_eq!(alone.status.code(), Some(2), "--jobs without --repeat does nothing");
}

// A mean over the runs that happened to succeed, or to be run before Ctrl-C, would pass for one over all.
#[test]
fn there_is_no_mean_over_fewer() {
    let folder = tempfile::tempdir().unwrap();
    let failed = play(folder.path(), LUCK, &["--repeat", "8"]);
    let said = String::from_utf8_lossy(&failed.stdout);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("There are no means over 8 replicates") && !said.contains(" \u{b1} "), "{said}");
    let scenario = scenario(&round("", READS));
    let (mut progress, interrupt) = (Progress::hidden(), Interrupt::default());
    let mut results = run(&scenario, Session { progress: &mut progress, interrupt: &interrupt }).unwrap();
    interrupt.raise();
    replicate(&mut results, &scenario, Repeat::new(3).unwrap(), 1, &interrupt, &Hidden);
    let replicates = results.summary.replicates.as_ref().unwrap();
    assert!(results.summary.partial && replicates.figures.is_empty());
    assert_eq!(replicates.runs[0].failure, None);
    assert_eq!(replicates.failures().len(), 2);
}

// A single long run says how certain its figures are; a short one says nothing rather than too little.
#[test]
fn a_long_run_has_the_means_of_its_batches() {
    let folder = tempfile::tempdir().unwrap();
    let long = "[[job]]\nname = 'reader'\nrw = 'randread'\niodepth = 8\nruntime = '100 ms'\n";
    let found = json(&play(folder.path(), long, &["--format", "json"]));
    let rows = found["batch_means"].as_array().unwrap();
    let iops = rows.iter().find(|row| row["figure"] == "iops").unwrap();
    let (mean, half) = (iops["mean"].as_f64().unwrap(), iops["half_width"].as_f64().unwrap());
    let whole = found["iops"].as_f64().unwrap();
    assert!((mean / whole - 1.0).abs() < 0.01 && half > 0.0 && half < 0.02 * mean, "{iops}, {whole}");
    let said = printed(&play(folder.path(), long, &[]));
    assert!(said.contains("from 20 batches, with 95 % intervals: IOPS "), "{said}");
    let short = json(&play(folder.path(), READS, &["--format", "json"]));
    assert!(short.get("batch_means").is_none(), "{short}");
}
