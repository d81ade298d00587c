//! `byteway compare` as seen by a user: the knee as predicted by Little's law, the same bytes for any parallelism and any resumption,
//! failed points shown, wrong flags refused before anything runs.

use crate::browser::{Browser, View};
use byteway_explore::compare::{CompareOptions, Comparison, Plan, Request, run_all};
use byteway_explore::replicate::Repeat;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Points;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn compare(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_byteway"))
        .current_dir(folder)
        .arg("compare")
        .args(arguments)
        .output()
        .expect("the binary is built")
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

/// The standard output; the standard error of a successful command must be empty.
fn printed(output: &Output) -> String {
    assert_eq!(code(output), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A folder with `s.toml`: reads on a drive of round numbers, two jobs.
fn round(jobs: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let common = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/byteway/common");
    for file in ["round.toml", "round-host.toml"] {
        std::fs::copy(common.join(file), folder.path().join(file)).expect("it can be copied");
    }
    let scenario = format!("[host]\nprofile = 'round-host.toml'\n[drive]\nprofile = 'round.toml'\n{jobs}");
    std::fs::write(folder.path().join("s.toml"), scenario).expect("it can be written");
    folder
}

const READS: &str = "[[job]]\nname = 'reader'\nrw = 'randread'\ncount = 400\n";

/// Every file below a folder with its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(at) = todo.pop() {
        for entry in std::fs::read_dir(&at).expect("the folder exists") {
            let path = entry.expect("its entries can be read").path();
            if path.is_dir() {
                todo.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("it is below").to_owned();
                found.insert(name, std::fs::read(&path).expect("it can be read"));
            }
        }
    }
    found
}

// The central claim. On the 970 Pro's 16 dies a 4 KiB read occupies its die for 41 us of its latency of 65 us on an idle drive. If reads
// were spread evenly, throughput would be min(N / R, X), with a sharp knee at N* = X R. With random dies it stays below both bounds, most
// at the corner, and approaches X much later; but the highest throughput relative to latency must be at N*, within a step of the grid.
#[test]
fn the_knee_is_where_littles_law_puts_it() {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/queue-depth.toml");
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        scenario.to_str().unwrap(),
        "--vary",
        "iodepth=1..256x2",
        "--set",
        "job.0.runtime=100 ms",
        "--format",
        "json",
    ];
    let json: Value = serde_json::from_str(&printed(&compare(folder.path(), &arguments))).unwrap();
    let points = json["points"].as_array().unwrap();
    let figure = |at: usize, name: &str| points[at]["figures"][name].as_f64().unwrap();
    assert_eq!(points.len(), 9);
    let most = (0..9).map(|at| figure(at, "iops")).fold(0.0, f64::max);
    let alone_ns = figure(0, "mean_ns");
    for at in 0..9 {
        let depth = f64::from(1 << at);
        // Little's law for the measured run: no I/O is lost or counted twice. At the end of a run of 100 ms the queue drains, which at a
        // depth of 256 takes some 2 ms.
        let outstanding = figure(at, "iops") * figure(at, "mean_ns") / 1e9;
        assert!((outstanding / depth - 1.0).abs() < 0.03, "{outstanding} outstanding instead of {depth}");
        let bound = most.min(depth * 1e9 / alone_ns);
        assert!(figure(at, "iops") < bound * 1.02, "{} at {depth}, above {bound}", figure(at, "iops"));
        // 16 dies under N random reads reach about N / (N + 15) of their total rate, once they are the bottleneck. One of the two page
        // types is read in 29.76 us, the other in 41.76, and 4 KiB take 5.12 us on the channel.
        if depth >= 64.0 {
            let share = figure(at, "iops") / (16.0 / 40.88e-6);
            let expected = depth / (depth + 15.0);
            assert!(
                (share / expected - 1.0).abs() < 0.08,
                "{share:.3} of the dies at {depth}, not {expected:.3}"
            );
        }
    }
    let findings = json["findings"].as_array().unwrap();
    let knee = findings.iter().find(|finding| finding["kind"] == "knee").unwrap();
    let corner = knee["little"]["outstanding"].as_f64().unwrap();
    assert!((corner / (most * alone_ns / 1e9) - 1.0).abs() < 1e-9, "{corner}");
    let measured: f64 = knee["knee"].as_str().unwrap().parse().unwrap();
    // Otherwise throughput still rises by more than 5 % at the last step.
    let plateau = knee["plateau"].as_str().map_or(f64::INFINITY, |depth| depth.parse().unwrap());
    assert!(
        corner / 2.0 <= measured && measured <= corner * 2.0,
        "measured at {measured}, predicted {corner}: {}",
        knee["text"]
    );
    assert!(plateau > corner, "chance must push the plateau ({plateau}) beyond the corner ({corner})");
}

