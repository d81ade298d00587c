//! The paper's figures 3 to 9, redrawn.

use super::host::{busy, busy_line, memory, memory_line};
use super::points::{DEFAULT_BYTES, Drive, QUEUE_DEPTH, SIZES, WORKERS};
use super::recipes::sweeps;
use crate::load::Pattern;
use crate::point::{PointResult, Points, Spec};
use crate::sketch::line;
use byteway_report::{Axis, Chart, Figure, Ink, Section, Table, Unit};
use byteway_results::results::Series;
use byteway_text::table::time;

const MODES: [(&str, u32); 2] = [("legacy mode", 1), ("queue mode", QUEUE_DEPTH)];

/// Points for the figures, in addition to those of the recipes.
pub(super) fn drawn() -> Vec<Spec> {
    let over_time = |drive: Drive| MODES.map(|(_, depth)| drive.over_time(depth));
    let legacy = |drive: Drive| Pattern::ALL.map(|pattern| drive.legacy(pattern, DEFAULT_BYTES));
    let others = Drive::ALL.into_iter().flat_map(|drive| {
        over_time(drive).into_iter().chain(legacy(drive)).chain(drive.shared()).chain([drive.overwritten()])
    });
    sweeps().into_iter().chain(others).collect()
}

/// All sections.
pub(super) fn figures(points: &Points) -> Vec<Section> {
    vec![
        memory_by_size(points),
        over_time(points),
        processors(points),
        performance(points),
        shared(points),
        overwritten(points),
        queueing(points),
    ]
}

