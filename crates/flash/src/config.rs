//! What an array is like, beside its shape and what it holds.

use crate::fault::{FaultError, FaultPlan};
use crate::reliability::{Reliability, ReliabilityError};
use crate::timing::{Timing, TimingError};
use byteway_clock::random::Rng;

/// What an array is like. A [`Timing`] alone is one that nothing goes wrong in.
#[derive(Clone, Debug)]
pub struct FlashConfig {
    /// Its times.
    pub timing: Timing,
    /// What goes wrong in its cells; absent, nothing.
    pub reliability: Option<Reliability>,
    /// What fails because it is told to.
    pub faults: FaultPlan,
    /// Where chance comes from: the streams `die-N/errors` and `die-N/faults`. To be another one for each drive.
    pub rng: Rng,
}

/// What is wrong with a [`FlashConfig`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FlashError {
    /// Its times.
    #[error("flash timing: {0}")]
    Timing(#[from] TimingError),
    /// Its error model.
    #[error("flash {0}")]
    Reliability(#[from] ReliabilityError),
    /// Its faults.
    #[error("flash faults: {0}")]
    Faults(#[from] FaultError),
}

impl FlashConfig {
    /// Whether an array can be so, and if not, what is wrong. The numbers may come from a file.
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
