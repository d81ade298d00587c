//! Throughput compared with the limit of the slowest resource, queueing of random reads on dies, and Little's law.
//!
//! Every limit is computed here from the constants of `round.toml`, with one of them slowed tenfold. These loads are sequential, so that
//! every die and channel gets the same share.

use crate::common::{assert_within, reads, round, run};
use byteway_clock::random::Rng;
use byteway_results::summary::Summary;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;

const PAGE: f64 = 16_384.0;
const CHANNELS: f64 = 4.0;
const DIES: f64 = 16.0;
/// A packet's overhead, without and with an address.
const COMPLETION: f64 = 20.0;
const REQUEST: f64 = 24.0;
/// From `round.toml`.
const MPS: f64 = 256.0;

fn utilisation(summary: &Summary, resource: &str) -> f64 {
    summary.utilisation.iter().find(|row| row.resource == resource).expect("it is reported").mean
}

/// Runs a load on the original drive and with one resource slowed, and asserts that the latter reaches the slow resource's limit, which the
/// former far exceeds. `limit` is in bytes per second.
fn assert_limited(load: impl Fn(&str) -> Summary, slowed: &str, resource: &str, limit: f64) {
    let base = load("").bytes_per_second;
    assert!(base > 1.7 * limit, "{resource}: {base} is not much more than {limit}");
    let summary = load(slowed);
    assert_within(1.0, summary.bytes_per_second, limit, resource);
    let used = utilisation(&summary, resource);
    assert!(used > 0.985 && used < 1.005, "{resource} was used to {used}");
}

/// I/Os of 64 KiB, 128 outstanding: enough that I/Os which start together, because the host reaped them together, leave the slow resource
/// idle for less than 1 % of the time.
fn reads_of_64_kib(drive: &str) -> Summary {
    run(&round(drive, &sequential("read", "64 KiB", 128, 20_000)))
}

/// The same as writes, on a drive without garbage to collect.
fn writes_of_64_kib(drive: &str) -> Summary {
    run(&round(&format!("precondition = \"empty\"\n{drive}"), &sequential("write", "64 KiB", 128, 15_000)))
}

fn sequential(rw: &str, bs: &str, depth: u32, count: u32) -> String {
    let warmup = count / 20;
    format!(
        "[[job]]\nrw = \"{rw}\"\nbs = \"{bs}\"\niodepth = {depth}\ncount = {count}\n[measure]\nwarmup = {warmup}\n"
    )
}

// In all of these: if the limit were not that of the resource, reported bottlenecks would be wrong.
#[test]
fn a_slow_link_is_the_limit() {
    // No generation and width are exactly ten times slower than another: from 4 GB/s to 250 MB/s.
    let slowed = "override.link.generation = 1\noverride.link.lanes = 1";
    let rate = 250e6;
    // To the host: the data, each command's completion, and the requests for its entry and its PRP list.
    let up = 16.0 * (4096.0 + 4096.0 / MPS * REQUEST) + (16.0 + REQUEST) + 2.0 * REQUEST;
    assert_limited(reads_of_64_kib, slowed, "link to host", rate * 65_536.0 / up);
    // To the device: the data in completions, the entry, the PRP list of 15 entries, and a doorbell write; the other doorbell is written
    // once for several completions.
    let data = 16.0 * (4096.0 + 4096.0 / MPS * COMPLETION);
    let down = data + (64.0 + COMPLETION) + (15.0 * 8.0 + COMPLETION) + (4.0 + REQUEST);
    assert_limited(writes_of_64_kib, slowed, "link to device", rate * 65_536.0 / down);
}

#[test]
fn slow_channels_are_the_limit() {
    let slowed = "override.flash.channel_rate = \"100 MB/s\"";
    let passage = 200e-9 + PAGE / 100e6;
    assert_limited(reads_of_64_kib, slowed, "channels", CHANNELS * PAGE / passage);
    // With their original speed the dies would limit writes; ten times as fast they do not.
    let quick = |drive: &str| writes_of_64_kib(&format!("override.flash.program = [\"40 us\"]\n{drive}"));
    assert_limited(quick, slowed, "channels", CHANNELS * PAGE / passage);
}

#[test]
fn slow_dies_are_the_limit() {
    // A die holds its sensed data until they have been transferred.
    let read = 200e-9 + 400e-6 + PAGE / 1e9;
    assert_limited(reads_of_64_kib, "override.flash.read = [\"400 us\"]", "dies", DIES * PAGE / read);
    let program = 200e-9 + PAGE / 1e9 + 4e-3;
    assert_limited(writes_of_64_kib, "override.flash.program = [\"4 ms\"]", "dies", DIES * PAGE / program);
}

#[test]
fn slow_cores_are_the_limit() {
    let slowed = "override.firmware.cycles.fetch = 2000\noverride.firmware.cycles.parse = 4000\n\
                  override.firmware.cycles.complete = 3000\noverride.firmware.cycles.translate = 1000\n\
                  override.firmware.cycles.buffer = 1500";
    // Small I/Os load the cores; the dies are fast enough.
    let quick = "override.flash.read = [\"20 us\"]\noverride.flash.program = [\"40 us\"]\nprecondition";
    let load = |rw: &'static str, precondition: &'static str| {
        move |drive: &str| {
            let drive = format!("{quick} = \"{precondition}\"\n{drive}");
            run(&round(&drive, &sequential(rw, "4 KiB", 64, 30_000)))
        }
    };
    let cores = 2.0 * 1e9;
    let cycles = 2000.0 + 4000.0 + 3000.0 + 1000.0;
    assert_limited(load("read", "filled"), slowed, "cores", cores / cycles * 4096.0);
    assert_limited(load("write", "empty"), slowed, "cores", cores / (cycles + 1500.0) * 4096.0);
}

