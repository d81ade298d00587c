//! The Pareto front of throughput and cost, where drives have a price.

use super::comparison::Comparison;
use super::plan::describe;
use byteway_report::{Axis, Chart, Figure, Ink, Section, Unit};
use byteway_results::figures::Metric;
use byteway_text::table::rate;

/// A point: price of a drive, and throughput of all.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Priced {
    pub(super) dollars: f64,
    pub(super) bytes_per_second: f64,
    pub(super) name: String,
}

/// The points that no other point dominates (as cheap and faster, or as fast and cheaper), from the cheapest
/// to the fastest.
pub(super) fn front(points: &[Priced]) -> Vec<&Priced> {
    let mut sorted: Vec<&Priced> = points.iter().collect();
    sorted.sort_by(|a, b| {
        a.dollars.total_cmp(&b.dollars).then(b.bytes_per_second.total_cmp(&a.bytes_per_second))
    });
    let mut most = f64::NEG_INFINITY;
    sorted.retain(|point| {
        let is_faster = point.bytes_per_second > most;
        most = most.max(point.bytes_per_second);
        is_faster
    });
    sorted
}

/// The priced points of a comparison; empty for fewer than two.
pub(super) fn priced(comparison: &Comparison) -> Vec<Priced> {
    let of = |point: &super::comparison::Point| {
        let figures = point.seen.figures?;
        Some(Priced {
            dollars: figures.get(Metric::DriveDollars)?,
            bytes_per_second: figures.get(Metric::BytesPerSecond)?,
            name: describe(&comparison.axes, &point.seen.choice),
        })
    };
    comparison.points.iter().filter_map(of).collect()
}

/// `None` if no drive has a price.
pub(super) fn section(comparison: &Comparison) -> Option<Section> {
    let points = priced(comparison);
    if points.len() < 2 {
        return None;
    }
    let front = front(&points);
    let at = |point: &Priced| (point.dollars, point.bytes_per_second);
    let line: Vec<(f64, f64)> = front.iter().map(|point| at(point)).collect();
    let others: Vec<&Priced> = points.iter().filter(|point| !front.contains(point)).collect();
    let mut chart = Chart::new(
        Axis::linear("cost of a drive, dollars", Unit::Count),
        Axis::linear("throughput of the JBOF", Unit::BytesPerSecond),
    )
    .marked("Pareto-optimal points", Ink::nth(0), line);
    for (index, point) in others.iter().take(OTHERS_MAX).enumerate() {
        chart = chart.stated(point.name.clone(), Ink::nth(1 + index), vec![at(point)]);
    }
    let said = |point: &&Priced| {
        format!("{}: {:.2} dollars, {}", point.name, point.dollars, rate(point.bytes_per_second))
    };
    let chance = match comparison.repeat.is_several() {
        true => " The front is that of the means: by chance a point close to it may be on it.",
        false => "",
    };
    Some(
        Section::new("Throughput by cost")
            .text("Cheaper and faster points, to the upper left, are better. The Pareto-optimal points, from the cheapest on:")
            .list(front.iter().map(said))
            .figure(Figure::new("Pareto front", format!("Higher and further left is better.{}{chance}", undrawn(others.len())), chart).wide()),
    )
}

/// Points shown next to the front, at most; more cannot be distinguished.
const OTHERS_MAX: usize = 12;

/// A note on points that the chart omits.
fn undrawn(others: usize) -> String {
    match others.saturating_sub(OTHERS_MAX) {
        0 => String::new(),
        left => format!(" {left} of the {others} dominated points are not drawn; the table has all."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A point that is silently missing looks like one that was not run.
    #[test]
    fn what_is_not_drawn_is_said() {
        assert_eq!(undrawn(12), "");
        assert!(undrawn(15).contains("3 of the 15 dominated points"), "{}", undrawn(15));
    }

    // With a dominated point on the front a reader would choose the worse JBOF.
    #[test]
    fn no_point_of_the_front_is_beaten() {
        let point = |dollars, bytes_per_second| Priced { dollars, bytes_per_second, name: String::new() };
        let points = [
            point(3.0, 5.0),
            point(1.0, 1.0),
            point(2.0, 4.0),
            point(2.0, 3.0),
            point(2.5, 4.0),
            point(4.0, 5.0),
        ];
        let found: Vec<(f64, f64)> = front(&points).iter().map(|p| (p.dollars, p.bytes_per_second)).collect();
        assert_eq!(found, [(1.0, 1.0), (2.0, 4.0), (3.0, 5.0)]);
        assert!(front(&[]).is_empty());
    }
}
