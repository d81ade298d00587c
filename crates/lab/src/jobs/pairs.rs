//! Workers of jobs that ask a drive for pairs: each operation is one command, but for those that need several.

use super::{Manner, Play, Worker, later, within_reach};
use crate::kv::{Inserted, KvGenerator, KvOp, KvPlan, KvSource, Verb};
use crate::measure::{Completed, Operated};
use crate::workload::{Io, JobPlan, Kind, Source};
use anyhow::{anyhow, bail};
use byteway_clock::random::Rng;
use byteway_clock::{Clock, SpanRecord, Stage};
use byteway_host::io::{IoBuffer, IoError};
use byteway_host::{Driver, KvClient, KvConfig, KvOracle, QueuePair, StoreIf};
use byteway_wire::nvme::kv::Key;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Room for the key and the lengths of a pair beside its value, where an iterator shows it.
const PAIR_BYTES: u32 = 64;

/// Pairs of a scan come in parts of up to this, or of one pair.
const SCAN_BYTES: u32 = 16 << 10;

/// What the workers of all jobs have in common: made once for a run.
pub(super) struct Common {
    /// What each namespace must hold.
    oracles: BTreeMap<u32, Rc<RefCell<KvOracle>>>,
    /// The records that each job has inserted.
    inserted: Vec<Rc<Inserted>>,
    /// The longest value that any of them stores, and the buffers that this takes.
    value_bytes_max: u32,
    bytes_max: u32,
}

