//! Processes that end with the test, however it ends.

#![allow(clippy::disallowed_methods, reason = "other processes are waited for by the wall clock")]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Environment variable: the program that this process must become.
const PROGRAM: &str = "BYTEWAY_GUEST_TEST_PROGRAM";
/// Environment variable: that program's arguments, one per line.
const ARGUMENTS: &str = "BYTEWAY_GUEST_TEST_ARGUMENTS";

// Not a test of its own: processes that a test starts run it first. A program cannot request that another one end with it; but this process
// can request it for itself, and then become the other.
#[test]
fn become_program() {
    let Ok(program) = std::env::var(PROGRAM) else { return };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let arguments = std::env::var(ARGUMENTS).unwrap();
    let mut command = Command::new(&program);
    command.args(arguments.lines()).env_remove(PROGRAM).env_remove(ARGUMENTS);
    panic!("{program}: {}", command.exec());
}

/// A process that is killed on drop, and when this one dies.
pub struct Process {
    child: Child,
    /// Output that was not consumed yet.
    unread: Vec<u8>,
}

impl Process {
    /// Starts a program with its standard input and output connected to this process, and its errors in a file.
    pub fn start<A: AsRef<str>>(
        program: &Path,
        arguments: &[A],
        environment: &[(&str, &OsStr)],
        errors: &Path,
    ) -> Process {
        let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
        assert!(
            arguments.iter().all(|argument| !argument.contains('\n')),
            "arguments are told apart by lines"
        );
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::become_program", "--nocapture"])
            .env(PROGRAM, program)
            .env(ARGUMENTS, arguments.join("\n"))
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(errors).unwrap())
            .spawn()
            .unwrap();
        Process { child, unread: Vec::new() }
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Its exit status, if it ends before the deadline.
    pub fn wait(&mut self, deadline: Instant) -> Option<ExitStatus> {
        while self.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.ended()
    }

    /// Its threads as reported by the system, a line each: name, state, ticks of processors, and where it waits in the kernel.
    pub fn threads(&self) -> String {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let mut lines: Vec<String> = tasks
            .into_iter()
            .flatten()
            .flatten()
            .map(|task| {
                let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
                let stat = read("stat");
                let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split_whitespace().collect();
                let field = |index| fields.get(index).copied().unwrap_or("?");
                format!(
                    "{} {} {}+{} {}",
                    read("comm").trim(),
                    field(0),
                    field(11),
                    field(12),
                    read("wchan").trim()
                )
            })
            .collect();
        lines.sort_unstable();
        if lines.is_empty() { "gone".to_string() } else { lines.join("\n") }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        if self.child.kill().is_ok() {
            self.child.wait().unwrap();
        }
    }

    /// Requests its end.
    pub fn terminate(&self) {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        )
        .unwrap();
    }

    /// Writes to its standard input. If the process is gone, the next read shows it.
    pub fn write(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        let _gone = input.write_all(text.as_bytes()).and_then(|()| input.flush());
    }

    /// Its output up to the end of a line that starts with `beginning`, and that line; or all of its output, when it has ended or the
    /// deadline has passed.
    pub fn read_to_line(&mut self, beginning: &str, deadline: Instant) -> Result<(String, String), String> {
        let wanted = format!("\n{beginning}");
        loop {
            let text = String::from_utf8_lossy(&self.unread).replace('\r', "");
            let start =
                if text.starts_with(beginning) { Some(0) } else { text.find(&wanted).map(|at| at + 1) };
            if let Some(start) = start
                && let Some(length) = text[start..].find('\n')
            {
                self.unread = text.as_bytes()[start + length + 1..].to_vec();
                return Ok((text[..start].to_string(), text[start..start + length].to_string()));
            }
            if !self.read_more(deadline) {
                return Err(text);
            }
        }
    }

    /// Reads more output; `false` at the deadline.
    fn read_more(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let output = self.child.stdout.as_mut().unwrap();
        if poll(&mut [PollFd::new(&*output, PollFlags::IN)], Some(&left)) == Ok(0) {
            return false;
        }
        let mut bytes = [0; 4096];
        let count = output.read(&mut bytes).unwrap_or(0);
        self.unread.extend_from_slice(&bytes[..count]);
        count > 0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of a text file that another process writes.
pub fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
