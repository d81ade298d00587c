//! One controller under two runners: virtual time over the simulated link, and real time over shared memory.
//!
//! | file | what |
//! |---|---|
//! | `processes.rs` | the drive in one process, its driver in another, a million verified I/Os |
//! | `trace.rs` | one trace of commands under each runner: same completions, same media |
//! | `payloads.rs` | payloads by each method under each runner: same bytes, same ledger |
//! | `runner.rs` | the runners, and the paths to the drive |
//!
//! Checked: completions of commands, and their effects. Not checked: timing, and interrupts, which shared memory does not carry.

#![cfg(target_os = "linux")]

mod payloads;
mod processes;
mod runner;
mod trace;

use byteway_clock::{Clock, Delay};
use byteway_device::{ControllerConfig, DriveConfig};
use byteway_flash::Geometry;
use byteway_link::Memory;
use byteway_link::memory::Mapped;
use byteway_testkit::{NS_4K_UNITS, NS_512_UNITS};
use std::fs::File;

/// Maximum transfer size of a command.
const TRANSFER_BYTES_MAX: u32 = 128 << 10;

/// Address of the shared memory in the device's address space, and its size.
const MEMORY_BASE: u64 = 0x10_0000_0000;
const MEMORY_BYTES: u64 = 32 << 20;

/// A small drive, overwritten many times in a test, so that it collects garbage.
fn drive_config() -> DriveConfig {
    let small = byteway_testkit::drive_config();
    DriveConfig {
        serial: "BOTH0001".into(),
        controller: ControllerConfig {
            io_queues_max: 4,
            queue_entries_max: 256,
            command_slots: 48,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            vectors: 5,
            arbitration_burst: 8,
            ..small.controller
        },
        geometry: Geometry { blocks: 20, ..small.geometry },
        ..small
    }
}

/// An unnamed file that child processes inherit.
fn memfd(name: &str, bytes: u64) -> File {
    let file = File::from(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::empty()).unwrap());
    file.set_len(bytes).unwrap();
    file
}

/// A view of the shared memory.
fn map_memory(file: &File) -> Memory {
    Memory::mapped(Mapped::new(file, MEMORY_BASE, MEMORY_BYTES).unwrap())
}

/// Ends the process if it still waits after `delay`.
fn give_up_after(clock: &Clock, delay: Delay) {
    let inner = clock.clone();
    clock.spawn("deadline", async move {
        inner.timer(delay).await;
        panic!("not done after {delay}");
    });
}
