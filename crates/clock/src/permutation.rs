//! A keyed bijection on `0..n` without a table. It scatters popular ranks over a drive, visits every address
//! once in random order, and reproduces the placement that a long random overwrite leaves behind.
//!
//! It is not a cipher: mixed well enough that a workload shows no pattern, and no better.

use crate::random::{GOLDEN_RATIO, InvalidParameter, invalid, mix};

/// A bijection on `0..n`, chosen by a key, in the same few words of memory for every n.
///
/// A Feistel network over the least power of two that holds n. A value that falls beyond n is sent through
/// again until it falls inside (cycle walking): that is still a bijection, and because the power of two is
/// below 2n, an evaluation takes fewer than two passes on average (128 / n where n is below 64). The halves
/// differ by a bit where the width is odd.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    left_bits: u32,
    right_bits: u32,
    left_rounds: [Round; ROUNDS],
    right_rounds: [Round; ROUNDS],
}

impl Permutation {
    /// The largest n, 2^40: 4 PiB in units of 4 KiB.
    pub const N_MAX: u64 = 1 << 40;

    /// The bijection on `0..n` that this key chooses. Every key is equally good.
    ///
    /// # Errors
    /// If `n` is not in 1..=2^40.
    pub fn new(key: u64, n: u64) -> Result<Self, InvalidParameter> {
        if n == 0 || n > Self::N_MAX {
            return Err(invalid("permutation", "n", n, "1 to 2^40"));
        }
        let bits = (u64::BITS - (n - 1).leading_zeros()).max(BITS_MIN);
        let mut state = mix(key ^ KEY_DOMAIN);
        let mut word = || {
            state = state.wrapping_add(GOLDEN_RATIO);
            mix(state)
        };
        let mut round = |_| Round { factor: word(), offset: word() };
        Ok(Self {
            n,
            left_bits: bits / 2,
            right_bits: bits - bits / 2,
            left_rounds: std::array::from_fn(&mut round),
            right_rounds: std::array::from_fn(&mut round),
        })
    }

    /// The number of values.
    pub const fn n(&self) -> u64 {
        self.n
    }

    /// The image of `i`.
    ///
    /// # Panics
    /// If `i` is not below n.
    #[inline]
    pub fn forward(&self, i: u64) -> u64 {
        assert!(i < self.n, "{i} is outside of a permutation of {}", self.n);
        let mut x = i;
        loop {
            x = self.pass(x);
            if x < self.n {
                return x;
            }
        }
    }

    /// The preimage of `j`: `inverse(forward(i)) == i`.
    ///
    /// # Panics
    /// If `j` is not below n.
    #[inline]
    pub fn inverse(&self, j: u64) -> u64 {
        assert!(j < self.n, "{j} is outside of a permutation of {}", self.n);
        let mut x = j;
        loop {
            x = self.pass_back(x);
            if x < self.n {
                return x;
            }
        }
    }

    #[inline]
    fn pass(&self, x: u64) -> u64 {
        let (mut left, mut right) = self.split(x);
        for (to_left, to_right) in self.left_rounds.iter().zip(&self.right_rounds) {
            left ^= to_left.hash(right, self.left_bits);
            right ^= to_right.hash(left, self.right_bits);
        }
        self.join(left, right)
    }

    #[inline]
    fn pass_back(&self, x: u64) -> u64 {
        let (mut left, mut right) = self.split(x);
        for (to_left, to_right) in self.left_rounds.iter().zip(&self.right_rounds).rev() {
            right ^= to_right.hash(left, self.right_bits);
            left ^= to_left.hash(right, self.left_bits);
        }
        self.join(left, right)
    }

    #[inline]
    fn split(&self, x: u64) -> (u64, u64) {
        (x >> self.right_bits, x & ((1 << self.right_bits) - 1))
    }

    #[inline]
    fn join(&self, left: u64, right: u64) -> u64 {
        left << self.right_bits | right
    }
}

/// How often each half is changed by the other. With two, the images of neighbours are visibly related; with
/// three, it takes hundreds of thousands of keys to see a trace of it, and a pass takes about 5 ns.
const ROUNDS: usize = 3;

/// Halves of a bit or two mix badly: of the 5040 orders of seven values some would come twice as often as
/// others. So a small n is cut out of 128 values, where the orders come alike.
const BITS_MIN: u32 = 7;

/// Keeps a permutation's key apart from the same number used as a seed. Any value does ("permute!").
const KEY_DOMAIN: u64 = 0x7065_726d_7574_6521;

/// One key-dependent function from one half to the other: the high bits of factor * x + offset, in which two
/// inputs go to any two outputs equally often over the keys (Dietzfelbinger, 1996).
#[derive(Clone, Copy, Debug)]
struct Round {
    factor: u64,
    offset: u64,
}

