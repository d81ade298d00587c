//! Measurements besides the summary: time series, distributions, wear, and records of every I/O.

use crate::common::{results, results_with, round, scenario, scenario_with};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt64Type};
use arrow_array::{Array, RecordBatch, StringArray};
use byteway_results::IoRecorder;
use byteway_results::output::Output;
use byteway_results::results::{DrivePoint, JobPoint, Results};
use byteway_results::summary::Summary;
use byteway_run::run::{Records, Session, run_observed, run_recorded};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use byteway_workload::Kind;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use std::io::Write;
use std::rc::Rc;

/// Reads and writes in steady state with garbage collection, with trims and an open loop. No warm-up.
fn mix() -> String {
    round(
        "precondition = 'steady'\noverride.flash.ways = 1\noverride.firmware.write_buffer = '256 KiB'",
        "[[job]]\nname = 'mix'\nrw = 'randrw'\nrwmixread = 40\niodepth = 16\ncount = 6000\n\
         [[job]]\nname = 'trims'\nrw = 'randtrim'\nbs = '64 KiB'\ncount = 50\n\
         [[job]]\nname = 'arrivals'\nrw = 'randread'\nissue = 'open'\nrate_iops = 5000\niodepth = 64\ncount = 200",
    )
}

fn total(results: &Results, job: usize, of: impl Fn(&JobPoint) -> u64) -> u64 {
    results.series.points.iter().map(|point| of(&point.jobs[job])).sum()
}

fn drive_total(results: &Results, of: impl Fn(&DrivePoint) -> u64) -> u64 {
    results.series.points.iter().map(|point| of(point.drive.as_ref().expect("it is simulated"))).sum()
}

// A step that loses or duplicates events at its boundaries would make every chart wrong, unnoticed.
#[test]
fn the_steps_add_up_to_the_summary() {
    let results = results(&mix());
    let again: Results =
        serde_json::from_str(&serde_json::to_string(&results).expect("it is JSON")).expect("it is");
    assert!(again == results, "what is kept and read again is the same");
    let summary = &results.summary;
    let points = &results.series.points;
    assert!(points.len() > 100, "{}", points.len());
    for (index, job) in summary.jobs.iter().enumerate() {
        let kinds = [
            (
                &job.read,
                total(&results, index, |job| job.read.ios),
                total(&results, index, |job| job.read.bytes),
            ),
            (
                &job.write,
                total(&results, index, |job| job.write.ios),
                total(&results, index, |job| job.write.bytes),
            ),
            (
                &job.trim,
                total(&results, index, |job| job.trim.ios),
                total(&results, index, |job| job.trim.bytes),
            ),
        ];
        for (kind, ios, bytes) in kinds {
            assert_eq!((ios, bytes), kind.as_ref().map_or((0, 0), |kind| (kind.ios, kind.bytes)));
        }
        let longest = points.iter().map(|point| point.jobs[index].max_ns).fold(0.0, f64::max);
        let of_kinds = [&job.read, &job.write, &job.trim].into_iter().flatten();
        assert_eq!(longest, of_kinds.map(|kind| kind.latency.max_ns).fold(0.0, f64::max));
    }
    let crossed = |direction: &str, of: fn(&byteway_results::summary::LinkRow) -> u64| {
        summary.link.iter().filter(|row| row.direction == direction).map(of).sum::<u64>()
    };
    assert_eq!(
        drive_total(&results, |drive| drive.link_down.wire_bytes),
        crossed("to device", |row| row.wire_bytes)
    );
    assert_eq!(
        drive_total(&results, |drive| drive.link_up.payload_bytes),
        crossed("to host", |row| row.payload_bytes)
    );
    let flash = summary.flash.expect("it is simulated");
    assert_eq!(drive_total(&results, |drive| drive.erases), flash.erases);
    assert!(flash.erases > 0, "the scenario collects");
    let written = drive_total(&results, |drive| drive.host_written_bytes);
    let programmed = drive_total(&results, |drive| drive.programmed_bytes);
    let amplification = programmed as f64 / written as f64;
    assert!((amplification - summary.write_amplification.expect("it writes")).abs() < 1e-6);
    // Steps are contiguous, and shares are within 0 and 1.
    let mut end = 0.0;
    for point in points {
        assert_eq!(point.begin_ns, end);
        end = point.end_ns;
        let drive = point.drive.as_ref().expect("it is simulated");
        let shares = drive.dies.iter().chain(&drive.channels).chain([&drive.cores, &drive.link_up.busy]);
        shares.for_each(|share| assert!((0.0..=1.0).contains(share), "{share} at {end}"));
    }
    assert!((end - summary.elapsed_ns).abs() < 1e-3, "{end}");
    // Total busy time, compared with the summary's.
    let busy: f64 = points
        .iter()
        .map(|point| (point.end_ns - point.begin_ns) * point.drive.as_ref().expect("simulated").dies[1])
        .sum();
    let dies = summary.utilisation.iter().find(|row| row.resource == "dies").expect("there are dies");
    assert!(busy <= dies.max * end * 1.00001 && busy >= dies.min * end * 0.99999);
}

