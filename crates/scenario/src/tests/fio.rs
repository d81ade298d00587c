//! fio job files: their translation, and error messages for unsupported ones.

use super::*;
use crate::fio::{JobFile, PROFILE, translate};
use byteway_workload::{Arrival, Cap, Distribution, Issue, Lengths};

fn load(text: &str) -> Result<Scenario, InputError> {
    Scenario::from_text("j.fio", Path::new(""), text, &Options::default())
}

/// Based on one of the examples in fio's documentation, with common additions.
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

// Users bring existing job files; a translation with another load would make comparisons meaningless.
#[test]
fn a_job_file_comes_to_the_load_that_it_asks_for() {
    let scenario = load(READERS_AND_WRITERS).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.seed), ("j", 7));
    assert_eq!(scenario.drives[0].plan.profile_name, PROFILE);
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
    let notes = scenario.notes(0).join("\n");
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

// The printed scenario must be usable in place of the job file.
#[test]
fn the_printed_scenario_gives_the_same_plan() {
    for text in [READERS_AND_WRITERS, MANY_KEYS] {
        let from_fio = load(text).unwrap_or_else(|error| panic!("{error}"));
        let file = JobFile { name: "j.fio", folder: Path::new(""), text, defines: &[] };
        let made = translate(&file, PROFILE).unwrap();
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

// An error that referred to the translated scenario would mention lines that the user never wrote.
#[test]
fn errors_stand_where_the_job_file_has_them() {
    let no = |lines: &str, place: &str, what: &str, help: &str| {
        assert_error(load(&format!("[a]\n{lines}\n")), place, what, help);
    };
    no("rw=read\nsize=9t", "j.fio:3:6", "not within the namespace", "larger drive");
    no("rw=read\n  bs = 6000\nsize=1g", "j.fio:3:8", "not a multiple", "multiple of 4 KiB");
    no("rw=read\nsize=1x", "j.fio:3:6", "unknown unit `x`", "4k (4096)");
    no("rw=read\nbs=10%", "j.fio:3:4", "only `size` and `offset`", "4k");
    no("rw=read\nsize=110%", "j.fio:3:6", "not a part of the namespace", "100 %");
    no("zonemode=strided\nzonesize=4m", "j.fio:2:1", "skips", "zoned:");
    no("rw=read\nsize=99999999999t", "j.fio:3:6", "too large", "4k");
    no("rw=read:8\nsize=1g", "j.fio:2:4", "steps between addresses", "colon");
    no("rw=reed\nsize=1g", "j.fio:2:4", "`reed`", "`read`?");
    no("rw=read\niodept=4", "j.fio:3:1", "`iodept` is not supported", "`iodepth`?");
    // Interpreted either way, it could be another load.
    no("time_based=no", "j.fio:2:12", "neither 0 nor 1", "write 0 or 1");
    no("stonewall=false", "j.fio:2:11", "neither 0 nor 1", "write 0 or 1");
    no("iodepth=x", "j.fio:2:9", "not a whole number", "iodepth=8");
    no("end_fsync=1", "j.fio:2:1", "`end_fsync` flushes", "fsync=1");
    no("fsync=1\nfdatasync=2", "j.fio:2:7", "both a Flush", "leave one");
    no("kb_base=1001", "j.fio:2:9", "neither 1024 nor 1000", "fio's default");
    no("read_iolog=absent.log", "j.fio:2:12", "cannot read the trace", "check the path");
    no("read_iolog=a:b", "j.fio:2:12", "several logs", "one log");
    no("numjobs=2\nread_iolog=a", "j.fio:2:9", "the whole log", "a section for each");
    no("read_iolog=a\nthinktime=5", "j.fio:3:11", "replays a trace", "leave it out");
    no("rw=randread\nrandom_distribution=zoned_abs:60/4x:40/1g\nsize=2g", "j.fio:3:21", "unknown unit", "4k");
    no("iodepth_batch=8", "j.fio:2:1", "in batches", "leave it out");
    no("size=${SIZE}", "j.fio:2:6", "`${SIZE}` is not defined", "--define SIZE=VALUE");
    no("size=${SIZE", "j.fio:2:6", "without its `}`", "${NAME}");
    no("include absent.fio", "j.fio:2:1", "cannot read the fio job file", "check the path");
    no("cmd_type=bsg", "j.fio:2:10", "not NVMe's", "leave the job out");
    no("rw=read\nioengine=net\nport=8888", "j.fio:3:10", "over a socket", "leave the job out");
    no("filesize=1g-2g", "j.fio:2:10", "random sizes", "filesize=1g");
    no("wait_for=b", "j.fio:2:10", "not a job before", "stands before");
    no("rw=randread\nsize=1g\nrate_process=poisson", "j.fio:4:14", "not modelled", "offload");
    no("rw=randread\nsize=1g\nblockalign=6000", "j.fio:4:12", "not a multiple", "multiple of 4 KiB");
    no("filename=/dev/nvme0n1:/dev/nvme1n1", "j.fio:2:10", "several files or drives", "name one");
    no("nrfiles=4", "j.fio:2:9", "no files", "leave it out");
    no("runtime=5x", "j.fio:2:9", "unknown unit `x`", "runtime=10s");
    no("runtime=99999999999999d", "j.fio:2:9", "too long", "10s");
    no("[b", "j.fio:2:1", "not a section", "[name]");
    no("a\u{0}b", "j.fio:2:1", "control characters", "TOML");
    no("rw=randread\nsize=1g\nrandom_distribution=zipf:0.9:0.5", "j.fio:4:21", "not a number", "zipf");
    no("rw=randread\nbs=64m\nsize=1g\niodepth=1000", "j.fio:5:9", "64000 MiB of memory", "lower `iodepth`");
    no("loops=2", "j.fio:2:7", "how much is done once", "`size` in bytes");
    assert_error(load("rw=read\n"), "j.fio:1:1", "stands in no section", "[global]");
    assert_error(load("[global]\nrw=read\n"), "j.fio:1:1", "no job", "[job]");
    assert_error(load(""), "j.fio:1:1", "no job", "[job]");
    assert_error(load(&"[a]\n".repeat(2000)), "j.fio:1025:1", "more than 1024 jobs", "numjobs");
    assert!(load("[a]\nfsync=0\nloops=1\nrw=read\nsize=1g\n").is_ok(), "what is no change is none");
    let twice = load("[a]\nrw=read\nsize=1g\n[a]\nrw=read\nsize=1g\nrw=write\n").unwrap();
    assert_eq!(twice.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["a", "a-2"]);
}

/// Keys from fio's examples, each with an effect that can be checked.
const COMMON_KEYS: &str = "\
[global]
direct=0
norandommap=1
new_group
[small]
rw=randrw
filesize=64m
loops=3
bssplit=512/10:4k/90
blockalign=4k
verify=crc32c
verify_backlog=16
[poisson]
wait_for=small
rw=randread
bs=${BS}
filesize=64m
size=8m
loops=3
io_submit_mode=offload
rate_iops=1000
rate_process=poisson
rate_min=10
[rest]
stonewall
rw=write
bs=64k
offset=25%
size=25%
[last]
rw=read
";

// Existing files use these keys; a translation that drops one measures another load.
#[test]
fn the_keys_of_common_job_files_are_taken() {
    let options = Options { defines: vec!["BS=8k".to_owned(), "OTHER=1".to_owned()], ..Options::default() };
    let load = |text: &str| Scenario::from_text("j.fio", Path::new(""), text, &options);
    let scenario = load(COMMON_KEYS).unwrap_or_else(|error| panic!("{error}"));
    let [small, poisson, rest, last] = &scenario.jobs[..] else { panic!("{:?}", scenario.jobs) };
    assert_eq!(scenario.drives[0].plan.lba_bytes, 512);
    assert_eq!((small.range_blocks, small.io_bytes), (128 << 10, Some(192 << 20)));
    let Source::Synthetic(drawn) = &small.source else { unreachable!() };
    assert_eq!(drawn.align_blocks, Some(8));
    assert_eq!((poisson.range_blocks, poisson.io_bytes), (128 << 10, Some(24 << 20)));
    assert_eq!(poisson.issue, Issue::Open { rate_iops: 1000, arrival: Arrival::Poisson });
    let Source::Synthetic(drawn) = &poisson.source else { unreachable!() };
    assert_eq!(drawn.lengths.read, Lengths::Fixed(16));
    let (_, whole) = scenario.drives[0].plan.address_space();
    assert!(whole / 4 - rest.range_lba < 16 && whole / 4 - rest.range_blocks < 16, "{rest:?}");
    assert_eq!((last.range_blocks, last.io_bytes), (whole, Some(whole * 512)));
    assert_eq!([small, poisson, rest, last].map(|job| job.phase), [0, 1, 2, 2]);
    let notes = scenario.notes(0).join("\n");
    for note in [
        "`direct=0`: there is no page cache",
        "`verify=crc32c`: contents are always verified",
        "`rate_min` ends a job that falls behind",
        "job `last` has no `size` and goes over the whole drive once",
        "drive.lba_size = \"512 B\"",
        "--define OTHER: the job file has no `${OTHER}`",
        "`verify_backlog` reads back",
    ] {
        assert!(notes.contains(note), "{note} in {notes}");
    }
    assert!(!notes.contains("`direct` has no meaning"), "it has a note of its own: {notes}");
    let error = Scenario::from_text(
        "j.fio",
        Path::new(""),
        "[a]\n",
        &Options { defines: vec!["x".to_owned()], ..Options::default() },
    );
    assert!(error.unwrap_err().to_string().contains("NAME=VALUE"));
}

// Errors in an included file must be reported with its name and line.
#[test]
fn files_are_included_where_they_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("common.fio", "bs=16k\ninclude deeper.fio\n");
    write("deeper.fio", "size=1g\n");
    write("loop.fio", "include loop.fio\n");
    let load = |text: &str| Scenario::from_text("j.fio", folder.path(), text, &Options::default());
    let text = "[global]\ninclude common.fio\n[a]\nrw=read\n";
    let scenario = load(text).unwrap_or_else(|error| panic!("{error}"));
    let Source::Synthetic(drawn) = &scenario.jobs[0].source else { unreachable!() };
    assert_eq!((drawn.lengths.read.clone(), scenario.jobs[0].io_bytes), (Lengths::Fixed(4), Some(1 << 30)));
    write("deeper.fio", "\nsize=9t\n");
    let error = load(text).unwrap_err();
    let place = error.place.as_ref().unwrap();
    assert!(place.source.ends_with("deeper.fio") && place.position == Some((2, 6)), "{error}");
    let error = load("[a]\ninclude loop.fio\n").unwrap_err();
    assert!(error.help.contains("includes itself"), "{error}");
}

// Operations of such an engine are not I/O of a drive, regardless of the job's other keys.
#[test]
fn engines_with_other_work_are_refused_for_that() {
    for (names, what) in crate::fio::FOREIGN_ENGINES {
        for name in names {
            let error = load(&format!("[a]\nno_such_key=1\nioengine={name}\n")).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("j.fio:3:10"), "{error}");
        }
    }
}