// Different machines, and interrupted and resumed comparisons, must give the same files.
#[test]
fn results_do_not_depend_on_how_they_came_about() {
    let folder = round(READS);
    let at = folder.path();
    let vary = ["s.toml", "--vary", "iodepth=1,4,16", "--vary", "bs=4 KiB,16 KiB", "--out"];
    let run = |out: &str, more: &[&str]| {
        let arguments: Vec<&str> = vary.iter().copied().chain([out]).chain(more.iter().copied()).collect();
        let output = compare(at, &arguments);
        (printed(&output), text(&output.stderr))
    };
    let (table, said) = run("one", &["--jobs", "1"]);
    assert!(!said.contains("already had results"), "{said}");
    let one = files(&at.join("one"));
    assert_eq!(one.len(), 3 + 6 * 2, "{:?}", one.keys());
    assert_eq!(run("two", &["--jobs", "2"]).0, table);
    assert_eq!(files(&at.join("two")), one);

    // Half of the points, of which two are damaged: only intact ones may count.
    let points = at.join("two/points");
    std::fs::remove_file(points.join("000/point.json")).unwrap();
    std::fs::remove_dir_all(points.join("003")).unwrap();
    let whole = std::fs::read(points.join("005/point.json")).unwrap();
    std::fs::write(points.join("005/point.json"), &whole[..whole.len() / 2]).unwrap();
    std::fs::remove_file(at.join("two/compare.json")).unwrap();
    let (resumed, said) = run("two", &[]);
    assert!(said.contains("3 of 6 points already had results"), "{said}");
    assert_eq!(resumed, table);
    assert_eq!(files(&at.join("two")), one);
    let (fresh, said) = run("two", &["--fresh"]);
    assert_eq!((fresh, files(&at.join("two")), said.contains("already")), (table, one, false), "{said}");
}

// A point taken from another scenario would show wrong figures.
#[test]
fn only_the_same_scenario_is_resumed() {
    let folder = round(READS);
    let said = |arguments: &[&str]| {
        let all: Vec<&str> = ["s.toml", "--out", "o"].iter().chain(arguments).copied().collect();
        let output = compare(folder.path(), &all);
        printed(&output);
        text(&output.stderr)
    };
    assert_eq!(said(&["--vary", "iodepth=1,2"]), "");
    // The points are at other positions, and are found by their content.
    assert!(said(&["--vary", "iodepth=4,2,1"]).contains("2 of 3 points"));
    assert_eq!(said(&["--vary", "iodepth=1,2", "--set", "seed=2"]), "");
    let profile = folder.path().join("round.toml");
    let changed = std::fs::read_to_string(&profile).unwrap().replace("40 us", "41 us");
    std::fs::write(profile, changed).unwrap();
    assert_eq!(said(&["--vary", "iodepth=1,2", "--set", "seed=2"]), "");
}

// A trace edited in place has the same name and number of lines, but another load.
#[test]
fn a_changed_trace_is_another_scenario() {
    let folder = round("[[job]]\n[job.trace]\nfile = 't.trace'\nmode = 'closed'\n");
    let write = |address: u64| {
        let lines: String = (0..50).map(|at| format!("{at} 0 {} 8 1\n", address + at * 8)).collect();
        std::fs::write(folder.path().join("t.trace"), lines).unwrap();
    };
    let said = || {
        let output = compare(folder.path(), &["s.toml", "--vary", "iodepth=1,2", "--out", "o"]);
        printed(&output);
        text(&output.stderr)
    };
    write(1000);
    assert_eq!(said(), "");
    assert!(said().contains("2 of 2 points"));
    write(2000);
    assert_eq!(said(), "");
}

