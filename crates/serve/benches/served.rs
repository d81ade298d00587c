//! Cost of a command on a drive served with `timing = "none"`: commands per CPU-second and task switches per
//! command, at depth 1 and 32, for 4 KiB reads and writes.
//!
//! `cargo bench -p byteway-serve --bench served [-- NAME...]`: read-1, read-32, write-1, write-32; without a name, all of them.
//! `WATCHED=1`: as of a drive that is served with `--http`, which keeps the latency of each command by stage, host and namespace.
//!
//! Drive and host are tasks of one thread, so that neither busy-waits for the other and all time is processor
//! time. The host does the minimum: it writes entries and doorbells, polls for completions, and verifies the
//! first word of a block. Not included is the latency of stores between two processors, which `byteway bench`
//! measures.
#![allow(clippy::unwrap_used, reason = "what it can't do ends it")]

use byteway_clock::{Clock, Delay, Executor};
use byteway_content::BlockSize;
use byteway_device::{ControllerConfig, DriveConfig, NamespaceConfig};
use byteway_flash::{Geometry, Timing};
use byteway_link::memory::{Access, Backing, Mapped};
use byteway_link::{IoLedger, Memory};
use byteway_serve::function::{Doorbells, Function, REGION_BAR0};
use byteway_testkit::{SmallWorld, drive_config};
use byteway_wire::nvme::command::{CreateCq, CreateSq};
use byteway_wire::nvme::register::{ACQ, AQA, ASQ, Aqa, CC, CSTS, Cc, Doorbell};
use byteway_wire::nvme::{Cqe, NvmOpcode, QueuePriority, ReadWrite, Sqe};
use rustix::fs::{MemfdFlags, memfd_create};
use std::cell::Cell;
use std::fs::File;
use std::rc::Rc;

/// As large as an M.2 drive of 2018 in everything that a command involves.
fn config() -> DriveConfig {
    let drive = drive_config();
    DriveConfig {
        controller: ControllerConfig {
            io_queues_max: 32,
            command_slots: 1024,
            fetch_outstanding: 32,
            fetch_burst: 8,
            shadow_doorbells: true,
            host_buffer: None,
            ..drive.controller
        },
        geometry: Geometry { channels: 8, ways: 2, planes: 1, blocks: 72, pages: 256, page_bytes: 32 << 10 },
        timing: Timing {
            read: vec![Delay::from_us(30), Delay::from_us(42)],
            program: vec![Delay::from_us(185)],
            ..drive.timing
        },
        namespaces: vec![NamespaceConfig::blocks(UNITS, BlockSize::B4096)],
        ..drive
    }
}

/// Capacity of the drive: 8 GiB.
const UNITS: u64 = 8 << 18;
/// Blocks that are read and written: 64 MiB.
const BLOCKS: u64 = 64 << 8;
const COMMANDS: u64 = 400_000;
const ENTRIES: u32 = 256;
const BASE: u64 = 0x1_0000_0000;
const BYTES: u64 = 4 << 20;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let commands = std::env::var("COMMANDS").ok().and_then(|text| text.parse().ok()).unwrap_or(COMMANDS);
    let wanted = |name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let config = config();
    let vectors = config.controller.vectors;
    let small = SmallWorld { memory: Memory::guest(), ..SmallWorld::of(config) };
    let powered = small.power_on(&clock);
    if std::env::var_os("WATCHED").is_some() {
        let ledger = IoLedger::new();
        powered.host.book_ios(ledger.clone(), ledger.host("here"));
    }
    let function =
        Function::new(&powered.host, &powered.drive.controller, 1, vectors, Doorbells::Mapped).unwrap();
    let host = Rc::new(Host::new(&clock, &function));
    let setting_up = host.clone();
    executor
        .run_real(byteway_clock::Timing::None, None, async move {
            setting_up.begin().await;
            setting_up.play(NvmOpcode::WRITE, 32, BLOCKS, true).await;
        })
        .unwrap();
    for (name, opcode, depth) in [
        ("read-1", NvmOpcode::READ, 1),
        ("read-32", NvmOpcode::READ, 32),
        ("write-1", NvmOpcode::WRITE, 1),
        ("write-32", NvmOpcode::WRITE, 32),
    ] {
        if wanted(name) {
            let before = (cpu_seconds(), clock.counters().polls);
            measured(&executor, host.clone(), opcode, depth, commands);
            let seconds = cpu_seconds() - before.0;
            let polls = clock.counters().polls - before.1;
            println!(
                "{name:>9}: {:>9.0} commands a CPU-second, {:.2} polls a command",
                commands as f64 / seconds,
                polls as f64 / commands as f64
            );
        }
    }
}

/// A separate function, for profilers.
#[inline(never)]
fn measured(executor: &Executor, host: Rc<Host>, opcode: NvmOpcode, depth: u16, commands: u64) {
    executor
        .run_real(byteway_clock::Timing::None, None, async move {
            host.play(opcode, depth, commands, false).await
        })
        .unwrap();
}

/// CPU time of this thread.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Layout of the host's memory.
const ADMIN_SQ: u64 = BASE;
const ADMIN_CQ: u64 = BASE + 0x1000;
const SQ: u64 = BASE + 0x10_000;
const CQ: u64 = BASE + 0x20_000;
const BUFFERS: u64 = BASE + 0x10_0000;

struct Host {
    clock: Clock,
    function: Rc<Function>,
    memory: Memory,
    doorbells: Memory,
    admin: Ring,
    io: Ring,
    random: Cell<u64>,
}

/// A queue pair.
struct Ring {
    id: u16,
    sq: u64,
    cq: u64,
    entries: u32,
    tail: Cell<u32>,
    head: Cell<u32>,
    phase: Cell<bool>,
}

