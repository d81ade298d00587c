//! Points: ordinary scenarios, written in code. A point that several claims rest on is one point, and runs once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::board::{Board, Departure};
use super::error::{ClaimError, Measured};
use super::load::Load;
use super::tenants::Tenants;
use crate::compare::{Figures, Found, Metric, Outcome};
use byteway_console::error::InputError;
use byteway_console::number::ratio;
use byteway_measure::results::Series;
use byteway_measure::summary::{
    BulkRow, HostSummary, JbofSummary, KvStoreSummary, Latency, LinkRow, NetworkSummary, OperationRow,
    Summary,
};
use byteway_scenario::{Options, Platform, Scenario};
use byteway_workload::Kind;

/// How long points are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Payloads of a point of a payload sink, which finds nothing changed by those before.
    pub payloads: u64,
    /// PUTs of a point of a key-value drive, whose index and log grow with them.
    pub puts: u64,
}

impl Lengths {
    /// The same number for all.
    pub const fn all(payloads: u64) -> Lengths {
        Lengths { payloads, puts: payloads }
    }

    /// Payloads of a point.
    pub fn of(&self, spec: &Spec) -> u64 {
        if spec.is_kv() { self.puts } else { self.payloads }
    }

    /// Whether key-value points are as long as the papers'.
    pub const fn is_full(&self) -> bool {
        self.puts >= PAYLOADS_FULL
    }
}

/// PUTs of a key-value point of a full run, and payloads of the points by which shorter runs are judged: as many as the papers
/// have.
pub const PAYLOADS_FULL: u64 = 1_000_000;

/// A scenario: a board, how payloads cross, departures from the board, and jobs. Equal specs are one point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spec {
    /// Keys and their values in TOML; without a departure the board's and those of `transfer`.
    keys: BTreeMap<String, String>,
    departures: Vec<Departure>,
    jobs: Vec<Job>,
    loads: Vec<Load>,
    tenants: Vec<Tenants>,
    pairs: Vec<Pairs>,
    /// Its figures over time are kept.
    is_followed: bool,
}

/// A job on blocks: writes, unless it is said to read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    name: String,
    access: Access,
    bytes: u64,
    workers: u32,
    depth: u32,
    at_target: bool,
    length: Length,
}

/// What a job does with blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    /// Writes a small range, over and over.
    Writes,
    /// Reads at random, over the whole drive.
    Reads,
    /// Both, at random, within a small range: what it reads was mostly written before.
    Mix,
}

/// A job that works on pairs of keys and values, one operation at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pairs {
    name: String,
    workload: String,
    keys: Vec<(String, String)>,
    /// One operation for so many payloads of a point.
    divisor: u64,
    /// In runs that are not full, one pair for so many payloads.
    spared: u64,
    /// At least so many pairs, whatever a point has payloads.
    least: u64,
    is_later: bool,
}

/// How long a job goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Length {
    /// Until it has written the payloads of a point.
    Payloads,
    /// For so many nanoseconds of virtual time for each payload of a point: jobs that are to overlap to their end.
    Time(u64),
}

impl Spec {
    /// A board as a drive of this personality.
    pub(super) fn on(board: &Board, personality: &str, keys: &[(&str, &str)]) -> Spec {
        let mut spec = Spec {
            keys: BTreeMap::new(),
            departures: Vec::new(),
            jobs: Vec::new(),
            loads: Vec::new(),
            tenants: Vec::new(),
            pairs: Vec::new(),
            is_followed: false,
        };
        spec.set("drive.profile", format!("{:?}", board.drive));
        spec.set("host.profile", format!("{:?}", board.host));
        spec.set("drive.personality", format!("{personality:?}"));
        keys.iter().for_each(|(key, value)| spec.set(key, (*value).to_owned()));
        spec
    }

    /// The drive is behind a target, which serves it by this path; `remote` has the network's keys and the target's.
    pub(super) fn behind(mut self, remote: &[(&str, &str)], path: &str) -> Spec {
        remote.iter().for_each(|(key, value)| self.set(key, (*value).to_owned()));
        self.set("target.path", format!("{path:?}"));
        self
    }

    fn set(&mut self, key: &str, value: String) {
        self.keys.insert(key.to_owned(), value);
    }

    /// Payloads cross by this method.
    pub fn by(mut self, method: &str) -> Spec {
        self.set("transfer.method", format!("{method:?}"));
        self
    }

