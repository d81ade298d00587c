//! Scenarios, and error messages for invalid ones.

mod drives;
mod fio;
mod jbof;
mod jobs;
mod kv;
mod placement;
mod programs;
mod queries;
mod target;
mod transfer;

use super::*;
use byteway_text::units::Bytes;
use byteway_workload::{Issue, Verify};

const DRIVE: &str = "[drive]\nprofile = \"samsung-970-pro\"\n";
const JOB: &str = "[[job]]\nrw = \"randread\"\ncount = 1000\n";

fn parse(text: &str, sets: &[&str]) -> Result<Scenario, InputError> {
    let options = Options { sets: sets.iter().map(|set| (*set).to_owned()).collect(), ..Options::default() };
    Scenario::from_text("s.toml", Path::new(""), text, &options)
}

/// Asserts that the message contains place, mistake and remedy.
fn assert_error(result: Result<Scenario, InputError>, place: &str, what: &str, help: &str) {
    let error = result.unwrap_err();
    let shown = error.to_string();
    assert!(shown.starts_with(place), "place {place:?} in: {shown}");
    assert!(error.what.contains(what), "what {what:?} in: {shown}");
    assert!(error.help.contains(help), "help {help:?} in: {shown}");
}

// A silent change of a default changes every result of every scenario that relies on it.
#[test]
fn the_least_scenario_gets_its_defaults() {
    let scenario = parse(&format!("{DRIVE}{JOB}"), &[]).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.seed), ("s", 1));
    assert_eq!(scenario.drives[0].plan.geometry.capacity_bytes, 512 << 30);
    assert_eq!((scenario.drives[0].plan.lba_bytes, scenario.drives[0].plan.namespaces), (4096, 1));
    assert_eq!(
        (scenario.drives[0].plan.store, scenario.drives[0].plan.precondition),
        (Store::Stamp, Base::Filled)
    );
    assert_eq!(scenario.host.verify, Verify::On);
    let job = &scenario.jobs[0];
    assert_eq!((job.name.as_str(), job.iodepth, job.workers, job.nsid), ("job0", 1, 1, 1));
    assert_eq!((job.range_lba, job.range_blocks), (0, 1 << 27));
    assert_eq!((job.issue, job.transfer_blocks_max), (Issue::Closed, 64));
    assert_eq!(scenario.command_count(), Some(1000));
}

// An override applied to the wrong key, or to none, would silently produce a wrong result.
#[test]
fn overrides_reach_scenario_and_profile() {
    let text = format!("{DRIVE}[drive.override]\nflash.read = [\"50 us\", \"60 us\"]\n{JOB}");
    let sets = [
        "drive.capacity=64 GiB",
        "job.0.bs=8 KiB",
        "job.job0.iodepth=7",
        "seed=9",
        "name=\"x\"",
        "drive.override.link.lanes=2",
        "host.profile=linux-interrupt",
        "host.override.submit=1 us",
        "measure.warmup=\"10 ms\"",
    ];
    assert_error(parse(&text, &sets), "--set job.job0.iodepth=7", "there is no `job.job0`", "from 0 to 0");
    let text = text.replace("[[job]]", "[[job]]\nname = \"job0\"");
    let scenario = parse(&text, &sets).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.seed), ("x", 9));
    assert_eq!(scenario.drives[0].plan.geometry.capacity_bytes, 64 << 30);
    assert_eq!(scenario.drives[0].plan.profile.link.lanes, 2);
    assert_eq!(scenario.drives[0].plan.profile.flash.read, [Picos(50_000_000), Picos(60_000_000)]);
    assert_eq!(scenario.host.profile.submit, Picos(1_000_000));
    assert_eq!(scenario.jobs[0].iodepth, 7);
    assert_eq!(scenario.warmup, Some(Warmup::Time(Picos(10_000_000_000))));
    let Source::Synthetic(synthetic) = &scenario.jobs[0].source else { unreachable!() };
    assert_eq!(synthetic.lengths.fixed(synthetic.rw), Some(2));
}

