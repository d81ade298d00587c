//! The scenario: what the user writes ([`ScenarioFile`]), and what is left of it once the profiles are loaded, the
//! overrides laid on and every value checked ([`Scenario`]), which is all that a run needs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeValue;

use crate::error::InputError;
use crate::profile::{DRIVES, Fault, Geometry, HOSTS, HostProfile, Profile, fault, load, within};
use crate::source::{Index, Sources, Texts, Tree};
use crate::trace::{self, Format};
use crate::units::{Bytes, Picos, excerpt};
use crate::workload::{
    Arrival, Distribution, Issue, JobPlan, Priority, Rw, Source, Synthetic, TracePlan, scan,
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
    /// The drive.
    pub drive: DriveSection,
    /// The host.
    #[serde(default)]
    pub host: HostSection,
    /// How payloads cross the link.
    #[serde(default)]
    pub transfer: TransferSection,
    /// What is asked of the drive; several jobs run at once.
    #[serde(default)]
    pub job: Vec<JobSection>,
    /// What is measured.
    #[serde(default)]
    pub measure: MeasureSection,
}

/// `[drive]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriveSection {
    /// A built-in profile by name, or the path of a profile, from the folder of the scenario.
    pub profile: String,
    /// What the host sees, 1 GiB to 8 TiB; left out, as the profile says.
    #[serde(default)]
    pub capacity: Option<Bytes>,
    /// A logical block: "512 B" or "4 KiB".
    #[serde(default = "four_kib")]
    pub lba_size: Bytes,
    /// How data is kept.
    #[serde(default)]
    pub store: Store,
    /// What is on the drive at the beginning.
    #[serde(default)]
    pub precondition: Precondition,
    /// Namespaces, equal parts of the capacity.
    #[serde(default = "one_u32")]
    pub namespaces: u32,
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
    /// Random overwrites have gone on until write amplification no longer changed.
    Steady,
}

/// `[transfer]`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferSection {
    /// How a command says where its payload lies.
    #[serde(default)]
    pub method: TransferMethod,
}

/// How a command says where its payload lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TransferMethod {
    /// Physical Region Pages.
    #[default]
    Prp,
    /// Scatter Gather Lists; the drive must support them.
    Sgl,
}

/// `[host]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSection {
    /// A built-in host profile by name, or the path of one, from the folder of the scenario.
    #[serde(default = "linux_polled")]
    pub profile: String,
    /// Check every block read against what was written.
    #[serde(default = "yes")]
    pub verify: bool,
    /// How the drive chooses between queues.
    #[serde(default)]
    pub arbitration: Arbitration,
    /// The weights under weighted arbitration, 1 to 256 each.
    #[serde(default)]
    pub weights: Weights,
    /// Keys of the host profile to be replaced, such as `submit = "1 us"`.
    #[serde(default, rename = "override")]
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub overrides: Option<toml::Table>,
}

impl Default for HostSection {
    fn default() -> Self {
        HostSection {
            profile: linux_polled(),
            verify: true,
            arbitration: Arbitration::default(),
            weights: Weights::default(),
            overrides: None,
        }
    }
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

/// `[[job]]`
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
    /// Bytes of an I/O, a multiple of `lba_size`; left out, 4 KiB.
    #[serde(default)]
    pub bs: Option<Bytes>,
    /// I/Os of a worker that may be outstanding; left out, 1 in a closed loop and 128 in an open one, where those that
    /// are due beyond that wait, and the wait counts as latency.
    #[serde(default)]
    pub iodepth: Option<u32>,
    /// Workers, each with a queue pair of its own.
    #[serde(default = "one_u32")]
    pub numjobs: u32,
    /// How random addresses are spread; left out, uniform.
    #[serde(default)]
    pub distribution: Option<Distribution>,
    /// Namespace, from 1.
    #[serde(default = "one_u32")]
    pub namespace: u32,
    /// Where the job's range begins, within the namespace.
    #[serde(default)]
    pub offset: Bytes,
    /// Length of the range; left out, to the end of the namespace.
    #[serde(default)]
    pub size: Option<Bytes>,
    /// I/Os of the job, over all workers. Of `count` and `runtime` what is reached first ends the job.
    #[serde(default)]
    pub count: Option<u64>,
    /// Virtual time of the job.
    #[serde(default)]
    pub runtime: Option<Picos>,
    /// Whether I/Os wait for those before them.
    #[serde(default)]
    pub issue: Option<IssueMode>,
    /// I/Os a second of an open loop, over all workers.
    #[serde(default)]
    pub rate_iops: Option<u64>,
    /// How the I/Os of an open loop are spaced.
    #[serde(default)]
    pub arrival: Option<Arrival>,
    /// Class of the job's queues under weighted arbitration.
    #[serde(default)]
    pub priority: Priority,
    /// A recording to be replayed instead.
    #[serde(default)]
    pub trace: Option<TraceSection>,
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
    /// The file, from the folder of the scenario.
    pub file: String,
    /// How it is written.
    #[serde(default)]
    pub format: Format,
    /// "open" replays at the recorded times, "closed" as fast as `iodepth` allows.
    #[serde(default = "open")]
    pub mode: IssueMode,
    /// Only this device's records; "all" lays every device over the same range.
    #[serde(default)]
    pub device: DeviceChoice,
    /// Addresses beyond the range begin again at its start.
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
    /// Width of the steps of the series over time; left out, there is none.
    #[serde(default)]
    pub interval: Option<Picos>,
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
    /// One.
    One(u32),
}

