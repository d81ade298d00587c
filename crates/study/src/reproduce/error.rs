//! Why a claim could not be measured.

use byteway_clock::Stalled;
use byteway_console::error::InputError;
use byteway_device::ConfigError;
use byteway_host::{DriverError, IoError, KvIoError};

/// Why a claim could not be measured. A verdict against it is none of these.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// A point of it failed, or was not run.
    #[error("{point}: {why}")]
    Point {
        /// The point's name.
        point: String,
        /// Why.
        why: String,
    },
    /// A point ran and does not say what the claim is about.
    #[error("{0}")]
    NoFigure(String),
    /// A point is no scenario.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The power could not be cut, or the drive could not be asked what it has kept.
    #[error(transparent)]
    Cut(#[from] CutError),
}

/// What measuring a claim, or a part of it, gives.
pub type Measured<T> = Result<T, ClaimError>;

/// Why a power cut says nothing.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    /// The drive's scenario is wrong.
    #[error(transparent)]
    Input(#[from] InputError),
    /// There can be no such drive, or none on what the power cut has left.
    #[error("the drive can't be built")]
    NotBuilt(#[source] ConfigError),
    /// The drive can't be driven.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The drive holds no key-value pairs.
    #[error("the drive has no key-value namespace")]
    NoNamespace,
    /// A value could not be put or retrieved.
    #[error(transparent)]
    Io(#[from] KvIoError),
    /// The power goes too late.
    #[error("all keys are used")]
    TooLate,
    /// The power goes too soon.
    #[error("the power was cut before the first value was put")]
    TooSoon,
    /// The drive has kept what it was never given: a defect.
    #[error("after the power cut value {number} is not the one that was put")]
    WrongValue {
        /// Which value.
        number: u64,
    },
    /// The simulation waits indefinitely: a defect.
    #[error("{0}")]
    Stalled(Stalled),
}

impl From<IoError> for CutError {
    fn from(error: IoError) -> Self {
        CutError::Io(error.into())
    }
}