// One failed point among a hundred must not stop the others, and must be visible.
#[test]
fn a_failed_point_is_shown_and_stops_nothing() {
    let folder = round(READS);
    // A host with a timeout of a millisecond on a drive whose reads take nearly a second.
    let vary = r#"drive.override.flash.read=["40 us"],["900 ms"],['40 us']"#;
    let arguments = ["s.toml", "--vary", vary, "--set", "host.override.timeout=1 ms", "--out", "o"];
    let output = compare(folder.path(), &arguments);
    let table = text(&output.stdout);
    assert_eq!(code(&output), Some(1), "{table}");
    assert!(table.contains(r#"FAILED: drive.override.flash.read=["900 ms"]: "#), "{table}");
    let json = std::fs::read_to_string(folder.path().join("o/compare.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let status: Vec<_> = json["points"].as_array().unwrap().iter().map(|point| &point["status"]).collect();
    assert_eq!(status, ["done", "failed", "done"]);
    assert!(json["points"][1]["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
    assert_eq!(json["points"][2]["ratios"]["iops"], 1.0);
    let csv = std::fs::read_to_string(folder.path().join("o/compare.csv")).unwrap();
    assert_eq!(csv.lines().count(), 4);
    assert!(csv.lines().nth(2).unwrap().starts_with(r#"1,"[""900 ms""]",failed,"#), "{csv}");
}

// If a wrong value were only found at its point, the hours of the points before it would be lost.
#[test]
fn wrong_flags_are_refused_before_anything_runs() {
    let folder = round(READS);
    for (arguments, words) in [
        (&["--vary", "iodepth=1,4,0"][..], &["--vary iodepth=0", "`job.0.iodepth` = 0", "help: "][..]),
        (&["--vary", "iodepth=4,many"], &["--vary iodepth=many", "job.0.iodepth"]),
        (&["--vary", "iodept=1,2"], &["--vary iodept=1,2", "did you mean `iodepth`?"]),
        (&["--vary", "profile=a,b"], &["`drive.profile`, `host.profile`", "write it out"]),
        (&["--vary", "drive.profile=round.toml,absent"], &["--vary drive.profile=absent"]),
        (&["--vary", "job.3.iodepth=1,2"], &["--vary job.3.iodepth=1", "there is no `job.3`"]),
        (&["--vary", "iodepth=1,2", "--vary", "job.0.iodepth=3"], &["are the same key", "one --vary"]),
        (
            &["--vary", "iodepth=1,2", "--set", "job.0.iodepth=3"],
            &["is varied and also set by", "remove one"],
        ),
        (&["--vary", "seed=1..200", "--vary", "iodepth=1..200"], &["more than 10000 runs", "vary fewer"]),
        (&["--vary", "iodepth=1,2", "--baseline", "bs=1"], &["--baseline bs=1", "`bs` is not varied"]),
        (&["--vary", "iodepth=1,2", "--baseline", "iodepth=3"], &["`3` is not a valid value", "`1`, `2`"]),
        (&["--vary", "iodepth=1,2", "--baseline", "iodepth"], &["not KEY=VALUE", "iodepth=1"]),
        (&["--vary", "bs=4 KiB,1000 B"], &["--vary bs=1000 B"]),
        (
            &["--vary", "numjobs=1,40", "--set", "job.0.size=1 MiB", "--set", "job.0.count=0"],
            &["--set job.0.count=0", "in the point numjobs=1"],
        ),
        (&["--vary", "iodepth=1,2", "--jobs", "0"], &["--jobs"]),
        (&["--vary", "iodepth=1,2", "--fresh"], &["--out"]),
        (&[], &["--vary"]),
    ] {
        let mut all = vec!["s.toml", "--out", "o"];
        if arguments.contains(&"--fresh") {
            all.truncate(1);
        }
        all.extend(arguments);
        let output = compare(folder.path(), &all);
        let message = text(&output.stderr);
        assert_eq!(code(&output), Some(2), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty() && !folder.path().join("o").exists(), "{message}");
        for word in words {
            assert!(message.contains(word), "{word:?} is missing in: {message}");
        }
    }
}

// With the wrong baseline point every figure in the table is correct and every difference wrong.
#[test]
fn the_baseline_pairs_points_by_the_keys_that_it_does_not_name() {
    let folder = round(READS);
    let json = |arguments: &[&str]| -> Value {
        let mut all = vec!["s.toml", "--vary", "job.reader.iodepth=1,8", "--vary", "drive.store=stamp,ram"];
        all.extend(["--format", "json"]);
        all.extend(arguments);
        serde_json::from_str(&printed(&compare(folder.path(), &all))).unwrap()
    };
    let against = |json: &Value| -> Vec<u64> {
        json["points"].as_array().unwrap().iter().map(|point| point["against"].as_u64().unwrap()).collect()
    };
    assert_eq!(against(&json(&[])), [0, 0, 0, 0]);
    let paired = json(&["--baseline", "store=ram"]);
    assert_eq!(against(&paired), [1, 1, 3, 3]);
    assert_eq!(paired["points"][0]["ratios"]["iops"], 1.0);
    assert!(paired["points"][1]["ratios"].is_null());
    assert_eq!(against(&json(&["--baseline", "job.reader.iodepth=8, drive.store=stamp"])), [2, 2, 2, 2]);
}

// An interrupted comparison must keep its results, and must not look complete.
#[test]
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods, reason = "the user's patience passes in wall time")]
fn ctrl_c_keeps_what_was_done_and_the_rest_can_follow() {
    let folder = round("[[job]]\nrw = 'randread'\nruntime = '1 ms'\n");
    let at = folder.path();
    let mut child = Command::new(env!("CARGO_BIN_EXE_byteway"))
        .current_dir(at)
        .args(["compare", "s.toml", "--vary", "runtime=1 ms,10000 s", "--out", "o", "--quiet", "--jobs", "1"])
        .stdout(std::fs::File::create(at.join("stdout")).unwrap())
        .spawn()
        .unwrap();
    // Half a minute must suffice for a millisecond of simulation.
    for _ in 0..1500 {
        if at.join("o/points/000/point.json").exists() || child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let table = std::fs::read_to_string(at.join("stdout")).unwrap();
    assert!(table.contains("PARTIAL: the comparison was interrupted after 1 of them"), "{table}");
    let json = std::fs::read_to_string(at.join("o/compare.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["partial"], true);
    assert_eq!(
        (&json["points"][0]["status"], &json["points"][1]["status"]),
        (&"done".into(), &"not-run".into())
    );
    assert!(!at.join("o/points/001/point.json").exists());
    let rest = compare(at, &["s.toml", "--vary", "runtime=1 ms,2 ms", "--out", "o"]);
    printed(&rest);
    assert!(text(&rest.stderr).contains("1 of 2 points already had results"), "{}", text(&rest.stderr));
}

// Bars for names, lines for numbers, several series, curves: a chart that the browser rejects is an empty frame in the report.
#[test]
fn the_report_is_drawn() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = round("[[job]]\nrw = 'randrw'\ncount = 400\n");
    for (name, vary, figures) in [
        ("one", &["--vary", "iodepth=1..16x2"][..], 5),
        ("two", &["--vary", "drive.store=stamp,ram", "--vary", "bs=4 KiB..16 KiB x2"], 10),
        ("names", &["--vary", "drive.store=stamp,ram"], 5),
    ] {
        let mut arguments = vec!["s.toml", "--out", name];
        arguments.extend(vary);
        printed(&compare(folder.path(), &arguments));
        let report = folder.path().join(name).join("report.html");
        for width in [1200, 360] {
            let mut shown = browser.open(&report, View { width, print: false, dark: false });
            let drawn = shown.inspect();
            assert!(drawn >= figures, "{name}: {drawn} figures");
            if let Some(pictures) = std::env::var_os("BYTEWAY_PICTURES") {
                let file = format!("compare-{name}-{width}.png");
                std::fs::write(Path::new(&pictures).join(file), shown.picture()).unwrap();
            }
            assert!(shown.complaints.is_empty(), "{name}, {width} px:\n{}", shown.complaints.join("\n"));
        }
    }
}

// The answer must come before the table, and a report must be small enough for e-mail.
#[test]
fn the_report_begins_with_the_answer() {
    let folder = round(READS);
    let html = |out: &str, more: &[&str]| {
        let vary =
            ["--vary", "iodepth=1..32x2", "--vary", "drive.store=stamp,ram", "--vary", "bs=4 KiB,16 KiB"];
        let all: Vec<&str> = ["s.toml", "--out", out].iter().chain(&vary).chain(more).copied().collect();
        printed(&compare(folder.path(), &all));
        std::fs::read_to_string(folder.path().join(out).join("report.html")).unwrap()
    };
    let page = html("o", &[]);
    assert!(page.len() <= 1_500_000, "{} bytes", page.len());
    let place = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what:?} is missing"));
    let order = [
        "id=\"answer\"",
        "Bytes per second by iodepth",
        "id=\"chart-0\"",
        "<ul>",
        "<details>",
        "<nav",
        "All points",
    ];
    assert!(order.windows(2).all(|pair| place(pair[0]) < place(pair[1])), "{:?}", order.map(place));
    let shown = &page[place("<ul>")..place("<details>")];
    assert_eq!(shown.matches("<li>").count(), 5, "{shown}");
    // All points have values for all keys.
    let table = &page[place("<h2>All points")..];
    let row = &table[table.find("<tbody>").unwrap()..];
    for cell in ["<td>1</td>", "<td>stamp</td>", "<td>4 KiB</td>"] {
        assert!(row[..row.find("</tr>").unwrap()].contains(cell), "{cell} is missing");
    }
    // The selected metric is the answer, and the command reproduces it.
    let page = html("p", &["--metric", "p99_ns"]);
    assert!(page.contains("P99 latency by iodepth") && page.contains("--metric p99_ns"));
    // By its heading, too.
    assert!(html("h", &["--metric", "p99"]).contains("P99 latency by iodepth"));
    let refused = compare(folder.path(), &["s.toml", "--vary", "iodepth=1,2", "--metric", "p98_ns"]);
    assert!(
        code(&refused) == Some(2) && text(&refused.stderr).contains("p99_ns"),
        "{}",
        text(&refused.stderr)
    );
}

/// The data of a page's charts, in order.
fn charts(page: &str) -> Vec<Value> {
    let begin = "id=\"charts\">";
    let at = page.find(begin).expect("it has charts") + begin.len();
    let end = at + page[at..].find("</script>").expect("the list ends");
    serde_json::from_str(&page[at..end]).expect("it is JSON")
}

// The bound rises to a corner that need not be at a measured value: without it the line would cut the corner off, and points would lie
// above their bound.
#[test]
fn the_bound_has_its_corner_between_the_values() {
    let folder = round(READS);
    let output =
        compare(folder.path(), &["s.toml", "--vary", "iodepth=1..256x2", "--out", "o", "--format", "json"]);
    let json: Value = serde_json::from_str(&printed(&output)).unwrap();
    let findings = json["findings"].as_array().unwrap().iter();
    let corner = findings.filter_map(|finding| finding["little"]["outstanding"].as_f64()).next().unwrap();
    let page = std::fs::read_to_string(folder.path().join("o/report.html")).unwrap();
    let answer = &charts(&page)[0];
    let bound =
        answer["data"].as_array().unwrap().iter().find(|line| line["name"] == "bound by Little's law");
    let of = |key: &str| -> Vec<f64> {
        bound.unwrap()[key].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    let (x, y) = (of("x"), of("y"));
    let at = x.iter().position(|x| (x / corner - 1.0).abs() < 1e-3).expect("the corner is one of its points");
    assert!(y[at - 1] < y[at] && y[at..].iter().all(|after| *after == y[at]), "{x:?} {y:?}");
    assert!(answer["layout"]["shapes"][0]["x0"].as_f64().is_some_and(|x0| (x0 / corner - 1.0).abs() < 1e-3));
}

// The README promises this for its first command: up to which size each method pays, at a glance; and no size may be missing in a chart,
// nor a part too short to be visible.
#[test]
fn methods_and_sizes_are_answered_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/small-payloads.toml");
    let vary = ["--vary", "method=prp,sgl,piggyback,inline,mmio", "--vary", "bs=32 B..4 KiB x2"];
    let rest = ["--baseline", "method=prp", "--set", "job.0.count=50", "--out", "o"];
    let all: Vec<&str> = [scenario.to_str().unwrap()].into_iter().chain(vary).chain(rest).collect();
    let printed = printed(&compare(folder.path(), &all)).split_whitespace().collect::<Vec<_>>().join(" ");
    for said in
        ["sgl beats prp", "piggyback beats prp up to 35 B", "inline beats prp up to 256 B", "mmio beats prp"]
    {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    assert!(!printed.contains("highest throughput"), "the longest I/Os have it: {printed}");
    let page = std::fs::read_to_string(folder.path().join("o/report.html")).unwrap();
    let charts = charts(&page);
    let by_method = |chart: &&Value| chart["data"][0]["x"][0] == "prp";
    let throughput = charts.iter().find(by_method).unwrap();
    assert_eq!(throughput["data"].as_array().unwrap().len(), 8, "a size is missing");
    // From 3 to 420 us: on a linear time scale the parts of the shortest would be invisible.
    let shares = charts
        .iter()
        .filter(|chart| chart["layout"]["yaxis"]["title"]["text"] == "share of the mean latency (%)");
    assert_eq!(shares.count(), 13, "of each size by method, and of each method by size");
    assert!(page.contains("differ too much for one scale"));
}

// On a linear axis a method that takes a hundred times as long would make all others indistinguishable.
#[test]
fn lines_far_apart_have_a_logarithmic_axis() {
    let folder = round(READS);
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/small-payloads.toml");
    for (methods, is_log) in [("method=prp,piggyback", true), ("method=prp,sgl", false)] {
        let vary = ["--vary", methods, "--vary", "bs=32 B,4 KiB", "--out", "o"];
        let all: Vec<&str> = [scenario.to_str().unwrap()].into_iter().chain(vary).collect();
        printed(&compare(folder.path(), &all));
        let page = std::fs::read_to_string(folder.path().join("o/report.html")).unwrap();
        let answer = &page[page.find("id=\"answer\"").unwrap()..page.find("<nav").unwrap()];
        assert_eq!(answer.contains("The axis is logarithmic. Lower is better."), is_log, "{answer}");
    }
}

// In a mix neither the percentiles of reads nor those of writes are those of all I/Os.
#[test]
fn latencies_of_a_mix_are_of_all_its_ios() {
    let folder = round("[[job]]\nrw = 'randrw'\nrwmixread = 20\ncount = 4000\n");
    let output = compare(folder.path(), &["s.toml", "--vary", "iodepth=1,2", "--format", "json"]);
    let json: Value = serde_json::from_str(&printed(&output)).unwrap();
    let point = &json["points"][0];
    let job = &point["summary"]["jobs"][0];
    let of = |kind: &str, name: &str| job[kind]["latency"][name].as_f64().unwrap();
    let figure = |name: &str| point["figures"][name].as_f64().unwrap();
    let (reads, writes) = (job["read"]["ios"].as_f64().unwrap(), job["write"]["ios"].as_f64().unwrap());
    assert!(
        of("read", "p50_ns") > 3.0 * of("write", "p99_ns"),
        "the drive reads from flash and writes to its buffer"
    );
    let mean = (reads * of("read", "mean_ns") + writes * of("write", "mean_ns")) / (reads + writes);
    assert!((figure("mean_ns") / mean - 1.0).abs() < 1e-9);
    assert!((figure("p50_ns") / of("write", "p50_ns") - 1.0).abs() < 0.01, "four of five are writes");
    // 1 % of all I/Os is slower; of the reads alone, a fifth of the I/Os, 5 %.
    assert!((figure("p99_ns") / of("read", "p95_ns") - 1.0).abs() < 0.03);
}

/// Reads of two sizes of queue, with little to measure, so that seeds differ.
const FEW_READS: &str = "[[job]]\nname = 'reader'\nrw = 'randread'\ncount = 100\niodepth = 8\n";

// A mean over other runs than those that are listed cannot be checked; one that depends on threads or a resumption is not reproducible.
#[test]
fn replicates_are_the_runs_of_their_seeds_however_they_came_about() {
    let folder = round(FEW_READS);
    let vary = ["s.toml", "--vary", "iodepth=1,8", "--format", "json"];
    let with = |more: &[&str]| {
        let flags: Vec<&str> = vary.iter().chain(more).copied().collect();
        printed(&compare(folder.path(), &flags))
    };
    let single = with(&[]);
    assert_eq!(with(&["--repeat", "1"]), single, "a single replicate is a run as before");
    let json: Value = serde_json::from_str(&with(&["--repeat", "4", "--jobs", "1"])).unwrap();
    assert_eq!(json["replicates"], 4);
    let point = &json["points"][1];
    let replicates = point["replicates"].as_array().unwrap();
    assert_eq!((replicates.len(), &replicates[0]["seed"]), (4, &Value::from(1)));
    let runs: Vec<f64> = replicates.iter().map(|run| run["figures"]["mean_ns"].as_f64().unwrap()).collect();
    let alone: Value =
        serde_json::from_str(&with(&["--set", &format!("seed={}", replicates[2]["seed"])])).unwrap();
    assert_eq!(alone["points"][1]["figures"]["mean_ns"], runs[2]);
    let mean = runs.iter().sum::<f64>() / 4.0;
    let squares: f64 = runs.iter().map(|run| (run - mean) * (run - mean)).sum();
    let half = 3.182 * (squares / 3.0 / 4.0).sqrt();
    let figure = |of: &str| point[of]["mean_ns"].as_f64().unwrap();
    assert!((figure("figures") / mean - 1.0).abs() < 1e-9, "{point}");
    assert!(half > 0.0 && (figure("half_widths") / half - 1.0).abs() < 1e-3, "{half}: {point}");
    // In a folder: by three threads, and then resumed from the runs of fewer replicates.
    let table = ["s.toml", "--vary", "iodepth=1,8", "--quiet", "--jobs", "3"];
    let to = |out: &str, repeat: &str| {
        let flags: Vec<&str> = table.iter().chain(&["--out", out, "--repeat", repeat]).copied().collect();
        compare(folder.path(), &flags)
    };
    assert!(printed(&to("once", "4")).contains(" ± "));
    to("again", "2");
    let resumed = to("again", "4");
    assert_eq!(text(&resumed.stderr), "4 of 8 runs already had results; use --fresh to run all\n");
    assert_eq!(files(&folder.path().join("once")), files(&folder.path().join("again")));
    let csv = std::fs::read_to_string(folder.path().join("once/compare.csv")).unwrap();
    assert!(csv.lines().next().unwrap().ends_with(",microjoules_per_io_half_width,seeds"), "{csv}");
    let page = std::fs::read_to_string(folder.path().join("once/report.html")).unwrap();
    assert!(charts(&page).iter().any(|chart| chart["data"][0].get("error_y").is_some()));
}

// A mean over the runs that happened to succeed would pass for one over all.
#[test]
fn a_failed_replicate_leaves_its_point_without_a_mean() {
    // Its second I/O arrives 100 us after the first in the mean: by some seeds after the warm-up, which is measured, and by others before.
    let job = "[measure]\nwarmup = '100 us'\n[[job]]\nname = 'reader'\nrw = 'randread'\ncount = 2\nissue = 'open'\nrate_iops = 10000\n";
    let folder = round(job);
    let arguments = ["s.toml", "--vary", "bs=4 KiB,8 KiB", "--repeat", "8", "--out", "o"];
    let output = compare(folder.path(), &arguments);
    let said = text(&output.stdout);
    assert_eq!(code(&output), Some(1), "{said}");
    assert!(
        said.contains("FAILED: bs=4 KiB: replicate ") && said.contains(": no I/O was measured"),
        "{said}"
    );
    let json = std::fs::read_to_string(folder.path().join("o/compare.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let point = &json["points"][0];
    let status: Vec<&str> =
        point["replicates"].as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert!(status.contains(&"done") && status.contains(&"failed"), "{status:?}");
    assert_eq!((&point["status"], &point["figures"]), (&"failed".into(), &Value::Null));
}

/// Raises an interrupt when the first run has ended.
struct FirstOnly(Interrupt);

impl Points for FirstOnly {
    fn one(&self) {
        self.0.raise();
    }

    fn begin_at(&self, _: u64) {}
}

// After Ctrl-C some replicates are missing: their point must not have the mean of the others.
#[test]
fn interrupted_replicates_are_partial_and_have_no_mean() {
    let folder = round(FEW_READS);
    let path = folder.path().join("s.toml");
    let (scenario, varies) = (path.into(), vec!["iodepth=1,8".to_owned()]);
    let plan =
        Plan::load(&Request { scenario, varies, repeat: Repeat::new(3).unwrap(), ..Request::default() })
            .unwrap();
    let interrupt = Interrupt::default();
    let bar = FirstOnly(interrupt.clone());
    let options = CompareOptions { threads: 1, store: None, fresh: false, interrupt: &interrupt, bar: &bar };
    let outcomes = run_all(&plan, &options).unwrap().outcomes;
    let found = Comparison::new(plan, outcomes, &|_| None);
    assert!(found.is_partial() && found.points.iter().all(|point| point.figures.is_none()));
    let json: Value = serde_json::from_str(&found.to_json()).unwrap();
    let replicates = json["points"][0]["replicates"].as_array().unwrap();
    assert_eq!((&replicates[0]["status"], &replicates[1]["status"]), (&"done".into(), &"not-run".into()));
    assert_eq!(json["points"][0]["status"], "not-run");
    assert!(found.findings.is_empty() && found.to_table().contains("PARTIAL"), "{}", found.to_table());
}

// Nonsense that is taken for something runs for hours, or gives intervals of nothing.
#[test]
fn a_wrong_number_of_replicates_is_refused() {
    let folder = round(READS);
    for (number, words) in [
        ("0", "there cannot be 0 replicates; write 1, for a single run, to 1000"),
        ("1001", "there cannot be 1001 replicates"),
        ("-1", "not a whole number"),
        ("1.5", "not a whole number"),
        ("many", "not a whole number"),
    ] {
        let output =
            compare(folder.path(), &["s.toml", "--vary", "iodepth=1,2", &format!("--repeat={number}")]);
        assert_eq!(code(&output), Some(2));
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
    let output = compare(folder.path(), &["s.toml", "--vary", "iodepth=1..100", "--repeat", "1000"]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), Some(2), "{said}");
    assert!(
        said.contains("all combinations of 100 of `iodepth` and 1000 replicates are more than"),
        "{said}"
    );
}

// The throughput of an open loop is what was asked for: a table and a chart that lead with it show that nothing differs.
#[test]
fn a_comparison_of_open_loops_leads_with_latency() {
    let open = "[[job]]\nname = 'reader'\nrw = 'randread'\ncount = 400\nissue = 'open'\nrate_iops = 20000\n";
    let folder = round(open);
    let arguments = ["s.toml", "--vary", "drive.override.flash.read=['40 us'],['60 us']", "--format", "json"];
    let json: Value = serde_json::from_str(&printed(&compare(folder.path(), &arguments))).unwrap();
    assert_eq!(json["metric"], "mean_ns");
    assert!(
        json["findings"][0]["text"].as_str().unwrap().starts_with("lowest mean latency"),
        "{}",
        json["findings"]
    );
    let closed = round(READS);
    let json: Value = serde_json::from_str(&printed(&compare(closed.path(), &arguments))).unwrap();
    assert_eq!(json["metric"], "iops");
}

/// Inline against PRPs on a Gen5 drive, of whose queue entries nothing is published.
const SMALL: [&str; 7] = [
    "--set",
    "drive.profile=modern-gen5",
    "--vary",
    "method=prp,inline",
    "--vary",
    "bs=64 B..512 B x2",
    "--quiet",
];

fn small_payloads() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/small-payloads.toml").display().to_string()
}

// How many entries a controller fetches at once decides up to which size inline is faster (448 B with eight, 192 B with two or four), and no
// publication says how many that are. The trials must say what the same comparison says when the user sets the value.
#[test]
fn a_finding_that_rests_on_an_assumption_says_so() {
    let scenario = small_payloads();
    let folder = tempfile::tempdir().unwrap();
    let run =
        |more: &[&str]| printed(&compare(folder.path(), &[&[scenario.as_str()], &SMALL[..], more].concat()));
    let trial = "--sensitivity=controller.fetch_burst,host.override.store";
    let json: Value = serde_json::from_str(&run(&[trial, "--format", "json"])).unwrap();
    let trials = json["sensitivity"].as_array().unwrap();
    let latency = |text: &str| text.split_once(';').map_or(text.to_owned(), |(first, _)| first.to_owned());
    let findings = json["findings"].as_array().unwrap();
    let reach = findings.iter().position(|finding| finding["kind"] == "reach").unwrap();
    let mut moved = Vec::new();
    for one in trials.iter().filter(|one| one["key"] == "controller.fetch_burst") {
        assert_eq!((&one["status"], &one["value"]), (&"done".into(), &"8".into()));
        assert!(one["source"].as_str().unwrap().contains("assumed"), "{one}");
        let tried = one["tried"].as_str().unwrap();
        let set = format!("drive.override.controller.fetch_burst={tried}");
        let alone: Value = serde_json::from_str(&run(&["--set", &set, "--format", "json"])).unwrap();
        let expected =
            alone["findings"].as_array().unwrap().iter().find(|one| one["kind"] == "reach").unwrap();
        let changes = one["changes"].as_array().unwrap();
        match changes.iter().find(|change| change["finding"] == reach) {
            Some(change) => {
                assert_eq!(change["instead"], expected["text"]);
                moved.push(tried.to_owned());
            }
            None => {
                let own = findings[reach]["text"].as_str().unwrap();
                assert_eq!(latency(own), latency(expected["text"].as_str().unwrap()), "with {tried}");
            }
        }
    }
    assert!(moved.contains(&"2".to_owned()) && moved.contains(&"4".to_owned()), "{moved:?}");
    let stores = trials.iter().filter(|one| one["section"] == "host" && one["key"] == "store");
    assert!(
        stores.clone().count() == 2
            && stores.clone().all(|one| one["changes"].as_array().unwrap().is_empty())
    );
    let text = run(&[trial]);
    let words = "controller.fetch_burst = 2 instead of 8";
    assert!(text.contains("\nSensitivity\n") && text.replace("\n  ", " ").contains(words), "{text}");
}

// A misspelt constant would be tried by nobody, and every finding would seem to hold.
#[test]
fn a_constant_that_cannot_be_tried_is_refused() {
    let folder = round(READS);
    for (keys, words) in [
        ("flash.raed", "did you mean `flash.read`"),
        ("drive.override.firmware.clock", "is not tried"),
        ("drive.override.link.lanes", "or the scenario sets or varies it"),
    ] {
        let keys = format!("--sensitivity={keys}");
        let refused = compare(
            folder.path(),
            &["s.toml", "--vary", "iodepth=1,2", "--set", "drive.override.link.lanes=2", &keys],
        );
        let said = text(&refused.stderr);
        assert_eq!(code(&refused), Some(2), "{said}");
        assert!(said.replace('\n', " ").contains(words), "{said}");
    }
}
