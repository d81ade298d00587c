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
#![allow(clippy::unwrap_used, reason = "what a test can't do fails it")]

mod payloads;
mod processes;
mod runner;
mod trace;

use byteway_clock::{Clock, Delay, Rate};
use byteway_device::{
    ControllerConfig, Drive, DriveConfig, FtlPolicy, NamespaceConfig, SiteConfig, TransferConfig,
};
use byteway_firmware::{Base, Cycles, Victim, Work};
use byteway_flash::{Geometry, Timing};
use byteway_link::memory::Mapped;
use byteway_link::{DeviceEnd, Direction, Generation, Memory, PcieConfig, Purpose};
use byteway_wire::content::{BlockSize, Keep};
use std::fs::File;

/// Units of 4 KiB of namespace 1, whose blocks are of 512 bytes.
const NS_512_UNITS: u64 = 4096;
/// Units of namespace 2, whose blocks are of 4096 bytes.
const NS_4K_UNITS: u64 = 8192;
/// The longest transfer of a command.
const TRANSFER_BYTES_MAX: u32 = 128 << 10;

/// Where the memory that is shared stands in the device's address space, and how much it is.
const MEMORY_BASE: u64 = 0x10_0000_0000;
const MEMORY_BYTES: u64 = 32 << 20;

/// A small drive: overwritten many times in a test, so that its collector works, too.
fn drive_config() -> DriveConfig {
    DriveConfig {
        model: "Byteway test drive".into(),
        serial: "BOTH0001".into(),
        controller: ControllerConfig {
            io_queues_max: 4,
            queue_entries_max: 256,
            command_slots: 48,
            fetch_outstanding: 2,
            fetch_burst: 4,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            dma_granularity: 1,
            dstrd: 0,
            sgl: false,
            shadow_doorbells: false,
            vectors: 5,
            arbitration_burst: 8,
            ready_delay: Delay::from_us(10),
            read_pipeline: Delay::from_ns(500),
            read_large_pipeline: Delay::from_ns(800),
            write_pipeline: Delay::from_ns(300),
        },
        transfer: TransferConfig::default(),
        site: SiteConfig {
            cores: 2,
            hertz: 1_000_000_000,
            cycles: Cycles::FREE
                .with(Work::Fetch, 50)
                .with(Work::Parse, 100)
                .with(Work::Translate, 50)
                .with(Work::Buffer, 50)
                .with(Work::Complete, 50),
            dram_latency: Delay::from_ns(50),
            dram_rate: Rate::per_second(10_000_000_000),
        },
        geometry: Geometry { channels: 2, ways: 2, planes: 1, blocks: 20, pages: 64, page_bytes: 16384 },
        timing: Timing {
            read: vec![Delay::from_us(10)],
            program: vec![Delay::from_us(50)],
            erase: Delay::from_us(500),
            channel: Rate::per_second(800_000_000),
            command: Delay::from_ns(100),
            ..Timing::default()
        },
        media: Default::default(),
        endurance_erases: 3000,
        ftl: FtlPolicy {
            write_buffer_bytes: 1 << 20,
            victim: Victim::Greedy,
            collect_start_blocks: 2,
            collect_reserve_blocks: 1,
            power_loss_protection: false,
            map_cache_pages: None,
            checkpoint_units: 0,
            upkeep: byteway_firmware::Upkeep::default(),
            canary: None,
        },
        namespaces: vec![
            NamespaceConfig { units: NS_512_UNITS, block: BlockSize::B512 },
            NamespaceConfig { units: NS_4K_UNITS, block: BlockSize::B4096 },
        ],
        base: Base::Empty,
        keep: Keep::Bytes,
        seed: 1,
    }
}

/// Gen3 x4.
fn link_config() -> PcieConfig {
    PcieConfig {
        generation: Generation::Gen3,
        lanes: 4,
        mps: 256,
        mrrs: 512,
        rcb: 64,
        read_tags: 32,
        propagation: Delay::from_ns(100),
        memory_latency: Delay::from_ns(150),
        slowdown: 1,
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

/// Nothing is held in the drive, and ledger, memory and device agree on every byte that crossed.
fn check_at_rest(drive: &Drive, device: &DeviceEnd, memory: &Memory) {
    let payload = |purpose, direction| device.ledger().entry(purpose, direction).payload;
    let fetched =
        [Purpose::SqeFetch, Purpose::InlineChunk, Purpose::PrpList, Purpose::SglSegment, Purpose::Data];
    let down: u64 = fetched.into_iter().map(|purpose| payload(purpose, Direction::Down)).sum();
    let up = payload(Purpose::Data, Direction::Up) + payload(Purpose::Cqe, Direction::Up);
    assert_eq!((down, up), (memory.dma_read_bytes(), memory.dma_written_bytes()), "ledger against memory");
    let counters = drive.controller.counters();
    let entries =
        payload(Purpose::SqeFetch, Direction::Down) + payload(Purpose::InlineChunk, Direction::Down);
    assert_eq!(counters.fetched.get() * 64, entries, "entries fetched");
    assert_eq!(counters.posted.get() * 16, payload(Purpose::Cqe, Direction::Up), "entries posted");
    assert_eq!(device.faults(), 0, "posted writes into memory that is not there");
    assert!(drive.controller.is_quiet(), "slots, permits and tags are free");
    assert_eq!(drive.controller.ftl().units_locked(), 0, "units locked");
}
