//! The scenario file: sections, keys, defaults.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::array_section::ArraySection;
use super::drive_names::DriveNames;
use super::format_name::FormatName;
use super::jbof_section::JbofSection;
use super::kv_section::KvSection;
use super::personality::Personality;
use super::query_section::{QuerySection, TableSection};
use super::target_section::{NetworkSection, TargetSection};
use super::transfer::TransferSection;
use byteway_firmware::Base;
use byteway_text::units::{Age, Bytes, Celsius, Percent, Picos, Portion, Rate, UnitError};
use byteway_trace::format::device_pair;
use byteway_trace::{Action, Columns, Format, Unit};
use byteway_workload::{
    Arrival, Beyond, Distribution, Iops, Kind, PerDirection, Priority, Rw, SizeRange, SizeSplit, Verify,
};

/// The contents of a scenario file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    /// Name of the run. Default: the name of the file.
    #[serde(default)]
    pub name: Option<String>,
    /// Seed of all randomness: the same seed yields the same result.
    #[serde(default = "one_u64")]
    pub seed: u64,
    /// The drive, or several drives.
    pub drive: DriveSections,
    /// Combines the drives into one array.
    #[serde(default)]
    pub array: Option<ArraySection>,
    /// Places the drives in one JBOF, in which they may lend each other processors and DRAM.
    #[serde(default)]
    pub jbof: Option<JbofSection>,
    /// The host.
    #[serde(default)]
    pub host: HostSection,
    /// Places the drives behind a target, which the host reaches over a network.
    #[serde(default)]
    pub target: Option<TargetSection>,
    /// The network to the target.
    #[serde(default)]
    pub network: Option<NetworkSection>,
    /// How payloads cross the link.
    #[serde(default)]
    pub transfer: TransferSection,
    /// Block workloads; several jobs run concurrently.
    #[serde(default)]
    pub job: Vec<JobSection>,
    /// Key-value workloads, for a drive with `personality = "kv"` or a KV namespace; several jobs run
    /// concurrently.
    #[serde(default)]
    pub kv: Vec<KvSection>,
    /// Queries, for a drive with `personality = "tables"`; several jobs run concurrently.
    #[serde(default)]
    pub query: Vec<QuerySection>,
    /// Options of the measurement.
    #[serde(default)]
    pub measure: MeasureSection,
}

/// `[drive]`, or one `[[drive]]` for each of several independent drives, each with its own link to the host.
#[derive(Clone, Debug)]
pub enum DriveSections {
    /// `[drive]`
    One(Box<DriveSection>),
    /// `[[drive]]`
    Several(Vec<DriveSection>),
}

impl DriveSections {
    /// Each section with its path.
    pub fn each(&self) -> impl Iterator<Item = (String, &DriveSection)> {
        let (sections, is_listed) = match self {
            DriveSections::One(section) => (std::slice::from_ref(&**section), false),
            DriveSections::Several(sections) => (&sections[..], true),
        };
        let path = move |number| if is_listed { format!("drive.{number}") } else { "drive".to_owned() };
        sections.iter().enumerate().map(move |(number, section)| (path(number), section))
    }
}

struct DrivesVisitor;

impl<'de> Visitor<'de> for DrivesVisitor {
    type Value = DriveSections;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("struct DriveSection")
    }
    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<DriveSections, A::Error> {
        let section = DriveSection::deserialize(de::value::MapAccessDeserializer::new(map))?;
        Ok(DriveSections::One(Box::new(section)))
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<DriveSections, A::Error> {
        Vec::deserialize(de::value::SeqAccessDeserializer::new(list)).map(DriveSections::Several)
    }
}

impl<'de> Deserialize<'de> for DriveSections {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DrivesVisitor)
    }
}

