use super::*;
use crate::{Format, ReadOptions};
use std::fmt::Write as _;

fn options() -> Options {
    Options::default()
}

fn found(text: &str, options: &Options) -> Result<Inspection, InputError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.trace");
    std::fs::write(&path, text).unwrap();
    let reader =
        Reader::open(&path, &ReadOptions { device: options.device, ..ReadOptions::of(Format::Mqsim) })?;
    inspect(reader, "t.trace", options, |_, _| (), &Interrupt::default())
}

// The trace is so small that every figure can be counted by hand.
#[test]
fn a_small_trace_is_described() {
    // 4 KiB at 0 written, read, written again; 8 KiB at 1 MiB read twice; half a unit read on another device.
    let text = "0 0 0 8 0\n1000 0 0 8 1\n2000 0 2048 16 1\n3000 0 2048 16 1\n4000 0 0 8 0\n1000000 1 1 4 1\n";
    let found = found(text, &options()).unwrap();
    assert_eq!((found.records, found.bytes, found.duration_ns), (6, 30_720, 1e6));
    assert!(found.assumption.contains("0 = write"));
    assert!(found.assumption.contains("1 = read"));
    let kinds: Vec<_> = found.kinds.iter().map(|row| (row.records, row.bytes)).collect();
    assert_eq!(kinds, [(4, 22_528), (2, 8192), (0, 0)]);
    assert_eq!(found.sizes[0].frequent[0].bytes, 4096);
    let footprint = &found.footprint;
    assert!(footprint.exact);
    assert_eq!((footprint.accesses, footprint.units), (8, 4));
    assert_eq!((footprint.read_units, footprint.written_units, footprint.both_units), (4, 1, 1));
    let addresses = &found.addresses;
    assert_eq!((addresses.lowest_bytes, addresses.end_bytes), (0, (1 << 20) + 8192));
    assert_eq!((addresses.sequential_share, addresses.aligned_share), (0.0, 0.833333));
    assert_eq!(found.device_count, 2);
    let updates = found.updates.as_ref().unwrap();
    assert_eq!((updates.share, updates.p50_bytes), (0.5, 0));
    // Of four reuses one has distance 0, two have 1 unit and one has 2.
    let reuse = found.reuse.as_ref().unwrap();
    assert_eq!(
        (reuse.first_touch_share, reuse.p10_bytes, reuse.p50_bytes, reuse.p99_bytes),
        (0.5, 0, 4096, 8192)
    );
    let curve = found.miss_ratio_curve.as_ref().unwrap();
    assert!(curve.exact && curve.method == Method::Shards);
    assert_eq!(curve.points, [CurvePoint { units: 16, bytes: 65_536, miss_ratio: 0.5 }]);
    let tables = found.to_tables();
    for words in ["6 I/Os of 30 KiB", "2 devices", "0 = write", "Footprint", "Miss ratio", "\u{2588}"] {
        assert!(tables.contains(words), "{words:?} is missing in\n{tables}");
    }
    let again: Inspection = serde_json::from_str(&found.to_json()).unwrap();
    assert_eq!(again, found);
}

/// Random writes and reads on two devices: more units than samples.
fn generated() -> String {
    let mut stream = byteway_clock::random::Rng::new(5).stream("inspect");
    let mut text = String::new();
    for index in 0..60_000u64 {
        let range = if stream.chance(0.5) { 1000 } else { 60_000 };
        let (unit, kind) = (stream.below(range), stream.below(2));
        writeln!(text, "{} {} {} 8 {kind}", index * 5000, index % 2, unit * 8).unwrap();
    }
    text
}

// The same command must print the same twice; an estimate must be marked as one, and be close.
#[test]
fn a_sample_is_near_the_exact_curve_and_says_what_it_is() {
    let text = generated();
    let exact = found(&text, &Options { exact: true, ..options() }).unwrap();
    let small = Options { samples: 4096, ..options() };
    let sampled = found(&text, &small).unwrap();
    assert_eq!(sampled, found(&text, &small).unwrap());
    assert_ne!(sampled, found(&text, &Options { seed: 2, ..small }).unwrap());
    let (exact, sampled) = (exact.miss_ratio_curve.unwrap(), sampled.miss_ratio_curve.unwrap());
    assert_eq!((exact.method, exact.exact, exact.sampling_rate), (Method::Exact, true, 1.0));
    assert!(!sampled.exact && sampled.sampling_rate < 0.5 && sampled.sampled_units <= 4096);
    assert!(sampled.basis.contains("estimated") && exact.basis.contains("exact"));
    for (exact, sampled) in exact.points.iter().zip(&sampled.points) {
        assert_eq!(exact.units, sampled.units);
        assert!((exact.miss_ratio - sampled.miss_ratio).abs() < 0.03, "{exact:?} {sampled:?}");
    }
    assert!(exact.points.windows(2).all(|pair| pair[0].miss_ratio >= pair[1].miss_ratio));
}

