//! `[transfer]`, and drives that are payload sinks.

use super::*;

const SINK: &str = "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"sink\"\n";
const PAYLOADS: &str = "[[job]]\nrw = \"randwrite\"\nbs = \"64 B\"\ncount = 1000\n";

fn with(lines: &str) -> Result<Scenario, InputError> {
    parse(&format!("{SINK}{PAYLOADS}[transfer]\n{lines}"), &[])
}

// A block of 4 KiB instead of a byte would make every small payload invalid.
#[test]
fn a_sink_is_addressed_by_bytes() {
    let scenario = with("method = \"inline\"\n").unwrap();
    let job = &scenario.jobs[0];
    assert_eq!((job.lba_bytes, job.range_blocks, job.namespace_blocks), (1, 64 << 20, 64 << 20));
    assert_eq!(job.transfer_blocks_max, 1 << 20);
    let Source::Synthetic(synthetic) = &job.source else { unreachable!() };
    assert_eq!(synthetic.lengths.fixed(synthetic.rw), Some(64));
    // The block format of the drive is unaffected.
    assert_eq!(scenario.drives[0].plan.lba_bytes, 4096);
}

// Many payloads have lengths near alpha times tau: off by one, they would use another method.
#[test]
fn the_threshold_is_the_scenarios_or_the_profiles_times_alpha() {
    let threshold = |lines: &str| {
        with(&format!("method = \"adaptive\"\n{lines}")).unwrap().drives[0].transfer.rules.threshold_bytes
    };
    assert_eq!(threshold("threshold = \"128 B\"\n"), 128);
    // 64 B are below 64.5 B.
    assert_eq!(threshold("threshold = \"129 B\"\nalpha = 0.5\n"), 65);
    assert_eq!(threshold("threshold = \"100 B\"\nalpha = 1.1\n"), 110);
    assert_eq!(threshold("fine = \"piggyback\"\n"), 36);
    assert_eq!(threshold(""), 257);
    assert_eq!(with("method = \"inline\"\n").unwrap().drives[0].transfer.rules.threshold_bytes, 0);
}

// Each of these would run with another method than the configured one.
#[test]
fn what_a_drive_does_not_offer_is_refused_with_who_does() {
    let other = |text: &str| parse(&format!("[drive]\nprofile = \"p4500\"\n{JOB}[transfer]\n{text}"), &[]);
    assert_error(other("method = \"inline\"\n"), "s.toml:7:10", "`p4500` does not offer it", "cosmos-plus");
    assert_error(
        other("method = \"hybrid\"\n"),
        "s.toml:7:10",
        "needs `inline-tail`",
        "set `transfer.methods = [\"inline-tail\"]`",
    );
    assert_error(with("method = \"sgl\"\n"), "s.toml:9:10", "has no SGLs", "controller.sgl = true");
    assert_error(with("fine = \"mmio\"\n"), "s.toml:9:8", "has no effect", "adaptive");
    assert_error(with("method = \"mmio\"\nencoding = \"paper\"\n"), "s.toml:10:12", "no effect", "`inline`");
    assert_error(with("method = \"inlin\"\n"), "s.toml:9:10", "`inlin`", "`inline`?");
    let blocks = format!("[drive]\nprofile = \"cosmos-plus\"\n{JOB}[transfer]\n");
    let blocks = |lines: &str| parse(&format!("{blocks}{lines}"), &[]);
    assert_error(blocks("method = \"piggyback\"\n"), "s.toml:7:10", "no field", "personality = \"sink\"");
    assert_error(blocks("result = \"inline\"\n"), "s.toml:7:10", "no effect", "personality = \"sink\"");
    assert!(blocks("method = \"inline\"\n").is_ok());
    let no_sink = format!("[drive]\nprofile = \"p4500\"\npersonality = \"sink\"\n{PAYLOADS}");
    assert_error(parse(&no_sink, &[]), "s.toml:3:15", "no payload sink", "cosmos-plus");
    let untold = "drive.override.transfer.methods=[\"inline\"]";
    let text = format!("[drive]\nprofile = \"p4500\"\n{JOB}[transfer]\nmethod = \"adaptive\"\n");
    assert_error(parse(&text, &[untold]), "s.toml:6:1", "no measured threshold", "byteway threshold");
}

// Commit records require key-value pairs and a drive with a commit ring; otherwise another method would run
// under this name.
#[test]
fn commit_records_need_pairs_and_a_ring() {
    let drive = "[drive]\nprofile = \"bandslim-gen5x8\"\n";
    let put = "[[kv]]\nworkload = \"w-a\"\nvalue = \"64 B\"\ncount = 10\n[transfer]\n";
    let pairs =
        |more: &str, lines: &str| parse(&format!("{drive}personality = \"kv\"\n{more}{put}{lines}"), &[]);
    let ring = "override.cxl.records = 16\n";
    let method = "method = \"cxl-commit\"\n";
    assert!(pairs(ring, method).is_ok());
    assert!(pairs(ring, &format!("{method}ordering = \"checksum\"\n")).is_ok());
    let fine = "method = \"adaptive\"\nfine = \"cxl-commit\"\nthreshold = \"128 B\"\n";
    assert_eq!(pairs(ring, fine).unwrap().drives[0].transfer.rules.threshold_bytes, 128);
    assert_error(pairs("", method), "s.toml:9:10", "does not offer it", "cxl.records = 64");
    assert_error(
        pairs("override.cxl.records = 12\n", method),
        "s.toml:4:24",
        "12 is not possible",
        "a power of two",
    );
    assert_error(pairs("override.cxl.poll = \"2 s\"\n", method), "s.toml:4:21", "cxl.poll", "1 s");
    let named = "override.transfer.methods = [\"cxl-commit\"]\n";
    assert_error(pairs(named, method), "s.toml:4:29", "no records for it", "`cxl.records` alone");
    let sink = format!("{drive}personality = \"sink\"\n{ring}{PAYLOADS}[transfer]\n{method}");
    assert_error(parse(&sink, &[]), "s.toml:10:10", "only key-value pairs", "personality = \"kv\"");
}

// A sink has neither blocks nor flash: jobs that need them must be refused before the run.
#[test]
fn a_sink_takes_reads_and_writes_only() {
    let job = |job: &str| parse(&format!("{SINK}[[job]]\ncount = 10\n{job}"), &[]);
    assert_error(job("rw = \"randtrim\"\n"), "s.toml:6:6", "nothing to be trimmed", "read or write");
    assert_error(job("[job.trace]\nfile = \"x\"\n"), "s.toml:6:1", "no blocks", "block");
    assert_error(job("rw = \"randwrite\"\nbs = \"2 MiB\"\n"), "s.toml:7:6", "controller.mdts", "1 MiB");
    assert!(job("rw = \"randrw\"\nbs = \"1 B\"\n").is_ok());
    let over = |line: &str| parse(&format!("{SINK}{PAYLOADS}"), &[line]);
    let twice = "drive.override.transfer.methods=[\"mmio\",\"mmio\"]";
    assert_error(over(twice), "--set", "`mmio` twice", "leave one");
    assert_error(over("drive.override.transfer.bar=5000 B"), "--set", "not possible", "multiple of 4 KiB");
}
