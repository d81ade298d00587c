//! Speed and memory use of the simulator: I/Os per CPU second, with every read verified; polls, timers and allocations per I/O; time and
//! memory until a large drive is ready; twelve drives at once; instructions and cache misses.
//! `cargo bench -p byteway --bench speed [-- NAME...]`: reads, writes, hosted, payloads, pairs, keys, ready, dozen, boxes, instructions;
//! default: all of them. One thread. CPU time is that of the process, so other load on the machine matters only through caches and clock
//! rates. `instructions` gives the same result on any machine: `.ci/instructions` counts the scenarios in `benches/cases` (valgrind must be
//! installed), next to the figures of the last release. `record` stores these figures for a release.

use byteway_clock::random::Rng;
use byteway_clock::{Executor, Notify};
use byteway_content::BlockSize;
use byteway_host::{BaseState, Oracle};
use byteway_host::{Client, ClientConfig};
use byteway_host::{Driver, DriverConfig, QueueConfig};
use byteway_host::{Method, Port, Rules};
use byteway_run::build;
use byteway_run::run::{Session, run_observed};
use byteway_scenario::{Options, Scenario};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use byteway_world::World;
use rustix::time::{ClockId, clock_gettime};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|n| n == name);
    if wanted("reads") {
        scenario_speed("512 GiB, 4 KiB random reads, depth 64", READS, 1_000_000.0);
    }
    if wanted("writes") {
        scenario_speed("64 GiB, 4 KiB random writes in steady state, 16 dies, OP 7 %", WRITES, 400_000.0);
    }
    if wanted("hosted") {
        scenario_speed(
            "1 GiB, 512 B random writes, depth 128, firmware on the host (FSSD)",
            HOSTED,
            150_000.0,
        );
    }
    if wanted("payloads") {
        scenario_speed(
            "64 B inline to the sink of the board, depth 1",
            &payloads("cosmos-plus", 1),
            1e6 / 1.5,
        );
        scenario_speed(
            "64 B inline to the sink of a fast drive, depth 16",
            &payloads("modern-gen5", 16),
            1e6 / 1.5,
        );
    }
    if wanted("pairs") {
        // The goals: 1 million in 3 s, 10 million in 60 s; look-ups are verified, each read in full.
        scenario_speed("1 million MixGraph stores on a fast drive, depth 32", &pairs(PUTS), 1e6 / 3.0);
        scenario_speed("the same, and all of them looked up", &pairs(PUTS_AND_READS), 1e6 / 3.0);
    }
    if wanted("keys") {
        scenario_speed("10 million keys loaded, depth 32", &pairs(KEYS), 1e7 / 60.0);
    }
    if wanted("ready") {
        ready();
    }
    if wanted("dozen") {
        dozen();
    }
    if wanted("boxes") {
        // 12 drives of 14 GB/s for a second: 2.56 million I/Os of 64 KiB within 60 s.
        scenario_speed(
            "12 drives in a JBOF, all read 64 KiB, depth 64",
            &boxed("conv", 12, 12),
            12.0 * 14e9 / 65536.0 / 60.0,
        );
        for drives in [2, 12, 64] {
            let title =
                format!("{drives} drives in a JBOF, half of them lend to the others, 64 KiB, depth 64");
            scenario_speed(&title, &boxed("espresso", drives, drives / 2), 12.0 * 14e9 / 65536.0 / 60.0);
        }
    }
    if wanted("instructions") || wanted("record") {
        instructions(names.iter().any(|name| name == "record"));
    }
}

const READS: &str = r#"
[drive]
profile = "samsung-970-pro"
capacity = "512 GiB"
precondition = "filled"
[[job]]
rw = "randread"
iodepth = 64
count = 3000000
"#;

const WRITES: &str = r#"
[drive]
profile = "samsung-970-pro"
capacity = "64 GiB"
precondition = "steady"
[[job]]
rw = "randwrite"
iodepth = 64
count = 2000000
"#;

/// Upper bound of the work: parts are merged with their unit for each part that arrives.
const HOSTED: &str = r#"
[drive]
profile = "fssd"
lba_size = "512 B"
capacity = "1 GiB"
[host]
profile = "sandy-bridge"
[[job]]
rw = "randwrite"
bs = "512 B"
iodepth = 128
count = 300000
"#;

/// A JBOF of `drives` drives, of which `busy` are busy, for about the same number of I/Os in all cases.
fn boxed(platform: &str, drives: u32, busy: u32) -> String {
    let names: Vec<String> = (0..busy).map(|drive| format!("\"ssd{drive}\"")).collect();
    format!(
        r#"
[[drive]]
name = "ssd"
copies = {drives}
profile = "espresso"
capacity = "8 GiB"
[host]
profile = "dpu"
[jbof]
platform = "{platform}"
segment = "32 KiB"
[[job]]
drive = [{}]
rw = "randread"
bs = "64 KiB"
iodepth = 64
count = {}
"#,
        names.join(", "),
        480_000 / busy
    )
}

