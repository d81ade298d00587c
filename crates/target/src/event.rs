//! Asynchronous events of one controller (NVMe Base 2.1, 5.1.2): what has happened and waits for an Asynchronous Event Request,
//! and what the host was told of and has not looked at yet.

use byteway_wire::nvme::feature::{AsyncEvent, AsyncEventConfig};
use std::cell::{Cell, RefCell};

/// Events of a controller: each kind at most once.
#[derive(Default)]
pub(crate) struct Events {
    /// Which the host wants to be told of (Asynchronous Event Configuration).
    configuration: Cell<AsyncEventConfig>,
    pending: RefCell<Vec<AsyncEvent>>,
    /// Reported; until the host has read their log pages, further events of their types are masked.
    reported: RefCell<Vec<AsyncEvent>>,
}

impl Events {
    pub fn configuration(&self) -> AsyncEventConfig {
        self.configuration.get()
    }

    /// Sets what the host wants to be told of. What is pending and not wanted any more is dropped.
    pub fn configure(&self, configuration: AsyncEventConfig) {
        self.configuration.set(configuration);
        self.pending.borrow_mut().retain(|event| is_wanted(configuration, event));
    }

    /// An event has happened. False: the host doesn't want to be told.
    pub fn raise(&self, event: AsyncEvent) -> bool {
        let is_wanted = is_wanted(self.configuration.get(), &event);
        let mut pending = self.pending.borrow_mut();
        if is_wanted && !pending.contains(&event) {
            pending.push(event);
        }
        is_wanted
    }

    /// The next event that an Asynchronous Event Request is to complete with.
    pub fn take(&self) -> Option<AsyncEvent> {
        let (mut pending, mut reported) = (self.pending.borrow_mut(), self.reported.borrow_mut());
        let is_masked =
            |event: &AsyncEvent| reported.iter().any(|other| other.event_type == event.event_type);
        let at = pending.iter().position(|event| !is_masked(event))?;
        let event = pending.remove(at);
        reported.push(event);
        Some(event)
    }

    /// The host has read a log page without Retain Asynchronous Event, which clears what was reported of it.
    pub fn clear(&self, lid: u8) {
        self.reported.borrow_mut().retain(|event| event.lid != lid);
    }

    /// A controller reset: nothing is wanted, pending or masked.
    pub fn reset(&self) {
        self.configure(AsyncEventConfig::new());
        self.reported.borrow_mut().clear();
    }
}

/// Whether a host that has set this wants to be told of that event. Those that are not listed are never raised.
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

    // Without masking a host that is slow to look would be told again and again; without clearing, once only.
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
