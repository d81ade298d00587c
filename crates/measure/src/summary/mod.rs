//! What a run found: the result that `summary.json` holds, and its tables for the terminal.
//!
//! Every float comes from one division of exact integers, rounded by plain arithmetic, so that two machines agree
//! on every digit. Shares and utilisations are fractions of 1.

mod array;
mod host;
mod jbof;
mod kv;
mod network;
mod row;
mod tables;
mod transfer;
mod upkeep;

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use byteway_console::number::ratio;
use byteway_link::{Direction, Entry, Ledger, Purpose};

use byteway_scenario::profile::Completion;

pub use array::{ArrayRow, ArraySummary, RebuildSummary};
pub use host::{HostRow, HostSummary, MemoryRow};
pub use jbof::{DriveParts, EnergySummary, JbofRow, JbofSummary};
pub use kv::BULK_TITLE;
pub use kv::{BulkRow, CommitSummary, KvStoreSummary, KvSummary, OperationRow};
pub use network::{NetworkSummary, PathRow, ns_per_io};
pub use row::{LinkRow, Utilisation};
pub use transfer::{TransferSummary, WayRow};
pub use upkeep::{
    BadBlockSummary, MapCacheSummary, ProgramRow, ReadCacheSummary, RecoverySummary, RetrySummary,
    SlcSummary, UpkeepSummary, WearSummary,
};

pub use tables::{DRIVES_TITLE, LINK_TITLE, latency_cells, latency_table, link_table};

/// The result of a run. The order of the fields is that of `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of the program.
    pub byteway: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the drive, of a summary in `drives`; `None`, and left out, of a run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// Its seed.
    pub seed: u64,
    /// The run was interrupted: the figures cover only what had completed.
    pub partial: bool,
    /// Name of the drive's profile; `None` if another process serves the drive, or there are several.
    pub drive_profile: Option<String>,
    /// Model of the drive, or how many drives there are.
    pub drive_model: String,
    /// What the host sees, in bytes; of several drives the sum, as of everything that follows.
    pub capacity_bytes: u64,
    /// Name of the host's profile; `None` if the host is this machine as it is.
    pub host_profile: Option<String>,
    /// How the host learned of completions: it changes every figure of the link.
    pub completion: Completion,
    /// What every time here is measured by.
    pub clock: ClockKind,
    /// Time that the figures cover, in nanoseconds.
    pub elapsed_ns: f64,
    /// I/Os of all jobs.
    pub ios: u64,
    /// I/Os a second of all jobs.
    pub iops: f64,
    /// Bytes a second of all jobs.
    pub bytes_per_second: f64,
    /// Job by job.
    pub jobs: Vec<JobSummary>,
    /// Where the time of an I/O goes. This and what follows up to the flash only a simulation knows: empty, or `None`,
    /// if another process serves the drive.
    pub spans: Vec<SpanRow>,
    /// What crossed the link.
    pub link: Vec<LinkRow>,
    /// How payloads crossed; `None`, and left out, if all went by data pointers, as to any drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferSummary>,
    /// What an array on the host did; `None`, and left out, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArraySummary>,
    /// What the drives of a box did for each other, and what they cost; `None`, and left out, if they are in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jbof: Option<JbofSummary>,
    /// What I/O cost the host's processors and memory; `None`, and left out, unless a drive's firmware runs there or it was asked for
    /// (`measure.host`). Of all drives together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSummary>,
    /// What crossed the network to the target that the drives are behind; `None`, and left out, if they are the host's. Of all
    /// drives together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSummary>,
    /// What went by each path to a drive that a target serves; empty, and left out, of drives that have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathRow>,
    /// How busy things were.
    pub utilisation: Vec<Utilisation>,
    /// What the flash did.
    pub flash: Option<FlashSummary>,
    /// Bytes programmed for each byte that the host wrote, over all flash that is behind it; `None` if it wrote nothing, or nothing of
    /// that has reached flash yet.
    pub write_amplification: Option<f64>,
    /// What the drive did beside the host's I/O; `None`, and left out, if it has nothing of the kind. Of several drives each part
    /// is over those that have such a thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upkeep: Option<UpkeepSummary>,
    /// Operations on pairs, and what a key-value drive did for them; `None`, and left out, of other drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<KvSummary>,
    /// What became of the data.
    pub verification: Verification,
    /// Commands that failed, by status.
    pub errors: Vec<ErrorRow>,
    /// What a reader should know: assumptions, skipped lines.
    pub notes: Vec<String>,
    /// Of several drives, each with its jobs: the same keys, with the figures that a run of the drive alone would have, over the
    /// time of its own jobs. Left out if there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<Summary>,
}

