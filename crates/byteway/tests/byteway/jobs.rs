//! Behavior of jobs over time, on a drive of round numbers: rates, pauses, phases, ramps, and verification by job.

use crate::common::{assert_within, round, run, scenario};
use byteway_results::summary::{JobSummary, Summary};
use byteway_run::run::{Session, run as run_scenario};
use byteway_text::error::with_causes;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use std::process::Command;

fn play(jobs: &str) -> Summary {
    run(&round("", jobs))
}

fn ios(job: &JobSummary) -> f64 {
    job.ios as f64
}

// A rate limit that is exceeded measures another load; one whose waits count as latency does not measure the drive.
#[test]
fn a_rate_is_kept_and_is_no_latency() {
    let random = "[[job]]\nrw = 'randread'\nruntime = '100 ms'\n";
    let free = play(&format!("{random}iodepth = 16\n"));
    let capped = play(&format!("{random}iodepth = 16\nrate_iops = 10000\n"));
    assert!(free.iops > 20_000.0, "{}", free.iops);
    assert_within(1.0, capped.iops, 10_000.0, "I/Os a second");
    assert!(crate::common::reads(&capped).latency.mean_ns < crate::common::reads(&free).latency.mean_ns);
    assert!(crate::common::reads(&capped).latency.max_ns < 1e6, "a wait for the rate is none for the drive");
    let workers = play(&format!("{random}numjobs = 3\niodepth = 4\nbs = '8k'\nrate = '80 MB/s'\n"));
    assert_within(1.0, workers.bytes_per_second, 80e6, "bytes a second of three workers");
    let mixed =
        "[[job]]\nrw = 'randrw'\nrwmixread = 80\niodepth = 16\nruntime = '200 ms'\nrate_iops = '8000,1000'\n";
    let mixed = play(mixed);
    let (reads, writes) = (crate::common::reads(&mixed), crate::common::writes(&mixed));
    assert_within(1.0, writes.iops, 1000.0, "writes, which hold the mix back");
    assert!(reads.iops < 8080.0, "{}", reads.iops);
}

// A rate above the drive's throughput must not overload the drive: the loop stays closed.
#[test]
fn a_rate_beyond_the_drive_waits_for_completions() {
    let random = "[[job]]\nrw = 'randread'\ncount = 5000\niodepth = 4\n";
    let free = play(random);
    let capped = play(&format!("{random}rate_iops = 100000000\n"));
    assert_within(1.0, capped.iops, free.iops, "I/Os a second");
    assert_within(
        1.0,
        crate::common::reads(&capped).latency.mean_ns,
        crate::common::reads(&free).latency.mean_ns,
        "latency",
    );
}

// Pauses let a drive collect garbage and its queue drain; pauses that are too short or too few would hide that.
#[test]
fn workers_pause_after_so_many() {
    let one = play(
        "[[job]]\nrw = 'randread'\niodepth = 4\ncount = 400\nthinktime = '1 ms'\nthinktime_blocks = 4\n",
    );
    let burst_ns = crate::common::reads(&one).latency.max_ns;
    let elapsed = one.elapsed_ns;
    assert!(elapsed > 99e6 && elapsed < 99e6 + 100.0 * burst_ns, "{elapsed} ns with bursts of {burst_ns} ns");
    // One outstanding I/O between pauses, at any depth.
    let single = play("[[job]]\nrw = 'randread'\niodepth = 8\ncount = 100\nthinktime = '1 ms'\n");
    let alone = play("[[job]]\nrw = 'randread'\niodepth = 1\ncount = 100\n");
    assert_within(2.0, single.elapsed_ns, 99e6 + alone.elapsed_ns, "a pause after each");
    let short = "[[job]]\nrw = 'randread'\niodepth = 8\nruntime = '10 ms'\nthinktime = '100 s'\n";
    assert_eq!(play(short).ios, 1, "the runtime cuts a pause short");
}

// Overlapping phases would disturb each other's measurements; over the time of both, each would seem slower.
#[test]
fn a_stonewall_waits_and_each_job_counts_its_own_time() {
    let jobs = "[[job]]\nname = 'a'\nrw = 'randread'\nruntime = '10 ms'\n\
                [[job]]\nname = 'b'\nrw = 'randread'\nruntime = '20 ms'\nstonewall = true\nstartdelay = '5 ms'\n";
    let both = play(jobs);
    let alone = play("[[job]]\nname = 'a'\nrw = 'randread'\nruntime = '10 ms'\n");
    let (a, b) = (&both.jobs[0], &both.jobs[1]);
    assert_eq!(a.ios, alone.jobs[0].ios, "alone on the drive");
    assert_within(1.0, a.iops, alone.iops, "the first, over its own time");
    assert_within(1.0, b.iops, alone.iops, "the second, over its own time");
    assert_within(1.0, ios(b) / ios(a), 2.0, "twice as long");
    assert_within(1.0, both.elapsed_ns, 35e6, "10 ms, 5 ms and 20 ms");
}

