//! Address space of a program: byte ranges at addresses that are the same in every run.
//!
//! | address | range |
//! |---|---|
//! | [`PARAMETERS`] | the host's parameters, read-only |
//! | [`range_address`] of 0, 1, … | the ranges passed to the program, at multiples of 4 GiB |
//! | below [`STACK_END`] | 512 bytes of stack, owned by the interpreter |
//!
//! All other addresses are unmapped, so that an address that is off by less than 4 GiB never reaches another range.

/// Start address of the parameters.
pub const PARAMETERS: u64 = 1 << 32;
/// End address of the stack, the value of R10.
pub const STACK_END: u64 = 1 << 62;
/// Size of the stack in bytes.
pub const STACK_BYTES: usize = 512;

/// Start address of the range with this index, which must be below 2^28.
pub const fn range_address(index: u32) -> u64 {
    (index as u64 + 2) << 32
}

/// Index of the range at an address, and the offset in it, which may be beyond its end. `None` if no range can be there.
pub const fn range_of(address: u64) -> Option<(u32, u32)> {
    match address >> 32 {
        high @ 2..=0x1000_0001 => Some(((high - 2) as u32, address as u32)),
        _ => None,
    }
}

/// Why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Part of it is outside all ranges.
    OutOfRange,
    /// Write to a read-only range.
    ReadOnly,
}

/// A program's memory, without its stack. An implementation must check that every access lies in a single range, and that the range of a
/// store is writable. A refused access has no effect.
pub trait Memory {
    /// Loads `into.len()` bytes, 1 to 8.
    ///
    /// # Errors
    /// [`Denied::OutOfRange`] if they are not in a single range.
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), Denied>;

    /// Stores 1 to 8 bytes.
    ///
    /// # Errors
    /// [`Denied::OutOfRange`] if they are not in a single range, [`Denied::ReadOnly`] if it is read-only.
    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), Denied>;

    /// Length of the range with this index in bytes; `None` if there is no such range.
    fn range_bytes(&self, index: u32) -> Option<u64>;
}

/// A byte range.
#[derive(Debug)]
pub enum Range<'a> {
    /// Read-only.
    Read(&'a [u8]),
    /// Writable.
    Write(&'a mut [u8]),
}

impl Range<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Range::Read(bytes) => bytes,
            Range::Write(bytes) => bytes,
        }
    }
}

/// Memory of plain slices. Only the first 4 GiB of a range are reachable.
///
/// Ranges whose number is known can be in an array, which is not allocated.
#[derive(Debug)]
pub struct Ranges<'a, R = Vec<Range<'a>>> {
    /// Mapped at [`PARAMETERS`].
    pub parameters: &'a [u8],
    /// Mapped at [`range_address`] of their index.
    pub ranges: R,
}

/// Nothing.
impl Default for Ranges<'_> {
    fn default() -> Self {
        Ranges { parameters: &[], ranges: Vec::new() }
    }
}

/// The `count` bytes from `offset` on.
fn part(bytes: &[u8], offset: u32, count: usize) -> Result<&[u8], Denied> {
    let from = offset as usize;
    bytes.get(from..from.saturating_add(count)).ok_or(Denied::OutOfRange)
}

impl<'a, R: AsRef<[Range<'a>]> + AsMut<[Range<'a>]>> Memory for Ranges<'a, R> {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), Denied> {
        let from = match range_of(address) {
            Some((index, offset)) => {
                let range = self.ranges.as_ref().get(index as usize).ok_or(Denied::OutOfRange)?;
                part(range.bytes(), offset, into.len())?
            }
            None if address >> 32 == PARAMETERS >> 32 => part(self.parameters, address as u32, into.len())?,
            None => return Err(Denied::OutOfRange),
        };
        into.copy_from_slice(from);
        Ok(())
    }

    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), Denied> {
        let Some((index, offset)) = range_of(address) else {
            let is_parameter = address >> 32 == PARAMETERS >> 32;
            let there = if is_parameter { self.parameters } else { &[] };
            return part(there, address as u32, bytes.len()).and(Err(Denied::ReadOnly));
        };
        match self.ranges.as_mut().get_mut(index as usize).ok_or(Denied::OutOfRange)? {
            Range::Read(there) => part(there, offset, bytes.len()).and(Err(Denied::ReadOnly)),
            Range::Write(there) => {
                let from = offset as usize;
                let into = there.get_mut(from..from.saturating_add(bytes.len())).ok_or(Denied::OutOfRange)?;
                into.copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn range_bytes(&self, index: u32) -> Option<u64> {
        Some(self.ranges.as_ref().get(index as usize)?.bytes().len() as u64)
    }
}
