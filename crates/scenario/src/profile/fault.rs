//! Invalid values of a file, by key.

use byteway_text::units::{Bytes, Picos};

/// Unit of the flash translation layer: 4 KiB.
pub const MAP_UNIT_BYTES: u64 = 4096;

/// An invalid value, with its key.
pub struct KeyError {
    /// The key.
    pub path: String,
    /// The mistake.
    pub what: String,
    /// Correction to suggest.
    pub help: String,
}

/// The error of an invalid value.
pub(crate) fn fault(path: impl Into<String>, what: impl Into<String>, help: impl Into<String>) -> KeyError {
    KeyError { path: path.into(), what: what.into(), help: help.into() }
}

pub(crate) fn within<T: PartialOrd + std::fmt::Display>(
    path: &str,
    value: T,
    low: T,
    high: T,
) -> Result<(), KeyError> {
    if value >= low && value <= high {
        return Ok(());
    }
    Err(fault(
        path,
        format!("`{path}` = {value} is out of range"),
        format!("choose a value from {low} to {high}"),
    ))
}

pub(super) fn power_of_two(path: &str, value: Bytes, low: u64, high: u64) -> Result<(), KeyError> {
    if value.0.is_power_of_two() && (low..=high).contains(&value.0) {
        return Ok(());
    }
    Err(fault(
        path,
        format!("`{path}` = {value} is not possible"),
        format!("choose a power of two from {} to {}", Bytes(low), Bytes(high)),
    ))
}

pub(super) fn one_of(path: &str, value: u32, choices: &[u32]) -> Result<(), KeyError> {
    if choices.contains(&value) {
        return Ok(());
    }
    let list = choices.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    Err(fault(path, format!("`{path}` = {value} is not possible"), format!("choose one of {list}")))
}

pub(super) const MILLISECOND: Picos = Picos(1_000_000_000);

pub(super) const SECOND: Picos = Picos(1_000_000_000_000);
