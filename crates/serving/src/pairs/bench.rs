//! Jobs on a key-value drive in a directory, or on a served one. Workers, verification and results are those of a simulated run, except
//! figures that only the drive's process knows.

use std::rc::Rc;

use super::namespace;
use crate::attach::attached;
use crate::bench::{MEMORY_BYTES_MAX, RESOLUTION, TIMEOUT, kept_pace};
use crate::error::AttachedError;
use crate::location::{Access, DriveLocation, Holds, in_directory};
use byteway_clock::Clock;
use byteway_host::{Completion, Data, KvClient, KvConfig, KvNamespace, Method, Port, Rules};
use byteway_host::{Driver, DriverConfig, QueueConfig};
use byteway_pushdown::drive_model::DriveModel;
use byteway_results::results::Results;
use byteway_results::summary::{ClockKind, Summary, TransferSummary};
use byteway_results::{Meter, RunPart, SeriesRecorder};
use byteway_run::error::RunError;
use byteway_run::jobs::{self, Oracles, Play, WorkerOptions};
use byteway_scenario::TransferPlan;
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::{Bars, Progress};
use byteway_text::units::Bytes;
use byteway_wire::nvme::FormatNvm;
use byteway_workload::{JobPlan, Source};
use byteway_world::Host;

/// Configuration of a benchmark.
#[derive(Clone)]
pub struct PairsBench {
    /// Location of the drive.
    pub place: DriveLocation,
    /// Namespace; `None`: the first KV namespace.
    pub nsid: Option<u32>,
    /// Jobs, one phase after the other.
    pub jobs: Vec<JobPlan>,
    /// Transfer of values.
    pub transfer: TransferPlan,
    /// Whether all key-value pairs are deleted first.
    pub erase: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// Display of progress.
    pub bars: Rc<dyn Bars>,
}

impl PairsBench {
    /// Attaches, runs the jobs, and returns the results.
    ///
    /// # Errors
    /// No such drive, an unsupported request, or existing key-value pairs with unknown content.
    pub fn run(&self, interrupt: &Interrupt) -> Result<Results, AttachedError> {
        let (bench, interrupt) = (self.clone(), interrupt.clone());
        match &self.place {
            DriveLocation::Served(folder) => {
                attached(folder, self.memory_bytes()?, Some(&interrupt), |clock, port| {
                    bench.play(clock.clone(), port, ClockKind::Wall, interrupt.clone())
                })
            }
            DriveLocation::Directory { device, data } => {
                in_directory(device, data, (Holds::Pairs, Access::Change), |clock, port| {
                    bench.play(clock.clone(), port, ClockKind::Virtual, interrupt)
                })
            }
        }
    }

    /// The longest value of any job in bytes.
    fn value_bytes_max(&self) -> u32 {
        let of = |job: &JobPlan| match &job.source {
            Source::Pairs(plan) => plan.value_bytes_max(),
            _ => 0,
        };
        self.jobs.iter().map(of).max().unwrap_or(0)
    }

    /// Host memory for queues, values and lists, estimated generously.
    fn memory_bytes(&self) -> Result<u64, InputError> {
        // A part of a scan takes at least 16 KiB, and in queue entries a value takes up to five times its length.
        let value = u64::from(self.value_bytes_max()).max(16 << 10).next_multiple_of(4096);
        let command = value * if self.transfer.rules.method == Method::Prp { 1 } else { 6 } + (16 << 10);
        let outstanding: u64 =
            self.jobs.iter().map(|job| u64::from(job.workers) * u64::from(job.iodepth)).sum();
        let bytes = outstanding.saturating_mul(command).saturating_add(64 << 20);
        if bytes > MEMORY_BYTES_MAX.0 {
            let what = format!("{outstanding} outstanding operations of {} are too many", Bytes(value));
            let help = format!("lower `--iodepth` or `--numjobs`: together at most {MEMORY_BYTES_MAX}");
            return Err(InputError::new(what, help));
        }
        Ok(bytes)
    }

