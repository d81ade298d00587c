//! Properties of all commands in clap's list: failing standard output, an output folder on a full disk, results of an earlier run, signals
//! at any time. A new command, or a new `--out`, fails these tests until it has a sample here.
#![allow(
    clippy::disallowed_methods,
    reason = "processes are held against the wall clock, so that none hangs"
)]

use byteway::cli;
use byteway_results::output::{POINTS, RESULTS};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A command line, on the files of a [`Bench`].
struct Sample {
    /// Names of the command in clap's tree.
    path: &'static str,
    /// Arguments with which it ends soon.
    short: &'static str,
    /// Arguments with which it runs for long, if it can.
    long: &'static str,
    /// Whether it prints to the standard output.
    prints: bool,
}

const fn sample(path: &'static str, short: &'static str, long: &'static str, prints: bool) -> Sample {
    Sample { path, short, long, prints }
}

const SAMPLES: [Sample; 35] = [
    sample("run", "run s.toml", "run endless.toml", true),
    sample("compare", "compare s.toml --vary iodepth=1,2", "compare endless.toml --vary iodepth=1,2", true),
    sample("sweep", "sweep space.toml --no-cache", "sweep endless-space.toml --no-cache", true),
    sample("completions", "completions bash", "completions zsh", true),
    sample("man", "man", "man", true),
    sample("threshold", "threshold sink.toml", "threshold sink.toml", true),
    sample(
        "reproduce",
        "reproduce byteexpress --claims claims.toml --payloads 20 --jobs 2",
        "reproduce byteexpress --full --jobs 2",
        true,
    ),
    sample("trace inspect", "trace inspect t.trace", "trace inspect long.trace", true),
    // No record in the long file matches.
    sample(
        "trace inspect",
        "trace inspect t.trace --device 0",
        "trace inspect holes --from oraclegeneral --skip-bad-lines --device 9",
        true,
    ),
    sample("trace convert", "trace convert t.trace - --to msr", "trace convert long.trace o.msr.csv", true),
    sample("profile list", "profile list", "profile list", true),
    sample("profile show", "profile show p4500", "profile show p4500", true),
    sample("fio", "fio job.fio", "fio job.fio", true),
    sample(
        "fit",
        "fit point.csv --base p4500 --quiet",
        "fit points.csv --base p4500 --structure --quiet",
        true,
    ),
    sample("validate", "validate optane-118gb --quiet", "validate nvme-a --quiet", true),
    sample("serve", "serve d.toml --vfio-user other", "serve d.toml --vfio-user other", true),
    sample("media info", "media info pairs", "media info pairs", true),
    sample("media check", "media check pairs", "media check pairs", true),
    sample(
        "bench",
        "bench --vfio-user drive --count 200 --size 1m",
        "bench --vfio-user drive --runtime 600s --size 1m",
        true,
    ),
    sample(
        "kv put",
        "kv put new value --drive kv.toml --data pairs",
        "kv put new value --drive kv.toml --data pairs",
        false,
    ),
    sample(
        "kv get",
        "kv get key --drive kv.toml --data pairs",
        "kv get key --drive kv.toml --data pairs",
        true,
    ),
    sample("kv list", "kv list --drive kv.toml --data pairs", "kv list --drive kv.toml --data pairs", true),
    sample(
        "kv del",
        "kv del new --drive kv.toml --data pairs",
        "kv del other --drive kv.toml --data pairs",
        false,
    ),
    sample(
        "kv exist",
        "kv exist key --drive kv.toml --data pairs",
        "kv exist key --drive kv.toml --data pairs",
        false,
    ),
    sample(
        "kv bench",
        "kv bench --workload w-m --count 100 --capacity 1g",
        "kv bench --workload w-m --count 100000000 --capacity 1g",
        true,
    ),
    sample(
        "csd load",
        "csd load new t.parquet --drive tables.toml --data tables --quiet",
        "csd load new t.parquet --drive tables.toml --data tables --quiet",
        true,
    ),
    sample(
        "csd tables",
        "csd tables --drive tables.toml --data tables",
        "csd tables --drive tables.toml --data tables",
        true,
    ),
    sample(
        "csd query",
        "csd query t --form segment --drive tables.toml --data tables",
        "csd query t --form segment --drive tables.toml --data tables",
        true,
    ),
    sample(
        "csd explain",
        "csd explain t --form segment --drive tables.toml --data tables",
        "csd explain t --form segment --drive tables.toml --data tables",
        true,
    ),
    sample(
        "csd bench",
        "csd bench t --form segment --load t=t.parquet --quiet",
        "csd bench t --form segment --load t=t.parquet --quiet",
        true,
    ),
    sample(
        "csd drop",
        "csd drop new --if-exists --drive tables.toml --data tables",
        "csd drop new --if-exists --drive tables.toml --data tables",
        false,
    ),
    sample("fuzz", "fuzz --runs 2", "fuzz --for 10min", true),
    sample("fuzz", "fuzz --every-poll --ops 5 --step 100", "fuzz --every-poll", true),
    sample("schema", "schema", "schema", true),
    sample("schema", "schema profile", "schema profile", true),
];

