//! The process at the other end of a socket.

use rustix::fd::OwnedFd;
use rustix::fs::{fstat, major, minor};
use rustix::net::sockopt::socket_peercred;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// The process at the other end, by its identifier.
#[derive(Clone, Debug)]
pub struct Peer {
    pid: Option<i32>,
    name: String,
}

impl Peer {
    /// The process that has connected `socket`.
    pub fn of(socket: &OwnedFd) -> Self {
        let pid = socket_peercred(socket).ok().map(|peer| peer.pid.as_raw_nonzero().get());
        let name = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok());
        let name = name.unwrap_or_default().chars().filter(|letter| !letter.is_control()).collect();
        Peer { pid, name }
    }

    /// Whether the process has ended. The system may close its sockets a moment later: those that an io_uring of the process polls, as
    /// QEMU's do, are closed by a task of the kernel.
    pub fn has_ended(&self) -> bool {
        let Some(pid) = self.pid else { return false };
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            // The state follows the name, which is in parentheses and may hold any letter.
            Ok(stat) => {
                stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
            }
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }

    /// Whether the process has mapped `file` privately instead of shared: its stores then never arrive here.
    /// `None`: unknown.
    pub fn keeps_private_copy(&self, file: &File) -> Option<bool> {
        let stat = fstat(file).ok()?;
        let device = format!("{:02x}:{:02x}", major(stat.st_dev), minor(stat.st_dev));
        let inode = stat.st_ino.to_string();
        let maps = BufReader::new(File::open(format!("/proc/{}/maps", self.pid?)).ok()?);
        let mut is_private = false;
        for line in maps.lines() {
            // Addresses, permissions, offset, device, inode, path.
            let line = line.ok()?;
            let mut words = line.split_ascii_whitespace().skip(1);
            let permissions = words.next()?;
            if words.nth(1)? == device && words.next()? == inode {
                if permissions.ends_with('s') {
                    return Some(false);
                }
                is_private = true;
            }
        }
        Some(is_private)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid} ({})", self.name),
            None => f.write_str("a process that cannot be seen from here"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    // A client whose process has ended must not keep the next one from attaching, and a live one must not lose its drive.
    #[test]
    fn processes_that_have_ended_are_told_from_others() {
        let peer = |pid: u32| Peer { pid: i32::try_from(pid).ok(), name: String::new() };
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        assert!(!peer(child.id()).has_ended());
        child.kill().unwrap();
        // A zombie until it is waited for.
        while !peer(child.id()).has_ended() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(peer(child.id()).has_ended());
        assert!(!Peer { pid: None, name: String::new() }.has_ended());
    }
}