// Figures from before the queues are full do not represent the load.
#[test]
fn a_ramp_is_left_out_and_adds_to_the_runtime() {
    let plain = play("[[job]]\nrw = 'randread'\niodepth = 4\nruntime = '10 ms'\n");
    let ramped = play("[[job]]\nrw = 'randread'\niodepth = 4\nruntime = '10 ms'\nramp_time = '10 ms'\n");
    assert_within(2.0, ramped.ios as f64, plain.ios as f64, "I/Os of 10 ms");
    assert_within(1.0, ramped.iops, plain.iops, "I/Os a second");
    let job = |name: &str, more: &str| {
        format!("[[job]]\nname = '{name}'\nrw = 'randread'\nruntime = '20 ms'\nrate_iops = 10000\n{more}")
    };
    let two = play(&(job("a", "") + &job("b", "ramp_time = '5 ms'\n")));
    assert_within(1.0, ios(&two.jobs[0]), 200.0, "without a ramp");
    assert_within(1.0, ios(&two.jobs[1]), 200.0, "after 5 ms");
    assert_within(1.0, two.jobs[1].iops, 10_000.0, "over its own time");
    let warm = play(&(job("a", "ramp_time = '5 ms'\n") + "[measure]\nwarmup = '15 ms'\n"));
    assert_within(2.0, warm.ios as f64, 100.0, "the later of ramp and warm-up counts");
}

// A job without verification must still write patterns that others can verify.
#[test]
fn verification_is_by_job() {
    let job = |name: &str, verify: bool| {
        format!(
            "[[job]]\nname = '{name}'\nrw = 'randrw'\nsize = '1 MiB'\ncount = 2000\niodepth = 8\nverify = {verify}\n"
        )
    };
    for host in ["true", "false"] {
        let text = round("", &(job("a", true) + &job("b", false)));
        let text = text.replace("[host]\n", &format!("[host]\nverify = {host}\n"));
        let found = run(&text);
        let checked = found.jobs[0].read.as_ref().map_or(0, |reads| reads.ios);
        assert!(found.verification.on && checked > 900);
        assert_eq!(found.verification.reads, checked);
    }
}

// If a write overtook its trim, a later read would return zeroes instead of the written data.
#[test]
fn what_is_trimmed_and_written_holds_the_write() {
    for rw in ["trimwrite", "randtrimwrite"] {
        let jobs = format!(
            "[[job]]\nname = 'a'\nrw = '{rw}'\nsize = '4 MiB'\niodepth = 16\n\
             [[job]]\nname = 'b'\nrw = 'read'\nsize = '4 MiB'\nstonewall = true\n"
        );
        let found = play(&jobs);
        let count = |job: usize| {
            let job = &found.jobs[job];
            [&job.trim, &job.write, &job.read].map(|kind| kind.as_ref().map_or(0, |kind| kind.ios))
        };
        assert_eq!((count(0), count(1)), ([1024, 1024, 0], [0, 0, 1024]));
    }
}

// An I/O that exceeds the maximum transfer size is one I/O in the measurement and several commands on the drive, with every block correct;
// executed one after another, the commands would take a multiple of the time.
#[test]
fn a_long_io_is_split_and_counts_once() {
    let job =
        |more: &str| format!("[[job]]\nrw = 'randrw'\nsize = '64 MiB'\ncount = 300\niodepth = 4\n{more}");
    let whole = scenario(&round("", &job("bs = '64 KiB'\n"))).drives[0].plan.profile.controller.mdts.0;
    // Four full commands and a fifth one.
    let long = 4 * whole + 4096;
    for verify in [true, false] {
        let found = play(&job(&format!("bs = '{long} B'\nverify = {verify}\n")));
        let job = &found.jobs[0];
        let split = job.split.expect("all of them are");
        assert_eq!((job.ios, split.ios, split.commands), (300, 300, 1500));
        assert_eq!(job.bytes, 300 * long);
        assert_eq!((found.verification.mismatches, found.errors.len()), (0, 0));
        assert!(found.notes.iter().any(|note| note.contains("300 I/Os") && note.contains("1,500 commands")));
        // The data transferred on the link are those read and written.
        let data = |direction: &str| {
            let row = found.link.iter().find(|row| row.purpose == "data" && row.direction == direction);
            row.map_or(0, |row| row.payload_bytes)
        };
        assert_eq!(data("to host") + data("to device"), job.bytes);
        // Time by stage is that of the commands that ended last: it adds up to the I/Os' latency.
        let [reads, writes] = [crate::common::reads(&found), crate::common::writes(&found)];
        let latency =
            (reads.latency.mean_ns * reads.ios as f64 + writes.latency.mean_ns * writes.ios as f64) / 300.0;
        assert_within(
            0.01,
            found.spans.iter().map(|row| row.mean_ns).sum(),
            latency,
            "stages against latency",
        );
    }
    let read =
        |bytes: u64| play(&format!("[[job]]\nrw = 'read'\nsize = '64 MiB'\ncount = 20\nbs = '{bytes} B'\n"));
    let (one, four) = (read(whole), read(4 * whole));
    assert!(one.jobs[0].split.is_none());
    let (one, four) =
        (crate::common::reads(&one).latency.mean_ns, crate::common::reads(&four).latency.mean_ns);
    assert!(four > one && four < 4.0 * one, "{one} ns, {four} ns");
    let trims = play(&format!("[[job]]\nrw = 'randtrim'\nsize = '64 MiB'\ncount = 9\nbs = '{long} B'\n"));
    assert!(trims.jobs[0].split.is_none(), "a trim moves no data");
}

