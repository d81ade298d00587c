//! Start time and memory of a drive with data in files, after `kill -9` and after an orderly shutdown, with several GiB written.
//!
//! `cargo bench -p byteway --bench start [-- CAPACITY_GIB...]`: default 100 GiB and 1 TiB. Each drive is a process; the data are
//! incompressible bytes, which the files must store in full. The files are in the system's folder for temporary files, and in its page
//! cache: after a reboot reads are slower. Times are from the start of the process until a host can attach; they are only checked for
//! plausibility.
#![allow(clippy::disallowed_methods, reason = "processes are measured by the wall clock")]

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, ensure};
use byteway_clock::random::Rng;
use byteway_clock::{Delay, Executor, Timing};
use byteway_host::{Client, ClientConfig, Driver, DriverConfig, Method, QueueConfig, Rules};
use byteway_serve::attach::Attachment;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Data written to each drive.
const WRITTEN_GIB: u64 = 3;
/// Size of an I/O in the first half.
const PIECE_BYTES: u32 = 128 << 10;
const WORKERS: u64 = 16;

fn main() -> anyhow::Result<()> {
    let capacities: Result<Vec<u64>, _> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).map(|arg| arg.parse()).collect();
    let capacities = match capacities.context("a capacity is a number of GiB")? {
        none if none.is_empty() => vec![100, 1024],
        some => some,
    };
    capacities.into_iter().try_for_each(measure)
}

fn measure(gib: u64) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let device = format!(
        "[drive]\nprofile = \"samsung-970-pro\"\ncapacity = \"{gib} GiB\"\nprecondition = \"empty\"\n\
         [serve]\ntiming = \"none\"\n"
    );
    std::fs::write(folder.join("drive.toml"), device)?;
    println!("{gib} GiB, of which {WRITTEN_GIB} GiB are written in places all over it:");
    let served = Served::start(folder, "new")?;
    let begun = Instant::now();
    write(folder, gib)?;
    println!(
        "  written in {:.1} s; {} MiB resident then",
        begun.elapsed().as_secs_f64(),
        served.memory_mib("VmRSS:")?
    );
    served.kill()?; // in mid-operation: without a recent flush
    let served = Served::start(folder, "after kill -9")?;
    served.end()?;
    Served::start(folder, "after an end in order")?.kill()?;
    Served::start(folder, "after kill -9, nothing written")?.end()
}

/// A drive's process.
struct Served(Child);

impl Served {
    fn start(folder: &Path, what: &str) -> anyhow::Result<Served> {
        let begun = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_byteway"))
            .current_dir(folder)
            .args(["serve", "drive.toml", "--vfio-user", "socket", "--data", "data", "--format", "json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("errors"))?)
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        let took = begun.elapsed().as_secs_f64();
        let served = Served(child);
        let ready: Value = serde_json::from_str(&line)
            .with_context(|| std::fs::read_to_string(folder.join("errors")).unwrap_or_default())?;
        let data = &ready["data"];
        let ms = |name: &str| data[name].as_f64().unwrap_or(f64::NAN);
        println!(
            "  {what:>30}: {:6.0} ms (opening {:.0}, recovery {:.0}), {} stripes found; peak {} MiB",
            took * 1e3,
            ms("opening_ms"),
            ms("recovery_ms"),
            data["stripes_found"],
            served.memory_mib("VmHWM:")?
        );
        ensure!(took < 60.0, "that is absurd");
        Ok(served)
    }

    fn memory_mib(&self, name: &str) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such line")?;
        Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? / 1024)
    }

    fn kill(mut self) -> anyhow::Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    fn end(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        ensure!(self.0.wait()?.success(), "it has not ended in order");
        Ok(())
    }
}

/// Writes bytes that are not a test pattern: the first half in sequential I/Os of 128 KiB, the second in random ones of 4 KiB.
fn write(folder: &Path, gib: u64) -> anyhow::Result<()> {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let attachment = Attachment::connect(&folder.join("socket/cntrl"), 16 << 20)?;
    let port = attachment.port(&clock);
    let main = async move {
        let driver = Driver::attach(port, DriverConfig::default()).await.expect("it attaches");
        let queue = driver.create_queue_pair(QueueConfig::new(64)).await.expect("a queue");
        let namespace = driver.namespaces()[0];
        let left = Rc::new(Cell::new(WORKERS));
        for worker in 0..WORKERS {
            let config = ClientConfig {
                rules: Rules::only(Method::Prp),
                bytes_max: PIECE_BYTES,
                oracle: None,
                verify_bytes: false,
            };
            let client = Client::new(queue.clone(), namespace, config).expect("a client");
            let left = left.clone();
            clock.spawn("worker", async move {
                pieces(&client, worker, gib << 18).await;
                left.set(left.get() - 1);
            });
        }
        while left.get() > 0 {
            clock.timer(Delay::from_ms(5)).await;
        }
    };
    executor.run_real(Timing::None, None, main)?;
    Ok(())
}

/// The part of one worker.
async fn pieces(client: &Client, worker: u64, blocks: u64) {
    let mut stream = Rng::new(worker).stream("writes");
    let mut buffer = client.buffer().expect("memory");
    let bytes: Vec<u8> = (0..PIECE_BYTES).map(|_| stream.next_u64() as u8).collect();
    client.put(&mut buffer, &bytes).expect("it fits");
    let half = (WRITTEN_GIB << 29) / WORKERS;
    let first = worker * (half / 4096);
    for piece in 0..half / u64::from(PIECE_BYTES) {
        let count = PIECE_BYTES / 4096;
        client.write(&mut buffer, first + piece * u64::from(count), count).await.expect("it is written");
    }
    for _ in 0..half / 4096 {
        client.write(&mut buffer, stream.below(blocks), 1).await.expect("it is written");
    }
}
