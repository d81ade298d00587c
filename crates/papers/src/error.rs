//! Why a claim could not be measured.

use byteway_clock::Stalled;
use byteway_device::ConfigError;
use byteway_host::{DriverError, IoError, KvIoError};
use byteway_text::error::InputError;

/// Why a claim could not be measured. A negative verdict is not an error.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// A point of the claim failed, or was not run.
    #[error("{point}: {why}")]
    Point {
        /// Name of the point.
        point: String,
        /// The reason.
        why: String,
    },
    /// A point ran, but lacks the figure that the claim is about.
    #[error("{0}")]
    NoFigure(String),
    /// A point is not a valid scenario.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The power cut failed, or the drive could not be read afterwards.
    #[error(transparent)]
    Cut(#[from] CutError),
}

/// Result of measuring a claim or a part of it.
pub type Measured<T> = Result<T, ClaimError>;

/// Why a power cut has no result.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    /// The drive's scenario is invalid.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The drive cannot be built, initially or from its medium after the cut.
    #[error("the drive cannot be built")]
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
    /// The power was cut too late.
    #[error("all keys are used")]
    TooLate,
    /// The power was cut too early.
    #[error("the power was cut before the first value was stored")]
    TooSoon,
    /// The drive returned a value that was never put: a defect.
    #[error("after the power cut value {number} differs from the stored one")]
    WrongValue {
        /// Number of the value.
        number: u64,
    },
    /// The simulation stalled: a defect.
    #[error("{0}")]
    Stalled(Stalled),
}

impl From<IoError> for CutError {
    fn from(error: IoError) -> Self {
        CutError::Io(error.into())
    }
}
