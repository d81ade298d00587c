//! Ratios of integers, rounded in one way on every machine.

/// `numerator` / `denominator`, to six decimals; 0 if there is nothing to divide by.
pub fn ratio(numerator: u128, denominator: u128) -> f64 {
    if denominator == 0 {
        return 0.0;
    }
    let whole = numerator / denominator;
    let rest = numerator % denominator;
    // Both parts are integers below 2^53 for all that a run can count, so the only rounding is this addition's.
    let millionths = match rest.checked_mul(1_000_000) {
        Some(scaled) => (scaled + denominator / 2) / denominator,
        None => rest / (denominator / 1_000_000).max(1),
    };
    whole as f64 + millionths as f64 / 1e6
}

/// Picoseconds in nanoseconds.
pub fn ns(ps: u64) -> f64 {
    ratio(u128::from(ps), 1000)
}

/// A second, in picoseconds.
const SECOND_PS: u128 = 1_000_000_000_000;

/// So many in so many picoseconds, by the second.
pub fn per_second(count: u64, elapsed_ps: u64) -> f64 {
    ratio(u128::from(count) * SECOND_PS, u128::from(elapsed_ps))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Nothing to divide by is a run that was interrupted at once; it must not become NaN, which JSON cannot hold.
    #[test]
    fn a_ratio_is_a_number() {
        assert_eq!(ratio(5, 0), 0.0);
        assert_eq!(ratio(u128::MAX, 3), (u128::MAX / 3) as f64);
        assert_eq!(ratio(2, 3), 0.666667);
    }
}
