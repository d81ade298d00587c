//! The error model of the cells: raw bit errors that grow with wear, retention and reads, retries that read
//! past them, and program and erase failures of worn cells.
//!
//! The raw bit error rate of a page has a closed form. With `w` the program/erase cycles of its superblock
//! over the endurance:
//!
//! ```text
//! rate = pages[type] * ( fresh + wear * w^wear_exponent
//!                      + (0.1 + 0.9 w) * ( retention * (years)^retention_exponent
//!                                        + disturb * reads / 100000 ) )
//! ```
//!
//! - **Wear**: traps in the tunnel oxide widen the charge distributions of the cells; published measurements
//!   of parts of several makers fit a power of the cycle count somewhat above one.
//! - **Retention**: charge leaks through those traps, so faster on worn cells (a fresh superblock has a tenth
//!   of the rate of one at its endurance), and ever more slowly, since loosely held charge leaves first.
//! - **Read disturb**: each sensing of a page stresses the others of its block slightly; the effect is linear
//!   in their number.
//! - **Page type**: a page that is distinguished by more of the cell's thresholds has as many more chances of
//!   error.
//!
//! The units of a page differ: each read draws, for each unit, a log-normal factor with mean one and the
//! given [`spread`](Reliability::spread). A unit with more bit errors than
//! [`correctable`](Reliability::correctable) is read again at shifted thresholds; each step leaves
//! [`retry_factor`](Reliability::retry_factor) of the rate.
//!
//! The constants of the four kinds of cells are our own, of the published order for each kind; they describe
//! no particular part. They are anchored at the end of life: at the endurance, after a year without power and
//! 100,000 reads, the worst page type comes close to the correctable limit, as parts are rated (JEDEC JESD218
//! asks a client drive for a year's retention at the end of its life), and some reads need a retry. A fresh
//! part practically never retries.

use crate::timing::Mode;
use byteway_clock::random::{Normal, Stream};

/// Bits of a unit of 4 KiB.
const UNIT_BITS: f64 = 32768.0;
/// Seconds of a Julian year.
const YEAR_SECONDS: f64 = 365.25 * 86400.0;
/// Reads to which [`CellErrors::disturb`] refers.
const DISTURB_READS: f64 = 100_000.0;
/// Retention and disturb rates of a fresh superblock, as a fraction of those at the endurance.
const FRESH_SHARE: f64 = 0.1;
/// Upper bound of a draw's distance from the mean, in standard deviations.
const DRAW_MAX: f64 = 8.7;

/// Error rate parameters of a kind of cells. Rates are fractions of wrong bits.
#[derive(Clone, Debug, PartialEq)]
pub struct CellErrors {
    /// Rated program/erase cycles of a superblock.
    pub endurance: u32,
    /// Rate of a freshly programmed page on new cells.
    pub fresh: f64,
    /// Rate added by wear at the endurance.
    pub wear: f64,
    /// Exponent of the cycle count.
    pub wear_exponent: f64,
    /// Rate added by a year of retention, on cells at their endurance.
    pub retention: f64,
    /// Exponent of time.
    pub retention_exponent: f64,
    /// Rate added by 100,000 reads of the superblock since its erase, on cells at their endurance.
    pub disturb: f64,
    /// Relative rate of each page type, 1 on average; page p is of type p modulo their number.
    pub pages: Vec<f64>,
}

/// Error model of an array. Without one nothing fails, and nothing is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Reliability {
    /// Cells in full mode, with one bit per page type.
    pub cells: CellErrors,
    /// Cells in one-bit mode.
    pub one_bit: CellErrors,
    /// Maximum bit errors of a 4 KiB unit that the code corrects.
    pub correctable: u32,
    /// Standard deviation of the logarithm of a unit's rate relative to its page's.
    pub spread: f64,
    /// Maximum retries of a read: sensings at shifted thresholds after the first.
    pub retry_steps: u32,
    /// Fraction of the rate that each retry leaves.
    pub retry_factor: f64,
    /// Probability that a program fails at twice the endurance. It is zero up to the endurance, and from
    /// there grows with the square of the further cycles.
    pub program_failures: f64,
    /// The same for an erase.
    pub erase_failures: f64,
}

