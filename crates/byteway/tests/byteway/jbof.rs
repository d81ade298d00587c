//! JBOFs in scenarios: every platform, mutual help of drives, and cost.
//!
//! Checked: every read on every platform under reads and writes of all sizes, by tenants with alternating bursts; that platforms differ
//! according to their mechanisms; reproducibility; rows and sentence of the result; a comparison by platform, with its Pareto front.

use crate::common::results;
use byteway_results::results::Results;
use byteway_results::summary::{JbofRow, JbofSummary};
use serde_json::Value;
use std::process::Command;

const PLATFORMS: [&str; 7] = ["conv", "oc", "shrunk", "vh", "vh-ideal", "proch", "espresso"];

/// Four drives of the paper's kind, at 1/4096 of their size, in a JBOF with a period of a millisecond.
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

/// Reads on two drives while the others are idle.
const BURST: &str = "[[job]]\nname = 'burst'\ndrive = ['ssd0', 'ssd1']\nrw = 'randread'\nbs = '64 KiB'\niodepth = 64\n\
    ramp_time = '10 ms'\nruntime = '20 ms'\n";

/// Every drive has a burst of all sizes, one after another, two at a time.
const TURNS: &str = "[[job]]\nname = 'a'\ndrive = ['ssd0', 'ssd1']\nrw = 'randrw'\nbsrange = '4 KiB-128 KiB'\niodepth = 32\n\
    runtime = '12 ms'\n\
    [[job]]\nname = 'b'\ndrive = ['ssd2', 'ssd3']\nrw = 'randrw'\nbsrange = '4 KiB-128 KiB'\niodepth = 32\nruntime = '12 ms'\n\
    startdelay = '6 ms'\n\
    [[job]]\nname = 'c'\ndrive = 'all'\nrw = 'randread'\nbs = '16 KiB'\niodepth = 8\ncount = 400\nstonewall = true\n";

// Wherever a command executes, and wherever map and data are at the time, reads must return what was written.
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

// Platforms must differ by mechanism: fewer cores are slower, peers compensate for them, and lenders are busier.
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
    // 4 TB of flash, independent of the simulated size: 4 x 8 x 4.95 + 4 x 7.2 + 48 + 6 dollars.
    assert!((jbof(&conv).dollars - 241.2).abs() < 1e-6, "{}", jbof(&conv).dollars);
    assert!(jbof(&espresso).dollars < jbof(&conv).dollars && jbof(&shrunk).dollars < jbof(&espresso).dollars);
    let energy = jbof(&espresso).energy;
    assert!(energy.flash > 0.0 && energy.processor > 0.0 && energy.links > 0.0, "{energy:?}");
}

// Without repeated use of map pages no DRAM is lent, and the amount of DRAM does not matter.
#[test]
fn dram_that_is_lent_shows_in_misses_and_throughput() {
    let burst = "[[job]]\nname = 'burst'\ndrive = ['ssd0', 'ssd1']\nrw = 'randread'\nbs = '16 KiB'\niodepth = 64\n\
        ramp_time = '30 ms'\nruntime = '10 ms'\n";
    let with = |dram: &str| {
        let keys = format!("dram = {dram}\nperiod = '1 ms'");
        results(&text("espresso", burst).replace("period = '1 ms'", &keys))
    };
    let [half, quarter] = ["0.5", "0.25"].map(with);
    let rows = &jbof(&half).drives;
    assert!(rows[0].segments_borrowed > 20 && rows[2].segments_lent > 20, "{rows:?}");
    assert!(rows[0].map_miss_ratio.unwrap() < 0.1, "{rows:?}");
    // Two drives with a quarter of the map, and two lenders with as much, hold at most half of it.
    assert!(jbof(&quarter).drives[0].map_miss_ratio.unwrap() > 0.4, "{:?}", jbof(&quarter).drives);
    let (all, less) = (half.summary.iops, quarter.summary.iops);
    assert!(less < 0.8 * all, "{less} and {all} I/Os a second");
}

// Drives of a JBOF may differ: a large one with all its cores borrows from small ones with few, depending on need and idle time.
#[test]
fn drives_of_different_kinds_help_each_other() {
    let found = results(
        "name = 'box'\n[[drive]]\nname = 'large'\ncopies = 2\nprofile = 'espresso'\ncapacity = '2 GiB'\n\
         override.firmware.op = '200 %'\n[[drive]]\nname = 'small'\ncopies = 2\nprofile = 'espresso'\ncapacity = '1 GiB'\n\
         override.firmware.op = '200 %'\noverride.firmware.cores = 2\n[host]\nprofile = 'dpu'\n[jbof]\nperiod = '1 ms'\n\
         segment = '16 KiB'\n[[job]]\nname = 'burst'\ndrive = 'large0'\nrw = 'randrw'\nbs = '16 KiB'\niodepth = 64\n\
         runtime = '20 ms'\n",
    );
    let verification = &found.summary.verification;
    assert!(verification.reads > 1000 && verification.mismatches == 0, "{verification:?}");
    let rows = &jbof(&found).drives;
    assert!(rows[0].redirected > 1000, "{rows:?}");
    let lent = |row: &JbofRow| row.cores_lent > 0.01;
    assert_eq!(rows.iter().map(lent).collect::<Vec<_>>(), [false, true, true, true], "{rows:?}");
}

