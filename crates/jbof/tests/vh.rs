//! A JBOF of virtual drives: a hypervisor redirects a busy drive's writes to the spare space of idle ones.
//!
//! Verified: tenants read what they wrote last, against an oracle each, while lenders come and go during all kinds of
//! commands; everything is copied back; nothing is copied if that is not configured; flash writes match the figures; a busy
//! drive does more with a lender; parts of a command go where their data is; writes go home when a lender is unplugged;
//! no tenant reaches others' data; the cost of managing commands; reproducibility.
//!
//! Not verified: a power loss of the host or of a lender with data at lenders, which virtual drives do not cover; that
//! space is not reused during a read (the lock is tested separately), because a drive executes a queue's commands in
//! order.

use crate::fixture::{BLOCKS, PERIOD, Users, at_rest, client, jbof_config, mixed, run_jbof};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay};
use byteway_content::BlockSize;
use byteway_device::{DriveConfig, NamespaceConfig};
use byteway_host::{
    BaseState, Client, ClientConfig, IoError, Lost, Method, Oracle, QueueConfig, Rules, VirtualFigures,
};
use byteway_jbof::{Copyback, HostConfig, Jbof, JbofConfig, JbofError, Platform, VirtualConfig};
use byteway_testkit::{NS_512_UNITS, drive_config};
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Status};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const SPARE: u64 = 2048;
/// Blocks of a unit.
const UNIT: u32 = 8;

/// Drives that collect some superblock at any time.
fn drives(count: usize) -> Vec<DriveConfig> {
    let namespaces = vec![NamespaceConfig::blocks(NS_512_UNITS, BlockSize::B512)];
    let geometry = byteway_flash::Geometry { blocks: 12, ..drive_config().geometry };
    let drive = |number: usize| DriveConfig {
        serial: format!("JBOF{number}"),
        seed: 7 + number as u64,
        namespaces: namespaces.clone(),
        geometry,
        ..drive_config()
    };
    (0..count).map(drive).collect()
}

fn free(copyback: Copyback) -> VirtualConfig {
    let (command, lock) = (Delay::ZERO, Delay::ZERO);
    VirtualConfig { period: PERIOD, busy: 4.0, command, lock, ..VirtualConfig::new(copyback, SPARE) }
}

fn run_on<T: 'static>(
    count: usize,
    platform: Platform,
    host: HostConfig,
    test: impl AsyncFnOnce(Clock, Rc<Jbof>) -> T + 'static,
) -> T {
    run_with(drives(count), platform, host, test)
}

fn run_with<T: 'static>(
    drives: Vec<DriveConfig>,
    platform: Platform,
    host: HostConfig,
    test: impl AsyncFnOnce(Clock, Rc<Jbof>) -> T + 'static,
) -> T {
    let config = JbofConfig { platform, host, ..jbof_config(drives.len()) };
    run_jbof(config, drives, test)
}

fn run<T: 'static>(
    count: usize,
    config: VirtualConfig,
    test: impl AsyncFnOnce(Clock, Rc<Jbof>) -> T + 'static,
) -> T {
    run_on(count, Platform::Virtual(config), HostConfig::default(), test)
}

fn figures(jbof: &Jbof, drive: usize) -> VirtualFigures {
    jbof.virtual_drive(drive).unwrap().figures()
}

/// Writes whole units at random addresses.
async fn write(client: &Client, stream: &mut Stream) {
    let mut buffer = client.buffer().unwrap();
    client.write(&mut buffer, stream.below(BLOCKS / 32) * 32, 32).await.unwrap();
}

/// Reads everything, each block verified.
async fn look(client: &Client) {
    let mut buffer = client.buffer().unwrap();
    for lba in (0..BLOCKS).step_by(128) {
        client.read(&mut buffer, lba, 128).await.unwrap();
    }
}

async fn all_home(jbof: &Jbof) {
    for drive in 0..jbof.len() {
        jbof.virtual_drive(drive).unwrap().came_home().await;
    }
}

