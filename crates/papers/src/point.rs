//! Points: ordinary scenarios, defined in code. A point that several claims need is run once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::board::{Board, Departure};
use crate::error::{ClaimError, Measured};
use crate::load::Load;
use crate::tenants::Tenants;
use byteway_results::RunResult;
use byteway_results::figures::{Figures, Metric};
use byteway_results::results::Series;
use byteway_results::summary::{
    BulkRow, HostSummary, JbofSummary, KvStoreSummary, Latency, LinkRow, NetworkSummary, OperationRow,
    Summary,
};
use byteway_run::probe::PointOutcome;
use byteway_scenario::{Options, Platform, Scenario};
use byteway_text::error::InputError;
use byteway_text::number::ratio;
use byteway_workload::Kind;

/// Lengths of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Payloads of a point on a sink, where earlier payloads have no effect on later ones.
    pub payloads: u64,
    /// PUTs of a point on a key-value drive, whose index and log grow with them.
    pub puts: u64,
}

impl Lengths {
    /// The same number for all points.
    pub const fn all(payloads: u64) -> Lengths {
        Lengths { payloads, puts: payloads }
    }

    /// Number of payloads of a point.
    pub fn of(&self, spec: &Spec) -> u64 {
        if spec.is_kv() { self.puts } else { self.payloads }
    }

    /// Whether key-value points are as long as in the papers.
    pub const fn is_full(&self) -> bool {
        self.puts >= PAYLOADS_FULL
    }
}

/// PUTs of a key-value point in a full run, and payloads of the points that judge shorter runs: as many as in
/// the papers.
pub const PAYLOADS_FULL: u64 = 1_000_000;

/// A scenario: a board, a transfer method, departures from the board, and jobs. Equal specs are the same
/// point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spec {
    /// Keys and their values in TOML; without departures, those of the board and of `transfer`.
    keys: BTreeMap<String, String>,
    departures: Vec<Departure>,
    jobs: Vec<Job>,
    loads: Vec<Load>,
    tenants: Vec<Tenants>,
    pairs: Vec<Pairs>,
    queries: Vec<Queries>,
    /// Whether its time series is kept.
    is_followed: bool,
}

/// A block job: writes, unless set to read.
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

/// Access pattern of a block job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    /// Writes to a small range, repeatedly.
    Writes,
    /// Random reads over the whole drive.
    Reads,
    /// Random reads and writes in a small range, most of which has been written before it is read.
    Mix,
}

/// A key-value job with one operation at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pairs {
    name: String,
    workload: String,
    keys: Vec<(String, String)>,
    /// Number of a point's payloads per operation.
    divisor: u64,
    /// Divisor in shorter runs: the number of key-value pairs is the number of payloads divided by this.
    spared: u64,
    /// Minimum number of key-value pairs, for any number of payloads.
    least: u64,
    is_later: bool,
}

/// A job that sends a query to a drive with tables repeatedly, one at a time, to be checked but not executed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Queries {
    name: String,
    /// `sql` or `segment`.
    key: &'static str,
    text: String,
}

/// Length of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Length {
    /// Until the job has written the payloads of a point.
    Payloads,
    /// Nanoseconds of virtual time per payload of a point: for jobs that have to overlap until their end.
    Time(u64),
}

impl Spec {
    /// A board as a drive with this personality.
    pub(crate) fn on(board: &Board, personality: &str, keys: &[(&str, &str)]) -> Spec {
        let mut spec = Spec {
            keys: BTreeMap::new(),
            departures: Vec::new(),
            jobs: Vec::new(),
            loads: Vec::new(),
            tenants: Vec::new(),
            pairs: Vec::new(),
            queries: Vec::new(),
            is_followed: false,
        };
        spec.set("drive.profile", format!("{:?}", board.drive));
        spec.set("host.profile", format!("{:?}", board.host));
        spec.set("drive.personality", format!("{personality:?}"));
        keys.iter().for_each(|(key, value)| spec.set(key, (*value).to_owned()));
        spec
    }

