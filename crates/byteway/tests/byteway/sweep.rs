//! `byteway sweep` as seen by a user: rows that depend on the space alone, points that are never run twice, searches that find what a grid
//! would, wrong spaces refused before anything runs.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use std::path::Path;
use std::process::{Command, Output};

fn sweep(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_byteway"));
    command.current_dir(folder).arg("sweep").args(line.split(' ')).arg("--quiet");
    command.env("XDG_CACHE_HOME", folder.join("home")).output().expect("the binary is built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A folder with a scenario and a space of it.
fn space(search: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let scenario = "[drive]\nprofile = \"samsung-970-pro\"\nprecondition = \"filled\"\n[[job]]\nrw = \"randread\"\ncount = 1000\n";
    std::fs::write(folder.path().join("s.toml"), scenario).unwrap();
    std::fs::write(folder.path().join("space.toml"), format!("scenario = \"s.toml\"\n{search}")).unwrap();
    folder
}

const DEPTHS: &str = "[[vary]]\nkey = \"iodepth\"\nvalues = \"1..16x2\"\n";

/// Content of the data set of a sweep.
fn rows(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("sweep.parquet")).unwrap()
}

// An example that is refused teaches what does not work.
#[test]
fn the_example_of_the_help_is_a_space() {
    let folder = space("");
    let help = Command::new(env!("CARGO_BIN_EXE_byteway")).args(["sweep", "--help"]).output().unwrap();
    let help = text(&help.stdout);
    let lines = help.lines().skip_while(|line| !line.contains("scenario = \"first.toml\""));
    let example: Vec<&str> = lines.take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    assert!(example.len() > 10, "{help}");
    let example = example.join("\n").replace("first.toml", "s.toml").replace("points = 200", "points = 4");
    std::fs::write(folder.path().join("example.toml"), example).unwrap();
    let found = printed(&sweep(folder.path(), "example.toml --set job.0.count=200"));
    assert!(found.starts_with("4 points: 4 run"), "{found}");
}

// What a point read besides its scenario, and what the cache holds, may change under it: stale or damaged figures would be taken for results.
#[test]
fn changed_files_and_damaged_results_are_run_again() {
    let folder = space("");
    let path = folder.path();
    let rows_of = |count: i64| {
        let batch = byteway_query::rows::numbered(0, count);
        let file = std::fs::File::create(path.join("rows.parquet")).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    };
    rows_of(1000);
    let scenario = "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"tables\"\n[[drive.table]]\nname = \"t\"\nfile = \"rows.parquet\"\n\
                    [[query]]\nsql = \"SELECT COUNT(*) AS c FROM t WHERE n > 10\"\ncount = 1\n";
    std::fs::write(path.join("s.toml"), scenario).unwrap();
    std::fs::write(
        path.join("space.toml"),
        "scenario = \"s.toml\"\n[[vary]]\nkey = \"seed\"\nvalues = \"1,2\"\n",
    )
    .unwrap();
    assert!(printed(&sweep(path, "space.toml")).starts_with("2 points: 2 run"));
    assert!(printed(&sweep(path, "space.toml")).starts_with("2 points: 0 run"));
    rows_of(5000);
    assert!(printed(&sweep(path, "space.toml --cache c --out before")).starts_with("2 points: 2 run"));
    let kept = byteway_results::output::folders(&path.join("c"));
    let kept: Vec<_> = kept.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()).collect();
    for file in kept {
        let file = file.unwrap().path();
        let text = std::fs::read_to_string(&file).unwrap();
        let at = text.find("\"iops\":").unwrap() + 7;
        let digit = if &text[at..=at] == "9" { "8" } else { "9" };
        std::fs::write(&file, format!("{}{digit}{}", &text[..at], &text[at + 1..])).unwrap();
    }
    assert!(printed(&sweep(path, "space.toml --cache c --out after")).starts_with("2 points: 2 run"));
    assert_eq!(rows(&path.join("before")), rows(&path.join("after")));
}

