//! The sections on the drive: utilisation of dies, channels and cores; write amplification; wear.

use super::flow::{elapsed, with_warmup};
use super::percent;
use super::steps::Steps;
use crate::{Axis, Chart, Figure, Ink, Section, Table, Unit};
use byteway_results::results::{DrivePoint, Point, Results, Wear};
use byteway_results::summary::{FlashUser, Summary, WearSummary};
use byteway_text::table::grouped;

/// Columns of the heat map, at most: more would be smaller than a pixel, and enlarge the page.
const HEAT_COLUMNS_MAX: usize = 256;
const HEAT_ROWS_MAX: usize = 128;

pub(super) fn usage(steps: &Steps, summary: &Summary) -> Option<Section> {
    if summary.utilisation.is_empty() {
        return None;
    }
    let mut section = Section::new("Utilization of dies, channels and cores").text(
        "A resource is busy while it works for an I/O or for garbage collection. One near 100 % limits the drive: I/Os wait \
         for it, and more I/Os in flight increase latency but not throughput. A wide band shows that the load \
         is uneven.",
    );
    let table = Table::from(summary.in_use());
    section = section.table(table.caption("Share of the measured time in which each was busy"));
    if !steps.has_drive() {
        return Some(section);
    }
    let share = || Axis::linear("utilization", Unit::Share).range(0.0, 1.0);
    let each = [
        ("Dies", Ink::nth(0), (|drive| &drive.dies) as fn(&DrivePoint) -> &Vec<f64>),
        ("Channels", Ink::of(2, 0), |drive| &drive.channels),
    ];
    for (title, ink, of) in each {
        let shares = |point: &Point| point.drive.as_ref().map(of).cloned().unwrap_or_default();
        let ends = |point: &Point| {
            let shares = shares(point);
            let low = shares.iter().copied().fold(f64::INFINITY, f64::min);
            let high = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if low > high { (f64::NAN, f64::NAN) } else { (low, high) }
        };
        let count = steps.points.iter().map(|point| shares(point).len()).max().unwrap_or(0);
        let chart = Chart::new(elapsed(), share()).band("least to most busy", ink, steps.band(ends)).steps(
            "mean",
            ink,
            steps.line(|point| mean(&shares(point))),
        );
        let caption =
            format!("Share of each step in which a {} was busy, over all {count}.", singular(title));
        section =
            section.figure(Figure::new(format!("{title} over time"), caption, with_warmup(chart, steps)));
    }
    let cores = steps.line(|point| point.drive.as_ref().map_or(f64::NAN, |drive| drive.cores));
    let chart = Chart::new(elapsed(), share()).steps("", Ink::of(3, 0), cores);
    section = section.figure(Figure::new(
        "Cores over time",
        "Share of each step in which the drive's processor cores were busy, mean over all of them.",
        with_warmup(chart, steps),
    ));
    if let Some(figure) = heat(steps) {
        section = section.figure(figure);
    }
    Some(section)
}

fn singular(title: &str) -> &'static str {
    if title == "Dies" { "die" } else { "channel" }
}

fn mean(shares: &[f64]) -> f64 {
    if shares.is_empty() { f64::NAN } else { shares.iter().sum::<f64>() / shares.len() as f64 }
}

