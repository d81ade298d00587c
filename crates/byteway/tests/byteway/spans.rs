//! Checks `spans.json` against the run's own figures, by reading the file as a viewer does.
//!
//! Checked: every event is well formed, on a named track; uses on a track do not overlap; every slice that starts also ends; stages fill
//! their I/O without gaps; the stages of all measured I/Os are the summary's spans; link crossings are those of the ledger; busy time is
//! the utilization. Not checked: how a viewer draws it.

use crate::common::{folder, round, scenario};
use byteway_results::summary::{Summary, Utilisation, WaitRow, span_rows, wait_rows};
use byteway_results::timeline::Timeline;
use byteway_run::run::{Records, Session, run_recorded};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::Command;
use std::rc::Rc;

/// All features: garbage collection, open and closed loops, interrupts, trims, warm-up.
const MIXED: &str = r#"
name = "mixed"
seed = 42
[drive]
profile = "round.toml"
precondition = "steady"
override.flash.ways = 1
override.firmware.write_buffer = "256 KiB"
[host]
profile = "round-host.toml"
override.completion = "interrupt"
[[job]]
name = "mix"
rw = "randrw"
rwmixread = 60
iodepth = 8
random_distribution = "zipf:1.2"
count = 1000
ramp_time = "1 ms"
[[job]]
name = "scan"
rw = "read"
bs = "64 KiB"
iodepth = 2
numjobs = 2
count = 50
[[job]]
name = "arrivals \"open\""
rw = "randread"
issue = "open"
rate_iops = 20000
iodepth = 4
count = 300
[[job]]
name = "trims"
rw = "randtrim"
bs = "256 KiB"
count = 50
[measure]
warmup = 20
"#;