// By hand: serial reads of latency L. The k-th completion is at k L; those before the end of a step belong to it, and a completion at the
// very end of the run belongs to the last one.
#[test]
fn reads_one_after_another_fall_where_they_must() {
    let text = round(
        "precondition = 'filled'",
        "[[job]]\nrw = 'randread'\ncount = 40\n[measure]\ninterval = '200 us'",
    );
    let results = results(&text);
    let latency = crate::common::reads(&results.summary).latency;
    assert_eq!(latency.min_ns, latency.max_ns, "nothing is in the way of a read");
    let one_ns = latency.min_ns;
    assert_eq!(results.series.interval_ns, 200_000.0);
    let points = &results.series.points;
    assert_eq!(points.len(), (40.0 * one_ns / 200_000.0).ceil() as usize);
    for (step, point) in points.iter().enumerate() {
        let last = step + 1 == points.len();
        let ends = (1..=40).map(|k| k as f64 * one_ns);
        let within = |end: &f64| *end >= point.begin_ns && (*end < point.end_ns || last);
        let job = &point.jobs[0];
        assert_eq!(job.read.ios, ends.filter(within).count() as u64, "step {step}");
        assert_eq!(job.read.bytes, job.read.ios * 4096);
        assert_eq!((job.mean_ns, job.max_ns), (one_ns, one_ns));
        assert!((job.p50_ns / one_ns - 1.0).abs() < 0.03 && (job.p99_ns / one_ns - 1.0).abs() < 0.03);
    }
    assert!((points.last().expect("there are steps").end_ns - 40.0 * one_ns).abs() < 1e-3);
    // A read holds its die for the command, 40 us of sensing and 4096 ns on the channel.
    let busy_ns: f64 = points
        .iter()
        .map(|point| {
            let drive = point.drive.as_ref().expect("it is simulated");
            (point.end_ns - point.begin_ns) * drive.dies.iter().sum::<f64>()
        })
        .sum();
    assert!((busy_ns - 40.0 * 44_296.0).abs() < 5.0, "{busy_ns}");
}

// Inexact merging of steps would make a long run look different from a short one; and the interval must not change the run.
#[test]
fn the_interval_changes_nothing_but_the_steps() {
    let automatic = results(&mix());
    let width = automatic.series.interval_ns;
    assert!(width > 10_000.0, "it was joined at least once: {width}");
    let asked = format!("measure.interval='{} ns'", width as u64);
    let given = results_with(&mix(), &[&asked]);
    assert_eq!(given.series, automatic.series);
    assert_eq!(given, automatic);
    let narrow = results_with(&mix(), &["measure.interval='1 us'"]);
    let is_said = |note: &String| note.contains("measure.interval = 1 us gives more than 1024 steps");
    assert!(narrow.summary.notes.iter().any(is_said), "{:?}", narrow.summary.notes);
    assert!(narrow.series.points.len() <= 1024);
    let without_notes = |summary: &Summary| Summary { notes: Vec::new(), ..summary.clone() };
    assert_eq!(without_notes(&narrow.summary), without_notes(&automatic.summary));
    let executor = |set: &str| {
        let mut progress = Progress::hidden();
        let session = Session { progress: &mut progress, interrupt: &Interrupt::default() };
        run_observed(&scenario_with(&mix(), &[set]), session, Rc::new(|| ())).expect("it runs").executor
    };
    assert_eq!(executor("measure.interval='1 us'"), executor("measure.interval='1 s'"), "no poll, no timer");
}