impl Round {
    #[inline]
    fn hash(self, x: u64, bits: u32) -> u64 {
        self.factor.wrapping_mul(x).wrapping_add(self.offset) >> (u64::BITS - bits)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random::Rng;

    fn permutation(key: u64, n: u64) -> Permutation {
        Permutation::new(key, n).expect("the test's n is valid")
    }

    /// Sum of squared deviations from equal counts, in units of the count expected.
    fn chi_square(counts: &[u64]) -> f64 {
        let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        counts.iter().map(|&count| (count as f64 - expected) * (count as f64 - expected) / expected).sum()
    }

    proptest! {
        /// Without this, two popular ranks could land on one address and some address would never be read.
        #[test]
        fn is_a_bijection(key: u64, n in 1_u64..2000) {
            let permutation = permutation(key, n);
            let mut seen = vec![false; n as usize];
            for i in 0..n {
                let j = permutation.forward(i);
                prop_assert!(!std::mem::replace(&mut seen[j as usize], true), "{j} came twice");
                prop_assert_eq!(permutation.inverse(j), i);
            }
        }

        /// A placement must be readable backwards at every size, also where the width is odd or n is far from
        /// a power of two.
        #[test]
        fn inverse_undoes_forward(key: u64, bits in 0_u32..=40, raw_n: u64, raw_i: u64) {
            let n = (raw_n % (1 << bits) + 1 + (1 << bits)).min(Permutation::N_MAX);
            let i = raw_i % n;
            let permutation = permutation(key, n);
            let j = permutation.forward(i);
            prop_assert!(j < n);
            prop_assert_eq!(permutation.inverse(j), i);
            prop_assert_eq!(permutation.forward(permutation.inverse(i)), i);
        }
    }

    /// A key schedule that favours some orders would favour some dies in every run.
    #[test]
    fn every_order_of_five_comes_equally_often() {
        let mut counts = [0; 120];
        for key in 0..24_000 {
            let permutation = permutation(key, 5);
            // The order's number, in the factorial base.
            let images: Vec<u64> = (0..5).map(|i| permutation.forward(i)).collect();
            let number = (0..5).fold(0, |number, i| {
                let smaller_later = images[i + 1..].iter().filter(|&&later| later < images[i]).count();
                number * (5 - i) + smaller_later
            });
            counts[number] += 1;
        }
        let chi_square = chi_square(&counts);
        assert!(chi_square < 173.6, "{chi_square} is beyond the 99.9 % quantile at 119 degrees of freedom");
    }

    /// A value that prefers some images would be a hot die that the workload didn't ask for.
    #[test]
    fn every_image_of_a_value_comes_equally_often() {
        for n in [7, 16, 33] {
            for i in [0, 1, n - 1] {
                let mut counts = vec![0; n as usize];
                (0..20_000).for_each(|key| counts[permutation(key, n).forward(i) as usize] += 1);
                let (chi_square, freedom) = (chi_square(&counts), (n - 1) as f64);
                // The 99.99 % quantile, within a percent, by Wilson and Hilferty's approximation.
                let root = 1.0 - 2.0 / (9.0 * freedom) + 3.719 * (2.0 / (9.0 * freedom)).sqrt();
                let limit = freedom * root * root * root;
                assert!(chi_square < limit, "n {n}, value {i}: {chi_square} is beyond {limit}");
            }
        }
    }

    /// Popular ranks are neighbours; if their images were related too, they would queue at the same dies.
    #[test]
    fn neighbours_are_scattered() {
        for n in [100_003, 1 << 20, (1 << 20) + 1, 3 << 25, 1 << 40] {
            let mut stream = Rng::new(1).stream("neighbours");
            for _ in 0..8 {
                let permutation = permutation(stream.next_u64(), n);
                let bucket = |x: u64| (u128::from(x) * 64 / u128::from(n)) as usize;
                let (mut images, mut distances) = ([0; 64], [0; 64]);
                for i in 0..20_000 {
                    let (here, next) = (permutation.forward(i), permutation.forward(i + 1));
                    images[bucket(here)] += 1;
                    distances[bucket((n + next - here) % n)] += 1;
                }
                for (name, counts) in [("images", images), ("distances", distances)] {
                    let chi_square = chi_square(&counts);
                    assert!(chi_square < 120.0, "n {n}, {name}: {chi_square} at 63 degrees of freedom");
                }
            }
        }
    }

    /// A drive of no blocks, or of more than the arithmetic holds, is an error of the scenario, not a panic.
    #[test]
    fn n_is_checked() {
        for n in [0, Permutation::N_MAX + 1, u64::MAX] {
            assert_eq!(Permutation::new(1, n).expect_err("out of range").parameter, "n");
        }
        assert_eq!(permutation(1, 1).forward(0), 0);
    }
}
