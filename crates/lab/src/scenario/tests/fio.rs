//! fio job files: what they come to, and what is said about those that can't be taken.

use super::*;
use crate::scenario::fio::{PROFILE, translate};
use crate::workload::{Cap, Lengths};

fn load(text: &str) -> Result<Scenario, InputError> {
    Scenario::from_text("j.fio", Path::new(""), text, &Options::default())
}

/// After one of the examples of fio's own documentation, with what people add.
const READERS_AND_WRITERS: &str = "\
; -- start job file --
[global]
ioengine=libaio            ; how fio submits
direct=1
bs=4k
iodepth=16
size=1g
runtime=30
ramp_time=2s
group_reporting
randseed=7

[random-writers]
rw=randwrite
numjobs=4

[global]
bs=128k

# after them
[reader]
stonewall
rw=read
iodepth=2
time_based=1
rate=100m
; -- end job file --
";

// People bring the job files that they have; one that comes to another load compares apples and pears.
#[test]
fn a_job_file_comes_to_the_load_that_it_asks_for() {
    let scenario = load(READERS_AND_WRITERS).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.seed), ("j", 7));
    assert_eq!(scenario.drive.profile_name, PROFILE);
    let [writers, reader] = &scenario.jobs[..] else { panic!("{:?}", scenario.jobs) };
    assert_eq!((writers.name.as_str(), writers.workers, writers.iodepth), ("random-writers", 4, 16));
    assert_eq!((writers.stride_blocks, writers.range_blocks), (Some(0), 1 << 18), "each over the whole");
    assert_eq!(writers.io_bytes, Some(4 << 30), "each of the four writes 1 GiB");
    assert_eq!((writers.runtime, writers.ramp), (Some(Picos(30_000_000_000_000)), Picos(2_000_000_000_000)));
    let Source::Synthetic(drawn) = &writers.source else { unreachable!() };
    assert!(drawn.once && drawn.lengths.write == Lengths::Fixed(1));
    assert_eq!((reader.phase, reader.iodepth, reader.io_bytes), (1, 2, None));
    let Source::Synthetic(drawn) = &reader.source else { unreachable!() };
    assert_eq!(drawn.lengths.read, Lengths::Fixed(32));
    assert!(matches!(reader.cap, Some(Cap::Bytes(rates)) if rates.read == Some(100 << 20)));
    let notes = scenario.notes().join("\n");
    for note in ["`ioengine` has no meaning here", "`group_reporting` has no", "share the drive"] {
        assert!(notes.contains(note), "{note} in {notes}");
    }
    assert!(!notes.contains("page cache"), "{notes}");
}

const MANY_KEYS: &str = "\
[mixed]
filename=/dev/nvme0n1
direct=1
rw=randrw
rwmixread=70
bssplit=4k/60:64k/40,16k
random_distribution=zoned:60/10:30/20:10/
rate_iops=2k,1k
number_ios=1000
numjobs=2
thinktime=50
thinktime_blocks=8
startdelay=5ms
[trimmer]
filename=/dev/nvme0n1
direct=1
readwrite=randtrimwrite
offset=0x40000000
io_limit=2m
size=1g
[verified]
filename=/dev/nvme0n1
direct=1
rw=randread
bsrange=4k-16k
size=64mib
verify=crc32c
";

// Who goes on from the printed scenario must be where the job file was.
#[test]
fn the_printed_scenario_gives_the_same_plan() {
    for text in [READERS_AND_WRITERS, MANY_KEYS] {
        let from_fio = load(text).unwrap_or_else(|error| panic!("{error}"));
        let made = translate("j.fio", text, PROFILE).unwrap();
        let again = parse(&made.text, &[]).unwrap_or_else(|error| panic!("{error}\n{}", made.text));
        assert_eq!(from_fio.jobs, again.jobs);
        assert_eq!((from_fio.seed, from_fio.text.as_str()), (again.seed, made.text.as_str()));
        assert_eq!(made.origins.len(), made.text.lines().count());
    }
    let scenario = load(MANY_KEYS).unwrap();
    assert_eq!(scenario.jobs[0].count, Some(2000));
    assert_eq!(scenario.jobs[0].think.map(|think| think.time), Some(Picos(50_000_000)));
    assert!(matches!(scenario.jobs[0].cap, Some(Cap::Iops(rates)) if rates.write == Some(2048)));
    assert_eq!((scenario.jobs[1].range_lba, scenario.jobs[1].io_bytes), (1 << 18, Some(2 << 20)));
    assert_eq!(scenario.jobs[2].range_blocks * 4096, 64_000_000, "fio's default: mib are 1000 kib");
}

