//! The tables of the terminal.

use std::fmt::Write as _;

use super::{ClockKind, FlashUser, KindSummary, Latency, LinkRow, PathRow, Summary};
use byteway_console::number::ratio;
use byteway_console::table::{
    Cell, Column, Printout, Quantity, TextTable, Width, grouped, number, rate, time,
};
use byteway_scenario::profile::Completion;

impl Summary {
    /// The tables of the terminal, 80 columns wide.
    pub fn to_tables(&self) -> String {
        self.tables(Width::Narrow)
    }

    /// The tables of the terminal.
    pub fn tables(&self, width: Width) -> String {
        let mut out = Printout::new(width);
        let completion = match self.completion {
            Completion::Polled => "polled",
            Completion::Interrupt => "by interrupt",
        };
        let _ = writeln!(
            out,
            "{}: {}, {}, seed {}; completions {completion}{}",
            self.scenario,
            self.drive_model,
            byteway_console::units::Bytes(self.capacity_bytes),
            self.seed,
            self.host_profile.as_ref().map(|name| format!(" ({name})")).unwrap_or_default()
        );
        let clock = match self.clock {
            ClockKind::Virtual => "virtual",
            ClockKind::Wall => "wall",
        };
        // Deallocating moves no data.
        let moved = match self.bytes_per_second > 0.0 {
            true => format!(", {}", rate(self.bytes_per_second)),
            false => String::new(),
        };
        let _ = writeln!(
            out,
            "{} I/Os in {} of {clock} time: {} IOPS{moved}",
            grouped(self.ios),
            time(self.elapsed_ns),
            grouped(per_second(self.iops)),
        );
        if self.partial {
            let _ = writeln!(out, "PARTIAL: the run was interrupted; the figures cover what had completed");
        }
        if let Some(kv) = &self.kv {
            kv.write_tables(&mut out);
        }
        // Of several drives some may hold pairs, and others blocks.
        let is_of_blocks = |name: &str| {
            let kv = self.kv.iter().flat_map(|kv| &kv.operations);
            kv.into_iter().all(|row| row.job != name)
        };
        let has_several_kinds =
            !self.drives.is_empty() && self.jobs.iter().any(|job| is_of_blocks(&job.name));
        if self.kv.is_none() || has_several_kinds {
            out.section("Throughput", &self.throughput());
            out.section("Latency", &self.latency());
        }
        out.section(DRIVES_TITLE, &self.each_drive());
        out.section("Where the time of an I/O goes", &self.time_spent());
        out.section(LINK_TITLE, &link_table(&self.link, self.ios));
        if let Some(transfer) = &self.transfer {
            let _ = writeln!(out, "\n{}", transfer.sentence());
        }
        if let Some(array) = &self.array {
            out.section("The array", &array.table());
            let _ = writeln!(out, "\n{}", array.sentence());
        }
        if let Some(jbof) = &self.jbof {
            out.section("The box", &jbof.table());
            let _ = writeln!(out, "\n{}", jbof.sentence());
        }
        if let Some(host) = &self.host {
            out.section(HOST_TITLE, &host.processor_table());
            out.section("The host's memory in the end", &host.memory_table());
        }
        if let Some(network) = &self.network {
            out.section(NETWORK_TITLE, &link_table(&network.crossings, self.ios));
            let _ = writeln!(out, "\n{}", network.sentence(self.ios));
        }
        out.section("Paths", &PathRow::table(&self.paths));
        out.section("In use", &self.in_use());
        out.section("Flash", &self.flash_operations());
        if let Some(upkeep) = &self.upkeep {
            upkeep.write_tables(&mut out);
        }
        for drive in &self.drives {
            drive.write_own_tables(&mut out);
        }
        out.section("Failed commands", &self.failed());
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
                let _ = writeln!(
                    out,
                    "\nVerified: every payload by the drive's checksum, every read byte by byte"
                );
            }
            (true, 0) if verification.reads == 0 => {
                let _ = writeln!(out, "\nNothing was read, so nothing was verified");
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
        out.finish()
    }

