//! Redirected commands through queue pairs of other drives, with host drivers at both ends.
//!
//! Verified: data written through any of them is read through any of them, against an oracle, while shares change,
//! lenders come and go, are reset and lose power, and while the borrower itself is reset; the number of redirected
//! commands; that commands beyond their own blocks stay; reproducibility for a seed.

use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Time};
use byteway_content::BlockSize;
use byteway_device::{Drive, Loan};
use byteway_firmware::{Placement, Route, Site};
use byteway_host::{
    Client, ClientConfig, Driver, IoBuffer, Method, Oracle, Port, QueuePair, Redirection, RedirectionFigures,
    Rules, ShadowId,
};
use byteway_host::{DriverConfig, QueueConfig};
use byteway_jbof::fabric::{Fabric, FabricConfig, Node};
use byteway_link::Memory;
use byteway_testkit::{drive_config, link_config};
use byteway_wire::nvme::Range;
use byteway_world::{DriveBay, PoweredDrive};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Used blocks of the borrower's namespace with blocks of 4 KiB.
const BLOCKS: u64 = 256;
/// Namespaces of the small drive: blocks of 512 bytes, and of 4 KiB.
const NS_4K: usize = 1;

/// A borrower and two lenders on one fabric, each with its driver.
struct Jbof3 {
    clock: Clock,
    drives: Vec<PoweredDrive>,
    drivers: Vec<Driver>,
    /// The borrower's route for each lender.
    routes: Vec<Route>,
    redirection: Redirection,
    client: Rc<Client>,
    /// The last loan.
    loan: RefCell<Option<Rc<Loan>>>,
}

fn oracle() -> Rc<RefCell<Oracle>> {
    Rc::new(RefCell::new(Oracle::new(BLOCKS, BlockSize::B4096, 2, byteway_host::BaseState::Zeroes)))
}

fn run<T: 'static>(seed: u64, test: impl AsyncFnOnce(Jbof3, Stream) -> T + 'static) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let fabric = Fabric::new(&clock, FabricConfig::of_drives(3));
    let config = drive_config();
    let sites: Vec<Site> = (0..3).map(|_| Drive::site(&clock, &config)).collect();
    let mut placement = Placement::all_at(&sites[0], config.site.cycles).with_agent(Delay(114_200));
    let mut routes = Vec::new();
    for lender in [1, 2] {
        let distance = fabric.distance(Node::Drive(lender), Node::Drive(0));
        placement = placement.with_distance(&sites[lender], &sites[0], &distance);
        routes.push(placement.add_route_to(&clock, &sites[lender]).unwrap());
    }
    let drives = (0..3).map(|of| {
        let bay = DriveBay::new(&clock, link_config(), Memory::simulated());
        let own = Placement::all_at(&sites[of], config.site.cycles);
        let placement = if of == 0 { placement.clone() } else { own };
        bay.power_on_placed(config.clone(), sites[of].clone(), placement, None).unwrap()
    });
    let drives: Vec<PoweredDrive> = drives.collect();
    let ran = executor.run(async move {
        let mut drivers = Vec::new();
        for drive in &drives {
            drivers
                .push(Driver::attach(Port::Link(drive.host.clone()), DriverConfig::default()).await.unwrap());
        }
        let own = drivers[0].create_queue_pair(QueueConfig::new(64)).await.unwrap();
        let draws = Rng::new(seed).stream("redirection");
        let redirection = Redirection::new(&clock, own, draws, Delay::from_ns(20));
        let config = ClientConfig {
            rules: Rules::only(Method::Prp),
            bytes_max: 64 << 10,
            oracle: Some(oracle()),
            verify_bytes: true,
        };
        let client = Client::new(redirection.queue(), drivers[0].namespaces()[NS_4K], config).unwrap();
        let whole = Jbof3 {
            clock,
            drives,
            drivers,
            routes,
            redirection,
            client: Rc::new(client),
            loan: RefCell::default(),
        };
        test(whole, Rng::new(seed).stream("test")).await
    });
    ran.unwrap_or_else(|stalled| panic!("seed {seed}: {stalled}"))
}