// Devices of a trace are separate drives: unit 0 of one is not unit 0 of another.
#[test]
fn the_units_of_two_devices_differ() {
    let text = "0 0 0 8 0\n1 1 0 8 0\n2 2 0 8 0\n";
    assert_eq!(found(text, &options()).unwrap().footprint.units, 3);
    let one = found(text, &Options { device: Some(1), ..options() }).unwrap();
    assert_eq!((one.records, one.device, one.footprint.units), (1, Some(1), 1));
    assert!(one.notes.iter().any(|note| note.starts_with("2 records of other devices")), "{:?}", one.notes);
}

// Untrusted files: none may panic, divide by zero or iterate over 2^51 units.
#[test]
fn hostile_traces_are_described_too() {
    let empty = found("# nothing\n", &options()).unwrap();
    assert_eq!((empty.records, empty.arrivals.is_none(), empty.miss_ratio_curve.is_none()), (0, true, true));
    assert!(empty.to_tables().contains("0 I/Os"));

    let one = found("7 0 8 8 1\n", &options()).unwrap();
    assert_eq!(
        (one.records, one.duration_ns, one.reuse.is_none(), one.updates.is_none()),
        (1, 0.0, true, true)
    );
    assert!(one.to_tables().contains("all at once"));

    // 2^63 bytes in one I/O, several times, at both ends of the address space.
    let sectors = (1u64 << 54) - 1;
    let text = format!("0 0 0 {sectors} 0\n0 1 {} 1 1\n1 0 0 {sectors} 0\n1 0 0 {sectors} 1\n", sectors);
    let huge = found(&text, &options()).unwrap();
    assert_eq!(huge.addresses.end_bytes, 1 << 63);
    assert_eq!(huge.footprint.accesses, 3 * UNITS_PER_IO_MAX + 1);
    assert!(huge.notes.iter().any(|note| note.starts_with("3 I/Os touch more than")), "{:?}", huge.notes);
    assert_eq!(huge.bytes, u64::MAX, "more than can be told");
    assert!((huge.kinds[0].bytes_share - 1.0 / 3.0).abs() < 1e-5, "{:?}", huge.kinds);
    assert!(huge.to_tables().contains("EiB"));

    let same = found(&"5 0 8 8 1\n".repeat(1000), &options()).unwrap();
    let arrivals = same.arrivals.as_ref().unwrap();
    assert_eq!((arrivals.mean_iops, arrivals.peak_second.records), (None, 1000));
    assert_eq!(arrivals.gaps.unwrap().zero_share, 1.0);
    assert_eq!(same.reuse.unwrap().p99_bytes, 0);

    let broken = found("1 0 8 8 1\n2 0 8 8\n", &options()).unwrap_err();
    assert!(broken.to_string().contains("t.trace:2:1"), "{broken}");
}

// Unchecked options would cause divisions by zero and allocations of terabytes.
#[test]
fn options_out_of_bounds_are_refused_with_the_bounds() {
    for (options, words) in [
        (Options { unit_bytes: 0, ..options() }, ["--footprint-unit 0 B", "512 B to 1 GiB"]),
        (Options { unit_bytes: 2 << 30, ..options() }, ["--footprint-unit 2 GiB", "512 B to 1 GiB"]),
        (Options { samples: 0, ..options() }, ["--samples 0", "64 to 16777216"]),
        (Options { samples: usize::MAX, ..options() }, ["--samples 1844", "64 to 16777216"]),
    ] {
        let error = found("1 0 8 8 1\n", &options).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}

// Only the exact curve uses unbounded memory; without a limit it would exhaust the machine.
#[test]
fn an_exact_curve_of_too_many_units_is_refused() {
    let few = Options { exact: true, exact_units_max: 3, ..options() };
    let text = "0 0 0 8 0\n1 0 8 8 0\n2 0 16 8 0\n3 0 0 24 1\n";
    assert_eq!(found(text, &few).unwrap().footprint.units, 3);
    let error = found(&format!("{text}4 0 24 8 1\n"), &few).unwrap_err().to_string();
    for word in ["t.trace:5:1", "--exact: more than 3 units", "leave out --exact", "--footprint-unit"] {
        assert!(error.contains(word), "{error}");
    }
}

// A trim of a whole device is one line of a trace; counted as accesses it would dominate all figures.
#[test]
fn trims_access_no_unit() {
    let mut inspector = Inspector::new(&options());
    let trim = Record { time_ps: 0, device: 0, offset_bytes: 0, bytes: 1 << 62, kind: Kind::Trim };
    assert!(inspector.record(&trim));
    assert_eq!((inspector.records, inspector.kinds[2], inspector.cut), (1, (1, 1 << 62), 0));
    assert_eq!(inspector.footprint.finish(4096).accesses, 0);
}

// After Ctrl-C in an hour-long trace, the figures so far are useful if marked as partial.
#[test]
fn an_interrupted_inspection_is_marked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.trace");
    std::fs::write(&path, generated()).unwrap();
    let reader = Reader::open(&path, &ReadOptions::default()).unwrap();
    let interrupt = Interrupt::default();
    interrupt.raise();
    let found = inspect(reader, "t", &options(), |_, _| (), &interrupt).unwrap();
    assert!(found.partial && found.records == 1 && found.to_tables().contains("PARTIAL"));
}