impl Common {
    /// For `jobs`, on a drive that holds nothing yet and transfers so much with a command.
    pub(super) fn new(jobs: &[JobPlan], transfer_bytes_max: Option<u64>) -> Common {
        let plans = || jobs.iter().filter_map(plan_of);
        let oracles = jobs.iter().filter(|job| job.verify && plan_of(job).is_some());
        let oracle = |nsid: u32| Rc::new(RefCell::new(KvOracle::new(nsid as u16)));
        let value_bytes_max = plans().map(KvPlan::value_bytes_max).max().unwrap_or(0).max(1);
        let scans = plans().any(|plan| match &plan.source {
            KvSource::Draws(draws) => draws.share(Verb::Scan) > 0.0,
            KvSource::Trace(_) => false,
        });
        Common {
            oracles: oracles.map(|job| (job.nsid, oracle(job.nsid))).collect(),
            inserted: jobs.iter().map(|job| Inserted::new(plan_of(job).map_or(0, KvPlan::records))).collect(),
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

    /// The longest payload or result of a command.
    pub(super) fn bytes_max(&self) -> u32 {
        self.bytes_max
    }
}

fn plan_of(job: &JobPlan) -> Option<&KvPlan> {
    match &job.source {
        Source::Pairs(plan) => Some(plan),
        _ => None,
    }
}

/// A worker's side of the drive, and where its operations come from.
pub(super) struct Pairs {
    pub(super) client: KvClient,
    clock: Clock,
    pub(super) generator: RefCell<KvGenerator>,
    value_bytes_max: u32,
    bytes_max: u32,
}

/// An operation that was carried out.
struct Done {
    operated: Operated,
    bytes: u64,
    record: SpanRecord,
}

impl Pairs {
    /// Worker `worker` (from 0) of the job with that index.
    pub(super) async fn new(
        driver: &Driver,
        queue: QueuePair,
        jobs: &[JobPlan],
        (job, worker): (usize, u32),
        manner: &Manner,
        common: &Common,
    ) -> anyhow::Result<Pairs> {
        let plan = &jobs[job];
        let Some(kv) = plan_of(plan) else {
            bail!("job `{}` asks for blocks of a key-value drive", plan.name)
        };
        if !driver.kv_namespaces().iter().any(|namespace| namespace.nsid == plan.nsid) {
            bail!("the drive has no key-value namespace {} for job `{}`", plan.nsid, plan.name);
        }
        let config = KvConfig {
            results: manner.results,
            oracle: common.oracles.get(&plan.nsid).cloned(),
            ..KvConfig::new(manner.rules, common.bytes_max)
        };
        driver.enable_methods(&queue, config.methods()).await?;
        let rng = Rng::new(manner.seed);
        let generator = KvGenerator::new(plan, kv, worker, &rng, &common.inserted[job])?;
        Ok(Pairs {
            clock: driver.clock().clone(),
            client: KvClient::new(queue, plan.nsid, config),
            generator: RefCell::new(generator),
            value_bytes_max: common.value_bytes_max,
            bytes_max: common.bytes_max,
        })
    }

    async fn perform(&self, buffer: &mut IoBuffer, op: KvOp) -> Result<Done, IoError> {
        let client = &self.client;
        let key = Key::new(op.key.as_slice()).expect("keys of operations have 1 to 16 bytes");
        let done = |found: bool, pairs: u64, bytes: u64, record: SpanRecord| Done {
            operated: Operated { verb: op.verb, found, pairs },
            bytes,
            record,
        };
        match op.verb {
            Verb::Store | Verb::Insert => {
                let record = client.store(buffer, key, op.bytes, StoreIf::Any).await?;
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
                Ok(done(answer.found, 0, bytes, joined(answer.span, record)))
            }
            Verb::Delete => {
                let answer = client.delete(key).await?;
                Ok(done(answer.found, 0, 0, answer.span))
            }
            Verb::Exist => {
                let answer = client.exist(key).await?;
                Ok(done(answer.found, 0, 0, answer.span))
            }
            Verb::Scan => self.scan(buffer, key, op).await,
        }
    }

    /// Goes over `op.count` pairs. Its stages are not known: it is several commands.
    async fn scan(&self, buffer: &mut IoBuffer, first: Key, op: KvOp) -> Result<Done, IoError> {
        let begin = self.clock.now();
        let (mut pairs, mut bytes) = (0, 0);
        let mut cursor = self.client.seek(Some(first)).await?;
        let wanted = u64::from(op.count.max(1));
        let mut goes_on = true;
        while goes_on && pairs < wanted {
            // No more than what is asked for, if pairs are as long as they can be: others come in vain.
            let left = (wanted - pairs).saturating_mul(u64::from(self.value_bytes_max + PAIR_BYTES));
            let part = left.min(self.bytes_max.into()) as u32;
            let next = cursor.next(buffer, part, |_, value| {
                pairs += 1;
                bytes += value.len() as u64;
            });
            goes_on = next.await?;
        }
        cursor.close().await?;
        let record = SpanRecord { begin, last: self.clock.now(), stages: Default::default() };
        Ok(Done { operated: Operated { verb: Verb::Scan, found: pairs > 0, pairs }, bytes, record })
    }
}

/// Two commands, the second right after the first, as one.
fn joined(first: SpanRecord, second: SpanRecord) -> SpanRecord {
    let mut stages = first.stages;
    for stage in Stage::ALL {
        stages[stage as usize] += second.stages[stage as usize];
    }
    SpanRecord { begin: first.begin, last: second.last, stages }
}

/// What an operation is among reads, writes and trims.
fn kind_of(verb: Verb) -> Kind {
    match verb {
        Verb::Retrieve | Verb::Exist | Verb::Scan => Kind::Read,
        Verb::Store | Verb::Insert | Verb::Modify => Kind::Write,
        Verb::Delete => Kind::Trim,
    }
}

impl Play {
    /// One of the operations that a worker may have outstanding, over and over.
    pub(super) async fn work_pairs(&self, worker: &Worker, pairs: &Pairs) -> anyhow::Result<()> {
        let meter = &self.meter;
        let mut buffer = pairs.client.buffer()?;
        let start = worker.start.get();
        let end = worker.plan.runtime.map(|_| later(start, worker.plan.end_ps()));
        self.wait_until(&worker.plan, start).await?;
        while meter.goes_on() && end.is_none_or(|end| self.clock.now() < end) {
            let Some(op) = pairs.generator.borrow_mut().next() else { break };
            let due = self.clock.now();
            within_reach(&worker.plan, due)?;
            let number = meter.number();
            let performed = pairs.perform(&mut buffer, op).await;
            if op.verb == Verb::Insert {
                // One that failed may be there or not, and is chosen all the same: the oracle knows what may be found.
                pairs.generator.borrow().inserted().end(op.number);
            }
            let bytes = performed.as_ref().map_or(0, |done| done.bytes);
            let io = Io {
                kind: kind_of(op.verb),
                lba: op.number,
                blocks: bytes.min(u32::MAX.into()) as u32,
                at: None,
            };
            let performed = performed.map(|done| (done.operated, done.record));
            self.show(worker, io, due, performed.as_ref().map(|done| &done.1));
            match performed {
                Ok((operated, record)) => {
                    let (job, worker, operated) = (worker.job, worker.of_job, Some(operated));
                    meter.completed(&Completed { number, job, worker, io, operated, bytes, due, record });
                }
                Err(IoError::KvMismatch(mismatch)) => {
                    meter.mismatched(self.clock.now(), mismatch.to_string());
                }
                Err(error @ IoError::Corrupt { .. }) => {
                    meter.mismatched(self.clock.now(), error.to_string());
                }
                Err(IoError::Status(status)) => meter.failed(self.clock.now(), status.to_string()),
                Err(error) => {
                    meter.stop();
                    return Err(anyhow!(error).context(format!("job `{}`", worker.plan.name)));
                }
            }
            self.begin_if_due();
        }
        Ok(())
    }
}
