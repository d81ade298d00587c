//! Quantiles of a time, as they are measured: a distribution without a formula.

use byteway_clock::Delay;

/// Draws are whole numbers below this; so are shares.
const WHOLE: f64 = (1u64 << 32) as f64;
/// Factors are kept in millionths.
const PPM: f64 = 1e6;

/// The inverse of a cumulative distribution of factors, straight between the quantiles that are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// Share of the draws below, of 2^32, and factor in millionths: both from the first quantile, at 0, to the last, at 2^32.
    steps: Box<[(u64, u64)]>,
}

/// Error of making [`Quantiles`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QuantilesError {
    /// There are too few or too many.
    #[error("{0} quantiles are given, 2 to {max} are possible", max = Quantiles::MOST)]
    Count(usize),
    /// They do not begin with the least.
    #[error("the first quantile is that of {0} %, it must be that of 0 %: the least")]
    First(f64),
    /// They do not end with the greatest.
    #[error("the last quantile is that of {0} %, it must be that of 100 %: the greatest")]
    Last(f64),
    /// A share is not above the one before it.
    #[error("the quantile of {1} % follows that of {0} %, shares must ascend")]
    Shares(f64, f64),
    /// A factor is NaN or out of range.
    #[error("the quantile of {0} % is {1}, it must be from {low} to {high}", low = Quantiles::LEAST, high = Quantiles::GREATEST)]
    Factor(f64, f64),
    /// A factor is below the one before it.
    #[error("the quantile of {0} % is {1}, below the one before it")]
    Factors(f64, f64),
}

impl Quantiles {
    /// Maximum number of quantiles.
    pub const MOST: usize = 64;
    /// Least factor.
    pub const LEAST: f64 = 0.001;
    /// Greatest factor.
    pub const GREATEST: f64 = 10_000.0;

    /// Quantiles of these shares, in per cent, from 0 to 100; the factors may not descend.
    ///
    /// # Errors
    /// [`QuantilesError`] for the first that is not possible.
    pub fn new(given: &[(f64, f64)]) -> Result<Quantiles, QuantilesError> {
        let [first, .., last] = given else { return Err(QuantilesError::Count(given.len())) };
        if given.len() > Self::MOST {
            return Err(QuantilesError::Count(given.len()));
        }
        if first.0 != 0.0 {
            return Err(QuantilesError::First(first.0));
        }
        for (percent, factor) in given {
            if !(Self::LEAST..=Self::GREATEST).contains(factor) {
                return Err(QuantilesError::Factor(*percent, *factor));
            }
        }
        let steps: Box<[(u64, u64)]> = given
            .iter()
            .map(|(percent, factor)| {
                (libm::round(percent / 100.0 * WHOLE) as u64, libm::round(factor * PPM) as u64)
            })
            .collect();
        for (pair, kept) in given.windows(2).zip(steps.windows(2)) {
            // Of shares that differ by less than a draw can, one would be without effect.
            if kept[0].0 >= kept[1].0 {
                return Err(QuantilesError::Shares(pair[0].0, pair[1].0));
            }
            if pair[1].1 < pair[0].1 {
                return Err(QuantilesError::Factors(pair[1].0, pair[1].1));
            }
        }
        if last.0 != 100.0 {
            return Err(QuantilesError::Last(last.0));
        }
        Ok(Quantiles { steps })
    }

    /// `time` times the factor of `draw`, of 2^32.
    pub(crate) fn draw(&self, time: Delay, draw: u32) -> Delay {
        let draw = u64::from(draw);
        // The first step is at 0 and the last above any draw, so there is one on both sides.
        let above = self.steps.partition_point(|(share, _)| *share <= draw);
        let ((low, least), (high, most)) = (self.steps[above - 1], self.steps[above]);
        let factor =
            least + (u128::from(most - least) * u128::from(draw - low) / u128::from(high - low)) as u64;
        times(time, factor)
    }

    /// `time` times the greatest factor.
    pub(crate) fn longest(&self, time: Delay) -> Delay {
        times(time, self.steps[self.steps.len() - 1].1)
    }
}

fn times(time: Delay, factor_ppm: u64) -> Delay {
    let ps = u128::from(time.ps()) * u128::from(factor_ppm) / 1_000_000;
    Delay::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    // What is measured must come out again: at each quantile exactly, between two on the straight line.
    #[test]
    fn a_draw_is_the_inverse_of_the_distribution() {
        let given = [(0.0, 0.8), (50.0, 1.0), (99.0, 1.5), (100.0, 4.0)];
        let quantiles = Quantiles::new(&given).unwrap();
        let time = Delay::from_us(100);
        let at = |percent: f64| quantiles.draw(time, (percent / 100.0 * WHOLE) as u32);
        assert_eq!([0.0, 25.0, 50.0].map(at), [80, 90, 100].map(Delay::from_us));
        let near = |found: Delay, us: f64| assert!((found.ps() as f64 / 1e6 - us).abs() < 0.001, "{found}");
        near(at(99.0), 150.0);
        near(at(99.5), 275.0);
        near(quantiles.draw(time, u32::MAX), 400.0);
        assert_eq!(quantiles.longest(time), Delay::from_us(400));
        let all: Vec<Delay> = (0..10_000).map(|draw| quantiles.draw(time, draw * 429_496)).collect();
        assert!(all.is_sorted());
        // A step: a tenth takes twice as long, and none a time between.
        let step = Quantiles::new(&[(0.0, 1.0), (90.0, 1.0), (90.000_001, 2.0), (100.0, 2.0)]).unwrap();
        let slow = (0..10_000u32).filter(|draw| step.draw(time, draw * 429_496) > time).count();
        assert!((999..=1001).contains(&slow), "{slow}");
    }

    // They come from files, where percentages are mistyped: each mistake must be named, none may be mended in silence.
    #[test]
    fn impossible_quantiles_are_named() {
        let message = |given: &[(f64, f64)]| Quantiles::new(given).unwrap_err().to_string();
        assert_eq!(message(&[(0.0, 1.0)]), "1 quantiles are given, 2 to 64 are possible");
        let many: Vec<_> = (0..65).map(|step| (f64::from(step) * 100.0 / 64.0, 1.0)).collect();
        assert_eq!(message(&many), "65 quantiles are given, 2 to 64 are possible");
        assert_eq!(
            message(&[(1.0, 1.0), (100.0, 2.0)]),
            "the first quantile is that of 1 %, it must be that of 0 %: the least"
        );
        assert_eq!(
            message(&[(0.0, 1.0), (99.0, 2.0)]),
            "the last quantile is that of 99 %, it must be that of 100 %: the greatest"
        );
        assert_eq!(
            message(&[(0.0, 1.0), (50.0, 1.0), (50.0, 1.1), (100.0, 2.0)]),
            "the quantile of 50 % follows that of 50 %, shares must ascend"
        );
        assert_eq!(
            message(&[(0.0, 1.0), (f64::NAN, 1.0), (100.0, 2.0)]),
            "the quantile of NaN % follows that of 0 %, shares must ascend"
        );
        assert_eq!(
            message(&[(0.0, 0.0), (100.0, 2.0)]),
            "the quantile of 0 % is 0, it must be from 0.001 to 10000"
        );
        assert_eq!(
            message(&[(0.0, 1.0), (50.0, f64::NAN), (100.0, 2.0)]),
            "the quantile of 50 % is NaN, it must be from 0.001 to 10000"
        );
        assert_eq!(
            message(&[(0.0, 1.0), (50.0, 2.0), (100.0, 1.5)]),
            "the quantile of 100 % is 1.5, below the one before it"
        );
    }
}
