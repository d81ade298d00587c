//! The report of a validation, `report.html`: measured and modelled curves on one chart.

use super::table::{name_of, spread_cells, title_of};
use super::validation::{HeldFigure, HeldPoint, Measure, Validation};
use crate::fit::{Figure, Role};
use byteway_report::{Axis, Chart, Figure as Picture, Ink, Page, Section, Table, Tile, Unit};
use byteway_text::table::binary_bytes;

/// The report.
pub fn report(validation: &Validation) -> Page {
    let tile = |measure: Measure| Tile {
        label: measure.name().to_owned(),
        value: spread_cells(validation.spread(Role::Judge, None, measure))[0].clone(),
        note: format!("mean absolute error of points that judge; aim {:.0} %", measure.aim() * 100.0),
    };
    Page {
        title: format!("{} against the real drive", validation.profile),
        subtitle: format!("{} points that others measured; in virtual time", validation.points.len()),
        facts: vec![("Byteway".to_owned(), env!("CARGO_PKG_VERSION").to_owned())],
        warnings: validation.notes(),
        tiles: Measure::ALL.map(tile).to_vec(),
        answer: Some(errors(validation)),
        sections: curves(validation),
    }
}

/// Errors by kind of load.
fn errors(validation: &Validation) -> Section {
    let mut section = Section::new("Errors").list(validation.verdict());
    for role in [Role::Judge, Role::Fit, Role::Aside] {
        let mut table =
            Table::new(["load", "throughput", "worst", "mean latency", "worst", "p99", "worst"], 1);
        let mut any = false;
        for rw in validation.kinds().into_iter().map(Some).chain([None]) {
            let spreads = Measure::ALL.map(|measure| validation.spread(role, rw, measure));
            if spreads.iter().all(Option::is_none) {
                continue;
            }
            any = true;
            let cells = spreads.into_iter().flat_map(spread_cells);
            table.row([rw.map_or("all".to_owned(), name_of)].into_iter().chain(cells));
        }
        if any {
            section = section.text(format!("{}.", title_of(role))).table(table);
        }
    }
    section
}

/// A section for each dataset, with charts of a load over depths.
fn curves(validation: &Validation) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut rest = &validation.points[..];
    while let Some(first) = rest.first() {
        let own = rest.iter().take_while(|point| point.dataset.name == first.dataset.name).count();
        let (points, after) = rest.split_at(own);
        rest = after;
        let dataset = first.dataset;
        let about = format!("{}: {}. {}.", dataset.name, dataset.about, dataset.source);
        let mut section = Section::new(dataset.name).text(about);
        for (title, group) in groups(points) {
            section = section.figure(throughput(&title, &group)).figure(latency(&title, &group));
        }
        sections.push(section);
    }
    sections
}

/// Points of one load but for its depth, or else but for its size.
fn groups(points: &[HeldPoint]) -> Vec<(String, Vec<&HeldPoint>)> {
    let mut groups: Vec<(String, Vec<&HeldPoint>)> = Vec::new();
    for point in points {
        // What stands before size and depth in a name tells passes of one load apart.
        let words = point.name.split(' ').next().unwrap_or_default();
        let by_size = words.ends_with("-by-size");
        let size = if by_size { String::new() } else { format!(", {}", binary_bytes(point.load.bs)) };
        let title = format!("{words}{size}");
        match groups.iter_mut().find(|(other, _)| *other == title) {
            Some((_, group)) => group.push(point),
            None => groups.push((title, vec![point])),
        }
    }
    groups
}

/// The axis of a group, and where a point lies on it.
fn axis(group: &[&HeldPoint]) -> (Axis, fn(&HeldPoint) -> f64) {
    let sizes = group.iter().any(|point| point.load.bs != group[0].load.bs);
    match sizes {
        true => (Axis::log_at_points("I/O size", Unit::BinaryBytes), |point| point.load.bs as f64),
        false => (Axis::log_at_points("outstanding I/Os", Unit::Count), |point| point.load.iodepth.into()),
    }
}

/// A series of measured and of simulated values.
fn series(
    chart: Chart,
    name: &str,
    hue: usize,
    group: &[&HeldPoint],
    at: fn(&HeldPoint) -> f64,
    is: impl Fn(Figure) -> bool,
) -> Chart {
    let of = |value: fn(&HeldFigure) -> Option<f64>| {
        let point = |point: &&HeldPoint| {
            let held = point.figures.iter().find(|held| is(held.figure))?;
            value(held).map(|value| (at(point), value))
        };
        group.iter().filter_map(point).collect::<Vec<_>>()
    };
    let (measured, modelled) = (of(|held| Some(held.measured)), of(|held| held.simulated));
    if measured.is_empty() {
        return chart;
    }
    chart.marked(format!("{name}, modelled"), Ink::nth(hue), modelled).stated(
        format!("{name}, measured"),
        Ink::nth(hue),
        measured,
    )
}

fn throughput(title: &str, group: &[&HeldPoint]) -> Picture {
    let (x, at) = axis(group);
    let chart = Chart::new(x, Axis::linear("I/Os per second", Unit::Iops));
    let chart = series(chart, "throughput", 0, group, at, |figure| matches!(figure, Figure::Iops(_)));
    Picture::new(format!("{title}: throughput"), "Stars were measured on the real drive.", chart)
}

fn latency(title: &str, group: &[&HeldPoint]) -> Picture {
    let (x, at) = axis(group);
    let mut chart = Chart::new(x, Axis::log("latency", Unit::Nanoseconds));
    chart = series(chart, "mean", 0, group, at, |figure| matches!(figure, Figure::Mean(_)));
    for (hue, share) in [(1, 50.0), (2, 99.0)] {
        let is = |figure: Figure| matches!(figure, Figure::Percentile(_, own) if own == share);
        chart = series(chart, &format!("p{share}"), hue, group, at, is);
    }
    Picture::new(format!("{title}: latency"), "Stars were measured on the real drive.", chart)
}
