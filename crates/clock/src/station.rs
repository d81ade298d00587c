//! Stations: k servers that work for whoever comes first, by reservation: decided at the call, one timer, not cancellable.
//! Processor cores, DRAM.

use crate::executor::Clock;
use crate::time::{Delay, Time};
use crate::tracer::{Resource, Track, Usage};
use std::cell::{Cell, RefCell};

/// What a reservation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// How long it waited for a server.
    pub queued: Delay,
    /// When it is served.
    pub end: Time,
}

/// k servers, FIFO, by reservation.
pub struct Station {
    clock: Clock,
    free_at: RefCell<Vec<Time>>,
    reserved: Cell<Delay>,
    served: Cell<u64>,
    /// What its servers are in a trace: of which kind, and which the first one is.
    track: Option<Track>,
    /// What was reserved for work of each name, in the order in which names came; none: it is not kept apart.
    by_name: Option<RefCell<Vec<(&'static str, Delay)>>>,
}

impl Station {
    /// `servers` of them, at least one.
    pub fn new(clock: &Clock, servers: usize) -> Self {
        Station {
            clock: clock.clone(),
            free_at: RefCell::new(vec![Time::ZERO; servers.max(1)]),
            reserved: Cell::default(),
            served: Cell::default(),
            track: None,
            by_name: None,
        }
    }

    /// Keeps apart what is reserved for work of each name ([`Station::each_name`]).
    pub fn keeping_names(mut self) -> Self {
        self.by_name = Some(RefCell::default());
        self
    }

    /// What was reserved for work of each name up to now, in the order in which names came first: nothing, unless it
    /// [keeps them](Station::keeping_names). Where time is modelled as none, that is zero.
    pub fn each_name(&self, take: impl FnMut(&(&'static str, Delay))) {
        if let Some(names) = &self.by_name {
            names.borrow().iter().for_each(take);
        }
    }

    #[cold]
    fn note(names: &RefCell<Vec<(&'static str, Delay)>>, parts: &[(&'static str, Delay)]) {
        let mut names = names.borrow_mut();
        for (name, duration) in parts {
            // Most often it is the very same name, which needs no look at its letters.
            match names.iter_mut().find(|(known, _)| std::ptr::eq(*known, *name) || known == name) {
                Some((_, sum)) => *sum += *duration,
                None => names.push((name, *duration)),
            }
        }
    }

    /// In a trace its servers are of kind `resource`, numbered from `first` on. Without this it is in none.
    pub fn traced_as(mut self, resource: Resource, first: u32) -> Self {
        self.track = Some(Track::new(resource, first));
        self
    }

    /// Reserves the server that is free first, for `duration`.
    pub fn reserve(&self, duration: Delay) -> Service {
        self.reserve_for("work", duration)
    }

    /// The same for work of this name, as a trace shows it.
    pub fn reserve_for(&self, what: &'static str, duration: Delay) -> Service {
        self.reserve_parts(duration, || [(what, duration)])
    }

    /// The same for several pieces of work that follow one another: `parts`, which is asked only in a trace, names them
    /// and divides `duration`.
    #[inline]
    pub fn reserve_parts<const PARTS: usize>(
        &self,
        duration: Delay,
        parts: impl FnOnce() -> [(&'static str, Delay); PARTS],
    ) -> Service {
        let (index, service) = self.take(duration);
        if self.clock.is_traced() || self.by_name.is_some() {
            let parts = parts();
            if let Some(names) = self.by_name.as_ref().filter(|_| !self.clock.is_immediate()) {
                Self::note(names, &parts);
            }
            if self.clock.is_traced() {
                self.trace(index, service.end, &parts);
            }
        }
        service
    }

    /// Which server it is, and when it serves.
    fn take(&self, duration: Delay) -> (usize, Service) {
        let now = self.clock.now();
        self.served.set(self.served.get() + 1);
        if self.clock.is_immediate() {
            return (0, Service { queued: Delay::ZERO, end: now });
        }
        let mut free_at = self.free_at.borrow_mut();
        let servers = free_at.iter_mut().enumerate();
        let (index, server) = servers.min_by_key(|(_, at)| **at).expect("a station has a server");
        let start = (*server).max(now);
        let end = start + duration;
        *server = end;
        self.reserved.set(self.reserved.get() + duration);
        (index, Service { queued: start.since(now), end })
    }

    #[cold]
    fn trace(&self, index: usize, end: Time, parts: &[(&'static str, Delay)]) {
        let Some(Track { resource, index: first, .. }) = self.track else { return };
        let track = Track::new(resource, first + index as u32);
        let whole: Delay = parts.iter().map(|(_, duration)| *duration).sum();
        let mut begin = Time(end.0.saturating_sub(whole.0));
        for (what, duration) in parts.iter().filter(|(_, duration)| *duration > Delay::ZERO) {
            let end = begin + *duration;
            self.clock.note(&Usage { track, what, begin, end, details: &[] });
            begin = end;
        }
    }

    /// Reserves and waits until served.
    pub async fn serve(&self, duration: Delay) -> Service {
        let service = self.reserve(duration);
        self.clock.sleep_until(service.end).await;
        service
    }

    /// The same for work of this name, as a trace shows it.
    pub async fn serve_for(&self, what: &'static str, duration: Delay) -> Service {
        let service = self.reserve_for(what, duration);
        self.clock.sleep_until(service.end).await;
        service
    }

    /// When the first of its servers is free: what is reserved then waits for no other. In the past, if one is idle.
    pub fn next_free(&self) -> Time {
        self.free_at.borrow().iter().copied().min().unwrap_or(Time::ZERO)
    }

    /// How many servers.
    pub fn servers(&self) -> usize {
        self.free_at.borrow().len()
    }

    /// Work done up to now in all, over every server; what is reserved but not yet done is not in it.
    pub fn busy(&self) -> Delay {
        let now = self.clock.now();
        // A server that is free later than now works without a gap until then.
        let ahead: Delay = self.free_at.borrow().iter().map(|free_at| free_at.since(now)).sum();
        self.reserved.get().saturating_sub(ahead)
    }

    /// Requests in all.
    pub fn served(&self) -> u64 {
        self.served.get()
    }

    /// Share of the servers' time from `since` to now that was work: 0 to 1. `busy_then` is [`Station::busy`] at
    /// `since`.
    pub fn utilisation(&self, since: Time, busy_then: Delay) -> f64 {
        share(self.busy().saturating_sub(busy_then), self.clock.now().since(since), self.servers())
    }
}

fn share(busy: Delay, span: Delay, servers: usize) -> f64 {
    if span == Delay::ZERO { 0.0 } else { busy.0 as f64 / (span.0 as f64 * servers as f64) }
}
