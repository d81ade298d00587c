//! Bulk PUT: pairs are gathered in host memory, and stored many at once by one command
//! ([`byteway_wire::nvme::vendor::kv`], KV Store Many). Far fewer commands and bytes cross the link, for a price: a pair that
//! the caller was told is put may be in host memory only ([`LossWindow`]), and nobody else finds it until it is sent.

use super::noted::is_refusal;
use super::oracle::KvWrite;
use super::{KvClient, KvOutcome, LossWindow};
use crate::buffer::IoBuffer;
use crate::error::IoError;
use crate::error::Lost;
use crate::io::Opened;
use crate::kv::KvIoError;
use crate::queue::Request;
use byteway_clock::{Delay, SpanId, SpanRecord, Stage, Time};
use byteway_transfer::host::PlanError;
use byteway_transfer::{Choice, Way};
use byteway_wire::nvme::Cqe;
use byteway_wire::nvme::kv::Key;
use byteway_wire::nvme::vendor::kv::{StoreMany, pair_bytes, push, push_room};
use std::cell::RefCell;
use std::rc::Rc;

/// When what was gathered is sent: as soon as one of both is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkLimits {
    /// Pairs.
    pub pairs: u32,
    /// Bytes of the command's payload, at most what the client's buffers hold: pairs with their headers.
    pub bytes: u32,
}

/// A pair that was gathered.
struct Gathered {
    key: Key,
    /// Of its value.
    bytes: u32,
    /// When the caller was told.
    told: Option<Time>,
    /// The same in the oracle.
    write: Option<KvWrite>,
}

impl Gathered {
    /// What it counts in the loss window.
    fn counts(&self) -> u64 {
        self.key.as_bytes().len() as u64 + u64::from(self.bytes)
    }
}

/// Gathers pairs for one namespace. Pairs of one key are stored in the order in which they were put.
pub struct KvBulk {
    client: KvClient,
    limits: BulkLimits,
    buffer: IoBuffer,
    /// The command's payload so far.
    payload: Vec<u8>,
    gathered: Vec<Gathered>,
    window: Rc<RefCell<LossWindow>>,
}

impl KvBulk {
    /// By `client`, whose data pointers its commands have, whatever its rules say of single values. `window` may be shared:
    /// it then counts what all of them would lose together.
    ///
    /// # Errors
    /// No room in host memory.
    pub fn new(
        client: &KvClient,
        limits: BulkLimits,
        window: &Rc<RefCell<LossWindow>>,
    ) -> Result<KvBulk, KvIoError> {
        let buffer = client.buffer()?;
        let bytes = limits.bytes.min(buffer.place().bytes());
        Ok(KvBulk {
            client: client.clone(),
            limits: BulkLimits { pairs: limits.pairs.max(1), bytes },
            buffer,
            payload: Vec::new(),
            gathered: Vec::new(),
            window: window.clone(),
        })
    }

    /// Pairs that are gathered and not sent.
    pub fn len(&self) -> usize {
        self.gathered.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.gathered.is_empty()
    }

    /// Puts a pair. When this returns the caller may take it for put, but it may be in host memory only: the put that reaches
    /// a limit sends, and waits until the drive has everything that was gathered.
    ///
    /// # Errors
    /// The pair is longer than a batch, and nothing has changed. Or a command failed or was lost: of the pairs that it
    /// brought, those that are not on the drive are lost, though they were told.
    pub async fn put(&mut self, key: Key, value: &[u8]) -> Result<SpanRecord, KvIoError> {
        let bytes = u32::try_from(value.len()).unwrap_or(u32::MAX);
        self.add(key, bytes, Some(value)).await
    }

    /// The same with a value of `bytes` that the client's oracle chooses.
    ///
    /// # Errors
    /// As [`KvBulk::put`].
    pub async fn put_pattern(&mut self, key: Key, bytes: u32) -> Result<SpanRecord, KvIoError> {
        self.add(key, bytes, None).await
    }

    /// Sends what is gathered, and waits until the drive has it.
    ///
    /// # Errors
    /// As [`KvBulk::put`].
    pub async fn send(&mut self) -> Result<SpanRecord, KvIoError> {
        let opened = Opened::open(self.client.port());
        let sent = self.send_all(opened.span).await;
        let record = opened.close(self.client.port());
        sent.map(|()| record)
    }

    async fn add(&mut self, key: Key, bytes: u32, value: Option<&[u8]>) -> Result<SpanRecord, KvIoError> {
        let takes = pair_bytes(key.as_bytes().len(), bytes as usize);
        let (takes_too, bytes_max) = (takes as u64, u64::from(self.limits.bytes));
        if takes_too > bytes_max {
            return Err(PlanError::TooLong { bytes: takes_too, bytes_max }.into());
        }
        let opened = Opened::open(self.client.port());
        let added = self.add_within(opened.span, (key, bytes, value), takes).await;
        let record = opened.close(self.client.port());
        added.map(|()| record)
    }

