//! A soak: clients that come to a served drive one after the other, work, and leave in every way there is. In continuous
//! integration in a short form, every profile of the catalogue with a few clients; by hand for as long as one likes:
//!
//! ```text
//! BYTEWAY_SOAK_CLIENTS=1000 cargo test --release -p byteway --test soak -- --nocapture clients_come
//! BYTEWAY_SOAK_SECONDS=3600 cargo test --release -p byteway --test soak -- --nocapture clients_come
//! ```
//!
//! `BYTEWAY_SOAK_CLIENTS` is how many clients there are at least, `BYTEWAY_SOAK_SECONDS` for how long they go on coming, and
//! `BYTEWAY_SOAK_SEED` (1) the seed, which is printed. `BYTEWAY_SOAK_PROFILE` names the one profile to be served, and
//! `BYTEWAY_SOAK_PER_DRIVE` (100) is how many clients a server of a long soak has.
//!
//! Server and clients are processes of their own. A served drive has one profile, timing, way of doorbells, capacity
//! (1 to 4 GiB), first contents and place of its data (memory or a directory); the clients of it work on 1 MiB to all of it,
//! and leave after a shutdown, without a word, in the middle of a message, of a shutdown or of a reset, or by `kill -9` with
//! commands outstanding. Then the server is sent SIGTERM. One with a data directory is started again, and everything is read.
//!
//! Verified: every client is served, and what it sees of the controller is what the first one saw; every block that is
//! read holds what the last client to write it has written (a write that was cut off may have happened or not, but for all
//! later clients alike); the server's memory, after half of its clients, doesn't grow by more than [`RSS_GROWTH_MAX`]; it
//! says nothing of errors, and ends with status 0. A drive in memory holds what is stale until it is collected, so that what
//! clients have written comes on top of that bound until its flash has been overwritten once: not for drives in directories, whose
//! contents are there. Not verified: how fast any of this is.
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
use client::{Leave, Task, Work};
use server::{Drive, Server};
use std::path::Path;
use std::time::{Duration, Instant};

/// How much larger a server may be after its last client than after half of them, beside the drive's contents.
const RSS_GROWTH_MAX: u64 = 16 << 20;
/// Clients of one served drive, at least, and in a long soak.
const CLIENTS_MIN: u64 = 6;
const CLIENTS_LONG: u64 = 100;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

// A drive that serves one client well may still keep something of each that leaves, until it serves none: a shutdown that
// doesn't end, a command, a mapping, a descriptor.
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
            // One may be short of processors, not every tenth.
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

/// Serves a drive to so many clients. Returns what there is to tell.
fn soak(drive: &Drive, stream: &mut Stream, clients: u64, ended: &mut dyn FnMut(bool)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), drive);
    let (mut first, mut settled) = (None, 0);
    let mut sizes = Vec::new();
    // Bytes, about: before the server's memory is first looked at, and after.
    let mut written = [0, 0];
    let mut lefts = [0; Leave::ALL.len()];
    for index in 0..clients {
        // Every way to leave has its turn, and the first and the last client stay to the end.
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
            work: if index == 0 { Work::Fill } else { Work::Mix },
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
            work: Work::Read,
        };
        // What it sees of the controller is another power cycle's.
        run(folder.path(), drive, &mut server, &reader, &mut None);
        ended(server.end());
    }
    format!("left {lefts:?}; {sizes}")
}

/// Runs a client, and holds what it saw against what the first one saw.
fn run(folder: &Path, drive: &Drive, server: &mut Server, task: &Task, first: &mut Option<String>) {
    let seen = client::run(folder, drive, task).unwrap_or_else(|wrong| {
        panic!("{drive:?}, {task:?}: {wrong}\nthe server says:\n{}", server.said());
    });
    if let Some(seen) = seen {
        let first = first.get_or_insert_with(|| seen.clone());
        assert_eq!(*first, seen, "{drive:?}, {task:?}: another controller than the first client saw");
    }
}

// Not a test of its own: what the clients' processes run.
#[test]
fn role() {
    client::role();
}
