//! Latency at depth 1, compared with hand-written tables: every step is computed from the profile's constants, to the picosecond. With a
//! single command there is no queueing, so the sum is the latency.

use crate::common::{reads, round, run, writes};
use byteway_results::summary::{KindSummary, Summary};

/// Picoseconds.
type Ps = u64;

const NS: Ps = 1_000;
const US: Ps = 1_000_000;

/// Asserts that each of the I/Os took the sum of the steps of `table`.
fn assert_takes(table: &[(&str, Ps)], found: &KindSummary, summary: &Summary) {
    let sum: Ps = table.iter().map(|(_, ps)| ps).sum();
    let shown: Vec<String> = table.iter().map(|(step, ps)| format!("{ps:>12} ps  {step}")).collect();
    let shown = format!("{}\n{sum:>12} ps  in all; spans found: {:?}", shown.join("\n"), summary.spans);
    let ps = |ns: f64| (ns * 1000.0).round() as Ps;
    assert!(found.ios >= 8);
    assert_eq!(ps(found.latency.min_ns), sum, "the least\n{shown}");
    assert_eq!(ps(found.latency.max_ns), sum, "the most\n{shown}");
    // Nothing is charged twice or omitted.
    let spans: f64 = summary.spans.iter().map(|row| row.mean_ns).sum();
    assert_eq!(ps(spans), sum, "the spans\n{shown}");
}

/// Time of `bytes` at `rate` bytes per second, rounded to the picosecond.
fn passage(bytes: u64, rate: u64) -> Ps {
    ((u128::from(bytes) * 1_000_000_000_000 + u128::from(rate) / 2) / u128::from(rate)) as Ps
}

/// A packet with a header of four double words, since all addresses here are above 4 GiB: sequence number, LCRC and framing take 8 B, the
/// header 16 B.
const REQUEST: u64 = 24;
/// A completion's header has three double words.
const COMPLETION: u64 = 20;

// `round.toml`: 4 GB/s is 250 ps per byte.
const BYTE: Ps = 250;
const PROPAGATION: Ps = 100 * NS;
const MEMORY: Ps = 200 * NS;

/// From the application's call until the command is parsed, the same for all commands.
const BEGIN: [(&str, Ps); 8] = [
    ("host: submit", 500 * NS),
    ("doorbell: 4 B in a packet of 28 B", (4 + REQUEST) * BYTE),
    ("doorbell: propagation", PROPAGATION),
    ("fetch: request of 24 B, propagation", REQUEST * BYTE + PROPAGATION),
    ("fetch: host memory", MEMORY),
    ("fetch: completion of 64 + 20 B, propagation", (64 + COMPLETION) * BYTE + PROPAGATION),
    ("cores: fetch", 200 * NS),
    ("cores: parse", 400 * NS),
];

/// From the end of the command to the application, with a polling host.
const END: [(&str, Ps); 3] = [
    ("cores: complete", 300 * NS),
    ("completion: 16 B in a packet of 40 B, propagation", (16 + REQUEST) * BYTE + PROPAGATION),
    ("host: complete", 300 * NS),
];

