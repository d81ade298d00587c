//! DRAM lending between drives of a JBOF, for their maps, with host drivers and users of each.
//!
//! Verified: with idle peers, a drive with DRAM for half of its map reaches its target miss ratio, and reads nearly as
//! fast as with all of it; a lender's own misses do not change, and it gets its DRAM back when needed; reads are
//! correct, against an oracle each, while drives lend, borrow and are lost; reproducibility.

use crate::fixture::{PERIOD, jbof_config, run_jbof};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay};
use byteway_content::BlockSize;
use byteway_device::{DriveConfig, NamespaceConfig};
use byteway_firmware::{Base, FtlConfig};
use byteway_host::{BaseState, Client, ClientConfig, Method, Oracle, Rules};
use byteway_jbof::decision::demand::SampleConfig;
use byteway_jbof::{DramConfig, DramFigures, Jbof, JbofConfig, Platform};
use byteway_testkit::{ask, drive_config};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Translation pages of a drive; `PAGE`: units of 4 KiB per page.
const PAGES: u64 = 24;
const PAGE: u64 = 1024;
/// Blocks of 512 bytes.
const BLOCKS: u64 = PAGES * PAGE * 8;
/// Translation pages of a segment.
const SEGMENT: u32 = 2;

/// Full drives with DRAM for `map_cache_pages` translation pages each; `None`: for all.
fn drives(count: usize, map_cache_pages: Option<u32>) -> Vec<DriveConfig> {
    (0..count)
        .map(|number| DriveConfig {
            serial: format!("BOX{number}"),
            seed: 7 + number as u64,
            namespaces: vec![NamespaceConfig::blocks(PAGES * PAGE, BlockSize::B512)],
            base: Base::Filled,
            ftl: FtlConfig {
                map_cache_pages,
                map_segment_pages: SEGMENT,
                write_buffer_units: 256,
                ..FtlConfig::default()
            },
            ..drive_config()
        })
        .collect()
}

fn run<T: 'static>(
    platform: Platform,
    drives: Vec<DriveConfig>,
    test: impl AsyncFnOnce(Clock, Rc<Jbof>) -> T + 'static,
) -> T {
    let sample = SampleConfig { pages: 256, periods: 4, looks_of_page: 20, periods_most: 10 };
    let dram = DramConfig { sample, ..DramConfig::default() };
    let config = JbofConfig { platform, dram, ..jbof_config(drives.len()) };
    run_jbof(config, drives, test)
}

const LENDING: Platform = Platform::Lending { processor: false, dram: true };
const BOTH: Platform = Platform::Lending { processor: true, dram: true };

type Truth = Rc<RefCell<Oracle>>;

/// Initial contents of a drive, without durability of unflushed writes.
fn truth() -> Truth {
    let oracle = Oracle::new(BLOCKS, BlockSize::B512, 1, BaseState::Stamped { tag: 1 });
    Rc::new(RefCell::new(oracle.with_power_cuts(true)))
}

/// A client of a drive, with an oracle.
async fn client(jbof: &Jbof, drive: usize) -> Rc<Client> {
    client_of(jbof, drive, &truth()).await
}

async fn client_of(jbof: &Jbof, drive: usize, truth: &Truth) -> Rc<Client> {
    let config = ClientConfig {
        rules: Rules::only(Method::Prp),
        bytes_max: 512 << 10,
        oracle: Some(truth.clone()),
        verify_bytes: true,
    };
    let queue = jbof.queue_pair(drive).await.unwrap();
    Rc::new(Client::new(queue, jbof.driver(drive).unwrap().namespaces()[0], config).unwrap())
}

/// Reads units of the first `pages` pages for `periods` periods, one after another. Returns the mean latency.
async fn reads(clock: &Clock, client: &Client, pages: u64, periods: u64, stream: &mut Stream) -> Delay {
    let mut buffer = client.buffer().unwrap();
    let (began, mut count) = (clock.now(), 0);
    while clock.now().since(began) < PERIOD * periods {
        client.read(&mut buffer, stream.below(pages * PAGE) * 8, 8).await.unwrap();
        count += 1;
    }
    Delay(clock.now().since(began).0 / count)
}

/// Miss ratio of the look-ups since `then`.
fn missed(now: &DramFigures, then: &DramFigures) -> f64 {
    let looks = now.look_ups - then.look_ups;
    1.0 - (now.hits - then.hits) as f64 / looks as f64
}

