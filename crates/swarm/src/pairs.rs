//! Operations on key-value pairs.

use super::drive::ITERATOR_TIMEOUT;
use super::failure::{Failure, Kind};
use super::life::{Life, OP_BYTES_MAX};
use super::plan::{Op, StoreWhen};
use byteway_clock::Time;
use byteway_host::{IoBuffer, IoError, KvClient, KvError, KvIoError, Lost, StoreIf};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::kv::Key;

/// Buffer of a list, and of a part of a scan, in bytes: small, so that several are needed.
const PART_BYTES: u32 = 1024;
/// Upper limit of the parts of a scan.
const SCAN_PARTS_MAX: u32 = 4;

/// The key with this number. Keys differ in length, and their order is not that of their numbers.
pub(super) fn key(number: u32) -> Key {
    let scattered = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&scattered);
    bytes[8..].copy_from_slice(&scattered);
    Key::new(&bytes[..1 + number as usize % 16]).expect("a key has 1 to 16 bytes")
}

/// Performs an operation on a KV namespace.
pub(super) async fn perform(client: &KvClient, buffer: &mut IoBuffer, op: &Op) -> Result<(), KvIoError> {
    let looked = match op {
        Op::Store { key: number, bytes, when, .. } => {
            let when = match when {
                StoreWhen::Always => StoreIf::Any,
                StoreWhen::Exists => StoreIf::Exists,
                StoreWhen::Absent => StoreIf::Absent,
            };
            client.store(buffer, key(*number), *bytes, when).await.map(drop)
        }
        Op::Retrieve { key: number, .. } => {
            client.retrieve(buffer, key(*number), 0, OP_BYTES_MAX).await.map(drop)
        }
        Op::Remove { key: number, .. } => client.delete(key(*number)).await.map(drop),
        Op::Exist { key: number, .. } => client.exist(key(*number)).await.map(drop),
        Op::List { key: number, .. } => {
            client.list(buffer, Some(key(*number)), PART_BYTES, &mut Vec::new()).await.map(drop)
        }
        Op::Scan { key: number, .. } => scan(client, buffer, key(*number)).await,
        Op::Flush { .. } => client.flush().await.map(drop),
        _ => Ok(()),
    };
    match looked {
        // The oracle has accepted this status.
        Err(IoError::Status(status)) if is_answer(status) => Ok(()),
        looked => looked,
    }
}

fn is_answer(status: Status) -> bool {
    status.is(Status::KEY_EXISTS) || status.is(Status::KEY_DOES_NOT_EXIST)
}

/// Iterates over some key-value pairs and closes the iterator. The drive may have closed it first, by its
/// timeout, if the next command waited too long for a free slot in the queue.
async fn scan(client: &KvClient, buffer: &mut IoBuffer, first: Key) -> Result<(), KvIoError> {
    let clock = client.queue().port().clock();
    let may_be_gone = |error: &KvIoError, used: Time| {
        matches!(error, IoError::Status(status) if status.is(Status::INVALID_FIELD))
            && clock.now().since(used) > ITERATOR_TIMEOUT
    };
    let mut cursor = client.seek(Some(first)).await?;
    let (mut bytes, mut used) = (PART_BYTES, clock.now());
    for _ in 0..SCAN_PARTS_MAX {
        match cursor.next(buffer, bytes, |_, _| ()).await {
            Ok(true) => bytes = PART_BYTES,
            Ok(false) => break,
            Err(IoError::Client(KvError::TooSmall { bytes: needed })) if needed <= OP_BYTES_MAX => {
                bytes = needed
            }
            Err(error) if may_be_gone(&error, used) => return Ok(()),
            Err(error) => return Err(error),
        }
        used = clock.now();
    }
    match cursor.close().await {
        Err(error) if may_be_gone(&error, used) => Ok(()),
        closed => closed,
    }
}

impl Life {
    /// Lists all keys, and retrieves the value of each key that the plan names.
    pub(super) async fn look_at_pairs(
        &self,
        client: &KvClient,
        buffer: &mut IoBuffer,
    ) -> Result<(), Failure> {
        let nsid = client.nsid();
        let (mut keys, mut first) = (Vec::new(), None);
        loop {
            keys.clear();
            let before = first;
            match client.list(buffer, first, OP_BYTES_MAX, &mut keys).await {
                Ok(true) => break,
                Ok(false) => first = keys.last().copied(),
                Err(error) => {
                    self.judge(None, &Op::List { namespace: nsid, key: 0 }, error)?;
                    break;
                }
            }
            if first == before {
                return Err(Failure::new(Kind::Data, "a list is incomplete but has no further key"));
            }
        }
        for number in 0..self.run.keys {
            if let Err(error) = client.retrieve(buffer, key(number), 0, OP_BYTES_MAX).await
                && !matches!(&error, IoError::Status(status) if is_answer(*status))
            {
                self.judge(None, &Op::Retrieve { namespace: nsid, key: number }, error)?;
            }
        }
        Ok(())
    }

    /// Deletes all key-value pairs, after which the longest value must fit, no matter how full the store was
    /// and what happened.
    pub(super) async fn empty_pairs(&self, client: &KvClient, buffer: &mut IoBuffer) -> Result<(), Failure> {
        self.clock.timer(ITERATOR_TIMEOUT + ITERATOR_TIMEOUT).await; // iterators without a host have expired
        let bytes = self.run.plan.drive.kv.value_bytes_max;
        let deletions = (0..self.run.keys).map(Some);
        for number in deletions.chain([None]) {
            loop {
                let done = match number {
                    Some(number) => client.delete(key(number)).await.map(drop),
                    None => client.store(buffer, key(0), bytes, StoreIf::Any).await.map(drop),
                };
                match done {
                    Ok(()) => break,
                    // A reset or abort that started before the end.
                    Err(IoError::Lost(Lost::Reset)) => {}
                    Err(IoError::Status(status)) if status.is(Status::ABORT_REQUESTED) => {}
                    Err(IoError::Status(status))
                        if status.is(Status::NAMESPACE_WRITE_PROTECTED) && self.is_read_only()
                            || status.is(Status::UNRECOVERED_ERROR) && self.run.reads_fail.get() =>
                    {
                        return Ok(());
                    }
                    Err(error) => {
                        let what = if number.is_some() { "deleting" } else { "storing again after deleting" };
                        return Err(Failure::new(Kind::Error, format!("{what} all pairs: {error}")));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether iterators may be open.
    pub(super) fn has_scans(&self) -> bool {
        self.run.plan.ops.iter().any(|op| matches!(op, Op::Scan { .. }))
    }

    /// Whether the store may be too full for another `bytes`. Iterators, and abandoned reads, retain the pairs that they show.
    pub(super) fn may_be_full(&self, client: &KvClient, bytes: u32) -> bool {
        let whole = self.whole();
        let (Some(oracle), Some(pairs)) = (client.oracle(), whole.drive.controller.pairs(client.nsid()))
        else {
            return false;
        };
        let held = oracle.borrow().bytes_max(4096) + u64::from(bytes.next_multiple_of(4096));
        self.has_scans() || self.run.reads_fail.get() || held >= pairs.usage().capacity_bytes / 4
    }
}