// Users make each of these mistakes; the message is all the help they get.
#[test]
fn every_error_names_place_and_cure() {
    let with = |extra: &str| parse(&format!("{DRIVE}{JOB}{extra}"), &[]);
    assert_error(with("iodept = 4\n"), "s.toml:6:1", "unknown key `iodept` in `job.0`", "`iodepth`?");
    assert_error(with("bs = \"4 kib\"\n"), "s.toml:6:6", "`job.0.bs`: unknown unit `kib`", "`4 KiB`?");
    assert_error(with("bs = 4096\n"), "s.toml:6:6", "integer `4096` does not fit", "\"4 KiB\"");
    for number in ["99999999999999999999", "-99999999999999999999"] {
        let said = format!("integer `{number}` does not fit here");
        assert_error(with(&format!("bs = {number}\n")), "s.toml:6:6", &said, "\"4 KiB\"");
    }
    assert_error(
        with("bs = \"6 KiB\"\n"),
        "s.toml:6:6",
        "not a multiple of drive.lba_size",
        "multiple of 4 KiB",
    );
    assert_error(with("bs = \"65 MiB\"\n"), "s.toml:6:6", "an I/O may have", "at most 64 MiB");
    assert!(with("bs = \"512 KiB\"\n").is_ok(), "longer than a command: it is split");
    assert_error(with("rw = \"read\"\n"), "s.toml:6:1", "duplicate key", "");
    assert_error(with("size = \"1 TiB\"\n"), "s.toml:6:8", "not within the namespace", "at most 512 GiB");
    assert_error(with("offset = \"1 TiB\"\n"), "s.toml:6:10", "beyond the namespace", "below 512 GiB");
    assert_error(
        with("[transfer]\nmethod = \"sgl\"\n"),
        "s.toml:7:10",
        "`samsung-970-pro` has no SGLs",
        "controller.sgl = true",
    );
    assert_eq!(with("issue = \"open\"\nrate_iops = 1000\n").unwrap().jobs[0].iodepth, 128);
    assert_error(with("iodepth = 0\n"), "s.toml:6:11", "out of range", "from 1 to 16383");
    assert_error(with("iodepth = -1\n"), "s.toml:6:11", "integer `-1`", "a whole number from 0");
    assert_error(with("[host]\nqueues = 0\n"), "s.toml:7:10", "out of range", "1 to 1024");
    let weighted = with("numjobs = 33\n[host]\narbitration = \"weighted\"\n");
    assert_error(weighted, "s.toml:6:11", "one priority", "`host.queues` to 33");
    assert_error(with("fsync = 0\n"), "s.toml:6:9", "out of range", "from 1 to");
    assert_error(
        with("iodepth = 18446744073709551616\n"),
        "s.toml:6:11",
        "18446744073709551616",
        "a whole number",
    );
    let wide = with("iodepth = 18446744073709551616\n").unwrap_err();
    assert!(!wide.to_string().contains("128"), "{wide}");
    assert_error(with("issue = \"open\"\n"), "s.toml:6:9", "needs a rate", "rate_iops");
    assert_error(with("issue = \"opn\"\n"), "s.toml:6:9", "`opn`", "`open`?");
    assert_error(with("priority = \"high\"\n"), "s.toml:6:12", "round robin", "weighted");
    assert_error(with("namespace = 2\n"), "s.toml:6:13", "out of range", "1 to 1");
    assert_error(with("rwmixread = 70\n"), "s.toml:6:13", "no mix", "randrw");
    assert_error(with("runtime = \"1 sec\"\n"), "s.toml:6:11", "unknown unit `sec`", "s, min");
    assert_error(with("x = = 1\n"), "s.toml:6:5", "not TOML", "key = value");
    assert_error(with("[measure]\nwarmup = -1\n"), "s.toml:7:10", "-1", "number of I/Os");
    assert_error(with("[jobb]\n"), "s.toml:6:2", "unknown key `jobb`", "`job`?");
    assert_error(with("[host.weights]\nhigh = 0\n"), "s.toml:7:8", "out of range", "1 to 256");
    assert_error(with("[host.weights]\nlow = 2\n"), "s.toml:7:7", "round robin", "weighted");
    assert_error(parse(DRIVE, &[]), "s.toml:1:1", "no job", "[[job]]");
    assert_error(parse(JOB, &[]), "s.toml:1:1", "lacks the section `[drive]`", "[drive]");
    let text = format!("[drive]\nprofile = \"samsung-970\"\n{JOB}");
    assert_error(parse(&text, &[]), "s.toml:2:11", "no built-in profile", "`samsung-970-pro`?");
    let text = format!("[drive]\nprofile = \"nowhere/x.toml\"\n{JOB}");
    assert_error(parse(&text, &[]), "s.toml:2:11", "cannot read the profile", "check the path");
    let text = format!("{DRIVE}[[job]]\nrw = \"randread\"\n");
    assert_error(parse(&text, &[]), "s.toml:3:1", "never ends", "runtime");
    let text = format!("{DRIVE}[[job]]\ncount = 1\n");
    assert_error(parse(&text, &[]), "s.toml:3:1", "neither `rw` nor `trace`", "[job.trace]");
    let two = format!("{DRIVE}{JOB}name = \"a\"\n{JOB}name = \"a\"\n");
    assert_error(parse(&two, &[]), "s.toml:10:8", "two jobs are called `a`", "of its own");
}

