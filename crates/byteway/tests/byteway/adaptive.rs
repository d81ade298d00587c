//! Choice of a query's executor by estimate, compared with the actual times of both.

use crate::common::run;
use byteway_results::summary::Summary;

/// Rows of each table: four row groups and part of one.
const ROWS: u64 = 70_000;

/// Predicates and outputs of different selectivities. Most values of v02 are 0 and prs is exponential, so that zone maps estimate wrong
/// shares; x is uniform.
const QUERIES: [(&str, &str, &str); 21] = [
    ("water", "*", "v02 > 0.999"),
    ("water", "*", "v02 > 0.5"),
    ("water", "*", "v02 > 0.01"),
    ("water", "*", "v02 < 0.01"),
    ("water", "*", "v02 >= 0"),
    ("water", "rowid, prs", "v02 > 0.5"),
    ("water", "rowid, prs", "v02 < 0.5"),
    ("water", "rowid, prs", "prs < 100000"),
    ("water", "rowid, prs", "prs < 5000000"),
    ("water", "rowid, prs", "prs > 6000000"),
    ("water", "COUNT(*), MAX(prs)", "v03 > 0.5"),
    ("water", "COUNT(*), MAX(prs)", "v03 >= 0"),
    ("particles", "*", "x < 0.01"),
    ("particles", "*", "x < 0.5"),
    ("particles", "*", "x < 2"),
    ("particles", "id, energy", "energy > 1.5"),
    ("particles", "id, energy", "energy < 1.5"),
    ("particles", "id", "ux * ux + uy * uy < 0.01"),
    ("particles", "*", "x < 2 LIMIT 10"),
    ("water", "*", "v02 >= 0 LIMIT 100"),
    ("water", "rowid", "prs < 5000000 LIMIT 40000"),
];

fn scenario(profile: &str) -> String {
    let mut text = format!(
        "[drive]\nprofile = \"{profile}\"\npersonality = \"tables\"\ncapacity = \"1 GiB\"\n\
         [drive.override]\ncsd.group_rows = 16384\ncontroller.max_io_queues = 100\n[host]\nverify = false\n"
    );
    for (name, generator) in [("water", "deep-water"), ("particles", "vpic")] {
        text += &format!("[[drive.table]]\nname = \"{name}\"\ngenerate = \"{generator}\"\nrows = {ROWS}\n");
    }
    for (number, (table, outputs, predicate)) in QUERIES.iter().enumerate() {
        // The first brings what the drive caches, for all the others alike.
        for (name, execute) in
            [("warm", "host"), ("drive", "drive"), ("host", "host"), ("adaptive", "adaptive")]
        {
            text += &format!(
                "[[query]]\nname = \"{name}{number}\"\nsql = \"SELECT {outputs} FROM {table} WHERE {predicate}\"\n\
                 execute = \"{execute}\"\ncount = 1\nstonewall = true\n"
            );
        }
    }
    text
}

fn nanoseconds(summary: &Summary, job: &str) -> f64 {
    let row = summary.queries.iter().find(|row| row.job == job);
    row.map_or(0.0, |row| row.figures.latency.mean_ns)
}

// A choice by zone maps alone assumes uniform values, and one by bytes alone equal cores: both are wrong for skewed columns and slow cores.
// Where drive and host differ by more than a fifth, the choice must be the faster one.
#[test]
fn adaptive_chooses_the_faster_of_drive_and_host() {
    let (mut matters, mut right, mut wrong) = (0, 0, Vec::new());
    for profile in ["modern-gen5", "cosmos-plus"] {
        let summary = run(&scenario(profile));
        for (number, (table, outputs, predicate)) in QUERIES.iter().enumerate() {
            let (drive, host) = (
                nanoseconds(&summary, &format!("drive{number}")),
                nanoseconds(&summary, &format!("host{number}")),
            );
            let adaptive = format!("adaptive{number}");
            let chosen = summary.queries.iter().find(|row| row.job == adaptive).unwrap().executed_by.clone();
            let query = format!("{profile}: SELECT {outputs} FROM {table} WHERE {predicate}");
            eprintln!("{query}: drive {:.0} us, host {:.0} us, chosen {chosen}", drive / 1e3, host / 1e3);
            if drive.max(host) <= 1.2 * drive.min(host) {
                continue;
            }
            matters += 1;
            match chosen == if drive < host { "drive" } else { "host" } {
                true => right += 1,
                false => wrong.push(query),
            }
        }
        // The notes must state the basis of the decision.
        let is_said = |note: &String| note.contains("row groups (") && note.contains("this host");
        assert!(summary.notes.iter().any(is_said), "{:?}", summary.notes);
    }
    eprintln!(
        "adaptive was right in {right} of the {matters} that differ by more than a fifth; wrong: {wrong:#?}"
    );
    assert!(matters >= 12 && right * 10 >= matters * 9, "{right} of {matters}; wrong: {wrong:#?}");
}
