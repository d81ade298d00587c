//! A client, as a separate process.

use crate::ledger::Ledger;
use crate::server::Drive;
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Notify, Timing};
use byteway_content::BlockSize;
use byteway_host::{
    Client, ClientConfig, Driver, DriverConfig, IoBuffer, Method, QueueConfig, QueuePair, Rules,
};
use byteway_serve::attach::Attachment;
use byteway_serve::function::REGION_BAR0;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::Range;
use byteway_wire::nvme::register::{CC, Cc};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

/// Environment variable: the task of the process, as JSON.
const TASK: &str = "BYTEWAY_TEST_TASK";
/// Prefix of output that the parent reads.
const MARK: &str = "@seen ";
const WORKERS: u64 = 8;
/// Upper limit of a command in bytes; a command stays in one stretch of this size.
const STRETCH: u64 = 64 << 10;
/// Stretches that clients of one span work on: enough to be rewritten, and few enough to keep the server's memory and the directory small.
const STRETCHES: u64 = 128;
/// Upper limit of a client's operations (exclusive): operation and client numbers form a version.
const OPS_MAX: u64 = 4096;
/// Mean size of an operation's write.
pub const OP_BYTES: u64 = 10 << 10;
/// Version of the initial content.
const FILLED: u32 = OPS_MAX as u32 - 1;
/// Time limit of a client on any machine.
const DEADLINE: Delay = Delay::from_ms(120_000);

/// How a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leave {
    /// It shuts the controller down.
    InOrder,
    /// It exits, which closes its socket.
    Silently,
    /// It is killed with commands outstanding.
    Killed,
    /// It clears CC.EN and is killed before the reset completes.
    MidReset,
    /// It resets the function with commands outstanding, and is killed.
    AfterFunctionReset,
    /// It requests a shutdown and is killed before its completion.
    MidShutdown,
    /// It requests a shutdown, resets the controller before its completion, and is killed.
    MidShutdownAndReset,
    /// It sends part of its first message, and is killed.
    MidMessage,
}

impl Leave {
    pub const ALL: [Leave; 8] = [
        Leave::InOrder,
        Leave::Silently,
        Leave::Killed,
        Leave::MidReset,
        Leave::AfterFunctionReset,
        Leave::MidShutdown,
        Leave::MidShutdownAndReset,
        Leave::MidMessage,
    ];

    fn is_by_kill(self) -> bool {
        !matches!(self, Leave::InOrder | Leave::Silently)
    }
}

/// A client's task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    pub seed: u64,
    /// Sequence number of the client on its drive.
    pub index: u64,
    pub ops: u64,
    /// Bytes of the drive that it works on, from the start.
    pub span: u64,
    pub leave: Leave,
    pub work: ClientTask,
}

/// A client's work on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientTask {
    /// Writes every stretch that any client works on: the drive's content does not grow after that.
    Fill,
    /// Reads, writes, deallocates and flushes at random.
    Mix,
    /// Reads and verifies everything that clients have written, without writes.
    Read,
}

#[derive(Serialize, Deserialize)]
struct Order {
    folder: PathBuf,
    is_empty: bool,
    task: Task,
}

/// Runs a client in a process. Returns its observations of the controller, if any.
///
/// # Errors
/// The message of a failure, or of an unexpected exit.
pub fn run(folder: &Path, drive: &Drive, task: &Task) -> Result<Option<String>, String> {
    let order = Order { folder: folder.to_path_buf(), is_empty: drive.is_empty(), task: task.clone() };
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role", "--nocapture"])
        .env(TASK, serde_json::to_string(&order).unwrap())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let is_expected = match task.leave.is_by_kill() {
        true => ended.status.signal() == Some(Signal::KILL.as_raw()),
        false => ended.status.success(),
    };
    if !is_expected {
        return Err(format!("the client has ended with {}\n{said}", ended.status));
    }
    let seen = said.split_once(MARK).and_then(|(_, seen)| seen.lines().next());
    match seen {
        None if task.leave != Leave::MidMessage => Err(format!("the client was not served\n{said}")),
        seen => Ok(seen.map(str::to_owned)),
    }
}