// An impossible geometry would hang in garbage collection, or divide by zero.
#[test]
fn impossible_drives_are_refused_where_they_are_written() {
    let with = |extra: &str| parse(&format!("{DRIVE}{extra}{JOB}"), &[]);
    assert_error(with("capacity = \"65 TiB\"\n"), "s.toml:3:12", "out of range", "1 GiB to 64 TiB");
    assert_error(with("capacity = \"1000 MB\"\n"), "s.toml:3:12", "out of range", "1 GiB");
    assert_error(with("capacity = \"2000000000 B\"\n"), "s.toml:3:12", "multiple of 1 MiB", "1907 MiB");
    assert_error(with("lba_size = \"1 KiB\"\n"), "s.toml:3:12", "not a format", "512 B");
    let over = |line: &str| with(&format!("[drive.override]\n{line}\n"));
    assert_error(over("flash.channels = 0"), "s.toml:4:18", "`flash.channels` = 0", "from 1 to 64");
    assert_error(over("flash.chanels = 4"), "s.toml:4:7", "unknown key `chanels` in `flash`", "`channels`?");
    assert_error(over("flash.page = \"5 KiB\""), "s.toml:4:14", "not possible", "power of two");
    assert_error(over("flash.planes = 3"), "s.toml:4:16", "not possible", "1, 2, 4, 8");
    assert_error(over("flash.blocks = 100"), "s.toml:4:16", "cannot hold 512 GiB", "leave it out");
    assert_error(over("flash.read = []"), "s.toml:4:14", "0 entries", "write 1");
    assert_error(over("flash.read = [\"1 us\", 5]"), "s.toml:4:23", "integer `5`", "3.2 us");
    assert_error(over("controller.mdts = \"4 KiB\""), "s.toml:4:19", "not possible", "from 8 KiB to 16 MiB");
    assert_error(over("link.lanes = 3"), "s.toml:4:14", "not possible", "1, 2, 4, 8, 12, 16, 32");
    assert_error(over("link.mps = \"100 B\""), "s.toml:4:12", "not possible", "power of two");
    assert_error(over("firmware.op = \"0 %\""), "s.toml:4:15", "out of range", "1 % to 400 %");
    assert_error(over("firmware.clock = \"1 Hz\""), "s.toml:4:18", "out of range", "1 MHz");
    assert_error(over("firmware.gc.policy = \"gready\""), "s.toml:4:22", "`gready`", "`greedy`?");
    assert_error(over("firmware.write_buffer = \"4 KiB\""), "s.toml:4:25", "out of range", "32 KiB");
    assert_error(with("override = 4\n"), "s.toml:3:12", "does not fit", "a section");
}