// Steps of the warm-up must be included and marked, or a drop of throughput during it would be hidden.
#[test]
fn warming_up_is_in_the_series() {
    let found = results_with(&mix(), &["measure.warmup=1000"]);
    let all: u64 =
        (0..3).map(|job| total(&found, job, |job| job.read.ios + job.write.ios + job.trim.ios)).sum();
    assert_eq!(all, found.summary.ios + 1000);
    assert!(found.series.measured_from_ns > 0.0);
    assert_eq!(results(&mix()).series.measured_from_ns, 0.0);
}

// A curve that does not end at 1, or differs from the percentiles, contradicts the table next to it.
#[test]
fn curves_rise_to_one_through_the_percentiles() {
    let results = results(&mix());
    let curves = results.curves();
    let kinds: Vec<_> = curves.iter().map(|curve| (curve.job.as_str(), curve.kind)).collect();
    let expected =
        [("mix", Kind::Read), ("mix", Kind::Write), ("trims", Kind::Trim), ("arrivals", Kind::Read)];
    assert_eq!(kinds, expected);
    let points = &curves[0].points;
    assert!((100..1000).contains(&points.len()), "{}", points.len());
    assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1), "{points:?}");
    let latency = crate::common::reads(&results.summary).latency;
    assert_eq!(points.last().expect("there are points").1, 1.0);
    assert!((points.last().expect("there are points").0 - latency.max_ns).abs() < 1.0);
    let at = |share: f64| points.iter().find(|point| point.1 >= share).expect("up to 1").0;
    for (share, ns) in [(0.5, latency.p50_ns), (0.9, latency.p90_ns), (0.99, latency.p99_ns)] {
        assert!((at(share) / ns as f64 - 1.0).abs() < 0.05, "{share}: {} against {ns}", at(share));
    }
}

// Wear that misses blocks or erases would overestimate the drive's life.
#[test]
fn every_block_is_in_the_wear() {
    let results = results(&mix());
    let wear = results.wear.expect("it is simulated");
    let erases = results.summary.flash.expect("it is simulated").erases;
    assert_eq!(wear.histogram.iter().map(|(_, blocks)| blocks).sum::<u64>(), wear.blocks);
    assert_eq!(wear.histogram.iter().map(|(erases, blocks)| erases * blocks).sum::<u64>(), erases);
    assert!((wear.mean * wear.blocks as f64 - erases as f64).abs() < 0.01);
    assert_eq!((wear.min, wear.endurance), (0, 3000));
    assert!(wear.max >= 1);
}

/// All rows of a file, and the number in each row group.
fn read(bytes: Vec<u8>) -> (Vec<RecordBatch>, Vec<i64>, Vec<(String, String)>) {
    let mut file = tempfile::tempfile().expect("a file for the test");
    file.write_all(&bytes).expect("it can be written");
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("it is Parquet");
    let groups = builder.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    let about = builder.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
    let about = about.into_iter().map(|pair| (pair.key, pair.value.unwrap_or_default())).collect();
    let reader: ParquetRecordBatchReader = builder.build().expect("it can be read");
    (reader.map(|batch| batch.expect("it can be read")).collect(), groups, about)
}

fn doubles(batches: &[RecordBatch], name: &str) -> Vec<f64> {
    let column = |batch: &RecordBatch| {
        let column = batch.column_by_name(name).unwrap_or_else(|| panic!("column {name}"));
        column.as_primitive::<Float64Type>().values().to_vec()
    };
    batches.iter().flat_map(column).collect()
}