    /// Payloads below a threshold cross by `fine`, the others by PRP; without a threshold that of the drive's profile.
    pub fn adaptive(self, fine: &str, threshold_bytes: Option<u64>) -> Spec {
        let mut spec = self.by("adaptive");
        spec.set("transfer.fine", format!("{fine:?}"));
        if let Some(bytes) = threshold_bytes {
            spec.set("transfer.threshold", format!("\"{bytes} B\""));
        }
        spec
    }

    /// Departs from the board's configuration. What sets a key to what it is anyway is no departure.
    pub fn departs(mut self, departure: Departure) -> Spec {
        let (key, value) = departure.setting();
        if self.keys.get(key).is_none_or(|own| own != value) {
            self.set(key, value.to_owned());
            self.departures.push(departure);
            self.departures.sort();
        }
        self
    }

    /// Its departures.
    pub fn departures(&self) -> &[Departure] {
        &self.departures
    }

    /// Its keys and their values in TOML.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keys.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether it is a key-value drive, of which what it does may depend on how long it runs.
    pub fn is_kv(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// Adds a job.
    pub fn job(mut self, job: Job) -> Spec {
        self.jobs.push(job);
        self
    }

    /// Adds a load on blocks.
    pub fn load(mut self, load: Load) -> Spec {
        self.loads.push(load);
        self
    }

    /// Adds tenants of a box.
    pub fn tenants(mut self, tenants: Tenants) -> Spec {
        self.tenants.push(tenants);
        self
    }

    /// The drives are in a box of this platform.
    pub fn on_platform(mut self, platform: Platform) -> Spec {
        self.set("jbof.platform", format!("{:?}", platform.word()));
        self
    }

    /// Each with so many cores, where these are what is compared.
    pub fn with_cores(mut self, cores: u16) -> Spec {
        self.set("jbof.cores", cores.to_string());
        self
    }

    /// Each with so much DRAM, in GB for each TB of flash, where that is what is compared: a number as TOML has it.
    pub fn with_dram(mut self, dram: &str) -> Spec {
        self.set("jbof.dram", dram.to_owned());
        self
    }

    /// Keeps its figures over time.
    pub fn followed(self) -> Spec {
        Spec { is_followed: true, ..self }
    }

    /// Whether its figures over time are kept.
    pub fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// Adds a job that works on pairs.
    pub fn pairs(mut self, job: Pairs) -> Spec {
        self.pairs.push(job);
        self
    }

    /// The scenario, with so many payloads.
    pub fn text(&self, payloads: u64) -> String {
        let mut text = String::new();
        for (key, value) in &self.keys {
            let _ = writeln!(text, "{key} = {value}");
        }
        for job in &self.jobs {
            let Job { name, access, bytes, workers, depth, at_target, length } = job;
            let small = |blocks: u64| format!("size = \"{} B\"\n", bytes * blocks);
            let (rw, size) = match access {
                // Over the whole drive.
                Access::Reads => ("randread", String::new()),
                // A small range, written over and over: the sink holds little, whatever the number of payloads.
                Access::Writes => ("write", small(16 * u64::from(*workers))),
                Access::Mix => ("randrw", small(1024)),
            };
            let place = if *at_target { "at = \"target\"\n" } else { "" };
            let length = match length {
                Length::Payloads => format!("count = {payloads}"),
                Length::Time(each_ns) => format!("runtime = \"{} ns\"", payloads * each_ns),
            };
            let _ = write!(
                text,
                "\n[[job]]\nname = {name:?}\nrw = {rw:?}\nbs = \"{bytes} B\"\n{size}{place}numjobs = {workers}\niodepth = {depth}\n{length}\n"
            );
        }
        for load in &self.loads {
            load.write(payloads, &mut text);
        }
        for tenants in &self.tenants {
            tenants.write(payloads, &mut text);
        }
        for job in &self.pairs {
            let Pairs { name, workload, keys, divisor, spared, least, is_later } = job;
            let spared = if payloads < PAYLOADS_FULL { *spared } else { 1 };
            let payloads = (payloads / spared).max(*least);
            let count = (payloads / divisor).max(1);
            // As many pairs as there are payloads: a job that reads chooses among those that were stored.
            let _ = write!(
                text,
                "\n[[kv]]\nname = {name:?}\nworkload = {workload:?}\nkeys = {payloads}\ncount = {count}\niodepth = 1\n"
            );
            if *is_later {
                text.push_str("stonewall = true\n");
            }
            for (key, value) in keys {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
        text
    }

    /// What it is called where something is said about it.
    pub fn name(&self) -> String {
        let of = |key: &str| self.keys.get(key).map_or("", |value| value.trim_matches('"'));
        let mut profiles = vec![format!("{} with {}", of("drive.profile"), of("host.profile"))];
        if self.keys.contains_key("network.profile") {
            profiles.push(format!("over {} to {}", of("network.profile"), of("target.profile")));
        }
        let others = self.keys.iter().filter(|(key, _)| !key.ends_with(".profile"));
        let keys = others.map(|(key, value)| format!("{key} = {}", value.trim_matches('"')));
        let jobs = self.jobs.iter().map(|job| {
            let what = match job.access {
                Access::Writes => "",
                Access::Reads => "reads of ",
                Access::Mix => "reads and writes of ",
            };
            let what = format!("{what}{}", if job.at_target { "local " } else { "" });
            match job.workers {
                1 => format!("{what}{} B", job.bytes),
                workers => format!("{what}{} B from each of {workers}", job.bytes),
            }
        });
        let loads = self.loads.iter().map(Load::name).chain(self.tenants.iter().map(Tenants::name));
        let pairs = self.pairs.iter().map(|job| {
            let keys = job.keys.iter().map(|(key, value)| format!(", {key} = {}", value.trim_matches('"')));
            format!("{}{}", job.workload, keys.collect::<String>())
        });
        profiles.into_iter().chain(keys).chain(jobs).chain(loads).chain(pairs).collect::<Vec<_>>().join(", ")
    }

    /// What is run.
    ///
    /// # Errors
    /// The scenario is refused: the recipe doesn't fit the profiles.
    pub fn scenario(&self, payloads: u64) -> Result<Scenario, InputError> {
        Scenario::from_text("point.toml", Path::new(""), &self.text(payloads), &Options::default())
    }
}

impl Job {
    /// Payloads of one size, one after the other.
    pub fn new(name: &str, bytes: u64) -> Job {
        let length = Length::Payloads;
        let access = Access::Writes;
        Job { name: name.to_owned(), access, bytes, workers: 1, depth: 1, at_target: false, length }
    }

    /// Random reads over the whole drive instead.
    pub fn reads(self) -> Job {
        Job { access: Access::Reads, ..self }
    }

    /// Random reads and writes of a small range instead.
    pub fn mixes(self) -> Job {
        Job { access: Access::Mix, ..self }
    }

    /// By an application of the target's.
    pub fn at_target(self) -> Job {
        Job { at_target: true, ..self }
    }

    /// By so many workers, each with a queue of its own.
    pub fn workers(self, workers: u32) -> Job {
        Job { workers, ..self }
    }

    /// So many at once.
    pub fn depth(self, depth: u32) -> Job {
        Job { depth, ..self }
    }

    /// For so many nanoseconds of virtual time for each payload that other points write, instead of a number of payloads.
    pub fn timed(self, each_ns: u64) -> Job {
        Job { length: Length::Time(each_ns), ..self }
    }
}

impl Pairs {
    /// A workload, as often as a point has payloads, over as many pairs.
    pub fn new(name: &str, workload: &str) -> Pairs {
        Pairs {
            name: name.to_owned(),
            workload: workload.to_owned(),
            keys: Vec::new(),
            divisor: 1,
            spared: 1,
            least: 1,
            is_later: false,
        }
    }

    /// Sets a key of the job to a text.
    pub fn key(mut self, key: &str, text: impl Into<String>) -> Pairs {
        self.keys.push((key.to_owned(), format!("{:?}", text.into())));
        self
    }

    /// Sets a key of the job to a number or a truth value.
    pub fn raw(mut self, key: &str, value: impl ToString) -> Pairs {
        self.keys.push((key.to_owned(), value.to_string()));
        self
    }

    /// One operation for so many payloads, at least 1.
    pub fn one_for(self, divisor: u64) -> Pairs {
        Pairs { divisor: divisor.max(1), ..self }
    }

    /// In runs that are not full, one pair for so many payloads: where neither bytes nor the transfer's time depend on them.
    pub fn spared(self, spared: u64) -> Pairs {
        Pairs { spared: spared.max(1), ..self }
    }

    /// With at least so many pairs.
    pub fn at_least(self, least: u64) -> Pairs {
        Pairs { least, ..self }
    }

    /// When the jobs before it have ended.
    pub fn later(self) -> Pairs {
        Pairs { is_later: true, ..self }
    }
}

/// All points that were run.
#[derive(Debug, Default)]
pub struct Points {
    found: BTreeMap<Spec, Outcome>,
    /// Figures over time of those that are followed.
    series: BTreeMap<Spec, Series>,
}

impl Points {
    /// What became of each point.
    pub fn new(found: impl IntoIterator<Item = (Spec, Outcome)>) -> Points {
        Points { found: found.into_iter().collect(), series: BTreeMap::new() }
    }

    /// With figures over time.
    pub fn with_series(self, series: impl IntoIterator<Item = (Spec, Series)>) -> Points {
        Points { series: series.into_iter().collect(), ..self }
    }

    /// A point's figures over time.
    ///
    /// # Errors
    /// It failed, was not run, or is not followed: why.
    pub fn series(&self, spec: &Spec) -> Measured<&Series> {
        self.at(spec)?;
        let missing = || ClaimError::NoFigure(format!("{}: no figures over time were kept", spec.name()));
        self.series.get(spec).ok_or_else(missing)
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = (&Spec, &Outcome)> {
        self.found.iter()
    }

    /// What a point found.
    ///
    /// # Errors
    /// It failed, or nobody ran it: why.
    pub fn at(&self, spec: &Spec) -> Measured<Seen<'_>> {
        let failed = |why| Err(ClaimError::Point { point: spec.name(), why });
        match self.found.get(spec) {
            Some(Outcome::Done(found)) => Ok(Seen { found }),
            Some(Outcome::Failed(why, _)) => failed(why.clone()),
            Some(Outcome::NotRun) | None => failed("it was not run".to_owned()),
        }
    }
}

/// What a point found, as claims ask for it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    found: &'a Found,
}

/// One of the two ledgers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ledger {
    /// Bytes of payload of the link's packets, as a performance counter sees them.
    Payload,
    /// With headers and framing.
    Wire,
}

impl<'a> Seen<'a> {
    /// Payloads that were written.
    pub fn payloads(&self) -> u64 {
        self.found.summary.ios
    }