const WARMUP_EXPECTED: &str = "a number of I/Os, such as 1000, or a time with its unit, such as \"10 ms\"";
const DEVICE_EXPECTED: &str = "\"all\", or the number of a device";

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
fn one_u64() -> u64 {
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
fn yes() -> bool {
    true
}
fn open() -> IssueMode {
    IssueMode::Open
}
fn linux_polled() -> String {
    "linux-polled".to_owned()
}

/// A scenario that can be run: everything looked up, laid on, checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What the run is called.
    pub name: String,
    /// Everything random follows from it.
    pub seed: u64,
    /// The drive.
    pub drive: DrivePlan,
    /// The host.
    pub host: HostPlan,
    /// The jobs: at least one.
    pub jobs: Vec<JobPlan>,
    /// What is left out of the figures at the beginning.
    pub warmup: Option<Warmup>,
    /// Width of the steps of the series over time.
    pub interval: Option<Picos>,
}

/// A drive that can be built.
#[derive(Clone, Debug)]
pub struct DrivePlan {
    /// Name of its profile, without folder.
    pub profile_name: String,
    /// Its constants, overrides laid on.
    pub profile: Profile,
    /// Its flash array.
    pub geometry: Geometry,
    /// Bytes of a logical block: 512 or 4096.
    pub lba_bytes: u32,
    /// How data is kept.
    pub store: Store,
    /// What is on it at the beginning.
    pub precondition: Precondition,
    /// Namespaces, from 1.
    pub namespaces: u32,
    /// Logical blocks of each namespace.
    pub namespace_blocks: u64,
}

/// A host that can be built.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Name of its profile, without folder.
    pub profile_name: String,
    /// Its constants, overrides laid on.
    pub profile: HostProfile,
    /// Whether every block read is checked.
    pub verify: bool,
    /// How the drive chooses between queues.
    pub arbitration: Arbitration,
    /// The weights under weighted arbitration.
    pub weights: Weights,
    /// How its commands say where their payload lies.
    pub method: TransferMethod,
}

/// What the command line adds to a scenario.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `key=value` overrides, in their order.
    pub sets: Vec<String>,
    /// Skip and count the lines of a trace that are no records.
    pub skip_bad_lines: bool,
}

/// I/Os of a worker that may be outstanding in an open loop whose scenario doesn't say.
const OPEN_DEPTH: u32 = 128;
/// Over all workers; each takes memory of its own.
const OUTSTANDING_MAX: u64 = 1 << 20;
const COUNT_MAX: u64 = 1 << 48;
/// Virtual time that a run may take: some days less than the clock reaches, for what is under way at its end.
pub const RUNTIME_MAX: Picos = Picos(200 * 86_400 * 1_000_000_000_000);

impl Scenario {
    /// Reads, resolves and checks a scenario file.
    pub fn load(path: &Path, options: &Options) -> Result<Scenario, InputError> {
        let texts = Texts::default();
        let mut sources = Sources::new(&texts);
        let tree = sources.parse_file(path, "scenario")?;
        let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        Scenario::resolve(sources, tree, &stem, options)
    }

    /// The same for a text that stands for the file `folder`/`name`.
    pub fn from_text(
        name: &str,
        folder: &Path,
        text: &str,
        options: &Options,
    ) -> Result<Scenario, InputError> {
        let texts = Texts::default();
        let mut sources = Sources::new(&texts);
        let tree = sources.parse_text(name, folder, text)?;
        Scenario::resolve(sources, tree, name.trim_end_matches(".toml"), options)
    }