// Optional mechanisms have their own limits: without them a mistaken unit yields a drive that never collects
// garbage, or an hour of useless simulation.
#[test]
fn the_keys_of_upkeep_and_cells_are_checked_where_they_are_written() {
    let over = |line: &str| parse(&format!("{DRIVE}[drive.override]\n{line}\n{JOB}"), &[]);
    let refused = |line: &str, place: &str, what: &str, help: &str| {
        assert_error(over(line), &format!("s.toml:4:{place}"), what, help);
    };
    refused("firmware.map_cache = \"4 KiB\"", "22", "out of range", "from 32 KiB to 16 GiB");
    refused("firmware.map_cache = 4096", "22", "integer `4096`", "\"4 KiB\"");
    refused("firmware.map_cache = true", "22", "boolean `true`", "or false for none");
    refused("firmware.map_cahe = \"2 MiB\"", "10", "unknown key `map_cahe`", "`map_cache`?");
    refused("firmware.checkpoint = 10", "23", "integer `10`", "\"7 %\"");
    refused("firmware.wear.static_spread = 0", "31", "out of range", "from 1 to");
    // A switch of another kind of key: the choices were not named.
    for (key, choices) in [
        ("firmware.prefetch", "`none`, `sequential`"),
        ("firmware.admission", "`always`, `second-access`, `tiny-lfu`"),
        ("firmware.streams", "`separate`, `hot-cold`, `sepbit`"),
        ("firmware.gc.policy", "`greedy`, "),
        ("firmware.wear.policy", "`fifo`, "),
        ("flash.schedule", "`priority`, "),
    ] {
        let place = (key.len() + 4).to_string();
        refused(&format!("{key} = false"), &place, "boolean `false` does not fit", choices);
    }
    // One of the two was dropped without a word.
    let both = |other: &str| format!("firmware.wear = {{ policy = \"random:10\", {other} }}");
    let (spread, dynamic) = ("`firmware.wear.static_spread`", "`firmware.wear.dynamic`");
    for (other, says, keys) in [
        ("static_spread = 3", "which say `static:3`", spread.to_owned()),
        ("dynamic = true", "which say `dynamic`", dynamic.to_owned()),
        ("dynamic = true, static_spread = 3", "which say `static:3`", format!("{spread} and {dynamic}")),
    ] {
        refused(&both(other), "28", says, &format!("set {keys} to false"));
    }
    assert!(over(&both("static_spread = false, dynamic = false")).is_ok());
    refused("firmware.wear.static = 20", "15", "unknown key `static`", "`static_spread`");
    refused("firmware.refresh = { reads = 100 }", "20", "lacks the key `age`", "age = ...");
    let whole = "write `flash.suspend = { latency = ";
    refused(
        "flash.suspend = { policy = \"erases\" }",
        "17",
        "`flash.suspend` lacks the key `latency`",
        whole,
    );
    refused("firmware.refresh = { reads = 100, age = \"1 y\" }", "41", "out of range", "200 d");
    refused(
        "firmware.refresh = { reads = 100, age = \"1 ms\" }",
        "41",
        "unknown unit `ms`",
        "s, min, h, d, y",
    );
    refused(
        "firmware.gc.background = { idle = \"1 ms\", free = \"0 %\" }",
        "50",
        "out of range",
        "1 % to 50 %",
    );
    refused(
        "flash.slc = { blocks = 1, read = \"20 us\", program = \"1 us\", erase = \"1 ms\" }",
        "24",
        "`flash.slc.blocks`",
        "2",
    );
    let dynamic = |keys: &str| {
        format!("flash.slc = {{ {keys}, read = \"20 us\", program = \"1 us\", erase = \"1 ms\" }}")
    };
    refused(&dynamic("dynamic = \"101 %\""), "25", "out of range", "0.1 % to 100 %");
    refused(&dynamic("dynamic = \"9 %\", dynamic_until = \"0 %\""), "48", "out of range", "1 % to 100 %");
    refused(&dynamic("blocks = 1, dynamic = \"9 %\""), "24", "`flash.slc.blocks`", "2");
    refused(&dynamic("blocks = 8, fold = \"never\""), "34", "`never`", "`full`");
    refused(
        "flash.suspend = { latency = \"5 us\", resume = \"2 ms\", most = 16 }",
        "46",
        "`flash.suspend.resume`",
        "1 ms",
    );
    refused("flash.suspend = { latancy = \"5 us\" }", "19", "unknown key `latancy`", "`latency`?");
    refused("flash.suspend = \"5 us\"", "17", "`flash.suspend`", "section");
    let slc = "flash.slc = { blocks = 8, read = \"20 us\", program = \"1 us\", erase = \"1 ms\" }";
    assert_error(
        over(&format!("flash.pages = 255\n{slc}")),
        "s.toml:5:13",
        "one-bit mode",
        "a multiple of 2",
    );
    let drive = |line: &str| parse(&format!("{DRIVE}{line}\n{JOB}"), &[]);
    assert_error(drive("age = \"1 month\""), "s.toml:3:7", "unknown unit `month`", "s, min, h, d, y");
    assert_error(drive("age = \"101 y\""), "s.toml:3:7", "out of range", "100 y");
    assert_error(drive("worn = \"201 %\""), "s.toml:3:8", "out of range", "0 % to 200 %");
    // The state is constructed for a cache that is folded as it fills: of another it would be wrong by three times.
    let idle = slc.replace("erase", "fold = \"idle\", erase");
    let error = drive(&format!("precondition = \"steady\"\noverride.{idle}")).unwrap_err().to_string();
    assert!(
        error.contains("folded when it is full") && error.contains("precondition = \"filled\""),
        "{error}"
    );
    let temperature = |steps: &str| drive(&format!("temperature = [{steps}]"));
    assert_error(temperature("[\"1 s\", \"70\"]"), "s.toml:3", "`70` is not a temperature", "\"78 C\"");
    assert_error(temperature("[\"1 s\", \"126 C\"]"), "s.toml:3:15", "out of range", "-40 C to 125 C");
    assert_error(temperature("[\"101 d\", \"70 C\"]"), "s.toml:3", "unknown unit `d`", "h");
    let twice = "[\"1 s\", \"70 C\"], [\"1 s\", \"71 C\"]";
    assert_error(temperature(twice), "s.toml:3:15", "1 s comes after 1 s", "later");
    let many: String = (0..1001).map(|at| format!("[\"{at} s\", \"70 C\"],")).collect();
    assert_error(temperature(&many), "s.toml:3:15", "has 1001 steps", "leave some out");
    let heavy = |from: &str, rest: &str| {
        let light = "light = { from = \"70 C\", rest = \"40 %\" }";
        over(&format!(
            "firmware.throttle = {{ {light}, heavy = {{ from = \"{from}\", rest = \"{rest}\" }} }}"
        ))
    };
    assert_error(heavy("70 C", "80 %"), "s.toml", "is not above", "higher");
    assert_error(heavy("80 C", "30 %"), "s.toml", "out of range", "40 % to 99 %");
    assert_error(heavy("80 C", "100 %"), "s.toml", "out of range", "99 %");
}

