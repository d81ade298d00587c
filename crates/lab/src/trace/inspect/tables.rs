//! The result of an inspection for the terminal.

use std::fmt::Write as _;

use comfy_table::Table;

use super::inspection::{Curve, Inspection, Peak};
use crate::summary::{filled, grouped, new_table, percent, section, time};
use crate::units::Bytes;
use crate::workload::Kind;

/// Length of the bar of a miss ratio of 1.
const BAR: usize = 40;

impl Inspection {
    /// The tables of the terminal.
    pub fn to_tables(&self) -> String {
        let mut out = String::new();
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
            size(self.bytes),
            time(self.duration_ns)
        );
        if self.partial {
            let _ = writeln!(out, "PARTIAL: interrupted; the figures cover the beginning of the trace");
        }
        section(&mut out, "What is done", self.shares());
        section(&mut out, "Sizes", self.size_table());
        section(&mut out, "Most frequent sizes", self.frequent());
        section(&mut out, "Arrivals", self.arrival_table());
        section(&mut out, "Addresses", self.address_table());
        section(&mut out, &self.devices_title(), self.device_table());
        section(&mut out, &self.footprint_title(), self.footprint_table());
        section(&mut out, "How soon a unit comes again, in bytes between", self.distances());
        if let Some(curve) = &self.miss_ratio_curve {
            let title = format!(
                "Miss ratio of a cache of {} units that replaces the least recently used",
                Bytes(curve.unit_bytes)
            );
            section(&mut out, &title, chart(curve));
            let _ = writeln!(out, "{}", method(curve));
        }
        if !self.notes.is_empty() {
            out.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        out
    }

    fn shares(&self) -> Option<Table> {
        let mut table = new_table(&["", "I/Os", "share", "bytes", "share of bytes"], 1);
        for row in self.kinds.iter().filter(|row| row.records > 0) {
            table.add_row([
                name(row.kind).to_owned(),
                grouped(row.records),
                percent(row.share),
                size(row.bytes),
                percent(row.bytes_share),
            ]);
        }
        filled(table)
    }

    fn size_table(&self) -> Option<Table> {
        let mut table = new_table(&["", "mean", "min", "p50", "p90", "p99", "max"], 1);
        for sizes in &self.sizes {
            let mut row = vec![sizes.kind.map_or("all", name).to_owned(), size(sizes.mean_bytes as u64)];
            let columns =
                [sizes.min_bytes, sizes.p50_bytes, sizes.p90_bytes, sizes.p99_bytes, sizes.max_bytes];
            row.extend(columns.map(size));
            table.add_row(row);
        }
        filled(table)
    }

    fn frequent(&self) -> Option<Table> {
        let mut table = new_table(&["", "size", "I/Os", "share"], 1);
        for sizes in self.sizes.iter().filter(|sizes| sizes.kind.is_some()) {
            for row in &sizes.frequent {
                let kind = sizes.kind.map_or("", name);
                table.add_row([
                    kind.to_owned(),
                    Bytes(row.bytes).to_string(),
                    grouped(row.records),
                    percent(row.share),
                ]);
            }
        }
        filled(table)
    }