/// Memory that fails like a full disk beyond a limit.
#[derive(Clone)]
struct Disk {
    bytes: Rc<RefCell<Vec<u8>>>,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut held = self.bytes.borrow_mut();
        if held.len() + bytes.len() > self.room {
            return Err(std::io::Error::other("the disk is full"));
        }
        assert!(bytes.len() < 80 << 10, "more is held in memory than is said");
        held.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs and records the first `ios_max` I/Os on a disk of `room` bytes.
fn run_on(text: &str, ios_max: u32, room: usize) -> (Summary, Vec<u8>, std::io::Result<()>) {
    let disk = Disk { bytes: Rc::default(), room };
    let timeline = Timeline::new(Box::new(disk.clone()), ios_max);
    let (mut progress, interrupt) = (Progress::hidden(), Interrupt::default());
    let session = Session { progress: &mut progress, interrupt: &interrupt };
    let records = Records { timeline: Some(timeline.clone()), ..Records::default() };
    let (results, _) = run_recorded(&scenario(text), session, records).expect("it runs");
    assert!(results.summary.errors.is_empty(), "{:?}", results.summary.errors);
    let bytes = disk.bytes.take();
    (results.summary, bytes, timeline.outcome())
}

fn run(text: &str, ios_max: u32) -> (Summary, Shown) {
    let (summary, bytes, outcome) = run_on(text, ios_max, usize::MAX);
    outcome.expect("there is free space");
    (summary, Shown::read(&bytes))
}

/// A slice of a track.
#[derive(Clone, Debug)]
struct Slice {
    name: String,
    begin: u64,
    end: u64,
    ios: Vec<u64>,
    arguments: Value,
}

/// An I/O with its stages.
#[derive(Clone, Debug)]
struct Shape {
    name: String,
    begin: u64,
    end: u64,
    arguments: Value,
    stages: Vec<(String, u64, u64)>,
    /// What it waited for, each with its time.
    waits: Vec<(String, u64)>,
}

/// The file's content as a viewer sees it.
struct Shown {
    /// By process and thread, in the order of time.
    tracks: BTreeMap<(String, String), Vec<Slice>>,
    ios: BTreeMap<u64, Shape>,
    other: Value,
}

/// Microseconds with six decimals, exact up to 2^52 ps.
fn ps(value: &Value) -> u64 {
    let us = value.as_f64().expect("a time is a number");
    assert!((0.0..4e9).contains(&us), "{us}");
    (us * 1e6).round() as u64
}

impl Shown {
    fn read(bytes: &[u8]) -> Shown {
        let file: Value = serde_json::from_slice(bytes).expect("it is JSON");
        let events = file["traceEvents"].as_array().expect("it has events");
        let number =
            |event: &Value, key: &str| event[key].as_u64().unwrap_or_else(|| panic!("{key}: {event}"));
        let (mut processes, mut threads) = (BTreeMap::new(), BTreeMap::new());
        let mut sorted = BTreeSet::new();
        for event in events.iter().filter(|event| event["ph"] == "M") {
            let process = number(event, "pid");
            let name = || event["args"]["name"].as_str().expect("a name is text").to_owned();
            match event["name"].as_str() {
                Some("process_name") => assert!(processes.insert(process, name()).is_none(), "{event}"),
                Some("thread_name") => {
                    let thread = number(event, "tid");
                    assert!(threads.insert(thread, (process, name())).is_none(), "{event}");
                }
                Some("process_sort_index") => {
                    assert!(sorted.insert(number(&event["args"], "sort_index")), "{event}");
                }
                Some("thread_sort_index") => {}
                _ => panic!("{event}"),
            }
        }
        assert_eq!(sorted.len(), processes.len());
        let track = |event: &Value| {
            let (process, name) = &threads[&number(event, "tid")];
            assert_eq!(*process, number(event, "pid"), "{event}");
            (processes[process].clone(), name.clone())
        };
        let mut tracks: BTreeMap<_, Vec<Slice>> = BTreeMap::new();
        let (mut ios, mut open) =
            (BTreeMap::new(), BTreeMap::<u64, (Shape, Option<(String, Option<String>, u64)>)>::new());
        for event in events {
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            match event["ph"].as_str() {
                Some("M") => {}
                Some("X") => {
                    let begin = ps(&event["ts"]);
                    let arguments = event["args"].clone();
                    let ios = match (&arguments["io"], &arguments["ios"]) {
                        (Value::Number(io), Value::Null) => vec![io.as_u64().expect("an I/O's number")],
                        (Value::Null, Value::Array(ios)) => ios.iter().filter_map(Value::as_u64).collect(),
                        (Value::Null, Value::Null) => Vec::new(),
                        _ => panic!("{event}"),
                    };
                    assert_eq!(event["bind_id"].as_u64(), (ios.len() == 1).then(|| ios[0]), "{event}");
                    let end = begin + ps(&event["dur"]);
                    assert!(begin < end, "{event}");
                    let slice = Slice { name: text("name"), begin, end, ios, arguments };
                    tracks.entry(track(event)).or_default().push(slice);
                }
                Some("b") => {
                    let (id, name, at) = (number(event, "id"), text("name"), ps(&event["ts"]));
                    assert!(track(event).0.contains("queue "), "{event}");
                    match open.get_mut(&id) {
                        None => {
                            let arguments = event["args"].clone();
                            assert_eq!(arguments["io"], id);
                            let (stages, waits) = Default::default();
                            let shape = Shape { name, begin: at, end: at, arguments, stages, waits };
                            open.insert(id, (shape, None));
                        }
                        Some((_, Some(stage))) => panic!("{stage:?} has not ended before {event}"),
                        Some((_, stage)) => {
                            let awaited = event["args"]["for"].as_str().map(str::to_owned);
                            assert_eq!(awaited.is_some(), name == "queueing", "{event}");
                            *stage = Some((name, awaited, at));
                        }
                    }
                }
                Some("e") => {
                    let (id, name, at) = (number(event, "id"), text("name"), ps(&event["ts"]));
                    let (shape, stage) = open.get_mut(&id).expect("what ends has begun");
                    match stage.take() {
                        Some((begun, awaited, begin)) => {
                            assert_eq!(begun, name);
                            shape.waits.extend(awaited.map(|awaited| (awaited, at - begin)));
                            assert_eq!(begin, shape.end, "stages follow one another without a gap");
                            assert!(begin < at, "{event}");
                            shape.end = at;
                            shape.stages.push((name, begin, at));
                        }
                        None => {
                            let (shape, _) = open.remove(&id).expect("it is open");
                            assert_eq!((&shape.name, shape.end), (&name, at), "its stages fill it");
                            assert!(ios.insert(id, shape).is_none(), "one I/O has a number");
                        }
                    }
                }
                _ => panic!("{event}"),
            }
        }
        assert!(open.is_empty(), "{open:?}");
        for (track, slices) in &mut tracks {
            slices.sort_by_key(|slice| slice.begin);
            for pair in slices.windows(2) {
                assert!(pair[0].end <= pair[1].begin, "{track:?}: {pair:?}");
            }
        }
        Shown { tracks, ios, other: file["otherData"].clone() }
    }

