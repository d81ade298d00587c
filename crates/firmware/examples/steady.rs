//! Cost of a random write in the steady state, and of a random read, in this simulator: CPU time, polls,
//! timers, allocations, memory. Prints the write amplification factor next to the formula's.
//!
//! `cargo run --release -p byteway-firmware --example steady -- [gibibytes] [op in %] [writes] [reads]`

use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_content::{BlockSize, Content, Stamp};
use byteway_firmware::{
    Base, Cycles, Ftl, FtlConfig, Placement, Region, Site, WorkKind, ftl::greedy_write_amplification,
};
use byteway_flash::{BlockId, Geometry, Timing};
use rustix::time::{ClockId, clock_gettime};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::cell::Cell;
use std::rc::Rc;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const DEPTH: u64 = 64;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<f64>().expect("a number"));
    let mut argument = |default: f64| arguments.next().unwrap_or(default);
    let (gibibytes, op) = (argument(64.0), argument(7.0) / 100.0);
    let (writes, reads) = (argument(4e6) as u64, argument(2e6) as u64);

    let mut geometry = Geometry { channels: 8, ways: 2, planes: 4, blocks: 0, pages: 256, page_bytes: 16384 };
    let user_units = (gibibytes * f64::from(1 << 18)) as u64;
    let of_die = user_units / u64::from(geometry.dies());
    geometry.blocks =
        (of_die as f64 * (1.0 + op) / f64::from(geometry.units_per_block()) + 1.5).round() as u32;

    let cpu = Cpu::now();
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let config = FtlConfig {
        user_units,
        write_buffer_units: 4096,
        base: Base::Steady,
        regions: vec![Region { first_unit: 0, tag: 0, block: BlockSize::B4096 }],
        ..Default::default()
    };
    let ftl = Ftl::new(&clock, placement(&clock), geometry, timing(), config).expect("they go together");
    println!("{gibibytes} GiB on {geometry:?}");
    println!("ready in {:.3} s of CPU, {} MiB", cpu.seconds(), resident_mebibytes());

    // Half of the writes precede the measurement: the constructed state gives way to the drive's own.
    run(&executor, &ftl, writes / 2, "warm");
    let then = ftl.counters();
    let before = Snapshot::new(&clock);
    run(&executor, &ftl, writes, "writes");
    before.print("write", writes, &clock);
    let counters = ftl.counters();
    let wa = counters.write_amplification_since(&then);
    let pool: u64 =
        (0..geometry.total_blocks()).map(|b| u64::from(ftl.flash().programmed_stripes(BlockId(b)))).sum();
    let net = (pool * u64::from(geometry.units_per_stripe())) as f64 / user_units as f64 - 1.0;
    println!(
        "  write amplification {wa:.3}; {:.3} at OP {:.2} %, what is programmed now leaves {:.2} %: {:.3}",
        greedy_write_amplification(op),
        op * 100.0,
        net * 100.0,
        greedy_write_amplification(net)
    );

    let before = Snapshot::new(&clock);
    run(&executor, &ftl, reads, "reads");
    before.print("read", reads, &clock);
    println!("{} MiB; {:?}", resident_mebibytes(), ftl.counters());
}

/// Random single units, [`DEPTH`] at a time.
fn run(executor: &Executor, ftl: &Ftl, count: u64, what: &'static str) {
    let clock = executor.clock().clone();
    let rng = Rng::new(1);
    let spans = Rc::new(Spans::default());
    let running = Rc::new(Cell::new(DEPTH));
    for number in 0..DEPTH {
        let (ftl, spans, running) = (ftl.clone(), spans.clone(), running.clone());
        let mut stream = rng.stream(&format!("{what}-{number}"));
        clock.spawn("host", async move {
            let mut contents = Vec::with_capacity(1);
            for version in 0..count / DEPTH {
                let unit = stream.below(ftl.user_units());
                if what == "reads" {
                    ftl.read(SpanId::NONE, &spans, unit, 1, &mut contents).await.expect("it is of the drive");
                    assert!(matches!(&contents[..], [Content::Stamp(stamp)] if stamp.lba == unit));
                } else {
                    let stamp = Stamp { lba: unit, version: version as u32, tag: 0, block: BlockSize::B4096 };
                    contents.push(Content::Stamp(stamp));
                    ftl.write(SpanId::NONE, &spans, unit, &mut contents, false)
                        .await
                        .expect("it is of the drive");
                }
            }
            running.set(running.get() - 1);
        });
    }
    executor
        .run(async move {
            while running.get() > 0 {
                clock.sleep(Delay::from_ms(10)).await;
            }
        })
        .expect("nothing stands still");
}

fn placement(clock: &Clock) -> Placement {
    let site = Site::new(clock, 4, 1_000_000_000, Delay::from_ns(80), Rate::per_second(20_000_000_000));
    let cycles =
        Cycles::FREE.with(WorkKind::Translate, 200).with(WorkKind::Buffer, 200).with(WorkKind::Collect, 100);
    Placement::all_at(&site, cycles)
}

fn timing() -> Timing {
    Timing {
        read: vec![Delay::from_us(30), Delay::from_us(42)],
        program: vec![Delay::from_us(185)],
        erase: Delay::from_ms(3),
        channel: Rate::per_second(1_200_000_000),
        command: Delay::from_ns(100),
        ..Timing::default()
    }
}

struct Cpu(f64);

impl Cpu {
    fn now() -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Cpu(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
    }
    fn seconds(&self) -> f64 {
        Cpu::now().0 - self.0
    }
}

struct Snapshot {
    cpu: Cpu,
    polls: u64,
    timers: u64,
    allocations: u64,
}

impl Snapshot {
    fn new(clock: &Clock) -> Self {
        let counters = clock.counters();
        Snapshot {
            cpu: Cpu::now(),
            polls: counters.polls,
            timers: counters.timers,
            allocations: allocations(),
        }
    }

    fn print(&self, what: &str, count: u64, clock: &Clock) {
        let (seconds, counters) = (self.cpu.seconds(), clock.counters());
        let each = |total: u64| total as f64 / count as f64;
        println!(
            "{:.3} M {what}s a CPU-second, {:.0} ns each; {:.2} polls, {:.2} timers, {:.5} allocations",
            count as f64 / seconds / 1e6,
            seconds / count as f64 * 1e9,
            each(counters.polls - self.polls),
            each(counters.timers - self.timers),
            each(allocations() - self.allocations),
        );
    }
}

/// Allocations since the start of the program, including those that changed their size.
fn allocations() -> u64 {
    let stats = ALLOCATOR.stats();
    (stats.allocations + stats.reallocations) as u64
}

fn resident_mebibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0)
        / 1024
}
