//! The scenario as it is written: sections, keys, defaults.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::array_section::ArraySection;
use super::drive_names::DriveNames;
use super::jbof_section::JbofSection;
use super::kv_section::KvSection;
use super::personality::Personality;
use super::target_section::{NetworkSection, TargetSection};
use super::transfer::TransferSection;
use byteway_console::units::{Age, Bytes, Percent, Picos, Portion, Rate, UnitError};
use byteway_trace::format::device_pair;
use byteway_trace::{Action, Columns, Format, Unit};
use byteway_workload::{
    Arrival, Beyond, Distribution, Iops, Kind, PerDirection, Priority, Rw, SizeRange, SizeSplit, Verify,
};

/// A scenario as it is written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    /// What the run is called; left out, the name of the file.
    #[serde(default)]
    pub name: Option<String>,
    /// Everything random follows from it: the same seed, the same result.
    #[serde(default = "one_u64")]
    pub seed: u64,
    /// The drive, or several.
    pub drive: DriveSections,
    /// The drives are one.
    #[serde(default)]
    pub array: Option<ArraySection>,
    /// The drives are in one box, and may lend each other processors and DRAM.
    #[serde(default)]
    pub jbof: Option<JbofSection>,
    /// The host.
    #[serde(default)]
    pub host: HostSection,
    /// The drives are behind a target, which the host reaches over a network.
    #[serde(default)]
    pub target: Option<TargetSection>,
    /// The network to the target.
    #[serde(default)]
    pub network: Option<NetworkSection>,
    /// How payloads cross the link.
    #[serde(default)]
    pub transfer: TransferSection,
    /// What is asked of the drive; several jobs run at once.
    #[serde(default)]
    pub job: Vec<JobSection>,
    /// What is asked of a drive with `personality = "kv"`, or of its namespace of pairs; several jobs run at once.
    #[serde(default)]
    pub kv: Vec<KvSection>,
    /// What is measured.
    #[serde(default)]
    pub measure: MeasureSection,
}

/// `[drive]`, or one `[[drive]]` for each of several, which have a link to the host each and nothing in common.
#[derive(Clone, Debug)]
pub enum DriveSections {
    /// `[drive]`
    One(Box<DriveSection>),
    /// `[[drive]]`
    Several(Vec<DriveSection>),
}

impl DriveSections {
    /// Each with where it is written.
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
    /// What a scenario with several drives calls this one: 1 to 32 letters, digits, `-` and `_`, of which one is no digit. Everything
    /// random in the drive follows from it and the seed.
    #[serde(default)]
    pub name: Option<String>,
    /// So many drives like this one, named `NAME0`, `NAME1` and so on, at most 256; left out, one, named `NAME`.
    #[serde(default)]
    pub copies: Option<u32>,
    /// A built-in profile by name, or the path of a profile, from the folder of the scenario.
    pub profile: String,
    /// What the host asks it for.
    #[serde(default)]
    pub personality: Personality,
    /// What the host sees, 1 GiB to 64 TiB; left out, as the profile says.
    #[serde(default)]
    pub capacity: Option<Bytes>,
    /// A logical block: "512 B" or "4 KiB".
    #[serde(default = "four_kib")]
    pub lba_size: Bytes,
    /// How data is kept.
    #[serde(default)]
    pub store: Store,
    /// What is on the drive at the beginning; of a drive that holds pairs, nothing.
    #[serde(default)]
    pub precondition: Precondition,
    /// How long ago everything on the drive was written: what it holds at the beginning has aged so long. Left out, it is
    /// new.
    #[serde(default)]
    pub age: Age,
    /// How worn its blocks are at the beginning: the mean of their erases, as a share of `flash.endurance`. Left out, none
    /// was ever erased.
    #[serde(default)]
    pub worn: Percent,
    /// Namespaces, equal parts of the capacity.
    #[serde(default = "one_u32")]
    pub namespaces: u32,
    /// With `personality = "block"`: what of the capacity a further namespace has, behind those of blocks, that holds pairs of
    /// a key and a value; at least 16 MiB. Left out, there is none.
    #[serde(default)]
    pub kv_capacity: Option<Bytes>,
    /// Keys of the profile to be replaced, such as `flash.read = ["50 us"]`.
    #[serde(default, rename = "override")]
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub overrides: Option<toml::Table>,
}

/// How a drive keeps data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    /// Every byte.
    Ram,
    /// Of each block its address, version and checksum: for capacities that no memory holds. Still verified.
    #[default]
    Stamp,
    /// Every byte, in files: only of a drive that is served, with `byteway serve --data DIR`.
    File,
}

/// What is on a drive at the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precondition {
    /// Nothing was ever written.
    Empty,
    /// Everything was written once, in order.
    #[default]
    Filled,
    /// In the midst of being overwritten: random writes of 4 KiB, as fast as the drive takes them, have gone on until
    /// throughput and write amplification no longer changed. Free blocks are few, the write buffer is full and collection
    /// is at work from the first write on. Another workload, such as one of larger blocks, a skewed or a lighter one, has
    /// another steady state: the summary says when throughput still changes, and `ramp_time` leaves that out.
    Steady,
}

