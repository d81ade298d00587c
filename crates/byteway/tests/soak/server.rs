//! The server's process.

use byteway_run::build;
use byteway_scenario::{Device, Options};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a server's start.
const START: Duration = Duration::from_secs(120);
/// Time limit of its end: at most 2 s, plus a margin for a loaded machine.
const END: Duration = Duration::from_secs(20);

/// The most that a profile's spare may be, in per cent.
const SPARE_MOST: f64 = 400.0;

/// The served drive, and its options.
#[derive(Debug)]
pub struct Drive {
    profile: &'static str,
    timing: &'static str,
    doorbells: &'static str,
    gib: u64,
    precondition: &'static str,
    /// Whether its data is in a directory.
    pub is_kept: bool,
}

impl Drive {
    /// A profile, with combination `number` of all other options.
    pub fn of(profile: &'static str, number: u64) -> Drive {
        let pick = |from: &[&'static str], by: u64| from[(number / by) as usize % from.len()];
        let is_kept = number % 3 == 1;
        let mut drive = Drive {
            profile,
            timing: pick(&["none", "model"], 1),
            doorbells: pick(&["mapped", "trapped"], 2),
            gib: [1, 2, 4][(number / 2 % 3) as usize],
            // A drive in a directory starts empty.
            precondition: if is_kept { "empty" } else { pick(&["steady", "filled", "steady", "empty"], 2) },
            is_kept,
        };
        if drive.precondition == "steady" && drive.spare_percent().is_some_and(|spare| spare > SPARE_MOST) {
            drive.precondition = "filled";
        }
        drive
    }

    /// Capacity in bytes.
    pub fn capacity(&self) -> u64 {
        self.gib << 30
    }

    /// Whether a block that no client has written reads as zeroes.
    pub fn is_empty(&self) -> bool {
        self.precondition == "empty"
    }

    /// Size of its flash in bytes, including spare flash: the memory that a server may use for a drive in memory.
    pub fn flash_bytes(&self) -> u64 {
        let geometry = build::served(&device(&self.text()), "d").geometry;
        u64::from(geometry.total_blocks()) * u64::from(geometry.units_per_block()) * 4096
    }

    /// Spare flash over what the drive holds: of one so small it is not its profile's. None for a bridge, which has no flash.
    fn spare_percent(&self) -> Option<f64> {
        let text = format!("[drive]\nprofile = \"{}\"\ncapacity = \"{} GiB\"\n", self.profile, self.gib);
        let drive = device(&text).drive;
        // Down, so that it is not a block more.
        drive.profile.bridge.is_none().then(|| (drive.profile.spare(&drive.geometry) * 1e5).floor() / 1e3)
    }

    fn text(&self) -> String {
        let Drive { profile, timing, doorbells, gib, precondition, .. } = self;
        // In the steady state a drive must say that it wants it.
        let spare = self.spare_percent().filter(|_| *precondition == "steady");
        let spare = spare.map_or(String::new(), |spare| format!("override.firmware.op = \"{spare} %\"\n"));
        format!(
            "[drive]\nprofile = \"{profile}\"\ncapacity = \"{gib} GiB\"\nprecondition = \"{precondition}\"\n{spare}\
             [serve]\ntiming = \"{timing}\"\ndoorbells = \"{doorbells}\"\n"
        )
    }
}

fn device(text: &str) -> Device {
    Device::from_text("d.toml", Path::new("."), text, &Options::default()).unwrap()
}

/// A server, killed on drop.
pub struct Server {
    child: Child,
    error: PathBuf,
}

impl Server {
    /// Serves `drive` in a folder.
    pub fn start(folder: &Path, drive: &Drive) -> Server {
        std::fs::write(folder.join("drive.toml"), drive.text()).unwrap();
        let (out, error) = (folder.join("out"), folder.join("error"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_byteway"));
        command.current_dir(folder).env_remove("BYTEWAY_LOG").stdin(Stdio::null());
        command.args(["serve", "drive.toml", "--vfio-user", ".", "--format", "json"]);
        if drive.is_kept {
            command.args(["--data", "data"]);
        }
        let child = command
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&error).unwrap())
            .spawn()
            .unwrap();
        let mut server = Server { child, error };
        let begun = Instant::now();
        while !std::fs::read_to_string(&out).unwrap().contains('\n') {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "{drive:?} is not served: {ended:?}\n{}", server.said());
            assert!(begun.elapsed() < START, "{drive:?} does not begin\n{}", server.said());
            std::thread::sleep(Duration::from_millis(2));
        }
        server
    }

    /// Its error output, and some context.
    pub fn said(&self) -> String {
        let said = std::fs::read_to_string(&self.error).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Its memory use in bytes: VmRSS, without what it shares with clients.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
    }

    /// Ends it like a service manager. Returns whether it shut down normally: on a busy machine its own time limit may abort the shutdown,
    /// which it reports by exit status 4.
    #[must_use]
    pub fn end(mut self) -> bool {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < END, "it does not end\n{}", self.said());
            std::thread::sleep(Duration::from_millis(2));
        };
        assert!(matches!(status.code(), Some(0 | 4)), "{status}\n{}", self.said());
        assert!(!std::fs::read_to_string(&self.error).unwrap().contains("ERROR"), "{}", self.said());
        status.success()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.kill().is_ok() {
            self.child.wait().unwrap();
        }
    }
}
