//! The mean of a few independent values, and how far it may be from the true one: the 95 % interval by Student's t distribution.

use std::f64::consts::PI;

/// Share of intervals that hold the true mean, where values are independent and about normally distributed.
pub const CONFIDENCE: f64 = 0.95;

/// A mean with its interval, `mean - half_width` to `mean + half_width`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Mean of the values.
    pub mean: f64,
    /// Half the width of the 95 % interval; 0 if all values are the same.
    pub half_width: f64,
}

impl Interval {
    /// The interval of these values; `None` for fewer than two, which say nothing about their spread. `t` is that of
    /// [`t_quantile`] for one degree of freedom fewer than there are values.
    pub fn of(values: &[f64], t: f64) -> Option<Interval> {
        let (&first, rest) = values.split_first()?;
        if rest.is_empty() {
            return None;
        }
        let count = values.len() as f64;
        // From the first on, so that equal values have exactly their mean, and no width by rounding.
        let mean = first + rest.iter().map(|value| value - first).sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let half_width = t * libm::sqrt(squares / (count - 1.0) / count);
        Some(Interval { mean, half_width })
    }
}

/// The two-sided 95 % quantile of Student's t distribution: |T| is less with a probability of [`CONFIDENCE`].
///
/// # Panics
/// Without a degree of freedom.
pub fn t_quantile(degrees: usize) -> f64 {
    assert!(degrees > 0, "an interval needs two values");
    // 12.7 with one degree of freedom, 1.96 with very many.
    let (mut low, mut high) = (1.9, 13.0);
    for _ in 0..52 {
        let middle = 0.5 * (low + high);
        match within(middle, degrees) < CONFIDENCE {
            true => low = middle,
            false => high = middle,
        }
    }
    0.5 * (low + high)
}

/// Probability that |T| is less than `t`: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
fn within(t: f64, degrees: usize) -> f64 {
    let angle = libm::atan(t / libm::sqrt(degrees as f64));
    let (sin, cos) = (libm::sin(angle), libm::cos(angle));
    let is_odd = degrees % 2 == 1;
    // cos, 2/3 cos^3, 2/3 4/5 cos^5, ... to cos^(degrees - 2), or 1, 1/2 cos^2, 1/2 3/4 cos^4, ...
    let mut term = if is_odd { cos } else { 1.0 };
    let mut sum = 0.0;
    for power in (usize::from(is_odd)..degrees.saturating_sub(1)).step_by(2) {
        sum += term;
        term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
    }
    match is_odd {
        true => 2.0 / PI * (angle + sin * sum),
        false => sin * sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // With those of the normal distribution an interval of three runs would be less than half as wide as it is, and chance a finding.
    #[test]
    fn quantiles_are_those_of_published_tables() {
        for (degrees, published) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (6, 2.447),
            (9, 2.262),
            (10, 2.228),
            (19, 2.093),
            (20, 2.086),
            (29, 2.045),
            (30, 2.042),
            (60, 2.000),
            (120, 1.980),
            (999, 1.962),
        ] {
            let found = t_quantile(degrees);
            assert!((found - published).abs() <= 0.000_501, "{degrees}: {found}, published {published}");
        }
    }

    // Five values of a textbook's kind: 10 +- 2.776 sqrt(2.5 / 5).
    #[test]
    fn an_interval_is_that_of_its_values() {
        let of = |values: &[f64]| Interval::of(values, t_quantile(values.len() - 1));
        let found = of(&[8.0, 9.0, 10.0, 11.0, 12.0]).unwrap();
        assert_eq!(found.mean, 10.0);
        assert!((found.half_width - 1.963_2).abs() < 1e-4, "{found:?}");
        // Figures that the seed does not affect, such as bytes of a method, are exact, and must not look uncertain.
        let same = of(&[0.1; 7]).unwrap();
        assert_eq!((same.mean, same.half_width), (0.1, 0.0));
        assert_eq!(Interval::of(&[1.0], 12.7), None);
    }
}
