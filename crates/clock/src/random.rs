//! Named random streams, and the distributions that a model draws from.
//!
//! A run has one seed. A consumer of randomness asks for a [`Stream`] by name, and the stream depends on the
//! seed and the name only: not on how many other streams exist, nor on the order of draws. A new consumer
//! therefore leaves every published number as it was.
//!
//! The name is the identity: two consumers that ask for the same name draw the same values. A name says what
//! is drawn, with its number: `"job-0/address"`, `"drive-2/die-3/wear"`.
//!
//! Every value is the same on every machine and in every build: integers are exact, and real numbers use the
//! four operations and `sqrt` (exact by IEEE 754) and, for the rest, `libm`, which is compiled from source.
//! `tests/random_golden.rs` pins the bits.

use std::error::Error;
use std::fmt;
use std::ops::RangeInclusive;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// The source of all streams of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rng {
    seed: u64,
}

impl Rng {
    /// A source for the run with this seed. Every seed is equally good.
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The seed, for printing with the result.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The stream of this name, at its beginning.
    ///
    /// The four words of Xoshiro256++ state are, for i in 1..=4 and all modulo 2^64,
    /// `mix(mix(seed + i * 0x9e3779b97f4a7c15) ^ fnv1a(name))`, where `fnv1a` is the 64-bit FNV-1a hash of
    /// the name's UTF-8 bytes and `mix` the finalizer of SplitMix64. The four inner values differ, because
    /// `mix` is a bijection, so at most one word is zero: the generator's one bad state cannot occur.
    pub fn stream(&self, name: &str) -> Stream {
        let name = fnv1a(name.as_bytes());
        let mut state = [0; 32];
        for (i, word) in (1..).zip(state.chunks_exact_mut(8)) {
            let seed = mix(self.seed.wrapping_add(GOLDEN_RATIO.wrapping_mul(i)));
            word.copy_from_slice(&mix(seed ^ name).to_le_bytes());
        }
        Stream { generator: Xoshiro256PlusPlus::from_seed(state) }
    }
}

/// A sequence of draws that belongs to one consumer.
///
/// A clone yields the same draws as the original will.
#[derive(Clone, Debug)]
pub struct Stream {
    generator: Xoshiro256PlusPlus,
}

impl Stream {
    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// An integer in `0..n`, each equally likely (Lemire, "Fast random integer generation in an interval",
    /// 2019).
    ///
    /// # Panics
    /// If `n` is 0: there is nothing to draw from.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a draw below 0 has no values to choose from");
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            // 2^64 is n * floor(2^64 / n) + surplus. Each answer must have equally many preimages, so the
            // first `surplus` fractions are drawn again. The division is paid for only here, rarely.
            let surplus = n.wrapping_neg() % n;
            while (product as u64) < surplus {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// An integer of the range, uniformly distributed; the whole range of `u64` is allowed.
    ///
    /// # Panics
    /// If the range is empty. For bounds from a file or a host use [`Uniform::new`], which checks them.
    #[inline]
    pub fn range(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        assert!(low <= high, "a draw from {low}..={high} has no values to choose from");
        match (high - low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.next_u64(),
        }
    }

    /// A multiple of 2^-53 in [0, 1), each equally likely.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * TWO_TO_MINUS_53
    }

    /// An odd multiple of 2^-53 in (0, 1), each equally likely: never 0 and never 1, so its logarithm is
    /// finite and not zero. Symmetric about 1/2.
    #[inline]
    pub fn unit_open(&mut self) -> f64 {
        ((self.next_u64() >> 11) | 1) as f64 * TWO_TO_MINUS_53
    }

    /// True with probability `p`: never at 0 or below (and for NaN), always at 1 or above. One draw whatever
    /// `p` is, so changing a rate doesn't shift the draws after it.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Puts the items in a random order, each order equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let chosen = self.below(last as u64 + 1) as usize;
            items.swap(last, chosen);
        }
    }
}

/// Integers of a range, each equally likely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uniform {
    low: u64,
    high: u64,
}

impl Uniform {
    /// Integers from the range's start to its end, both included.
    ///
    /// # Errors
    /// If the range is empty.
    pub fn new(range: RangeInclusive<u64>) -> Result<Self, InvalidParameter> {
        let (low, high) = range.into_inner();
        if low > high {
            return Err(invalid("uniform", "high", high, format!("at least low, {low}")));
        }
        Ok(Self { low, high })
    }

    /// Draws an integer.
    #[inline]
    pub fn sample(&self, stream: &mut Stream) -> u64 {
        stream.range(self.low..=self.high)
    }
}

