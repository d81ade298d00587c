//! Soak test: clients attach to a served drive one after another, work, and leave in every possible way. In continuous integration it is
//! short, with a few clients for every profile; manually it can run for any time:
//!
//! ```text
//! BYTEWAY_SOAK_CLIENTS=1000 cargo test --release -p byteway --test soak -- --nocapture clients_come
//! BYTEWAY_SOAK_SECONDS=3600 cargo test --release -p byteway --test soak -- --nocapture clients_come
//! ```
//!
//! `BYTEWAY_SOAK_CLIENTS` is the minimum number of clients, `BYTEWAY_SOAK_SECONDS` the minimum duration, and `BYTEWAY_SOAK_SEED` (1) the
//! seed, which is printed. `BYTEWAY_SOAK_PROFILE` selects a single profile, and `BYTEWAY_SOAK_PER_DRIVE` (100) is the number of clients per
//! server in a long soak.
//!
//! Server and clients are separate processes. A served drive has one profile, timing, kind of doorbells, capacity (1 to 4 GiB),
//! precondition and data location (memory or a directory); its clients work on 1 MiB up to all of it, and leave after a shutdown, silently,
//! during a message, a shutdown or a reset, or by `kill -9` with commands outstanding. Then the server gets SIGTERM. One with a data
//! directory is started again, and everything is read.
//!
//! Checked: every client is served, and sees the same controller as the first one; every block read has the data of the last client that
//! wrote it (an aborted write may or may not have happened, but consistently for all later clients); the server's memory grows by at most
//! [`RSS_GROWTH_MAX`] after half of its clients; it reports no errors, and ends with status 0. A drive in memory retains stale data until
//! garbage collection, so that written data is added to that limit until its flash has been overwritten once; this does not apply to drives
//! in directories. Not checked: performance.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]
#![allow(
    clippy::disallowed_methods,
    reason = "processes are held against the wall clock, so that none hangs"
)]

mod client;
mod ledger;
mod server;

use byteway_clock::random::{Rng, Stream};
use byteway_scenario::profile::{DRIVES, Profile};
use client::{ClientTask, Leave, Task};
use server::{Drive, Server};
use std::path::Path;
use std::time::{Duration, Instant};

/// Upper limit of a server's growth from half of its clients to the last one, in addition to the drive's content.
const RSS_GROWTH_MAX: u64 = 16 << 20;
/// Minimum number of clients per served drive, also in a long soak.
const CLIENTS_MIN: u64 = 6;
const CLIENTS_LONG: u64 = 100;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

// A drive may leak something with each client that leaves, until it can serve none: a shutdown that never ends, a command, a mapping, a
// descriptor.
#[test]
fn clients_come_work_and_leave() {
    let seed = number("BYTEWAY_SOAK_SEED").unwrap_or(1);
    let clients = number("BYTEWAY_SOAK_CLIENTS").unwrap_or(0);
    let time = Duration::from_secs(number("BYTEWAY_SOAK_SECONDS").unwrap_or(0));
    let only = std::env::var("BYTEWAY_SOAK_PROFILE").ok();
    let per_drive = number("BYTEWAY_SOAK_PER_DRIVE").unwrap_or(CLIENTS_LONG);
    let is_long = clients > 0 || !time.is_zero();
    println!("seed {seed}");
    let start = Instant::now();
    let (mut total, mut round) = (0, 0);
    let (mut ends, mut cut_off) = (0, 0);
    loop {
        for (index, (profile, _)) in (0..).zip(DRIVES) {
            let profile_of = Profile::built_in(profile);
            let is_simulated =
                profile_of.is_some_and(|profile| profile.is_hosted() || profile.bridge.is_some());
            if is_simulated || only.as_deref().is_some_and(|only| only != profile) {
                continue; // firmware on the host, or behind a bridge, is not served
            }
            let drive = Drive::of(profile, index + round * 5);
            let mut stream = Rng::new(seed).stream(&format!("{profile}/{round}"));
            let of_it = if is_long { per_drive } else { CLIENTS_MIN };
            let said = soak(&drive, &mut stream, of_it, &mut |in_order| {
                ends += 1;
                cut_off += u32::from(!in_order);
            });
            // One drive may lack processor time, but not every tenth.
            assert!(cut_off <= 1 + ends / 10, "of {ends} servers {cut_off} were cut off at their end");
            total += of_it;
            println!("{total:6} clients, {:5} s: {drive:?}: {said}", start.elapsed().as_secs());
            if is_long && total >= clients && start.elapsed() >= time {
                return;
            }
        }
        round += 1;
        if !is_long {
            return;
        }
    }
}

/// Serves a drive to `clients` clients. Returns a report.
fn soak(drive: &Drive, stream: &mut Stream, clients: u64, ended: &mut dyn FnMut(bool)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), drive);
    let (mut first, mut settled) = (None, 0);
    let mut sizes = Vec::new();
    // Approximate bytes written before the first look at the server's memory, and after it.
    let mut written = [0, 0];
    let mut lefts = [0; Leave::ALL.len()];
    for index in 0..clients {
        // Every way to leave is used, and the first and the last client finish normally.
        let is_edge = index == 0 || index + 1 == clients;
        let leave =
            if is_edge { Leave::InOrder } else { Leave::ALL[stream.below(Leave::ALL.len() as u64) as usize] };
        lefts[leave as usize] += 1;
        let task = Task {
            seed: stream.next_u64() >> 1,
            index,
            ops: if is_edge { 1500 } else { 1 + stream.below(1500) },
            span: 1 << (20 + stream.below(u64::from(drive.capacity().ilog2() - 20 + 1))),
            leave,
            work: if index == 0 { ClientTask::Fill } else { ClientTask::Mix },
        };
        run(folder.path(), drive, &mut server, &task, &mut first);
        if index == clients / 2 {
            settled = server.memory();
        }
        written[usize::from(index > clients / 2)] += task.ops * client::OP_BYTES;
        if (index + 1) % clients.div_ceil(10) == 0 {
            sizes.push(server.memory() >> 20);
        }
    }
    let grown = server.memory().saturating_sub(settled);
    let sizes = format!("{sizes:?} MiB, grown by {} KiB since half of the clients", grown >> 10);
    let [before, after] = written;
    let is_full = drive.is_kept || before >= drive.flash_bytes();
    assert!(
        grown <= RSS_GROWTH_MAX + if is_full { 0 } else { 2 * after },
        "{drive:?}: the server has grown: {sizes}"
    );
    ended(server.end());
    if drive.is_kept {
        let mut server = Server::start(folder.path(), drive);
        let reader = Task {
            seed: 0,
            index: clients,
            ops: 0,
            span: drive.capacity(),
            leave: Leave::InOrder,
            work: ClientTask::Read,
        };
        // Its view of the controller is that of another power cycle.
        run(folder.path(), drive, &mut server, &reader, &mut None);
        ended(server.end());
    }
    format!("left {lefts:?}; {sizes}")
}

/// Runs a client, and compares its view of the controller with the first one's.
fn run(folder: &Path, drive: &Drive, server: &mut Server, task: &Task, first: &mut Option<String>) {
    let seen = client::run(folder, drive, task).unwrap_or_else(|wrong| {
        panic!("{drive:?}, {task:?}: {wrong}\nthe server says:\n{}", server.said());
    });
    if let Some(seen) = seen {
        let first = first.get_or_insert_with(|| seen.clone());
        assert_eq!(*first, seen, "{drive:?}, {task:?}: another controller than the first client saw");
    }
}

// Not a test of its own: the clients' processes run it.
#[test]
fn role() {
    client::role();
}
