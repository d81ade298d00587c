//! The same driver over shared memory, polled, in real time: the two sides have a mapping each of one file.

use crate::fake::{BLOCKS, Fake, link_config};
use byteway_clock::{Channel, Delay, Executor, Timing};
use byteway_host::{
    BaseState, Client, ClientConfig, Completion, Driver, DriverConfig, HostCosts, Method, Oracle, Port,
    QueueConfig,
};
use byteway_link::memory::Mapped;
use byteway_link::{Bar, DeviceEnd, Link, Memory, MmioWrite, SharedBar};
use byteway_wire::content::BlockSize;
use byteway_wire::nvme::register;
use std::cell::RefCell;
use std::rc::Rc;

const BASE: u64 = 0x10_0000_0000;
const BYTES: u64 = 16 << 20;
const BAR_PAGES: usize = 3;
const BAR_WORDS: usize = BAR_PAGES * 1024;

/// Looks for what the driver has stored, as the process that serves a drive does.
async fn serve(bar: SharedBar, end: DeviceEnd, fake: Rc<Fake>, registers: Rc<dyn Bar>) {
    let mut last = None;
    loop {
        for offset in [register::CAP, register::CAP + 4, register::VS] {
            let value = registers.read(offset & !4, 8) >> (8 * (offset & 4));
            bar.publish(offset, value as u32);
        }
        let mut changed = Vec::new();
        bar.poll(0..BAR_WORDS, |offset, value| changed.push((offset, value)));
        // What a controller is enabled with was stored before CC was, but may have been looked at before.
        changed.sort_by_key(|(offset, _)| *offset == register::CC);
        for (offset, value) in changed {
            end.deliver(MmioWrite { offset, value: u64::from(value), bytes: 4 });
        }
        fake.clock_yield().await;
        let csts = fake.csts();
        if last != Some(csts) {
            last = Some(csts);
            if !csts.rdy() {
                (register::DOORBELLS / 4..BAR_WORDS as u64).for_each(|word| bar.publish(word * 4, 0));
            }
            bar.publish(register::CSTS, csts.into_bits());
        }
    }
}

// A driver in another process sees only memory: no wake-up, no interrupt, entries that appear word by word.
#[test]
fn io_over_shared_memory_verifies() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(BYTES).unwrap();
    let memory = || Memory::mapped(Mapped::new(&file, BASE, BYTES).unwrap());
    let (ours, theirs) = (memory(), memory());
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let bar_address = ours.allocate(BAR_PAGES).unwrap();
    let (_host, device) = Link::connect(&clock, link_config(), theirs.clone());
    let fake = Fake::new(&clock, device.clone());
    let registers = fake.registers();
    let bar = SharedBar::new(theirs, bar_address, BAR_WORDS);
    clock.spawn("serve", serve(bar, device, fake.clone(), registers));
    let port = Port::shared(SharedBar::new(ours.clone(), bar_address, BAR_WORDS), ours, &clock);
    let test_clock = clock.clone();
    let test = async move {
        let clock = test_clock;
        while port.read64(register::CAP).await == 0 {
            clock.yield_now().await;
        }
        let costs = HostCosts { submit: Delay::from_ns(100), ..HostCosts::default() };
        let completion = Completion::Interrupt; // there is none here: it polls
        let config =
            DriverConfig { costs, completion, ready_period: Delay::from_us(1), ..DriverConfig::default() };
        let driver = Driver::attach(port.clone(), config).await.unwrap();
        let mut config = QueueConfig::new(16);
        config.vector = Some(1);
        let queue = driver.create_queue_pair(config).await.unwrap();
        let oracle = Rc::new(RefCell::new(Oracle::new(BLOCKS, BlockSize::B512, 9, BaseState::Zeroes)));
        let config = ClientConfig { method: Method::Prp, bytes_max: 16384, oracle: Some(oracle.clone()) };
        let client = Client::new(queue.clone(), driver.namespaces()[0], config).unwrap();
        for round in 0..3 {
            let done = Channel::unbounded(&clock);
            for worker in 0..8_u64 {
                let (client, done) = (client.clone(), done.clone());
                let mut buffer = client.buffer().unwrap();
                clock.spawn("worker", async move {
                    for step in 0..100 {
                        let lba = worker * 31 + step % 40;
                        client.write(&mut buffer, lba, 9).await.unwrap();
                        let record = client.read(&mut buffer, lba + 2, 5).await.unwrap();
                        assert!(record.last >= record.begin);
                    }
                    done.send(()).await;
                });
            }
            for _ in 0..8 {
                done.receive().await;
            }
            if round < 2 {
                driver.reset().await.unwrap();
            }
        }
        assert_eq!((driver.protocol_errors(), driver.resets()), (0, 2));
        assert!(oracle.borrow().verified_blocks() == 3 * 8 * 100 * 5);
        driver.delete_queue_pair(&queue).await.unwrap();
    };
    executor.run_real(Timing::None, None, test).unwrap();
}