    fn arrival_table(&self) -> Option<Table> {
        let arrivals = self.arrivals.as_ref()?;
        let mut table = new_table(&["", "value"], 1);
        let mut add = |what: &str, value: String| {
            table.add_row([what.to_owned(), value]);
        };
        let mean = arrivals.mean_iops.map_or("all at once".to_owned(), |iops| format!("{iops:.1} IOPS"));
        add("mean rate", mean);
        let peak = |peak: &Peak| format!("{} IOPS, from {}", grouped(peak.iops as u64), time(peak.at_ns));
        add("busiest second", peak(&arrivals.peak_second));
        add("busiest 100 ms", peak(&arrivals.peak_100ms));
        let dispersion =
            |value: Option<f64>| value.map_or("too short".to_owned(), |value| format!("{value:.2}"));
        add("dispersion of seconds (1: independent, more: bursts)", dispersion(arrivals.dispersion_second));
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
                add("gaps' variance over mean squared (1: independent)", format!("{variation:.2}"));
            }
        }
        filled(table)
    }

    fn address_table(&self) -> Option<Table> {
        let addresses = &self.addresses;
        let mut table = new_table(&["", "value"], 1);
        if self.records > 0 {
            table.add_row(["lowest".to_owned(), size(addresses.lowest_bytes)]);
            table.add_row(["end".to_owned(), size(addresses.end_bytes)]);
            table.add_row([
                "sequential (begin where the device's last one ended)".to_owned(),
                percent(addresses.sequential_share),
            ]);
            table
                .add_row(["begin at a multiple of 4 KiB".to_owned(), percent(addresses.begin_aligned_share)]);
            table.add_row(["begin and end at one".to_owned(), percent(addresses.aligned_share)]);
        }
        filled(table)
    }

    fn devices_title(&self) -> String {
        match self.device_count > self.devices.len() as u64 {
            true => format!("The {} busiest devices", self.devices.len()),
            false => "Devices".to_owned(),
        }
    }

    fn device_table(&self) -> Option<Table> {
        let header = ["device", "I/Os", "share", "bytes", "reads", "sequential", "lowest", "end"];
        let mut table = new_table(&header, 1);
        for row in self.devices.iter().filter(|_| self.device_count > 1) {
            table.add_row([
                row.device.to_string(),
                grouped(row.records),
                percent(row.share),
                size(row.bytes),
                percent(row.read_share),
                percent(row.sequential_share),
                size(row.lowest_bytes),
                size(row.end_bytes),
            ]);
        }
        filled(table)
    }

    fn footprint_title(&self) -> String {
        let footprint = &self.footprint;
        let how = match footprint.exact {
            true => "exact".to_owned(),
            false => format!("estimated from 1 unit in {}", (1.0 / footprint.sampling_rate) as u64),
        };
        format!("Footprint: distinct units of {} ({how})", Bytes(footprint.unit_bytes))
    }

    fn footprint_table(&self) -> Option<Table> {
        let footprint = &self.footprint;
        let mut table = new_table(&["", "units", "size"], 1);
        let rows = [
            ("read", footprint.read_units),
            ("written", footprint.written_units),
            ("both", footprint.both_units),
            ("in all", footprint.units),
            ("accesses", footprint.accesses),
        ];
        for (what, units) in rows.into_iter().filter(|_| footprint.accesses > 0) {
            table.add_row([
                what.to_owned(),
                grouped(units),
                size(units.saturating_mul(footprint.unit_bytes)),
            ]);
        }
        filled(table)
    }

    fn distances(&self) -> Option<Table> {
        let mut table = new_table(&["", "share of all", "p10", "p50", "p90", "p99"], 1);
        if let Some(reuse) = &self.reuse {
            table.add_row([
                "accessed again (distinct units between)".to_owned(),
                percent(1.0 - reuse.first_touch_share),
                size(reuse.p10_bytes),
                size(reuse.p50_bytes),
                size(reuse.p90_bytes),
                size(reuse.p99_bytes),
            ]);
        }
        if let Some(updates) = &self.updates {
            table.add_row([
                "written again (all writes between)".to_owned(),
                percent(updates.share),
                size(updates.p10_bytes),
                size(updates.p50_bytes),
                size(updates.p90_bytes),
                size(updates.p99_bytes),
            ]);
        }
        filled(table)
    }
}

/// The curve with a bar for each size.
fn chart(curve: &Curve) -> Option<Table> {
    let mut table = new_table(&["cache", "units", "misses", ""], 0);
    for point in &curve.points {
        table.add_row([
            size(point.bytes),
            grouped(point.units),
            percent(point.miss_ratio),
            bar(point.miss_ratio),
        ]);
    }
    for index in 0..3 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    if let Some(column) = table.column_mut(3) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    filled(table)
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

/// A size, to three digits or more.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let index = (bytes.max(1).ilog2() / 10) as usize;
    let scale = 1u64 << (10 * index);
    match bytes.is_multiple_of(scale) {
        true => format!("{} {}", bytes / scale, units[index]),
        false => format!("{:.2} {}", bytes as f64 / scale as f64, units[index]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The figures that people quote; a unit off by 1024 is believed.
    #[test]
    fn sizes_and_bars_are_to_scale() {
        let shown = [0, 1, 1023, 1024, 1536, 1 << 20, (1 << 30) + (1 << 29), 1 << 63, u64::MAX].map(size);
        let expected =
            ["0 B", "1 B", "1023 B", "1 KiB", "1.50 KiB", "1 MiB", "1.50 GiB", "8 EiB", "16.00 EiB"];
        assert_eq!(shown, expected);
        assert_eq!(bar(1.0).chars().count(), BAR);
        assert_eq!((bar(0.0).as_str(), bar(0.0125).as_str()), ("", "\u{258c}"));
        assert_eq!(bar(0.5), "\u{2588}".repeat(20));
    }
}