/// What a time is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockKind {
    /// The simulation's clock: the same on every machine.
    Virtual,
    /// The wall clock of this machine, with whatever else it did.
    Wall,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Its name.
    pub name: String,
    /// Of several drives, the name of that on which it works; `None`, and left out, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// I/Os completed.
    pub ios: u64,
    /// Bytes transferred (of trims, bytes trimmed are not counted).
    pub bytes: u64,
    /// I/Os a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Its reads, if any.
    pub read: Option<KindSummary>,
    /// Its writes, if any.
    pub write: Option<KindSummary>,
    /// Its trims, if any.
    pub trim: Option<KindSummary>,
    /// Its I/Os that were longer than a command may be; `None`, and left out, if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitSummary>,
}

/// I/Os that the host split, as Linux' block layer does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitSummary {
    /// I/Os that became several commands.
    pub ios: u64,
    /// The commands that they became.
    pub commands: u64,
}

/// The reads, writes or trims of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindSummary {
    /// I/Os completed.
    pub ios: u64,
    /// Bytes read, written or trimmed.
    pub bytes: u64,
    /// I/Os a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// From submission (in an open loop: from the time it was due) to completion.
    pub latency: Latency,
}

/// Latency in nanoseconds. Mean, least and most are exact, percentiles within 0.1 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean_ns: f64,
    /// Least.
    pub min_ns: f64,
    /// Half are not longer.
    pub p50_ns: u64,
    /// 90 % are not longer.
    pub p90_ns: u64,
    /// 95 % are not longer.
    pub p95_ns: u64,
    /// 99 % are not longer.
    pub p99_ns: u64,
    /// 99.9 % are not longer.
    pub p99_9_ns: u64,
    /// 99.99 % are not longer.
    pub p99_99_ns: u64,
    /// Most.
    pub max_ns: f64,
}

/// One resource's part in the time of an I/O.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanRow {
    /// The resource, or `queueing` for waiting.
    pub span: String,
    /// Nanoseconds of an I/O, in the mean.
    pub mean_ns: f64,
    /// Share of the whole.
    pub share: f64,
}

/// Operations of the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlashSummary {
    /// Pages read for the host.
    pub host_reads: u64,
    /// Pages programmed for the host.
    pub host_programs: u64,
    /// Pages read by garbage collection.
    pub collect_reads: u64,
    /// Pages programmed by garbage collection.
    pub collect_programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Pages read for the map; left out if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub map_reads: u64,
    /// Pages read for what can wait (levelling, refresh, folding, collection while the host is idle); likewise.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub background_reads: u64,
    /// Pages programmed for it; likewise.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub background_programs: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl AddAssign for FlashSummary {
    fn add_assign(&mut self, other: FlashSummary) {
        self.host_reads += other.host_reads;
        self.host_programs += other.host_programs;
        self.collect_reads += other.collect_reads;
        self.collect_programs += other.collect_programs;
        self.erases += other.erases;
        self.map_reads += other.map_reads;
        self.background_reads += other.background_reads;
        self.background_programs += other.background_programs;
    }
}

/// For whom flash works beside the host and its collection.
pub struct FlashUser {
    /// What it is called.
    pub name: &'static str,
    /// Pages that it read.
    pub reads: u64,
    /// Pages that it programmed.
    pub programs: u64,
}

impl FlashSummary {
    /// Those that had anything done.
    pub fn others(&self) -> Vec<FlashUser> {
        let background = (self.background_reads, self.background_programs);
        let users = [
            FlashUser { name: "map", reads: self.map_reads, programs: 0 },
            FlashUser { name: "background", reads: background.0, programs: background.1 },
        ];
        users.into_iter().filter(|user| user.reads + user.programs > 0).collect()
    }
}

