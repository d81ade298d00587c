//! Key-value operations on an LSM tree on the host, for jobs with `engine = "leveldb"`.

use super::ios::Done;
use super::worker_options::WorkerOptions;
use crate::error::{NamespaceKind, RunError};
use crate::lsm::{Lsm, LsmError, PART_BYTES};
use byteway_clock::{Clock, Semaphore, SpanRecord};
use byteway_host::{Client, ClientConfig};
use byteway_host::{Driver, KvOracle, KvOutcome, QueuePair};
use byteway_host::{KvError, KvIoError};
use byteway_results::Operated;
use byteway_wire::nvme::kv::Key;
use byteway_workload::JobPlan;
use byteway_workload::kv::{KvOp, Verb};
use std::cell::RefCell;
use std::rc::Rc;

/// A tree on a block namespace, with its expected content.
pub(super) struct Tree {
    lsm: Lsm,
    /// Serializes operations.
    turn: Semaphore,
    clock: Clock,
    oracle: Option<Rc<RefCell<KvOracle>>>,
}

impl Tree {
    /// An empty tree on the job's whole namespace.
    pub(super) async fn new(
        driver: &Driver,
        queue: QueuePair,
        plan: &JobPlan,
        worker_options: &WorkerOptions,
        sync: bool,
        oracle: Option<Rc<RefCell<KvOracle>>>,
    ) -> Result<Tree, RunError> {
        let namespaces = driver.namespaces();
        let Some(namespace) = namespaces.iter().find(|namespace| namespace.nsid == plan.nsid) else {
            return Err(RunError::no_namespace(NamespaceKind::Blocks, plan));
        };
        if driver.transfer_bytes_max().is_some_and(|most| most < PART_BYTES.into()) {
            return Err(RunError::TransferTooShort { job: plan.name.clone(), bytes: PART_BYTES });
        }
        driver.enable_methods(&queue, worker_options.rules.methods()).await?;
        let config = ClientConfig {
            rules: worker_options.rules,
            bytes_max: PART_BYTES,
            oracle: None,
            verify_bytes: false,
        };
        let clock = driver.clock().clone();
        let client = Client::new(queue, *namespace, config)?;
        let lsm = Lsm::new(client, clock.clone(), sync).await?;
        Ok(Tree { lsm, turn: Semaphore::new(&clock, 1), clock, oracle })
    }

    /// The client of its namespace.
    pub(super) fn client(&self) -> &Client {
        self.lsm.client()
    }

    /// Executes an operation, after those before it.
    pub(super) async fn perform(&self, op: KvOp) -> Result<Done, LsmError> {
        let begin = self.clock.now();
        let _turn = self.turn.acquire(1).await;
        let mut done = self.perform_now(op).await?;
        done.record.begin = begin;
        Ok(done)
    }

    async fn perform_now(&self, op: KvOp) -> Result<Done, LsmError> {
        let key = Key::new(op.key.as_slice()).expect("keys of operations have 1 to 16 bytes");
        let done = |found: bool, pairs: u64, bytes: u64, record: SpanRecord| Done {
            operated: Operated { verb: op.verb, found, pairs },
            bytes,
            record,
        };
        match op.verb {
            Verb::Store | Verb::Insert => {
                let record = self.store(key, op.bytes).await?;
                Ok(done(true, 0, op.bytes.into(), record))
            }
            Verb::Retrieve | Verb::Exist => {
                let (record, bytes) = self.retrieve(key).await?;
                let came = if op.verb == Verb::Retrieve { bytes.unwrap_or(0) } else { 0 };
                Ok(done(bytes.is_some(), 0, came, record))
            }
            Verb::Modify => {
                let (before, bytes) = self.retrieve(key).await?;
                let record = self.store(key, op.bytes).await?;
                let moved = bytes.unwrap_or(0) + u64::from(op.bytes);
                Ok(done(bytes.is_some(), 0, moved, before.joined(record)))
            }
            Verb::Delete => {
                let write = self.oracle.as_ref().map(|oracle| oracle.borrow_mut().begin_delete(key));
                let deleted = self.lsm.delete(key.as_bytes()).await;
                self.end(write, deleted.is_ok());
                // The tree writes a tombstone without a look-up.
                Ok(done(true, 0, 0, deleted?))
            }
            Verb::Scan => {
                let read = self.oracle.as_ref().map(|oracle| oracle.borrow_mut().begin_read());
                let found = self.lsm.scan(key.as_bytes(), op.count.max(1)).await;
                let verified = match (&found, &self.oracle, read) {
                    (Ok((_, found)), Some(oracle), Some(read)) => {
                        let mut oracle = oracle.borrow_mut();
                        let keys: Vec<Key> = found.iter().filter_map(|(key, _)| Key::new(key)).collect();
                        let is_whole = keys.len() < op.count.max(1) as usize;
                        let listed = oracle.verify_list(read.window(), Some(key), &keys, is_whole);
                        let values = keys.iter().zip(found).try_for_each(|(key, (_, value))| {
                            oracle.verify_value(read, *key, value.len() as u32, 0, value)
                        });
                        listed.and(values)
                    }
                    _ => Ok(()),
                };
                self.end_read(read);
                verified.map_err(|error| KvIoError::Client(KvError::Mismatch(error)))?;
                let (record, found) = found?;
                let bytes = found.iter().map(|(_, value)| value.len() as u64).sum();
                Ok(done(!found.is_empty(), found.len() as u64, bytes, record))
            }
        }
    }

    async fn store(&self, key: Key, bytes: u32) -> Result<SpanRecord, LsmError> {
        let mut value = vec![0; bytes as usize];
        let write = self.oracle.as_ref().map(|oracle| {
            let mut oracle = oracle.borrow_mut();
            let write = oracle.begin_store(key, bytes);
            oracle.fill(&write, &mut value);
            write
        });
        let stored = self.lsm.store(key.as_bytes(), value).await;
        self.end(write, stored.is_ok());
        stored
    }

    /// Returns the value's length, if the key exists.
    async fn retrieve(&self, key: Key) -> Result<(SpanRecord, Option<u64>), LsmError> {
        let read = self.oracle.as_ref().map(|oracle| oracle.borrow_mut().begin_read());
        let found = self.lsm.retrieve(key.as_bytes()).await;
        let verified = match (&found, &self.oracle, read) {
            (Ok((_, value)), Some(oracle), Some(read)) => {
                let mut oracle = oracle.borrow_mut();
                match value {
                    Some(value) => oracle.verify_value(read, key, value.len() as u32, 0, value),
                    None => oracle.verify_key(read, key, false, None),
                }
            }
            _ => Ok(()),
        };
        self.end_read(read);
        verified.map_err(|error| KvIoError::Client(KvError::Mismatch(error)))?;
        let (record, value) = found?;
        Ok((record, value.map(|value| value.len() as u64)))
    }

    fn end(&self, write: Option<byteway_host::KvWrite>, is_done: bool) {
        if let (Some(write), Some(oracle)) = (write, &self.oracle) {
            oracle.borrow_mut().end(write, if is_done { KvOutcome::Done } else { KvOutcome::Uncertain });
        }
    }

    fn end_read(&self, read: Option<byteway_host::KvRead>) {
        if let (Some(read), Some(oracle)) = (read, &self.oracle) {
            oracle.borrow_mut().end_read(read);
        }
    }
}
