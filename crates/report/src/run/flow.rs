//! The sections on throughput, latency, and the time of an I/O by resource.

use super::kinds::{kinds, plural};
use super::percent;
use super::steps::{Steps, ios};
use crate::{Axis, Chart, Figure, Ink, Section, Table, Unit};
use byteway_results::results::{Curve, Distribution, Flow, JobPoint, Results};
use byteway_results::summary::Summary;
use byteway_text::table::time;
use byteway_workload::Kind;

/// Lines in a chart, at most; more cannot be distinguished.
const LINES_MAX: usize = 7;
const KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Trim];

pub(super) fn elapsed() -> Axis {
    Axis::linear("time since the first I/O", Unit::Nanoseconds)
}

/// Shades the warm-up in a chart.
pub(super) fn with_warmup(chart: Chart, steps: &Steps) -> Chart {
    match steps.measured_from_ns > 0.0 {
        true => chart.shade(0.0, steps.measured_from_ns, "warm-up"),
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

/// The lines to draw: a job (`None`: all jobs together) and a kind.
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
        1 => "Throughput in each time step. An I/O counts at its completion, with all of its bytes.",
        _ => {
            "Throughput of each job in each time step. An I/O counts at its completion, with all of its \
             bytes. Lines of reads are solid, of writes dashed, of trims dotted."
        }
    });
    if steps.points.is_empty() {
        return section.text("No time series was recorded.");
    }
    let lines = lines(steps);
    if lines.iter().any(|(job, _)| job.is_none()) {
        section = section.text(format!("The figures are sums over {} jobs.", steps.jobs.len()));
    }
    let mut bytes = Chart::new(elapsed(), Axis::linear("throughput", Unit::BytesPerSecond));
    let mut count = Chart::new(elapsed(), Axis::linear("I/Os per second", Unit::Iops));
    for (job, kind) in lines {
        let of = |point: &byteway_results::results::Point| -> Flow {
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
            "Each step is {} wide and merges {joined} of the recorded ones, which are in results.parquet.",
            time(steps.width_ns)
        ),
    };
    let counted = match steps.measured_from_ns > 0.0 {
        true => "The shaded part is the warm-up, which only the time series include.",
        false => "Small I/Os count as much as large ones.",
    };
    section.figure(Figure::new("Bytes per second", width, with_warmup(bytes, steps))).figure(Figure::new(
        "I/Os per second",
        counted,
        with_warmup(count, steps),
    ))
}

/// Charts of single jobs, at most.
const JOBS_MAX: usize = 6;

pub(super) fn latency(steps: &Steps, results: &Results) -> Section {
    let mut section = Section::new("Latency").text(
        "From the submission of an I/O until the host has seen its completion; for an I/O with a due time, \
         from that time. 1 % of the I/Os are slower than the 99th percentile.",
    );
    section = section.table(results.summary.latency().into());

    let shown: Vec<Curve> = results.distributions.iter().take(LINES_MAX).map(Distribution::curve).collect();
    let mut whole = Chart::new(
        Axis::log("latency", Unit::Nanoseconds),
        Axis::linear("cumulative share of I/Os", Unit::Share).range(0.0, 1.0),
    );
    let mut tail =
        Chart::new(Axis::log("latency", Unit::Nanoseconds), Axis::tail("cumulative share of I/Os"));
    for curve in &shown {
        let (name, ink) = curve_look(curve, results);
        // Begin at a share of 0.
        let first = curve.points.first().map(|(ns, _)| (*ns, 0.0));
        let points = |rest: Vec<(f64, f64)>| first.into_iter().chain(rest).collect();
        whole = whole.steps(name.clone(), ink, points(curve.points.clone()));
        tail = tail.steps(name, ink, points(with_slowest(curve, &results.summary)));
    }
    section = section
        .figure(Figure::new(
            "Distribution of latencies",
            "Cumulative share of I/Os over latency (logarithmic). A steep section is a latency \
             common to many I/Os; a second step is a second code path or resource that some of them use.",
            whole,
        ))
        .figure(Figure::new(
            "The tail",
            "The same with the upper end stretched: each grid line has a tenth of the I/Os above it that the one below has. \
             The end of a line is the slowest I/O.",
            tail,
        ));
    if results.distributions.len() > shown.len() {
        let left = results.distributions.len() - shown.len();
        section = section.text(format!("{left} more curves are omitted; the table has their percentiles, latency.parquet the whole of them."));
    }

    let any =
        |job: &usize| steps.points.iter().any(|point| point.jobs.get(*job).is_some_and(|job| ios(job) > 0));
    let jobs: Vec<usize> = (0..steps.jobs.len()).filter(any).collect();
    // One scale for all jobs, because charts side by side are compared.
    let ends = jobs.iter().take(JOBS_MAX).flat_map(|&job| {
        let points = steps.points.iter().filter_map(move |point| point.jobs.get(job));
        points.filter(|job| ios(job) > 0).flat_map(|job| [job.p50_ns, job.max_ns])
    });
    let scale = Axis::log("latency", Unit::Nanoseconds).spanning(ends);
    for &job in jobs.iter().take(JOBS_MAX) {
        let of = |value: fn(&JobPoint) -> f64| {
            steps.line_of_those(|point| point.jobs.get(job).filter(|job| ios(job) > 0).map(value))
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
                  within a step are exact to 3 %. A line goes on through a step in which none completed."
            }
            _ => {
                "Median, 99th percentile and longest of the I/Os that completed in each step (logarithmic): where \
                  recorded steps were joined, the mean of their medians and the largest of the others. A line goes on through \
                  a step in which none completed."
            }
        };
        section = section.figure(Figure::new(title, caption, with_warmup(chart, steps)));
    }
    if jobs.len() > JOBS_MAX {
        let left = jobs.len() - JOBS_MAX;
        section =
            section.text(format!("{left} more jobs are omitted here; results.parquet has all of them."));
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

/// The curve with its end moved: no I/O took longer than the slowest, so a tail axis has no position for a
/// share of 1; the slowest is shown at the share of all but one I/O.
fn with_slowest(curve: &Curve, summary: &Summary) -> Vec<(f64, f64)> {
    let of = |kind: Kind| kinds(summary).find(|(job, k, _)| job.name == curve.job && *k == kind);
    let ios = of(curve.kind).map_or(1, |(.., found)| found.ios.max(1));
    let most = 1.0 - 1.0 / (ios as f64 + 1.0);
    curve.points.iter().map(|&(ns, share)| (ns, share.min(most))).collect()
}

/// Description of a resource.
fn meaning(span: &str) -> &'static str {
    match span {
        "host" => "the host's software: building and submitting the command, reaping the completion",
        "doorbell" => "from the doorbell write until the drive starts to fetch: link crossing, arbitration",
        "fetch" => "reading the submission queue entry over the link; waiting for a poll of a commit record",
        "link" => "data, its lists and the completion on the link",
        "firmware" => "work of the drive's processor cores",
        "dram" => "access to the drive's DRAM: map and buffers",
        "flash" => "sense, program, and transfer on the channel",
        "queueing" => "waiting for any of these while others use it",
        _ => "",
    }
}

