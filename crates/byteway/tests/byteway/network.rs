//! Runs over a network: reads return what was written over every path and network, and every nanosecond and every message is accounted for.

use crate::common::{run, run_with};
use byteway_results::summary::{LinkRow, Summary};

/// Reads and writes of all sizes on two drives, with bytes stored and compared.
const MIX: &str = "\
name = 'mix'
[[drive]]
name = 'a'
profile = 'round.toml'
store = 'ram'
[[drive]]
name = 'b'
profile = 'round.toml'
store = 'ram'
precondition = 'empty'
[host]
profile = 'xeon-e5-v4'
verify = 'bytes'
[target]
[network]
[[job]]
name = 'mix'
drive = 'all'
rw = 'randrw'
size = '4 MiB'
bsrange = '4 KiB-64 KiB'
iodepth = 8
numjobs = 2
count = 600
[[job]]
name = 'scan'
drive = 'a'
rw = 'read'
bs = '128 KiB'
count = 40
";

fn crossings<'a>(summary: &'a Summary, purpose: &str, direction: &str) -> Option<&'a LinkRow> {
    let rows = &summary.network.as_ref().expect("it has a network").crossings;
    rows.iter().find(|row| row.purpose == purpose && row.direction == direction)
}

/// Mean latency over all jobs, weighted by I/Os.
fn mean(summary: &Summary) -> f64 {
    let kinds = summary.jobs.iter().flat_map(|job| [&job.read, &job.write]).flatten();
    let sum: f64 = kinds.map(|kind| kind.latency.mean_ns * kind.ios as f64).sum();
    sum / summary.ios as f64
}

// A past error: the target refused commands of the drive's maximum length. Every I/O failed, and the run ended normally.
#[test]
fn what_a_drive_takes_its_target_takes() {
    const LARGE: &str = "\
[drive]
profile = 'samsung-970-pro'
capacity = '1 GiB'
[host]
profile = 'xeon-e5-v4'
verify = 'bytes'
[target]
[network]
[[job]]
rw = 'randrw'
bs = '1 MiB'
size = '64 MiB'
iodepth = 4
count = 60
";
    for sets in [&["target.path=block"][..], &["target.path=bypass"], &["network.profile=tcp-100g"]] {
        let summary = run_with(LARGE, sets);
        assert_eq!((summary.ios, summary.errors.len()), (60, 0), "{sets:?}");
    }
}

// Data corrupted on the path would be results of another system; and time outside all stages explains nothing.
#[test]
fn every_path_and_network_brings_the_bytes_and_accounts_for_the_time() {
    for sets in [
        &["target.path=block"][..],
        &["target.path=bypass"],
        &["target.scheduler=mq-deadline", "network.override.block.tags=3"],
        &["network.profile=tcp-100g"],
        &["network.override.in_capsule=0 B", "target.path=bypass"],
        &["network.profile=tcp-100g", "target.override.cores=1"],
    ] {
        // Verified byte by byte: `run_with` asserts it.
        let summary = run_with(MIX, sets);
        assert!(summary.verification.reads > 400, "{sets:?}: {}", summary.verification.reads);
        let sum: f64 = summary.spans.iter().map(|row| row.mean_ns).sum();
        let mean = mean(&summary);
        assert!((sum / mean - 1.0).abs() < 1e-9, "{sets:?}: {sum} against {mean}");
        for stage in ["fabric", "target"] {
            assert!(
                summary.spans.iter().any(|row| row.span == stage && row.mean_ns > 0.0),
                "{sets:?}: {stage}"
            );
        }
        let (commands, responses) =
            (crossings(&summary, "command", "to target"), crossings(&summary, "response", "to host"));
        // Over TCP a completion queue entry is in a PDU.
        let is_tcp = sets.contains(&"network.profile=tcp-100g");
        let entry = if is_tcp { 24 } else { 16 };
        let asked = crossings(&summary, "data request", "to host");
        let (commands, responses) =
            (commands.expect("there are commands"), responses.expect("and responses"));
        assert!(
            commands.payload_bytes >= 64 * summary.ios && responses.payload_bytes == entry * summary.ios,
            "{sets:?}"
        );
        assert!(commands.wire_bytes > commands.payload_bytes, "{sets:?}");
        assert!(asked.is_some(), "{sets:?}: more data than a capsule has is asked for");
        let network = summary.network.as_ref().expect("it has a network");
        assert!(network.target_ns_per_io > 1_000.0, "{sets:?}: {}", network.target_ns_per_io);
        assert!(
            network.processors.mean <= network.processors.max && network.processors.max <= 1.0,
            "{sets:?}"
        );
    }
}