impl JsonSchema for DriveSections {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "DriveSections".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<DriveSection>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

/// `[drive]` or `[[drive]]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriveSection {
    /// Name of this drive in a scenario with several: 1 to 32 letters, digits, `-` and `_`, not only digits.
    /// All randomness in the drive derives from it and the seed.
    #[serde(default)]
    pub name: Option<String>,
    /// Number of identical drives, named `NAME0`, `NAME1` and so on, at most 256. Default: one drive, named
    /// `NAME`.
    #[serde(default)]
    pub copies: Option<u32>,
    /// A built-in profile by name, or the path of a profile, relative to the directory of the scenario.
    pub profile: String,
    /// The interface that the drive offers: blocks, a payload sink, key-value pairs or tables.
    #[serde(default)]
    pub personality: Personality,
    /// Capacity visible to the host, 1 GiB to 64 TiB. Default: the profile's.
    #[serde(default)]
    pub capacity: Option<Bytes>,
    /// Size of a logical block: "512 B" or "4 KiB".
    #[serde(default = "four_kib")]
    pub lba_size: Bytes,
    /// How data is stored.
    #[serde(default)]
    pub store: Store,
    /// Initial contents of the drive; a key-value drive begins empty.
    #[serde(default = "filled", with = "Precondition")]
    pub precondition: Base,
    /// Age of the initial contents, which affects their bit errors. Default: 0.
    #[serde(default)]
    pub age: Age,
    /// Initial wear: mean erase count as a share of `flash.endurance`. Default: 0 %.
    #[serde(default)]
    pub worn: Percent,
    /// Composite temperature over simulated time: steps, each an instant since the drive's first power-on, shortly before the jobs begin, and the
    /// temperature from then on, such as `[["2 s", "78 C"], ["5 s", "60 C"]]`. At most 1000, ascending. 40 C before the first. A drive throttles by it as
    /// `firmware.throttle` of its profile says, and reports it. Default: always 40 C.
    #[serde(default)]
    pub temperature: Vec<(Picos, Celsius)>,
    /// Number of namespaces, which divide the capacity equally.
    #[serde(default = "one_u32")]
    pub namespaces: u32,
    /// With `personality = "block"`: the part of the capacity for an additional KV namespace behind the block
    /// namespaces; at least 16 MiB. Default: none.
    #[serde(default)]
    pub kv_capacity: Option<Bytes>,
    /// With `personality = "tables"`: the tables that exist when the jobs begin. Not for a served drive.
    #[serde(default)]
    pub table: Vec<TableSection>,
    /// Keys of the profile to override, such as `flash.read = ["50 us"]`.
    #[serde(default, rename = "override")]
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub overrides: Option<toml::Table>,
}

/// How a drive stores data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    /// All bytes in memory.
    Ram,
    /// For each block its address, version and checksum, for capacities beyond the host's memory. Reads are
    /// still verified.
    #[default]
    Stamp,
    /// All bytes in files: only for a served drive, with `byteway serve --data DIR`.
    File,
}

/// Initial contents of a drive.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Base", rename_all = "lowercase")]
#[schemars(rename = "Precondition")]
enum Precondition {
    /// Nothing written.
    Empty,
    /// Everything written once, sequentially.
    Filled,
    /// The steady state of random overwrites: 4 KiB random writes have continued, at the rate at which the jobs
    /// begin to write, until throughput and write amplification were constant. Garbage collection is at work
    /// from the first write on; if the jobs saturate the drive, few blocks are free and the write buffer is
    /// full. A served drive, one in a JBOF and one with an SLC cache begin as saturated. Larger blocks or
    /// a skew have another steady state: the summary notes what still changes, and `ramp_time` excludes that
    /// part.
    Steady,
}

/// `[host]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSection {
    /// A built-in host profile by name, or the path of one, relative to the directory of the scenario.
    #[serde(default = "linux_polled")]
    pub profile: String,
    /// Whether each block read is compared with what was written; `"bytes"`: byte by byte.
    #[serde(default)]
    pub verify: Verify,
    /// Arbitration between queues.
    #[serde(default)]
    pub arbitration: Arbitration,
    /// Weights of weighted arbitration, 1 to 256 each.
    #[serde(default)]
    pub weights: Weights,
    /// I/O queue pairs of the host at each drive, at most; workers beyond them share these in turn. Default: one for each
    /// worker, as far as the drive has them.
    #[serde(default)]
    pub queues: Option<u32>,
    /// Host memory that each drive may use as Host Memory Buffer, at most; "0 B": none. Default: as Linux.
    #[serde(default = "lent_bytes")]
    pub lends: Bytes,
    /// Keys of the host profile to override, such as `submit = "1 us"`.
    #[serde(default, rename = "override")]
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub overrides: Option<toml::Table>,
}

fn lent_bytes() -> Bytes {
    Bytes(128 << 20)
}

impl Default for HostSection {
    fn default() -> Self {
        HostSection {
            profile: linux_polled(),
            verify: Verify::default(),
            arbitration: Arbitration::default(),
            weights: Weights::default(),
            queues: None,
            lends: lent_bytes(),
            overrides: None,
        }
    }
}

/// The machine on which a job runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobPlace {
    /// The host.
    #[default]
    Host,
    /// The target.
    Target,
}

/// Arbitration between queues (NVMe Base 2.1, 3.4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// Round robin.
    #[default]
    RoundRobin,
    /// Weighted round robin with an urgent class, by the `priority` of the jobs.
    Weighted,
}

