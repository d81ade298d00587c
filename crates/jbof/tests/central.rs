//! A JBOF whose drives have no firmware: the host's processors run it for all of them.
//!
//! Verified: the bytes and processor time of a read and a write, exactly; that a few drives saturate the host; that
//! each drive's map has an equal part of its DRAM; that tenants read what they wrote last, with garbage collection
//! across the link; reproducibility.

use crate::fixture::{BLOCKS, PERIOD, Users, at_rest, mixed, read, run_jbof};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay};
use byteway_content::BlockSize;
use byteway_device::{DriveConfig, NamespaceConfig};
use byteway_firmware::{Base, HardwareFigures};
use byteway_host::Client;
use byteway_jbof::{CentralConfig, HostConfig, Jbof, JbofConfig, Platform};
use byteway_link::{Direction, PcieConfig, Purpose};
use byteway_testkit::{NS_512_UNITS, drive_config, link_config};
use std::rc::Rc;

const HERTZ: u64 = 2_000_000_000;

fn drives(count: usize, base: Base) -> Vec<DriveConfig> {
    let namespaces = vec![NamespaceConfig::blocks(NS_512_UNITS, BlockSize::B512)];
    let geometry = byteway_flash::Geometry { blocks: 10, ..drive_config().geometry };
    let drive = |number: usize| DriveConfig {
        serial: format!("JBOF{number}"),
        seed: 7 + number as u64,
        namespaces: namespaces.clone(),
        geometry,
        base,
        ..drive_config()
    };
    (0..count).map(drive).collect()
}

fn run_on<T: 'static>(
    drives: Vec<DriveConfig>,
    platform: Platform,
    host: HostConfig,
    link: PcieConfig,
    test: impl AsyncFnOnce(Clock, Rc<Jbof>) -> T + 'static,
) -> T {
    let config = JbofConfig { platform, host, entries: 64, ..JbofConfig::new(link, drives.len(), 3) };
    run_jbof(config, drives, test)
}

fn host(cores: usize) -> HostConfig {
    HostConfig { cores, hertz: HERTZ, ..HostConfig::default() }
}

/// Time to send a write of `bytes` over an idle link, until it arrives.
fn crossing(link: &PcieConfig, bytes: u64) -> Delay {
    let tlps = link.write(0x40_0000_0000, bytes);
    link.rate().time_for(tlps.wire) + link.propagation
}

/// Latencies of a read of one unit from flash, of sixteen units, and of a write of one unit; and the traffic of each,
/// and of a flush.
fn latencies(central: CentralConfig, link: PcieConfig) -> ([Delay; 3], [HardwareFigures; 4]) {
    run_on(drives(1, Base::Filled), Platform::Central(central), host(16), link, async |clock, jbof| {
        let oracle_free = client_without_oracle(&jbof).await;
        let mut buffer = oracle_free.buffer().unwrap();
        let crossed = |jbof: &Jbof| jbof.hardware(0).unwrap().0;
        let mut took = [Delay::ZERO; 3];
        let mut figures = [HardwareFigures::default(); 4];
        for (index, (writes, blocks)) in [(false, 8), (false, 128), (true, 8)].into_iter().enumerate() {
            let begun = clock.now();
            match writes {
                false => oracle_free.read(&mut buffer, 1024, blocks).await.map(drop).unwrap(),
                true => oracle_free.write(&mut buffer, 1024, blocks).await.map(drop).unwrap(),
            }
            took[index] = clock.now().since(begun);
            figures[index] = crossed(&jbof);
        }
        oracle_free.flush().await.unwrap();
        figures[3] = crossed(&jbof);
        let ledger = jbof.hardware(0).unwrap().1.ledger();
        let bytes = |direction| ledger.entry(Purpose::Firmware, direction).payload;
        // Three vectors, of which the second lists sixteen addresses.
        assert_eq!(bytes(Direction::Down), 3 * (4 + 64) + 16 * 8 + 4096);
        assert_eq!(bytes(Direction::Up), 3 * (16 + 16) + 17 * 4096);
        (took, figures)
    })
}

