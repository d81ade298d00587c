//! The fixture of JBOFs: their parameters, drives limited by their single core, and users that keep them busy.

use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Time};
use byteway_content::BlockSize;
use byteway_device::DriveConfig;
use byteway_firmware::WorkKind;
use byteway_host::{BaseState, Client, ClientConfig, Method, Oracle, Rules};
use byteway_jbof::{Jbof, JbofConfig};
use byteway_testkit::{NS_512_UNITS, ask, drive_config, link_config};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub const PERIOD: Delay = Delay::from_us(500);
/// Used blocks of 512 bytes of each drive.
pub const BLOCKS: u64 = NS_512_UNITS * 8;

/// Drives whose single core limits them, long before their flash.
pub fn drives(count: usize) -> Vec<DriveConfig> {
    (0..count)
        .map(|number| {
            let mut config = drive_config();
            config.site.cores = 1;
            config.site.cycles = config.site.cycles.with(WorkKind::Translate, 20_000);
            DriveConfig { serial: format!("JBOF{number}"), seed: 7 + number as u64, ..config }
        })
        .collect()
}

/// The parameters of a JBOF of `count` drives.
pub fn jbof_config(count: usize) -> JbofConfig {
    JbofConfig { period: PERIOD, entries: 64, ..JbofConfig::new(link_config(), count, 3) }
}

/// Runs a test over a JBOF with drivers until it ends.
pub fn run_jbof<T: 'static>(
    config: JbofConfig,
    drives: Vec<DriveConfig>,
    test: impl AsyncFnOnce(Clock, Rc<Jbof>) -> T + 'static,
) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ran = executor.run(async move {
        let jbof = Jbof::power_on(&clock, config, drives).await.unwrap();
        test(clock, Rc::new(jbof)).await
    });
    ran.unwrap_or_else(|stalled| panic!("{stalled}"))
}

/// Users of a drive, who continue until they are stopped.
pub struct Users {
    pub done: Rc<Cell<u64>>,
    ended: Rc<Cell<u64>>,
    until: Rc<Cell<Time>>,
    count: u64,
}

impl Users {
    /// Starts users of a new drive, each with one I/O in flight: `each` is the I/O.
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

    /// Starts users of a client.
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

    /// Stops them, and waits.
    pub async fn end(&self, clock: &Clock) {
        self.until.set(clock.now());
        while self.ended.get() < self.count {
            clock.sleep(Delay::from_us(50)).await;
        }
    }

    /// Number of I/Os that end within `during`.
    pub async fn rate(&self, clock: &Clock, during: Delay) -> u64 {
        let before = self.done.get();
        clock.sleep(during).await;
        self.done.get() - before
    }
}

/// A client of an empty drive.
pub async fn client(jbof: &Jbof, drive: usize) -> Rc<Client> {
    let oracle = Oracle::new(BLOCKS, BlockSize::B512, 1, BaseState::Zeroes);
    let config = ClientConfig {
        rules: Rules::only(Method::Prp),
        bytes_max: 64 << 10,
        oracle: Some(Rc::new(RefCell::new(oracle))),
        verify_bytes: true,
    };
    let queue = jbof.queue_pair(drive).await.unwrap();
    Rc::new(Client::new(queue, jbof.driver(drive).unwrap().namespaces()[0], config).unwrap())
}

pub async fn read(client: &Client, stream: &mut Stream) {
    let mut buffer = client.buffer().unwrap();
    client.read(&mut buffer, stream.below(BLOCKS / 8) * 8, 8).await.unwrap();
}

pub async fn mixed(client: &Client, stream: &mut Stream) {
    let mut buffer = client.buffer().unwrap();
    ask(client, &mut buffer, stream, BLOCKS).await;
}

/// Waits until no loans are left, and checks that nothing has leaked.
pub async fn at_rest(clock: &Clock, jbof: &Jbof) {
    clock.sleep(PERIOD * 20).await;
    for drive in 0..jbof.len() {
        let powered = jbof.drive(drive).unwrap();
        assert!(powered.drive.controller.is_quiet(), "drive {drive}");
        assert_eq!(jbof.driver(drive).unwrap().protocol_errors(), 0, "drive {drive}");
        powered.balance().unwrap();
    }
}