impl Jbof3 {
    /// Makes a lender lend a queue pair, and redirects that share of the commands to it.
    async fn bind(&self, lender: usize, share: f64) -> (ShadowId, QueuePair) {
        let queue = self.drivers[lender].create_queue_pair(QueueConfig::new(32)).await.unwrap();
        self.lend(lender, &queue);
        let id = self.redirection.bind(queue.clone());
        self.redirection.set_share(id, share);
        (id, queue)
    }

    fn lend(&self, lender: usize, queue: &QueuePair) {
        let borrower = &self.drives[0].drive.controller;
        let loan = self.drives[lender].drive.controller.lend(queue.qid(), borrower, self.routes[lender - 1]);
        self.loan.replace(Some(loan.unwrap()));
    }

    /// Spawns `workers` tasks with `each` random, verified I/Os. Returns the number that have ended.
    fn work(&self, workers: u64, each: u64, stream: &mut Stream) -> Rc<Cell<u64>> {
        let ended = Rc::new(Cell::new(0));
        for _ in 0..workers {
            let (client, ended) = (self.client.clone(), ended.clone());
            let mut stream = Rng::new(stream.next_u64()).stream("worker");
            self.clock.spawn("worker", async move {
                let mut buffer = client.buffer().unwrap();
                for _ in 0..each {
                    ask(&client, &mut buffer, &mut stream).await;
                }
                ended.set(ended.get() + 1);
            });
        }
        ended
    }

    async fn until(&self, ended: &Cell<u64>, workers: u64) {
        let patience = self.clock.now() + Delay::from_s(20);
        while ended.get() < workers {
            assert!(self.clock.now() < patience, "workers never finish");
            self.clock.sleep(Delay::from_us(20)).await;
        }
    }

    /// Reads everything, and checks that nothing has leaked.
    async fn end(self) -> (RedirectionFigures, Time) {
        let mut buffer = self.client.buffer().unwrap();
        for lba in (0..BLOCKS).step_by(16) {
            self.client.read(&mut buffer, lba, 16).await.unwrap();
        }
        self.clock.sleep(Delay::from_ms(50)).await;
        for drive in &self.drives {
            assert!(drive.drive.controller.is_quiet() || drive.drive.controller.register(0x1C, 4) == 0);
        }
        assert!(self.drivers.iter().all(|driver| driver.protocol_errors() == 0));
        (self.redirection.figures(), self.clock.now())
    }
}

async fn ask(client: &Client, buffer: &mut IoBuffer, stream: &mut Stream) {
    let blocks = 1 + stream.below(8);
    let lba = stream.below(BLOCKS - blocks + 1);
    match stream.below(100) {
        0..45 => client.write(buffer, lba, blocks as u32).await.map(drop).unwrap(),
        45..50 => client.write_fua(buffer, lba, blocks as u32).await.map(drop).unwrap(),
        50..85 => client.read(buffer, lba, blocks as u32).await.map(drop).unwrap(),
        85..92 => client.trim(buffer, &[Range::new(lba, blocks as u32)]).await.map(drop).unwrap(),
        92..97 => client.write_zeroes(lba, blocks as u32, true).await.map(drop).unwrap(),
        _ => client.flush().await.map(drop).unwrap(),
    }
}

// The paper's ratio is one of commands: a share that is not kept leaves one processor idle and the other full.
#[test]
fn as_many_go_as_the_share_says() {
    let (figures, _) = run(1, async |whole, _| {
        whole.bind(1, 0.25).await;
        whole.bind(2, 0.5).await;
        let mut buffer = whole.client.buffer().unwrap();
        for lba in 0..2000 {
            whole.client.write(&mut buffer, lba % BLOCKS, 1).await.unwrap();
        }
        let fetched = |of: usize| whole.drives[of].drive.controller.counters().fetched.get();
        let by_lender = [fetched(1) as f64, fetched(2) as f64];
        assert!((by_lender[0] / 2000.0 - 0.25).abs() < 0.05 && (by_lender[1] / 2000.0 - 0.5).abs() < 0.05);
        let before = whole.redirection.figures().redirected;
        for lba in 0..50 {
            whole.client.flush().await.unwrap();
            whole.client.trim(&mut buffer, &[Range::new(lba, 1)]).await.unwrap();
        }
        assert_eq!(
            whole.redirection.figures().redirected,
            before,
            "what concerns more than its blocks stays"
        );
        whole.end().await
    });
    assert!((figures.redirected as f64 / 2000.0 - 0.75).abs() < 0.05 && figures.returned == 0, "{figures:?}");
}