/// Weights of weighted arbitration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Weight of the class high.
    #[serde(default = "four")]
    pub high: u16,
    /// Weight of the class medium.
    #[serde(default = "two")]
    pub medium: u16,
    /// Weight of the class low.
    #[serde(default = "one_u16")]
    pub low: u16,
}

impl Default for Weights {
    fn default() -> Self {
        Weights { high: 4, medium: 2, low: 1 }
    }
}

/// `[[job]]`. Keys have fio's names and meanings, except that counts and rates apply to all workers of the
/// job together, unless stated otherwise.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSection {
    /// Name of the job, unique in the scenario. Default: `job0`, `job1` and so on.
    #[serde(default)]
    pub name: Option<String>,
    /// What the job asks for is up to code that a program of one's own adds under this name (`byteway::main_with`), `NAME` or `NAME:ARGUMENT`,
    /// instead of `rw`, `bs` and the distribution of addresses.
    #[serde(default)]
    pub source: Option<String>,
    /// Direction and order; required unless the job replays a trace, or has a `source`.
    #[serde(default)]
    pub rw: Option<Rw>,
    /// Share of reads in a mix, 0 to 100. Default: 50.
    #[serde(default)]
    pub rwmixread: Option<u8>,
    /// Share of writes in a mix: 100 - `rwmixread`.
    #[serde(default)]
    pub rwmixwrite: Option<u8>,
    /// Size of an I/O, a multiple of `lba_size` (for a sink, any number of bytes). Default: 4 KiB.
    #[serde(default)]
    pub bs: Option<PerDirection<Bytes>>,
    /// Instead of `bs`: multiples of the shortest size, up to the longest. Random addresses are multiples of
    /// the shortest.
    #[serde(default)]
    pub bsrange: Option<PerDirection<SizeRange>>,
    /// Instead of `bs`: several sizes with their shares.
    #[serde(default)]
    pub bssplit: Option<PerDirection<SizeSplit>>,
    /// Outstanding I/Os of a worker, at most. Default: 1 in a closed loop, 128 in an open loop. I/Os of an
    /// open loop that are due beyond that wait, and the wait is part of their latency.
    #[serde(default)]
    pub iodepth: Option<u32>,
    /// Number of workers, each with a queue pair of its own as far as there are so many: see `host.queues`.
    #[serde(default = "one_u32")]
    pub numjobs: u32,
    /// Alignment of random addresses. Default: the shortest I/O of their kind.
    #[serde(default)]
    pub blockalign: Option<Bytes>,
    /// Distribution of random addresses. Default: uniform.
    #[serde(default)]
    pub random_distribution: Option<Distribution>,
    /// Whether random addresses are drawn independently. False: every block is accessed once before any is
    /// accessed twice, which is fio's default. Default: true.
    #[serde(default)]
    pub norandommap: Option<bool>,
    /// Name of the drive, required if there are several. With a list of names, or "all", the job runs on each
    /// of these drives concurrently, as a separate job `NAME/DRIVE` with the same keys.
    #[serde(default)]
    pub drive: Option<DriveNames>,
    /// The machine on which the job runs. With a target, "target" is an application there, which uses the
    /// drive locally and shares its queue pairs with remote commands.
    #[serde(default)]
    pub at: JobPlace,
    /// Namespace identifier, from 1.
    #[serde(default = "one_u32")]
    pub namespace: u32,
    /// Start of the job's range within the namespace: a size, or a percentage of the namespace, such as "30
    /// %".
    #[serde(default)]
    pub offset: Portion,
    /// Gives each worker its own range, which begins this much after the range of the worker before ("0 B":
    /// at the same address). Default: all workers share one range, which sequential workers divide.
    #[serde(default)]
    pub offset_increment: Option<Bytes>,
    /// Length of the range (with `offset_increment`, of each worker's range): a size, or a percentage of the
    /// namespace, such as "30 %", limited to what follows `offset`. Default: to the end of the namespace.
    /// Without `io_size`, `count` and `runtime`, the job ends when it has transferred this much.
    #[serde(default)]
    pub size: Option<Portion>,
    /// Bytes to transfer, over all workers; may be less or more than the range. A block that is trimmed and
    /// then written counts once.
    #[serde(default)]
    pub io_size: Option<Bytes>,
    /// Number of I/Os, over all workers. The first limit reached of `io_size`, `count` and `runtime` ends the
    /// job.
    #[serde(default)]
    pub count: Option<u64>,
    /// Virtual time of the job, after its `ramp_time`.
    #[serde(default)]
    pub runtime: Option<Picos>,
    /// Whether I/Os wait for the completion of earlier ones.
    #[serde(default)]
    pub issue: Option<IssueMode>,
    /// I/Os per second, over all workers: in an open loop the rate of arrivals, in a closed loop a limit,
    /// which may differ between reads, writes and trims: "10000,2000".
    #[serde(default)]
    pub rate_iops: Option<PerDirection<Iops>>,
    /// Limit of a closed loop in bytes per second, over all workers, or for reads, writes and trims
    /// separately.
    #[serde(default)]
    pub rate: Option<PerDirection<Rate>>,
    /// Arrival process of an open loop.
    #[serde(default)]
    pub arrival: Option<Arrival>,
    /// Pause of a worker after `thinktime_blocks` I/Os, from the completion of the last one.
    #[serde(default)]
    pub thinktime: Option<Picos>,
    /// I/Os of a worker between two pauses; also limits its outstanding I/Os. Default: 1.
    #[serde(default)]
    pub thinktime_blocks: Option<u32>,
    /// A Flush command after so many writes of a worker, once its outstanding I/Os have completed; its time is in no I/O's
    /// latency.
    #[serde(default, alias = "fdatasync")]
    pub fsync: Option<u32>,
    /// Time from the job's start that its figures exclude; `measure.warmup` may exclude more.
    #[serde(default)]
    pub ramp_time: Option<Picos>,
    /// Delay before the job starts.
    #[serde(default)]
    pub startdelay: Option<Picos>,
    /// Whether the job starts only after all earlier jobs have ended; later jobs start together with it.
    #[serde(default)]
    pub stonewall: bool,
    /// Whether each block read is compared with what was written. Default: `host.verify`.
    #[serde(default)]
    pub verify: Option<Verify>,
    /// Priority class of the job's queues under weighted arbitration.
    #[serde(default)]
    pub priority: Priority,
    /// A trace to replay, instead of drawn I/Os.
    #[serde(default)]
    pub trace: Option<TraceSection>,
}