    /// Reads that were held against what was written, and I/Os of a job.
    pub fn verified(&self, job: &str) -> (u64, u64) {
        let summary = &self.found.summary;
        let ios = summary.jobs.iter().find(|found| found.name == job).map_or(0, |found| found.ios);
        (summary.verification.reads, ios)
    }

    /// Bytes on the link for each payload, both directions.
    pub fn bytes(&self, ledger: Ledger) -> f64 {
        let rows = self.found.summary.link.iter();
        let of = |row: &LinkRow| match ledger {
            Ledger::Payload => row.payload_bytes,
            Ledger::Wire => row.wire_bytes,
        };
        ratio(rows.map(|row| u128::from(of(row))).sum(), self.payloads().into())
    }

    /// A figure over all jobs.
    pub fn figure(&self, metric: Metric) -> f64 {
        Figures::of(self.found).get(metric).unwrap_or(f64::NAN)
    }

    /// Mean latency, nanoseconds.
    pub fn latency(&self) -> f64 {
        self.figure(Metric::MeanNs)
    }

    /// Latency of a job that 99 % of its payloads don't exceed, nanoseconds.
    pub fn p99(&self, job: &str) -> f64 {
        self.latency_of(job).map_or(f64::NAN, |latency| latency.p99_ns as f64)
    }