fn counts(batches: &[RecordBatch], name: &str) -> Vec<u64> {
    let column = |batch: &RecordBatch| {
        let column = batch.column_by_name(name).unwrap_or_else(|| panic!("column {name}"));
        column.as_primitive::<UInt64Type>().values().to_vec()
    };
    batches.iter().flat_map(column).collect()
}

// The file must be readable by other programs, with the columns in place.
#[test]
fn results_parquet_holds_the_series() {
    let mut results = results(&mix());
    let (batches, _, about) = read(results.to_parquet().expect("it is written"));
    let points = &results.series.points;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, points.len() * 3);
    let third = |values: Vec<u64>| values.into_iter().step_by(3).collect::<Vec<_>>();
    assert_eq!(third(counts(&batches, "step")), (0..points.len() as u64).collect::<Vec<_>>());
    let written: Vec<_> = points.iter().map(|point| point.jobs[0].write.bytes).collect();
    assert_eq!(third(counts(&batches, "write_bytes")), written);
    let drive = |of: fn(&DrivePoint) -> f64| -> Vec<f64> {
        points.iter().map(|point| of(point.drive.as_ref().expect("simulated"))).collect()
    };
    let firsts = |name| doubles(&batches, name).into_iter().step_by(3).collect::<Vec<_>>();
    assert_eq!(firsts("dies_busy_max"), drive(|drive| drive.dies.iter().copied().fold(0.0, f64::max)));
    assert_eq!(firsts("link_up_busy"), drive(|drive| drive.link_up.busy));
    let p99: Vec<_> = points.iter().map(|point| point.jobs[0].p99_ns).collect();
    assert_eq!(firsts("p99_ns"), p99);
    let value = |key: &str| about.iter().find(|pair| pair.0 == key).map(|pair| pair.1.as_str());
    assert_eq!(value("byteway.seed"), Some("1"));
    assert_eq!(value("byteway.completion"), Some("polled"));
    let schema = batches[0].schema();
    assert!(schema.fields().iter().all(|field| field.metadata().contains_key("description")));
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names[..5], ["step", "begin_ns", "end_ns", "job", "read_ios"]);
    // A drive served by another process is not observable: null, not 0.
    results.series.points.iter_mut().for_each(|point| point.drive = None);
    let (batches, ..) = read(results.to_parquet().expect("it is written"));
    for name in ["cores_busy", "erases"] {
        let column = batches[0].column_by_name(name).expect("it is there");
        assert_eq!(column.null_count(), column.len(), "{name}");
    }
}

// A distribution that misses I/Os, or names another job, contradicts the summary next to it.
#[test]
fn latency_parquet_holds_every_io_once() {
    let results = results(&mix());
    let (batches, _, about) = read(results.to_latency_parquet().expect("it is written"));
    let (jobs, kinds) = (words(&batches, "job"), words(&batches, "kind"));
    let (latencies, ios) = (counts(&batches, "latency_ns"), counts(&batches, "ios"));
    let shares = doubles(&batches, "cumulative_share");
    let summary = &results.summary;
    let all = summary.jobs.iter().flat_map(|job| {
        [("read", &job.read), ("write", &job.write), ("trim", &job.trim)]
            .map(|(kind, of)| (&job.name, kind, of))
    });
    let mut rows = 0;
    for (job, kind, found) in all {
        let of_kind: Vec<usize> =
            (0..ios.len()).filter(|row| jobs[*row] == *job && kinds[*row] == kind).collect();
        let Some(found) = found else {
            assert!(of_kind.is_empty(), "{job} {kind}");
            continue;
        };
        rows += of_kind.len();
        assert_eq!(of_kind.iter().map(|row| ios[*row]).sum::<u64>(), found.ios, "{job} {kind}");
        assert!(
            of_kind
                .windows(2)
                .all(|pair| latencies[pair[0]] < latencies[pair[1]] && shares[pair[0]] < shares[pair[1]])
        );
        let (last, latency) = (of_kind[of_kind.len() - 1], &found.latency);
        assert_eq!((shares[last], latencies[last]), (1.0, latency.max_ns.ceil() as u64));
        for (share, ns) in [(0.5, latency.p50_ns), (0.99, latency.p99_ns), (0.999, latency.p99_9_ns)] {
            let at = of_kind.iter().find(|row| shares[**row] >= share).map(|row| latencies[*row]);
            assert_eq!(at, Some(ns), "{job} {kind}, {share}");
        }
    }
    assert_eq!(rows, ios.len(), "every row is of a job and a kind of the summary");
    assert!(about.contains(&("byteway.content".to_owned(), "latencies".to_owned())));
}

