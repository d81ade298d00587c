//! A real Linux guest, whose unmodified drivers use served drives over vfio-user and NVMe/TCP.
//!
//! | file | what |
//! |---|---|
//! | `list.rs` | what a guest does with its drives, step by step |
//! | `kept.rs` | drives that keep their data: what was synced is there at the next boot, after `kill -9`, too |
//! | `pairs.rs` | a KV namespace next to a block namespace, by `nvme io-passthru`; its key-value pairs survive `kill -9`; over NVMe/TCP |
//! | `tables.rs` | a tables namespace: tasks and results by `nvme io-passthru`, between other hosts of the same drive |
//! | `host_buffer.rs` | drives that ask for memory of the host's for their map, which comes and goes |
//! | `watched.rs` | drives that are watched in a browser while a guest uses them |
//! | `remote.rs` | drives over NVMe/TCP: connected, verified, reset, the server killed and back |
//! | `authenticated.rs` | hosts that have to authenticate: right, wrong and absent secrets, every hash and group; again under load |
//! | `discovered.rs` | several drives found by the Discovery Service, and all connected; two paths, namespaces that come and go |
//! | `tls.rs` | drives over NVMe/TCP with TLS: keys that are right, wrong and missing, resets, a server that is back |
//! | `guest.rs` | a guest under QEMU: booted, given scripts, asked what it saw |
//! | `server.rs` | `byteway serve` |
//! | `process.rs` | processes that end with the test, however it ends |
//!
//! `guest/build` must have been run; otherwise the tests are skipped with a message. Environment variables:
//!
//! - `BYTEWAY_GUEST=required`: the tests fail instead. `BYTEWAY_GUEST=qemu`: the list runs with QEMU's own NVMe controllers, to determine
//!   whether a failure is the drive's or the list's.
//! - `BYTEWAY_GUEST_DIR`: the results of guest/build, if not in `target/guest`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what a test can't do fails it")]

mod authenticated;
#[path = "../byteway/browser/mod.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod browser;
mod discovered;
mod guest;
mod host_buffer;
mod kept;
mod list;
mod pairs;
mod process;
mod remote;
mod server;
mod tables;
mod tls;
mod watched;

use guest::{Drives, Guest, folders};
use server::Server;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

/// Capacity of each drive.
const CAPACITY_GIB: u64 = 8;
/// Processors of the guest: a queue for each.
const CPUS: u32 = 4;

/// One guest at a time: two cores are few for the guest, its QEMU and its drives' server.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Whether a guest with this kernel exists; if so, locks out other guest tests.
fn have(kernel: &str) -> Option<MutexGuard<'static, ()>> {
    let (built, scripts) = folders();
    if built.join(format!("kernel-{kernel}/initramfs.cpio")).exists() {
        return Some(ONE_AT_A_TIME.lock().unwrap_or_else(|failed| failed.into_inner()));
    }
    let build = scripts.join("build");
    let missing = format!("no guest with Linux {kernel} is in {}: run {}", built.display(), build.display());
    byteway_testkit::needs::missing(&missing, std::env::var_os("BYTEWAY_GUEST").is_some());
    None
}

/// Two drives, each with its kind of doorbells.
fn drives(folder: &Path, doorbells: [&str; 2]) -> Drives {
    match std::env::var("BYTEWAY_GUEST").as_deref() {
        Ok("qemu") => Drives::Qemu,
        _ => Drives::Served(Server::start(folder, doorbells, None)),
    }
}

// Otherwise the controller might only work with our own drivers.
#[test]
fn linux_6_1_uses_drives_with_mapped_doorbells() {
    let Some(_alone) = have("6.1") else { return };
    list::play(Guest::boot("6.1", CPUS, |folder| drives(folder, ["mapped", "trapped"])), "A");
}

// Another version of the driver, and trapped doorbells: each write is a message to the server.
#[test]
fn linux_6_12_uses_drives_with_trapped_doorbells() {
    let Some(_alone) = have("6.12") else { return };
    list::play(Guest::boot("6.12", CPUS, |folder| drives(folder, ["trapped", "mapped"])), "B");
}

// A drive must not lose what a file system has synced; and Linux differs from our host more than any simulated one.
#[test]
fn a_guest_finds_its_files_after_the_server_has_ended() {
    if std::env::var("BYTEWAY_GUEST").as_deref() == Ok("qemu") {
        return; // those drives are not served
    }
    let Some(_alone) = have("6.12") else { return };
    kept::play("6.12");
}

