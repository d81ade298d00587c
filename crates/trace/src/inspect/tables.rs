//! Tables with the result of an inspection, for the terminal.

use std::fmt::Write as _;

use super::inspection::{Curve, Inspection, Peak};
use crate::Kind;
use byteway_text::table::{
    Cell, Column, Printout, Quantity, TextTable, Width, binary_bytes, grouped, number, percent, time,
};
use byteway_text::units::Bytes;

/// Length of the bar for a miss ratio of 1, in characters.
const BAR: usize = 40;

impl Inspection {
    /// Tables at most 80 columns wide.
    pub fn to_tables(&self) -> String {
        self.tables(Width::Narrow)
    }

    /// Tables of this width.
    pub fn tables(&self, width: Width) -> String {
        let mut out = Printout::new(width);
        let _ = writeln!(out, "{}: {}", self.trace, self.assumption);
        let devices = match (self.device, self.device_count) {
            (Some(device), _) => format!("device {device} only"),
            (None, 1) => "one device".to_owned(),
            (None, count) => format!("{} devices", grouped(count)),
        };
        let _ = writeln!(
            out,
            "{} I/Os of {} in {}, {devices}",
            grouped(self.records),
            binary_bytes(self.bytes),
            time(self.duration_ns)
        );
        if self.partial {
            let _ = writeln!(out, "PARTIAL: interrupted; the figures cover the beginning of the trace");
        }
        out.section("What is done", &self.shares());
        out.section("Sizes", &self.size_table());
        out.section("Most frequent sizes", &self.frequent());
        out.section("Arrivals", &self.arrival_table());
        out.section("Addresses", &self.address_table());
        out.section(&self.devices_title(), &self.device_table());
        out.section(&self.footprint_title(), &self.footprint_table());
        out.section("How soon a unit comes again, in bytes between", &self.distances());
        if let Some(curve) = &self.miss_ratio_curve {
            let title = format!(
                "Miss ratio of a cache of {} units that replaces the least recently used",
                Bytes(curve.unit_bytes)
            );
            out.section(&title, &chart(curve));
            let _ = writeln!(out, "{}", method(curve));
        }
        if !self.notes.is_empty() {
            let _ = writeln!(out);
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        out.finish()
    }

    fn shares(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text(""),
            Column::count("I/Os"),
            Column::of("share", Quantity::Share),
            size("bytes"),
            Column::of("share of bytes", Quantity::Share),
        ]);
        for row in self.kinds.iter().filter(|row| row.records > 0) {
            let counts = [name(row.kind).into(), row.records.into(), row.share.into()];
            table.row(counts.into_iter().chain([bytes(row.bytes), row.bytes_share.into()]));
        }
        table
    }

    fn size_table(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text(""),
            size("mean"),
            size("min").same_unit(),
            size("p50").same_unit(),
            size("p90").same_unit(),
            size("p99").same_unit(),
            size("max").same_unit(),
        ]);
        for sizes in &self.sizes {
            let kind = sizes.kind.map_or("all", name).into();
            let columns =
                [sizes.min_bytes, sizes.p50_bytes, sizes.p90_bytes, sizes.p99_bytes, sizes.max_bytes];
            table.row([kind, sizes.mean_bytes.into()].into_iter().chain(columns.map(bytes)));
        }
        table
    }

    fn frequent(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text(""),
            size("size"),
            Column::count("I/Os"),
            Column::of("share", Quantity::Share),
        ]);
        for sizes in self.sizes.iter().filter(|sizes| sizes.kind.is_some()) {
            for row in &sizes.frequent {
                let kind = sizes.kind.map_or("", name);
                table.row([kind.into(), bytes(row.bytes), row.records.into(), row.share.into()]);
            }
        }
        table
    }

    fn arrival_table(&self) -> TextTable {
        let mut table = TextTable::new([Column::text(""), Column::count("value")]);
        let Some(arrivals) = &self.arrivals else { return table };
        let mut add = |what: &str, value: String| table.row([what.into(), value.into()]);
        let mean =
            arrivals.mean_iops.map_or("all at once".to_owned(), |iops| format!("{} IOPS", number(iops)));
        add("mean rate", mean);
        let peak = |peak: &Peak| format!("{} IOPS, from {}", grouped(peak.iops as u64), time(peak.at_ns));
        add("busiest second", peak(&arrivals.peak_second));
        add("busiest 100 ms", peak(&arrivals.peak_100ms));
        let dispersion = |value: Option<f64>| value.map_or("too short".to_owned(), number);
        add("dispersion of seconds (1: independent)", dispersion(arrivals.dispersion_second));
        add("dispersion of 100 ms", dispersion(arrivals.dispersion_100ms));
        if let Some(gaps) = &arrivals.gaps {
            add("gap, mean", time(gaps.mean_ns));
            for (what, ns) in [
                ("gap, p50", gaps.p50_ns),
                ("gap, p90", gaps.p90_ns),
                ("gap, p99", gaps.p99_ns),
                ("gap, p99.9", gaps.p99_9_ns),
            ] {
                add(what, time(ns as f64));
            }
            add("gap, longest", time(gaps.max_ns));
            add("no gap", percent(gaps.zero_share));
            if let Some(variation) = gaps.variation {
                add("gaps' variance over mean squared (1: independent)", number(variation));
            }
        }
        table
    }

    fn address_table(&self) -> TextTable {
        let addresses = &self.addresses;
        let mut table = TextTable::new([Column::text(""), Column::count("value")]);
        let rows = [
            ("lowest", binary_bytes(addresses.lowest_bytes)),
            ("end", binary_bytes(addresses.end_bytes)),
            ("sequential (begin where the device's last one ended)", percent(addresses.sequential_share)),
            ("begin at a multiple of 4 KiB", percent(addresses.begin_aligned_share)),
            ("begin and end at one", percent(addresses.aligned_share)),
        ];
        for (what, value) in rows.into_iter().filter(|_| self.records > 0) {
            table.row([what.into(), value.into()]);
        }
        table
    }

    fn devices_title(&self) -> String {
        match self.device_count > self.devices.len() as u64 {
            true => format!("The {} busiest devices", self.devices.len()),
            false => "Devices".to_owned(),
        }
    }

    fn device_table(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::count("device"),
            Column::count("I/Os"),
            Column::of("share", Quantity::Share),
            size("bytes"),
            Column::of("reads", Quantity::Share),
            Column::of("sequential", Quantity::Share),
            size("lowest").rank(2),
            size("end").same_unit().rank(1),
        ]);
        for row in self.devices.iter().filter(|_| self.device_count > 1) {
            table.row([
                row.device.to_string().into(),
                row.records.into(),
                row.share.into(),
                bytes(row.bytes),
                row.read_share.into(),
                row.sequential_share.into(),
                bytes(row.lowest_bytes),
                bytes(row.end_bytes),
            ]);
        }
        table
    }

    fn footprint_title(&self) -> String {
        let footprint = &self.footprint;
        let how = match footprint.exact {
            true => "exact".to_owned(),
            false => format!("estimated from 1 unit in {}", (1.0 / footprint.sampling_rate) as u64),
        };
        format!("Footprint: distinct units of {} ({how})", Bytes(footprint.unit_bytes))
    }

    fn footprint_table(&self) -> TextTable {
        let footprint = &self.footprint;
        let mut table = TextTable::new([Column::text(""), Column::count("units"), size("size")]);
        let rows = [
            ("read", footprint.read_units),
            ("written", footprint.written_units),
            ("both", footprint.both_units),
            ("in all", footprint.units),
            ("accesses", footprint.accesses),
        ];
        for (what, units) in rows.into_iter().filter(|_| footprint.accesses > 0) {
            table.row([what.into(), units.into(), bytes(units.saturating_mul(footprint.unit_bytes))]);
        }
        table
    }

    fn distances(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text(""),
            Column::of("share", Quantity::Share),
            size("p10").rank(1),
            size("p50").same_unit(),
            size("p90").same_unit(),
            size("p99").same_unit(),
        ]);
        let mut add = |what: &str, share: f64, distances: [u64; 4]| {
            table.row([what.into(), share.into()].into_iter().chain(distances.map(bytes)));
        };
        if let Some(reuse) = &self.reuse {
            let distances = [reuse.p10_bytes, reuse.p50_bytes, reuse.p90_bytes, reuse.p99_bytes];
            add("accessed again (distinct units between)", 1.0 - reuse.first_touch_share, distances);
        }
        if let Some(updates) = &self.updates {
            let distances = [updates.p10_bytes, updates.p50_bytes, updates.p90_bytes, updates.p99_bytes];
            add("written again (all writes between)", updates.share, distances);
        }
        table
    }
}

