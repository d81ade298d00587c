//! Workers of key-value jobs: on a key-value drive, where most operations are a single command, or on an LSM tree on the host.

use super::ios::Done;
use super::tree::Tree;
use super::worker_options::WorkerOptions;
use super::{Play, Worker, later, within_reach};
use crate::error::{NamespaceKind, RunError};
use crate::lsm::LsmError;
use byteway_clock::random::Rng;
use byteway_clock::{Clock, SpanRecord};
use byteway_host::{ClientErrorKind, IoBuffer, IoError, KvIoError};
use byteway_host::{Counts, Driver, KvBulk, KvClient, KvConfig, KvOracle, LossWindow, QueuePair, StoreIf};
use byteway_results::{Completed, Operated};
use byteway_text::error::InputError;
use byteway_wire::nvme::kv::Key;
use byteway_wire::nvme::vendor::kv::BulkLimits;
use byteway_workload::kv::{Engine, Inserted, KvGenerator, KvOp, KvPlan, KvSource, Verb};
use byteway_workload::{Io, JobPlan, Kind, Source};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Bytes of a key-value pair in an iterator's buffer in addition to its value: key and lengths.
const PAIR_BYTES: u32 = 64;

/// Upper limit in bytes of a part of a scan, unless a single key-value pair is longer.
const SCAN_BYTES: u32 = 16 << 10;

/// State shared by the workers of all jobs on a drive, created once per run.
pub(super) struct Common {
    /// Expected content by namespace.
    oracles: BTreeMap<u32, Rc<RefCell<KvOracle>>>,
    /// The records that each job has inserted.
    inserted: Vec<Rc<Inserted>>,
    /// The tree of each namespace that has one.
    trees: RefCell<BTreeMap<u32, Rc<Tree>>>,
    /// Per job, the loss window: acknowledged key-value pairs that the drive does not have yet.
    windows: Vec<Rc<RefCell<LossWindow>>>,
    /// The longest value stored, and the buffer size that it needs.
    value_bytes_max: u32,
    bytes_max: u32,
}

impl Common {
    /// For the jobs on `drive`, which is empty initially and has this maximum transfer size.
    pub(super) fn new(jobs: &[JobPlan], drive: usize, transfer_bytes_max: Option<u64>) -> Common {
        let own = || jobs.iter().filter(|job| job.drive == drive);
        let plans = || own().filter_map(plan_of).filter(|plan| plan.engine == Engine::Drive);
        let oracles = own().filter(|job| job.verify.is_on() && plan_of(job).is_some());
        let oracle = |nsid: u32| Rc::new(RefCell::new(KvOracle::new(nsid as u16)));
        let value_bytes_max = plans().map(KvPlan::value_bytes_max).max().unwrap_or(0).max(1);
        let scans = plans().any(|plan| match &plan.source {
            KvSource::Draws(draws) => draws.share(Verb::Scan) > 0.0,
            KvSource::Trace(_) => false,
        });
        Common {
            oracles: oracles.map(|job| (job.nsid, oracle(job.nsid))).collect(),
            inserted: jobs.iter().map(|job| Inserted::new(plan_of(job).map_or(0, KvPlan::records))).collect(),
            trees: RefCell::default(),
            windows: jobs.iter().map(|_| Rc::default()).collect(),
            value_bytes_max,
            bytes_max: match scans {
                true => {
                    let most = transfer_bytes_max.map_or(u32::MAX, |bytes| bytes.min(1 << 30) as u32);
                    (value_bytes_max + PAIR_BYTES).max(SCAN_BYTES).min(most)
                }
                false => value_bytes_max,
            },
        }
    }

    /// Longest payload or result of a command in bytes.
    pub(super) fn bytes_max(&self) -> u32 {
        self.bytes_max
    }
}

/// The key-value plan of a job, if it has one.
pub(super) fn plan_of(job: &JobPlan) -> Option<&KvPlan> {
    match &job.source {
        Source::Pairs(plan) => Some(plan),
        _ => None,
    }
}

/// The store: the drive, or a tree on the host.
enum Keeper {
    Drive(KvClient),
    Tree(Rc<Tree>),
}

/// A worker's access to the store, with its source of operations.
pub(super) struct Pairs {
    keeper: Keeper,
    queue: QueuePair,
    clock: Clock,
    pub(super) generator: RefCell<KvGenerator>,
    value_bytes_max: u32,
    bytes_max: u32,
    bulk: Option<BulkLimits>,
    /// Loss window of the job.
    window: Rc<RefCell<LossWindow>>,
}

