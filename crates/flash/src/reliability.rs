//! The error model of the cells: raw bit errors that grow with wear, retention and reads, retries that read
//! past them, and program and erase failures of worn cells.
//!
//! The best thresholds at which to read a page move as its cells lose charge. With `w` the program/erase cycles of its superblock over
//! the endurance, they are away from the thresholds that a first read uses by
//!
//! ```text
//! shift = shift * (1 + shift_wear * w) * ln(1 + age / shift_onset)        in steps of a retry
//! ```
//!
//! and at the best thresholds a page has a raw bit error rate of
//!
//! ```text
//! rate = pages[type] * ( fresh + wear * w^wear_exponent + (0.1 + 0.9 w) * disturb * reads / 100000 )
//! ```
//!
//! Each step away from them divides the rate by [`retry_factor`](Reliability::retry_factor); each retry goes one step towards them. So a
//! unit is correct at the first retry from which on its rate times `retry_factor ^ -distance` is within
//! [`correctable`](Reliability::correctable) errors: the number of retries is the shift, less what the code bears. A unit with too many errors
//! at the best thresholds, or whose shift is beyond the last retry, is uncorrectable.
//!
//! - **Shift**: cells of 3D NAND lose charge in the logarithm of time, most of it early, and sooner the more often they were
//!   erased (Luo et al., Improving 3D NAND Flash Memory Lifetime by Tolerating Early Retention Loss and Process Variation, SIGMETRICS 2018:
//!   thresholds of each state go with `A log t + B`). The onset is the age for which the first read's thresholds are made.
//! - **Wear**: traps in the tunnel oxide widen the charge distributions of the cells; published measurements
//!   of parts of several makers fit a power of the cycle count somewhat above one.
//! - **Read disturb**: each sensing of a page stresses the others of its block slightly; the effect is linear
//!   in their number. A fresh superblock has a tenth of the effect on one at its endurance.
//! - **Page type**: a page that is distinguished by more of the cell's thresholds has as many more chances of
//!   error.
//!
//! The units of a page differ: each read draws, for each unit, one normal number. It moves the unit's errors as a log-normal factor with mean
//! one and the given [`spread`](Reliability::spread), and its shift in proportion, by [`shift_spread`](Reliability::shift_spread):
//! what leaks more is also further away.
//!
//! The constants of the four kinds of cells are of the published order for each kind; they describe no particular part. The shift of three-bit
//! cells is fitted to two points of a study of 160 chips (Park et al., Reducing Solid-State Drive Read Latency by Optimizing Read-Retry,
//! ASPLOS 2021); `docs/models/flash.md` has the table. That of the others is our own, less for wider gaps between states and more for
//! narrower. At the endurance, and after 100,000 reads, the worst page type still has half of the errors that are corrected, at the best
//! thresholds. A fresh part practically never retries what is a day old.

use crate::timing::Mode;
use byteway_clock::random::{Normal, Stream};

/// Bits of a unit of 4 KiB.
const UNIT_BITS: f64 = 32768.0;
const DAY_SECONDS: f64 = 86400.0;
/// Reads to which [`CellErrors::disturb`] refers.
const DISTURB_READS: f64 = 100_000.0;
/// Disturb rate of a fresh superblock, as a fraction of that at the endurance.
const FRESH_SHARE: f64 = 0.1;
/// Upper bound of a draw's distance from the mean, in standard deviations.
const DRAW_MAX: f64 = 8.7;