/// Translates fio's own examples; `BYTEWAY_FIO_EXAMPLES` names their directory.
#[test]
fn the_examples_of_fio_are_taken_or_refused_for_what_they_do() {
    let Some(folder) = std::env::var_os("BYTEWAY_FIO_EXAMPLES").map(std::path::PathBuf::from) else {
        return byteway_testkit::needs::missing(
            "set BYTEWAY_FIO_EXAMPLES to the folder `examples` of fio's sources",
            false,
        );
    };
    let defines = ["FIO_RW=randread", "FIO_IODEPTH=8", "FIO_BS=4k"].map(str::to_owned).to_vec();
    let options = Options { defines, ..Options::default() };
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "fio"));
    files.sort();
    let (mut taken, mut refused) = (0, std::collections::BTreeMap::<String, usize>::new());
    for path in &files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match Scenario::load(path, &options) {
            Ok(_) => {
                println!("taken    {name}");
                taken += 1;
            }
            Err(error) => {
                println!("refused  {name}: {}", error.what);
                // Refused for its effect, not as an unknown key.
                assert!(!error.what.contains("is not supported"), "{name}: {error}");
                *refused.entry(error.what).or_default() += 1;
            }
        }
    }
    let mut refused: Vec<_> = refused.into_iter().collect();
    refused.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    println!("{taken} of {} taken; refused:", files.len());
    refused.iter().for_each(|(what, count)| println!("{count:4}  {what}"));
    assert!(taken >= 33, "{taken} of {} taken", files.len());
}

