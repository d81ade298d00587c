//! The precondition of a store, and why an I/O of a key-value client failed.

use super::oracle::KvMismatch;
use crate::error::{ClientError, ClientErrorKind, IoError};

/// Precondition of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreIf {
    /// None.
    #[default]
    Any,
    /// The key exists.
    Exists,
    /// The key does not exist.
    Absent,
}

/// Errors specific to key-value pairs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// The contents of a key are wrong.
    #[error(transparent)]
    Mismatch(Box<KvMismatch>),
    /// The buffer is too small for a key-value pair.
    #[error("the buffer is too small for the next pair of {bytes} bytes")]
    TooSmall {
        /// Length of the key-value pair, in bytes.
        bytes: u32,
    },
}

impl ClientError for KvError {
    fn kind(&self) -> ClientErrorKind {
        match self {
            KvError::Mismatch(_) => ClientErrorKind::WrongData,
            KvError::TooSmall { .. } => ClientErrorKind::Refused,
        }
    }
}

/// Why an I/O of such a client failed.
pub type KvIoError = IoError<KvError>;

impl From<IoError> for KvIoError {
    fn from(error: IoError) -> Self {
        error.of_client()
    }
}
