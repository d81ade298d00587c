//! `byteway serve` and `byteway bench` as processes: a drive in real time as seen by a user, with every timing and kind of doorbells, in
//! success and failure.
#![allow(
    clippy::disallowed_methods,
    reason = "processes are held against the wall clock, so that none hangs"
)]

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const DRIVE: &str = "[drive]\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\n";
/// Time limit of each process.
const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) fn byteway(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_byteway"));
    command.current_dir(folder).stdin(Stdio::null()).env_remove("BYTEWAY_LOG");
    command
}

/// A process with its output in files, killed on drop.
pub(crate) struct Process {
    pub(crate) child: Child,
    out: PathBuf,
    error: PathBuf,
}

impl Process {
    pub(crate) fn start(folder: &Path, name: &str, arguments: &[&str]) -> Process {
        Process::start_with(folder, name, arguments, Stdio::null())
    }

    pub(crate) fn start_with(folder: &Path, name: &str, arguments: &[&str], input: Stdio) -> Process {
        let (out, error) = (folder.join(format!("{name}.out")), folder.join(format!("{name}.err")));
        let child = byteway(folder)
            .args(arguments)
            .stdin(input)
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&error).unwrap())
            .spawn()
            .unwrap();
        Process { child, out, error }
    }

    /// Its standard input, if it was started with a pipe.
    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    pub(crate) fn out(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap()
    }

    pub(crate) fn error(&self) -> String {
        std::fs::read_to_string(&self.error).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.until("ends", |process| process.child.try_wait().unwrap())
    }

    pub(crate) fn until<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            if start.elapsed() > DEADLINE {
                panic!("it is too long until it {what}\n{}\n{}", self.out(), self.error());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.kill().is_ok() {
            self.child.wait().unwrap();
        }
    }
}

/// Served drives, with a folder for everything.
pub(crate) struct Service {
    pub(crate) folder: TempDir,
    pub(crate) process: Process,
    pub(crate) ready: Vec<Value>,
}

impl Service {
    /// One drive with a minimal device file changed by `sets`, in the folder `drive`.
    fn of(sets: &[&str]) -> Service {
        let mut arguments = vec!["d.toml"];
        arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
        Service::start(&[("d.toml", DRIVE)], &arguments, 1)
    }

    pub(crate) fn start(files: &[(&str, &str)], arguments: &[&str], drives: usize) -> Service {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Service::start_in(folder, arguments, drives)
    }

    /// The same in an existing folder.
    fn start_in(folder: TempDir, arguments: &[&str], drives: usize) -> Service {
        let mut all = vec!["serve", "--vfio-user", "drive", "--format", "json"];
        all.extend(arguments);
        let mut process = Process::start(folder.path(), "serve", &all);
        let ready = process.until("is ready", |process| {
            let lines = lines(&process.out());
            if lines.len() < drives && process.child.try_wait().unwrap().is_some() {
                panic!("it has ended: {}", process.error());
            }
            (lines.len() == drives).then_some(lines)
        });
        assert!(ready.iter().all(|line| line["event"] == "ready"), "{ready:?}");
        Service { folder, process, ready }
    }

    /// A benchmark of the drive in `folder`: exit code, result, and standard error.
    pub(crate) fn bench(&self, folder: &str, arguments: &[&str]) -> (Option<i32>, Value, String) {
        let mut all = vec!["bench", "--vfio-user", folder, "--format", "json", "--quiet"];
        all.extend(arguments);
        let mut bench = Process::start(self.folder.path(), "bench", &all);
        let code = bench.wait().code();
        (code, serde_json::from_str(&bench.out()).unwrap_or_default(), bench.error())
    }

    /// The same for one that must succeed.
    pub(crate) fn benched(&self, folder: &str, arguments: &[&str]) -> Value {
        let (code, result, error) = self.bench(folder, arguments);
        assert_eq!(code, Some(0), "{error}\n{result:#}\n{}", self.process.error());
        assert_eq!(result["errors"], serde_json::json!([]), "{result:#}");
        result
    }

    /// A long benchmark that has attached.
    fn long_bench(&mut self) -> Process {
        let arguments =
            ["bench", "--vfio-user", "drive", "--runtime", "100s", "--size", "1m", "--format", "json"];
        let bench = Process::start(self.folder.path(), "long", &arguments);
        self.process.until("has a client", |process| process.error().contains("is attached").then_some(()));
        bench
    }

    /// Ends it like a service manager; returns its statistics.
    pub(crate) fn end(mut self) -> Vec<Value> {
        self.process.signal(Signal::TERM);
        let status = self.process.wait();
        assert_eq!(status.code(), Some(0), "{}", self.process.error());
        let lines = lines(&self.process.out()).split_off(self.ready.len());
        assert!(lines.iter().all(|line| line["event"] == "served"), "{lines:?}");
        for line in &self.ready {
            let socket = Path::new(line["socket"].as_str().unwrap());
            assert!(!socket.exists(), "{} is left behind", socket.display());
        }
        lines
    }
}

