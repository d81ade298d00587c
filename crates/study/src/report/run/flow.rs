//! Throughput, latency, and where the time of an I/O goes.

use super::kinds::{kinds, plural};
use super::percent;
use super::steps::{Steps, ios};
use crate::report::{Axis, Chart, Figure, Ink, Section, Table, Unit};
use byteway_console::table::time;
use byteway_measure::results::{Curve, Flow, JobPoint, Results};
use byteway_measure::summary::Summary;
use byteway_workload::Kind;

/// More lines in one chart can't be told apart.
const LINES_MAX: usize = 7;
const KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Trim];

pub(super) fn elapsed() -> Axis {
    Axis::linear("time since the first I/O", Unit::Nanoseconds)
}

/// The chart with the time of warming up shaded.
pub(super) fn with_warmup(chart: Chart, steps: &Steps) -> Chart {
    match steps.measured_from_ns > 0.0 {
        true => chart.shade(0.0, steps.measured_from_ns, "warming up"),
        false => chart,
    }
}

fn flow(job: &JobPoint, kind: Kind) -> Flow {
    match kind {
        Kind::Read => job.read,
        Kind::Write => job.write,
        Kind::Trim => job.trim,
    }
}

/// Which lines are drawn: a job, or all of them, and a kind.
fn lines(steps: &Steps) -> Vec<(Option<usize>, Kind)> {
    let has = |job: usize, kind: Kind| {
        steps.points.iter().any(|point| point.jobs.get(job).is_some_and(|job| flow(job, kind).ios > 0))
    };
    let jobs = 0..steps.jobs.len();
    let each: Vec<_> = jobs
        .clone()
        .flat_map(|job| {
            KINDS.into_iter().filter(move |&kind| has(job, kind)).map(move |kind| (Some(job), kind))
        })
        .collect();
    if each.len() <= LINES_MAX {
        return each;
    }
    KINDS
        .into_iter()
        .filter(|&kind| jobs.clone().any(|job| has(job, kind)))
        .map(|kind| (None, kind))
        .collect()
}

pub(super) fn throughput(steps: &Steps, summary: &Summary) -> Section {
    let mut section = Section::new("Throughput over time").text(match summary.jobs.len() {
        1 => "How much completed in each step of time. An I/O counts where it completes, with all of its bytes.",
        _ => {
            "How much of each job completed in each step of time. An I/O counts where it completes, with all of its \
             bytes. Reads have solid lines, writes dashed, trims dotted ones."
        }
    });
    if steps.points.is_empty() {
        return section.text("Figures over time were not recorded.");
    }
    let lines = lines(steps);
    if lines.iter().any(|(job, _)| job.is_none()) {
        section = section.text(format!("The {} jobs are added up.", steps.jobs.len()));
    }
    let mut bytes = Chart::new(elapsed(), Axis::linear("throughput", Unit::BytesPerSecond));
    let mut count = Chart::new(elapsed(), Axis::linear("I/Os a second", Unit::Iops));
    for (job, kind) in lines {
        let of = |point: &byteway_measure::results::Point| -> Flow {
            let jobs = point.jobs.iter().enumerate().filter(|(index, _)| job.is_none_or(|job| job == *index));
            jobs.fold(Flow::default(), |sum, (_, job)| {
                let flow = flow(job, kind);
                Flow { ios: sum.ios + flow.ios, bytes: sum.bytes.saturating_add(flow.bytes) }
            })
        };
        let (name, ink) = match job {
            Some(job) if steps.jobs.len() > 1 => {
                (format!("{} {}", steps.jobs[job], plural(kind)), Ink::of(job, kind as usize))
            }
            _ => (plural(kind).to_owned(), Ink::kind(kind)),
        };
        if kind != Kind::Trim {
            bytes = bytes.steps(name.clone(), ink, steps.per_second(|point| of(point).bytes));
        }
        count = count.steps(name, ink, steps.per_second(|point| of(point).ios));
    }
    let width = match steps.joined {
        1 => format!("Each step is {} wide.", time(steps.width_ns)),
        joined => format!(
            "Each step is {} wide: {joined} of those that were recorded, which results.parquet has.",
            time(steps.width_ns)
        ),
    };
    let counted = match steps.measured_from_ns > 0.0 {
        true => "The shaded part is warming up: it is left out of all figures but those over time.",
        false => "Small I/Os weigh here as much as large ones.",
    };
    section.figure(Figure::new("Bytes a second", width, with_warmup(bytes, steps))).figure(Figure::new(
        "I/Os a second",
        counted,
        with_warmup(count, steps),
    ))
}