impl Pairs {
    /// Worker `worker` (from 0) of the job with this index and plan.
    pub(super) async fn new(
        driver: &Driver,
        queue: QueuePair,
        jobs: &[JobPlan],
        kv: &KvPlan,
        (job, worker): (usize, u32),
        worker_options: &WorkerOptions,
        common: &Common,
    ) -> Result<Pairs, RunError> {
        let plan = &jobs[job];
        let oracle = common.oracles.get(&plan.nsid).cloned();
        let keeper = match kv.engine {
            Engine::Drive => {
                if !driver.kv_namespaces().iter().any(|namespace| namespace.nsid == plan.nsid) {
                    return Err(RunError::no_namespace(NamespaceKind::KeyValue, plan));
                }
                let config = KvConfig {
                    results: worker_options.results,
                    oracle,
                    ..KvConfig::new(
                        worker_options.rules,
                        common.bytes_max.max(kv.bulk.map_or(0, |bulk| bulk.bytes)),
                    )
                };
                driver.enable_methods(&queue, config.methods()).await?;
                Keeper::Drive(KvClient::new(queue.clone(), plan.nsid, config))
            }
            Engine::Leveldb { sync } => {
                let made = common.trees.borrow().get(&plan.nsid).cloned();
                let tree = match made {
                    // Jobs on one namespace share the tree. Each has its own queue, but the tree's commands use the first one's.
                    Some(tree) => tree,
                    None => {
                        Rc::new(Tree::new(driver, queue.clone(), plan, worker_options, sync, oracle).await?)
                    }
                };
                common.trees.borrow_mut().insert(plan.nsid, tree.clone());
                Keeper::Tree(tree)
            }
        };
        let rng = Rng::new(worker_options.seed);
        let generator = KvGenerator::new(plan, kv, worker, &rng, &common.inserted[job])?;
        Ok(Pairs {
            clock: driver.clock().clone(),
            keeper,
            queue,
            generator: RefCell::new(generator),
            value_bytes_max: common.value_bytes_max,
            bytes_max: common.bytes_max,
            bulk: kv.bulk,
            window: common.windows[job].clone(),
        })
    }

    /// The bulk buffer of one concurrent operation, if the job collects stores.
    fn bulk(&self) -> Result<Option<KvBulk>, KvIoError> {
        match (&self.keeper, self.bulk) {
            (Keeper::Drive(client), Some(limits)) => KvBulk::new(client, limits, &self.window).map(Some),
            _ => Ok(None),
        }
    }

    /// The job's loss window, if it has one.
    pub(super) fn window(&self) -> Option<&RefCell<LossWindow>> {
        self.bulk.map(|_| &*self.window)
    }

    /// The queue pair of the worker.
    pub(super) fn queue(&self) -> &QueuePair {
        &self.queue
    }

    /// Values by transfer method.
    pub(super) fn counts(&self) -> Counts {
        match &self.keeper {
            Keeper::Drive(client) => client.counts(),
            Keeper::Tree(tree) => tree.client().counts(),
        }
    }

    /// A buffer for one operation; a tree has its own.
    fn buffer(&self) -> Result<Option<IoBuffer>, IoError> {
        match &self.keeper {
            Keeper::Drive(client) => client.buffer().map(Some),
            Keeper::Tree(_) => Ok(None),
        }
    }

    async fn perform(
        &self,
        buffer: &mut Option<IoBuffer>,
        bulk: Option<&mut KvBulk>,
        op: KvOp,
    ) -> Result<Done, LsmError> {
        match (&self.keeper, buffer) {
            (Keeper::Drive(client), Some(buffer)) => Ok(self.ask(client, buffer, bulk, op).await?),
            (Keeper::Tree(tree), _) => tree.perform(op).await,
            (Keeper::Drive(_), None) => unreachable!("a drive's operations have a buffer"),
        }
    }

    async fn ask(
        &self,
        client: &KvClient,
        buffer: &mut IoBuffer,
        bulk: Option<&mut KvBulk>,
        op: KvOp,
    ) -> Result<Done, KvIoError> {
        let key = Key::new(op.key.as_slice()).expect("keys of operations have 1 to 16 bytes");
        let done = |found: bool, pairs: u64, bytes: u64, record: SpanRecord| Done {
            operated: Operated { verb: op.verb, found, pairs },
            bytes,
            record,
        };
        match op.verb {
            Verb::Store | Verb::Insert => {
                let record = match bulk {
                    Some(bulk) => bulk.put_pattern(key, op.bytes).await?,
                    None => client.store(buffer, key, op.bytes, StoreIf::Any).await?,
                };
                Ok(done(true, 0, op.bytes.into(), record))
            }
            Verb::Retrieve => {
                let answer = client.retrieve(buffer, key, 0, self.value_bytes_max).await?;
                Ok(done(answer.found, 0, answer.value_bytes.into(), answer.span))
            }
            Verb::Modify => {
                let answer = client.retrieve(buffer, key, 0, self.value_bytes_max).await?;
                let record = client.store(buffer, key, op.bytes, StoreIf::Any).await?;
                let bytes = u64::from(answer.value_bytes) + u64::from(op.bytes);
                Ok(done(answer.found, 0, bytes, answer.span.joined(record)))
            }
            Verb::Delete => {
                let answer = client.delete(key).await?;
                Ok(done(answer.found, 0, 0, answer.span))
            }
            Verb::Exist => {
                let answer = client.exist(key).await?;
                Ok(done(answer.found, 0, 0, answer.span))
            }
            Verb::Scan => self.scan(client, buffer, key, op).await,
        }
    }