fn picos(ns: f64) -> u128 {
    (ns * 1000.0).round() as u128
}

fn words(batches: &[RecordBatch], name: &str) -> Vec<String> {
    let column = |batch: &RecordBatch| {
        let column = batch.column_by_name(name).unwrap_or_else(|| panic!("column {name}"));
        let owned = |word: Option<&str>| word.unwrap_or_default().to_owned();
        match column.as_dictionary_opt::<Int32Type>() {
            Some(keyed) => {
                let keyed = keyed.downcast_dict::<StringArray>().expect("they are words");
                keyed.into_iter().map(owned).collect::<Vec<_>>()
            }
            None => column.as_string::<i32>().iter().map(owned).collect(),
        }
    };
    batches.iter().flat_map(column).collect()
}

// With several drives a row without its drive's name, or with another's figures, is useless.
#[test]
fn rows_of_several_drives_have_their_names_and_figures() {
    let text = "[host]\nprofile = 'round-host.toml'\n\
        [[drive]]\nname = 'a'\nprofile = 'round.toml'\n\
        [[drive]]\nname = 'b'\nprofile = 'round.toml'\n\
        [[job]]\nname = 'reads'\ndrive = 'b'\nrw = 'randread'\ncount = 200\n\
        [[job]]\nname = 'writes'\ndrive = 'a'\nrw = 'randwrite'\ncount = 300\n";
    let scenario = scenario(text);
    let folder = tempfile::tempdir().expect("a folder for the test");
    let output = Output::check(folder.path()).expect("it can be written to");
    let mut progress = Progress::hidden();
    let session = Session { progress: &mut progress, interrupt: &Interrupt::default() };
    let records = Records { ios: Some(IoRecorder::new(&output, &scenario)), ..Records::default() };
    let (results, ios) = run_recorded(&scenario, session, records).expect("it runs");
    output.publish(ios).expect("it can be written");
    let (batches, ..) = read(results.to_parquet().expect("it is written"));
    let steps = results.series.points.len();
    assert_eq!(words(&batches, "drive"), ["b", "a"].repeat(steps));
    let written = counts(&batches, "host_written_bytes");
    let of = |drive: usize| written.iter().skip(drive).step_by(2).sum::<u64>();
    assert_eq!((of(0), of(1)), (0, 300 * 4096));
    let (batches, ..) = read(std::fs::read(folder.path().join("ios.parquet")).expect("it is there"));
    let rows: Vec<_> = words(&batches, "job").into_iter().zip(words(&batches, "drive")).collect();
    let count = |job: &str, drive: &str| rows.iter().filter(|row| row.0 == job && row.1 == drive).count();
    assert_eq!((rows.len(), count("reads", "b"), count("writes", "a")), (500, 200, 300));
}