// Bursts make drives lend and be reclaimed with commands of every kind in flight, including parts of units. A wrong
// edge in the map, space reused too early, or a copy that overtakes a write: each shows as old data or another
// tenant's.
#[test]
fn tenants_read_what_they_wrote_while_lenders_come_and_go() {
    let once = |copyback| {
        run(4, free(copyback), async move |clock, jbof| {
            let mut stream = Rng::new(5).stream("bursts");
            let (mut all, mut clients) = (Vec::new(), Vec::new());
            for drive in 0..4 {
                clients.push(client(&jbof, drive).await);
            }
            for burst in 0..24 {
                // Often two at once, which need the same lenders.
                let first = Users::of(&clock, clients[stream.below(4) as usize].clone(), burst, 12, mixed);
                let second =
                    Users::of(&clock, clients[stream.below(4) as usize].clone(), burst + 100, 8, write);
                clock.sleep(PERIOD * (1 + stream.below(6))).await;
                first.end(&clock).await;
                clock.sleep(PERIOD * stream.below(3)).await;
                second.end(&clock).await;
                all.push(first.done.get() + second.done.get());
            }
            for client in &clients {
                look(client).await;
            }
            if copyback == Copyback::Copied {
                all_home(&jbof).await;
                for client in &clients {
                    look(client).await;
                }
            }
            at_rest(&clock, &jbof).await;
            let figures: Vec<_> = (0..4).map(|drive| figures(&jbof, drive)).collect();
            let away: u64 = (0..4).map(|drive| jbof.virtual_drive(drive).unwrap().away()).sum();
            assert!((0..4).all(|drive| jbof.virtual_drive(drive).unwrap().is_quiet()));
            (all, figures, away, clock.now())
        })
    };
    for copyback in [Copyback::Copied, Copyback::Kept] {
        let first = once(copyback);
        let sum = |of: fn(&VirtualFigures) -> u64| first.1.iter().map(of).sum::<u64>();
        let seen = [
            sum(|it| it.redirected),
            sum(|it| it.split),
            sum(|it| it.reads_at_lenders),
            sum(|it| it.units_copied),
        ];
        assert!(seen[0] > 1000 && seen[1] > 50 && seen[2] > 20, "{copyback:?}: {seen:?}");
        match copyback {
            Copyback::Copied => assert!(seen[3] > 1000 && first.2 == 0, "{seen:?}, {} away", first.2),
            Copyback::Kept => assert!(seen[3] == 0 && first.2 > 100, "{seen:?}, {} away", first.2),
        }
        assert_eq!(first, once(copyback), "the same again");
    }
}

// A drive limited by its flash writes more with another's. The cost: each copied unit is written twice, at the lender
// and at home, or the reported wear would be too low.
#[test]
fn a_busy_drive_writes_more_with_a_lender_and_pays_for_it_later() {
    let measured = |platform: Platform| {
        let copies = matches!(&platform, Platform::Virtual(it) if it.copyback == Copyback::Copied);
        run_on(2, platform, HostConfig::default(), async move |clock, jbof| {
            let users = Users::begin(&clock, &jbof, 0, 12, write).await;
            clock.sleep(PERIOD * 4).await;
            let rate = users.rate(&clock, PERIOD * 12).await;
            users.end(&clock).await;
            if copies {
                all_home(&jbof).await;
            }
            at_rest(&clock, &jbof).await;
            let written = |drive: usize| {
                jbof.drive(drive).unwrap().drive.controller.ftl().counters().user_units_written
            };
            let own = jbof.virtual_drive(0).map(|own| own.figures());
            (rate, users.done.get() * 4, [written(0), written(1)], own)
        })
    };
    let (alone, ..) = measured(Platform::Alone);
    let (ideal, units, written, own) = measured(Platform::Virtual(free(Copyback::Kept)));
    let own = own.unwrap();
    println!("{alone} writes of 16 KiB alone, {ideal} with a lender; {own:?}");
    assert!(ideal as f64 > 1.3 * alone as f64, "{ideal} with a lender, {alone} alone");
    assert_eq!(written, [units - own.units_redirected, own.units_redirected]);
    let (_, units, written, own) = measured(Platform::Virtual(free(Copyback::Copied)));
    let own = own.unwrap();
    assert!(own.units_copied > 500 && own.units_copied <= own.units_redirected, "{own:?}");
    println!("{units} units written by the tenant, {written:?} at the drives; {own:?}");
    let home = units - own.units_redirected + own.units_copied;
    assert_eq!(written, [home, own.units_redirected], "{own:?}");
}

