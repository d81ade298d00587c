//! The section on background work of the drive: parts of write amplification, map misses, suspended
//! operations, read retries, bad blocks.

use super::flow::{elapsed, with_warmup};
use super::percent;
use super::steps::Steps;
use crate::{Axis, Chart, Figure, Ink, Section, Table, Unit};
use byteway_results::results::{DrivePoint, Point};
use byteway_results::summary::{MapCacheSummary, ProgramRow, Summary, UpkeepSummary};
use byteway_text::table::{grouped, time};

pub(super) fn upkeep(steps: &Steps, summary: &Summary) -> Option<Section> {
    let upkeep = summary.upkeep.as_ref()?;
    let mut section = Section::new("Map cache and background work on flash");
    if !upkeep.programmed.is_empty() {
        section = causes(section, &upkeep.programmed);
    }
    if let Some(cache) = &upkeep.map_cache {
        section = map_cache(section, steps, cache);
    }
    section = cells(section, steps, upkeep);
    if let Some(recovery) = &upkeep.recovery {
        section = section.text(format!(
            "After the power loss the drive was ready again in {}. It found {} units in the spare areas of flash that \
             were newer than its last checkpoint.",
            time(recovery.time_ns),
            grouped(recovery.units)
        ));
    }
    Some(section)
}

/// Description of a cause of programming.
fn meaning(cause: &str) -> &'static str {
    match cause {
        "host" => "host data",
        "collector" => "valid data of blocks to be erased",
        "levelling" => "cold data, moved for wear leveling",
        "refresh" => "data with many reads, or long retention",
        "folding" => "data folded from SLC blocks",
        "retirement" => "data of failed blocks",
        "map" => "translation pages",
        "padding" => "padding of pages that could not wait",
        _ => "",
    }
}

fn causes(section: Section, rows: &[ProgramRow]) -> Section {
    let mut table = Table::new(["cause", "data", "units", "per unit written"], 2)
        .caption("Units of 4 KiB programmed, by cause; the last column sums to the write amplification");
    for row in rows {
        let per_unit = format!("{:.3}", row.per_unit_written);
        table.row([row.cause.clone(), meaning(&row.cause).to_owned(), grouped(row.units), per_unit]);
    }
    let names = rows.iter().map(|row| row.cause.clone());
    let labels = rows.iter().map(|row| format!("{:.3}", row.per_unit_written)).collect();
    let values: Vec<f64> = rows.iter().map(|row| row.per_unit_written).collect();
    let chart =
        Chart::new(Axis::names("programmed for", names), Axis::linear("per unit written", Unit::Count));
    let section = section.table(table);
    if values.iter().all(|value| *value == 0.0) {
        return section;
    }
    section.figure(Figure::new(
        "Write amplification by cause",
        "Units programmed per unit written by the host. Their sum is the write amplification.",
        chart.labelled_bars("", Ink::of(5, 0), values, labels),
    ))
}

fn map_cache(section: Section, steps: &Steps, cache: &MapCacheSummary) -> Section {
    let section = section.text(format!(
        "The drive's DRAM holds {} pages of the map, each of which maps 1024 units. Of {} lookups {} did not \
         find their page there ({}), and had to read it from flash first. {} dirty pages were written to \
         flash when they were evicted.",
        grouped(cache.pages),
        grouped(cache.hits.saturating_add(cache.misses)),
        grouped(cache.misses),
        percent(cache.miss_ratio),
        grouped(cache.dirty_evictions)
    ));
    let section = match cache.from_host {
        Some(loaded) => section.text(format!(
            "{} of these pages came from copies in the host memory buffer, over the link, instead.",
            grouped(loaded)
        )),
        None => section,
    };
    let ratio = |point: &Point| {
        let drive = point.drive.as_ref().map(|drive| (drive.map_hits, drive.map_misses));
        match drive {
            Some((hits, misses)) if hits + misses > 0 => misses as f64 / (hits + misses) as f64,
            _ => f64::NAN,
        }
    };
    let axis = Axis::linear("miss ratio", Unit::Share).range(0.0, 1.0);
    let chart = Chart::new(elapsed(), axis).steps("", Ink::of(3, 0), steps.line(ratio));
    section.figure(Figure::new(
        "Map misses over time",
        "Share of the lookups in each step whose map page was not in DRAM. At the start the cache is \
         empty, so that all lookups miss.",
        with_warmup(chart, steps),
    ))
}

/// A chart over time: title, caption, and counter.
type OverTime = (&'static str, &'static str, fn(&DrivePoint) -> u64);

fn cells(mut section: Section, steps: &Steps, upkeep: &UpkeepSummary) -> Section {
    let mut table = Table::new(["", "count"], 1);
    for (what, count) in upkeep.figures() {
        table.row([what, count]);
    }
    section = section.table(table);
    if let Some(retry) = upkeep.retry.as_ref().filter(|retry| retry.by_retries.len() > 1) {
        let values: Vec<f64> = retry.by_retries.iter().map(|reads| *reads as f64).collect();
        let labels = retry.by_retries.iter().map(|reads| grouped(*reads)).collect();
        let names = (1..=values.len()).map(|retries| retries.to_string());
        let (x, y) = (Axis::names("retries per read", names), Axis::linear("reads", Unit::Count));
        section = section.figure(Figure::new(
            "Retries per read",
            "Flash reads by number of retries. Reads without retries are not shown; 32 is 32 or more.",
            Chart::new(x, y).labelled_bars("", Ink::nth(0), values, labels),
        ));
    }
    let over_time: [OverTime; 2] = [
        ("Suspended operations over time", "Suspensions of programs and erases for host reads.", |drive| {
            drive.suspends
        }),
        (
            "Read retries over time",
            "Sense operations beyond the first: each occupies the die as long as a read.",
            |drive| drive.retries,
        ),
    ];
    for (title, caption, of) in over_time {
        let count = |point: &Point| point.drive.as_ref().map_or(0, of);
        if steps.points.iter().any(|point| count(point) > 0) {
            let axis = Axis::linear("events per second", Unit::Count);
            let chart = Chart::new(elapsed(), axis).steps("", Ink::of(3, 0), steps.per_second(count));
            section = section.figure(Figure::new(title, caption, with_warmup(chart, steps)));
        }
    }
    section
}