    fn resolve<'t>(
        mut sources: Sources<'t>,
        mut tree: Spanned<Tree<'t>>,
        stem: &str,
        options: &Options,
    ) -> Result<Scenario, InputError> {
        for flag in &options.sets {
            sources.set(&mut tree, flag)?;
        }
        let drive_over = overrides(&tree, "drive");
        let host_over = overrides(&tree, "host");
        let (file, index): (ScenarioFile, Index) = sources.decode(tree, "scenario")?;

        let span = index.span("drive.profile");
        let (profile, profile_index): (Profile, Index) =
            load(&mut sources, &DRIVES, &file.drive.profile, span, drive_over, "profile")?;
        let span = index.span("host.profile");
        let (host_profile, host_index): (HostProfile, Index) =
            load(&mut sources, &HOSTS, &file.host.profile, span, host_over, "host profile")?;
        let placed = |index: &Index, fault: Fault| {
            InputError::new(fault.what, fault.cure).at(sources.place(&index.span(&fault.path)))
        };
        profile.check().map_err(|fault| placed(&profile_index, fault))?;
        host_profile.check().map_err(|fault| placed(&host_index, fault))?;

        let drive = drive_plan(&file.drive, profile).map_err(|fault| {
            // The capacity and what contradicts it may stand in either text.
            let in_scenario = index.has(&fault.path) || !profile_index.has(&fault.path);
            placed(if in_scenario { &index } else { &profile_index }, fault)
        })?;
        let name = file.name.clone().unwrap_or_else(|| stem.to_owned());
        check_name("name", &name).map_err(|fault| placed(&index, fault))?;
        let host = HostPlan {
            profile_name: profile_stem(&file.host.profile),
            profile: host_profile,
            verify: file.host.verify,
            arbitration: file.host.arbitration,
            weights: file.host.weights,
            method: file.transfer.method,
        };
        if host.method == TransferMethod::Sgl && !drive.profile.controller.sgl {
            let path = "transfer.method";
            let what = format!("`{path}` = sgl: the drive `{}` has no SGLs", drive.profile_name);
            let cure = "set `controller.sgl = true` in [drive.override], or use prp";
            return Err(placed(&index, fault(path, what, cure)));
        }
        for (key, weight) in
            [("high", host.weights.high), ("medium", host.weights.medium), ("low", host.weights.low)]
        {
            let path = format!("host.weights.{key}");
            within(&path, weight, 1, 256).map_err(|fault| placed(&index, fault))?;
            if index.has(&path) && host.arbitration == Arbitration::RoundRobin {
                let what = format!("`{path}`: has no effect under round robin");
                let cure = "set `arbitration = \"weighted\"` in [host], or leave the weights out";
                return Err(placed(&index, fault(path, what, cure)));
            }
        }
        let mut jobs = Vec::new();
        for (number, section) in file.job.iter().enumerate() {
            let path = format!("job.{number}");
            let draft = Draft { section, path: &path, index: &index, drive: &drive, host: &host };
            let mut plan = draft.plan(number).map_err(|fault| placed(&index, fault))?;
            if let Some(trace) = &section.trace {
                let span = index.span(&format!("{path}.trace.file"));
                let source = sources.folder(span.start).join(&trace.file);
                plan.source = draft.replay(&plan, source, trace, options.skip_bad_lines).map_err(
                    |error| match error.place {
                        None => error.at(sources.place(&span)),
                        Some(_) => error,
                    },
                )?;
            }
            jobs.push(plan);
        }
        let scenario = Scenario {
            name,
            seed: file.seed,
            drive,
            host,
            jobs,
            warmup: file.measure.warmup,
            interval: file.measure.interval,
        };
        scenario.check().map_err(|fault| placed(&index, fault))?;
        Ok(scenario)
    }

    /// What holds between the parts.
    fn check(&self) -> Result<(), Fault> {
        if self.jobs.is_empty() {
            let cure = "add `[[job]]` with at least `rw = \"randread\"` and `count = 100000`";
            return Err(fault("job", "the scenario has no job", cure));
        }
        let mut names = BTreeSet::new();
        for (number, job) in self.jobs.iter().enumerate() {
            if !names.insert(&job.name) {
                let what = format!("two jobs are called `{}`", job.name);
                let cure = "give each a name of its own: its random numbers follow from it";
                return Err(fault(format!("job.{number}.name"), what, cure));
            }
        }
        let last = format!("job.{}", self.jobs.len() - 1);
        let workers: u64 = self.jobs.iter().map(|job| u64::from(job.workers)).sum();
        let queues = self.drive.profile.controller.max_io_queues;
        if workers > u64::from(queues) {
            let what = format!(
                "{workers} workers over all jobs need as many queue pairs, and the drive has {queues}"
            );
            let cure = format!("lower `numjobs`, or set drive.override.controller.max_io_queues = {workers}");
            return Err(fault(format!("{last}.numjobs"), what, cure));
        }
        let outstanding: u64 =
            self.jobs.iter().map(|job| u64::from(job.workers) * u64::from(job.iodepth)).sum();
        if outstanding > OUTSTANDING_MAX {
            let what = format!("{outstanding} I/Os could be outstanding over all jobs");
            let cure = format!("lower `iodepth` or `numjobs`: at most {OUTSTANDING_MAX}");
            return Err(fault(format!("{last}.iodepth"), what, cure));
        }
        if let Some(interval) = self.interval {
            within("measure.interval", interval, Picos(1_000_000), RUNTIME_MAX)?;
        }
        match self.warmup {
            Some(Warmup::Ios(count)) => within("measure.warmup", count, 0, COUNT_MAX),
            Some(Warmup::Time(time)) => within("measure.warmup", time, Picos(0), RUNTIME_MAX),
            None => Ok(()),
        }
    }

    /// Commands that the run issues in all, if every job knows its own.
    pub fn command_count(&self) -> Option<u64> {
        self.jobs.iter().map(JobPlan::command_count).try_fold(0u64, |sum, count| sum.checked_add(count?))
    }

    /// The longest runtime, if every job has one: how far virtual time goes at most.
    pub fn runtime(&self) -> Option<Picos> {
        self.jobs.iter().map(|job| job.runtime).try_fold(Picos(0), |longest, own| Some(longest.max(own?)))
    }

    /// What a reader of the result should know about its inputs: what was assumed, skipped, wrapped. Holds no paths.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for job in &self.jobs {
            let Source::Trace(replay) = &job.source else { continue };
            let (scan, tally) = (&replay.scan, &replay.scan.tally);
            let mut note = |text: String| notes.push(format!("job {}: {text}", job.name));
            let file = trace::file_name(&replay.path);
            note(format!("{file} taken as {}; {} records", replay.format.assumption(), tally.records));
            if tally.bad_lines > 0 {
                let first = tally.first_bad.as_deref().unwrap_or_default();
                note(format!(
                    "{} lines of {file} are no records and were skipped; first {first}",
                    tally.bad_lines
                ));
            }
            if tally.other_devices > 0 {
                note(format!("{} records of other devices were left out", tally.other_devices));
            }
            if tally.times_raised > 0 {
                note(format!(
                    "{} times went backwards and were raised to the latest before",
                    tally.times_raised
                ));
            }
            if scan.wrapped > 0 {
                note(format!("{} records beyond the range were wrapped into it", scan.wrapped));
            }
            if scan.widened > 0 {
                let lba_bytes = self.drive.lba_bytes;
                let cure = if lba_bytes > 512 { "; drive.lba_size = \"512 B\" may fit them" } else { "" };
                note(format!(
                    "{} records that begin or end within a block of {lba_bytes} B were widened to whole blocks{cure}",
                    scan.widened
                ));
            }
            if scan.commands > tally.records {
                note(format!(
                    "records longer than one command may be were split: {} commands",
                    scan.commands
                ));
            }
        }
        notes
    }
}

/// The table under `[section.override]`, with its places.
fn overrides<'t>(tree: &Spanned<Tree<'t>>, section: &str) -> Option<Tree<'t>> {
    let DeValue::Table(section) = tree.get_ref().get(section)?.get_ref() else { return None };
    match section.get("override")?.get_ref() {
        DeValue::Table(over) => Some(over.clone()),
        _ => None,
    }
}

