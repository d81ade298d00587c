//! The summary of a run: the contents of `summary.json`, and its tables for the terminal.
//!
//! Every float comes from one division of exact integers, rounded by plain arithmetic, so that all machines
//! print the same digits. Shares and utilisations are fractions of 1.

mod array;
mod host;
mod jbof;
mod kv;
mod latency;
mod network;
mod queries;
mod row;
mod tables;
mod transfer;
mod upkeep;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::replicates::{MeanRow, Replicates};
use byteway_link::{Direction, Entry, Ledger, Purpose};
use byteway_text::number::ratio;

use byteway_scenario::profile::Completion;

pub use array::{ArrayRow, ArraySummary, RebuildSummary};
pub use host::{HostRow, HostSummary, MemoryRow};
pub use jbof::{DriveParts, EnergySummary, JbofRow, JbofSummary};
pub use kv::BULK_TITLE;
pub use kv::{BulkRow, CommitSummary, KvStoreSummary, KvSummary, OperationRow};
pub use latency::{KindSummary, Latency, latency_cells, latency_table};
pub use network::{NetworkSummary, PathRow, ns_per_io};
pub use queries::QueryRow;
pub use row::{LinkRow, Utilisation};
pub use transfer::{MethodRow, TransferSummary};
pub use upkeep::{
    BadBlockSummary, MapCacheSummary, ProgramRow, ReadCacheSummary, RecoverySummary, RetrySummary,
    SlcSummary, UpkeepSummary, WearSummary,
};

pub use tables::{DRIVES_TITLE, LINK_TITLE, link_table};

/// The summary of a run. The order of the fields is that of `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Version of the program.
    pub byteway: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the drive, in an entry of `drives`; omitted for a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// Seed.
    pub seed: u64,
    /// Whether the run was interrupted: the figures then cover only completed I/Os.
    pub partial: bool,
    /// Name of the drive's profile; `None` if another process serves the drive, or there are several.
    pub drive_profile: Option<String>,
    /// Model of the drive, or the number of drives.
    pub drive_model: String,
    /// Capacity visible to the host, in bytes. Of several drives, this and all further figures are sums.
    pub capacity_bytes: u64,
    /// Name of the host's profile; `None` if the host is the real machine.
    pub host_profile: Option<String>,
    /// How the host detects completions; this affects every figure of the link.
    pub completion: Completion,
    /// The clock that measured all times.
    pub clock: ClockKind,
    /// Time covered by the figures, in nanoseconds.
    pub elapsed_ns: f64,
    /// I/Os of all jobs.
    pub ios: u64,
    /// I/Os per second of all jobs.
    pub iops: f64,
    /// Bytes per second of all jobs.
    pub bytes_per_second: f64,
    /// The jobs, in order.
    pub jobs: Vec<JobSummary>,
    /// Mean time of an I/O by resource. Known in simulations only, as are the following fields up to `flash`:
    /// empty or `None` if another process serves the drive.
    pub spans: Vec<SpanRow>,
    /// The span `queueing` by what an I/O waits for; without those that none waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitRow>,
    /// Traffic on the link.
    pub link: Vec<LinkRow>,
    /// Payloads by transfer method; omitted if all used data pointers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferSummary>,
    /// Work of an array on the host; omitted if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArraySummary>,
    /// Lending, cost and energy of a JBOF; omitted if the drives are in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jbof: Option<JbofSummary>,
    /// Cost of I/O on the host, for all drives together; omitted unless a drive's firmware runs on the host
    /// or `measure.host` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSummary>,
    /// Traffic on the network to the target, for all drives together; omitted for local drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSummary>,
    /// Paths to drives behind targets; omitted if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathRow>,
    /// Utilisation of resources.
    pub utilisation: Vec<Utilisation>,
    /// Flash operations.
    pub flash: Option<FlashSummary>,
    /// Bytes programmed per byte that the host wrote, over all flash behind it; `None` if it wrote nothing,
    /// or nothing written has reached flash yet.
    pub write_amplification: Option<f64>,
    /// Background work of the drive; omitted if it has none. Of several drives, each part covers those that
    /// have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upkeep: Option<UpkeepSummary>,
    /// Key-value operations, and the work of the drive's store; omitted for other drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<KvSummary>,
    /// Queries by job and executor; omitted if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queries: Vec<QueryRow>,
    /// Policies, sources of I/Os, trace formats and transfer methods that are not built in; omitted if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyRow>,
    /// Verification of the data read.
    pub verification: Verification,
    /// Failed commands, by status.
    pub errors: Vec<ErrorRow>,
    /// Notes for the reader: assumptions, skipped lines.
    pub notes: Vec<String>,
    /// Summaries of several drives, each with its jobs: the same keys, with the figures that a run of this
    /// drive alone would have, over the time of its own jobs. Omitted if there is one drive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<Summary>,
    /// The same scenario with other seeds, and the means (`byteway run --repeat`); omitted for a single run. All other figures are those of
    /// the first replicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicates: Option<Replicates>,
    /// Throughput and mean latency over 20 batches of a single run, with their 95 % intervals (`byteway run`): by how much they differ within
    /// the run, not from seed to seed. Omitted where there are too few steps or I/Os, or the batches are correlated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batch_means: Vec<MeanRow>,
}

