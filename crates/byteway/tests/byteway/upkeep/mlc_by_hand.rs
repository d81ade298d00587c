//! MQSim's default MLC drive, compared with its constants added up by hand: 75 us to read a page, 333 MB/s on each of eight channels, 64
//! dies; no processor time, 26 ns for a DRAM access.

use crate::common::{assert_within, reads, run};
use byteway_clock::random::Rng;
use byteway_results::summary::Summary;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const DIES: u64 = 64;
const CHANNELS: f64 = 8.0;
/// Nanoseconds.
const COMMAND: f64 = 100.0;
const SENSE: f64 = 75_000.0;

fn drive(profile: &str, job: &str) -> Summary {
    run(&format!("[drive]\nprofile = \"{profile}\"\n{job}"))
}

/// Time of some bytes on a channel in nanoseconds.
fn channel(bytes: f64) -> f64 {
    bytes / 0.333
}

/// Time of some bytes on four lanes of Gen3 in nanoseconds: 8 GT/s each, with 128 of 130 bits for packets.
fn wire(bytes: f64) -> f64 {
    bytes * 8.0 * 130.0 / 128.0 / 32.0
}

/// Time of a read of 4 KiB besides flash: packets with their headers of 24 and 20 B, and the host's software.
fn around() -> f64 {
    let host = 700.0 + 342.0;
    let doorbell = wire(4.0 + 24.0);
    let fetch = wire(24.0) + wire(64.0 + 20.0);
    let map = 26.0;
    let data = wire(4096.0 + 16.0 * 24.0);
    let completion = wire(16.0 + 24.0);
    host + doorbell + fetch + map + data + completion
}

// A constant charged twice, or confused with another, would invalidate every comparison with that simulator.
#[test]
fn a_read_at_depth_1_takes_its_constants() {
    let alone = drive("mqsim-mlc", "[[job]]\nrw = \"randread\"\ncount = 2000");
    let latency = reads(&alone).latency;
    let expected = around() + COMMAND + SENSE + channel(4096.0);
    assert!((latency.mean_ns - expected).abs() < 0.1, "{latency:?} and not {expected}");
    assert_eq!(latency.min_ns, latency.max_ns);
}

// The same drive with 2 MiB of its map in DRAM, 512 of 121,856 pages: hardly a read finds its page there.
#[test]
fn with_its_cached_map_nearly_every_read_is_two() {
    let job = "[[job]]\nrw = \"randread\"\ncount = 12000\n[measure]\nwarmup = 2000";
    let cached = drive("mqsim-mlc-cached", job);
    let cache = cached.upkeep.as_ref().and_then(|upkeep| upkeep.map_cache).expect("it is told");
    assert_eq!(cache.pages, 512);
    let missed = 1.0 - 512.0 / 121_856.0;
    assert!((cache.miss_ratio - missed).abs() < 0.003, "{cache:?}");
    let flash = COMMAND + SENSE + channel(4096.0);
    let expected = around() + flash + cache.miss_ratio * flash;
    let found = reads(&cached).latency.mean_ns;
    // The ratio is known to one lookup in 10,000: 8.7 ns.
    assert!((found - expected).abs() < 10.0, "{found} and not {expected}");
}

// Sequential reads of a stripe each, 64 of them: every die has one, and the channels, which take 49.3 us for each while sensing takes 75,
// always have one waiting. The channels are therefore the limit, and Little's law gives the latency.
#[test]
fn balanced_reads_at_depth_64_fill_the_channels() {
    let job =
        "[[job]]\nrw = \"read\"\nbs = \"16 KiB\"\niodepth = 64\ncount = 40000\n[measure]\nwarmup = 2000";
    let summary = drive("mqsim-mlc", job);
    let passage = COMMAND + channel(16_384.0);
    let expected = CHANNELS * 1e9 / passage;
    assert_within(1.0, reads(&summary).iops, expected, "reads a second");
    assert_within(1.0, reads(&summary).latency.mean_ns, 64.0 * 1e9 / expected, "latency");
}

/// A step in the bare queues: a read reaches its die, its command has passed the channel, its die has sensed, its data have been
/// transferred.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Comes,
    Told,
    Sensed,
    Out,
}

/// A channel with the dies that wait for it: with a command, which has priority, or with data.
#[derive(Default)]
struct Channel {
    is_busy: bool,
    commands: VecDeque<u64>,
    data: VecDeque<u64>,
}

impl Channel {
    /// The next transfer, if the channel is idle.
    fn serve(&mut self) -> Option<(Step, u64)> {
        if self.is_busy {
            return None;
        }
        let command = self.commands.pop_front().map(|die| (Step::Told, die));
        let next = command.or_else(|| self.data.pop_front().map(|die| (Step::Out, die)));
        self.is_busy = next.is_some();
        next
    }
}

/// Random reads per second at `depth` over dies and their channels, FCFS, without any other resource.
fn bare_queues(depth: u64, count: u64) -> f64 {
    let ps = |ns: f64| (ns * 1000.0) as u64;
    let (command, sense, data, around) = (ps(COMMAND), ps(SENSE), ps(channel(4096.0)), ps(around()));
    let mut stream = Rng::new(7).stream("dies");
    let mut steps: BinaryHeap<_> =
        (0..depth).map(|number| Reverse((0, number, Step::Comes, stream.below(DIES)))).collect();
    let mut waiting = vec![0u64; DIES as usize];
    let mut channels: Vec<Channel> = (0..CHANNELS as usize).map(|_| Channel::default()).collect();
    let (mut number, mut completed, mut begin) = (depth, 0, 0);
    while let Some(Reverse((now, _, step, die))) = steps.pop() {
        let waits = &mut waiting[die as usize];
        let channel = &mut channels[die as usize % CHANNELS as usize];
        let mut then = |at, step, die| {
            number += 1;
            steps.push(Reverse((at, number, step, die)));
        };
        match step {
            Step::Comes => {
                *waits += 1;
                if *waits == 1 {
                    channel.commands.push_back(die);
                }
            }
            Step::Told => {
                channel.is_busy = false;
                then(now + sense, Step::Sensed, die);
            }
            Step::Sensed => channel.data.push_back(die),
            Step::Out => {
                channel.is_busy = false;
                *waits -= 1;
                if *waits > 0 {
                    channel.commands.push_back(die);
                }
                completed += 1;
                if completed == count / 10 {
                    begin = now;
                }
                if completed == count {
                    return (count - count / 10) as f64 * 1e12 / (now - begin) as f64;
                }
                then(now + around, Step::Comes, stream.below(DIES));
            }
        }
        if let Some((step, die)) = channel.serve() {
            then(now + if step == Step::Told { command } else { data }, step, die);
        }
    }
    unreachable!("each read is followed by another")
}

// Random reads are unevenly distributed over dies: at depth 64 some have several and others none. Bare queues with the same constants show
// the effect.
#[test]
fn random_reads_at_depth_64_are_those_of_the_bare_queues() {
    let job = "[[job]]\nrw = \"randread\"\niodepth = 64\ncount = 60000\n[measure]\nwarmup = 6000";
    let summary = drive("mqsim-mlc", job);
    let found = reads(&summary).iops;
    let expected = bare_queues(64, 60_000);
    assert_within(1.5, found, expected, "reads a second");
    // Between the result for exponential service times, Q / (Q + D - 1) of the capacity, and the full capacity.
    let dies = DIES as f64 * 1e9 / (COMMAND + SENSE + channel(4096.0));
    let share = found / dies;
    assert!((0.45..0.75).contains(&share), "{share} of the dies, and 64 / 127 by the formula");
}
