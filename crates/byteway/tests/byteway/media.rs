//! `byteway media` on directories of served drives, both intact and damaged.
#![allow(
    clippy::disallowed_methods,
    reason = "processes are held against the wall clock, so that none hangs"
)]

use byteway_firmware::Space;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const DRIVE: &str = "[drive]\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\nprecondition = \"empty\"\n[serve]\ntiming = \"none\"\n";
const UNITS: u64 = (1 << 30) / 4096;
const RECORD_BYTES: u64 = 64;

fn byteway(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_byteway"));
    command.current_dir(folder).stdin(Stdio::null()).env("BYTEWAY_LOG", "warn");
    command
}

/// A drive served from `data` in a folder, killed on drop.
struct Served(Child);

impl Served {
    fn start(folder: &Path, sets: &[&str]) -> Result<(Served, Value), String> {
        let arguments: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        Self::start_as(folder, &arguments)
    }

    fn start_as(folder: &Path, arguments: &[&str]) -> Result<(Served, Value), String> {
        std::fs::write(folder.join("d.toml"), DRIVE).unwrap();
        let mut command = byteway(folder);
        command.args(["serve", "d.toml", "--vfio-user", "drive", "--data", "data", "--format", "json"]);
        command.args(arguments);
        let errors = File::create(folder.join("serve.err")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let served = Served(child);
        match serde_json::from_str(&line) {
            Ok(ready) => Ok((served, ready)),
            Err(_) => Err(std::fs::read_to_string(folder.join("serve.err")).unwrap()),
        }
    }

    /// Shuts it down.
    fn end(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.0.kill().is_ok() {
            self.0.wait().unwrap();
        }
    }
}

/// Writes and deallocates at random.
fn write(folder: &Path, count: &str) {
    let bench =
        ["bench", "--vfio-user", "drive", "--quiet", "--bs", "16k", "--iodepth", "16", "--size", "200m"];
    for (rw, count) in [("randwrite", count), ("randtrim", "200"), ("randwrite", "200")] {
        let output = byteway(folder).args(bench).args(["--rw", rw, "--count", count]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// Output of the check, whose exit code must agree.
fn check(folder: &Path) -> Value {
    let output = checked(folder);
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(verdict["good"] == true, output.status.success(), "{output:?}");
    verdict
}

fn checked(folder: &Path) -> Output {
    byteway(folder).args(["media", "check", "data", "--quiet", "--format", "json"]).output().unwrap()
}

fn findings(verdict: &Value) -> Vec<String> {
    verdict["findings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// A file of the directory, to be corrupted.
struct Rot(PathBuf);

impl Rot {
    fn of(folder: &Path, name: &str) -> Rot {
        Rot(folder.join("data").join(name))
    }

    fn read(&self, bytes: &mut [u8], offset: u64) {
        File::open(&self.0).unwrap().read_exact_at(bytes, offset).unwrap();
    }

    fn write(&self, bytes: &[u8], offset: u64) {
        File::options().write(true).open(&self.0).unwrap().write_all_at(bytes, offset).unwrap();
    }

    fn flip(&self, offset: u64) {
        let mut byte = [0];
        self.read(&mut byte, offset);
        self.write(&[byte[0] ^ 1], offset);
    }
}

/// Location of the latest version of a logical unit, by the spare areas; of the first unit that has one, if none is requested.
fn place(folder: &Path, lpa: Option<u64>) -> (u64, u64) {
    let bytes = std::fs::read(folder.join("data/spare")).unwrap();
    let word = |record: &[u8], at| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
    let states = (0..).zip(bytes.chunks_exact(RECORD_BYTES as usize)).filter(|(_, record)| record[4] != 0);
    let states = states.map(|(unit, record)| (word(record, 8), unit, word(record, 0) & 0xffff_ffff));
    match lpa {
        Some(lpa) => states.filter(|(.., own)| *own == lpa).max().map(|(_, unit, lpa)| (unit, lpa)).unwrap(),
        None => {
            let lpa = states.filter(|(.., lpa)| *lpa < UNITS).max().unwrap().2;
            place(folder, Some(lpa))
        }
    }
}

// False findings in an intact directory would hide real ones; and a check that modifies the directory could only run once.
#[test]
fn a_whole_directory_is_good_however_its_drive_ended() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for turn in 0..3 {
        let (served, ready) = Served::start(folder, &[]).unwrap();
        let state = ["created", "recovered", "clean"][turn];
        assert_eq!(ready["data"]["state"], state, "{ready}");
        write(folder, "3000");
        if turn == 1 {
            served.end()
        } else {
            drop(served)
        }
        let names = || -> Vec<_> {
            let mut names: Vec<_> = std::fs::read_dir(folder.join("data"))
                .unwrap()
                .map(|entry| entry.unwrap())
                .map(|entry| (entry.file_name(), entry.metadata().unwrap().modified().unwrap()))
                .collect();
            names.sort();
            names
        };
        let before = names();
        let verdict = check(folder);
        assert_eq!((&verdict["good"], findings(&verdict)), (&Value::Bool(true), vec![]), "turn {turn}");
        assert!(verdict["map"]["logical_units"].as_u64().unwrap() > 5000, "{verdict}");
        let has_pages = verdict["map"]["translation_pages"].as_u64().unwrap() > 0;
        assert!(turn == 0 || has_pages, "{verdict}");
        assert_eq!(names(), before, "it has changed the directory");
    }
}

// Damage must be reported with its location, and never be served as intact data.
#[test]
fn what_is_damaged_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (served, _) = Served::start(folder, &[]).unwrap();
    write(folder, "5000");
    served.end();
    let (data, spare) = (Rot::of(folder, "data"), Rot::of(folder, "spare"));

    // A byte of a translation page: the locations of its units are lost.
    let page = Space::new(UNITS, false).map.0 + 3;
    let (unit, _) = place(folder, Some(page));
    data.flip(unit * 4096 + 5);
    let found = findings(&check(folder));
    let about = |words: &[&str]| found.iter().any(|text| words.iter().all(|word| text.contains(word)));
    assert!(about(&[&format!("unit {unit} "), "its bytes are not those"]), "{found:?}");
    assert!(
        about(&["translation page 3", &format!("unit {unit} "), "logical units 3072 to 4095 are lost"]),
        "{found:?}"
    );
    let refused = Served::start(folder, &[]).err().expect("it is served");
    assert!(refused.contains("translation page 3") && refused.contains("--accept-losses"), "{refused}");
    data.flip(unit * 4096 + 5);

    // The spare area of another unit, with a valid checksum.
    let (unit, lpa) = place(folder, None);
    let mut record = [0; RECORD_BYTES as usize];
    spare.read(&mut record, unit * RECORD_BYTES);
    let kept = record;
    record[..4].copy_from_slice(&(lpa as u32 ^ 1).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&(unit as u32).to_le_bytes()), &record[..60]);
    record[60..].copy_from_slice(&crc.to_le_bytes());
    spare.write(&record, unit * RECORD_BYTES);
    let found = findings(&check(folder));
    let said =
        format!("logical unit {lpa}: the map says unit {unit}, which belongs to logical unit {}", lpa ^ 1);
    assert!(found.iter().any(|text| text.contains(&said)), "{said}: {found:?}");
    spare.write(&kept, unit * RECORD_BYTES);
    assert_eq!(check(folder)["good"], true, "everything is as it was");

    // Truncated files.
    let file = File::options().write(true).open(&spare.0).unwrap();
    file.set_len(unit * RECORD_BYTES).unwrap();
    let output = checked(folder);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("`spare` is shorter than it was"), "{output:?}");
    let checkpoint = Rot::of(folder, "checkpoint");
    let bytes = std::fs::metadata(&checkpoint.0).unwrap().len();
    File::options().write(true).open(&checkpoint.0).unwrap().set_len(bytes - 7).unwrap();
    let output = checked(folder);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("`checkpoint` is damaged"), "{output:?}");
}

// The open of a FIFO waits for its other end, and a read of it for a writer: for ever.
#[test]
fn what_is_no_regular_file_is_named_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Served::start(folder, &[]).unwrap().0.end();
    let data = folder.join("data");
    let names: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.len() >= 7, "{names:?}");
    for name in names {
        let (path, aside) = (data.join(&name), folder.join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        for is_fifo in [true, false] {
            match is_fifo {
                true => rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap(),
                false => std::fs::create_dir(&path).unwrap(),
            }
            let output = checked(folder);
            let refused = Served::start(folder, &[]).err().expect("it is served");
            for said in [&*String::from_utf8_lossy(&output.stderr), &refused] {
                let name = name.to_string_lossy();
                assert!(said.contains(&format!("`{name}` is not a regular file")), "{name}: {said}");
            }
            if is_fifo { std::fs::remove_file(&path) } else { std::fs::remove_dir(&path) }.unwrap();
        }
        std::fs::rename(&aside, &path).unwrap();
    }
    assert_eq!(check(folder)["good"], true);
}