// A result that changes between runs is useless for comparisons.
#[test]
fn the_same_scenario_gives_the_same_bytes() {
    let once = run(MIX).to_json();
    assert_eq!(once, run(MIX).to_json());
    assert_ne!(once, run_with(MIX, &["target.path=bypass"]).to_json());
    assert!(once.contains("\"network\""));
    // A local drive has no network, and no network keys in its results.
    let local = MIX.replace("[target]\n[network]\n", "");
    let local = run(&local).to_json();
    for key in ["\"network\"", "\"fabric\"", "\"target\""] {
        assert!(!local.contains(key), "{key}");
    }
}

// A host's queue pairs belong to the target; a drive with fewer must neither refuse the jobs nor mix up their commands.
#[test]
fn more_workers_than_the_drive_has_queue_pairs() {
    let text = "[drive]\nprofile = 'cosmos-plus'\ncapacity = '1 GiB'\nstore = 'ram'\n[host]\nprofile = 'xeon-e5-v4'\n\
                verify = 'bytes'\n[target]\n[[job]]\nrw = 'randrw'\nsize = '1 MiB'\nbs = '4 KiB'\nnumjobs = 20\niodepth = 4\n\
                count = 800\n";
    for path in ["block", "bypass"] {
        let summary = run_with(text, &[&format!("target.path={path}")]);
        assert!(summary.ios >= 800 && summary.verification.reads > 200, "{path}: {}", summary.ios);
    }
}

// A remote drive must not be faster than a local one: the network costs time, and a bypass saves some.
#[test]
fn a_network_costs_and_a_bypass_saves() {
    let text = "[drive]\nprofile = 'p4500'\nprecondition = 'empty'\n[host]\nprofile = 'xeon-e5-v4'\n[target]\n[[job]]\n\
                rw = 'randread'\ncount = 50\n";
    let local = mean(&run(&text.replace("[target]\n", "")));
    let of = |sets: &[&str]| mean(&run_with(text, sets));
    let (block, bypass) = (of(&[]), of(&["target.path=bypass"]));
    let tcp = of(&["network.profile=tcp-100g"]);
    assert!(local < bypass && bypass < block && block < tcp, "{local} {bypass} {block} {tcp}");
    // The block layer's constants: 1.7 us, 0.7 us, 1.6 us.
    assert!((block - bypass - 4_000.0).abs() < 1.0, "{}", block - bypass);
}

// Key-value pairs over a network: reads must return what was stored, and a value in its command's capsule also follows its command on the
// drive's link.
#[test]
fn pairs_cross_a_network_inline_or_by_pointer() {
    let text = "[drive]\nprofile = 'cosmos-plus'\npersonality = 'kv'\ncapacity = '1 GiB'\n[host]\nprofile = 'xeon-e5-v4'\n\
                [target]\npath = 'bypass'\n[[kv]]\nworkload = 'fillrandom'\nvalue = '200 B'\ncount = 400\n\
                [[kv]]\nworkload = 'readrandom'\nstonewall = true\ncount = 400\n";
    let down = |summary: &Summary, purpose: &str| {
        let rows = summary.link.iter();
        rows.filter(|row| row.purpose == purpose && row.direction == "to device")
            .map(|row| row.payload_bytes)
            .sum::<u64>()
    };
    for method in ["prp", "inline"] {
        let summary = run_with(text, &[&format!("transfer.method={method}")]);
        assert_eq!(summary.ios, 800, "{method}");
        assert_eq!(summary.verification.mismatches, 0);
        let (inline, data) = (down(&summary, "inline chunk"), down(&summary, "data"));
        assert_eq!((inline > 0, data == 0), (method == "inline", method == "inline"), "{inline} {data}");
    }
}

// Without shares, the side with more outstanding I/Os would get a larger part of the drive.
#[test]
fn each_side_keeps_to_its_share_of_the_drive() {
    let job = |name: &str, at: &str| {
        format!(
            "[[job]]\nname = '{name}'\n{at}rw = 'randread'\nbs = '4 KiB'\niodepth = 32\nsize = '64 MiB'\nruntime = '3 ms'\n"
        )
    };
    let text = format!(
        "[drive]\nprofile = 'cosmos-plus'\ncapacity = '1 GiB'\n[host]\nprofile = 'xeon-e5-v4'\n[target]\npath = 'bypass'\n{}{}",
        job("remote", ""),
        job("local", "at = 'target'\n")
    );
    let shares = |sets: &[&str]| {
        let summary = run_with(&text, sets);
        let ios = |name: &str| summary.jobs.iter().find(|job| job.name == name).unwrap().ios as f64;
        ios("remote") / (ios("remote") + ios("local"))
    };
    let (even, few_remote, few_local) =
        (shares(&[]), shares(&["target.remote_outstanding=4"]), shares(&["target.local_outstanding=4"]));
    assert!(few_remote < even * 0.6, "{few_remote} of {even}");
    assert!(1.0 - few_local < (1.0 - even) * 0.6, "{few_local} of {even}");
}
