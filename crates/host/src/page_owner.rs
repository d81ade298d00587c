//! Who decides where values go in a page buffer of the device.

use byteway_clock::{Clock, Notify, Semaphore};
use byteway_transfer::cxl_mem::PageBuffer;
use byteway_wire::nvme::vendor::cxl::DeviceMemoryLog;
use std::cell::RefCell;

/// The one owner of a page buffer: all clients of its namespace ask it where values go, and tell it of those that the
/// controller places. Whoever stores without it makes values be refused, which are then placed anew.
pub struct PageOwner {
    pub(crate) log: DeviceMemoryLog,
    pub(crate) page: RefCell<PageBuffer>,
    /// Who comes first is served first: else one kind of stores would keep the other out for ever.
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

    /// The controller was reset.
    pub(crate) fn forget(&self) {
        self.page.borrow_mut().forget();
    }

    /// The longest value that it places, bytes.
    pub(crate) fn bytes_max(&self) -> u32 {
        self.log.page_bytes
    }
}
