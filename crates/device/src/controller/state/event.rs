//! Asynchronous events (NVMe Base 2.1, 5.1.2): held until a request is outstanding and the event is not masked.

use crate::controller::queue::ring::SubmissionQueue;
use byteway_clock::{Clock, Notify};
use byteway_wire::nvme::{AsyncEvent, AsyncEventType, lid};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// An Asynchronous Event Request that waits for an event.
pub struct ParkedRequest {
    /// Submission queue of the request.
    pub queue: Rc<SubmissionQueue>,
    /// Command identifier.
    pub cid: u16,
    /// The host has aborted it.
    pub is_aborted: bool,
}

/// The answer to a request.
pub enum Answer {
    /// The request was aborted.
    Aborted,
    /// An event to report.
    Event(AsyncEvent),
}

/// Unreported events and outstanding requests.
pub struct Events {
    pending: RefCell<VecDeque<AsyncEvent>>,
    requests: RefCell<VecDeque<ParkedRequest>>,
    /// Bit mask of event types that were reported, and are masked until their log page is read.
    masked: Cell<u8>,
    /// A request may have become answerable.
    changed: Notify,
}

/// Maximum number of held events. The oldest are kept, because they are reported first.
const PENDING_MAX: usize = 32;

impl Events {
    /// No events and no requests.
    pub fn new(clock: &Clock) -> Self {
        Events {
            pending: RefCell::default(),
            requests: RefCell::default(),
            masked: Cell::default(),
            changed: Notify::new(clock),
        }
    }

    /// Adds an event, unless the same one is held already.
    pub fn raise(&self, event: AsyncEvent) {
        let mut pending = self.pending.borrow_mut();
        if pending.len() < PENDING_MAX && !pending.contains(&event) {
            pending.push_back(event);
        }
        self.changed.notify_one();
    }

    /// Notes that a request may have become answerable: its completion queue has a free slot, or an event is no longer
    /// masked.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// Waits until a request may have become answerable.
    pub async fn answerable(&self) {
        self.changed.notified().await;
    }

    /// Removes an event that was not reported.
    pub fn withdraw(&self, event: AsyncEvent) {
        self.pending.borrow_mut().retain(|pending| *pending != event);
    }

    /// Holds a request.
    pub fn park(&self, request: ParkedRequest) {
        self.requests.borrow_mut().push_back(request);
    }

    /// Number of held requests.
    pub fn parked(&self) -> usize {
        self.requests.borrow().len()
    }

    /// Aborts the request `cid` of the admin queue, if it is held: it completes when a completion slot is free.
    pub fn abort(&self, cid: u16) -> bool {
        let mut requests = self.requests.borrow_mut();
        let request = requests.iter_mut().find(|request| request.cid == cid && !request.is_aborted);
        request.map(|request| request.is_aborted = true).is_some()
    }

    /// The next request that can complete, and its answer. `None` if there is none, or no completion slot is free.
    pub fn next(&self) -> Option<(ParkedRequest, Answer)> {
        let mut requests = self.requests.borrow_mut();
        if requests.front()?.queue.completion_queue.free() == 0 {
            return None;
        }
        if let Some(index) = requests.iter().position(|request| request.is_aborted) {
            return Some((requests.remove(index)?, Answer::Aborted));
        }
        let mut pending = self.pending.borrow_mut();
        let index = pending.iter().position(|event| self.masked.get() & bit(event) == 0)?;
        let event = pending.remove(index)?;
        self.masked.set(self.masked.get() | bit(&event));
        Some((requests.pop_front()?, Answer::Event(event)))
    }

    /// Unmasks the event types that log page `lid` belongs to, which the host has read.
    pub fn log_read(&self, lid: u8) {
        let clear = match lid {
            // Byteway's own events (type 7) refer to the error log, too.
            lid::ERROR_INFORMATION => 0b1000_0001,
            lid::COLLECTION => 1 << AsyncEventType::VENDOR.0,
            lid::SMART => 1 << AsyncEventType::SMART.0,
            lid::CHANGED_NAMESPACE_LIST => 1 << AsyncEventType::NOTICE.0,
            lid::SANITIZE_STATUS => 1 << AsyncEventType::COMMAND_SET.0,
            _ => 0,
        };
        self.masked.set(self.masked.get() & !clear);
    }

    /// Drops everything, as a reset does.
    pub fn clear(&self) {
        self.pending.borrow_mut().clear();
        self.requests.borrow_mut().clear();
        self.masked.set(0);
    }
}

fn bit(event: &AsyncEvent) -> u8 {
    1 << (event.event_type.0 & 7)
}

/// Maximum number of outstanding Asynchronous Event Requests (AERL + 1).
pub const EVENT_REQUESTS_MAX: usize = 4;