    /// Of one of several drives what is not in the table of them: its upkeep, and its store of pairs.
    fn write_own_tables(&self, out: &mut Printout) {
        let store = self.kv.as_ref().filter(|kv| kv.store.is_some());
        if self.upkeep.is_none() && store.is_none() {
            return;
        }
        let _ = writeln!(out, "\nDrive {}", self.drive.as_deref().unwrap_or_default());
        if let Some(upkeep) = &self.upkeep {
            upkeep.write_tables(out);
        }
        if let Some(kv) = store {
            kv.write_store(out);
        }
    }

    /// A row for each of several drives.
    pub fn each_drive(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text("drive"),
            Column::text("profile"),
            Column::of("capacity", Quantity::BinaryBytes).rank(2),
            Column::count("IOPS"),
            Column::of("throughput", Quantity::Rate),
            Column::of("wire / I/O", Quantity::Bytes).rank(1),
            Column::of("dies in use", Quantity::Share),
            Column::of("link in use", Quantity::Share).rank(3),
            Column::of("WAF", Quantity::Number),
            Column::count("erases"),
        ]);
        for drive in &self.drives {
            let wire = drive.link.iter().map(|row| row.wire_bytes).fold(0, u64::saturating_add);
            let share = |is_meant: fn(&str) -> bool| {
                let rows = drive.utilisation.iter().filter(|row| is_meant(&row.resource));
                rows.map(|row| row.mean).fold(0.0, f64::max)
            };
            table.row([
                drive.drive.as_deref().unwrap_or_default().into(),
                drive.drive_profile.as_deref().unwrap_or_default().into(),
                (drive.capacity_bytes as f64).into(),
                per_second(drive.iops).into(),
                drive.bytes_per_second.into(),
                ratio(wire.into(), drive.ios.into()).into(),
                share(|resource| resource == "dies").into(),
                share(|resource| resource.starts_with("link")).into(),
                drive.write_amplification.into(),
                drive.flash.map(|flash| flash.erases).into(),
            ]);
        }
        table
    }

    fn kinds(&self) -> impl Iterator<Item = (&str, &str, &KindSummary)> {
        self.jobs.iter().flat_map(|job| {
            [("read", &job.read), ("write", &job.write), ("trim", &job.trim)]
                .into_iter()
                .filter_map(|(kind, summary)| Some((job.name.as_str(), kind, summary.as_ref()?)))
        })
    }

    /// I/Os and bytes of each job.
    pub fn throughput(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text("job"),
            Column::text(""),
            Column::count("I/Os"),
            Column::count("IOPS"),
            Column::of("throughput", Quantity::Rate),
            Column::of("bytes", Quantity::Bytes),
        ]);
        let mut row = |job: &str, kind: &str, ios: u64, bytes: u64, iops: f64, rate: f64| {
            let cells: [Cell; 6] = [
                job.into(),
                kind.into(),
                ios.into(),
                per_second(iops).into(),
                rate.into(),
                (bytes as f64).into(),
            ];
            table.row(cells);
        };
        for (job, kind, found) in self.kinds() {
            row(job, kind, found.ios, found.bytes, found.iops, found.bytes_per_second);
        }
        if self.kinds().count() > 1 {
            let bytes = self.jobs.iter().map(|job| job.bytes).fold(0, u64::saturating_add);
            row("all", "", self.ios, bytes, self.iops, self.bytes_per_second);
        }
        table
    }

    /// How long they took.
    pub fn latency(&self) -> TextTable {
        let mut table = latency_table(["job", ""]);
        for (job, kind, found) in self.kinds() {
            table.row([job.into(), kind.into()].into_iter().chain(latency_cells(&found.latency)));
        }
        table
    }

    fn time_spent(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text("span"),
            Column::of("mean", Quantity::Time),
            Column::of("share", Quantity::Share),
        ]);
        for row in self.spans.iter().filter(|row| row.mean_ns > 0.0) {
            table.row([row.span.as_str().into(), row.mean_ns.into(), row.share.into()]);
        }
        table
    }

    /// The share of the time in which each resource was in use.
    pub fn in_use(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text("resource"),
            Column::count("count"),
            Column::of("mean", Quantity::Share),
            Column::of("least", Quantity::Share),
            Column::of("most", Quantity::Share),
        ]);
        for row in &self.utilisation {
            let name = row.resource.as_str().into();
            table.row([name, row.count.into(), row.mean.into(), row.min.into(), row.max.into()]);
        }
        table
    }

    fn flash_operations(&self) -> TextTable {
        let Some(flash) = self.flash else { return TextTable::new([]) };
        let more = flash.others();
        let header = [Column::text(""), Column::count("host"), Column::count("collection")].into_iter();
        let mut table =
            TextTable::new(header.chain(more.iter().map(|other| Column::count(other.name).rank(1))));
        let mut row = |what: &str, host: Cell, collect: Cell, of: fn(&FlashUser) -> u64| {
            let rest = more.iter().map(|other| match of(other) {
                0 => Cell::from(""),
                count => count.into(),
            });
            table.row([what.into(), host, collect].into_iter().chain(rest));
        };
        let nothing = || Cell::from("");
        row("pages read", flash.host_reads.into(), flash.collect_reads.into(), |other| other.reads);
        let programs = (flash.host_programs.into(), flash.collect_programs.into());
        row("pages programmed", programs.0, programs.1, |other| other.programs);
        row("blocks erased", nothing(), flash.erases.into(), |_| 0);
        if let Some(amplification) = self.write_amplification {
            row("write amplification", number(amplification).into(), nothing(), |_| 0);
        } else if self.has_writes() {
            row("write amplification", "none yet".into(), nothing(), |_| 0);
        }
        table
    }

    fn failed(&self) -> TextTable {
        let mut table = TextTable::new([Column::text("status"), Column::count("commands")]);
        for row in &self.errors {
            table.row([row.status.as_str().into(), row.count.into()]);
        }
        table
    }
}

