//! The owner of a device's page buffer, which decides the positions of values.

use byteway_clock::{Clock, Notify, Semaphore};
use byteway_transfer::cxl_mem::PageBuffer;
use byteway_wire::nvme::vendor::cxl::DeviceMemoryLog;
use std::cell::RefCell;

/// The only owner of a page buffer: all clients of its namespace ask it for positions, and report values that the
/// controller places. Stores that bypass it make the controller refuse values, which are then placed again.
pub struct PageOwner {
    pub(crate) log: DeviceMemoryLog,
    pub(crate) page: RefCell<PageBuffer>,
    /// Serves stores in order of arrival: otherwise one kind of stores could starve the other.
    pub(crate) line: Semaphore,
    pub(crate) changed: Notify,
}

impl PageOwner {
    pub(crate) fn new(clock: &Clock, log: &DeviceMemoryLog) -> Option<PageOwner> {
        Some(PageOwner {
            log: *log,
            page: RefCell::new(PageBuffer::new(log)?),
            line: Semaphore::new(clock, 1),
            changed: Notify::new(clock),
        })
    }

    /// Forgets all values, after a controller reset.
    pub(crate) fn forget(&self) {
        self.page.borrow_mut().forget();
    }

    /// The longest value that it places, in bytes.
    pub(crate) fn bytes_max(&self) -> u32 {
        self.log.page_bytes
    }
}