/// `[host]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSection {
    /// A built-in host profile by name, or the path of one, from the folder of the scenario.
    #[serde(default = "linux_polled")]
    pub profile: String,
    /// Check every block read against what was written; `"bytes"`: byte by byte.
    #[serde(default)]
    pub verify: Verify,
    /// How the drive chooses between queues.
    #[serde(default)]
    pub arbitration: Arbitration,
    /// The weights under weighted arbitration, 1 to 256 each.
    #[serde(default)]
    pub weights: Weights,
    /// Memory that it lends to each drive that asks for some (Host Memory Buffer), at most; "0 B": none. Left out, what Linux lends.
    #[serde(default = "lent_bytes")]
    pub lends: Bytes,
    /// Keys of the host profile to be replaced, such as `submit = "1 us"`.
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
            lends: lent_bytes(),
            overrides: None,
        }
    }
}

/// On which machine a job runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobPlace {
    /// The host.
    #[default]
    Host,
    /// The target.
    Target,
}

/// How the drive chooses between queues (NVMe Base 2.1, 3.4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// Each queue in turn.
    #[default]
    RoundRobin,
    /// Weighted round robin with an urgent class: `priority` of the jobs counts.
    Weighted,
}

/// Weights of the classes of weighted arbitration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Of the class high.
    #[serde(default = "four")]
    pub high: u16,
    /// Of the class medium.
    #[serde(default = "two")]
    pub medium: u16,
    /// Of the class low.
    #[serde(default = "one_u16")]
    pub low: u16,
}

impl Default for Weights {
    fn default() -> Self {
        Weights { high: 4, medium: 2, low: 1 }
    }
}

/// `[[job]]`. Keys are called as fio calls them, and mean what they mean there, but for what they say of workers: here they
/// are for all workers of the job together, unless they say otherwise.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSection {
    /// Unique in the scenario; left out, `job0`, `job1` and so on.
    #[serde(default)]
    pub name: Option<String>,
    /// Direction and order; needed unless the job replays a trace.
    #[serde(default)]
    pub rw: Option<Rw>,
    /// Share of reads in a mix, 0 to 100; left out, 50.
    #[serde(default)]
    pub rwmixread: Option<u8>,
    /// Share of writes in a mix: what `rwmixread` leaves.
    #[serde(default)]
    pub rwmixwrite: Option<u8>,
    /// Bytes of an I/O, a multiple of `lba_size` (of a sink, any number); left out, 4 KiB.
    #[serde(default)]
    pub bs: Option<PerDirection<Bytes>>,
    /// Instead of `bs`: any multiple of the least, up to the most. Random addresses are multiples of the least.
    #[serde(default)]
    pub bsrange: Option<PerDirection<SizeRange>>,
    /// Instead of `bs`: several sizes with their shares.
    #[serde(default)]
    pub bssplit: Option<PerDirection<SizeSplit>>,
    /// I/Os of a worker that may be outstanding; left out, 1 in a closed loop and 128 in an open one, where those that
    /// are due beyond that wait, and the wait counts as latency.
    #[serde(default)]
    pub iodepth: Option<u32>,
    /// Workers, each with a queue pair of its own.
    #[serde(default = "one_u32")]
    pub numjobs: u32,
    /// What random addresses are multiples of; left out, the shortest I/O of their kind.
    #[serde(default)]
    pub blockalign: Option<Bytes>,
    /// How random addresses are spread; left out, uniformly.
    #[serde(default)]
    pub random_distribution: Option<Distribution>,
    /// Whether random addresses are drawn anew each time; false: every block once before any twice, as fio does if it isn't
    /// told otherwise. Left out, true.
    #[serde(default)]
    pub norandommap: Option<bool>,
    /// The drive, by its name: needed if there are several. With a list of names, or "all", the job runs on each of these drives at
    /// once, as one job for each with all of its keys, called `NAME/DRIVE`.
    #[serde(default)]
    pub drive: Option<DriveNames>,
    /// On which machine it runs: with a target, "target" stands for an application there, which has the drive beside it and shares
    /// its queue pairs with the host's commands.
    #[serde(default)]
    pub at: JobPlace,
    /// Namespace, from 1.
    #[serde(default = "one_u32")]
    pub namespace: u32,
    /// Where the job's range begins, within the namespace: a size, or a part of the namespace, such as "30 %".
    #[serde(default)]
    pub offset: Portion,
    /// Gives each worker a range of its own, which begins so much after that of the worker before ("0 B": the same). Left
    /// out, all workers share one range, and sequential ones divide it among themselves.
    #[serde(default)]
    pub offset_increment: Option<Bytes>,
    /// Length of the range (with `offset_increment`, of each worker): a size, or a part of the namespace, such as "30 %", as
    /// far as there is so much behind `offset`; left out, to the end of the namespace. If none of
    /// `io_size`, `count` and `runtime` is given, the job ends when it has transferred as much.
    #[serde(default)]
    pub size: Option<Portion>,
    /// Bytes that the job transfers, over all workers: less than its range or more. What is trimmed and then written
    /// counts once.
    #[serde(default)]
    pub io_size: Option<Bytes>,
    /// I/Os of the job, over all workers. Of `io_size`, `count` and `runtime` what is reached first ends the job.
    #[serde(default)]
    pub count: Option<u64>,
    /// Virtual time of the job, after its `ramp_time`.
    #[serde(default)]
    pub runtime: Option<Picos>,
    /// Whether I/Os wait for those before them.
    #[serde(default)]
    pub issue: Option<IssueMode>,
    /// I/Os a second, over all workers: of an open loop what it issues, of a closed one what it does not exceed, there
    /// also for reads, writes and trims apart: "10000,2000".
    #[serde(default)]
    pub rate_iops: Option<PerDirection<Iops>>,
    /// Bytes a second that a closed loop does not exceed, over all workers, or for reads, writes and trims apart.
    #[serde(default)]
    pub rate: Option<PerDirection<Rate>>,
    /// How the I/Os of an open loop are spaced.
    #[serde(default)]
    pub arrival: Option<Arrival>,
    /// How long a worker pauses after `thinktime_blocks` I/Os, once the last of them has completed.
    #[serde(default)]
    pub thinktime: Option<Picos>,
    /// I/Os of a worker between two pauses, which also bounds how many are outstanding; left out, 1.
    #[serde(default)]
    pub thinktime_blocks: Option<u32>,
    /// Time at the beginning of the job that is left out of its figures; `measure.warmup` may leave out more.
    #[serde(default)]
    pub ramp_time: Option<Picos>,
    /// How long the job waits before it begins.
    #[serde(default)]
    pub startdelay: Option<Picos>,
    /// Whether the job begins only when all jobs before it have ended; those after it begin with it.
    #[serde(default)]
    pub stonewall: bool,
    /// Whether each block that the job reads is checked against what was written; left out, as `host.verify` says.
    #[serde(default)]
    pub verify: Option<Verify>,
    /// Class of the job's queues under weighted arbitration.
    #[serde(default)]
    pub priority: Priority,
    /// A recording to be replayed instead.
    #[serde(default)]
    pub trace: Option<TraceSection>,
}