// Users bring files that say 64Mi for 64 MiB, as fio does: taken as 64 MB, they would be another load without a word.
#[test]
fn sizes_are_those_of_fio_in_every_key() {
    let (kib, mib) = (1 << 10, 1 << 20);
    for (unit, kilo, mega) in [
        ("", kib, mib),
        ("b", kib, mib),
        ("B", kib, mib),
        ("i", kib, mib),
        ("ib", 1000, 1_000_000),
        ("iB", 1000, 1_000_000),
    ] {
        for (k, m) in [("k", "m"), ("K", "M")] {
            let text = format!(
                "[a]\nrw=randwrite\nbs=512{k}{unit}\nsize=64{m}{unit}\noffset=64{m}{unit}\noffset_increment=128{m}{unit}\n\
                 numjobs=2\nrate=8{m}{unit}\nnumber_ios=2{k}{unit}\nrandom_distribution=zoned_abs:50/8{m}{unit}:50/56{m}{unit}\n"
            );
            let scenario = load(&text).unwrap_or_else(|error| panic!("{text}{error}"));
            let job = &scenario.jobs[0];
            let lba = u64::from(job.lba_bytes);
            let Source::Synthetic(drawn) = &job.source else { unreachable!() };
            assert_eq!(drawn.lengths.write, Lengths::Fixed((512 * kilo / lba) as u32), "{text}");
            assert_eq!(job.range_blocks * lba, 64 * mega, "{text}");
            assert_eq!(
                (job.range_lba * lba, job.stride_blocks),
                (64 * mega, Some(128 * mega / lba)),
                "{text}"
            );
            assert_eq!(job.count, Some(2 * kilo * 2), "{text}");
            assert!(matches!(job.cap, Some(Cap::Bytes(rates)) if rates.write == Some(16 * mega)), "{text}");
            let Distribution::ZonedAbs(zones) = &drawn.distribution else { panic!("{text}") };
            assert_eq!(
                zones.iter().map(|zone| zone.size.0).collect::<Vec<_>>(),
                [8 * mega, 56 * mega],
                "{text}"
            );
        }
    }
    let swapped = load("[a]\nrw=read\nkb_base=1000\nbs=64kib\nsize=64MiB\n").unwrap();
    assert_eq!(swapped.jobs[0].range_blocks * 4096, 64 << 20);
    let decimal = load("[a]\nrw=read\nkb_base=1000\nbs=512k\nsize=64m\n").unwrap();
    assert_eq!(decimal.jobs[0].range_blocks * u64::from(decimal.jobs[0].lba_bytes), 64_000_000);
}

