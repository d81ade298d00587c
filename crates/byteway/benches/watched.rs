//! What it costs a served drive to be watched, in interleaved rounds on one machine: throughput at depth 32 served without
//! `--http`, with it and not scraped, and scraped each second. Ratios are of the same round.
//!
//! `cargo bench -p byteway --bench watched [-- ROUNDS [SECONDS]]`: 9 rounds of 4 seconds without arguments. Needs two processors of
//! its own: drive and host poll on one each, and the thread that answers takes from them what it needs. `serve/benches/served.rs`
//! with `WATCHED=1` counts instructions, which no other program disturbs.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "what it can't do ends it; it measures wall-clock time"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DRIVE: &str = "[drive]\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\nstore = \"ram\"\n[serve]\ntiming = \"none\"\n";

/// How a drive is served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Unwatched,
    Watched,
    Scraped,
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let (rounds, seconds) = (numbers.first().copied().unwrap_or(9), numbers.get(1).copied().unwrap_or(4));
    let ways = [Way::Unwatched, Way::Watched, Way::Scraped];
    for rw in ["randread", "randwrite"] {
        let mut iops = vec![[0.0; 3]; rounds as usize];
        for (round, found) in iops.iter_mut().enumerate() {
            // Each way is the first of as many rounds as the others.
            for turn in 0..ways.len() {
                let index = (round + turn) % ways.len();
                found[index] = measure(ways[index], rw, seconds);
            }
        }
        let ratios =
            |of: usize, to: usize| -> Vec<f64> { iops.iter().map(|round| round[of] / round[to]).collect() };
        let of = |index: usize| -> Vec<f64> { iops.iter().map(|round| round[index]).collect() };
        println!("{rw}, depth 32, I/Os a second, median (range) of {rounds} rounds of {seconds} s:");
        println!("  without --http {}", spread(&of(0), 0));
        println!("  with --http    {}; ratio {}", spread(&of(1), 0), spread(&ratios(1, 0), 4));
        println!("  scraped        {}; ratio to not scraped {}", spread(&of(2), 0), spread(&ratios(2, 1), 4));
    }
}

fn spread(figures: &[f64], digits: usize) -> String {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
    format!("{:.digits$} ({least:.digits$}-{most:.digits$})", sorted[sorted.len() / 2])
}

/// I/Os a second of a drive that is served in this way.
fn measure(way: Way, rw: &str, seconds: u64) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("d.toml"), DRIVE).unwrap();
    let mut serve = byteway(folder.path());
    serve.args(["serve", "d.toml", "--vfio-user", "drive", "--format", "json"]);
    if way != Way::Unwatched {
        serve.args(["--http", "127.0.0.1:0"]);
    }
    let mut served = Served(serve.stdout(Stdio::piped()).spawn().unwrap());
    let mut ready = String::new();
    BufReader::new(served.0.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let scraper = (way == Way::Scraped).then(|| {
        let url = ready["http"].as_str().unwrap();
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let ended = ended.clone();
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                scrape(&address);
                std::thread::sleep(Duration::from_secs(1));
            }
        })
    });
    let runtime = format!("{seconds}s");
    let bench = byteway(folder.path())
        .args([
            "bench",
            "--vfio-user",
            "drive",
            "--rw",
            rw,
            "--iodepth",
            "32",
            "--size",
            "64m",
            "--no-verify",
        ])
        .args(["--runtime", &runtime, "--format", "json", "--quiet"])
        .output()
        .unwrap();
    ended.store(true, Ordering::Relaxed);
    if let Some(scraper) = scraper {
        scraper.join().unwrap();
    }
    let result: serde_json::Value = serde_json::from_slice(&bench.stdout).unwrap();
    result["iops"].as_f64().unwrap()
}

fn scrape(address: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(
            format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("byteway_commands_total") && text.ends_with("# EOF\n"), "{text}");
}

fn byteway(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_byteway"));
    command.current_dir(folder).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// A server, ended on drop.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