// A lender's own burst has priority, and commands that it has already accepted return to their drive: they must not wait for the end of the
// burst.
#[test]
fn a_burst_of_the_lender_gives_back_what_it_has_taken_on() {
    let jobs = "[[job]]\nname = 'tenant'\ndrive = 'ssd0'\nrw = 'randread'\nbs = '48 KiB'\niodepth = 64\nruntime = '30 ms'\n\
        [[job]]\nname = 'burst'\ndrive = ['ssd1', 'ssd2', 'ssd3']\nrw = 'write'\nbs = '288 KiB'\niodepth = 64\n\
        startdelay = '8 ms'\nruntime = '22 ms'\n";
    let tenant = |platform: &str| {
        let found = run(platform, jobs);
        let job = found.summary.jobs.iter().find(|job| job.name == "tenant").unwrap();
        (job.iops, job.read.as_ref().unwrap().latency.max_ns)
    };
    let (alone, _) = tenant("shrunk");
    for platform in ["proch", "espresso"] {
        let (iops, longest) = tenant(platform);
        assert!(iops > alone, "{platform}: {iops} IOPS, {alone} without help");
        // A period of the JBOF until the burst is noticed, and the lender's own outstanding commands.
        assert!(longest < 5e6, "{platform}: {longest} ns");
    }
}

// A tenant with several queue pairs must get the same help as one with a single pair: lenders take commands of all of them.
#[test]
fn every_queue_pair_of_a_tenant_is_helped() {
    let iops = |platform: &str, numjobs: u32| {
        let job = format!(
            "[[job]]\nname = 'tenant'\ndrive = ['ssd0', 'ssd1']\nrw = 'randread'\nbs = '64 KiB'\nnumjobs = {numjobs}\n\
             iodepth = {}\nramp_time = '15 ms'\nruntime = '25 ms'\n",
            64 / numjobs
        );
        run(platform, &job).summary.iops
    };
    let (alone, one, eight) = (iops("shrunk", 8), iops("espresso", 1), iops("espresso", 8));
    assert!(
        eight > 1.4 * alone && eight > 0.95 * one,
        "{alone} alone, {one} by one queue pair, {eight} by eight"
    );
}

// Priority classes apply in a JBOF as on a single drive: the host's weights reach the drives and the shares of the peers.
#[test]
fn weights_of_classes_reach_the_shares() {
    let redirected = |weights: &str| {
        let host = format!("profile = 'dpu'\narbitration = 'weighted'\nweights = {weights}");
        let job = |name: &str, class: &str| {
            format!(
                "[[job]]\nname = '{name}'\ndrive = 'ssd0'\nrw = 'randread'\nbs = '64 KiB'\niodepth = 64\n\
             priority = '{class}'\nruntime = '20 ms'\n"
            )
        };
        let jobs = job("gold", "high") + &job("bronze", "medium");
        let text = text("espresso", &jobs).replace("profile = 'dpu'", &host);
        jbof(&results(&text)).drives[0].redirected
    };
    let (even, uneven) =
        (redirected("{high = 1, medium = 1, low = 1}"), redirected("{high = 64, medium = 8, low = 1}"));
    assert!(even > 500 && uneven > 500 && even != uneven, "{even} and {uneven} commands by peers");
}

// Peers execute the firmware work of a KV store as well, while its content stays on its own drive.
#[test]
fn pairs_are_stored_and_found_by_peers() {
    let found = results(
        &(text("espresso", "")
            .replace("copies = 4", "copies = 4\npersonality = 'kv'")
            .replace("segment", "watermark = '20 %'\nsegment")
            + "[[kv]]\nname = 'load'\ndrive = 'ssd0'\nworkload = 'filluniquerandom'\nvalue = '512 B'\nkeys = 50000\n\
           key_bytes = 4\niodepth = 64\n[[kv]]\nname = 'graph'\ndrive = 'ssd0'\nstonewall = true\n\
           workload = 'mixgraph-all-random'\nkeys = 50000\nkey_bytes = 4\ncount = 50000\niodepth = 64\n"),
    );
    let rows = &jbof(&found).drives;
    assert!(rows[0].redirected > 5000, "{rows:?}");
    assert!(found.summary.errors.is_empty(), "{:?}", found.summary.errors);
    let verification = &found.summary.verification;
    assert!(verification.reads > 10_000 && verification.mismatches == 0, "{verification:?}");
}

// Daemons, bindings and random redirection must be reproducible from the seed.
#[test]
fn a_box_does_the_same_again() {
    for platform in ["vh", "espresso"] {
        let once = || serde_json::to_string(&run(platform, TURNS).summary).unwrap();
        assert_eq!(once(), once(), "{platform}");
    }
}

// The purpose of simulating a JBOF is to find how little hardware suffices: the answer is a table with prices, and a Pareto front.
#[test]
fn a_comparison_shows_cost_beside_throughput() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("jbof.toml"), text("espresso", BURST)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_byteway"))
        .current_dir(folder.path())
        .args(["compare", "jbof.toml", "--vary", "platform=shrunk,espresso", "--vary", "jbof.cores=2,3"])
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
