//! Measurements of the claims about performance.

use super::points::{DEFAULT_BYTES, Drive, QUEUE_DEPTH, SIZES};
use crate::error::Measured;
use crate::judgement::Measurement;
use crate::load::Pattern;
use crate::paper::Recipe;
use crate::point::{PointResult, Points, Spec};
use crate::sketch::change;
use byteway_results::results::Series;
use byteway_text::table::{grouped, time};

pub(super) const RECIPES: [Recipe; 8] = [
    Recipe { id: "PS02", points: sweeps, measure: latency_shorter },
    Recipe { id: "PS03", points: sweeps, measure: throughput_better },
    Recipe { id: "PS09", points: small_writes, measure: random_against_sequential },
    Recipe {
        id: "PS10",
        points: || Drive::Fssd.shared().collect(),
        measure: |points| latency_rise(points, Drive::Fssd),
    },
    Recipe {
        id: "PS11",
        points: || Drive::Bssd.shared().collect(),
        measure: |points| latency_rise(points, Drive::Bssd),
    },
    Recipe {
        id: "PS12",
        points: || Drive::ALL.into_iter().flat_map(Drive::shared).collect(),
        measure: throughput_of_four,
    },
    Recipe { id: "PS14", points: modes, measure: queueing },
    Recipe { id: "PS15", points: || Drive::ALL.map(Drive::overwritten).to_vec(), measure: sustained },
];

const READS: [Pattern; 2] = [Pattern::RandomReads, Pattern::SequentialReads];
const WRITES: [Pattern; 2] = [Pattern::RandomWrites, Pattern::SequentialWrites];

pub(super) fn sweeps() -> Vec<Spec> {
    Drive::ALL.into_iter().flat_map(Drive::sweep).collect()
}

fn small_writes() -> Vec<Spec> {
    let each =
        |pattern| [Drive::Bssd.queued(pattern, DEFAULT_BYTES, 1), Drive::Bssd.legacy(pattern, DEFAULT_BYTES)];
    WRITES.into_iter().flat_map(each).collect()
}

