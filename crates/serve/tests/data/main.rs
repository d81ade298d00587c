//! A served drive whose process is killed: flushed blocks and key-value pairs persist, and the drive restarts
//! quickly.
//!
//! The test starts itself as the drive's process, and kills it.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]
#![allow(
    clippy::disallowed_methods,
    reason = "processes are held against the wall clock, so that none hangs"
)]

use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Timing};
use byteway_content::{BlockSize, Keep};
use byteway_device::{ControllerConfig, DriveConfig, KvPolicy, NamespaceConfig, SiteConfig};
use byteway_firmware::{Cycles, Ftl, FtlConfig, Space};
use byteway_flash::Geometry;
use byteway_flash::file::{self, Directory};
use byteway_host::{
    BaseState, Client, ClientConfig, Driver, DriverConfig, IoBuffer, KvClient, KvConfig, KvOracle, Method,
    Oracle, QueueConfig, Rules, StoreIf,
};
use byteway_serve::attach::Attachment;
use byteway_serve::drive::{Access, Setup, Stop, serve};
use byteway_serve::function::Doorbells;
use byteway_wire::nvme::Range;
use byteway_wire::nvme::kv::Key;
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Environment variable: directory of the drive, set in the drive's process.
const FOLDER: &str = "BYTEWAY_TEST_FOLDER";
/// Environment variable: how many times a drive is killed.
const KILLS: &str = "BYTEWAY_KILLS";

const UNITS: u64 = 10 << 10;
const WORKERS: u64 = 12;
/// Size of the KV namespace next to the block namespace: 12 MiB.
const PAIRS_UNITS: u64 = 3 << 10;
const PAIRS_NSID: u32 = 2;
const PAIRS_WORKERS: u64 = 6;
const KEYS: u64 = 400;
const VALUE_BYTES_MAX: u32 = 24 << 10;
const BUFFER_BYTES: u32 = 64 << 10;
const DEADLINE: Duration = Duration::from_secs(60);

fn drive() -> DriveConfig {
    let small = byteway_testkit::drive_config();
    DriveConfig {
        serial: "KILL0001".into(),
        controller: ControllerConfig {
            io_queues_max: 4,
            queue_entries_max: 256,
            command_slots: 32,
            fetch_outstanding: 4,
            fetch_burst: 8,
            vectors: 5,
            ..small.controller
        },
        site: SiteConfig { cores: 1, cycles: Cycles::FREE, ..small.site },
        // 90 MiB, most of which is used, so that garbage collection runs all the time.
        geometry: Geometry { planes: 2, blocks: 40, pages: 18, ..small.geometry },
        timing: byteway_flash::Timing {
            read: vec![Delay::from_us(10); 3],
            program: vec![Delay::from_us(50); 3],
            ..small.timing
        },
        ftl: FtlConfig { checkpoint_units: 2048, ..small.ftl },
        namespaces: vec![
            NamespaceConfig::blocks(UNITS, BlockSize::B4096),
            NamespaceConfig::key_value(PAIRS_UNITS),
        ],
        // So small that its index is compacted and its values are garbage collected.
        kv: Some(KvPolicy {
            store: byteway_kv::KvConfig {
                segment_units: 64,
                memtable_bytes: 8 << 10,
                value_bytes_max: VALUE_BYTES_MAX,
                ..byteway_kv::KvConfig::default()
            },
            ..KvPolicy::default()
        }),
        keep: Keep::Stamps,
        ..small
    }
}

// Not a test of its own: the process that the test below starts.
#[test]
fn role() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    // If the test is killed, this process ends, too.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let setup = Setup {
        name: "test".into(),
        drive: drive(),
        link: byteway_testkit::link_config(),
        timing: Timing::None,
        access: vec![Access::VfioUser {
            socket: folder.join("cntrl"),
            doorbells: Doorbells::Mapped,
            rest: byteway_serve::front::REST,
        }],
        data: Some(folder.join("data")),
        watch: None,
    };
    let stop = Stop::new().unwrap();
    // The end of its input ends this process.
    let said = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        said.stop();
    });
    serve(setup, &stop, |start| {
        let start = start.unwrap();
        let us = (start.opening + start.recovery).as_micros();
        let opened = start.opened;
        println!("@ready {us} {} {} {}", opened.clean, opened.stripes_found, opened.stripes_torn);
    })
    .unwrap();
}

/// The drive's process, which is killed on drop.
#[derive(Debug)]
struct Process(Child, BufReader<std::process::ChildStdout>);

/// How it started.
#[derive(Debug)]
struct Began {
    start: Duration,
    clean: bool,
    found: u64,
}