/// Random reads of 4 KiB per second on slow dies, relative to the dies' total capacity.
fn share_of_dies(ways: u32, times_us: &[f64], depth: u32, count: u64) -> f64 {
    let mut list = String::new();
    for time in times_us {
        let _ = write!(list, "\"{time:.3} us\", ");
    }
    // Packets of maximum size and an unlimited host, so that only the dies matter. The eight read times are those of eight bits per cell,
    // which a drive without power-loss protection would have to program together.
    let drive = format!(
        "override.flash.ways = {ways}\noverride.flash.read = [{list}]\noverride.flash.channel_rate = \"8 GB/s\"\n\
         override.firmware.latency = {{ read = \"0 us\", write = \"0 us\" }}\noverride.firmware.plp = true"
    );
    let rest = format!(
        "[[job]]\nrw = \"randread\"\niodepth = {depth}\ncount = {count}\n[measure]\nwarmup = {}\n",
        count / 10
    );
    let summary = run(&round(&drive, &rest));
    let mean = times_us.iter().sum::<f64>() / times_us.len() as f64 * 1e-6;
    let service = 200e-9 + mean + 4096.0 / 8e9;
    reads(&summary).iops * service / (CHANNELS * f64::from(ways))
}

/// D dies under Q random reads reach Q / (Q + D - 1) of their capacity: exact for exponentially distributed service times.
fn formula(dies: f64, depth: u32) -> f64 {
    f64::from(depth) / (f64::from(depth) + dies - 1.0)
}

/// Eight times, each the mean of an eighth of an exponential distribution.
fn exponential_times_us(mean_us: f64) -> Vec<f64> {
    let tail = |eighth: u32| 1.0 - f64::from(eighth) / 8.0;
    // The integral of x e^-x from where the tail is t: t (1 - ln t), and 0 at the end.
    let integral = |t: f64| if t > 0.0 { t * (1.0 - libm::log(t)) } else { 0.0 };
    (0..8).map(|i| mean_us * (integral(tail(i)) - integral(tail(i + 1))) * 8.0).collect()
}

// Random reads of a drive are checked against this formula; a queue that is not FCFS, or a die that waits unnecessarily for another, would
// be below it.
#[test]
fn random_reads_over_dies_follow_the_formula() {
    let times = exponential_times_us(2000.0);
    for (ways, depth) in [(1, 1), (1, 4), (1, 16), (4, 4), (4, 16), (4, 64), (4, 256), (16, 64)] {
        let dies = CHANNELS * f64::from(ways);
        let found = share_of_dies(ways, &times, depth, 16_000.max(250 * u64::from(depth)));
        assert_within(5.0, found, formula(dies, depth), &format!("{dies} dies, {depth} reads"));
    }
}

/// The bare queues, from the end of the warm-up to the last completion: each read goes to a random die and takes its service time there,
/// FCFS.
fn share_of_servers(dies: u64, depth: usize, count: u64) -> f64 {
    const SERVICE: u64 = 1000;
    let mut stream = Rng::new(7).stream("dies");
    let mut free_at = vec![0u64; dies as usize];
    let mut under_way = BinaryHeap::from(vec![Reverse(0u64); depth]);
    let (warmup, mut begin, mut last) = (count / 10, 0, 0);
    for completed in 0..count + depth as u64 {
        Reverse(last) = under_way.pop().expect("as many end as began");
        if completed == warmup {
            begin = last;
        }
        if completed < count {
            let die = &mut free_at[stream.below(dies) as usize];
            *die = last.max(*die) + SERVICE;
            under_way.push(Reverse(*die));
        }
    }
    (count + depth as u64 - warmup) as f64 * SERVICE as f64 / (last - begin) as f64 / dies as f64
}

// With constant service times the dies serve more than the formula says at low depths; from eight reads per die on the formula holds. In
// between, the bare queues are the reference.
#[test]
fn reads_of_equal_times_wait_less_than_the_formula_says() {
    for (ways, depth) in [(1, 1), (1, 32), (4, 16), (4, 64), (4, 128), (4, 512), (16, 64)] {
        let dies = CHANNELS * f64::from(ways);
        let count = 16_000.max(250 * u64::from(depth));
        let found = share_of_dies(ways, &[2000.0], depth, count);
        let bare = share_of_servers(dies as u64, depth as usize, count);
        assert_within(1.5, found, bare, &format!("{dies} dies, {depth} reads of equal times"));
        if f64::from(depth) >= 8.0 * dies || depth == 1 {
            assert_within(5.0, found, formula(dies, depth), "the formula");
        }
    }
}

// Throughput and latency are computed independently; if they contradict each other, one is wrong. The end of a run, with fewer outstanding
// I/Os, is a small part of it here.
#[test]
fn littles_law_holds_at_every_depth() {
    for depth in [1, 2, 7, 32, 128] {
        let count = 20_000.max(1600 * depth);
        for (rw, bs) in [("randread", 4), ("randrw", 8), ("read", 16)] {
            let rest = format!(
                "[[job]]\nrw = \"{rw}\"\nbs = \"{bs} KiB\"\niodepth = {depth}\ncount = {count}\n[measure]\nwarmup = 2000\n"
            );
            let summary = run(&round("", &rest));
            let job = &summary.jobs[0];
            let kinds = [&job.read, &job.write].into_iter().flatten();
            let outstanding: f64 = kinds.map(|kind| kind.iops * kind.latency.mean_ns * 1e-9).sum();
            assert_within(0.5, outstanding, f64::from(depth), &format!("{rw} at depth {depth}"));
        }
    }
}