/// Utilisation of dies over time, as a heat map.
fn heat(steps: &Steps) -> Option<Figure> {
    let points: Vec<(&Point, &DrivePoint)> =
        steps.points.iter().filter_map(|point| Some((point, point.drive.as_ref()?))).collect();
    let dies = points.iter().map(|(_, drive)| drive.dies.len()).min()?;
    if dies == 0 {
        return None;
    }
    let (wide, high) = (points.len().div_ceil(HEAT_COLUMNS_MAX), dies.div_ceil(HEAT_ROWS_MAX));
    let columns: Vec<&[(&Point, &DrivePoint)]> = points.chunks(wide).collect();
    let middle = |column: &&[(&Point, &DrivePoint)]| {
        let begin = column.first().map_or(0.0, |(point, _)| point.begin_ns);
        let end = column.last().map_or(0.0, |(point, _)| point.end_ns);
        (begin + end) / 2.0
    };
    let x: Vec<f64> = columns.iter().map(middle).collect();
    let firsts: Vec<usize> = (0..dies).step_by(high).collect();
    let last = |first: usize| (first + high).min(dies);
    let y = firsts.iter().map(|&first| (first + last(first) - 1) as f64 / 2.0).collect();
    let cell = |first: usize, column: &&[(&Point, &DrivePoint)]| {
        let shares: Vec<f64> =
            column.iter().flat_map(|(_, drive)| drive.dies[first..last(first)].iter().copied()).collect();
        mean(&shares)
    };
    let rows =
        firsts.iter().map(|&first| columns.iter().map(|column| cell(first, column)).collect()).collect();
    let caption = match (wide, high) {
        (1, 1) => "Each row is a die, each column a step; the color is the share of the step in which it was busy. Dark \
                   rows are idle dies."
            .to_owned(),
        _ => {
            let of = |count: usize, one: &str, many: &str| match count {
                1 => one.to_owned(),
                count => format!("{count} {many}"),
            };
            format!(
                "Each cell is {} over {}; the color is the mean share of that time in which it was busy.",
                of(high, "a die", "neighboring dies"),
                of(wide, "a step", "steps"),
            )
        }
    };
    let number = Axis::linear("die", Unit::Count).from_data();
    let chart = Chart::new(elapsed().from_data(), number).heat(x, y, rows, "busy").height(380);
    Some(Figure::new("Each die over time", caption, chart).wide())
}

pub(super) fn writing(steps: &Steps, results: &Results) -> Option<Section> {
    let summary = &results.summary;
    let flash = summary.flash?;
    let mut section = Section::new("Writes, garbage collection and wear");
    section = match summary.write_amplification {
        Some(amplification) => section.text(format!(
            "Flash is erased in blocks that are larger than the units written, so a drive must move valid data before \
             it erases a block. The write amplification factor is the number of bytes programmed per byte written by the host: {:.3} \
             in the measured part. Data in the write buffer counts as written, but not yet as programmed.",
            amplification
        )),
        None if summary.has_writes() => {
            section.text("No host data has reached flash yet, so there is no write amplification.")
        }
        None => section.text("The host wrote nothing, so there is no write amplification."),
    };
    let others = flash.others();
    let header = ["", "for the host", "by garbage collection"].map(str::to_owned).into_iter();
    let header = header.chain(others.iter().map(|other| format!("for the {}", other.name)));
    let mut table = Table::new(header, 1).caption("Operations of the flash");
    let mut row = |cells: [String; 3], of: fn(&FlashUser) -> Option<u64>| {
        let rest = others.iter().map(|other| of(other).map_or("-".to_owned(), grouped));
        table.row(cells.into_iter().chain(rest));
    };
    let cells = |what: &str, host: String, collect: u64| [what.to_owned(), host, grouped(collect)];
    row(cells("pages read", grouped(flash.host_reads), flash.collect_reads), |other| Some(other.reads));
    let programs = cells("pages programmed", grouped(flash.host_programs), flash.collect_programs);
    row(programs, |other| Some(other.programs));
    row(cells("blocks erased", "-".to_owned(), flash.erases), |_| None);
    section = section.table(table);
    if summary.write_amplification.is_some() && steps.has_drive() {
        section = over_time(section, steps, summary);
    }
    if let Some(wear) = &results.wear {
        section = worn(section, wear);
    }
    Some(section)
}

