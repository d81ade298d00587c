//! Instants and delays in picoseconds, and the rates that turn bytes and cycles into delays.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// An instant of the simulation, in picoseconds since its start. The range is 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A length of time in picoseconds. Saturates at 213 days in every build; adding such a delay to a later
/// [`Time`] panics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delay(pub u64);

impl Time {
    /// The start of the simulation.
    pub const ZERO: Time = Time(0);

    /// Delay since `earlier`; zero if `earlier` is not before this.
    #[inline]
    pub fn since(self, earlier: Time) -> Delay {
        Delay(self.0.saturating_sub(earlier.0))
    }
}

impl Delay {
    /// Zero.
    pub const ZERO: Delay = Delay(0);

    /// From picoseconds.
    #[inline]
    pub const fn from_ps(ps: u64) -> Self {
        Delay(ps)
    }
    /// From nanoseconds.
    #[inline]
    pub const fn from_ns(ns: u64) -> Self {
        Delay(ns.saturating_mul(1_000))
    }
    /// From microseconds.
    #[inline]
    pub const fn from_us(us: u64) -> Self {
        Delay(us.saturating_mul(1_000_000))
    }
    /// From milliseconds.
    #[inline]
    pub const fn from_ms(ms: u64) -> Self {
        Delay(ms.saturating_mul(1_000_000_000))
    }
    /// From seconds.
    #[inline]
    pub const fn from_s(s: u64) -> Self {
        Delay(s.saturating_mul(1_000_000_000_000))
    }
    /// The length in picoseconds.
    #[inline]
    pub const fn ps(self) -> u64 {
        self.0
    }
    /// The difference, zero if `other` is longer.
    #[inline]
    pub fn saturating_sub(self, other: Delay) -> Delay {
        Delay(self.0.saturating_sub(other.0))
    }
}

impl Add<Delay> for Time {
    type Output = Time;
    #[inline]
    fn add(self, delay: Delay) -> Time {
        Time(self.0.checked_add(delay.0).expect("simulated time ends after 213 days"))
    }
}

impl Add for Delay {
    type Output = Delay;
    #[inline]
    fn add(self, other: Delay) -> Delay {
        Delay(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Delay {
    #[inline]
    fn add_assign(&mut self, other: Delay) {
        *self = *self + other;
    }
}

impl Sub for Delay {
    type Output = Delay;
    #[inline]
    fn sub(self, other: Delay) -> Delay {
        Delay(self.0.checked_sub(other.0).expect("a delay is not negative"))
    }
}

impl Mul<u64> for Delay {
    type Output = Delay;
    #[inline]
    fn mul(self, times: u64) -> Delay {
        Delay(self.0.saturating_mul(times))
    }
}

impl Div<u64> for Delay {
    type Output = Delay;
    #[inline]
    fn div(self, by: u64) -> Delay {
        Delay(self.0 / by)
    }
}

impl Sum for Delay {
    #[inline]
    fn sum<I: Iterator<Item = Delay>>(delays: I) -> Delay {
        delays.fold(Delay::ZERO, Add::add)
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ps = self.0;
        let (value, unit) = match ps {
            0..1_000 => return write!(f, "{ps} ps"),
            1_000..1_000_000 => (ps as f64 / 1e3, "ns"),
            1_000_000..1_000_000_000 => (ps as f64 / 1e6, "us"),
            1_000_000_000..1_000_000_000_000 => (ps as f64 / 1e9, "ms"),
            _ => (ps as f64 / 1e12, "s"),
        };
        write!(f, "{value:.3} {unit}")
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Delay(self.0).fmt(f)
    }
}

/// A rate in units (bytes, cycles) a second. Stored as picoseconds a unit with as many fraction bits as fit
/// in 64, so that a duration costs one multiplication and rounds to the nearest picosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    per_second: u64,
    ps_per_unit: u64,
    /// 1 to 64.
    fraction_bits: u32,
}

impl Rate {
    /// `per_second` units a second. Zero is taken as one, since no transfer would end at rate zero.
    #[inline]
    pub const fn per_second(per_second: u64) -> Self {
        let per_second = if per_second == 0 { 1 } else { per_second };
        let mut fraction_bits = 64;
        loop {
            let scaled = (1_000_000_000_000u128 << fraction_bits) + (per_second as u128 / 2);
            let ps_per_unit = scaled / per_second as u128;
            if ps_per_unit <= u64::MAX as u128 {
                return Rate { per_second, ps_per_unit: ps_per_unit as u64, fraction_bits };
            }
            fraction_bits -= 1;
        }
    }

    /// Time for `units`, to the nearest picosecond.
    #[inline]
    pub fn time_for(self, units: u64) -> Delay {
        let half = 1u64 << (self.fraction_bits - 1);
        let scaled = units as u128 * self.ps_per_unit as u128 + half as u128;
        let (low, high) = (scaled as u64, (scaled >> 64) as u64);
        // In halves: shifting 128 bits by a number that is not known takes three times as long.
        match self.fraction_bits {
            64 => Delay(high),
            bits if high >> bits == 0 => Delay(low >> bits | high << (64 - bits)),
            _ => Delay(u64::MAX),
        }
    }

    /// The rate in units a second.
    #[inline]
    pub fn units_per_second(self) -> u64 {
        self.per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A rate that rounds wrongly would shift every latency of every run.
    #[test]
    fn rates_are_exact_where_the_division_is_and_nearest_elsewhere() {
        assert_eq!(Rate::per_second(4_000_000_000).time_for(4608), Delay(1_152_000));
        assert_eq!(Rate::per_second(3_000_000_000).time_for(1), Delay(333));
        assert_eq!(Rate::per_second(3_000_000_000).time_for(3), Delay(1000));
        assert_eq!(Rate::per_second(1).time_for(1), Delay::from_s(1));
        // Large transfers: 24 fraction bits would make these 18 and 9,362 ps late.
        assert_eq!(Rate::per_second(3_500_000_000).time_for(1 << 30), Delay(306_783_378_286));
        assert_eq!(Rate::per_second(7_000_000_000).time_for(1 << 40), Delay(157_073_089_682_286));
        assert_eq!(Rate::per_second(u64::MAX).time_for(u64::MAX), Delay::from_s(1));
    }

    // Without saturation a release build would turn an absurdly long delay into a short one.
    #[test]
    fn too_long_a_delay_saturates() {
        assert_eq!(Delay::from_s(u64::MAX), Delay(u64::MAX));
        assert_eq!(Delay::from_s(200 * 86_400) + Delay::from_s(200 * 86_400), Delay(u64::MAX));
        assert_eq!(Delay::from_s(200 * 86_400) * 2, Delay(u64::MAX));
        assert_eq!([Delay(u64::MAX), Delay(1)].into_iter().sum::<Delay>(), Delay(u64::MAX));
        assert_eq!(Rate::per_second(1).time_for(u64::MAX), Delay(u64::MAX));
    }
}