const DRIVE: &str = "[drive]\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\n";

/// One claim is enough for these tests.
const CLAIMS: &str = include_str!("../../../../claims/byteexpress.toml");

/// Writes a hundred rows.
fn write_parquet(path: &Path) {
    let rows = byteway_query::rows::numbered(0, 100);
    let file = File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
}

/// Files for all samples, and a served drive.
struct Bench {
    folder: TempDir,
    served: Option<Child>,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let job = "[[job]]\nrw = \"randread\"\n";
        write("s.toml", &format!("{DRIVE}{job}count = 200\n"));
        write("endless.toml", &format!("{DRIVE}{job}iodepth = 4\nruntime = \"10000 s\"\n"));
        for name in ["space", "endless-space"] {
            let scenario = if name == "space" { "s" } else { "endless" };
            let vary = "[[vary]]\nkey = \"iodepth\"\nvalues = \"1,2\"\n";
            write(&format!("{name}.toml"), &format!("scenario = \"{scenario}.toml\"\n{vary}"));
        }
        write(
            "sink.toml",
            "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"sink\"\ncapacity = \"1 GiB\"\n\
             [host]\nprofile = \"cosmos\"\n[[job]]\nrw = \"write\"\nbs = \"64 B\"\nsize = \"1 MiB\"\ncount = 50\n",
        );
        write("claims.toml", &first_claim());
        write("d.toml", &format!("{DRIVE}precondition = \"empty\"\n[serve]\ntiming = \"none\"\n"));
        write("kv.toml", "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"kv\"\ncapacity = \"1 GiB\"\n");
        write(
            "tables.toml",
            "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"tables\"\ncapacity = \"1 GiB\"\n",
        );
        write_parquet(&folder.path().join("t.parquet"));
        write("job.fio", "[job]\nrw=randread\nnumber_ios=100\n");
        let points = "rw,bs,iodepth,metric,value,unit\nrandread,4k,1,mean,90,us\n";
        write("point.csv", points);
        write(
            "points.csv",
            &format!("{points}randread,4k,64,iops,400,kIOPS\nwrite,128k,32,iops,9000,IOPS\n"),
        );
        write("t.trace", "1000 0 8 8 1\n2000 0 64 8 0\n3000 0 8 16 1\n");
        let records = (0..400_000u64).map(|n| format!("{} 0 {} 8 {}\n", n * 1000, n * 8 % 100_000, n % 2));
        write("long.trace", &records.collect::<String>());
        File::create(folder.path().join("holes")).and_then(|file| file.set_len(1 << 40)).unwrap();
        let bench = Bench { folder, served: None };
        for key in ["key", "new", "other"] {
            let put = bench.run(&format!("kv put {key} value --drive kv.toml --data pairs"));
            assert!(put.status.success(), "{put:?}");
        }
        for table in ["t", "new"] {
            let loaded =
                bench.run(&format!("csd load {table} t.parquet --drive tables.toml --data tables --quiet"));
            assert!(loaded.status.success(), "{loaded:?}");
        }
        bench
    }

    /// A bench with a served drive.
    fn serving() -> Bench {
        Self::serving_with("--format table")
    }

    /// The same with other flags.
    fn serving_with(flags: &str) -> Bench {
        let mut bench = Bench::new();
        let mut serve = bench.command(&format!("serve d.toml --vfio-user drive {flags}"));
        let child = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        bench.served = Some(child);
        let socket = bench.path("drive/cntrl");
        let start = Instant::now();
        while !socket.exists() {
            assert!(start.elapsed() < DEADLINE, "the drive is not served");
            std::thread::sleep(Duration::from_millis(10));
        }
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_byteway"));
        command.current_dir(self.folder.path()).args(line.split(' ')).stdin(Stdio::null());
        command.env("BYTEWAY_LOG", "error");
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    fn remove(&self, name: &str) {
        let path = self.path(name);
        let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(child) = &mut self.served {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Time limit of each process on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// The file up to its second claim.
fn first_claim() -> String {
    let mut parts = CLAIMS.split("[[claim]]");
    let head = parts.next().unwrap().to_owned();
    format!("{head}[[claim]]{}", parts.next().unwrap())
}

/// The executable commands of clap's tree, with their arguments.
fn leaves() -> Vec<(String, clap::Command)> {
    fn walk(path: &str, command: &clap::Command, into: &mut Vec<(String, clap::Command)>) {
        let mut has_own = true;
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            has_own = false;
            walk(format!("{path} {}", sub.get_name()).trim(), sub, into);
        }
        if has_own {
            into.push((path.to_owned(), command.clone()));
        }
    }
    let mut leaves = Vec::new();
    walk("", &cli::command(), &mut leaves);
    leaves
}

/// The samples of commands with this argument.
fn samples_with(argument: &str) -> Vec<&'static Sample> {
    let has = |leaf: &clap::Command| leaf.get_arguments().any(|known| known.get_id() == argument);
    let paths: BTreeSet<String> =
        leaves().into_iter().filter(|(_, leaf)| has(leaf)).map(|(path, _)| path).collect();
    SAMPLES.iter().filter(|sample| paths.contains(sample.path)).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command in a shell after some preparation.
fn in_shell(bench: &Bench, before: &str, line: &str, after: &str) -> Output {
    let script = format!("{before} exec {} {line} {after}", env!("CARGO_BIN_EXE_byteway"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(bench.folder.path()).stdin(Stdio::null());
    shell.env("BYTEWAY_LOG", "error").output().unwrap()
}

// A command without a sample would not be covered by these tests.
#[test]
fn every_command_has_a_sample() {
    let commands: BTreeSet<String> = leaves().into_iter().map(|(path, _)| path).collect();
    let sampled: BTreeSet<String> = SAMPLES.iter().map(|sample| sample.path.to_owned()).collect();
    assert_eq!(commands, sampled);
    for sample in &SAMPLES {
        for line in [sample.short, sample.long] {
            assert!(line.starts_with(sample.path), "{line}");
            let parsed = cli::command().try_get_matches_from(["byteway"].into_iter().chain(line.split(' ')));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}

// Output that is lost must not look like success.
#[test]
fn an_output_that_takes_nothing_fails_every_command() {
    let bench = Bench::serving();
    let helps = ["--help", "--version", "run --help", "trace convert --help"];
    let lines = SAMPLES.iter().filter(|sample| sample.prints).map(|sample| sample.short).chain(helps);
    for line in lines {
        let full = bench.command(line).stdout(File::create("/dev/full").unwrap()).output().unwrap();
        assert_eq!(full.status.code(), Some(1), "{line}: {}", said(&full));
        assert!(
            said(&full).contains("cannot write to the standard output: No space left"),
            "{line}: {}",
            said(&full)
        );
        // A pipe without a reader.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = bench.command(line).stdout(writer).output().unwrap();
        assert_eq!((closed.status.code(), said(&closed).as_str()), (Some(141), ""), "{line}");
    }
    // Commands without output need none.
    for sample in SAMPLES.iter().filter(|sample| !sample.prints) {
        let full = bench.command(sample.short).stdout(File::create("/dev/full").unwrap()).output().unwrap();
        assert!(full.status.success(), "{}: {}", sample.short, said(&full));
    }
}

// A full disk must not lose the results of hours of simulation, and partial files must not look complete.
#[test]
fn a_full_disk_costs_no_figures_and_leaves_no_mix() {
    let bench = Bench::new();
    let samples = samples_with("out");
    assert!(samples.len() >= 5);
    for sample in samples {
        // The memory that it shares with the drive also counts as a file for the system's limit.
        if sample.path == "bench" {
            continue;
        }
        let ios = if sample.path == "run" { " --ios --spans" } else { "" };
        let line = format!("{} --out out{ios}", sample.short);
        bench.remove("out");
        let whole = bench.run(&line);
        assert!(matches!(whole.status.code(), Some(0 | 1)), "{line}: {}", said(&whole));
        bench.remove("out");
        let full = in_shell(&bench, "trap '' XFSZ; ulimit -f 0;", &line, "");
        assert_eq!(full.status.code(), Some(1), "{line}: {}", said(&full));
        assert!(
            said(&full).contains("File too large") && said(&full).contains("out"),
            "{line}: {}",
            said(&full)
        );
        let tables = [&full, &whole].map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        assert_eq!(tables[0], tables[1], "{line}: the tables are the same");
        assert_eq!(files(&bench.path("out")), Vec::<PathBuf>::new(), "{line}");
    }
}

/// A process that is killed at the end.
struct Running(Child);

impl Running {
    /// Starts the command and waits until it is running.
    fn start(bench: &Bench, line: &str) -> Running {
        let child = bench.command(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        while !is_listening(&child) {
            assert!(start.elapsed() < DEADLINE, "{line} does not begin");
            std::thread::sleep(Duration::from_millis(2));
        }
        Running(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// A mixture of files from two runs would look like a result.
#[test]
fn two_runs_never_share_a_folder() {
    let bench = Bench::serving();
    for holder in ["run endless.toml --out out", "compare endless.toml --vary iodepth=1,2 --out out"] {
        bench.remove("out");
        let running = Running::start(&bench, holder);
        let start = Instant::now();
        while !holds_lock(&running.0, &bench.path("out")) {
            assert!(start.elapsed() < DEADLINE, "{holder} locks nothing");
            std::thread::sleep(Duration::from_millis(2));
        }
        // After taking the lock a command removes the results of earlier runs, this one with them if it comes before.
        let mine = bench.path("out/results.parquet");
        while !mine.exists() {
            std::fs::write(&mine, "the first one's").unwrap();
            std::thread::sleep(Duration::from_millis(500));
        }
        for sample in samples_with("out") {
            let refused = bench.run(&format!("{} --out out", sample.short));
            let text = said(&refused);
            assert_eq!(refused.status.code(), Some(2), "{}: {text}", sample.short);
            assert!(text.contains("another run is writing to it") && text.contains("--out"), "{text}");
        }
        let kept = std::fs::read(bench.path("out/results.parquet")).unwrap();
        assert_eq!(kept, b"the first one's");
        // Killed, so that it cannot influence the outcome.
        drop(running);
        let after = bench.run("run s.toml --out out");
        assert!(after.status.success(), "{}", said(&after));
    }
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

// A file of an earlier run would look like part of this run's results.
#[test]
fn results_of_an_earlier_run_do_not_stay() {
    let bench = Bench::serving();
    for sample in samples_with("out") {
        bench.remove("out");
        let stale = |name: &str| {
            let path = bench.path("out").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "stale").unwrap();
        };
        RESULTS.iter().for_each(|name| stale(name));
        stale(&format!("{POINTS}/777/summary.json"));
        stale(&format!("{POINTS}/777/point.json"));
        stale("notes.txt");
        let line = format!("{} --out out", sample.short);
        let ran = bench.run(&line);
        assert!(matches!(ran.status.code(), Some(0 | 1)), "{line}: {}", said(&ran));
        let left = files(&bench.path("out"));
        let left: Vec<_> = left.iter().filter(|path| std::fs::read(path).unwrap() == b"stale").collect();
        assert_eq!(left, [&bench.path("out/notes.txt")], "{line}: only what the user keeps there");
        assert!(RESULTS.iter().any(|name| bench.path("out").join(name).exists()), "{line}");
    }
}

// A missing or busy drive must not destroy the results of the previous run.
#[test]
fn a_run_without_results_leaves_those_that_are_there() {
    let bench = Bench::new();
    for name in ["summary.json", "report.html"] {
        std::fs::create_dir_all(bench.path("out")).unwrap();
        std::fs::write(bench.path("out").join(name), "earlier").unwrap();
    }
    let before = files(&bench.path("out"));
    std::fs::write(bench.path("bad.trace"), "1000 0 8 8 1\n2000 0 64 8 0\nno record\n").unwrap();
    let job = "[[job]]\n[job.trace]\nfile = 'bad.trace'\n";
    std::fs::write(bench.path("bad.toml"), format!("{DRIVE}{job}")).unwrap();
    let absent =
        ["bench --vfio-user absent --count 1", "kv bench --workload w-m --vfio-user absent --count 1"];
    for line in absent.into_iter().chain(["run bad.toml"]) {
        let failed = bench.run(&format!("{line} --out out"));
        assert!(matches!(failed.status.code(), Some(1 | 2)), "{line}: {}", said(&failed));
        assert!(["absent", "no record"].iter().any(|word| said(&failed).contains(word)), "{}", said(&failed));
        assert_eq!(files(&bench.path("out")), before, "{line}");
    }
}

// Replacing a device by a file damages the system; replacing a link or a FIFO damages what it refers to.
#[test]
fn an_output_that_is_no_regular_file_is_never_replaced() {
    let bench = Bench::new();
    for sample in samples_with("out").into_iter().filter(|sample| sample.path != "bench") {
        for name in RESULTS {
            bench.remove("out");
            std::fs::create_dir(bench.path("out")).unwrap();
            let path = bench.path("out").join(name);
            std::os::unix::fs::symlink("/dev/null", &path).unwrap();
            let refused = bench.run(&format!("{} --out out", sample.short));
            assert_eq!(refused.status.code(), Some(2), "{}: {}", sample.short, said(&refused));
            assert!(
                said(&refused).contains("symbolic link") && said(&refused).contains(name),
                "{}",
                said(&refused)
            );
            assert!(path.is_symlink());
        }
    }
    // The only command that writes files of arbitrary names.
    assert_eq!(
        samples_with("output").iter().map(|sample| sample.path).collect::<Vec<_>>(),
        ["trace convert"]
    );
    let convert = |to: &str| bench.run(&format!("trace convert t.trace {to} --to msr --quiet"));
    assert!(convert("whole.csv").status.success());
    let whole = std::fs::read(bench.path("whole.csv")).unwrap();
    let link = |name: &str, to: &str| std::os::unix::fs::symlink(to, bench.path(name)).unwrap();
    link("null", "/dev/null");
    assert!(convert("null").status.success());
    assert!(
        bench.path("null").is_symlink()
            && Path::new("/dev/null").metadata().unwrap().file_type().is_char_device()
    );
    link("full", "/dev/full");
    let full = convert("full");
    assert_eq!(full.status.code(), Some(1), "{}", said(&full));
    assert!(said(&full).contains("`full`") && said(&full).contains("No space left"), "{}", said(&full));
    std::fs::write(bench.path("kept.csv"), "old").unwrap();
    link("linked", "kept.csv");
    assert!(convert("linked").status.success());
    assert!(bench.path("linked").is_symlink());
    assert_eq!(std::fs::read(bench.path("kept.csv")).unwrap(), whole);
    link("dangling", "absent.csv");
    assert_eq!(convert("dangling").status.code(), Some(2));
    let fifo = bench.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let from = fifo.clone();
    let reader = std::thread::spawn(move || std::fs::read(from).unwrap());
    assert!(convert("fifo").status.success());
    assert_eq!(reader.join().unwrap(), whole);
    assert!(fifo.metadata().unwrap().file_type().is_fifo());
    // A pipe named by its descriptor, as in a shell's >(...).
    let piped = bench.run("trace convert t.trace /dev/stdout --to msr --quiet");
    assert_eq!(
        (piped.status.code(), piped.stdout),
        (Some(0), whole),
        "{}",
        String::from_utf8_lossy(&piped.stderr)
    );
    assert_eq!(convert(".").status.code(), Some(2));
}

/// Runs a script in its own mount namespace, with a file system of `mebibytes` MiB in the folder `small`; `None` where the system does not
/// allow it.
fn on_small_disk(bench: &Bench, mebibytes: u32, script: &str) -> Option<Output> {
    std::fs::create_dir(bench.path("small")).unwrap();
    let mount = format!("mount -t tmpfs -o size={mebibytes}m tmpfs small || exit 99");
    let script = format!(
        "{mount}\nkv() {{ {} kv \"$@\" --drive kv.toml --data small/pairs; }}\n{script}",
        env!("CARGO_BIN_EXE_byteway")
    );
    let mut shell = Command::new("unshare");
    shell.args(["-rm", "sh", "-c", &script]).current_dir(bench.folder.path()).stdin(Stdio::null());
    let output = shell.output().ok();
    output.filter(|output| output.status.code() != Some(99) && !said(output).contains("unshare"))
}

// A value that does not fit must not affect others, and a full disk must not make existing data inaccessible.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_refuses_a_value_and_keeps_those_before() {
    let bench = Bench::new();
    std::fs::write(bench.path("value"), vec![7; 300_000]).unwrap();
    let script = "
        kv put first one || exit 1
        for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
            kv put k$n --file value 2>why || break
        done
        grep -q 'not enough space' why || { cat why >&2; exit 2; }
        [ $n -gt 3 ] || exit 3
        [ $(kv get first) = one ] || exit 4
        [ $(kv get k1 | wc -c) = 300000 ] || exit 5
        kv exist k$n && exit 6
        [ $(kv list | wc -l) = $n ] || exit 7
        kv del k1 || exit 8
        kv exist k1 2>/dev/null && exit 9
        # Nothing at all is left: what is there can still be read.
        cat /dev/zero >small/filler 2>/dev/null
        [ $(kv get first) = one ] || exit 10
        [ $(kv list | wc -l) = $((n - 1)) ] || exit 11
        kv put other --file value 2>why && exit 12
        grep -q -i -e 'no space left' -e 'not enough space' why || { cat why >&2; exit 13; }
        kv del k2 2>why
        grep -q defect why && exit 14
        rm small/filler
        [ $(kv get first) = one ] || exit 15
        [ $(kv get k3 | wc -c) = 300000 ] || exit 16
        kv put more two || exit 17
        true";
    match on_small_disk(&bench, 6, script) {
        Some(output) => assert_eq!(output.status.code(), Some(0), "{}", said(&output)),
        None => eprintln!("skipped: the system allows no mount namespace here"),
    }
}

// A copy, or a directory on read-only media, has no lock file, and cannot get one.
#[test]
fn a_directory_without_a_lock_file_can_be_looked_at() {
    let bench = Bench::new();
    std::fs::remove_file(bench.path("pairs/lock")).unwrap();
    let set = |mode| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(bench.path("pairs"), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0o555);
    let names = files(&bench.path("pairs"));
    for line in ["media check pairs", "media info pairs", "kv get key --drive kv.toml --data pairs"] {
        let output = bench.run(line);
        assert!(output.status.success(), "{line}: {}", said(&output));
    }
    let mut after = files(&bench.path("pairs"));
    set(0o755);
    let mut before = names;
    before.sort();
    after.sort();
    assert_eq!(before, after, "nothing was added");
    // A folder without a drive must still be recognized as such.
    std::fs::create_dir(bench.path("empty")).unwrap();
    assert!(said(&bench.run("media check empty")).contains("no drive in"));
}

// Neither "did you mean 1 KiB?" nor "unknown unit" helps: the drive is too large, and the answer must give the limit.
#[test]
fn a_capacity_beyond_the_limit_is_answered_with_the_limit() {
    let bench = Bench::new();
    for capacity in ["1 PiB", "1 PB", "2 EiB", "1000 TiB"] {
        let set = format!("drive.capacity={capacity}");
        let output = bench.command("run s.toml --set").arg(set).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{capacity}");
        assert!(
            said(&output).contains("TiB") && !said(&output).contains("did you mean"),
            "{}",
            said(&output)
        );
    }
}

// A past error: half of all I/Os seemed to take no time. A latency is at least the time of a message to the server and back.
#[test]
fn no_percentile_in_real_time_is_below_what_an_io_takes() {
    for doorbells in ["trapped", "mapped"] {
        let bench = Bench::serving_with(&format!("--set serve.doorbells={doorbells}"));
        let ran = bench.run("bench --vfio-user drive --count 2000 --size 1m --quiet --format json");
        let summary: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        let latency = &summary["jobs"][0]["read"]["latency"];
        let of = |name: &str| latency[name].as_f64().unwrap_or_else(|| panic!("{name}: {summary:#}"));
        assert!(of("min_ns") > 100.0, "{latency}");
        for name in ["p50_ns", "p90_ns", "p99_ns", "p99_99_ns"] {
            assert!(of(name) >= of("min_ns").floor() && of(name) <= of("max_ns").ceil(), "{name}: {latency}");
        }
        // At depth 1 the latencies lie side by side in the elapsed time. How much of it they fill is the machine's: a busy one takes the
        // client's processor away between two of them.
        let share = of("mean_ns") * 2000.0 / summary["elapsed_ns"].as_f64().unwrap();
        assert!(share < 1.01, "{share}: {latency}");
        let notes = summary["notes"].to_string();
        assert!(notes.contains("resolution of 0.1 %") && notes.contains("models no latencies"), "{notes}");
    }
    let bench = Bench::serving_with("--set serve.timing=model");
    let ran = bench.run("bench --vfio-user drive --count 200 --size 1m --quiet");
    let tables = String::from_utf8_lossy(&ran.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    // On a busy machine the server says instead by how much it fell behind.
    let says = ["its model: ", "FELL BEHIND its model by"].iter().any(|note| tables.contains(note));
    assert!(says && tables.contains(" modeled waits ended more than"), "{tables}");
}

// Hours without output, or a pass that does not report its coverage, would not be a useful test.
#[test]
fn cuts_at_every_poll_keep_to_their_time_and_say_how_many_they_were() {
    let bench = Bench::new();
    let cut = bench.run("fuzz --every-poll --for 4s --jobs 1");
    let (report, progress) = (String::from_utf8_lossy(&cut.stdout).into_owned(), said(&cut));
    assert_eq!(cut.status.code(), Some(0), "{report}{progress}");
    assert!(report.contains(" polls (") && report.contains(" %), in scattered order"), "{report}");
    assert!(!report.contains("(100.0 %)"), "all polls in 4 s are not what is tested: {report}");
    assert!(progress.contains(" power cuts"), "without a terminal there are lines: {progress}");
    let cut = bench.run("fuzz --every-poll --for 1s --jobs 1 --quiet --format json");
    let report: serde_json::Value = serde_json::from_slice(&cut.stdout).unwrap();
    let count = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name}: {report:#}"));
    assert!(count("cuts_tried") < count("cuts_wanted") && report["partial"] == false, "{report:#}");
    assert_eq!(said(&cut), "");
}

// A benchmark in a long pause must react to an interrupt, and keep its results.
#[test]
fn an_interrupt_in_a_long_pause_keeps_the_figures() {
    let bench = Bench::serving();
    for pause in ["--thinktime 600s", "--rate-iops 1 --iodepth 4 --thinktime 600s --thinktime-blocks 1000"] {
        let line = format!("bench --vfio-user drive --size 1m --runtime 900s {pause}");
        let child = bench.command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !is_listening(&child) {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(1500));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let ended = child.wait_with_output().unwrap();
        let tables = String::from_utf8_lossy(&ended.stdout);
        assert_eq!(ended.status.code(), Some(130), "{line}: {tables}{}", said(&ended));
        assert!(
            tables.contains("PARTIAL") && tables.contains("randread"),
            "{line}: {tables}{}",
            said(&ended)
        );
    }
}

/// Whether a process has installed its SIGINT handler.
fn is_listening(process: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(caught.trim(), 16).unwrap_or(0) & (1 << 1) != 0
}

/// Whether a process holds the lock of a folder. Checked from outside: trying the lock would hold it for a moment, in which the process
/// would be refused.
fn holds_lock(process: &Child, folder: &Path) -> bool {
    let (of, folder) = (format!("/proc/{}", process.id()), folder.canonicalize());
    let opened = std::fs::read_dir(format!("{of}/fd")).into_iter().flatten().flatten();
    opened.filter(|file| matches!((std::fs::read_link(file.path()), &folder), (Ok(a), Ok(b)) if a == *b)).any(
        |file| {
            let info = format!("{of}/fdinfo/{}", file.file_name().display());
            std::fs::read_to_string(info).is_ok_and(|info| info.contains("FLOCK"))
        },
    )
}

/// Pseudo-random from a seed, so that failures can be reproduced.
fn mixed(seed: u64) -> u64 {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^ (word >> 27)
}

// An interrupted command is neither failed nor complete, and its exit code must say so.
#[test]
#[cfg(target_os = "linux")]
fn every_command_ends_at_a_signal_and_says_that_it_did() {
    let bench = Bench::serving();
    let seed = std::env::var("BYTEWAY_SIGNAL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1u64);
    let with_out: BTreeSet<&str> = samples_with("out").iter().map(|sample| sample.path).collect();
    for (number, (sample, signal)) in
        SAMPLES.iter().flat_map(|sample| [(sample, Signal::INT), (sample, Signal::TERM)]).enumerate()
    {
        bench.remove("out");
        bench.remove("o.msr.csv");
        if sample.path == "kv del" {
            // An earlier signal may have deleted it.
            let put = bench.run("kv put other value --drive kv.toml --data pairs");
            assert!(put.status.success(), "{}", said(&put));
        }
        let out = match sample.path {
            "run" => " --out out --ios --spans",
            path if with_out.contains(path) => " --out out",
            _ => "",
        };
        let line = format!("{}{out}", sample.long);
        let delay = Duration::from_millis(mixed(seed + number as u64) % 700);
        let (error, printed) = (bench.path("stderr"), bench.path("stdout"));
        let mut child = bench
            .command(&line)
            .stdout(File::create(&printed).unwrap())
            .stderr(File::create(&error).unwrap())
            .spawn()
            .unwrap();
        while !is_listening(&child) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(delay);
        // It may have ended by itself.
        let _ = kill_process(Pid::from_child(&child), signal);
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > DEADLINE {
                child.kill().unwrap();
                panic!("{line} does not end at {signal:?} after {delay:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = std::fs::read_to_string(&printed).unwrap() + &std::fs::read_to_string(&error).unwrap();
        let what = format!("{line}, {signal:?} after {delay:?}: {status}\n{text}");
        let code = status.code().unwrap_or_else(|| panic!("{what}"));
        // Serving ends by a signal: that is not an interruption.
        assert!(code == 130 || code == 0, "{what}");
        for word in ["A claim regressed", "REGRESSED", "no figures", "defect", "panicked", "error:"] {
            assert!(!text.contains(word), "{word}: {what}");
        }
        if code == 130 {
            let says = ["PARTIAL", "nterrupted", "\"partial\": true"].iter().any(|word| text.contains(word));
            assert!(says, "it does not say that it is partial: {what}");
        }
        for path in files(&bench.path("out")) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(!name.starts_with(".byteway-"), "{name} is half a file: {what}");
            let is_summary = ["summary.json", "reproduce.json", "compare.json"].contains(&name.as_str());
            if code == 130 && is_summary && path.parent() == Some(&bench.path("out")) {
                let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
                assert_eq!(json["partial"], true, "{name}: {what}");
            }
        }
        if sample.path == "trace convert" {
            assert_eq!(bench.path("o.msr.csv").exists(), code == 0, "{what}");
        }
    }
}

// `timeout` sends its signal to the process and to its group: the second one must not lose results, or prevent an orderly shutdown.
#[test]
#[cfg(target_os = "linux")]
fn a_signal_that_comes_twice_is_one() {
    let bench = Bench::new();
    for (line, code) in [("run endless.toml", 130), ("serve d.toml --vfio-user other --data drives", 0)] {
        let child = bench.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        // The system may merge two identical signals.
        for signal in [Signal::INT, Signal::TERM] {
            kill_process(Pid::from_child(&child), signal).unwrap();
        }
        let ended = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&ended.stdout).into_owned() + &said(&ended);
        assert_eq!(ended.status.code(), Some(code), "{line}: {text}");
        assert!(text.contains("PARTIAL") || text.contains("Served"), "{line}: {text}");
    }
}

// A thread that waits for a pipe does not check a flag.
#[test]
#[cfg(target_os = "linux")]
fn a_conversion_that_waits_ends_at_the_first_signal() {
    let bench = Bench::new();
    let fifo = bench.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let before = files(bench.folder.path());
    let (stdin, _silent) = std::io::pipe().unwrap();
    let (_full, stdout) = std::io::pipe().unwrap();
    // Each waits for something else.
    let opens = "trace convert t.trace fifo --to msr";
    let writes = "trace convert long.trace - --to msr";
    let reads = "trace convert - o.msr.csv --from disksim";
    for (line, signal) in [(opens, Signal::INT), (writes, Signal::TERM), (reads, Signal::INT)] {
        let mut command = bench.command(line);
        command.stdin(stdin.try_clone().unwrap()).stdout(stdout.try_clone().unwrap());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(child.try_wait().unwrap(), None, "{line} waits");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if start.elapsed() > Duration::from_secs(20) {
                child.kill().unwrap();
                panic!("{line} does not end at {signal:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130), "{line}: {}", said(&ended));
        assert!(said(&ended).contains("interrupted: there is no whole result"), "{line}: {}", said(&ended));
        assert_eq!(files(bench.folder.path()), before, "{line}");
    }
}

/// Source files of the program, without their tests.
fn sources(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "tests" {
                sources(&path, into);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            let own = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
            into.push((path, own));
        }
    }
}

// The tests above only find careless writes in commands that they run; this one finds them in the source.
#[test]
fn files_and_the_standard_output_are_written_in_one_place() {
    const WRITES: [&str; 9] = [
        "fs::write(",
        "File::create",
        "fs::rename(",
        "OpenOptions",
        "File::options",
        ".persist(",
        "NamedTempFile",
        "println!(",
        "io::stdout().write",
    ];
    // Data directories follow their own rules: see byteway_flash::file. `needs` is for tests alone.
    let allowed = [
        "crates/results/src/output.rs",
        "crates/flash/src/store/file/real.rs",
        "crates/testkit/src/needs.rs",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root.join("crates")).unwrap().map(Result::unwrap) {
        sources(&entry.path().join("src"), &mut all);
    }
    assert!(all.len() > 100, "{} files", all.len());
    for (path, text) in all {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        let is_allowed = allowed.contains(&name.as_str());
        // Examples of documentation write what they read.
        let text: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let what = WRITES.iter().find(|what| !is_allowed && text.contains(**what));
        assert_eq!(what, None, "{name}: write through byteway_results::output");
    }
}