/// A column of sizes.
fn size(heading: &str) -> Column {
    Column::of(heading, Quantity::BinaryBytes)
}

fn bytes(bytes: u64) -> Cell {
    (bytes as f64).into()
}

/// The curve with a bar for each size.
fn chart(curve: &Curve) -> TextTable {
    let misses = Column::of("misses", Quantity::Share);
    let mut table =
        TextTable::new([Column::count("cache"), Column::count("units"), misses, Column::text("")]);
    for point in &curve.points {
        let size = binary_bytes(point.bytes).into();
        table.row([size, point.units.into(), point.miss_ratio.into(), bar(point.miss_ratio).into()]);
    }
    table
}

/// A bar in eighths of a character.
fn bar(ratio: f64) -> String {
    const PARTS: [&str; 8] =
        ["", "\u{258f}", "\u{258e}", "\u{258d}", "\u{258c}", "\u{258b}", "\u{258a}", "\u{2589}"];
    let eighths = (ratio.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    format!("{}{}", "\u{2588}".repeat(eighths / 8), PARTS[eighths % 8])
}

fn method(curve: &Curve) -> String {
    match curve.seed.filter(|_| !curve.exact) {
        Some(seed) => format!(
            "SHARDS, {} units sampled (rate {:.6}, seed {seed}); sizes below {} units are not told apart\n{}",
            grouped(curve.sampled_units),
            curve.sampling_rate,
            curve.resolution_units,
            curve.basis
        ),
        None => curve.basis.clone(),
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Trim => "trim",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_to_scale() {
        assert_eq!(bar(1.0).chars().count(), BAR);
        assert_eq!((bar(0.0).as_str(), bar(0.0125).as_str()), ("", "\u{258c}"));
        assert_eq!(bar(0.5), "\u{2588}".repeat(20));
    }
}