/// Ranks `0..n`, where rank r has a probability proportional to (r + 1)^-theta: rank 0 is the most popular.
///
/// Ranks are not addresses: without a [`Permutation`](crate::permutation::Permutation) between the two the
/// popular ones are neighbours.
///
/// Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone
/// discrete distributions", 1996): exact for every theta, 1 included, without a table, at most 1.02
/// attempts a draw on average.
#[derive(Clone, Debug, PartialEq)]
pub struct Zipf {
    n: u64,
    theta: f64,
    /// The area below the density's continuous hat runs from `area_low` (left of rank 0) to `area_high`.
    area_low: f64,
    area_high: f64,
    /// A point this near below its rank is accepted without computing areas: the common case.
    sure: f64,
}

impl Zipf {
    /// Maximum number of ranks: 2^40, where an `f64` still distinguishes neighbours with bits to spare.
    pub const N_MAX: u64 = 1 << 40;

    /// Ranks `0..n` with exponent `theta`.
    ///
    /// # Errors
    /// If `n` is not in 1..=2^40, or `theta` is not a finite number above 0.
    pub fn new(n: u64, theta: f64) -> Result<Self, InvalidParameter> {
        if n == 0 || n > Self::N_MAX {
            return Err(invalid("zipf", "n", n, "1 to 2^40"));
        }
        positive("zipf", "theta", theta)?;
        let two = area(2.5, theta) - libm::pow(2.0, -theta);
        Ok(Self {
            n,
            theta,
            area_low: area(1.5, theta) - 1.0,
            area_high: area(n as f64 + 0.5, theta),
            sure: 2.0 - area_inverse(two, theta),
        })
    }

    /// Draws a rank.
    #[inline]
    pub fn sample(&self, stream: &mut Stream) -> u64 {
        loop {
            let drawn = self.area_high + stream.unit_open() * (self.area_low - self.area_high);
            let x = area_inverse(drawn, self.theta);
            // Beyond the last rank there is nothing; rounding can put x there by a hair, or at infinity.
            let k = (x + 0.5).floor().clamp(1.0, self.n as f64);
            if k - x <= self.sure || drawn >= area(k + 0.5, self.theta) - libm::pow(k, -self.theta) {
                return k as u64 - 1;
            }
        }
    }
}

/// The integral of t^-theta from 1 to x: (x^(1 - theta) - 1) / (1 - theta), and ln x where theta is 1.
/// Written so that it stays exact when theta is near 1.
fn area(x: f64, theta: f64) -> f64 {
    let log = libm::log(x);
    log * expm1_ratio((1.0 - theta) * log)
}

/// The x at which [`area`] has this value.
fn area_inverse(area: f64, theta: f64) -> f64 {
    // The area is bounded where theta > 1; rounding must not carry it past the bound, where log1p is
    // undefined.
    libm::exp(area * log1p_ratio(((1.0 - theta) * area).max(-1.0)))
}

/// The normal distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Normal {
    mean: f64,
    sd: f64,
}

impl Normal {
    /// A normal distribution with this mean and standard deviation, both in the unit of the result.
    ///
    /// # Errors
    /// If `mean` is not finite, or `sd` is not a finite number of at least 0.
    pub fn new(mean: f64, sd: f64) -> Result<Self, InvalidParameter> {
        finite("normal", "mean", mean)?;
        if !(sd.is_finite() && sd >= 0.0) {
            return Err(invalid("normal", "sd", sd, "a finite number, at least 0"));
        }
        Ok(Self { mean, sd })
    }

    /// Draws a number, at most 8.6 standard deviations from the mean.
    ///
    /// Box and Muller, of whose two results one is used: a sample takes two draws always and keeps no state.
    #[inline]
    pub fn sample(&self, stream: &mut Stream) -> f64 {
        let radius = (2.0 * exponential(stream)).sqrt();
        let angle = std::f64::consts::TAU * stream.unit();
        saturate(self.mean + self.sd * (radius * libm::cos(angle)))
    }
}

/// The exponential distribution: the time between independent events.
#[derive(Clone, Debug, PartialEq)]
pub struct Exponential {
    mean: f64,
}

impl Exponential {
    /// An exponential distribution with this mean, in the unit of the result (1 / rate).
    ///
    /// # Errors
    /// If `mean` is not a finite number above 0.
    pub fn new(mean: f64) -> Result<Self, InvalidParameter> {
        positive("exponential", "mean", mean)?;
        Ok(Self { mean })
    }

    /// Draws a number above 0, at most 36.8 times the mean.
    #[inline]
    pub fn sample(&self, stream: &mut Stream) -> f64 {
        saturate(self.mean * exponential(stream))
    }
}

/// The Pareto distribution: P(X > x) = (scale / x)^shape from `scale` on.
#[derive(Clone, Debug, PartialEq)]
pub struct Pareto {
    scale: f64,
    shape: f64,
}