// A lender with a busy tenant belongs to its tenant again: nothing more goes there from the next period on.
#[test]
fn a_lender_that_is_needed_is_reclaimed() {
    run(2, free(Copyback::Copied), async |clock, jbof| {
        let borrower = Users::begin(&clock, &jbof, 0, 12, write).await;
        clock.sleep(PERIOD * 4).await;
        assert_eq!(jbof.lends_to(1), Some(0));
        let own = Users::begin(&clock, &jbof, 1, 12, write).await;
        clock.sleep(PERIOD * 2).await;
        assert_eq!(jbof.lends_to(1), None);
        let before = figures(&jbof, 0).redirected;
        clock.sleep(PERIOD * 6).await;
        assert_eq!(figures(&jbof, 0).redirected, before);
        // It is copied while both tenants write at full speed.
        let mut periods = 0;
        while jbof.virtual_drive(0).unwrap().away() > 0 {
            clock.sleep(PERIOD).await;
            periods += 1;
            assert!(
                periods < 60,
                "the lender's space is taken for {} units",
                jbof.virtual_drive(0).unwrap().away()
            );
        }
        borrower.end(&clock).await;
        own.end(&clock).await;
        at_rest(&clock, &jbof).await;
    });
}

/// Makes a write of a tenant go to a lender: home has more outstanding commands.
async fn write_away(clock: &Clock, jbof: &Jbof, client: &Rc<Client>, lba: u64, blocks: u32) {
    let busy = Rc::new(Cell::new(true));
    let (reader, until) = (client.clone(), busy.clone());
    clock.spawn("reader", async move {
        let mut buffer = reader.buffer().unwrap();
        while until.get() {
            reader.read(&mut buffer, BLOCKS - 8, 8).await.unwrap();
        }
    });
    clock.sleep(Delay::from_us(3)).await;
    let before = figures(jbof, 0).redirected;
    let mut buffer = client.buffer().unwrap();
    while figures(jbof, 0).redirected == before {
        client.write(&mut buffer, lba, blocks).await.unwrap();
    }
    busy.set(false);
    clock.sleep(Delay::from_us(50)).await;
}

/// A hypervisor that decides nothing by itself.
fn by_hand() -> VirtualConfig {
    VirtualConfig { period: Delay::from_s(1), ..free(Copyback::Copied) }
}

// A command with blocks in several places becomes several commands, each with its part of the payload, or readers would
// get bytes of another place. Parts of units go where the unit is.
#[test]
fn a_command_goes_where_each_part_of_its_data_is() {
    run(3, by_hand(), async |clock, jbof| {
        let (client, own) = (client(&jbof, 0).await, jbof.virtual_drive(0).unwrap());
        let mut buffer = client.buffer().unwrap();
        client.write(&mut buffer, 0, 16 * UNIT).await.unwrap();
        own.set_lenders(&[1]);
        write_away(&clock, &jbof, &client, 2 * u64::from(UNIT), 3 * UNIT).await;
        own.set_lenders(&[1, 2]);
        // The lender with fewer outstanding commands would be the first, so set only the other one.
        own.set_lenders(&[2]);
        // Data at the first one is being copied home now.
        own.came_home().await;
        write_away(&clock, &jbof, &client, 9 * u64::from(UNIT), 2 * UNIT).await;
        assert_eq!((own.held(1), own.held(2), own.away()), (0, 2, 2));
        let before = own.figures();
        client.read(&mut buffer, 0, 16 * UNIT).await.unwrap();
        let after = own.figures();
        assert_eq!((after.split - before.split, after.reads_at_lenders - before.reads_at_lenders), (1, 1));
        // From the middle of one unit into the middle of another, of which one is away.
        client.read(&mut buffer, 8 * 8 + 3, 9).await.unwrap();
        client.write(&mut buffer, 8 * 8 + 5, 8).await.unwrap();
        client.read(&mut buffer, 0, 16 * UNIT).await.unwrap();
        client.compare(&mut buffer, 8 * 8, 3 * UNIT).await.unwrap();
        client.verify_media(0, 16 * UNIT).await.unwrap();
        assert_eq!(own.held(2), 2, "a part of a unit moves none");
        client.write_zeroes(9 * 8 + 4, 12, true).await.unwrap();
        assert_eq!(own.held(2), 1, "one whole unit is at home, of the other a part was zeroed where it is");
        client.read(&mut buffer, 0, 16 * UNIT).await.unwrap();
        // A command of another kind finds everything at home.
        client.copy(&mut buffer, 64 * 8, &[(9 * 8, 16)]).await.unwrap();
        assert_eq!(own.away(), 0);
        look(&client).await;
        at_rest(&clock, &jbof).await;
    });
}