    /// The part of one of several drives, as if it were the only one.
    fn of_drive(&self, name: &str) -> Shown {
        let prefix = format!("{name}: ");
        let tracks = self.tracks.iter().filter_map(|((process, thread), slices)| {
            let process = process.strip_prefix(&prefix)?.to_owned();
            let slices = slices.iter().map(Slice::clone).collect();
            Some(((process, thread.clone()), slices))
        });
        let own = self.ios.iter().filter(|(_, shape)| shape.arguments["drive"] == name);
        let ios: BTreeMap<u64, Shape> = own.map(|(id, shape)| (*id, shape.clone())).collect();
        let measured = ios.values().filter(|shape| shape.arguments["measured"] == true).count();
        let other = json!({ "complete": true, "ios": ios.len(), "measured_ios": measured });
        Shown { tracks: tracks.collect(), ios, other }
    }

    fn slices(&self, process: &str) -> impl Iterator<Item = &Slice> {
        self.tracks.iter().filter(move |((of, _), _)| of == process).flat_map(|(_, slices)| slices)
    }

    /// Times of the measured I/Os by stage, in the summary's form.
    fn spans(&self, summary: &Summary) -> Vec<byteway_results::summary::SpanRow> {
        let names: Vec<&str> = summary.spans.iter().map(|row| row.span.as_str()).collect();
        let mut totals: Vec<(&str, u128)> = names.iter().map(|name| (*name, 0)).collect();
        let measured = self.ios.values().filter(|io| io.arguments["measured"] == true);
        for (stage, begin, end) in measured.clone().flat_map(|io| &io.stages) {
            let total = totals.iter_mut().find(|(name, _)| name == stage).expect("a stage of the summary's");
            total.1 += u128::from(end - begin);
        }
        span_rows(&totals, measured.count() as u64)
    }

    /// Their times in queues by what they waited for, in the summary's form.
    fn waits(&self, summary: &Summary) -> Vec<WaitRow> {
        let mut totals: Vec<(&str, u128)> = summary.waits.iter().map(|row| (row.wait.as_str(), 0)).collect();
        let measured = self.ios.values().filter(|io| io.arguments["measured"] == true);
        for (awaited, time) in measured.clone().flat_map(|io| &io.waits) {
            let total = totals.iter_mut().find(|(name, _)| name == awaited).expect("a wait of the summary's");
            total.1 += u128::from(*time);
        }
        let stages = measured.clone().flat_map(|io| &io.stages);
        let whole = stages.map(|(_, begin, end)| u128::from(end - begin)).sum();
        wait_rows(&totals, whole, measured.count() as u64)
    }

