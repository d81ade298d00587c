//! `byteway trace inspect` as seen by a user: on real traces if available, and with wrong flags and files.

use std::path::PathBuf;
use std::process::{Command, Output};

use byteway_trace::inspect::Inspection;

fn inspect(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_byteway"))
        .args(["trace", "inspect"])
        .args(arguments)
        .output()
        .expect("the binary is built")
}

/// The JSON output.
fn found(arguments: &[&str]) -> Vec<Inspection> {
    let output = inspect(&[&["--format", "json"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let objects = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    objects.map(|object| object.expect("it is the documented shape")).collect()
}

/// One of MQSim's traces, if available.
fn mqsim(name: &str) -> Option<PathBuf> {
    crate::common::real(&format!("block/mqsim/{name}.trace"))
}

// Figures that a line of awk gives for these files; a difference means that the trace is read wrongly.
#[test]
fn real_traces_are_described() {
    let (Some(tpcc), Some(wsrch)) = (mqsim("tpcc-small"), mqsim("wsrch-small")) else { return };
    let (tpcc, wsrch) = (tpcc.to_str().unwrap(), wsrch.to_str().unwrap());
    let traces = found(&[tpcc, wsrch]);
    let [tpcc_found, wsrch_found] = traces.as_slice() else { panic!("an object for each trace") };
    let figures = |found: &Inspection| {
        (found.records, found.kinds[0].records, found.kinds[1].records, found.device_count, found.bytes)
    };
    assert_eq!(figures(tpcc_found), (6_999, 4_381, 2_618, 16, 59_718_656));
    assert_eq!(figures(wsrch_found), (24_783, 24_779, 4, 6, 382_117_888));
    assert_eq!(tpcc_found.devices.iter().map(|row| row.records).sum::<u64>(), 6_999);
    assert_eq!((tpcc_found.footprint.units, wsrch_found.footprint.units), (20_470, 93_029));
    assert_eq!((tpcc_found.footprint.accesses, wsrch_found.footprint.accesses), (20_669, 93_312));
    assert_eq!((tpcc_found.duration_ns, wsrch_found.duration_ns), (136_489_000.0, 60_055_212_000.0));
    let shares = |found: &Inspection| (found.addresses.sequential_share, found.addresses.aligned_share);
    assert_eq!((shares(tpcc_found), shares(wsrch_found)), ((0.01243, 0.127447), (0.096034, 0.998951)));
    for found in &traces {
        assert!(found.assumption.contains("0 = write and 1 = read"));
        let curve = found.miss_ratio_curve.as_ref().unwrap();
        assert!(curve.points.windows(2).all(|pair| pair[0].miss_ratio >= pair[1].miss_ratio));
        let last = curve.points.last().unwrap();
        let first_touches = found.reuse.as_ref().unwrap().first_touch_share;
        assert!(found.footprint.exact && last.units >= found.footprint.units);
        // In a cache that holds everything only first accesses miss.
        assert!((last.miss_ratio - first_touches).abs() < if curve.exact { 1e-5 } else { 0.02 }, "{last:?}");
    }
    // More units than samples: the sample must agree with the full count.
    let exact = &found(&["--exact", wsrch])[0];
    let points = |found: &Inspection| found.miss_ratio_curve.clone().unwrap().points;
    for (sampled, exact) in points(wsrch_found).iter().zip(points(exact)) {
        assert!((sampled.miss_ratio - exact.miss_ratio).abs() < 0.02, "{sampled:?} {exact:?}");
    }
    let one = &found(&["--device", "4", "--footprint-unit", "16k", tpcc])[0];
    let row = tpcc_found.devices.iter().find(|row| row.device == 4).unwrap();
    assert_eq!((one.records, one.bytes, one.footprint.unit_bytes), (row.records, row.bytes, 16_384));
}

// Errors need a position and help; and a wrong file name must not show only after an hour of earlier traces.
#[test]
fn wrong_input_is_refused_with_place_and_cure() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).to_str().unwrap().to_owned()
    };
    let good = write("good.trace", "1 0 8 8 1\n2 0 8 8 0\n");
    let broken = write("broken.trace", "1 0 8 8 1\n2 0 eight 8 0\n");
    let cases: [(&[&str], &[&str]); 12] = [
        (&[&good, "absent.trace"], &["absent.trace", "cannot read", "help: "]),
        (&[&broken], &["broken.trace:2:1", "`eight`", "--skip-bad-lines"]),
        (&[&good, "--footprint-unit", "0 B"], &["--footprint-unit 0 B", "512 B to 1 GiB", "help: "]),
        (&[&good, "--footprint-unit", "4 kb"], &["unknown unit `kb`", "4 kB"]),
        (&[&good, "--samples", "63"], &["--samples 63", "64 to 16777216", "help: "]),
        (&[&good, "--from", "mqsin"], &["mqsin", "mqsim", "msr"]),
        (&[&good, "--device", "-1"], &["-1"]),
        (&[&good, "--unit", "16k"], &["--unit", "bytes, sectors"]),
        (&[&good, "--columns", "time,op,lba,bytes"], &["--columns", "time_us"]),
        (&[&good, "--columns", "lba,bytes", "--from", "mqsim"], &["contradicts", "mqsim"]),
        (&["-", "-"], &["more than once"]),
        (&[], &["FILE"]),
    ];
    for (arguments, words) in cases {
        let output = inspect(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        for word in words {
            assert!(message.contains(word), "{word:?} is missing in: {message}");
        }
    }
    let skipped = &found(&["--skip-bad-lines", &broken])[0];
    assert_eq!(skipped.records, 1);
    assert!(skipped.notes[0].contains("line 2"), "{:?}", skipped.notes);
    let table = String::from_utf8(inspect(&[&good]).stdout).unwrap();
    assert!(table.starts_with("good.trace: ") && table.contains("2 I/Os"), "{table}");
    assert!(!table.contains(folder.path().to_str().unwrap()), "results hold no paths");
}
