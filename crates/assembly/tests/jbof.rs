//! Drives of a box that lend each other processors, with the drivers of a host and users of each.
//!
//! Verified: that a drive whose cores are the limit gets more done with an idle peer, and not with a busy one; that everything read is
//! right, against an oracle each, while drives lend and borrow in turn; that a lender whose own work comes back has its processor back
//! within a few periods; that nothing is left lent or under way; that the same box does the same again.

use crate::fixture::ask;
use byteway_assembly::jbof::{Jbof, JbofConfig, JbofError, Platform};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Time};
use byteway_device::DriveConfig;
use byteway_firmware::Work;
use byteway_host::{BaseState, Client, ClientConfig, Method, Oracle, Rules};
use byteway_testkit::{NS_512_UNITS, drive_config, link_config};
use byteway_wire::content::BlockSize;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub const PERIOD: Delay = Delay::from_us(500);
/// Blocks of 512 bytes that are used of each drive.
pub const BLOCKS: u64 = NS_512_UNITS * 8;

/// Drives whose one core is the limit, long before their flash.
pub fn drives(count: usize) -> Vec<DriveConfig> {
    (0..count)
        .map(|number| {
            let mut config = drive_config();
            config.site.cores = 1;
            config.site.cycles = config.site.cycles.with(Work::Translate, 20_000);
            DriveConfig { serial: format!("BOX{number}"), seed: 7 + number as u64, ..config }
        })
        .collect()
}

pub fn run<T: 'static>(
    count: usize,
    lends: bool,
    test: impl AsyncFnOnce(Clock, Rc<Jbof>) -> T + 'static,
) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let platform = if lends { Platform::Lending { processor: true, dram: false } } else { Platform::Alone };
    let config =
        JbofConfig { platform, period: PERIOD, entries: 64, ..JbofConfig::new(link_config(), count, 3) };
    let ran = executor.run(async move {
        let jbof = Jbof::power_on(&clock, config, drives(count)).await.unwrap();
        test(clock, Rc::new(jbof)).await
    });
    ran.unwrap_or_else(|stalled| panic!("{stalled}"))
}

/// Users of a drive, who go on until they are told to end.
pub struct Users {
    pub done: Rc<Cell<u64>>,
    ended: Rc<Cell<u64>>,
    until: Rc<Cell<Time>>,
    count: u64,
}

impl Users {
    /// So many users of a drive that has had none, each with one I/O under way: `each` is what it does.
    pub async fn begin(
        clock: &Clock,
        jbof: &Rc<Jbof>,
        drive: usize,
        count: u64,
        each: impl AsyncFn(&Client, &mut Stream) + Clone + 'static,
    ) -> Users {
        let client = client(jbof, drive).await;
        Users::of(clock, client, drive as u64, count, each)
    }

    /// So many users of a client.
    pub fn of(
        clock: &Clock,
        client: Rc<Client>,
        seed: u64,
        count: u64,
        each: impl AsyncFn(&Client, &mut Stream) + Clone + 'static,
    ) -> Users {
        let users = Users {
            done: Rc::default(),
            ended: Rc::default(),
            until: Rc::new(Cell::new(Time(u64::MAX))),
            count,
        };
        for number in 0..count {
            let (clock_here, client, each) = (clock.clone(), client.clone(), each.clone());
            let (done, ended, until) = (users.done.clone(), users.ended.clone(), users.until.clone());
            let mut stream = Rng::new(seed).stream(&format!("user/{number}"));
            clock.spawn("user", async move {
                while clock_here.now() < until.get() {
                    each(&client, &mut stream).await;
                    done.set(done.get() + 1);
                }
                ended.set(ended.get() + 1);
            });
        }
        users
    }

    /// They end; waits until they have.
    pub async fn end(&self, clock: &Clock) {
        self.until.set(clock.now());
        while self.ended.get() < self.count {
            clock.sleep(Delay::from_us(50)).await;
        }
    }

    /// How many I/Os end in a while.
    pub async fn rate(&self, clock: &Clock, during: Delay) -> u64 {
        let before = self.done.get();
        clock.sleep(during).await;
        self.done.get() - before
    }
}

/// A client of a drive, which holds nothing.
pub async fn client(jbof: &Jbof, drive: usize) -> Rc<Client> {
    let oracle = Oracle::new(BLOCKS, BlockSize::B512, 1, BaseState::Zeroes);
    let config = ClientConfig {
        rules: Rules::only(Method::Prp),
        bytes_max: 64 << 10,
        oracle: Some(Rc::new(RefCell::new(oracle))),
        verify_bytes: true,
    };
    let queue = jbof.queue_pair(drive).await.unwrap();
    Rc::new(Client::new(queue, jbof.driver(drive).namespaces()[0], config).unwrap())
}

pub async fn read(client: &Client, stream: &mut Stream) {
    let mut buffer = client.buffer().unwrap();
    client.read(&mut buffer, stream.below(BLOCKS / 8) * 8, 8).await.unwrap();
}