// A run ends with its jobs, during copies: bytes that have left a drive but not arrived would look like a defect.
#[test]
fn copies_stop_when_they_are_to() {
    run(2, free(Copyback::Copied), async |clock, jbof| {
        let users = Users::begin(&clock, &jbof, 0, 12, write).await;
        clock.sleep(PERIOD * 6).await;
        users.end(&clock).await;
        let own = jbof.virtual_drive(0).unwrap();
        let before = figures(&jbof, 0).units_copied;
        while figures(&jbof, 0).units_copied == before {
            clock.sleep(Delay::from_us(5)).await;
        }
        assert!(!own.is_quiet(), "copies are in flight");
        jbof.quiesce().await;
        assert!(own.is_quiet() && own.away() > 0);
        (0..2).for_each(|drive| jbof.drive(drive).unwrap().balance().unwrap());
        let stopped = figures(&jbof, 0).units_copied;
        clock.sleep(PERIOD * 10).await;
        assert_eq!(figures(&jbof, 0).units_copied, stopped);
    });
}

// A missing lender must not make writes fail. Data there is lost with it, as in any such JBOF, until it is written
// again.
#[test]
fn writes_go_home_when_a_lender_is_unplugged() {
    run(2, by_hand(), async |clock, jbof| {
        let (client, own) = (client(&jbof, 0).await, jbof.virtual_drive(0).unwrap());
        own.set_lenders(&[1]);
        let users = Users::of(&clock, client.clone(), 9, 12, write);
        clock.sleep(PERIOD * 2).await;
        let before = own.figures();
        assert!(before.redirected > 50 && before.returned == 0 && own.away() > 100, "{before:?}");
        jbof.unplug(1);
        clock.sleep(PERIOD * 2).await;
        users.end(&clock).await;
        let after = own.figures();
        assert!(after.returned >= 1 && own.lenders().is_empty(), "{after:?}");
        let mut buffer = client.buffer().unwrap();
        let mut failed = 0;
        for lba in (0..BLOCKS).step_by(8) {
            failed += match client.read(&mut buffer, lba, 8).await {
                Ok(_) => 0,
                Err(IoError::Lost(_)) => 1,
                Err(error) => panic!("{error}"),
            };
        }
        assert_eq!(failed, own.away(), "what is away can't be read, and everything else can");
        assert!(failed > 0);
        for lba in (0..BLOCKS).step_by(128) {
            client.write(&mut buffer, lba, 128).await.unwrap();
        }
        assert_eq!(own.away(), 0);
        look(&client).await;
        assert!(own.is_quiet());
        // A drive that comes back is another drive to the hypervisor.
        jbof.plug_in(1).await.unwrap();
        assert!(matches!(jbof.queue_pair(1).await, Err(JbofError::Gone(1))));
    });
}

