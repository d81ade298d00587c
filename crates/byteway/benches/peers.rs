//! Compares Byteway with other programs on the same work, in interleaved rounds on one machine: ratios are more meaningful than absolute
//! figures on a shared machine. `docs/peers.md` describes what is compared, and what cannot be.
//!
//! `cargo bench -p byteway --bench peers [-- NAME...]`: mqsim, spdk; default: both. `ROUNDS` is the number of rounds (default 3).
//!
//! - `BYTEWAY_MQSIM` is MQSim's program, with its `ssdconfig.xml` and `workload.xml` next to it. Both simulate a million I/Os on the same
//!   drive: I/Os per CPU second, including start and end.
//! - `BYTEWAY_SPDK` is SPDK's built directory. Its `spdk_nvme_perf` is the client of `byteway serve` and of its own `nvmf_tgt` with a drive
//!   in memory, both over vfio-user: I/Os per second of wall-clock time, since both sides poll.
//! - `BYTEWAY_BINARY` is a build of Byteway other than that of this bench.
#![allow(clippy::disallowed_methods, reason = "processes are waited for by the wall clock")]

use anyhow::{Context, bail, ensure};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn main() -> anyhow::Result<()> {
    let names: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let rounds = match std::env::var("ROUNDS") {
        Ok(text) => text.parse().context("ROUNDS is a number")?,
        Err(_) => 3,
    };
    for (name, variable, what, compare) in [
        ("mqsim", "BYTEWAY_MQSIM", "MQSim's program", mqsim as fn(&Path, usize) -> anyhow::Result<()>),
        ("spdk", "BYTEWAY_SPDK", "the directory where SPDK was built", spdk),
    ] {
        match std::env::var_os(variable).map(PathBuf::from) {
            _ if !wanted(name) => {}
            Some(path) => {
                let path = path.canonicalize().with_context(|| format!("{variable} = {}", path.display()))?;
                compare(&path, rounds)?;
            }
            None => {
                println!("{name}: not compared: set {variable} to {what}; docs/peers.md says how to get it");
            }
        }
    }
    Ok(())
}

fn byteway() -> Command {
    let other = std::env::var_os("BYTEWAY_BINARY");
    Command::new(other.as_deref().unwrap_or(OsStr::new(env!("CARGO_BIN_EXE_byteway"))))
}

/// Figures of one kind of work, by round.
#[derive(Default)]
struct Rounds {
    byteway: Vec<f64>,
    peer: Vec<f64>,
}

impl Rounds {
    fn print(&self, work: &str, peer: &str, unit: &str) {
        let ratios: Vec<f64> =
            self.byteway.iter().zip(&self.peer).map(|(ours, theirs)| ours / theirs).collect();
        println!(
            "{work:<32} Byteway {:>9.0} ({:.0}-{:.0})  {peer} {:>9.0} ({:.0}-{:.0}) {unit}; ratio {:.2} ({:.2}-{:.2})",
            median(&self.byteway),
            least(&self.byteway),
            most(&self.byteway),
            median(&self.peer),
            least(&self.peer),
            most(&self.peer),
            median(&ratios),
            least(&ratios),
            most(&ratios),
        );
    }
}

fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn least(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(0.0, f64::max)
}

/// Runs a command to its end and returns its output, or its failure.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let ended = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    ensure!(
        ended.status.success(),
        "{command:?} ended with {}:\n{text}{}",
        ended.status,
        String::from_utf8_lossy(&ended.stderr)
    );
    Ok(text)
}

// MQSim

const SIMULATED: u64 = 1_000_000;

/// A kind of work: name, whether the map is MQSim's 2 MiB or whole, and whether it writes.
const SIMULATIONS: [(&str, bool, bool); 4] = [
    ("random reads, whole map", false, false),
    ("random reads, 2 MiB of map", true, false),
    ("random writes, whole map", false, true),
    ("random writes, 2 MiB of map", true, true),
];

fn mqsim(program: &Path, rounds: usize) -> anyhow::Result<()> {
    println!(
        "MQSim: {SIMULATED} I/Os of 4 KiB, depth 64, on its default drive; I/Os a CPU-second, median (range) of {rounds}"
    );
    let folder = tempfile::tempdir()?;
    for (work, cached, writes) in SIMULATIONS {
        let mut figures = Rounds::default();
        for _ in 0..rounds {
            let simulation = simulation(cached, writes);
            figures.byteway.push(SIMULATED as f64 / cpu_seconds_of(byteway().args(simulation))?);
            let mut theirs = Command::new(program);
            theirs.current_dir(&folder).args(["-i", "ssd.xml", "-w", "work.xml"]);
            configure_mqsim(program, folder.path(), cached, writes)?;
            figures.peer.push(SIMULATED as f64 / cpu_seconds_of(&mut theirs)?);
        }
        figures.print(work, "MQSim", "I/Os");
    }
    Ok(())
}

