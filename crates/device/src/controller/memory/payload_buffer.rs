//! The payload buffer after the registers in BAR0.

use byteway_transfer::area::StoredBytes;
use std::cell::{RefCell, RefMut};

/// The payload buffer, and its offset in BAR0.
pub struct PayloadBuffer {
    offset: u64,
    length: u32,
    bytes: RefCell<StoredBytes>,
}

impl PayloadBuffer {
    /// A buffer of `length` zeroes at `offset` in BAR0.
    pub fn new(offset: u64, length: u32) -> Self {
        PayloadBuffer { offset, length, bytes: RefCell::new(StoredBytes::new(length)) }
    }

    /// Offset in the buffer of an offset in BAR0; `None` if it lies outside.
    pub fn position(&self, offset: u64) -> Option<u64> {
        let at = offset.checked_sub(self.offset)?;
        (at < u64::from(self.length)).then_some(at)
    }

    /// Stores `bytes` at `offset` in BAR0. Bytes outside the buffer are ignored.
    pub fn store(&self, offset: u64, bytes: &[u8]) {
        if let Some(at) = self.position(offset) {
            self.bytes.borrow_mut().store(at, bytes);
        }
    }

    /// Loads `bytes` (4 or 8) bytes at `offset` in BAR0, if they lie in the buffer.
    pub fn load(&self, offset: u64, bytes: u32) -> Option<u64> {
        let at = self.position(offset)?;
        let mut word = [0; 8];
        self.bytes.borrow().load(at, &mut word[..bytes.min(8) as usize]);
        Some(u64::from_le_bytes(word))
    }

    /// The bytes. Accesses are checked against its size.
    pub fn bytes(&self) -> RefMut<'_, StoredBytes> {
        self.bytes.borrow_mut()
    }

    /// Zeroes the buffer.
    pub fn clear(&self) {
        self.bytes.borrow_mut().clear();
    }
}