// With half of its map in DRAM a drive misses half of the time; with idle peers, less than the paper's target, and its
// reads take nearly as long as with the whole map.
#[test]
fn a_drive_with_half_of_its_map_misses_seldom_with_idle_peers() {
    let measured = |platform: Platform, map: Option<u32>| {
        run(platform, drives(3, map), async |clock, jbof| {
            let client = client(&jbof, 0).await;
            let mut stream = Rng::new(5).stream("reads");
            reads(&clock, &client, PAGES, 60, &mut stream).await;
            let then = jbof.dram_figures(0);
            let latency = reads(&clock, &client, PAGES, 100, &mut stream).await;
            let now = jbof.dram_figures(0);
            (latency, now, then, [1, 2].map(|peer| jbof.dram_figures(peer)))
        })
    };
    let (whole, ..) = measured(Platform::Alone, None);
    let (alone, now, then, _) = measured(Platform::Alone, Some(12));
    let alone_missed = missed(&now, &then);
    assert!((alone_missed - 0.5).abs() < 0.03, "{alone_missed}");
    let (helped, now, then, peers) = measured(LENDING, Some(12));
    let helped_missed = missed(&now, &then);
    println!(
        "{alone_missed:.3} and {alone:?} alone, {helped_missed:.3} and {helped:?} with peers, {whole:?} whole"
    );
    println!("{now:?}\n{peers:?}");
    assert!(helped_missed < 0.10, "{helped_missed}");
    assert_eq!(now.borrowed, peers[0].lent + peers[1].lent);
    assert!(peers.iter().all(|peer| peer.own == 6 && peer.offered <= 5), "each keeps a segment: {peers:?}");
    assert!(now.use_of.accesses > 500 && now.use_of.pages_loaded < 30, "{now:?}");
    let (cost, gain) = (helped.0 as f64 / whole.0 as f64 - 1.0, alone.0 as f64 / helped.0 as f64 - 1.0);
    assert!(cost < 0.10 && gain > 0.15, "{cost} above the whole map, {gain} below half of it");
}

// A lender that lends DRAM it needs would pay for its neighbor's speed; one that needs it again gets it within a few
// periods.
#[test]
fn a_lender_lends_only_what_it_can_do_without() {
    let measured = |platform: Platform| {
        run(platform, drives(2, Some(12)), async |clock, jbof| {
            let (borrower, lender) = (client(&jbof, 0).await, client(&jbof, 1).await);
            let done = Rc::new(Cell::new(false));
            let (then, until) = (clock.clone(), done.clone());
            let busy = clock.spawn("borrower", async move {
                let mut stream = Rng::new(5).stream("borrower");
                while !until.get() {
                    reads(&then, &borrower, PAGES, 1, &mut stream).await;
                }
            });
            let mut stream = Rng::new(6).stream("lender");
            reads(&clock, &lender, 4, 80, &mut stream).await;
            let then = jbof.dram_figures(1);
            reads(&clock, &lender, 4, 100, &mut stream).await;
            let few = (missed(&jbof.dram_figures(1), &then), jbof.dram_figures(1));
            // Now it needs all of its own.
            reads(&clock, &lender, 12, 80, &mut stream).await;
            let then = jbof.dram_figures(1);
            reads(&clock, &lender, 12, 100, &mut stream).await;
            let all = (missed(&jbof.dram_figures(1), &then), jbof.dram_figures(1), jbof.dram_figures(0));
            done.set(true);
            clock.sleep(PERIOD * 2).await;
            clock.kill(busy);
            (few, all)
        })
    };
    let ((few_alone, _), (all_alone, ..)) = measured(Platform::Alone);
    let ((few, lender), (all, lender_then, borrower_then)) = measured(LENDING);
    println!(
        "{few} of {few_alone}, then {all} of {all_alone}; {lender:?}\n{lender_then:?}\n{borrower_then:?}"
    );
    assert!(lender.lent >= 3, "{lender:?}");
    assert!(few < few_alone + 0.01, "{few} of {few_alone}");
    assert!(all < all_alone + 0.01, "{all} of {all_alone}");
    assert_eq!((lender_then.lent, lender_then.offered, borrower_then.borrowed), (0, 0, 0));
    assert!(borrower_then.reclaimed > 0 && borrower_then.use_of.segments_returned >= 3, "{borrower_then:?}");
}

async fn mixed(client: &Client, stream: &mut Stream) {
    let mut buffer = client.buffer().unwrap();
    ask(client, &mut buffer, stream, BLOCKS).await;
}

