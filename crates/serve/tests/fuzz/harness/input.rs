//! A fuzzer's bytes, taken apart into choices.
//!
//! Whatever is missing at the end is zero, and zero is the usual choice, so a short input is a tame one.

/// What is left of an input.
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of it.
    pub fn new(bytes: &'a [u8]) -> Self {
        Input { rest: bytes }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let taken = self.take(N);
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }

    /// Up to `count` bytes, as they are.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// The next 16 bits.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// The next 32 bits.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// The next 64 bits.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number below `count`, which takes as many bytes as it needs.
    pub fn below(&mut self, count: u64) -> u64 {
        match count {
            0..=0x100 => u64::from(self.byte()) % count.max(1),
            0x101..=0x1_0000 => u64::from(self.u16()) % count,
            _ => self.u64() % count,
        }
    }

    /// True for the largest of `count` choices: not where nothing is left.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == count - 1
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
