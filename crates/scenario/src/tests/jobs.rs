//! The keys of a job: their effects, and error messages for invalid ones.

use super::*;
use byteway_workload::{ByKind, Cap, Distribution, Lengths, Synthetic, Think, Verify};

fn job(lines: &str) -> Result<Scenario, InputError> {
    parse(&format!("{DRIVE}[[job]]\n{lines}"), &[])
}

fn synthetic(scenario: &Scenario) -> Synthetic {
    let Source::Synthetic(synthetic) = &scenario.jobs[0].source else { unreachable!() };
    synthetic.clone()
}

// Users make each of these mistakes; the message is all the help they get.
#[test]
fn every_key_of_a_job_has_its_error() {
    let with = |line: &str| job(&format!("rw = \"randrw\"\ncount = 1\n{line}\n"));
    let at = |column: u32| format!("s.toml:6:{column}: ");
    let no = |line: &str, place: &str, what: &str, help: &str| {
        assert_error(with(line), &format!("s.toml:{place}: "), what, help);
    };
    no("bs = \"4k,6k\"", "6:6", "6 KiB is not a multiple", "multiple of 4 KiB");
    no("bs = \"4k,4k,4k,4k\"", "6:6", "more than three parts", "\"4k,16k,1m\"");
    no("bs = \",\"", "6:6", "empty", "\"4 KiB\"");
    no("bsrange = \"64k-4k\"", "6:11", "does not rise", "\"4k-64k\"");
    no("bsrange = \"4k\"", "6:11", "not a range", "\"4k-64k\"");
    no("bsrange = \"4k-1g\"", "6:11", "an I/O may have", "at most 64 MiB");
    no("bssplit = \"4k/60:64k/50\"", "6:11", "sum to 110", "\"4k/60:64k/40\"");
    no("bssplit = \"4k/60:64k/30\"", "6:11", "sum to 90", "percentages");
    no("bssplit = \"4k/x\"", "6:11", "`x` is not a percentage", "percentages");
    no("bssplit = \"4k/50:6k/50\"", "6:11", "6 KiB is not a multiple", "multiple of 4 KiB");
    no("bs = \"4k\"\nbsrange = \"4k-8k\"", "7:11", "has said it already", "one of the two");
    no("rwmixread = 101", "6:13", "out of range", "from 0 to 100");
    no("rwmixread = 70\nrwmixwrite = 40", "7:14", "don't sum to 100", "one of the two");
    no(
        "distribution = \"zipf:1.2\"",
        "6:1",
        "unknown key `distribution`",
        "did you mean `random_distribution`?",
    );
    let distribution = |value: &str, what: &str, help: &str| {
        no(&format!("random_distribution = \"{value}\""), "6:23", what, help);
    };
    distribution("zipf:-1", "theta", "0.001 to 20");
    distribution("zipf", "lacks its theta", "\"zipf:1.2\"");
    distribution("pareto:1", "h of `pareto:1` is out of range", "0.001 to 0.999");
    distribution("normal:x", "not a number", "\"normal:10\"");
    distribution("zip:1", "not a distribution", "\"random\"");
    distribution("zoned:60/10:30/90", "accesses sum to 90", "zoned");
    distribution("zoned:60/10:40/80", "sizes sum to 90", "zoned");
    distribution("zoned:100/0:0/100", "too small for an I/O", "range");
    distribution("zoned_abs:60/600g:40/1g", "more than the job's range of 512 GiB", "smaller zones");
    no("norandommap = false\nbsrange = \"4k-8k\"", "6:15", "each block once", "leave it out");
    no("offset_increment = \"1 KiB\"", "6:20", "not a multiple", "multiple of 4 KiB");
    no("numjobs = 3\noffset_increment = \"256g\"", "7:20", "begin beyond", "smaller increment");
    no(
        "numjobs = 2\noffset_increment = \"256g\"\nsize = \"257g\"",
        "8:8",
        "from 256 GiB is not within",
        "at most 256 GiB",
    );
    no("io_size = \"0 B\"", "6:11", "out of range", "from 1 B");
    no("rate_iops = 0", "6:13", "out of range", "from 1");
    no("rate_iops = \"5,x\"", "6:13", "`x` is not a number of I/Os", "10000,2000");
    no("rate = \"5 MB\"", "6:8", "unknown unit `MB`", "MB/s");
    no("rate = 5", "6:8", "integer `5` does not fit", "\"800 MB/s\"");
    no("rate = \"5 MB/s\"\nrate_iops = 5", "6:8", "`rate_iops` limits the job already", "one of the two");
    no("rate = \"5 MB/s\"\nissue = \"open\"\nrate_iops = 5", "6:8", "this one is open", "rate_iops");
    no("issue = \"open\"\nrate_iops = \"5,6\"", "7:13", "one rate", "rwmixread");
    no("arrival = \"fixed\"", "6:11", "waits for completions", "issue");
    no("thinktime = \"1\"", "6:13", "no unit", "us");
    no("thinktime_blocks = 2", "6:20", "no `thinktime`", "thinktime");
    no("thinktime = \"1 us\"\nthinktime_blocks = 0", "7:20", "out of range", "from 1");
    no("thinktime = \"1 us\"\nissue = \"open\"\nrate_iops = 5", "6:13", "does not pause", "closed");
    no("ramp_time = \"5000 h\"", "6:13", "out of range", "from 0 ps");
    no("startdelay = \"5000 h\"", "6:14", "out of range", "from 0 ps");
    no("stonewall = 1", "6:13", "integer `1`", "true or false");
    no("verify = \"crc32c\"", "6:10", "\"crc32c\" does not fit", "true, false or \"bytes\"");
    no("verify = 1", "6:10", "integer `1`", "true, false or \"bytes\"");
    let sequential = |line: &str| job(&format!("rw = \"read\"\ncount = 1\n{line}\n"));
    assert_error(sequential("random_distribution = \"random\""), &at(23), "contradicts", "leave it out");
    assert_error(sequential("norandommap = true"), &at(15), "contradicts", "leave it out");
    assert_error(sequential("rwmixwrite = 5"), &at(14), "no mix", "randrw");
    let trims = job("rw = \"trimwrite\"\ncount = 1\nbs = \"4k,4k,8k\"\n");
    assert_error(trims, &at(6), "one size for both", "same size");
    assert_error(job("rw = \"rread\"\ncount = 1\n"), "s.toml:4:6", "`rread`", "`read`?");
    let trace = "rw = \"read\"\n".replace("rw = \"read\"", "thinktime = \"1 us\"");
    let trace = job(&format!("{trace}[job.trace]\nfile = \"t\"\n"));
    assert_error(trace, "s.toml:4:13", "replays a trace", "leave it out");
}

