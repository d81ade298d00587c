//! Measurements of the claims about the host's processors and memory. A utilisation is in units of one
//! processor: 1 is one busy processor, the only reading under which PS08 and PS13 are consistent.

use super::points::{DEFAULT_BYTES, Drive, FINE_BYTES, QUEUE_DEPTH, SIZES};
use super::recipes::sweeps;
use crate::error::{ClaimError, Measured};
use crate::judgement::Measurement;
use crate::load::Pattern;
use crate::paper::Recipe;
use crate::point::{PointResult, Points, Spec};
use crate::sketch::change;
use byteway_results::host::HostMemory;
use byteway_results::results::{HostPoint, Series};
use byteway_results::summary::HostSummary;

pub(super) const RECIPES: [Recipe; 7] = [
    Recipe { id: "PS04", points: || Drive::Fssd.sweep().collect(), measure: memory_of_fssd },
    Recipe { id: "PS05", points: || Drive::Bssd.sweep().collect(), measure: memory_of_bssd },
    Recipe { id: "PS06", points: || vec![Drive::Fssd.over_time(QUEUE_DEPTH)], measure: memory_over_time },
    Recipe { id: "PS07", points: sweeps, measure: processors },
    Recipe { id: "PS08", points: modes, measure: processors_by_mode },
    Recipe { id: "PS13", points: || Drive::Fssd.shared().collect(), measure: rise_by_workers },
    Recipe { id: "PS16", points: || vec![Drive::Fssd.over_time(QUEUE_DEPTH)], measure: array_of_five },
];

const GB: f64 = 1e9;

fn modes() -> Vec<Spec> {
    Drive::ALL.into_iter().flat_map(|drive| by_mode(drive, Pattern::RandomWrites)).collect()
}

/// Points with one I/O of the default size at a time, and with 128.
fn by_mode(drive: Drive, pattern: Pattern) -> [Spec; 2] {
    [drive.legacy(pattern, DEFAULT_BYTES), drive.queued(pattern, DEFAULT_BYTES, 1)]
}

fn host(seen: PointResult<'_>) -> Measured<&HostSummary> {
    seen.host().ok_or_else(|| ClaimError::NoFigure("a point has no figures of its host".to_owned()))
}

/// Number of busy processors.
pub(super) fn busy(seen: PointResult<'_>) -> f64 {
    seen.host().map_or(f64::NAN, |host| host.busy)
}

/// Memory at the end, in bytes.
pub(super) fn memory(seen: PointResult<'_>) -> f64 {
    seen.host().map_or(f64::NAN, |host| host.memory_bytes() as f64)
}

/// A figure of a drive in queue mode, for these sizes and patterns.
fn figures(
    points: &Points,
    drive: Drive,
    sizes: &[u64],
    is_wanted: fn(Pattern) -> bool,
    figure: fn(&HostSummary) -> f64,
) -> Measured<Vec<f64>> {
    let each = Pattern::ALL.into_iter().filter(|pattern| is_wanted(*pattern)).flat_map(|pattern| {
        sizes.iter().map(move |bytes| Ok(figure(host(points.at(&drive.queued(pattern, *bytes, 1))?)?)))
    });
    each.collect()
}