// A comparison removes a mechanism with the same key that adds it.
#[test]
fn false_takes_away_what_a_profile_has() {
    let text = format!(
        "{DRIVE}[drive.override.flash]\nsuspend = {{ latency = \"5 us\", resume = \"5 us\", most = 16 }}\n{JOB}"
    );
    let suspend = |sets: &[&str]| parse(&text, sets).unwrap().drives[0].plan.profile.flash.suspend.clone();
    assert_eq!(suspend(&[]).unwrap().most, 16);
    assert_eq!(suspend(&["drive.override.flash.suspend.most=2"]).unwrap().most, 2);
    assert_eq!(suspend(&["drive.override.flash.suspend=false"]), None);
    let cache = |value: &str| {
        let set = format!("drive.override.firmware.map_cache={value}");
        parse(&text, &[&set]).unwrap().drives[0].plan.profile.firmware.map_cache
    };
    assert_eq!((cache("2 MiB"), cache("false")), (Some(Bytes(2 << 20)), None));
}

// Reserved blocks must be additional: taken from the spare flash, they would raise write amplification.
#[test]
fn blocks_set_aside_come_on_top() {
    let blocks = |lines: &str| {
        parse(&format!("{DRIVE}[drive.override.flash]\n{lines}\n{JOB}"), &[])
            .map(|scenario| scenario.drives[0].plan.geometry.blocks)
    };
    let plain = blocks("").unwrap();
    assert_eq!(blocks("spare_blocks = 24").unwrap(), plain + 24);
    let slc = "slc = { blocks = 8, read = \"20 us\", program = \"100 us\", erase = \"1 ms\" }";
    assert_eq!(blocks(&format!("spare_blocks = 24\n{slc}")).unwrap(), plain + 32);
    let exactly = blocks(&format!("blocks = {plain}\nspare_blocks = 300")).unwrap_err();
    assert!(exactly.what.contains("300 set aside"), "{exactly}");
}

