//! BandSlim's outlook by hand, to the picosecond: a command without data (O), a page with PRPs (D) and a line stored and flushed over
//! CXL.mem (f), each from the profile's constants. All claims on Gen5 follow from these three.

use crate::common::{run, writes};
use byteway_results::summary::Summary;

/// Picoseconds.
type Ps = u64;

const NS: Ps = 1_000;

/// Time of `bytes` at `rate` bytes per second, rounded to the picosecond.
fn passage(bytes: u64, rate: u64) -> Ps {
    ((u128::from(bytes) * 1_000_000_000_000 + u128::from(rate) / 2) / u128::from(rate)) as Ps
}

/// 32 GT/s on eight lanes, with 128 of 130 bits for packets.
fn wire(bytes: u64) -> Ps {
    passage(bytes, 32_000_000_000 * 128 / 130)
}

fn dram(bytes: u64) -> Ps {
    50 * NS + passage(bytes, 4_266_000_000)
}

const PROPAGATION: Ps = 20 * NS;
const HOST_MEMORY: Ps = 20 * NS;
const REQUEST: u64 = 24;
const COMPLETION: u64 = 20;

/// Sixteen serial payloads.
fn sixteen(method: &str, bytes: u64) -> Summary {
    run(&format!(
        "[drive]\nprofile = 'bandslim-gen5x8'\npersonality = 'sink'\n[host]\nprofile = 'cosmos'\n\
         [transfer]\nmethod = '{method}'\n\
         [[job]]\nrw = 'write'\nbs = '{bytes} B'\nsize = '{} B'\ncount = 16\n",
        16 * bytes
    ))
}

/// Asserts that each payload took the sum of the steps, up to the rounding of a few transfers.
fn assert_takes(method: &str, bytes: u64, steps: &[(&str, Ps)]) -> Ps {
    let summary = sixteen(method, bytes);
    let found = writes(&summary);
    let sum: Ps = steps.iter().map(|(_, ps)| ps).sum();
    for ns in [found.latency.min_ns, found.latency.max_ns] {
        let ps = (ns * 1000.0).round() as Ps;
        assert!(
            ps.abs_diff(sum) <= 16,
            "{bytes} B by {method}: {ps} ps, not {sum}: {steps:?}\n{:?}",
            summary.spans
        );
    }
    sum
}

/// O: a command without data.
fn command() -> Vec<(&'static str, Ps)> {
    vec![
        ("host: submit", 60 * NS),
        ("doorbell: 4 B in a packet", wire(4 + REQUEST) + PROPAGATION),
        ("fetch: request", wire(REQUEST) + PROPAGATION + HOST_MEMORY),
        ("fetch: completion", wire(64 + COMPLETION) + PROPAGATION),
        ("cores: fetch, parse, complete", (337 + 1357 + 600) * NS),
        ("completion: 16 B in a packet", wire(16 + REQUEST) + PROPAGATION),
        ("interrupt: 4 B in a packet behind it", wire(4 + REQUEST)),
    ]
}

fn rounded(ps: Ps) -> u64 {
    (ps + 500) / NS
}

// O is 2460 ns on every link: a faster link must not make the firmware faster. An error here would affect every claim.
#[test]
fn a_command_takes_2460_ns() {
    let o: Ps = command().iter().map(|(_, ps)| ps).sum();
    assert!(o.abs_diff(2460 * NS) < NS, "{o} ps");
    assert_takes("piggyback", 32, &[command(), vec![("DRAM: 32 B", dram(32))]].concat());
}

// D is the board's 2620 ns divided by the ratio of transfer rates, 6.4. With the board's own constants it would be 2.6 times that, and
// CXL.mem would beat PRP, which the paper says it never does.
#[test]
fn a_page_takes_409_ns_more() {
    let page = [
        ("cores: DMA", 157 * NS),
        ("data: the first 2 of 8 requests", wire(2 * REQUEST) + PROPAGATION + HOST_MEMORY),
        ("data: 16 completions of 256 B", wire(4096 + 16 * COMPLETION) + PROPAGATION),
        ("DRAM: latency; 64 B enter it while the page comes in", 50 * NS),
    ];
    let d: Ps = page.iter().map(|(_, ps)| ps).sum();
    assert_eq!(rounded(d), 409);
    assert_takes("prp", 64, &[command(), page.to_vec()].concat());
}

/// f: a line stored and flushed.
fn line() -> Vec<(&'static str, Ps)> {
    const MEMORY: Ps = 240 * NS;
    const FLIT: u64 = 68;
    vec![
        ("to own the line: a flit down", wire(FLIT) + PROPAGATION + MEMORY),
        ("its data: two flits up", wire(2 * FLIT) + PROPAGATION),
        ("the line, flushed: two flits down", wire(2 * FLIT) + PROPAGATION + MEMORY),
        ("completion: a flit up", wire(FLIT) + PROPAGATION),
        ("host: store and flush", 397 * NS),
    ]
}

// A line takes 970 ns, and n lines n times that: with a flush each, none overlap. The ratio of BS13 depends on it.
#[test]
fn a_line_takes_970_ns() {
    let f: Ps = line().iter().map(|(_, ps)| ps).sum();
    assert_eq!(rounded(f), 970);
    for lines in [1, 2, 4, 64] {
        let bytes = 64 * lines;
        let stored: Vec<_> = (0..lines).flat_map(|_| line()).collect();
        let steps = [command(), stored, vec![("DRAM", dram(bytes))]].concat();
        let sum = assert_takes("cxl-mem", bytes, &steps);
        assert!(sum > 2460 * NS + lines * 969 * NS);
    }
}
