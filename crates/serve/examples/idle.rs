//! Measures the cost of an idle drive, and its wake-up latency: attaches to a served drive, leaves it idle
//! for a while, and reads the CPU time of its process; then issues single reads, each after a rest, and
//! measures their latency.
//!
//! ```sh
//! byteway serve drive.toml --vfio-user /tmp/drive &
//! cargo run --release -p byteway-serve --example idle -- /tmp/drive
//! ```
#![allow(clippy::disallowed_methods, reason = "it measures the real thing")]
#![allow(clippy::unwrap_used, reason = "what it can't do ends it")]

use byteway_clock::{Clock, Delay, Executor, Timing};
use byteway_host::{Client, ClientConfig, Driver, DriverConfig, Method, QueueConfig, Rules};
use byteway_serve::attach::Attachment;
use rustix::net::sockopt::socket_peercred;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time for which the drive is left idle.
const ALONE: Duration = Duration::from_secs(5);
/// Number of reads, and the rest before each: longer than the drive stays alert.
const READS: u64 = 500;
const REST: Delay = Delay::from_ms(10);

fn main() {
    let path = PathBuf::from(std::env::args_os().nth(1).expect("the folder of a served drive"));
    let attachment = Attachment::connect(&path, 1 << 20).unwrap();
    let server = socket_peercred(&**attachment.client().channel().socket()).unwrap().pid;
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let port = attachment.port(&clock);
    let main = async move {
        let driver = Driver::attach(port, DriverConfig::default()).await.unwrap();
        let queue = driver.create_queue_pair(QueueConfig::new(16)).await.unwrap();
        let config = ClientConfig {
            rules: Rules::only(Method::Prp),
            bytes_max: 4096,
            oracle: None,
            verify_bytes: false,
        };
        let client = Client::new(queue, driver.namespaces()[0], config).unwrap();
        let mut buffer = client.buffer().unwrap();
        client.read(&mut buffer, 0, 1).await.unwrap();

        std::thread::sleep(Duration::from_millis(100)); // the drive goes to rest
        let before = processor_time(server.as_raw_nonzero().get());
        let start = Instant::now();
        std::thread::sleep(ALONE);
        let taken = processor_time(server.as_raw_nonzero().get()) - before;
        let share = taken.as_secs_f64() / start.elapsed().as_secs_f64();
        println!("idle for {ALONE:?}: {:.2} % of a core", share * 100.0);

        let mut latencies = Vec::new();
        for read in 0..READS {
            rest(&clock, read).await;
            let start = Instant::now();
            client.read(&mut buffer, 0, 1).await.unwrap();
            latencies.push(start.elapsed());
        }
        latencies.sort_unstable();
        let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
        println!(
            "{READS} reads after {REST} of rest each: median {:?}, 90 % within {:?}, 99 % within {:?}, all within {:?}",
            at(50),
            at(90),
            at(99),
            at(100)
        );
    };
    executor.run_real(Timing::None, None, main).unwrap();
}

/// Rests, slightly longer each time, so that reads hit every phase of the drive's polling interval.
async fn rest(clock: &Clock, read: u64) {
    clock.timer(REST + Delay::from_us(7) * (read % 50)).await;
}

/// CPU time of a process so far, over all its threads.
fn processor_time(pid: i32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_thread = |path: PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split_whitespace()
            .next()
            .and_then(|ns| ns.parse().ok())
            .map_or(Duration::ZERO, Duration::from_nanos)
    };
    threads.map(|thread| of_thread(thread.unwrap().path())).sum()
}
