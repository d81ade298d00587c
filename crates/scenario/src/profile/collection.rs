//! When drives that are one collect.

use super::fault::{Fault, within};
use byteway_console::units::Percent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When drives that are one collect garbage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Collection {
    /// Each when it must.
    #[default]
    Each,
    /// All at once, in windows: one that must collect has all of them do so.
    Together,
}

/// The default of a window.
pub(crate) fn four_percent() -> Percent {
    Percent(4.0)
}

/// Whether a window can be so large.
pub(crate) fn check_window(key: &str, window: Percent) -> Result<(), Fault> {
    within(key, window, Percent(0.0), Percent(50.0))
}