impl Ring {
    fn new(id: u16, sq: u64, cq: u64, entries: u32) -> Self {
        Ring { id, sq, cq, entries, tail: Cell::new(0), head: Cell::new(0), phase: Cell::new(true) }
    }
}

impl Host {
    fn new(clock: &Clock, function: &Rc<Function>) -> Self {
        let file = File::from(memfd_create("host", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(BYTES).unwrap();
        let memory = Memory::mapped(Mapped::new(&file, BASE, BYTES).unwrap());
        let backing = Backing::File { file: &file, offset: 0 };
        function.memory().map(BASE, BYTES, backing, Access::ReadWrite).unwrap();
        let page = function.region(REGION_BAR0).mappable.unwrap();
        let doorbells = Memory::guest();
        let backing = Backing::File { file: &page.file, offset: page.offset };
        doorbells.map(page.offset, page.bytes, backing, Access::ReadWrite).unwrap();
        Host {
            clock: clock.clone(),
            function: function.clone(),
            memory,
            doorbells,
            admin: Ring::new(0, ADMIN_SQ, ADMIN_CQ, 16),
            io: Ring::new(1, SQ, CQ, ENTRIES),
            random: Cell::new(1),
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        self.function.write(REGION_BAR0, offset, bytes).unwrap();
    }

    /// Enables the controller and creates a queue pair.
    async fn begin(&self) {
        let aqa = Aqa::new().with_asqs_z(15).with_acqs_z(15);
        self.write(AQA, &aqa.into_bits().to_le_bytes());
        self.write(ASQ, &ADMIN_SQ.to_le_bytes());
        self.write(ACQ, &ADMIN_CQ.to_le_bytes());
        self.write(CC, &Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits().to_le_bytes());
        loop {
            let mut csts = [0; 4];
            self.function.read(REGION_BAR0, CSTS, &mut csts).unwrap();
            if csts[0] & 1 == 1 {
                break;
            }
            self.clock.yield_now().await;
        }
        let qsize_z = (ENTRIES - 1) as u16;
        self.execute(CreateCq { qid: 1, qsize_z, pc: true, ien: false, iv: 0 }.sqe(0, CQ)).await;
        let qprio = QueuePriority::Medium;
        self.execute(CreateSq { qid: 1, qsize_z, pc: true, qprio, cqid: 1 }.sqe(0, SQ)).await;
    }

    async fn execute(&self, sqe: Sqe) {
        self.place(&self.admin, &sqe);
        self.ring(&self.admin);
        while self.reap(&self.admin).is_none() {
            self.clock.yield_now().await;
        }
        self.reaped(&self.admin);
    }

    fn place(&self, ring: &Ring, sqe: &Sqe) {
        let tail = ring.tail.get();
        self.memory.write(ring.sq + u64::from(tail) * 64, &sqe.to_bytes()).unwrap();
        ring.tail.set((tail + 1) % ring.entries);
    }

    fn ring(&self, ring: &Ring) {
        self.doorbells.store32(Doorbell::SubmissionTail(ring.id).offset(0), ring.tail.get()).unwrap();
    }

    /// The identifier of the next completed command, if there is one.
    fn reap(&self, ring: &Ring) -> Option<u16> {
        let at = ring.cq + u64::from(ring.head.get()) * 16;
        let last = self.memory.load32(at + 12).unwrap();
        if (last >> 16 & 1 == 1) != ring.phase.get() {
            return None;
        }
        assert_eq!(last >> 17, 0, "no command fails");
        ring.head.set((ring.head.get() + 1) % ring.entries);
        ring.phase.set(ring.phase.get() != (ring.head.get() == 0));
        Some(last as u16)
    }

    fn reaped(&self, ring: &Ring) {
        self.doorbells.store32(Doorbell::CompletionHead(ring.id).offset(0), ring.head.get()).unwrap();
    }

    /// `commands` reads or writes of a block each, `depth` at a time: of random or of consecutive blocks.
    async fn play(&self, opcode: NvmOpcode, depth: u16, commands: u64, in_order: bool) {
        let ring = &self.io;
        let mut blocks = vec![0; usize::from(depth)];
        let (mut begun, mut ended) = (0, 0);
        let mut idle: Vec<u16> = (0..depth).collect();
        while ended < commands {
            let (head, tail) = (ring.head.get(), ring.tail.get());
            while let Some(cid) = self.reap(ring) {
                if opcode == NvmOpcode::READ {
                    let found = self.memory.load32(buffer(cid)).unwrap();
                    assert_eq!(found, blocks[usize::from(cid)] as u32 + 1, "what was written is read");
                }
                idle.push(cid);
                ended += 1;
            }
            while begun < commands
                && let Some(cid) = idle.pop()
            {
                let block = if in_order { begun } else { self.random() % BLOCKS };
                blocks[usize::from(cid)] = block;
                if opcode == NvmOpcode::WRITE {
                    self.memory.store32(buffer(cid), block as u32 + 1).unwrap();
                }
                let rw = ReadWrite { slba: block, ..ReadWrite::default() };
                let mut sqe = rw.sqe(opcode, cid, 1);
                sqe.prp1 = buffer(cid);
                self.place(ring, &sqe);
                begun += 1;
            }
            if ring.head.get() != head {
                self.reaped(ring);
            }
            if ring.tail.get() != tail {
                self.ring(ring);
            }
            self.clock.yield_now().await;
        }
    }

    fn random(&self) -> u64 {
        let mut word = self.random.get();
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.random.set(word);
        word >> 16
    }
}

fn buffer(cid: u16) -> u64 {
    BUFFERS + u64::from(cid) * 4096
}

const _: () = assert!(Cqe::SIZE == 16 && Sqe::SIZE == 64);
