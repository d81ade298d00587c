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
