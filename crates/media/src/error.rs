//! Errors of an inspection.

use byteway_clock::Stalled;
use byteway_firmware::MediumError;
use byteway_flash::file::OpenError;
use byteway_text::error::InputError;
use std::path::PathBuf;

/// Why a data directory could not be inspected, or its map not compared. Damage found is not an error.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The path is not a data directory, or another process uses it.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The content is not a drive, or unreadable.
    #[error("{path}")]
    Unreadable {
        /// Path of the directory.
        path: PathBuf,
        /// Cause.
        source: OpenError,
    },
    /// The directory has less than the capacity of its drive.
    #[error("{path}: no capacity")]
    NoCapacity {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The configuration is not supported.
    #[error("{path}")]
    NoDrive {
        /// Path of the directory.
        path: PathBuf,
        /// Cause.
        source: MediumError,
    },
    /// The recovery of the map is deadlocked: a defect.
    #[error("{path}: the recovery of the map made no progress; this is a defect of Byteway")]
    Stalled {
        /// Path of the directory.
        path: PathBuf,
        /// The waiting tasks.
        source: Stalled,
    },
}

impl MediaError {
    /// The invalid input, if that is the cause.
    pub fn wrong_input(&self) -> Option<&InputError> {
        if let MediaError::Input(error) = self { Some(error) } else { None }
    }
}
