//! The summary as tables for the terminal.

use byteway_clock::Stage;
use std::fmt::Write as _;

use super::latency::{latency_cells, latency_table, per_second};
use super::upkeep::map_lookups;
use super::{ClockKind, FlashUser, KindSummary, LinkRow, PathRow, QueryRow, Summary};
use crate::metric::Metric;
use byteway_scenario::profile::Completion;
use byteway_text::number::ratio;
use byteway_text::table::{Cell, Column, Printout, Quantity, TextTable, Width, grouped, number, rate, time};

impl Summary {
    /// Tables at most 80 columns wide.
    pub fn to_tables(&self) -> String {
        self.tables(Width::Narrow)
    }

    /// Tables of this width.
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
            byteway_text::units::Bytes(self.capacity_bytes),
            self.seed,
            self.host_profile.as_ref().map(|name| format!(" ({name})")).unwrap_or_default()
        );
        let clock = match self.clock {
            ClockKind::Virtual => "virtual",
            ClockKind::Wall => "wall",
        };
        // Trims move no data.
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
            let _ = writeln!(out, "PARTIAL: the run was interrupted; the figures cover the completed I/Os");
        }
        if !self.batch_means.is_empty() {
            let shown = self.batch_means.iter().filter_map(|row| {
                let metric = Metric::named(&row.figure)?;
                Some(format!("{} {}", metric.noun(), metric.show_mean(row.mean, row.half_width)))
            });
            let shown = shown.collect::<Vec<_>>().join(", ");
            let _ = writeln!(out, "within the run, from 20 batches, with 95 % intervals: {shown}");
        }
        if let Some(replicates) = &self.replicates {
            replicates.write_tables(&mut out);
        }
        if let Some(kv) = &self.kv {
            kv.write_tables(&mut out);
        }
        // Of several drives, some may be key-value drives and others block devices.
        let is_of_blocks = |name: &str| {
            let kv = self.kv.iter().flat_map(|kv| &kv.operations);
            kv.into_iter().all(|row| row.job != name)
        };
        out.section("Queries", &QueryRow::table(&self.queries));
        out.section("Latency of queries", &QueryRow::latency_table(&self.queries));
        let has_several_kinds =
            !self.drives.is_empty() && self.jobs.iter().any(|job| is_of_blocks(&job.name));
        let are_all_queries = self.jobs.iter().all(|job| self.queries.iter().any(|row| row.job == job.name));
        if (self.kv.is_none() && (self.queries.is_empty() || !are_all_queries))
            || (has_several_kinds && !are_all_queries)
        {
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
            out.section("The JBOF", &jbof.table());
            let _ = writeln!(out, "\n{}", jbof.sentence());
        }
        if let Some(host) = &self.host {
            out.section(HOST_TITLE, &host.processor_table());
            out.section("Host memory at the end", &host.memory_table());
        }
        if let Some(network) = &self.network {
            out.section(NETWORK_TITLE, &link_table(&network.crossings, self.ios));
            let _ = writeln!(out, "\n{}", network.sentence(self.ios));
        }
        out.section("Paths", &PathRow::table(&self.paths));
        out.section("Utilization", &self.in_use());
        out.section("Flash", &self.flash_operations());
        if let Some(upkeep) = &self.upkeep {
            upkeep.write_tables(&mut out);
        }
        let caches = self.drives.iter().filter_map(|drive| {
            let cache = drive.upkeep.as_ref()?.map_cache.as_ref()?;
            Some((Some(drive.drive.as_deref().unwrap_or_default()), cache))
        });
        out.section("Map cache, drive by drive", &map_lookups(&caches.collect::<Vec<_>>()));
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
                let _ = writeln!(out, "\nNo reads, so nothing was verified");
            }
            (true, 0) if !self.queries.is_empty() && self.kv.is_none() => {
                // A check has no answer.
                let executed = self.queries.iter().filter(|row| row.executed_by != "check");
                let _ = match executed.map(|row| row.figures.ios).sum() {
                    0 => writeln!(out, "\nNo queries were executed, so no results were verified"),
                    answers => {
                        let answers = grouped(answers);
                        writeln!(out, "\n{answers} query results verified against this host's engine")
                    }
                };
            }
            (true, 0) if self.kv.is_some() => {
                let reads = grouped(verification.reads);
                let _ = writeln!(out, "\n{reads} results verified: every value, and every missing key");
            }
            (true, 0) => {
                let _ =
                    writeln!(out, "\n{} reads verified: every block as written", grouped(verification.reads));
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

    /// The parts of one of several drives that no common table contains: its upkeep, and its key-value store.
    fn write_own_tables(&self, out: &mut Printout) {
        let store = self.kv.as_ref().filter(|kv| kv.store.is_some());
        let upkeep = self.upkeep.as_ref().filter(|upkeep| upkeep.has_own_tables());
        if upkeep.is_none() && store.is_none() {
            return;
        }
        let _ = writeln!(out, "\nDrive {}", self.drive.as_deref().unwrap_or_default());
        if let Some(upkeep) = upkeep {
            upkeep.write_own_tables(out);
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

    /// The table of latencies of each job.
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
            if row.span == Stage::Queueing.name() {
                for wait in &self.waits {
                    table.row([format!("  {}", wait.wait).into(), wait.mean_ns.into(), wait.share.into()]);
                }
            }
        }
        table
    }

    /// The table of utilisations.
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

/// Title of [`Summary::each_drive`].
pub const DRIVES_TITLE: &str = "By drive, each over the time of its own jobs";

/// Title of the table of the host's processors.
const HOST_TITLE: &str = "Host processors (100 %: one fully busy processor)";

/// Title of the table of a network.
const NETWORK_TITLE: &str = "Network traffic by purpose (payload: message bytes, wire: with headers)";

/// Title of [`link_table`].
pub const LINK_TITLE: &str = "Link traffic by purpose (payload: as a counter sees it, wire: with headers)";

/// Traffic on the link for `ios` I/Os, in both ledgers.
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