async fn client_without_oracle(jbof: &Jbof) -> Client {
    use byteway_host::{ClientConfig, Method, Rules};
    let config = ClientConfig {
        rules: Rules::only(Method::Prp),
        bytes_max: 64 << 10,
        oracle: None,
        verify_bytes: false,
    };
    Client::new(jbof.queue_pair(0).await.unwrap(), jbof.driver(0).unwrap().namespaces()[0], config).unwrap()
}

// A transfer charged twice or never makes the host's firmware too expensive or too cheap: a read crosses once, a write
// only when it is programmed.
#[test]
fn a_read_crosses_once_and_a_write_when_it_is_programmed() {
    let costs = |submit, complete| CentralConfig { submit, complete, ..CentralConfig::default() };
    let (slow, fast) = (link_config(), PcieConfig { lanes: 8, ..link_config() });
    let ns = Delay::from_ns;
    let (free, figures) = latencies(costs(ns(0), ns(0)), slow.clone());
    let (paid, _) = latencies(costs(ns(1500), ns(2500)), slow.clone());
    let (wide, _) = latencies(costs(ns(0), ns(0)), fast.clone());
    let per_vector = ns(4000);
    assert_eq!(paid[0], free[0] + per_vector);
    assert_eq!(paid[1], free[1] + per_vector, "sixteen units are one vector");
    assert_eq!(paid[2], free[2], "what is buffered has no command yet");
    let whole = |link: &PcieConfig, units: u64| {
        let list = if units > 1 { units * 8 } else { 0 };
        [4, 16, 64 + list, units * 4096, 16]
            .iter()
            .fold(Delay::ZERO, |sum, bytes| sum + crossing(link, *bytes))
    };
    for (index, units) in [(0, 1), (1, 16)] {
        let saved = whole(&slow, units).saturating_sub(whole(&fast, units));
        assert_eq!(wide[index] + saved, free[index], "{units} units");
    }
    assert_eq!(wide[2], free[2], "a write is in the host's DRAM already");
    let seen = figures.map(|it| (it.vectors, it.units_to_host, it.units_to_drive));
    assert_eq!(seen, [(1, 1, 0), (2, 17, 0), (2, 17, 0), (3, 17, 1)]);
}

// With a host per drive, OC would scale as drives do, and cost nothing.
#[test]
fn a_few_drives_take_all_of_the_host() {
    let rate = |count: usize, platform: Platform| {
        run_on(drives(count, Base::Filled), platform, host(1), link_config(), async move |clock, jbof| {
            let mut users = Vec::new();
            for drive in 0..count {
                let client = Rc::new(client_of(&jbof, drive).await);
                users.push(Users::of(&clock, client, drive as u64, 24, read));
            }
            clock.sleep(PERIOD).await;
            let before: u64 = users.iter().map(|users| users.done.get()).sum();
            let (then, busy) = (clock.now(), jbof.processors().busy());
            clock.sleep(PERIOD * 4).await;
            let done = users.iter().map(|users| users.done.get()).sum::<u64>() - before;
            let share = jbof.processors().utilisation(then, busy);
            for users in &users {
                users.end(&clock).await;
            }
            at_rest(&clock, &jbof).await;
            (done, share)
        })
    };
    let central = || {
        Platform::Central(CentralConfig {
            submit: Delay(1_500_000),
            complete: Delay(1_500_000),
            ..CentralConfig::default()
        })
    };
    let (one, _) = rate(1, central());
    let (two, share) = rate(2, central());
    let (four, _) = rate(4, central());
    println!("one drive {one}, two {two}, four {four} reads in two milliseconds; {share}");
    assert!(share > 0.97, "{share} of the host's processor");
    assert!((two as f64) < 1.3 * one as f64 && (four as f64) < 1.05 * two as f64, "{one}, {two}, {four}");
    let (own, _) = rate(1, Platform::Alone);
    let (owns, _) = rate(4, Platform::Alone);
    assert!(owns as f64 > 3.9 * own as f64, "{owns} of four drives with firmware, {own} of one");
}