/// The complete lines.
pub(crate) fn lines(text: &str) -> Vec<Value> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Serves a drive, reads and writes it, and compares the figures of both processes.
fn served_and_measured(timing: &str, doorbells: &str) {
    let service = Service::of(&[&format!("serve.timing={timing}"), &format!("serve.doorbells={doorbells}")]);
    let ready = &service.ready[0];
    assert_eq!((&ready["timing"], &ready["doorbells"]), (&timing.into(), &doorbells.into()));
    assert_eq!((&ready["name"], &ready["capacity_bytes"]), (&"d".into(), &(1u64 << 30).into()));
    let arguments = ["--rw", "randrw", "--iodepth", "4", "--numjobs", "2", "--count", "2000", "--size", "2m"];
    let mut arguments = arguments.to_vec();
    arguments.extend(["--out", "results"]);
    let result = service.benched("drive", &arguments);
    let written = std::fs::read_to_string(service.folder.path().join("results/summary.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), result);
    let series = std::fs::File::open(service.folder.path().join("results/results.parquet")).unwrap();
    let series = ParquetRecordBatchReaderBuilder::try_new(series).unwrap();
    let steps = series.metadata().file_metadata().num_rows();
    assert!((1..=1025).contains(&steps), "one job, in {steps} steps");
    assert_eq!((&result["clock"], &result["completion"]), (&"wall".into(), &"polled".into()));
    assert_eq!((&result["scenario"], &result["partial"]), (&"bench".into(), &false.into()));
    assert_eq!(
        (&result["drive_model"], &result["capacity_bytes"]),
        (&ready["model"], &ready["capacity_bytes"])
    );
    for unknown in ["drive_profile", "host_profile", "flash", "write_amplification"] {
        assert_eq!(result[unknown], Value::Null, "{unknown}: only the drive's process knows");
    }
    assert_eq!((&result["link"], &result["spans"]), (&serde_json::json!([]), &serde_json::json!([])));
    assert_eq!(number(&result["ios"]), 2000);
    assert!(result["elapsed_ns"].as_f64().unwrap() > 0.0 && result["iops"].as_f64().unwrap() > 0.0);
    let job = &result["jobs"][0];
    let (reads, writes) = (number(&job["read"]["ios"]), number(&job["write"]["ios"]));
    assert!(job["name"] == "randrw" && reads + writes == 2000, "{job:#}");
    let verification = &result["verification"];
    assert_eq!((number(&verification["reads"]), number(&verification["mismatches"])), (reads, 0));
    let notes = result["notes"].to_string();
    assert!(notes.contains("over 2 MiB from 0 B of namespace 1") && notes.contains("was filled"), "{notes}");

    let served = &service.end()[0];
    assert_eq!(number(&served["reads"]["commands"]), reads);
    assert_eq!(number(&served["reads"]["bytes"]), reads * 4096);
    assert_eq!(number(&served["writes"]["bytes"]), writes * 4096 + (2 << 20), "the filling is served, too");
    assert!(number(&served["commands"]) > 2000 && number(&served["resets"]) >= 1, "{served:#}");
    let data = served["link"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["purpose"] == "data" && row["direction"] == "to host");
    let data = data.expect("reads cross the link");
    assert!(number(&data["payload_bytes"]) >= reads * 4096);
    assert!(number(&data["wire_bytes"]) > number(&data["payload_bytes"]));
    match timing {
        "model" => assert!(number(&served["lateness"]["waits"]) > 0, "{served:#}"),
        _ => assert_eq!(served["lateness"], Value::Null, "nothing was modelled"),
    }
}

// One code base for two kinds of time: covers each combination of timing and doorbells in real time.
#[test]
fn model_and_mapped() {
    served_and_measured("model", "mapped");
}

#[test]
fn model_and_trapped() {
    served_and_measured("model", "trapped");
}

#[test]
fn none_and_mapped() {
    served_and_measured("none", "mapped");
}

#[test]
fn none_and_trapped() {
    served_and_measured("none", "trapped");
}

// A verification that cannot fail verifies nothing; and a drive must keep its data from one client to the next.
#[test]
fn what_a_drive_holds_is_verified() {
    let service = Service::of(&["serve.timing=none"]);
    let reads = ["--rw", "read", "--size", "1m", "--count", "256"];
    let with = |more: &[&str]| service.bench("drive", &[&reads[..], more].concat());
    let (code, result, error) = with(&["--assume", "empty"]);
    assert_eq!((code, number(&result["verification"]["reads"])), (Some(0), 256), "{error}");
    let writes = service.benched("drive", &["--rw", "write", "--size", "64k", "--count", "16"]);
    assert_eq!(number(&writes["verification"]["reads"]), 0);
    let (code, result, _) = with(&["--assume", "empty"]);
    assert_eq!((code, number(&result["verification"]["mismatches"])), (Some(1), 16), "{result:#}");
    assert_eq!(number(&result["verification"]["reads"]), 256, "what did not verify was read, too");
    assert!(result["notes"].to_string().contains("DATA DID NOT VERIFY"), "{result:#}");
    let (code, result, _) = with(&["--no-verify"]);
    assert_eq!((code, &result["verification"]["on"]), (Some(0), &false.into()));
    assert_eq!(with(&[]).0, Some(0));
    assert!(number(&service.end()[0]["clients"]) >= 5);

    let filled = Service::of(&["serve.timing=none", "drive.precondition=filled", "drive.lba_size=512 B"]);
    let result = filled.benched("drive", &["--assume", "filled", "--count", "200", "--bs", "512"]);
    assert_eq!(number(&result["verification"]["reads"]), 200);
    assert_eq!(filled.bench("drive", &["--assume", "empty", "--count", "10"]).0, Some(1));
    // The last blocks of a range that is not a multiple of the long commands.
    let arguments = ["--rw", "read", "--bs", "512", "--size", "200k", "--offset", "3m", "--count", "400"];
    assert_eq!(number(&filled.benched("drive", &arguments)["verification"]["reads"]), 400);
}

// Two drives with the same name or serial number would be one drive to a host.
#[test]
fn several_drives_are_told_apart() {
    let (a, b) = (DRIVE.to_owned(), format!("name = \"other\"\n{DRIVE}"));
    let service = Service::start(&[("a.toml", &a), ("b.toml", &b)], &["a.toml", "b.toml", "./a.toml"], 3);
    let texts = |key: &str| -> Vec<String> {
        service.ready.iter().map(|line| line[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(texts("name"), ["a", "other", "a-2"]);
    let mut serials = texts("serial");
    serials.dedup();
    assert_eq!(serials.len(), 3, "{serials:?}");
    for name in ["a", "other", "a-2"] {
        service.benched(&format!("drive/{name}"), &["--rw", "write", "--count", "10", "--size", "1m"]);
    }
    let served = service.end();
    assert!(served.iter().all(|drive| number(&drive["writes"]["commands"]) == 10), "{served:?}");
}

// Two hosts on one drive would overwrite each other's queues; the second must get an error, and the first not be disturbed.
#[test]
fn a_second_client_is_turned_away() {
    let mut service = Service::of(&["serve.timing=none"]);
    let mut first = service.long_bench();
    let (code, _, error) = service.bench("drive", &["--count", "1"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("in use by another host"), "{error}");
    // The same drive cannot be served twice at the same address.
    let second =
        byteway(service.folder.path()).args(["serve", "d.toml", "--vfio-user", "drive"]).output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("a server answers at"), "{said}");
    first.signal(Signal::INT);
    assert_eq!(first.wait().code(), Some(130), "{}", first.error());
    let result: Value = serde_json::from_str(&first.out()).unwrap();
    assert_eq!((&result["partial"], number(&result["verification"]["mismatches"])), (&true.into(), 0));
    service.benched("drive", &["--count", "100", "--size", "1m"]);
}

/// Connects to a drive, and ends while a child of it still has the connection open for so many seconds: what a process leaves behind whose
/// sockets an io_uring polls, as QEMU.
const LINGER: &str = r#"use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un($ARGV[0])) or die $!;
if (!fork) { close STDOUT; close STDERR; sleep $ARGV[1] }"#;

// A guest that was powered off would keep its drive from the next host, who would be told to detach a process that is not there.
#[test]
fn a_client_that_has_ended_makes_room_for_the_next() {
    let service = Service::of(&["serve.timing=none"]);
    let socket = service.folder.path().join("drive/cntrl");
    let linger = |seconds: &str| {
        let status = Command::new("perl").args(["-e", LINGER]).arg(&socket).arg(seconds).status();
        status.expect("every Debian has Perl").success()
    };
    for _ in 0..3 {
        assert!(linger("1"));
        service.benched("drive", &["--count", "100", "--size", "1m"]);
    }
    // Not indefinitely: another process may have been given the connection.
    assert!(linger("8"));
    let (code, _, error) = service.bench("drive", &["--count", "1"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("in use by another host"), "{error}");
}

// Shared memory does not show that the peer is gone: the benchmark would poll indefinitely.
#[test]
fn a_benchmark_ends_with_the_process_of_its_drive() {
    let mut service = Service::of(&["serve.timing=none"]);
    let mut bench = service.long_bench();
    std::thread::sleep(Duration::from_millis(300)); // so that I/Os are very likely outstanding
    service.process.signal(Signal::KILL);
    service.process.wait();
    let since = Instant::now();
    assert_eq!(bench.wait().code(), Some(1));
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    assert!(bench.error().contains("has gone"), "{}", bench.error());
    // The remains of a killed server must not prevent the next start.
    let mut next =
        Process::start(service.folder.path(), "next", &["serve", "d.toml", "--vfio-user", "drive"]);
    next.until("is ready", |process| process.out().contains("serial").then_some(()));
    service.benched("drive", &["--count", "10", "--size", "1m"]);
    next.signal(Signal::INT);
    assert_eq!(next.wait().code(), Some(0));
    for part in [
        "Samsung SSD 970 PRO",
        "QEMU    -device '{",
        "byteway bench --vfio-user",
        "Served",
        "Behind the model",
    ] {
        assert!(next.out().contains(part), "{part:?} is missing in\n{}", next.out());
    }
}

// A benchmark's options may contradict the drive, which only the drive can tell.
#[test]
fn wrong_flags_are_refused_with_their_cure() {
    let service = Service::of(&["serve.timing=none", "drive.namespaces=2"]);
    let refused = |arguments: &[&str], words: &[&str]| {
        let (code, result, error) = service.bench("drive", arguments);
        assert_eq!((code, result), (Some(2), Value::Null), "{error}");
        for word in words {
            assert!(error.contains(word), "{word:?} is missing in: {error}");
        }
    };
    refused(&["--bs", "5k"], &["`--bs`: 5 KiB is not a multiple of", "help: ", "4 KiB"]);
    refused(&["--iodepth", "0"], &["`--iodepth` = 0", "from 1 to"]);
    refused(&["--iodepth", "20000"], &["`--iodepth` = 20000", "from 1 to 16383"]);
    refused(&["--numjobs", "100000"], &["`--numjobs` = 100000", "from 1 to 1024"]);
    refused(&["--namespace", "3"], &["no namespace 3", "1, 2"]);
    refused(&["--size", "1g"], &["`--size`", "not within the namespace of 512 MiB"]);
    refused(&["--offset", "2g"], &["`--offset`", "beyond the namespace"]);
    refused(&["--rwmixread", "70"], &["`--rwmixread`", "no mix", "randrw"]);
    refused(&["--iodepth", "16000", "--numjobs", "1000", "--bs", "256k"], &["too many", "16 GiB"]);
    refused(&["--bs", "4x"], &["--bs", "unknown unit `x`"]);
    refused(&["--rw", "randred"], &["randred", "randread"]);
    refused(&["--warmup", "1 sec"], &["--warmup", "unknown unit `sec`"]);
    refused(&["--out", "d.toml/x"], &["output folder", "not a folder"]);
    service.benched("drive", &["--namespace", "2", "--rw", "randtrim", "--count", "10", "--size", "1m"]);
    // Exceeds the maximum transfer size: it is split, as by Linux.
    service.benched("drive", &["--bs", "1m", "--count", "10", "--size", "16m"]);
    // A drive has fewer queue pairs than there are workers: they share them, and the result says so.
    let shared = service.benched("drive", &["--numjobs", "33", "--count", "10", "--size", "1m"]);
    assert!(shared["notes"].to_string().contains("33 workers share 32 queue pairs"), "{shared:#}");
}

// Without a drive the command must fail immediately.
#[test]
fn an_absent_drive_is_said_to_be_absent() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    for place in ["nowhere", "empty", "file"] {
        let output = byteway(folder.path()).args(["bench", "--vfio-user", place]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("nothing serves a device at") && said.contains("byteway serve"), "{said}");
        assert_eq!(said.matches("os error").count(), 1, "the cause is said once: {said}");
    }
}

// A server must refuse invalid input as a whole, before hosts see half of it.
#[test]
fn wrong_devices_are_refused_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("a.toml", DRIVE.to_owned()),
        ("b.toml", format!("name = \"a\"\n{DRIVE}")),
        ("typo.toml", format!("{DRIVE}[serve]\ntimming = \"none\"\n")),
        ("my drive.toml", DRIVE.to_owned()),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let refused = |arguments: &[&str], log: &str, words: &[&str]| {
        let output = byteway(folder.path())
            .arg("serve")
            .args(arguments)
            .args(["--vfio-user", "drive"])
            .env("BYTEWAY_LOG", log)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(output.stdout.is_empty() && !folder.path().join("drive").exists(), "{said}");
        for word in words {
            assert!(said.contains(word), "{word:?} is missing in: {said}");
        }
    };
    refused(&["a.toml", "b.toml"], "", &["two drives are called `a`", "`a.toml` and `b.toml`", "name = "]);
    refused(&["a.toml", "typo.toml"], "", &["typo.toml:5:1", "unknown key `timming`", "`timing`?"]);
    refused(&["my drive.toml"], "", &["`my drive` cannot be the name", "letters"]);
    refused(&["c.toml"], "", &["cannot read the device file `c.toml`"]);
    refused(&["a.toml", "--set", "serve.doorbells=maped"], "", &["--set serve.doorbells=maped", "`mapped`?"]);
    refused(&["a.toml"], "loud=very", &["`BYTEWAY_LOG`", "debug"]);
    refused(&[], "", &["DEVICES"]);
    std::fs::write(folder.path().join("drive"), "").unwrap();
    let output = byteway(folder.path()).args(["serve", "a.toml", "--vfio-user", "drive"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("cannot make the folder"), "{said}");
}

/// A drive that offers every transfer method. On a busy machine a host may pause for a while between the commands of one payload.
const OFFERING: &str = "[drive]\nprofile = \"modern-gen5\"\ncapacity = \"1 GiB\"\n\
                        [drive.override.transfer]\npartial_timeout = \"1 s\"\n[serve]\ntiming = \"none\"\n";

// Covers the methods with a drive in another process, whose doorbells are in memory.
#[test]
fn payloads_by_every_method() {
    const COUNT: u64 = 2000;
    let count = COUNT.to_string();
    for doorbells in ["mapped", "trapped"] {
        let set = format!("serve.doorbells={doorbells}");
        let service = Service::start(&[("d.toml", OFFERING)], &["d.toml", "--set", &set], 1);
        let bench = |more: &[&str]| {
            let shared = ["--sink", "--bs", "64", "--size", "64k", "--iodepth", "16", "--count", &count];
            service.benched("drive", &[&shared[..], more].concat())
        };
        let writes = |method: &str| bench(&["--rw", "randwrite", "--method", method]);
        for (method, way) in [
            ("prp", "prp"),
            ("sgl", "sgl"),
            ("piggyback", "piggyback"),
            ("piggyback-pipelined", "piggyback-pipelined"),
            ("inline", "inline"),
            ("inline-reassembly", "inline-reassembly"),
            ("mmio", "mmio"),
            ("hybrid", "inline"), // below a page everything is the tail
        ] {
            let result = writes(method);
            let ways = serde_json::json!([{ "way": way, "payloads": COUNT }]);
            let transfer = &result["transfer"];
            assert_eq!((&transfer["method"], &transfer["ways"]), (&method.into(), &ways), "{transfer:#}");
            assert_eq!(number(&transfer["fallbacks"]), 0, "{transfer:#}");
        }
        let result = bench(&["--rw", "randrw", "--method", "inline", "--result", "inline"]);
        assert_eq!(number(&result["verification"]["mismatches"]), 0, "{result:#}");
        assert!(number(&result["verification"]["reads"]) > 0, "{result:#}");

        let served = &service.end()[0];
        let crossed = |purpose: &str| {
            let rows = served["link"].as_array().unwrap();
            let row = rows.iter().find(|row| row["purpose"] == purpose && row["direction"] == "to device");
            row.map_or(0, |row| number(&row["payload_bytes"]))
        };
        assert!(crossed("inline chunk") >= 3 * COUNT * 64, "{served:#}");
        // Data written before it is read is stored with PRPs, not to the BAR.
        assert_eq!(crossed("MMIO data"), COUNT * 64, "{served:#}");
    }
}

// Key-value pairs next to blocks: accessed over the socket, and in their directory once no server uses it.
#[test]
fn pairs_are_kept_beside_blocks() {
    const BOTH: &str = "[drive]\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\nkv_capacity = \"256 MiB\"\n\
                        [serve]\ntiming = \"none\"\n";
    let service = Service::start(&[("d.toml", BOTH)], &["d.toml", "--data", "data"], 1);
    let ready = &service.ready[0];
    assert_eq!((&ready["namespaces"], &ready["kv_namespaces"]), (&2.into(), &serde_json::json!([2])));
    let folder = service.folder.path().to_owned();
    let kv = |arguments: &[&str], code: i32| {
        let mut process = Process::start(&folder, "kv", &[&["kv"], arguments].concat());
        assert_eq!(process.wait().code(), Some(code), "{arguments:?}: {}", process.error());
        (process.out(), process.error())
    };
    let served = ["--vfio-user", "drive"];
    let bench =
        ["bench", "--workload", "mixgraph-prefix-dist", "--count", "500", "--iodepth", "8", "--erase"];
    let bench = [&bench[..], &["--quiet"]].concat();
    let (out, _) = kv(&[&bench[..], &served].concat(), 0);
    assert!(out.contains("retrieve") && out.contains("store"), "{out}");
    // The existing pairs are unknown, and must not be verified against nothing.
    let again = ["bench", "--workload", "w-m", "--count", "10", "--quiet"];
    assert!(kv(&[&again[..], &served].concat(), 2).1.contains("--no-verify"));
    kv(&[&["put", "name", "a value"], &served[..]].concat(), 0);
    assert_eq!(kv(&[&["get", "name"], &served[..]].concat(), 0).0, "a value");
    kv(&[&["del", "none-of-them"], &served[..]].concat(), 1);
    let result = service.benched("drive", &["--count", "50", "--size", "1m"]);
    assert_eq!(result["verification"]["mismatches"], 0);
    service.process.signal(Signal::KILL);
    drop(service.process);
    let kept = ["--drive", "d.toml", "--data", "data"];
    assert_eq!(kv(&[&["get", "name"], &kept[..]].concat(), 0).0, "a value");
    let (out, _) = kv(&[&bench[..], &kept].concat(), 0);
    assert!(out.contains("retrieve"), "{out}");
    kv(&[&["exist", "name"], &kept[..]].concat(), 1); // the benchmark has formatted it
}

// The file of the largest drive's units exceeds the limits of file systems, and its units those of 32-bit numbers: data at its end must
// survive, even if the server is killed.
#[test]
fn a_drive_of_64_tebibytes_is_kept_in_a_directory() {
    const LARGE: &str = "[drive]\nprofile = \"tlc-generic\"\ncapacity = \"64 TiB\"\nlba_size = \"512 B\"\n\
                         [serve]\ntiming = \"none\"\n";
    let arguments = ["d.toml", "--data", "data"];
    let mut service = Service::start(&[("d.toml", LARGE)], &arguments, 1);
    let at = |tib: u64, before: u64| ((tib << 40) - before).to_string();
    for killed in [true, false] {
        for offset in ["0".to_owned(), at(16, 1 << 19), at(64, 1 << 20)] {
            // Partial units: their bytes are stored in the file.
            let written =
                ["--rw", "randrw", "--bs", "512", "--count", "800", "--size", "1m", "--offset", &offset];
            let result = service.benched("drive", &written);
            assert_eq!(result["verification"]["mismatches"], 0, "{result:#}");
        }
        if killed {
            service.process.signal(Signal::KILL);
            service.process.wait();
            service = Service::start_in(service.folder, &arguments, 1);
        }
    }
    service.process.signal(Signal::TERM);
    // 4: aborted, as on a machine busy with other tests; the directory must be intact nevertheless.
    assert!(matches!(service.process.wait().code(), Some(0 | 4)), "{}", service.process.error());
    let media = |verb: &str| {
        let arguments = ["media", verb, "data", "--format", "json"];
        let mut process = Process::start(service.folder.path(), verb, &arguments);
        assert_eq!(process.wait().code(), Some(0), "{}\n{}", process.out(), process.error());
        serde_json::from_str::<Value>(&process.out()).unwrap()
    };
    let info = media("info");
    assert_eq!((number(&info["capacity_bytes"]), number(&info["format"])), (64 << 40, 5), "{info:#}");
    let checked = media("check");
    assert!(checked["findings"].as_array().is_some_and(Vec::is_empty), "{checked:#}");
    let part = service.folder.path().join("data/data-9");
    assert!(part.exists(), "a part of 8 TiB is one file");
}

/// Time limit of a server's end after a signal: 2 s, plus a margin for a machine busy with other tests.
const END: Duration = Duration::from_secs(2 + 8);

/// Sends the server a signal; returns its exit code and standard error. It must end soon.
fn end_by(mut service: Service, signal: Signal) -> (Option<i32>, String) {
    let start = Instant::now();
    service.process.signal(signal);
    let status = service.process.wait();
    let took = start.elapsed();
    assert!(took < END, "it takes {took:?} to end\n{}", service.process.error());
    (status.code(), service.process.error())
}

/// A client whose memory the drive reads by messages, and which never replies: the drive's thread blocks.
fn unanswering(service: &Service, drive: &str) -> byteway_serve::vfio_user::Client {
    use byteway_serve::function::REGION_BAR0;
    use byteway_wire::nvme::register::{ACQ, AQA, ASQ, CC, CSTS, Cc, Csts, DOORBELLS};
    let client = byteway_serve::vfio_user::Client::connect(&service.folder.path().join(drive)).unwrap();
    client.dma_map(0x10000, 0x4000, None, true).unwrap();
    let cc = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits();
    let registers: [(u64, u64, usize); 4] =
        [(AQA, 0x001f_001f, 4), (ASQ, 0x10000, 8), (ACQ, 0x11000, 8), (CC, cc.into(), 4)];
    for (register, value, bytes) in registers {
        client.region_write(REGION_BAR0, register, &value.to_le_bytes()[..bytes]).unwrap();
    }
    let mut csts = [0; 4];
    while !Csts::from_bits(u32::from_le_bytes(csts)).rdy() {
        client.region_read(REGION_BAR0, CSTS, &mut csts).unwrap();
    }
    client.region_post(REGION_BAR0, DOORBELLS, &1u32.to_le_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(200)); // until the entry is fetched
    client
}

// A server that a service manager must kill loses data that it could have flushed, and one that ignores Ctrl-C is a nuisance.
#[test]
fn a_server_ends_soon_after_a_signal_whatever_its_state() {
    for (signal, doorbells) in [(Signal::TERM, "trapped"), (Signal::INT, "mapped")] {
        let doorbells = format!("serve.doorbells={doorbells}");
        // Idle.
        assert_eq!(end_by(Service::of(&[&doorbells]), signal).0, Some(0));
        // With a client that has sent nothing, and one that has sent part of its first message.
        for said in [&[][..], &[1, 0, 1, 0, 64, 0]] {
            let service = Service::of(&[&doorbells]);
            let socket = service.folder.path().join("drive/cntrl");
            let mut client = std::os::unix::net::UnixStream::connect(socket).unwrap();
            std::io::Write::write_all(&mut client, said).unwrap();
            assert_eq!(end_by(service, signal).0, Some(0));
        }
        // Busy, with two drives and data to flush.
        let arguments =
            ["d.toml", "e.toml", "--data", "data", "--set", &doorbells, "--set", "serve.timing=none"];
        let mut service = Service::start(&[("d.toml", DRIVE), ("e.toml", DRIVE)], &arguments, 2);
        let busy = ["drive/d", "drive/e"].map(|folder| {
            let arguments = [
                "bench",
                "--vfio-user",
                folder,
                "--rw",
                "randwrite",
                "--runtime",
                "100s",
                "--size",
                "64m",
                "--quiet",
            ];
            Process::start(service.folder.path(), folder.rsplit_once('/').unwrap().1, &arguments)
        });
        service.process.until("has clients", |process| {
            (process.error().matches("is attached").count() == 2).then_some(())
        });
        std::thread::sleep(Duration::from_millis(300));
        let (code, error) = end_by(service, signal);
        // On a machine that is too slow the shutdown is aborted, with a message.
        assert!(code == Some(0) || code == Some(4) && error.contains("1.5 s"), "{code:?}\n{error}");
        drop(busy);
    }
}

// If the drive's thread waits indefinitely, the shutdown is aborted, and the exit code says so.
#[test]
fn a_server_whose_thread_is_stuck_ends_all_the_same() {
    let service = Service::of(&["serve.doorbells=trapped"]);
    let client = unanswering(&service, "drive");
    let (code, error) = end_by(service, Signal::TERM);
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("flushed data is safe") && error.contains("may be lost"), "{error}");
    drop(client);
    // A second signal does not even wait for that.
    let mut service = Service::of(&["serve.doorbells=mapped"]);
    let client = unanswering(&service, "drive");
    service.process.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(200));
    service.process.signal(Signal::INT);
    assert_eq!(service.process.wait().code(), Some(130), "{}", service.process.error());
    drop(client);
}

// Service managers depend on the exit codes.
#[test]
fn the_exit_statuses_of_a_server_are_in_its_help() {
    let help = byteway(Path::new(".")).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for (status, word) in [("3", "made no progress"), ("4", "was aborted"), ("130", "second signal")] {
        let line = help.lines().find(|line| line.trim_start().starts_with(&format!("{status}  ")));
        assert!(line.is_some() && help.contains(word), "{status}: {help}");
    }
}

/// A drive served over NVMe/TCP on a free port, and a benchmark's arguments for it.
fn over_tcp(folder: &TempDir, arguments: &[&str]) -> (Process, Vec<String>) {
    std::fs::write(folder.path().join("d.toml"), DRIVE).unwrap();
    let mut all =
        vec!["serve", "d.toml", "--tcp", "127.0.0.1:0", "--format", "json", "--set", "serve.timing=none"];
    all.extend(arguments);
    let mut process = Process::start(folder.path(), "serve", &all);
    let ready = process.until("is ready", |process| lines(&process.out()).first().cloned());
    let address = format!("127.0.0.1:{}", ready["port"]);
    let subsystem = ready["subsystem_nqn"].as_str().unwrap().to_owned();
    (process, vec!["--tcp".to_owned(), address, "--subsystem".to_owned(), subsystem])
}

// Checks data integrity over NVMe/TCP without another initiator: every read is verified, with and without digests, for every kind of data
// transfer, and from one client to the next.
#[test]
fn a_drive_over_nvme_tcp_is_benchmarked_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (mut process, place) = over_tcp(&folder, &[]);
    let bench = |arguments: &[&str]| {
        let mut all = vec!["bench", "--format", "json", "--quiet", "--size", "4m"];
        all.extend(place.iter().map(String::as_str));
        all.extend(arguments);
        let mut bench = Process::start(folder.path(), "bench", &all);
        let code = bench.wait().code();
        (code, serde_json::from_str::<Value>(&bench.out()).unwrap_or_default(), bench.error())
    };
    for arguments in [
        // In the capsule, by R2T, and in more than one H2CData PDU.
        &["--rw", "randrw", "--bs", "4k", "--iodepth", "16", "--count", "3000"][..],
        &["--rw", "randrw", "--bs", "16k", "--iodepth", "8", "--count", "1000", "--digests"],
        &["--rw", "randrw", "--bs", "256k", "--iodepth", "4", "--count", "100"],
        &["--rw", "randread", "--numjobs", "8", "--count", "2000"],
        &["--rw", "randtrim", "--count", "50"],
    ] {
        let (code, result, error) = bench(arguments);
        assert_eq!(code, Some(0), "{error}");
        assert_eq!(result["errors"], serde_json::json!([]), "{result:#}");
        assert_eq!(result["verification"]["mismatches"], 0, "{result:#}");
    }
    let (code, _, error) = bench(&["--count", "1", "--subsystem", "nqn.2026-11.org.byteway:other"]);
    assert!(code == Some(2) || error.contains("no subsystem of that name"), "{error}");
    process.signal(Signal::TERM);
    assert_eq!(process.wait().code(), Some(0), "{}", process.error());
    let (code, _, error) = bench(&["--count", "1"]);
    assert!(code == Some(1) && error.contains("no reply"), "{error}");
}

// If the file of secrets were ignored, the drive would be open to any host.
#[test]
fn a_benchmark_authenticates_where_it_has_to() {
    const SECRET: &str = "DHHC-1:01:kB5HZf02d83q8TfG7qIsXq/AOmoa2TpvbckY1N4T0OzkawRL:";
    const CONTROLLER: &str = "DHHC-1:00:dzQSBllT/Tkvweui5X8a2obJvM2E4Fy5BfFEdyWZyq7jLUS/:";
    const OTHER: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
    let folder = tempfile::tempdir().unwrap();
    let keep = |name: &str, text: &str, mode| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for (name, secret) in [("host", SECRET), ("controller", CONTROLLER), ("other", OTHER)] {
        keep(name, &format!("{secret}\n"), 0o600);
    }
    keep("open", SECRET, 0o640);
    let nqn = "nqn.2026-11.org.byteway:bench";
    let table =
        format!("[[host]]\nnqn = \"{nqn}\"\nsecret = \"{SECRET}\"\ncontroller_secret = \"{CONTROLLER}\"\n");
    keep("secrets.toml", &table, 0o600);
    let (mut process, place) = over_tcp(&folder, &["--secrets", "secrets.toml"]);
    let bench = |arguments: &[&str]| {
        let mut all = vec!["bench", "--format", "json", "--quiet", "--size", "1m", "--count", "100"];
        all.extend(place.iter().map(String::as_str));
        all.extend(arguments);
        let mut bench = Process::start(folder.path(), "bench", &all);
        (bench.wait().code(), bench.error())
    };
    for arguments in [
        &["--secret-file", "host"][..],
        &["--secret-file", "host", "--controller-secret-file", "controller", "--numjobs", "4"],
    ] {
        let (code, error) = bench(arguments);
        assert_eq!(code, Some(0), "{error}");
    }
    for (arguments, code, said) in [
        (&[][..], 1, "the subsystem requires authentication: give --secret-file"),
        (&["--secret-file", "other"], 1, "the target refuses this host"),
        (
            &["--secret-file", "host", "--controller-secret-file", "other"],
            1,
            "does not know the secret in --controller-secret-file",
        ),
        (&["--secret-file", "open"], 2, "chmod 600 open"),
        (&["--secret-file", "nothing"], 2, "cannot read the secrets in `nothing`"),
        (&["--secret-file", "secrets.toml"], 2, "does not have the form DHHC-1"),
        (&["--controller-secret-file", "controller"], 2, "--secret-file"),
    ] {
        let (status, error) = bench(arguments);
        assert_eq!(status, Some(code), "{arguments:?}: {error}");
        let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
    process.signal(Signal::TERM);
    assert_eq!(process.wait().code(), Some(0), "{}", process.error());
    let log = process.error();
    assert!(log.contains("it has not authenticated: authentication failed"), "{log}");
    assert!(![SECRET, CONTROLLER, OTHER].iter().any(|secret| log.contains(&secret[12..30])), "{log}");

    // A server must refuse a file of secrets that others can read.
    keep("secrets.toml", &table, 0o644);
    let all = ["serve", "d.toml", "--tcp", "127.0.0.1:0", "--secrets", "secrets.toml"];
    let mut refused = Process::start(folder.path(), "refused", &all);
    assert_eq!(refused.wait().code(), Some(2));
    assert!(refused.error().contains("chmod 600 secrets.toml"), "{}", refused.error());
}

// The files of hosts change while a server runs: a leaked secret must not stay valid until the server ends, and an editing error must not
// open the drive to all hosts, or close it to all.
#[test]
fn secrets_and_keys_are_read_again_at_a_hangup() {
    const SECRET: &str = "DHHC-1:01:kB5HZf02d83q8TfG7qIsXq/AOmoa2TpvbckY1N4T0OzkawRL:";
    const OTHER: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
    const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
    const OTHER_KEY: &str = "NVMeTLSkey-1:01:M+eYfzsLyZdqO/JMLgbMs1ouSQ2cSc9szYUxjgEGwDwL2caL:";
    let nqn = "nqn.2026-11.org.byteway:bench";
    let table =
        |rest: &str, secret: &str| format!("{rest}\n[[host]]\nnqn = \"{nqn}\"\nsecret = \"{secret}\"\n");
    let again = |process: &mut Process, said: &str| {
        let before = process.error().len();
        process.signal(Signal::HUP);
        let heard = process.until("has read its files again", |process| {
            let error = process.error()[before..].to_owned();
            error.contains("reloaded").then_some(error)
        });
        assert!(heard.contains(said), "{heard}");
    };
    let folder = tempfile::tempdir().unwrap();
    let file = secret(&folder, "secrets.toml", &table("", SECRET));
    let (own, other) = (secret(&folder, "own", SECRET), secret(&folder, "other", OTHER));
    let (mut process, place) = over_tcp(&folder, &["--secrets", &file]);
    let bench = |place: &[String], arguments: &[&str]| {
        let mut all = vec!["bench", "--format", "json", "--quiet", "--size", "1m", "--count", "100"];
        all.extend(place.iter().map(String::as_str));
        all.extend(arguments);
        let mut bench = Process::start(folder.path(), "bench", &all);
        let code = bench.wait().code();
        (code, bench.error().split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (plain, safe) = (["--secret-file", &own], ["--secret-file", &own, "--concatenate", "--numjobs", "2"]);
    assert_eq!(bench(&place, &plain), (Some(0), String::new()));
    assert_eq!(bench(&place, &safe), (Some(0), String::new()));
    // With an invalid file everything stays unchanged.
    secret(&folder, "secrets.toml", &table("tls = \"perhaps\"", OTHER));
    again(&mut process, "this says nothing about TLS");
    assert!(!process.error().contains(&OTHER[12..30]));
    assert_eq!(bench(&place, &plain).0, Some(0));
    secret(&folder, "secrets.toml", &table("tls = \"required\"", SECRET));
    again(&mut process, "reloaded for new connections");
    let (code, error) = bench(&place, &plain);
    assert!(code == Some(1) && error.contains("give --concatenate"), "{error}");
    assert_eq!(bench(&place, &safe), (Some(0), String::new()));
    secret(&folder, "secrets.toml", &table("tls = \"never\"", OTHER));
    again(&mut process, "were reloaded");
    let (code, error) = bench(&place, &safe);
    assert!(code == Some(1) && error.contains("leave --concatenate out"), "{error}");
    assert_eq!(bench(&place, &plain).0, Some(1));
    assert_eq!(bench(&place, &["--secret-file", &other]), (Some(0), String::new()));
    process.signal(Signal::TERM);
    assert_eq!(process.wait().code(), Some(0), "{}", process.error());

    let keys = secret(&folder, "keys", &format!("{nqn} {KEY}\n"));
    let (key, other) = (secret(&folder, "key", KEY), secret(&folder, "other-key", OTHER_KEY));
    let (mut process, place) = over_tcp(&folder, &["--tls-keys", &keys]);
    assert_eq!(bench(&place, &["--tls-key", &key]).0, Some(0));
    secret(&folder, "keys", &format!("{nqn} {OTHER_KEY}\n"));
    assert_eq!(bench(&place, &["--tls-key", &other]).0, Some(1));
    again(&mut process, "were reloaded");
    assert_eq!(bench(&place, &["--tls-key", &key]).0, Some(1));
    assert_eq!(bench(&place, &["--tls-key", &other]).0, Some(0));
    // A file that others can read counts as invalid.
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o644)).unwrap();
    again(&mut process, "chmod 600");
    assert_eq!(bench(&place, &["--tls-key", &other]).0, Some(0));
    process.signal(Signal::TERM);
    assert_eq!(process.wait().code(), Some(0), "{}", process.error());

    // Without such files the signal ends the server like any other.
    let (mut process, _) = over_tcp(&folder, &[]);
    process.signal(Signal::HUP);
    assert_eq!(process.wait().code(), Some(0), "{}", process.error());
}

/// A file that only its owner can read.
fn secret(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

// Keys must not be read from a file that others can read, and a wrong key must be reported as such.
#[test]
fn a_drive_behind_tls_is_benchmarked_with_its_key_alone() {
    const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
    const OTHER: &str = "NVMeTLSkey-1:01:M+eYfzsLyZdqO/JMLgbMs1ouSQ2cSc9szYUxjgEGwDwL2caL:";
    let folder = tempfile::tempdir().unwrap();
    let keys = secret(&folder, "keys", &format!("nqn.2026-11.org.byteway:bench {KEY}\n"));
    let (key, other) = (secret(&folder, "key", &format!("{KEY}\n")), secret(&folder, "other", OTHER));
    let refused = |arguments: &[&str]| {
        let mut process = Process::start(folder.path(), "refused", arguments);
        assert_eq!(process.wait().code(), Some(2), "{}", process.error());
        let error = process.error();
        assert!(!error.contains("VRLbtnN9"), "{error}");
        error
    };
    std::fs::write(folder.path().join("d.toml"), DRIVE).unwrap();
    let open = secret(&folder, "open", KEY);
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o640)).unwrap();
    let serve = ["serve", "d.toml", "--tcp", "127.0.0.1:0", "--tls-keys"];
    assert!(refused(&[&serve[..], &[&open]].concat()).contains("chmod 600"));
    assert!(refused(&[&serve[..], &[&key]].concat()).contains("line 1"));
    let (mut process, place) = over_tcp(&folder, &["--tls-keys", &keys]);
    let bench = |arguments: &[&str]| {
        let mut all = vec!["bench", "--format", "json", "--quiet", "--size", "4m"];
        all.extend(place.iter().map(String::as_str));
        all.extend(arguments);
        all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()
    };
    let run = |arguments: &[&str]| {
        let all = bench(arguments);
        let mut bench =
            Process::start(folder.path(), "bench", &all.iter().map(String::as_str).collect::<Vec<_>>());
        (bench.wait().code(), bench.out(), bench.error())
    };
    for way in [&["--bs", "4k", "--iodepth", "16"][..], &["--bs", "256k", "--iodepth", "4", "--digests"]] {
        let (code, out, error) =
            run(&[&["--tls-key", &key, "--rw", "randrw", "--count", "500"], way].concat());
        assert_eq!(code, Some(0), "{error}");
        let result: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(result["verification"]["mismatches"], 0, "{result:#}");
    }
    let (code, _, error) = run(&["--count", "1", "--tls-key", &other]);
    assert!(code == Some(1) && error.contains("same key for this host"), "{error}");
    let (code, _, error) = run(&["--count", "1"]);
    assert!(code == Some(1) && error.contains("no reply"), "{error}");
    let all = bench(&["--tls-key", &open]);
    assert!(refused(&all.iter().map(String::as_str).collect::<Vec<_>>()).contains("chmod 600"));
    process.signal(Signal::TERM);
    assert_eq!(process.wait().code(), Some(0), "{}", process.error());
    let said = process.error();
    assert!(said.contains("its key for `NVMe0R01") && said.contains("does not speak TLS"), "{said}");
    assert!(!said.contains("VRLbtnN9"), "{said}");
}

// A benchmark must not wait ten minutes for a target that is gone, regardless of an interrupt.
#[test]
fn a_benchmark_over_nvme_tcp_ends_when_it_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let (mut process, place) = over_tcp(&folder, &[]);
    let mut all = vec!["bench", "--quiet", "--size", "1m", "--runtime", "100s"];
    all.extend(place.iter().map(String::as_str));
    let mut bench = Process::start(folder.path(), "bench", &all);
    process.until("has a client", |process| process.error().contains("has controller").then_some(()));
    std::thread::sleep(Duration::from_millis(300));
    process.signal(Signal::KILL);
    process.wait();
    bench.signal(Signal::INT);
    let since = Instant::now();
    bench.wait();
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
}

/// A drive served both ways at once, and a benchmark's arguments for NVMe/TCP.
fn both_ways(folder: TempDir) -> (Service, Vec<String>) {
    std::fs::write(folder.path().join("d.toml"), DRIVE).unwrap();
    let arguments =
        ["d.toml", "--tcp", "127.0.0.1:0", "--data", "data", "--manage", "--set", "serve.timing=none"];
    let service = Service::start_in(folder, &arguments, 1);
    let ready = &service.ready[0];
    assert!(ready["socket"].is_string() && ready["qemu_device"].is_string(), "{ready:#}");
    let address = format!("127.0.0.1:{}", ready["port"]);
    let subsystem = ready["subsystem_nqn"].as_str().unwrap().to_owned();
    (service, vec!["--tcp".to_owned(), address, "--subsystem".to_owned(), subsystem])
}

// A drive with two ports is one drive: it executes the commands of both concurrently, and each port reads its own data back. It shuts down
// with both attached, and starts again with its data.
#[test]
fn a_drive_is_served_both_ways_at_once() {
    let mut folder = tempfile::tempdir().unwrap();
    for life in 0..2 {
        let (mut service, place) = both_ways(folder);
        let state = &service.ready[0]["data"]["state"];
        assert_eq!(state, if life == 0 { "created" } else { "clean" });
        let start = |name: &str, over_tcp: bool, arguments: &[&str]| {
            let mut all = vec!["bench", "--format", "json", "--quiet"];
            match over_tcp {
                true => all.extend(place.iter().map(String::as_str)),
                false => all.extend(["--vfio-user", "drive"]),
            }
            all.extend(arguments);
            Process::start(service.folder.path(), name, &all)
        };
        let load = ["--rw", "randrw", "--bs", "4k", "--iodepth", "16", "--count", "20000", "--size", "64m"];
        let parts: [&[&str]; 2] = [&["--offset", "0"], &["--offset", "256m"]];
        let mut benches: Vec<Process> = [("guest", false, parts[0]), ("remote", true, parts[1])]
            .map(|(name, over_tcp, part)| start(name, over_tcp, &[&load, part].concat()))
            .into();
        for bench in &mut benches {
            let code = bench.wait().code();
            assert_eq!(code, Some(0), "{}\n{}", bench.error(), service.process.error());
            let result: Value = serde_json::from_str(&bench.out()).unwrap();
            assert_eq!(result["errors"], serde_json::json!([]), "{result:#}");
            assert_eq!(result["verification"]["mismatches"], 0, "{result:#}");
        }
        // Both are active when it is told to end.
        let load = ["--rw", "randrw", "--iodepth", "8", "--runtime", "100s", "--size", "1m"];
        let mut benches =
            [start("guest", false, &load), start("remote", true, &[&load[..], parts[1]].concat())];
        service.process.until("has both", |process| {
            let said = process.error();
            let both = ["is attached", "has controller"].map(|word| said.matches(word).count());
            (both == [2, 2]).then_some(())
        });
        std::thread::sleep(Duration::from_millis(500));
        service.process.signal(Signal::TERM);
        let since = Instant::now();
        assert_eq!(service.process.wait().code(), Some(0), "{}", service.process.error());
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
        let served = lines(&service.process.out()).pop().unwrap();
        assert_eq!(served["clients"], 4, "of both: {served:#}");
        assert!(number(&served["reads"]["commands"]) > 10_000, "of both: {served:#}");
        for bench in &mut benches {
            bench.signal(Signal::INT);
            bench.wait();
        }
        folder = service.folder;
    }
}