/// Main function of the process that [`run`] starts.
pub fn role() {
    let Ok(order) = std::env::var(TASK) else { return };
    // The process ends if the test is killed.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let Order { folder, is_empty, task } = serde_json::from_str(&order).unwrap();
    if task.leave == Leave::MidMessage {
        let mut socket = UnixStream::connect(folder.join("cntrl")).unwrap();
        socket.write_all(&[1, 0, 1, 0, 64, 0, 0]).unwrap(); // of the 16 bytes of a header
        die();
    }
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let deadline = clock.clone();
    clock.spawn("deadline", async move {
        deadline.timer(DEADLINE).await;
        panic!("it takes too long");
    });
    let attachment = Rc::new(Attachment::connect(&folder, 16 << 20).unwrap());
    executor.run_real(Timing::None, None, work(clock, attachment, folder, is_empty, task)).unwrap();
}

fn die() -> ! {
    kill_process(getpid(), Signal::KILL).unwrap();
    unreachable!("killed");
}

/// A worker. It owns every `workers`-th stretch, so that no two workers write the same block.
struct Worker {
    number: u64,
    client: Client,
    buffer: IoBuffer,
    stream: Stream,
    ledger: Rc<Ledger>,
    /// Blocks of a stretch.
    blocks: u64,
    /// Size in bytes.
    span: u64,
}

async fn work(clock: Clock, attachment: Rc<Attachment>, folder: PathBuf, is_empty: bool, task: Task) {
    let driver = Driver::attach(attachment.port(&clock), DriverConfig::default()).await.unwrap();
    let identity = crc32c::crc32c(driver.identity().as_bytes());
    let (cap, queues) = (driver.cap().into_bits(), driver.queues_granted());
    // Immediately: a client that is killed has no other opportunity.
    println!("{MARK}{cap:x} {identity:x} {queues} {:?}", driver.namespaces());
    std::io::stdout().flush().unwrap();
    let queue = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
    let namespace = driver.namespaces()[0];
    let block = BlockSize::from_bytes(namespace.block_bytes.into()).unwrap();
    let ledger = Rc::new(Ledger::open(&folder, namespace.nsid, block, is_empty));
    let blocks = STRETCH / u64::from(namespace.block_bytes);
    let new_client = |queue: &QueuePair| {
        let config = ClientConfig {
            rules: Rules::only(Method::Prp),
            bytes_max: STRETCH as u32,
            oracle: None,
            verify_bytes: false,
        };
        Client::new(queue.clone(), namespace, config).unwrap()
    };
    let client = new_client(&queue);
    let mut buffer = client.buffer().unwrap();
    if task.work == ClientTask::Read {
        for lba in (0..ledger.blocks()).step_by(blocks as usize) {
            if ledger.is_touched(lba, blocks) {
                read(&client, &ledger, &mut buffer, lba, blocks).await;
            }
        }
    }
    if task.work == ClientTask::Fill {
        let bytes = namespace.blocks * u64::from(namespace.block_bytes);
        for span in (20..=bytes.ilog2()).map(|bits| 1 << bits) {
            for stretch in (0..COMMON).chain((0..others(span)).map(|nth| COMMON + nth * step(span))) {
                write(&client, &ledger, &mut buffer, stretch * blocks, blocks, FILLED, false).await;
            }
        }
    }
    let left = Rc::new(Cell::new(task.ops));
    let (working, idle) = (Rc::new(Cell::new(WORKERS)), Rc::new(Notify::new(&clock)));
    for number in 0..WORKERS {
        let client = new_client(&queue);
        let mut worker = Worker {
            number,
            buffer: client.buffer().unwrap(),
            client,
            stream: Rng::new(task.seed).stream(&format!("worker-{number}")),
            ledger: ledger.clone(),
            blocks,
            span: task.span,
        };
        let (left, working, idle) = (left.clone(), working.clone(), idle.clone());
        let (index, leave, own) = (task.index, task.leave, attachment.clone());
        clock.spawn("worker", async move {
            while left.get() > 0 {
                left.set(left.get() - 1);
                if left.get() == 0 && leave.is_by_kill() {
                    go(&own, leave);
                }
                worker.operate((index * OPS_MAX + left.get() + 1) as u32).await;
            }
            working.set(working.get() - 1);
            idle.notify_one();
        });
    }
    while working.get() > 0 {
        idle.notified().await;
    }
    if task.leave == Leave::InOrder {
        driver.shutdown().await.unwrap();
    }
}