impl Default for JobSection {
    fn default() -> Self {
        JobSection {
            name: None,
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
    /// The longest I/O, if one is given.
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

/// Whether I/Os wait for those before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IssueMode {
    /// `iodepth` are outstanding at all times: a completion makes the next one due.
    #[default]
    Closed,
    /// Each is issued at its time, as long as fewer than `iodepth` are outstanding.
    Open,
}

/// `[job.trace]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceSection {
    /// The file, from the folder of the scenario; "-" is the standard input.
    pub file: String,
    /// How it is written.
    #[serde(default)]
    pub format: Format,
    /// "open" replays at the recorded times, "closed" as fast as `iodepth` allows.
    #[serde(default = "open")]
    pub mode: IssueMode,
    /// In a format whose operation is a number, the one that means read; left out, the format's own: 1 in mqsim and
    /// disksim, 0 in tencent.
    #[serde(default)]
    pub reads_are: Option<u8>,
    /// Of blkparse's text, the step of an I/O that counts: Q queued, D issued to the driver, C completed.
    /// Left out, the first of these that the beginning of the file has.
    #[serde(default)]
    pub action: Option<Action>,
    /// What offsets and lengths are counted in, "bytes" or "sectors" (512 B), if not in what the format says.
    #[serde(default)]
    pub unit: Option<Unit>,
    /// The columns of the file, such as "time_us,op,offset,bytes", instead of a format.
    #[serde(default)]
    pub columns: Option<Columns>,
    /// Only this device's records; "all" lays every device over the same range, "spread" gives each an equal slice.
    #[serde(default)]
    pub device: DeviceChoice,
    /// What becomes of addresses beyond the range; left out, they are an error.
    #[serde(default)]
    pub beyond: Option<Beyond>,
    /// Short for `beyond = "wrap"`.
    #[serde(default)]
    pub wrap: bool,
    /// What the recorded times are multiplied with: 0.5 replays twice as fast.
    #[serde(default = "one_f64")]
    pub time_scale: f64,
}

/// `[measure]`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasureSection {
    /// What is left out of the figures at the beginning: a number of I/Os over all jobs, or a time.
    #[serde(default)]
    pub warmup: Option<Warmup>,
    /// Width of the steps of the series over time; left out, it follows from how long the run takes. There are at most 1024
    /// steps: more are joined.
    #[serde(default)]
    pub interval: Option<Picos>,
    /// Whether what I/O costs the host's processors and memory is reported by component. Left out, if the firmware of a drive runs on
    /// the host.
    #[serde(default)]
    pub host: Option<bool>,
}

/// What is left out of the figures at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// So many I/Os, over all jobs.
    Ios(u64),
    /// So much virtual time.
    Time(Picos),
}

/// Which devices of a trace are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// All, over the same range.
    #[default]
    All,
    /// All, each with a slice of the range to itself.
    Spread,
    /// One.
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