/// Error rate parameters of a kind of cells. Rates are fractions of wrong bits.
#[derive(Clone, Debug, PartialEq)]
pub struct CellErrors {
    /// Rated program/erase cycles of a superblock.
    pub endurance: u32,
    /// Rate of a page on new cells.
    pub fresh: f64,
    /// Rate added by wear at the endurance.
    pub wear: f64,
    /// Exponent of the cycle count.
    pub wear_exponent: f64,
    /// Steps by which the best thresholds of new cells move, each time that their age grows by a factor of e.
    pub shift: f64,
    /// Relative growth of that up to the endurance.
    pub shift_wear: f64,
    /// Age in days from which on the thresholds move: those of a first read are made for younger data.
    pub shift_onset: f64,
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
    /// Standard deviation of a unit's shift relative to its superblock's.
    pub shift_spread: f64,
    /// Maximum retries of a read: sensings at shifted thresholds after the first.
    pub retry_steps: u32,
    /// Fraction of the rate that each retry leaves, on the way to the best thresholds.
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
    /// Maximum of [`CellErrors::shift`].
    pub const SHIFT_MAX: f64 = 100.0;
    /// Maximum of [`CellErrors::shift_wear`].
    pub const SHIFT_WEAR_MAX: f64 = 100.0;
    /// Minimum of [`CellErrors::shift_onset`]: about a microsecond.
    pub const SHIFT_ONSET_MIN: f64 = 1e-11;
    /// Maximum of [`CellErrors::shift_onset`].
    pub const SHIFT_ONSET_MAX: f64 = 10_000.0;

    /// One bit per cell: the gap between the two states tolerates most of the wear.
    fn one_bit() -> Self {
        CellErrors {
            endurance: 60_000,
            fresh: 1e-6,
            wear: 5e-5,
            wear_exponent: 1.3,
            shift: 0.4,
            shift_wear: 1.22,
            shift_onset: 1.0,
            disturb: 2e-5,
            pages: vec![1.0],
        }
    }

    fn rate(&self, page: u32, erases: f64, reads: u32) -> f64 {
        let wear = erases / f64::from(self.endurance);
        let share = FRESH_SHARE + (1.0 - FRESH_SHARE) * wear;
        let disturb = f64::from(reads) / DISTURB_READS;
        let rate =
            self.fresh + self.wear * libm::pow(wear, self.wear_exponent) + share * self.disturb * disturb;
        let page = self.pages[page as usize % self.pages.len()];
        // At half of the bits wrong there is no information left; more is impossible.
        (page * rate).min(0.5)
    }

    fn shift_after(&self, erases: f64, age_s: f64) -> f64 {
        let wear = 1.0 + self.shift_wear * erases / f64::from(self.endurance);
        self.shift * wear * libm::log1p(age_s / (self.shift_onset * DAY_SECONDS))
    }