fn simulation(cached: bool, writes: bool) -> Vec<String> {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/mqsim.toml");
    let mut arguments = vec!["run".to_owned(), scenario.display().to_string(), "--quiet".to_owned()];
    let mut set = |text: String| arguments.extend(["--set".to_owned(), text]);
    set(format!("job.0.count={SIMULATED}"));
    if cached {
        set("drive.override.firmware.map_cache=\"2 MiB\"".to_owned());
    }
    if writes {
        set("job.0.rw=randwrite".to_owned());
        set("drive.precondition=empty".to_owned());
    }
    arguments
}

/// MQSim's own configuration with the same work: one flow over the whole drive.
fn configure_mqsim(program: &Path, folder: &Path, cached: bool, writes: bool) -> anyhow::Result<()> {
    let read = |name| {
        let path = program.with_file_name(name);
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let mut drive = read("ssdconfig.xml")?;
    set_key(&mut drive, "Ideal_Mapping_Table", if cached { "false" } else { "true" })?;
    std::fs::write(folder.join("ssd.xml"), drive)?;

    let theirs = read("workload.xml")?;
    let (_, flow) =
        theirs.split_once("<IO_Flow_Parameter_Set_Synthetic>").context("workload.xml has no flow")?;
    let (flow, _) = flow.split_once("</IO_Flow_Parameter_Set_Synthetic>").context("its flow has no end")?;
    let mut flow = flow.to_owned();
    for (key, value) in [
        ("Working_Set_Percentage", "100"),
        ("Stop_Time", "0"),
        ("Total_Requests_To_Generate", &SIMULATED.to_string()),
        ("Average_No_of_Reqs_in_Queue", "64"),
        ("Read_Percentage", if writes { "0" } else { "100" }),
        ("Average_Request_Size", "8"),
        ("Address_Alignment_Unit", "16"),
        ("Address_Distribution", "RANDOM_UNIFORM"),
    ] {
        set_key(&mut flow, key, value)?;
    }
    let work = format!(
        "<MQSim_IO_Scenarios>\n<IO_Scenario>\n<IO_Flow_Parameter_Set_Synthetic>{flow}</IO_Flow_Parameter_Set_Synthetic>\n\
         </IO_Scenario>\n</MQSim_IO_Scenarios>\n"
    );
    Ok(std::fs::write(folder.join("work.xml"), work)?)
}

/// Sets the single element of that name.
fn set_key(xml: &mut String, key: &str, value: &str) -> anyhow::Result<()> {
    let (before, rest) = xml.split_once(&format!("<{key}>")).with_context(|| format!("no <{key}>"))?;
    let (_, after) = rest.split_once(&format!("</{key}>")).with_context(|| format!("no </{key}>"))?;
    *xml = format!("{before}<{key}>{value}</{key}>{after}");
    Ok(())
}

/// User and system time of a process, from its start to its end, in steps of 10 ms.
fn cpu_seconds_of(command: &mut Command) -> anyhow::Result<f64> {
    let before = cpu_seconds_of_children()?;
    output(command)?;
    Ok(cpu_seconds_of_children()? - before)
}

/// CPU time of all children that have been waited for.
fn cpu_seconds_of_children() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat")?;
    // proc_pid_stat(5): cutime and cstime are fields 16 and 17; the first one here is the third.
    let ticks = fields.split_whitespace().skip(13).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / clock_ticks_per_second() as f64)
}

// SPDK

/// Size of each drive in MiB.
const SERVED_MIB: u64 = 1024;
const SECONDS: u64 = 3;

/// A kind of work: name, and arguments of SPDK's client.
const SERVED: [(&str, &str, u32); 4] = [
    ("random reads, depth 1", "randread", 1),
    ("random reads, depth 32", "randread", 32),
    ("random writes, depth 1", "randwrite", 1),
    ("random writes, depth 32", "randwrite", 32),
];

fn spdk(spdk: &Path, rounds: usize) -> anyhow::Result<()> {
    ensure!(std::thread::available_parallelism()?.get() >= 2, "server and client need a processor each");
    println!(
        "SPDK's vfio-user target over {SERVED_MIB} MiB of memory, 4 KiB, its client for both, a processor for each side; I/Os a \
         second, median (range) of {rounds}"
    );
    let mut figures: [Rounds; SERVED.len()] = Default::default();
    for _ in 0..rounds {
        for ((_, pattern, depth), figures) in SERVED.iter().zip(&mut figures) {
            figures.byteway.push(Server::byteway()?.measure(spdk, pattern, *depth)?);
            figures.peer.push(Server::spdk(spdk)?.measure(spdk, pattern, *depth)?);
        }
    }
    for ((work, ..), figures) in SERVED.iter().zip(&figures) {
        figures.print(work, "SPDK", "I/Os");
    }
    Ok(())
}

