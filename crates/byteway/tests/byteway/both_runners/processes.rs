//! The drive and its driver in two processes that share a socket, memory and doorbells.
//!
//! The test starts itself twice, once in each role. It ends the drive when the driver is done, and both on a failure or a timeout.

#![allow(
    clippy::disallowed_methods,
    reason = "processes are held against the wall clock, so that none hangs"
)]

use crate::both_runners::{MEMORY_BYTES, NS_4K_UNITS, NS_512_UNITS, drive_config, give_up_after};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Channel, Clock, Delay, Executor, Timing};
use byteway_content::BlockSize;
use byteway_host::{
    BaseState, BlockIoError, Client, ClientConfig, Driver, DriverConfig, IoBuffer, Method, Oracle, Port,
    QueueConfig, QueuePair, Rules,
};
use byteway_link::Memory;
use byteway_serve::attach::Attachment;
use byteway_serve::function::{Doorbells, Function};
use byteway_serve::vfio_user::Server;
use byteway_testkit::{SmallWorld, assert_at_rest};
use byteway_wire::nvme::Range;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

const IOS: u64 = 1_000_000;
/// Environment variable: the role of this process.
const ROLE: &str = "BYTEWAY_TEST_ROLE";
/// Environment variables: socket, and number of I/Os.
const SOCKET: &str = "BYTEWAY_TEST_SOCKET";
const COUNT: &str = "BYTEWAY_TEST_COUNT";

/// Queue pairs, and outstanding I/Os on each.
const PAIRS: usize = 2;
const DEPTH: u64 = 32;
const BUFFER_BYTES: u32 = 64 << 10;
/// Time limit of each process.
const DEADLINE_MS: u64 = 280_000;
const SEED: u64 = 1;

