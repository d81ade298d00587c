//! Why constants could not be fitted.

use byteway_text::error::InputError;

/// Why constants could not be fitted.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The measurements, the base or a key is invalid.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A run failed.
    #[error("the run of point `{point}` failed: {why}")]
    Run {
        /// Name of the point.
        point: String,
        /// The reason.
        why: String,
    },
    /// Interrupted before there was any result.
    #[error("interrupted before the search began: there is no result")]
    Interrupted,
}

impl FitError {
    /// The invalid input, if that is the reason.
    pub fn wrong_input(&self) -> Option<&InputError> {
        if let FitError::Input(error) = self { Some(error) } else { None }
    }

    /// Whether it was interrupted.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, FitError::Interrupted)
    }
}