fn least(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn gigabytes(host: &HostSummary) -> f64 {
    host.memory_bytes() as f64 / GB
}

fn memory_of_fssd(points: &Points) -> Measured<Measurement> {
    let writes = figures(points, Drive::Fssd, &SIZES, |pattern| !pattern.is_read(), gigabytes)?;
    let reads = figures(points, Drive::Fssd, &SIZES, Pattern::is_read, gigabytes)?;
    let detail = format!(
        "The minimum over all sizes, as in the paper; the maximum: {:.2} GB for writes, {:.2} GB for reads.",
        most(&writes),
        most(&reads)
    );
    Ok(Measurement::of([least(&writes), least(&reads)]).detail(detail))
}

/// Ratio up to which figures count as flat.
const FLAT: f64 = 1.1;

fn memory_of_bssd(points: &Points) -> Measured<Measurement> {
    let all = figures(points, Drive::Bssd, &SIZES, |_| true, gigabytes)?;
    let detail = format!("Mean; range {:.2} to {:.2} GB.", least(&all), most(&all));
    Ok(Measurement::of([all.iter().sum::<f64>() / all.len() as f64])
        .check("flat: the maximum is at most 10 % above the minimum", most(&all) <= FLAT * least(&all))
        .detail(detail))
}

/// Growth of a drive's memory on the host, and its limit.
pub(super) struct Growth {
    /// Measured sizes at the end of the first step, of half the run, and of the run, in bytes.
    measured: [f64; 3],
    /// Map memory per randomly written unit, in bytes.
    unit_bytes: f64,
    /// Extrapolation to all units written at random, in bytes.
    end: f64,
}

/// Units of FSSD's map: 400 GiB in units of 4 KiB.
const UNITS: f64 = (400_u64 << 18) as f64;

fn host_points(series: &Series) -> Vec<(f64, &HostPoint)> {
    let each = series.points.iter();
    each.filter_map(|point| Some((point.end_ns, point.drive.as_ref()?.host.as_ref()?))).collect()
}

/// Memory over time, in seconds and bytes.
pub(super) fn memory_line(series: &Series) -> Vec<(f64, f64)> {
    let each = host_points(series).into_iter();
    each.map(|(end_ns, host)| (end_ns / 1e9, host.memory_bytes() as f64)).collect()
}

/// Busy processors over time, in seconds.
pub(super) fn busy_line(series: &Series) -> Vec<(f64, f64)> {
    let each = host_points(series).into_iter();
    each.map(|(end_ns, host)| (end_ns / 1e9, host.processors_busy())).collect()
}

impl Growth {
    pub(super) fn of(points: &Points) -> Measured<Growth> {
        let missing = || ClaimError::NoFigure("a point has no time series of its host".to_owned());
        let series = points.series(&Drive::Fssd.over_time(QUEUE_DEPTH))?;
        let line = host_points(series);
        let (Some(first), Some(half), Some(last)) = (line.first(), line.get(line.len() / 2), line.last())
        else {
            return Err(missing());
        };
        let parts = HostMemory::default().parts();
        let map_at = parts.iter().position(|(name, _)| *name == "map").ok_or_else(missing)?;
        let map = *last.1.memory.get(map_at).ok_or_else(missing)? as f64;
        let writes = series.points.iter().flat_map(|point| &point.jobs).map(|job| job.write.ios).sum::<u64>();
        // Units written twice have one map entry.
        let units = UNITS * (1.0 - libm::exp(-(writes as f64) / UNITS));
        let unit_bytes = map / units;
        let measured = [first, half, last].map(|(_, host)| host.memory_bytes() as f64);
        Ok(Growth { measured, unit_bytes, end: measured[2] - map + unit_bytes * UNITS })
    }
}

fn memory_over_time(points: &Points) -> Measured<Measurement> {
    let Growth { measured: [first, half, last], unit_bytes, end } = Growth::of(points)?;
    let detail = format!(
        "In the shortened run {:.2} GB at first, {:.2} after half of it, {:.2} at the end. The second figure is an extrapolation, not \
         measured: {unit_bytes:.1} B of map per randomly written unit, once all units were written.",
        first / GB,
        half / GB,
        last / GB
    );
    Ok(Measurement::of([first / GB, end / GB])
        .check("it grows", last > first)
        .check("less and less", last - half < half - first)
        .detail(detail))
}

fn array_of_five(points: &Points) -> Measured<Measurement> {
    let end = Growth::of(points)?.end / GB;
    let detail = format!("Five times the {end:.2} GB at the end of one (PS06), extrapolated.");
    Ok(Measurement::of([5.0 * end]).detail(detail))
}

fn processors(points: &Points) -> Measured<Measurement> {
    let fine: Vec<u64> = SIZES.into_iter().filter(|bytes| *bytes <= FINE_BYTES).collect();
    let per_cent = |host: &HostSummary| host.busy * 100.0;
    let of = |drive| figures(points, drive, &fine, |_| true, per_cent);
    let (fssd, bssd) = (of(Drive::Fssd)?, of(Drive::Bssd)?);
    let ratios: Vec<f64> = fssd.iter().zip(&bssd).map(|(fssd, bssd)| fssd / bssd).collect();
    let detail = format!(
        "Minimum and maximum of each, up to 16 KiB in queue mode; FSSD takes {:.1} to {:.1} times as much.",
        least(&ratios),
        most(&ratios)
    );
    Ok(Measurement::of([least(&fssd), most(&fssd), least(&bssd), most(&bssd)]).detail(detail))
}

fn processors_by_mode(points: &Points) -> Measured<Measurement> {
    let mut values = Vec::new();
    let mut words = Vec::new();
    for drive in Drive::ALL {
        for (mode, spec) in ["legacy", "queue"].into_iter().zip(by_mode(drive, Pattern::RandomWrites)) {
            let host = host(points.at(&spec)?)?;
            values.push(host.busy * 100.0);
            let each = host.components.iter();
            let each = each.map(|row| format!("{} {:.0} %", row.component, row.busy * 100.0));
            words.push(format!("{} in {mode} mode: {}", drive.name(), each.collect::<Vec<_>>().join(", ")));
        }
    }
    let detail = format!("Random writes of 512 B. {}.", words.join("; "));
    Ok(Measurement::of(values).detail(detail))
}

fn rise_by_workers(points: &Points) -> Measured<Measurement> {
    let mut found = Vec::new();
    for spec in Drive::Fssd.shared() {
        let host = host(points.at(&spec)?)?;
        found.push((gigabytes(host), host.busy));
    }
    let (first, last) = (found[0], found[found.len() - 1]);
    let each = found.iter().map(|(memory, busy)| format!("{memory:.2} GB and {:.0} %", busy * 100.0));
    let detail = format!("With 1, 4 and 8 workers: {}.", each.collect::<Vec<_>>().join(", "));
    Ok(Measurement::of([change(last.0, first.0), change(last.1, first.1)]).detail(detail))
}
