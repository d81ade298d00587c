use byteway_clock::*;
use byteway_device::*;
use byteway_firmware::*;
use byteway_flash::{Geometry, Timing};
use byteway_host::*;
use byteway_link::*;
use byteway_wire::content::*;
use byteway_wire::nvme::*;
use std::cell::Cell;
use std::rc::Rc;
fn main() {
    let n: u64 = std::env::args().nth(1).map_or(1_000_000, |a| a.parse().unwrap());
    let ex = Executor::new();
    let clock = ex.clock().clone();
    let memory = Memory::simulated();
    let pc = PcieConfig {
        generation: Generation::Gen3,
        lanes: 4,
        mps: 256,
        mrrs: 512,
        rcb: 64,
        read_tags: 64,
        propagation: Delay::from_ns(200),
        memory_latency: Delay::from_ns(150),
        slowdown: 1,
    };
    let (h, d) = Link::connect(&clock, pc, memory.clone());
    let blocks = 4400;
    let cfg = DriveConfig {
        model: "x".into(),
        serial: "y".into(),
        controller: ControllerConfig {
            io_queues_max: 8,
            queue_entries_max: 1024,
            command_slots: 256,
            fetch_outstanding: 8,
            fetch_burst: 8,
            transfer_bytes_max: 131072,
            dma_granularity: 1,
            dstrd: 0,
            sgl: false,
            vectors: 8,
            arbitration_burst: 8,
            ready_delay: Delay::from_us(1),
            read_pipeline: Delay::ZERO,
            read_large_pipeline: Delay::ZERO,
            write_pipeline: Delay::ZERO,
        },
        site: SiteConfig {
            cores: 5,
            hertz: 1_000_000_000,
            cycles: Cycles::default()
                .with(Work::Fetch, 300)
                .with(Work::Parse, 600)
                .with(Work::Translate, 60)
                .with(Work::Complete, 500),
            dram_latency: Delay::from_ns(80),
            dram_rate: Rate::per_second(12_800_000_000),
        },
        geometry: Geometry { channels: 8, ways: 2, planes: 1, blocks, pages: 256, page_bytes: 32768 },
        timing: Timing {
            read: vec![Delay::from_us(30)],
            partial_read: None,
            program: vec![Delay::from_us(185)],
            erase: Delay::from_us(3800),
            channel: Rate::per_second(800_000_000),
            command: Delay::ZERO,
        },
        endurance_erases: 3000,
        ftl: FtlPolicy {
            write_buffer_bytes: 1 << 20,
            victim: Victim::Greedy,
            collect_start_blocks: 4,
            collect_reserve_blocks: 1,
            power_loss_protection: false,
        },
        namespaces: vec![NamespaceConfig { units: 1 << 27, block: BlockSize::B4096 }],
        base: Base::Filled,
        keep: Keep::Stamps,
        seed: 1,
    };
    let _drive = Drive::new(&d, cfg).unwrap();
    let done = Rc::new(Cell::new(0u64));
    let c2 = clock.clone();
    let t = ex
        .run(async move {
            let clock = c2;
            let driver = Driver::attach(Port::Link(h.clone()), DriverConfig::default()).await.unwrap();
            let qp = driver.create_queue_pair(QueueConfig::new(256)).await.unwrap();
            let end = Rc::new(Notify::new(&clock));
            let c0 = clock.counters();
            for i in 0..64u64 {
                let (qp, done, end, memory, _c) =
                    (qp.clone(), done.clone(), end.clone(), memory.clone(), clock.clone());
                clock.spawn("w", async move {
                    let mut s = byteway_clock::random::Rng::new(1).stream(&format!("w{i}"));
                    let page = memory.allocate(1).unwrap();
                    while done.get() < n {
                        done.set(done.get() + 1);
                        let lba = s.below(1 << 27);
                        let span = qp.port().spans().unwrap().open(_c.now());
                        let sqe = ReadWrite { slba: lba, ..Default::default() }
                            .sqe(NvmOpcode::READ, 0, 1)
                            .with_prp(page, 0);
                        let cqe = qp.execute(Request { sqe, span, pages: 1, patient: false }).await.unwrap();
                        assert!(cqe.status().is_success(), "{:?}", cqe.status());
                        qp.port().spans().unwrap().close(span);
                        let ok = memory
                            .with(page, 4096, |b| {
                                Stamp { lba, version: 0, tag: 1, block: BlockSize::B4096 }.matches(b)
                            })
                            .unwrap();
                        assert!(ok);
                    }
                    end.notify_one();
                });
            }
            for _ in 0..64 {
                end.notified().await;
            }
            let c1 = clock.counters();
            println!(
                "polls {} timers {}",
                (c1.polls - c0.polls) as f64 / n as f64,
                (c1.timers - c0.timers) as f64 / n as f64
            );
            clock.now()
        })
        .unwrap();
    println!("virtual {t}, iops {}", n as f64 / (t.0 as f64 / 1e12));
}