/// More charts of single jobs than this would be a list, not a picture.
const JOBS_MAX: usize = 6;

pub(super) fn latency(steps: &Steps, results: &Results) -> Section {
    let mut section = Section::new("Latency").text(
        "From when the host submits an I/O to when it knows that it is done; of an I/O that was due at a certain time, \
         from that time on. A percentile says how many took no longer: of a hundred I/Os one is slower than the 99th.",
    );
    section = section.table(results.summary.latency().into());

    let shown: Vec<&Curve> = results.curves.iter().take(LINES_MAX).collect();
    let mut whole = Chart::new(
        Axis::log("latency", Unit::Nanoseconds),
        Axis::linear("I/Os that took no longer", Unit::Share).range(0.0, 1.0),
    );
    let mut tail =
        Chart::new(Axis::log("latency", Unit::Nanoseconds), Axis::tail("I/Os that took no longer"));
    for curve in &shown {
        let (name, ink) = curve_look(curve, results);
        // From nobody up to the fastest.
        let first = curve.points.first().map(|(ns, _)| (*ns, 0.0));
        let points = |rest: Vec<(f64, f64)>| first.into_iter().chain(rest).collect();
        whole = whole.steps(name.clone(), ink, points(curve.points.clone()));
        tail = tail.steps(name, ink, points(with_slowest(curve, &results.summary)));
    }
    section = section
        .figure(Figure::new(
            "Distribution of latencies",
            "How many I/Os (upwards) took no longer than a time (to the right, logarithmic). A steep line is a latency \
             that most have in common; a second step is a second way that some of them take.",
            whole,
        ))
        .figure(Figure::new(
            "The tail",
            "The same with the upper end stretched: each line of the grid leaves a tenth of the I/Os of the one below. \
             The end of a line is the slowest I/O.",
            tail,
        ));
    if results.curves.len() > shown.len() {
        let left = results.curves.len() - shown.len();
        section = section.text(format!("{left} more curves are left out; the table has their percentiles."));
    }

    let any =
        |job: &usize| steps.points.iter().any(|point| point.jobs.get(*job).is_some_and(|job| ios(job) > 0));
    let jobs: Vec<usize> = (0..steps.jobs.len()).filter(any).collect();
    // One scale for all jobs: charts side by side are compared.
    let ends = jobs.iter().take(JOBS_MAX).flat_map(|&job| {
        let points = steps.points.iter().filter_map(move |point| point.jobs.get(job));
        points.filter(|job| ios(job) > 0).flat_map(|job| [job.p50_ns, job.max_ns])
    });
    let scale = Axis::log("latency", Unit::Nanoseconds).spanning(ends);
    for &job in jobs.iter().take(JOBS_MAX) {
        let of = |value: fn(&JobPoint) -> f64| {
            steps.line(|point| match point.jobs.get(job) {
                Some(job) if ios(job) > 0 => value(job),
                _ => f64::NAN,
            })
        };
        let chart = Chart::new(elapsed(), scale.clone())
            .steps("longest", Ink::LONGEST, of(|job| job.max_ns))
            .steps("p99", Ink::P99, of(|job| job.p99_ns))
            .steps("p50", Ink::MEDIAN, of(|job| job.p50_ns));
        let title = match steps.jobs.len() {
            1 => "Latency over time".to_owned(),
            _ => format!("Latency over time: {}", steps.jobs[job]),
        };
        let caption = match steps.joined {
            1 => {
                "Median, 99th percentile and longest of the I/Os that completed in each step (logarithmic). Percentiles \
                  within a step are exact to 3 %."
            }
            _ => {
                "Median, 99th percentile and longest of the I/Os that completed in each step (logarithmic): where \
                  recorded steps were joined, the mean of their medians and the largest of the others."
            }
        };
        section = section.figure(Figure::new(title, caption, with_warmup(chart, steps)));
    }
    if jobs.len() > JOBS_MAX {
        let left = jobs.len() - JOBS_MAX;
        section =
            section.text(format!("{left} more jobs are left out here; results.parquet has all of them."));
    }
    section
}

