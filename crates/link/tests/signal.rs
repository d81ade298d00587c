//! SIGBUS: a signal unrelated to guest memory must end the process as it would have without this crate.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_link::Memory;
use byteway_link::memory::{Access, Backing, PAGE_BYTES};
use rustix::process::{Signal, getpid, kill_process};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Tells a child process of this test what to do.
const ROLE: &str = "BYTEWAY_TEST_ROLE";

/// Runs the test `name` of this binary in a child process with `ROLE` set. Returns the signal that ended it.
fn signal_that_ends(name: &str) -> Option<i32> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("signal::{name}"), "--nocapture"]).env(ROLE, "1");
    command.output().unwrap().status.signal()
}

fn memfd(bytes: u64) -> File {
    let file = File::from(rustix::fs::memfd_create("byteway-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    file.set_len(bytes).unwrap();
    file
}

/// Guest memory that was lost, a loss that the process has survived.
fn lose_a_region() -> Memory {
    let file = memfd(PAGE_BYTES);
    let memory = Memory::guest();
    memory.map(0, PAGE_BYTES, Backing::File { file: &file, offset: 0 }, Access::ReadWrite).unwrap();
    file.set_len(0).unwrap();
    assert!(memory.write(0, &[1; 4096]).is_err());
    memory
}

// A fault in a foreign mapping, taken for one of ours, would repeat without end: the process must die of it.
#[test]
#[allow(unsafe_code, reason = "the fault is the point")]
fn a_fault_elsewhere_is_passed_on() {
    if std::env::var_os(ROLE).is_none() {
        return assert_eq!(signal_that_ends("a_fault_elsewhere_is_passed_on"), Some(libc::SIGBUS));
    }
    let _memory = lose_a_region();
    let file = memfd(PAGE_BYTES);
    let map = memmap2::MmapOptions::new().len(PAGE_BYTES as usize).map_raw(&file).unwrap();
    file.set_len(0).unwrap();
    // SAFETY: the byte is mapped. Nothing is behind it, and the process ends here.
    let byte = unsafe { map.as_ptr().read_volatile() };
    panic!("{byte} was read");
}

// A SIGBUS that a process sends must still end this one. (std's own handler lets the first pass, and steps
// aside; and a signal that is still pending for another thread swallows the next.)
#[test]
fn a_signal_that_was_sent_is_passed_on() {
    if std::env::var_os(ROLE).is_none() {
        return assert_eq!(signal_that_ends("a_signal_that_was_sent_is_passed_on"), Some(libc::SIGBUS));
    }
    let _memory = lose_a_region();
    for _ in 0..100_000 {
        kill_process(getpid(), Signal::BUS).unwrap();
    }
    panic!("the signal was lost");
}

// Drives run on threads of their own: each must survive its own loss, while others map and unmap.
#[test]
#[allow(clippy::disallowed_methods, reason = "the handler is the process's, its threads are what is tested")]
fn every_thread_gets_over_its_own_loss() {
    let threads: Vec<_> = (0..4u8)
        .map(|id| {
            std::thread::spawn(move || {
                let whole = memfd(4 * PAGE_BYTES);
                let kept = Memory::guest();
                let backing = Backing::File { file: &whole, offset: 0 };
                kept.map(0, 4 * PAGE_BYTES, backing, Access::ReadWrite).unwrap();
                kept.write(0, &[id; 4 * PAGE_BYTES as usize]).unwrap();
                for _ in 0..200 {
                    let lost = lose_a_region();
                    assert!(lost.read(0, &mut [0]).is_err());
                    kept.with(0, 4 * PAGE_BYTES as usize, |bytes| {
                        assert!(bytes.iter().all(|byte| *byte == id))
                    })
                    .unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
