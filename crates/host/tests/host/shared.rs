//! The same driver over shared memory, polled, in real time: each side has its own mapping of one file.

use crate::fake::{BLOCKS, Fake};
use byteway_clock::{Channel, Delay, Executor, Timing};
use byteway_content::BlockSize;
use byteway_host::{
    BaseState, Client, ClientConfig, Completion, Driver, DriverConfig, HostCosts, Method, Oracle, Port,
    QueueConfig, Registers, Rules,
};
use byteway_link::memory::Mapped;
use byteway_link::{Bar, DeviceEnd, Link, Memory, MmioWrite};
use byteway_testkit::link_config;
use std::cell::RefCell;
use std::rc::Rc;

const BASE: u64 = 0x10_0000_0000;
const BYTES: u64 = 16 << 20;
/// Actions of a drive's process on its client's requests.
struct Served {
    end: DeviceEnd,
    registers: Rc<dyn Bar>,
}

impl Registers for Served {
    fn read(&self, offset: u64, bytes: u32) -> u64 {
        self.registers.read(offset, bytes)
    }

    fn write(&self, offset: u64, value: u64, bytes: u32) {
        self.end.deliver(MmioWrite { offset, value, bytes });
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        self.registers.store(offset, bytes);
    }
}

// A driver in another process sees only memory: no wake-up, no interrupt, and entries that appear word by word.
#[test]
fn io_over_shared_memory_verifies() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(BYTES).unwrap();
    let memory = || Memory::mapped(Mapped::new(&file, BASE, BYTES).unwrap());
    let (ours, theirs) = (memory(), memory());
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let (_host, device) = Link::connect(&clock, link_config(), theirs);
    let fake = Fake::new(&clock, device.clone());
    let served = Served { end: device, registers: fake.registers() };
    let port = Port::shared(Box::new(served), None, ours, &clock);
    let test_clock = clock.clone();
    let test = async move {
        let clock = test_clock;
        let costs = HostCosts { submit: Delay::from_ns(100), ..HostCosts::default() };
        let completion = Completion::Interrupt; // without interrupts it polls
        let config =
            DriverConfig { costs, completion, ready_period: Delay::from_us(1), ..DriverConfig::default() };
        let driver = Driver::attach(port.clone(), config).await.unwrap();
        let mut config = QueueConfig::new(16);
        config.vector = Some(1);
        let queue = driver.create_queue_pair(config).await.unwrap();
        let oracle = Rc::new(RefCell::new(Oracle::new(BLOCKS, BlockSize::B512, 9, BaseState::Zeroes)));
        let config = ClientConfig {
            rules: Rules::only(Method::Prp),
            bytes_max: 16384,
            oracle: Some(oracle.clone()),
            verify_bytes: false,
        };
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