// Linux creates no block device for a KV namespace: checks that its commands pass through.
#[test]
fn a_guest_stores_pairs_by_passthrough() {
    if std::env::var("BYTEWAY_GUEST").as_deref() == Ok("qemu") {
        return; // those drives have no pairs
    }
    let Some(_alone) = have("6.12") else { return };
    pairs::play("6.12");
}

// The same for tables: tasks and results have lengths that blocks never have.
#[test]
fn a_guest_asks_queries_by_passthrough() {
    if std::env::var("BYTEWAY_GUEST").as_deref() == Ok("qemu") {
        return; // those drives have no tables
    }
    let Some(_alone) = have("6.12") else { return };
    tables::play("6.12");
}

// Part of the map is in memory that the drive does not own: data depends on what Linux's driver does with it.
#[test]
fn a_guest_lends_memory_for_the_map() {
    if std::env::var("BYTEWAY_GUEST").as_deref() == Ok("qemu") {
        return; // those drives ask for none
    }
    for kernel in ["6.1", "6.12"] {
        let Some(_alone) = have(kernel) else { return };
        host_buffer::play(kernel);
    }
}

// What the page says while a real host works is what people look at.
#[test]
fn a_guest_is_watched_in_a_browser() {
    if std::env::var("BYTEWAY_GUEST").as_deref() == Ok("qemu") {
        return; // those drives are not served
    }
    let Some(_alone) = have("6.12") else { return };
    watched::play("6.12");
}

// Our own initiator cannot show what Linux's expects of a target.
#[test]
fn linux_6_1_uses_a_drive_over_nvme_tcp() {
    let Some(_alone) = have("6.1") else { return };
    remote::play("6.1");
}

// Another version, which reports errors differently.
#[test]
fn linux_6_12_uses_a_drive_over_nvme_tcp() {
    let Some(_alone) = have("6.12") else { return };
    remote::play("6.12");
}

// The kernel's TLS, the handshake daemon and the key derivation are independent of ours. Linux 6.1 has no TLS here.
#[test]
fn linux_6_12_uses_a_drive_over_nvme_tcp_with_tls() {
    let Some(_alone) = have("6.12") else { return };
    tls::play("6.12");
}

// A host that does not know the drives' names and ports queries a single port for all of them.
#[test]
fn linux_6_12_finds_drives_over_nvme_tcp() {
    let Some(_alone) = have("6.12") else { return };
    discovered::play("6.12");
}

// Only an independent implementation shows whether ours follow the protocol.
#[test]
fn linux_6_12_authenticates() {
    let Some(_alone) = have("6.12") else { return };
    authenticated::play("6.12");
}

// An error that both our sides share in a hash, a group or a transformation would show nowhere else.
#[test]
fn linux_6_12_authenticates_with_every_hash_and_group() {
    let Some(_alone) = have("6.12") else { return };
    authenticated::play_algorithms("6.12");
}

// Debian's Linux 6.1 is built without authentication: it is refused, and other hosts are served.
#[test]
fn linux_6_1_cannot_authenticate() {
    let Some(_alone) = have("6.1") else { return };
    authenticated::play_unable("6.1");
}

// ANA states and namespaces change while Linux uses them.
#[test]
fn linux_6_12_uses_two_paths_over_nvme_tcp() {
    let Some(_alone) = have("6.12") else { return };
    discovered::play_paths("6.12");
}

// The same with a kernel that selects paths differently.
#[test]
fn linux_6_1_uses_two_paths_over_nvme_tcp() {
    let Some(_alone) = have("6.1") else { return };
    discovered::play_paths("6.1");
}

// The kernel passes through commands that it does not know; on a fabric it handles their data differently.
#[test]
fn a_guest_stores_pairs_over_nvme_tcp() {
    let Some(_alone) = have("6.12") else { return };
    pairs::play_remote("6.12");
}

// Without share=on all commands time out: the server must report the reason.
#[test]
fn the_server_says_that_memory_is_not_shared() {
    let Some(_alone) = have("6.12") else { return };
    let mut guest = Guest::start("6.12", 1, "off", &|folder| drives(folder, ["mapped", "trapped"]));
    guest.wait_for_server_to_say("share=on");
}