// Databases flush after their writes; without it they would seem to run at the speed of a write buffer.
#[test]
fn a_flush_after_so_many_writes_is_taken_over() {
    for (key, writes) in
        [("fsync=4", Some(4)), ("fdatasync=1", Some(1)), ("fsync=0", None), ("fsync=0\nfdatasync=8", Some(8))]
    {
        let scenario = load(&format!("[db]\nrw=randwrite\nbs=8k\nsize=64m\n{key}\n")).unwrap();
        assert_eq!(scenario.jobs[0].flush_after, writes, "{key}");
    }
}

// A log of several files names drives or files of their own, which must not be laid over each other.
#[test]
fn a_log_is_replayed_with_its_files_apart() {
    let folder = tempfile::tempdir().unwrap();
    let two = "fio version 2 iolog\na add\nb add\na open\nb open\na write 0 4096\nb wait 100 0\nb write 0 4096\na close\n";
    let three = "fio version 3 iolog\n0 a add\n0 b add\n0 a write 0 4096\n100 b write 0 4096\n";
    for log in [two, three] {
        std::fs::write(folder.path().join("log"), log).unwrap();
        let load = |keys: &str| {
            let text = format!("[a]\nread_iolog=log\nrw=randread\n{keys}\n");
            Scenario::from_text("j.fio", folder.path(), &text, &Options::default())
        };
        let scenario = load("loops=3\niodepth=4\nreplay_time_scale=200").unwrap();
        let job = &scenario.jobs[0];
        let Source::Trace(trace) = &job.source else { panic!("{:?}", job.source) };
        assert_eq!((job.issue, job.iodepth, trace.repeat), (Issue::Trace, 4, 3), "{log}");
        assert_eq!(trace.layout.device_count(), 2, "{log}");
        assert_eq!((trace.scan.replayed, trace.scan.commands), (6, 6), "{log}");
        // 100 us at twice the speed, and the third time after two durations and two gaps of 50 us.
        assert_eq!(trace.scan.last_ps, 250_000_000, "{log}");
        assert!(scenario.notes(0).iter().any(|note| note.contains("`rw` has no meaning with")));
        let closed = load("replay_no_stall=1").unwrap();
        assert_eq!((closed.jobs[0].issue, closed.jobs[0].iodepth), (Issue::Closed, 1), "{log}");
        let short = load("number_ios=1").unwrap();
        assert!(!short.notes(0).join("\n").contains("is more than"), "{log}");
        let long = load("number_ios=5").unwrap().notes(0).join("\n");
        assert!(
            long.contains("count = 5 is more than the 2 records") && long.contains("repeat = 3"),
            "{long}"
        );
    }
}
