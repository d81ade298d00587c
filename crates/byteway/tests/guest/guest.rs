//! A guest under QEMU: boot, scripts, and diagnostics on failure.

#![allow(clippy::disallowed_methods, reason = "a guest is held against the wall clock, so that none hangs")]

use crate::process::{Process, tail};
use crate::server::Server;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time limit from QEMU's start to the guest's shell; it takes 5 seconds on an idle machine.
const BOOTS_WITHIN: Duration = Duration::from_secs(60);
/// Time limit from QEMU's start to its end.
const LIVES_FOR: Duration = Duration::from_secs(280);
/// Additional time that the host waits for the end of a script, beyond the guest's own limit.
const GRACE: Duration = Duration::from_secs(15);
/// Time without an answer after which an empty line is sent.
///
/// QEMU's serial port can lose the interrupt that the guest's driver sends the rest of its output on; the next character that it receives
/// makes up for it. In a script, an empty line does nothing, and it does not wake a guest that waits for a drive.
const NUDGE_AFTER: Duration = Duration::from_secs(10);

/// The folder with the results of guest/build, and that with its scripts.
pub fn folders() -> (PathBuf, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let built = std::env::var_os("BYTEWAY_GUEST_DIR").map_or(root.join("target/guest"), PathBuf::from);
    (built, root.join("guest"))
}

/// Drives of a guest.
pub enum Drives {
    /// Those of a server.
    Served(Server),
    /// Those of a server over a network.
    Remote(Server),
    /// QEMU's own NVMe controllers, to check the guest's test list itself.
    Qemu,
}