/// A profile's name in results, which hold no paths.
fn profile_stem(name: &str) -> String {
    let path = Path::new(name);
    path.file_stem().map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

fn check_name(path: &str, name: &str) -> Result<(), Fault> {
    if !name.is_empty() && name.chars().count() <= 100 && !name.chars().any(char::is_control) {
        return Ok(());
    }
    Err(fault(path, format!("`{}` is not a name", excerpt(name)), "write 1 to 100 printable characters"))
}

fn drive_plan(section: &DriveSection, profile: Profile) -> Result<DrivePlan, Fault> {
    let lba = section.lba_size;
    if lba != Bytes(512) && lba != Bytes(4096) {
        return Err(fault(
            "drive.lba_size",
            format!("`drive.lba_size` = {lba} is not a format of the drive"),
            "choose \"512 B\" or \"4 KiB\"",
        ));
    }
    within("drive.namespaces", section.namespaces, 1, 128)?;
    let geometry = profile.geometry(section.capacity.unwrap_or(profile.drive.capacity))?;
    // Whole MiB, so that a namespace never begins within a page.
    let namespace_bytes = (geometry.capacity_bytes / u64::from(section.namespaces)) >> 20 << 20;
    Ok(DrivePlan {
        profile_name: profile_stem(&section.profile),
        geometry,
        lba_bytes: lba.0 as u32,
        store: section.store,
        precondition: section.precondition,
        namespaces: section.namespaces,
        namespace_blocks: namespace_bytes / lba.0,
        profile,
    })
}

/// A job on its way from section to plan.
struct Draft<'a> {
    section: &'a JobSection,
    path: &'a str,
    index: &'a Index,
    drive: &'a DrivePlan,
    host: &'a HostPlan,
}

