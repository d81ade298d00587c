//! A drive whose firmware runs on the host.
//!
//! Verified: the contents equal those of the same drive with firmware of its own, after any operations; flushed data
//! survives power cuts at any poll, including during attach, and stays the same; work runs on the processors where it
//! is placed, one command at a time with a lock; endpoints share the switch; invalid configurations are refused.

use crate::fixture::{BLOCKS, PROCESSORS, clients, drive, hosted, processors};
use byteway_assembly::{Hosted, HostedConfig};
use byteway_clock::random::Rng;
use byteway_clock::{Delay, Executor, RunOutcome};
use byteway_content::BlockSize;
use byteway_flash::Medium;
use byteway_host::{BaseState, Client, IoBuffer, Oracle};
use byteway_testkit::ask;
use byteway_world::PoweredDrive;
use std::cell::RefCell;
use std::rc::Rc;

type Truth = Rc<RefCell<Oracle>>;

fn truth() -> Truth {
    let oracle = Oracle::new(BLOCKS, BlockSize::B512, 1, BaseState::Zeroes);
    Rc::new(RefCell::new(oracle.with_power_cuts(false)))
}

/// Reads everything, each block verified.
async fn look(client: &Client, buffer: &mut IoBuffer) {
    for lba in (0..BLOCKS).step_by(128) {
        client.read(buffer, lba, 128).await.unwrap();
    }
}

// The location of the firmware must not change what is stored: the same commands, against one oracle, on the drive's
// cores and on the host's, with one endpoint and with four.
#[test]
fn the_same_commands_leave_the_same_bytes() {
    let commands = |powered: PoweredDrive| async move {
        let truth = truth();
        let clients = clients(powered.host.clone(), &truth, 1).await;
        let mut buffer = clients[0].buffer().unwrap();
        let mut stream = Rng::new(7).stream("commands");
        for _ in 0..2500 {
            ask(&clients[0], &mut buffer, &mut stream, BLOCKS).await;
        }
        clients[0].flush().await.unwrap();
        let mut held = Vec::new();
        let mut bytes = vec![0; 64 << 10];
        for lba in (0..BLOCKS).step_by(128) {
            clients[0].read(&mut buffer, lba, 128).await.unwrap();
            clients[0].get(&buffer, &mut bytes).unwrap();
            held.push(crc32(&bytes));
        }
        powered.balance().unwrap();
        (held, powered.drive.controller.ftl().counters().blocks_collected)
    };
    let own = byteway_testkit::SmallWorld::of(drive()).run(commands);
    for endpoints in [1, 2, 4] {
        let executor = Executor::new();
        let placed =
            Hosted::power_on(executor.clock(), hosted(endpoints), &processors(&executor), None).unwrap();
        let (held, collected) =
            executor.run(async move { commands(placed.attach().await.unwrap()).await }).unwrap();
        assert!(held == own.0, "{endpoints} endpoints hold something else");
        assert!(collected > 0 && own.1 > 0, "nothing was collected: {collected}, {}", own.1);
    }
}

// A run may end at any instant, and endpoints transfer data in the background: data that has left them but not arrived
// made the books of a long run appear unbalanced.
#[test]
fn the_books_of_endpoints_balance_at_any_instant() {
    let executor = Executor::new();
    let placed = Hosted::power_on(executor.clock(), hosted(2), &processors(&executor), None).unwrap();
    let clock = executor.clock().clone();
    let under_way = executor
        .run(async move {
            let powered = placed.attach().await.unwrap();
            let clients = clients(powered.host.clone(), &truth(), 1).await;
            let ends = powered.behind.iter().map(|endpoint| endpoint.host.clone()).collect::<Vec<_>>();
            clock.spawn("work", async move {
                let mut buffer = clients[0].buffer().unwrap();
                let mut stream = Rng::new(5).stream("commands");
                loop {
                    ask(&clients[0], &mut buffer, &mut stream, BLOCKS).await;
                }
            });
            let mut under_way = 0;
            for _ in 0..20_000 {
                clock.sleep(Delay::from_ns(997)).await;
                powered.behind.iter().for_each(|endpoint| endpoint.balance_memory().unwrap());
                under_way += u64::from(ends.iter().any(|end| end.bytes_in_flight() > 0));
            }
            under_way
        })
        .unwrap();
    assert!(under_way > 10, "{under_way} instants with writes in flight");
}