fn curve_look(curve: &Curve, results: &Results) -> (String, Ink) {
    let jobs = &results.summary.jobs;
    match jobs.iter().position(|job| job.name == curve.job) {
        Some(index) if jobs.len() > 1 => {
            (format!("{} {}", curve.job, plural(curve.kind)), Ink::of(index, curve.kind as usize))
        }
        _ => (plural(curve.kind).to_owned(), Ink::kind(curve.kind)),
    }
}

/// The curve with its end, a share of 1, where the slowest of so many I/Os belongs: nothing took longer than all of
/// them, so an axis that counts those that took longer has no place for 1.
fn with_slowest(curve: &Curve, summary: &Summary) -> Vec<(f64, f64)> {
    let of = |kind: Kind| kinds(summary).find(|(job, k, _)| job.name == curve.job && *k == kind);
    let ios = of(curve.kind).map_or(1, |(.., found)| found.ios.max(1));
    let most = 1.0 - 1.0 / (ios as f64 + 1.0);
    curve.points.iter().map(|&(ns, share)| (ns, share.min(most))).collect()
}

/// What a resource is to an I/O.
fn meaning(span: &str) -> &'static str {
    match span {
        "host" => "the host's software: building the command, submitting, reaping the completion",
        "doorbell" => {
            "from the doorbell's store until the drive begins to fetch: crossing, waiting for the turn"
        }
        "fetch" => {
            "reading the submission queue entry across the link; waiting for the look at a commit record"
        }
        "link" => "data, its lists and the completion on the link",
        "firmware" => "the drive's processor cores at work for it",
        "dram" => "the drive's DRAM: map and buffers",
        "flash" => "sensing, programming, and the transfer on the channel",
        "queueing" => "waiting for any of these while others use it",
        _ => "",
    }
}

pub(super) fn spans(summary: &Summary) -> Option<Section> {
    let rows: Vec<_> = summary.spans.iter().filter(|row| row.mean_ns > 0.0).collect();
    if rows.is_empty() {
        return None;
    }
    let whole: f64 = rows.iter().map(|row| row.mean_ns).sum();
    let mut table = Table::new(["span", "what it is", "mean", "share"], 2);
    let (mut names, mut before, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mut reached = 0.0;
    for row in &rows {
        table.row([row.span.clone(), meaning(&row.span).to_owned(), time(row.mean_ns), percent(row.share)]);
        names.push(format!("{}\n{}, {}", row.span, time(row.mean_ns), percent(row.share)));
        before.push(reached);
        values.push(row.mean_ns);
        reached += row.mean_ns;
    }
    table.row(["all".to_owned(), String::new(), time(whole), percent(1.0)]);
    let chart =
        Chart::new(Axis::linear("time of an I/O, in the mean", Unit::Nanoseconds), Axis::names("", names))
            .gap(before)
            .bars("", Ink::nth(0), values)
            .stacked()
            .height(80 + 44 * rows.len());
    let section = Section::new("Where the time of an I/O goes")
        .text(
            "The mean over all I/Os of all jobs. Every moment of an I/O is charged to exactly one of these, so that they \
             add up to its latency. Where parts of a command go on side by side, the time belongs to the one that it \
             waits for.",
        )
        .figure(
            Figure::new(
                "One I/O, from left to right",
                "Each bar begins where the one above ends; together they are the mean latency. The order is that of the \
                 first visit: an I/O comes back to the link and to the firmware, and waits in many places.",
                chart,
            )
            .wide(),
        )
        .table(table);
    Some(section)
}