/// A line for each drive and pattern over sizes, in queue mode.
fn over_sizes(points: &Points, patterns: &[Pattern], y: Axis, figure: fn(PointResult<'_>) -> f64) -> Chart {
    let x = Axis::log("size of an I/O", Unit::BinaryBytes);
    let mut chart = Chart::new(x, y);
    for drive in Drive::ALL {
        for pattern in patterns {
            let name = format!("{}, {}", drive.name(), pattern.name());
            let points = line(points, SIZES, |bytes| drive.queued(*pattern, bytes, 1), figure);
            let ink = Ink::nth(drive as usize * patterns.len() + usize::from(*pattern != patterns[0]));
            chart = chart.marked(name, ink, points);
        }
    }
    chart
}

const READS: [Pattern; 2] = [Pattern::RandomReads, Pattern::SequentialReads];
const WRITES: [Pattern; 2] = [Pattern::RandomWrites, Pattern::SequentialWrites];

/// Reads next to writes.
fn both(
    section: Section,
    points: &Points,
    figure: &str,
    says: &str,
    y: fn() -> Axis,
    of: fn(PointResult<'_>) -> f64,
) -> Section {
    section
        .figure(Figure::new(format!("{figure}: reads"), says, over_sizes(points, &READS, y(), of)))
        .figure(Figure::new(format!("{figure}: writes"), says, over_sizes(points, &WRITES, y(), of)))
}

fn memory_axis() -> Axis {
    Axis::linear("host memory", Unit::Bytes)
}

fn busy_axis() -> Axis {
    Axis::linear("processors busy", Unit::Count)
}

fn latency_axis() -> Axis {
    Axis::linear("mean latency", Unit::Nanoseconds)
}

fn iops_axis() -> Axis {
    Axis::linear("IOPS", Unit::Iops)
}

/// Fig. 3.
fn memory_by_size(points: &Points) -> Section {
    let section = Section::new("Fig. 3: host memory by I/O size").text(
        "In queue mode, at the end of a run that is shorter than the paper's. Reads access data written before.",
    );
    let says = "Calibrated. The paper: FSSD at least 2 GB for writes and 1.5 GB for reads, BSSD 0.6 GB.";
    both(section, points, "Fig. 3", says, memory_axis, memory)
}

/// A line for each drive and mode over time.
fn by_mode(points: &Points, y: Axis, line: fn(&Series) -> Vec<(f64, f64)>) -> Chart {
    let mut chart = Chart::new(Axis::linear("seconds", Unit::Count), y);
    for (number, drive) in Drive::ALL.into_iter().enumerate() {
        for (at, (mode, depth)) in MODES.into_iter().enumerate() {
            if let Ok(series) = points.series(&drive.over_time(depth)) {
                let name = format!("{}, {mode}", drive.name());
                chart = chart.line(name, Ink::nth(number * MODES.len() + at), thinned(&line(series)));
            }
        }
    }
    chart
}

/// Points of a line in a chart, at most.
const SHOWN: usize = 200;

/// Every n-th point, up to the last whole step, because a shorter one is less significant.
fn thinned(line: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let whole = line.len().saturating_sub(1);
    line[..whole].iter().copied().step_by(whole.div_ceil(SHOWN).max(1)).collect()
}

/// Fig. 4.
fn over_time(points: &Points) -> Section {
    Section::new("Fig. 4: the host over time")
        .text("Random writes of 512 B on an empty drive. The paper's run is longer, of unstated length.")
        .figure(Figure::new(
            "Fig. 4(a): host memory",
            "Predicted. The paper: FSSD from about 2 GB to about 10 GB, logarithmically, BSSD 0.6 GB.",
            by_mode(points, memory_axis(), memory_line),
        ))
        .figure(Figure::new(
            "Fig. 4(b): host processors",
            "Predicted. The paper: FSSD 60 % in legacy mode and 1.5 times that in queue mode, BSSD 20 % in both.",
            by_mode(points, busy_axis(), busy_line),
        ))
}

/// Fig. 5.
fn processors(points: &Points) -> Section {
    let section = Section::new("Fig. 5: host processors by I/O size")
        .text("In queue mode. One fully busy processor is the paper's 100 %.");
    let says = "Calibrated. The paper: FSSD 52 to 87 % up to 16 KB, BSSD 20 to 30 %.";
    both(section, points, "Fig. 5", says, busy_axis, busy)
}

/// Fig. 6.
fn performance(points: &Points) -> Section {
    let section = Section::new("Fig. 6: latency and IOPS by size").text("In queue mode, one worker.");
    let says = "Calibrated. The paper: FSSD's is shorter by 29 % for reads and 39 % for writes, on average.";
    let section = both(section, points, "Fig. 6(a), latency", says, latency_axis, |seen| seen.latency());
    let says = "Calibrated. The paper: FSSD has 21 % more for reads and 81 % more for writes, on average.";
    both(section, points, "Fig. 6(b), IOPS", says, iops_axis, |seen| seen.throughput())
}

/// Figures 7 and 8, by number of workers.
fn shared(points: &Points) -> Section {
    let by_workers = |y: Axis, figure: fn(PointResult<'_>) -> f64| {
        let x = Axis::log_at_points("workers", Unit::Count);
        Drive::ALL.into_iter().fold(Chart::new(x, y), |chart, drive| {
            // The number of workers is converted from a u32.
            let spec = |workers: u64| drive.queued(Pattern::RandomWrites, DEFAULT_BYTES, workers as u32);
            let points = line(points, WORKERS.map(u64::from), spec, figure);
            chart.marked(drive.name(), Ink::nth(drive as usize), points)
        })
    };
    Section::new("Fig. 7 and 8: several workers")
        .text(
            "Random writes of 512 B, 128 outstanding per worker. FSSD's driver is entered under a lock, but does most of its work \
             outside of it; BSSD's bridge takes one command after the other.",
        )
        .figure(Figure::new(
            "Mean latency",
            "Predicted. The paper, from 1 worker to 8: FSSD +289 %, BSSD +704 %.",
            by_workers(latency_axis(), |seen| seen.latency()),
        ))
        .figure(Figure::new(
            "IOPS",
            "Predicted. The paper, with 4 workers: FSSD 2.2 times as many, BSSD the same.",
            by_workers(iops_axis(), |seen| seen.throughput()),
        ))
        .figure(Figure::new(
            "Host processors",
            "Predicted. The paper: FSSD +160 %, BSSD the same.",
            by_workers(busy_axis(), busy),
        ))
        .figure(Figure::new(
            "Host memory",
            "Predicted. The paper: FSSD +32 %, BSSD the same.",
            by_workers(memory_axis(), memory),
        ))
}

/// Garbage collection in Figures 7 and 8.
fn overwritten(points: &Points) -> Section {
    let mut iops = Chart::new(Axis::linear("share of the run", Unit::Share), iops_axis());
    for drive in Drive::ALL {
        let Ok(series) = points.series(&drive.overwritten()) else { continue };
        let end = series.points.last().map_or(1.0, |point| point.end_ns);
        let rates = series.points.iter().map(|point| {
            let ios = point.jobs.iter().map(|job| job.write.ios).sum::<u64>();
            (point.end_ns / end, ios as f64 / (point.end_ns - point.begin_ns) * 1e9)
        });
        let rates: Vec<_> = rates.collect();
        iops = iops.line(drive.name(), Ink::nth(drive as usize), thinned(&rates));
    }
    Section::new("Fig. 7(a) and 8(a): writes until the drive is overwritten")
        .text(
            "Random writes of 512 B, 128 outstanding, on small drives of both kinds (1 GiB of FSSD, 4 GiB of BSSD, with proportionally less memory \
             in the bridge), which are overwritten sooner.",
        )
        .figure(
            Figure::new(
                "IOPS over time",
                "Predicted. The paper: FSSD sustains its throughput, BSSD's drops after half of the run.",
                iops,
            )
            .wide(),
        )
}

/// Fig. 9.
fn queueing(points: &Points) -> Section {
    let mut table = Table::new(["drive", "pattern", "legacy mode", "queue mode", "ratio"], 2)
        .caption("Mean latency of 512 B.");
    for drive in Drive::ALL {
        for pattern in Pattern::ALL {
            let legacy = points.at(&drive.legacy(pattern, DEFAULT_BYTES));
            let queued = points.at(&drive.queued(pattern, DEFAULT_BYTES, 1));
            let (Ok(legacy), Ok(queued)) = (legacy, queued) else { continue };
            table.row([
                drive.name().to_owned(),
                pattern.name().to_owned(),
                time(legacy.latency()),
                time(queued.latency()),
                format!("{:.1}", queued.latency() / legacy.latency()),
            ]);
        }
    }
    let names: Vec<&str> = Pattern::ALL.iter().map(|pattern| pattern.name()).collect();
    let ratio = |drive: Drive, pattern: Pattern| {
        let at = |spec: &Spec| points.at(spec).map_or(f64::NAN, |seen| seen.latency());
        at(&drive.queued(pattern, DEFAULT_BYTES, 1)) / at(&drive.legacy(pattern, DEFAULT_BYTES))
    };
    let chart = Chart::new(Axis::names("", names), Axis::linear("factor", Unit::Count));
    let chart = Drive::ALL.into_iter().fold(chart, |chart, drive| {
        let values = Pattern::ALL.map(|pattern| ratio(drive, pattern)).to_vec();
        chart.bars(drive.name(), Ink::nth(drive as usize), values)
    });
    Section::new("Fig. 9: latency in queue mode relative to legacy mode")
        .text(
            "128 I/Os of 512 B outstanding instead of one. By Little's law latency grows by 128 divided by the growth of throughput.",
        )
        .figure(
            Figure::new("Growth of latency", "Predicted. The paper, for writes: FSSD 106, BSSD 99.", chart)
                .wide(),
        )
        .table(table)
}