impl Pareto {
    /// A Pareto distribution whose least value is `scale`; the mean is finite where `shape` is above 1.
    ///
    /// # Errors
    /// If one of the two is not a finite number above 0.
    pub fn new(scale: f64, shape: f64) -> Result<Self, InvalidParameter> {
        positive("pareto", "scale", scale)?;
        positive("pareto", "shape", shape)?;
        Ok(Self { scale, shape })
    }

    /// Draws a number of at least `scale`, by the inverse distribution function scale * u^(-1/shape). A
    /// result that overflows `f64` is the largest finite one.
    #[inline]
    pub fn sample(&self, stream: &mut Stream) -> f64 {
        saturate(self.scale * libm::exp(exponential(stream) / self.shape))
    }
}

/// The generalized Pareto distribution: P(X > x) = (1 + k (x - theta) / sigma)^(-1/k). MixGraph's value sizes
/// have theta 0, k 0.2615, sigma 25.45, rounded up (Cao and others, FAST 2020).
#[derive(Clone, Debug, PartialEq)]
pub struct GeneralizedPareto {
    theta: f64,
    k: f64,
    sigma: f64,
}

impl GeneralizedPareto {
    /// A generalized Pareto distribution with location `theta` (its least value), shape `k` and scale
    /// `sigma`. At k = 0 it is exponential; below 0 it ends at theta - sigma / k; from 1 on it has no mean.
    ///
    /// # Errors
    /// If `theta` is not finite, `k` is not in -1000 to 1000, or `sigma` is not a finite number above 0.
    pub fn new(theta: f64, k: f64, sigma: f64) -> Result<Self, InvalidParameter> {
        finite("generalized pareto", "theta", theta)?;
        if !(-1000.0..=1000.0).contains(&k) {
            return Err(invalid("generalized pareto", "k", k, "-1000 to 1000"));
        }
        positive("generalized pareto", "sigma", sigma)?;
        Ok(Self { theta, k, sigma })
    }

    /// Draws a number of at least `theta`, by the inverse distribution function theta + sigma (u^-k - 1) / k,
    /// written so that it stays exact when k is near 0. A result that overflows `f64` is the largest finite
    /// one.
    #[inline]
    pub fn sample(&self, stream: &mut Stream) -> f64 {
        let log = exponential(stream);
        saturate(self.theta + self.sigma * (log * expm1_ratio(self.k * log)))
    }
}

/// A parameter that describes no distribution, with what would be valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidParameter {
    /// Name of the distribution: "zipf".
    pub what: &'static str,
    /// Name of the constructor's parameter.
    pub parameter: &'static str,
    /// The rejected value.
    pub value: String,
    /// The valid values.
    pub valid: String,
}

impl fmt::Display for InvalidParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, parameter, value, valid } = self;
        write!(f, "{what}: {parameter} is {value}; valid: {valid}")
    }
}

impl Error for InvalidParameter {}

pub(crate) fn invalid(
    what: &'static str,
    parameter: &'static str,
    value: impl ToString,
    valid: impl Into<String>,
) -> InvalidParameter {
    InvalidParameter { what, parameter, value: value.to_string(), valid: valid.into() }
}

fn finite(what: &'static str, parameter: &'static str, value: f64) -> Result<(), InvalidParameter> {
    if value.is_finite() { Ok(()) } else { Err(invalid(what, parameter, value, "a finite number")) }
}

fn positive(what: &'static str, parameter: &'static str, value: f64) -> Result<(), InvalidParameter> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(invalid(what, parameter, value, "a finite number above 0"))
    }
}

const TWO_TO_MINUS_53: f64 = 1.0 / (1_u64 << 53) as f64;

/// 2^64 divided by the golden ratio, the increment of SplitMix64.
pub(crate) const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014; variant 13 of Stafford): a bijection.
#[inline]
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The 64-bit FNV-1a hash: the same on every machine, and no protection against those who want two texts with one hash.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Exponential with mean 1, above 0.
#[inline]
fn exponential(stream: &mut Stream) -> f64 {
    -libm::log(stream.unit_open())
}

/// (e^t - 1) / t, continuous at 0.
fn expm1_ratio(t: f64) -> f64 {
    if t == 0.0 { 1.0 } else { libm::expm1(t) / t }
}

/// ln(1 + t) / t, continuous at 0.
fn log1p_ratio(t: f64) -> f64 {
    if t == 0.0 { 1.0 } else { libm::log1p(t) / t }
}

/// Clamps a result to finite values.
fn saturate(x: f64) -> f64 {
    x.clamp(f64::MIN, f64::MAX)
}