// The units of a lost page would read as zeroes, or be refused without a way to save the others.
#[test]
fn what_is_lost_is_an_error_where_that_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (served, _) = Served::start(folder, &[]).unwrap();
    write(folder, "5000");
    served.end();
    // A bit of the spare area of a translation page.
    let (unit, _) = place(folder, Some(Space::new(UNITS, false).map.0 + 3));
    Rot::of(folder, "spare").flip(unit * RECORD_BYTES + 9);
    let verdict = check(folder);
    let lost = verdict["map"]["lost_units"].as_u64().unwrap();
    assert!((1..=1024).contains(&lost), "{verdict}");
    let refused = Served::start(folder, &[]).err().expect("it is served");
    assert!(refused.contains("translation page 3") && refused.contains("--accept-losses"), "{refused}");
    let (served, ready) = Served::start_as(folder, &["--accept-losses"]).unwrap();
    assert_eq!(ready["data"]["lost_units"], lost, "{ready}");
    let read = |size: &str| {
        // Unverified, since the range would be filled first.
        let bench = [
            "bench",
            "--vfio-user",
            "drive",
            "--quiet",
            "--rw",
            "read",
            "--bs",
            "4k",
            "--no-verify",
            "--size",
            size,
        ];
        byteway(folder).args(bench).args(["--count", "4096"]).output().unwrap()
    };
    let failed = |size: &str| {
        let output = read(size);
        let status = "Unrecovered Read Error (type 2h, code 81h)";
        let has_failed = String::from_utf8_lossy(&output.stdout).contains(status);
        // Figures of a drive that fails commands must not pass for those that were asked for.
        assert_eq!(output.status.code(), Some(has_failed.into()), "{output:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            error.contains("error: failed commands: ") && error.contains(status),
            has_failed,
            "{error}"
        );
        has_failed
    };
    assert!(!failed("12m"), "those of other pages are read");
    assert!(failed("16m"));
    served.end();
    let found = findings(&check(folder));
    assert!(found.iter().any(|text| text.contains("lost since an earlier start")), "{found:?}");
    Served::start(folder, &[]).unwrap().0.end();
}

// With a profile of another number of page types the medium would be misread.
#[test]
fn a_directory_keeps_its_page_types() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    drop(Served::start(folder, &[]).unwrap());
    let slower = "drive.override.flash.read=[\"80 us\", \"90 us\"]";
    let three = "=[\"80 us\", \"90 us\", \"100 us\"]";
    let other = ["read", "read_partial"].map(|name| format!("drive.override.flash.{name}{three}"));
    drop(Served::start(folder, &[slower]).unwrap());
    let refused = Served::start(folder, &[&other[0], &other[1]]).err().expect("it is served");
    assert!(refused.contains("page_types is 2 there and 3 here"), "{refused}");
}