/// Leaves while others have commands outstanding.
fn go(attachment: &Attachment, leave: Leave) -> ! {
    let client = attachment.client();
    let set_cc = |change: fn(Cc) -> Cc| {
        let mut cc = [0; 4];
        client.region_read(REGION_BAR0, CC, &mut cc).unwrap();
        let cc = change(Cc::from_bits(u32::from_le_bytes(cc)));
        client.region_post(REGION_BAR0, CC, &cc.into_bits().to_le_bytes()).unwrap();
    };
    let reset = |cc: Cc| cc.with_en(false);
    let shut_down = |cc: Cc| cc.with_shn(Cc::SHN_NORMAL);
    match leave {
        Leave::MidReset => set_cc(reset),
        Leave::AfterFunctionReset => client.reset().unwrap(),
        Leave::MidShutdown => set_cc(shut_down),
        Leave::MidShutdownAndReset => {
            set_cc(shut_down);
            set_cc(reset);
        }
        Leave::InOrder | Leave::Silently | Leave::Killed | Leave::MidMessage => {}
    }
    die()
}

async fn read(client: &Client, ledger: &Ledger, buffer: &mut IoBuffer, lba: u64, blocks: u64) {
    client
        .read(buffer, lba, blocks as u32)
        .await
        .unwrap_or_else(|error| panic!("{blocks} from {lba}: {error}"));
    let mut bytes = vec![0; blocks as usize * client.namespace().block_bytes as usize];
    client.get(buffer, &mut bytes).unwrap();
    ledger.verify(lba, &bytes).unwrap_or_else(|wrong| panic!("{wrong}"));
}

async fn write(
    client: &Client,
    ledger: &Ledger,
    buffer: &mut IoBuffer,
    lba: u64,
    blocks: u64,
    version: u32,
    is_durable: bool,
) {
    let block = client.namespace().block_bytes as usize;
    let mut bytes = vec![0; blocks as usize * block];
    for (lba, bytes) in (lba..).zip(bytes.chunks_exact_mut(block)) {
        ledger.stamp(lba, version).fill(bytes);
    }
    client.put(buffer, &bytes).unwrap();
    ledger.begin(lba, blocks, Some(version));
    let result = match is_durable {
        true => client.write_fua(buffer, lba, blocks as u32).await,
        false => client.write(buffer, lba, blocks as u32).await,
    };
    result.unwrap_or_else(|error| panic!("{blocks} from {lba}: {error}"));
    ledger.end(lba, blocks, Some(version));
}

/// Stretches in the first MiB, where every client works.
const COMMON: u64 = (1 << 20) / STRETCH;

/// Number of stretches after those that the clients of a span work on, and their distance.
fn others(span: u64) -> u64 {
    STRETCHES.min(span / STRETCH - COMMON) / WORKERS * WORKERS
}

fn step(span: u64) -> u64 {
    (span / STRETCH - COMMON) / others(span).max(1)
}

impl Worker {
    /// An operation; `version` is that of its writes.
    async fn operate(&mut self, version: u32) {
        let stretch = self.stretch();
        let blocks = if self.stream.chance(0.5) { 1 + self.stream.below(self.blocks) } else { 1 };
        let lba = stretch * self.blocks + self.stream.below(self.blocks - blocks + 1);
        let Worker { client, buffer, ledger, stream, .. } = self;
        let writes = match stream.below(100) {
            0..40 => return read(client, ledger, buffer, lba, blocks).await,
            40..42 => return client.flush().await.map(drop).unwrap(),
            42..46 => None,
            _ => Some(version),
        };
        if ledger.is_uncertain(lba, blocks) {
            read(client, ledger, buffer, lba, blocks).await;
        }
        match writes {
            None => {
                ledger.begin(lba, blocks, None);
                let range = Range { slba: lba, length: blocks as u32, ..Range::default() };
                client.trim(buffer, &[range]).await.unwrap();
            }
            Some(version) => {
                let is_durable = stream.chance(0.05);
                return write(client, ledger, buffer, lba, blocks, version, is_durable).await;
            }
        }
        ledger.end(lba, blocks, None);
    }

    /// A stretch of this worker: in the first MiB, where every client works, or anywhere in the span.
    fn stretch(&mut self) -> u64 {
        let others = others(self.span);
        let is_common = others == 0 || self.stream.chance(0.3);
        let mut own = |count| self.stream.below(count / WORKERS) * WORKERS + self.number;
        // The others follow the common ones, so that within a client each stretch belongs to one worker.
        if is_common { own(COMMON) } else { COMMON + own(others) * step(self.span) }
    }
}