/// What became of the data that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// Whether reads were checked.
    pub on: bool,
    /// Reads checked.
    pub reads: u64,
    /// Reads that returned something else than was written.
    pub mismatches: u64,
}

/// Commands that failed with one status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorRow {
    /// The status, by its name in the specification.
    pub status: String,
    /// How many.
    pub count: u64,
}

/// The breakdown of `ios` I/Os, from the time that each span took over all of them.
pub fn span_rows(totals_ps: &[(&str, u128)], ios: u64) -> Vec<SpanRow> {
    let whole: u128 = totals_ps.iter().map(|(_, total)| total).sum();
    let row = |&(span, total): &(&str, u128)| SpanRow {
        span: span.to_owned(),
        mean_ns: ratio(total, u128::from(ios) * 1000),
        share: ratio(total, whole),
    };
    totals_ps.iter().map(row).collect()
}

/// What ledgers have together, without the rows that are empty.
pub fn link_rows(ledgers: &[Ledger]) -> Vec<LinkRow> {
    let mut rows = Vec::new();
    for purpose in Purpose::ALL {
        for direction in Direction::ALL {
            let mut entry = Entry::default();
            for of_one in ledgers.iter().map(|ledger| ledger.entry(purpose, direction)) {
                entry.tlps += of_one.tlps;
                entry.payload += of_one.payload;
                entry.wire += of_one.wire;
            }
            // Payload that came in one packet with an entry has bytes, and no packet of its own.
            if entry != Entry::default() {
                rows.push(LinkRow {
                    purpose: purpose.name().to_owned(),
                    direction: direction.name().to_owned(),
                    crossings: entry.tlps,
                    payload_bytes: entry.payload,
                    wire_bytes: entry.wire,
                });
            }
        }
    }
    rows
}

impl Summary {
    /// The resource that was busiest in the mean, and its share of the time: of the drives, the network to them, and the host where
    /// that was followed. None if nothing is known of any.
    pub fn busiest(&self) -> Option<(&str, f64)> {
        let network =
            self.network.iter().flat_map(|network| network.wire.iter().chain([&network.processors]));
        let busy = self.utilisation.iter().chain(network).map(|row| (row.resource.as_str(), row.mean));
        busy.reduce(|best, row| if row.1 > best.1 { row } else { best })
    }

    /// Whether the host wrote anything, to blocks or pairs.
    pub fn has_writes(&self) -> bool {
        self.write_amplification.is_some() || self.jobs.iter().any(|job| job.write.is_some())
    }

    /// What `summary.json` holds: pretty-printed, keys in the order of the fields, a newline at the end.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("a summary has only string keys");
        json.push('\n');
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobRecorder;
    use byteway_console::number::ns;
    use byteway_console::table::Width;
    use byteway_workload::Kind;

    fn example() -> Summary {
        let mut recorder = JobRecorder::default();
        for index in 1..=1000u64 {
            recorder.record(Kind::Read, 4096, index * 100_000);
            recorder.record(Kind::Write, 4096, 5_000_000);
        }
        let elapsed_ps = 2_000_000_000;
        let job = recorder.finish("mix", elapsed_ps);
        let link = |purpose: &str, direction: &str, crossings, payload_bytes, wire_bytes| LinkRow {
            purpose: purpose.to_owned(),
            direction: direction.to_owned(),
            crossings,
            payload_bytes,
            wire_bytes,
        };
        Summary {
            byteway: "0.0.0".to_owned(),
            scenario: "example".to_owned(),
            drive: None,
            seed: 7,
            partial: true,
            drive_profile: Some("samsung-970-pro".to_owned()),
            drive_model: "Samsung SSD 970 PRO 512GB".to_owned(),
            capacity_bytes: 512 << 30,
            host_profile: Some("linux-polled".to_owned()),
            completion: Completion::Polled,
            clock: ClockKind::Virtual,
            elapsed_ns: ns(elapsed_ps),
            ios: job.ios,
            iops: job.iops,
            bytes_per_second: job.bytes_per_second,
            jobs: vec![job],
            spans: span_rows(&[("host", 2_084_000), ("flash", 70_000_000_000), ("fabric", 0)], 2000),
            link: vec![
                link("doorbell", "to-device", 4000, 16_000, 112_000),
                link("data", "to-host", 1000, 4_096_000, 4_864_000),
                link("sgl-segment", "to-device", 0, 0, 0),
            ],
            transfer: None,
            array: None,
            jbof: None,
            host: None,
            network: None,
            paths: Vec::new(),
            utilisation: vec![Utilisation::of(
                "dies",
                [(elapsed_ps / 2, elapsed_ps), (elapsed_ps / 4, elapsed_ps)],
            )],
            flash: Some(FlashSummary { host_reads: 1000, host_programs: 125, ..FlashSummary::default() }),
            write_amplification: Some(ratio(125 * 32768, 1000 * 4096)),
            upkeep: None,
            kv: None,
            verification: Verification { on: true, reads: 1000, mismatches: 0 },
            errors: vec![ErrorRow { status: "LBA Out of Range".to_owned(), count: 2 }],
            notes: vec!["a note".to_owned()],
            drives: Vec::new(),
        }
    }

