//! A set of dies as bits, searched in turn.

/// A set of dies.
pub(in crate::ftl) struct DieSet(Vec<u64>);

impl DieSet {
    pub(in crate::ftl) fn new(dies: u32) -> Self {
        DieSet(vec![0; dies.div_ceil(64) as usize])
    }

    pub(in crate::ftl) fn set(&mut self, die: u32, is_in: bool) {
        let (word, bit) = (&mut self.0[(die / 64) as usize], 1 << (die % 64));
        if is_in { *word |= bit } else { *word &= !bit }
    }

    /// Whether a die is in the set.
    pub(in crate::ftl) fn contains(&self, die: u32) -> bool {
        self.0[(die / 64) as usize] >> (die % 64) & 1 == 1
    }

    /// Whether the set is empty.
    pub(in crate::ftl) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The first die from `from` on, wrapping round.
    pub(in crate::ftl) fn next(&self, from: u32) -> Option<u32> {
        self.search(from, |index| self.0[index], |_| true)
    }

    /// The first die that is also in the other set and accepted by `accepts`.
    pub(in crate::ftl) fn find(
        &self,
        other: &DieSet,
        from: u32,
        accepts: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        self.search(from, |index| self.0[index] & other.0[index], accepts)
    }

    fn search(&self, from: u32, word: impl Fn(usize) -> u64, accepts: impl Fn(u32) -> bool) -> Option<u32> {
        let words = self.0.len();
        let start = (from / 64) as usize;
        let ahead = u64::MAX << (from % 64);
        for step in 0..=words {
            let index = (start + step) % words;
            let mask = match step {
                0 => ahead,
                _ if step == words => !ahead,
                _ => u64::MAX,
            };
            let mut word = word(index) & mask;
            while word != 0 {
                let die = index as u32 * 64 + word.trailing_zeros();
                if accepts(die) {
                    return Some(die);
                }
                word &= word - 1;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A turn that skipped a die, or missed a ready one, would leave dies idle or writes waiting.
    #[test]
    fn dies_take_turns_behind_the_last_comes_the_first() {
        for dies in [1, 5, 64, 130] {
            let mut set = DieSet::new(dies);
            assert_eq!(set.next(0), None);
            (0..dies).for_each(|die| set.set(die, true));
            let mut next = 0;
            for turn in 0..2 * dies {
                let die = set.next(next).unwrap();
                assert_eq!(die, turn % dies);
                next = (die + 1) % dies;
            }
            (0..dies).for_each(|die| set.set(die, die == dies / 2));
            assert_eq!(set.next(dies - 1), Some(dies / 2));
            assert_eq!(set.next(0), Some(dies / 2));
        }
    }
}
