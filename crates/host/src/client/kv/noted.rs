//! Guards for operations in flight, which report their end to the oracle.

use super::oracle::{KvRead, KvWrite};
use super::{KvOracle, KvOutcome, StoreIf};
use crate::client::kv::{KvError, KvIoError};
use crate::error::IoError;
use byteway_wire::nvme::Status;
use byteway_wire::nvme::kv::Key;
use std::cell::RefCell;

/// Ends a read in the oracle, even if the read is dropped.
pub(super) struct Reading<'a> {
    pub(super) oracle: &'a RefCell<KvOracle>,
    pub(super) read: KvRead,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.oracle.borrow_mut().end_read(self.read);
    }
}

/// Ends a store or delete in the oracle; as uncertain, if it is dropped.
pub(super) struct Writing<'a> {
    pub(super) oracle: &'a RefCell<KvOracle>,
    /// Set if it looks up its key, too.
    pub(super) reading: Option<Reading<'a>>,
    pub(super) write: Option<KvWrite>,
}

impl Writing<'_> {
    /// Ends the operation with `status`; its precondition was `when`, or for a delete that the key exists.
    pub(super) fn end(
        mut self,
        key: Key,
        when: StoreIf,
        status: Result<Status, ()>,
    ) -> Result<(), KvIoError> {
        let Some(write) = self.write.take() else { return Ok(()) };
        let mut oracle = self.oracle.borrow_mut();
        let (was_there, outcome) = match status {
            Ok(status) if status.is_success() => {
                let was_there = match when {
                    StoreIf::Any => None,
                    StoreIf::Exists => Some(true),
                    StoreIf::Absent => Some(false),
                };
                (was_there, KvOutcome::Done)
            }
            Ok(status) if status.is(Status::KEY_EXISTS) => (Some(true), KvOutcome::Refused),
            Ok(status) if status.is(Status::KEY_DOES_NOT_EXIST) => (Some(false), KvOutcome::Refused),
            Ok(status) if is_refusal(status) => (None, KvOutcome::Refused),
            _ => (None, KvOutcome::Uncertain),
        };
        let verified = match (was_there, &self.reading) {
            (Some(was_there), Some(reading)) => oracle.verify_key(reading.read, key, was_there, Some(&write)),
            _ => Ok(()),
        };
        oracle.end(write, outcome);
        verified.map_err(|error| IoError::Client(KvError::Mismatch(error)))
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if let Some(write) = self.write.take() {
            self.oracle.borrow_mut().end(write, KvOutcome::Uncertain);
        }
    }
}

/// Whether a status means that the command changed nothing.
pub(super) fn is_refusal(status: Status) -> bool {
    let refusals = [
        Status::CAPACITY_EXCEEDED,
        Status::INVALID_VALUE_SIZE,
        Status::INVALID_KEY_SIZE,
        Status::INVALID_FIELD,
        Status::INVALID_OPCODE,
        Status::INVALID_NAMESPACE,
        Status::NAMESPACE_WRITE_PROTECTED,
        Status::FORMAT_IN_PROGRESS,
        Status::DATA_SGL_LENGTH_INVALID,
        Status::SGL_TYPE_INVALID,
        Status::SGL_OFFSET_INVALID,
    ];
    refusals.iter().any(|refusal| status.is(*refusal))
}