    /// Puts the drive behind a target that serves it by this path; `remote` has the keys of network and
    /// target.
    pub(crate) fn behind(mut self, remote: &[(&str, &str)], path: &str) -> Spec {
        remote.iter().for_each(|(key, value)| self.set(key, (*value).to_owned()));
        self.set("target.path", format!("{path:?}"));
        self
    }

    fn set(&mut self, key: &str, value: String) {
        self.keys.insert(key.to_owned(), value);
    }

    /// Sets the transfer method.
    pub fn by(mut self, method: &str) -> Spec {
        self.set("transfer.method", format!("{method:?}"));
        self
    }

    /// Transfers payloads below a threshold by `fine`, others by PRP; `None` is the threshold in the drive's
    /// profile.
    pub fn adaptive(self, fine: &str, threshold_bytes: Option<u64>) -> Spec {
        let mut spec = self.by("adaptive");
        spec.set("transfer.fine", format!("{fine:?}"));
        if let Some(bytes) = threshold_bytes {
            spec.set("transfer.threshold", format!("\"{bytes} B\""));
        }
        spec
    }

    /// Departs from the board's configuration. Setting a key to its present value is no departure.
    pub fn departs(mut self, departure: Departure) -> Spec {
        let (key, value) = departure.setting();
        if self.keys.get(key).is_none_or(|own| own != value) {
            self.set(key, value.to_owned());
            self.departures.push(departure);
            self.departures.sort();
        }
        self
    }

    /// Departures from the board.
    pub fn departures(&self) -> &[Departure] {
        &self.departures
    }

    /// Keys of the spec, and their values in TOML.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keys.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether it is a key-value drive, whose behaviour may depend on the length of the run.
    pub fn is_kv(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// Adds a job.
    pub fn job(mut self, job: Job) -> Spec {
        self.jobs.push(job);
        self
    }

    /// Adds a block load.
    pub fn load(mut self, load: Load) -> Spec {
        self.loads.push(load);
        self
    }

    /// Adds tenants of a JBOF.
    pub fn tenants(mut self, tenants: Tenants) -> Spec {
        self.tenants.push(tenants);
        self
    }

    /// Puts the drives in a JBOF with this platform.
    pub fn on_platform(mut self, platform: Platform) -> Spec {
        self.set("jbof.platform", format!("{:?}", platform.word()));
        self
    }

    /// Sets the cores of each drive, for comparisons of cores.
    pub fn with_cores(mut self, cores: u16) -> Spec {
        self.set("jbof.cores", cores.to_string());
        self
    }

    /// Sets the DRAM of each drive in GB per TB of flash, for comparisons of DRAM: a number in TOML.
    pub fn with_dram(mut self, dram: &str) -> Spec {
        self.set("jbof.dram", dram.to_owned());
        self
    }

    /// Keeps its time series.
    pub fn followed(self) -> Spec {
        Spec { is_followed: true, ..self }
    }

    /// Whether its time series is kept.
    pub fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// Adds a key-value job.
    pub fn pairs(mut self, job: Pairs) -> Spec {
        self.pairs.push(job);
        self
    }

    /// Adds a job with queries.
    pub fn queries(mut self, job: Queries) -> Spec {
        self.queries.push(job);
        self
    }

    /// The text of the scenario, with this number of payloads.
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
                // A small range, overwritten repeatedly: the sink stores little for any number of payloads.
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
            // As many pairs as payloads: a job that reads chooses from the stored pairs.
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
        for Queries { name, key, text: query } in &self.queries {
            let _ = write!(
                text,
                "\n[[query]]\nname = {name:?}\n{key} = {query:?}\nexecute = \"check\"\ncount = {payloads}\niodepth = 1\n"
            );
        }
        text
    }

