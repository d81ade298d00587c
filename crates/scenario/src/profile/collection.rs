//! Coordination of garbage collection in arrays.

use super::fault::{KeyError, within};
use byteway_text::units::Percent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When the drives of an array collect garbage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Collection {
    /// Each drive when it has to.
    #[default]
    Each,
    /// All at once, in windows: when one drive has to collect garbage, all drives do.
    Together,
}

/// The default size of a window.
pub(crate) fn four_percent() -> Percent {
    Percent(4.0)
}

/// Checks the size of a window.
pub(crate) fn check_window(key: &str, window: Percent) -> Result<(), KeyError> {
    within(key, window, Percent(0.0), Percent(50.0))
}