// Times come from users: beyond the clock's limit they must give a message, not a panic.
#[test]
fn times_beyond_reach_are_refused() {
    for line in ["startdelay = '4800 h'", "thinktime = '4800 h'"] {
        let job = format!("[[job]]\nrw = 'randread'\ncount = 3\n{line}\n");
        let scenario = scenario(&round("", &job));
        let session = Session { progress: &mut Progress::hidden(), interrupt: &Interrupt::default() };
        let error = run_scenario(&scenario, session).err().map(|error| with_causes(&error));
        assert!(error.as_ref().is_some_and(|error| error.contains("200 days")), "{line}: {error:?}");
    }
}

const JOB_FILE: &str = "[global]\ndirect=1\nioengine=libaio\nbs=4k\nsize=1m\n[fill]\nrw=write\niodepth=8\n\
                        [read]\nstonewall\nrw=randread\nnumber_ios=200\n";

// The job file must run unchanged, and its translation must give the same run.
#[test]
fn a_job_file_runs_and_is_printed() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let byteway = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_byteway")).current_dir(folder.path()).args(arguments).output();
        output.expect("the binary is built")
    };
    std::fs::write(folder.path().join("job.fio"), JOB_FILE).expect("it can be written");
    let printed = byteway(&["fio", "job.fio"]);
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    std::fs::write(folder.path().join("job.toml"), &printed.stdout).expect("it can be written");
    let run = |file: &str| -> serde_json::Value {
        let output = byteway(&["run", file, "--quiet", "--format", "json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    };
    let (mut from_fio, mut from_toml) = (run("job.fio"), run("job.toml"));
    assert_eq!(from_fio["jobs"][1]["ios"], 200);
    assert!(from_fio["notes"].to_string().contains("`ioengine` has no meaning here"));
    from_fio["notes"].take();
    from_toml["notes"].take();
    assert_eq!(from_fio, from_toml);
    std::fs::write(folder.path().join("job.fio"), JOB_FILE.replace("bs=4k", "bs=5000"))
        .expect("it can be written");
    for command in ["fio", "run"] {
        let output = byteway(&[command, "job.fio"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(
            message.contains("job.fio:4:4: ") && message.contains("5000 B is not a multiple"),
            "{message}"
        );
    }
}

// Without the flushes, writes would end in the write buffer, and a database would seem as fast as that.
#[test]
fn a_worker_flushes_after_so_many_writes() {
    let write = "[[job]]\nrw = 'randwrite'\ncount = 400\n";
    for (workers, depth, writes, flushes) in
        [(1, 1, 1, 400), (1, 1, 4, 100), (1, 8, 4, 100), (2, 4, 8, 50), (1, 1, 401, 0)]
    {
        let lines = format!("{write}numjobs = {workers}\niodepth = {depth}\n");
        let plain = play(&lines);
        let flushed = play(&format!("{lines}fsync = {writes}\n"));
        assert_eq!(flushed.ios, 400);
        let note = format!("job job0: {flushes} flushes, each after {writes} writes of a worker");
        assert!(flushed.notes.iter().any(|found| found.starts_with(&note)), "{note}: {:?}", flushed.notes);
        if flushes > 0 {
            assert!(flushed.elapsed_ns > plain.elapsed_ns, "{note}");
        } else {
            assert_within(0.01, flushed.elapsed_ns, plain.elapsed_ns, "no flush");
        }
    }
    let reads = play("[[job]]\nrw = 'randread'\ncount = 100\niodepth = 4\nfsync = 1\n");
    assert!(reads.notes.iter().any(|note| note.contains(": 0 flushes")), "{:?}", reads.notes);
    let paused = "[[job]]\nrw = 'randrw'\ncount = 200\niodepth = 4\nfsync = 3\nthinktime = '10 us'\nthinktime_blocks = 5\n";
    assert_eq!(play(paused).ios, 200, "pauses and flushes do not wait for each other");
}

// fio runs hundreds of processes on a drive, which share its queues.
#[test]
fn many_workers_share_few_queue_pairs() {
    let jobs = "[[job]]\nrw = 'randrw'\nnumjobs = 100\niodepth = 4\ncount = 3000\n";
    let own = play(jobs);
    for queues in [1, 3, 8] {
        let text = round("", jobs).replacen("[host]\n", &format!("[host]\nqueues = {queues}\n"), 1);
        let shared = run(&text);
        assert_eq!((shared.ios, shared.verification.mismatches), (3000, 0));
        let note = format!("100 workers share {queues} queue pairs");
        assert!(shared.notes.contains(&note), "{:?}", shared.notes);
        assert!(
            shared.iops > own.iops / 3.0 && shared.iops < own.iops * 1.05,
            "{} {}",
            shared.iops,
            own.iops
        );
    }
}