    fn validate(&self, names: &[&'static str; 9]) -> Result<(), ReliabilityError> {
        let [endurance, fresh, wear, wear_exponent, shift, shift_wear, shift_onset, disturb, pages] = *names;
        if self.endurance == 0 {
            return Err(ReliabilityError::Zero(endurance));
        }
        if self.pages.is_empty() {
            return Err(ReliabilityError::NoPageType(pages));
        }
        within(fresh, self.fresh, 0.0, 0.5)?;
        within(wear, self.wear, 0.0, 0.5)?;
        within(wear_exponent, self.wear_exponent, 0.1, 10.0)?;
        within(shift, self.shift, 0.0, Self::SHIFT_MAX)?;
        within(shift_wear, self.shift_wear, 0.0, Self::SHIFT_WEAR_MAX)?;
        within(shift_onset, self.shift_onset, Self::SHIFT_ONSET_MIN, Self::SHIFT_ONSET_MAX)?;
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
            shift: 0.5,
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
            shift: 2.06,
            disturb: 1e-3,
            pages: thresholds(&[2, 3, 2]),
            ..CellErrors::one_bit()
        };
        Reliability {
            cells,
            one_bit: CellErrors::one_bit(),
            correctable: 240,
            spread: 0.15,
            shift_spread: 0.05,
            retry_steps: 48,
            retry_factor: 0.5,
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
            shift: 2.5,
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
            "shift",
            "shift_wear",
            "shift_onset",
            "disturb",
            "pages",
        ])?;
        self.one_bit.validate(&[
            "one_bit.endurance",
            "one_bit.fresh",
            "one_bit.wear",
            "one_bit.wear_exponent",
            "one_bit.shift",
            "one_bit.shift_wear",
            "one_bit.shift_onset",
            "one_bit.disturb",
            "one_bit.pages",
        ])?;
        within("correctable", self.correctable.into(), 0.0, UNIT_BITS)?;
        within("spread", self.spread, 0.0, 2.0)?;
        within("shift_spread", self.shift_spread, 0.0, 1.0)?;
        within("retry_steps", self.retry_steps.into(), 0.0, Self::RETRY_STEPS_MAX.into())?;
        within("retry_factor", self.retry_factor, 0.0, 1.0)?;
        within("program_failures", self.program_failures, 0.0, 1.0)?;
        within("erase_failures", self.erase_failures, 0.0, 1.0)
    }

    /// Raw bit error rate of a read of stripe `page` at the best thresholds: of a superblock in this mode after `erases` cycles, read
    /// `reads` times since its erase.
    pub fn error_rate(&self, mode: Mode, page: u32, erases: u32, reads: u32) -> f64 {
        self.of(mode).rate(page, f64::from(erases), reads)
    }

    /// Steps from the thresholds of a first read to the best, for data of this age.
    pub fn shift_after(&self, mode: Mode, erases: u32, age_s: f64) -> f64 {
        self.of(mode).shift_after(f64::from(erases), age_s)
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

    /// Draws for one unit of a read, of this rate at thresholds that are `shift` away, the retries that it needs; None if none corrects it.
    /// Draws nothing where no draw could matter.
    pub(crate) fn draw(&self, rate: f64, shift: f64, stream: &mut Stream) -> Option<u32> {
        let expected = rate * UNIT_BITS;
        if self.retries(expected, shift, DRAW_MAX) == Some(0) {
            return Some(0);
        }
        let normal = Normal::new(0.0, 1.0).expect("it is the standard one");
        self.retries(expected, shift, normal.sample(stream))
    }

    /// Retries of a unit that is `normal` standard deviations from the mean.
    fn retries(&self, expected: f64, shift: f64, normal: f64) -> Option<u32> {
        // A log-normal factor has a mean of one if the normal's is half of its variance below zero.
        let errors = expected * libm::exp(self.spread * normal - 0.5 * self.spread * self.spread);
        let limit = f64::from(self.correctable);
        if errors > limit {
            return None;
        }
        // The distance at which the code still corrects it: infinite without errors, or at a factor of 1.
        let reach = libm::log(limit / errors) / libm::log(1.0 / self.retry_factor);
        let shift = shift * (1.0 + self.shift_spread * normal).max(0.0);
        let retries = (shift - reach).ceil().max(0.0);
        (retries <= f64::from(self.retry_steps)).then_some(retries as u32)
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

    // The model is these numbers; a slip in a term would shift every retry rate that a report shows.
    #[test]
    fn the_rate_and_the_shift_are_what_is_documented() {
        let tlc = Reliability::tlc();
        let close = |found: f64, expected: f64| {
            assert!((found / expected - 1.0).abs() < 1e-12, "{found} is not {expected}");
        };
        // Page type 0 has 2 of 7 thresholds, so 6/7 of the mean.
        close(tlc.error_rate(Mode::Full, 0, 0, 0), 3e-4 * 6.0 / 7.0);
        close(tlc.error_rate(Mode::Full, 4, 0, 0), 3e-4 * 9.0 / 7.0);
        close(tlc.error_rate(Mode::Full, 0, 3000, 0), 1.8e-3 * 6.0 / 7.0);
        close(tlc.error_rate(Mode::Full, 0, 3000, 100_000), 2.8e-3 * 6.0 / 7.0);
        let half = 3e-4 + 1.5e-3 * libm::pow(0.5, 1.3) + 0.55 * 2e-3;
        close(tlc.error_rate(Mode::Full, 1, 1500, 200_000), half * 9.0 / 7.0);
        close(tlc.error_rate(Mode::OneBit, 1, 0, 0), 1e-6);
        assert_eq!(tlc.error_rate(Mode::Full, 1, u32::MAX, u32::MAX), 0.5);
        assert_eq!(tlc.shift_after(Mode::Full, 3000, 0.0), 0.0);
        close(tlc.shift_after(Mode::Full, 0, DAY_SECONDS), 2.06 * libm::log(2.0));
        close(tlc.shift_after(Mode::Full, 1500, 99.0 * DAY_SECONDS), 2.06 * 1.61 * libm::log(100.0));
        close(tlc.shift_after(Mode::OneBit, 0, 99.0 * DAY_SECONDS), 0.4 * libm::log(100.0));
        assert_eq!(
            [1500, 3000, 6000].map(|erases| tlc.program_failure(Mode::Full, erases)),
            [0.0, 0.0, 1e-3]
        );
        close(tlc.erase_failure(Mode::Full, 4500), 2.5e-3);
        assert_eq!(tlc.erase_failure(Mode::Full, u32::MAX), 1.0);
    }

    // Constants that make a new part retry what is a day old, or lose what the code should still correct, would be a model of nothing.
    #[test]
    fn parts_are_clean_when_new_and_within_their_code_when_rated() {
        for part in [Reliability::slc(), Reliability::mlc(), Reliability::tlc(), Reliability::qlc()] {
            assert_eq!(part.validate(), Ok(()));
            let pages = part.cells.pages.len() as u32;
            let worst = |erases, reads| {
                let rate = |page| part.error_rate(Mode::Full, page, erases, reads);
                (0..pages).map(rate).fold(0.0, f64::max)
            };
            let share = |rate: f64| rate * UNIT_BITS / f64::from(part.correctable);
            assert!(share(worst(0, 0)) < 0.2);
            let end = share(worst(part.cells.endurance, 100_000));
            assert!(end < 0.55 && (end > 0.3 || pages == 1), "{end}");
            let mut stream = Rng::new(1).stream("die-0/errors");
            let shift = part.shift_after(Mode::Full, 0, DAY_SECONDS);
            assert!((0..10_000).all(|_| part.draw(worst(0, 0), shift, &mut stream) == Some(0)));
            // And ten years after its end nearly every page can still be read.
            let shift = part.shift_after(Mode::Full, part.cells.endurance, 3652.5 * DAY_SECONDS);
            let rate = worst(part.cells.endurance, 0);
            let lost = (0..1000).filter(|_| part.draw(rate, shift, &mut stream).is_none()).count();
            assert!(lost < 100, "{lost}");
        }
    }

    // What is drawn must be the normal that is documented: its two tails are the reads that take more steps, or fewer.
    #[test]
    fn the_number_of_retries_follows_the_distribution() {
        let part = Reliability { shift_spread: 0.1, retry_steps: 2, ..Reliability::tlc() };
        let mut stream = Rng::new(1).stream("die-0/errors");
        let mut counts = [0u32; 4];
        let draws = 200_000;
        for _ in 0..draws {
            // 60 errors at the best thresholds; 240 are corrected, so also at two steps from there, and the shift is three.
            let step = part.draw(60.0 / UNIT_BITS, 3.0, &mut stream);
            counts[step.map_or(3, |step| step as usize)] += 1;
        }
        // With z standard deviations: 3 (1 + 0.1 z) - (ln 4 - 0.15 z + 0.15^2 / 2) / ln 2 = 0.98377 + 0.51640 z steps are left, which is 0
        // at z = -1.905 (2.84 % are below), 1 at 0.0314 (51.25 %) and 2 at 1.968 (97.55 %).
        let share = |count: u32| f64::from(count) / f64::from(draws);
        assert!((share(counts[0]) - 0.0284).abs() < 0.0012, "{counts:?}");
        assert!((share(counts[1]) - 0.4841).abs() < 0.004, "{counts:?}");
        assert!((share(counts[3]) - 0.0245).abs() < 0.0012, "{counts:?}");
        // Far from the limit nothing is drawn.
        let mut untouched = stream.clone();
        assert_eq!(part.draw(1e-4, 0.5, &mut stream), Some(0));
        assert_eq!(stream.next_u64(), untouched.next_u64());
        assert_eq!(part.draw(0.5, 0.0, &mut stream), None, "no threshold helps");
        let factor =
            |retry_factor: f64| Reliability { retry_factor, spread: 0.0, shift_spread: 0.0, ..part.clone() };
        assert_eq!(factor(1.0).draw(1e-4, 99.0, &mut stream), Some(0), "away from the best is as good");
        assert_eq!(factor(0.0).draw(1e-4, 1.5, &mut stream), Some(2), "nothing but the best will do");
        assert_eq!(factor(0.5).draw(0.0, 99.0, &mut stream), Some(0), "without errors any will do");
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