impl Drives {
    fn arguments(&self, folder: &Path) -> Vec<String> {
        match self {
            Drives::Served(server) => server
                .sockets()
                .iter()
                .flat_map(|socket| {
                    let path = socket.to_str().unwrap();
                    let socket = format!(r#""socket":{{"type":"unix","path":"{path}"}}"#);
                    ["-device".to_string(), format!(r#"{{"driver":"vfio-user-pci",{socket}}}"#)]
                })
                .collect(),
            // Its own network, in which this machine's loopback is 10.0.2.2.
            Drives::Remote(_) => {
                ["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net"].map(String::from).to_vec()
            }
            Drives::Qemu => (0..2)
                .flat_map(|index| {
                    let file = folder.join(format!("drive{index}"));
                    std::fs::File::create(&file).unwrap().set_len(crate::CAPACITY_GIB << 30).unwrap();
                    let file = file.to_str().unwrap();
                    let drive = format!("if=none,id=d{index},format=raw,discard=unmap,file={file}");
                    let device = format!("nvme,drive=d{index},serial=QEMU{index}");
                    ["-drive".to_string(), drive, "-device".to_string(), device]
                })
                .collect(),
        }
    }
}

/// A running guest with two drives.
pub struct Guest {
    qemu: Process,
    pub drives: Drives,
    console: PathBuf,
    errors: PathBuf,
    /// Precedes each script.
    pub prelude: String,
    scripts: u32,
    ends_by: Instant,
    _folder: tempfile::TempDir,
}

impl Guest {
    /// Boots a guest up to its shell, with one retry if it stalls, as can happen on a busy machine. `drives` starts the drives, in a
    /// separate folder.
    pub fn boot(kernel: &str, cpus: u32, drives: impl Fn(&Path) -> Drives) -> Guest {
        let start = Instant::now();
        for last in [false, true] {
            let mut guest = Guest::start(kernel, cpus, "on", &drives);
            match guest.qemu.read_to_line("@ready", Instant::now() + BOOTS_WITHIN) {
                Ok(_) => {
                    println!("Linux {kernel} is there: {:.1} s", start.elapsed().as_secs_f32());
                    return guest;
                }
                Err(said) if last => {
                    panic!(
                        "Linux {kernel} has stalled twice before its shell was there\n{said}\n{}",
                        guest.seen()
                    )
                }
                Err(said) => println!("Linux {kernel} has stalled: once more\n{said}\n{}", guest.seen()),
            }
        }
        unreachable!("the last try returns or panics")
    }

    /// Starts QEMU without waiting. `share`: whether the guest's memory is shared with the server.
    pub fn start(kernel: &str, cpus: u32, share: &str, drives: &impl Fn(&Path) -> Drives) -> Guest {
        let folder = tempfile::tempdir().unwrap();
        let (console, errors) = (folder.path().join("console.log"), folder.path().join("qemu.log"));
        let drives = drives(folder.path());
        let serial = format!("file:{}", console.display());
        let mut arguments = vec![kernel.to_string(), "byteway.shell=ttyS1".to_string()];
        arguments.extend(["-serial", &serial, "-serial", "chardev:shell"].map(String::from));
        arguments.extend(["-chardev", "stdio,id=shell,signal=off"].map(String::from));
        arguments.extend(drives.arguments(folder.path()));
        let (built, scripts) = folders();
        let cpus = cpus.to_string();
        let environment = [
            ("BYTEWAY_GUEST_DIR", built.as_os_str()),
            ("BYTEWAY_GUEST_CPUS", OsStr::new(&cpus)),
            ("BYTEWAY_GUEST_SHARE", OsStr::new(share)),
        ];
        let qemu = Process::start(&scripts.join("qemu"), &arguments, &environment, &errors);
        let (prelude, ends_by) = (String::new(), Instant::now() + LIVES_FOR);
        Guest { qemu, drives, console, errors, prelude, scripts: 0, ends_by, _folder: folder }
    }

    /// Runs a script in the guest. The test fails if the script's status is not 0, or if it exceeds this time.
    pub fn run(&mut self, what: &str, seconds: u64, script: &str) -> String {
        let start = Instant::now();
        self.scripts += 1;
        let (id, prelude) = (self.scripts, &self.prelude);
        self.qemu.write(&format!("{prelude}\n{}\n@run {id} {seconds}\n", script.trim()));
        let deadline = self.ends_by.min(start + Duration::from_secs(seconds) + GRACE);
        let end = format!("@end {id} ");
        let mut nudges = 0;
        let answer = loop {
            let answer = self.qemu.read_to_line(&end, deadline.min(Instant::now() + NUDGE_AFTER));
            if answer.is_ok() || Instant::now() >= deadline || self.qemu.ended().is_some() {
                break answer;
            }
            self.qemu.write("\n");
            nudges += 1;
        };
        let (failure, output) = match answer {
            Ok((output, end)) => match end.rsplit(' ').next() {
                Some("0") => {
                    let nudged =
                        if nudges > 0 { format!(", {nudges} empty lines sent") } else { String::new() };
                    println!("{what}: {:.1} s{nudged}", start.elapsed().as_secs_f32());
                    return output;
                }
                Some("137") => (format!("not done after {seconds} s"), output),
                _ => (format!("{end:?}"), output),
            },
            Err(output) => (format!("the guest doesn't answer, nor to {nudges} empty lines"), output),
        };
        let seen = self.seen();
        panic!("{what}: {failure}\n-- script\n{}\n-- output\n{output}\n{seen}", script.trim());
    }

    /// Shuts the guest down and returns its drives.
    pub fn power_off(mut self) -> Drives {
        let start = Instant::now();
        self.qemu.write("poweroff -f\n@run 0 30\n");
        let Some(status) = self.qemu.wait(Instant::now() + Duration::from_secs(30)) else {
            panic!("the guest doesn't power off\n{}", self.seen());
        };
        assert!(status.success(), "QEMU: {status}\n{}", self.seen());
        println!("powered off: {:.1} s", start.elapsed().as_secs_f32());
        self.drives
    }

    /// Waits until the server's output contains these words.
    pub fn wait_for_server_to_say(&mut self, words: &str) {
        let deadline = Instant::now() + BOOTS_WITHIN;
        let Drives::Served(server) = &self.drives else { return };
        while !server.said().contains(words) {
            let gone = self.qemu.ended().is_some() || Instant::now() > deadline;
            assert!(!gone, "the server doesn't say `{words}`\n{}", self.seen());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Last output of the guest's kernel, of QEMU and of the server.
    pub fn seen(&self) -> String {
        let (console, qemu) = (tail(&self.console, 40), tail(&self.errors, 10));
        let server = match &self.drives {
            Drives::Served(server) | Drives::Remote(server) => {
                format!("{}\n{}", server.threads(), server.said())
            }
            Drives::Qemu => String::new(),
        };
        let threads = self.qemu.threads();
        format!("-- the guest's console\n{console}\n-- QEMU\n{threads}\n{qemu}\n-- the server\n{server}")
    }
}
