//! Asynchronous events of one controller (NVMe Base 2.1, 5.1.2): pending events that wait for an Asynchronous
//! Event Request, and reported events that the host has not yet cleared.

use byteway_wire::nvme::feature::{AsyncEvent, AsyncEventConfig};
use std::cell::{Cell, RefCell};

/// Pending and reported events of a controller, each at most once.
#[derive(Default)]
pub(crate) struct Events {
    /// Which events the host has enabled (Asynchronous Event Configuration).
    configuration: Cell<AsyncEventConfig>,
    pending: RefCell<Vec<AsyncEvent>>,
    /// Reported events; until the host reads their log pages, further events of their types are masked.
    reported: RefCell<Vec<AsyncEvent>>,
}

impl Events {
    pub fn configuration(&self) -> AsyncEventConfig {
        self.configuration.get()
    }

    /// Sets the enabled events, and drops pending events that are no longer enabled.
    pub fn configure(&self, configuration: AsyncEventConfig) {
        self.configuration.set(configuration);
        self.pending.borrow_mut().retain(|event| is_wanted(configuration, event));
    }

    /// Adds an event. Returns false if the host has not enabled it.
    pub fn raise(&self, event: AsyncEvent) -> bool {
        let is_wanted = is_wanted(self.configuration.get(), &event);
        let mut pending = self.pending.borrow_mut();
        if is_wanted && !pending.contains(&event) {
            pending.push(event);
        }
        is_wanted
    }

    /// The next event for an Asynchronous Event Request.
    pub fn take(&self) -> Option<AsyncEvent> {
        let (mut pending, mut reported) = (self.pending.borrow_mut(), self.reported.borrow_mut());
        let is_masked =
            |event: &AsyncEvent| reported.iter().any(|other| other.event_type == event.event_type);
        let at = pending.iter().position(|event| !is_masked(event))?;
        let event = pending.remove(at);
        reported.push(event);
        Some(event)
    }

    /// Clears reported events of a log page that the host has read without Retain Asynchronous Event.
    pub fn clear(&self, lid: u8) {
        self.reported.borrow_mut().retain(|event| event.lid != lid);
    }

    /// A controller reset: disables, drops and unmasks all events.
    pub fn reset(&self) {
        self.configure(AsyncEventConfig::new());
        self.reported.borrow_mut().clear();
    }
}

/// Whether this configuration enables the event. Events not listed are never raised.
fn is_wanted(configuration: AsyncEventConfig, event: &AsyncEvent) -> bool {
    match *event {
        AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED => configuration.namespace_attribute(),
        AsyncEvent::ANA_CHANGE => configuration.ana_change(),
        AsyncEvent::DISCOVERY_LOG_CHANGE => configuration.discovery_log_change(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Without masking, a slow host would be notified again and again; without clearing, only once.
    #[test]
    fn a_type_is_masked_until_its_page_is_read() {
        let (changed, ana) = (AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED, AsyncEvent::ANA_CHANGE);
        let events = Events::default();
        assert!(!events.raise(changed), "nothing is wanted before it is configured");
        events.configure(AsyncEventConfig::new().with_namespace_attribute(true).with_ana_change(true));
        assert!(events.raise(changed) && events.raise(changed) && events.raise(ana));
        assert_eq!((events.take(), events.take()), (Some(changed), None));
        assert!(events.raise(changed));
        events.clear(ana.lid);
        assert_eq!(events.take(), None);
        events.clear(changed.lid);
        assert_eq!((events.take(), events.take()), (Some(ana), None));
        events.clear(ana.lid);
        assert_eq!((events.take(), events.take()), (Some(changed), None));
        events.reset();
        assert!(!events.raise(changed));
    }
}