    /// Name in messages.
    pub fn name(&self) -> String {
        let of = |key: &str| self.keys.get(key).map_or("", |value| value.trim_matches('"'));
        let mut profiles = vec![format!("{} with {}", of("drive.profile"), of("host.profile"))];
        if self.keys.contains_key("network.profile") {
            profiles.push(format!("over {} to {}", of("network.profile"), of("target.profile")));
        }
        let others = self.keys.iter().filter(|(key, _)| !key.ends_with(".profile") && *key != "drive.table");
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
        let queries = self.queries.iter().map(|job| format!("{} of {} B", job.key, job.text.len()));
        let work = jobs.chain(loads).chain(pairs).chain(queries);
        profiles.into_iter().chain(keys).chain(work).collect::<Vec<_>>().join(", ")
    }

    /// The scenario to run.
    ///
    /// # Errors
    /// The scenario is invalid: the recipe does not match the profiles.
    pub fn scenario(&self, payloads: u64) -> Result<Scenario, InputError> {
        Scenario::from_text("point.toml", Path::new(""), &self.text(payloads), &Options::default())
    }
}

impl Job {
    /// Payloads of one size, one at a time.
    pub fn new(name: &str, bytes: u64) -> Job {
        let length = Length::Payloads;
        let access = Access::Writes;
        Job { name: name.to_owned(), access, bytes, workers: 1, depth: 1, at_target: false, length }
    }

    /// Random reads over the whole drive instead.
    pub fn reads(self) -> Job {
        Job { access: Access::Reads, ..self }
    }

    /// Random reads and writes in a small range instead.
    pub fn mixes(self) -> Job {
        Job { access: Access::Mix, ..self }
    }

    /// Issued by an application on the target.
    pub fn at_target(self) -> Job {
        Job { at_target: true, ..self }
    }

    /// Sets the number of workers, each with a queue.
    pub fn workers(self, workers: u32) -> Job {
        Job { workers, ..self }
    }

    /// With this queue depth.
    pub fn depth(self, depth: u32) -> Job {
        Job { depth, ..self }
    }

    /// Runs for this many nanoseconds of virtual time per payload of other points, instead of a number of
    /// payloads.
    pub fn timed(self, each_ns: u64) -> Job {
        Job { length: Length::Time(each_ns), ..self }
    }
}

impl Queries {
    /// A query text in a key of the section: `sql` or `segment`.
    pub fn checked(name: &str, key: &'static str, text: &str) -> Queries {
        Queries { name: name.to_owned(), key, text: text.to_owned() }
    }
}

impl Pairs {
    /// A workload with a number of operations and key-value pairs equal to a point's payloads.
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

    /// Sets a key of the job to a string.
    pub fn key(mut self, key: &str, text: impl Into<String>) -> Pairs {
        self.keys.push((key.to_owned(), format!("{:?}", text.into())));
        self
    }

    /// Sets a key of the job to a number or a boolean.
    pub fn raw(mut self, key: &str, value: impl ToString) -> Pairs {
        self.keys.push((key.to_owned(), value.to_string()));
        self
    }

    /// One operation per `divisor` payloads, at least 1.
    pub fn one_for(self, divisor: u64) -> Pairs {
        Pairs { divisor: divisor.max(1), ..self }
    }

    /// In shorter runs, one key-value pair per `spared` payloads: where neither bytes nor transfer times
    /// depend on it.
    pub fn spared(self, spared: u64) -> Pairs {
        Pairs { spared: spared.max(1), ..self }
    }

    /// Sets a minimum number of key-value pairs.
    pub fn at_least(self, least: u64) -> Pairs {
        Pairs { least, ..self }
    }

    /// Starts after the earlier jobs have ended.
    pub fn later(self) -> Pairs {
        Pairs { is_later: true, ..self }
    }
}

/// All points that were run.
#[derive(Debug, Default)]
pub struct Points {
    found: BTreeMap<Spec, PointOutcome>,
    /// Time series of the points that keep them.
    series: BTreeMap<Spec, Series>,
}

