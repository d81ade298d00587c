//! A fuzzer's bytes, decoded into choices.
//!
//! Missing bytes at the end are zero, and zero is the usual choice, so a short input is a tame one.

/// The rest of an input.
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// The complete input.
    pub fn new(bytes: &'a [u8]) -> Self {
        Input { rest: bytes }
    }

    /// Whether it is exhausted.
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

    /// Up to `count` bytes, verbatim.
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

    /// A number below `count`, from as many bytes as needed.
    pub fn below(&mut self, count: u64) -> u64 {
        match count {
            0..=0x100 => u64::from(self.byte()) % count.max(1),
            0x101..=0x1_0000 => u64::from(self.u16()) % count,
            _ => self.u64() % count,
        }
    }

    /// True for the largest of `count` choices; false if the input is exhausted.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == count - 1
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
