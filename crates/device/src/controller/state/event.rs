//! Asynchronous events (NVMe Base 2.1, 5.1.2): what happened, held until a request and the host's attention are there.

use crate::controller::queue::ring::SubmissionQueue;
use byteway_clock::{Clock, Notify};
use byteway_wire::nvme::{AsyncEvent, AsyncEventType, lid};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// A request that waits for an event.
pub struct ParkedRequest {
    /// Where it came from.
    pub queue: Rc<SubmissionQueue>,
    /// Its identifier.
    pub cid: u16,
    /// The host has aborted it.
    pub is_aborted: bool,
}

/// What a request is answered with.
pub enum Answer {
    /// That it was aborted.
    Aborted,
    /// What happened.
    Event(AsyncEvent),
}

/// Events that have not been reported and requests that have not been answered.
pub struct Events {
    pending: RefCell<VecDeque<AsyncEvent>>,
    requests: RefCell<VecDeque<ParkedRequest>>,
    /// Types (by number) that were reported and are masked until their log page is read.
    masked: Cell<u8>,
    /// A request may have become answerable.
    changed: Notify,
}

/// Events held at most; the oldest stay, as they are what the host will be told first.
const PENDING_MAX: usize = 32;

impl Events {
    /// None.
    pub fn new(clock: &Clock) -> Self {
        Events {
            pending: RefCell::default(),
            requests: RefCell::default(),
            masked: Cell::default(),
            changed: Notify::new(clock),
        }
    }

    /// Reports an event. One that waits already is not recorded twice.
    pub fn raise(&self, event: AsyncEvent) {
        let mut pending = self.pending.borrow_mut();
        if pending.len() < PENDING_MAX && !pending.contains(&event) {
            pending.push_back(event);
        }
        self.changed.notify_one();
    }

    /// A request may have become answerable: its completion queue has a free entry, or its event is masked no longer.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// Waits until a request may have become answerable.
    pub async fn answerable(&self) {
        self.changed.notified().await;
    }

    /// Takes back an event that was not reported.
    pub fn withdraw(&self, event: AsyncEvent) {
        self.pending.borrow_mut().retain(|pending| *pending != event);
    }

    /// Holds a request.
    pub fn park(&self, request: ParkedRequest) {
        self.requests.borrow_mut().push_back(request);
    }

    /// Requests held.
    pub fn parked(&self) -> usize {
        self.requests.borrow().len()
    }

    /// Aborts the request `cid` of the admin queue, if it is held: it is answered when there is room.
    pub fn abort(&self, cid: u16) -> bool {
        let mut requests = self.requests.borrow_mut();
        let request = requests.iter_mut().find(|request| request.cid == cid && !request.is_aborted);
        request.map(|request| request.is_aborted = true).is_some()
    }

    /// The next request that can be answered, if the completion queue has room.
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

    /// Log page `lid` was read: events of the types that point to it may be reported again.
    pub fn log_read(&self, lid: u8) {
        let clear = match lid {
            // Byteway's own events (type 7) point to the error log too.
            lid::ERROR_INFORMATION => 0b1000_0001,
            lid::COLLECTION => 1 << AsyncEventType::VENDOR.0,
            lid::SMART => 1 << AsyncEventType::SMART.0,
            lid::CHANGED_NAMESPACE_LIST => 1 << AsyncEventType::NOTICE.0,
            lid::SANITIZE_STATUS => 1 << AsyncEventType::COMMAND_SET.0,
            _ => 0,
        };
        self.masked.set(self.masked.get() & !clear);
    }

    /// Forgets everything, as a reset does.
    pub fn clear(&self) {
        self.pending.borrow_mut().clear();
        self.requests.borrow_mut().clear();
        self.masked.set(0);
    }
}

fn bit(event: &AsyncEvent) -> u8 {
    1 << (event.event_type.0 & 7)
}

/// Asynchronous Event Requests held at once.
pub const EVENT_REQUESTS_MAX: usize = 4;