/// The clock that measured the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClockKind {
    /// Virtual time of the simulation: equal on every machine.
    Virtual,
    /// Wall-clock time of this machine, including the effects of other load.
    Wall,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobSummary {
    /// Name of the job.
    pub name: String,
    /// Name of its drive, of several; omitted if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// I/Os completed.
    pub ios: u64,
    /// Bytes transferred; trims do not count.
    pub bytes: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Figures of the job's reads, if any.
    pub read: Option<KindSummary>,
    /// Figures of the job's writes, if any.
    pub write: Option<KindSummary>,
    /// Figures of the job's trims, if any.
    pub trim: Option<KindSummary>,
    /// I/Os longer than one command; omitted if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitSummary>,
}

/// I/Os that the host split, as Linux's block layer does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SplitSummary {
    /// Number of I/Os split.
    pub ios: u64,
    /// Number of commands that they became.
    pub commands: u64,
}

/// A resource's share in the time of an I/O.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpanRow {
    /// The resource, or `queueing` for waiting.
    pub span: String,
    /// Mean time of an I/O in nanoseconds.
    pub mean_ns: f64,
    /// Share of the total.
    pub share: f64,
}

/// What an I/O waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitRow {
    /// What is waited for: `queue depth` (an open loop's I/O is due while as many as may be are outstanding),
    /// `queue entry`, `host core`, `network`, `target core`, `link`, `core`, `dram`, `other command` (one that
    /// holds the same data or goes first), `firmware entry` (the translation layer's lock, or the turn of a
    /// caller), `map cache` (a frame whose page has to be written first), `buffer` and `buffer collection`
    /// (room in the write buffer, in proportion to what the dies do meanwhile: serve hosts, or collect garbage
    /// and erase; all of it `buffer` where flash is across a link), `channel`, and a die that is busy with `die reads` and `die
    /// programs` of hosts, `die erases`, or `die collection`: what collection, wear levelling and refresh move.
    pub wait: String,
    /// Mean time of an I/O in nanoseconds.
    pub mean_ns: f64,
    /// Share in the whole time of an I/O.
    pub share: f64,
}

byteway_clock::counters! {
    /// Operations of the flash.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
        /// Pages read for the map; omitted if there are none.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub map_reads: u64,
        /// Pages read by deferrable background work (wear leveling, refresh, folding, idle garbage collection);
        /// omitted if there are none.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub background_reads: u64,
        /// Pages programmed by the same; omitted if there are none.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub background_programs: u64,
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A user of the flash other than the host and its garbage collection.
pub struct FlashUser {
    /// Name for the tables.
    pub name: &'static str,
    /// Pages read.
    pub reads: u64,
    /// Pages programmed.
    pub programs: u64,
}

impl FlashSummary {
    /// The users with any operations.
    pub fn others(&self) -> Vec<FlashUser> {
        let background = (self.background_reads, self.background_programs);
        let users = [
            FlashUser { name: "map", reads: self.map_reads, programs: 0 },
            FlashUser { name: "background", reads: background.0, programs: background.1 },
        ];
        users.into_iter().filter(|user| user.reads + user.programs > 0).collect()
    }
}

/// Verification of the data read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// Whether reads were verified.
    pub on: bool,
    /// Reads verified.
    pub reads: u64,
    /// Reads that returned other data than was written.
    pub mismatches: u64,
}

/// Commands that failed with the same status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorRow {
    /// Name of the status in the specification.
    pub status: String,
    /// Number of commands.
    pub count: u64,
}

/// A policy, or another part of the run, that is not built in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct PolicyRow {
    /// Key that names it: of the profile, such as `firmware.gc.policy`, or `job.source`, `job.trace.format`, `transfer.method`.
    pub key: String,
    /// Its name, with its argument.
    pub name: String,
    /// Version of its code, as its author states it; of a file, a hash of its contents.
    pub hash: String,
}

/// The breakdown of `ios` I/Os, from the total time of each span.
pub fn span_rows(totals_ps: &[(&str, u128)], ios: u64) -> Vec<SpanRow> {
    let whole: u128 = totals_ps.iter().map(|(_, total)| total).sum();
    let row = |&(span, total): &(&str, u128)| SpanRow {
        span: span.to_owned(),
        mean_ns: ratio(total, u128::from(ios) * 1000),
        share: ratio(total, whole),
    };
    totals_ps.iter().map(row).collect()
}

/// The waits of `ios` I/Os that took `whole_ps` in all, from the total time of each; those that none waited
/// for are left out.
pub fn wait_rows(totals_ps: &[(&str, u128)], whole_ps: u128, ios: u64) -> Vec<WaitRow> {
    let waited = totals_ps.iter().filter(|(_, total)| *total > 0);
    let row = |&(wait, total): &(&str, u128)| WaitRow {
        wait: wait.to_owned(),
        mean_ns: ratio(total, u128::from(ios) * 1000),
        share: ratio(total, whole_ps),
    };
    waited.map(row).collect()
}

