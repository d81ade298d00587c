//! Points: ordinary scenarios, written in code. A point that several claims rest on is one point, and runs once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::anyhow;

use crate::compare::{Figures, Found, Metric, Outcome};
use crate::error::InputError;
use crate::scenario::{Options, Scenario};
use crate::summary::{BulkRow, KvStoreSummary, Latency, LinkRow, OperationRow, ratio};
use crate::workload::Kind;

/// A scenario: the drive, the host, keys beside them, and jobs. Equal specs are one point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spec {
    drive: String,
    host: String,
    keys: BTreeMap<String, String>,
    jobs: Vec<Job>,
    pairs: Vec<Pairs>,
}

/// A job of writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    name: String,
    bytes: u64,
    workers: u32,
    depth: u32,
    length: Length,
}

/// A job that works on pairs of keys and values, one operation at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pairs {
    name: String,
    workload: String,
    keys: Vec<(String, String)>,
    /// One operation for so many payloads of a point.
    divisor: u64,
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
    /// A drive and a host, by their profiles.
    pub fn new(drive: &str, host: &str) -> Spec {
        Spec {
            drive: drive.to_owned(),
            host: host.to_owned(),
            keys: BTreeMap::new(),
            jobs: Vec::new(),
            pairs: Vec::new(),
        }
    }

    /// Sets a key of the scenario to a text.
    pub fn key(self, key: &str, text: impl Into<String>) -> Spec {
        let quoted = format!("{:?}", text.into());
        self.raw(key, quoted)
    }

    /// Sets a key of the scenario to a number or a truth value.
    pub fn raw(mut self, key: &str, value: impl ToString) -> Spec {
        self.keys.insert(key.to_owned(), value.to_string());
        self
    }

    /// Adds a job.
    pub fn job(mut self, job: Job) -> Spec {
        self.jobs.push(job);
        self
    }

    /// Adds a job that works on pairs.
    pub fn pairs(mut self, job: Pairs) -> Spec {
        self.pairs.push(job);
        self
    }

    /// The scenario, with so many payloads.
    pub fn text(&self, payloads: u64) -> String {
        let mut text = format!("drive.profile = {:?}\nhost.profile = {:?}\n", self.drive, self.host);
        for (key, value) in &self.keys {
            let _ = writeln!(text, "{key} = {value}");
        }
        for job in &self.jobs {
            let Job { name, bytes, workers, depth, length } = job;
            // A small range, written over and over: the sink holds little, whatever the number of payloads.
            let size = bytes * 16 * u64::from(*workers);
            let length = match length {
                Length::Payloads => format!("count = {payloads}"),
                Length::Time(each_ns) => format!("runtime = \"{} ns\"", payloads * each_ns),
            };
            let _ = write!(
                text,
                "\n[[job]]\nname = {name:?}\nrw = \"write\"\nbs = \"{bytes} B\"\nsize = \"{size} B\"\nnumjobs = {workers}\n\
                 iodepth = {depth}\n{length}\n"
            );
        }
        for job in &self.pairs {
            let Pairs { name, workload, keys, divisor, least, is_later } = job;
            let payloads = payloads.max(*least);
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
        let profiles = [format!("{} with {}", self.drive, self.host)];
        let keys = self.keys.iter().map(|(key, value)| format!("{key} = {}", value.trim_matches('"')));
        let jobs = self.jobs.iter().map(|job| match job.workers {
            1 => format!("{} B", job.bytes),
            workers => format!("{} B from each of {workers}", job.bytes),
        });
        let pairs = self.pairs.iter().map(|job| {
            let keys = job.keys.iter().map(|(key, value)| format!(", {key} = {}", value.trim_matches('"')));
            format!("{}{}", job.workload, keys.collect::<String>())
        });
        profiles.into_iter().chain(keys).chain(jobs).chain(pairs).collect::<Vec<_>>().join(", ")
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
        Job { name: name.to_owned(), bytes, workers: 1, depth: 1, length: Length::Payloads }
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
}

impl Points {
    /// What became of each point.
    pub fn new(found: impl IntoIterator<Item = (Spec, Outcome)>) -> Points {
        Points { found: found.into_iter().collect() }
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = (&Spec, &Outcome)> {
        self.found.iter()
    }

    /// What a point found.
    ///
    /// # Errors
    /// It failed, or nobody ran it: why.
    pub fn at(&self, spec: &Spec) -> anyhow::Result<Seen<'_>> {
        match self.found.get(spec) {
            Some(Outcome::Done(found)) => Ok(Seen { found }),
            Some(Outcome::Failed(why, _)) => Err(anyhow!("{}: {why}", spec.name())),
            Some(Outcome::NotRun) | None => Err(anyhow!("{}: it was not run", spec.name())),
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
    /// take at most: a job's writes.
    pub fn throughput_range(&self, job: &str) -> Option<(f64, f64)> {
        let curve = self.found.curves.iter().find(|curve| curve.job == job && curve.kind == Kind::Write)?;
        let at = |share: f64| curve.points.iter().find(|point| point.1 >= share).map(|point| 1e9 / point.0);
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