/// Description of what an I/O waits for.
fn awaited(wait: &str) -> &'static str {
    match wait {
        "queue depth" => "an open loop's I/O is due, and its job has as many outstanding as it may",
        "queue entry" => "an entry of a queue, or a credit of a connection",
        "host core" => "a processor of the host",
        "network" => "adapters and wire",
        "target core" => "a processor of the target",
        "link" => "the PCIe link",
        "core" => "one of the drive's processor cores",
        "dram" => "the drive's DRAM",
        "other command" => "a command that holds the same data, or has to go first",
        "firmware entry" => "the translation layer: its lock, or the turn of a caller",
        "map cache" => "a frame of the map's cache, whose changed page has to reach flash first",
        "buffer" => {
            "room in the write buffer, in proportion to the time in which dies served hosts (or are across a link)"
        }
        "buffer collection" => {
            "room in the write buffer, in proportion to that in which they collected and erased"
        }
        "channel" => "a flash channel",
        "die reads" => "a die that reads for hosts",
        "die programs" => "a die that programs for hosts",
        "die erases" => "a die that erases",
        "die collection" => "a die that reads or programs for collection, wear levelling or refresh",
        "throttle" => "a rest of all dies, because the drive is hot",
        _ => "",
    }
}

pub(super) fn spans(summary: &Summary) -> Option<Section> {
    let rows: Vec<_> = summary.spans.iter().filter(|row| row.mean_ns > 0.0).collect();
    if rows.is_empty() {
        return None;
    }
    let whole: f64 = rows.iter().map(|row| row.mean_ns).sum();
    let mut table = Table::new(["span", "meaning", "mean", "share"], 2);
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
    let chart = Chart::new(Axis::linear("mean time of an I/O", Unit::Nanoseconds), Axis::names("", names))
        .gap(before)
        .bars("", Ink::nth(0), values)
        .stacked()
        .height(80 + 44 * rows.len());
    for wait in &summary.waits {
        let cause = format!("queueing: {}", wait.wait);
        table.row([cause, awaited(&wait.wait).to_owned(), time(wait.mean_ns), percent(wait.share)]);
    }
    let section = Section::new("Where the time of an I/O goes")
        .text(
            "Mean over all I/Os of all jobs. Each moment of an I/O is attributed to exactly one span, so that the spans \
             add up to its latency. Where parts of a command run in parallel, the time belongs to the one that it \
             waits for.",
        )
        .figure(
            Figure::new(
                "One I/O, from left to right",
                "Each bar starts where the one above ends; together they are the mean latency. The order is that of the \
                 first visit: an I/O returns to the link and to the firmware, and waits at several resources.",
                chart,
            )
            .wide(),
        )
        .table(table);
    Some(section)
}