/// A process that serves a drive on the second processor.
struct Server {
    process: Child,
    folder: tempfile::TempDir,
}

impl Server {
    fn byteway() -> anyhow::Result<Server> {
        let folder = tempfile::tempdir()?;
        let device = format!(
            "[drive]\nprofile = \"samsung-970-pro\"\ncapacity = \"{SERVED_MIB} MiB\"\nprecondition = \"empty\"\n\
             store = \"ram\"\n[serve]\ntiming = \"none\"\n"
        );
        std::fs::write(folder.path().join("drive.toml"), device)?;
        let mut server = Command::new("taskset");
        server.args(["-c", "1"]).arg(byteway().get_program());
        server.args(["serve", "drive.toml", "--vfio-user", "socket"]);
        Server::start(server, folder)
    }

    fn spdk(spdk: &Path) -> anyhow::Result<Server> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("socket");
        std::fs::create_dir(&socket)?;
        std::fs::write(folder.path().join("target.json"), target(&socket).to_string())?;
        let mut server = Command::new(spdk.join("build/bin/nvmf_tgt"));
        server.args(["--no-huge", "-s", &(SERVED_MIB + 1024).to_string(), "-m", "0x2", "-c", "target.json"]);
        server.arg("-r").arg(folder.path().join("rpc"));
        Server::start(server, folder)
    }

    fn start(mut server: Command, folder: tempfile::TempDir) -> anyhow::Result<Server> {
        let log = File::create(folder.path().join("log"))?;
        let process =
            server.current_dir(&folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        let mut server = Server { process: process.with_context(|| format!("{server:?}"))?, folder };
        let begun = Instant::now();
        while !server.folder.path().join("socket/cntrl").exists() {
            if server.process.try_wait()?.is_some() || begun.elapsed() > Duration::from_secs(30) {
                bail!("no drive is served:\n{}", std::fs::read_to_string(server.folder.path().join("log"))?);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// I/Os per second, after the whole drive has been written.
    fn measure(mut self, spdk: &Path, pattern: &str, depth: u32) -> anyhow::Result<f64> {
        let writes = (SERVED_MIB * 8).to_string();
        self.perf(spdk, &["-w", "write", "-o", "131072", "-q", "8", "-t", "60", "-d", &writes])?;
        let (depth, seconds) = (depth.to_string(), SECONDS.to_string());
        let ios = self.perf(spdk, &["-w", pattern, "-o", "4096", "-q", &depth, "-t", &seconds])?;
        kill_process(Pid::from_child(&self.process), Signal::TERM)?;
        self.process.wait()?;
        Ok(ios)
    }

    /// Runs SPDK's client on the first processor and returns its figure.
    fn perf(&self, spdk: &Path, work: &[&str]) -> anyhow::Result<f64> {
        let mut client = Command::new(spdk.join("build/bin/spdk_nvme_perf"));
        client.args(["--no-huge", "-s", "512", "-c", "0x1", "-r"]);
        client.arg(format!(
            "trtype:VFIOUSER traddr:{} subnqn:{NQN}",
            self.folder.path().join("socket").display()
        ));
        let text = output(client.args(work))?;
        let total =
            text.lines().find_map(|line| line.trim().strip_prefix("Total")).with_context(|| text.clone())?;
        let ios = total.split_whitespace().find_map(|word| word.parse().ok());
        ios.with_context(|| format!("no I/Os a second in {total:?}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const NQN: &str = "nqn.2026-11.org.byteway:peer";

/// The target's configuration: a drive of blocks in memory, attached over vfio-user.
fn target(socket: &Path) -> Value {
    let call = |method: &str, params: Value| json!({ "method": method, "params": params });
    let blocks = SERVED_MIB * 256;
    json!({ "subsystems": [
        { "subsystem": "bdev", "config": [
            call("bdev_malloc_create", json!({ "name": "memory", "num_blocks": blocks, "block_size": 4096 })),
        ] },
        { "subsystem": "nvmf", "config": [
            call("nvmf_create_transport", json!({ "trtype": "VFIOUSER" })),
            call("nvmf_create_subsystem", json!({ "nqn": NQN, "allow_any_host": true, "serial_number": "peer" })),
            call("nvmf_subsystem_add_ns", json!({ "nqn": NQN, "namespace": { "bdev_name": "memory" } })),
            call("nvmf_subsystem_add_listener", json!({
                "nqn": NQN,
                "listen_address": { "trtype": "VFIOUSER", "traddr": socket, "trsvcid": "0" },
            })),
        ] },
    ] })
}