impl Points {
    /// Collects outcomes of points.
    pub fn new(found: impl IntoIterator<Item = (Spec, PointOutcome)>) -> Points {
        Points { found: found.into_iter().collect(), series: BTreeMap::new() }
    }

    /// Adds time series.
    pub fn with_series(self, series: impl IntoIterator<Item = (Spec, Series)>) -> Points {
        Points { series: series.into_iter().collect(), ..self }
    }

    /// A point's time series.
    ///
    /// # Errors
    /// It failed, was not run, or does not keep its series.
    pub fn series(&self, spec: &Spec) -> Measured<&Series> {
        self.at(spec)?;
        let missing = || ClaimError::NoFigure(format!("{}: no figures over time were kept", spec.name()));
        self.series.get(spec).ok_or_else(missing)
    }

    /// Points and outcomes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Spec, &PointOutcome)> {
        self.found.iter()
    }

    /// The results of a point.
    ///
    /// # Errors
    /// It failed, or was not run.
    pub fn at(&self, spec: &Spec) -> Measured<PointResult<'_>> {
        let failed = |why| Err(ClaimError::Point { point: spec.name(), why });
        match self.found.get(spec) {
            Some(PointOutcome::Done(found)) => Ok(PointResult { found }),
            Some(PointOutcome::Failed(why, _)) => failed(why.clone()),
            Some(PointOutcome::NotRun) | None => failed("it was not run".to_owned()),
        }
    }
}

/// The results of a point, as recipes use them.
#[derive(Clone, Copy, Debug)]
pub struct PointResult<'a> {
    found: &'a RunResult,
}

/// One of the two byte counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ledger {
    /// Payload bytes of the link's packets, as a performance counter counts them.
    Payload,
    /// Bytes with headers and framing.
    Wire,
}

impl<'a> PointResult<'a> {
    /// Number of payloads written.
    pub fn payloads(&self) -> u64 {
        self.found.summary.ios
    }

    /// Number of verified reads, and of I/Os of a job.
    pub fn verified(&self, job: &str) -> (u64, u64) {
        let summary = &self.found.summary;
        let ios = summary.jobs.iter().find(|found| found.name == job).map_or(0, |found| found.ios);
        (summary.verification.reads, ios)
    }

    /// Bytes on the link per payload, both directions.
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

    /// Mean latency in nanoseconds.
    pub fn latency(&self) -> f64 {
        self.figure(Metric::MeanNs)
    }

    /// 99th percentile of a job's latency, in nanoseconds.
    pub fn p99(&self, job: &str) -> f64 {
        self.latency_of(job).map_or(f64::NAN, |latency| latency.p99_ns as f64)
    }

    /// Mean latency of a job in nanoseconds.
    pub fn mean(&self, job: &str) -> f64 {
        self.latency_of(job).map_or(f64::NAN, |latency| latency.mean_ns)
    }