    /// Iterates over `op.count` key-value pairs. The time is not attributed to stages, because a scan is
    /// several commands.
    async fn scan(
        &self,
        client: &KvClient,
        buffer: &mut IoBuffer,
        first: Key,
        op: KvOp,
    ) -> Result<Done, KvIoError> {
        let begin = self.clock.now();
        let (mut pairs, mut bytes) = (0, 0);
        let mut cursor = client.seek(Some(first)).await?;
        let wanted = u64::from(op.count.max(1));
        let mut goes_on = true;
        while goes_on && pairs < wanted {
            // Requests no more than needed for pairs of maximum length: further ones would be transferred in vain.
            let left = (wanted - pairs).saturating_mul(u64::from(self.value_bytes_max + PAIR_BYTES));
            let part = left.min(self.bytes_max.into()) as u32;
            let next = cursor.next(buffer, part, |_, value| {
                pairs += 1;
                bytes += value.len() as u64;
            });
            goes_on = next.await?;
        }
        cursor.close().await?;
        let record = SpanRecord { begin, last: self.clock.now(), ..SpanRecord::default() };
        Ok(Done { operated: Operated { verb: Verb::Scan, found: pairs > 0, pairs }, bytes, record })
    }
}

/// Class of an operation: read, write or trim.
fn kind_of(verb: Verb) -> Kind {
    match verb {
        Verb::Retrieve | Verb::Exist | Verb::Scan => Kind::Read,
        Verb::Store | Verb::Insert | Verb::Modify => Kind::Write,
        Verb::Delete => Kind::Trim,
    }
}

impl Play {
    /// Loop of one of the concurrent operations of a worker.
    pub(super) async fn work_pairs(&self, worker: &Worker, pairs: &Pairs) -> Result<(), RunError> {
        let meter = &self.meter;
        let mut buffer = pairs.buffer()?;
        let mut bulk = pairs.bulk()?;
        let start = worker.start.get();
        let end = worker.plan.runtime.map(|_| later(start, worker.plan.end_ps()));
        self.wait_until(&worker.plan, start).await?;
        self.begin_if_due(worker.plan.drive);
        while meter.goes_on() && end.is_none_or(|end| self.clock.now() < end) {
            let Some(op) = pairs.generator.borrow_mut().next() else { break };
            let due = self.clock.now();
            within_reach(&worker.plan, due)?;
            let number = meter.number();
            let performed = pairs.perform(&mut buffer, bulk.as_mut(), op).await;
            if op.verb == Verb::Insert {
                // After a failed insert the record may or may not exist, and can still be chosen: the oracle accepts both.
                pairs.generator.borrow().inserted().end(op.number);
            }
            let bytes = performed.as_ref().map_or(0, |done| done.bytes);
            let io = Io {
                kind: kind_of(op.verb),
                lba: op.number,
                blocks: bytes.min(u32::MAX.into()) as u32,
                at: None,
            };
            let shown = performed.as_ref().map(|done| &done.record);
            self.show(worker, io, due, shown.map_err(|error| error as &dyn fmt::Display), None);
            match performed {
                Ok(Done { operated, record, .. }) => {
                    let (job, worker, operated) = (worker.job, worker.of_job, Some(operated));
                    let queried = None;
                    meter.completed(&Completed {
                        number,
                        job,
                        worker,
                        io,
                        operated,
                        queried,
                        bytes,
                        due,
                        record: &record,
                    });
                }
                Err(LsmError::Io(IoError::Client(error))) if error.kind == ClientErrorKind::WrongData => {
                    meter.mismatched(worker.job, self.clock.now(), error.text);
                }
                Err(LsmError::Io(IoError::Status(status))) => {
                    meter.failed(worker.job, self.clock.now(), status.to_string());
                }
                Err(error @ LsmError::Tree(_)) => {
                    // A tree whose write failed is inconsistent: it accepts no further operations.
                    meter.stop();
                    let what = format!("job `{}`: {error}", worker.plan.name);
                    return Err(InputError::new(what, "give the drive more capacity, or store less").into());
                }
                Err(LsmError::Io(source)) => {
                    meter.stop();
                    return Err(RunError::of_pairs(&worker.plan, source));
                }
            }
            self.begin_if_due(worker.plan.drive);
        }
        if let Some(bulk) = &mut bulk {
            match bulk.send().await {
                Ok(_) => {}
                Err(IoError::Status(status)) => {
                    meter.failed(worker.job, self.clock.now(), status.to_string())
                }
                Err(error) => {
                    return Err(RunError::of_pairs(&worker.plan, error.into()));
                }
            }
        }
        Ok(())
    }
}
