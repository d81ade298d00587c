//! Data that a guest has written survives its reboot, whatever happens to the server.
//!
//! Three boots with one data directory: the first guest loses its server during writes (`kill -9`), the second one powers off, and its
//! server shuts down; each finds the data synced before. In between, `byteway media check` verifies the directory.

use crate::guest::{Drives, Guest};
use crate::list;
use crate::server::Server;
use serde_json::Value;
use std::cell::RefCell;
use std::path::Path;
use std::process::{Command, Stdio};

/// Fills a directory on a mounted drive with distinct files of many sizes.
const FILL: &str = r#"
fill() {
    dd if=/dev/urandom of=/tmp/random bs=1M count=1 2>/dev/null
    mkdir $1
    for i in $(seq 40); do
        { echo file $i; dd if=/tmp/random bs=$((i * i * 97 + 7)) count=1 2>/dev/null; } >$1/$i
    done
}
# sums DIRECTORY...: of all files
sums() { find "$@" -type f -exec md5sum {} + | sort -k 2; }
"#;

/// All steps, with this kernel.
pub fn play(kernel: &str) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");

    let mut guest = boot(kernel, &data, "created");
    let made = format!(
        "{FILL}
        for drive in $A $B; do mkfs.ext4 -q -F $drive; done
        mkdir -p /mnt/a /mnt/b
        mount -t ext4 $A /mnt/a && mount -t ext4 $B /mnt/b
        fill /mnt/a/first && fill /mnt/b/first
        sync
        sums /mnt/a/first /mnt/b/first"
    );
    let first = sums(&guest.run("files on both drives, synced", 90, &made));
    assert_eq!(first.len(), 80, "{first:?}");
    let load = "
        dd if=/dev/urandom of=/tmp/random bs=1M count=1 2>/dev/null
        (while :; do cat /tmp/random; done | dd of=/mnt/a/load bs=64k oflag=direct >/dev/null 2>&1) &
        (while :; do cat /tmp/random; done | dd of=/mnt/b/load bs=64k conv=fsync >/dev/null 2>&1) &
        sleep 1
        [ -s /mnt/a/load ]";
    guest.run("load, before the server dies", 20, load);
    let Drives::Served(server) = &mut guest.drives else { unreachable!("they are served") };
    server.kill();
    drop(guest);
    check(&data);

    let mut guest = boot(kernel, &data, "recovered");
    let found = format!(
        "{FILL}
        mkdir -p /mnt/a /mnt/b
        mount -t ext4 $A /mnt/a && mount -t ext4 $B /mnt/b
        sums /mnt/a/first /mnt/b/first"
    );
    assert_eq!(sums(&guest.run("files are there after a kill", 60, &found)), first);
    let more = format!(
        "{FILL}
        fill /mnt/a/second && fill /mnt/b/second
        rm /mnt/a/first/1* && fstrim /mnt/a
        sums /mnt/a/first /mnt/b/first /mnt/a/second /mnt/b/second
        umount /mnt/a && umount /mnt/b
        e2fsck -f -n $A >&2 && e2fsck -f -n $B >&2"
    );
    let second = sums(&guest.run("more files, and some fewer", 90, &more));
    assert_eq!(second.len(), 160 - 11, "{second:?}");
    if let Drives::Served(mut server) = guest.power_off() {
        server.end();
    }
    check(&data);

    let mut guest = boot(kernel, &data, "clean");
    let found = "/mnt/a/first /mnt/b/first /mnt/a/second /mnt/b/second";
    let found = format!(
        "{FILL}
        mkdir -p /mnt/a /mnt/b
        mount -t ext4 -o ro $A /mnt/a && mount -t ext4 -o ro $B /mnt/b
        sums {found}"
    );
    assert_eq!(sums(&guest.run("files are there after an end in order", 60, &found)), second);
    guest.power_off();
}

/// A guest whose drives keep their data in `data`, and started in `state`; on the first attempt, if it had to be booted twice.
fn boot(kernel: &str, data: &Path, state: &str) -> Guest {
    let states = RefCell::new(Vec::new());
    let mut guest = Guest::boot(kernel, 2, |folder| {
        let server = Server::start(folder, ["mapped", "trapped"], Some(data));
        states.borrow_mut().push(server.ready().to_vec());
        Drives::Served(server)
    });
    for ready in &states.borrow()[0] {
        let (name, kept) = (&ready["name"], &ready["data"]);
        assert_eq!(kept["state"], state, "{ready}");
        println!(
            "drive {name}: {state}, {} ms opening, {} ms recovery",
            kept["opening_ms"], kept["recovery_ms"]
        );
    }
    list::tell_apart(&mut guest, true);
    guest
}

fn sums(output: &str) -> Vec<String> {
    output.lines().filter(|line| line.contains("/mnt/")).map(str::to_owned).collect()
}

/// Checks the drives' data directory.
fn check(data: &Path) {
    for drive in ["mapped", "trapped"] {
        let output = Command::new(env!("CARGO_BIN_EXE_byteway"))
            .args(["media", "check", "--quiet", "--format", "json"])
            .arg(data.join(drive))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{drive}: {output:?}");
        let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
        println!("media check of drive {drive}: {} units, the map {}", verdict["units"], verdict["map"]);
    }
}