/// A checksum that distinguishes contents.
fn crc32(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// One power-on of the drive: attach, verify, work, until the power is cut before poll `polls`. Returns whether it
/// started to work.
fn life(media: Vec<Medium>, truth: &Truth, seed: u64, polls: u64) -> (bool, Vec<Medium>) {
    let executor = Executor::new();
    let placed = Hosted::power_on(executor.clock(), hosted(2), &processors(&executor), Some(media)).unwrap();
    let drives: Vec<_> = placed.drives().cloned().collect();
    let truth = truth.clone();
    let worked = Rc::new(RefCell::new(false));
    let working = worked.clone();
    let ran = executor.run_cut(
        async move {
            let powered = placed.attach().await.unwrap();
            let clients = clients(powered.host.clone(), &truth, 1).await;
            let mut buffer = clients[0].buffer().unwrap();
            look(&clients[0], &mut buffer).await;
            working.replace(true);
            let mut stream = Rng::new(seed).stream("commands");
            loop {
                ask(&clients[0], &mut buffer, &mut stream, BLOCKS).await;
            }
        },
        polls,
    );
    assert!(matches!(ran, Ok(RunOutcome::<()>::Cut)));
    let media = drives.iter().map(|drive| drive.power_off().unwrap()).collect();
    let worked = *worked.borrow();
    (worked, media)
}

// The map is in the host's DRAM, and lost with its power: without the spare areas all data would be lost.
#[test]
fn what_was_flushed_is_there_after_power_cuts() {
    let mut stream = Rng::new(11).stream("cuts");
    let (mut working, mut attaching) = (0, 0);
    for seed in 0..12 {
        let (mut media, truth) = (hosted(2).media().unwrap(), truth());
        for cut in 0..6 {
            let polls =
                if stream.chance(0.4) { stream.below(30_000) } else { 30_000 + stream.below(150_000) };
            let (worked, left) = life(media, &truth, seed * 100 + cut, polls);
            truth.borrow_mut().cut_power();
            media = left;
            *if worked { &mut working } else { &mut attaching } += 1;
        }
    }
    assert!(working > 10 && attaching > 10, "{working} cuts while it worked, {attaching} before");
}

// Firmware on the host must use the processors that applications run on, or its cost would not show.
#[test]
fn a_commands_work_is_done_on_the_processor_of_its_queue() {
    let executor = Executor::new();
    let processors = processors(&executor);
    let placed = Hosted::power_on(executor.clock(), hosted(2), &processors, None).unwrap();
    let busy = move |of: usize| processors[of].busy();
    executor
        .run(async move {
            let powered = placed.attach().await.unwrap();
            let truth = truth();
            let clients = clients(powered.host.clone(), &truth, 3).await;
            for (number, client) in clients.iter().enumerate() {
                let mut buffer = client.buffer().unwrap();
                let before: Vec<Delay> = (0..PROCESSORS).map(&busy).collect();
                for _ in 0..5 {
                    client.write(&mut buffer, number as u64 * 64, 8).await.unwrap();
                }
                let spent = |of: usize| busy(of).saturating_sub(before[of]);
                // Buffering and translating a unit: 5,000 cycles at 1 GHz.
                assert_eq!(spent(number), Delay::from_us(25), "queue {number}");
                let others = (0..PROCESSORS - 1).filter(|of| *of != number);
                others.for_each(|of| assert_eq!(spent(of), Delay::ZERO, "queue {number} at {of}"));
            }
            // Programs and their interrupts use the home processor.
            let home = busy(PROCESSORS - 1);
            clients[0].flush().await.unwrap();
            assert!(busy(PROCESSORS - 1) > home);
        })
        .unwrap();
}

// With one lock four processors do no more than one can, except for work outside of it.
#[test]
fn a_lock_lets_one_command_at_a_time_through() {
    let elapsed = |is_locked: bool| {
        let executor = Executor::new();
        let config = HostedConfig { is_locked, ..hosted(2) };
        let placed = Hosted::power_on(executor.clock(), config, &processors(&executor), None).unwrap();
        let clock = executor.clock().clone();
        executor
            .run(async move {
                let powered = placed.attach().await.unwrap();
                let truth = truth();
                let clients = clients(powered.host.clone(), &truth, 3).await;
                let begun = clock.now();
                let left = Rc::new(RefCell::new(clients.len()));
                for (number, client) in clients.into_iter().enumerate() {
                    let left = left.clone();
                    clock.spawn("client", async move {
                        let mut buffer = client.buffer().unwrap();
                        for at in 0..10 {
                            client.write(&mut buffer, (number as u64 * 100 + at) * 8, 8).await.unwrap();
                        }
                        *left.borrow_mut() -= 1;
                    });
                }
                while *left.borrow() > 0 {
                    clock.sleep(Delay::from_us(1)).await;
                }
                clock.now().since(begun)
            })
            .unwrap()
    };
    let (with, without) = (elapsed(true), elapsed(false));
    assert!(with >= Delay::from_us(30 * 5), "thirty writes of 5 us each, one at a time: {with}");
    assert!(without < Delay::from_us(10 * 7), "ten writes of 5 us each on each processor: {without}");
}

// Configurations come from files: an invalid one must be an error that says what would be right.
#[test]
fn what_cannot_be_is_refused() {
    let refused = |change: &dyn Fn(&mut HostedConfig), words: &str| {
        let mut config = hosted(2);
        change(&mut config);
        let executor = Executor::new();
        let error = Hosted::power_on(executor.clock(), config, &processors(&executor), None).err().unwrap();
        assert!(error.message.contains(words), "{error}");
    };
    refused(&|config| config.endpoints = 3, "multiple of endpoints");
    refused(&|config| config.endpoints = 0, "multiple of endpoints");
    refused(&|config| config.lanes = 0, "lanes");
    refused(&|config| config.drive.base = byteway_firmware::Base::Filled, "empty at first");
    refused(&|config| config.drive.ftl.plp = true, "plp = false");
    let executor = Executor::new();
    let error = Hosted::power_on(executor.clock(), hosted(2), &[], None).err().unwrap();
    assert!(error.message.contains("no processor"), "{error}");
}