fn modes() -> Vec<Spec> {
    let each = |drive: Drive| {
        WRITES.into_iter().flat_map(move |pattern| {
            [drive.queued(pattern, DEFAULT_BYTES, 1), drive.legacy(pattern, DEFAULT_BYTES)]
        })
    };
    Drive::ALL.into_iter().flat_map(each).collect()
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// A figure of FSSD relative to BSSD's in queue mode: the mean of the ratios over all sizes and these
/// patterns, and the ratios of the first pattern by size, in words.
fn mean_ratio(
    points: &Points,
    patterns: [Pattern; 2],
    figure: fn(PointResult<'_>) -> f64,
) -> Measured<(f64, String)> {
    let mut ratios = Vec::new();
    for pattern in patterns {
        for bytes in SIZES {
            let of =
                |drive: Drive| -> Measured<f64> { Ok(figure(points.at(&drive.queued(pattern, bytes, 1))?)) };
            let (fssd, bssd) = (of(Drive::Fssd)?, of(Drive::Bssd)?);
            ratios.push(fssd / bssd);
        }
    }
    let each = SIZES.iter().zip(&ratios).map(|(bytes, ratio)| format!("{} B {ratio:.2}", grouped(*bytes)));
    let words = format!("{}: {}", patterns[0].name(), each.collect::<Vec<_>>().join(", "));
    Ok((mean(&ratios), words))
}

fn averages(points: &Points, figure: fn(PointResult<'_>) -> f64) -> Measured<Measurement> {
    let (reads, read_words) = mean_ratio(points, READS, figure)?;
    let (writes, write_words) = mean_ratio(points, WRITES, figure)?;
    let detail = format!(
        "Mean of the ratios FSSD / BSSD over five sizes, random and sequential, in queue mode. {read_words}; {write_words}."
    );
    Ok(Measurement::of([change(reads, 1.0), change(writes, 1.0)]).detail(detail))
}

fn latency_shorter(points: &Points) -> Measured<Measurement> {
    averages(points, |seen| seen.latency())
}

fn throughput_better(points: &Points) -> Measured<Measurement> {
    averages(points, |seen| seen.throughput())
}

fn random_against_sequential(points: &Points) -> Measured<Measurement> {
    let ratio = |spec: fn(Pattern) -> Spec| -> Measured<f64> {
        let of = |pattern| -> Measured<f64> { Ok(points.at(&spec(pattern))?.throughput()) };
        let (random, sequential) = (of(Pattern::RandomWrites)?, of(Pattern::SequentialWrites)?);
        Ok(random / sequential)
    };
    let queued = ratio(|pattern| Drive::Bssd.queued(pattern, DEFAULT_BYTES, 1))?;
    let legacy = ratio(|pattern| Drive::Bssd.legacy(pattern, DEFAULT_BYTES))?;
    let detail = format!("IOPS in queue mode; in legacy mode {legacy:.2} x.");
    Ok(Measurement::of([queued]).detail(detail))
}

fn by_workers(points: &Points, drive: Drive, figure: fn(PointResult<'_>) -> f64) -> Measured<[f64; 3]> {
    let mut figures = [0.0; 3];
    for (slot, spec) in figures.iter_mut().zip(drive.shared()) {
        *slot = figure(points.at(&spec)?);
    }
    Ok(figures)
}

fn latency_rise(points: &Points, drive: Drive) -> Measured<Measurement> {
    let [one, four, eight] = by_workers(points, drive, |seen| seen.latency())?;
    let detail =
        format!("Mean latency by 1, 4 and 8 workers: {}, {}, {}.", time(one), time(four), time(eight));
    Ok(Measurement::of([change(eight, four), change(eight, one)]).detail(detail))
}

fn throughput_of_four(points: &Points) -> Measured<Measurement> {
    let mut words = Vec::new();
    let mut ratios = Vec::new();
    for drive in Drive::ALL {
        let rates = by_workers(points, drive, |seen| seen.throughput())?;
        let whole = rates.map(|rate| grouped(libm::round(rate) as u64));
        words.push(format!("{} {}", drive.name(), whole.join(", ")));
        ratios.push(rates[1] / rates[0]);
    }
    Ok(Measurement::of(ratios).detail(format!("IOPS by 1, 4 and 8 workers: {}.", words.join("; "))))
}

fn queueing(points: &Points) -> Measured<Measurement> {
    let mut ratios = Vec::new();
    let mut words = Vec::new();
    for drive in Drive::ALL {
        let mut of_drive = Vec::new();
        for pattern in WRITES {
            let queued = points.at(&drive.queued(pattern, DEFAULT_BYTES, 1))?;
            let legacy = points.at(&drive.legacy(pattern, DEFAULT_BYTES))?;
            let ratio = queued.latency() / legacy.latency();
            words.push(format!(
                "{} {} {} after {} ({ratio:.1} x)",
                drive.name(),
                pattern.name(),
                time(queued.latency()),
                time(legacy.latency())
            ));
            of_drive.push(ratio);
        }
        ratios.push(mean(&of_drive));
    }
    let detail = format!(
        "Mean of random and sequential writes of 512 B. {}. By Little's law {QUEUE_DEPTH} outstanding I/Os take {QUEUE_DEPTH} times as \
         long, divided by the gain in throughput.",
        words.join(", ")
    );
    Ok(Measurement::of(ratios).detail(detail))
}

/// Writes per second in the whole steps between two fractions of a run.
fn rate(series: &Series, from: f64, to: f64) -> f64 {
    let end = series.points.last().map_or(0.0, |point| point.end_ns);
    let within = series.points.iter().filter(|p| p.begin_ns >= from * end && p.end_ns <= to * end);
    let (mut ios, mut time_ns) = (0, 0.0);
    for point in within {
        ios += point.jobs.iter().map(|job| job.write.ios).sum::<u64>();
        time_ns += point.end_ns - point.begin_ns;
    }
    ios as f64 / time_ns * 1e9
}

/// Loss of throughput in percent up to which a drive sustains it; more is a cliff.
const SUSTAINED_PERCENT: f64 = 10.0;

fn sustained(points: &Points) -> Measured<Measurement> {
    let mut changes = Vec::new();
    let mut words = Vec::new();
    for drive in Drive::ALL {
        let series = points.series(&drive.overwritten())?;
        let (early, late) = (rate(series, 0.1, 0.5), rate(series, 0.5, 1.0));
        let erased: u64 = series.points.iter().filter_map(|point| Some(point.drive.as_ref()?.erases)).sum();
        words.push(format!(
            "{}: {} IOPS in the first half (without its first fifth), {} in the second, {} superblocks erased",
            drive.name(),
            grouped(libm::round(early) as u64),
            grouped(libm::round(late) as u64),
            grouped(erased)
        ));
        changes.push(change(late, early));
    }
    Ok(Measurement::default()
        .check("FSSD sustains its throughput", changes[0] > -SUSTAINED_PERCENT)
        .check("BSSD's drops after half of the run", changes[1] < -SUSTAINED_PERCENT)
        .detail(format!("{}.", words.join("; "))))
}