// A flag has no line: the message must name the flag.
#[test]
fn an_error_from_a_flag_names_the_flag() {
    let text = format!("{DRIVE}{JOB}");
    let set = |flag: &str| parse(&text, &[flag]);
    assert_error(set("job.0.bs=5 KiB"), "--set job.0.bs=5 KiB: ", "not a multiple", "multiple of 4 KiB");
    assert_error(set("drive.capacity=64"), "--set drive.capacity=64: ", "integer `64`", "4 KiB");
    assert_error(set("drive.capcity=64 GiB"), "--set drive.capcity=64 GiB: ", "unknown key", "`capacity`?");
    assert_error(set("drive.override.flash.ways=0"), "--set drive.override", "`flash.ways` = 0", "1 to 64");
    assert_error(set("seed"), "--set seed: ", "no `=`", "--set key=value");
    assert_error(set("=5"), "--set =5: ", "not a key", "--set key=value");
    assert_error(set("a..b=5"), "--set a..b=5: ", "not a key", "--set key=value");
    assert_error(set("job.1.bs=4 KiB"), "--set job.1.bs", "1 entries", "0 to 0");
    assert_error(set("seed.x=1"), "--set seed.x=1", "", "");
    assert_error(set("drive.profile.x=1"), "--set drive.profile.x=1", "no keys below", "shorten");
}

// A scenario is untrusted input: any bytes have to end in a message.
#[test]
fn hostile_texts_end_in_a_message() {
    let deep = "a.".repeat(5000) + "a = 1";
    let nested = "[".repeat(5000);
    let brackets = format!("x = {}", "[".repeat(50_000));
    let dots = "a.".repeat(24) + "a = {\n";
    let tables = dots.repeat(79) + "a = 1" + &"}".repeat(79);
    let braces = format!("{DRIVE}{JOB}[drive.override]\n{}a = 1{}", "a = {\n".repeat(79), "}".repeat(79));
    let headers = format!("[{}a]\n{}a = 1", "a.".repeat(24), "a.".repeat(24));
    let texts = ["\u{0}", "\u{feff}", "=", "[", "[[job]]\n[job]", "job = 1", "drive = 5", "a = 1979-05-27"];
    for text in texts.iter().copied().chain([deep.as_str(), &nested, &brackets, &tables, &braces, &headers]) {
        assert!(parse(text, &[]).is_err());
    }
    let long = "x".repeat(100_000);
    let error = parse(&format!("{DRIVE}{JOB}{long} = 1\n"), &[]).unwrap_err();
    assert!(error.to_string().len() < 2000);
    let key = "a.".repeat(5000) + "a=1";
    assert!(parse(&format!("{DRIVE}{JOB}"), &[&key]).is_err());
    assert!(parse(&format!("{DRIVE}{JOB}"), &["drive.capacity=[[[[[[[[1"]).is_err());
}

