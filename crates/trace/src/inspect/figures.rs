//! Rounding and limits of the figures of an inspection.

use crate::record::Kind;

/// The kinds, in the order of the results.
pub(super) const KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Trim];

/// Saturates byte counts of hostile traces, which may exceed the integers of JSON readers; real traces never
/// do.
pub(super) fn saturated(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Rounds to six decimals, so that a result shows no more digits than an estimate has.
pub(super) fn six_decimals(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
