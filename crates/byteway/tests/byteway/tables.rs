//! All tables of all commands on a terminal of 80 columns. Commands come from clap and scenarios from the folder, so that new ones are
//! covered.

use crate::common::sections;
use byteway::cli::command;
use byteway_scenario::profile::all_texts;
use byteway_scenario::{Options, Scenario};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Every executable command by its words: `trace inspect`.
fn leaves(command: &clap::Command, words: &str, found: &mut Vec<(String, clap::Command)>) {
    let mut below = command.get_subcommands().filter(|sub| sub.get_name() != "help").peekable();
    if below.peek().is_none() {
        found.push((words.to_owned(), command.clone()));
    }
    for sub in below {
        let words = format!("{words} {}", sub.get_name()).trim().to_owned();
        leaves(sub, &words, found);
    }
}

fn commands() -> Vec<(String, clap::Command)> {
    let mut found = Vec::new();
    leaves(&command(), "", &mut found);
    found
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Output of a command. Its exit code is ignored: shortened claims may fail here.
fn printed(folder: &Path, arguments: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_byteway"))
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty(), "{arguments:?} printed nothing: {}", String::from_utf8_lossy(&output.stderr));
    text
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Defects that make a printed table hard to read at 80 columns.
fn faults(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        if line.chars().count() > 80 {
            found.push(format!("{} columns: {line}", line.chars().count()));
        }
        if line.contains("x0.00") {
            found.push(format!("a factor that looks like nothing: {line}"));
        }
        // 316199.7 and 316,199.7: too many digits, with a decimal after them.
        let numbers = line.split(|c: char| !(c.is_ascii_digit() || c == ',' || c == '.'));
        for number in numbers {
            let long = number.split_once('.').is_some_and(|(whole, decimals)| {
                let digits = whole.rsplit(|c: char| !(c.is_ascii_digit() || c == ',')).next();
                let digits = digits.unwrap_or_default().chars().filter(char::is_ascii_digit).count();
                digits >= 4 && decimals.starts_with(|c: char| c.is_ascii_digit())
            });
            if long {
                found.push(format!("{number} has too many digits: {line}"));
            }
        }
    }
    found
}

fn scenarios() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join("scenarios")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

/// `--set` flags that shorten a scenario.
fn shorter(path: &Path) -> Vec<String> {
    let scenario = Scenario::load(path, &Options::default()).unwrap();
    let mut sets = vec!["measure.warmup=0".to_owned()];
    for (section, job) in sections(&scenario).iter().zip(&scenario.jobs) {
        sets.push(match job.runtime.is_some() {
            true => format!("{section}.runtime=\"5 ms\""),
            false => format!("{section}.count=300"),
        });
    }
    sets.into_iter().flat_map(|set| ["--set".to_owned(), set]).collect()
}