// A trace is scanned before the run, so that an error in it does not end the run halfway.
#[test]
fn a_trace_job_is_checked_through() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.trace"), "1 0 8 8 1\n2 3 99999999999 8 0\n2 3 8 8 0\nx\n").unwrap();
    let load = |lines: &str, skip_bad_lines: bool| {
        let text = format!("{DRIVE}[[job]]\nname = \"t\"\n[job.trace]\nfile = \"t.trace\"\n{lines}");
        Scenario::from_text("s.toml", folder.path(), &text, &Options { skip_bad_lines, ..Options::default() })
    };
    let error = load("wrap = true\n", false).unwrap_err();
    assert!(error.to_string().contains("t.trace:4:1: not a record"), "{error}");
    let error = load("", true).unwrap_err();
    assert!(error.to_string().contains("t.trace:2:1: LBA") && error.help.contains("wrap = true"), "{error}");
    let scenario = load("wrap = true\nmode = \"closed\"\n", true).unwrap();
    assert_eq!(scenario.command_count(), Some(3));
    let notes = scenario.notes(0);
    assert!(notes[0].contains("0 = write and 1 = read; 3 records"), "{notes:?}");
    assert!(notes[1].contains("1 lines of t.trace are no records"), "{notes:?}");
    assert!(!notes.concat().contains(&folder.path().display().to_string()));
    assert_eq!(load("device = 0\nformat = \"mqsim\"\n", true).unwrap().command_count(), Some(1));
    assert_error(load("device = 7\n", true), "s.toml:6:8", "no record to replay", "device");
    assert_error(load("device = \"al\"\n", true), "s.toml:7:10", "al", "\"all\"");
    assert_error(load("time_scale = nan\n", true), "s.toml:7:14", "out of range", "from");
    assert_error(load("format = \"msrr\"\n", true), "s.toml:7:10", "msrr", "`msr`?");
    let text = format!("{DRIVE}[[job]]\nbs = \"4 KiB\"\n[job.trace]\nfile = \"t.trace\"\n");
    assert_error(parse(&text, &[]), "s.toml:4:6", "replays a trace", "leave it out");
    let text = format!("{DRIVE}[[job]]\n[job.trace]\nfile = \"absent.trace\"\n");
    assert_error(parse(&text, &[]), "s.toml:5:8", "cannot read the trace", "check the path");
}

// Editors complete and validate scenarios with the schema; a section missing there does not exist for them.
#[test]
fn the_schema_knows_every_section() {
    let schema = scenario_schema().to_string();
    for word in [
        "override",
        "iodepth",
        "time_scale",
        "warmup",
        "KiB",
        "randread",
        "weights",
        "zipf",
        "bssplit",
        "stonewall",
        "io_size",
        "mq-deadline",
        "bypass",
        "roce-100g",
    ] {
        assert!(schema.contains(word), "{word}");
    }
    assert!(device_schema().to_string().contains("shadow_doorbells"));
    let profile = crate::profile::profile_schema(&Policies::default());
    assert!(profile.to_string().contains("channel_rate"));
    // A default that files leave out is left out of a derived schema, too, and then of the reference.
    let default =
        |key: &str| profile["$defs"].pointer(key).and_then(|key| key["default"].as_str()).map(str::to_owned);
    for (key, name) in [
        ("/Firmware/properties/streams", "separate"),
        ("/Firmware/properties/admission", "always"),
        ("/Firmware/properties/prefetch", "none"),
        ("/Flash/properties/schedule", "priority"),
        ("/Suspend/properties/policy", "always"),
    ] {
        assert_eq!(default(key).as_deref(), Some(name), "{key}");
    }
    let wear = profile["$defs"].pointer("/Wear/properties/policy/description").and_then(|text| text.as_str());
    assert!(wear.is_some_and(|text| text.contains("without them `fifo`")), "{wear:?}");
    assert!(host_schema().to_string().contains("submit"));
    assert!(network_schema().to_string().contains("in_capsule"));
}

fn device(text: &str, sets: &[&str]) -> Result<Device, InputError> {
    let options = Options { sets: sets.iter().map(|set| (*set).to_owned()).collect(), ..Options::default() };
    Device::from_text("d.toml", Path::new(""), text, &options)
}

// A served drive that stored only stamps, or began filled, would not be the new drive that a real host
// expects.
#[test]
fn the_least_device_gets_its_own_defaults() {
    let least = device(DRIVE, &[]).unwrap();
    assert_eq!((least.name.as_str(), least.seed), ("d", 1));
    assert_eq!((least.drive.store, least.drive.precondition), (Store::Ram, Base::Empty));
    assert_eq!((least.serve.timing, least.serve.doorbells), (Timing::Model, Doorbells::Mapped));
    assert!(least.serve.shadow_doorbells);
    assert_eq!(least.serve.rest, Picos(200_000_000));
    let text = format!(
        "name = \"x\"\nseed = 7\n{DRIVE}store = \"stamp\"\nprecondition = \"steady\"\n[serve]\ndoorbells = \"trapped\"\n"
    );
    let sets = ["serve.timing=none", "serve.shadow_doorbells=false", "drive.override.link.lanes=2"];
    let full = device(&text, &sets).unwrap();
    assert_eq!((full.name.as_str(), full.seed, full.drive.profile.link.lanes), ("x", 7, 2));
    assert_eq!((full.drive.store, full.drive.precondition), (Store::Stamp, Base::Steady));
    assert_eq!((full.serve.timing, full.serve.doorbells), (Timing::None, Doorbells::Trapped));
    assert!(!full.serve.shadow_doorbells);
    let plain = device(DRIVE, &["drive.store=stamp"]).unwrap();
    assert_eq!(plain.drive.store, Store::Stamp, "a flag counts as written");
}