// Without this test the controller could depend on a driver in its own executor: one that yields when the drive waits, whose stores arrive
// in order, and that never writes while the drive reads.
#[test]
fn a_driver_in_another_process_gets_back_what_it_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("cntrl");
    let start = Instant::now();
    let mut drive = Process::start("drive", &socket, IOS);
    let mut driver = Process::start("driver", &socket, IOS);
    let mut ended = (None, None);
    while ended.0.is_none() || ended.1.is_none() {
        ended = (drive.look(), driver.look());
        for (process, status) in [(&drive, ended.0), (&driver, ended.1)] {
            if status.is_some_and(|status| !status.success()) {
                panic!("the {} has failed\n{}\n{}", process.role, drive.said(), driver.said());
            }
        }
        if ended.1.is_some() {
            drop(drive.child.stdin.take());
        }
        if start.elapsed() > Duration::from_millis(DEADLINE_MS) {
            panic!("drive and driver took too long\n{}\n{}", drive.said(), driver.said());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

// Not a test of its own: the processes that the test above starts run it.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    // The processes end if the test is killed.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let variable = |name| std::env::var(name).unwrap();
    let socket = PathBuf::from(variable(SOCKET));
    match role.as_str() {
        "drive" => serve(socket),
        "driver" => drive(&socket, variable(COUNT).parse().unwrap()),
        other => panic!("no such role: {other}"),
    }
}

/// A process of this test, killed on drop.
struct Process {
    role: &'static str,
    child: Child,
    output: File,
}

impl Process {
    fn start(role: &'static str, socket: &Path, ios: u64) -> Process {
        let output = tempfile::tempfile().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::role", "--nocapture"])
            .env(ROLE, role)
            .env(SOCKET, socket)
            .env(COUNT, ios.to_string())
            .stdin(Stdio::piped())
            .stdout(output.try_clone().unwrap())
            .stderr(output.try_clone().unwrap())
            .spawn()
            .unwrap();
        Process { role, child, output }
    }

    fn look(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Its output.
    fn said(&self) -> String {
        let mut bytes = vec![0; self.output.metadata().unwrap().len() as usize];
        std::os::unix::fs::FileExt::read_exact_at(&self.output, &mut bytes, 0).unwrap();
        format!("{}: {}", self.role, String::from_utf8_lossy(&bytes))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.kill().is_ok() {
            self.child.wait().unwrap();
        }
    }
}

/// Main function of the drive's process.
fn serve(socket: PathBuf) {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    give_up_after(&clock, Delay::from_ms(DEADLINE_MS));
    let powered = SmallWorld { memory: Memory::guest(), ..SmallWorld::of(drive_config()) }.power_on(&clock);
    let controller = powered.drive.controller.clone();
    let function = Function::new(&powered.host, &controller, 1, 5, Doorbells::Mapped).unwrap();
    let server = Server::bind(socket).unwrap();
    let done = Rc::new(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let main = async move {
        server.run(&function, &Default::default(), async move { clock.readable(&done).await }).await;
        assert_at_rest(&powered);
        let counters = controller.counters();
        let ftl = controller.ftl().counters();
        println!(
            "{} commands, {} resets, {} blocks erased, {} units collected",
            counters.fetched.get(),
            counters.resets.get(),
            controller.ftl().flash().counters().erases,
            ftl.units_programmed_collector,
        );
        assert!(
            ftl.units_programmed_collector > 0,
            "the drive was overwritten often enough to need its collector"
        );
    };
    executor.run_real(Timing::None, None, main).unwrap();
}

/// Main function of the driver's process.
fn drive(socket: &Path, ios: u64) {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    give_up_after(&clock, Delay::from_ms(DEADLINE_MS));
    let start = Instant::now();
    while !socket.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let attachment = Attachment::connect(socket, MEMORY_BYTES).unwrap();
    assert!(attachment.has_mapped_doorbells());
    let port = attachment.port(&clock);
    let main = async move {
        let verified = Host::attach(port).await.play(ios).await;
        println!("{ios} I/Os, {verified} blocks verified in {:?}", start.elapsed());
    };
    executor.run_real(Timing::None, None, main).unwrap();
}

/// A namespace under test.
#[derive(Clone)]
struct Space {
    index: usize,
    blocks: u64,
    block_bytes: u32,
    oracle: Rc<RefCell<Oracle>>,
}

struct Host {
    clock: Clock,
    driver: Driver,
    spaces: Vec<Space>,
}

impl Host {
    async fn attach(port: Port) -> Host {
        let clock = port.clock().clone();
        let driver = Driver::attach(port, DriverConfig::default()).await.unwrap();
        let spaces: Vec<_> = driver
            .namespaces()
            .iter()
            .enumerate()
            .map(|(index, namespace)| {
                let block = BlockSize::from_bytes(namespace.block_bytes.into()).unwrap();
                let oracle = Oracle::new(namespace.blocks, block, namespace.nsid as u16, BaseState::Zeroes);
                Space {
                    index,
                    blocks: namespace.blocks,
                    block_bytes: namespace.block_bytes,
                    oracle: Rc::new(RefCell::new(oracle)),
                }
            })
            .collect();
        let units = |space: &Space| space.blocks * u64::from(space.block_bytes) / 4096;
        assert_eq!(spaces.iter().map(units).collect::<Vec<_>>(), [NS_512_UNITS, NS_4K_UNITS]);
        Host { clock, driver, spaces }
    }

    fn client(&self, queue: &QueuePair, space: &Space) -> Client {
        let config = ClientConfig {
            rules: Rules::only(Method::Prp),
            bytes_max: BUFFER_BYTES,
            oracle: Some(space.oracle.clone()),
            verify_bytes: false,
        };
        Client::new(queue.clone(), self.driver.namespaces()[space.index], config).unwrap()
    }

    /// Half of the I/Os, a controller reset, the other half; then reads everything back. Returns the number of verified blocks.
    async fn play(&self, ios: u64) -> u64 {
        let mut queues = Vec::new();
        for _ in 0..PAIRS {
            // With more entries than are ever outstanding the ring would never wrap around full.
            queues.push(self.driver.create_queue_pair(QueueConfig::new(DEPTH as u32 + 1)).await.unwrap());
        }
        let mut workers: Vec<_> =
            (0..PAIRS as u64 * DEPTH).map(|number| Worker::new(self, &queues, number)).collect();
        for half in [ios / 2, ios - ios / 2] {
            let left = Rc::new(Cell::new(half));
            let done = Channel::unbounded(&self.clock);
            for mut worker in workers.drain(..) {
                let (left, done) = (left.clone(), done.clone());
                self.clock.spawn("worker", async move {
                    while let Some(rest) = left.get().checked_sub(1) {
                        left.set(rest);
                        worker.io().await;
                    }
                    done.send(worker).await;
                });
            }
            while workers.len() < PAIRS * DEPTH as usize {
                workers.push(done.receive().await);
            }
            self.driver.reset().await.unwrap();
        }
        for space in &self.spaces {
            let client = self.client(&queues[space.index], space);
            let mut buffer = client.buffer().unwrap();
            let blocks = BUFFER_BYTES / space.block_bytes;
            for lba in (0..space.blocks).step_by(blocks as usize) {
                client.read(&mut buffer, lba, blocks).await.unwrap();
            }
        }
        for queue in queues {
            self.driver.delete_queue_pair(&queue).await.unwrap();
        }
        self.ring_the_same_again().await;
        self.driver.shutdown().await.unwrap();
        assert_eq!((self.driver.protocol_errors(), self.driver.resets()), (0, 2));
        self.spaces.iter().map(|space| space.oracle.borrow().verified_blocks()).sum()
    }

    /// Rings the doorbell of a new queue with its predecessor's last value: in a shared page this is no change unless the drive cleared it.
    async fn ring_the_same_again(&self) {
        for _ in 0..3 {
            let queue = self.driver.create_queue_pair(QueueConfig::new(4)).await.unwrap();
            self.client(&queue, &self.spaces[0]).flush().await.unwrap();
            self.driver.delete_queue_pair(&queue).await.unwrap();
        }
    }
}

/// Issues one I/O after another on one queue, to both namespaces.
///
/// The first half of each namespace is shared by all workers; in the second half each has its own part in one of the namespaces, where it
/// knows the expected data of a Compare.
struct Worker {
    stream: Stream,
    spaces: Vec<(Space, Client, IoBuffer)>,
    own: usize,
    own_first: u64,
    own_blocks: u64,
}

impl Worker {
    fn new(host: &Host, queues: &[QueuePair], number: u64) -> Worker {
        let queue = &queues[(number / DEPTH) as usize];
        let spaces: Vec<_> = host
            .spaces
            .iter()
            .map(|space| {
                let client = host.client(queue, space);
                let buffer = client.buffer().unwrap();
                (space.clone(), client, buffer)
            })
            .collect();
        let own = (number % 2) as usize;
        let half = spaces[own].0.blocks / 2;
        let own_blocks = half / (PAIRS as u64 * DEPTH / 2);
        Worker {
            stream: Rng::new(SEED).stream(&format!("worker-{number}")),
            spaces,
            own,
            own_first: half + number / 2 * own_blocks,
            own_blocks,
        }
    }

    /// Number of blocks of an I/O: usually a few KiB, sometimes the whole buffer.
    fn blocks(&mut self, space: usize) -> u64 {
        let bytes = if self.stream.below(64) == 0 { BUFFER_BYTES } else { 12 << 10 };
        1 + self.stream.below(u64::from(bytes / self.spaces[space].0.block_bytes))
    }

    /// Blocks that this worker may write.
    fn writable(&mut self) -> (usize, u64, u64) {
        if self.stream.below(2) == 0 {
            return self.of_its_own();
        }
        let space = self.stream.below(2) as usize;
        let blocks = self.blocks(space);
        (space, self.stream.below(self.spaces[space].0.blocks / 2 - blocks + 1), blocks)
    }

    /// Blocks that only this worker writes.
    fn of_its_own(&mut self) -> (usize, u64, u64) {
        let blocks = self.blocks(self.own);
        (self.own, self.own_first + self.stream.below(self.own_blocks - blocks + 1), blocks)
    }

    async fn io(&mut self) {
        let kind = self.stream.below(100);
        let (space, lba, blocks) = match kind {
            0..50 => {
                let space = self.stream.below(2) as usize;
                let blocks = self.blocks(space);
                (space, self.stream.below(self.spaces[space].0.blocks - blocks + 1), blocks)
            }
            50..58 => self.of_its_own(),
            _ => self.writable(),
        };
        let (_, client, buffer) = &mut self.spaces[space];
        let count = blocks as u32;
        let result = match kind {
            0..50 => client.read(buffer, lba, count).await,
            50..58 => client.compare(buffer, lba, count).await,
            58..88 => client.write(buffer, lba, count).await,
            88..90 => client.write_fua(buffer, lba, count).await,
            90..93 => client.write_zeroes(lba, count, lba % 2 == 0).await,
            93..97 => {
                let first = count / 2;
                let second =
                    Range { slba: lba + u64::from(first), length: count - first, ..Range::default() };
                let ranges = [Range { slba: lba, length: first, ..Range::default() }, second];
                client.trim(buffer, if first == 0 { &ranges[1..] } else { &ranges }).await
            }
            _ => client.flush().await,
        };
        if let Err(error) = result {
            let error: BlockIoError = error;
            panic!("seed {SEED}, kind {kind}, namespace {}, {count} blocks from {lba}: {error}", space + 1);
        }
    }
}