    /// Busy time of each track of a process between two instants; unused tracks are omitted.
    fn busy(&self, process: &str, from: u64, to: u64) -> Vec<u64> {
        let tracks = self.tracks.iter().filter(|((of, _), _)| of == process);
        let within = |slice: &Slice| slice.end.min(to).saturating_sub(slice.begin.max(from));
        tracks.map(|(_, slices)| slices.iter().map(within).sum()).collect()
    }
}

/// Compares all figures in both file and summary, for a run without a warm-up.
fn agrees(summary: &Summary, shown: &Shown) {
    assert_eq!(shown.other["complete"], true);
    assert_eq!(shown.other["ios"], shown.ios.len() as u64);
    assert_eq!(shown.other["measured_ios"], summary.ios);
    assert_eq!(shown.spans(summary), summary.spans);
    assert_eq!(shown.waits(summary), summary.waits);
    let mut crossings: BTreeMap<(&str, &str), (u64, u64, u64)> = BTreeMap::new();
    for (process, direction) in [("link to device", "to device"), ("link to host", "to host")] {
        for slice in shown.slices(process) {
            let sum = crossings.entry((slice.name.as_str(), direction)).or_default();
            let argument = |key: &str| slice.arguments[key].as_u64().expect("a crossing has its bytes");
            sum.0 += argument("tlps");
            sum.1 += argument("payload_bytes");
            sum.2 += argument("wire_bytes");
        }
    }
    let ledger: BTreeMap<_, _> = summary
        .link
        .iter()
        .map(|row| {
            let sums = (row.crossings, row.payload_bytes, row.wire_bytes);
            ((row.purpose.as_str(), row.direction.as_str()), sums)
        })
        .collect();
    assert_eq!(crossings, ledger);
    let elapsed = (summary.elapsed_ns * 1000.0).round() as u64;
    for (resource, process) in [
        ("dies", "flash: dies"),
        ("channels", "flash: channels"),
        ("cores", "drive: cores"),
        ("link to device", "link to device"),
        ("link to host", "link to host"),
    ] {
        let expected = summary.utilisation.iter().find(|row| row.resource == resource).expect("it is there");
        let mut busy = shown.busy(process, 0, elapsed);
        assert!(busy.len() as u64 <= expected.count);
        busy.resize(expected.count as usize, 0);
        if resource == "link to device" {
            // The last doorbell write of the set-up was still crossing at the start of the run.
            let doorbell =
                shown.slices(process).find(|slice| slice.name == "doorbell").expect("there is one");
            busy[0] += doorbell.end - doorbell.begin;
        }
        if resource == "cores" {
            // The run only knows their sum.
            let mean = busy.iter().sum::<u64>() / expected.count;
            busy.fill(mean);
        }
        let each = busy.into_iter().map(|busy| (busy, elapsed));
        assert_eq!(&Utilisation::of(resource, each), expected);
    }
}

// Two drives both have a core 0 and a die 0: on a shared track their uses would overlap, and sums would be wrong.
#[test]
fn each_drive_and_its_link_have_tracks_with_its_name() {
    let text = "\
        [[drive]]\nname = 'large'\nprofile = 'round.toml'\n\
        [[drive]]\nname = 'small'\nprofile = 'round.toml'\noverride.flash.ways = 1\n\
        [host]\nprofile = 'round-host.toml'\n\
        [[job]]\nname = 'reads'\nrw = 'randread'\niodepth = 8\ncount = 400\ndrive = 'all'\n";
    let (summary, shown) = run(text, u32::MAX);
    assert_eq!(shown.other["complete"], true);
    for part in &summary.drives {
        let name = part.drive.as_deref().expect("one of several has a name");
        let own = shown.of_drive(name);
        assert_eq!(own.ios.len(), 400);
        agrees(part, &own);
        let queue = format!("queue 1: reads/{name}");
        assert!(own.ios.values().all(|io| io.arguments["job"] == format!("reads/{name}")), "{queue}");
    }
    let processes: BTreeSet<&str> = shown.tracks.keys().map(|(process, _)| process.as_str()).collect();
    for process in ["host: processors", "large: link to device", "small: link to host", "small: flash: dies"]
    {
        assert!(processes.contains(process), "{process} is not in {processes:?}");
    }
}

// Times that differ from the summary's would explain another run.
#[test]
fn reads_agree_with_the_summary_and_can_be_followed() {
    let text =
        round("precondition = 'filled'", "[[job]]\nname = 'r'\nrw = 'randread'\niodepth = 8\ncount = 400");
    let (summary, shown) = run(&text, 1000);
    agrees(&summary, &shown);
    assert_eq!(shown.ios.len(), 400);
    for (io, shape) in &shown.ios {
        assert_eq!((shape.name.as_str(), &shape.arguments["job"]), ("read", &Value::from("r")));
        let path: BTreeSet<(&str, &str)> = shown
            .tracks
            .iter()
            .flat_map(|((process, _), slices)| slices.iter().map(move |slice| (process.as_str(), slice)))
            .filter(|(_, slice)| slice.ios.contains(io))
            .map(|(process, slice)| {
                assert!(slice.begin >= shape.begin, "{slice:?} before {shape:?}");
                (process, slice.name.as_str())
            })
            .collect();
        let expected = [
            ("drive: cores", "complete"),
            ("drive: cores", "fetch"),
            ("drive: cores", "parse"),
            ("drive: cores", "translate"),
            ("flash: channels", "command"),
            ("flash: channels", "data out"),
            ("flash: dies", "read"),
            ("host: processors", "complete"),
            ("host: processors", "submit"),
            ("link to device", "SQE fetch"),
            ("link to device", "doorbell"),
            ("link to host", "CQE"),
            ("link to host", "SQE fetch"),
            ("link to host", "data"),
        ];
        assert_eq!(path, BTreeSet::from(expected), "I/O {io}");
    }
}

// A write's time is spent in programs and garbage collection: without them the tracks would show false gaps.
#[test]
fn writes_with_collection_agree_with_the_summary() {
    let drive =
        "precondition = 'steady'\noverride.flash.ways = 1\noverride.firmware.write_buffer = '256 KiB'";
    let text = round(drive, "[[job]]\nrw = 'randwrite'\niodepth = 16\ncount = 3000");
    let (summary, shown) = run(&text, 10_000);
    agrees(&summary, &shown);
    let flash = summary.flash.expect("it is simulated");
    assert!(flash.collect_programs > 0 && flash.erases > 0, "{flash:?}");
    for (name, client, done) in [
        ("program", "host", flash.host_programs),
        ("program", "collector", flash.collect_programs),
        ("read", "collector", flash.collect_reads),
        ("erase", "collector", flash.erases),
    ] {
        let of = |slice: &&Slice| slice.name == name && slice.arguments["for"] == client;
        let slices: Vec<_> = shown.slices("flash: dies").filter(of).collect();
        // Operations in flight at the end are shown but not counted: one per die.
        assert!((done..=done + 4).contains(&(slices.len() as u64)), "{name}: {} of {done}", slices.len());
        // The initial content of the buffer belongs to no I/O: 64 units, at least one per program.
        let of_none = slices.iter().filter(|slice| slice.ios.is_empty()).count();
        match client {
            "collector" => assert_eq!(of_none, slices.len(), "{name}"),
            _ => assert!(of_none <= 64 && of_none < slices.len(), "{name}: {of_none} of {}", slices.len()),
        }
    }
}

// With priority classes a queue's commands come in bursts, and entries are fetched together.
#[test]
fn weighted_queues_and_bursts_agree_with_the_summary() {
    let job = |name, class| {
        format!("[[job]]\nname = '{name}'\nrw = 'randrw'\niodepth = 32\ncount = 400\npriority = '{class}'\n")
    };
    let drive = "precondition = 'filled'\noverride.controller.fetch_burst = 8\noverride.controller.fetch_outstanding = 1";
    let text = round(drive, &format!("{}{}", job("one", "high"), job("two", "low")));
    let text = text.replace("[host]\n", "[host]\narbitration = 'weighted'\noverride.submit = '1 ns'\n");
    let (summary, shown) = run(&text, 10_000);
    agrees(&summary, &shown);
    let together =
        shown.slices("link to host").filter(|slice| slice.name == "SQE fetch" && slice.ios.len() > 1);
    assert!(together.count() > 0, "no entries were fetched together");
    let queues: BTreeSet<&str> = shown.ios.values().filter_map(|io| io.arguments["job"].as_str()).collect();
    assert_eq!(queues, BTreeSet::from(["one", "two"]));
}

// The warm-up is in the file but not in the summary; the wait of an open loop is in the summary before the I/O starts.
#[test]
fn all_kinds_at_once_agree_with_the_summary() {
    let (summary, shown) = run(MIXED, 1_000_000);
    assert_eq!(shown.spans(&summary), summary.spans);
    assert_eq!(shown.waits(&summary), summary.waits);
    assert_eq!(shown.other["measured_ios"], summary.ios);
    assert!(shown.ios.len() as u64 > summary.ios, "some warmed up");
    let interrupts = shown.slices("host: processors").filter(|slice| slice.name == "interrupt");
    assert!(interrupts.count() > 0);
    let kinds: BTreeSet<&str> = shown.ios.values().map(|io| io.name.as_str()).collect();
    assert_eq!(kinds, BTreeSet::from(["read", "trim", "write"]));
    let late = |io: &&Shape| io.arguments["job"] == "arrivals \"open\"" && io.stages[0].0 == "queueing";
    assert!(shown.ios.values().filter(late).count() > 0, "nothing was late");
}

// Recording must not change the run.
#[test]
fn watching_changes_nothing_and_writes_the_same_bytes() {
    let (summary, bytes, _) = run_on(MIXED, 100_000, usize::MAX);
    assert_eq!(crate::common::run(MIXED).to_json(), summary.to_json());
    assert!(run_on(MIXED, 100_000, usize::MAX).1 == bytes, "the same run, other bytes");
}

// Without a limit the file of a long run fills the disk; a truncated file must say that it is incomplete.
#[test]
fn the_first_ios_are_covered_and_the_file_says_so() {
    let (summary, whole) = run(MIXED, 100_000);
    let (short, shown) = run(MIXED, 100);
    assert_eq!(summary.to_json(), short.to_json());
    assert_eq!(shown.ios.keys().copied().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    assert_eq!((&shown.other["ios"], &shown.other["complete"]), (&Value::from(100), &Value::from(false)));
    let cut = ps(&shown.other["complete_until_us"]);
    for (io, shape) in &shown.ios {
        assert_eq!(shape.stages, whole.ios[io].stages, "I/O {io}");
    }
    for (track, slices) in &shown.tracks {
        let all = &whole.tracks[track];
        assert!(slices.iter().all(|slice| slice.ios.iter().all(|io| *io < 100)));
        let before = all.iter().filter(|slice| slice.end < cut).count();
        assert_eq!(slices.iter().filter(|slice| slice.end < cut).count(), before, "{track:?}");
        // Uses reserved before the cut may start after it.
        let later = slices.iter().filter(|slice| slice.begin > cut + 200_000_000);
        assert!(later.into_iter().all(|slice| !slice.ios.is_empty()), "{track:?}");
    }
}

// A partial file that looks complete would be worse than none; and the run's results must not be lost with it.
#[test]
fn a_full_disk_is_told_and_the_run_goes_on() {
    let (summary, bytes, outcome) = run_on(MIXED, 100_000, 200_000);
    assert_eq!(outcome.unwrap_err().to_string(), "the disk is full");
    assert!(bytes.len() <= 200_000);
    assert_eq!(crate::common::run(MIXED).to_json(), summary.to_json());
}

// Users use the flag.
#[test]
fn the_binary_writes_spans_json() {
    let results: Vec<Vec<u8>> = ["a", "b/c"]
        .iter()
        .map(|name| {
            let out = tempfile::tempdir().unwrap();
            let source = out.path().join("mixed.toml");
            std::fs::write(&source, MIXED).unwrap();
            for file in ["round.toml", "round-host.toml"] {
                std::fs::copy(folder().join(file), out.path().join(file)).unwrap();
            }
            let results = out.path().join(name);
            let output = Command::new(env!("CARGO_BIN_EXE_byteway"))
                .arg("run")
                .arg(&source)
                .args(["--quiet", "--spans-ios", "50", "--out"])
                .arg(&results)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let names = std::fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().file_name());
            assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with('.')));
            std::fs::read(results.join("spans.json")).unwrap()
        })
        .collect();
    assert!(results[0] == results[1], "the bytes depend on the folder");
    assert_eq!(Shown::read(&results[0]).ios.len(), 50);
}
