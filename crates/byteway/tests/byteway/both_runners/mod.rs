//! One controller, two runners: virtual time over the simulated link, real time over shared memory.
//!
//! | file | what |
//! |---|---|
//! | `processes.rs` | the drive in one process, its driver in another, a million verified I/Os between them |
//! | `trace.rs` | one trace of commands under each runner: the same answers, the same media |
//! | `payloads.rs` | payloads by each method under each runner: the same bytes, the same ledger |
//! | `runner.rs` | the runners, and the ways to the drive |
//!
//! What is checked here: what commands answer and what they leave behind. What isn't: how long anything takes, and
//! interrupts, which shared memory doesn't carry.

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

/// The longest transfer of a command.
const TRANSFER_BYTES_MAX: u32 = 128 << 10;

/// Where the memory that is shared stands in the device's address space, and how much it is.
const MEMORY_BASE: u64 = 0x10_0000_0000;
const MEMORY_BYTES: u64 = 32 << 20;

/// A small drive: overwritten many times in a test, so that its collector works, too.
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

/// A file without a name that a process started from here inherits.
fn memfd(name: &str, bytes: u64) -> File {
    let file = File::from(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::empty()).unwrap());
    file.set_len(bytes).unwrap();
    file
}

/// One side's view of the shared memory.
fn map_memory(file: &File) -> Memory {
    Memory::mapped(Mapped::new(file, MEMORY_BASE, MEMORY_BYTES).unwrap())
}

/// Ends the process of who waits in vain.
fn give_up_after(clock: &Clock, delay: Delay) {
    let inner = clock.clone();
    clock.spawn("deadline", async move {
        inner.timer(delay).await;
        panic!("not done after {delay}");
    });
}