// A key with another effect than documented would silently produce a wrong result.
#[test]
fn keys_come_to_what_they_say() {
    let plan = |lines: &str| job(lines).unwrap().jobs[0].clone();
    let of = |lines: &str| synthetic(&job(lines).unwrap());
    let fixed = |read, write, trim| ByKind {
        read: Lengths::Fixed(read),
        write: Lengths::Fixed(write),
        trim: Lengths::Fixed(trim),
    };
    let mixed = "rw = \"readwrite\"\ncount = 9\n";
    assert_eq!(of(&format!("{mixed}bs = \"8k,32 KiB\"\n")).lengths, fixed(2, 8, 1));
    assert_eq!(of(&format!("{mixed}bs = \",8k\"\n")).lengths, fixed(1, 2, 1));
    assert_eq!(of(&format!("{mixed}bs = \"8k,\"\n")).lengths, fixed(2, 1, 1));
    let ranges = of(&format!("{mixed}bsrange = \"4k-16k,8k-32k\"\n")).lengths;
    assert_eq!(ranges.write, Lengths::Range { min: 2, max: 8 });
    let splits = of(&format!("{mixed}bssplit = \"4k/50:8k/:16k/,4k\"\n")).lengths;
    assert_eq!(splits.read, Lengths::Split(vec![(1, 50), (2, 25), (4, 25)]));
    assert_eq!(splits.write, Lengths::Split(vec![(1, 100)]));
    assert_eq!(of(&format!("{mixed}rwmixwrite = 30\n")).read_percent, 70);
    let random = "rw = \"randread\"\ncount = 9\n";
    let zoned = of(&format!("{random}random_distribution = \"zoned:60/10:40/\"\n")).distribution;
    assert_eq!(zoned.to_string(), "zoned:60/10:40/90");
    assert_eq!(zoned.to_string().parse::<Distribution>(), Ok(zoned));
    assert!(of(&format!("{random}norandommap = false\n")).once);
    let rates = plan(&format!("{random}rate_iops = \"100,50\"\n")).cap;
    assert_eq!(rates, Some(Cap::Iops(ByKind { read: Some(100), write: Some(50), trim: Some(50) })));
    let rates = plan(&format!("{random}rate = \"1 MB/s,\"\n")).cap;
    assert_eq!(rates, Some(Cap::Bytes(ByKind { read: Some(1_000_000), write: None, trim: None })));
    let think = plan(&format!("{random}thinktime = \"1 ms\"\nthinktime_blocks = 4\n")).think;
    assert_eq!(think, Some(Think { time: Picos(1_000_000_000), blocks: 4 }));
    let pass = plan("rw = \"write\"\nsize = \"1g\"\nbs = \"128k\"\n");
    assert_eq!((pass.io_bytes, pass.command_count()), (Some(1 << 30), Some(8192)));
    let own = plan("rw = \"write\"\nsize = \"1g\"\nnumjobs = 2\noffset_increment = \"2g\"\n");
    assert_eq!((own.io_bytes, own.range_of(1)), (Some(2 << 30), (1 << 19, 1 << 18)));
    let open = plan("rw = \"write\"\ncount = 1\nnumjobs = 2\noffset_increment = \"500g\"\n");
    assert_eq!(open.range_of(1).1, 12 << 18, "to the end of the namespace");
    let two = format!(
        "{DRIVE}{JOB}stonewall = true\n{JOB}name = \"b\"\n{JOB}name = \"c\"\nstonewall = true\nverify = false\n{JOB}name = \"d\"\nverify = \"bytes\"\n"
    );
    let two = parse(&two, &[]).unwrap();
    assert_eq!(two.jobs.iter().map(|job| job.phase).collect::<Vec<_>>(), [0, 0, 1, 1]);
    let verify: Vec<_> = two.jobs.iter().map(|job| job.verify).collect();
    assert_eq!(verify, [Verify::On, Verify::On, Verify::Off, Verify::Bytes]);
    let phases = format!(
        "{DRIVE}[[job]]\nrw = \"read\"\nruntime = \"1 s\"\nramp_time = \"1 s\"\n[[job]]\nrw = \"read\"\nruntime = \"3 s\"\nstonewall = true\n"
    );
    assert_eq!(parse(&phases, &[]).unwrap().runtime(), Some(Picos(5_000_000_000_000)));
}
