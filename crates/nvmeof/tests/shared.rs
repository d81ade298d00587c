//! Local and remote commands on one queue pair of a drive: command identifiers determine the owner of a
//! completion.

use crate::host::SUBSYSTEM;
use crate::simulated::{attach, client, connect};
use byteway_clock::Delay;
use byteway_content::BlockSize;
use byteway_host::Completion;
use byteway_host::{BaseState, Oracle};
use byteway_host::{Client, ClientConfig, Driver, DriverConfig, HostCosts, Method, Port, Rules};
use byteway_nvmeof::{Path, PathConfig, Subsystem, SubsystemConfig, Target};
use byteway_testkit::SmallWorld;
use byteway_wire::fabrics::Nqn;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const ROUNDS: u64 = 40;
const TASKS: u64 = 8;

/// The result of a run.
#[derive(Debug, Default, PartialEq)]
struct IoCounts {
    /// I/Os of both sides that completed correctly.
    good: u64,
    /// Reads of foreign data, failed or incomplete commands, unexpected completions.
    wrong: u64,
}

/// A host over a network and a local application of the target on one queue pair, each on its half of the
/// blocks: both write, read and compare.
fn side_by_side(first_identifier: Option<u16>, resets: u32) -> IoCounts {
    let driven = DriverConfig { completion: Completion::Interrupt, ..DriverConfig::default() };
    SmallWorld::default().run(async move |powered| {
        let driver = Driver::attach(Port::Link(powered.host.clone()), driven).await.unwrap();
        let clock = driver.clock().clone();
        let config = PathConfig {
            bytes_max: 32 << 10,
            commands_max: 64,
            local_max: 16,
            first_identifier,
            ..PathConfig::default()
        };
        let processor = driver.cpu().clone();
        let path = Path::open_on(driver.clone(), config, &[processor], None).await.unwrap();
        let local = path.local_queue(0);
        let config = SubsystemConfig::new(Nqn::new(SUBSYSTEM).unwrap());
        let target = Target::new(vec![Subsystem::new(&clock, config, path)]);
        let (adapter, _served) = connect(&target, &clock, 1);
        let host = attach(&adapter, HostCosts::default()).await;
        let namespace = driver.namespaces()[0];
        let block = BlockSize::from_bytes(namespace.block_bytes.into()).unwrap();
        let oracle = Rc::new(RefCell::new(Oracle::new(namespace.blocks, block, 1, BaseState::Zeroes)));
        let config = ClientConfig {
            rules: Rules::only(Method::Prp),
            bytes_max: 32 << 10,
            oracle: Some(oracle.clone()),
            verify_bytes: true,
        };
        let local = Client::new(local, namespace, config).unwrap();
        let remote = client(&host, &oracle).await;
        let found: Rc<(Cell<u64>, Cell<u64>)> = Rc::default();
        let running = Rc::new(Cell::new(2 * TASKS));
        for (side, client) in [local, remote].into_iter().enumerate() {
            for task in 0..TASKS {
                let (client, found, running) = (client.clone(), found.clone(), running.clone());
                clock.spawn("client", async move {
                    let mut buffer = client.buffer().unwrap();
                    for round in 0..ROUNDS {
                        let lba = (side as u64 * TASKS + task) * 8 + round % 8;
                        let written = client.write(&mut buffer, lba, 1).await;
                        let read = client.read(&mut buffer, lba, 1).await;
                        for result in [written, read] {
                            let count = if result.is_ok() { &found.0 } else { &found.1 };
                            count.set(count.get() + 1);
                        }
                    }
                    running.set(running.get() - 1);
                });
            }
        }
        for _ in 0..resets {
            clock.timer(Delay::from_us(300)).await;
            driver.reset().await.unwrap();
        }
        let mut looks = 0;
        while running.get() > 0 {
            clock.timer(Delay::from_ms(1)).await;
            looks += 1;
            if looks > 10_000 {
                break; // the other side has received the completion of this command
            }
        }
        let contradictions = driver.protocol_errors();
        IoCounts { good: found.0.get(), wrong: found.1.get() + running.get() + contradictions }
    })
}

// Light-weight NVMe-oF, section 4: a completion goes to the submitter of its command.
#[test]
fn a_local_and_a_remote_completion_never_change_places() {
    let found = side_by_side(None, 0);
    assert_eq!(found, IoCounts { good: 2 * 2 * TASKS * ROUNDS, wrong: 0 });
}

// The canary: remote commands with identifiers in the block layer's range, to show that the test above can
// fail.
#[test]
fn identifiers_of_the_same_range_are_found() {
    let found = side_by_side(Some(0), 0);
    assert!(found.wrong > 0, "{found:?}");
}

// Without this a reset of the drive with outstanding commands of both sides would leave one side waiting, or
// give it the other's completion: lost commands are errors, and no acknowledged data is lost.
#[test]
fn resets_with_both_kinds_outstanding_lose_nothing_that_was_acknowledged() {
    let found = side_by_side(None, 3);
    assert_eq!(found.good + found.wrong, 2 * 2 * TASKS * ROUNDS);
    assert!(found.wrong > 0 && found.wrong <= 3 * 2 * TASKS, "{found:?}");
}
