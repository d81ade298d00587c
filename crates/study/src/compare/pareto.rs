//! Throughput beside cost, where drives have a price: which points no other point beats in both.

use super::comparison::Comparison;
use super::figures::Metric;
use super::plan::describe;
use crate::report::{Axis, Chart, Figure, Ink, Section, Unit};
use byteway_console::table::rate;

/// A point: what a drive costs, and what all do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Priced {
    pub(super) dollars: f64,
    pub(super) bytes_per_second: f64,
    pub(super) name: String,
}

/// The points that no other point beats: none is as cheap and faster, or as fast and cheaper. From the cheapest to the fastest.
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

/// The points of a comparison that have a price; fewer than two are no choice.
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

/// None, if no drive has a price.
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
        Axis::linear("a drive, dollars", Unit::Count),
        Axis::linear("throughput of the box", Unit::BytesPerSecond),
    )
    .marked("no other point beats these", Ink::nth(0), line);
    for (index, point) in others.iter().take(OTHERS_MAX).enumerate() {
        chart = chart.stated(point.name.clone(), Ink::nth(1 + index), vec![at(point)]);
    }
    let said = |point: &&Priced| {
        format!("{}: {:.2} dollars, {}", point.name, point.dollars, rate(point.bytes_per_second))
    };
    Some(
        Section::new("Throughput by cost")
            .text("What is cheaper and faster is better: to the upper left. The points that no other beats, from the cheapest on:")
            .list(front.iter().map(said))
            .figure(Figure::new("Pareto front", "Higher and further left is better.", chart).wide()),
    )
}

/// Points that are shown beside the front: more could not be told apart.
const OTHERS_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    // A front with a point that another one beats would have someone buy the worse box.
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
