//! Asynchronous events: requests that stay outstanding until an event occurs.

use crate::driver::controller::Driver;
use crate::driver::queue::Request;
use crate::error::Lost;
use byteway_clock::Channel;
use byteway_wire::nvme::{AsyncEvent, AsyncEventRequest};

/// Maximum number of events kept for a reader; further ones are dropped.
const KEPT_MAX: usize = 1024;

impl Driver {
    /// Keeps `requests` Asynchronous Event Requests outstanding and delivers the events. After a reset they are
    /// submitted again. A request that the controller refuses is not repeated.
    ///
    /// Until the event's log page is read ([`Driver::log_page`]), the controller reports no other event of its type.
    pub fn events(&self, requests: usize) -> Channel<AsyncEvent> {
        let events = Channel::bounded(self.clock(), KEPT_MAX);
        for _ in 0..requests {
            let (driver, events) = (self.clone(), events.clone());
            self.clock().spawn("asynchronous event request", async move { driver.listen(events).await });
        }
        events
    }

    async fn listen(self, events: Channel<AsyncEvent>) {
        loop {
            let request = Request { patient: true, ..Request::from(AsyncEventRequest.sqe(0)) };
            match self.admin_queue().execute(request).await {
                Ok(cqe) if cqe.status().is_success() => {
                    let _ = events.try_send(AsyncEvent::from_dw0(cqe.dw0)); // the reader is too slow: drop the event
                }
                Err(Lost::Reset) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}