    async fn play(
        self,
        clock: Clock,
        port: Port,
        kind: ClockKind,
        interrupt: Interrupt,
    ) -> Result<Results, AttachedError> {
        let workers: u32 = self.jobs.iter().map(|job| job.workers).sum();
        let config = DriverConfig {
            queues_wanted: workers.saturating_add(1).min(u32::from(u16::MAX - 1)) as u16,
            timeout: Some(TIMEOUT),
            ..DriverConfig::default()
        };
        let driver = Driver::attach(port, config).await.map_err(AttachedError::NotDriven)?;
        let namespace = namespace(&driver, self.nsid)?;
        self.check(&driver, &namespace)?;
        let mut plans = self.jobs.clone();
        plans.iter_mut().for_each(|plan| plan.nsid = namespace.nsid);
        if self.erase {
            format(&driver, namespace.nsid).await?;
        } else if plans.iter().any(|plan| plan.verify.is_on()) {
            check_empty(&driver, namespace.nsid).await?;
        }
        let worker_options = WorkerOptions {
            drive: 0,
            shared: None,
            paths: None,
            jbof: None,
            completion: Completion::Polled,
            rules: self.transfer.rules,
            sink: None,
            results: self.transfer.results,
            tables: Vec::new(),
            model: Rc::new(DriveModel::assumed()),
            processors: Host::new(&clock, 1).processors().to_vec(),
            queue_entries_max: u32::from(driver.cap().mqes_z()) + 1,
            seed: self.seed,
        };
        let workers = jobs::workers(&driver, &plans, &worker_options, &Oracles::new()).await?;
        let count =
            plans.iter().map(JobPlan::command_count).try_fold(0u64, |sum, count| sum.checked_add(count?));
        let progress = Progress::new(&*self.bars, "", count, None);
        let is_served = kind == ClockKind::Wall;
        let pace = if is_served { crate::bench::pace(&driver).await } else { None };
        let start = clock.now();
        let series = SeriesRecorder::new(&plans, start, None);
        let meter = Meter::new(&plans, start, series, None, progress, interrupt);
        let play = Play::new(&clock, workers, meter, |_| ());
        let played = play.run().await;
        play.meter.take_progress().finish();
        played?;
        let end = clock.now();
        let series = play.meter.series(end, &mut []).series;
        let distributions = play.meter.distributions(&plans);
        let measured =
            play.meter.summary(&plans, RunPart::Whole, plans.iter().any(|plan| plan.verify.is_on()), end);
        let mut notes = measured.notes.clone();
        notes.extend(play.unchecked_note(RunPart::Whole));
        if is_served {
            notes.push(RESOLUTION.to_owned());
            notes.push(kept_pace(pace, crate::bench::pace(&driver).await));
        }
        let protocol_errors = driver.protocol_errors();
        if protocol_errors > 0 {
            notes.push(format!("{protocol_errors} completions contradicted what was submitted"));
        }
        if let Err(error) = driver.shutdown().await {
            notes.push(format!("the drive did not shut down: {error}"));
        }
        // Processor time is not modeled here: this host's work takes real time.
        let (counts, _) = play.host_used(RunPart::Whole);
        let method = self.transfer.rules.method.name();
        let summary = Summary {
            transfer: Some(TransferSummary::new(method, false, &counts, (None, None), measured.ios)),
            scenario: "kv-bench".to_owned(),
            seed: self.seed,
            drive_model: driver.identity().model_number(),
            capacity_bytes: namespace.bytes,
            clock: kind,
            notes,
            ..measured
        };
        Ok(Results { summary, series, distributions, wear: None, drives: Vec::new() })
    }

    /// Checks that the drive supports the requested transfer.
    fn check(&self, driver: &Driver, namespace: &KvNamespace) -> Result<(), InputError> {
        let transfer_bytes_max = driver.transfer_bytes_max().unwrap_or(u64::MAX);
        let most = u64::from(namespace.value_bytes_max).min(transfer_bytes_max);
        let longest = u64::from(self.value_bytes_max());
        if longest > most {
            let what = format!("values of up to {} exceed the drive's maximum", Bytes(longest));
            return Err(InputError::new(what, format!("at most {}", Bytes(most))));
        }
        let wanted = KvConfig { results: self.transfer.results, ..KvConfig::new(self.transfer.rules, 0) };
        if !wanted.methods().is_within(driver.capabilities().offered()) {
            let what =
                format!("`--method {}`: the drive does not support it", self.transfer.rules.method.name());
            let help = "serve one whose profile lists it in `transfer.methods`, or choose another";
            return Err(InputError::new(what, help));
        }
        Ok(())
    }
}

async fn format(driver: &Driver, nsid: u32) -> Result<(), AttachedError> {
    let answer = driver.admin(FormatNvm::default().sqe(0, nsid), Data::None).await?;
    if !answer.status().is_success() {
        let what = format!("namespace {nsid} cannot be formatted");
        return Err(RunError::Refused { what, status: answer.status() }.into());
    }
    Ok(())
}

/// Refuses a namespace with existing key-value pairs, which cannot be verified.
async fn check_empty(driver: &Driver, nsid: u32) -> Result<(), AttachedError> {
    let queue = driver.create_queue_pair(QueueConfig::new(2)).await?;
    let client = KvClient::new(queue.clone(), nsid, KvConfig::new(Rules::only(Method::Prp), 4096));
    let (mut buffer, mut keys) = (client.buffer()?, Vec::new());
    let listed = client.list(&mut buffer, None, 64, &mut keys).await;
    drop(buffer);
    driver.delete_queue_pair(&queue).await?;
    listed?;
    if keys.is_empty() {
        return Ok(());
    }
    let what = format!("namespace {nsid} has key-value pairs whose expected values are unknown");
    let help = "add --erase, which deletes them, or --no-verify";
    Err(InputError::new(what, help).into())
}