// Commands overtake each other in different queues while bindings come and go: reads must return what was written last.
#[test]
fn bindings_come_and_go_under_load() {
    let mut redirected = 0;
    for seed in 0..20 {
        let once = move || {
            run(seed, async |whole, mut stream| {
                let ended = whole.work(6, 150, &mut stream);
                for _ in 0..6 {
                    let lender = 1 + stream.below(2) as usize;
                    let (id, queue) = whole.bind(lender, 0.2 + 0.6 * stream.unit()).await;
                    whole.clock.sleep(Delay::from_us(stream.below(2000))).await;
                    whole.redirection.unbind(id).await;
                    assert_eq!(queue.outstanding(), 0, "drained");
                    whole.drives[lender].drive.controller.take_back(queue.qid()).unwrap();
                    whole.drivers[lender].delete_queue_pair(&queue).await.unwrap();
                }
                whole.until(&ended, 6).await;
                whole.end().await
            })
        };
        let (first, second) = (once(), once());
        assert_eq!(first, second, "seed {seed}: the same again");
        redirected += first.0.redirected;
    }
    assert!(redirected > 2000, "{redirected}");
}

// A lender's host resets it during the borrower's commands: they return, and go to the borrower. The queue pair is then
// the lender's own: a further redirected command would be executed on another tenant's data.
#[test]
fn a_lender_is_reset_under_load() {
    let mut returned = 0;
    for seed in 0..20 {
        let (figures, _) = run(seed, async |whole, mut stream| {
            whole.bind(1, 0.5).await;
            let ended = whole.work(6, 100, &mut stream);
            whole.clock.sleep(Delay::from_us(stream.below(1500))).await;
            whole.drivers[1].reset().await.unwrap();
            let (_, again) = whole.bind(1, 0.3).await;
            whole.clock.sleep(Delay::from_us(stream.below(1500))).await;
            whole.drivers[1].reset().await.unwrap();
            whole.until(&ended, 6).await;
            assert_eq!(again.outstanding(), 0);
            let written = whole.drives[1].drive.controller.ftl().counters().user_units_written;
            assert_eq!(written, 0, "the lender's own data");
            whole.end().await
        });
        returned += figures.returned;
    }
    assert!(returned > 20, "{returned}");
}

// A lender that needs its processor ends the loan: its commands in flight are executed by the borrower instead.
#[test]
fn loans_end_under_load() {
    let mut returned = 0;
    for seed in 0..20 {
        let (figures, _) = run(seed, async |whole, mut stream| {
            let (id, queue) = whole.bind(1, 0.5).await;
            let ended = whole.work(6, 100, &mut stream);
            for _ in 0..3 {
                whole.clock.sleep(Delay::from_us(stream.below(1000))).await;
                // A new loan replaces the ended one, when nothing is in flight any more.
                whole.redirection.set_share(id, 0.0);
                whole.loan.borrow().as_ref().unwrap().end();
                while whole.redirection.in_flight(id) > 0 {
                    whole.clock.sleep(Delay::from_us(5)).await;
                }
                whole.drives[1].drive.controller.take_back(queue.qid()).unwrap();
                whole.lend(1, &queue);
                whole.redirection.set_share(id, 0.5);
            }
            whole.until(&ended, 6).await;
            whole.end().await
        });
        returned += figures.returned;
    }
    assert!(returned > 0, "{returned}");
}