/// A drive served during a benchmark; returns the output of both.
fn served(folder: &Path) -> Vec<String> {
    struct Server(Child);
    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let drive = "[drive]\nprofile = \"tlc-generic\"\ncapacity = \"1 GiB\"\nstore = \"file\"\n";
    std::fs::write(folder.join("drive.toml"), drive).unwrap();
    let out = folder.join("served.txt");
    let mut server = Server(
        Command::new(env!("CARGO_BIN_EXE_byteway"))
            .current_dir(folder)
            .args(words("serve drive.toml --vfio-user sk --data data"))
            .stdout(std::fs::File::create(&out).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut looks = 0;
    while !std::fs::read_to_string(&out).unwrap().contains("cntrl") {
        looks += 1;
        assert!(looks < 6000 && server.0.try_wait().unwrap().is_none(), "the drive is not served");
        wait();
    }
    let bench = "bench --vfio-user sk --rw randrw --size 8m --count 2000 --iodepth 4 --quiet";
    let bench = printed(folder, &words(bench));
    kill_process(Pid::from_child(&server.0), Signal::INT).unwrap();
    assert!(server.0.wait().unwrap().success());
    // Commands to copy, which are not wrapped, are not tables.
    let said = std::fs::read_to_string(&out).unwrap();
    let said =
        said.lines().filter(|line| !["  QEMU ", "  socket "].iter().any(|start| line.starts_with(start)));
    vec![bench, said.map(|line| format!("{line}\n")).collect()]
}

#[allow(clippy::disallowed_methods, reason = "a process of its own is waited for")]
fn wait() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

/// Output of a command in cases that make its tables wide. A command without a case fails the test: its tables have not been checked.
fn cases(path: &str, folder: &Path) -> Vec<String> {
    let root = repository();
    let scenario = |name: &str| root.join("scenarios").join(name);
    let run = |line: &str| printed(folder, &words(line));
    let compared = |name: &str, varies: &[&str]| {
        let file = scenario(name);
        let mut all = vec!["compare".to_owned(), file.display().to_string(), "--quiet".to_owned()];
        let varied: Vec<&str> = varies.iter().filter_map(|vary| vary.split('=').next()).collect();
        // A varied key cannot be set as well.
        for set in shorter(&file).chunks(2).filter(|set| !varied.iter().any(|key| set[1].contains(key))) {
            all.extend(set.iter().cloned());
        }
        all.extend(varies.iter().flat_map(|vary| ["--vary".to_owned(), (*vary).to_owned()]));
        let text = printed(folder, &all);
        // The values of all varied keys are in every row.
        for vary in varies {
            let key = vary.split('=').next().unwrap();
            assert!(text.lines().nth(2).unwrap().contains(key), "{key} is missing in\n{text}");
        }
        text
    };
    match path {
        "run" => scenarios()
            .iter()
            .map(|file| {
                let start = ["run".to_owned(), file.display().to_string(), "--quiet".to_owned()];
                printed(folder, &start.into_iter().chain(shorter(file)).collect::<Vec<_>>())
            })
            .collect(),
        "compare" => vec![
            compared("queue-depth.toml", &["iodepth=1..64x4"]),
            compared("small-payloads.toml", &["method=prp,sgl,inline", "bs=1 B,64 B,64 KiB"]),
            compared(
                "first.toml",
                &["drive.profile=samsung-970-pro,tlc-generic", "seed=1,2", "drive.store=stamp,ram"],
            ),
            compared("kv-packing.toml", &["kv.packing=none,all"]),
            compared("target-cores.toml", &["target.path=block,bypass", "drive.nand.copies=1,8"]),
        ],
        "sweep" => {
            let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
            let scenario = scenario("queue-depth.toml");
            let vary = "[[vary]]\nkey = \"iodepth\"\nvalues = \"1..64x2\"\n[[vary]]\nkey = \"bs\"\nvalues = \"4 KiB,64 KiB,1 MiB\"\n";
            let search = |method: &str, metric: &str| {
                let head =
                    format!("scenario = \"{}\"\n[set]\n\"job.0.runtime\" = \"2 ms\"\n", scenario.display());
                format!("{head}{vary}[search]\nmethod = \"{method}\"\nmetric = \"{metric}\"\n")
            };
            write("grid.toml", &search("grid", "p99_ns"));
            write("front.toml", &search("pareto", "iops"));
            vec![run("sweep grid.toml --no-cache --quiet"), run("sweep front.toml --no-cache --quiet")]
        }
        "fit" => {
            let point =
                "rw,bs,iodepth,metric,value,unit\nrandread,4k,1,mean,90,us\nrandread,16k,1,mean,100,us\n";
            std::fs::write(folder.join("points.csv"), point).unwrap();
            vec![run("fit points.csv --base p4500 --hold-out none --quiet")]
        }
        "validate" => vec![run("validate"), run("validate optane-118gb --every 9 --quiet --points")],
        "threshold" => {
            let file = scenario("small-payloads.toml");
            vec![run(&format!("threshold {} --set job.0.count=20", file.display()))]
        }
        "reproduce" => vec![
            run("reproduce --list"),
            run("reproduce byteexpress --list"),
            run("reproduce bandslim --list"),
            run("reproduce nvmeof --list"),
            run("reproduce nvmeof --payloads 50 --quiet"),
            run("reproduce pcie-ssd --list"),
            run("reproduce byteexpress --payloads 1 --quiet"),
        ],
        "trace inspect" => {
            vec![run(&format!("trace inspect --quiet {}", scenario("traces/small.trace").display()))]
        }
        "profile list" => vec![run("profile list")],
        "bench" => served(folder),
        "media info" => {
            served(folder);
            vec![run("media info data"), run("media check data --quiet")]
        }
        "kv bench" => vec![
            run("kv bench --workload w-m --count 2000 --quiet"),
            run("kv bench --workload w-b --count 2000 --bulk-pairs 64 --quiet"),
        ],
        "csd tables" => {
            write_rows(&folder.join("t.parquet"));
            let device =
                "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"tables\"\ncapacity = \"1 GiB\"\n";
            std::fs::write(folder.join("tables.toml"), device).unwrap();
            let load =
                run("csd load a_table_with_a_long_name t.parquet --drive tables.toml --data tables --quiet");
            vec![load, run("csd tables --columns --drive tables.toml --data tables --quiet")]
        }
        "csd query" | "csd explain" | "csd bench" => {
            write_rows(&folder.join("t.parquet"));
            let mut command = words(path);
            command.push("SELECT n, t FROM t WHERE n > 99999 AND t IS NOT NULL".to_owned());
            command.extend(words("--load t=t.parquet --quiet --on both"));
            vec![printed(folder, &command)]
        }
        // `bench` ends the server and checks its tables; `media info` covers both.
        "serve" | "media check" => Vec::new(),
        // These print no tables, but keys, values, TOML, JSON, plans.
        "kv put" | "kv get" | "kv list" | "kv del" | "kv exist" | "trace convert" | "profile show"
        | "fio" | "schema" | "fuzz" | "completions" | "man" => Vec::new(),
        // `csd tables` loads; the other prints a sentence.
        "csd load" | "csd drop" => Vec::new(),
        other => {
            panic!("`byteway {other}` is new: add a case that shows its tables, or say that it has none")
        }
    }
}

/// A table with long numbers and strings.
fn write_rows(path: &Path) {
    let rows = byteway_query::rows::numbered(0, 100_010);
    let file = std::fs::File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
}

fn look_at(paths: &[&str]) {
    for path in paths {
        let folder = tempfile::tempdir().unwrap();
        for text in cases(path, folder.path()) {
            let faults = faults(&text);
            assert!(faults.is_empty(), "byteway {path}:\n{}\nin\n{text}", faults.join("\n"));
        }
    }
}

// A table wider than the terminal is broken into unreadable lines, and figures of nine digits are hard to read.
#[test]
fn every_run_fits_into_80_columns() {
    look_at(&["run"]);
}

#[test]
fn every_other_table_fits_into_80_columns() {
    let all = commands();
    assert!(all.len() >= 20, "{all:?}");
    let paths: Vec<&str> = all.iter().map(|(path, _)| path.as_str()).filter(|path| *path != "run").collect();
    look_at(&paths);
}

// Columns omitted from a table must be available.
#[test]
fn whatever_prints_tables_prints_all_columns_too() {
    // The output of these is not a table: a report in sentences, and a file.
    const WITHOUT: [&str; 2] = ["fuzz", "profile show"];
    for (path, command) in commands().iter().filter(|(path, _)| !WITHOUT.contains(&path.as_str())) {
        let has = |name: &str| command.get_arguments().any(|argument| argument.get_id() == name);
        let prints_tables = command.get_arguments().any(|argument| {
            let values = argument.get_possible_values();
            argument.get_id() == "format" && values.iter().any(|value| value.get_name() == "table")
        });
        assert!(!prints_tables || has("wide"), "`byteway {path}` has no --wide");
    }
    let folder = tempfile::tempdir().unwrap();
    let (narrow, wide) = (
        printed(folder.path(), &words("profile list")),
        printed(folder.path(), &words("profile list --wide")),
    );
    assert!(narrow.contains("--wide shows also: what") && !wide.contains("--wide shows also"));
    for (name, _) in all_texts() {
        assert!(narrow.contains(name) && wide.contains(name), "{name}");
    }
}

// A check that finds nothing would pass every table.
#[test]
fn faults_are_found() {
    for (line, found) in [
        (" 4812.0 B", 1),
        (" 316,199.7 B", 1),
        (" x0.0002", 1),
        (&"x".repeat(81), 1),
        (" 4,812   x0.12   999.9   1/15.4   0.1.0   2026", 0),
    ] {
        assert_eq!(faults(line).len(), found, "{line}: {:?}", faults(line));
    }
}
