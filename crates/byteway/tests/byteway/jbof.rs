//! A box of drives as a scenario has it: every platform, what its drives do for each other, what they cost.
//!
//! Verified: every read of every platform under reads and writes of all sizes, by tenants whose bursts come in turn; that platforms differ
//! as their mechanisms say; the same bytes twice; the rows and the sentence of the result; a comparison by platform, with its front.

use crate::common::results;
use byteway_measure::results::Results;
use byteway_measure::summary::JbofSummary;
use serde_json::Value;
use std::process::Command;

const PLATFORMS: [&str; 7] = ["conv", "oc", "shrunk", "vh", "vh-ideal", "proch", "espresso"];

/// Four drives of the paper's kind, a 4096th of its size, in a box that looks each millisecond.
fn text(platform: &str, jobs: &str) -> String {
    format!(
        "name = 'box'\n[[drive]]\nname = 'ssd'\ncopies = 4\nprofile = 'espresso'\ncapacity = '1 GiB'\n\
         override.firmware.op = '200 %'\n[host]\nprofile = 'dpu'\n[jbof]\nplatform = '{platform}'\nperiod = '1 ms'\n\
         segment = '16 KiB'\n{jobs}"
    )
}

fn run(platform: &str, jobs: &str) -> Results {
    results(&text(platform, jobs))
}

fn jbof(results: &Results) -> &JbofSummary {
    results.summary.jbof.as_ref().unwrap()
}

/// Reads of two drives, the others idle.
const BURST: &str = "[[job]]\nname = 'burst'\ndrive = ['ssd0', 'ssd1']\nrw = 'randread'\nbs = '64 KiB'\niodepth = 64\n\
    ramp_time = '10 ms'\nruntime = '20 ms'\n";

/// Every drive has a burst of all sizes, one after the other, two at a time.
const TURNS: &str = "[[job]]\nname = 'a'\ndrive = ['ssd0', 'ssd1']\nrw = 'randrw'\nbsrange = '4 KiB-128 KiB'\niodepth = 32\n\
    runtime = '12 ms'\n\
    [[job]]\nname = 'b'\ndrive = ['ssd2', 'ssd3']\nrw = 'randrw'\nbsrange = '4 KiB-128 KiB'\niodepth = 32\nruntime = '12 ms'\n\
    startdelay = '6 ms'\n\
    [[job]]\nname = 'c'\ndrive = 'all'\nrw = 'randread'\nbs = '16 KiB'\niodepth = 8\ncount = 400\nstonewall = true\n";

// Whoever executes a command, wherever its map and its data are for the moment: what was written is what is read.
#[test]
fn every_platform_reads_what_was_written() {
    for platform in PLATFORMS {
        let found = run(platform, TURNS);
        let verification = &found.summary.verification;
        assert!(verification.reads > 4000 && verification.mismatches == 0, "{platform}: {verification:?}");
        assert!(found.summary.errors.is_empty(), "{platform}: {:?}", found.summary.errors);
        let rows = &jbof(&found).drives;
        let redirected: u64 = rows.iter().map(|row| row.redirected).sum();
        let moves = matches!(platform, "vh" | "vh-ideal" | "proch" | "espresso");
        assert_eq!(redirected > 0, moves, "{platform}: {redirected} commands by peers");
        let copied: u64 = rows.iter().map(|row| row.copied_bytes).sum();
        assert_eq!(copied > 0, platform == "vh", "{platform}: {copied} bytes copied back");
    }
}

// A platform is a mechanism, not a name: fewer cores are slower, peers make up for them, and who lends is busy for it.
#[test]
fn platforms_differ_as_their_mechanisms_do() {
    let [conv, shrunk, espresso] = ["conv", "shrunk", "espresso"].map(|platform| run(platform, BURST));
    let rate = |found: &Results| found.summary.bytes_per_second;
    assert!(rate(&shrunk) < 0.7 * rate(&conv), "{} and {}", rate(&shrunk), rate(&conv));
    assert!(rate(&espresso) > 0.9 * rate(&conv), "{} and {}", rate(&espresso), rate(&conv));
    let rows = &jbof(&espresso).drives;
    assert!(rows[0].redirected > rows[0].commands / 4 && rows[0].cores_lent == 0.0, "{rows:?}");
    let lent: f64 = rows[2].cores_lent + rows[3].cores_lent;
    assert!(lent > 0.8 && rows[2].commands == 0, "{rows:?}");
    assert!(rows.iter().all(|row| row.cores_busy <= 1.0), "{rows:?}");
    assert!(jbof(&espresso).fabric_bytes > 0 && jbof(&conv).fabric_bytes == 0);
    // 4 TB of flash, whatever was simulated: 4 x 8 x 4.95 + 4 x 7.2 + 48 + 6 dollars.
    assert!((jbof(&conv).dollars - 241.2).abs() < 1e-6, "{}", jbof(&conv).dollars);
    assert!(jbof(&espresso).dollars < jbof(&conv).dollars && jbof(&shrunk).dollars < jbof(&espresso).dollars);
    let energy = jbof(&espresso).energy;
    assert!(energy.flash > 0.0 && energy.processor > 0.0 && energy.links > 0.0, "{energy:?}");
}

// Daemons, bindings and draws of which command goes where are part of a run: the same seed, the same bytes.
#[test]
fn a_box_does_the_same_again() {
    for platform in ["vh", "espresso"] {
        let once = || serde_json::to_string(&run(platform, TURNS).summary).unwrap();
        assert_eq!(once(), once(), "{platform}");
    }
}

// The question that a box is simulated for is how little a drive can have: the answer is a table with prices, and a front.
#[test]
fn a_comparison_shows_cost_beside_throughput() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("box.toml"), text("espresso", BURST)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_byteway"))
        .current_dir(folder.path())
        .args(["compare", "box.toml", "--vary", "platform=shrunk,espresso", "--vary", "jbof.cores=2,3"])
        .args(["--out", "out", "--format", "json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let dollars: Vec<f64> = json["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| point["figures"]["drive_dollars"].as_f64().unwrap())
        .collect();
    assert_eq!(dollars.len(), 4, "{json}");
    assert!(dollars[0] < dollars[1] && dollars[2] < dollars[3], "fewer cores are cheaper: {dollars:?}");
    let report = std::fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(report.contains("Pareto front") && report.contains("Throughput by cost"));
}
