//! The section on traffic on the link.

use super::flow::{elapsed, with_warmup};
use super::kinds::per_io;
use super::steps::Steps;
use crate::{Axis, Chart, Figure, Ink, Section, Table, Unit};
use byteway_link::Direction;
use byteway_results::results::{Crossing, Point};
use byteway_results::summary::{LinkRow, Summary, link_table};
use byteway_text::table::bytes;

pub(super) fn link(steps: &Steps, summary: &Summary) -> Option<Section> {
    if summary.link.is_empty() {
        return None;
    }
    let mut section = Section::new("The link").text(
        "Bytes by purpose, in two ledgers: payload is what a performance counter of the root complex sees; wire is what \
         is actually transferred, with the headers, checksums and framing of each packet. The directions are separate, since they \
         do not share the link's bandwidth.",
    );
    let most = summary.link.iter().map(|row| per_io(row.wire_bytes, summary.ios)).fold(0.0, f64::max);
    for (direction, title) in [(Direction::Down, "To the device"), (Direction::Up, "To the host")] {
        let rows: Vec<&LinkRow> =
            summary.link.iter().filter(|row| row.direction == direction.name()).collect();
        let names = rows.iter().map(|row| row.purpose.clone());
        let of = |count: fn(&LinkRow) -> u64| -> (Vec<f64>, Vec<String>) {
            let mean = |row: &&LinkRow| per_io(count(row), summary.ios);
            rows.iter().map(|row| (mean(row), bytes(mean(row)))).unzip()
        };
        let (payload, payload_labels) = of(|row| row.payload_bytes);
        let (wire, wire_labels) = of(|row| row.wire_bytes);
        // Leave space for the label of the longest bar.
        let bytes = Axis::linear("mean bytes per I/O", Unit::Bytes).range(0.0, most.max(1.0) * 1.25);
        let chart = Chart::new(bytes, Axis::names("", names))
            .labelled_bars("payload", Ink::nth(0), payload, payload_labels)
            .labelled_bars("wire", Ink::nth(1), wire, wire_labels)
            .height(130 + 52 * rows.len());
        let caption = "Mean bytes per I/O over all jobs, by purpose.";
        section = section.figure(Figure::new(title, caption, chart));
    }

    let table = Table::from(link_table(&summary.link, summary.ios));
    section = section.table(table.caption("Bytes in the measured part; crossings are packets"));

    if steps.has_drive() {
        let (down, up) = (Ink::nth(0), Ink::nth(1));
        let of = |crossing: fn(&Point) -> Option<Crossing>| {
            move |point: &Point| crossing(point).unwrap_or_default()
        };
        let to_device = of(|point| point.drive.as_ref().map(|drive| drive.link_down));
        let to_host = of(|point| point.drive.as_ref().map(|drive| drive.link_up));
        let use_of = Chart::new(elapsed(), Axis::linear("utilization", Unit::Share).range(0.0, 1.0))
            .steps("to the device", down, steps.line(|point| to_device(point).busy))
            .steps("to the host", up, steps.line(|point| to_host(point).busy));
        let rate = Chart::new(elapsed(), Axis::linear("bytes on the wire", Unit::BytesPerSecond))
            .steps("to the device", down, steps.per_second(|point| to_device(point).wire_bytes))
            .steps("to the host", up, steps.per_second(|point| to_host(point).wire_bytes))
            .steps(
                "to the device, payload",
                Ink::of(5, 2),
                steps.per_second(|point| to_device(point).payload_bytes),
            )
            .steps(
                "to the host, payload",
                Ink::of(4, 2),
                steps.per_second(|point| to_host(point).payload_bytes),
            );
        section = section
            .figure(Figure::new(
                "Link utilization over time",
                "Share of each step in which a direction carried a packet. At 100 % the link is the bottleneck.",
                with_warmup(use_of, steps),
            ))
            .figure(Figure::new(
                "Bytes on the link over time",
                "The difference between a wire line and its payload line is headers and framing.",
                with_warmup(rate, steps),
            ));
    }
    Some(section)
}
