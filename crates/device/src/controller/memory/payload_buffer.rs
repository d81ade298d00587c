//! The payload buffer behind the registers in BAR0.

use byteway_transfer::mmio::BarBuffer;
use std::cell::{RefCell, RefMut};

/// The payload buffer, and where in BAR0 it lies.
pub struct PayloadBuffer {
    offset: u64,
    length: u32,
    bytes: RefCell<BarBuffer>,
}

impl PayloadBuffer {
    /// Zeroes: `length` of them at `offset` of BAR0.
    pub fn new(offset: u64, length: u32) -> Self {
        PayloadBuffer { offset, length, bytes: RefCell::new(BarBuffer::new(length)) }
    }

    /// Where in the buffer an offset of BAR0 is, if it is there.
    pub fn position(&self, offset: u64) -> Option<u64> {
        let at = offset.checked_sub(self.offset)?;
        (at < u64::from(self.length)).then_some(at)
    }

    /// The host has stored `bytes` at `offset` of BAR0. What is not in the buffer is ignored.
    pub fn store(&self, offset: u64, bytes: &[u8]) {
        if let Some(at) = self.position(offset) {
            self.bytes.borrow_mut().store(at, bytes);
        }
    }

    /// The `bytes` (4 or 8) at `offset` of BAR0, if that is in the buffer.
    pub fn load(&self, offset: u64, bytes: u32) -> Option<u64> {
        let at = self.position(offset)?;
        let mut word = [0; 8];
        self.bytes.borrow().load(at, &mut word[..bytes.min(8) as usize]);
        Some(u64::from_le_bytes(word))
    }

    /// Where in it, and how many bytes there are, checks the buffer.
    pub fn bytes(&self) -> RefMut<'_, BarBuffer> {
        self.bytes.borrow_mut()
    }

    /// Zeroes again.
    pub fn clear(&self) {
        self.bytes.borrow_mut().clear();
    }
}