/// Error of validating a [`Reliability`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReliabilityError {
    /// A number is NaN or out of range.
    #[error("reliability.{name} is {value}, it must be from {low} to {high}")]
    Range {
        /// Name of the field.
        name: &'static str,
        /// The rejected value.
        value: f64,
        /// Smallest valid value.
        low: f64,
        /// Largest valid value.
        high: f64,
    },
    /// The endurance is zero.
    #[error("reliability.{0} is 0, it must be at least 1")]
    Zero(&'static str),
    /// The list of page types is empty.
    #[error("reliability.{0} has no share, it needs one for each page type")]
    NoPageType(&'static str),
}

impl CellErrors {
    /// One bit per cell: the gap between the two states tolerates most of the wear.
    fn one_bit() -> Self {
        CellErrors {
            endurance: 60_000,
            fresh: 1e-6,
            wear: 5e-5,
            wear_exponent: 1.3,
            retention: 1e-4,
            retention_exponent: 0.4,
            disturb: 2e-5,
            pages: vec![1.0],
        }
    }

    fn errors(&self, page: u32, erases: f64, years: f64, reads: u32) -> f64 {
        let wear = erases / f64::from(self.endurance);
        let share = FRESH_SHARE + (1.0 - FRESH_SHARE) * wear;
        let retention = if years > 0.0 { libm::pow(years, self.retention_exponent) } else { 0.0 };
        let disturb = f64::from(reads) / DISTURB_READS;
        let rate = self.fresh
            + self.wear * libm::pow(wear, self.wear_exponent)
            + share * (self.retention * retention + self.disturb * disturb);
        let page = self.pages[page as usize % self.pages.len()];
        // At half of the bits wrong there is no information left; more is impossible.
        (page * rate).min(0.5)
    }

    fn validate(&self, names: &[&'static str; 8]) -> Result<(), ReliabilityError> {
        let [endurance, fresh, wear, wear_exponent, retention, retention_exponent, disturb, pages] = *names;
        if self.endurance == 0 {
            return Err(ReliabilityError::Zero(endurance));
        }
        if self.pages.is_empty() {
            return Err(ReliabilityError::NoPageType(pages));
        }
        within(fresh, self.fresh, 0.0, 0.5)?;
        within(wear, self.wear, 0.0, 0.5)?;
        within(wear_exponent, self.wear_exponent, 0.1, 10.0)?;
        within(retention, self.retention, 0.0, 0.5)?;
        within(retention_exponent, self.retention_exponent, 0.1, 10.0)?;
        within(disturb, self.disturb, 0.0, 0.5)?;
        self.pages.iter().try_for_each(|page| within(pages, *page, 0.0, 100.0))
    }
}

impl Reliability {
    /// Maximum retries of a read: more would block a die for too long.
    pub const RETRY_STEPS_MAX: u32 = 64;

    /// Single-level cells: one bit in every superblock.
    pub fn slc() -> Self {
        let cells = CellErrors::one_bit();
        Reliability { cells, correctable: 160, ..Self::tlc() }
    }

    /// Two-bit cells, whose pages are distinguished by one and by two of three thresholds. Corrected by a
    /// code for 40 bits in 1 KiB, as was usual.
    pub fn mlc() -> Self {
        let cells = CellErrors {
            endurance: 5000,
            fresh: 5e-5,
            wear: 8e-4,
            retention: 1.6e-3,
            disturb: 4e-4,
            pages: thresholds(&[1, 2]),
            ..CellErrors::one_bit()
        };
        Reliability { cells, correctable: 160, ..Self::tlc() }
    }

    /// Three-bit cells, whose pages are distinguished by two, three and two of seven thresholds. Corrected by
    /// a low-density parity-check code with hard decisions.
    pub fn tlc() -> Self {
        let cells = CellErrors {
            endurance: 3000,
            fresh: 3e-4,
            wear: 1.5e-3,
            retention: 2.5e-3,
            disturb: 1e-3,
            pages: thresholds(&[2, 3, 2]),
            ..CellErrors::one_bit()
        };
        Reliability {
            cells,
            one_bit: CellErrors::one_bit(),
            correctable: 240,
            spread: 0.15,
            retry_steps: 6,
            retry_factor: 0.75,
            program_failures: 1e-3,
            erase_failures: 1e-2,
        }
    }

    /// Four-bit cells, whose pages are distinguished by four, four, four and three of fifteen thresholds.
    pub fn qlc() -> Self {
        let cells = CellErrors {
            endurance: 1000,
            fresh: 8e-4,
            wear: 1.6e-3,
            retention: 3e-3,
            disturb: 8e-4,
            pages: thresholds(&[4, 4, 4, 3]),
            ..CellErrors::one_bit()
        };
        Reliability { cells, ..Self::tlc() }
    }

    /// Checks all numbers, which may come from a file.
    ///
    /// # Errors
    /// [`ReliabilityError`] for the first number that is out of range.
    pub fn validate(&self) -> Result<(), ReliabilityError> {
        self.cells.validate(&[
            "endurance",
            "fresh",
            "wear",
            "wear_exponent",
            "retention",
            "retention_exponent",
            "disturb",
            "pages",
        ])?;
        self.one_bit.validate(&[
            "one_bit.endurance",
            "one_bit.fresh",
            "one_bit.wear",
            "one_bit.wear_exponent",
            "one_bit.retention",
            "one_bit.retention_exponent",
            "one_bit.disturb",
            "one_bit.pages",
        ])?;
        within("correctable", self.correctable.into(), 0.0, UNIT_BITS)?;
        within("spread", self.spread, 0.0, 2.0)?;
        within("retry_steps", self.retry_steps.into(), 0.0, Self::RETRY_STEPS_MAX.into())?;
        within("retry_factor", self.retry_factor, 0.0, 1.0)?;
        within("program_failures", self.program_failures, 0.0, 1.0)?;
        within("erase_failures", self.erase_failures, 0.0, 1.0)
    }

    /// Raw bit error rate of a read of stripe `page` at the default thresholds: of a superblock in this mode
    /// after `erases` cycles, programmed `age_s` seconds ago, and read `reads` times since its erase.
    pub fn error_rate(&self, mode: Mode, page: u32, erases: u32, age_s: f64, reads: u32) -> f64 {
        self.of(mode).errors(page, f64::from(erases), age_s / YEAR_SECONDS, reads)
    }

    /// Probability that a program fails, after `erases` cycles.
    pub fn program_failure(&self, mode: Mode, erases: u32) -> f64 {
        self.beyond(mode, erases, self.program_failures)
    }

    /// Probability that an erase fails, after `erases` cycles.
    pub fn erase_failure(&self, mode: Mode, erases: u32) -> f64 {
        self.beyond(mode, erases, self.erase_failures)
    }

    fn beyond(&self, mode: Mode, erases: u32, at_twice: f64) -> f64 {
        let endurance = f64::from(self.of(mode).endurance);
        let beyond = f64::from(erases) - endurance;
        if beyond <= 0.0 {
            return 0.0;
        }
        (at_twice * (beyond / endurance) * (beyond / endurance)).min(1.0)
    }

    fn of(&self, mode: Mode) -> &CellErrors {
        match mode {
            Mode::Full => &self.cells,
            Mode::OneBit => &self.one_bit,
        }
    }

    /// Draws for one unit of a read at `rate` the retries that it needs; None if no retry corrects it. Draws
    /// nothing where no draw could matter.
    pub(crate) fn draw(&self, rate: f64, stream: &mut Stream) -> Option<u32> {
        let expected = rate * UNIT_BITS;
        let limit = f64::from(self.correctable);
        if expected * libm::exp(self.spread * DRAW_MAX) <= limit {
            return Some(0);
        }
        // A log-normal factor has a mean of one if the normal's is half of its variance below zero.
        let normal = Normal::new(-0.5 * self.spread * self.spread, self.spread)
            .expect("the spread is validated where it is read");
        let mut errors = expected * libm::exp(normal.sample(stream));
        for step in 0..=self.retry_steps {
            if errors <= limit {
                return Some(step);
            }
            errors *= self.retry_factor;
        }
        None
    }
}

/// Relative rates of page types with these numbers of thresholds.
fn thresholds(counts: &[u32]) -> Vec<f64> {
    let mean = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    counts.iter().map(|count| f64::from(*count) / mean).collect()
}

fn within(name: &'static str, value: f64, low: f64, high: f64) -> Result<(), ReliabilityError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(ReliabilityError::Range { name, value, low, high })
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::Rng;

    const YEAR: f64 = YEAR_SECONDS;

    // The model is these numbers; a slip in a term would shift every retry rate that a report shows.
    #[test]
    fn the_rate_is_the_sum_that_is_documented() {
        let tlc = Reliability::tlc();
        let close = |rate: f64, expected: f64| {
            assert!((rate / expected - 1.0).abs() < 1e-12, "{rate} is not {expected}");
        };
        // Page type 0 has 2 of 7 thresholds, so 6/7 of the mean.
        close(tlc.error_rate(Mode::Full, 0, 0, 0.0, 0), 3e-4 * 6.0 / 7.0);
        close(tlc.error_rate(Mode::Full, 4, 0, 0.0, 0), 3e-4 * 9.0 / 7.0);
        let year = 3e-4 + 1.5e-3 + 2.5e-3;
        close(tlc.error_rate(Mode::Full, 0, 3000, YEAR, 0), year * 6.0 / 7.0);
        close(tlc.error_rate(Mode::Full, 0, 3000, YEAR, 100_000), (year + 1e-3) * 6.0 / 7.0);
        let half = 3e-4 + 1.5e-3 * libm::pow(0.5, 1.3) + 0.55 * (2.5e-3 * libm::pow(0.25, 0.4) + 2e-3);
        close(tlc.error_rate(Mode::Full, 1, 1500, YEAR / 4.0, 200_000), half * 9.0 / 7.0);
        close(tlc.error_rate(Mode::OneBit, 1, 0, 0.0, 0), 1e-6);
        assert_eq!(tlc.error_rate(Mode::Full, 1, u32::MAX, 1e12, u32::MAX), 0.5);
        assert_eq!(
            [1500, 3000, 6000].map(|erases| tlc.program_failure(Mode::Full, erases)),
            [0.0, 0.0, 1e-3]
        );
        close(tlc.erase_failure(Mode::Full, 4500), 2.5e-3);
        assert_eq!(tlc.erase_failure(Mode::Full, u32::MAX), 1.0);
    }

    // Constants that make a new part retry, or one at its end never, would be a model of nothing.
    #[test]
    fn parts_are_clean_when_new_and_at_their_limit_when_rated() {
        for part in [Reliability::slc(), Reliability::mlc(), Reliability::tlc(), Reliability::qlc()] {
            assert_eq!(part.validate(), Ok(()));
            let pages = part.cells.pages.len() as u32;
            let worst = |erases, age, reads| {
                let rate = |page| part.error_rate(Mode::Full, page, erases, age, reads);
                (0..pages).map(rate).fold(0.0, f64::max) * UNIT_BITS / f64::from(part.correctable)
            };
            assert!(worst(0, 0.0, 0) < 0.2);
            let end = worst(part.cells.endurance, YEAR, 100_000);
            assert!(end < 1.0 && (end > 0.7 || pages == 1), "{end}");
        }
    }

    // What is drawn must be the log-normal that is documented: its tail is the share of reads that are
    // retried.
    #[test]
    fn the_share_of_retries_is_the_tail_of_the_distribution() {
        let part = Reliability { retry_steps: 2, retry_factor: 0.5, ..Reliability::tlc() };
        let mut stream = Rng::new(1).stream("die-0/errors");
        let mut counts = [0u32; 4];
        let draws = 200_000;
        let rate = 300.0 / UNIT_BITS;
        for _ in 0..draws {
            let step = part.draw(rate, &mut stream);
            counts[step.map_or(3, |step| step as usize)] += 1;
        }
        // P(no retry) is the normal distribution at (ln(240 / 300) + 0.15^2 / 2) / 0.15 = -1.4126; P(more
        // than one), of the limit at half the rate, at (ln(480 / 300) + 0.01125) / 0.15 = 3.2084 and beyond.
        let share = |count: u32| f64::from(count) / f64::from(draws);
        assert!((share(counts[0]) - 0.0789).abs() < 0.002, "{counts:?}");
        assert!((share(counts[2]) - 0.000667).abs() < 0.0002, "{counts:?}");
        assert_eq!(counts[3], 0);
        // Far from the limit nothing is drawn.
        let mut untouched = stream.clone();
        assert_eq!(part.draw(1e-4, &mut stream), Some(0));
        assert_eq!(stream.next_u64(), untouched.next_u64());
        assert_eq!(part.draw(0.5, &mut stream), None);
    }

    // They come from files: a NaN or a negative rate must give a message.
    #[test]
    fn impossible_constants_are_named() {
        let message = |part: Reliability| part.validate().unwrap_err().to_string();
        let tlc = Reliability::tlc();
        assert_eq!(
            message(Reliability { spread: f64::NAN, ..tlc.clone() }),
            "reliability.spread is NaN, it must be from 0 to 2"
        );
        assert_eq!(
            message(Reliability { retry_steps: 65, ..tlc.clone() }),
            "reliability.retry_steps is 65, it must be from 0 to 64"
        );
        let cells = CellErrors { endurance: 0, ..tlc.cells.clone() };
        assert_eq!(
            message(Reliability { cells, ..tlc.clone() }),
            "reliability.endurance is 0, it must be at least 1"
        );
        let one_bit = CellErrors { pages: vec![], ..tlc.cells.clone() };
        assert_eq!(
            message(Reliability { one_bit, ..tlc.clone() }),
            "reliability.one_bit.pages has no share, it needs one for each page type"
        );
        let cells = CellErrors { fresh: -1e-3, ..tlc.cells.clone() };
        assert_eq!(
            message(Reliability { cells, ..tlc }),
            "reliability.fresh is -0.001, it must be from 0 to 0.5"
        );
    }
}
