//! `byteway reproduce` as seen by a user: byte counts that match the specification's arithmetic, verdicts that detect regressions, the same
//! output for any parallelism, and invalid input refused before anything runs.

use crate::browser::{Browser, View};
use byteway_papers::byteexpress::{TABLE, board, polled};
use byteway_papers::{BOARDS, PAPERS, Reason, Spec, Tolerance};
use byteway_results::summary::Summary;
use byteway_run::run::{Session, run};
use byteway_scenario::profile::Completion;
use byteway_text::error::with_causes;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn reproduce(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_byteway"))
        .current_dir(folder)
        .arg("reproduce")
        .args(arguments)
        .output()
        .expect("the binary is built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

/// Joins wrapped sentences.
fn unwrapped(bytes: &[u8]) -> String {
    text(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

/// A few claims that are measured quickly.
fn claims(recorded: &str, required: bool) -> String {
    format!(
        "paper = 'A paper'\n\
         [[claim]]\nid = 'BX01'\nwhere = '1'\nsays = 'More than 130.'\nmetric = 'bytes'\nvalue = '> 130 x'\n\
         tolerance = '1 %'\nbasis = 'predicted'\nneeds = 'sink'\nrecorded = 'reproduced'\n\
         [[claim]]\nid = 'BX03'\nwhere = '2'\nsays = 'Half.'\nmetric = 'bytes'\nvalue = '-50 %'\n\
         tolerance = '1 pt'\nbasis = 'predicted'\nneeds = 'sink'\nrequired = {required}\nrecorded = '{recorded}'\n\
         reason = 'A made-up figure.'\n\
         [[claim]]\nid = 'BX15'\nwhere = '3'\nsays = 'Much.'\nmetric = 'bytes'\ntolerance = 'order'\n\
         basis = 'predicted'\nneeds = 'traces'\n"
    )
}

fn with_claims(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("claims.toml"), text).unwrap();
    folder
}

const FEW: [&str; 7] = ["byteexpress", "--claims", "claims.toml", "--payloads", "50", "--format", "json"];

fn summary(spec: &Spec, payloads: u64) -> Summary {
    let scenario = spec.scenario(payloads).unwrap_or_else(|error| panic!("{error}\n{}", spec.text(payloads)));
    let mut progress = Progress::hidden();
    let session = Session { progress: &mut progress, interrupt: &Interrupt::default() };
    run(&scenario, session)
        .unwrap_or_else(|error| panic!("{}\n{}", with_causes(&error), spec.text(payloads)))
        .summary
}

/// Bytes per payload: polled and with interrupts, for PRP, piggyback and inline.
type Row = [(u64, u64); 3];

// One wrong byte in either ledger, and every claim about traffic is about another protocol. The figures follow from the sizes of entries,
// doorbells, pages and packet headers alone.
#[test]
fn the_bytes_of_every_method_are_those_of_the_specification() {
    const PAYLOAD: [Row; 6] = [
        [(4184, 4188), (88, 92), (152, 156)],
        [(4184, 4188), (176, 184), (152, 156)],
        [(4184, 4188), (264, 276), (216, 220)],
        [(4184, 4188), (440, 460), (344, 348)],
        [(4184, 4188), (1672, 1748), (1112, 1116)],
        [(4184, 4188), (6512, 6808), (4184, 4188)],
    ];
    const WIRE: [Row; 6] = [
        [(4812, 4840), (204, 232), (312, 340)],
        [(4812, 4840), (408, 464), (312, 340)],
        [(4812, 4840), (612, 696), (420, 448)],
        [(4812, 4840), (1020, 1160), (636, 664)],
        [(4812, 4840), (3876, 4408), (1932, 1960)],
        [(4812, 4840), (15096, 17168), (7116, 7144)],
    ];
    const PAYLOADS: u64 = 40;
    let mut wrong = Vec::new();
    for (row, bytes) in TABLE.into_iter().enumerate() {
        for (column, method) in ["prp", "piggyback", "inline"].into_iter().enumerate() {
            let (payload, wire) = (PAYLOAD[row][column], WIRE[row][column]);
            let interrupted = board(method, bytes);
            for (spec, payload, wire) in
                [(polled(interrupted.clone()), payload.0, wire.0), (interrupted, payload.1, wire.1)]
            {
                let summary = summary(&spec, PAYLOADS);
                assert_eq!(summary.ios, PAYLOADS);
                let found: u64 = summary.link.iter().map(|row| row.payload_bytes).sum();
                let found_wire: u64 = summary.link.iter().map(|row| row.wire_bytes).sum();
                if (found, found_wire) != (payload * PAYLOADS, wire * PAYLOADS) {
                    let (found, found_wire) =
                        (found as f64 / PAYLOADS as f64, found_wire as f64 / PAYLOADS as f64);
                    let name = spec.name();
                    wrong.push(format!(
                        "{name}: {found} and {found_wire}, not {payload} and {wire}: {:#?}",
                        summary.link
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// The overall purpose: every measurable claim holds with the current profiles, and the report shows it. A changed constant shows here
// first.
#[test]
fn byteexpress_is_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    let output = reproduce(folder.path(), &["byteexpress", "--payloads", "100", "--out", "out"]);
    let table = unwrapped(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}\n{}", text(&output.stderr));
    assert!(table.contains("15 reproduced, 4 reported, 4 in direction only, 1 not reproduced"), "{table}");
    let kept = std::fs::read(folder.path().join("out/reproduce.json")).unwrap();
    let json: Value = serde_json::from_slice(&kept).unwrap();
    let failed = json["points"].as_array().unwrap().iter().find(|point| point["status"] != "done");
    assert!(failed.is_none(), "{failed:#?}");
    let report = folder.path().join("out/report.html");
    let html = std::fs::read_to_string(&report).unwrap();
    assert!(html.len() <= 1_500_000, "{} bytes", html.len());
    for part in [
        "Fig. 5: bytes and latency over payload sizes",
        "Fig. 1(a): value sizes of MixGraph",
        "Fig. 6: a key-value drive",
        "72 % below piggyback at 128 B",
        "39.8 % below piggyback",
        "inline up to 40.4 % below PRP",
        "the driver's column of Table 1",
        "<span class=\"tone fair\">direction only",
        "finer-grained transfer units",
        "shortened",
        "page granularity",
        "set-up of the DMA",
        "15,096 / 17,168",
        "Calibrated",
        "Predicted",
        "2400 / 2800 / 3200 / 4000 ns",
    ] {
        assert!(html.contains(part), "{part:?} is missing");
    }
    assert!(!html.contains(&folder.path().display().to_string()));
    let Some(mut browser) = Browser::start() else { return };
    for width in [1200, 360] {
        let mut shown = browser.open(&report, View { width, print: false, dark: false });
        let drawn = shown.inspect();
        assert!(drawn >= 14, "{drawn} figures");
        if let Some(pictures) = std::env::var_os("BYTEWAY_PICTURES") {
            let file = format!("reproduce-{width}.png");
            std::fs::write(Path::new(&pictures).join(file), shown.picture()).unwrap();
        }
        assert!(shown.complaints.is_empty(), "{width} px:\n{}", shown.complaints.join("\n"));
    }
}

// A claim with its own configuration could be made to show anything. Every point of every recipe must be its board, except for the method
// and for departures, each of which quotes the paper.
#[test]
fn every_claim_starts_from_its_boards_one_configuration() {
    for paper in PAPERS {
        for recipe in paper.recipes.iter().copied().flatten() {
            for spec in (recipe.points)() {
                let whose = format!("{} {}: {}", paper.name, recipe.id, spec.name());
                for departure in spec.departures() {
                    match departure.reason() {
                        Reason::Paper { place, words } => {
                            assert!(!place.is_empty() && words.split(' ').count() >= 3, "{whose}: {words:?}");
                        }
                        // A figure of a smaller drive is not the paper's: only an order may depend on it.
                        Reason::Scaled(_) => {
                            let claims = paper.read_claims(None).unwrap().claims;
                            let claim = claims.into_iter().find(|claim| claim.id == recipe.id).unwrap();
                            assert_eq!((claim.tolerance, claim.value), (Tolerance::Order, None), "{whose}");
                        }
                        Reason::Ours(_) => {
                            panic!("{whose}: a claim departs for a reason of ours: {}", departure.sentence())
                        }
                    }
                }
                let departs = |key: &str| spec.departures().iter().find(|one| one.setting().0 == key);
                let is_on = |board: &byteway_papers::Board| {
                    let value =
                        |wanted: &str| spec.keys().find(|(key, _)| *key == wanted).map(|(_, value)| value);
                    let base = match (spec.is_kv(), value("target.path")) {
                        (true, _) => board.kv(),
                        (false, Some(path)) => board.behind(path.trim_matches('"')),
                        (false, None) if value("drive.personality") == Some("\"block\"") => board.block(),
                        (false, None) if value("drive.personality") == Some("\"tables\"") => board.tables(),
                        (false, None) => board.sink(),
                    };
                    let extra = spec.keys().all(|(key, value)| {
                        let is_base = base.keys().any(|own| own == (key, value));
                        let departs = departs(key).is_some_and(|one| one.setting().1 == value);
                        // The subject of a claim: the transfer method, or the hardware of a JBOF and its drives.
                        let is_subject = ["jbof.platform", "jbof.cores", "jbof.dram"].contains(&key);
                        is_base || departs || is_subject || key.starts_with("transfer.")
                    });
                    let missing = base.keys().find(|(key, _)| !spec.keys().any(|(own, _)| own == *key));
                    extra && missing.is_none()
                };
                assert!(BOARDS.into_iter().any(is_on), "{whose}: {:?}", spec.keys().collect::<Vec<_>>());
                let scenario = spec.scenario(200).unwrap_or_else(|error| panic!("{whose}: {error}"));
                // The host of a JBOF polls; all others wait for interrupts, as Linux's pass-through does.
                let completion =
                    if scenario.jbof.is_some() { Completion::Polled } else { Completion::Interrupt };
                assert_eq!(scenario.host.profile.completion, completion, "{whose}");
            }
        }
    }
}

// Ten thousand payloads represent a million only if neither start nor end of the run affects the mean.
#[test]
fn few_payloads_agree_with_many() {
    let spec = board("inline", 64);
    let mean = |payloads| {
        let summary = summary(&spec, payloads);
        summary.jobs[0].write.as_ref().unwrap().latency.mean_ns
    };
    let (few, many) = (mean(500), mean(5_000));
    assert!((few / many - 1.0).abs() < 1e-3, "{few} against {many}");
}

// Regression check: a claim that was reproduced and no longer is must end the program with 1, one that never was must not.
#[test]
fn what_regressed_ends_with_1() {
    for (recorded, required, code) in [
        ("reproduced", false, 1),
        ("direction-only", false, 0),
        ("direction-only", true, 1),
        ("not-reproduced", false, 0),
    ] {
        let folder = with_claims(&claims(recorded, required));
        let output = reproduce(folder.path(), &FEW);
        assert_eq!(output.status.code(), Some(code), "{recorded} {required}: {}", text(&output.stderr));
        let json = json(&output);
        assert_eq!(json["holds"], code == 0);
        let verdicts: Vec<&Value> =
            json["claims"].as_array().unwrap().iter().map(|claim| &claim["verdict"]).collect();
        assert_eq!(verdicts, ["reproduced", "direction-only", "needs-traces"]);
        assert_eq!(json["claims"][1]["regressed"], recorded == "reproduced");
        assert_eq!(json["counts"]["out_of_reach"], 1);
        assert_eq!(json["agreements"][0]["payloads"], serde_json::json!([50, 5000]));
        assert_eq!(json["agreements"][0]["agrees"], true);
    }
}

// The result must not depend on the number of processors.
#[test]
fn however_many_run_at_once_the_bytes_are_the_same() {
    let folder = with_claims(&claims("direction-only", false));
    let once = |jobs: &str| {
        let output = reproduce(folder.path(), &[&FEW[..], &["--jobs", jobs]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let one = once("1");
    assert_eq!(one, once("3"));
    assert!(!one.contains(&folder.path().display().to_string()));
}

// Mistakes must be found before the runs, not after minutes or never.
#[test]
fn wrong_input_is_refused_before_anything_runs() {
    let folder = with_claims(&claims("reproduced", false).replace("'1 pt'", "'1'"));
    for (arguments, said) in [
        (&FEW[..], "claims.toml:18:13: `claim.1.tolerance`: `1` is not a tolerance"),
        (&["byteexpres"], "did you mean `byteexpress`?"),
        (&["byteexpress", "--payloads", "0"], "0 is not in 1..=1000000"),
        (&["byteexpress", "--claims", "none.toml"], "cannot read the claims file `none.toml`"),
        (&["byteexpress", "--out", "claims.toml"], "cannot write to the output folder"),
    ] {
        let output = reproduce(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(error.contains(said) && output.stdout.is_empty(), "{error}");
    }
}

// The list shows what can be reproduced, and what waits for missing drives.
#[test]
fn papers_and_claims_are_listed() {
    let here = Path::new(".");
    let papers = text(&reproduce(here, &["--list"]).stdout);
    // NF07 is a parameter, not a claim.
    let light: Vec<u32> = (1..=6).chain([8]).collect();
    for (paper, prefix, claims) in [
        ("byteexpress", "BX", (1..=24).collect()),
        ("bandslim", "BS", (1..=27).collect()),
        ("nvmeof", "NF", light),
        // PS01 is a parameter, too.
        ("pcie-ssd", "PS", (2..=16).collect()),
        // So are ES04, ES16 to ES19, ES21 and ES45.
        ("espresso", "ES", (1..=56).filter(|id| ![4, 16, 17, 18, 19, 21, 45].contains(id)).collect()),
    ] {
        assert!(papers.contains(&format!("{paper}: ")), "{papers}");
        let output = reproduce(here, &[paper, "--list"]);
        assert_eq!(output.status.code(), Some(0));
        let list = text(&output.stdout);
        for claim in claims {
            assert!(list.contains(&format!("{prefix}{claim:02}")), "{list}");
        }
        assert!(list.lines().all(|line| line.chars().count() <= 140), "{list}");
    }
}

// These claims check the key-value drive: a change of a firmware constant, a packing policy or the cost of a line shows here. Claims that
// need a bulk-storing client must say so.
#[test]
fn bandslim_is_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    let output = reproduce(folder.path(), &["bandslim", "--payloads", "4000", "--out", "out"]);
    let table = unwrapped(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}\n{}", text(&output.stderr));
    assert!(table.contains("19 reproduced, 4 reported, 1 in direction only, 3 not reproduced"), "{table}");
    let kept = std::fs::read(folder.path().join("out/reproduce.json")).unwrap();
    let json: Value = serde_json::from_slice(&kept).unwrap();
    let failed = json["points"].as_array().unwrap().iter().find(|point| point["status"] != "done");
    assert!(failed.is_none(), "{failed:#?}");
    // The known conflict: 128 B by piggyback, and 72 % less time by inline.
    let verdict = |id: &str| {
        let claims = json["claims"].as_array().unwrap();
        claims.iter().find(|claim| claim["id"] == id).unwrap()["verdict"].clone()
    };
    assert_eq!((verdict("BS06"), verdict("BS26")), ("not-reproduced".into(), "reproduced".into()));
    // As in the recorded full run: 12.3 instead of 13 times, which fewer PUTs reach.
    assert_eq!(verdict("BS09"), "direction-only");
    assert!(table.contains("Shortened: the full run of 2026-11-23 gave 12.3 x."), "{table}");
    assert!(table.contains("full: 12.30 x"), "the figure that decides stands in the row: {table}");
    // The paper's threshold of 64 B, exclusive, does not give its figures for W(M).
    assert_eq!((verdict("BS17"), verdict("BS18")), ("not-reproduced".into(), "not-reproduced".into()));
    assert!(table.contains("Does not hold: Adaptive-P has the most on W(M)."), "{table}");
    assert!(table.contains("on cosmos-plus-gen5x8"), "{table}");
    // Claims that follow from parameters, or from draws, hold for any length; measured ones do not.
    for claim in json["claims"].as_array().unwrap().iter().filter(|claim| claim["needs"] == "kv") {
        let any_length = ["BS20", "BS21"].contains(&claim["id"].as_str().unwrap());
        assert_eq!(claim["shortened"].is_null(), any_length, "{claim:#}");
    }
    // The paper changes nothing else where it discusses collected PUTs.
    let gathered = json["claims"].as_array().unwrap().iter().find(|claim| claim["id"] == "BS26").unwrap();
    assert_eq!(gathered["departures"], serde_json::json!([]));
    // The details of a claim must not contradict its verdict.
    assert!(!table.contains("DOES NOT"), "{table}");
    // Four thousand PUTs never flush the index.
    assert!(table.contains("the index never reached flash"), "{table}");
    let report = folder.path().join("out/report.html");
    let html = std::fs::read_to_string(&report).unwrap();
    assert!(html.len() <= 1_500_000, "{} bytes", html.len());
    for part in [
        "Fig. 2(a): bytes of a million values",
        "Fig. 5(c): bytes of a million values",
        "Fig. 5(d), 5(e): workloads on Gen5",
        "paper: about 4 GB",
        "paper: up to 98.1 % fewer",
        "<span class=\"tone bad\">not reproduced",
        "Packing: pages of flash",
        "Adaptive-C",
        "Calibrated",
    ] {
        assert!(html.contains(part), "{part:?} is missing");
    }
    let Some(mut browser) = Browser::start() else { return };
    for width in [1200, 360] {
        let mut shown = browser.open(&report, View { width, print: false, dark: false });
        let drawn = shown.inspect();
        assert!(drawn >= 11, "{drawn} figures");
        assert!(shown.complaints.is_empty(), "{width} px:\n{}", shown.complaints.join("\n"));
    }
}

// A number in the documentation without a run behind it would be unfounded.
#[test]
fn the_documentation_counts_what_is_recorded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/tasks/reproduce-a-paper.md")).unwrap();
    for paper in PAPERS {
        let claims = std::fs::read_to_string(root.join(format!("claims/{}.toml", paper.name))).unwrap();
        let recorded = |verdict: &str| claims.matches(&format!("\nrecorded = \"{verdict}\"\n")).count();
        let each = ["reproduced", "direction-only", "reported", "not-reproduced"].map(recorded);
        let all = claims.matches("\n[[claim]]\n").count();
        let [reproduced, direction, reported, not] = each;
        let open = all - each.iter().sum::<usize>();
        let row = format!(
            "| `{}` | {all} | {reproduced} | {direction} | {reported} | {not} | {open} |",
            paper.name
        );
        assert!(page.contains(&row), "docs/tasks/reproduce-a-paper.md is to say {row}");
    }
}

/// The claims of a paper with these ids.
fn some_claims(paper: &str, ids: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = std::fs::read_to_string(root.join(format!("claims/{paper}.toml"))).unwrap();
    let mut parts = all.split("[[claim]]\n");
    let head = parts.next().unwrap().to_owned();
    let wanted = |part: &&str| ids.iter().any(|id| part.starts_with(&format!("id = \"{id}\"")));
    parts.filter(wanted).fold(head, |text, part| format!("{text}[[claim]]\n{part}"))
}

// These claims check the JBOF: firmware on the host, fewer cores and half a map cost what the paper says, and its bill is
// correct. All other claims take a quarter of an hour.
#[test]
fn some_of_espresso_is_reproduced() {
    const IDS: [&str; 8] = ["ES02", "ES03", "ES14", "ES20", "ES28", "ES29", "ES47", "ES55"];
    let text = some_claims("espresso", &IDS);
    let folder = with_claims(&text);
    let arguments = ["espresso", "--claims", "claims.toml", "--payloads", "1000", "--format", "json"];
    let output = reproduce(folder.path(), &arguments);
    let json = json(&output);
    assert_eq!(output.status.code(), Some(0), "{json:#}");
    let claims = json["claims"].as_array().unwrap();
    assert_eq!(claims.len(), IDS.len());
    for claim in claims {
        assert_eq!(claim["verdict"], "reproduced", "{claim:#}");
    }
}

#[test]
fn nvmeof_is_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    let output = reproduce(folder.path(), &["nvmeof", "--payloads", "1000", "--out", "out"]);
    let table = unwrapped(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}\n{}", text(&output.stderr));
    assert!(table.contains("6 reproduced, 1 in direction only."), "{table}");
    assert!(table.contains("4 us that are 22 % of what is added (NF03) say 18 us"), "{table}");
    let kept = std::fs::read(folder.path().join("out/reproduce.json")).unwrap();
    let json: Value = serde_json::from_slice(&kept).unwrap();
    let points = json["points"].as_array().unwrap();
    assert_eq!(points.len(), 20, "three systems, six numbers of jobs, one configuration; and local I/O");
    for point in points {
        assert_eq!(point["status"], "done", "{point:#?}");
        let stages = point["stages"].as_object().unwrap();
        let sum: f64 = stages.values().map(|stage| stage.as_f64().unwrap()).sum();
        assert!((sum / point["mean_ns"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{point:#?}");
        let is_remote = point["name"].as_str().unwrap().contains("over roce-100g to xeon-e5-v4");
        assert_eq!((point.get("target_ns").is_some(), stages.contains_key("fabric")), (is_remote, is_remote));
    }
    let verdicts: Vec<&Value> =
        json["claims"].as_array().unwrap().iter().map(|claim| &claim["verdict"]).collect();
    let reproduced = ["reproduced"; 6];
    assert_eq!(verdicts, [&["direction-only"], &reproduced[..]].concat());
    let report = folder.path().join("out/report.html");
    let html = std::fs::read_to_string(&report).unwrap();
    for part in [
        "Fig. 3(a): mean latency over jobs",
        "Fig. 3(b): IOPS over jobs",
        "Fig. 5(a): mean latency over jobs",
        "Fig. 5(b): IOPS over jobs",
        "Fig. 5(c): busy processors of the target",
        "Latency breakdown",
        "no single drive has both",
    ] {
        assert!(html.contains(part), "{part:?} is missing");
    }
    let Some(mut browser) = Browser::start() else { return };
    for width in [1200, 360] {
        let mut shown = browser.open(&report, View { width, print: false, dark: false });
        let drawn = shown.inspect();
        assert!(drawn >= 7, "{drawn} figures");
        if let Some(pictures) = std::env::var_os("BYTEWAY_PICTURES") {
            let file = format!("reproduce-nvmeof-{width}.png");
            std::fs::write(Path::new(&pictures).join(file), shown.picture()).unwrap();
        }
        assert!(shown.complaints.is_empty(), "{width} px:\n{}", shown.complaints.join("\n"));
    }
}

// Firmware on the host's processors, and whole drives behind a bridge: the host's cost of each; claims that are not reproduced must give a
// reason. A smaller drive represents a longer run where only an order is claimed.
#[test]
fn pcie_ssd_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let output = reproduce(folder.path(), &["pcie-ssd", "--payloads", "3000", "--out", "out"]);
    let table = unwrapped(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}\n{}", text(&output.stderr));
    assert!(table.contains("3 reproduced, 8 in direction only, 4 not reproduced."), "{table}");
    assert!(table.contains("for a run that is shorter than the paper's: drive.capacity = 1 GiB"), "{table}");
    let kept = std::fs::read(folder.path().join("out/reproduce.json")).unwrap();
    let json: Value = serde_json::from_slice(&kept).unwrap();
    let points = json["points"].as_array().unwrap();
    for point in points {
        assert_eq!(point["status"], "done", "{point:#?}");
        // A share of one processor: at most the host's four.
        let busy = point["host_busy"].as_f64().unwrap();
        assert!(
            busy > 0.0 && busy < 4.0 && point["host_memory"].as_u64().unwrap() > 600_000_000,
            "{point:#?}"
        );
    }
    let html = std::fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(html.len() <= 1_500_000, "{} bytes", html.len());
    for part in [
        "Fig. 3: reads",
        "Fig. 4(a): host memory",
        "Fig. 4(b): host processors",
        "Fig. 5: writes",
        "Fig. 6(a), latency: reads",
        "Fig. 6(b), IOPS: writes",
        "Fig. 7 and 8: several workers",
        "Fig. 7(a) and 8(a): writes until the drive is overwritten",
        "Fig. 9: latency in queue mode relative to legacy mode",
        "extrapolation, not measured",
    ] {
        assert!(html.contains(part), "{part:?} is missing");
    }
    let Some(mut browser) = Browser::start() else { return };
    let report = folder.path().join("out/report.html");
    for width in [1200, 360] {
        let mut shown = browser.open(&report, View { width, print: false, dark: false });
        let drawn = shown.inspect();
        assert!(drawn >= 16, "{drawn} figures");
        assert!(shown.complaints.is_empty(), "{width} px:\n{}", shown.complaints.join("\n"));
    }
}
