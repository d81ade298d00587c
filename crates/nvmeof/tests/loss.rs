//! Loss of controllers and power cuts at any time during a remote host's I/O.

use crate::host::SUBSYSTEM;
use crate::simulated::{attach, client, connect};
use byteway_clock::{Clock, Delay, RunOutcome};
use byteway_content::BlockSize;
use byteway_host::{BaseState, Oracle};
use byteway_host::{Client, ClientConfig, Driver, DriverConfig, HostCosts, Method, Port, Rules};
use byteway_host::{Completion, QueueConfig};
use byteway_link::HostEnd;
use byteway_nvmeof::{
    BlockConfig, BlockCosts, BlockLayer, Ended, Path, PathConfig, Scheduler, Subsystem, SubsystemConfig,
    Target,
};
use byteway_testkit::SmallWorld;
use byteway_wire::fabrics::Nqn;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub const TASKS: u64 = 6;
const ROUNDS: u64 = 12;
/// Units that a task writes to.
pub const UNITS: u64 = 4;

/// A target in front of the drive at `host`, with or without a block layer.
pub async fn target(host: HostEnd, through_block_layer: bool) -> (Rc<Target>, Driver) {
    let config = DriverConfig { completion: Completion::Interrupt, ..DriverConfig::default() };
    let driver = Driver::attach(Port::Link(host), config).await.unwrap();
    let clock = driver.clock().clone();
    let block = through_block_layer.then(|| {
        let costs = BlockCosts { schedule: Delay::from_ns(300), ..BlockCosts::default() };
        let config = BlockConfig { costs, tags: 16, scheduler: Scheduler::Deadline, dispatched_max: 4 };
        BlockLayer::new(&clock, config)
    });
    let config = PathConfig { bytes_max: 32 << 10, commands_max: 64, ..PathConfig::default() };
    let processor = driver.cpu().clone();
    let path = Path::open_on(driver.clone(), config, &[processor], block).await.unwrap();
    let config = SubsystemConfig::new(Nqn::new(SUBSYSTEM).unwrap());
    (Target::new(vec![Subsystem::new(&clock, config, path)]), driver)
}

/// Writes, and flushes now and then, until all is done; a failed I/O is retried.
async fn write(clock: &Clock, client: &Client, done: &Cell<u64>) {
    let running = Rc::new(Cell::new(TASKS));
    for task in 0..TASKS {
        let (client, clock, running) = (client.clone(), clock.clone(), running.clone());
        clock.clone().spawn("writer", async move {
            let mut buffer = client.buffer().unwrap();
            let per_unit = u64::from(4096 / client.namespace().block_bytes);
            for round in 0..ROUNDS {
                let lba = (task * UNITS + round % UNITS) * per_unit;
                let units = 1 + round % 2 * (UNITS - round % UNITS - 1).min(2);
                let mut tries = 0;
                while let Err(error) = client.write(&mut buffer, lba, (units * per_unit) as u32).await {
                    tries += 1;
                    assert!(tries < 100, "{error}");
                    clock.timer(Delay::from_us(20)).await;
                }
                if round % 3 == 2 {
                    let _ = client.flush().await;
                }
                // Unreadable data must become readable.
                let read = client.read(&mut buffer, lba, (units * per_unit) as u32).await;
                if let Err(byteway_host::IoError::Client(wrong)) = read {
                    panic!("{wrong}");
                }
            }
            running.set(running.get() - 1);
        });
    }
    while running.get() > 0 {
        clock.timer(Delay::from_us(50)).await;
    }
    done.set(done.get() + 1);
}

/// Reads every unit that a task may have written, over the drive's own link.
pub async fn read_all(driver: &Driver, oracle: &Rc<RefCell<Oracle>>) {
    let queue = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
    let config = ClientConfig {
        rules: Rules::only(Method::Prp),
        bytes_max: 32 << 10,
        oracle: Some(oracle.clone()),
        verify_bytes: true,
    };
    let client = Client::new(queue, driver.namespaces()[0], config).unwrap();
    let per_unit = 4096 / driver.namespaces()[0].block_bytes;
    let mut buffer = client.buffer().unwrap();
    for unit in 0..TASKS * UNITS {
        client.read(&mut buffer, unit * u64::from(per_unit), per_unit).await.unwrap();
    }
}

pub fn oracle(driver: &Driver) -> Rc<RefCell<Oracle>> {
    let namespace = driver.namespaces()[0];
    let block = BlockSize::from_bytes(namespace.block_bytes.into()).unwrap();
    let oracle = Oracle::new(namespace.blocks, block, 1, BaseState::Zeroes);
    Rc::new(RefCell::new(oracle.with_power_cuts(false)))
}

// Without this a lost controller would leave its host waiting, or lose acknowledged writes: the host
// reconnects each time, and repeats lost commands.
#[test]
fn a_controller_may_be_lost_at_any_moment() {
    for moment in 0..60u64 {
        SmallWorld::default().run(async move |powered| {
            let (target, own) = target(powered.host.clone(), moment % 2 == 0).await;
            let clock = own.clock().clone();
            let (adapter, _served) = connect(&target, &clock, 1);
            let driver = attach(&adapter, HostCosts::default()).await;
            let oracle = oracle(&driver);
            let client = client(&driver, &oracle).await;
            let subsystem = target.subsystems()[0].clone();
            let losing = clock.clone();
            clock.spawn("loss", async move {
                // The second loss happens while the host reconnects, or soon after.
                for wait in [Delay::from_ns(3_700 * moment), Delay::from_ns(1_900 * (moment % 17))] {
                    losing.timer(Delay::from_us(3) + wait).await;
                    subsystem.controllers().iter().for_each(|controller| controller.end(Ended::Stopped));
                }
            });
            let done = Cell::new(0);
            write(&clock, &client, &done).await;
            assert_eq!(done.get(), 1);
            assert!(driver.resets() > 0, "loss {moment} came too late");
            read_all(&own, &oracle).await;
        });
    }
}

// Without this a power cut during a remote host's commands could lose acknowledged flushes, or restore
// overwritten data.
#[test]
fn the_power_may_be_cut_at_any_event() {
    let (mut cuts, mut polls) = (0, 400);
    loop {
        let kept: Rc<RefCell<Option<Rc<RefCell<Oracle>>>>> = Rc::default();
        let keeping = kept.clone();
        let (ran, medium) = SmallWorld::default().run_cut(polls, async move |host| {
            let (target, own) = target(host, polls % 2 == 0).await;
            let clock = own.clock().clone();
            let (adapter, _served) = connect(&target, &clock, 1);
            let driver = attach(&adapter, HostCosts::default()).await;
            let oracle = oracle(&driver);
            keeping.replace(Some(oracle.clone()));
            let client = client(&driver, &oracle).await;
            write(&clock, &client, &Cell::new(0)).await;
        });
        if let Some(oracle) = kept.take() {
            oracle.borrow_mut().cut_power();
            SmallWorld { medium: Some(medium), ..SmallWorld::default() }
                .run_driven(DriverConfig::default(), async move |driver, _| read_all(&driver, &oracle).await);
            cuts += 1;
        }
        if matches!(ran, RunOutcome::Ended(_)) {
            break;
        }
        polls += 61;
    }
    assert!(cuts > 50, "{cuts} cuts");
}