async fn client_of(jbof: &Jbof, drive: usize) -> Client {
    use byteway_host::{BaseState, ClientConfig, Method, Oracle, Rules};
    let oracle = Oracle::new(BLOCKS, BlockSize::B512, 1, BaseState::Stamped { tag: 1 });
    let config = ClientConfig {
        rules: Rules::only(Method::Prp),
        bytes_max: 64 << 10,
        oracle: Some(Rc::new(std::cell::RefCell::new(oracle))),
        verify_bytes: true,
    };
    Client::new(jbof.queue_pair(drive).await.unwrap(), jbof.driver(drive).unwrap().namespaces()[0], config)
        .unwrap()
}

// Twelve drives share 16 GB but need 48: two of three look-ups miss. With all of it none would.
#[test]
fn each_map_has_its_part_of_the_hosts_memory() {
    // Three maps of 36 pages.
    let units = 36 * 1024;
    let geometry = byteway_flash::Geometry { blocks: 48, pages: 64, ..drive_config().geometry };
    let large = drives(3, Base::Filled).into_iter().map(|drive| DriveConfig {
        namespaces: vec![NamespaceConfig::blocks(units, BlockSize::B512)],
        geometry,
        ..drive
    });
    let host = HostConfig { dram_bytes: 36 << 12, ..host(16) };
    let miss_ratio = run_on(
        large.collect(),
        Platform::Central(CentralConfig::default()),
        host,
        link_config(),
        async move |_, jbof| {
            let client = client_without_oracle(&jbof).await;
            let mut buffer = client.buffer().unwrap();
            let mut stream = Rng::new(3).stream("reads");
            for _ in 0..4000 {
                client.read(&mut buffer, stream.below(units) * 8, 8).await.unwrap();
            }
            let counters = jbof.drive(0).unwrap().drive.controller.ftl().counters();
            assert_eq!(
                counters.map_reads + 4000,
                jbof.hardware(0).unwrap().0.units_to_host,
                "pages cross too"
            );
            counters.map_misses as f64 / (counters.map_hits + counters.map_misses) as f64
        },
    );
    assert!((miss_ratio - 2.0 / 3.0).abs() < 0.025, "{miss_ratio}");
}

// The location of firmware must not change what is stored, with map and garbage collection across the link, and without
// capacitors.
#[test]
fn tenants_read_what_they_wrote() {
    let once = || {
        let host = HostConfig { dram_bytes: 4 << 12, ..host(4) };
        let central = CentralConfig {
            submit: Delay::from_ns(250),
            complete: Delay::from_ns(250),
            ..CentralConfig::default()
        };
        let platform = Platform::Central(central);
        run_on(drives(2, Base::Empty), platform, host, link_config(), async |clock, jbof| {
            let mut users = Vec::new();
            for drive in 0..2 {
                users.push(Users::begin(&clock, &jbof, drive, 8, mixed_more).await);
            }
            clock.sleep(PERIOD * 150).await;
            for users in &users {
                users.end(&clock).await;
            }
            at_rest(&clock, &jbof).await;
            let collected = jbof.drive(0).unwrap().drive.controller.ftl().counters().blocks_collected;
            let done: Vec<u64> = users.iter().map(|users| users.done.get()).collect();
            (done, collected, jbof.hardware(1).unwrap().0, clock.now())
        })
    };
    let first = once();
    assert!(first.1 > 10 && first.2.units_to_drive > 8_000, "{first:?}");
    assert_eq!(first, once(), "the same again");
}

async fn mixed_more(client: &Client, stream: &mut Stream) {
    mixed(client, stream).await;
}