impl Default for JobSection {
    fn default() -> Self {
        JobSection {
            name: None,
            source: None,
            rw: None,
            rwmixread: None,
            rwmixwrite: None,
            bs: None,
            bsrange: None,
            bssplit: None,
            iodepth: None,
            numjobs: 1,
            blockalign: None,
            random_distribution: None,
            norandommap: None,
            drive: None,
            at: JobPlace::Host,
            namespace: 1,
            offset: Portion::default(),
            offset_increment: None,
            size: None,
            io_size: None,
            count: None,
            runtime: None,
            issue: None,
            rate_iops: None,
            rate: None,
            arrival: None,
            thinktime: None,
            thinktime_blocks: None,
            fsync: None,
            ramp_time: None,
            startdelay: None,
            stonewall: false,
            verify: None,
            priority: Priority::default(),
            trace: None,
        }
    }
}

impl JobSection {
    /// The longest I/O, if set.
    pub fn bytes_max(&self) -> Option<Bytes> {
        let each = |kind: Kind| {
            let sizes = [
                self.bs.and_then(|all| *all.0.get(kind)),
                self.bsrange.and_then(|all| all.0.get(kind).map(|range| range.max)),
                self.bssplit
                    .as_ref()
                    .and_then(|all| all.0.get(kind).as_ref()?.0.iter().map(|part| part.0).max()),
            ];
            sizes.into_iter().flatten().max()
        };
        [Kind::Read, Kind::Write, Kind::Trim].into_iter().filter_map(each).max()
    }
}

/// Whether I/Os wait for the completion of earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IssueMode {
    /// Closed loop: `iodepth` I/Os are always outstanding; a completion makes the next one due.
    #[default]
    Closed,
    /// Open loop: each is issued at its due time, unless `iodepth` are outstanding.
    Open,
}