// Flushed data was durable at the lender. A copy that was not durable at home when it replaces that would be lost in a
// power cut of the tenant's own drive.
#[test]
fn what_was_flushed_outlives_the_power_when_it_is_home() {
    let mut two = drives(2);
    two.iter_mut().for_each(|drive| drive.ftl.plp = false);
    run_with(two, Platform::Virtual(by_hand()), HostConfig::default(), async |clock, jbof| {
        let oracle = Oracle::new(BLOCKS, BlockSize::B512, 1, BaseState::Zeroes).with_power_cuts(false);
        let truth = Rc::new(RefCell::new(oracle));
        let client_over = |queue, namespace| {
            let config = ClientConfig {
                rules: Rules::only(Method::Prp),
                bytes_max: 64 << 10,
                oracle: Some(truth.clone()),
                verify_bytes: true,
            };
            Rc::new(Client::new(queue, namespace, config).unwrap())
        };
        let namespace = jbof.driver(0).unwrap().namespaces()[0];
        let client = client_over(jbof.queue_pair(0).await.unwrap(), namespace);
        let own = jbof.virtual_drive(0).unwrap();
        own.set_lenders(&[1]);
        let users = Users::of(&clock, client.clone(), 3, 12, write);
        clock.sleep(PERIOD).await;
        users.end(&clock).await;
        client.flush().await.unwrap();
        assert!(own.away() > 100, "{}", own.away());
        own.set_lenders(&[]);
        own.came_home().await;
        jbof.cut_power(0);
        truth.borrow_mut().cut_power();
        jbof.plug_in(0).await.unwrap();
        // Bypassing the hypervisor, which has no virtual drive here any more.
        let queue = jbof.driver(0).unwrap().create_queue_pair(QueueConfig::new(16)).await.unwrap();
        look(&client_over(queue, namespace)).await;
    });
}

// Every drive has a namespace with other tenants' data: any user with a queue pair could read it.
#[test]
fn no_tenant_reaches_what_a_drive_holds_of_others() {
    run(2, by_hand(), async |clock, jbof| {
        let queue = jbof.queue_pair(1).await.unwrap();
        let spare = jbof.driver(1).unwrap().namespaces()[1];
        assert_eq!(spare.blocks, SPARE * 8);
        for nsid in [spare.nsid, u32::MAX] {
            let sqe = ReadWrite::default().sqe(NvmOpcode::READ, 0, nsid);
            let refused = queue.execute(sqe).await.unwrap().status();
            assert!(refused.is(Status::INVALID_NAMESPACE), "{refused}");
        }
        // Nor by batches, which would bypass the hypervisor.
        let sqe = ReadWrite::default().sqe(NvmOpcode::READ, 0, spare.nsid);
        assert_eq!(queue.submit(sqe).await.err(), Some(Lost::NotPlaced));
        let mut pending = Vec::new();
        let submitted = queue.submit_batch(&[sqe.into()], &mut pending).await;
        assert_eq!((submitted, pending.len()), (Err(Lost::NotPlaced), 0));
        let client = client(&jbof, 1).await;
        let (mut one, mut other) = (client.buffer().unwrap(), client.buffer().unwrap());
        assert!(client.compare_and_write(&mut one, &mut other, 0, 8).await.is_err());
        look(&client).await;
        at_rest(&clock, &jbof).await;
    });
}

// Central management limits such a JBOF: a command takes processor time, and the lock one command at a time.
#[test]
fn managing_commands_takes_processors_and_a_lock() {
    let busy = |cores, command, lock| {
        let host = HostConfig { cores, ..HostConfig::default() };
        let config = VirtualConfig { command, lock, ..by_hand() };
        run_on(2, Platform::Virtual(config), host, async |clock, jbof| {
            let (begun, users) = (
                clock.now(),
                [
                    Users::begin(&clock, &jbof, 0, 8, write).await,
                    Users::begin(&clock, &jbof, 1, 8, write).await,
                ],
            );
            clock.sleep(PERIOD * 4).await;
            for users in &users {
                users.end(&clock).await;
            }
            let done = users.iter().map(|users| users.done.get()).sum::<u64>();
            let mut hypervisor = Delay::ZERO;
            jbof.processors().each_name(|(name, time)| {
                if *name == "hypervisor" {
                    hypervisor = *time;
                }
            });
            (done, clock.now().since(begun), hypervisor, jbof.hypervisor_lock_busy().unwrap())
        })
    };
    let slow = Delay::from_us(9);
    let (done, elapsed, hypervisor, lock) = busy(1, slow, Delay::ZERO);
    assert_eq!((hypervisor, lock), (slow * done, Delay::ZERO));
    assert!(hypervisor.0 * 100 > elapsed.0 * 97, "one processor is the limit: {hypervisor} of {elapsed}");
    let (whole, part) = (Delay::from_us(12), slow);
    let (done, elapsed, hypervisor, lock) = busy(16, whole, part);
    assert_eq!((hypervisor, lock), (whole * done, part * done));
    assert!(lock.0 * 100 > elapsed.0 * 97, "the lock is the limit: {lock} of {elapsed}");
}