    fn latency_of(&self, job: &str) -> Option<&'a Latency> {
        let job = self.found.summary.jobs.iter().find(|found| found.name == job)?;
        Some(&job.write.as_ref()?.latency)
    }

    /// Operations per second of the whole point.
    pub fn throughput(&self) -> f64 {
        self.figure(Metric::Iops)
    }

    /// Throughput of a job's writes, one at a time, at the 99th and the 1st percentile of the latency; the
    /// time between two writes is the mean.
    pub fn throughput_range(&self, job: &str) -> Option<(f64, f64)> {
        let curve = self.found.curves.iter().find(|curve| curve.job == job && curve.kind == Kind::Write)?;
        let between = (1e9 / self.throughput() - self.latency()).max(0.0);
        let longest = |share: f64| curve.points.iter().find(|point| point.1 >= share).map(|point| point.0);
        let at = |share: f64| longest(share).map(|latency| 1e9 / (latency + between));
        Some((at(0.99)?, at(0.01)?))
    }

    /// Work of a key-value drive's store.
    pub fn store(&self) -> Option<&'a KvStoreSummary> {
        self.found.summary.kv.as_ref()?.store.as_ref()
    }

    /// A job's batches in host memory, if any.
    pub fn bulk(&self, job: &str) -> Option<&'a BulkRow> {
        self.found.summary.kv.as_ref()?.bulk.iter().find(|row| row.job == job)
    }

    /// A job's operations of its first kind.
    pub fn operation(&self, job: &str) -> Option<&'a OperationRow> {
        self.found.summary.kv.as_ref()?.operations.iter().find(|row| row.job == job)
    }

    /// Network and target, if there is one.
    pub fn network(&self) -> Option<&'a NetworkSummary> {
        self.found.summary.network.as_ref()
    }

    /// Lending, cost and energy of a JBOF, if the drives are in one.
    pub fn jbof(&self) -> Option<&'a JbofSummary> {
        self.found.summary.jbof.as_ref()
    }

    /// Bytes per second of the jobs with this prefix in their name.
    pub fn rate(&self, job: &str) -> f64 {
        let jobs = self.found.summary.jobs.iter().filter(|found| found.name.starts_with(job));
        jobs.map(|job| job.bytes_per_second).sum()
    }

    /// Bytes moved by the jobs with this prefix in their name.
    pub fn bytes_of(&self, job: &str) -> f64 {
        let jobs = self.found.summary.jobs.iter().filter(|found| found.name.starts_with(job));
        jobs.map(|job| job.bytes as f64).sum()
    }

    /// Time from the start of each drive's first job, in nanoseconds, and bytes moved by its jobs.
    pub fn each_drive(&self) -> impl Iterator<Item = (f64, f64)> {
        let bytes = |drive: &Summary| drive.jobs.iter().map(|job| job.bytes as f64).sum();
        self.found.summary.drives.iter().map(move |drive| (drive.elapsed_ns, bytes(drive)))
    }

    /// Utilisation of a resource of a drive, by index.
    pub fn busy_of(&self, drive: usize, resource: &str) -> f64 {
        let rows = self.found.summary.drives.get(drive).into_iter().flat_map(|drive| &drive.utilisation);
        rows.filter(|row| row.resource == resource).map(|row| row.mean).sum()
    }

    /// Mean latency of the I/Os of the jobs with this prefix, in nanoseconds.
    pub fn mean_of(&self, job: &str) -> f64 {
        let jobs = self.found.summary.jobs.iter().filter(|found| found.name.starts_with(job));
        let kinds = jobs.flat_map(|job| [&job.read, &job.write]).flatten();
        let (ios, sum) = kinds.fold((0, 0.0), |(ios, sum), kind| {
            (ios + kind.ios, sum + kind.latency.mean_ns * kind.ios as f64)
        });
        sum / ios as f64
    }

    /// Cost of I/O on the host, if it was followed.
    pub fn host(&self) -> Option<&'a HostSummary> {
        self.found.summary.host.as_ref()
    }

    /// Mean time of a payload in a stage, in nanoseconds.
    pub fn stage(&self, name: &str) -> f64 {
        let row = self.found.summary.spans.iter().find(|row| row.span == name);
        row.map_or(0.0, |row| row.mean_ns)
    }

    /// The stages with nonzero time.
    pub fn stages(&self) -> impl Iterator<Item = (&'a str, f64)> {
        self.found.summary.spans.iter().map(|row| (row.span.as_str(), row.mean_ns)).filter(|row| row.1 > 0.0)
    }

    /// Number of payloads by a transfer method.
    pub fn by_way(&self, way: &str) -> u64 {
        let methods = self.found.summary.transfer.iter().flat_map(|transfer| &transfer.ways);
        methods.filter(|row| row.way == way).map(|row| row.payloads).sum()
    }

    /// Processor time of host and drive per payload, in nanoseconds.
    pub fn processors(&self) -> Option<(f64, f64)> {
        self.found
            .summary
            .transfer
            .as_ref()
            .and_then(|transfer| transfer.host_ns_per_io.zip(transfer.device_ns_per_io))
    }
}
