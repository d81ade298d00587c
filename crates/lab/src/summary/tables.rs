//! The tables of the terminal.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

use super::{ClockKind, FlashUser, KindSummary, LinkRow, Summary, ratio};
use crate::profile::Completion;

impl Summary {
    /// The tables of the terminal.
    pub fn to_tables(&self) -> String {
        let mut out = String::new();
        let completion = match self.completion {
            Completion::Polled => "polled",
            Completion::Interrupt => "by interrupt",
        };
        let _ = writeln!(
            out,
            "{}: {}, {}, seed {}; completions {completion}{}",
            self.scenario,
            self.drive_model,
            crate::units::Bytes(self.capacity_bytes),
            self.seed,
            self.host_profile.as_ref().map(|name| format!(" ({name})")).unwrap_or_default()
        );
        let clock = match self.clock {
            ClockKind::Virtual => "virtual",
            ClockKind::Wall => "wall",
        };
        let _ = writeln!(
            out,
            "{} I/Os in {} of {clock} time: {} IOPS, {}",
            grouped(self.ios),
            time(self.elapsed_ns),
            grouped(self.iops as u64),
            rate(self.bytes_per_second)
        );
        if self.partial {
            let _ = writeln!(out, "PARTIAL: the run was interrupted; the figures cover what had completed");
        }
        match &self.kv {
            Some(kv) => kv.write_tables(&mut out),
            None => {
                section(&mut out, "Throughput", self.throughput());
                section(&mut out, "Latency", self.latency());
            }
        }
        section(&mut out, "Where the time of an I/O goes", self.time_spent());
        section(&mut out, LINK_TITLE, link_table(&self.link, self.ios));
        if let Some(transfer) = &self.transfer {
            let _ = writeln!(out, "\n{}", transfer.sentence());
        }
        section(&mut out, "In use", self.in_use());
        section(&mut out, "Flash", self.flash_operations());
        if let Some(upkeep) = &self.upkeep {
            upkeep.write_tables(&mut out);
        }
        section(&mut out, "Failed commands", self.failed());
        let verification = &self.verification;
        match (verification.on, verification.mismatches) {
            (false, _) => {
                let why = match self.clock {
                    ClockKind::Virtual => "host.verify = false",
                    ClockKind::Wall => "--no-verify",
                };
                let _ = writeln!(out, "\nData was not verified ({why})");
            }
            (true, 0) if self.transfer.as_ref().is_some_and(|transfer| transfer.is_sink) => {
                out.push_str("\nVerified: every payload by the drive's checksum, every read byte by byte\n");
            }
            (true, 0) if verification.reads == 0 => {
                out.push_str("\nNothing was read, so nothing was verified\n")
            }
            (true, 0) if self.kv.is_some() => {
                let reads = grouped(verification.reads);
                let _ =
                    writeln!(out, "\n{reads} answers verified: every value, and every key that was missing");
            }
            (true, 0) => {
                let _ = writeln!(
                    out,
                    "\n{} reads verified: every block as it was written",
                    grouped(verification.reads)
                );
            }
            (true, wrong) => {
                let _ = writeln!(
                    out,
                    "\nDATA MISMATCH: {} of {} reads did not return what was written",
                    grouped(wrong),
                    grouped(verification.reads)
                );
            }
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        out
    }

    fn kinds(&self) -> impl Iterator<Item = (&str, &str, &KindSummary)> {
        self.jobs.iter().flat_map(|job| {
            [("read", &job.read), ("write", &job.write), ("trim", &job.trim)]
                .into_iter()
                .filter_map(|(kind, summary)| Some((job.name.as_str(), kind, summary.as_ref()?)))
        })
    }

    fn throughput(&self) -> Option<Table> {
        let mut table = new_table(&["job", "", "I/Os", "IOPS", "throughput"], 2);
        for (job, kind, found) in self.kinds() {
            table.add_row([
                job.to_owned(),
                kind.to_owned(),
                grouped(found.ios),
                grouped(found.iops as u64),
                rate(found.bytes_per_second),
            ]);
        }
        filled(table)
    }

    fn latency(&self) -> Option<Table> {
        let header = ["job", "", "mean", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"];
        let mut table = new_table(&header, 2);
        for (job, kind, found) in self.kinds() {
            let latency = &found.latency;
            let mut row = vec![job.to_owned(), kind.to_owned(), time(latency.mean_ns)];
            let percentiles = [
                latency.p50_ns,
                latency.p90_ns,
                latency.p95_ns,
                latency.p99_ns,
                latency.p99_9_ns,
                latency.p99_99_ns,
            ];
            row.extend(percentiles.iter().map(|ns| time(*ns as f64)));
            row.push(time(latency.max_ns));
            table.add_row(row);
        }
        filled(table)
    }

    fn time_spent(&self) -> Option<Table> {
        let mut table = new_table(&["span", "mean", "share"], 1);
        for row in self.spans.iter().filter(|row| row.mean_ns > 0.0) {
            table.add_row([row.span.clone(), time(row.mean_ns), percent(row.share)]);
        }
        filled(table)
    }

    fn in_use(&self) -> Option<Table> {
        let mut table = new_table(&["resource", "count", "mean", "least", "most"], 1);
        for row in &self.utilisation {
            table.add_row([
                row.resource.clone(),
                grouped(row.count),
                percent(row.mean),
                percent(row.min),
                percent(row.max),
            ]);
        }
        filled(table)
    }

    fn flash_operations(&self) -> Option<Table> {
        let flash = self.flash?;
        let more = flash.others();
        let header = ["", "host", "collection"].into_iter().chain(more.iter().map(|other| other.name));
        let mut table = new_table(&header.collect::<Vec<_>>(), 1);
        let mut row = |what: &str, host: String, collect: String, of: fn(&FlashUser) -> u64| {
            let rest = more.iter().map(|other| match of(other) {
                0 => String::new(),
                count => grouped(count),
            });
            table.add_row([what.to_owned(), host, collect].into_iter().chain(rest));
        };
        row("pages read", grouped(flash.host_reads), grouped(flash.collect_reads), |other| other.reads);
        let programs = (grouped(flash.host_programs), grouped(flash.collect_programs));
        row("pages programmed", programs.0, programs.1, |other| other.programs);
        row("blocks erased", String::new(), grouped(flash.erases), |_| 0);
        if let Some(amplification) = self.write_amplification {
            row("write amplification", format!("{amplification:.3}"), String::new(), |_| 0);
        }
        filled(table)
    }

    fn failed(&self) -> Option<Table> {
        let mut table = new_table(&["status", "commands"], 1);
        for row in &self.errors {
            table.add_row([row.status.clone(), grouped(row.count)]);
        }
        filled(table)
    }
}

/// A table with its title, if there is anything in it.
pub(crate) fn section(out: &mut String, title: &str, table: Option<Table>) {
    if let Some(table) = table {
        let _ = writeln!(out, "\n{title}\n{}", table.trim_fmt());
    }
}

/// What stands above [`link_table`].
pub(crate) const LINK_TITLE: &str = "The link, by purpose (payload as a counter sees it, wire with headers)";

/// What crossed the link for `ios` I/Os, in both ledgers.
pub(crate) fn link_table(rows: &[LinkRow], ios: u64) -> Option<Table> {
    let header = ["purpose", "direction", "crossings", "payload", "wire", "payload / I/O", "wire / I/O"];
    let mut table = new_table(&header, 2);
    let ios = u128::from(ios);
    let mut add =
        |purpose: &str, direction: &str, crossings: Option<u64>, payload_bytes: u64, wire_bytes: u64| {
            table.add_row([
                purpose.to_owned(),
                direction.to_owned(),
                crossings.map(grouped).unwrap_or_default(),
                grouped(payload_bytes),
                grouped(wire_bytes),
                format!("{:.1} B", ratio(payload_bytes.into(), ios)),
                format!("{:.1} B", ratio(wire_bytes.into(), ios)),
            ]);
        };
    let rows = || rows.iter().filter(|row| row.wire_bytes > 0);
    for row in rows() {
        add(&row.purpose, &row.direction, Some(row.crossings), row.payload_bytes, row.wire_bytes);
    }
    let payload_bytes = rows().map(|row| row.payload_bytes).fold(0, u64::saturating_add);
    let wire_bytes = rows().map(|row| row.wire_bytes).fold(0, u64::saturating_add);
    if rows().next().is_some() {
        add("all", "", None, payload_bytes, wire_bytes);
    }
    filled(table)
}

/// One rule, below the header.
const RULED: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('\u{2500}').junction('\u{2500}'));

/// A table of which the columns from `numbers` on hold numbers. Its width follows its contents, never the terminal:
/// the same run prints the same bytes everywhere.
pub(crate) fn new_table(header: &[&str], numbers: usize) -> Table {
    let mut table = Table::new();
    table.load_style(RULED).force_no_tty().set_header(header);
    for index in numbers..header.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

pub(crate) fn filled(table: Table) -> Option<Table> {
    (!table.is_empty()).then_some(table)
}

/// 1234567 as 1,234,567.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.3} s", ns / 1e9),
    }
}

pub(crate) fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second {
        rate if rate < 1e6 => format!("{:.1} kB/s", rate / 1e3),
        rate if rate < 1e9 => format!("{:.1} MB/s", rate / 1e6),
        rate => format!("{:.2} GB/s", rate / 1e9),
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