    async fn add_within(
        &mut self,
        span: SpanId,
        (key, bytes, value): (Key, u32, Option<&[u8]>),
        takes: usize,
    ) -> Result<(), KvIoError> {
        if self.payload.len() + takes > self.limits.bytes as usize {
            self.send_all(span).await?;
        }
        let write = match self.client.oracle() {
            Some(oracle) => {
                let mut oracle = oracle.borrow_mut();
                let write = oracle.begin_store(key, bytes);
                oracle.fill(&write, push_room(&mut self.payload, key.as_bytes(), bytes));
                Some(write)
            }
            None => {
                match value {
                    Some(value) => push(&mut self.payload, key.as_bytes(), value),
                    None => drop(push_room(&mut self.payload, key.as_bytes(), bytes)),
                }
                None
            }
        };
        self.gathered.push(Gathered { key, bytes, told: None, write });
        self.charge_copy(span, takes as u64).await;
        if self.gathered.len() >= self.limits.pairs as usize {
            return self.send_all(span).await;
        }
        let now = self.now();
        if let Some(last) = self.gathered.last_mut() {
            last.told = Some(now);
            self.window.borrow_mut().told(now, last.counts());
        }
        Ok(())
    }

    /// The processor copies a pair into the batch: 64 bytes cost what they cost on their way into a queue.
    async fn charge_copy(&self, span: SpanId, bytes: u64) {
        let submission = &self.client.queue().submission;
        let cost = submission.costs.chunk * bytes.div_ceil(64);
        if cost > Delay::ZERO {
            let service = submission.cpu.reserve_for("gather", cost);
            self.client.port().clock().sleep_until(service.end).await;
            self.client.0.carrier.charge(span, service.queued, Stage::Host);
        }
    }

    async fn send_all(&mut self, span: SpanId) -> Result<(), KvIoError> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let completed = self.send_command(span).await;
        self.end(completed)
    }

    async fn send_command(&self, span: SpanId) -> Result<Cqe, KvIoError> {
        let carrier = &self.client.0.carrier;
        let bytes = self.payload.len() as u32;
        carrier.put(&self.buffer, &self.payload)?;
        // While others place values themselves, they must learn that the drive has placed these.
        let owner = carrier.page_owner();
        let other = match &owner {
            Some(owner) => Some(owner.other().await),
            None => None,
        };
        carrier.waited(span);
        let many = StoreMany { pairs: self.gathered.len() as u32, bytes };
        let kind = carrier.result_kind(bytes);
        let sqe = carrier.plan(kind, &self.buffer, bytes)?.placed_in(many.sqe(0, self.client.nsid()));
        let pages = self.buffer.buffer.pages_touched(bytes);
        let sent = carrier.queue.execute(Request { span, pages, ..sqe.into() }).await;
        carrier.note(Choice { way: Way::Pointer(kind), is_fallback: false });
        if let Some(other) = other {
            // Where they are, its completion doesn't say.
            other.complete(sent.and(Err(Lost::Reset)), bytes, false);
        }
        Ok(sent?)
    }

    /// The command that brought everything gathered has ended.
    fn end(&mut self, completed: Result<Cqe, KvIoError>) -> Result<(), KvIoError> {
        let pairs = self.gathered.len();
        let (stored, others, result) = match completed {
            Ok(cqe) if cqe.status().is_success() => (pairs, KvOutcome::Uncertain, Ok(())),
            Ok(cqe) if is_refusal(cqe.status()) => {
                (cqe.dw0 as usize, KvOutcome::Refused, Err(IoError::Status(cqe.status())))
            }
            Ok(cqe) => (0, KvOutcome::Uncertain, Err(IoError::Status(cqe.status()))),
            Err(error) => (0, KvOutcome::Uncertain, Err(error)),
        };
        self.window.borrow_mut().sent(pairs as u64);
        self.empty(stored, others);
        result
    }

    /// Nothing is gathered any more: the first `stored` pairs are on the drive, and of the others so much is known.
    fn empty(&mut self, stored: usize, others: KvOutcome) {
        let now = self.now();
        let mut window = self.window.borrow_mut();
        for (index, pair) in self.gathered.drain(..).enumerate() {
            let is_stored = index < stored;
            let counts = pair.counts();
            match pair.told {
                Some(told) if is_stored => window.landed(now, told, counts),
                Some(_) => window.lost(now, counts),
                None => {}
            }
            if let (Some(oracle), Some(write)) = (self.client.oracle(), pair.write) {
                let outcome = match (is_stored, others) {
                    (true, _) => KvOutcome::Done,
                    (false, others) => others,
                };
                oracle.borrow_mut().end(write, outcome);
            }
        }
        drop(window);
        self.payload.clear();
    }

    fn now(&self) -> Time {
        self.client.port().clock().now()
    }
}

impl Drop for KvBulk {
    /// A client that goes away, as with a crash of the host, takes with it what it has gathered.
    fn drop(&mut self) {
        self.empty(0, KvOutcome::Uncertain);
    }
}
