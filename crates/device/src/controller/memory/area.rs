//! The area of the device memory for payloads of any command.

use crate::config::MemoryConfig;
use byteway_transfer::area::StoredBytes;
use std::cell::{RefCell, RefMut};

/// The area for payloads of any command.
#[derive(Debug, Default)]
pub struct Area {
    bytes: RefCell<StoredBytes>,
}

impl Area {
    /// Zeroes.
    pub fn new(config: Option<&MemoryConfig>) -> Self {
        Area { bytes: RefCell::new(StoredBytes::new(config.map_or(0, |config| config.area_bytes))) }
    }

    /// Zeroes the area: a tenant must not see what the previous one stored.
    pub fn clear(&self) {
        self.bytes.borrow_mut().clear();
    }

    /// The bytes. Accesses are checked against its size.
    pub fn bytes(&self) -> RefMut<'_, StoredBytes> {
        self.bytes.borrow_mut()
    }
}