// Device files are written by hand like scenarios, and need the same messages.
#[test]
fn a_wrong_device_file_is_refused_with_place_and_cure() {
    let refused = |text: &str, sets: &[&str], place: &str, what: &str, help: &str| {
        let error = device(text, sets).unwrap_err();
        let shown = error.to_string();
        assert!(shown.starts_with(place), "place {place:?} in: {shown}");
        assert!(error.what.contains(what), "what {what:?} in: {shown}");
        assert!(error.help.contains(help), "help {help:?} in: {shown}");
    };
    refused(&format!("{DRIVE}{JOB}"), &[], "d.toml:3:3", "unknown key `job` in the device file", "`drive`");
    refused(
        &format!("{DRIVE}[serve]\ntimming = 1\n"),
        &[],
        "d.toml:4:1",
        "unknown key `timming`",
        "`timing`?",
    );
    refused(&format!("{DRIVE}[serve]\ntiming = \"non\"\n"), &[], "d.toml:4:10", "`non`", "`none`?");
    refused(
        &format!("{DRIVE}[serve]\ndoorbells = 1\n"),
        &[],
        "d.toml:4:13",
        "only a text fits",
        "`byteway schema device`",
    );
    refused("seed = 1\n", &[], "d.toml:1:1", "lacks the section `[drive]`", "[drive]");
    refused(&format!("{DRIVE}capacity = \"65 TiB\"\n"), &[], "d.toml:3:12", "out of range", "64 TiB");
    refused(DRIVE, &["serve.timing=off"], "--set serve.timing=off", "`off`", "`model`");
    for name in ["", "a/b", "..", ".x", "a b", "\u{e4}", "x\u{0}", &"x".repeat(33)] {
        let text = format!("name = {}\n{DRIVE}", serde_json::to_string(name).unwrap());
        refused(&text, &[], "d.toml:1:8", "cannot be the name", "letters");
    }
    for rest in ["5 us", "2 s"] {
        let text = format!("{DRIVE}[serve]\nrest = \"{rest}\"\n");
        refused(&text, &[], "d.toml:4:8", "`serve.rest` =", "200 us");
    }
    let queues = ["drive.override.controller.max_io_queues=600"];
    refused(DRIVE, &queues, "", "`serve.shadow_doorbells`", "to at most 511");
    let mut sets = queues.to_vec();
    sets.push("serve.shadow_doorbells=false");
    device(DRIVE, &sets).unwrap();
}

// Linux shares queues among processes; a drive has fewer queue pairs than a job file has processes.
#[test]
fn workers_beyond_the_queue_pairs_share_them_and_this_is_noted() {
    for (lines, queues) in [
        ("numjobs = 32\n", 32),
        ("numjobs = 33\n", 32),
        ("numjobs = 1024\n", 32),
        ("numjobs = 256\n[host]\nqueues = 8\n", 8),
        ("numjobs = 4\n[host]\nqueues = 8\n", 4),
        ("numjobs = 40\n[host]\nqueues = 1024\n", 32),
    ] {
        let scenario = parse(&format!("{DRIVE}{JOB}{lines}"), &[]).unwrap();
        let workers = scenario.jobs[0].workers;
        assert_eq!(scenario.queue_pairs(0), queues, "{lines}");
        let note = format!("{workers} workers share {queues} queue pairs");
        assert_eq!(scenario.notes(0).contains(&note), workers > queues, "{lines}");
    }
}