impl Process {
    fn start(folder: &Path) -> (Process, Began) {
        let errors = File::options().create(true).append(true).open(folder.join("errors")).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "role", "--nocapture"])
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut process = Process(child, output);
        let mut line = String::new();
        while process.1.read_line(&mut line).unwrap() > 0 {
            if let Some((_, ready)) = line.split_once("@ready ") {
                let words: Vec<&str> = ready.trim().split(' ').collect();
                let start = Duration::from_micros(words[0].parse().unwrap());
                let (clean, found) = (words[1] == "true", words[2].parse().unwrap());
                return (process, Began { start, clean, found });
            }
            line.clear();
        }
        panic!("the drive is not served: {}", std::fs::read_to_string(folder.join("errors")).unwrap());
    }

    /// Stops it in order.
    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.0.kill().is_ok() {
            self.0.wait().unwrap();
        }
    }
}

/// One I/O after another.
struct Worker {
    client: Client,
    buffer: IoBuffer,
    stream: Stream,
}

impl Worker {
    async fn io(&mut self) {
        let blocks = if self.stream.chance(0.2) { 1 + self.stream.below(16) } else { 1 };
        let lba = self.stream.below(UNITS - blocks + 1);
        let (client, buffer, count) = (&self.client, &mut self.buffer, blocks as u32);
        let result = match self.stream.below(100) {
            0..20 => client.read(buffer, lba, count).await,
            20..80 => client.write(buffer, lba, count).await,
            80..83 => client.write_fua(buffer, lba, count).await,
            83..86 => client.write_zeroes(lba, count, true).await,
            86..95 => {
                let range = Range { slba: lba, length: count, ..Range::default() };
                client.trim(buffer, &[range]).await
            }
            _ => client.flush().await,
        };
        if let Err(error) = result {
            panic!("{count} blocks from {lba}: {error}");
        }
    }
}

/// One key-value operation after another.
struct PairsWorker {
    client: KvClient,
    buffer: IoBuffer,
    stream: Stream,
}

impl PairsWorker {
    async fn operate(&mut self) {
        let key = key(self.stream.below(KEYS));
        let bytes_max = if self.stream.chance(0.1) { VALUE_BYTES_MAX.into() } else { 600 };
        let bytes = self.stream.below(bytes_max) as u32;
        let (client, buffer) = (&self.client, &mut self.buffer);
        let result = match self.stream.below(100) {
            0..55 => client.store(buffer, key, bytes, StoreIf::Any).await.map(drop),
            55..75 => client.retrieve(buffer, key, 0, VALUE_BYTES_MAX).await.map(drop),
            75..88 => client.delete(key).await.map(drop),
            88..92 => client.exist(key).await.map(drop),
            92..95 => client.list(buffer, Some(key), 512, &mut Vec::new()).await.map(drop),
            _ => client.flush().await.map(drop),
        };
        if let Err(error) = result {
            panic!("{key}: {error}");
        }
    }
}

fn key(number: u64) -> Key {
    let bytes = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    Key::new(&bytes[..2 + number as usize % 7]).unwrap()
}

/// The expected contents of the drive.
struct Held {
    blocks: Rc<RefCell<Oracle>>,
    pairs: Rc<RefCell<KvOracle>>,
}

/// Attaches, reads everything, then writes until the time is over; `kill` kills the drive meanwhile.
/// Otherwise the host disconnects abruptly, if `silently`, or shuts the drive down.
fn attach(folder: &Path, held: &Held, seed: u64, load: Option<(Delay, Box<dyn FnOnce()>)>, silently: bool) {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    give_up(&clock);
    let attachment = Attachment::connect(&folder.join("cntrl"), 16 << 20).unwrap();
    let port = attachment.port(&clock);
    let (oracle, pairs) = (held.blocks.clone(), held.pairs.clone());
    let main = async move {
        let driver = Driver::attach(port, DriverConfig::default()).await.unwrap();
        let queue = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
        let namespace = driver.namespaces()[0];
        let client = || {
            let rules = Rules::only(Method::Prp);
            let config = ClientConfig {
                rules,
                bytes_max: BUFFER_BYTES,
                oracle: Some(oracle.clone()),
                verify_bytes: false,
            };
            Client::new(queue.clone(), namespace, config).unwrap()
        };
        let all = client();
        let mut buffer = all.buffer().unwrap();
        for lba in (0..UNITS).step_by(16) {
            all.read(&mut buffer, lba, 16).await.unwrap();
        }
        let client_of_pairs = || {
            let rules = Rules::only(Method::Prp);
            let config = KvConfig { oracle: Some(pairs.clone()), ..KvConfig::new(rules, VALUE_BYTES_MAX) };
            KvClient::new(queue.clone(), PAIRS_NSID, config)
        };
        let all = client_of_pairs();
        let mut buffer = all.buffer().unwrap();
        for number in 0..KEYS {
            all.retrieve(&mut buffer, key(number), 0, VALUE_BYTES_MAX).await.unwrap();
        }
        assert!(all.list(&mut buffer, None, VALUE_BYTES_MAX, &mut Vec::new()).await.unwrap());
        let Some((time, kill)) = load else {
            if silently {
                for number in 0..KEYS / 2 {
                    all.store(&mut buffer, key(number), 70, StoreIf::Any).await.unwrap();
                }
                return;
            }
            driver.shutdown().await.unwrap();
            return;
        };
        for number in 0..WORKERS {
            let client = client();
            let buffer = client.buffer().unwrap();
            let stream = Rng::new(seed).stream(&format!("worker-{number}"));
            let mut worker = Worker { client, buffer, stream };
            clock.spawn("worker", async move {
                loop {
                    worker.io().await;
                }
            });
        }
        for number in 0..PAIRS_WORKERS {
            let client = client_of_pairs();
            let buffer = client.buffer().unwrap();
            let stream = Rng::new(seed).stream(&format!("pairs-{number}"));
            let mut worker = PairsWorker { client, buffer, stream };
            clock.spawn("pairs", async move {
                loop {
                    worker.operate().await;
                }
            });
        }
        clock.timer(time).await;
        kill();
        // The workers may not have seen the last completions, and receive no more.
    };
    executor.run_real(Timing::None, None, main).unwrap();
}