// A second run that runs points again would take hours where the first took hours; one whose rows differ would show that the cache is
// not what was run.
#[test]
fn a_point_is_never_run_twice_and_the_rows_are_the_same() {
    let folder = space(DEPTHS);
    let path = folder.path();
    let first = printed(&sweep(path, "space.toml --out first --jobs 1"));
    assert!(first.starts_with("5 points: 5 run, 0 from the cache"), "{first}");
    assert!(first.contains("the best IOPS") && first.contains("iodepth=16"), "{first}");
    let again = printed(&sweep(path, "space.toml --out again --jobs 4"));
    assert!(again.starts_with("5 points: 0 run, 5 from the cache"), "{again}");
    let without = printed(&sweep(path, "space.toml --out without --no-cache"));
    assert!(without.starts_with("5 points: 5 run"), "{without}");
    assert_eq!(rows(&path.join("first")), rows(&path.join("again")));
    assert_eq!(rows(&path.join("first")), rows(&path.join("without")));
    // Another scenario with the same plan is the same point; another seed is not.
    let scenario = std::fs::read_to_string(path.join("s.toml")).unwrap();
    std::fs::write(path.join("s.toml"), format!("# a comment\nseed = 1\n{scenario}")).unwrap();
    assert!(printed(&sweep(path, "space.toml")).starts_with("5 points: 0 run"));
    assert!(printed(&sweep(path, "space.toml --set seed=2")).starts_with("5 points: 5 run"));
    // What is broken in the cache counts as missing.
    let mut files = Vec::new();
    for inner in std::fs::read_dir(path.join("home/byteway/points")).unwrap() {
        files.extend(std::fs::read_dir(inner.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
    }
    assert_eq!(files.len(), 10, "five points of each seed, and no lock is left: {files:?}");
    files.sort();
    for (number, file) in files.iter().enumerate() {
        let content = std::fs::read(file).unwrap();
        match number % 4 {
            0 => std::fs::write(file, &content[..content.len() / 2]).unwrap(),
            1 => std::fs::write(file, "").unwrap(),
            2 => std::fs::write(file, std::fs::read(&files[(number + 1) % files.len()]).unwrap()).unwrap(),
            _ => {}
        }
    }
    printed(&sweep(path, "space.toml --out mended"));
    assert_eq!(rows(&path.join("mended")), rows(&path.join("first")));
}

// A full or read-only disk must change no row, and must be said.
#[test]
fn a_cache_that_takes_nothing_changes_no_row() {
    let folder = space(DEPTHS);
    let path = folder.path();
    printed(&sweep(path, "space.toml --out first --no-cache"));
    // Where the cache's folders would be are files.
    std::fs::create_dir(path.join("cache")).unwrap();
    for name in 0..=255 {
        std::fs::write(path.join(format!("cache/{name:02x}")), "").unwrap();
    }
    let said = printed(&sweep(path, "space.toml --out second --cache cache"));
    assert!(said.contains("5 results could not be written to the cache"), "{said}");
    assert_eq!(rows(&path.join("first")), rows(&path.join("second")));
}

/// Values of a column of text, or of numbers.
fn column(folder: &Path, name: &str) -> Vec<String> {
    let file = std::fs::File::open(folder.join("sweep.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    let at = (0..schema.num_columns()).find(|at| schema.column(*at).name() == name).unwrap();
    let value = |row: &parquet::record::Row| match row.get_string(at) {
        Ok(text) => text.clone(),
        Err(_) => row.get_double(at).unwrap().to_string(),
    };
    reader.get_row_iter(None).unwrap().map(|row| value(&row.unwrap())).collect()
}

// A search that ends at another value than the whole grid would size a queue, or a threshold, wrongly.
#[test]
fn searches_find_what_the_whole_grid_shows() {
    let vary = "[[vary]]\nkey = \"iodepth\"\nvalues = \"1..1024x2\"\n";
    let folder = space(&format!("{vary}[search]\nmethod = \"knee\"\n"));
    let path = folder.path();
    let knee = printed(&sweep(path, "space.toml --out knee"));
    let found = knee.lines().last().unwrap();
    assert!(found.contains("the most throughput for its latency"), "{knee}");
    let run = column(&path.join("knee"), "iodepth");
    assert!(run.len() < 11, "a search runs fewer points than the grid: {run:?}");
    std::fs::write(path.join("grid.toml"), format!("scenario = \"s.toml\"\n{vary}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_byteway"))
        .current_dir(path)
        .args(["compare", "s.toml", "--vary", "iodepth=1..1024x2", "--format", "json", "--quiet"])
        .output()
        .unwrap();
    let whole: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let power = |point: &serde_json::Value| {
        point["figures"]["iops"].as_f64().unwrap() / point["figures"]["mean_ns"].as_f64().unwrap()
    };
    let points = whole["points"].as_array().unwrap();
    let best = points.iter().max_by(|one, other| power(one).total_cmp(&power(other))).unwrap();
    let best = best["values"]["iodepth"].as_str().unwrap();
    assert!(found.contains(&format!("iodepth={best}")), "{best} is best; {found}");
}

#[test]
fn searches_do_not_depend_on_the_order_of_values() {
    let found = |values: &str, search: &str| {
        let more = if search == "crossover" {
            "[[vary]]\nkey = \"host.profile\"\nvalues = \"linux-polled,linux-interrupt\"\n"
        } else {
            ""
        };
        let folder = space(&format!(
            "[[vary]]\nkey = \"iodepth\"\nvalues = \"{values}\"\n{more}[search]\nmethod = \"{search}\"\n"
        ));
        let printed = printed(&sweep(folder.path(), "space.toml"));
        printed.lines().last().unwrap().to_owned()
    };
    for search in ["knee", "crossover"] {
        assert_eq!(found("64,1,16,4,256", search), found("1,4,16,64,256", search), "{search}");
    }
}

#[test]
fn a_crossover_is_bisected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let scenario = "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"sink\"\n[host]\nprofile = \"cosmos\"\n\
                    [[job]]\nrw = \"write\"\nbs = \"64 B\"\ncount = 30\n";
    std::fs::write(path.join("s.toml"), scenario).unwrap();
    let space = |pair: &str| {
        format!(
            "scenario = \"s.toml\"\n[[vary]]\nkey = \"bs\"\nvalues = \"32 B..4 KiB + 32 B\"\n\
             [[vary]]\nkey = \"method\"\nvalues = \"{pair}\"\n[search]\nmethod = \"crossover\"\nmetric = \"mean_ns\"\n"
        )
    };
    std::fs::write(path.join("space.toml"), space("inline,prp")).unwrap();
    let output = printed(&sweep(path, "space.toml --out out"));
    let found = output.lines().last().unwrap();
    let (before, after) =
        found.split_once(" up to ").and_then(|(_, rest)| rest.split_once(", prp from ")).unwrap();
    // The two sizes are neighbors, and a run of each pair confirms the lead.
    let bytes = |text: &str| -> u64 {
        let text = text.trim_end_matches(" on");
        let (number, unit) = text.split_once(' ').unwrap();
        let scale = if unit == "KiB" { 1024.0 } else { 1.0 };
        (number.parse::<f64>().unwrap() * scale) as u64
    };
    assert_eq!(bytes(after) - bytes(before), 32, "{found}");
    assert!(column(&path.join("out"), "bs").len() < 24, "bisection takes few points");
    // With the pair swapped the sentence is the same.
    std::fs::write(path.join("space.toml"), space("prp,inline")).unwrap();
    assert_eq!(printed(&sweep(path, "space.toml")).lines().last(), Some(found));
}

// A front with a point missing would sell the wrong drive.
#[test]
fn a_front_is_that_of_the_whole_grid() {
    let vary = "[[vary]]\nkey = \"iodepth\"\nvalues = \"1..64x2\"\n[[vary]]\nkey = \"flash.channels\"\nvalues = \"2,4,8\"\n";
    let folder = space(&format!("{vary}[search]\nmethod = \"pareto\"\n"));
    let path = folder.path();
    let front = printed(&sweep(path, "space.toml --out front"));
    let sentence = front.lines().filter(|line| line.starts_with("the front of")).collect::<String>();
    assert!(!sentence.is_empty(), "{front}");
    let run = column(&path.join("front"), "iodepth").len();
    assert!(run <= 21, "{run} points of 21");
    std::fs::write(path.join("space.toml"), format!("scenario = \"s.toml\"\n{vary}")).unwrap();
    printed(&sweep(path, "space.toml --out grid"));
    assert_eq!(column(&path.join("grid"), "iodepth").len(), 21);
}

#[test]
fn drawn_points_cover_each_range_and_follow_from_their_seed() {
    let vary =
        "[[vary]]\nkey = \"flash.read_suspend\"\nfrom = \"1 us\"\nto = \"100 us\"\nspacing = \"log\"\n";
    let vary = vary.replace("flash.read_suspend", "host.override.submit");
    let search = "[search]\nmethod = \"latin-hypercube\"\npoints = 20\n";
    let folder = space(&format!("{vary}{search}"));
    let path = folder.path();
    printed(&sweep(path, "space.toml --out one --set job.0.count=20"));
    printed(&sweep(path, "space.toml --out two --set job.0.count=20 --no-cache --jobs 1"));
    assert_eq!(rows(&path.join("one")), rows(&path.join("two")));
    let drawn = column(&path.join("one"), "host.override.submit");
    assert_eq!(drawn.len(), 20);
    let us = |text: &String| {
        let (number, unit) = text.split_once(' ').unwrap();
        number.parse::<f64>().unwrap() * if unit == "ns" { 0.001 } else { 1.0 }
    };
    let mut all: Vec<f64> = drawn.iter().map(us).collect();
    all.sort_by(f64::total_cmp);
    assert_eq!(all.iter().filter(|us| **us < 10.0).count(), 10, "half below the geometric mean: {all:?}");
    assert!(all[0] >= 1.0 && all[19] <= 100.0);
    std::fs::write(path.join("space.toml"), format!("scenario = \"s.toml\"\n{vary}{search}seed = 2\n"))
        .unwrap();
    printed(&sweep(path, "space.toml --out other --set job.0.count=20"));
    assert_ne!(column(&path.join("other"), "host.override.submit"), drawn);
}

// Failures must be visible, stop nothing, and be tried again by the next sweep.
#[test]
fn failed_points_are_shown_and_run_again_by_the_next_sweep() {
    let folder = space("[[vary]]\nkey = \"measure.warmup\"\nvalues = \"10 s,1 us\"\n");
    let path = folder.path();
    for _ in 0..2 {
        let output = sweep(path, "space.toml --out out --jobs 2");
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        assert!(said.contains("failed: measure.warmup=10 s: no I/O was measured"), "{said}");
    }
    let said = text(&sweep(path, "space.toml").stdout);
    assert!(said.starts_with("2 points: 1 run, 1 from the cache"), "{said}");
    assert_eq!(column(&path.join("out"), "status"), ["failed", "done"]);
}

#[test]
fn wrong_spaces_are_refused_with_their_place_and_cure() {
    for (search, what, help) in [
        ("", "nothing is varied", "[[vary]]"),
        ("[[vary]]\nkey = \"iodeph\"\nvalues = \"1\"\n", "`iodeph`", "iodepth"),
        ("[[vary]]\nkey = \"iodepth\"\nvalues = \"deep\"\n", "deep", ""),
        ("[[vary]]\nkey = \"iodepth\"\nvalues = \"\"\n", "lacks a value", ""),
        ("[[vary]]\nkey = \"iodepth\"\n", "neither `values` nor a range", "from"),
        ("[[vary]]\nkey = \"iodepth\"\nfrom = \"1\"\nto = \"9\"\n", "is a range", "latin-hypercube"),
        ("[[vary]]\nkey = \"iodepth\"\nvalue = \"1\"\n", "`value`", "values"),
        (
            "[[vary]]\nkey = \"iodepth\"\nvalues = \"1\"\n[[vary]]\nkey = \"job.0.iodepth\"\nvalues = \"2\"\n",
            "same key",
            "once",
        ),
        ("[[vary]]\nkey = \"iodepth\"\nvalues = \"1,2\"\n[search]\nmethod = \"knees\"\n", "knees", "knee"),
        (
            "[[vary]]\nkey = \"iodepth\"\nvalues = \"1,2\"\n[search]\nmethod = \"random\"\n",
            "number of points",
            "points = 100",
        ),
        ("[[vary]]\nkey = \"iodepth\"\nvalues = \"1,2\"\n[search]\nmetric = \"iop\"\n", "`iop`", "iops"),
        (
            "[[vary]]\nkey = \"iodepth\"\nvalues = \"1,2\"\n[search]\nmethod = \"crossover\"\n",
            "crossover",
            "method",
        ),
        ("[[vary]]\nkey = \"iodepth\"\nvalues = \"1,2\"\n[search]\npoints = 5\n", "`points`", "random"),
        (
            "[[vary]]\nkey = \"seed\"\nvalues = \"1..9000\"\n[[vary]]\nkey = \"iodepth\"\nvalues = \"1..100\"\n",
            "more than 100000 points",
            "latin",
        ),
    ] {
        let folder = space(search);
        let output = sweep(folder.path(), "space.toml --out out");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{search}: {said}");
        assert!(said.contains(what) && said.contains(help), "{search}: {said}");
        assert!(!folder.path().join("out").exists(), "{search}: nothing is written");
    }
    // A value of the file was told as if it came from the command line.
    let policy = "[[vary]]\nkey = \"drive.override.firmware.gc.policy\"\nvalues = \"greedy,gready\"\n";
    let depth = "[[vary]]\nkey = \"iodepth\"\nvalues = \"1,0\"\n";
    let drawn = "[[vary]]\nkey = \"host.override.cores\"\nfrom = \"2000\"\nto = \"3000\"\n[search]\nmethod = \"random\"\npoints = 2\n";
    for (search, place, what) in [
        (policy.to_owned(), "space.toml:4:10: ", "no policy `gready`"),
        (policy.to_owned() + &depth.replace("1,0", "1,2"), "space.toml:4:10: ", "no policy `gready`"),
        (policy.replace("gready", "fifo") + depth, "space.toml:7:10: ", "out of range"),
        (drawn.to_owned(), "space.toml:4:8: ", "out of range"),
        (
            format!("[set]\n\"drive.override.firmware.gc.policy\" = \"gready\"\n{depth}"),
            "space.toml:3:39: ",
            "no policy `gready`",
        ),
        ("[[vary]]\nkey = \"iodeph\"\nvalues = \"1\"\n".to_owned(), "space.toml:4:10: ", "`iodeph`"),
        (format!("{depth}{depth}"), "space.toml:7:10: ", "same key"),
    ] {
        let folder = space(&search);
        let said = text(&sweep(folder.path(), "space.toml --out out").stderr);
        assert!(said.contains(place) && said.contains(what) && !said.contains("--set"), "{search}: {said}");
    }
    // A flag of the command line is still one.
    let folder = space(depth);
    let said =
        text(&sweep(folder.path(), "space.toml --set drive.override.firmware.gc.policy=gready").stderr);
    assert!(said.contains("--set drive.override.firmware.gc.policy=gready: "), "{said}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("space.toml"), DEPTHS).unwrap();
    let said = text(&sweep(folder.path(), "space.toml").stderr);
    assert!(said.contains("scenario"), "{said}");
    std::fs::write(folder.path().join("space.toml"), format!("scenario = \"none.toml\"\n{DEPTHS}")).unwrap();
    let said = text(&sweep(folder.path(), "space.toml").stderr);
    assert!(said.contains("none.toml"), "{said}");
}

// The data set has no other trace of what its figures are means of; rows that depend on threads or on the cache are not reproducible.
#[test]
fn replicates_give_means_their_half_widths_and_seeds() {
    let folder = space(DEPTHS);
    let path = folder.path();
    printed(&sweep(path, "space.toml --set job.0.count=100 --out single"));
    let said =
        printed(&sweep(path, "space.toml --set job.0.count=100 --out once --repeat 3 --jobs 1 --cache one"));
    assert!(said.starts_with("5 points, 3 replicates each: 15 run, 0 from the cache"), "{said}");
    assert!(said.contains(" ± ") && said.contains("the best IOPS: "), "{said}");
    printed(&sweep(path, "space.toml --set job.0.count=100 --cache two --repeat 2"));
    let said =
        printed(&sweep(path, "space.toml --set job.0.count=100 --out again --repeat 3 --jobs 3 --cache two"));
    assert!(said.starts_with("5 points, 3 replicates each: 5 run, 10 from the cache"), "{said}");
    assert_eq!(rows(&path.join("once")), rows(&path.join("again")));
    let seeds = column(&path.join("once"), "seeds");
    let [first, second, third] = seeds[0].split(' ').collect::<Vec<_>>()[..] else { panic!("{seeds:?}") };
    assert!(first == "1" && second != third, "{seeds:?}");
    let of = |folder: &str, name: &str| -> f64 { column(&path.join(folder), name)[4].parse().unwrap() };
    printed(&sweep(path, &format!("space.toml --set job.0.count=100 --set seed={second} --out second")));
    printed(&sweep(path, &format!("space.toml --set job.0.count=100 --set seed={third} --out third")));
    let mean = ["single", "second", "third"].map(|folder| of(folder, "mean_ns")).iter().sum::<f64>() / 3.0;
    assert!((of("once", "mean_ns") / mean - 1.0).abs() < 1e-9, "{mean}");
    assert!(of("once", "mean_ns_half_width") > 0.0);
    let json = std::fs::read_to_string(path.join("once/sweep.json")).unwrap();
    assert!(json.contains("\"replicates\": 3"), "{json}");
    let single = std::fs::read_to_string(path.join("single/sweep.json")).unwrap();
    assert!(!single.contains("replicates"), "{single}");
}