/// Alternating bursts on four drives, some of which are lost while they lend.
fn bursts(platform: Platform, loses: bool) -> Vec<DramFigures> {
    run(platform, drives(4, Some(6)), async move |clock, jbof| {
        let mut stream = Rng::new(5).stream("bursts");
        let mut clients = Vec::new();
        for drive in 0..4 {
            clients.push(client(&jbof, drive).await);
        }
        for burst in 0..30 {
            let client = clients[stream.below(4) as usize].clone();
            let (left, until) = (Rc::new(Cell::new(8)), clock.now() + PERIOD * (4 + stream.below(30)));
            for user in 0..8 {
                let (left, client, clock_then) = (left.clone(), client.clone(), clock.clone());
                let mut stream = Rng::new(burst).stream(&format!("user/{user}"));
                clock.spawn("user", async move {
                    while clock_then.now() < until {
                        mixed(&client, &mut stream).await;
                    }
                    left.set(left.get() - 1);
                });
            }
            if loses && stream.chance(0.3) {
                clock.sleep(PERIOD * stream.below(20)).await;
                let drive = stream.below(4) as usize;
                jbof.lose_link(drive);
                clock.sleep(PERIOD * stream.below(5)).await;
                jbof.restore_link(drive);
            }
            while left.get() > 0 {
                clock.sleep(Delay::from_us(50)).await;
            }
        }
        clock.sleep(PERIOD * 20).await;
        for drive in 0..4 {
            assert!(jbof.drive(drive).unwrap().drive.controller.is_quiet(), "drive {drive}");
            assert_eq!(jbof.driver(drive).unwrap().protocol_errors(), 0, "drive {drive}");
            jbof.drive(drive).unwrap().balance().unwrap();
        }
        let figures: Vec<DramFigures> = (0..4).map(|drive| jbof.dram_figures(drive)).collect();
        let sum = |of: fn(&DramFigures) -> u32| figures.iter().map(of).sum::<u32>();
        assert_eq!(sum(|it| it.lent), sum(|it| it.borrowed), "{figures:?}");
        figures
    })
}

// With bursts that come and go, drives alternately lend and borrow, and logs fill: reads must return what was written
// last.
#[test]
fn drives_that_lend_dram_in_turn_hold_what_was_written() {
    for platform in [LENDING, BOTH] {
        let first = bursts(platform.clone(), false);
        println!("{first:#?}");
        let sum = |of: fn(&DramFigures) -> u64| first.iter().map(of).sum::<u64>();
        assert!(sum(|it| it.borrowings) > 10 && sum(|it| it.returns + it.reclaimed) > 5, "{first:?}");
        assert!(sum(|it| it.use_of.commits) > 1000 && sum(|it| it.use_of.flushes) > 0, "{first:?}");
        assert_eq!(first, bursts(platform, false), "the same again");
    }
}

// A lost drive takes pages of others in its DRAM with it, dirty ones included.
#[test]
fn what_lay_in_the_dram_of_a_drive_that_is_lost_is_recovered() {
    let figures = bursts(LENDING, true);
    let sum = |of: fn(&DramFigures) -> u64| figures.iter().map(of).sum::<u64>();
    println!("{figures:#?}");
    assert!(sum(|it| it.use_of.segments_lost) > 5 && sum(|it| it.use_of.pages_recovered) > 5, "{figures:?}");
}

// A lender's power loss takes what others had in its DRAM. A borrower's power loss takes what it had in others' DRAM,
// which it no longer knows when it is back; and lenders get their DRAM back.
#[test]
fn power_that_goes_takes_nothing_that_was_acknowledged() {
    let lives = |is_protected: bool| {
        let mut drives = drives(3, Some(6));
        drives.iter_mut().for_each(|drive| drive.ftl.plp = is_protected);
        run(LENDING, drives, async move |clock, jbof| {
            let mut stream = Rng::new(9).stream("power");
            let truth = truth();
            let mut recovered = 0;
            for life in 0..6 {
                let client = client_of(&jbof, 0, &truth).await;
                let (left, until) = (Rc::new(Cell::new(6)), clock.now() + PERIOD * 60);
                for user in 0..6 {
                    let (left, client, clock) = (left.clone(), client.clone(), clock.clone());
                    let mut stream = Rng::new(life).stream(&format!("user/{user}"));
                    clock.clone().spawn("user", async move {
                        while clock.now() < until {
                            mixed(&client, &mut stream).await;
                        }
                        left.set(left.get() - 1);
                    });
                }
                while left.get() > 0 {
                    clock.sleep(PERIOD * (2 + stream.below(10))).await;
                    let lender = 1 + stream.below(2) as usize;
                    jbof.cut_power(lender);
                    clock.sleep(PERIOD * stream.below(4)).await;
                    jbof.plug_in(lender).await.unwrap();
                }
                if !is_protected {
                    client.flush().await.unwrap();
                }
                let figures = jbof.dram_figures(0);
                recovered += figures.use_of.pages_recovered;
                jbof.cut_power(0);
                truth.borrow_mut().cut_power();
                clock.sleep(PERIOD * 2).await;
                let peers = [1, 2].map(|peer| jbof.dram_figures(peer).lent);
                assert_eq!(peers, [0, 0], "nothing is lent to a drive that is not there");
                jbof.plug_in(0).await.unwrap();
            }
            let client = client_of(&jbof, 0, &truth).await;
            let mut buffer = client.buffer().unwrap();
            for first in (0..BLOCKS).step_by(128) {
                client.read(&mut buffer, first, 128).await.unwrap();
            }
            recovered
        })
    };
    for is_protected in [false, true] {
        let recovered = lives(is_protected);
        assert!(recovered > 10, "{recovered} pages");
    }
}