impl Draft<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    fn fault(&self, key: &str, what: impl fmt::Display, cure: impl Into<String>) -> Fault {
        fault(self.key(key), format!("`{}`: {what}", self.key(key)), cure)
    }

    fn plan(&self, number: usize) -> Result<JobPlan, Fault> {
        let section = self.section;
        let controller = &self.drive.profile.controller;
        let name = section.name.clone().unwrap_or_else(|| format!("job{number}"));
        check_name(&self.key("name"), &name)?;
        within(&self.key("namespace"), section.namespace, 1, self.drive.namespaces)?;
        let (range_lba, range_blocks) = self.range()?;
        let depth_max = (controller.max_queue_entries - 1).min(65535);
        if let Some(iodepth) = section.iodepth {
            within(&self.key("iodepth"), iodepth, 1, depth_max)?;
        }
        within(&self.key("numjobs"), section.numjobs, 1, 1024)?;
        if let Some(count) = section.count {
            within(&self.key("count"), count, 1, COUNT_MAX)?;
        }
        if let Some(runtime) = section.runtime {
            within(&self.key("runtime"), runtime, Picos(1), RUNTIME_MAX)?;
        }
        if self.index.has(&self.key("priority")) && self.host.arbitration == Arbitration::RoundRobin {
            let cure = "set `arbitration = \"weighted\"` in [host], or leave `priority` out";
            return Err(self.fault("priority", "has no effect under round robin", cure));
        }
        let transfer_blocks_max = (controller.mdts.0 / u64::from(self.drive.lba_bytes)).min(65536) as u32;
        let (issue, source) = match &section.trace {
            Some(trace) => (self.check_trace(trace)?, PENDING),
            None => self.synthetic(range_blocks, transfer_blocks_max)?,
        };
        Ok(JobPlan {
            name,
            nsid: section.namespace,
            lba_bytes: self.drive.lba_bytes,
            range_lba,
            range_blocks,
            iodepth: section.iodepth.unwrap_or(match issue {
                Issue::Closed => 1,
                Issue::Open { .. } | Issue::Trace => OPEN_DEPTH.min(depth_max),
            }),
            workers: section.numjobs,
            issue,
            priority: section.priority,
            count: section.count,
            runtime: section.runtime,
            transfer_blocks_max,
            source,
        })
    }

    /// First block of the range and their number.
    fn range(&self) -> Result<(u64, u64), Fault> {
        let lba = u64::from(self.drive.lba_bytes);
        let whole = Bytes(self.drive.namespace_blocks * lba);
        let offset = self.section.offset;
        let multiple = |key: &str, bytes: Bytes| {
            if bytes.0.is_multiple_of(lba) {
                return Ok(());
            }
            let cure = format!("choose a multiple of {}", Bytes(lba));
            Err(self.fault(key, format!("{bytes} is not a multiple of drive.lba_size"), cure))
        };
        multiple("offset", offset)?;
        if offset.0 >= whole.0 {
            let cure = format!("choose an offset below {whole}, or a larger drive");
            return Err(self.fault("offset", format!("{offset} is beyond the namespace of {whole}"), cure));
        }
        let rest = Bytes(whole.0 - offset.0);
        let size = self.section.size.unwrap_or(rest);
        multiple("size", size)?;
        if size.0 == 0 || size.0 > rest.0 {
            let what = format!("{size} from {offset} is not within the namespace of {whole}");
            return Err(self.fault(
                "size",
                what,
                format!("choose a size of at most {rest}, or a larger drive"),
            ));
        }
        Ok((offset.0 / lba, size.0 / lba))
    }

    fn synthetic(&self, range_blocks: u64, transfer_blocks_max: u32) -> Result<(Issue, Source), Fault> {
        let section = self.section;
        let Some(rw) = section.rw else {
            let cure = "add `rw = \"randread\"` (or read, write, randwrite, rw, randrw, trim, randtrim), or [job.trace]";
            return Err(fault(self.path, format!("`{}` says neither `rw` nor `trace`", self.path), cure));
        };
        if section.count.is_none() && section.runtime.is_none() {
            let what = format!("`{}` never ends", self.path);
            return Err(fault(self.path, what, "add `count = 100000` or `runtime = \"1 s\"`"));
        }
        if section.rwmixread.is_some() && !rw.is_mixed() {
            let cure = "choose `rw = \"rw\"` or `\"randrw\"`, or leave it out";
            return Err(self.fault("rwmixread", "there is no mix", cure));
        }
        let read_percent = section.rwmixread.unwrap_or(50);
        within(&self.key("rwmixread"), read_percent, 0, 100)?;
        let distribution = match (rw.is_sequential(), section.distribution) {
            (true, None | Some(Distribution::Sequential)) => Distribution::Sequential,
            (false, None) => Distribution::Uniform,
            (false, Some(chosen)) if chosen != Distribution::Sequential => chosen,
            _ => {
                let what = "contradicts `rw`: read, write, rw, trim are sequential, rand... are random";
                return Err(self.fault("distribution", what, "leave it out, or change `rw`"));
            }
        };
        let bs = section.bs.unwrap_or(Bytes(4096));
        let lba = Bytes(u64::from(self.drive.lba_bytes));
        if bs.0 == 0 || !bs.0.is_multiple_of(lba.0) {
            let what = format!("{bs} is not a multiple of drive.lba_size = {lba}");
            return Err(self.fault("bs", what, format!("choose a multiple of {lba}, or another lba_size")));
        }
        let io_blocks = bs.0 / lba.0;
        // A trim moves no data, so the drive's transfer limit does not bind it; one range has 32 bits.
        let (limit, why) = match rw {
            Rw::Trim | Rw::RandTrim => (u64::from(u32::MAX), "a trim's range"),
            _ => (u64::from(transfer_blocks_max), "one command transfers (controller.mdts)"),
        };
        if io_blocks > limit {
            let most = Bytes(limit * lba.0);
            let cure = format!("choose at most {most}, or override the limit in the profile");
            return Err(self.fault("bs", format!("{bs} is more than {why}"), cure));
        }
        let slices = if rw.is_sequential() { u64::from(section.numjobs) } else { 1 };
        if io_blocks * slices > range_blocks {
            let range = Bytes(range_blocks * lba.0);
            let what = format!("{bs} for each of {slices} workers do not fit in the job's range of {range}");
            return Err(self.fault("bs", what, "choose a smaller `bs` or `numjobs`, or a larger `size`"));
        }
        let synthetic = Synthetic { rw, read_percent, io_blocks: io_blocks as u32, distribution };
        Ok((self.issue()?, Source::Synthetic(synthetic)))
    }

    fn issue(&self) -> Result<Issue, Fault> {
        let section = self.section;
        match section.issue.unwrap_or_default() {
            IssueMode::Open => {
                let Some(rate_iops) = section.rate_iops else {
                    return Err(self.fault("issue", "an open loop needs a rate", "add `rate_iops = 100000`"));
                };
                within(&self.key("rate_iops"), rate_iops, 1, 1_000_000_000)?;
                Ok(Issue::Open { rate_iops, arrival: section.arrival.unwrap_or_default() })
            }
            IssueMode::Closed => {
                let given =
                    [("rate_iops", section.rate_iops.is_some()), ("arrival", section.arrival.is_some())];
                match given.iter().find(|(_, given)| *given) {
                    Some((key, _)) => {
                        let cure = "add `issue = \"open\"`, or leave it out";
                        Err(self.fault(key, "a closed loop has no rate", cure))
                    }
                    None => Ok(Issue::Closed),
                }
            }
        }
    }

    fn check_trace(&self, trace: &TraceSection) -> Result<Issue, Fault> {
        let foreign = ["rw", "rwmixread", "bs", "distribution", "issue", "rate_iops", "arrival"];
        if let Some(key) = foreign.iter().find(|key| self.index.has(&self.key(key))) {
            let cure = match *key {
                "issue" => "write `mode = \"open\"` or `\"closed\"` in [job.trace]",
                _ => "leave it out: addresses, lengths and times come from the trace",
            };
            return Err(self.fault(key, "the job replays a trace", cure));
        }
        let path = self.key("trace.time_scale");
        if !(1e-6..=1e6).contains(&trace.time_scale) {
            let what = format!("`{path}` = {} is out of range", trace.time_scale);
            return Err(fault(path, what, "choose a value from 0.000001 to 1000000.0"));
        }
        Ok(match trace.mode {
            IssueMode::Open => Issue::Trace,
            IssueMode::Closed => Issue::Closed,
        })
    }

    /// Reads the trace through once.
    fn replay(
        &self,
        plan: &JobPlan,
        path: std::path::PathBuf,
        trace: &TraceSection,
        skip_bad_lines: bool,
    ) -> Result<Source, InputError> {
        let mut replay = TracePlan {
            path,
            format: trace.format,
            device: match trace.device {
                DeviceChoice::All => None,
                DeviceChoice::One(device) => Some(device),
            },
            wrap: trace.wrap,
            time_scale_q32: libm::round(trace.time_scale * 4_294_967_296.0) as u64,
            skip_bad_lines,
            scan: crate::workload::Scan::default(),
        };
        let (format, scan) = scan(plan, &replay)?;
        if scan.tally.records == 0 {
            let what = format!(
                "the trace `{}` has no record to replay ({} of other devices, {} bad lines)",
                trace::file_name(&replay.path),
                scan.tally.other_devices,
                scan.tally.bad_lines
            );
            return Err(InputError::new(what, "choose another `device`, `format` or file"));
        }
        replay.format = format;
        replay.scan = scan;
        Ok(Source::Trace(replay))
    }
}

/// Stands in a plan until its trace has been read.
const PENDING: Source = Source::Synthetic(Synthetic {
    rw: Rw::Read,
    read_percent: 100,
    io_blocks: 1,
    distribution: Distribution::Sequential,
});