/// `[job.trace]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceSection {
    /// The trace file, relative to the directory of the scenario; "-" is the standard input.
    pub file: String,
    /// Format of the trace.
    #[serde(default)]
    #[schemars(with = "Format")]
    pub format: FormatName,
    /// "open" replays at the recorded times, "closed" as fast as `iodepth` allows.
    #[serde(default = "open")]
    pub mode: IssueMode,
    /// In a format with numeric operations, the number that means read. Default: the format's, which is 1 in
    /// mqsim and disksim, 0 in tencent.
    #[serde(default)]
    pub reads_are: Option<u8>,
    /// For blkparse text and blktrace events, the step of an I/O to use: Q queued, D issued to the driver, C completed. Default:
    /// the first of these that the beginning of the file contains.
    #[serde(default)]
    pub action: Option<Action>,
    /// Unit of offsets and lengths, "bytes" or "sectors" (512 B). Default: the format's.
    #[serde(default)]
    pub unit: Option<Unit>,
    /// The columns of the file, such as "time_us,op,offset,bytes", instead of a format.
    #[serde(default)]
    pub columns: Option<Columns>,
    /// Device to select; "all" maps all devices to the same range, "spread" gives each an equal slice.
    #[serde(default)]
    pub device: DeviceChoice,
    /// Handling of addresses beyond the range. Default: they are an error.
    #[serde(default)]
    pub beyond: Option<Beyond>,
    /// Same as `beyond = "wrap"`.
    #[serde(default)]
    pub wrap: bool,
    /// Factor of the recorded times: 0.5 replays twice as fast.
    #[serde(default = "one_f64")]
    pub time_scale: f64,
    /// How often the trace is replayed. Each repetition follows the last record of the one before at the trace's mean gap.
    #[serde(default = "one_u32")]
    pub repeat: u32,
}

/// `[measure]`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasureSection {
    /// What the figures exclude at the beginning: a number of I/Os over all jobs, or a time.
    #[serde(default)]
    pub warmup: Option<Warmup>,
    /// Width of a step of the time series. Default: depends on the length of the run. There are at most 1024
    /// steps; more are merged.
    #[serde(default)]
    pub interval: Option<Picos>,
    /// Whether the cost of I/O in processor time and memory of the host is reported by component. Default:
    /// true if the firmware of a drive runs on the host.
    #[serde(default)]
    pub host: Option<bool>,
}

/// What the figures exclude at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// A number of I/Os, over all jobs.
    Ios(u64),
    /// Virtual time.
    Time(Picos),
}

/// The devices of a trace to replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// All devices, mapped to the same range.
    #[default]
    All,
    /// All devices, each with its own slice of the range.
    Spread,
    /// One device.
    One(u32),
}

const WARMUP_EXPECTED: &str = "a number of I/Os, such as 1000, or a time with its unit, such as \"10 ms\"";
const DEVICE_EXPECTED: &str = "\"all\", \"spread\", or the number of a device, such as 3 or \"8,0\"";

struct WarmupVisitor;

impl Visitor<'_> for WarmupVisitor {
    type Value = Warmup;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WARMUP_EXPECTED)
    }
    fn visit_i64<E: de::Error>(self, count: i64) -> Result<Warmup, E> {
        u64::try_from(count)
            .map(Warmup::Ios)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(count), &self))
    }
    fn visit_u64<E: de::Error>(self, count: u64) -> Result<Warmup, E> {
        Ok(Warmup::Ios(count))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Warmup, E> {
        text.parse().map(Warmup::Time).map_err(E::custom)
    }
}

impl FromStr for Warmup {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.trim().parse() {
            Ok(count) => Ok(Warmup::Ios(count)),
            Err(_) => text.parse().map(Warmup::Time),
        }
    }
}

impl<'de> Deserialize<'de> for Warmup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WarmupVisitor)
    }
}

impl JsonSchema for Warmup {
    fn schema_name() -> Cow<'static, str> {
        "Warmup".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": WARMUP_EXPECTED, "type": ["integer", "string"], "minimum": 0 })
    }
}

struct DeviceVisitor;

impl Visitor<'_> for DeviceVisitor {
    type Value = DeviceChoice;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DEVICE_EXPECTED)
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<DeviceChoice, E> {
        u32::try_from(number)
            .map(DeviceChoice::One)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<DeviceChoice, E> {
        match text {
            "all" => Ok(DeviceChoice::All),
            "spread" => Ok(DeviceChoice::Spread),
            other if device_pair(other).is_some() => Ok(DeviceChoice::One(device_pair(other).unwrap_or(0))),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for DeviceChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DeviceVisitor)
    }
}

impl JsonSchema for DeviceChoice {
    fn schema_name() -> Cow<'static, str> {
        "DeviceChoice".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": DEVICE_EXPECTED, "type": ["integer", "string"], "minimum": 0 })
    }
}

fn one_u16() -> u16 {
    1
}
fn one_u32() -> u32 {
    1
}
pub(super) fn one_u64() -> u64 {
    1
}
fn one_f64() -> f64 {
    1.0
}
fn two() -> u16 {
    2
}
fn four() -> u16 {
    4
}
fn filled() -> Base {
    Base::Filled
}

fn four_kib() -> Bytes {
    Bytes(4096)
}
pub(super) fn yes() -> bool {
    true
}
fn open() -> IssueMode {
    IssueMode::Open
}
fn linux_polled() -> String {
    "linux-polled".to_owned()
}