fn table(middle: &[(&'static str, Ps)]) -> Vec<(&'static str, Ps)> {
    [&BEGIN, middle, &END].concat()
}

/// Sixteen serial I/Os.
fn sixteen(drive: &str, job: &str) -> Summary {
    run(&round(drive, &format!("[[job]]\ncount = 16\n{job}")))
}

/// A payload of 4 KiB to the host: 16 packets of 256 B, each with a header.
const PAGE_UP: Ps = (4096 + 16 * REQUEST) * BYTE;
/// A payload of 4 KiB from the host: 8 requests of 512 B, answered by 16 completions of 256 B.
const PAGE_REQUESTS: Ps = 8 * REQUEST * BYTE;
const PAGE_DOWN: Ps = (4096 + 16 * COMPLETION) * BYTE;

// A step charged twice, at the wrong rate or not at all would make every reported latency wrong, unnoticed.
#[test]
fn a_read_takes_what_its_steps_take() {
    let summary = sixteen("", "rw = \"randread\"");
    let middle = [
        ("pipeline of a read", 2 * US),
        ("cores: translate", 100 * NS),
        ("DRAM: the map", 50 * NS),
        ("flash: command", 200 * NS),
        ("flash: sense", 40 * US),
        ("flash: 4096 B at 1 GB/s", 4096 * NS),
        ("data: 16 packets of 256 + 24 B", PAGE_UP),
    ];
    assert_takes(&table(&middle), reads(&summary), &summary);
}

// A longer read has a PRP list, units that are transferred together, and consecutive packets.
#[test]
fn a_long_read_takes_what_its_steps_take() {
    // A stripe: one operation of one die.
    let summary = sixteen("", "rw = \"read\"\nbs = \"16 KiB\"");
    let list = [
        ("PRP list: request", REQUEST * BYTE + PROPAGATION),
        ("PRP list: host memory", MEMORY),
        ("PRP list: completion of 3 entries", (3 * 8 + COMPLETION) * BYTE + PROPAGATION),
    ];
    let middle = [
        ("pipeline of a long read", 3 * US),
        ("cores: translate 4 units", 4 * 100 * NS),
        ("DRAM: the map", 50 * NS),
        ("flash: command", 200 * NS),
        ("flash: sense", 40 * US),
        ("flash: 16 KiB at 1 GB/s", 4 * 4096 * NS),
        ("data: 64 packets", 4 * PAGE_UP),
    ];
    assert_takes(&table(&[&list[..], &middle[..]].concat()), reads(&summary), &summary);

    // Four stripes on four channels, in parallel.
    let summary = sixteen("", "rw = \"read\"\nbs = \"64 KiB\"");
    let list = [list[0], list[1], ("PRP list: completion", (15 * 8 + COMPLETION) * BYTE + PROPAGATION)];
    let mut middle = middle;
    middle[1].1 = 16 * 100 * NS;
    middle[6].1 = 16 * PAGE_UP;
    assert_takes(&table(&[&list[..], &middle[..]].concat()), reads(&summary), &summary);

    // Eight stripes on four channels: two dies each, whose data are transferred one after another. The second command follows the first,
    // before any data.
    let summary = sixteen("", "rw = \"read\"\nbs = \"128 KiB\"");
    let list = [list[0], list[1], ("PRP list: completion", (31 * 8 + COMPLETION) * BYTE + PROPAGATION)];
    middle[1].1 = 32 * 100 * NS;
    middle[5].1 = 2 * 4 * 4096 * NS;
    middle[6].1 = 32 * PAGE_UP;
    assert_takes(&table(&[&list[..], &middle[..]].concat()), reads(&summary), &summary);
}

// Where nothing is sensed, no flash time may be charged, and part of a page must not cost the whole page on the link.
#[test]
fn reads_of_nothing_and_of_little_take_what_they_take() {
    let up_to_map =
        [("pipeline of a read", 2 * US), ("cores: translate", 100 * NS), ("DRAM: the map", 50 * NS)];
    let summary = sixteen("precondition = \"empty\"", "rw = \"randread\"");
    let page = [("data: 16 packets of 256 + 24 B", PAGE_UP)];
    assert_takes(&table(&[&up_to_map[..], &page[..]].concat()), reads(&summary), &summary);

    let summary = sixteen("lba_size = \"512 B\"", "rw = \"randread\"\nbs = \"512 B\"");
    let sector = [
        ("flash: command", 200 * NS),
        ("flash: sense", 40 * US),
        ("flash: a unit, whatever of it is wanted", 4096 * NS),
        ("data: 2 packets of 256 + 24 B", (512 + 2 * REQUEST) * BYTE),
    ];
    assert_takes(&table(&[&up_to_map[..], &sector[..]].concat()), reads(&summary), &summary);
}

// A buffered write must not wait for flash, and its payload crosses the link in the other direction: as requests and completions.
#[test]
fn a_buffered_write_takes_what_its_steps_take() {
    let summary = sixteen("precondition = \"empty\"", "rw = \"randwrite\"");
    let middle = [
        ("data: 8 requests of 24 B, propagation", PAGE_REQUESTS + PROPAGATION),
        ("data: host memory", MEMORY),
        ("data: 16 completions of 256 + 20 B, propagation", PAGE_DOWN + PROPAGATION),
        ("pipeline of a write", US),
        ("cores: buffer and translate", (150 + 100) * NS),
        ("DRAM: 4096 B at 8 GB/s", 512 * NS),
        ("DRAM: latency", 50 * NS),
    ];
    assert_takes(&table(&middle), writes(&summary), &summary);
}

// With few tags a payload takes several batches, which overlap: only the first one's round trip shows.
#[test]
fn a_write_with_few_tags_overlaps_its_requests() {
    let drive = "precondition = \"empty\"\noverride.link.read_tags = 8";
    let summary = sixteen(drive, "rw = \"randwrite\"");
    let middle = [
        ("data: the first 2 of 8 requests, propagation", 2 * REQUEST * BYTE + PROPAGATION),
        ("data: host memory", MEMORY),
        ("data: 16 completions without a gap, propagation", PAGE_DOWN + PROPAGATION),
        ("pipeline of a write", US),
        ("cores: buffer and translate", (150 + 100) * NS),
        ("DRAM: 4096 B at 8 GB/s, latency", (512 + 50) * NS),
    ];
    assert_takes(&table(&middle), writes(&summary), &summary);
}

// A trim transfers a range of 16 B and no data.
#[test]
fn a_trim_takes_what_its_steps_take() {
    let summary = sixteen("", "rw = \"randtrim\"");
    let middle = [
        ("range: request of 24 B, propagation", REQUEST * BYTE + PROPAGATION),
        ("range: host memory", MEMORY),
        ("range: completion of 16 + 20 B, propagation", (16 + COMPLETION) * BYTE + PROPAGATION),
        ("cores: translate a page of the map", 100 * NS),
    ];
    let found = summary.jobs[0].trim.as_ref().expect("the job trims");
    assert_takes(&table(&middle), found, &summary);
}

// With interrupts the host learns of the completion by a message after it, and pays the interrupt cost.
#[test]
fn an_interrupted_read_takes_what_its_steps_take() {
    let text = round("", "[[job]]\nrw = \"randread\"\ncount = 16");
    let summary = crate::common::run_with(&text, &["host.override.completion=interrupt"]);
    let middle = [
        ("pipeline of a read", 2 * US),
        ("cores: translate", 100 * NS),
        ("DRAM: the map", 50 * NS),
        ("flash: command, sense, 4096 B", (200 + 40_000 + 4096) * NS),
        ("data: 16 packets of 256 + 24 B", PAGE_UP),
        ("MSI-X: 4 B in a packet of 28 B, behind the completion", (4 + REQUEST) * BYTE),
        ("host: interrupt", US),
    ];
    assert_takes(&table(&middle), reads(&summary), &summary);
}

// The profile that most scenarios use, whose totals are NVMeVirt's: Gen3 x4, packets of 128 B, two page types.
#[test]
fn the_970_pro_takes_what_its_steps_take() {
    // 4 lanes of 8 GT/s, with 128 of 130 bits for packets.
    let wire = |bytes| passage(bytes, 4 * 8_000_000_000 * 128 / 130 / 8);
    let (propagation, memory) = (200 * NS, 150 * NS);
    let round_trip = 2 * propagation + memory;
    let begin = [
        ("host: submit", 700 * NS),
        ("doorbell", wire(4 + REQUEST) + propagation),
        ("fetch", wire(REQUEST) + wire(64 + COMPLETION) + round_trip),
        ("cores: fetch and parse", (300 + 600) * NS),
    ];
    let end = [
        ("cores: complete", 500 * NS),
        ("completion", wire(16 + REQUEST) + propagation),
        ("host: complete", 342 * NS),
    ];
    let of = |job: &str| run(&format!("[drive]\nprofile = \"samsung-970-pro\"\n[[job]]\ncount = 16\n{job}"));

    // Stripes of 32 KiB go to 16 dies in turn: the first 512 KiB are lower pages, the next upper ones.
    for (offset, sense) in [("0 KiB", 29_760 * NS), ("512 KiB", 41_760 * NS)] {
        let area = format!("offset = \"{offset}\"\nsize = \"512 KiB\"");
        let summary = of(&format!("rw = \"randread\"\n{area}"));
        let middle = [
            ("firmware: what NVMeVirt's total leaves", 18_965 * NS),
            ("cores: translate", 60 * NS),
            ("DRAM: the map", 80 * NS),
            ("flash: sense 4 KiB", sense),
            ("flash: 4096 B at 800 MB/s", 5120 * NS),
            ("data: 32 packets of 128 + 24 B", wire(4096 + 32 * REQUEST)),
        ];
        assert_takes(&[&begin[..], &middle[..], &end[..]].concat(), reads(&summary), &summary);
    }

    // For more than 4 KiB of a page the die senses a whole page; its units are transferred one after another.
    let summary = of("rw = \"randread\"\nbs = \"8 KiB\"\nsize = \"512 KiB\"");
    let middle = [
        ("firmware: what NVMeVirt's total leaves", 27_955 * NS),
        ("cores: translate 2 units", 2 * 60 * NS),
        ("DRAM: the map", 80 * NS),
        ("flash: sense a page", 30_013 * NS),
        ("flash: 8192 B at 800 MB/s", 10_240 * NS),
        ("data: 2 units of 32 packets", 2 * wire(4096 + 32 * REQUEST)),
    ];
    assert_takes(&[&begin[..], &middle[..], &end[..]].concat(), reads(&summary), &summary);

    let summary = of("rw = \"randwrite\"");
    let middle = [
        (
            "data: 8 requests, 32 completions of 128 + 20 B",
            wire(8 * REQUEST) + round_trip + wire(4096 + 32 * COMPLETION),
        ),
        ("firmware: what NVMeVirt's total leaves", 927 * NS),
        ("cores: buffer and translate", (80 + 60) * NS),
        ("DRAM: 4096 B at 12.8 GB/s, latency", (320 + 80) * NS),
    ];
    assert_takes(&[&begin[..], &middle[..], &end[..]].concat(), writes(&summary), &summary);
}
