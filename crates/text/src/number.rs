//! Ratios of integers, rounded identically on every machine.

/// Upper limit of denominators whose remainders, in millionths, fit in 64 bits.
const SHORT_MAX: u64 = u64::MAX / 1_000_001;

/// `numerator` / `denominator`, rounded to six decimals; 0 if the denominator is 0.
pub fn ratio(numerator: u128, denominator: u128) -> f64 {
    // A series has a ratio for each die and interval, and a division of 128 bits is a call: so in 64 bits where they suffice.
    match (u64::try_from(numerator), u64::try_from(denominator)) {
        (_, Ok(0)) => 0.0,
        (Ok(numerator), Ok(denominator)) if denominator <= SHORT_MAX => {
            let millionths = (numerator % denominator * 1_000_000 + denominator / 2) / denominator;
            (numerator / denominator) as f64 + millionths as f64 / 1e6
        }
        _ => long_ratio(numerator, denominator),
    }
}

fn long_ratio(numerator: u128, denominator: u128) -> f64 {
    let whole = numerator / denominator;
    let rest = numerator % denominator;
    // Both parts are integers below 2^53 for all counts of a run, so only this addition rounds.
    let millionths = match rest.checked_mul(1_000_000) {
        Some(scaled) => (scaled + denominator / 2) / denominator,
        None => rest / (denominator / 1_000_000).max(1),
    };
    whole as f64 + millionths as f64 / 1e6
}

/// Converts picoseconds to nanoseconds.
pub fn ns(ps: u64) -> f64 {
    ratio(u128::from(ps), 1000)
}

/// A second, in picoseconds.
const SECOND_PS: u128 = 1_000_000_000_000;

/// `count` divided by `elapsed_ps`, per second; 0 if no time has elapsed.
pub fn per_second(count: u64, elapsed_ps: u64) -> f64 {
    ratio(u128::from(count) * SECOND_PS, u128::from(elapsed_ps))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A run that is interrupted at once divides by zero; NaN cannot be represented in JSON.
    #[test]
    fn a_ratio_is_a_number() {
        assert_eq!(ratio(5, 0), 0.0);
        assert_eq!(ratio(u128::MAX, 3), (u128::MAX / 3) as f64);
        assert_eq!(ratio(2, 3), 0.666667);
    }

    // A figure that depended on the width of the division would change with the length of a run.
    #[test]
    fn both_widths_give_the_same_ratio() {
        let short = u128::from(SHORT_MAX);
        let counts = [1, 2, 3, 7, 1000, 999_983, 1 << 40, short - 1, short];
        for denominator in counts {
            for numerator in [0, 5, 1 << 33, u128::from(u64::MAX)].into_iter().chain(counts) {
                assert_eq!(ratio(numerator, denominator), long_ratio(numerator, denominator));
            }
        }
    }
}