/// The sum of ledgers, without empty rows.
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
            // A payload in the same packet as an entry has bytes, but no packet of its own.
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

/// The JSON schema of `summary.json`.
pub fn summary_schema() -> serde_json::Value {
    schemars::schema_for!(Summary).to_value()
}

impl Summary {
    /// The resource with the highest mean utilisation, and this utilisation: of the drives, the network, and
    /// the host where it was followed. Of several drives the busiest one counts, because idle drives limit
    /// nothing. `None` if nothing is known.
    pub fn busiest(&self) -> Option<(&str, f64)> {
        let network =
            self.network.iter().flat_map(|network| network.wire.iter().chain([&network.processors]));
        let each = self.drives.iter().flat_map(|drive| &drive.utilisation);
        let busy = each.chain(&self.utilisation).chain(network).map(|row| (row.resource.as_str(), row.mean));
        busy.reduce(|best, row| if row.1 > best.1 { row } else { best })
    }

    /// Whether the host wrote any blocks or key-value pairs.
    pub fn has_writes(&self) -> bool {
        self.write_amplification.is_some() || self.jobs.iter().any(|job| job.write.is_some())
    }

    /// The contents of `summary.json`: pretty-printed, keys in field order, with a final newline.
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
    use byteway_text::number::ns;
    use byteway_text::table::Width;
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
            spans: span_rows(
                &[("host", 2_084_000), ("flash", 70_000_000_000), ("queueing", 9_000_000_000)],
                2000,
            ),
            waits: wait_rows(
                &[("core", 1_000_000_000), ("die reads", 0), ("die erases", 8_000_000_000)],
                79_002_084_000,
                2000,
            ),
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
            queries: Vec::new(),
            verification: Verification { on: true, reads: 1000, mismatches: 0 },
            errors: vec![ErrorRow { status: "LBA Out of Range".to_owned(), count: 2 }],
            notes: vec!["a note".to_owned()],
            drives: Vec::new(),
            replicates: None,
            batch_means: Vec::new(),
            policies: Vec::new(),
        }
    }

    // Golden: scripts depend on these keys, in this order, with these units.
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
        // Reading it back yields the same summary.
        assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), example());
    }

    // Idle drives halve the mean of fully busy cores: the dies would be reported as the bottleneck.
    #[test]
    fn of_several_drives_the_busiest_counts() {
        let row = |resource: &str, mean: f64| Utilisation { mean, ..Utilisation::of(resource, [(1, 1)]) };
        let of = |cores: f64, dies: f64| {
            let utilisation = vec![row("cores", cores), row("dies", dies)];
            Summary { utilisation, ..example() }
        };
        let whole = Summary { drives: vec![of(0.9, 0.5), of(0.0, 0.55)], ..of(0.45, 0.52) };
        assert_eq!(whole.busiest(), Some(("cores", 0.9)));
        assert_eq!(of(0.45, 0.52).busiest(), Some(("dies", 0.52)));
    }

    // Twelve tables of one line each hide the comparison, and a drive's heading without a table looks like
    // missing output.
    #[test]
    fn map_caches_of_several_drives_have_one_table() {
        let of = |name: &str, misses: u64| {
            let map_cache = Some(MapCacheSummary::new(512, 100, misses, 0, None));
            let upkeep = Some(UpkeepSummary { map_cache, ..UpkeepSummary::default() });
            Summary { drive: Some(name.to_owned()), upkeep, ..example() }
        };
        let whole = Summary { drives: vec![of("left", 100), of("right", 300)], upkeep: None, ..example() };
        let tables = whole.to_tables();
        assert_eq!(tables.matches("Map cache").count(), 1, "{tables}");
        let (_, map) = tables.split_once("Map cache, drive by drive").unwrap();
        let ratio = |name: &str| map.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        assert!(ratio("left").contains("50.0") && ratio("right").contains("75.0"), "{tables}");
        assert!(!tables.contains("Drive left"), "{tables}");
    }

    // Most users see only the tables: they must contain the essential figures, and be readable.
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
        // Sentences are wrapped on output.
        let mut rows = narrow.lines().filter(|line| line.starts_with([' ', '─']));
        assert!(rows.all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(narrow.contains("--wide shows also: crossings"), "{narrow}");
    }

    // 1.37 GB/s in the table and "0.0 B/s" above it would contradict each other.
    #[test]
    fn no_rate_is_told_of_what_moves_no_data() {
        let summary = Summary { bytes_per_second: 0.0, ..example() };
        let tables = summary.tables(Width::Wide);
        assert!(tables.contains("of virtual time: 1,000,000 IOPS\n"), "{tables}");
    }

    // A run that is interrupted at once divides by zero; NaN cannot be represented in JSON.
    #[test]
    fn an_empty_run_has_figures() {
        assert_eq!(Utilisation::of("cores", []).max, 0.0);
        let job = JobRecorder::default().finish("idle", 0);
        assert_eq!((job.iops, job.read), (0.0, None));
        assert_eq!(span_rows(&[("host", 0)], 0)[0].share, 0.0);
    }
}