fn payloads(profile: &str, iodepth: u32) -> String {
    format!(
        r#"
[drive]
profile = "{profile}"
personality = "sink"
[transfer]
method = "inline"
[[job]]
rw = "randwrite"
bs = "64 B"
iodepth = {iodepth}
count = 1000000
"#
    )
}

fn pairs(jobs: &str) -> String {
    format!(
        r#"
[drive]
profile = "modern-gen5"
personality = "kv"
capacity = "4 GiB"
{jobs}
"#
    )
}

const PUTS: &str = r#"
[[kv]]
workload = "filluniquerandom"
value = "mixgraph"
keys = 1000000
key_bytes = 4
iodepth = 32
"#;

const PUTS_AND_READS: &str = r#"
[[kv]]
name = "puts"
workload = "filluniquerandom"
value = "mixgraph"
keys = 1000000
key_bytes = 4
iodepth = 32
[[kv]]
name = "reads"
stonewall = true
workload = "readrandom"
keys = 1000000
key_bytes = 4
count = 1000000
iodepth = 32
"#;

const KEYS: &str = r#"
[[kv]]
workload = "filluniquerandom"
keys = 10000000
key_bytes = 16
value = "32 B"
iodepth = 32
"#;

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// VmHWM or VmRSS of this process, in MiB.
fn memory_mib(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    let kib: String = line.chars().filter(char::is_ascii_digit).collect();
    kib.parse::<f64>().unwrap_or_default() / 1024.0
}

fn scenario(text: &str) -> Scenario {
    Scenario::from_text("benchmark", Path::new("."), text, &Options::default())
        .expect("the benchmark's scenario")
}

fn scenario_speed(title: &str, text: &str, goal: f64) {
    let scenario = scenario(text);
    let mut progress = Progress::hidden();
    let interrupt = Interrupt::default();
    // Marks at the first I/O and after the last: the evaluation afterwards costs the same for any number of I/Os.
    let marks = Rc::new(Cell::new([(0.0, 0usize); 2]));
    let marked = marks.clone();
    let mark = Rc::new(move || {
        let [_, last] = marked.get();
        marked.set([last, (cpu_seconds(), ALLOCATOR.stats().allocations)]);
    });
    let session = Session { progress: &mut progress, interrupt: &interrupt };
    let finished = run_observed(&scenario, session, mark).expect("the benchmark runs");
    let [began, ended] = marks.get();
    let seconds = ended.0 - began.0;
    let summary = finished.results.summary;
    assert_eq!(summary.verification.mismatches, 0, "data must verify");
    assert!(summary.errors.is_empty(), "no command may fail");
    let ios = summary.ios as f64;
    println!("{title}");
    println!(
        "  {:>12.0} I/Os a CPU-second ({:.2} of the goal of {goal:.0})",
        ios / seconds,
        ios / seconds / goal
    );
    println!(
        "  {:>12.2} polls, {:.2} timers, {:.6} allocations an I/O",
        finished.executor.polls as f64 / ios,
        finished.executor.timers as f64 / ios,
        (ended.1 - began.1) as f64 / ios
    );
    println!(
        "  {:>12.0} IOPS in virtual time{}",
        summary.iops,
        match summary.write_amplification {
            Some(factor) => format!(", write amplification {factor:.3}"),
            None => String::new(),
        }
    );
    println!("  {:>12.0} MiB peak so far", memory_mib("VmHWM:"));
}

fn ready() {
    let began = cpu_seconds();
    let scenario = scenario(READS);
    let executor = Executor::new();
    let _built = build::world(&executor, &scenario, &Interrupt::default()).expect("the drive is possible");
    println!("512 GiB drive ready");
    println!(
        "  {:>12.3} CPU-seconds (goal 10), {:.0} MiB resident (goal 1024)",
        cpu_seconds() - began,
        memory_mib("VmRSS:")
    );
}

