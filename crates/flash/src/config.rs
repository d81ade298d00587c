//! Configuration of an array besides its geometry and contents.

use crate::fault::{FaultError, FaultPlan};
use crate::reliability::{Reliability, ReliabilityError};
use crate::timing::{Timing, TimingError};
use byteway_clock::random::Rng;

/// Configuration of an array. A [`Timing`] alone is an array in which nothing fails.
#[derive(Clone, Debug)]
pub struct FlashConfig {
    /// Operation times.
    pub timing: Timing,
    /// Error model of the cells; None for no errors.
    pub reliability: Option<Reliability>,
    /// Injected faults.
    pub faults: FaultPlan,
    /// Source of the random streams `die-N/errors`, `die-N/faults`, `sense`, `schedule` and `suspend`. Give each drive its own.
    pub rng: Rng,
}

/// Error of validating a [`FlashConfig`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FlashError {
    /// The timing is invalid.
    #[error("flash timing: {0}")]
    Timing(#[from] TimingError),
    /// The error model is invalid.
    #[error("flash {0}")]
    Reliability(#[from] ReliabilityError),
    /// The fault plan is invalid.
    #[error("flash faults: {0}")]
    Faults(#[from] FaultError),
}

impl FlashConfig {
    /// Checks all parts. Their numbers may come from a file.
    ///
    /// # Errors
    /// [`FlashError`] for the first part that is invalid.
    pub fn validate(&self) -> Result<(), FlashError> {
        self.timing.validate()?;
        self.faults.validate()?;
        self.reliability.iter().try_for_each(Reliability::validate)?;
        Ok(())
    }
}

impl From<Timing> for FlashConfig {
    fn from(timing: Timing) -> Self {
        FlashConfig { timing, reliability: None, faults: FaultPlan::default(), rng: Rng::new(0) }
    }
}