    /// Mean latency of a job, nanoseconds.
    pub fn mean(&self, job: &str) -> f64 {
        self.latency_of(job).map_or(f64::NAN, |latency| latency.mean_ns)
    }

    fn latency_of(&self, job: &str) -> Option<&'a Latency> {
        let job = self.found.summary.jobs.iter().find(|found| found.name == job)?;
        Some(&job.write.as_ref()?.latency)
    }

    /// Operations a second of the whole point.
    pub fn throughput(&self) -> f64 {
        self.figure(Metric::Iops)
    }

    /// What one operation at a time comes to in a second where it takes as long as 99 % take at most, and where as long as 1 %
    /// take at most: a job's writes. Between two of them passes what passes in the mean.
    pub fn throughput_range(&self, job: &str) -> Option<(f64, f64)> {
        let curve = self.found.curves.iter().find(|curve| curve.job == job && curve.kind == Kind::Write)?;
        let between = (1e9 / self.throughput() - self.latency()).max(0.0);
        let longest = |share: f64| curve.points.iter().find(|point| point.1 >= share).map(|point| point.0);
        let at = |share: f64| longest(share).map(|latency| 1e9 / (latency + between));
        Some((at(0.99)?, at(0.01)?))
    }

    /// What the store of a key-value drive did.
    pub fn store(&self) -> Option<&'a KvStoreSummary> {
        self.found.summary.kv.as_ref()?.store.as_ref()
    }

    /// What a job's host gathered, if it did.
    pub fn bulk(&self, job: &str) -> Option<&'a BulkRow> {
        self.found.summary.kv.as_ref()?.bulk.iter().find(|row| row.job == job)
    }

    /// A job's operations of its first kind.
    pub fn operation(&self, job: &str) -> Option<&'a OperationRow> {
        self.found.summary.kv.as_ref()?.operations.iter().find(|row| row.job == job)
    }

    /// The network and the target at its other end, if there is one.
    pub fn network(&self) -> Option<&'a NetworkSummary> {
        self.found.summary.network.as_ref()
    }

    /// What the drives of a box did for each other, if they are in one.
    pub fn jbof(&self) -> Option<&'a JbofSummary> {
        self.found.summary.jbof.as_ref()
    }

    /// Bytes a second of the jobs whose name begins so.
    pub fn rate(&self, job: &str) -> f64 {
        let jobs = self.found.summary.jobs.iter().filter(|found| found.name.starts_with(job));
        jobs.map(|job| job.bytes_per_second).sum()
    }

    /// Bytes that the jobs have moved whose name begins so.
    pub fn bytes_of(&self, job: &str) -> f64 {
        let jobs = self.found.summary.jobs.iter().filter(|found| found.name.starts_with(job));
        jobs.map(|job| job.bytes as f64).sum()
    }

    /// Time that the jobs of each drive took, from when measuring began, in nanoseconds; and bytes that they moved.
    pub fn each_drive(&self) -> impl Iterator<Item = (f64, f64)> {
        let bytes = |drive: &Summary| drive.jobs.iter().map(|job| job.bytes as f64).sum();
        self.found.summary.drives.iter().map(move |drive| (drive.elapsed_ns, bytes(drive)))
    }

    /// How busy a resource of a drive was, a share, by its number.
    pub fn busy_of(&self, drive: usize, resource: &str) -> f64 {
        let rows = self.found.summary.drives.get(drive).into_iter().flat_map(|drive| &drive.utilisation);
        rows.filter(|row| row.resource == resource).map(|row| row.mean).sum()
    }

    /// Mean latency of the I/Os of the jobs whose name begins so, nanoseconds.
    pub fn mean_of(&self, job: &str) -> f64 {
        let jobs = self.found.summary.jobs.iter().filter(|found| found.name.starts_with(job));
        let kinds = jobs.flat_map(|job| [&job.read, &job.write]).flatten();
        let (ios, sum) = kinds.fold((0, 0.0), |(ios, sum), kind| {
            (ios + kind.ios, sum + kind.latency.mean_ns * kind.ios as f64)
        });
        sum / ios as f64
    }

    /// What I/O cost the host, if that was followed.
    pub fn host(&self) -> Option<&'a HostSummary> {
        self.found.summary.host.as_ref()
    }

    /// Time of a payload that went to a stage, in the mean, nanoseconds.
    pub fn stage(&self, name: &str) -> f64 {
        let row = self.found.summary.spans.iter().find(|row| row.span == name);
        row.map_or(0.0, |row| row.mean_ns)
    }

    /// The stages in which any time went.
    pub fn stages(&self) -> impl Iterator<Item = (&'a str, f64)> {
        self.found.summary.spans.iter().map(|row| (row.span.as_str(), row.mean_ns)).filter(|row| row.1 > 0.0)
    }

    /// Payloads that went by a way.
    pub fn by_way(&self, way: &str) -> u64 {
        let ways = self.found.summary.transfer.iter().flat_map(|transfer| &transfer.ways);
        ways.filter(|row| row.way == way).map(|row| row.payloads).sum()
    }

    /// Processor time of host and drive for a payload, nanoseconds.
    pub fn processors(&self) -> Option<(f64, f64)> {
        self.found
            .summary
            .transfer
            .as_ref()
            .and_then(|transfer| transfer.host_ns_per_io.zip(transfer.device_ns_per_io))
    }
}