/// Twelve drives on one executor, as in a JBOF.
fn dozen() {
    const DRIVES: u64 = 12;
    const IOS: u64 = 10_000_000;
    const DEPTH: u64 = 16;
    let text = READS.replace("512 GiB", "4 TiB").replace("filled", "steady");
    let scenario = scenario(&text);
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let began = cpu_seconds();
    let left = Rc::new(Cell::new(IOS));
    let ended = Rc::new(Notify::new(&clock));
    let mut world = World::new(&clock, 1);
    for _ in 0..DRIVES {
        let link = scenario.drives[0].plan.profile.link.config();
        world.add(None, link, build::drive(&scenario, 0), None).expect("the drive is possible");
    }
    let ends: Vec<_> = world.drives().iter().map(|powered| powered.host.clone()).collect();
    let main = clock.clone();
    let run = async move {
        for (index, host) in ends.into_iter().enumerate() {
            let driver = Driver::attach(Port::Link(host), DriverConfig::default()).await.expect("attaches");
            let queue = driver.create_queue_pair(QueueConfig::new(64)).await.expect("a queue pair");
            let namespace = driver.namespaces()[0];
            let oracle = Oracle::new(namespace.blocks, BlockSize::B4096, 1, BaseState::Stamped { tag: 1 });
            let config = ClientConfig {
                rules: Rules::only(Method::Prp),
                bytes_max: 4096,
                oracle: Some(Rc::new(RefCell::new(oracle))),
                verify_bytes: false,
            };
            let client = Client::new(queue, namespace, config).expect("a client");
            for worker in 0..DEPTH {
                let (client, left, ended) = (client.clone(), left.clone(), ended.clone());
                let mut stream = Rng::new(1).stream(&format!("{index}/{worker}"));
                main.spawn("job", async move {
                    let mut buffer = client.buffer().expect("memory");
                    while left.get() > 0 {
                        left.set(left.get() - 1);
                        let lba = stream.below(client.namespace().blocks);
                        let done = match stream.chance(0.5) {
                            true => client.write(&mut buffer, lba, 1).await,
                            false => client.read(&mut buffer, lba, 1).await,
                        };
                        done.expect("verified");
                    }
                    ended.notify_one();
                });
            }
        }
        for _ in 0..DRIVES * DEPTH {
            ended.notified().await;
        }
    };
    executor.run(run).expect("runs to its end");
    println!("twelve drives of 4 TiB, 10 million I/Os in all, half of them writes");
    println!(
        "  {:>12.0} I/Os a CPU-second, {:.0} MiB peak (goal 8192)",
        IOS as f64 / (cpu_seconds() - began),
        memory_mib("VmHWM:")
    );
}

/// A figure per I/O: name, and column in the file of the last release.
const FIGURES: [&str; 5] = ["instructions", "I1 misses", "D1 misses", "polls", "timers"];

/// Prints the figures per I/O of each case next to those of the last release, or records them.
fn instructions(record: bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
    let path = folder.join("last-release.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let last = figures(&text);
    let mut now = figures(&counted());
    let mut lines = "# one I/O of the last release: name; ".to_owned() + &FIGURES.join(", ") + "\n";
    let head: String = FIGURES.iter().map(|figure| format!("{figure:>13} {:>7}", "last")).collect();
    println!(
        "one I/O, of a build like the distributed one without its profile; next to each figure, that of the last release"
    );
    println!("{:<16}{head}", "");
    for (name, of_now) in &mut now {
        let ios = executed(&folder.join("cases").join(name).with_extension("toml"));
        of_now.extend(ios);
        let cells: String = of_now
            .iter()
            .enumerate()
            .map(|(column, figure)| {
                let decimals = if column < 3 { 0 } else { 2 };
                match last.get(name).and_then(|last| last.get(column)) {
                    Some(last) => format!("{figure:>13.decimals$} {last:>7.decimals$}"),
                    None => format!("{figure:>13.decimals$} {:>7}", "-"),
                }
            })
            .collect();
        println!("{name:<16}{cells}");
        let words: String = of_now.iter().map(|figure| format!(" {figure:.2}").replace(".00", "")).collect();
        lines += &format!("{name}{words}\n");
    }
    if record {
        std::fs::write(&path, lines).expect("the file of the last release is written");
    }
}

/// Lines of a name and its figures.
fn figures(text: &str) -> BTreeMap<String, Vec<f64>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let words = lines.filter_map(|line| line.split_once(' '));
    let number = |word: &str| word.parse().expect("a number");
    words.map(|(name, rest)| (name.to_owned(), rest.split(' ').map(number).collect())).collect()
}

/// Counts of `.ci/instructions` for each case: instructions and misses.
fn counted() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/instructions");
    let mut counting = Command::new(script);
    counting.arg("--print").arg(env!("CARGO_BIN_EXE_byteway")).stderr(Stdio::inherit());
    let ended = counting.output().expect("the script runs");
    assert!(ended.status.success(), "nothing was counted");
    String::from_utf8(ended.stdout).expect("its output is text")
}

/// Polls and timers per I/O.
fn executed(case: &Path) -> [f64; 2] {
    let scenario = Scenario::load(case, &Options::default()).expect("the case is a scenario");
    let mut progress = Progress::hidden();
    let interrupt = Interrupt::default();
    let session = Session { progress: &mut progress, interrupt: &interrupt };
    let finished = run_observed(&scenario, session, Rc::new(|| ())).expect("the case runs");
    let ios = finished.results.summary.ios as f64;
    [finished.executor.polls as f64 / ios, finished.executor.timers as f64 / ios]
}
