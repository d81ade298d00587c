//! How figures of an inspection are given.

use crate::record::Kind;

/// In the order in which they are given.
pub(super) const KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Trim];

/// Byte counts of a hostile trace may exceed what JSON's readers take as a whole number; none of a real one does.
pub(super) fn saturated(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Rounded, so that a result shows what an estimate is worth.
pub(super) fn six_decimals(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
