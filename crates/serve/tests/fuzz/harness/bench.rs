//! A small drive and its function, in their own executor.

use byteway_clock::{Clock, Delay, Executor, Time, Timing};
use byteway_content::{BlockSize, Keep};
use byteway_device::{ControllerConfig, Drive, DriveConfig, NamespaceConfig, SiteConfig, TransferConfig};
use byteway_firmware::{Base, Cycles, FtlConfig};
use byteway_flash::Geometry;
use byteway_link::Memory;
use byteway_serve::function::{Doorbells, Function};
use byteway_testkit::SmallWorld;
use byteway_wire::nvme::vendor::Methods;
use std::future::Future;
use std::rc::Rc;

/// The namespace with blocks of 512 bytes, the target of arbitrary commands.
pub const NS_512: u32 = 1;
/// The namespace with blocks of 4 KiB, which is modelled.
pub const NS_4K: u32 = 2;
/// Units of 4 KiB of each.
pub const NS_UNITS: u64 = 256;
/// I/O queue pairs of the drive.
pub const IO_QUEUES: u16 = 4;
/// MSI-X vectors of the drive.
pub const VECTORS: u16 = 5;

/// Transfer methods that it offers: all existing ones, so far.
pub const OFFERED: Methods = Methods::new()
    .with_inline(true)
    .with_inline_tail(true)
    .with_reassembly(true)
    .with_piggyback(true)
    .with_piggyback_pipelined(true)
    .with_mmio(true)
    .with_inline_result(true)
    .with_rounded_results(true);
/// Length of its buffer in BAR0.
pub const BAR_BYTES: u32 = 8192;

/// Properties that differ between drives.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub doorbells: Doorbells,
    pub sgl: bool,
    pub dstrd: u8,
    pub dma_granularity: u32,
    pub command_slots: u32,
    pub fetch_outstanding: u32,
    pub keep: Keep,
    pub base: Base,
    pub fetch_burst: u32,
    /// Whether it offers [`OFFERED`].
    pub offers: bool,
}

impl Shape {
    fn drive(self) -> DriveConfig {
        let small = byteway_testkit::drive_config();
        DriveConfig {
            model: "Byteway fuzzed drive".into(),
            serial: "FUZZ0001".into(),
            controller: ControllerConfig {
                io_queues_max: IO_QUEUES,
                queue_entries_max: 256,
                command_slots: self.command_slots,
                fetch_outstanding: self.fetch_outstanding,
                fetch_burst: self.fetch_burst,
                transfer_bytes_max: 64 << 10,
                dma_granularity: self.dma_granularity,
                dstrd: self.dstrd,
                sgl: self.sgl,
                vectors: VECTORS,
                shadow_doorbells: true,
                host_buffer: None,
                ready_delay: Delay::ZERO,
                ..small.controller
            },
            transfer: if self.offers { transfer() } else { TransferConfig::default() },
            site: SiteConfig { cycles: Cycles::FREE, ..small.site },
            geometry: Geometry { ways: 1, blocks: 16, pages: 16, ..small.geometry },
            ftl: FtlConfig { write_buffer_units: 64, ..small.ftl },
            namespaces: vec![
                NamespaceConfig::blocks(NS_UNITS, BlockSize::B512),
                NamespaceConfig::blocks(NS_UNITS, BlockSize::B4096),
            ],
            base: self.base,
            keep: self.keep,
            ..small
        }
    }
}

/// Small capacities, so that they are exhausted.
fn transfer() -> TransferConfig {
    TransferConfig {
        methods: OFFERED,
        inline_bytes_max: 512,
        reassembly_bytes_max: 512,
        piggyback_bytes_max: 512,
        inline_result_bytes_max: 128,
        partial_payloads_max: 3,
        partial_timeout: Delay::from_us(300),
        bar_bytes: BAR_BYTES,
        memory: None,
        sink_bytes: 1 << 20,
        chunk_store: Delay::from_ns(50),
    }
}

/// A drive, as a host's process sees it. Cheap to clone.
#[derive(Clone)]
pub struct Served {
    pub clock: Clock,
    pub drive: Rc<Drive>,
    pub function: Rc<Function>,
}

/// Runs `main` with a drive of `shape`, in real time without modelled time, like a served drive.
pub fn run<T: 'static, F: Future<Output = T> + 'static>(shape: Shape, main: impl FnOnce(Served) -> F) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let world = SmallWorld { memory: Memory::guest(), ..SmallWorld::of(shape.drive()) };
    let powered = world.power_on(&clock);
    let function = Function::new(&powered.host, &powered.drive.controller, 1, VECTORS, shape.doorbells)
        .expect("the system has memory for doorbells");
    let served = Served { clock, drive: powered.drive.clone(), function };
    let main = main(served);
    executor.run_real(Timing::None, None, main).unwrap_or_else(|stalled| panic!("{stalled}"))
}

impl Served {
    /// Lets every other task run `count` times.
    pub async fn turns(&self, count: u32) {
        for _ in 0..count {
            self.clock.yield_now().await;
        }
    }

    /// Lets the other tasks run until `is_done`. Something that takes seconds never happens.
    pub async fn until(&self, what: &str, is_done: impl Fn() -> bool) {
        let mut patience = Patience::new(&self.clock);
        while !is_done() {
            patience.turn(&self.clock, || format!("{what} has no end")).await;
        }
    }

    /// The host disconnects: afterwards it holds no resources, whatever it did.
    pub async fn detach(&self) {
        let ended = Rc::new(std::cell::Cell::new(false));
        let (function, flag) = (self.function.clone(), ended.clone());
        self.clock.spawn("detaching", async move {
            function.detach().await;
            flag.set(true);
        });
        self.until("detaching", || ended.get()).await;
        let controller = &self.drive.controller;
        assert!(controller.is_quiet(), "the host has gone, so slots, permits and tags are free");
        assert!(!controller.is_busy(), "nothing is in flight");
        let written = self.function.memory().dma_written_bytes();
        self.turns(8).await;
        assert_eq!(self.function.memory().dma_written_bytes(), written, "written after the host had gone");
    }
}

/// Time limits.
pub struct Patience {
    begun: Time,
    turns: u32,
}

impl Patience {
    /// First limit.
    const TIME: Delay = Delay::from_ms(5_000);
    /// Second limit, in which the other tasks have run: the whole process may have been suspended.
    const TURNS: u32 = 20_000;

    pub fn new(clock: &Clock) -> Self {
        Patience { begun: clock.now(), turns: 0 }
    }

    /// Lets the other tasks run once. Panics with `complaint` after the time limit.
    pub async fn turn(&mut self, clock: &Clock, complaint: impl FnOnce() -> String) {
        self.turns += 1;
        let is_over = self.turns > Self::TURNS && clock.now().since(self.begun) > Self::TIME;
        assert!(!is_over, "{}", complaint());
        clock.yield_now().await;
    }
}