// An error that showed the scenario in between would speak of lines that the user never wrote.
#[test]
fn errors_stand_where_the_job_file_has_them() {
    let no = |lines: &str, place: &str, what: &str, cure: &str| {
        assert_error(load(&format!("[a]\n{lines}\n")), place, what, cure);
    };
    no("rw=read\nsize=9t", "j.fio:3:6", "not within the namespace", "larger drive");
    no("rw=read\n  bs = 6k\nsize=1g", "j.fio:3:8", "not a multiple", "multiple of 4 KiB");
    no("rw=read\nsize=1x", "j.fio:3:6", "unknown unit `x`", "4k (4096)");
    no("rw=read\nsize=10%", "j.fio:3:6", "parts of a device", "4k");
    no("rw=read\nsize=99999999999t", "j.fio:3:6", "too large", "4k");
    no("rw=read:8\nsize=1g", "j.fio:2:4", "steps between addresses", "colon");
    no("rw=reed\nsize=1g", "j.fio:2:4", "`reed`", "`read`?");
    no("rw=read", "j.fio:1:1", "never ends", "size");
    no("rw=read\niodept=4", "j.fio:3:1", "`iodept` is not supported", "`iodepth`?");
    no("iodepth=x", "j.fio:2:9", "not a whole number", "iodepth=8");
    no("fsync=1", "j.fio:2:1", "`fsync` flushes", "leave it out");
    no("iodepth_batch=8", "j.fio:2:1", "in batches", "leave it out");
    no("rw=write\nsize=1g\nverify=crc32c", "j.fio:4:8", "reads back", "do_verify=0");
    no("size=${SIZE}", "j.fio:2:1", "environment variables", "itself");
    no("include other.fio", "j.fio:2:1", "`include`", "here");
    no("direct=0", "j.fio:2:8", "page cache", "direct=1");
    no("filename=/dev/nvme0n1:/dev/nvme1n1", "j.fio:2:10", "several files or drives", "one for all jobs");
    no("nrfiles=4", "j.fio:2:9", "no files", "leave it out");
    no("runtime=5x", "j.fio:2:9", "unknown unit `x`", "runtime=10s");
    no("runtime=99999999999999d", "j.fio:2:9", "too long", "10s");
    no("time_based", "j.fio:2:1", "without a `runtime`", "runtime=10");
    no("[b", "j.fio:2:1", "not a section", "[name]");
    no("a\u{0}b", "j.fio:2:1", "control characters", "TOML");
    no("rw=randread\nsize=1g\nrandom_distribution=zipf:0.9:0.5", "j.fio:4:21", "not a number", "zipf");
    no("loops=2", "j.fio:2:1", "repeats", "io_size");
    assert_error(load("rw=read\n"), "j.fio:1:1", "stands in no section", "[global]");
    assert_error(load("[global]\nrw=read\n"), "j.fio:1:1", "no job", "[job]");
    assert_error(load(""), "j.fio:1:1", "no job", "[job]");
    assert_error(load(&"[a]\n".repeat(2000)), "j.fio:1025:1", "more than 1024 jobs", "numjobs");
    assert!(load("[a]\nfsync=0\nloops=1\nrw=read\nsize=1g\n").is_ok(), "what is no change is none");
    let twice = load("[a]\nrw=read\nsize=1g\n[a]\nrw=read\nsize=1g\nrw=write\n").unwrap();
    assert_eq!(twice.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["a", "a-2"]);
}