/// The JSON schema of the scenario file.
pub fn scenario_schema() -> serde_json::Value {
    schemars::schema_for!(ScenarioFile).to_value()
}

/// The JSON schema of a drive's profile.
pub fn profile_schema() -> serde_json::Value {
    schemars::schema_for!(Profile).to_value()
}

/// The JSON schema of a host's profile.
pub fn host_schema() -> serde_json::Value {
    schemars::schema_for!(HostProfile).to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVE: &str = "[drive]\nprofile = \"samsung-970-pro\"\n";
    const JOB: &str = "[[job]]\nrw = \"randread\"\ncount = 1000\n";

    fn parse(text: &str, sets: &[&str]) -> Result<Scenario, InputError> {
        let options =
            Options { sets: sets.iter().map(|set| (*set).to_owned()).collect(), skip_bad_lines: false };
        Scenario::from_text("s.toml", Path::new(""), text, &options)
    }

    /// Asserts that the message names place, mistake and cure.
    fn assert_error(result: Result<Scenario, InputError>, place: &str, what: &str, cure: &str) {
        let error = result.unwrap_err();
        let shown = error.to_string();
        assert!(shown.starts_with(place), "place {place:?} in: {shown}");
        assert!(error.what.contains(what), "what {what:?} in: {shown}");
        assert!(error.cure.contains(cure), "cure {cure:?} in: {shown}");
    }

    // Defaults that change silently change every result of every scenario that relies on them.
    #[test]
    fn the_least_scenario_gets_its_defaults() {
        let scenario = parse(&format!("{DRIVE}{JOB}"), &[]).unwrap();
        assert_eq!((scenario.name.as_str(), scenario.seed), ("s", 1));
        assert_eq!(scenario.drive.geometry.capacity_bytes, 512 << 30);
        assert_eq!((scenario.drive.lba_bytes, scenario.drive.namespaces), (4096, 1));
        assert_eq!((scenario.drive.store, scenario.drive.precondition), (Store::Stamp, Precondition::Filled));
        assert!(scenario.host.verify);
        let job = &scenario.jobs[0];
        assert_eq!((job.name.as_str(), job.iodepth, job.workers, job.nsid), ("job0", 1, 1, 1));
        assert_eq!((job.range_lba, job.range_blocks), (0, 1 << 27));
        assert_eq!((job.issue, job.transfer_blocks_max), (Issue::Closed, 64));
        assert_eq!(scenario.command_count(), Some(1000));
    }

    // An override that went to the wrong key, or nowhere, would be a wrong result without a word.
    #[test]
    fn overrides_reach_scenario_and_profile() {
        let text = format!("{DRIVE}[drive.override]\nflash.read = [\"50 us\", \"60 us\"]\n{JOB}");
        let sets = [
            "drive.capacity=64 GiB",
            "job.0.bs=8 KiB",
            "job.job0.iodepth=7",
            "seed=9",
            "name=\"x\"",
            "drive.override.link.lanes=2",
            "host.profile=linux-interrupt",
            "host.override.submit=1 us",
            "measure.warmup=\"10 ms\"",
        ];
        assert_error(
            parse(&text, &sets),
            "--set job.job0.iodepth=7",
            "there is no `job.job0`",
            "from 0 to 0",
        );
        let text = text.replace("[[job]]", "[[job]]\nname = \"job0\"");
        let scenario = parse(&text, &sets).unwrap();
        assert_eq!((scenario.name.as_str(), scenario.seed), ("x", 9));
        assert_eq!(scenario.drive.geometry.capacity_bytes, 64 << 30);
        assert_eq!(scenario.drive.profile.link.lanes, 2);
        assert_eq!(scenario.drive.profile.flash.read, [Picos(50_000_000), Picos(60_000_000)]);
        assert_eq!(scenario.host.profile.submit, Picos(1_000_000));
        assert_eq!(scenario.jobs[0].iodepth, 7);
        assert_eq!(scenario.warmup, Some(Warmup::Time(Picos(10_000_000_000))));
        let Source::Synthetic(synthetic) = &scenario.jobs[0].source else { unreachable!() };
        assert_eq!(synthetic.io_blocks, 2);
    }

    // Each of these is a mistake that users make; the message is all the help they get.
    #[test]
    fn every_error_names_place_and_cure() {
        let with = |extra: &str| parse(&format!("{DRIVE}{JOB}{extra}"), &[]);
        assert_error(with("iodept = 4\n"), "s.toml:6:1", "unknown key `iodept` in `job.0`", "`iodepth`?");
        assert_error(with("bs = \"4 kib\"\n"), "s.toml:6:6", "`job.0.bs`: unknown unit `kib`", "`4 KiB`?");
        assert_error(with("bs = 4096\n"), "s.toml:6:6", "integer `4096` does not fit", "\"4 KiB\"");
        assert_error(
            with("bs = \"6 KiB\"\n"),
            "s.toml:6:6",
            "not a multiple of drive.lba_size",
            "multiple of 4 KiB",
        );
        assert_error(with("bs = \"512 KiB\"\n"), "s.toml:6:6", "controller.mdts", "at most 256 KiB");
        assert_error(with("rw = \"read\"\n"), "s.toml:6:1", "duplicate key", "");
        assert_error(with("size = \"1 TiB\"\n"), "s.toml:6:8", "not within the namespace", "at most 512 GiB");
        assert_error(with("offset = \"1 TiB\"\n"), "s.toml:6:10", "beyond the namespace", "below 512 GiB");
        assert_error(
            with("[transfer]\nmethod = \"sgl\"\n"),
            "s.toml:7:10",
            "`samsung-970-pro` has no SGLs",
            "controller.sgl = true",
        );
        assert_eq!(with("issue = \"open\"\nrate_iops = 1000\n").unwrap().jobs[0].iodepth, 128);
        assert_error(with("iodepth = 0\n"), "s.toml:6:11", "out of range", "from 1 to 16383");
        assert_error(with("iodepth = -1\n"), "s.toml:6:11", "integer `-1`", "a whole number from 0");
        assert_error(with("numjobs = 33\n"), "s.toml:6:11", "queue pairs", "max_io_queues = 33");
        assert_error(with("issue = \"open\"\n"), "s.toml:6:9", "needs a rate", "rate_iops");
        assert_error(with("issue = \"opn\"\n"), "s.toml:6:9", "`opn`", "`open`?");
        assert_error(with("rate_iops = 5\n"), "s.toml:6:13", "no rate", "issue");
        assert_error(with("priority = \"high\"\n"), "s.toml:6:12", "round robin", "weighted");
        assert_error(with("distribution = \"zipf:-1\"\n"), "s.toml:6:16", "theta", "0.001 to 20");
        assert_error(with("distribution = \"sequential\"\n"), "s.toml:6:16", "contradicts", "leave it out");
        assert_error(with("namespace = 2\n"), "s.toml:6:13", "out of range", "1 to 1");
        assert_error(with("rwmixread = 70\n"), "s.toml:6:13", "no mix", "randrw");
        assert_error(with("runtime = \"1 sec\"\n"), "s.toml:6:11", "unknown unit `sec`", "s, min");
        assert_error(with("x = = 1\n"), "s.toml:6:5", "not TOML", "key = value");
        assert_error(with("[measure]\nwarmup = -1\n"), "s.toml:7:10", "-1", "number of I/Os");
        assert_error(with("[jbo]\n"), "s.toml:6:2", "unknown key `jbo`", "`job`?");
        assert_error(with("[host.weights]\nhigh = 0\n"), "s.toml:7:8", "out of range", "1 to 256");
        assert_error(with("[host.weights]\nlow = 2\n"), "s.toml:7:7", "round robin", "weighted");
        assert_error(parse(DRIVE, &[]), "s.toml:1:1", "no job", "[[job]]");
        assert_error(parse(JOB, &[]), "s.toml:1:1", "lacks the section `[drive]`", "[drive]");
        let text = format!("[drive]\nprofile = \"samsung-970\"\n{JOB}");
        assert_error(parse(&text, &[]), "s.toml:2:11", "no built-in profile", "`samsung-970-pro`?");
        let text = format!("[drive]\nprofile = \"nowhere/x.toml\"\n{JOB}");
        assert_error(parse(&text, &[]), "s.toml:2:11", "cannot read the profile", "check the path");
        let text = format!("{DRIVE}[[job]]\nrw = \"randread\"\n");
        assert_error(parse(&text, &[]), "s.toml:3:1", "never ends", "runtime");
        let text = format!("{DRIVE}[[job]]\ncount = 1\n");
        assert_error(parse(&text, &[]), "s.toml:3:1", "neither `rw` nor `trace`", "[job.trace]");
        let two = format!("{DRIVE}{JOB}name = \"a\"\n{JOB}name = \"a\"\n");
        assert_error(parse(&two, &[]), "s.toml:10:8", "two jobs are called `a`", "of its own");
    }

    // A geometry that cannot exist would hang in garbage collection, or divide by zero.
    #[test]
    fn impossible_drives_are_refused_where_they_are_written() {
        let with = |extra: &str| parse(&format!("{DRIVE}{extra}{JOB}"), &[]);
        assert_error(with("capacity = \"9 TiB\"\n"), "s.toml:3:12", "out of range", "1 GiB to 8 TiB");
        assert_error(with("capacity = \"1000 MB\"\n"), "s.toml:3:12", "out of range", "1 GiB");
        assert_error(with("capacity = \"2000000000 B\"\n"), "s.toml:3:12", "multiple of 1 MiB", "1907 MiB");
        assert_error(with("lba_size = \"1 KiB\"\n"), "s.toml:3:12", "not a format", "512 B");
        let over = |line: &str| with(&format!("[drive.override]\n{line}\n"));
        assert_error(over("flash.channels = 0"), "s.toml:4:18", "`flash.channels` = 0", "from 1 to 64");
        assert_error(
            over("flash.chanels = 4"),
            "s.toml:4:7",
            "unknown key `chanels` in `flash`",
            "`channels`?",
        );
        assert_error(over("flash.page = \"5 KiB\""), "s.toml:4:14", "not possible", "power of two");
        assert_error(over("flash.planes = 3"), "s.toml:4:16", "not possible", "1, 2, 4, 8");
        assert_error(over("flash.blocks = 100"), "s.toml:4:16", "cannot hold 512 GiB", "leave it out");
        assert_error(over("flash.read = []"), "s.toml:4:14", "0 entries", "write 1");
        assert_error(over("flash.read = [\"1 us\", 5]"), "s.toml:4:23", "integer `5`", "3.2 us");
        assert_error(
            over("controller.mdts = \"4 KiB\""),
            "s.toml:4:19",
            "not possible",
            "from 8 KiB to 16 MiB",
        );
        assert_error(over("link.lanes = 3"), "s.toml:4:14", "not possible", "1, 2, 4, 8, 12, 16, 32");
        assert_error(over("link.mps = \"100 B\""), "s.toml:4:12", "not possible", "power of two");
        assert_error(over("firmware.op = \"0 %\""), "s.toml:4:15", "out of range", "1 % to 400 %");
        assert_error(over("firmware.clock = \"1 Hz\""), "s.toml:4:18", "out of range", "1 MHz");
        assert_error(over("firmware.gc.policy = \"gready\""), "s.toml:4:22", "`gready`", "`greedy`?");
        assert_error(over("firmware.write_buffer = \"4 KiB\""), "s.toml:4:25", "out of range", "32 KiB");
        assert_error(with("override = 4\n"), "s.toml:3:12", "does not fit", "a section");
    }

    // A flag has no line: the message must name the flag itself.
    #[test]
    fn an_error_from_a_flag_names_the_flag() {
        let text = format!("{DRIVE}{JOB}");
        let set = |flag: &str| parse(&text, &[flag]);
        assert_error(set("job.0.bs=5 KiB"), "--set job.0.bs=5 KiB: ", "not a multiple", "multiple of 4 KiB");
        assert_error(set("drive.capacity=64"), "--set drive.capacity=64: ", "integer `64`", "4 KiB");
        assert_error(
            set("drive.capcity=64 GiB"),
            "--set drive.capcity=64 GiB: ",
            "unknown key",
            "`capacity`?",
        );
        assert_error(
            set("drive.override.flash.ways=0"),
            "--set drive.override",
            "`flash.ways` = 0",
            "1 to 64",
        );
        assert_error(set("seed"), "--set seed: ", "no `=`", "--set key=value");
        assert_error(set("=5"), "--set =5: ", "not a key", "--set key=value");
        assert_error(set("a..b=5"), "--set a..b=5: ", "not a key", "--set key=value");
        assert_error(set("job.1.bs=4 KiB"), "--set job.1.bs", "1 entries", "0 to 0");
        assert_error(set("seed.x=1"), "--set seed.x=1", "", "");
        assert_error(set("drive.profile.x=1"), "--set drive.profile.x=1", "no keys below", "shorten");
    }

    // A scenario is host input: whatever bytes it has, it ends in a message.
    #[test]
    fn hostile_texts_end_in_a_message() {
        let deep = "a.".repeat(5000) + "a = 1";
        let nested = "[".repeat(5000);
        let brackets = format!("x = {}", "[".repeat(50_000));
        let dots = "a.".repeat(24) + "a = {\n";
        let tables = dots.repeat(79) + "a = 1" + &"}".repeat(79);
        let braces = format!("{DRIVE}{JOB}[drive.override]\n{}a = 1{}", "a = {\n".repeat(79), "}".repeat(79));
        let headers = format!("[{}a]\n{}a = 1", "a.".repeat(24), "a.".repeat(24));
        let texts =
            ["\u{0}", "\u{feff}", "=", "[", "[[job]]\n[job]", "job = 1", "drive = 5", "a = 1979-05-27"];
        for text in
            texts.iter().copied().chain([deep.as_str(), &nested, &brackets, &tables, &braces, &headers])
        {
            assert!(parse(text, &[]).is_err());
        }
        let long = "x".repeat(100_000);
        let error = parse(&format!("{DRIVE}{JOB}{long} = 1\n"), &[]).unwrap_err();
        assert!(error.to_string().len() < 2000);
        let key = "a.".repeat(5000) + "a=1";
        assert!(parse(&format!("{DRIVE}{JOB}"), &[&key]).is_err());
        assert!(parse(&format!("{DRIVE}{JOB}"), &["drive.capacity=[[[[[[[[1"]).is_err());
    }

    // A replay reads its trace before anything else happens, so that a run does not end in the middle for it.
    #[test]
    fn a_trace_job_is_checked_through() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("t.trace"), "1 0 8 8 1\n2 3 99999999999 8 0\n2 3 8 8 0\nx\n")
            .unwrap();
        let load = |lines: &str, skip_bad_lines: bool| {
            let text = format!("{DRIVE}[[job]]\nname = \"t\"\n[job.trace]\nfile = \"t.trace\"\n{lines}");
            Scenario::from_text("s.toml", folder.path(), &text, &Options { sets: vec![], skip_bad_lines })
        };
        let error = load("wrap = true\n", false).unwrap_err();
        assert!(error.to_string().contains("t.trace:4:1: not a record"), "{error}");
        let error = load("", true).unwrap_err();
        assert!(
            error.to_string().contains("t.trace:2:1: LBA") && error.cure.contains("wrap = true"),
            "{error}"
        );
        let scenario = load("wrap = true\nmode = \"closed\"\n", true).unwrap();
        assert_eq!(scenario.command_count(), Some(3));
        let notes = scenario.notes();
        assert!(notes[0].contains("0 = write and 1 = read; 3 records"), "{notes:?}");
        assert!(notes[1].contains("1 lines of t.trace are no records"), "{notes:?}");
        assert!(!notes.concat().contains(&folder.path().display().to_string()));
        assert_eq!(load("device = 0\nformat = \"mqsim\"\n", true).unwrap().command_count(), Some(1));
        assert_error(load("device = 7\n", true), "s.toml:6:8", "no record to replay", "device");
        assert_error(load("device = \"al\"\n", true), "s.toml:7:10", "al", "\"all\"");
        assert_error(load("time_scale = nan\n", true), "s.toml:7:14", "out of range", "from");
        assert_error(load("format = \"msrr\"\n", true), "s.toml:7:10", "msrr", "`msr`?");
        let text = format!("{DRIVE}[[job]]\nbs = \"4 KiB\"\n[job.trace]\nfile = \"t.trace\"\n");
        assert_error(parse(&text, &[]), "s.toml:4:6", "replays a trace", "leave it out");
        let text = format!("{DRIVE}[[job]]\n[job.trace]\nfile = \"absent.trace\"\n");
        assert_error(parse(&text, &[]), "s.toml:5:8", "cannot read the trace", "check the path");
    }

    // Editors complete and check scenarios by the schema; a section that is missing there does not exist for them.
    #[test]
    fn the_schema_knows_every_section() {
        let schema = scenario_schema().to_string();
        for word in ["override", "iodepth", "time_scale", "warmup", "KiB", "randread", "weights", "zipf"] {
            assert!(schema.contains(word), "{word}");
        }
        assert!(profile_schema().to_string().contains("channel_rate"));
        assert!(host_schema().to_string().contains("submit"));
    }
}
