//! The area of the device's memory for payloads of any command.

use crate::config::MemoryConfig;
use byteway_transfer::mmio::BarBuffer;
use std::cell::{RefCell, RefMut};

/// The area for payloads of any command.
#[derive(Debug, Default)]
pub struct Area {
    bytes: RefCell<BarBuffer>,
}

impl Area {
    /// Zeroes.
    pub fn new(config: Option<&MemoryConfig>) -> Self {
        Area { bytes: RefCell::new(BarBuffer::new(config.map_or(0, |config| config.area_bytes))) }
    }

    /// Zeroes again: what a tenant stored is not for the next.
    pub fn clear(&self) {
        self.bytes.borrow_mut().clear();
    }

    /// The bytes, which check what is asked of them.
    pub fn bytes(&self) -> RefMut<'_, BarBuffer> {
        self.bytes.borrow_mut()
    }
}