fn over_time(section: Section, steps: &Steps, summary: &Summary) -> Section {
    let written = |point: &Point| point.drive.as_ref().map_or(0, |drive| drive.host_written_bytes);
    let programmed = |point: &Point| point.drive.as_ref().map_or(0, |drive| drive.programmed_bytes);
    let amplification = |programmed: u64, written: u64| match written {
        0 => f64::NAN,
        written => programmed as f64 / written as f64,
    };
    let (mut all_written, mut all_programmed) = (0u64, 0u64);
    let mut total: Vec<(f64, f64)> = Vec::new();
    for point in steps.points.iter().filter(|point| point.begin_ns >= steps.measured_from_ns) {
        all_written += written(point);
        all_programmed += programmed(point);
        total.push((point.end_ns, amplification(all_programmed, all_written)));
    }
    let per_step = steps.line(|point| amplification(programmed(point), written(point)));
    // Steps with hardly any write are excluded: their ratio is meaningless, and would flatten the rest of the
    // chart.
    let highest =
        per_step.iter().chain(&total).map(|(_, y)| *y).filter(|y| y.is_finite()).fold(1.0, f64::max);
    let top = 3.0 * summary.write_amplification.unwrap_or(1.0).max(1.0);
    let axis = Axis::linear("write amplification", Unit::Count);
    let axis = if highest > top { axis.range(0.0, top) } else { axis };
    let chart = Chart::new(elapsed(), axis).steps("per step", Ink::of(5, 0), per_step).line(
        "cumulative since the warm-up",
        Ink::nth(1),
        total,
    );
    let mut caption = format!(
        "Bytes programmed per byte written by the host: in each step, and cumulative since the first step after \
         the warm-up. Over the whole measured part it is {:.3}.",
        summary.write_amplification.unwrap_or_default()
    );
    if highest > top {
        let over = format!(" Steps with few writes reach up to {highest:.0} and are clipped.");
        caption.push_str(&over);
    }
    let rates = Chart::new(elapsed(), Axis::linear("bytes per second", Unit::BytesPerSecond))
        .steps("written by the host", Ink::nth(0), steps.per_second(written))
        .steps("programmed", Ink::nth(1), steps.per_second(programmed));
    let mut section = section
        .figure(Figure::new("Write amplification over time", caption, with_warmup(chart, steps)))
        .figure(Figure::new(
            "Written and programmed",
            "The distance between the lines is the data moved by garbage collection, and changes of the write buffer's fill level.",
            with_warmup(rates, steps),
        ));
    let erases = |point: &Point| point.drive.as_ref().map_or(0, |drive| drive.erases);
    if steps.points.iter().any(|point| erases(point) > 0) {
        let chart = Chart::new(elapsed(), Axis::linear("block erases per second", Unit::Count)).steps(
            "",
            Ink::of(3, 0),
            steps.per_second(erases),
        );
        let caption = "Erases are bursty where dies collect garbage at the same time.";
        section = section.figure(Figure::new("Erases over time", caption, with_warmup(chart, steps)));
    }
    section
}

/// Bars of the wear histogram, at most.
const WEAR_BARS_MAX: u64 = 24;

fn worn(section: Section, wear: &Wear) -> Section {
    if wear.blocks == 0 {
        return section;
    }
    let used = if wear.endurance > 0 { wear.mean / wear.endurance as f64 * 100.0 } else { 0.0 };
    let used = if used < 0.01 { "less than 0.01 %".to_owned() } else { format!("{used:.2} %") };
    let summary = WearSummary::new(wear.blocks, wear.min, wear.mean, wear.max);
    let spread = match wear.max {
        0 => String::new(),
        _ => format!(
            " The spread between the least and the most worn is {} of the mean.",
            percent(summary.spread)
        ),
    };
    let words = format!(
        "Wear: {} {} blocks with {} to {} erases each, mean {:.3}: {used} of the {} erases that a \
         block endures.{spread}{}",
        if wear.began_worn { "until the end of this run" } else { "in this run" },
        grouped(wear.blocks),
        grouped(wear.min),
        grouped(wear.max),
        wear.mean,
        grouped(wear.endurance),
        if wear.began_worn { "" } else { " Wear from before the run is not counted." }
    );
    // An empty histogram has a single bar.
    if wear.max == 0 {
        return section.text(words);
    }
    let spread = wear.max.saturating_sub(wear.min);
    let width = (spread + 1).div_ceil(WEAR_BARS_MAX).max(1);
    let bars = spread / width + 1;
    let mut counts = vec![0u64; bars as usize];
    for (erases, blocks) in &wear.histogram {
        let bar = (erases.saturating_sub(wear.min) / width).min(bars - 1);
        counts[bar as usize] += blocks;
    }
    let name = |bar: u64| {
        let first = wear.min + bar * width;
        if width == 1 { first.to_string() } else { format!("{first}-{}", first + width - 1) }
    };
    let share = counts.iter().map(|blocks| *blocks as f64).collect();
    let labels = counts.iter().map(|blocks| if bars <= 8 { grouped(*blocks) } else { String::new() });
    let chart =
        Chart::new(Axis::names("erases per block", (0..bars).map(name)), Axis::linear("blocks", Unit::Count))
            .labelled_bars("", Ink::nth(0), share, labels.collect());
    let section = section.figure(Figure::new(
        "Wear of the blocks",
        "Number of blocks by erase count. A narrow distribution is even wear; a drive's life ends when its first blocks reach \
         their endurance.",
        chart,
    ));
    section.text(words)
}