/// Checks the directory: checksums, and the map against the spare areas. Returns the number of mapped units
/// in flash.
fn check(folder: &Path) -> u64 {
    let directory = Arc::new(Directory::look(&folder.join("data")).unwrap());
    let units = Space::new(UNITS + PAIRS_UNITS, false).units();
    let checked = file::check(&*directory, |_| units, |_, _| true).unwrap();
    assert_eq!(checked.findings_total, 0, "{:?}", checked.findings);
    let executor = Executor::new();
    let ftl = Ftl::look(executor.clock(), directory).unwrap();
    let audit = executor.run(async move {
        ftl.ready().await;
        ftl.audit().await
    });
    let audit = audit.unwrap();
    assert_eq!(audit.findings_total, 0, "{:?}", audit.findings);
    audit.units
}

fn give_up(clock: &Clock) {
    let inner = clock.clone();
    clock.spawn("deadline", async move {
        inner.timer(Delay::from_ms(DEADLINE.as_millis() as u64)).await;
        panic!("not done after {DEADLINE:?}");
    });
}

// A killed drive must have all acknowledged durable data, no data that was never written, and restart
// quickly.
#[test]
fn what_was_flushed_is_there_after_a_kill() {
    let kills: u64 = std::env::var(KILLS).map_or(8, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let oracle = Oracle::new(UNITS, BlockSize::B4096, 1, BaseState::Zeroes).with_power_cuts(false);
    let held = Held {
        blocks: Rc::new(RefCell::new(oracle)),
        pairs: Rc::new(RefCell::new(KvOracle::new(PAIRS_NSID as u16).with_power_cuts(false))),
    };
    let mut stream = Rng::new(1).stream("kills");
    let (mut slowest, mut found, mut volatile, mut unflushed) = (Duration::ZERO, 0, 0, 0);
    let begun = Instant::now();
    for kill in 0..kills {
        let (process, began) = Process::start(folder.path());
        assert!(kill > 0 || began.clean, "{began:?}");
        slowest = slowest.max(began.start);
        found += began.found;
        let time = Delay::from_us(1000 + stream.below(250_000));
        let killed = Box::new(move || drop(process));
        attach(folder.path(), &held, kill, Some((time, killed)), false);
        volatile += held.blocks.borrow().volatile_blocks();
        unflushed += held.pairs.borrow().unsettled_keys();
        held.blocks.borrow_mut().cut_power();
        held.pairs.borrow_mut().cut_power();
        check(folder.path());
    }
    let (process, _) = Process::start(folder.path());
    attach(folder.path(), &held, 0, None, true);
    // The host has disconnected abruptly: an orderly end of the drive loses no acknowledged data.
    process.end();
    assert!(check(folder.path()) > 0, "nothing was written");
    let (process, began) = Process::start(folder.path());
    assert!(began.clean, "ended in order: {began:?}");
    attach(folder.path(), &held, 0, None, false);
    process.end();
    println!(
        "{kills} kills in {:?}: started within {slowest:?}, {found} stripes found, {} blocks verified, {volatile} in doubt; \
         {} pairs verified, {unflushed} keys in doubt",
        begun.elapsed(),
        held.blocks.borrow().verified_blocks(),
        held.pairs.borrow().verified()
    );
}

// Two processes with one directory would destroy it.
#[test]
fn a_directory_has_one_drive() {
    let folder = tempfile::tempdir().unwrap();
    let (process, _) = Process::start(folder.path());
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::os::unix::fs::symlink(folder.path().join("data"), other.join("data")).unwrap();
    let refused = std::panic::catch_unwind(|| drop(Process::start(&other))).unwrap_err();
    let message = refused.downcast_ref::<String>().unwrap();
    assert!(message.contains("InUse"), "{message}");
    process.end();
}