    // Golden: scripts read these keys, in this order, with these units.
    #[test]
    fn the_json_is_stable() {
        let json = example().to_json();
        let start = "{\n  \"byteway\": \"0.0.0\",\n  \"scenario\": \"example\",\n  \"seed\": 7,\n  \"partial\": true,\n";
        assert!(json.starts_with(start), "{json}");
        let latency = "\"latency\": {\n          \"mean_ns\": 50050.0,\n          \"min_ns\": 100.0,\n          \
                       \"p50_ns\": 50015,\n          \"p90_ns\": 90047,\n          \"p95_ns\": 95039,\n          \
                       \"p99_ns\": 99007,\n          \"p99_9_ns\": 99903,\n          \"p99_99_ns\": 100000,\n          \
                       \"max_ns\": 100000.0\n        }";
        assert!(json.contains(latency), "{json}");
        assert!(json.contains("\"completion\": \"polled\""));
        assert!(json.contains("\"iops\": 1000000.0") && json.contains("\"bytes_per_second\": 4096000000.0"));
        assert!(json.contains("\"write_amplification\": 1.0"));
        assert_eq!(json, example().to_json());
        // Whoever reads it again has what was found.
        assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), example());
    }

    // The tables are all that most users ever see: what they need must be in them, and readable.
    #[test]
    fn the_tables_show_every_part() {
        let tables = example().tables(Width::Wide);
        for part in [
            "completions polled (linux-polled)",
            "2,000 I/Os in 2.00 ms of virtual time: 1,000,000 IOPS, 4.10 GB/s",
            "PARTIAL",
            "p99.99",
            "50.05",
            "35,000",
            "100.0",
            "4,864",
            "   56",
            "all",
            "37.5",
            "write amplification",
            "LBA Out of Range",
            "1,000 reads verified",
            "note: a note",
        ] {
            assert!(tables.contains(part), "{part:?} is missing in\n{tables}");
        }
        assert!(!tables.contains("sgl-segment") && !tables.contains("fabric"));
        assert!(!tables.contains('\u{1b}'));
        let narrow = example().to_tables();
        // Sentences are wrapped where they are printed.
        let mut rows = narrow.lines().filter(|line| line.starts_with([' ', '─']));
        assert!(rows.all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(narrow.contains("--wide shows also: crossings"), "{narrow}");
    }

    // 1.37 GB/s in the table and "0.0 B/s" above it: one of them is wrong for who reads both.
    #[test]
    fn no_rate_is_told_of_what_moves_no_data() {
        let summary = Summary { bytes_per_second: 0.0, ..example() };
        let tables = summary.tables(Width::Wide);
        assert!(tables.contains("of virtual time: 1,000,000 IOPS\n"), "{tables}");
    }

    // Nothing to divide by is a run that was interrupted at once; it must not become NaN, which JSON cannot hold.
    #[test]
    fn an_empty_run_has_figures() {
        assert_eq!(Utilisation::of("cores", []).max, 0.0);
        let job = JobRecorder::default().finish("idle", 0);
        assert_eq!((job.iops, job.read), (0.0, None));
        assert_eq!(span_rows(&[("host", 0)], 0)[0].share, 0.0);
    }
}