// Network columns in every file would change the files of scenarios without a network; a missing one would leave I/Os whose parts do not
// add up.
#[test]
fn only_ios_over_a_network_have_its_stages() {
    const REMOTE: [&str; 2] = ["fabric_ns", "target_ns"];
    let text = "[drive]\nprofile = 'round.toml'\n[host]\nprofile = 'xeon-e5-v4'\n[target]\n[[job]]\nrw = 'randrw'\n\
                iodepth = 4\ncount = 300\n";
    for text in [text.to_owned(), text.replace("[target]\n", "")] {
        let is_remote = text.contains("[target]");
        let scenario = scenario(&text);
        let folder = tempfile::tempdir().expect("a folder for the test");
        let output = Output::check(folder.path()).expect("it can be written to");
        let mut progress = Progress::hidden();
        let session = Session { progress: &mut progress, interrupt: &Interrupt::default() };
        let records = Records { ios: Some(IoRecorder::new(&output, &scenario)), ..Records::default() };
        let (_, ios) = run_recorded(&scenario, session, records).expect("it runs");
        output.publish(ios).expect("it can be written");
        let (batches, ..) = read(std::fs::read(folder.path().join("ios.parquet")).expect("it is there"));
        let names: Vec<String> =
            batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
        for name in REMOTE {
            assert_eq!(names.contains(&name.to_owned()), is_remote, "{name} in {names:?}");
        }
        let parts = names.iter().skip_while(|name| *name != "latency_ns").skip(1);
        let (waits, stages): (Vec<_>, Vec<_>) = parts.partition(|name| name.starts_with("wait_"));
        let column = |name: &str| doubles(&batches, name).into_iter().map(picos);
        let sums = |names: &[&String]| {
            let mut sums = vec![0; 300];
            for name in names {
                column(name).zip(&mut sums).for_each(|(part, sum)| *sum += part);
            }
            sums
        };
        assert_eq!(sums(&stages), column("latency_ns").collect::<Vec<_>>());
        assert_eq!(sums(&waits), column("queueing_ns").collect::<Vec<_>>());
    }
}

// An I/O whose parts do not add up explains nothing; missing rows are usually the slow ones.
#[test]
fn every_io_is_written_down_with_its_stages() {
    let text = mix().replace("count = 6000", "count = 70000").replace("'steady'", "'filled'");
    let scenario = scenario(&text);
    let folder = tempfile::tempdir().expect("a folder for the test");
    let output = Output::check(folder.path()).expect("it can be written to");
    let recorder = IoRecorder::new(&output, &scenario);
    let mut progress = Progress::hidden();
    let session = Session { progress: &mut progress, interrupt: &Interrupt::default() };
    let records = Records { ios: Some(recorder), ..Records::default() };
    let (results, ios) = run_recorded(&scenario, session, records).expect("it runs");
    output.publish(ios).expect("it can be written");
    assert_eq!(results, crate::common::results(&text), "writing them down changes nothing");
    let bytes = std::fs::read(folder.path().join("ios.parquet")).expect("it is there");
    let (batches, groups, _) = read(bytes);
    assert_eq!(groups, [65536, results.summary.ios as i64 - 65536], "memory is bounded");
    let mut numbers = counts(&batches, "io");
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..results.summary.ios));
    let latencies: Vec<_> = doubles(&batches, "latency_ns").into_iter().map(picos).collect();
    let mut sums = vec![0; latencies.len()];
    for span in &results.summary.spans {
        let column = doubles(&batches, &format!("{}_ns", span.span));
        let mut total = 0;
        for (sum, ns) in sums.iter_mut().zip(column) {
            *sum += picos(ns);
            total += picos(ns);
        }
        let mean_ns = total as f64 / 1000.0 / results.summary.ios as f64;
        assert!((mean_ns - span.mean_ns).abs() < 1e-5, "{}: {mean_ns} against {}", span.span, span.mean_ns);
    }
    assert_eq!(sums, latencies);
    assert!(results.summary.waits.len() > 4, "{:?}", results.summary.waits);
    for wait in &results.summary.waits {
        let column = doubles(&batches, &format!("wait_{}_ns", wait.wait.replace(' ', "_")));
        let mean_ns = column.into_iter().sum::<f64>() / results.summary.ios as f64;
        assert!((mean_ns - wait.mean_ns).abs() < 1e-5, "{wait:?}: {mean_ns}");
    }
    let (due, end) = (doubles(&batches, "due_ns"), doubles(&batches, "end_ns"));
    assert!(due.iter().zip(&end).zip(&latencies).all(|((due, end), ps)| picos(*end) - picos(*due) == *ps));
    assert!(end.is_sorted(), "in the order of completion");
}