/// I/Os a second, without a fraction.
pub fn per_second(rate: f64) -> u64 {
    libm::round(rate) as u64
}

/// A table of latencies, all in one unit, behind columns of words.
pub fn latency_table<const N: usize>(words: [&str; N]) -> TextTable {
    let percentile = |heading: &str, rank: usize| Column::of(heading, Quantity::Time).same_unit().rank(rank);
    let latencies = [
        Column::of("mean", Quantity::Time),
        percentile("p50", 0),
        percentile("p90", 2),
        percentile("p95", 3),
        percentile("p99", 0),
        percentile("p99.9", 0),
        percentile("p99.99", 1),
        percentile("max", 0),
    ];
    TextTable::new(words.into_iter().map(Column::text).chain(latencies))
}

/// The cells of a row of [`latency_table`] behind the words.
pub fn latency_cells(latency: &Latency) -> [Cell; 8] {
    [
        latency.mean_ns,
        latency.p50_ns as f64,
        latency.p90_ns as f64,
        latency.p95_ns as f64,
        latency.p99_ns as f64,
        latency.p99_9_ns as f64,
        latency.p99_99_ns as f64,
        latency.max_ns,
    ]
    .map(Cell::from)
}

/// What stands above [`Summary::each_drive`].
pub const DRIVES_TITLE: &str = "Drive by drive, each over the time of its own jobs";

/// What stands above the table of a network.
/// What stands above the table of the host's processors.
const HOST_TITLE: &str = "The host's processors (100 %: one of them, all the time)";

const NETWORK_TITLE: &str = "The network, by purpose (payload as messages have it, wire with headers)";

/// What stands above [`link_table`].
pub const LINK_TITLE: &str = "The link, by purpose (payload as a counter sees it, wire with headers)";

/// What crossed the link for `ios` I/Os, in both ledgers.
pub fn link_table(rows: &[LinkRow], ios: u64) -> TextTable {
    let bytes = |heading: &str| Column::of(heading, Quantity::Bytes);
    let mut table = TextTable::new([
        Column::text("purpose"),
        Column::text("direction"),
        Column::count("crossings").rank(1),
        bytes("payload"),
        bytes("wire").same_unit(),
        bytes("payload / I/O"),
        bytes("wire / I/O").same_unit(),
    ]);
    let mean = |bytes: u64| Cell::from(ratio(bytes.into(), ios.into()));
    let mut add = |purpose: &str, direction: &str, crossings: Option<u64>, payload: u64, wire: u64| {
        let ends = [purpose.into(), direction.into(), crossings.into()];
        let totals = [(payload as f64).into(), (wire as f64).into(), mean(payload), mean(wire)];
        table.row(ends.into_iter().chain(totals));
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
    table
}