pub async fn mixed(client: &Client, stream: &mut Stream) {
    let mut buffer = client.buffer().unwrap();
    ask(client, &mut buffer, stream, BLOCKS).await;
}

/// Waits until nothing is lent any more, and sees that nothing is left taken.
pub async fn at_rest(clock: &Clock, jbof: &Jbof) {
    clock.sleep(PERIOD * 20).await;
    for drive in 0..jbof.len() {
        let powered = jbof.drive(drive);
        assert!(powered.drive.controller.is_quiet(), "drive {drive}");
        assert_eq!(jbof.driver(drive).protocol_errors(), 0, "drive {drive}");
        powered.balance().unwrap();
    }
}

// The point of it: a drive whose cores are too few does as well with a peer's; and one that has no peer to spare does as before.
#[test]
fn a_busy_drive_gets_more_done_with_an_idle_peer() {
    let rate = |lends: bool, peer_is_busy: bool| {
        run(2, lends, async move |clock, jbof| {
            let busy = Users::begin(&clock, &jbof, 0, 12, read).await;
            let peer = match peer_is_busy {
                true => Some(Users::begin(&clock, &jbof, 1, 12, read).await),
                false => None,
            };
            clock.sleep(PERIOD * 10).await; // until it has borrowed
            let rate = busy.rate(&clock, PERIOD * 40).await;
            let figures = (jbof.figures(0), jbof.figures(1));
            busy.end(&clock).await;
            if let Some(peer) = peer {
                peer.end(&clock).await;
            }
            at_rest(&clock, &jbof).await;
            (rate, figures, jbof.redirected(0))
        })
    };
    let (alone, ..) = rate(false, false);
    let (helped, figures, (redirected, all)) = rate(true, false);
    let share = redirected as f64 / all as f64;
    assert_eq!((figures.0.borrowed, figures.1.lent), (1, 1));
    // A lender is kept below 75 %, so there can't be more than 1.75 times as much.
    assert!(helped as f64 > 1.45 * alone as f64, "{helped} with a peer, {alone} alone; {share} redirected");
    assert!((0.3..0.5).contains(&share), "{share}");
    let (crowded, figures, (redirected, _)) = rate(true, true);
    // What the peer offered before it was busy may be claimed, and comes to nothing.
    assert_eq!((figures.1.lent, redirected), (0, 0), "both are busy");
    assert!(crowded as f64 > 0.97 * alone as f64, "{crowded} beside a busy peer, {alone} alone");
}

// A lender that served others before itself would be a bad neighbour: when its own users come, it has its processor back.
#[test]
fn a_lender_has_its_processor_back() {
    let latency = |lends: bool| {
        run(2, lends, async move |clock, jbof| {
            let borrower = Users::begin(&clock, &jbof, 0, 12, read).await;
            clock.sleep(PERIOD * 10).await;
            let own = Users::begin(&clock, &jbof, 1, 12, read).await;
            clock.sleep(PERIOD * 4).await;
            let rate = own.rate(&clock, PERIOD * 40).await;
            borrower.end(&clock).await;
            own.end(&clock).await;
            at_rest(&clock, &jbof).await;
            rate
        })
    };
    let (alone, lender) = (latency(false), latency(true));
    assert!(lender as f64 > 0.97 * alone as f64, "{lender} of {alone}");
}

// Bursts that come and go have drives lend and borrow in turn: whatever is under way then, what was written last is read.
#[test]
fn drives_that_lend_in_turn_hold_what_was_written() {
    let once = || {
        run(4, true, async |clock, jbof| {
            let mut stream = Rng::new(5).stream("bursts");
            let (mut all, mut clients) = (Vec::new(), Vec::new());
            for drive in 0..4 {
                clients.push(client(&jbof, drive).await);
            }
            for burst in 0..24 {
                let client = clients[stream.below(4) as usize].clone();
                let users = Users::of(&clock, client, burst, 8, mixed);
                clock.sleep(PERIOD * (2 + stream.below(8))).await;
                users.end(&clock).await;
                all.push(users.done.get());
            }
            at_rest(&clock, &jbof).await;
            let figures: Vec<_> = (0..4).map(|drive| (jbof.figures(drive), jbof.redirected(drive))).collect();
            (all, figures, clock.now())
        })
    };
    let first = once();
    let borrowed: u64 = first.1.iter().map(|(figures, _)| figures.borrowed).sum();
    let redirected: u64 = first.1.iter().map(|(_, (redirected, _))| redirected).sum();
    assert!(borrowed > 8 && redirected > 200, "{first:?}");
    assert_eq!(first, once(), "the same again");
}

// Configurations come from files.
#[test]
fn what_cannot_be_is_refused() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    executor
        .run(async move {
            let config = JbofConfig::new(link_config(), 2, 1);
            let refused = Jbof::power_on(&clock, config.clone(), Vec::new()).await.err();
            assert!(matches!(refused, Some(JbofError::Count(0))));
            let refused = Jbof::power_on(&clock, config, drives(3)).await.err();
            assert!(matches!(refused, Some(JbofError::Fabric { ports: 2, drives: 3 })));
        })
        .unwrap();
}
